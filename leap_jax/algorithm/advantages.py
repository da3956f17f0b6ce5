"""Rewards to advantages over the valid rollouts of a group: `(rewards [P, G], valid [P, G]) -> [P, G]`.

Invalid rollouts, and groups with fewer than two valid ones, get 0: never in a baseline, never in the loss.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

STD_EPSILON = 1e-6  # far below any std but 0: that of 0/1 rewards is at least sqrt(G - 1)/G


def none(rewards, valid):
    """Take the reward itself: the tournament's own choice, being centred and scaled already."""
    return _keep_comparable(rewards, valid)


def mean(rewards, valid):
    """Subtract the group mean (Dr.GRPO): A = r - mean(r)."""
    return _keep_comparable(_centred(rewards, valid), valid)


def mean_std(rewards, valid):
    """Standardise over the group (GRPO): A = (r - mean(r)) / (std(r) + 1e-6), with the population std."""
    centred = _centred(rewards, valid)
    std = jnp.sqrt(_masked_mean(centred**2, valid))
    return _keep_comparable(centred / (std + STD_EPSILON), valid)


def leave_one_out(rewards, valid):
    """Subtract the mean of the others (RLOO): A_i = r_i - mean_{j != i} r_j."""
    count = jnp.sum(valid, axis=-1, keepdims=True)
    return _keep_comparable(_centred(rewards, valid) * (count / jnp.maximum(count - 1, 1)), valid)


ADVANTAGES: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "none": none,
    "mean": mean,
    "mean_std": mean_std,
    "leave_one_out": leave_one_out,
}


def _centred(rewards, valid):
    # Measured from the smallest reward, so that equal rewards give exactly 0 and not a rounding residue
    # that a division by the std would blow up.
    lowest = jnp.min(jnp.where(valid, rewards, jnp.inf), axis=-1, keepdims=True)
    above_lowest = jnp.where(valid, rewards, 0.0) - jnp.where(jnp.isfinite(lowest), lowest, 0.0)
    return above_lowest - _masked_mean(above_lowest, valid)


def _masked_mean(values, valid):
    count = jnp.maximum(jnp.sum(valid, axis=-1, keepdims=True), 1)
    return jnp.sum(jnp.where(valid, values, 0.0), axis=-1, keepdims=True) / count


def _keep_comparable(advantages, valid):
    comparable = valid & (jnp.sum(valid, axis=-1, keepdims=True) >= 2)
    return jnp.where(comparable, advantages, 0.0).astype(jnp.float32)
