"""From operands of an instruction to slots of a frame, and the steps of plain arithmetic.

Constants, special registers and addresses of variables get a slot each, filled when a frame is made, so that a step
only ever reads slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.isa import DTYPES, Arithmetic, UnsupportedOpcode
from leap_jax.kernels.emulator.special import CLOCKS, SPECIALS

if TYPE_CHECKING:
    from leap_jax.kernels.emulator.wave import Frame, Lanes, Step

CARRY = "%cc"  # the name of the carry flag's register
REGISTER_DTYPES = {
    1: np.dtype(bool),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}


@dataclass(frozen=True, slots=True)
class Source:
    """An operand to read: the slot's value as `dtype`, cut to `dtype`'s width first if the register is wider."""

    slot: int
    dtype: np.dtype
    register: np.dtype
    resized: bool

    def read(self, frame: Frame, lanes: Lanes) -> np.ndarray:
        """(count,) or (1,): the lanes' values."""
        return lanes.pick(self.whole(frame))

    def whole(self, frame: Frame) -> np.ndarray:
        """The values of all lanes of the wave."""
        value = frame.registers[self.slot]
        if self.resized:
            unsigned = REGISTER_DTYPES[self.dtype.itemsize * 8]
            return value.view(self.register).astype(unsigned).view(self.dtype)
        return value if value.dtype is self.dtype else value.view(self.dtype)


@dataclass(frozen=True, slots=True)
class Destination:
    """A register to write. `widen`: the dtypes of a result narrower than the register, before and after."""

    slot: int
    widen: tuple[np.dtype, np.dtype] | None

    def fit(self, value: np.ndarray) -> np.ndarray:
        """The result at the register's width, sign- or zero-extended by its type."""
        if self.widen is None:
            return value
        narrow, wide = self.widen
        return value.view(narrow).astype(wide)


class Layout:
    """The slots of one function's frame. `variables`: the names whose address may be taken."""

    def __init__(self, function: ir.Function, variables: set[str]):
        self._variables = variables
        self._widths = {**function.registers, CARRY: 1}
        self._slots: dict[object, int] = {}
        self.template: list[np.ndarray] = []
        self.specials: list[tuple[int, str, np.dtype]] = []
        self.symbols: list[tuple[int, ir.Symbol, np.dtype]] = []
        for name, width in self._widths.items():
            self._new(("register", name), np.zeros(1, REGISTER_DTYPES[width]))

    def source(self, operand: ir.Operand | None, code: str, instruction: ir.Instruction) -> Source:
        """The slot to read an operand of a type code from. Raises UnsupportedOpcode."""
        dtype = DTYPES[code]
        if isinstance(operand, ir.Register):
            register = REGISTER_DTYPES[self._widths[operand.name]]
            if (self._widths[operand.name] == 1) != (code == "pred"):
                raise UnsupportedOpcode(instruction)
            slot = self._slots["register", operand.name]
            return Source(slot, dtype, register, register.itemsize != dtype.itemsize)
        unsigned = REGISTER_DTYPES[1 if code == "pred" else dtype.itemsize * 8]
        if isinstance(operand, ir.Immediate):
            bits = operand.bits != 0 if code == "pred" else operand.bits & ((1 << dtype.itemsize * 8) - 1)
            slot = self._fixed((bits, code), lambda: np.array([bits], unsigned).view(dtype))
        elif isinstance(operand, ir.Special) and operand.name in SPECIALS:
            slot = self._fixed((operand, unsigned), lambda: np.zeros(1, unsigned))
            self.specials.append((slot, operand.name, unsigned))
        elif isinstance(operand, ir.Symbol) and operand.name in self._variables:
            slot = self._fixed((operand, unsigned), lambda: np.zeros(1, unsigned))
            self.symbols.append((slot, operand, unsigned))
        else:
            raise UnsupportedOpcode(instruction)
        return Source(slot, dtype, unsigned, False)

    def destination(self, operand: ir.Operand | None, code: str, instruction: ir.Instruction) -> Destination | None:
        """Where a result of a type code goes; None to discard it. Raises UnsupportedOpcode."""
        if operand is None:
            return None
        if not isinstance(operand, ir.Register):
            raise UnsupportedOpcode(instruction)
        width, dtype = self._widths[operand.name], DTYPES[code]
        slot = self._slots["register", operand.name]
        have = 1 if code == "pred" else dtype.itemsize * 8
        if have == width:
            return Destination(slot, None)
        if have > width or width == 1 or have == 1:
            raise UnsupportedOpcode(instruction)
        kind = "i" if dtype.kind == "i" else "u"
        return Destination(slot, (np.dtype(f"{kind}{have // 8}"), np.dtype(f"{kind}{width // 8}")))

    def predicate(self, name: str) -> int:
        """The slot of a predicate register."""
        return self._slots["register", name]

    def register_code(self, register: ir.Register) -> str:
        """The type code of a register's raw bits."""
        width = self._widths[register.name]
        return "pred" if width == 1 else f"b{width}"

    def _fixed(self, key: object, make: Callable[[], np.ndarray]) -> int:
        slot = self._slots.get(key)
        return self._new(key, make()) if slot is None else slot

    def _new(self, key: object, value: np.ndarray) -> int:
        self._slots[key] = len(self.template)
        self.template.append(value)
        return self._slots[key]


def flatten(operands: Iterable[ir.Operand | None]) -> list[ir.Operand | None]:
    """Operands with vectors replaced by their elements."""
    flat: list[ir.Operand | None] = []
    for operand in operands:
        flat.extend(operand.elements if isinstance(operand, ir.Vector) else (operand,))
    return flat


def clock_step(instruction: ir.Instruction, layout: Layout) -> Step | None:
    """`mov` from a clock: the steps issued so far. None for other instructions."""
    source = instruction.operands[1] if len(instruction.operands) > 1 else None
    if not isinstance(source, ir.Special) or source.name not in CLOCKS:
        return None
    code = f"b{instruction.modifiers[-1][1:]}"
    destination = layout.destination(instruction.operands[0], code, instruction)
    dtype = DTYPES[code]
    shift = 32 if source.name.endswith("_hi") else 0
    mask = (1 << dtype.itemsize * 8) - 1

    def step(frame: Frame, lanes: Lanes) -> None:
        now = np.array([frame.wave.issued >> shift & mask], dtype)
        frame.write(destination.slot, destination.fit(now), lanes)

    return step


def arithmetic_step(instruction: ir.Instruction, operation: Arithmetic, layout: Layout) -> Step:
    """The step of a register-to-register instruction. Raises UnsupportedOpcode."""
    operands = flatten(instruction.operands[1:])
    results = flatten(instruction.operands[:1])
    if operation.reads_carry:
        operands.append(ir.Register(CARRY))
    if operation.writes_carry:
        results.append(ir.Register(CARRY))
    if len(operands) != len(operation.sources) or len(results) != len(operation.results):
        raise UnsupportedOpcode(instruction)
    sources = [layout.source(o, c, instruction) for o, c in zip(operands, operation.sources, strict=True)]
    destinations = [layout.destination(o, c, instruction) for o, c in zip(results, operation.results, strict=True)]
    function = operation.function
    if _returns_operand(function, sources):
        function = _copying(function)
    single = len(destinations) == 1 and destinations[0] is not None and destinations[0].widen is None
    if single and not any(s.resized for s in sources) and len(sources) in _DIRECT:
        return _DIRECT[len(sources)](function, destinations[0].slot, *((s.slot, s.dtype) for s in sources))
    return _general(function, sources, destinations)


def _returns_operand(function: Callable, sources: list[Source]) -> bool:
    """Whether a result is, or shares memory with, an operand."""
    samples = [np.zeros(2, source.dtype) for source in sources]
    with np.errstate(all="ignore"):
        results = function(*samples)
    results = results if isinstance(results, tuple) else (results,)
    return any(np.shares_memory(result, sample) for result in results for sample in samples)


def _copying(function: Callable) -> Callable:
    def copied(*sources: np.ndarray) -> np.ndarray | tuple[np.ndarray, ...]:
        results = function(*sources)
        return tuple(r.copy() for r in results) if isinstance(results, tuple) else results.copy()

    return copied


def _general(
    function: Callable, sources: list[Source], destinations: list[Destination | None]
) -> Callable[[Frame, Lanes], None]:
    def step(frame: Frame, lanes: Lanes) -> None:
        whole = lanes.every or lanes.dense
        values = [source.whole(frame) if whole else source.read(frame, lanes) for source in sources]
        results = function(*values)
        if len(destinations) == 1 and not isinstance(results, tuple):
            results = (results,)
        for destination, result in zip(destinations, results, strict=True):
            if destination is not None:
                _store(frame, destination.slot, destination.fit(result), lanes)

    return step


def _store(frame: Frame, slot: int, value: np.ndarray, lanes: Lanes) -> None:
    """Writes a result of whole arrays (every or dense lanes), or of the lanes' own parts."""
    if lanes.every:
        frame.registers[slot] = value
    elif lanes.dense:
        np.copyto(frame.own(slot, value.dtype), value, where=lanes.mask)
    else:
        frame.own(slot, value.dtype)[lanes.index] = value


def _merge(frame: Frame, slot: int, function: Callable, sources: tuple[np.ndarray, ...], lanes: Lanes) -> None:
    """The path of diverged lanes."""
    if not lanes.dense:
        sources = tuple(lanes.pick(source) for source in sources)
    _store(frame, slot, function(*sources), lanes)


# The undiverged path, spelt out for each number of operands: most of a run is spent here.

_Slot = tuple[int, np.dtype]


def _one(function: Callable, result: int, a: _Slot) -> Step:
    slot_a, dtype_a = a

    def step(frame: Frame, lanes: Lanes) -> None:
        registers = frame.registers
        x = registers[slot_a]
        if x.dtype is not dtype_a:
            x = x.view(dtype_a)
        if lanes.every:
            registers[result] = function(x)
        else:
            _merge(frame, result, function, (x,), lanes)

    return step


def _two(function: Callable, result: int, a: _Slot, b: _Slot) -> Step:
    (slot_a, dtype_a), (slot_b, dtype_b) = a, b

    def step(frame: Frame, lanes: Lanes) -> None:
        registers = frame.registers
        x, y = registers[slot_a], registers[slot_b]
        if x.dtype is not dtype_a:
            x = x.view(dtype_a)
        if y.dtype is not dtype_b:
            y = y.view(dtype_b)
        if lanes.every:
            registers[result] = function(x, y)
        else:
            _merge(frame, result, function, (x, y), lanes)

    return step


def _three(function: Callable, result: int, a: _Slot, b: _Slot, c: _Slot) -> Step:
    (slot_a, dtype_a), (slot_b, dtype_b), (slot_c, dtype_c) = a, b, c

    def step(frame: Frame, lanes: Lanes) -> None:
        registers = frame.registers
        x, y, z = registers[slot_a], registers[slot_b], registers[slot_c]
        if x.dtype is not dtype_a:
            x = x.view(dtype_a)
        if y.dtype is not dtype_b:
            y = y.view(dtype_b)
        if z.dtype is not dtype_c:
            z = z.view(dtype_c)
        if lanes.every:
            registers[result] = function(x, y, z)
        else:
            _merge(frame, result, function, (x, y, z), lanes)

    return step


_DIRECT: dict[int, Callable[..., Step]] = {1: _one, 2: _two, 3: _three}
