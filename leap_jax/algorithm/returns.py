"""Rewards of turns to their returns: what is earned from a turn on. `[P, G, T] -> [P, G, T]`, 0 at turns not taken.

Returns come before the baseline. (The rules of `credit` come after it: they share out a rollout's advantage.)
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp


def reward_to_go(rewards, taken, *, gamma: float):
    """Sum what follows: G_t = sum_{i >= t} gamma^(i - t) r_i (Kevin: gamma 0.4; Dr.Kernel: 1).

    rewards [P, G, T] float, taken [P, G, T] bool.
    """
    later, discount = _discount(taken, gamma)
    rewards = jnp.where(taken, rewards, 0.0)[..., None, :]
    return _at_taken(jnp.sum(jnp.where(later, discount * rewards, 0.0), axis=-1), taken)


def max_to_go(rewards, taken, *, gamma: float):
    """Take the best of what follows: G_t = max_{i >= t} gamma^(i - t) r_i.

    With gamma = 1 this is Murphy's MaRS, c(n) = max(r(n), max over children of c), on a tree that is a chain.
    """
    later, discount = _discount(taken, gamma)
    there = later & taken[..., None, :]
    return _at_taken(jnp.max(jnp.where(there, discount * rewards[..., None, :], -jnp.inf), axis=-1), taken)


RULES: dict[str, Callable[..., jax.Array]] = {"reward_to_go": reward_to_go, "max_to_go": max_to_go}


def _discount(taken, gamma: float):
    """Return which turns i follow turn t, and gamma^(i - t) there: [T, T], t first."""
    turn = jnp.arange(taken.shape[-1])
    ahead = turn[None, :] - turn[:, None]
    return ahead >= 0, jnp.power(gamma, jnp.maximum(ahead, 0))  # selected first: 0 ** negative is infinite


def _at_taken(returns, taken):
    return jnp.where(taken, returns, 0.0).astype(jnp.float32)
