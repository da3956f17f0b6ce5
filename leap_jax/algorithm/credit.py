"""Advantages of rollouts to advantages of their turns: `[P, G] -> [P, G, T]`, 0 beyond the turns taken."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp


def leap(advantages, turns, *, max_turns: int, gamma: float):
    """Discount a gain backwards from the last turn; charge a loss to every turn in full.

    A_{i,t} = gamma^(l_i - t) A_i if A_i >= 0, else A_i, for t = 1..l_i. advantages [P, G] float, turns [P, G]
    int (l, turns taken). With gamma = 0 the passing turn alone is credited.
    """
    turn, taken = _turn_numbers(turns, max_turns)
    turns_to_go = jnp.where(taken, turns[..., None] - turn, 0)  # selected first: 0 ** negative is infinite
    discount = jnp.where(advantages[..., None] >= 0, jnp.power(gamma, turns_to_go), 1.0)
    return jnp.where(taken, discount * advantages[..., None], 0.0).astype(jnp.float32)


def uniform(advantages, turns, *, max_turns: int, gamma: float):
    """Give every turn the rollout's advantage: A_{i,t} = A_i. `gamma` is not used."""
    del gamma
    _, taken = _turn_numbers(turns, max_turns)
    return jnp.where(taken, advantages[..., None], 0.0).astype(jnp.float32)


RULES: dict[str, Callable[..., jax.Array]] = {"leap": leap, "uniform": uniform}


def _turn_numbers(turns, max_turns: int):
    """Return turn numbers 1..T [T] and which of them were taken [P, G, T]."""
    turn = jnp.arange(1, max_turns + 1)
    return turn, turn <= turns[..., None]
