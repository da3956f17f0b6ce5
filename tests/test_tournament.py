"""The tournament: the table of the paper's cases in exact fractions, and its invariants."""

from __future__ import annotations

from fractions import Fraction as F

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.algorithm import advantages
from leap_jax.algorithm.groups import comparable
from leap_jax.algorithm.tournament import earlier_pass_beats, first_decides, larger_beats, relative_rewards

FAIL = 4  # T + 1 with T = 3
ONE_ULP = 2e-7  # XLA may divide by way of the reciprocal; a zero stays exactly zero

# Counts of passes at turn 1, 2, 3 and of failures (G = 8) -> reward of each tier that is not empty.
VECTORS = [
    ((8, 0, 0, 0), (0,)),
    ((0, 0, 0, 8), (0,)),
    ((0, 8, 0, 0), (0,)),
    ((7, 0, 0, 1), (F(1, 7), -1)),
    ((4, 0, 0, 4), (F(4, 7), F(-4, 7))),
    ((1, 0, 0, 7), (1, F(-1, 7))),
    ((4, 3, 0, 1), (F(4, 7), F(-3, 7), -1)),
    ((4, 4, 0, 0), (F(4, 7), F(-4, 7))),
    ((1, 7, 0, 0), (1, F(-1, 7))),
    ((1, 3, 0, 4), (1, F(3, 7), F(-4, 7))),
    ((0, 1, 0, 7), (1, F(-1, 7))),
    ((0, 1, 1, 6), (1, F(5, 7), F(-2, 7))),
    ((2, 2, 2, 2), (F(6, 7), F(2, 7), F(-2, 7), F(-6, 7))),
]


def rewards_of(first_pass, valid=None):
    first_pass = np.asarray(first_pass)
    valid = np.ones(first_pass.shape, bool) if valid is None else np.asarray(valid)
    return np.asarray(relative_rewards(earlier_pass_beats(first_pass, valid), valid))


def exact_rewards(first_pass, valid) -> list[F]:
    """The definition, in fractions, for one group."""
    turns = [k for k, v in zip(first_pass, valid, strict=True) if v]
    if len(turns) < 2:
        return [F(0)] * len(first_pass)
    score = {k: F(sum(k < j for j in turns) - sum(j < k for j in turns), len(turns) - 1) for k in turns}
    return [score[k] if v else F(0) for k, v in zip(first_pass, valid, strict=True)]


def eight(elements):
    return st.lists(elements, min_size=8, max_size=8)


groups = st.tuples(eight(st.integers(1, FAIL)), eight(st.booleans()))  # first passes; which rollouts are valid


@pytest.mark.parametrize(("counts", "expected"), VECTORS)
def test_vectors(counts, expected):
    first_pass = np.repeat([1, 2, 3, FAIL], counts)
    per_tier = np.repeat([float(r) for r in expected], [c for c in counts if c])
    np.testing.assert_allclose(rewards_of(first_pass), per_tier, rtol=ONE_ULP)


@given(groups)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_equals_the_definition_and_is_zero_sum_and_bounded(group):
    first_pass, valid = group
    expected = exact_rewards(first_pass, valid)
    assert sum(expected) == 0
    rewards = rewards_of(first_pass, valid)
    np.testing.assert_allclose(rewards, [float(r) for r in expected], rtol=ONE_ULP)
    assert np.all(np.abs(rewards) <= 1)
    assert abs(rewards.sum()) < 1e-6


@given(groups, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_permuting_the_group_permutes_the_rewards(group, random):
    first_pass, valid = np.array(group[0]), np.array(group[1])
    order = np.array(random.sample(range(len(first_pass)), len(first_pass)))
    np.testing.assert_array_equal(rewards_of(first_pass[order], valid[order]), rewards_of(first_pass, valid)[order])


@given(st.tuples(eight(st.booleans()), eight(st.booleans())))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_two_tiers_equal_leave_one_out_of_a_binary_reward(group):
    passed, valid = (np.array(x)[None] for x in group)
    binary = passed.astype(np.float32)
    expected = advantages.leave_one_out(binary, comparable(valid))
    np.testing.assert_allclose(rewards_of(np.where(passed, 1, FAIL), valid), expected, atol=1e-6)


def test_an_invalid_rollout_is_as_if_it_had_never_been():
    first_pass = np.array([1, 2, FAIL, FAIL, 1, 3])
    valid = np.array([True, True, True, True, False, False])
    rewards = rewards_of(first_pass, valid)
    np.testing.assert_array_equal(rewards[:4], rewards_of(first_pass[:4]))
    np.testing.assert_array_equal(rewards[4:], 0)


def test_a_later_rule_decides_only_what_earlier_ones_leave_open():
    everyone = np.ones(3, bool)
    beats = first_decides(
        larger_beats(np.array([1, 1, 0]), everyone),
        larger_beats(np.array([0, 2, 9]), everyone),  # the last loses already
    )
    np.testing.assert_array_equal(beats, [[0, 0, 1], [1, 0, 1], [0, 0, 0]])
    assert not np.any(beats & beats.T)


def test_a_margin_ties_what_is_near_and_nan_ties_with_all():
    values, among = np.array([1.0, 1.5, 2.5, np.nan, 9.0]), np.array([True] * 4 + [False])
    beats = np.asarray(larger_beats(values, among, margin=1.0))
    np.testing.assert_array_equal(np.argwhere(beats), [[2, 0]])


def test_groups_do_not_meet():
    first_pass = np.array([[1, 1, FAIL], [2, 3, FAIL]])
    np.testing.assert_array_equal(rewards_of(first_pass), np.stack([rewards_of(row) for row in first_pass]))


def test_jit_changes_nothing():
    first_pass = np.random.default_rng(0).integers(1, 5, (32, 8))
    valid = np.random.default_rng(1).random((32, 8)) < 0.8
    compiled = jax.jit(lambda k, v: relative_rewards(earlier_pass_beats(k, v), v))(first_pass, valid)
    np.testing.assert_allclose(compiled, rewards_of(first_pass, valid), rtol=ONE_ULP)
