"""The pairwise tournament inside a group: who beats whom, and the relative reward that follows.

    R_i = (#{j: i beats j} - #{j: j beats i}) / (G_valid - 1)

Zero-sum over the group, in [-1, 1], free of any reward scale. With two tiers it equals the leave-one-out
(RLOO) advantage of a 0/1 reward, so neither a mean nor a std belongs after it.

A rule of comparison gives `beats [.., G, G]` bool, True at [.., i, j] where i beats j. Rules are put one behind
the other by `first_decides`; only valid rollouts meet.
"""

from __future__ import annotations

import jax.numpy as jnp


def earlier_pass_beats(first_pass, valid):
    """Let the earlier first pass win; equal turns tie. first_pass, valid: [.., G] -> [.., G, G] bool."""
    return larger_beats(-first_pass, valid)


def larger_beats(values, among, *, margin: float = 0.0):
    """Let the larger value win where it is larger by more than `margin`; NaN ties with everything.

    values, among: [.., G] -> [.., G, G] bool; only rollouts in `among` meet. With a margin it is not transitive
    (a ties with b and b with c, yet a beats c), but still zero-sum.
    """
    ahead = values[..., :, None] - values[..., None, :] > margin
    return ahead & among[..., :, None] & among[..., None, :]


def first_decides(*rules):
    """Let each pair be decided by the first rule in which one beats the other. [.., G, G] bool each, and back."""
    beats = jnp.zeros_like(rules[0])
    for rule in rules:
        undecided = ~(beats | jnp.swapaxes(beats, -1, -2))
        beats = beats | (rule & undecided)
    return beats


def relative_rewards(beats, valid):
    """Turn pairwise wins into rewards in [-1, 1]. beats [.., G, G], valid [.., G] -> [.., G] float32.

    Invalid rollouts, and every rollout of a group with fewer than two valid ones, get 0.
    """
    wins, losses = jnp.sum(beats, axis=-1), jnp.sum(beats, axis=-2)
    opponents = jnp.sum(valid, axis=-1, keepdims=True) - 1
    rewards = (wins - losses) / jnp.maximum(opponents, 1)
    return jnp.where(valid, rewards, 0.0).astype(jnp.float32)
