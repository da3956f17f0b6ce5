"""What an arithmetic instruction says: its types, its modifiers, and the function it resolves to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.rounding import MODES, NEAREST, flushing, saturating

Result = np.ndarray | tuple[np.ndarray, ...]
Function = Callable[..., Result]

DTYPES = {
    "pred": np.dtype(np.bool_),
    **{f"{kind}{8 * size}": np.dtype(f"u{size}") for kind in "bu" for size in (1, 2, 4, 8)},
    **{f"s{8 * size}": np.dtype(f"i{size}") for size in (1, 2, 4, 8)},
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
_CARRIERS = {"bf16": "b16", "f16x2": "b32", "bf16x2": "b32", "s16x2": "b32", "u16x2": "b32", "tf32": "b32"}
_CARRIERS |= {"e4m3x2": "b16", "e5m2x2": "b16"}
TYPES = DTYPES.keys() | _CARRIERS.keys()


class UnsupportedOpcode(Exception):
    """An opcode, or a form of one, outside the emulator. `.instruction` says which, and the source line."""

    def __init__(self, instruction: ir.Instruction):
        self.instruction = f"{instruction.name} (line {instruction.line})"
        super().__init__(f"unsupported PTX instruction {self.instruction}: {instruction.text}")


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`function(*sources) -> result`, or a tuple for several results; type codes are keys of `DTYPES`.

    A carry flag read is one more source at the end (pred), a carry written one more result at the end.
    """

    function: Function
    sources: tuple[str, ...]
    results: tuple[str, ...]
    reads_carry: bool = False
    writes_carry: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """An instruction's modifiers, sorted out."""

    instruction: ir.Instruction
    types: tuple[str, ...]
    flags: tuple[str, ...]

    @property
    def type(self) -> str:
        return self.types[-1]

    @property
    def code(self) -> str:
        """The type code that carries values of the type."""
        return carrier(self.type)

    @property
    def dtype(self) -> np.dtype:
        return DTYPES[self.code]

    @property
    def is_float(self) -> bool:
        return "f" in self.type

    @property
    def rounding(self) -> str:
        return self.one_of(MODES) or NEAREST

    def one_of(self, names: tuple[str, ...] | dict) -> str | None:
        """The flag that is one of `names`."""
        return next((flag for flag in self.flags if flag in names), None)

    def uniform(self, function: Function, operands: int) -> Arithmetic:
        return Arithmetic(function, (self.code,) * operands, (self.code,))

    def finish(self, function: Function) -> Function:
        """`function` with `.ftz` and `.sat` where present."""
        if "ftz" in self.flags:
            if self.type != "f32":
                raise UnsupportedOpcode(self.instruction)
            function = flushing(function)
        return saturating(function) if "sat" in self.flags else function


@dataclass(frozen=True, slots=True)
class Opcode:
    build: Callable[[Form], Arithmetic]
    types: str
    flags: str = ""


def carrier(type_name: str) -> str:
    """The type code of the bits of a type: bf16 -> b16, f16x2 -> b32, others themselves."""
    return _CARRIERS.get(type_name, type_name)
