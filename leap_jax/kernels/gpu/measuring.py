"""Timing on the GPU: every sample cold, on other inputs, beside the baseline, and some of them looked at.

What the samples mean is worked out elsewhere, in `timing`.
"""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from leap_jax.kernels.gpu import timing
from leap_jax.kernels.gpu.buffers import Buffer, blank, digest
from leap_jax.kernels.gpu.loaded import Loaded
from leap_jax.kernels.gpu.protocol import Launch, Measure, Measured, Program

FLUSH_TIMES_L2 = 2


class _Side:
    """A program with outputs and scratch of its own."""

    def __init__(self, driver: Any, program: Program, request: Measure, rng: np.random.Generator, current: list[str]):
        self.loaded = Loaded(driver, program, current)
        self.outputs = [blank(driver, what, rng) for what in request.outputs]
        self.scratch = [blank(driver, what, rng) for what in program.scratch]
        self.own = {b.name: b for b in (*self.outputs, *self.scratch)}
        for buffer in self.own.values():
            buffer.keep_a_copy()

    def prepare(self) -> None:
        """Leave no trace of an earlier sample."""
        self.loaded.refresh()
        for buffer in self.own.values():
            buffer.restore()

    def read_outputs(self) -> dict[str, np.ndarray]:
        return {buffer.name: buffer.read()[0] for buffer in self.outputs}


def measure(driver: Any, request: Measure, current: list[str]) -> Measured:
    """Samples of both programs, A B B A, as many as the baseline's own time allows."""
    deadline = time.monotonic() + request.seconds
    rng = np.random.default_rng(request.seed)
    ring = [_upload(driver, inputs, rng) for inputs in request.ring]
    candidate, baseline = (
        _Side(driver, program, request, rng, current) for program in (request.candidate, request.baseline)
    )
    nothing = Loaded(
        driver, Program(request.nothing, (Launch("nothing", (1, 1, 1), (1, 1, 1), 0, "", ()),), (), False), current
    )
    flush = _flusher(driver)
    turns = itertools.count()

    def sample(side: _Side) -> tuple[float, int]:
        place = next(turns) % len(ring)
        side.prepare()
        flush()
        return side.loaded.time(ring[place] | side.own, deadline), place

    for _ in range(request.warm_ups):
        sample(candidate)
    started = time.monotonic()
    for _ in range(request.warm_ups):
        sample(baseline)
    # The candidate has no say in how often it is timed.
    count = timing.sample_count(2 * (time.monotonic() - started) / request.warm_ups)
    looked_at = {int(share * count) for share in request.checked}

    candidate_us: list[float] = []
    baseline_us: list[float] = []
    checked = []
    for is_candidate in timing.turns(count):
        us, place = sample(candidate if is_candidate else baseline)
        (candidate_us if is_candidate else baseline_us).append(us)
        if is_candidate and len(candidate_us) - 1 in looked_at:
            checked.append((place, candidate.read_outputs()))
    nothing_us = [nothing.time({}, deadline) for _ in range(timing.FEWEST_SAMPLES)]

    last = _upload(driver, request.last, rng)
    candidate.loaded.load()
    candidate.prepare()
    candidate.loaded.run(last | candidate.own, deadline)
    final = candidate.read_outputs()
    read = [{name: buffer.read() for name, buffer in inputs.items()} for inputs in (*ring, last)]
    others = [buffer.read() for side in (candidate, baseline) for buffer in side.own.values()]
    return Measured(
        candidate_us=tuple(candidate_us),
        baseline_us=tuple(baseline_us),
        nothing_us=tuple(nothing_us),
        checked=tuple(checked),
        final=final,
        digests=tuple({name: digest(content) for name, (content, _) in inputs.items()} for inputs in read),
        damage=tuple(d for content in (*(r for i in read for r in i.values()), *others) for d in content[1]),
    )


def _upload(driver: Any, inputs: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, Buffer]:
    return {name: Buffer(driver, name, array, rng) for name, array in inputs.items()}


def _flusher(driver: Any) -> Callable[[], None]:
    """What empties the L2 cache: other bytes through all of it, and no line of it kept back."""
    size = FLUSH_TIMES_L2 * driver.Context.get_device().get_attribute(driver.device_attribute.L2_CACHE_SIZE)
    memory = driver.mem_alloc(size)
    reset_persisting = _reset_persisting()
    values = itertools.cycle(range(256))

    def flush() -> None:
        reset_persisting()
        driver.memset_d8(memory, next(values), size)

    return flush


def _reset_persisting() -> Callable[[], object]:
    """cuCtxResetPersistingL2Cache, which PyCUDA lacks: a kernel may ask for lines that a flush does not evict."""
    try:
        return ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache
    except (OSError, AttributeError):
        return lambda: None
