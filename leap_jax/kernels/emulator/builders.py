"""Builders: from the form of an instruction to the function it stands for. `isa.py` maps opcodes to these."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from leap_jax.kernels.emulator import conversions, floats, integers, ir
from leap_jax.kernels.emulator.forms import DTYPES, Arithmetic, Form, Function, Result, UnsupportedOpcode, carrier
from leap_jax.kernels.emulator.rounding import NEAREST, flush, rounded

_PACKED_INTEGERS = ("s16x2", "u16x2")

# Sums, products, quotients


def _float_operation(form: Form, name: str, operands: int) -> Arithmetic:
    """`add sub mul div fma sqrt rcp` on a floating type."""
    if form.type in floats.HALVES:
        exact = floats.fused_multiply_add if name == "fma" else rounded(name, NEAREST, np.dtype(np.float64))
        return form.uniform(floats.half_operation(form.type, exact, form.flags), operands)
    return form.uniform(form.finish(rounded(name, form.rounding, form.dtype)), operands)


def add(form: Form) -> Arithmetic:
    if form.is_float:
        return _float_operation(form, "add", 2)
    if form.type in _PACKED_INTEGERS:
        return form.uniform(floats.pairwise(np.add, DTYPES[form.type[:3]]), 2)
    if "cc" in form.flags:
        return add_with_carry(form)
    if "sat" in form.flags:
        return form.uniform(conversions.saturating_sum(np.add, form.dtype), 2)
    return form.uniform(np.add, 2)


def sub(form: Form) -> Arithmetic:
    if form.is_float:
        return _float_operation(form, "sub", 2)
    if "cc" in form.flags:
        return with_borrow(form)
    if "sat" in form.flags:
        return form.uniform(conversions.saturating_sum(np.subtract, form.dtype), 2)
    return form.uniform(np.subtract, 2)


def _with_carry(form: Form, first: Function, second: Function, operands: int) -> Arithmetic:
    """first(...) + second(...) + carry in; the carry flag is the unsigned overflow."""
    reads = form.instruction.opcode in ("addc", "madc")
    writes = "cc" in form.flags
    raw = integers.unsigned(form.dtype)

    def function(*sources: np.ndarray) -> Result:
        values = sources[:operands]
        left = first(*values).view(raw)
        total = left + second(*values).view(raw)
        carry = total < left
        if reads:
            total = total + sources[-1]
            carry = carry | (sources[-1] & (total == 0))
        return (total.view(form.dtype), carry) if writes else total.view(form.dtype)

    return _carrying(form, function, operands, reads, writes)


def add_with_carry(form: Form) -> Arithmetic:
    return _with_carry(form, lambda a, b: a, lambda a, b: b, 2)


def with_borrow(form: Form) -> Arithmetic:
    """a - b - borrow in; the flag is the unsigned borrow."""
    reads = form.instruction.opcode == "subc"
    writes = "cc" in form.flags
    raw = integers.unsigned(form.dtype)

    def function(a: np.ndarray, b: np.ndarray, *flag: np.ndarray) -> Result:
        a, b = a.view(raw), b.view(raw)
        total, borrow = a - b, a < b
        if reads:
            borrow = borrow | (flag[0] & (total == 0))
            total = total - flag[0].astype(raw)
        return (total.view(form.dtype), borrow) if writes else total.view(form.dtype)

    return _carrying(form, function, 2, reads, writes)


def _carrying(form: Form, function: Function, operands: int, reads: bool, writes: bool) -> Arithmetic:
    return Arithmetic(
        function,
        (form.code,) * operands + ("pred",) * reads,
        (form.code,) + ("pred",) * writes,
        reads_carry=reads,
        writes_carry=writes,
    )


_PRODUCTS: dict[str, Function] = {"lo": np.multiply, "hi": integers.multiply_high}


def mul(form: Form) -> Arithmetic:
    if form.is_float:
        return _float_operation(form, "mul", 2)
    if "wide" in form.flags:
        wide, code = _widened(form)
        return Arithmetic(lambda a, b: a.astype(wide) * b.astype(wide), (form.code,) * 2, (code,))
    return form.uniform(_PRODUCTS[_half(form)], 2)


def mad(form: Form) -> Arithmetic:
    if form.is_float:
        return _float_operation(form, "fma", 3)
    if "wide" in form.flags:
        wide, code = _widened(form)
        return Arithmetic(lambda a, b, c: a.astype(wide) * b.astype(wide) + c, (form.code, form.code, code), (code,))
    product = _PRODUCTS[_half(form)]
    if "cc" in form.flags or form.instruction.opcode == "madc":
        return _with_carry(form, lambda a, b, c: product(a, b), lambda a, b, c: c, 3)
    if "sat" in form.flags:
        total = conversions.saturating_sum(np.add, form.dtype)
        return form.uniform(lambda a, b, c: total(product(a, b), c), 3)
    return form.uniform(lambda a, b, c: product(a, b) + c, 3)


def _half(form: Form) -> str:
    half = form.one_of(_PRODUCTS)
    if half is None:
        raise UnsupportedOpcode(form.instruction)
    return half


def _widened(form: Form) -> tuple[np.dtype, str]:
    code = f"{form.type[0]}{int(form.type[1:]) * 2}"
    if code not in DTYPES:
        raise UnsupportedOpcode(form.instruction)
    return DTYPES[code], code


def fma(form: Form) -> Arithmetic:
    return _float_operation(form, "fma", 3)


def div(form: Form) -> Arithmetic:
    if not form.is_float:
        return form.uniform(integers.divide, 2)
    if "approx" in form.flags:
        return form.uniform(form.finish(floats.divide_approx), 2)
    return _float_operation(form, "div", 2)


def reciprocal(form: Form) -> Arithmetic:
    if "approx" in form.flags and form.type == "f64":
        return form.uniform(floats.high_word(rounded("rcp", NEAREST, form.dtype)), 1)
    return _float_operation(form, "rcp", 1)


def sqrt(form: Form) -> Arithmetic:
    return _float_operation(form, "sqrt", 1)


def rsqrt(form: Form) -> Arithmetic:
    if form.type == "f64":
        function = floats.APPROXIMATIONS["rsqrt"]
        return form.uniform(floats.high_word(function) if "ftz" in form.flags else function, 1)
    return approximation(form)


def approximation(form: Form) -> Arithmetic:
    """Computed in binary64 and rounded once: the hardware's last bits are not public."""
    exact = floats.APPROXIMATIONS[form.instruction.opcode]
    if form.type in floats.HALVES:
        return form.uniform(floats.half_operation(form.type, exact, form.flags), 1)
    return form.uniform(form.finish(lambda x: exact(x.astype(np.float64)).astype(np.float32)), 1)


# Signs, minima, comparisons, selection


def elementwise(integer: Function, floating: Function, operands: int) -> Callable[[Form], Arithmetic]:
    """A builder for operations that need no rounding: one function for integers, one for floats."""

    def build(form: Form) -> Arithmetic:
        if form.type in floats.HALVES:
            return form.uniform(floats.half_operation(form.type, floating, form.flags), operands)
        return form.uniform(form.finish(floating if form.is_float else integer), operands)

    return build


def extremum(form: Form) -> Arithmetic:
    name = form.instruction.opcode
    integer = {"min": np.minimum, "max": np.maximum}[name]
    if "relu" in form.flags and form.type in ("s32", "s16x2"):
        plain = integer
        integer = lambda a, b: np.maximum(plain(a, b), a.dtype.type(0))  # noqa: E731
    elif "relu" in form.flags and form.type not in floats.HALVES:
        raise UnsupportedOpcode(form.instruction)
    if form.type in _PACKED_INTEGERS:
        lane = DTYPES[form.type[:3]]
        return form.uniform(floats.pairwise(integer, lane), 2)
    return elementwise(integer, floats.EXTREMA[name, "NaN" in form.flags], 2)(form)


def copysign(form: Form) -> Arithmetic:
    return form.uniform(lambda sign, magnitude: np.copysign(magnitude, sign), 2)


def testp(form: Form) -> Arithmetic:
    test = form.one_of(floats.CLASSES)
    if test is None:
        raise UnsupportedOpcode(form.instruction)
    return Arithmetic(floats.CLASSES[test], (form.code,), ("pred",))


_COMBINATIONS: dict[str, Function] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _comparison(form: Form) -> Function:
    """The comparison of the last type, on operands as they are carried."""
    table = floats.COMPARISONS if form.is_float else integers.COMPARISONS
    name = form.one_of(table)
    if name is None:
        raise UnsupportedOpcode(form.instruction)
    compare = table[name]
    if form.type in floats.HALVES:
        return floats.half_comparison(form.type, compare, form.flags)
    return (lambda a, b: compare(flush(a), flush(b))) if "ftz" in form.flags else compare


def setp(form: Form) -> Arithmetic:
    compare = _comparison(form)
    pair = isinstance(form.instruction.operands[0], ir.Vector)
    combination = form.one_of(_COMBINATIONS)
    results = ("pred",) * (1 + pair)
    if form.type.endswith("x2"):
        if combination or not pair:
            raise UnsupportedOpcode(form.instruction)
        return Arithmetic(compare, (form.code,) * 2, results)
    if combination is None:
        if not pair:
            return Arithmetic(compare, (form.code,) * 2, results)

        def both(a: np.ndarray, b: np.ndarray) -> Result:
            result = compare(a, b)
            return result, ~result

        return Arithmetic(both, (form.code,) * 2, results)
    combine = _COMBINATIONS[combination]

    def combined(a: np.ndarray, b: np.ndarray, other: np.ndarray) -> Result:
        result = compare(a, b)
        return (combine(result, other), combine(~result, other)) if pair else combine(result, other)

    return Arithmetic(combined, (form.code, form.code, "pred"), results)


def set_mask(form: Form) -> Arithmetic:
    """All ones (1.0 for a floating destination) where the comparison holds, else zero."""
    compare = _comparison(form)
    combination = form.one_of(_COMBINATIONS)
    destination = form.types[0]
    code = carrier(destination)
    if form.type.endswith("x2"):
        one = floats.ONES.get(destination.removesuffix("x2"), 0xFFFF)
        if combination:
            raise UnsupportedOpcode(form.instruction)

        def packed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            low, high = compare(a, b)
            return integers.pack([np.where(half, np.uint16(one), np.uint16(0)) for half in (low, high)])

        return Arithmetic(packed, (form.code,) * 2, (code,))
    dtype = DTYPES[code]
    raw = integers.unsigned(dtype)
    true = raw.type(floats.ONES[destination] if "f" in destination else np.iinfo(raw).max)

    def function(a: np.ndarray, b: np.ndarray, *other: np.ndarray) -> np.ndarray:
        result = compare(a, b)
        if combination:
            result = _COMBINATIONS[combination](result, other[0])
        return np.where(result, true, raw.type(0)).view(dtype)

    return Arithmetic(function, (form.code,) * 2 + ("pred",) * bool(combination), (code,))


def selp(form: Form) -> Arithmetic:
    bits = _bits(form)
    return Arithmetic(lambda a, b, choose: np.where(choose, a, b), (bits, bits, "pred"), (bits,))


def slct(form: Form) -> Arithmetic:
    if form.type not in ("f32", "s32"):
        raise UnsupportedOpcode(form.instruction)
    bits = f"b{DTYPES[carrier(form.types[0])].itemsize * 8}"
    return Arithmetic(lambda a, b, sign: np.where(sign >= 0, a, b), (bits, bits, form.code), (bits,))


# Moves and bits


def _bits(form: Form) -> str:
    return "pred" if form.type == "pred" else f"b{form.dtype.itemsize * 8}"


def mov(form: Form) -> Arithmetic:
    destination, source = form.instruction.operands
    whole = _bits(form)
    if isinstance(source, ir.Vector):
        part = _part(form, source)
        return Arithmetic(conversions.joined(DTYPES[whole]), (part,) * len(source.elements), (whole,))
    if isinstance(destination, ir.Vector):
        part = _part(form, destination)
        return Arithmetic(
            conversions.split(DTYPES[part], len(destination.elements)),
            (whole,),
            (part,) * len(destination.elements),
        )
    return Arithmetic(lambda x: x, (whole,), (whole,))


def _part(form: Form, vector: ir.Vector) -> str:
    part = f"b{form.dtype.itemsize * 8 // len(vector.elements)}"
    if part not in DTYPES:
        raise UnsupportedOpcode(form.instruction)
    return part


def bitwise(function: Function, operands: int) -> Callable[[Form], Arithmetic]:
    return lambda form: form.uniform(function, operands)


def shift(form: Form) -> Arithmetic:
    shift = {"shl": np.left_shift, "shr": np.right_shift}[form.instruction.opcode]
    dtype = form.dtype
    count = form.instruction.operands[2]
    if isinstance(count, ir.Immediate):
        fixed = np.array(min(count.bits & 0xFFFFFFFF, 64), dtype)
        return Arithmetic(lambda x, _: shift(x, fixed), (form.code, "u32"), (form.code,))
    return Arithmetic(lambda x, count: shift(x, integers.shift_amount(count, dtype)), (form.code, "u32"), (form.code,))


def shf(form: Form) -> Arithmetic:
    left, clamp = "l" in form.flags, "clamp" in form.flags
    return form.uniform(lambda low, high, count: integers.funnel_shift(low, high, count, left, clamp), 3)


def lop3(form: Form) -> Arithmetic:
    table = form.instruction.operands[4]
    if not isinstance(table, ir.Immediate):
        raise UnsupportedOpcode(form.instruction)
    return form.uniform(lambda a, b, c, _: integers.lookup3(a, b, c, table.bits), 4)


def prmt(form: Form) -> Arithmetic:
    mode = form.flags[0] if form.flags else None
    selector = form.instruction.operands[3]
    if mode is None and isinstance(selector, ir.Immediate):
        return form.uniform(integers.constant_permutation(selector.bits), 3)
    return form.uniform(lambda a, b, selector: integers.permute_bytes(a, b, selector, mode), 3)


def bfe(form: Form) -> Arithmetic:
    return Arithmetic(integers.extract_bits, (form.code, "u32", "u32"), (form.code,))


def bfi(form: Form) -> Arithmetic:
    return Arithmetic(integers.insert_bits, (form.code, form.code, "u32", "u32"), (form.code,))


def bfind(form: Form) -> Arithmetic:
    shift_amount = "shiftamt" in form.flags
    return Arithmetic(lambda x: integers.find_leading(x, shift_amount), (form.code,), ("u32",))


def popc(form: Form) -> Arithmetic:
    return Arithmetic(lambda x: np.bitwise_count(x).astype(np.uint32), (form.code,), ("u32",))


def clz(form: Form) -> Arithmetic:
    return Arithmetic(integers.leading_zeros, (form.code,), ("u32",))


def cnot(form: Form) -> Arithmetic:
    return form.uniform(lambda x: (x == 0).astype(x.dtype), 1)


def sad(form: Form) -> Arithmetic:
    code = f"u{form.type[1:]}"
    return Arithmetic(
        lambda a, b, c: integers.absolute_difference(a, b).view(c.dtype) + c,
        (form.code, form.code, code),
        (code,),
    )


def dot_product(form: Form) -> Arithmetic:
    """`dp4a.atype.btype` and `dp2a.{lo,hi}.atype.btype`."""
    if len(form.types) != 2:
        raise UnsupportedOpcode(form.instruction)
    a_kind, b_kind = (name[0] for name in form.types)
    wide = form.instruction.opcode == "dp2a"
    a_lane, b_lane = DTYPES[a_kind + ("16" if wide else "8")], DTYPES[b_kind + "8"]
    total = "s32" if "s" in (a_kind, b_kind) else "u32"
    function = integers.dot_product(a_lane, b_lane, half=int("hi" in form.flags))
    return Arithmetic(function, ("b32", "b32", total), (total,))


def vabsdiff4(form: Form) -> Arithmetic:
    lane = DTYPES[f"{form.type[0]}8"]
    function = integers.absolute_differences(lane, accumulate="add" in form.flags)
    return Arithmetic(function, ("b32",) * 3, ("b32",))


def cvt(form: Form) -> Arithmetic:
    if len(form.types) != 2:
        raise UnsupportedOpcode(form.instruction)
    destination, source = form.types
    function = conversions.conversion(destination, source, frozenset(form.flags))
    if function is None:
        raise UnsupportedOpcode(form.instruction)
    operands = len(form.instruction.operands) - 1
    return Arithmetic(function, (carrier(source),) * operands, (carrier(destination),))
