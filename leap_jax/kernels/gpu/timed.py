"""The last stage on a GPU: a correct answer is timed at the timing shape, and what it wrote meanwhile is judged."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from leap_jax.kernels.checks import Check, timing_check, timing_inputs
from leap_jax.kernels.execution import Results
from leap_jax.kernels.expressions import evaluate
from leap_jax.kernels.gpu import health, timing
from leap_jax.kernels.gpu.protocol import Measure, Measured
from leap_jax.kernels.gpu.session import (
    QUEUE_SECONDS,
    Planned,
    Session,
    blank_outputs,
    modified_inputs,
    refuse_damage,
)
from leap_jax.kernels.gpu.timing import Timing
from leap_jax.kernels.task import Task
from leap_jax.kernels.verdict import Mismatch

SECONDS = 20.0  # for one timing; a slower answer is a timeout
ATTEMPTS = 2
GPU_SECONDS = QUEUE_SECONDS + ATTEMPTS * SECONDS + 20.0  # beyond what a verdict takes elsewhere: queue, start, timing
LOOKED_AT = 2  # samples whose outputs are judged, and the final launch
LONGEST_RING = 8
RING_BYTES = 256 << 20
KEPT_TASKS = 2
BASELINE = "the task's own answer"

_Inputs = list[dict[str, np.ndarray]]
_kept: OrderedDict[tuple[int, int], tuple[Task, _Inputs]] = OrderedDict()


def time_answer(
    session: Session,
    task: Task,
    seed: int,
    candidate: Planned,
    baseline: Planned,
    nothing: bytes,
    judge: Callable[[Check, Results], Mismatch | None],
) -> Timing | Mismatch:
    """The timing, or what a timed launch got wrong. Raises Fault, LaunchError and GpuError as `session` does.

    nothing: cubin of an empty kernel of that name. judge: what differs from the reference, if anything.
    """
    gpu = session.gpu.facts
    inputs = _ring(task, seed, gpu.l2_bytes)
    states = [health.read(gpu.pci_bus_id)]
    spreads = []
    for _ in range(ATTEMPTS):
        rng = np.random.default_rng(secrets.randbits(63))
        request = Measure(
            candidate.program(rng),
            baseline.program(rng),
            nothing,
            tuple(inputs[:-1]),
            inputs[-1],
            blank_outputs(task, timing_check(task, inputs[0]), rng),
            warm_ups=int(rng.integers(3, 11)),
            checked=tuple(rng.random(LOOKED_AT)),
            seed=secrets.randbits(63),
            seconds=SECONDS,
        )
        measured = session.measure(request)
        if mismatch := _wrong(task, request, measured, judge):
            return mismatch
        spreads.append((timing.spread(measured.candidate_us), timing.spread(measured.baseline_us)))
        states.append(health.read(gpu.pci_bus_id))
        disturbed = any(state.reasons for state in states[-2:] if state)
        if not disturbed and max(spread.noise for spread in spreads[-1]) <= timing.NOISY:
            break
    answer, beside = min(spreads, key=lambda pair: max(spread.noise for spread in pair))
    scalars = {name: value for name, value in task.timing_shape.items() if isinstance(value, int)}
    output_bytes = sum(blank.count * np.dtype(blank.dtype).itemsize for blank in request.outputs)
    return Timing(
        device=gpu.name,
        answer=answer,
        baseline=beside,
        baseline_name=BASELINE,
        floor_us=timing.spread(measured.nothing_us).median_us,
        roofline_us=timing.roofline_us(evaluate(task.min_bytes, scalars), output_bytes, gpu.bytes_per_us),
        noisy=disturbed or max(answer.noise, beside.noise) > timing.NOISY,
        health=tuple(state for state in states if state),
    )


def _wrong(
    task: Task, request: Measure, measured: Measured, judge: Callable[[Check, Results], Mismatch | None]
) -> Mismatch | None:
    refuse_damage(measured.damage)
    sets = (*request.ring, request.last)
    launches = [*measured.checked, (len(sets) - 1, measured.final)]
    for place, outputs in launches:
        check = timing_check(task, sets[place])
        poison = {blank.name: blank.bits for blank in request.outputs}
        results = Results(
            outputs={name: outputs[name].reshape(wanted.shape) for name, wanted in check.wanted.items()},
            defined={
                name: (outputs[name].view(f"u{outputs[name].itemsize}") != poison[name]).reshape(wanted.shape)
                for name, wanted in check.wanted.items()
            },
            modified_inputs=modified_inputs(sets[place], [measured.digests[place]]),
        )
        if mismatch := judge(check, results):
            return mismatch
    return None


def _ring(task: Task, seed: int, l2_bytes: int) -> _Inputs:
    """Inputs at the timing shape: one set after another, the last for the final launch. The same for all answers."""
    key = (id(task), seed)
    if key not in _kept:
        first = timing_inputs(task, seed, 0)
        size = sum(array.nbytes for array in first.values())
        count = timing.ring_size(size, l2_bytes, max(2, min(LONGEST_RING, RING_BYTES // max(size, 1))))
        _kept[key] = task, [first, *(timing_inputs(task, seed, i) for i in range(1, count + 1))]
        if len(_kept) > KEPT_TASKS:
            _kept.popitem(last=False)
    return _kept[key][1]
