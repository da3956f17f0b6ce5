"""Advantages over those that can be compared, against NumPy."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.algorithm import advantages

FORMULAS = {
    "none": lambda r: r,
    "mean": lambda r: r - r.mean(),
    "mean_std": lambda r: (r - r.mean()) / (r.std() + advantages.STD_EPSILON),
    "leave_one_out": lambda r: np.array([r[i] - (np.delete(r, i).mean() if len(r) > 1 else 0) for i in range(len(r))]),
}

ALL = pytest.mark.parametrize("name", advantages.ADVANTAGES)
groups = st.lists(st.tuples(st.integers(-8, 8).map(lambda n: n / 4), st.booleans()), min_size=8, max_size=8)


def test_every_advantage_has_a_formula():
    assert FORMULAS.keys() == advantages.ADVANTAGES.keys()


@ALL
@given(group=groups)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_equals_numpy_over_the_valid(name, group):
    rewards, valid = (np.array(column) for column in zip(*group, strict=True))
    expected = np.zeros(len(rewards))
    if valid.any():
        expected[valid] = FORMULAS[name](rewards[valid])
    found = advantages.ADVANTAGES[name](rewards.astype(np.float32)[None], valid[None])
    np.testing.assert_allclose(found, expected[None], rtol=1e-4, atol=1e-5)


def test_z_scores_of_the_papers_cases():
    for passes, gain, loss in ((7, 0.378, -2.646), (4, 1, -1), (1, 2.646, -0.378)):
        rewards = (np.arange(8) < passes).astype(np.float32)[None]
        found = advantages.mean_std(rewards, np.ones((1, 8), bool))[0]
        np.testing.assert_allclose([found[0], found[-1]], [gain, loss], atol=1e-3)


@pytest.mark.parametrize("name", ["mean", "mean_std", "leave_one_out"])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.8, 1e6])
def test_equal_rewards_give_exactly_nothing(name, value):
    found = advantages.ADVANTAGES[name](np.full((1, 7), value, np.float32), np.ones((1, 7), bool))
    np.testing.assert_array_equal(found, 0)


@ALL
def test_what_left_the_group_cannot_poison_it(name):
    rewards = np.array([[1.0, 0.0, np.nan, np.inf]], np.float32)
    valid = np.array([[True, True, False, False]])
    found = np.asarray(advantages.ADVANTAGES[name](rewards, valid))
    np.testing.assert_array_equal(found[0, 2:], 0)
    np.testing.assert_array_equal(found[0, :2], advantages.ADVANTAGES[name](rewards[:, :2], valid[:, :2])[0])


def test_one_alone_has_no_baseline():
    value, present = np.array([[7.0, 2.5]], np.float32), np.array([[False, True]])
    found = {name: float(rule(value, present)[0, 1]) for name, rule in advantages.ADVANTAGES.items()}
    assert found == {"none": 2.5, "mean": 0.0, "mean_std": 0.0, "leave_one_out": 2.5}


@ALL
def test_a_group_pools_its_turns_and_a_turn_stands_alone(name):
    rng = np.random.default_rng(1)
    values, present = rng.normal(size=(3, 5, 4)).astype(np.float32), rng.random((3, 5, 4)) < 0.6
    rule = advantages.ADVANTAGES[name]
    pooled, by_turn = np.zeros(values.shape), np.zeros(values.shape)
    for p in range(3):
        pooled[p][present[p]] = FORMULAS[name](values[p][present[p]])
        for t in range(4):
            there = present[p, :, t]
            if there.any():
                by_turn[p, there, t] = FORMULAS[name](values[p, there, t])
    np.testing.assert_allclose(advantages.over_group(rule, values, present), pooled, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(advantages.over_turn(rule, values, present), by_turn, rtol=1e-4, atol=1e-5)
    flat = advantages.over_group(rule, values[..., 0], present[..., 0])
    np.testing.assert_array_equal(flat, rule(values[..., 0], present[..., 0]))


@ALL
def test_a_nan_reward_of_a_valid_rollout_is_not_hidden(name):
    found = advantages.ADVANTAGES[name](np.array([[1.0, np.nan, 0.0]], np.float32), np.ones((1, 3), bool))
    assert np.any(np.isnan(found))


@ALL
def test_jit_changes_nothing(name):
    rng = np.random.default_rng(0)
    rewards, valid = rng.normal(size=(16, 8)).astype(np.float32), rng.random((16, 8)) < 0.7
    function = advantages.ADVANTAGES[name]
    np.testing.assert_allclose(jax.jit(function)(rewards, valid), function(rewards, valid), rtol=1e-5, atol=1e-6)
