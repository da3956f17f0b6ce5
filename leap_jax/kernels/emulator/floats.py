"""Floating operations that need no rounding mode, approximations, and the 16-bit types.

16-bit floats are computed in binary64 and rounded once. f16 values are np.float16 arrays, bf16 values are
carried as uint16 bits, pairs (f16x2, bf16x2) as uint32 with the first element in the low half.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection

import numpy as np

from leap_jax.kernels.emulator import integers
from leap_jax.kernels.emulator.rounding import (
    DOWN,
    TOWARD_ZERO,
    UP,
    Operation,
    round_f32,
    saturating,
    sum_to_odd,
)

HALVES = ("f16", "bf16", "f16x2", "bf16x2")
ONES = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF0000000000000}
_F16_SMALLEST_NORMAL = 2.0**-14


def _extremum(select: Operation, merge_bits: Operation) -> Operation:
    """Minimum or maximum with -0 below +0: equal operands differ at most in the sign bit of zero."""

    def function(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        selected = select(a, b)
        if np.count_nonzero(selected) == selected.size:
            return selected
        raw = integers.unsigned(a.dtype)
        merged = merge_bits(a.view(raw), b.view(raw)).view(a.dtype)
        return np.where(a == b, merged, selected)

    return function


# (name, propagates NaN): without .NaN the operand that is a number wins.
EXTREMA: dict[tuple[str, bool], Operation] = {
    ("min", False): _extremum(np.fmin, np.bitwise_or),
    ("max", False): _extremum(np.fmax, np.bitwise_and),
    ("min", True): _extremum(np.minimum, np.bitwise_or),
    ("max", True): _extremum(np.maximum, np.bitwise_and),
}

# Plain comparisons are false for NaN, those ending in u true.
COMPARISONS: dict[str, Operation] = {
    "eq": np.equal,
    "ne": lambda a, b: (a < b) | (a > b),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": np.not_equal,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: (a == a) & (b == b),
    "nan": lambda a, b: (a != a) | (b != b),
}


def _is_subnormal(x: np.ndarray) -> np.ndarray:
    return (x != 0) & (np.abs(x) < np.finfo(x.dtype).smallest_normal)


CLASSES: dict[str, Operation] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda x: ~np.isnan(x),
    "notanumber": np.isnan,
    "normal": lambda x: np.isfinite(x) & (np.abs(x) >= np.finfo(x.dtype).smallest_normal),
    "subnormal": _is_subnormal,
}

# Of binary64 arguments; the caller rounds.
APPROXIMATIONS: dict[str, Operation] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}


def divide_approx(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`div.approx.f32`: past |b| = 2**126 a finite quotient is a zero, and Inf / b is NaN."""
    quotient = a / b
    huge = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
    return np.where(huge, quotient * np.float32(0), quotient)


def high_word(function: Operation) -> Operation:
    """`.approx.ftz.f64`: only the upper 32 bits of operand and result exist; subnormals are flushed."""
    mask = np.uint64(0xFFFFFFFF00000000)

    def truncate(x: np.ndarray) -> np.ndarray:
        normal = x * (np.abs(x) >= np.finfo(np.float64).smallest_normal)
        return (normal.view(np.uint64) & mask).view(np.float64)

    return lambda x: truncate(function(truncate(x)))


def fused_multiply_add(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c of 16-bit floats held in binary64 (the product is exact), the sum rounded to odd."""
    return sum_to_odd(a * b, c)


# 16-bit types


def bf16_to_f32(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bf16(x: np.ndarray) -> np.ndarray:
    """binary64 (or binary32) -> bf16 bits, rounded once to nearest even."""
    truncated = round_f32(x, TOWARD_ZERO)
    sticky = truncated.view(np.uint32) | (x != truncated)  # to odd: no second rounding
    rounding = np.uint32(0x7FFF) + ((sticky >> np.uint32(16)) & np.uint32(1))
    bits = ((sticky + rounding) >> np.uint32(16)).astype(np.uint16)
    return np.where(x != x, np.uint16(0x7FFF), bits)


def truncate_bf16(x: np.ndarray) -> np.ndarray:
    """binary64 -> bf16 bits, rounded once toward zero."""
    bits = (round_f32(x, TOWARD_ZERO).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.where(x != x, np.uint16(0x7FFF), bits)


def round_f16(x: np.ndarray, mode: str) -> np.ndarray:
    """binary64 -> f16, rounded once in a directed mode: the nearest, moved one unit if on the wrong side."""
    nearest = x.astype(np.float16)
    bits = nearest.view(np.int16)
    away = (bits >> 15) | 1
    step = {
        TOWARD_ZERO: lambda: -(np.abs(nearest) > np.abs(x)).astype(np.int16),
        DOWN: lambda: -away * (nearest > x),
        UP: lambda: away * (nearest < x),
    }[mode]()
    return (bits + step).view(np.float16)


DECODE: dict[str, Operation] = {
    "f16": lambda x: x.astype(np.float64),
    "bf16": lambda x: bf16_to_f32(x).astype(np.float64),
}
ENCODE: dict[str, Operation] = {"f16": lambda x: x.astype(np.float16), "bf16": to_bf16}
_LANE = {"f16": np.dtype(np.float16), "bf16": np.dtype(np.uint16)}


@functools.cache
def f8_values(kind: str) -> np.ndarray:
    """(256,) binary64: what each byte of `e4m3` or `e5m2` stands for."""
    fraction_bits, bias = (3, 7) if kind == "e4m3" else (2, 15)
    code = np.arange(256)
    exponent, fraction = code >> fraction_bits & (0x7F >> fraction_bits), code & ((1 << fraction_bits) - 1)
    size = np.ldexp(fraction + np.where(exponent > 0, 1 << fraction_bits, 0), np.maximum(exponent, 1) - bias)
    size = size * 2.0**-fraction_bits
    if kind == "e4m3":
        size[code & 0x7F == 0x7F] = np.nan
    else:
        size[code & 0x7F == 0x7C] = np.inf
        size[code & 0x7F > 0x7C] = np.nan
    return np.where(code >> 7, -size, size)


def to_f8(x: np.ndarray, kind: str) -> np.ndarray:
    """Numbers -> bytes of `e4m3` or `e5m2`, rounded once to nearest even; past the largest number, that one."""
    values = f8_values(kind)
    finite = values[: 0x7F if kind == "e4m3" else 0x7C]
    between = (finite[1:] + finite[:-1]) / 2
    size = np.abs(x)
    below = np.searchsorted(between, size)  # how many midpoints are smaller
    tie = size == between[np.minimum(below, between.size - 1)]
    code = (below + (tie & (below % 2 == 1))).astype(np.uint8)
    return np.where(x != x, np.uint8(0x7F), code | (np.signbit(x).astype(np.uint8) << np.uint8(7)))


def _flush_f16(x: np.ndarray) -> np.ndarray:
    return x * (np.abs(x) >= _F16_SMALLEST_NORMAL)


def half_operation(type_name: str, exact: Callable[..., np.ndarray], flags: Collection[str]) -> Operation:
    """`exact` (of binary64 arrays) as an operation on a 16-bit float type or a pair of them."""
    lane = type_name.removesuffix("x2")
    decode, encode = DECODE[lane], ENCODE[lane]
    if "sat" in flags:
        exact = saturating(exact)
    flush_f16 = "ftz" in flags and lane == "f16"

    def scalar(*operands: np.ndarray) -> np.ndarray:
        values = [decode(x) for x in operands]
        if flush_f16:
            values = [_flush_f16(x) for x in values]
        result = exact(*values)
        if "relu" in flags:
            result = np.where(result < 0, 0.0, result)
        return encode(_flush_f16(result) if flush_f16 else result)

    return pairwise(scalar, _LANE[lane]) if type_name.endswith("x2") else scalar


def half_comparison(type_name: str, compare: Operation, flags: Collection[str]) -> Callable:
    """A comparison of 16-bit floats; for pairs a tuple (low, high)."""
    lane = type_name.removesuffix("x2")
    flush_f16 = "ftz" in flags and lane == "f16"

    def scalar(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = DECODE[lane](a), DECODE[lane](b)
        return compare(_flush_f16(a), _flush_f16(b)) if flush_f16 else compare(a, b)

    if not type_name.endswith("x2"):
        return scalar
    dtype = _LANE[lane]
    return lambda a, b: tuple(
        scalar(x, y) for x, y in zip(integers.lanes_of(a, dtype), integers.lanes_of(b, dtype), strict=True)
    )


def pairwise(scalar: Operation, lane: np.dtype) -> Operation:
    """`scalar` on both halves of 32-bit words, as one array of twice the lanes."""

    def function(*operands: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(*(x.shape for x in operands))
        halves = (np.ascontiguousarray(np.broadcast_to(x, shape)).view(lane) for x in operands)
        return scalar(*halves).view(np.uint32).reshape(shape)

    return function
