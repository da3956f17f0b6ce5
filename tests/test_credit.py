"""Credit over the turns of a rollout."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.algorithm import credit


def numpy_leap(advantages, turns, max_turns, gamma):
    out = np.zeros((*np.shape(advantages), max_turns))
    for index, a in np.ndenumerate(advantages):
        for t in range(1, turns[index] + 1):
            out[(*index, t - 1)] = gamma ** (turns[index] - t) * a if a >= 0 else a
    return out


def test_a_gain_fades_backwards_and_a_loss_is_charged_in_full():
    per_turn = credit.leap(np.array([[1.0, -0.5, 0.6]]), np.array([[3, 3, 1]]), max_turns=3, gamma=0.5)
    np.testing.assert_allclose(per_turn, [[[0.25, 0.5, 1.0], [-0.5, -0.5, -0.5], [0.6, 0, 0]]])


def test_gamma_zero_credits_the_passing_turn_alone():
    per_turn = credit.leap(np.array([[1.0, -1.0]]), np.array([[3, 2]]), max_turns=3, gamma=0.0)
    np.testing.assert_array_equal(per_turn, [[[0, 0, 1], [-1, -1, 0]]])


def test_leap_forward_fades_from_the_first_turn():
    per_turn = credit.leap_forward(np.array([[1.0, -0.5, 0.6]]), np.array([[3, 3, 1]]), max_turns=3, gamma=0.5)
    np.testing.assert_allclose(per_turn, [[[1.0, 0.5, 0.25], [-0.5, -0.5, -0.5], [0.6, 0, 0]]])


def test_one_turn_may_get_all():
    advantages, turns = np.array([[1.0, -0.5, 0.6]]), np.array([[3, 2, 1]])
    last = credit.last_turn(advantages, turns, max_turns=3, gamma=0.5)
    np.testing.assert_allclose(last, [[[0, 0, 1.0], [0, -0.5, 0], [0.6, 0, 0]]])
    first = credit.first_turn(advantages, turns, max_turns=3, gamma=0.5)
    np.testing.assert_allclose(first, [[[1.0, 0, 0], [-0.5, 0, 0], [0.6, 0, 0]]])


def test_losses_alone_are_weighed():
    np.testing.assert_allclose(credit.weigh_losses(np.array([1.0, -1.0, 0.0]), 0.25), [1, -0.25, 0])


rollouts = st.lists(
    st.tuples(st.floats(-1, 1, width=32, allow_subnormal=False), st.integers(0, 4)), min_size=6, max_size=6
)


@given(rollouts, st.sampled_from([0.0, 0.4, 0.9, 1.0]))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_leap_equals_a_loop(pairs, gamma):
    advantages, turns = (np.array(column)[None] for column in zip(*pairs, strict=True))
    per_turn = credit.leap(advantages, turns, max_turns=4, gamma=gamma)
    np.testing.assert_allclose(per_turn, numpy_leap(advantages, turns, 4, gamma), rtol=1e-6, atol=1e-37)


@given(rollouts)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_gamma_one_is_uniform(pairs):
    advantages, turns = (np.array(column, np.float32)[None] for column in zip(*pairs, strict=True))
    options = {"max_turns": 4, "gamma": 1.0}
    for rule in (credit.leap, credit.leap_forward):
        np.testing.assert_array_equal(rule(advantages, turns, **options), credit.uniform(advantages, turns, **options))


@pytest.mark.parametrize("rule", credit.RULES.values())
def test_nothing_beyond_the_turns_taken_and_jit_changes_nothing(rule):
    advantages = np.array([[0.7, -0.3], [1.0, 0.0]], np.float32)
    turns = np.array([[2, 1], [3, 0]])
    per_turn = np.asarray(rule(advantages, turns, max_turns=3, gamma=0.5))
    assert per_turn.shape == (2, 2, 3)
    beyond = np.arange(1, 4) > turns[..., None]
    np.testing.assert_array_equal(per_turn[beyond], 0)
    credited = np.any(per_turn != 0, axis=-1)
    np.testing.assert_array_equal(credited, (advantages != 0) & (turns > 0))
    jitted = jax.jit(rule, static_argnames="max_turns")(advantages, turns, max_turns=3, gamma=0.5)
    np.testing.assert_allclose(jitted, per_turn, rtol=1e-6)
