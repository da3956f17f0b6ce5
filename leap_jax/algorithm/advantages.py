"""Values (rewards, or returns) to advantages: each against a baseline of its peers.

A rule compares along the last axis: `(values [.., N], present [.., N]) -> [.., N]`. Those not present are in no
baseline and get 0. What stands along that axis is for `over_group` or `over_turn` to choose. Rollouts that cannot be
compared (`groups.comparable`) should not be present.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

STD_EPSILON = 1e-6  # far below any std but 0: that of 0/1 rewards is at least sqrt(G - 1)/G


def none(values, present):
    """Take the value itself: the tournament's own choice, being centred and scaled already."""
    return _of_present(values, present)


def mean(values, present):
    """Subtract the mean (Dr.GRPO): A = r - mean(r)."""
    return _of_present(_centred(values, present), present)


def mean_std(values, present):
    """Standardise (GRPO): A = (r - mean(r)) / (std(r) + 1e-6), with the population std."""
    centred = _centred(values, present)
    std = jnp.sqrt(_masked_mean(centred**2, present))
    return _of_present(centred / (std + STD_EPSILON), present)


def leave_one_out(values, present):
    """Subtract the mean of the others (RLOO): A_i = r_i - mean_{j != i} r_j.

    One alone has no others: its baseline is 0 and A = r, as in Dr.Kernel's code (the last rollout still debugging).
    """
    count = jnp.sum(present, axis=-1, keepdims=True)
    others = _centred(values, present) * (count / jnp.maximum(count - 1, 1))
    return _of_present(jnp.where(count == 1, values, others), present)


ADVANTAGES: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "none": none,
    "mean": mean,
    "mean_std": mean_std,
    "leave_one_out": leave_one_out,
}


def over_group(rule, values, present):
    """Compare all that one prompt brought: G rollouts [P, G], or their G * T turns [P, G, T] pooled (Kevin)."""
    prompts = values.shape[0]
    return rule(values.reshape(prompts, -1), present.reshape(prompts, -1)).reshape(values.shape)


def over_turn(rule, values, present):
    """Compare the rollouts of a prompt at the same turn: [P, G, T], the N_t that took turn t (TRLOO, Dr.Kernel)."""
    return rule(values.swapaxes(1, 2), present.swapaxes(1, 2)).swapaxes(1, 2)


OVER = {"group": over_group, "turn": over_turn}


def _centred(values, present):
    # Measured from the smallest value, so that equal values give exactly 0 and not a rounding residue
    # that a division by the std would blow up.
    lowest = jnp.min(jnp.where(present, values, jnp.inf), axis=-1, keepdims=True)
    above_lowest = jnp.where(present, values, 0.0) - jnp.where(jnp.isfinite(lowest), lowest, 0.0)
    return above_lowest - _masked_mean(above_lowest, present)


def _masked_mean(values, present):
    count = jnp.maximum(jnp.sum(present, axis=-1, keepdims=True), 1)
    return jnp.sum(jnp.where(present, values, 0.0), axis=-1, keepdims=True) / count


def _of_present(advantages, present):
    return jnp.where(present, advantages, 0.0).astype(jnp.float32)
