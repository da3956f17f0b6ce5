"""One check on the emulator: fresh memory, the planned launches in order, and what they left behind."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leap_jax.kernels.answer import PlannedLaunch, ScalarArgument, Scratch
from leap_jax.kernels.checks import Check
from leap_jax.kernels.emulator.machine import Limits, Program, launch
from leap_jax.kernels.emulator.memory import GlobalMemory
from leap_jax.kernels.task import NUMPY_DTYPES, Task


@dataclass(frozen=True)
class Results:
    """Outputs in their declared shapes, which elements were written, and inputs that were.

    again: the outputs of a second run on the same inputs, from a device that does not see a race happen.
    """

    outputs: dict[str, np.ndarray]
    defined: dict[str, np.ndarray]
    modified_inputs: tuple[str, ...]
    again: dict[str, np.ndarray] | None = None


def execute(
    program: Program,
    launches: Sequence[PlannedLaunch],
    task: Task,
    check: Check,
    scratch: Sequence[tuple[Scratch, int]],
    *,
    instructions_per_thread: int,
    deadline: float,
) -> Results:
    """Runs the launches; `scratch` pairs a buffer with its element count, `deadline` is of time.monotonic.

    Every buffer is new. Outputs and scratch hold poison that no other check uses. Raises Fault.
    """
    memory = GlobalMemory()
    pointers = {}
    for name, array in check.inputs.items():
        pointers[name] = memory.allocate(name, array.dtype, array.size, writable=False)
        memory.write(pointers[name], array.ravel())
    rng = np.random.default_rng(check.poison_seed)
    outputs = [(p.name, p.dtype, check.wanted[p.name].size) for p in task.params_with("out")]
    for name, dtype, count in [*outputs, *((s.name, s.dtype, count) for s, count in scratch)]:
        pointers[name] = memory.allocate(name, NUMPY_DTYPES[dtype], count, writable=True)
        memory.fill(pointers[name], poison(dtype, rng))
    for planned in launches:
        args = [
            NUMPY_DTYPES[a.dtype].type(a.value) if isinstance(a, ScalarArgument) else pointers[a] for a in planned.args
        ]
        limits = Limits(instructions_per_thread, max(deadline - time.monotonic(), 0.0))
        launch(
            program,
            memory,
            planned.kernel,
            planned.grid,
            planned.block,
            planned.shared_bytes,
            args,
            limits=limits,
        )
    shapes = {name: wanted.shape for name, wanted in check.wanted.items()}
    return Results(
        outputs={
            name: memory.read(pointers[name]).view(NUMPY_DTYPES[dtype]).reshape(shapes[name])
            for name, dtype, _ in outputs
        },
        defined={name: memory.defined(pointers[name]).reshape(shape) for name, shape in shapes.items()},
        modified_inputs=tuple(name for name in check.inputs if memory.modified(pointers[name])),
    )


def poison(dtype: str, rng: np.random.Generator) -> int:
    """The bits of one element that nobody wrote: a NaN with a random payload, or a random integer."""
    bits = NUMPY_DTYPES[dtype].itemsize * 8
    payload = int(rng.integers(1, 2**16))
    if dtype == "f32":
        return 0x7FC00000 | payload
    if dtype == "f64":
        return 0x7FF8000000000000 | payload
    return int(rng.integers(2 ** (bits - 2), 2 ** (bits - 1)))
