"""Integer operations of PTX that NumPy lacks, on arrays of one unsigned or signed type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_PRMT_SELECTORS = {  # the four byte selectors for c & 3
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}

COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}


def bits_of(x: np.ndarray) -> int:
    """Width of the type of x in bits."""
    return x.dtype.itemsize * 8


def unsigned(dtype: np.dtype) -> np.dtype:
    """The unsigned type of the same width."""
    return np.dtype(f"u{dtype.itemsize}")


def multiply_high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of the full product."""
    width = bits_of(a)
    if width < 64:
        wide = np.dtype(f"{a.dtype.kind}{a.dtype.itemsize * 2}")
        return ((a.astype(wide) * b.astype(wide)) >> wide.type(width)).astype(a.dtype)
    x, y = a.view(np.uint64), b.view(np.uint64)
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    x_low, x_high, y_low, y_high = x & mask, x >> half, y & mask, y >> half
    middle = x_high * y_low + ((x_low * y_low) >> half)
    other = x_low * y_high + (middle & mask)
    high = x_high * y_high + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":  # a signed operand below zero stands for 2**64 less
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return high.view(a.dtype)


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quotient rounded toward zero; all ones for a zero divisor."""
    if a.dtype.itemsize < 8:
        # Exact: a fraction of 32-bit integers that is no integer differs from one by more than binary64 rounds.
        quotient = np.true_divide(a, b, dtype=np.float64).astype(a.dtype)
    elif a.dtype.kind == "u":
        quotient = a // b
    else:
        quotient = (a - np.fmod(a, b)) // b
    return quotient if np.count_nonzero(b) == b.size else np.where(b == 0, ~a.dtype.type(0), quotient)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b * quotient, of the sign of a; a itself for a zero divisor."""
    return np.where(b == 0, a, np.fmod(a, b))


def shift_amount(count: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """An unsigned 32-bit shift count as `dtype`, past the width if it was (NumPy then fills like PTX)."""
    if dtype.itemsize == 4:
        return count.view(dtype)
    return count.astype(dtype) if dtype.itemsize == 8 else np.minimum(count, np.uint32(64)).astype(dtype)


def bit_length(x: np.ndarray) -> np.ndarray:
    """Bits needed for the unsigned value (uint32): 0 for 0."""
    if bits_of(x) == 64:
        high = (x >> np.uint64(32)).astype(np.uint32)
        low = x.astype(np.uint32)
        return np.where(high != 0, bit_length(high) + np.uint32(32), bit_length(low))
    return np.frexp(x.astype(np.float64))[1].astype(np.uint32)


def leading_zeros(x: np.ndarray) -> np.ndarray:
    return np.uint32(bits_of(x)) - bit_length(x)


def find_leading(x: np.ndarray, shift_amount: bool) -> np.ndarray:
    """Position of the first bit (from the top) that is not a sign bit; all ones if there is none."""
    pattern = np.where(x < 0, ~x, x).view(unsigned(x.dtype)) if x.dtype.kind == "i" else x
    length = bit_length(pattern)
    found = np.uint32(bits_of(x)) - length if shift_amount else length - np.uint32(1)
    return np.where(length == 0, np.uint32(0xFFFFFFFF), found)


def reverse_bits(x: np.ndarray) -> np.ndarray:
    kind = x.dtype.type
    ones = int(np.iinfo(x.dtype).max)
    for shift, pattern in ((4, 0x0F), (2, 0x33), (1, 0x55)):
        mask, count = kind(ones // 0xFF * pattern), kind(shift)
        x = ((x >> count) & mask) | ((x & mask) << count)
    return x.byteswap()


def extract_bits(x: np.ndarray, position: np.ndarray, length: np.ndarray) -> np.ndarray:
    """`bfe`: the field of `length` bits at `position`, sign-extended for signed x; counts are modulo 256."""
    width = bits_of(x)
    position, length = (
        (position & np.uint32(0xFF)).astype(np.int32),
        (length & np.uint32(0xFF)).astype(np.int32),
    )
    left = np.maximum(np.int32(width) - position - length, np.int32(0))
    right = np.minimum(left + position, np.int32(width))  # width: nothing but the fill is left
    field = (x << left.astype(x.dtype)) >> right.astype(x.dtype)
    return np.where(length == 0, x.dtype.type(0), field)


def insert_bits(field: np.ndarray, base: np.ndarray, position: np.ndarray, length: np.ndarray) -> np.ndarray:
    """`bfi`: the low `length` bits of `field` put into `base` at `position`; counts are modulo 256."""
    kind = base.dtype.type
    position = shift_amount(position & np.uint32(0xFF), base.dtype)
    length = shift_amount(length & np.uint32(0xFF), base.dtype)
    mask = ((kind(1) << length) - kind(1)) << position  # a length past the width: 0 - 1, all ones
    return (base & ~mask) | ((field << position) & mask)


def permute_bytes(a: np.ndarray, b: np.ndarray, selector: np.ndarray, mode: str | None) -> np.ndarray:
    """`prmt.b32`: four bytes chosen from b:a; bit 3 of a selector replicates the sign of the byte."""
    if mode is not None:
        selector = np.array(_PRMT_SELECTORS[mode], np.uint32)[selector & np.uint32(3)]
    source = a.astype(np.uint64) | (b.astype(np.uint64) << np.uint64(32))
    result = np.uint32(0)
    for index in range(4):
        choice = selector >> np.uint32(4 * index)
        byte = (source >> ((choice & np.uint32(7)) * np.uint32(8)).astype(np.uint64)).astype(np.uint32)
        byte = byte & np.uint32(0xFF)
        sign = (byte >> np.uint32(7)) * np.uint32(0xFF)
        byte = np.where(choice & np.uint32(8), sign, byte)
        result = result | (byte << np.uint32(8 * index))
    return result


def constant_permutation(selector: int) -> Callable[..., np.ndarray]:
    """`prmt.b32` with a selector known beforehand."""

    def permute(a: np.ndarray, b: np.ndarray, _: np.ndarray) -> np.ndarray:
        result = np.uint32(0)
        for index in range(4):
            choice = selector >> 4 * index
            byte = ((b if choice & 4 else a) >> np.uint32(8 * (choice & 3))) & np.uint32(0xFF)
            if choice & 8:
                byte = (byte >> np.uint32(7)) * np.uint32(0xFF)
            result = result | (byte << np.uint32(8 * index))
        return result

    return permute


def funnel_shift(low: np.ndarray, high: np.ndarray, count: np.ndarray, left: bool, clamp: bool) -> np.ndarray:
    """`shf`: 32 bits of high:low shifted; the count wraps modulo 32 or stops at 32."""
    count = np.minimum(count, np.uint32(32)) if clamp else count & np.uint32(31)
    pair = (high.astype(np.uint64) << np.uint64(32)) | low
    count = count.astype(np.uint64)
    return (((pair << count) >> np.uint64(32)) if left else (pair >> count)).astype(np.uint32)


def lookup3(a: np.ndarray, b: np.ndarray, c: np.ndarray, table: int) -> np.ndarray:
    """`lop3`: bit (4 a + 2 b + c) of `table`, for every bit position."""
    result = np.zeros_like(a)
    for row in range(8):
        if table >> row & 1:
            result = result | ((a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c))
    return result


def absolute_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.maximum(a, b) - np.minimum(a, b)


def lanes_of(x: np.ndarray, lane: np.dtype) -> list[np.ndarray]:
    """The packed `lane`-typed elements of 32-bit words, low element first."""
    raw = unsigned(lane)
    return [(x >> np.uint32(shift)).astype(raw).view(lane) for shift in range(0, 32, lane.itemsize * 8)]


def pack(elements: list[np.ndarray]) -> np.ndarray:
    """Elements (low first) of 8 or 16 bits packed into a 32-bit word."""
    width = elements[0].dtype.itemsize * 8
    result = np.uint32(0)
    for index, element in enumerate(elements):
        bits = element.view(unsigned(element.dtype)).astype(np.uint32)
        result = result | (bits << np.uint32(index * width))
    return result


def dot_product(a_lane: np.dtype, b_lane: np.dtype, half: int) -> Callable[..., np.ndarray]:
    """`dp4a` / `dp2a`: c plus the products of packed elements of a and b; `half` picks the bytes for dp2a."""

    def dot(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        left = lanes_of(a, a_lane)
        right = lanes_of(b, b_lane)[half * len(left) :][: len(left)]
        total = c.astype(np.int64)
        for x, y in zip(left, right, strict=True):
            total = total + x.astype(np.int64) * y.astype(np.int64)
        return total.astype(c.dtype)

    return dot


def absolute_differences(lane: np.dtype, accumulate: bool) -> Callable[..., np.ndarray]:
    """`vabsdiff4`: |a - b| of four bytes; `.add` sums them into c, otherwise they are the result."""

    def differences(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        pairs = zip(lanes_of(a, lane), lanes_of(b, lane), strict=True)
        parts = [absolute_difference(x, y).view(np.uint8) for x, y in pairs]
        if not accumulate:
            return pack(parts)
        return sum((part.astype(np.uint32) for part in parts), start=c)

    return differences
