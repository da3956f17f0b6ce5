"""`cvt` between all widths and kinds, `.sat` sums, and the packing forms of `mov`."""

from __future__ import annotations

from collections.abc import Set
from fractions import Fraction

import numpy as np

from leap_jax.kernels.emulator import floats, integers
from leap_jax.kernels.emulator.rounding import (
    MODES,
    NEAREST,
    TOWARD_ZERO,
    Operation,
    elementwise,
    flush,
    round_f32,
    round_fraction,
    saturating,
)

_TO_INTEGRAL: dict[str, Operation] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_INTEGERS = {f"{kind}{8 * size}": np.dtype(f"{code}{size}") for kind, code in ("uu", "si") for size in (1, 2, 4, 8)}
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def conversion(destination: str, source: str, flags: Set[str]) -> Operation | None:
    """The function of `cvt.<flags>.<destination>.<source>`; None for a form that is not modelled."""
    if "tf32" in (destination, source):
        return _to_tf32(flags) if source == "f32" and "satfinite" not in flags else None
    if destination in _F8_PAIRS or source in _F8_PAIRS:
        return _f8_pair(destination, source, flags)
    if "satfinite" in flags:
        return None
    if destination in ("f16x2", "bf16x2"):
        return _pack_halves(destination, source, flags)
    if source in _INTEGERS:
        if destination in _INTEGERS:
            return _integer_to_integer(_INTEGERS[destination], _INTEGERS[source], "sat" in flags)
        return _integer_to_float(destination, _INTEGERS[source], flags)
    if source not in ("f16", "bf16", "f32", "f64"):
        return None
    if destination in _INTEGERS:
        return _float_to_integer(_INTEGERS[destination], source, flags)
    return _float_to_float(destination, source, flags)


def _mode(flags: Set[str]) -> str:
    return next((mode for mode in MODES if mode in flags), NEAREST)


def _integer_to_integer(destination: np.dtype, source: np.dtype, saturate: bool) -> Operation:
    if not saturate:
        return lambda x: x.astype(destination)
    bounds, limits = np.iinfo(destination), np.iinfo(source)
    low, high = source.type(max(bounds.min, limits.min)), source.type(min(bounds.max, limits.max))
    return lambda x: np.minimum(np.maximum(x, low), high).astype(destination)


def _float_to_integer(destination: np.dtype, source: str, flags: Set[str]) -> Operation | None:
    """Rounded to an integer and clamped. NaN gives 0; from f64 or to 64 bits, the top bit alone."""
    name = next((name for name in _TO_INTEGRAL if name in flags), None)
    if name is None:
        return None
    integral = _TO_INTEGRAL[name]
    widen = _widen(source, "ftz" in flags)
    info = np.iinfo(destination)
    lowest, highest = destination.type(info.min), destination.type(info.max)
    below, above = float(info.min), float(info.max + 1)
    top_bit = source == "f64" or destination.itemsize == 8
    nan = destination.type((info.min if info.min else info.max // 2 + 1) if top_bit else 0)

    def convert(x: np.ndarray) -> np.ndarray:
        value = integral(widen(x))
        inside = (value >= below) & (value < above)
        if np.count_nonzero(inside) == inside.size:
            return value.astype(destination)
        outside = np.where(value > 0, highest, np.where(value < 0, lowest, nan))
        return np.where(inside, np.where(inside, value, 0.0).astype(destination), outside)

    return convert


def _widen(source: str, ftz: bool) -> Operation:
    """Any float type to binary64."""
    decode = floats.DECODE.get(source, lambda x: x.astype(_F64))
    return (lambda x: decode(flush(x))) if ftz and source == "f32" else decode


def _narrow(destination: str, mode: str) -> Operation | None:
    """binary64 to any float type, rounded once."""
    if destination == "f64":
        return lambda x: x
    if destination == "f32":
        return lambda x: round_f32(x, mode)
    if mode == NEAREST:
        return floats.ENCODE.get(destination)
    if destination == "f16":
        return lambda x: floats.round_f16(x, mode)
    return floats.truncate_bf16 if destination == "bf16" and mode == TOWARD_ZERO else None


def _integer_to_float(destination: str, source: np.dtype, flags: Set[str]) -> Operation | None:
    mode = _mode(flags)
    if mode == NEAREST and destination in ("f32", "f64"):
        dtype = _F32 if destination == "f32" else _F64
        convert: Operation = lambda x: x.astype(dtype)  # noqa: E731
    else:
        narrow = _narrow(destination, mode)
        if narrow is None:
            return None
        widen = _integer_to_odd_f64 if source.itemsize == 8 else lambda x: x.astype(_F64)
        convert = lambda x: narrow(widen(x))  # noqa: E731
        if destination == "f64" and source.itemsize == 8:
            convert = elementwise(lambda x: round_fraction(Fraction(x), mode) if x else 0.0, 1, _F64)
    return saturating(convert) if "sat" in flags and destination in ("f32", "f64") else convert


def _integer_to_odd_f64(x: np.ndarray) -> np.ndarray:
    """64-bit integers to binary64, rounded to odd: rounding the result again is rounding once."""
    kind = x.dtype.type
    low = x & kind(0xFFF)
    kept = (x ^ low) | ((low != 0).astype(x.dtype) << kind(11))
    wide = np.abs(x.astype(_F64)) >= 2.0**53
    return np.where(wide, kept, x).astype(_F64)


def _float_to_float(destination: str, source: str, flags: Set[str]) -> Operation | None:
    if destination not in ("f16", "bf16", "f32", "f64"):
        return None
    widen, narrow = _widen(source, "ftz" in flags), _narrow(destination, _mode(flags))
    if narrow is None:
        return None
    integral = next((_TO_INTEGRAL[name] for name in _TO_INTEGRAL if name in flags), None)
    if source == destination == "f32":  # exact: stays in binary32
        widen, narrow = (flush if "ftz" in flags else lambda x: x), lambda x: x
    elif source == "f32" and destination == "f64" and "ftz" not in flags:
        narrow = lambda x: x  # noqa: E731
    steps = [widen]
    if integral is not None:
        steps.append(integral)
    if "sat" in flags:
        steps.append(saturating(lambda x: x))
    if "relu" in flags:
        steps.append(lambda x: np.where(x < 0, x.dtype.type(0), x))
    steps.append(narrow)
    if "ftz" in flags and destination == "f32":
        steps.append(flush)
    return _composed(steps)


def _composed(steps: list[Operation]) -> Operation:
    def apply(x: np.ndarray) -> np.ndarray:
        for step in steps:
            x = step(x)
        return x

    return apply


def _pack_halves(destination: str, source: str, flags: Set[str]) -> Operation | None:
    """`cvt.rn.f16x2.f32 d, a, b`: a in the high half, b in the low one."""
    convert = _float_to_float(destination.removesuffix("x2"), source, flags) if source == "f32" else None
    return None if convert is None else lambda a, b: integers.pack([convert(b), convert(a)])


def _to_tf32(flags: Set[str]) -> Operation | None:
    """f32 rounded to 10 fraction bits; `.rna` breaks ties away from zero. NaN and Inf are kept."""
    mode = next((mode for mode in ("rna", NEAREST, TOWARD_ZERO) if mode in flags), None)
    if mode is None or flags - {mode, "relu"}:
        return None

    def convert(x: np.ndarray) -> np.ndarray:
        x = np.where(x < 0, np.float32(0), x) if "relu" in flags else x
        bits = x.view(np.uint32)
        half = {"rna": np.uint32(0x1000), TOWARD_ZERO: np.uint32(0)}.get(mode)
        if half is None:
            half = np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
        return np.where(np.isfinite(x), (bits + half) & np.uint32(0xFFFFE000), bits)

    return convert


_F8_PAIRS = {"e4m3x2": "e4m3", "e5m2x2": "e5m2"}


def _f8_pair(destination: str, source: str, flags: Set[str]) -> Operation | None:
    """Two 8-bit floats: from two f32 (the first in the high byte) or an f16x2, and to an f16x2."""
    if flags - {"rn", "satfinite", "relu"} or "rn" not in flags:
        return None
    relu: Operation = (lambda x: np.where(x < 0, 0.0, x)) if "relu" in flags else lambda x: x
    if source in _F8_PAIRS:
        values = floats.f8_values(_F8_PAIRS[source])

        def widen(pair: np.ndarray) -> np.ndarray:
            low, high = (
                relu(values[pair >> np.uint16(shift) & np.uint16(0xFF)]).astype(np.float16) for shift in (0, 8)
            )
            return integers.pack([low, high])

        return widen if destination == "f16x2" and "satfinite" not in flags else None
    if "satfinite" not in flags or source not in ("f32", "f16x2"):
        return None
    kind = _F8_PAIRS[destination]

    def narrow(high: np.ndarray, low: np.ndarray) -> np.ndarray:
        low, high = (floats.to_f8(relu(x.astype(_F64)), kind).astype(np.uint16) for x in (low, high))
        return low | high << np.uint16(8)

    if source == "f32":
        return narrow
    return lambda pair: narrow(*integers.lanes_of(pair, np.dtype(np.float16))[::-1])


def saturating_sum(operation: Operation, dtype: np.dtype) -> Operation:
    """`add.sat.s32` and the like: the sum clamped to the type's range."""
    info = np.iinfo(dtype)
    low, high = np.int64(info.min), np.int64(info.max)

    def saturated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        total = operation(a.astype(np.int64), b.astype(np.int64))
        return np.minimum(np.maximum(total, low), high).astype(dtype)

    return saturated


def joined(dtype: np.dtype) -> Operation:
    """`mov r, {a, b, ...}`: elements (low first) joined into one word."""
    width = dtype.itemsize * 8

    def join(*elements: np.ndarray) -> np.ndarray:
        step = width // len(elements)
        word = elements[0].astype(dtype)
        for index, element in enumerate(elements[1:], 1):
            word = word | (element.astype(dtype) << dtype.type(index * step))
        return word

    return join


def split(part: np.dtype, count: int) -> Operation:
    """`mov {a, b, ...}, r`: a word split into elements, low first."""
    step = part.itemsize * 8

    def cut(word: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple((word >> word.dtype.type(index * step)).astype(part) for index in range(count))

    return cut
