"""The runs an answer is judged by: shapes, value regimes, inputs and what the outputs must be."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from leap_jax.kernels.regimes import concrete_shape
from leap_jax.kernels.task import NUMPY_DTYPES, Param, Scalars, Task

MASKING = ("zero", "special")  # regimes where results can be right by accident: alike everywhere, or NaN and Inf


@dataclass(frozen=True)
class Check:
    """One run. `wanted` is fp64, or the exact integers; `poison_seed` decides what unwritten memory holds."""

    scalars: Scalars
    regime: str
    public: bool
    inputs: dict[str, np.ndarray]  # read-only, in the param's dtype and shape
    wanted: dict[str, np.ndarray]
    poison_seed: tuple[int, ...]


def make_checks(task: Task, count: int, seed: int) -> tuple[Check, ...]:
    """`count` checks or as many as it takes, public ones first: every shape in an ordinary regime, every masking
    regime at some shape.

    A pure function of the task, `count` and `seed`. Raises ValueError where the task's own inputs or
    reference do not have the declared shapes.
    """
    root = (seed, zlib.crc32(task.name.encode()))
    rng = np.random.default_rng(root)
    regimes = [task.regimes[i] for i in rng.permutation(len(task.regimes))]
    ordinary = [regime for regime in regimes if regime not in MASKING] or regimes
    once, again = cycle(ordinary), cycle([r for r in regimes if r in MASKING] + ordinary)
    count = max(count, len(task.public_shapes) + len(task.hidden_shapes) + len(set(regimes) - set(ordinary)))
    hidden = _dealt(task.hidden_shapes, count // 2, rng)
    public = _dealt(task.public_shapes, count - len(hidden), rng)
    dealt = public + hidden
    return tuple(
        _make_check(task, scalars, next(again if scalars in dealt[:i] else once), i < len(public), (*root, i))
        for i, scalars in enumerate(dealt)
    )


def _dealt(shapes: tuple[Scalars, ...], count: int, rng: np.random.Generator) -> list[Scalars]:
    """All shapes in a random order, again and again up to `count`; at least once each."""
    dealt: list[Scalars] = []
    while shapes and len(dealt) < max(count, len(shapes)):
        dealt += [shapes[i] for i in rng.permutation(len(shapes))]
    return dealt[: max(count, len(shapes))]


def timing_inputs(task: Task, seed: int, index: int) -> dict[str, np.ndarray]:
    """Inputs at the timing shape, in the task's first ordinary regime: one set for each index."""
    return _inputs(task, _timing_regime(task), task.timing_shape, (seed, zlib.crc32(task.name.encode()), 2, index))


def timing_check(task: Task, inputs: dict[str, np.ndarray]) -> Check:
    """The check that such inputs make."""
    scalars = task.timing_shape
    return Check(scalars, _timing_regime(task), True, inputs, _wanted(task, inputs, scalars), ())


def _timing_regime(task: Task) -> str:
    return next((regime for regime in task.regimes if regime not in MASKING), task.regimes[0])


def _make_check(task: Task, scalars: Scalars, regime: str, public: bool, seed: tuple[int, ...]) -> Check:
    inputs = _inputs(task, regime, scalars, (*seed, 0))
    return Check(scalars, regime, public, inputs, _wanted(task, inputs, scalars), (*seed, 1))


def _inputs(task: Task, regime: str, scalars: Scalars, seed: tuple[int, ...]) -> dict[str, np.ndarray]:
    given = task.inputs(regime, scalars, np.random.default_rng(seed))
    return {p.name: _declared(task, p, given[p.name], scalars, p.dtype) for p in task.params_with("in")}


def _wanted(task: Task, inputs: dict[str, np.ndarray], scalars: Scalars) -> dict[str, np.ndarray]:
    values = {n: a.astype(np.float64) if a.dtype.kind == "f" else a.copy() for n, a in inputs.items()}
    with np.errstate(all="ignore"):
        results = task.reference(np, **values, **scalars)
    results = results if isinstance(results, tuple) else (results,)
    return {
        p.name: _declared(task, p, result, scalars, "f64" if p.dtype == "f32" else p.dtype)
        for p, result in zip(task.params_with("out"), results, strict=True)
    }


def _declared(task: Task, param: Param, value: object, scalars: Scalars, dtype: str) -> np.ndarray:
    """The value as a read-only array of `dtype` that has the param's declared shape."""
    array = np.array(value, NUMPY_DTYPES[dtype], order="C")
    shape = concrete_shape(param, scalars)
    if array.shape != shape:
        raise ValueError(f"task {task.name}: {param.name} is {array.shape}, declared {shape} at {scalars}")
    array.setflags(write=False)
    return array
