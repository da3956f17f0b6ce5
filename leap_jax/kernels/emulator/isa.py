"""The semantics of PTX arithmetic: one table, opcode -> function of NumPy arrays.

`arithmetic(instruction)` resolves an instruction once, before a run, to an `Arithmetic`: a function of one
array per source operand, all lanes at once, chosen for exactly these modifiers, so that nothing is decided
per call. Functions work elementwise on any shapes that broadcast (0-d included), never raise, may return
one of their operands, and expect `np.errstate(all="ignore")` around them.

To add an opcode, write a builder and give it a line in `_TABLE`: the types it accepts and the modifiers it
understands (any other type or modifier is reported as unsupported):

    def _average(form: Form) -> Arithmetic:
        return form.uniform(lambda a, b: (a + b) / form.dtype.type(2), 2)

    "avg": Opcode(_average, "f32 f64", "ftz"),

`form.types` holds the types in the order of the text, `form.flags` the other modifiers; `form.uniform` makes
an operation whose operands and result all have the last type. Array formulas live beside this file:
rounding.py (IEEE rounding), floats.py (comparisons, approximations, 16-bit floats), integers.py,
conversions.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from leap_jax.kernels.emulator import conversions, floats, integers, ir
from leap_jax.kernels.emulator.forms import (
    DTYPES,
    TYPES,
    Arithmetic,
    Form,
    Function,
    Opcode,
    Result,
    UnsupportedOpcode,
    carrier,
)
from leap_jax.kernels.emulator.rounding import NEAREST, flush, rounded

__all__ = ["DTYPES", "Arithmetic", "UnsupportedOpcode", "arithmetic", "atomic", "carrier"]

_INTEGERS = "u16 s16 u32 s32 u64 s64"
_BITS = "b16 b32 b64"
_HALVES = "f16 f16x2 bf16 bf16x2"
_NUMBERS = f"{_INTEGERS} f32 f64 {_HALVES}"

# What the machine runs itself: memory, control flow, communication between lanes, tensor cores.
_MACHINE = (
    *("ld", "ldu", "st", "atom", "red", "prefetch", "prefetchu", "cvta", "isspacep", "membar", "fence", "cp"),
    *("mbarrier", "discard", "applypriority", "bra", "brx", "call", "ret", "exit", "trap", "brkpt", "pmevent"),
    *("nanosleep", "bar", "barrier", "griddepcontrol", "shfl", "vote", "match", "redux", "activemask", "elect"),
    *("wmma", "mma", "ldmatrix", "stmatrix", "movmatrix"),
)


def arithmetic(instruction: ir.Instruction) -> Arithmetic | None:
    """The semantics of a register-to-register instruction; None for what the machine runs itself.

    Raises UnsupportedOpcode.
    """
    if instruction.opcode in _MACHINE:
        return None
    opcode = _TABLE.get(instruction.opcode)
    if opcode is None:
        raise UnsupportedOpcode(instruction)
    form = Form(
        instruction,
        tuple(m for m in instruction.modifiers if m in TYPES),
        tuple(m for m in instruction.modifiers if m not in TYPES),
    )
    if not form.types or not set(form.types) <= set(opcode.types.split()):
        raise UnsupportedOpcode(instruction)
    if not set(form.flags) <= set(opcode.flags.split()):
        raise UnsupportedOpcode(instruction)
    return opcode.build(form)


# Sums, products, quotients


def _float_operation(form: Form, name: str, operands: int) -> Arithmetic:
    """`add sub mul div fma sqrt rcp` on a floating type."""
    if form.type in floats.HALVES:
        exact = floats.fused_multiply_add if name == "fma" else rounded(name, NEAREST, np.dtype(np.float64))
        return form.uniform(floats.half_operation(form.type, exact, form.flags), operands)
    return form.uniform(form.finish(rounded(name, form.rounding, form.dtype)), operands)


def _add(form: Form) -> Arithmetic:
    if form.is_float:
        return _float_operation(form, "add", 2)
    if "cc" in form.flags:
        return _add_with_carry(form)
    if "sat" in form.flags:
        return form.uniform(conversions.saturating_sum(np.add, form.dtype), 2)
    return form.uniform(np.add, 2)


def _sub(form: Form) -> Arithmetic:
    if form.is_float:
        return _float_operation(form, "sub", 2)
    if "cc" in form.flags:
        return _with_borrow(form)
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


def _add_with_carry(form: Form) -> Arithmetic:
    return _with_carry(form, lambda a, b: a, lambda a, b: b, 2)


def _with_borrow(form: Form) -> Arithmetic:
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


def _mul(form: Form) -> Arithmetic:
    if form.is_float:
        return _float_operation(form, "mul", 2)
    if "wide" in form.flags:
        wide, code = _widened(form)
        return Arithmetic(lambda a, b: a.astype(wide) * b.astype(wide), (form.code,) * 2, (code,))
    return form.uniform(_PRODUCTS[_half(form)], 2)


def _mad(form: Form) -> Arithmetic:
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


def _fma(form: Form) -> Arithmetic:
    return _float_operation(form, "fma", 3)


def _div(form: Form) -> Arithmetic:
    if not form.is_float:
        return form.uniform(integers.divide, 2)
    if "approx" in form.flags:
        return form.uniform(form.finish(floats.divide_approx), 2)
    return _float_operation(form, "div", 2)


def _reciprocal(form: Form) -> Arithmetic:
    if "approx" in form.flags and form.type == "f64":
        return form.uniform(floats.high_word(rounded("rcp", NEAREST, form.dtype)), 1)
    return _float_operation(form, "rcp", 1)


def _sqrt(form: Form) -> Arithmetic:
    return _float_operation(form, "sqrt", 1)


def _rsqrt(form: Form) -> Arithmetic:
    if form.type == "f64":
        function = floats.APPROXIMATIONS["rsqrt"]
        return form.uniform(floats.high_word(function) if "ftz" in form.flags else function, 1)
    return _approximation(form)


def _approximation(form: Form) -> Arithmetic:
    """Computed in binary64 and rounded once: the hardware's last bits are not public."""
    exact = floats.APPROXIMATIONS[form.instruction.opcode]
    if form.type in floats.HALVES:
        return form.uniform(floats.half_operation(form.type, exact, form.flags), 1)
    return form.uniform(form.finish(lambda x: exact(x.astype(np.float64)).astype(np.float32)), 1)


# Signs, minima, comparisons, selection


def _elementwise(integer: Function, floating: Function, operands: int) -> Callable[[Form], Arithmetic]:
    """A builder for operations that need no rounding: one function for integers, one for floats."""

    def build(form: Form) -> Arithmetic:
        if form.type in floats.HALVES:
            return form.uniform(floats.half_operation(form.type, floating, form.flags), operands)
        return form.uniform(form.finish(floating if form.is_float else integer), operands)

    return build


def _extremum(form: Form) -> Arithmetic:
    name = form.instruction.opcode
    integer = {"min": np.minimum, "max": np.maximum}[name]
    if form.type in ("s16x2", "u16x2"):
        lane = DTYPES[form.type[:3]]
        return form.uniform(floats.pairwise(integer, lane), 2)
    return _elementwise(integer, floats.EXTREMA[name, "NaN" in form.flags], 2)(form)


def _copysign(form: Form) -> Arithmetic:
    return form.uniform(lambda sign, magnitude: np.copysign(magnitude, sign), 2)


def _testp(form: Form) -> Arithmetic:
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


def _setp(form: Form) -> Arithmetic:
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


def _set(form: Form) -> Arithmetic:
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


def _selp(form: Form) -> Arithmetic:
    bits = _bits(form)
    return Arithmetic(lambda a, b, choose: np.where(choose, a, b), (bits, bits, "pred"), (bits,))


def _slct(form: Form) -> Arithmetic:
    if form.type not in ("f32", "s32"):
        raise UnsupportedOpcode(form.instruction)
    bits = f"b{DTYPES[carrier(form.types[0])].itemsize * 8}"
    return Arithmetic(lambda a, b, sign: np.where(sign >= 0, a, b), (bits, bits, form.code), (bits,))


# Moves and bits


def _bits(form: Form) -> str:
    return "pred" if form.type == "pred" else f"b{form.dtype.itemsize * 8}"


def _mov(form: Form) -> Arithmetic:
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


def _bitwise(function: Function, operands: int) -> Callable[[Form], Arithmetic]:
    return lambda form: form.uniform(function, operands)


def _shift(form: Form) -> Arithmetic:
    shift = {"shl": np.left_shift, "shr": np.right_shift}[form.instruction.opcode]
    dtype = form.dtype
    count = form.instruction.operands[2]
    if isinstance(count, ir.Immediate):
        fixed = np.array(min(count.bits & 0xFFFFFFFF, 64), dtype)
        return Arithmetic(lambda x, _: shift(x, fixed), (form.code, "u32"), (form.code,))
    return Arithmetic(lambda x, count: shift(x, integers.shift_amount(count, dtype)), (form.code, "u32"), (form.code,))


def _shf(form: Form) -> Arithmetic:
    left, clamp = "l" in form.flags, "clamp" in form.flags
    return form.uniform(lambda low, high, count: integers.funnel_shift(low, high, count, left, clamp), 3)


def _lop3(form: Form) -> Arithmetic:
    table = form.instruction.operands[4]
    if not isinstance(table, ir.Immediate):
        raise UnsupportedOpcode(form.instruction)
    return form.uniform(lambda a, b, c, _: integers.lookup3(a, b, c, table.bits), 4)


def _prmt(form: Form) -> Arithmetic:
    mode = form.flags[0] if form.flags else None
    selector = form.instruction.operands[3]
    if mode is None and isinstance(selector, ir.Immediate):
        return form.uniform(integers.constant_permutation(selector.bits), 3)
    return form.uniform(lambda a, b, selector: integers.permute_bytes(a, b, selector, mode), 3)


def _bfe(form: Form) -> Arithmetic:
    return Arithmetic(integers.extract_bits, (form.code, "u32", "u32"), (form.code,))


def _bfi(form: Form) -> Arithmetic:
    return Arithmetic(integers.insert_bits, (form.code, form.code, "u32", "u32"), (form.code,))


def _bfind(form: Form) -> Arithmetic:
    shift_amount = "shiftamt" in form.flags
    return Arithmetic(lambda x: integers.find_leading(x, shift_amount), (form.code,), ("u32",))


def _popc(form: Form) -> Arithmetic:
    return Arithmetic(lambda x: np.bitwise_count(x).astype(np.uint32), (form.code,), ("u32",))


def _clz(form: Form) -> Arithmetic:
    return Arithmetic(integers.leading_zeros, (form.code,), ("u32",))


def _cnot(form: Form) -> Arithmetic:
    return form.uniform(lambda x: (x == 0).astype(x.dtype), 1)


def _sad(form: Form) -> Arithmetic:
    code = f"u{form.type[1:]}"
    return Arithmetic(
        lambda a, b, c: integers.absolute_difference(a, b).view(c.dtype) + c,
        (form.code, form.code, code),
        (code,),
    )


def _dot(form: Form) -> Arithmetic:
    """`dp4a.atype.btype` and `dp2a.{lo,hi}.atype.btype`."""
    if len(form.types) != 2:
        raise UnsupportedOpcode(form.instruction)
    a_kind, b_kind = (name[0] for name in form.types)
    wide = form.instruction.opcode == "dp2a"
    a_lane, b_lane = DTYPES[a_kind + ("16" if wide else "8")], DTYPES[b_kind + "8"]
    total = "s32" if "s" in (a_kind, b_kind) else "u32"
    function = integers.dot_product(a_lane, b_lane, half=int("hi" in form.flags))
    return Arithmetic(function, ("b32", "b32", total), (total,))


def _vabsdiff4(form: Form) -> Arithmetic:
    lane = DTYPES[f"{form.type[0]}8"]
    function = integers.absolute_differences(lane, accumulate="add" in form.flags)
    return Arithmetic(function, ("b32",) * 3, ("b32",))


def _cvt(form: Form) -> Arithmetic:
    if len(form.types) != 2:
        raise UnsupportedOpcode(form.instruction)
    destination, source = form.types
    function = conversions.conversion(destination, source, frozenset(form.flags))
    if function is None:
        raise UnsupportedOpcode(form.instruction)
    operands = len(form.instruction.operands) - 1
    return Arithmetic(function, (carrier(source),) * operands, (carrier(destination),))


_ROUNDING = "rn rz rm rp"
_COMPARE = " ".join(floats.COMPARISONS.keys() | integers.COMPARISONS.keys()) + " and or xor ftz"

_TABLE: dict[str, Opcode] = {
    "add": Opcode(_add, _NUMBERS, f"{_ROUNDING} ftz sat cc"),
    "sub": Opcode(_sub, _NUMBERS, f"{_ROUNDING} ftz sat cc"),
    "mul": Opcode(_mul, _NUMBERS, f"{_ROUNDING} ftz sat lo hi wide"),
    "mad": Opcode(_mad, f"{_INTEGERS} f32 f64", f"{_ROUNDING} ftz sat lo hi wide cc"),
    "fma": Opcode(_fma, f"f32 f64 {_HALVES}", f"{_ROUNDING} ftz sat relu"),
    "addc": Opcode(_add_with_carry, "u32 s32 u64 s64", "cc"),
    "subc": Opcode(_with_borrow, "u32 s32 u64 s64", "cc"),
    "madc": Opcode(_mad, "u32 s32 u64 s64", "lo hi cc"),
    "div": Opcode(_div, f"{_INTEGERS} f32 f64", f"{_ROUNDING} ftz approx full"),
    "rem": Opcode(_bitwise(integers.remainder, 2), _INTEGERS),
    "rcp": Opcode(_reciprocal, "f32 f64", f"{_ROUNDING} ftz approx"),
    "sqrt": Opcode(_sqrt, "f32 f64", f"{_ROUNDING} ftz approx"),
    "rsqrt": Opcode(_rsqrt, "f32 f64", "ftz approx"),
    "ex2": Opcode(_approximation, f"f32 {_HALVES}", "ftz approx"),
    "lg2": Opcode(_approximation, "f32", "ftz approx"),
    "sin": Opcode(_approximation, "f32", "ftz approx"),
    "cos": Opcode(_approximation, "f32", "ftz approx"),
    "tanh": Opcode(_approximation, f"f32 {_HALVES}", "approx"),
    "min": Opcode(_extremum, f"{_NUMBERS} s16x2 u16x2", "ftz NaN"),
    "max": Opcode(_extremum, f"{_NUMBERS} s16x2 u16x2", "ftz NaN"),
    "abs": Opcode(_elementwise(np.abs, np.abs, 1), f"s16 s32 s64 f32 f64 {_HALVES}", "ftz"),
    "neg": Opcode(_elementwise(np.negative, np.negative, 1), f"s16 s32 s64 f32 f64 {_HALVES}", "ftz"),
    "copysign": Opcode(_copysign, "f32 f64"),
    "testp": Opcode(_testp, "f32 f64", " ".join(floats.CLASSES)),
    "setp": Opcode(_setp, f"{_NUMBERS} {_BITS}", _COMPARE),
    "set": Opcode(_set, f"{_NUMBERS} {_BITS}", _COMPARE),
    "selp": Opcode(_selp, f"{_INTEGERS} {_BITS} f16 f32 f64"),
    "slct": Opcode(_slct, f"{_INTEGERS} {_BITS} f32 f64", "ftz"),
    "mov": Opcode(_mov, f"pred {_INTEGERS} {_BITS} f16 bf16 f16x2 bf16x2 f32 f64"),
    "cvt": Opcode(_cvt, " ".join(TYPES), f"{_ROUNDING} rna rni rzi rmi rpi ftz sat relu"),
    "and": Opcode(_bitwise(np.bitwise_and, 2), f"pred {_BITS}"),
    "or": Opcode(_bitwise(np.bitwise_or, 2), f"pred {_BITS}"),
    "xor": Opcode(_bitwise(np.bitwise_xor, 2), f"pred {_BITS}"),
    "not": Opcode(_bitwise(np.invert, 1), f"pred {_BITS}"),
    "cnot": Opcode(_cnot, _BITS),
    "lop3": Opcode(_lop3, "b32"),
    "shl": Opcode(_shift, _BITS),
    "shr": Opcode(_shift, f"{_INTEGERS} {_BITS}"),
    "shf": Opcode(_shf, "b32", "l r wrap clamp"),
    "prmt": Opcode(_prmt, "b32", "f4e b4e rc8 ecl ecr rc16"),
    "bfe": Opcode(_bfe, "u32 s32 u64 s64"),
    "bfi": Opcode(_bfi, "b32 b64"),
    "bfind": Opcode(_bfind, "u32 s32 u64 s64", "shiftamt"),
    "brev": Opcode(_bitwise(integers.reverse_bits, 1), "b32 b64"),
    "popc": Opcode(_popc, "b32 b64"),
    "clz": Opcode(_clz, "b32 b64"),
    "sad": Opcode(_sad, _INTEGERS),
    "dp4a": Opcode(_dot, "u32 s32"),
    "dp2a": Opcode(_dot, "u32 s32", "lo hi"),
    "vabsdiff4": Opcode(_vabsdiff4, "u32 s32", "add"),
}


_ATOMICS: dict[str, Function] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, new: new,
    "cas": lambda old, expected, new: np.where(old == expected, new, old),
    "inc": lambda old, limit: np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1)),
}


def atomic(instruction: ir.Instruction) -> Function:
    """`function(old, *operands) -> new` of an atom or red, over arrays of `carrier(type)`.

    Raises UnsupportedOpcode.
    """
    name = next((m for m in instruction.modifiers if m in _ATOMICS), None)
    type_name = next((m for m in reversed(instruction.modifiers) if m in TYPES), None)
    if name is None or type_name is None:
        raise UnsupportedOpcode(instruction)
    if type_name in floats.HALVES:
        if name not in ("add", "min", "max"):
            raise UnsupportedOpcode(instruction)
        exact = np.add if name == "add" else floats.EXTREMA[name, False]
        return floats.half_operation(type_name, exact, ())
    return _ATOMICS[name]
