"""An endless family of composed tasks: short chains of operations, each task a pure function of its seed."""

from __future__ import annotations

import hashlib
import itertools
import random
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from leap_jax.kernels import operations
from leap_jax.kernels.comparison import wrong_elements
from leap_jax.kernels.composition import Composition, Step, describe, evaluate, parameters
from leap_jax.kernels.operations import Operation, RowOperation
from leap_jax.kernels.regimes import input_generator, regime_values
from leap_jax.kernels.styles import baseline
from leap_jax.kernels.task import Scalars, Task


def _named(table: dict[str, tuple], f32: str, i32: str) -> dict[str, tuple]:
    """The operations of these names, by dtype."""
    by_name = {dtype: {operation.name: operation for operation in row} for dtype, row in table.items()}
    return {dtype: tuple(by_name[dtype][n] for n in names.split()) for dtype, names in (("f32", f32), ("i32", i32))}


# The operations that tasks are composed of: as many as a small policy learns from a few thousand answers. The others
# of the tables occur in mistakes (mutations.py).
UNARY: dict[str, tuple[Operation, ...]] = _named(
    operations.UNARY,
    f32="plus minus from times at_least at_most clamp negate abs square sqrt_abs log1p_abs exp sin cos tanh sigmoid "
    "softplus relu leaky_relu elu silu gelu hardtanh floor",
    i32="plus minus times xor and shift_right at_least at_most negate abs",
)
BINARY: dict[str, tuple[Operation, ...]] = _named(
    operations.BINARY,
    f32="add_y sub_y rsub_y mul_y max_y min_y gate_y distance_y",
    i32="add_y sub_y mul_y max_y xor_y",
)
REDUCTIONS: dict[str, tuple[RowOperation, ...]] = _named(
    operations.REDUCTIONS, f32="row_sum row_mean row_max row_l2", i32="row_sum row_max"
)
NORMALISATIONS: dict[str, tuple[RowOperation, ...]] = _named(
    operations.NORMALISATIONS, f32="softmax layernorm rmsnorm minus_row_mean", i32="minus_row_max minus_row_min"
)

# The mix of tasks, as weights. Longer chains, more row operations and more second inputs make harder tasks.
KINDS = {"elementwise": 6, "reduction": 2, "normalisation": 2}
LENGTHS = {  # elementwise operations in a chain
    "elementwise": {1: 1, 2: 3, 3: 4, 4: 4},
    "reduction": {1: 2, 2: 4, 3: 4},
    "normalisation": {1: 3, 2: 4, 3: 3},
}
DTYPES = {"f32": 5, "i32": 1}
SECOND_INPUTS = {"none": 5, "same": 3, "column": 2}  # y absent, of x's shape, one value per column
MATRIX_SHARE = 0.4  # of the elementwise tasks with no y per column; all others work on matrices
EXTRA_BINARY_SHARE = 0.2  # chance of each further step of a task with y to use y again

HELDOUT_SHARE = 0.2  # of the structures
RTOL, ATOL = 1e-4, 1e-5
HEADROOM = 0.25  # share of the tolerance that plain f32 arithmetic may use
VISIBLE_SHARE, VISIBLE_ROWS = 0.05, 0.5  # of the elements (of reduced rows) that a difference must show in
VISIBLE_REGIMES = 2  # in at least so many regimes: a check sees one regime at one shape
INT_LIMIT = 1 << 15  # integer inputs stay within 16 bits: signed overflow is undefined in C
ROW_LARGEST = 30.0  # bounds special values where a row adds them up

REGIMES = ("signed", "wide", "zero", "special")
VECTOR_SHAPES = {
    "public_shapes": ({"n": 300}, {"n": 512}),
    "hidden_shapes": ({"n": 1}, {"n": 777}),
    "timing_shape": {"n": 1 << 25},
}
MATRIX_SHAPES = {
    "public_shapes": ({"rows": 9, "cols": 37}, {"rows": 33, "cols": 3}),
    "hidden_shapes": ({"rows": 2, "cols": 65}, {"rows": 70, "cols": 9}),
    "timing_shape": {"rows": 8192, "cols": 4096},
}
COLUMNS = 65  # of the samples that candidates are judged on; rows as short as FEW_COLUMNS are judged as well
FEW_COLUMNS = 3
ROWS, EXACT_ROWS = 4, 24  # of each regime, to judge what operations do, and how exact they are


@lru_cache(maxsize=1 << 16)
def compose(seed: int) -> Composition:
    """The composition of a seed: the first well-conditioned candidate of its stream."""
    candidates = (_candidate(seed, random.Random(f"{seed}/{attempt}")) for attempt in itertools.count())
    return next(filter(well_conditioned, candidates))


def structure(composition: Composition) -> tuple[str, ...]:
    """The sorted multiset of operation names, the row operation included.

    Order, constants, dtype and shapes do not count, so all their variants fall into one split.
    """
    names = [step.operation.name for step in composition.steps]
    return tuple(sorted([*names, composition.row.name] if composition.row else names))


def split(seed: int) -> str:
    """`train` or `heldout`, decided by a hash of the structure: no structure is in both."""
    digest = hashlib.blake2b(" ".join(structure(compose(seed))).encode(), digest_size=8).digest()
    return "heldout" if int.from_bytes(digest, "big") < HELDOUT_SHARE * 2**64 else "train"


def seeds(split_name: str, count: int, start: int = 0) -> list[int]:
    """The first `count` seeds of a split (`train` or `heldout`) from `start` on."""
    if split_name not in ("train", "heldout"):
        raise ValueError(f"unknown split {split_name!r}: train or heldout")
    members = (seed for seed in itertools.count(start) if split(seed) == split_name)
    return list(itertools.islice(members, count))


def composed_task(composition: Composition) -> Task:
    """The task `composed/<seed>` of a composition."""
    params = parameters(composition)
    generate = input_generator(params, largest=ROW_LARGEST) if composition.row else input_generator(params)
    integer = composition.dtype == "i32"
    elements = [" * ".join(param.shape) for param in params if param.role != "scalar"]
    return Task(
        name=f"composed/{composition.seed}",
        family="composed",
        level=composition.level,
        text=describe(composition),
        params=params,
        reference=partial(evaluate, composition),
        inputs=partial(_bounded_inputs, generate) if integer else generate,
        baseline=baseline(composition),
        min_bytes=f"4 * ({' + '.join(elements)})",
        min_ops=f"{composition.level} * {elements[0]}",
        regimes=REGIMES,
        rtol=0.0 if integer else RTOL,
        atol=0.0 if integer else ATOL,
        **(MATRIX_SHAPES if composition.matrix else VECTOR_SHAPES),
    )


def well_conditioned(composition: Composition) -> bool:
    """Whether a composition makes a fair task, judged on a sample of every regime.

    Plain f32 arithmetic stays within HEADROOM of the tolerance (integers never overflow), ordinary inputs
    give finite values, and the result is visibly different from a constant, from each input, and from what it
    would be without any one of its operations or with any one of its inputs shifted.
    """
    inputs = sample(composition)
    with np.errstate(all="ignore"):
        want = evaluate(composition, np, **inputs)
        others = [np.zeros_like(want), np.full_like(want, np.median(want[:ROWS]))]
        others += [] if composition.reduces else [np.broadcast_to(v, want.shape) for v in inputs.values()]
        others += [evaluate(shorter, np, **inputs) for shorter in without_one(composition)]
        moved = [{**inputs, name: np.roll(values, (1, 1), (0, 1))} for name, values in inputs.items()]
        others += [evaluate(composition, np, **values) for values in moved]
        return all(visibly_different(want, other) for other in others) and _exact_enough(composition)


def _exact_enough(composition: Composition) -> bool:
    """Whether the task's own dtype stays within HEADROOM, and is finite for ordinary inputs."""
    columns = (COLUMNS, FEW_COLUMNS) if composition.row else (COLUMNS,)
    for cols in columns:
        samples = _samples(composition.dtype, composition.second, composition.row is not None, EXACT_ROWS)
        wide, narrow = ({n: v.reshape(-1, cols) for n, v in values.items()} for values in samples)
        want, got = evaluate(composition, np, **wide), evaluate(composition, SERIAL, **narrow)
        if not np.isfinite(got[: len(got) // len(REGIMES)]).all():
            return False
        if wrong_elements(got, want, HEADROOM * RTOL, HEADROOM * ATOL).any():
            return False
    return True


def _serial_sum(v: np.ndarray, axis: int, keepdims: bool, dtype: np.dtype) -> np.ndarray:
    """`np.sum` along the last axis in the order of a loop, whose rounding errors are larger."""
    return np.cumsum(v, axis=axis, dtype=dtype)[..., -1:]


def _serial_mean(v: np.ndarray, axis: int, keepdims: bool) -> np.ndarray:
    return _serial_sum(v, axis, keepdims, v.dtype) / v.shape[axis]


SERIAL = types.SimpleNamespace(**{**vars(np), "sum": _serial_sum, "mean": _serial_mean})


def visibly_different(want: np.ndarray, other: np.ndarray) -> bool:
    """Whether two results on the sample differ beyond the tolerance in enough places for checks to notice."""
    if want.shape != other.shape:
        return True
    shares = wrong_elements(other, want, RTOL, ATOL).reshape(len(REGIMES), -1).mean(axis=1)
    return np.sum(shares > (VISIBLE_ROWS if want.ndim == 1 else VISIBLE_SHARE)) >= VISIBLE_REGIMES


def without_one(composition: Composition) -> Iterator[Composition]:
    """The composition without each of its steps in turn, then without a normalisation."""
    before, after = composition.before, composition.after
    for i in range(len(before)):
        yield replace(composition, before=before[:i] + before[i + 1 :])
    for i in range(len(after)):
        yield replace(composition, after=after[:i] + after[i + 1 :])
    if composition.row and not composition.reduces:
        yield replace(composition, row=None)


def sample(composition: Composition) -> dict[str, np.ndarray]:
    """Fixed matrices in fp64 (int64) for every input: a band of ROWS rows per regime, signed first."""
    return _samples(composition.dtype, composition.second, composition.row is not None, ROWS)[0]


@lru_cache
def _samples(dtype: str, second: str, has_row: bool, rows: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Samples of `rows` rows per regime in fp64 (int64), and the same values in the task's dtype."""
    rng = np.random.default_rng(rows)
    largest = {"largest": ROW_LARGEST} if has_row else {}
    narrow = {
        name: np.concatenate([regime_values(r, (rows, COLUMNS), dtype, rng, **largest) for r in REGIMES])
        for name in (("x",) if second == "none" else ("x", "y"))
    }
    if dtype == "i32":
        narrow = _bounded(narrow)
    wide_dtype = np.int64 if dtype == "i32" else np.float64
    return {name: values.astype(wide_dtype) for name, values in narrow.items()}, narrow


def _bounded(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.clip(array, -INT_LIMIT, INT_LIMIT - 1) for name, array in values.items()}


def _bounded_inputs(
    generate: Callable[..., dict[str, np.ndarray]], regime: str, scalars: Scalars, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """The inputs of an integer task."""
    return _bounded(generate(regime, scalars, rng))


def _candidate(seed: int, rng: random.Random) -> Composition:
    """A draw from the mix, fair or not."""
    dtype, kind, second = (_weighted(rng, mix) for mix in (DTYPES, KINDS, SECOND_INPUTS))
    length = _weighted(rng, LENGTHS[kind])
    cut = length if kind == "elementwise" else rng.randint(0, length)
    paired = cut if kind == "reduction" else length  # a reduced row has no y to pair with
    binary = set()
    if second != "none" and paired:
        binary = {i for i in range(paired) if rng.random() < EXTRA_BINARY_SHARE} | {rng.randrange(paired)}
    steps: list[Step] = []
    for i in range(length):
        used = {step.operation.name for step in steps}
        table = BINARY[dtype] if i in binary else UNARY[dtype]
        raw = i == 0 < cut
        fitting = [op for op in table if op.name not in used and (raw or not op.discontinuous)]
        steps.append(_step(rng, fitting))
    tables = {"elementwise": (None,), "reduction": REDUCTIONS[dtype], "normalisation": NORMALISATIONS[dtype]}
    row = rng.choice(tables[kind])
    second = second if binary else "none"
    matrix = kind != "elementwise" or second == "column" or rng.random() < MATRIX_SHARE
    return Composition(seed, dtype, matrix, second, tuple(steps[:cut]), row, tuple(steps[cut:]))


def _step(rng: random.Random, operations: list[Operation]) -> Step:
    operation = rng.choice(operations)
    return Step(operation, rng.choice(operation.constants) if operation.constants else None)


def _weighted(rng: random.Random, mix: dict) -> str | int:
    return rng.choices(list(mix), list(mix.values()))[0]
