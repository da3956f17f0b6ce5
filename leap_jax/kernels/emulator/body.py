"""The statements of a PTX function: declarations, labels and instructions, in nested scopes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.cursor import Cursor
from leap_jax.kernels.emulator.declarations import SPACES, variable_type, variables
from leap_jax.kernels.emulator.source_lines import DIRECTIVES, SourceLines
from leap_jax.kernels.emulator.tokens import as_f32

_MAX_REGISTERS = 1 << 18  # of one declaration: what a range may make the parser allocate


@dataclass
class _Scope:
    """What names mean inside one `{ }`."""

    suffix: str = ""
    operands: dict[str, ir.Register | ir.Symbol] = field(default_factory=dict)
    labels: dict[str, ir.Symbol] = field(default_factory=dict)  # of jump tables too
    tables: list[str] = field(default_factory=list)


class Body:
    """A function under construction: `read` fills it. A name declared in a nested `{ }` becomes `name$n`."""

    def __init__(self, cursor: Cursor, lines: SourceLines, parameters: Iterable[ir.Variable]):
        self.registers: dict[str, int] = {}
        self.variables: list[ir.Variable] = []
        self.instructions: list[ir.Instruction] = []
        self.labels: dict[str, int] = {}
        self.branch_targets: dict[str, tuple[str, ...]] = {}
        self._cursor = cursor
        self._lines = lines
        self._scopes = [_Scope(operands={p.name: ir.Symbol(p.name) for p in parameters})]
        self._scope_count = 0

    def read(self) -> None:
        """Statements up to the matching brace."""
        self._cursor.take("{")
        while not self._cursor.accept("}"):
            self._statement()

    def _statement(self) -> None:
        token = self._cursor.here
        if token.text == "{":
            self._nested_scope()
        elif token.text == ";":
            self._cursor.take()
        elif token.text == ".reg":
            self._register_declaration()
        elif token.text in SPACES:
            for variable in variables(self._cursor):
                renamed = variable.name + self._scopes[-1].suffix
                self._scopes[-1].operands[variable.name] = ir.Symbol(renamed)
                self.variables.append(replace(variable, name=renamed))
        elif token.text in DIRECTIVES:
            self._lines.directive(self._cursor)
        elif token.kind == "name" and self._cursor.following.text == ":":
            self._label()
        elif token.kind == "name" or token.text == "@":
            self._instruction()
        else:
            raise self._cursor.error(f"unexpected {token.text or 'end of text'!r}")

    def _nested_scope(self) -> None:
        self._scope_count += 1
        scope = _Scope(suffix=f"${self._scope_count}")
        first = len(self.instructions)
        self._scopes.append(scope)
        self.read()
        self._scopes.pop()
        if scope.labels:  # a branch may come before its label, so it is renamed last
            for table in scope.tables:
                targets = self.branch_targets[table]
                self.branch_targets[table] = tuple(
                    scope.labels[name].name if name in scope.labels else name for name in targets
                )
            self._scopes[-1].tables += scope.tables
            for index, instruction in enumerate(self.instructions[first:], first):
                operands = tuple(
                    scope.labels.get(operand.name, operand) if isinstance(operand, ir.Symbol) else operand
                    for operand in instruction.operands
                )
                self.instructions[index] = replace(instruction, operands=operands)

    def _register_declaration(self) -> None:
        """`.reg .b32 a, b, %r<9>;`"""
        self._cursor.take()
        _, width, lanes = variable_type(self._cursor)
        if lanes != 1:
            raise self._cursor.error("vector registers are not supported")
        scope = self._scopes[-1]
        while True:
            name = self._cursor.take(kind="name")
            names = [name]
            if self._cursor.accept("<"):
                count = self._cursor.integer()
                if count > _MAX_REGISTERS:
                    raise self._cursor.error(f"{count} registers")
                names = [f"{name}{number}" for number in range(count)]
                self._cursor.take(">")
            for name in names:
                register = ir.Register(name + scope.suffix)
                scope.operands[name] = register
                self.registers[register.name] = width
            if not self._cursor.accept(","):
                break
        self._cursor.take(";")

    def _label(self) -> None:
        """`name:`, which may introduce a `.branchtargets` list or a `.callprototype`."""
        name = self._cursor.take()
        self._cursor.take(":")
        if self._cursor.accept(".branchtargets"):
            targets = [self._cursor.take(kind="name")]
            while self._cursor.accept(","):
                targets.append(self._cursor.take(kind="name"))
            self._cursor.take(";")
            scope = self._scopes[-1]
            renamed = name + scope.suffix
            scope.labels[name] = ir.Symbol(renamed)
            scope.tables.append(renamed)
            self.branch_targets[renamed] = tuple(targets)
        elif self._cursor.here.text in (".callprototype", ".calltargets"):
            while self._cursor.take() != ";":
                pass
        else:
            scope = self._scopes[-1]
            renamed = name + scope.suffix
            if renamed in self.labels:
                raise self._cursor.error(f"label {name!r} is defined twice")
            scope.labels[name] = ir.Symbol(renamed)
            self.labels[renamed] = len(self.instructions)

    def _instruction(self) -> None:
        start = self._cursor.here.position
        guard, guard_negated = None, False
        if self._cursor.accept("@"):
            guard_negated = self._cursor.accept("!")
            guard = self._predicate().name
        opcode = self._cursor.take(kind="name")
        modifiers = []
        while self._cursor.here.kind == "dotted":
            modifiers.append(self._cursor.take()[1:])
        operands: list[ir.Operand | None] = []
        while self._cursor.here.text != ";":
            operands.append(self._operand())
            if not self._cursor.accept(","):
                break
        text = " ".join(self._cursor.text[start : self._cursor.here.position].split()) + ";"
        self._cursor.take(";")
        if opcode == "call":
            if not any(operands) or (len(operands) == 1 and isinstance(operands[0], ir.Vector)):
                raise self._cursor.error("a call without a function")
            operands = _call_operands(operands)
        elif "f32" in modifiers and "f64" not in modifiers:
            operands = [as_f32(x) if isinstance(x, ir.Immediate) else x for x in operands]
        self.instructions.append(
            ir.Instruction(opcode, tuple(modifiers), tuple(operands), guard, guard_negated, self._lines.current, text)
        )

    def _operand(self) -> ir.Operand | None:
        """One operand; `_` is None, `a|b`, `{...}` and `(...)` are vectors."""
        if self._cursor.accept("{"):
            return self._vector("}")
        if self._cursor.accept("("):
            return self._vector(")")
        if self._cursor.accept("["):
            return self._address()
        if self._cursor.accept("!"):
            return self._negated()
        if self._cursor.here.kind != "name":
            return self._cursor.immediate()
        first = self._named()
        return ir.Vector((first, self._named())) if self._cursor.accept("|") else first

    def _vector(self, closing: str) -> ir.Vector:
        elements: list[ir.Operand | None] = []
        while not self._cursor.accept(closing):
            elements.append(self._operand())
            if self._cursor.here.text != closing:
                self._cursor.take(",")
        return ir.Vector(tuple(elements))

    def _address(self) -> ir.Address | ir.Vector:
        """`base+offset]`; with coordinates, as textures and tensors have, a vector."""
        base: ir.Register | ir.Symbol | None = None
        offset = 0
        if self._cursor.here.kind == "name":
            named = self._named()
            if not isinstance(named, ir.Register | ir.Symbol):
                raise self._cursor.error("an address starts with a register, a variable or a number")
            base = named
        else:
            offset = self._cursor.integer()
        while self._cursor.here.text in ("+", "-"):
            self._cursor.accept("+")
            offset += self._cursor.integer()
        if isinstance(base, ir.Symbol):
            base, offset = ir.Symbol(base.name), base.offset + offset
        address = ir.Address(base, offset)
        if self._cursor.accept(","):
            return ir.Vector((address, *self._vector("]").elements))
        self._cursor.take("]")
        return address

    def _negated(self) -> ir.Register:
        """`!p` as a source operand: a register of its own, written by a `not.pred` before the instruction."""
        source = self._predicate()
        inverse = ir.Register(f"{source.name}$not")
        self.registers[inverse.name] = 1
        self.instructions.append(
            ir.Instruction("not", ("pred",), (inverse, source), None, False, self._lines.current, f"!{source.name}")
        )
        return inverse

    def _predicate(self) -> ir.Register:
        found = self._register()
        if self.registers[found.name] != 1:
            raise self._cursor.error(f"{found.name!r} is not a predicate")
        return found

    def _register(self) -> ir.Register:
        name = self._cursor.here.text
        found = self._named()
        if not isinstance(found, ir.Register):
            raise self._cursor.error(f"{name!r} is not a register")
        return found

    def _named(self) -> ir.Register | ir.Symbol | ir.Special | ir.Immediate | None:
        """A register, a special register, or the address of a variable, function or label."""
        name = self._cursor.take(kind="name")
        if name == "_":
            return None
        if name == "WARP_SZ":
            return ir.Immediate(32, "int")
        found = next((scope.operands[name] for scope in reversed(self._scopes) if name in scope.operands), None)
        if isinstance(found, ir.Register):
            return found
        if found is None and name.startswith("%"):
            component = self._cursor.take() if self._cursor.here.text in (".x", ".y", ".z", ".w") else ""
            return ir.Special(name[1:] + component)
        symbol = found or ir.Symbol(name)
        if self._cursor.here.text == "+" and self._cursor.following.kind in ("integer", "mark"):
            self._cursor.take()
            return ir.Symbol(symbol.name, self._cursor.integer())
        return symbol


def _call_operands(operands: list[ir.Operand | None]) -> list[ir.Operand | None]:
    """`(returns), function, (arguments), prototype`, of which only the function is required."""
    returns = operands[0] if isinstance(operands[0], ir.Vector) else None
    function, *rest = operands[1:] if returns else operands
    arguments = rest[0] if rest and isinstance(rest[0], ir.Vector) else None
    return [returns or ir.Vector(()), function, arguments or ir.Vector(())]
