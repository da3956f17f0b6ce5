"""Opcode semantics against exact fractions, Python integers and wider NumPy types."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.kernels.emulator import ir, isa, ptx

MODES = ("rn", "rz", "rm", "rp")
F32 = (24, -126, 127)  # precision, smallest and largest exponent of normal numbers
F64 = (53, -1022, 1023)
F16 = (11, -14, 15)
BF16 = (8, -126, 127)
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}

pytestmark = pytest.mark.filterwarnings("error")


def instruction(text: str) -> ir.Instruction:
    module = ptx.parse(f".version 9.0 .target sm_90 .address_size 64 .func f() {{ .reg .pred %p<9>; {text}; }}")
    return module.functions["f"].instructions[-1]


def run(text: str, *operands: np.ndarray) -> np.ndarray | tuple[np.ndarray, ...]:
    """The instruction on operands that are viewed (not converted) as its source types."""
    form = isa.arithmetic(instruction(text))
    assert len(form.sources) == len(operands)
    arrays = []
    for operand, code in zip(operands, form.sources, strict=True):
        array = np.asarray(operand)
        arrays.append(array.view(isa.DTYPES[code]) if array.ndim else np.asarray(array, isa.DTYPES[code]))
    with np.errstate(all="ignore"):
        result = form.function(*arrays)
    results = result if isinstance(result, tuple) else (result,)
    assert [r.dtype for r in results] == [isa.DTYPES[code] for code in form.results]
    return result


def same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Equal bit for bit, any NaN standing for any other."""
    actual, expected = np.broadcast_arrays(actual, expected)
    assert actual.dtype == expected.dtype
    if actual.dtype.kind == "f":
        nan = np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(actual), nan)
        raw = f"u{actual.dtype.itemsize}"
        actual, expected = actual[~nan].view(raw), expected[~nan].view(raw)
    np.testing.assert_array_equal(actual, expected)


def quantise(exact: Fraction, form: tuple[int, int, int], mode: str) -> float:
    """A nonzero rational number rounded to a binary format, from the definition."""
    precision, smallest, largest = form
    size, sign = abs(exact), -1.0 if exact < 0 else 1.0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** (max(exponent, smallest) - precision + 1)
    below = math.floor(exact / unit)
    rest = exact / unit - below
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1),
        "rz": rest > 0 and exact < 0,
        "rm": False,
        "rp": rest > 0,
    }[mode]
    rounded = (below + up) * unit
    maximum = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** largest
    if abs(rounded) > maximum:
        away = mode == "rn" or (mode == "rp" and exact > 0) or (mode == "rm" and exact < 0)
        return sign * (math.inf if away else float(maximum))
    return sign * abs(float(rounded))


def special_zero(values: tuple[float, ...], native: float, name: str, mode: str) -> float:
    """The native result where IEEE has no rational one; an exact zero sum is -0 when rounding down."""
    if native == 0 and mode == "rm" and name in ("add", "sub", "fma"):
        if name == "fma":
            terms = [math.copysign(1, values[0]) * math.copysign(1, values[1]), values[2]]
        else:
            terms = [values[0], -values[1] if name == "sub" else values[1]]
        return -0.0 if any(math.copysign(1, term) < 0 for term in terms) else 0.0
    return native


def exact_operation(name: str, values: tuple[float, ...], form: tuple[int, int, int], mode: str) -> float:
    with np.errstate(all="ignore"):
        a, *rest = (np.float64(v) for v in values)
        native = {
            "add": lambda: a + rest[0],
            "sub": lambda: a - rest[0],
            "mul": lambda: a * rest[0],
            "div": lambda: a / rest[0],
            "rcp": lambda: 1 / a,
            "fma": lambda: rest[1] if np.isinf(rest[1]) and np.isfinite(a * 0 + rest[0]) else a * rest[0] + rest[1],
        }[name]()
    by_zero = (name == "div" and values[1] == 0) or (name == "rcp" and values[0] == 0)
    if not all(map(math.isfinite, values)) or by_zero:
        return float(native)
    x, *others = map(Fraction, values)
    exact = {
        "add": lambda: x + others[0],
        "sub": lambda: x - others[0],
        "mul": lambda: x * others[0],
        "div": lambda: x / others[0],
        "rcp": lambda: 1 / x,
        "fma": lambda: x * others[0] + others[1],
    }[name]()
    return quantise(exact, form, mode) if exact else special_zero(values, float(native), name, mode)


def edges(code: str) -> np.ndarray:
    """Zeros, subnormals, limits, neighbours of powers of two, Inf, NaN."""
    info = np.finfo({"f16": np.float16, "f32": np.float32, "f64": np.float64}[code])
    kind = info.dtype.type
    positive = [0, info.smallest_subnormal, 3 * info.smallest_subnormal, info.smallest_normal]
    positive += [info.smallest_normal - info.smallest_subnormal, 1, 1 + info.eps, 1 - info.epsneg, 1.5, 3, 1 / 3]
    positive += [info.max, info.max / 2, np.inf]
    values = np.array([kind(v) for v in positive], info.dtype)
    return np.concatenate([values, -values, np.array([np.nan], info.dtype)])


def any_floats(code: str, count: int, seed: int) -> np.ndarray:
    """Uniform over bit patterns: every exponent, NaN and Inf too."""
    size = {"f16": 2, "f32": 4, "f64": 8}[code]
    return np.random.default_rng(seed).integers(0, 256, count * size, np.uint8).view(f"f{size}")


def float_operands(code: str, operands: int, seed: int = 0, count: int = 200) -> list[np.ndarray]:
    """Edges against edges, any bits, and numbers of similar size (where sums round)."""
    rng = np.random.default_rng(seed)
    corner = edges(code)
    if operands < 3:
        grid = np.array(list(itertools.product(corner, repeat=operands)), corner.dtype).T
    else:
        grid = rng.choice(corner, (operands, 400))
    wild = [any_floats(code, count, seed + i) for i in range(operands)]
    close = (rng.standard_normal((operands, count)) * 2.0 ** rng.integers(-14, 14, (operands, count))).astype(
        corner.dtype
    )
    return [np.concatenate([grid[i], wild[i], close[i]]) for i in range(operands)]


ARITY = {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "rcp": 1, "sqrt": 1}
NAMES = "abc"


def form_of(opcode: str, operands: int) -> str:
    return f"{opcode} d, {', '.join(NAMES[:operands])}"


# Rounded arithmetic


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("code", ["f32", "f64"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "fma", "rcp"])
def test_rounded_arithmetic_is_exact(name, code, mode):
    operands = float_operands(code, ARITY[name], count=100)
    expected = [
        exact_operation(name, values, FORMATS[code], mode)
        for values in zip(*map(np.ndarray.tolist, operands), strict=True)
    ]
    same(run(form_of(f"{name}.{mode}.{code}", ARITY[name]), *operands), np.array(expected, operands[0].dtype))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("code", ["f32", "f64"])
def test_square_root_is_exact(code, mode):
    (x,) = float_operands(code, 1)
    result = run(f"sqrt.{mode}.{code} d, a", x)
    for value, root in zip(x.tolist(), result.tolist(), strict=True):
        if not value > 0 or math.isinf(value):
            same(
                np.array([root]),
                np.sqrt(np.array([value])) if value >= 0 else np.array([value + math.nan if value else value]),
            )
            continue
        # Neighbours of the root in 2**-200 steps decide on which side it lies.
        scaled = math.isqrt(int(Fraction(value) * 2**2600))
        exact = (
            Fraction(2 * scaled + 1, 2**1301)
            if Fraction(scaled, 2**1300) ** 2 != Fraction(value)
            else Fraction(scaled, 2**1300)
        )
        assert root == quantise(exact, FORMATS[code], mode)


def test_fma_f32_where_the_binary64_sum_lies_on_a_tie():
    # 1 + 2**-23 is odd, 1 + 2**-22 even: without the tail the tie goes to even, with it to the right side.
    one, tail = 1 + 2.0**-23, 2.0**-80
    a = np.array([2.0**-24, 2.0**-24, 2.0**-12, 3 * 2.0**-75, 2.0**-75], np.float32)
    b = np.array([1, 1, 2.0**-12, 2.0**-75, 2.0**-75], np.float32)
    same(
        run("fma.rn.f32 d, a, b, c", a, b, np.array([1, one, 1, 2.0**-149, 0], np.float32)),
        np.array([1, 1 + 2.0**-22, 1, 2.0**-148, 0], np.float32),
    )
    x = np.array([1 + 2.0**-12], np.float32)  # x * x = 1 + 2**-11 + 2**-24, halfway
    for sign, last in ((1, 2.0**-23), (-1, 0)):
        c = np.array([sign * tail], np.float32)
        same(run("fma.rn.f32 d, a, b, c", x, x, c), np.array([1 + 2.0**-11 + last], np.float32))


def test_fma_f32_on_products_that_are_ties():
    """Products of 24-bit numbers that are halfway numbers, with addends far below."""
    rng = np.random.default_rng(1)
    odd = rng.integers(2**11, 2**12, 300) * 2 + 1
    a = odd.astype(np.float32)
    b = (rng.integers(2**10, 2**11, 300) * 2 + 1).astype(np.float32) * np.float32(2.0**-140)
    c = (rng.choice([-1.0, 1.0], 300) * 2.0 ** rng.integers(-149, -100, 300)).astype(np.float32)
    for scale in (1, 2.0**100):
        operands = [a, b * np.float32(scale), c]
        expected = [exact_operation("fma", v, F32, "rn") for v in zip(*map(np.ndarray.tolist, operands), strict=True)]
        same(run("fma.rn.f32 d, a, b, c", *operands), np.array(expected, np.float32))


@settings(max_examples=60, deadline=None)
@given(*[st.floats(width=32, allow_nan=False, allow_infinity=False)] * 3, st.sampled_from(MODES))
def test_fma_f32_property(a, b, c, mode):
    operands = [np.array([v], np.float32) for v in (a, b, c)]
    expected = exact_operation("fma", (a, b, c), F32, mode)
    same(run(f"fma.{mode}.f32 d, a, b, c", *operands), np.array([expected], np.float32))


@settings(max_examples=60, deadline=None)
@given(*[st.floats(allow_nan=False, allow_infinity=False)] * 3)
def test_fma_f64_property(a, b, c):
    operands = [np.array([v]) for v in (a, b, c)]
    same(run("fma.rn.f64 d, a, b, c", *operands), np.array([exact_operation("fma", (a, b, c), F64, "rn")]))


@pytest.mark.parametrize("name", ["add", "mul", "fma"])
@pytest.mark.parametrize("code", ["f16", "bf16"])
def test_sixteen_bit_floats_round_once(name, code):
    rng = np.random.default_rng(3)
    bits = [rng.integers(0, 2**16, 1500).astype(np.uint16) for _ in range(ARITY[name])]
    decode = {"f16": lambda x: x.view(np.float16), "bf16": lambda x: (x.astype(np.uint32) << 16).view(np.float32)}[code]
    with np.errstate(invalid="ignore"):  # signalling NaNs among the bits
        values = list(zip(*(decode(x).astype(np.float64).tolist() for x in bits), strict=True))
    expected = np.array([exact_operation(name, v, FORMATS[code], "rn") for v in values])
    opcode = f"{name}.rn.{code}"
    actual = run(form_of(opcode, ARITY[name]), *bits)
    with np.errstate(invalid="ignore"):
        same(decode(actual.view(np.uint16)).astype(np.float64), expected)
    pairs = [x.view(np.uint32) for x in bits]
    packed = run(form_of(f"{opcode}x2", ARITY[name]), *pairs).view(np.uint16)
    with np.errstate(invalid="ignore"):
        same(decode(packed).astype(np.float64), expected)


def test_bf16_fma_with_a_product_on_a_tie():
    def bf16(x: float) -> np.ndarray:
        return (np.array([x], np.float32).view(np.uint32) >> 16).astype(np.uint16)

    x = 1 + 2.0**-4  # squared: 1 + 2**-3 + 2**-8, halfway
    for c, last in ((2.0**-100, 2.0**-7), (-(2.0**-100), 0.0)):
        result = run("fma.rn.bf16 d, a, b, c", bf16(x), bf16(x), bf16(c))
        assert result == bf16(1 + 2.0**-3 + last)


def test_ftz_flushes_operands_and_results():
    tiny = np.float32(2.0**-127)
    x = np.array([tiny, -tiny, 2.0**-126, np.inf, np.nan], np.float32)
    same(run("add.ftz.f32 d, a, b", x, np.zeros_like(x)), np.array([0, 0, 2.0**-126, np.inf, np.nan], np.float32))
    same(run("mul.ftz.f32 d, a, b", x, np.ones_like(x)), np.array([0, -0.0, 2.0**-126, np.inf, np.nan], np.float32))
    half = np.full_like(x, 0.5)
    same(run("mul.ftz.f32 d, a, b", x, half), np.array([0, -0.0, 0, np.inf, np.nan], np.float32))
    same(run("mul.f32 d, a, b", x[:3], half[:3]), np.array([2.0**-128, -(2.0**-128), 2.0**-127], np.float32))
    same(run("setp.eq.ftz.f32 p, a, b", x, np.zeros_like(x)), np.array([True, True, False, False, False]))


def test_sat_clamps_to_the_unit_interval():
    x = np.array([-1, -0.0, 0.25, 2, np.inf, -np.inf, np.nan], np.float32)
    same(run("add.sat.f32 d, a, b", x, np.zeros_like(x)), np.array([0, 0, 0.25, 1, 1, 0, 0], np.float32))
    same(run("cvt.sat.f32.f32 d, a", x), np.array([0, 0, 0.25, 1, 1, 0, 0], np.float32))


# Approximations


@pytest.mark.parametrize(
    ("opcode", "reference"),
    [
        ("ex2.approx.f32", lambda x: 2.0**x),
        ("lg2.approx.f32", math.log2),
        ("sin.approx.f32", math.sin),
        ("cos.approx.f32", math.cos),
        ("tanh.approx.f32", math.tanh),
        ("rsqrt.approx.f32", lambda x: 1 / math.sqrt(x)),
        ("sqrt.approx.f32", math.sqrt),
        ("rcp.approx.f32", lambda x: 1 / x),
    ],
)
def test_approximations_are_within_a_unit(opcode, reference):
    x = np.random.default_rng(0).uniform(0.01, 20, 300).astype(np.float32)
    expected = np.array([reference(v) for v in x.tolist()], np.float32)
    np.testing.assert_array_max_ulp(run(f"{opcode} d, a", x), expected, 1)


def test_approximations_at_the_edges():
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan, -1], np.float32)
    nan, inf = np.nan, np.inf
    same(run("ex2.approx.f32 d, a", x), np.array([1, 1, inf, 0, nan, 0.5], np.float32))
    same(run("lg2.approx.f32 d, a", x), np.array([-inf, -inf, inf, nan, nan, nan], np.float32))
    same(run("rsqrt.approx.f32 d, a", x), np.array([inf, -inf, 0, nan, nan, nan], np.float32))
    same(run("rcp.approx.f32 d, a", x), np.array([inf, -inf, 0, -0.0, nan, -1], np.float32))
    same(run("sin.approx.f32 d, a", x[:5]), np.array([0, -0.0, nan, nan, nan], np.float32))
    same(run("ex2.approx.ftz.f32 d, a", np.array([-127, -126], np.float32)), np.array([0, 2.0**-126], np.float32))


def test_div_approx_gives_zero_past_its_range():
    a = np.array([1, -1, np.inf, 6, np.inf], np.float32)
    b = np.array([2.0**127, 2.0**127, 2.0**127, 3, np.inf], np.float32)
    same(run("div.approx.f32 d, a, b", a, b), np.array([0, -0.0, np.nan, 2, np.nan], np.float32))
    same(run("div.full.f32 d, a, b", a[:2], b[:2]), np.array([2.0**-127, -(2.0**-127)], np.float32))


def test_rcp_approx_ftz_f64_keeps_the_upper_word():
    x = np.array([3.0, -7.5, 1e-310, np.inf, 0.0])
    result = run("rcp.approx.ftz.f64 d, a", x)
    assert not (result.view(np.uint64) & 0xFFFFFFFF).any()
    np.testing.assert_allclose(result[:2], 1 / x[:2], rtol=2**-20)
    same(result[2:], np.array([np.inf, 0, np.inf]))


# Minima, signs, classes, comparisons


@pytest.mark.parametrize("code", ["f32", "f64", "f16"])
def test_extrema_prefer_numbers_and_order_zeros(code):
    dtype = isa.DTYPES[code]
    a = np.array([0.0, -0.0, np.nan, 1, np.nan, -np.inf, 2], dtype)
    b = np.array([-0.0, 0.0, 1, np.nan, np.nan, 3, 2], dtype)
    same(run(f"min.{code} d, a, b", a, b), np.array([-0.0, -0.0, 1, 1, np.nan, -np.inf, 2], dtype))
    same(run(f"max.{code} d, a, b", a, b), np.array([0.0, 0.0, 1, 1, np.nan, 3, 2], dtype))
    same(run(f"max.NaN.{code} d, a, b", a, b), np.array([0.0, 0.0, np.nan, np.nan, np.nan, 3, 2], dtype))


def test_signs_and_classes():
    x = np.array([-0.0, 2.0**-140, -1.5, np.inf, np.nan], np.float32)
    same(run("abs.f32 d, a", x), np.abs(x))
    same(run("neg.f32 d, a", x), np.array([0, -(2.0**-140), 1.5, -np.inf, np.nan], np.float32))
    same(run("copysign.f32 d, a, b", np.full(5, -1, np.float32), x), -np.abs(x))
    same(run("abs.ftz.f32 d, a", x)[1:2], np.array([0], np.float32))
    expected = {
        "finite": [1, 1, 1, 0, 0],
        "infinite": [0, 0, 0, 1, 0],
        "number": [1, 1, 1, 1, 0],
        "notanumber": [0, 0, 0, 0, 1],
        "normal": [0, 0, 1, 0, 0],
        "subnormal": [0, 1, 0, 0, 0],
    }
    for name, flags in expected.items():
        same(run(f"testp.{name}.f32 p, a", x), np.array(flags, bool))
    smallest = np.array([-(2**31), 7], np.int32)
    same(run("abs.s32 d, a", smallest), smallest)
    same(run("neg.s32 d, a", smallest), np.array([-(2**31), -7], np.int32))


COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("code", ["f32", "f64", "f16"])
def test_float_comparisons_with_and_without_nan(code):
    a, b = float_operands(code, 2, count=20)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    unordered = np.array([math.isnan(x) or math.isnan(y) for x, y in pairs])
    for name, compare in COMPARE.items():
        ordered = np.array([compare(x, y) for x, y in pairs]) & ~unordered
        same(run(f"setp.{name}.{code} p, a, b", a, b), ordered)
        same(run(f"setp.{name}u.{code} p, a, b", a, b), ordered | unordered)
    same(run(f"setp.nan.{code} p, a, b", a, b), unordered)
    same(run(f"setp.num.{code} p, a, b", a, b), ~unordered)


def test_integer_comparisons_follow_the_type():
    a = np.array([0, 1, 0xFFFFFFFF, 0x80000000], np.uint32)
    b = np.array([1, 1, 1, 0x7FFFFFFF], np.uint32)
    same(run("setp.lt.s32 p, a, b", a, b), np.array([True, False, True, True]))
    same(run("setp.lt.u32 p, a, b", a, b), np.array([True, False, False, False]))
    for old, new in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")):
        same(run(f"setp.{old}.u32 p, a, b", a, b), run(f"setp.{new}.u32 p, a, b", a, b))
    same(run("setp.ne.b32 p, a, b", a, b), a != b)


def test_setp_combines_and_complements():
    a = np.array([1, 1, 5, 5], np.int32)
    b = np.full(4, 3, np.int32)
    c = np.array([True, False, True, False])
    first, second = run("setp.lt.and.s32 %p1|%p2, a, b, %p3", a, b, c)
    same(first, np.array([True, False, False, False]))
    same(second, np.array([False, False, True, False]))
    first, second = run("setp.lt.s32 %p1|%p2, a, b", a, b)
    same(second, ~first)
    same(run("setp.lt.xor.s32 %p1, a, b, %p3", a, b, c), np.array([False, True, True, False]))
    same(run("setp.lt.or.s32 %p1, a, b, %p3", a, b, c), np.array([True, True, True, False]))


def test_set_selp_slct():
    a, b = np.array([1, np.nan, 3], np.float32), np.array([1, np.nan, 2], np.float32)
    same(run("set.eq.u32.f32 d, a, b", a, b), np.array([0xFFFFFFFF, 0, 0], np.uint32))
    same(run("set.equ.f32.f32 d, a, b", a, b), np.array([1, 1, 0], np.float32))
    same(
        run("selp.f32 d, a, b, %p1", a, b, np.array([True, True, False])),
        np.array([1, np.nan, 2], np.float32).view(np.uint32),
    )
    sign = np.array([-0.0, np.nan, -1], np.float32)
    same(run("slct.f32.f32 d, a, b, c", a, b, sign)[[0, 2]], np.array([1, 2], np.float32).view(np.uint32))
    halves = np.array([[1.0, 2.0], [3.0, np.nan]], np.float16).view(np.uint32)[:, 0]
    result = run("set.eq.f16x2.f16x2 d, a, b", halves, halves).view(np.float16)
    same(result, np.array([1, 1, 1, 0], np.float16))


# Integers


def integer_edges(code: str) -> np.ndarray:
    info = np.iinfo(isa.DTYPES[code])
    values = {
        0,
        1,
        2,
        3,
        7,
        info.max,
        info.max - 1,
        info.max // 2,
        info.max // 2 + 1,
        info.min,
        info.min + 1,
        -1,
        -2,
        -7,
    }
    extra = np.random.default_rng(0).integers(info.min, info.max, 12, isa.DTYPES[code], endpoint=True)
    return np.concatenate([np.array(sorted(v for v in values if info.min <= v <= info.max), isa.DTYPES[code]), extra])


def wrap(value: int, dtype: np.dtype) -> int:
    bits = dtype.itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def check_integers(text: str, codes: tuple[str, ...], reference, result: str | None = None) -> None:
    """The instruction against `reference` (of Python integers, wrapped to the result type) on all edge tuples."""
    pools = [integer_edges(code) for code in codes]
    if len(codes) > 2:
        rng = np.random.default_rng(2)
        operands = [rng.choice(pool, 500) for pool in pools]
    else:
        operands = [
            np.array(column, isa.DTYPES[c])
            for column, c in zip(zip(*itertools.product(*pools), strict=True), codes, strict=True)
        ]
    dtype = isa.DTYPES[result or codes[0]]
    rows = zip(*map(np.ndarray.tolist, operands), strict=True)
    same(run(text, *operands), np.array([wrap(reference(*row), dtype) for row in rows], dtype))


def truncated_quotient(a: int, b: int) -> int:
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("code", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_integer_arithmetic(code):
    bits = int(code[1:])
    two, three = (code, code), (code, code, code)
    check_integers(f"add.{code} d, a, b", two, lambda a, b: a + b)
    check_integers(f"sub.{code} d, a, b", two, lambda a, b: a - b)
    check_integers(f"mul.lo.{code} d, a, b", two, lambda a, b: a * b)
    check_integers(f"mul.hi.{code} d, a, b", two, lambda a, b: a * b >> bits)
    check_integers(f"mad.lo.{code} d, a, b, c", three, lambda a, b, c: a * b + c)
    check_integers(f"mad.hi.{code} d, a, b, c", three, lambda a, b, c: (a * b >> bits) + c)
    check_integers(f"div.{code} d, a, b", two, truncated_quotient)
    check_integers(f"rem.{code} d, a, b", two, lambda a, b: a - b * truncated_quotient(a, b) if b else a)
    check_integers(f"min.{code} d, a, b", two, min)
    check_integers(f"max.{code} d, a, b", two, max)
    unsigned = f"u{bits}"
    check_integers(f"sad.{code} d, a, b, c", (code, code, unsigned), lambda a, b, c: abs(a - b) + c, unsigned)
    if bits < 64:
        wide = f"{code[0]}{2 * bits}"
        check_integers(f"mul.wide.{code} d, a, b", two, lambda a, b: a * b, wide)
        check_integers(f"mad.wide.{code} d, a, b, c", (code, code, wide), lambda a, b, c: a * b + c, wide)


def test_saturating_integer_sums():
    def clamp(x: int) -> int:
        return max(-(2**31), min(2**31 - 1, x))

    check_integers("add.sat.s32 d, a, b", ("s32", "s32"), lambda a, b: clamp(a + b))
    check_integers("sub.sat.s32 d, a, b", ("s32", "s32"), lambda a, b: clamp(a - b))


@pytest.mark.parametrize("bits", [32, 64])
def test_carry_chains_add_and_subtract_double_words(bits):
    rng = np.random.default_rng(0)
    pool = integer_edges(f"u{bits}")
    low_a, high_a, low_b, high_b = (rng.choice(pool, 400) for _ in range(4))
    for first, second, sign in (("add.cc", "addc.cc", 1), ("sub.cc", "subc.cc", -1)):
        low, carry = run(f"{first}.u{bits} d, a, b", low_a, low_b)
        high, out = run(f"{second}.u{bits} d, a, b", high_a, high_b, carry)
        for a0, a1, b0, b1, d0, d1, flag in zip(
            *map(np.ndarray.tolist, (low_a, high_a, low_b, high_b, low, high, out)), strict=True
        ):
            total = (a1 << bits | a0) + sign * (b1 << bits | b0)
            assert (d1 << bits | d0, flag) == (total % 2 ** (2 * bits), not 0 <= total < 2 ** (2 * bits))
        same(run(f"{second.removesuffix('.cc')}.u{bits} d, a, b", high_a, high_b, carry), high)


def test_multiply_add_with_carry():
    rng = np.random.default_rng(0)
    a, b, c_low, c_high = (rng.choice(integer_edges("u32"), 400) for _ in range(4))
    low, carry = run("mad.lo.cc.u32 d, a, b, c", a, b, c_low)
    high = run("madc.hi.u32 d, a, b, c", a, b, c_high, carry)
    for x, y, c0, c1, d0, d1 in zip(*map(np.ndarray.tolist, (a, b, c_low, c_high, low, high)), strict=True):
        assert (d1 << 32 | d0) == (x * y + (c1 << 32 | c0)) % 2**64


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_clamp_at_the_width(bits):
    x = integer_edges(f"u{bits}")
    for count in (0, 1, 15, 16, 31, 32, 63, 64, 65, 2**31, 2**32 - 1):
        counts = np.full(x.shape, count, np.uint32)
        left = [wrap(v << min(count, 64), x.dtype) for v in x.tolist()]
        same(run(f"shl.b{bits} d, a, b", x, counts), np.array(left, x.dtype))
        same(run(f"shl.b{bits} d, a, {count}", x, counts), np.array(left, x.dtype))
        same(run(f"shr.u{bits} d, a, b", x, counts), np.array([v >> min(count, 64) for v in x.tolist()], x.dtype))
        signed = x.view(f"i{bits // 8}")
        same(
            run(f"shr.s{bits} d, a, b", x, counts),
            np.array([v >> min(count, 64) for v in signed.tolist()], signed.dtype),
        )


def test_funnel_shifts():
    rng = np.random.default_rng(0)
    low, high = (rng.integers(0, 2**32, 200, np.uint32) for _ in range(2))
    count = rng.choice(np.array([0, 1, 31, 32, 33, 100], np.uint32), 200)
    rows = list(zip(low.tolist(), high.tolist(), count.tolist(), strict=True))
    for mode, limit in (("wrap", lambda n: n & 31), ("clamp", lambda n: min(n, 32))):
        left = [((high << 32 | low) << limit(n)) >> 32 & 0xFFFFFFFF for low, high, n in rows]
        right = [(high << 32 | low) >> limit(n) & 0xFFFFFFFF for low, high, n in rows]
        same(run(f"shf.l.{mode}.b32 d, a, b, c", low, high, count), np.array(left, np.uint32))
        same(run(f"shf.r.{mode}.b32 d, a, b, c", low, high, count), np.array(right, np.uint32))


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_counts(bits):
    code = f"u{bits}"

    def leading(x: int) -> int:
        return bits - x.bit_length()

    check_integers(f"popc.b{bits} d, a", (code,), lambda x: x.bit_count(), "u32")
    check_integers(f"clz.b{bits} d, a", (code,), leading, "u32")
    check_integers(f"brev.b{bits} d, a", (code,), lambda x: int(f"{x:0{bits}b}"[::-1], 2), code)
    check_integers(f"bfind.u{bits} d, a", (code,), lambda x: x.bit_length() - 1, "u32")
    check_integers(f"bfind.shiftamt.u{bits} d, a", (code,), lambda x: leading(x) if x else -1, "u32")
    check_integers(f"bfind.s{bits} d, a", (f"s{bits}",), lambda x: (x if x >= 0 else ~x).bit_length() - 1, "u32")
    check_integers(f"not.b{bits} d, a", (code,), lambda x: ~x)
    check_integers(f"cnot.b{bits} d, a", (code,), lambda x: x == 0)


@pytest.mark.parametrize("code", ["u32", "s32", "u64", "s64"])
def test_bit_fields(code):
    """The loops of the ISA's own pseudo code."""
    bits = int(code[1:])

    def extract(a: int, position: int, length: int) -> int:
        position, length = position & 0xFF, length & 0xFF
        sign = 0 if code[0] == "u" or length == 0 else a >> min(position + length - 1, bits - 1) & 1
        return sum(((a >> position + i & 1) if i < length and position + i < bits else sign) << i for i in range(bits))

    def insert(a: int, b: int, position: int, length: int) -> int:
        position, length = position & 0xFF, length & 0xFF
        for i in range(length):
            if position + i < bits:
                b = b & ~(1 << position + i) | (a >> i & 1) << position + i
        return b

    rng = np.random.default_rng(0)
    a, b = (rng.choice(integer_edges(code), 600) for _ in range(2))
    position, length = (
        rng.choice(np.array([0, 1, 5, 31, 32, 33, 63, 64, 200, 256 + 4], np.uint32), 600) for _ in range(2)
    )
    rows = list(zip(a.tolist(), b.tolist(), position.tolist(), length.tolist(), strict=True))
    expected = [wrap(extract(x, p, n), a.dtype) for x, _, p, n in rows]
    same(run(f"bfe.{code} d, a, b, c", a, position, length), np.array(expected, a.dtype))
    if code[0] == "u":
        expected = [wrap(insert(x, y, p, n), a.dtype) for x, y, p, n in rows]
        same(run(f"bfi.b{bits} d, a, b, c, e", a, b, position, length), np.array(expected, a.dtype))


def test_prmt():
    a, b = np.array([0x83828180], np.uint32), np.array([0x07060504], np.uint32)
    for selector, expected in (
        (0x3210, 0x83828180),
        (0x7654, 0x07060504),
        (0x0123, 0x80818283),
        (0x5140, 0x05810480),
        (0xF8C0, 0x00FF0080),
    ):
        for text in ("prmt.b32 d, a, b, c", f"prmt.b32 d, a, b, {selector}"):
            same(run(text, a, b, np.array([selector], np.uint32)), np.array([expected], np.uint32))
    modes = {
        "f4e": [0x83828180, 0x04838281, 0x05048382, 0x06050483],
        "b4e": [0x05060780, 0x06078081, 0x07808182, 0x80818283],
        "rc8": [0x80808080, 0x81818181, 0x82828282, 0x83838383],
        "ecl": [0x83828180, 0x83828181, 0x83828282, 0x83838383],
        "ecr": [0x80808080, 0x81818180, 0x82828180, 0x83828180],
        "rc16": [0x81808180, 0x83828382, 0x81808180, 0x83828382],
    }
    for mode, expected in modes.items():
        same(run(f"prmt.b32.{mode} d, a, b, c", a, b, np.arange(4, dtype=np.uint32)), np.array(expected, np.uint32))


def test_lop3_follows_its_table():
    x, y, z = np.uint32([0xF0F0F0F0]), np.uint32([0xCCCCCCCC]), np.uint32([0xAAAAAAAA])
    for table in (0x00, 0x80, 0x96, 0xE8, 0xCA, 0xFF):
        expected = np.uint32([table * 0x01010101])
        same(run(f"lop3.b32 d, a, b, c, {table}", x, y, z, np.uint32([table])), expected)


def test_dot_products():
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(0, 2**32, 100, np.uint32) for _ in range(3))
    for a_kind, b_kind in itertools.product("us", repeat=2):
        left, right = (
            a.view(f"{a_kind}1".replace("s", "i")).reshape(-1, 4),
            b.view(f"{b_kind}1".replace("s", "i")).reshape(-1, 4),
        )
        total = (left.astype(np.int64) * right).sum(1).astype(np.uint32) + c
        result = run(f"dp4a.{a_kind}32.{b_kind}32 d, a, b, c", a, b, c)
        same(result.view(np.uint32), total)
        words = a.view(f"{a_kind}2".replace("s", "i")).reshape(-1, 2).astype(np.int64)
        for half, columns in (("lo", right[:, :2]), ("hi", right[:, 2:])):
            total = (words * columns).sum(1).astype(np.uint32) + c
            same(run(f"dp2a.{half}.{a_kind}32.{b_kind}32 d, a, b, c", a, b, c).view(np.uint32), total)


def test_vabsdiff4():
    a, b = np.array([0xFF010080], np.uint32), np.array([0x01FF0000], np.uint32)
    zero = np.zeros(1, np.uint32)
    same(run("vabsdiff4.u32.u32.u32 d, a, b, c", a, b, zero), np.array([0xFEFE0080], np.uint32))
    same(run("vabsdiff4.u32.u32.u32.add d, a, b, c", a, b, zero + 5), np.array([0xFE + 0xFE + 0x80 + 5], np.uint32))


def test_packed_sixteen_bit_extrema():
    a, b = np.array([0x8000_0001], np.uint32), np.array([0x0001_FFFF], np.uint32)
    same(run("max.s16x2 d, a, b", a, b), np.array([0x0001_0001], np.uint32))
    same(run("max.u16x2 d, a, b", a, b), np.array([0x8000_FFFF], np.uint32))
    same(run("min.s16x2 d, a, b", a, b), np.array([0x8000_FFFF], np.uint32))
    same(run("min.relu.s16x2 d, a, b", a, b), np.array([0], np.uint32))
    same(run("add.u16x2 d, a, b", a, b), np.array([0x8001_0000], np.uint32))


# Conversions


@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
@pytest.mark.parametrize("destination", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_float_to_integer_rounds_and_clamps(source, destination):
    (x,) = float_operands(source, 1)
    info = np.iinfo(isa.DTYPES[destination])
    near = [float(v + d) for v in (info.min, info.max, 0, 3) for d in (-1.5, -1, -0.5, 0, 0.5, 1, 1.5)]
    with np.errstate(over="ignore"):
        x = np.concatenate([x, np.array(near).astype(x.dtype)])
    bits = int(destination[1:])
    nan = (1 << bits - 1) if source == "f64" or bits == 64 else 0
    rounding = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
    for mode, function in rounding.items():
        expected = []
        for value in x.tolist():
            if math.isnan(value):
                expected.append(wrap(nan, info.dtype))
            elif math.isinf(value):
                expected.append(info.max if value > 0 else info.min)
            else:
                expected.append(max(info.min, min(info.max, function(value))))
        same(run(f"cvt.{mode}.{destination}.{source} d, a", x), np.array(expected, info.dtype))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", ["s8", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("destination", ["f32", "f64"])
def test_integer_to_float_rounds_once(source, destination, mode):
    x = integer_edges(source)
    if source.endswith("64"):
        near = [2**53 + 1, 2**62 + 2**38, 2**62 + 2**38 + 1, 2**62 + 2**38 - 1, 2**60 + 2**7, 2**60 + 3 * 2**7]
        x = np.concatenate([x, np.array(near, x.dtype)])
    expected = [quantise(Fraction(v), FORMATS[destination], mode) if v else 0.0 for v in x.tolist()]
    same(run(f"cvt.{mode}.{destination}.{source} d, a", x), np.array(expected, isa.DTYPES[destination]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("destination", "source"), [("f32", "f64"), ("f16", "f32"), ("f16", "f64"), ("bf16", "f32")])
def test_narrowing_rounds_once(destination, source, mode):
    if mode in ("rm", "rp") and destination == "bf16":
        pytest.skip("not in the ISA")
    (x,) = float_operands(source, 1, count=1000)
    dense = np.random.default_rng(5).standard_normal(500) * 2.0 ** np.random.default_rng(6).integers(-30, 18, 500)
    x = np.concatenate([x, dense.astype(x.dtype), np.array([1 + 2.0**-9, 1 + 2.0**-8, 1 + 3 * 2.0**-9], x.dtype)])
    form = FORMATS[destination]
    expected = [quantise(Fraction(v), form, mode) if math.isfinite(v) and v else v for v in x.tolist()]
    actual = run(f"cvt.{mode}.{destination}.{source} d, a", x)
    if destination == "bf16":
        actual = (actual.astype(np.uint32) << np.uint32(16)).view(np.float32)
    same(actual.astype(np.float64), np.array(expected))


def test_widening_is_exact():
    x = any_floats("f16", 500, 0)
    same(run("cvt.f32.f16 d, a", x), x.astype(np.float32))
    y = any_floats("f32", 500, 0)
    same(run("cvt.f64.f32 d, a", y), y.astype(np.float64))
    bits = np.arange(0, 2**16, 37, dtype=np.uint16)
    same(run("cvt.f32.bf16 d, a", bits), (bits.astype(np.uint32) << 16).view(np.float32))


def test_round_to_integral_float():
    x = np.array([0.5, 1.5, -0.5, -2.5, 2.7, np.inf, np.nan, 1e30], np.float32)
    same(run("cvt.rni.f32.f32 d, a", x), np.array([0, 2, -0.0, -2, 3, np.inf, np.nan, 1e30], np.float32))
    same(run("cvt.rzi.f32.f32 d, a", x), np.trunc(x))
    same(run("cvt.rmi.f32.f32 d, a", x), np.floor(x))
    same(run("cvt.rpi.f64.f64 d, a", x.astype(np.float64)), np.ceil(x.astype(np.float64)))
    same(run("cvt.rmi.f16.f16 d, a", x[:5].astype(np.float16)), np.floor(x[:5]).astype(np.float16))


INTEGER_CODES = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")


@pytest.mark.parametrize("source", INTEGER_CODES)
def test_integer_conversions_wrap_or_saturate(source):
    for destination in INTEGER_CODES:
        info = np.iinfo(isa.DTYPES[destination])
        check_integers(f"cvt.{destination}.{source} d, a", (source,), lambda x: x, destination)
        check_integers(
            f"cvt.sat.{destination}.{source} d, a",
            (source,),
            lambda x, info=info: max(int(info.min), min(int(info.max), x)),
            destination,
        )


def test_pairs_put_the_first_operand_high():
    a, b = np.array([1.0, 3.0], np.float32), np.array([2.0, -4.0], np.float32)
    same(run("cvt.rn.f16x2.f32 d, a, b", a, b).view(np.float16), np.array([2, 1, -4, 3], np.float16))
    packed = run("cvt.rn.bf16x2.f32 d, a, b", a, b)
    same((packed & np.uint32(0xFFFF0000)).view(np.float32), a)
    same(
        run("cvt.rna.tf32.f32 d, a", np.float32([1 + 2.0**-11, np.inf])),
        np.float32([1 + 2.0**-10, np.inf]).view(np.uint32),
    )


# Moves


def test_moves_pack_and_unpack_low_element_first():
    low, high = np.array([0x11111111], np.uint32), np.array([0x22222222], np.uint32)
    whole = run("mov.b64 d, {a, b}", low, high)
    same(whole, np.array([0x2222222211111111], np.uint64))
    same(np.concatenate(run("mov.b64 {a, _}, d", whole)), np.concatenate([low, high]))
    quarters = run("mov.b64 {a, b, c, e}, d", whole)
    same(np.concatenate(quarters), np.array([0x1111, 0x1111, 0x2222, 0x2222], np.uint16))
    same(run("mov.b32 d, {a, b}", np.uint16([1]), np.uint16([2])), np.uint32([0x20001]))
    same(run("mov.f32 d, a", np.float32([1.5])), np.float32([1.5]).view(np.uint32))
    same(run("mov.pred %p1, %p2", np.array([True])), np.array([True]))


# Atomics


def test_atomics():
    def new(text: str, dtype: type, *operands: float) -> object:
        with np.errstate(all="ignore"):
            return isa.atomic(instruction(text))(*(np.array([v]).astype(dtype) for v in operands))[0]

    assert new("atom.global.add.u32 d, [a], b", np.uint32, 2**32 - 1, 3) == 2
    assert new("red.shared.add.f32 [a], b", np.float32, 1, 0.5) == 1.5
    assert new("atom.global.min.s32 d, [a], b", np.int32, 3, -2) == -2
    assert new("atom.global.max.u64 d, [a], b", np.uint64, 3, 9) == 9
    assert new("atom.global.and.b32 d, [a], b", np.uint32, 6, 3) == 2
    assert new("atom.global.or.b32 d, [a], b", np.uint32, 6, 3) == 7
    assert new("atom.global.xor.b32 d, [a], b", np.uint32, 6, 3) == 5
    assert new("atom.global.exch.b64 d, [a], b", np.uint64, 6, 3) == 3
    assert new("atom.global.cas.b32 d, [a], b, c", np.uint32, 6, 6, 9) == 9
    assert new("atom.global.cas.b32 d, [a], b, c", np.uint32, 6, 5, 9) == 6
    assert [new("atom.global.inc.u32 d, [a], b", np.uint32, old, 5) for old in (4, 5, 9)] == [5, 0, 0]
    assert [new("atom.global.dec.u32 d, [a], b", np.uint32, old, 5) for old in (4, 0, 9)] == [3, 5, 5]
    halves = np.array([1.0, 2.0], np.float16).view(np.uint32)
    total = isa.atomic(instruction("red.global.add.noftz.f16x2 [a], b"))(halves, halves)
    same(total.view(np.float16), np.array([2, 4], np.float16))


# The table itself


FORMS = (
    """
add.f32 d,a,b|add.rm.f32 d,a,b|add.ftz.sat.f32 d,a,b|fma.rn.f32 d,a,b,c|fma.rp.ftz.f32 d,a,b,c|fma.rn.f64 d,a,b,c
mul.rz.f64 d,a,b|div.rn.f32 d,a,b|div.s64 d,a,b|rem.u16 d,a,b|mul.hi.s64 d,a,b|mad.wide.s16 d,a,b,c|addc.cc.u32 d,a,b
subc.cc.u64 d,a,b|madc.hi.cc.u32 d,a,b,c|shl.b64 d,a,b|shr.s16 d,a,b|bfe.s32 d,a,b,c|bfi.b64 d,a,b,c,e|brev.b32 d,a
bfind.s64 d,a|popc.b64 d,a|clz.b32 d,a|prmt.b32 d,a,b,c|shf.l.clamp.b32 d,a,b,c|dp4a.s32.u32 d,a,b,c|sad.s32 d,a,b,c
min.f32 d,a,b|max.f16x2 d,a,b|fma.rn.bf16x2 d,a,b,c|set.lt.f16x2.f16x2 d,a,b|ex2.approx.ftz.f32 d,a|tanh.approx.f16 d,a
cvt.rzi.s32.f32 d,a|cvt.rzi.u64.f64 d,a|cvt.rp.f32.s64 d,a|cvt.rz.f64.u64 d,a|cvt.rz.f16.f32 d,a|cvt.rn.bf16x2.f32 d,a,b
cvt.sat.u8.s32 d,a|setp.ltu.f64 %p1|%p2,a,b|testp.normal.f64 %p1,a|slct.s32.f32 d,a,b,c|mov.b64 {d,e},a|mov.b32 d,{a,b}
selp.b64 d,a,b,%p1|rcp.approx.ftz.f64 d,a|lop3.b32 d,a,b,c,202|not.pred %p1,%p2|max.s16x2 d,a,b|cvt.rna.tf32.f32 d,a
""".strip()
    .replace("\n", "|")
    .replace("%p1|%p2", "%p1!%p2")
    .split("|")
)


@pytest.mark.parametrize("text", [form.replace("!", "|") for form in FORMS])
def test_scalars_and_broadcasting_agree_with_arrays(text):
    """0-d operands (constants in the PTX) give the same results as whole arrays, silently."""
    form = isa.arithmetic(instruction(text))
    rng = np.random.default_rng(0)
    operands = []
    for code in form.sources:
        dtype = isa.DTYPES[code]
        raw = rng.integers(0, 256, 24 * dtype.itemsize, np.uint8)
        operands.append(raw[:24] > 127 if code == "pred" else raw.view(dtype))

    def results(*arrays: np.ndarray) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            result = form.function(*arrays)
        return [np.asarray(r) for r in (result if isinstance(result, tuple) else (result,))]

    whole = results(*operands)
    assert [r.dtype for r in whole] == [isa.DTYPES[code] for code in form.results]
    for lane in range(24):
        for scalar, array in zip(results(*(x[lane] for x in operands)), whole, strict=True):
            same(scalar.reshape(1), array[lane : lane + 1])
    mixed = results(operands[0], *(x[5] for x in operands[1:]))
    full = results(operands[0], *(np.repeat(x[5:6], 24) for x in operands[1:]))
    reshaped = results(*(x.reshape(4, 6) for x in operands))
    for one, two, three, four in zip(mixed, full, reshaped, whole, strict=True):
        same(one, two)
        same(three.reshape(24), four)


def test_machine_opcodes_are_left_to_the_machine():
    for text in (
        "ld.global.f32 d, [a]",
        "bar.sync 0",
        "ret",
        "shfl.sync.idx.b32 d, a, b, c, e",
        "atom.add.u32 d, [a], b",
    ):
        assert isa.arithmetic(instruction(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "frobnicate.f32 d, a",
        "add.f32.wobbly d, a, b",
        "add.e4m3 d, a, b",
        "cvt.f32 d, a",
        "testp.f32 d, a",
        "mul.s32 d, a, b",
    ],
)
def test_unknown_forms_name_themselves(text):
    with pytest.raises(isa.UnsupportedOpcode) as caught:
        isa.arithmetic(instruction(text))
    assert text.split()[0] in caught.value.instruction and "line 0" in caught.value.instruction


def test_unknown_atomics_name_themselves():
    with pytest.raises(isa.UnsupportedOpcode, match=r"atom\.global\.nand"):
        isa.atomic(instruction("atom.global.nand.b32 d, [a], b"))


# 8-bit floats


def f8_number(kind: str, code: int) -> float:
    """What a byte stands for, from the definition of its format."""
    exponent_bits, fraction_bits = (4, 3) if kind == "e4m3" else (5, 2)
    bias = (1 << (exponent_bits - 1)) - 1
    exponent, fraction = code >> fraction_bits & ((1 << exponent_bits) - 1), code & ((1 << fraction_bits) - 1)
    if kind == "e4m3" and code & 0x7F == 0x7F:
        return math.nan
    if kind == "e5m2" and exponent == 31:
        return math.nan if fraction else math.copysign(math.inf, -1 if code >> 7 else 1)
    size = (fraction + (exponent > 0) * (1 << fraction_bits)) * 2.0 ** (max(exponent, 1) - bias - fraction_bits)
    return -size if code >> 7 else size


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_every_pair_of_8_bit_floats_widens(kind):
    codes = np.arange(2**16, dtype=np.uint16)
    halves = run(f"cvt.rn.f16x2.{kind}x2 d, a", codes).view(np.float16).reshape(-1, 2)
    wanted = np.array([f8_number(kind, code) for code in range(256)]).astype(np.float16)
    same(halves[:, 0], wanted[codes & 0xFF])
    same(halves[:, 1], wanted[codes >> 8])
    positive = run(f"cvt.rn.relu.f16x2.{kind}x2 d, a", codes).view(np.float16).reshape(-1, 2)
    assert not (positive < 0).any()


def f8_code(kind: str, x: float) -> int:
    """The nearest number by exhaustion, ties to an even code, clamped to the largest."""
    if math.isnan(x):
        return 0x7F
    finite = range(0x7F if kind == "e4m3" else 0x7C)
    size = min(abs(x), f8_number(kind, finite[-1]))
    code = min(finite, key=lambda c: (abs(Fraction(f8_number(kind, c)) - Fraction(size)), c % 2))
    return code | (0x80 if math.copysign(1, x) < 0 else 0)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_floats_round_to_8_bits(kind):
    numbers = [f8_number(kind, c) for c in range(0x7F if kind == "e4m3" else 0x7C)]
    middles = [(a + b) / 2 for a, b in itertools.pairwise(numbers)]
    near = np.nextafter(np.float32(middles), np.float32(np.inf))
    x = np.concatenate([numbers, middles, near, [448.1, 464, 480, 1e30, np.inf, np.nan, 1e-30]]).astype(np.float32)
    x = np.concatenate([x, -x])
    wanted = np.array([f8_code(kind, float(v)) for v in x], np.uint16)
    low = run(f"cvt.rn.satfinite.{kind}x2.f32 d, a, b", np.zeros_like(x), x)
    high = run(f"cvt.rn.satfinite.{kind}x2.f32 d, a, b", x, np.zeros_like(x))
    np.testing.assert_array_equal(low, wanted)
    np.testing.assert_array_equal(high, wanted << 8)
    relu = run(f"cvt.rn.satfinite.relu.{kind}x2.f32 d, a, b", np.zeros_like(x), x)
    np.testing.assert_array_equal(relu, np.where(np.isnan(x) | ~(x < 0), wanted, 0))
    with np.errstate(over="ignore"):
        halves = x.astype(np.float16)
    wanted = np.array([f8_code(kind, float(v)) for v in halves], np.uint16)
    pairs = np.stack([halves, halves[::-1]], axis=1).view(np.uint32).reshape(-1)
    np.testing.assert_array_equal(
        run(f"cvt.rn.satfinite.{kind}x2.f16x2 d, a", pairs), wanted | (wanted[::-1] << np.uint16(8))
    )


@pytest.mark.parametrize("mode", ["rna", "rn", "rz"])
def test_tf32_keeps_ten_fraction_bits(mode):
    x = np.concatenate([edges("f32"), any_floats("f32", 3000, 9)])
    x[:500] = (x.view(np.uint32)[:500] & 0xFFFFF000 | 0x1000).view(np.float32)  # ties
    bits = run(f"cvt.{mode}.tf32.f32 d, a", x)
    assert not (bits[np.isfinite(x)] & 0x1FFF).any()
    for value, got in zip(x.tolist(), bits.view(np.float32).tolist(), strict=True):
        if not math.isfinite(value):
            assert math.isnan(got) if math.isnan(value) else got == value
        elif value:
            rule = {"rna": "rn", "rn": "rn", "rz": "rz"}[mode]
            exact = Fraction(value)
            if rule == "rz":
                wanted = math.copysign(quantise(abs(exact), (11, -126, 127), "rm"), value)
            else:
                wanted = quantise(exact, (11, -126, 127), "rn")
                other = quantise(abs(exact) * (1 + Fraction(1, 2**30)), (11, -126, 127), "rn")
                if mode == "rna":  # a tie goes to the larger number
                    wanted = math.copysign(other, value)
            assert got == wanted, value
