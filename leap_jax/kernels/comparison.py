"""Outputs against the fp64 reference: which elements are wrong, and what the error looks like."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from leap_jax.kernels.verdict import Mismatch

MIN_TAGGED = 2  # a pattern needs at least this many wrong elements to be one


def wrong_elements(got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """Boolean mask of `got`'s shape. Floats: `not (|y - r| <= atol + rtol |r|)`; integers: not equal.

    NaN agrees with NaN only, Inf with the same Inf only; an |r| beyond the range of the dtype is Inf.
    """
    if got.dtype.kind != "f":
        return got != want
    with np.errstate(all="ignore"):
        want = in_range(want, got.dtype)
        y = got.astype(np.float64)
        close = np.abs(y - want) <= atol + rtol * np.abs(want)
        exact = (y == want) | (np.isnan(y) & np.isnan(want))
        return ~np.where(np.isfinite(want) & np.isfinite(y), close, exact)


def in_range(want: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The reference in fp64, with values that `dtype` rounds to Inf as Inf."""
    with np.errstate(all="ignore"):
        overflows = np.isinf(want.astype(dtype))
        return np.where(overflows, np.copysign(np.inf, want), want.astype(np.float64))


def compare(
    output: str,
    got: np.ndarray,
    want: np.ndarray,
    defined: np.ndarray,
    *,
    rtol: float,
    atol: float,
    shape: Mapping[str, int],
    regime: str,
    public: bool,
) -> Mismatch | None:
    """How `got` differs from `want` (both of the output's shape); None where it does not.

    `defined`: which elements the kernels wrote at all. An element never written is wrong whatever it holds.
    """
    wrong = wrong_elements(got, want, rtol, atol) | ~defined
    if not wrong.any():
        return None
    index = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    return Mismatch(
        output=output,
        wrong=int(wrong.sum()),
        total=wrong.size,
        index=tuple(int(i) for i in index),
        got=shown(got[index]) if defined[index] else "unwritten",
        want=shown(want[index]),
        pattern=pattern(got, want, wrong, defined, rtol, atol),
        shape=dict(shape),
        regime=regime,
        public=public,
    )


def unsteady(
    output: str, first: np.ndarray, again: np.ndarray, *, shape: Mapping[str, int], regime: str, public: bool
) -> Mismatch | None:
    """How two runs on the same input differ, bit for bit; None where they do not."""
    bits = f"u{first.itemsize}"
    differs = first.view(bits) != again.view(bits)
    if not differs.any():
        return None
    index = np.unravel_index(int(np.argmax(differs)), differs.shape)
    return Mismatch(
        output=output,
        wrong=int(differs.sum()),
        total=differs.size,
        index=tuple(int(i) for i in index),
        got=shown(first[index]),
        want=shown(again[index]),
        pattern="nondeterministic",
        shape=dict(shape),
        regime=regime,
        public=public,
    )


def pattern(got: np.ndarray, want: np.ndarray, wrong: np.ndarray, defined: np.ndarray, rtol: float, atol: float) -> str:
    """The tag of a mismatch: the first that fits, most telling first; `some` if none does."""
    if not defined.any():
        return "untouched"
    if wrong.sum() < MIN_TAGGED:
        return _position(wrong)
    values = got[wrong & defined]
    if values.size and got.dtype.kind == "f" and np.isnan(values).all() and wrong.all():
        return "all_nan"
    if defined.all() and not got.any():
        return "all_zero"
    position = _position(wrong)
    if position != "some":
        return position
    if not defined.all():
        return "some"
    return _moved(got, want, rtol, atol) or _offset_or_scale(got, want, wrong, rtol, atol) or "some"


def shown(value: np.generic) -> str:
    """`1.25`, `nan`, `7`: at most six significant digits for a float."""
    return f"{value:.6g}" if np.issubdtype(type(value), np.floating) else str(value)


def _position(wrong: np.ndarray) -> str:
    """`last_tile`: the wrong elements are exactly the last ones; `first_block_only`: over half of all are."""
    flat = wrong.ravel()
    first = int(np.argmax(flat))
    if first == 0 or not flat[first:].all():
        return "some"
    return "last_tile" if 2 * first >= flat.size else "first_block_only"


def _moved(got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> str | None:
    """`transposed` or `shifted` by one along the flat order."""
    if got.ndim == 2 and min(got.shape) > 1:
        as_transposed = got.reshape(got.shape[::-1]).T
        if not wrong_elements(as_transposed, want, rtol, atol).any():
            return "transposed"
    y, r = got.ravel(), want.ravel()
    if y.size > 2 and not (r == r[0]).all():
        for a, b in ((y[1:], r[:-1]), (y[:-1], r[1:])):
            if not wrong_elements(a, b, rtol, atol).any():
                return "shifted"
    return None


def _offset_or_scale(got: np.ndarray, want: np.ndarray, wrong: np.ndarray, rtol: float, atol: float) -> str | None:
    """`constant_offset` (y = r + c) or `scaled` (y = c r) over the finite elements."""
    y, r = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
    finite = np.isfinite(y) & np.isfinite(r)
    if finite.sum() <= MIN_TAGGED or (wrong.ravel() & ~finite).any():
        return None
    y, r = y[finite], r[finite]
    with np.errstate(all="ignore"):
        largest = int(np.argmax(np.abs(r)))
        scale = y[largest] / r[largest]
        offset = np.median(y - r)
        loose_rtol, loose_atol = 4 * rtol, 4 * atol  # the factor itself carries an error
        if np.isfinite(scale) and scale != 0 and np.allclose(y, scale * r, loose_rtol, loose_atol):
            return "scaled"
        if abs(offset) > atol and np.allclose(y, r + offset, loose_rtol, loose_atol):
            return "constant_offset"
    return None
