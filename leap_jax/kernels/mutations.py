"""Systematic mistakes: wrong answers to composed tasks, such as a small policy makes.

Half of them misread the task: the answer is right for another composition, whose numbers differ visibly.
The other half are slips: one place in the text of a right answer has gone wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from leap_jax.kernels.composition import Composition, Step, apply_steps, evaluate
from leap_jax.kernels.generator import FEW_COLUMNS, sample, visibly_different
from leap_jax.kernels.operations import BINARY, NORMALISATIONS, REDUCTIONS, UNARY, Operation
from leap_jax.kernels.styles import answers

T = TypeVar("T")

# Operations that are easily taken for one another.
CONFUSABLE = (
    ("relu", "relu6", "leaky_relu", "elu", "relu_squared", "hardtanh"),
    ("silu", "sigmoid", "quick_gelu", "gelu", "mish", "hardswish"),
    ("sigmoid", "log_sigmoid", "hardsigmoid", "softplus", "tanh"),
    ("tanh", "hardtanh", "tanhshrink", "softsign", "atan"),
    ("softshrink", "hardshrink", "clamp"),
    ("plus", "minus", "from", "times"),
    ("at_least", "at_most", "clamp"),
    ("square", "cube", "abs", "negate"),
    ("sqrt_abs", "log1p_abs", "abs"),
    ("exp", "gaussian", "cauchy"),
    ("sin", "cos"),
    ("floor", "ceil", "trunc", "round", "step"),
    ("xor", "and", "or", "not", "popcount"),
    ("shift_left", "shift_right"),
    ("add_y", "sub_y", "rsub_y", "mean_y"),
    ("mul_y", "div_abs_y", "gate_y", "gate_relu_y"),
    ("max_y", "min_y"),
    ("distance_y", "square_error_y", "hypot_y", "sub_y"),
    ("xor_y", "and_y", "or_y"),
)


def broken(composition: Composition, rng: np.random.Generator) -> tuple[str, str]:
    """The kind of a mistake and a response that makes it; the text differs from every correct answer."""
    correct = list(answers(composition).values())
    while True:
        mistake = _pick(_pick((MISREADINGS, SLIPS), rng), rng)
        if mistake in MISREADINGS:
            other = mistake(composition, rng)
            usable = other is not None and _differs(composition, other)
            response = _pick(list(answers(other).values()), rng) if usable else None
        else:
            response = mistake(_pick(correct, rng), composition, rng)
        if response is not None and response not in correct:
            return mistake.__name__, response


# Misreadings: (composition, rng) -> another composition, None where the mistake does not apply.


def dropped_operation(composition: Composition, rng: np.random.Generator) -> Composition | None:
    i = int(rng.integers(len(composition.steps)))
    return _with_steps(composition, i, ()) if len(composition.steps) > 1 else None


def repeated_operation(composition: Composition, rng: np.random.Generator) -> Composition:
    i = int(rng.integers(len(composition.steps)))
    return _with_steps(composition, i, (composition.steps[i],) * 2)


def confused_operation(composition: Composition, rng: np.random.Generator) -> Composition | None:
    """One operation taken for a related one; its constant is kept where both have one."""
    i = int(rng.integers(len(composition.steps)))
    step = composition.steps[i]
    groups = [group for group in CONFUSABLE if step.operation.name in group]
    names = {name for group in groups for name in group} - {step.operation.name}
    related = [operation for operation in _siblings(step, composition.dtype) if operation.name in names]
    return _with_steps(composition, i, (_substitute(step, _pick(related, rng), rng),)) if related else None


def other_operation(composition: Composition, rng: np.random.Generator) -> Composition:
    """One operation taken for any other of the same kind."""
    i = int(rng.integers(len(composition.steps)))
    step = composition.steps[i]
    operation = _pick(_siblings(step, composition.dtype), rng)
    return _with_steps(composition, i, (_substitute(step, operation, rng),))


def swapped_operations(composition: Composition, rng: np.random.Generator) -> Composition | None:
    """Two neighbours of one chain in the wrong order."""
    before, after = list(composition.before), list(composition.after)
    chain = _pick([c for c in (before, after) if len(c) > 1] or [[]], rng)
    if not chain:
        return None
    i = int(rng.integers(len(chain) - 1))
    chain[i], chain[i + 1] = chain[i + 1], chain[i]
    return replace(composition, before=tuple(before), after=tuple(after))


def wrong_constant(composition: Composition, rng: np.random.Generator) -> Composition | None:
    places = [i for i, step in enumerate(composition.steps) if step.constant is not None]
    if not places:
        return None
    i = _pick(places, rng)
    operation = composition.steps[i].operation
    return _with_steps(composition, i, (Step(operation, _pick(operation.constants, rng)),))


def confused_row_operation(composition: Composition, rng: np.random.Generator) -> Composition | None:
    """A reduction taken for another, a normalisation for another."""
    if composition.row is None:
        return None
    table = REDUCTIONS if composition.reduces else NORMALISATIONS
    return replace(composition, row=_pick(table[composition.dtype], rng))


def chain_on_wrong_side(composition: Composition, rng: np.random.Generator) -> Composition | None:
    """The operation next to the row operation done on its other side."""
    before, after = composition.before, composition.after
    if composition.row is None or not before or before[-1].operation in BINARY[composition.dtype]:
        return None
    return replace(composition, before=before[:-1], after=(before[-1], *after))


# Slips: (text of a correct answer, composition, rng) -> spoiled text, None where the mistake does not apply.


def missing_guard(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    guards = (
        (r" *if \(\w+ >= [\w *]+\) return;\n", ""),
        (r"if \((i|row) < [^)]+\) (?={)", ""),
        (r"min\(start \+ 2, [\w *]+\)", "start + 2"),
    )
    return _once(*_pick(guards, rng), text, rng)


def guard_off_by_one(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    """`<` for `<=` or `>=` for `>`: the extra index is out of the buffer."""
    slips = ((r"\b(i|j|row) < (?=n\b|rows|cols)", r"\1 <= "), (" >= ", " > "))
    return _once(*_pick(slips, rng), text, rng)


def wrong_index(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    """Another element than the one that belongs here."""
    slips = (
        (r"\bx\[i\]", "x[threadIdx.x]"),
        (r"\bout\[i\] =", "out[threadIdx.x] ="),
        (r"blockIdx\.x \* blockDim\.x \+ threadIdx\.x", "blockIdx.x + threadIdx.x"),
        (r"\b(x|out) \+= row \* cols", r"\1 += row * rows"),
        (r"\b(x|out) \+= row \* cols", r"\1 += row"),
        (r"= row \* cols \+ j", "= row * rows + j"),
        (r"\bout\[row\] =", "out[0] ="),
        (r"threadIdx\.x\) \* 2", "threadIdx.x)"),
    )
    return _once(*_pick(slips, rng), text, rng)


def wrong_grid(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    """Too few blocks."""
    slips = (
        (r"ceil_div\(([\w *]+), (\d+)\)", r"\1 // \2"),
        (r"ceil_div\([\w *]+, \d+\)|(?<=grid=\()rows(?=\))", "1"),
    )
    return _once(*_pick(slips, rng), text, rng)


def wrong_operand(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    """x where y belongs, visibly."""
    if composition.second == "none":
        return None
    x = sample(composition)["x"]
    visible = all(_changes(composition, x=x, y=y) for y in (x, x[0]))
    return _once(r"\by\[", "x[", text, rng) if visible else None


def wrong_type(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    """Floats kept in an int, visibly."""
    if composition.dtype != "f32" or not _changes(composition, x=np.trunc(sample(composition)["x"])):
        return None
    return _once(r"float(?= v = x\[)", "int", text, rng)


def missing_barrier(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    return _once(r" *__syncthreads\(\);\n", "", text, rng)


def missing_shuffle(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    """The lanes of a warp keep their own shares of the row."""
    return _once(r" *for .*__shfl_xor_sync.*\n", "", text, rng)


def uninitialised_accumulator(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    """Not of a sum: compilers let that start from 0."""
    return _once(r"\bacc = -?IN\w+", "acc", text, rng) if _shows_start_from_zero(composition) else None


def wrong_initial_value(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    """A maximum or minimum that starts from 0; a sum that starts from 1."""
    if not composition.reduces or composition.row.stages[0].combine == "sum":
        return _once(r"(?<=\bacc = )0", "1", text, rng)
    zero = {"f32": "0.0f", "i32": "0"}[composition.dtype]
    return _once(r"(?<=\bacc = )-?IN\w+", zero, text, rng) if _shows_start_from_zero(composition) else None


def undeclared_variable(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    return _once(r"(?<=\] = )[a-z]\w*", "result", text, rng)


def misspelled_name(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    """The second and third letter of a built-in name swapped."""
    names = r"\b(\w)(\w)(\w)(\w*f(?=\()|eadIdx|ockIdx|ockDim|yncthreads)"
    return _once(names, r"\1\3\2\4", text, rng)


def missing_semicolon(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    return _once(r";(?=\n)", "", text, rng)


def missing_brace(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    return _once(r" *}\n", "", text, rng)


def missing_launch_line(text: str, composition: Composition, rng: np.random.Generator) -> str | None:
    return _once(r"// launch:.*\n", "", text, rng)


MISREADINGS = (
    dropped_operation,
    repeated_operation,
    confused_operation,
    other_operation,
    swapped_operations,
    wrong_constant,
    confused_row_operation,
    chain_on_wrong_side,
)
SLIPS = (
    missing_guard,
    guard_off_by_one,
    wrong_index,
    wrong_grid,
    wrong_operand,
    wrong_type,
    missing_barrier,
    missing_shuffle,
    uninitialised_accumulator,
    wrong_initial_value,
    undeclared_variable,
    misspelled_name,
    missing_semicolon,
    missing_brace,
    missing_launch_line,
)


def _pick(items: Sequence[T], rng: np.random.Generator) -> T:
    return items[int(rng.integers(len(items)))]


def _once(pattern: str, replacement: str, text: str, rng: np.random.Generator) -> str | None:
    """`text` with one match of the pattern, drawn at random, replaced; None if there is none."""
    matches = list(re.finditer(pattern, text))
    if not matches:
        return None
    match = _pick(matches, rng)
    return text[: match.start()] + match.expand(replacement) + text[match.end() :]


def _with_steps(composition: Composition, i: int, steps: tuple[Step, ...]) -> Composition:
    """The composition with others in the place of its i-th step."""
    before, after = composition.before, composition.after
    if i < len(before):
        return replace(composition, before=before[:i] + steps + before[i + 1 :])
    i -= len(before)
    return replace(composition, after=after[:i] + steps + after[i + 1 :])


def _siblings(step: Step, dtype: str) -> tuple[Operation, ...]:
    """The operations with as many operands."""
    return BINARY[dtype] if step.operation in BINARY[dtype] else UNARY[dtype]


def _substitute(step: Step, operation: Operation, rng: np.random.Generator) -> Step:
    """Another operation with the step's constant, or one of its own if the step has none."""
    if not operation.constants:
        return Step(operation)
    return Step(operation, step.constant or _pick(operation.constants, rng))


def _shows_start_from_zero(composition: Composition) -> bool:
    """Whether a maximum or minimum that starts from 0 is visible in short rows."""
    if not composition.reduces or composition.row.stages[0].combine == "sum":
        return False
    inputs = {name: values[:, :FEW_COLUMNS] for name, values in sample(composition).items()}
    with np.errstate(all="ignore"):
        want = composition.row.reference(np, apply_steps(composition.before, np, inputs["x"], inputs.get("y")))
        bound = np.maximum if composition.row.stages[0].combine == "max" else np.minimum
        return visibly_different(*(apply_steps(composition.after, np, v) for v in (want, bound(want, 0))))


def _differs(composition: Composition, other: Composition) -> bool:
    """Whether two compositions differ visibly on the sample."""
    inputs = sample(composition)
    with np.errstate(all="ignore"):
        return visibly_different(*(evaluate(c, np, **inputs) for c in (composition, other)))


def _changes(composition: Composition, **inputs: np.ndarray) -> bool:
    """Whether a composition gives visibly different numbers with some of the sample's inputs replaced."""
    ours = sample(composition)
    with np.errstate(all="ignore"):
        return visibly_different(*(evaluate(composition, np, **v) for v in (ours, {**ours, **inputs})))
