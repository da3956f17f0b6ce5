"""Exactly rounded binary32 and binary64 arithmetic, in every IEEE rounding mode, on NumPy arrays.

NumPy rounds to nearest only and has no fused multiply-add. Two facts give the rest cheaply for binary32:
the product of two binary32 numbers is exact in binary64, and the error of a binary64 sum is itself a
binary64 number (Knuth's two-sum). Directed modes take the nearest result and step one unit where it lies on
the wrong side. Directed binary64 is too rare for such care: it goes through exact fractions, lane by lane.

NaN payloads are not modelled: a NaN result is some NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

NEAREST = "rn"
TOWARD_ZERO = "rz"
DOWN = "rm"
UP = "rp"
MODES = (NEAREST, TOWARD_ZERO, DOWN, UP)

Operation = Callable[..., np.ndarray]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_I32, _U32, _U64 = np.dtype(np.int32), np.dtype(np.uint32), np.dtype(np.uint64)
_EXPONENT = np.array(0x7F800000, _U32)
# A binary64 halfway between two binary32 neighbours has these bits clear, also where the result is subnormal.
_BELOW_TIE = np.array(0x0FFFFFFF, _U64)
_ONE = np.uint64(1)


def flush(x: np.ndarray) -> np.ndarray:
    """Subnormal float32 numbers become zeros of the same sign (the operand and result rule of `.ftz`)."""
    exponents = x.view(_U32) & _EXPONENT
    if np.count_nonzero(exponents) == exponents.size:
        return x
    return x * (exponents != 0)


def flushing(function: Operation) -> Operation:
    """A float32 `function` with `.ftz`: operands and result flushed."""
    return lambda *operands: flush(function(*map(flush, operands)))


def saturating(function: Operation) -> Operation:
    """`function` with `.sat`: the result clamped to [0, 1], NaN to +0."""

    def saturated(*operands: np.ndarray) -> np.ndarray:
        result = function(*operands)
        zero, one = result.dtype.type(0), result.dtype.type(1)
        return np.fmin(np.fmax(result, zero), one) + zero  # + 0 turns -0 into +0

    return saturated


def two_sum_error(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
    """a + b - total, exactly, where total is the rounded sum."""
    b_part = total - a
    return (a - (total - b_part)) + (b - b_part)


def sum_to_odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b (binary64) rounded to odd: rounding it again to a narrower type is rounding once."""
    total = a + b
    error = two_sum_error(a, b, total)
    if not np.count_nonzero(error):
        return total
    even = (total.view(_U64) & _ONE) == 0
    return np.where(even & (error != 0) & np.isfinite(error), np.nextafter(total, np.copysign(np.inf, error)), total)


def round_f32(value: np.ndarray, mode: str, error: Callable[[], np.ndarray] | None = None) -> np.ndarray:
    """value + error (binary64) rounded once to binary32.

    `error`, called only if some value is a binary32 number already, is at most half a unit of value; without
    it, value must be exact or lie on the same side of its binary32 neighbours as the exact result.
    """
    rounded = value.astype(_F32)
    if mode == NEAREST:
        return rounded
    remainder = value - rounded
    if error is not None and np.count_nonzero(remainder) != remainder.size:
        remainder = np.where(remainder == 0, error(), remainder)
    bits = rounded.view(_I32)
    if mode == TOWARD_ZERO:
        overshoots = (remainder * np.copysign(1.0, rounded)) < 0
        return (bits - overshoots).view(_F32)
    away = (bits >> 31) | 1  # bits + 1 is one unit up for positive numbers, one down for negative ones
    step = away * (remainder > 0) if mode == UP else -away * (remainder < 0)
    return (bits + step).view(_F32)


def _negative_zero_down(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Rounding down, an exactly zero sum is -0 unless both terms are +0."""
    if np.count_nonzero(total) == total.size:
        return total
    return np.where((total == 0) & (np.signbit(a) | np.signbit(b)), -0.0, total)


def _sum_f32(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """a + b of binary64 terms, rounded once to binary32 in a directed mode."""
    total = a + b
    if mode == DOWN:
        total = _negative_zero_down(total, a, b)
    return round_f32(total, mode, lambda: two_sum_error(a, b, total))


def fma_f32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c, rounded once to nearest."""
    product = a.astype(_F64)
    product = product * b.astype(_F64)
    addend = c.astype(_F64)
    total = product + addend
    clear = total.view(_U64) & _BELOW_TIE
    if np.count_nonzero(clear) != clear.size:
        total = _break_ties(total, product, addend)
    return total.astype(_F32)


def _break_ties(total: np.ndarray, product: np.ndarray, addend: np.ndarray) -> np.ndarray:
    """Move sums that only look halfway between two binary32 numbers to the side of the exact sum."""
    suspect = ((total.view(_U64) & _BELOW_TIE) == 0) & (total != total.astype(_F32))
    if not np.count_nonzero(suspect):
        return total
    error = two_sum_error(product, addend, total)
    nudged = np.nextafter(total, np.copysign(np.inf, error))
    return np.where(suspect & (error != 0), nudged, total)


def _wide(function: Operation, mode: str) -> Operation:
    """A binary32 operation whose binary64 result is exact, or certain to lie on the right side."""
    return lambda *operands: round_f32(function(*(x.astype(_F64) for x in operands)), mode)


def _directed_f32(name: str, mode: str) -> Operation:
    if name == "add":
        return lambda a, b: _sum_f32(a.astype(_F64), b.astype(_F64), mode)
    if name == "sub":
        return lambda a, b: _sum_f32(a.astype(_F64), -b.astype(_F64), mode)
    if name == "fma":
        return lambda a, b, c: _sum_f32(a.astype(_F64) * b.astype(_F64), c.astype(_F64), mode)
    # A quotient or root of 24-bit numbers is a 24-bit number or at least 2**-49 away (relative) from all.
    return _wide(_NATIVE[name], mode)


def _two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rounded product, its error), exactly, for magnitudes that neither overflow nor underflow (Dekker)."""

    def split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scaled = x * 134217729.0  # 2**27 + 1
        high = scaled - (scaled - x)
        return high, x - high

    product = a * b
    a_high, a_low = split(a)
    b_high, b_low = split(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def fma_f64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c, rounded once to nearest (Boldo and Melquiond: the last sum is preceded by one to odd)."""
    product, low = _two_product(a, b)
    t_high = c + low
    t_low = two_sum_error(c, low, t_high)
    high = product + t_high
    tail = sum_to_odd(t_low, two_sum_error(product, t_high, high))
    result = high + tail
    plain = product + c
    result = np.where(np.isfinite(result) & (result != 0), result, plain)  # NaN, Inf and the sign of zero
    unsafe = _outside(a, 480) | _outside(b, 480) | _outside(c, 960)
    if np.count_nonzero(unsafe):
        a, b, c, result = (np.array(x) for x in np.broadcast_arrays(a, b, c, result))
        result[unsafe] = _exact_f64("fma", NEAREST)(a[unsafe], b[unsafe], c[unsafe])
    return result


def _outside(x: np.ndarray, exponent: int) -> np.ndarray:
    """Where error-free transforms of x could overflow or underflow. NaN and zero are safe."""
    size = np.abs(x)
    return (size > 2.0**exponent) | ((size < 2.0**-exponent) & (size > 0))


def round_fraction(exact: Fraction, mode: str) -> float:
    """A nonzero rational number rounded once to binary64."""
    try:
        rounded = exact.numerator / exact.denominator
    except OverflowError:
        rounded = math.inf if exact > 0 else -math.inf
    down = mode == DOWN or (mode == TOWARD_ZERO and exact > 0)
    up = mode == UP or (mode == TOWARD_ZERO and exact < 0)
    if down and rounded > exact:
        return math.nextafter(rounded, -math.inf)
    if up and rounded < exact:
        return math.nextafter(rounded, math.inf)
    return rounded


def elementwise(function: Callable[..., object], arity: int, dtype: np.dtype) -> Operation:
    """A scalar Python function over arrays of any shape: for forms too rare to be worth an array formula."""
    ufunc = np.frompyfunc(function, arity, 1)
    return lambda *operands: np.asarray(ufunc(*operands)).astype(dtype)


_EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: Fraction(a) + Fraction(b),
    "sub": lambda a, b: Fraction(a) - Fraction(b),
    "mul": lambda a, b: Fraction(a) * Fraction(b),
    "div": lambda a, b: Fraction(a) / Fraction(b),
    "fma": lambda a, b, c: Fraction(a) * Fraction(b) + Fraction(c),
    "rcp": lambda a: 1 / Fraction(a),
}
_NATIVE: dict[str, Operation] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "rcp": lambda x: x.dtype.type(1) / x,
    "fma": lambda a, b, c: a * b + c,
}
_ARITY = {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "sqrt": 1, "rcp": 1}


def _exact_f64(name: str, mode: str) -> Operation:
    """Any binary64 operation in any mode, one lane at a time through fractions."""

    def special(*operands: float) -> float:
        """Operands of which one is not finite, a division by zero, or an exactly zero result."""
        if name == "fma" and math.isinf(operands[2]) and all(map(math.isfinite, operands[:2])):
            return operands[2]
        result = float(_NATIVE[name](*(np.float64(x) for x in operands)))
        if result == 0 and mode == DOWN and name in ("add", "sub", "fma"):
            a, *rest = operands
            terms = (a * rest[0], rest[1]) if name == "fma" else (a, -rest[0] if name == "sub" else rest[0])
            return -0.0 if any(math.copysign(1.0, term) < 0 for term in terms) else 0.0
        return result

    def square_root(x: float) -> float:
        rounded = math.sqrt(x)
        excess = Fraction(rounded) ** 2 - Fraction(x)
        if mode in (DOWN, TOWARD_ZERO) and excess > 0:
            return math.nextafter(rounded, 0.0)
        if mode == UP and excess < 0:
            return math.nextafter(rounded, math.inf)
        return rounded

    def scalar(*operands: float) -> float:
        if not all(map(math.isfinite, operands)):
            return special(*operands)
        if name == "sqrt":
            return square_root(operands[0]) if operands[0] > 0 else special(*operands)
        if name in ("div", "rcp") and operands[-1] == 0:
            return special(*operands)
        exact = _EXACT[name](*operands)
        return round_fraction(exact, mode) if exact else special(*operands)

    return elementwise(scalar, _ARITY[name], _F64)


def rounded(name: str, mode: str, dtype: np.dtype) -> Operation:
    """`add sub mul div fma sqrt rcp` of float32 or float64 arrays, rounded once in `mode`."""
    if mode == NEAREST:
        return (fma_f32 if dtype == _F32 else fma_f64) if name == "fma" else _NATIVE[name]
    return _directed_f32(name, mode) if dtype == _F32 else _exact_f64(name, mode)
