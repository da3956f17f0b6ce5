"""Advantages of rollouts to advantages of their turns: `[P, G] -> [P, G, T]`, 0 beyond the turns taken.

These rules come after the baseline. (The rules of `returns` come before it: they work on rewards of single turns.)
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from leap_jax.algorithm.groups import turns_taken


def leap(advantages, turns, *, max_turns: int, gamma: float):
    """Discount a gain backwards from the last turn; charge a loss to every turn in full.

    A_{i,t} = gamma^(l_i - t) A_i if A_i >= 0, else A_i, for t = 1..l_i. advantages [P, G] float, turns [P, G]
    int (l, turns taken). With gamma = 0 the passing turn alone is credited.
    """
    return _discounted(advantages, turns, turns[..., None] - jnp.arange(1, max_turns + 1), gamma)


def leap_forward(advantages, turns, *, max_turns: int, gamma: float):
    """Discount a gain forwards from the first turn; charge a loss to every turn in full.

    A_{i,t} = gamma^(t - 1) A_i if A_i >= 0, else A_i: the other reading of the paper. With gamma = 0 the first
    turn alone is credited.
    """
    return _discounted(advantages, turns, jnp.arange(max_turns), gamma)


def uniform(advantages, turns, *, max_turns: int, gamma: float):
    """Give every turn the rollout's advantage: A_{i,t} = A_i. `gamma` is not used."""
    del gamma
    return _where(turns_taken(turns, max_turns), advantages)


def last_turn(advantages, turns, *, max_turns: int, gamma: float):
    """Give the last turn taken all, the others nothing. `gamma` is not used."""
    del gamma
    return _where(jnp.arange(1, max_turns + 1) == turns[..., None], advantages)


def first_turn(advantages, turns, *, max_turns: int, gamma: float):
    """Give the first turn all: later ones only shape the reward (MusaCoder). `gamma` is not used."""
    del gamma
    return _where(turns_taken(jnp.minimum(turns, 1), max_turns), advantages)


RULES: dict[str, Callable[..., jax.Array]] = {
    "leap": leap,
    "leap_forward": leap_forward,
    "uniform": uniform,
    "last_turn": last_turn,
    "first_turn": first_turn,
}


def weigh_losses(advantages, weight: float):
    """Multiply what is negative by `weight`: below 1 keeps failures from outweighing rare successes."""
    return jnp.where(advantages < 0, weight * advantages, advantages)


def _discounted(advantages, turns, distance, gamma: float):
    """Gains times gamma^distance, losses as they are; distance [T] or [P, G, T]."""
    taken = turns_taken(turns, distance.shape[-1])
    # The distance is selected first: 0 ** negative is infinite.
    discount = jnp.where(advantages[..., None] >= 0, jnp.power(gamma, jnp.where(taken, distance, 0)), 1.0)
    return _where(taken, discount * advantages[..., None])


def _where(mask, advantages):
    values = advantages if advantages.ndim == mask.ndim else advantages[..., None]
    return jnp.where(mask, values, 0.0).astype(jnp.float32)
