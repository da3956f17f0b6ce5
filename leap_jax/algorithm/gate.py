"""Difficulty-conditioned pruning (DCP): which groups get feedback and another turn.

A group's difficulty is N_fail, its failing rollouts after turn 1. Few failures: easy, optimised as
single-turn. Too many: catastrophic, debugging is not paid for. In between: open. Arrays are [P, G] (prompts,
group) or [P].

Thresholds are given for a full group of G. Rollouts that leave the group (unsupported, infra_error) shrink it
to G_valid, and the thresholds with it, keeping their meaning:

    t_max' = floor(t_max G_valid / G)
    t_min' = min(ceil(t_min G_valid / G), t_max')

t_max' asks for ceil((G - t_max) G_valid / G) successes, so that t_max = G - 1 stays "at least one success"
and t_max = G stays "no upper cut". The min keeps a window from vanishing by rounding alone.

A group with G_valid < 2 has nobody to be compared with: it is closed in every mode, and in no class.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

MODES = ("window", "always", "never", "random")


class Gate(NamedTuple):
    """The gate's decision, and the difficulty classes that the thresholds define whatever the mode."""

    open: jax.Array  # [P] bool: failing rollouts get another turn
    easy: jax.Array  # [P] bool: N_fail < t_min'
    catastrophic: jax.Array  # [P] bool: N_fail > t_max'


def default_thresholds(group_size: int) -> tuple[int, int]:
    """Return (t_min, t_max) = (ceil(G/2), G - 1): at least half fail, at least one passes."""
    return (group_size + 1) // 2, group_size - 1


def failing_count(passed, valid):
    """Count the valid rollouts that have not passed. passed, valid: [P, G] bool -> [P] int."""
    return jnp.sum(valid & ~passed, axis=-1)


def scale_thresholds(n_valid, *, t_min: int, t_max: int, group_size: int):
    """Scale (t_min, t_max) from a full group to `n_valid` [P] rollouts, by the rule above."""
    highest = t_max * n_valid // group_size
    lowest = -(-t_min * n_valid // group_size)
    return jnp.minimum(lowest, highest), highest


def window(n_fail, n_valid, *, t_min: int, t_max: int, group_size: int):
    """Open where t_min' <= N_fail <= t_max'. n_fail, n_valid: [P] int -> [P] bool."""
    lowest, highest = scale_thresholds(n_valid, t_min=t_min, t_max=t_max, group_size=group_size)
    return (n_valid >= 2) & (lowest <= n_fail) & (n_fail <= highest)


def always(n_valid):
    """Open every group that can be compared: unpruned multi-turn. n_valid: [P] int -> [P] bool."""
    return n_valid >= 2


def never(n_valid):
    """Close every group: single-turn. n_valid: [P] int -> [P] bool."""
    return jnp.zeros_like(n_valid, dtype=bool)


def random_groups(key, number, n_valid):
    """Open `number` groups, drawn at random among those that can be compared. n_valid: [P] int -> [P] bool."""
    comparable = n_valid >= 2
    draws = jnp.where(comparable, jax.random.uniform(key, n_valid.shape), jnp.inf)
    rank = jnp.argsort(jnp.argsort(draws))
    return comparable & (rank < number)


def open_groups(passed, valid, key, *, mode: str, t_min: int, t_max: int) -> Gate:
    """Decide after turn 1 which groups go on. passed, valid: [P, G] bool; thresholds are for the full G.

    `random` is the control that LEAP's claim needs: it opens as many of these groups as `window` would, whichever.
    """
    group_size = valid.shape[-1]
    n_fail, n_valid = failing_count(passed, valid), jnp.sum(valid, axis=-1)
    lowest, highest = scale_thresholds(n_valid, t_min=t_min, t_max=t_max, group_size=group_size)
    in_window = window(n_fail, n_valid, t_min=t_min, t_max=t_max, group_size=group_size)
    if mode == "window":
        is_open = in_window
    elif mode == "random":
        is_open = random_groups(key, jnp.sum(in_window), n_valid)
    elif mode == "always":
        is_open = always(n_valid)
    elif mode == "never":
        is_open = never(n_valid)
    else:
        raise ValueError(f"gate {mode!r} is unknown; use one of {', '.join(MODES)}")
    comparable = n_valid >= 2
    return Gate(is_open, comparable & (n_fail < lowest), comparable & (n_fail > highest))
