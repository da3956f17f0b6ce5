"""PTX text -> `ir.Module`: what NVRTC emits for sm_75 to sm_100, inline assembly included.

The grammar is that of the PTX ISA. Inline assembly puts several statements on a line and opens scopes
anywhere, so the text is tokenised and read by recursive descent, never line by line. A name declared in a
nested `{ }` becomes `name$n`, unique in its function.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.tokens import PtxError, Token, as_f32, error_at, integer, literal, tokenize

__all__ = ["PtxError", "parse"]

_WIDTHS = {"pred": 1, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "f64": 64, "b128": 128}
_WIDTHS |= {f"{kind}{width}": width for kind in "bus" for width in (8, 16, 32, 64)}
_LINKAGE = (".visible", ".weak", ".extern", ".common")
_SPACES = (".global", ".const", ".shared", ".local", ".param")
_MAX_REGISTERS = 1 << 18  # of one declaration: what a range may make the parser allocate
_HEADER_SUFFIXES = (".h", ".hpp", ".cuh", ".inl")

Location = tuple[int, int, int]  # file, line, column


@dataclass
class _Scope:
    """What names mean inside one `{ }`."""

    suffix: str = ""
    operands: dict[str, ir.Register | ir.Symbol] = field(default_factory=dict)
    labels: dict[str, ir.Symbol] = field(default_factory=dict)


@dataclass
class _Body:
    """A function under construction."""

    registers: dict[str, int] = field(default_factory=dict)
    variables: list[ir.Variable] = field(default_factory=list)
    instructions: list[ir.Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    scopes: list[_Scope] = field(default_factory=list)
    scope_count: int = 0


def parse(text: str) -> ir.Module:
    """The module in `text`. Raises PtxError."""
    try:
        return _Parser(text).module()
    except RecursionError:
        raise PtxError("PTX: braces are nested too deeply") from None


class _Parser:
    """Recursive descent over the tokens; one method per construct."""

    def __init__(self, text: str):
        self.text = text
        self.tokens = tokenize(text)
        self.index = 0
        self.headers = _header_files(self.tokens)
        self.line = 0
        self.callers: dict[Location, Location] = {}  # inlined code -> where it was last inlined

    # Tokens

    @property
    def here(self) -> Token:
        return self.tokens[self.index]

    def take(self, text: str | None = None, kind: str | None = None) -> str:
        """The next token's text, which must be `text` or of `kind` if given."""
        token = self.here
        if token.kind == "end" or text not in (None, token.text) or kind not in (None, token.kind):
            raise self.error(f"expected {text or kind or 'more'}, found {token.text or 'the end'!r}")
        self.index += 1
        return token.text

    def accept(self, text: str) -> bool:
        if self.here.text != text:
            return False
        self.index += 1
        return True

    def error(self, message: str) -> PtxError:
        return error_at(self.text, self.here.position, message)

    def integer(self) -> int:
        negative = self.accept("-")
        value = integer(self.take(kind="integer"))
        return -value if negative else value

    # Module level

    def module(self) -> ir.Module:
        functions: dict[str, ir.Function] = {}
        variables: dict[str, ir.Variable] = {}
        target = ""
        while self.here.kind != "end":
            directive = self.here.text
            if directive in (".version", ".address_size"):
                self.take()
                self.take()
            elif directive == ".target":
                self.take()
                target = self.take(kind="name")
                while self.accept(","):
                    self.take(kind="name")
            elif directive in (".file", ".loc", ".section", ".pragma"):
                self.debug_directive()
            elif directive == ";":
                self.take()
            else:
                external = False
                while self.here.text in _LINKAGE:
                    external |= self.take() in (".extern", ".common")
                if self.here.text in (".entry", ".func"):
                    function = self.function()
                    if function is not None:
                        functions[function.name] = function
                elif self.here.text in _SPACES:
                    for variable in self.variables():
                        if variable.name not in variables or not external:
                            variables[variable.name] = variable
                else:
                    raise self.error(f"unknown directive {self.here.text!r}")
        return ir.Module(functions, variables, target)

    def debug_directive(self) -> None:
        directive = self.take()
        if directive == ".file":
            self.integer()
            self.take(kind="string")
            while self.accept(","):
                self.take(kind="integer")
        elif directive == ".loc":
            self.location()
        elif directive == ".section":
            while self.take() != "{":
                pass
            while self.take() != "}":
                pass
        else:  # .pragma
            self.take(kind="string")
            self.take(";")

    def location(self) -> None:
        """`.loc file line column [, function_name label] [, inlined_at file line column]`"""
        place = (self.integer(), self.integer(), self.integer())
        self.callers.pop(place, None)
        while self.accept(","):
            attribute = self.take(kind="name")
            if attribute == "function_name":
                self.take(kind="name")
                if self.accept("+"):
                    self.take(kind="integer")
            elif attribute == "inlined_at":
                self.callers[place] = (self.integer(), self.integer(), self.integer())
            else:
                raise self.error(f"unknown .loc attribute {attribute!r}")
        self.line = self.user_line(place)

    def user_line(self, place: Location) -> int:
        """The line at or around `place` that is not in a header; 0 if there is none."""
        seen = set()
        while place[0] in self.headers:
            if place in seen or place not in self.callers:
                return 0
            seen.add(place)
            place = self.callers[place]
        return place[1]

    def variables(self) -> list[ir.Variable]:
        """`.space [.align n] [.v2|.v4] .type name[dims] [= initial], ... ;`"""
        space = self.take().lstrip(".")
        declared = []
        alignment, width, lanes = self.variable_type()
        while True:
            declared.append(self.variable(space, alignment, width, lanes))
            if not self.accept(","):
                break
        self.take(";")
        return declared

    def variable_type(self) -> tuple[int | None, int, int]:
        """(alignment or None, element bits, vector length), with parameter attributes skipped."""
        alignment, width, lanes = None, 0, 1
        while self.here.kind == "dotted":
            word = self.take().lstrip(".")
            if word == "align":
                value = self.integer()
                alignment = alignment if width else value  # after the type it is `.ptr .align`
            elif word in ("v2", "v4", "v8"):
                lanes = int(word[1:])
            elif word == "attribute":
                while self.take() != ")":
                    pass
            elif word in _WIDTHS:
                width = _WIDTHS[word]
            elif word not in ("ptr", "global", "const", "shared", "local", "generic"):
                raise self.error(f"unknown type or attribute .{word}")
        if not width:
            raise self.error("a declaration without a type")
        return alignment, width, lanes

    def variable(self, space: str, alignment: int | None, width: int, lanes: int) -> ir.Variable:
        name = self.take(kind="name")
        element_bytes = width // 8 * lanes
        count, unsized = 1, False
        while self.accept("["):
            if self.here.text == "]":
                unsized = True
            else:
                count *= self.integer()
            self.take("]")
        initial, relocations = self.initialiser(width // 8) if self.accept("=") else (b"", ())
        size = len(initial) if unsized else count * element_bytes
        return ir.Variable(
            name,
            space,
            size,
            alignment or element_bytes,
            width,
            initial.ljust(size, b"\0") if initial else b"",
            relocations,
        )

    def initialiser(self, element_bytes: int) -> tuple[bytes, tuple[tuple[int, ir.Symbol], ...]]:
        data = bytearray()
        relocations: list[tuple[int, ir.Symbol]] = []

        def element() -> None:
            if self.accept("{"):
                while not self.accept("}"):
                    element()
                    self.accept(",")
                return
            if self.here.kind == "name":
                name = self.take()
                wrapped = self.accept("(")  # generic(symbol)
                if wrapped:
                    name = self.take(kind="name")
                offset = self.integer() if self.accept("+") else 0
                if wrapped:
                    self.take(")")
                    offset += self.integer() if self.accept("+") else 0
                relocations.append((len(data), ir.Symbol(name, offset)))
                data.extend(bytes(element_bytes))
                return
            value = as_f32(self.immediate()) if element_bytes == 4 else self.immediate()
            data.extend((value.bits & (1 << 8 * element_bytes) - 1).to_bytes(element_bytes, "little"))

        element()
        return bytes(data), tuple(relocations)

    # Functions

    def function(self) -> ir.Function | None:
        """`.entry` or `.func` with its body; None for a declaration."""
        is_entry = self.take() == ".entry"
        returns = () if is_entry else self.parameters()
        name = self.take(kind="name")
        parameters = self.parameters()
        directives = self.performance_directives()
        if self.accept(";"):
            return None
        self.line = 0
        body = _Body(scopes=[_Scope()])
        for parameter in (*returns, *parameters):
            body.scopes[0].operands[parameter.name] = ir.Symbol(parameter.name)
        self.block(body)
        return ir.Function(
            name,
            is_entry,
            parameters,
            returns,
            body.registers,
            tuple(body.variables),
            tuple(body.instructions),
            body.labels,
            body.branch_targets,
            directives,
        )

    def parameters(self) -> tuple[ir.Variable, ...]:
        """`(.param ..., .param ...)`, or nothing."""
        found: list[ir.Variable] = []
        if not self.accept("("):
            return ()
        while not self.accept(")"):
            self.take(".param")
            alignment, width, lanes = self.variable_type()
            found.append(self.variable("param", alignment, width, lanes))
            self.accept(",")
        return tuple(found)

    def performance_directives(self) -> dict[str, tuple[int, ...]]:
        """`.maxntid 256, 1, 1` and the like, up to the body."""
        directives: dict[str, tuple[int, ...]] = {}
        while self.here.kind == "dotted":
            if self.here.text == ".pragma":
                self.debug_directive()
                continue
            name = self.take().lstrip(".")
            values = []
            while self.here.kind == "integer":
                values.append(self.integer())
                if not self.accept(","):
                    break
            directives[name] = tuple(values)
        return directives

    def block(self, body: _Body) -> None:
        """Statements up to the matching brace."""
        self.take("{")
        while not self.accept("}"):
            self.statement(body)

    def statement(self, body: _Body) -> None:
        token = self.here
        if token.text == "{":
            self.nested_scope(body)
        elif token.text == ";":
            self.take()
        elif token.text == ".reg":
            self.register_declaration(body)
        elif token.text in _SPACES:
            for variable in self.variables():
                renamed = variable.name + body.scopes[-1].suffix
                body.scopes[-1].operands[variable.name] = ir.Symbol(renamed)
                body.variables.append(replace(variable, name=renamed))
        elif token.text in (".file", ".loc", ".section", ".pragma"):
            self.debug_directive()
        elif token.kind == "name" and self.tokens[self.index + 1].text == ":":
            self.label(body)
        elif token.kind == "name" or token.text == "@":
            self.instruction(body)
        else:
            raise self.error(f"unexpected {token.text or 'end of text'!r}")

    def nested_scope(self, body: _Body) -> None:
        body.scope_count += 1
        scope = _Scope(suffix=f"${body.scope_count}")
        first = len(body.instructions)
        body.scopes.append(scope)
        self.block(body)
        body.scopes.pop()
        if scope.labels:  # a branch may come before its label, so it is renamed last
            for index, instruction in enumerate(body.instructions[first:], first):
                operands = tuple(
                    scope.labels.get(operand.name, operand) if isinstance(operand, ir.Symbol) else operand
                    for operand in instruction.operands
                )
                body.instructions[index] = replace(instruction, operands=operands)

    def register_declaration(self, body: _Body) -> None:
        """`.reg .b32 a, b, %r<9>;`"""
        self.take()
        _, width, lanes = self.variable_type()
        if lanes != 1:
            raise self.error("vector registers are not supported")
        scope = body.scopes[-1]
        while True:
            name = self.take(kind="name")
            names = [name]
            if self.accept("<"):
                count = self.integer()
                if count > _MAX_REGISTERS:
                    raise self.error(f"{count} registers")
                names = [f"{name}{number}" for number in range(count)]
                self.take(">")
            for name in names:
                register = ir.Register(name + scope.suffix)
                scope.operands[name] = register
                body.registers[register.name] = width
            if not self.accept(","):
                break
        self.take(";")

    def label(self, body: _Body) -> None:
        """`name:`, which may introduce a `.branchtargets` list or a `.callprototype`."""
        name = self.take()
        self.take(":")
        if self.accept(".branchtargets"):
            targets = [self.take(kind="name")]
            while self.accept(","):
                targets.append(self.take(kind="name"))
            self.take(";")
            body.branch_targets[name] = tuple(targets)
        elif self.here.text in (".callprototype", ".calltargets"):
            while self.take() != ";":
                pass
        else:
            scope = body.scopes[-1]
            renamed = name + scope.suffix
            if renamed in body.labels:
                raise self.error(f"label {name!r} is defined twice")
            scope.labels[name] = ir.Symbol(renamed)
            body.labels[renamed] = len(body.instructions)

    # Instructions

    def instruction(self, body: _Body) -> None:
        start = self.here.position
        guard, guard_negated = None, False
        if self.accept("@"):
            guard_negated = self.accept("!")
            guard = self.register(body).name
        opcode = self.take(kind="name")
        modifiers = []
        while self.here.kind == "dotted":
            modifiers.append(self.take()[1:])
        operands: list[ir.Operand | None] = []
        while self.here.text != ";":
            operands.append(self.operand(body))
            if not self.accept(","):
                break
        text = " ".join(self.text[start : self.here.position].split()) + ";"
        self.take(";")
        if opcode == "call":
            if not any(operands) or (len(operands) == 1 and isinstance(operands[0], ir.Vector)):
                raise self.error("a call without a function")
            operands = _call_operands(operands)
        elif "f32" in modifiers and "f64" not in modifiers:
            operands = [as_f32(x) if isinstance(x, ir.Immediate) else x for x in operands]
        body.instructions.append(
            ir.Instruction(opcode, tuple(modifiers), tuple(operands), guard, guard_negated, self.line, text)
        )

    def operand(self, body: _Body) -> ir.Operand | None:
        """One operand; `_` is None, `a|b`, `{...}` and `(...)` are vectors."""
        if self.accept("{"):
            return self.vector(body, "}")
        if self.accept("("):
            return self.vector(body, ")")
        if self.accept("["):
            return self.address(body)
        if self.accept("!"):
            return self.negated(body)
        if self.here.kind != "name":
            return self.immediate()
        first = self.named(body)
        return ir.Vector((first, self.named(body))) if self.accept("|") else first

    def vector(self, body: _Body, closing: str) -> ir.Vector:
        elements: list[ir.Operand | None] = []
        while not self.accept(closing):
            elements.append(self.operand(body))
            if self.here.text != closing:
                self.take(",")
        return ir.Vector(tuple(elements))

    def address(self, body: _Body) -> ir.Address:
        base: ir.Register | ir.Symbol | None = None
        offset = 0
        if self.here.kind == "name":
            named = self.named(body)
            if not isinstance(named, ir.Register | ir.Symbol):
                raise self.error("an address starts with a register, a variable or a number")
            base = named
        else:
            offset = self.integer()
        while self.here.text in ("+", "-"):
            self.accept("+")
            offset += self.integer()
        self.take("]")
        if isinstance(base, ir.Symbol):
            base, offset = ir.Symbol(base.name), base.offset + offset
        return ir.Address(base, offset)

    def negated(self, body: _Body) -> ir.Register:
        """`!p` as a source operand: a register of its own, written by a `not.pred` before the instruction."""
        source = self.register(body)
        inverse = ir.Register(f"{source.name}$not")
        body.registers[inverse.name] = 1
        body.instructions.append(
            ir.Instruction("not", ("pred",), (inverse, source), None, False, self.line, f"!{source.name}")
        )
        return inverse

    def register(self, body: _Body) -> ir.Register:
        name = self.here.text
        found = self.named(body)
        if not isinstance(found, ir.Register):
            raise self.error(f"{name!r} is not a register")
        return found

    def named(self, body: _Body) -> ir.Register | ir.Symbol | ir.Special | ir.Immediate | None:
        """A register, a special register, or the address of a variable, function or label."""
        name = self.take(kind="name")
        if name == "_":
            return None
        if name == "WARP_SZ":
            return ir.Immediate(32, "int")
        found = next((scope.operands[name] for scope in reversed(body.scopes) if name in scope.operands), None)
        if isinstance(found, ir.Register):
            return found
        if found is None and name.startswith("%"):
            component = self.take() if self.here.text in (".x", ".y", ".z", ".w") else ""
            return ir.Special(name[1:] + component)
        symbol = found or ir.Symbol(name)
        if self.here.text == "+" and self.tokens[self.index + 1].kind in ("integer", "mark"):
            self.take()
            return ir.Symbol(symbol.name, self.integer())
        return symbol

    def immediate(self) -> ir.Immediate:
        negative = self.accept("-")
        token = self.here
        if token.kind not in ("integer", "float"):
            raise self.error(f"expected an operand, found {token.text or 'the end'!r}")
        self.take()
        return literal(token, negative)


def _header_files(tokens: list[Token]) -> frozenset[int]:
    """Numbers of the `.file` entries that are headers. They may follow the code that uses them."""
    return frozenset(
        integer(number.text)
        for directive, number, name in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if directive.text == ".file" and name.text.strip('"').endswith(_HEADER_SUFFIXES)
    )


def _call_operands(operands: list[ir.Operand | None]) -> list[ir.Operand | None]:
    """`(returns), function, (arguments), prototype`, of which only the function is required."""
    returns = operands[0] if isinstance(operands[0], ir.Vector) else None
    function, *rest = operands[1:] if returns else operands
    arguments = rest[0] if rest and isinstance(rest[0], ir.Vector) else None
    return [returns or ir.Vector(()), function, arguments or ir.Vector(())]
