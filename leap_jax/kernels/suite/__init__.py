"""The hand-made tasks: `SUITE` maps a name to its Task."""

from __future__ import annotations

from leap_jax.kernels.suite import (
    attention,
    broadcasting,
    elementwise,
    matmul,
    movement,
    normalization,
    reductions,
    scan,
    totals,
    windows,
)
from leap_jax.kernels.task import Task

_FAMILIES = (
    elementwise,
    broadcasting,
    movement,
    reductions,
    totals,
    normalization,
    scan,
    windows,
    matmul,
    attention,
)

SUITE: dict[str, Task] = {task.name: task for family in _FAMILIES for task in family.TASKS}
