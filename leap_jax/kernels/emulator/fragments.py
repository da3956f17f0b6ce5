"""Matrices that the lanes of a warp hold together: which lane has which element, and their products.

A fragment is one array of (warps, 32) words for each register. `mma` fixes who holds what; `wmma` leaves it open, so
here element i of the row-major matrix is with lane i % 32. Products of 8- to 32-bit elements are exact, summed in
binary64 and rounded once, where the ISA leaves order and rounding open; binary64 is a chain of fused multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from leap_jax.kernels.emulator import floats
from leap_jax.kernels.emulator.rounding import fma_f64

WARP = 32
_LANE = np.arange(WARP)
_GROUP, _MEMBER = _LANE // 4, _LANE % 4  # of an mma fragment
_TF32 = np.uint32(0xFFFFE000)  # the bits of a binary32 word that a tensor core reads


def _from_f8(kind: str) -> Callable[[np.ndarray], np.ndarray]:
    return lambda words: floats.f8_values(kind)[words.view(np.uint8)]


# Element type -> (bits, words to numbers, numbers to words). Words are (..., registers), numbers binary64 or int64.
BITS = {"f64": 64, "f32": 32, "tf32": 32, "s32": 32, "f16": 16, "bf16": 16, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8}
_DECODE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "f64": lambda words: words.view(np.float64),
    "f32": lambda words: words.view(np.float32).astype(np.float64),
    "tf32": lambda words: (words & _TF32).view(np.float32).astype(np.float64),
    "f16": lambda words: floats.DECODE["f16"](words.view(np.float16)),
    "bf16": lambda words: floats.DECODE["bf16"](words.view(np.uint16)),
    "s32": lambda words: words.view(np.int32).astype(np.int64),
    "s8": lambda words: words.view(np.int8).astype(np.int64),
    "u8": lambda words: words.view(np.uint8).astype(np.int64),
    "e4m3": _from_f8("e4m3"),
    "e5m2": _from_f8("e5m2"),
}
_ENCODE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "f64": lambda numbers: numbers.view(np.uint64),
    "f32": lambda numbers: numbers.astype(np.float32).view(np.uint32),
    "f16": lambda numbers: floats.ENCODE["f16"](numbers).view(np.uint32),
    "s32": lambda numbers: numbers.astype(np.int32).view(np.uint32),
}


@dataclass(frozen=True)
class Fragment:
    """A rows x columns matrix over a warp.

    position: (32, elements of a lane) the row-major index of each; holder: (rows * columns,) where `position` has it.
    """

    type: str
    rows: int
    columns: int
    position: np.ndarray
    holder: np.ndarray

    @property
    def registers(self) -> int:
        """How many a lane needs, of 32 bits (f64: 64)."""
        return self.position.shape[1] // self.packed

    @property
    def packed(self) -> int:
        """Elements in a register."""
        return max(32 // BITS[self.type], 1)

    @property
    def code(self) -> str:
        """The type code of a register."""
        return "b64" if self.type == "f64" else "b32"

    def matrix(self, words: Sequence[np.ndarray], shape: tuple[int, int]) -> np.ndarray:
        """(warps, rows, columns) numbers from one array of words for each register."""
        stacked = np.stack([np.broadcast_to(w, shape) for w in words], axis=-1)
        numbers = _DECODE[self.type](stacked).reshape(shape[0], -1)
        return numbers[:, self.holder].reshape(shape[0], self.rows, self.columns)

    def words(self, matrix: np.ndarray) -> list[np.ndarray]:
        """The inverse of `matrix`, rounded to the type."""
        flat = matrix.reshape(matrix.shape[0], -1)[:, self.position.reshape(-1)]
        encoded = _ENCODE[self.type](np.ascontiguousarray(flat)).reshape(matrix.shape[0], WARP, -1)
        return [np.ascontiguousarray(encoded[:, :, register]) for register in range(self.registers)]


def _fragment(kind: str, rows: int, columns: int, row: np.ndarray, column: np.ndarray) -> Fragment:
    position = row * columns + column
    holder = np.zeros(rows * columns, np.int64)
    holder[position.reshape(-1)] = np.arange(position.size)
    return Fragment(kind, rows, columns, position, holder)


def mma_fragment(role: str, kind: str, rows: int, columns: int) -> Fragment:
    """The operand `a`, `b` or `c` (also the result) of an mma with rows x columns elements, as the ISA lays it out."""
    packed = 2 if role == "c" else max(32 // BITS[kind], 1)  # a lane holds pairs of the result, whatever its type
    per_lane = rows * columns // WARP
    index = np.arange(per_lane)
    register, inner = index // packed, index % packed
    group, member = _GROUP[:, None], _MEMBER[:, None]
    if role == "b":
        return _fragment(kind, rows, columns, member * packed + inner + 4 * packed * register, group + 0 * index)
    tall = rows // 8  # 8 rows are one register, 16 rows two
    row = group + 8 * (register % tall)
    return _fragment(kind, rows, columns, row, member * packed + inner + 4 * packed * (register // tall))


def wmma_fragment(kind: str, rows: int, columns: int, registers: int) -> Fragment:
    """A fragment of wmma in so many registers, which may hold elements more than once."""
    index = np.arange(registers * max(32 // BITS[kind], 1))
    position = (index[None] * WARP + _LANE[:, None]) % (rows * columns)
    return _fragment(kind, rows, columns, position // columns, position % columns)


def product(a: np.ndarray, b: np.ndarray, c: np.ndarray, kind: str, saturate: bool) -> np.ndarray:
    """a @ b + c of (warps, rows, columns) numbers, before the one rounding to the result's type `kind`."""
    if kind == "f64":
        for k in range(a.shape[2]):
            c = fma_f64(a[:, :, k, None], b[:, None, k, :], c)
        return c
    if kind != "s32":
        return a @ b + c
    total = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64) + c
    return np.clip(total, -(2**31), 2**31 - 1) if saturate else total


def loaded_rows(rows: Sequence[np.ndarray], matrices: int, transpose: bool) -> list[np.ndarray]:
    """ldmatrix: four words (a row of eight 16-bit elements) of each lane -> one register for each 8 x 8 matrix."""
    words = np.stack(np.broadcast_arrays(*rows), axis=-1)
    parts = (words[:, 8 * m : 8 * m + 8] for m in range(matrices))
    return [_transposed(part) if transpose else part.reshape(-1, WARP) for part in parts]


def stored_rows(registers: Sequence[np.ndarray], transpose: bool) -> list[np.ndarray]:
    """stmatrix: the inverse of `loaded_rows`; lanes without a row get zeros."""
    words = np.zeros((registers[0].shape[0], WARP, 4), np.uint32)
    for m, register in enumerate(registers):
        words[:, 8 * m : 8 * m + 8] = (_transposed(register) if transpose else register).reshape(-1, 8, 4)
    return [np.ascontiguousarray(words[:, :, column]) for column in range(4)]


def moved(register: np.ndarray) -> np.ndarray:
    """movmatrix: (warps, 32) words of an 8 x 8 matrix of 16-bit elements -> those of its transpose."""
    return _transposed(register)


def _transposed(words: np.ndarray) -> np.ndarray:
    halves = np.ascontiguousarray(words).view(np.uint16).reshape(-1, 8, 8)
    return np.ascontiguousarray(halves.transpose(0, 2, 1)).view(np.uint32).reshape(-1, WARP)
