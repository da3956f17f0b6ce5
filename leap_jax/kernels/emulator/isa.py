"""The semantics of PTX arithmetic: one table, opcode -> function of NumPy arrays.

`arithmetic(instruction)` resolves an instruction once, before a run, to an `Arithmetic`: a function of one
array per source operand, all lanes at once, chosen for exactly these modifiers, so that nothing is decided
per call. Functions work elementwise on any shapes that broadcast (0-d included), never raise, may return
one of their operands, and expect `np.errstate(all="ignore")` around them.

To add an opcode, write a builder (builders.py) and give it a line in `_TABLE`: the types it accepts and the
modifiers it understands (any other type or modifier is reported as unsupported):

    def average(form: Form) -> Arithmetic:
        return form.uniform(form.finish(lambda a, b: (a + b) / form.dtype.type(2)), 2)

    "avg": Opcode(builders.average, "f32 f64", "ftz"),

What touches memory, other lanes or the flow of control is the machine's: `_MACHINE` names it, and it is made in
memory_ops.py, copies.py, mbarriers.py (steps), control.py, warp.py and matrices.py (controls).

`form.types` holds the types in the order of the text, `form.flags` the other modifiers; `form.uniform` makes
an operation whose operands and result all have the last type. Array formulas live beside this file:
rounding.py (IEEE rounding), floats.py (comparisons, approximations, 16-bit floats), integers.py,
conversions.py.
"""

from __future__ import annotations

import numpy as np

from leap_jax.kernels.emulator import builders, floats, integers, ir
from leap_jax.kernels.emulator.forms import (
    DTYPES,
    TYPES,
    Arithmetic,
    Form,
    Function,
    Opcode,
    UnsupportedOpcode,
    carrier,
)

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


_ROUNDING = "rn rz rm rp"
_COMPARE = " ".join(floats.COMPARISONS.keys() | integers.COMPARISONS.keys()) + " and or xor ftz"

_TABLE: dict[str, Opcode] = {
    "add": Opcode(builders.add, f"{_NUMBERS} s16x2 u16x2", f"{_ROUNDING} ftz sat cc"),
    "sub": Opcode(builders.sub, _NUMBERS, f"{_ROUNDING} ftz sat cc"),
    "mul": Opcode(builders.mul, _NUMBERS, f"{_ROUNDING} ftz sat lo hi wide"),
    "mad": Opcode(builders.mad, f"{_INTEGERS} f32 f64", f"{_ROUNDING} ftz sat lo hi wide cc"),
    "fma": Opcode(builders.fma, f"f32 f64 {_HALVES}", f"{_ROUNDING} ftz sat relu"),
    "addc": Opcode(builders.add_with_carry, "u32 s32 u64 s64", "cc"),
    "subc": Opcode(builders.with_borrow, "u32 s32 u64 s64", "cc"),
    "madc": Opcode(builders.mad, "u32 s32 u64 s64", "lo hi cc"),
    "div": Opcode(builders.div, f"{_INTEGERS} f32 f64", f"{_ROUNDING} ftz approx full"),
    "rem": Opcode(builders.bitwise(integers.remainder, 2), _INTEGERS),
    "rcp": Opcode(builders.reciprocal, "f32 f64", f"{_ROUNDING} ftz approx"),
    "sqrt": Opcode(builders.sqrt, "f32 f64", f"{_ROUNDING} ftz approx"),
    "rsqrt": Opcode(builders.rsqrt, "f32 f64", "ftz approx"),
    "ex2": Opcode(builders.approximation, f"f32 {_HALVES}", "ftz approx"),
    "lg2": Opcode(builders.approximation, "f32", "ftz approx"),
    "sin": Opcode(builders.approximation, "f32", "ftz approx"),
    "cos": Opcode(builders.approximation, "f32", "ftz approx"),
    "tanh": Opcode(builders.approximation, f"f32 {_HALVES}", "approx"),
    "min": Opcode(builders.extremum, f"{_NUMBERS} s16x2 u16x2", "ftz NaN relu"),
    "max": Opcode(builders.extremum, f"{_NUMBERS} s16x2 u16x2", "ftz NaN relu"),
    "abs": Opcode(builders.elementwise(np.abs, np.abs, 1), f"s16 s32 s64 f32 f64 {_HALVES}", "ftz"),
    "neg": Opcode(builders.elementwise(np.negative, np.negative, 1), f"s16 s32 s64 f32 f64 {_HALVES}", "ftz"),
    "copysign": Opcode(builders.copysign, "f32 f64"),
    "testp": Opcode(builders.testp, "f32 f64", " ".join(floats.CLASSES)),
    "setp": Opcode(builders.setp, f"{_NUMBERS} {_BITS}", _COMPARE),
    "set": Opcode(builders.set_mask, f"{_NUMBERS} {_BITS}", _COMPARE),
    "selp": Opcode(builders.selp, f"{_INTEGERS} {_BITS} f16 f32 f64"),
    "slct": Opcode(builders.slct, f"{_INTEGERS} {_BITS} f32 f64", "ftz"),
    "mov": Opcode(builders.mov, f"pred {_INTEGERS} {_BITS} f16 bf16 f16x2 bf16x2 f32 f64"),
    "cvt": Opcode(builders.cvt, " ".join(TYPES), f"{_ROUNDING} rna rni rzi rmi rpi ftz sat satfinite relu"),
    "and": Opcode(builders.bitwise(np.bitwise_and, 2), f"pred {_BITS}"),
    "or": Opcode(builders.bitwise(np.bitwise_or, 2), f"pred {_BITS}"),
    "xor": Opcode(builders.bitwise(np.bitwise_xor, 2), f"pred {_BITS}"),
    "not": Opcode(builders.bitwise(np.invert, 1), f"pred {_BITS}"),
    "cnot": Opcode(builders.cnot, _BITS),
    "lop3": Opcode(builders.lop3, "b32"),
    "shl": Opcode(builders.shift, _BITS),
    "shr": Opcode(builders.shift, f"{_INTEGERS} {_BITS}"),
    "shf": Opcode(builders.shf, "b32", "l r wrap clamp"),
    "prmt": Opcode(builders.prmt, "b32", "f4e b4e rc8 ecl ecr rc16"),
    "bfe": Opcode(builders.bfe, "u32 s32 u64 s64"),
    "bfi": Opcode(builders.bfi, "b32 b64"),
    "bfind": Opcode(builders.bfind, "u32 s32 u64 s64", "shiftamt"),
    "brev": Opcode(builders.bitwise(integers.reverse_bits, 1), "b32 b64"),
    "popc": Opcode(builders.popc, "b32 b64"),
    "clz": Opcode(builders.clz, "b32 b64"),
    "sad": Opcode(builders.sad, _INTEGERS),
    "dp4a": Opcode(builders.dot_product, "u32 s32"),
    "dp2a": Opcode(builders.dot_product, "u32 s32", "lo hi"),
    "vabsdiff4": Opcode(builders.vabsdiff4, "u32 s32", "add"),
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
