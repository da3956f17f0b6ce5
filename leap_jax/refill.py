"""Dynamic sampling (DAPO, arXiv 2503.14476): groups that teach nothing are replaced by fresh prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np

from leap_jax.algorithm.groups import Groups
from leap_jax.rollout import Episode, Rollouts, joined
from leap_jax.summary import zero_signal


def refill(
    rollouts: Rollouts,
    fresh: Iterator[str],
    roll_out: Callable[..., Rollouts],
    earned: Callable[[Sequence[Sequence[Episode]]], tuple[Groups, np.ndarray, np.ndarray]],
    *,
    rounds: int,
) -> Rollouts:
    """Ask fresh tasks in the place of dead groups, in at most `rounds` rounds; every rollout is kept and paid for.

    `roll_out(tasks, first_prompt=n)` is for tasks before which there were n in this step. A group is dead where all
    advantages are 0, the last of what is `earned(episodes)`. What still is dead after the last round stays: the
    number in use never changes.
    """
    newest = rollouts
    for _ in range(rounds):
        dead = zero_signal(earned(newest.episodes)[-1])
        if not dead.any():
            break
        earlier = rollouts.replaced[: len(rollouts.replaced) - len(dead)]
        rollouts = rollouts._replace(replaced=np.concatenate([earlier, dead]))
        newest = roll_out(list(islice(fresh, int(dead.sum()))), first_prompt=len(rollouts.episodes))
        rollouts = joined(rollouts, newest)
    return rollouts
