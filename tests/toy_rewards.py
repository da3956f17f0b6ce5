"""Rewards as a user would write them, named in a config by dotted path."""

from __future__ import annotations

import jax.numpy as jnp

from leap_jax.algorithm.groups import Groups


def by_length(groups: Groups):
    """Minus the length of all responses in hundreds of tokens: it tells rollouts apart that all fail."""
    return -jnp.sum(groups.response_tokens, axis=-1) / 100.0


def not_a_number(groups: Groups):
    return jnp.full(groups.valid.shape, jnp.nan)


def one_a_group(groups: Groups):
    """The wrong shape: [P], not [P, G]."""
    return jnp.zeros(groups.valid.shape[0])


def turns_by_length(groups: Groups):
    """Minus the length of each response in hundreds of tokens: [P, G, T]."""
    return -groups.response_tokens / 100.0
