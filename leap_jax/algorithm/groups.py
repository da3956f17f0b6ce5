"""What the method knows of the rollouts of one step."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Groups(NamedTuple):
    """What happened to the rollouts of one step: P prompts, G rollouts each, at most T turns."""

    first_pass: jax.Array  # [P, G] int: turn (1..T) of the first pass, T + 1 if none
    turns: jax.Array  # [P, G] int: turns taken
    valid: jax.Array  # [P, G] bool: False for unsupported and infra_error, which leave the group
    outcome_rank: jax.Array  # [P, G, T] int: rank of the outcome, worst to best; -1 where no turn was taken
    response_tokens: jax.Array  # [P, G, T] int: length of the response
    checks_share: jax.Array  # [P, G, T] float: share of the task's checks that passed; 0 where none ran
    time_us: jax.Array  # [P, G, T] float: time of a passing answer, NaN where there is none
    baseline_us: jax.Array  # [P, G, T] float: time of the task's baseline answer beside it, NaN where there is none

    @property
    def max_turns(self) -> int:
        """T, the most turns a rollout may take."""
        return self.outcome_rank.shape[-1]

    @property
    def passed(self) -> jax.Array:
        """Which turns passed: [P, G, T] bool."""
        return self.first_pass[..., None] == jnp.arange(1, self.max_turns + 1)

    @property
    def speedup(self) -> jax.Array:
        """Baseline time over the answer's: [P, G, T] float, 0 where the turn did not pass, NaN without times."""
        return jnp.where(self.passed, self.baseline_us / self.time_us, 0.0)


def comparable(valid):
    """Which rollouts have a valid peer: [P, G] bool -> [P, G] bool. The others earn nothing and teach nothing."""
    return valid & (jnp.sum(valid, axis=-1, keepdims=True) >= 2)


def turns_taken(turns, max_turns: int):
    """Which turns were taken: [P, G] int -> [P, G, T] bool."""
    return jnp.arange(1, max_turns + 1) <= turns[..., None]
