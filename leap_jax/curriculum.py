"""Which prompts a step asks: train compositions of the difficulty that is due, and repairs of earlier failures.

The tasks of a step are a stream that depends on the step and on how much of the budget is spent, never on a method:
methods that are compared see the same prompts in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import jax
import numpy as np
from ml_collections import ConfigDict

from leap_jax.history import History, take_failures
from leap_jax.kernels import generator
from leap_jax.kernels.catalog import COMPOSED
from leap_jax.rollout import REPAIR, Prompt, row_keys

TASK_STRIDE = 1_000_000  # the tasks of step s are drawn from generator seed s * TASK_STRIDE on


def step_prompts(
    config: ConfigDict, step: int, progress: float, history: History
) -> tuple[list[Prompt], Iterator[str], History]:
    """The prompts of a step, the tasks that would come next, and the history without the failures it retries.

    With a retry buffer each task gives way, with probability dead_groups.retry_prob, to the oldest failure.
    """
    stream = tasks(step, most_operations(config, progress))
    fresh = list(islice(stream, config.prompts_per_step))
    if config.dead_groups.then != "retry_buffer":
        return fresh, stream, history
    draws = jax.vmap(jax.random.uniform)(row_keys(config.seed, REPAIR, step, 0, 0, np.arange(len(fresh))))
    prompts, history = take_failures(history, fresh, np.asarray(draws) < config.dead_groups.retry_prob)
    return prompts, stream, history


def tasks(step: int, most: int | None = None) -> Iterator[str]:
    """Train compositions that no other step and no cold start sees, of at most so many operations; without end."""
    for seed in count(step * TASK_STRIDE):
        if generator.split(seed) == "train" and (most is None or generator.compose(seed).level <= most):
            yield f"{COMPOSED}{seed}"


def most_operations(config: ConfigDict, progress: float) -> int | None:
    """The entry of curriculum.max_operations that is due: each rules for an equal share of the budget."""
    stages = config.curriculum.max_operations
    return stages[int(progress * len(stages))] if stages else None
