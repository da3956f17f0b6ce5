"""The typed form of a PTX module: what the parser makes and the machine runs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Register:
    name: str  # unique in its function: nested `{ }` scopes are renamed apart


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal. `bits` holds floats as their bit pattern (0f.. 32 bits, 0d.. 64 bits), integers two's complement."""

    bits: int
    kind: str  # "int", "f32", "f64"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, parameter, function or label by name, with a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`, base a register, a symbol, or None for an absolute address."""

    base: Register | Symbol | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Special:
    """A special register: tid.x, ctaid.y, laneid, clock64, ..."""

    name: str


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, ...}`; an element `None` is the discard `_`."""

    elements: tuple[Operand | None, ...]


Operand = Register | Immediate | Symbol | Address | Special | Vector


@dataclass(frozen=True, slots=True)
class Instruction:
    """One PTX instruction. The destination (where there is one) is operands[0].

    `setp ... p|q, a, b` and `shfl ... d|p, ...` put Vector((p, q)) first. `call` is
    operands = (Vector(returns), Symbol(function) or Register, Vector(arguments)).
    """

    opcode: str
    modifiers: tuple[str, ...]  # in the order of the text, types included
    operands: tuple[Operand | None, ...]
    guard: str | None  # predicate register name
    guard_negated: bool
    line: int  # source line from .loc, 0 if unknown
    text: str  # the PTX text, for messages

    @property
    def name(self) -> str:
        """`ld.global.f32`: what an `unsupported` verdict names."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Variable:
    """A module- or function-level variable: .global, .const, .shared, .local, or a .param."""

    name: str
    space: str  # global, const, shared, local, param
    size_bytes: int  # 0 for an extern (dynamic) array
    alignment: int
    element_bits: int
    initial: bytes = b""
    relocations: tuple[tuple[int, Symbol], ...] = ()  # (byte offset, symbol whose address goes there)


@dataclass(frozen=True)
class Function:
    name: str
    is_entry: bool
    params: tuple[Variable, ...]
    returns: tuple[Variable, ...]
    registers: dict[str, int]  # name -> width in bits; predicates have width 1
    variables: tuple[Variable, ...]  # shared (demoted), local depot, call params
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]  # label -> index into instructions
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)  # maxntid, reqntid, minnctapersm


@dataclass(frozen=True)
class Module:
    functions: dict[str, Function]
    variables: dict[str, Variable]  # module scope
    target: str

    @property
    def entries(self) -> dict[str, Function]:
        return {name: f for name, f in self.functions.items() if f.is_entry}
