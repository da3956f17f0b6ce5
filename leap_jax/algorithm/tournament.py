"""The pairwise tournament inside a group: who beats whom, and the relative reward that follows.

    R_i = (#{j: i beats j} - #{j: j beats i}) / (G_valid - 1)

Zero-sum over the group, in [-1, 1], free of any reward scale. With two tiers it equals the leave-one-out
(RLOO) advantage of a 0/1 reward, so neither a mean nor a std belongs after it.
"""

from __future__ import annotations

import jax.numpy as jnp


def earlier_pass_beats(first_pass, valid):
    """Let the earlier first pass win; equal turns tie. first_pass, valid: [.., G] -> [.., G, G] bool.

    Entry [.., i, j] is True where i beats j. Only valid rollouts meet.
    """
    earlier = first_pass[..., :, None] < first_pass[..., None, :]
    return earlier & valid[..., :, None] & valid[..., None, :]


def relative_rewards(beats, valid):
    """Turn pairwise wins into rewards in [-1, 1]. beats [.., G, G], valid [.., G] -> [.., G] float32.

    Invalid rollouts, and every rollout of a group with fewer than two valid ones, get 0.
    """
    wins, losses = jnp.sum(beats, axis=-1), jnp.sum(beats, axis=-2)
    opponents = jnp.sum(valid, axis=-1, keepdims=True) - 1
    rewards = (wins - losses) / jnp.maximum(opponents, 1)
    return jnp.where(valid, rewards, 0.0).astype(jnp.float32)
