"""Reward functions: `Groups -> [P, G]` float32, each comparing or scoring the rollouts of a group.

A built-in is named in the config (`reward='tournament'`); any other name is a dotted path to a user's
function with the same signature (`reward='my_package.my_module.my_reward'`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from leap_jax.algorithm import tournament as pairwise


class Groups(NamedTuple):
    """What happened to the rollouts of one step: P prompts, G rollouts each, at most T turns."""

    first_pass: jax.Array  # [P, G] int: turn (1..T) of the first pass, T + 1 if none
    turns: jax.Array  # [P, G] int: turns taken
    valid: jax.Array  # [P, G] bool: False for unsupported and infra_error, which leave the group
    outcome_rank: jax.Array  # [P, G, T] int: rank of the outcome, worst to best; -1 where no turn was taken
    response_tokens: jax.Array  # [P, G, T] int: length of the response
    time_us: jax.Array  # [P, G] float: time of the passing answer, NaN where there is none

    @property
    def max_turns(self) -> int:
        """T, the most turns a rollout may take."""
        return self.outcome_rank.shape[-1]


Reward = Callable[[Groups], jax.Array]


def tournament(groups: Groups):
    """Rank by the turn of the first pass: (peers beaten - peers that beat it) / (G_valid - 1), in [-1, 1]."""
    beats = pairwise.earlier_pass_beats(groups.first_pass, groups.valid)
    return pairwise.relative_rewards(beats, groups.valid)


def any_success(groups: Groups):
    """Give 1 for a pass at any turn, else 0; 0 as well where the rollout has no valid peer."""
    comparable = groups.valid & (jnp.sum(groups.valid, axis=-1, keepdims=True) >= 2)
    return jnp.where(comparable & (groups.first_pass <= groups.max_turns), 1.0, 0.0).astype(jnp.float32)


REWARDS: dict[str, Reward] = {"tournament": tournament, "any_success": any_success}


def resolve(name: str) -> Reward:
    """Return the reward function `name`: a built-in, or a dotted path to a user's. Raises ValueError."""
    if name in REWARDS:
        return REWARDS[name]
    module_name, _, attribute = name.rpartition(".")
    expected = f"use one of {', '.join(REWARDS)}, or a dotted path such as my_package.my_module.my_reward"
    if not module_name or not attribute:
        raise ValueError(f"reward {name!r} is unknown; {expected}")
    try:
        function = getattr(importlib.import_module(module_name), attribute, None)
    except (ImportError, ValueError) as error:  # ValueError: a malformed path such as '.x'
        raise ValueError(f"reward {name!r} cannot be imported: {error}; {expected}") from error
    if not callable(function):
        raise ValueError(f"reward {name!r}: module {module_name} has no function {attribute!r}; {expected}")
    return function
