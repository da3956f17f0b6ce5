"""Returns of turns, against loops."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from leap_jax.algorithm import returns

ALL = pytest.mark.parametrize("name", returns.RULES)


def numpy_returns(name: str, rewards, taken, gamma: float) -> np.ndarray:
    """Kevin's and Dr.Kernel's sum over later turns, or Murphy's best of them, one turn at a time."""
    out = np.zeros(rewards.shape)
    for p, g, t in np.argwhere(taken):
        later = [gamma ** (i - t) * rewards[p, g, i] for i in range(t, taken.shape[-1]) if taken[p, g, i]]
        out[p, g, t] = sum(later) if name == "reward_to_go" else max(later)
    return out


def test_kevins_return_by_hand():
    rewards, taken = np.array([[[0.0, 0.5, 2.3]]]), np.ones((1, 1, 3), bool)
    found = returns.reward_to_go(rewards, taken, gamma=0.4)
    np.testing.assert_allclose(found, [[[0.4 * 0.5 + 0.16 * 2.3, 0.5 + 0.4 * 2.3, 2.3]]], rtol=1e-6)


def test_mars_on_a_chain_is_the_best_of_what_follows():
    """c(n) = max(r(n), c(child)), from the last turn backwards."""
    rewards, taken = np.array([[[0.5, 0.2, 1.0, 0.1]]]), np.ones((1, 1, 4), bool)
    np.testing.assert_allclose(returns.max_to_go(rewards, taken, gamma=1.0), [[[1.0, 1.0, 1.0, 0.1]]])


@ALL
@pytest.mark.parametrize("gamma", [0.0, 0.4, 1.0])
def test_equals_a_loop_and_jit_changes_nothing(name, gamma):
    rng = np.random.default_rng(0)
    rewards = rng.normal(size=(5, 6, 4)).astype(np.float32)
    taken = np.arange(4) < rng.integers(0, 5, (5, 6))[..., None]
    rule = returns.RULES[name]
    found = rule(rewards, taken, gamma=gamma)
    np.testing.assert_allclose(found, numpy_returns(name, rewards, taken, gamma), rtol=1e-5, atol=1e-6)
    compiled = jax.jit(rule, static_argnames="gamma")(rewards, taken, gamma=gamma)
    np.testing.assert_allclose(compiled, found, rtol=1e-6, atol=1e-7)


@ALL
def test_turns_not_taken_do_not_matter(name):
    rewards = np.array([[[1.0, 2.0, 3.0]]])
    taken = np.array([[[True, True, False]]])
    expected = returns.RULES[name](rewards, taken, gamma=0.5)
    for poison in (np.nan, np.inf):
        found = returns.RULES[name](np.where(taken, rewards, poison), taken, gamma=0.5)
        np.testing.assert_array_equal(found, expected)
    assert expected[0, 0, 2] == 0
