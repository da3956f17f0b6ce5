"""Difficulty-conditioned pruning (DCP): which groups get feedback and another turn.

A group's difficulty is N_fail, its failing rollouts after turn 1. Few failures: easy, optimised as
single-turn. Too many: catastrophic, debugging is not paid for. In between: open. Arrays are [P, G] (prompts,
group) or [P].

The other rules are ablations and controls; each is a function of its own. Besides the rule, a closed group may be
opened to explore, so that what debugging would have brought there stays measured.

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

MODES = ("window", "always", "never", "random", "lt_half", "ge_half", "pass_rate", "staged")
RECHECKABLE = ("window", "lt_half", "ge_half", "pass_rate", "staged")  # what may say otherwise after a later turn


class Outcomes(NamedTuple):
    """How the rollouts stand when the gate decides; what a later turn did counts as well."""

    passed: jax.Array  # [P, G] bool
    valid: jax.Array  # [P, G] bool: False for rollouts that left the group
    compiled: jax.Array  # [P, G] bool: the last answer got past the compiler, whatever it did then


class Gate(NamedTuple):
    """The gate's decision, and the difficulty classes that the thresholds define whatever the mode."""

    open: jax.Array  # [P] bool: failing rollouts get another turn
    easy: jax.Array  # [P] bool: N_fail < t_min'
    catastrophic: jax.Array  # [P] bool: N_fail > t_max'
    explored: jax.Array  # [P] bool: among the open ones, those that the rule had closed


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
    return staged(n_fail, n_fail, n_valid, t_min=t_min, t_max=t_max, group_size=group_size)


def staged(n_fail, n_uncompiled, n_valid, *, t_min: int, t_max: int, group_size: int):
    """Open where t_min' <= N_fail, and at most t_max' rollouts do not even compile. [P] int -> [P] bool.

    A group in which all fail, but on what they compute, is within reach of its feedback.
    """
    lowest, highest = scale_thresholds(n_valid, t_min=t_min, t_max=t_max, group_size=group_size)
    return (n_valid >= 2) & (lowest <= n_fail) & (n_uncompiled <= highest)


def lt_half(n_fail, n_valid):
    """Open where fewer than half of the rollouts fail. n_fail, n_valid: [P] int -> [P] bool."""
    return (n_valid >= 2) & (2 * n_fail < n_valid)


def ge_half(n_fail, n_valid):
    """Open where at least half of the rollouts fail, all of them included. n_fail, n_valid: [P] int -> [P] bool."""
    return (n_valid >= 2) & (2 * n_fail >= n_valid)


def pass_rate(n_fail, n_valid, expected, *, prior_rollouts: float, t_min: int, t_max: int, group_size: int):
    """Open where the posterior mean of the failure rate lies in [t_min / G, t_max / G]. -> [P] bool.

    The group's own rollouts update a Beta prior that weighs `prior_rollouts` rollouts, with the pass rate `expected`
    [P] of tasks like this one. A full group without a prior is decided as by `window`; with one, a group that
    fails by bad luck where such tasks are mostly solved is not catastrophic.
    """
    failures = prior_rollouts * (1.0 - expected) + n_fail
    rollouts = prior_rollouts + n_valid
    return (n_valid >= 2) & (t_min * rollouts <= failures * group_size) & (failures * group_size <= t_max * rollouts)


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


def explore(key, is_open, n_fail, n_valid, *, prob: float):
    """Draw closed groups that have something to debug, each with `prob`. [P] -> [P] bool."""
    return ~is_open & (n_valid >= 2) & (n_fail > 0) & (jax.random.uniform(key, n_valid.shape) < prob)


def open_groups(
    outcomes: Outcomes,
    expected,
    key,
    *,
    mode: str,
    t_min: int,
    t_max: int,
    prior_rollouts: float,
    explore_prob: float,
) -> Gate:
    """Decide which groups go on. Thresholds are for the full G; expected [P]: pass rates as `pass_rate` wants them.

    `random` is the control that LEAP's claim needs: it opens as many of these groups as `window` would, whichever.
    """
    thresholds = {"t_min": t_min, "t_max": t_max, "group_size": outcomes.valid.shape[-1]}
    n_fail, n_valid = failing_count(outcomes.passed, outcomes.valid), jnp.sum(outcomes.valid, axis=-1)
    match mode:
        case "window":
            is_open = window(n_fail, n_valid, **thresholds)
        case "always":
            is_open = always(n_valid)
        case "never":
            is_open = never(n_valid)
        case "random":
            is_open = random_groups(key, jnp.sum(window(n_fail, n_valid, **thresholds)), n_valid)
        case "lt_half":
            is_open = lt_half(n_fail, n_valid)
        case "ge_half":
            is_open = ge_half(n_fail, n_valid)
        case "pass_rate":
            is_open = pass_rate(n_fail, n_valid, expected, prior_rollouts=prior_rollouts, **thresholds)
        case "staged":
            n_uncompiled = failing_count(outcomes.passed | outcomes.compiled, outcomes.valid)
            is_open = staged(n_fail, n_uncompiled, n_valid, **thresholds)
        case _:
            raise ValueError(f"gate {mode!r} is unknown; use one of {', '.join(MODES)}")
    explored = explore(jax.random.fold_in(key, 1), is_open, n_fail, n_valid, prob=explore_prob)
    lowest, highest = scale_thresholds(n_valid, **thresholds)
    comparable = n_valid >= 2
    return Gate(is_open | explored, comparable & (n_fail < lowest), comparable & (n_fail > highest), explored)


def recheck(earlier: Gate, later: Gate):
    """Which of the open groups stay open when the rule is asked again after a later turn. -> [P] bool.

    A group that was opened to explore stays open: closing it would leave unmeasured what it was opened for.
    """
    return earlier.open & (later.open & ~later.explored | earlier.explored)
