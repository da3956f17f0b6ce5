"""Reward functions by name, built-in and the user's own, against loops and worked examples."""

from __future__ import annotations

import math
import sys

import jax
import numpy as np
import pytest
from grouped import OPTIONS, groups_of, random_groups

from leap_jax.algorithm import rewards
from leap_jax.algorithm.groups import Groups

ALL = pytest.mark.parametrize("name", rewards.REWARDS)
TOURNAMENTS = ("tournament", "tournament_speed", "tournament_staged")


def reward(name: str, groups: Groups, **options: object) -> np.ndarray:
    return np.asarray(rewards.resolve(name, OPTIONS | options)(groups))


def better(groups: Groups, name: str, p: int, i: int, j: int) -> bool:
    """Whether rollout i beats rollout j of group p, by the words of the rule."""
    k, n = groups.first_pass[p, i], groups.first_pass[p, j]
    if k != n or name == "tournament":
        return bool(k < n)
    passed = k <= groups.max_turns
    if name == "tournament_staged":
        last = [groups.outcome_rank[p, x, groups.turns[p, x] - 1] for x in (i, j)]
        return bool(not passed and last[0] > last[1])
    if not passed:
        return False
    t_i, t_j = (groups.time_us[p, x, k - 1] for x in (i, j))
    if abs(math.log(t_i / t_j)) > math.log(1 + OPTIONS["noise_margin"]):
        return bool(t_i < t_j)
    bins = [groups.response_tokens[p, x, k - 1] // OPTIONS["length_bin_tokens"] for x in (i, j)]
    return bool(bins[0] < bins[1])


@pytest.mark.parametrize("name", TOURNAMENTS)
def test_a_tournament_equals_a_loop_over_pairs(name):
    groups = random_groups(np.random.default_rng(3), (12, 8))
    groups = groups._replace(first_pass=np.where(groups.first_pass == 3, 4, groups.first_pass))  # more ties
    expected = np.zeros(groups.valid.shape)
    for p, valid in enumerate(groups.valid):
        peers = np.flatnonzero(valid)
        for i in peers if len(peers) > 1 else []:
            score = sum(better(groups, name, p, i, j) - better(groups, name, p, j, i) for j in peers)
            expected[p, i] = score / (len(peers) - 1)
    found = reward(name, groups)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 0, atol=1e-5)  # noise margins make it intransitive, yet zero-sum
    if name != "tournament":
        assert np.any(found != reward("tournament", groups))


def test_tournament_ranks_by_turn():
    np.testing.assert_allclose(reward("tournament", groups_of([[1, 2, 2, 4]])), [[1, 0, 0, -1]])


def test_a_speed_inside_the_noise_margin_is_a_tie_that_the_length_breaks_by_bins():
    times = np.full((1, 3, 3), np.nan, np.float32)
    times[0, :, 0] = [100.0, 104.0, 106.0]  # the first beats the last alone
    groups = groups_of([[1, 1, 1]], time_us=times)
    np.testing.assert_allclose(reward("tournament_speed", groups), [[0.5, 0, -0.5]])
    lengths = np.zeros((1, 3, 3), int)
    lengths[0, :, 0] = [20, 10, 15]  # bins 1, 0, 0: the second beats the first
    found = reward("tournament_speed", groups._replace(response_tokens=lengths))
    np.testing.assert_allclose(found, [[0, 0.5, -0.5]])
    groups = groups._replace(time_us=np.full((1, 3, 3), np.nan), response_tokens=lengths)
    np.testing.assert_allclose(reward("tournament_speed", groups), [[-1, 0.5, 0.5]])  # without times, length alone


def test_staged_ranks_failures_by_their_last_outcome_and_successes_not():
    ranks = np.array([[[6, -1, -1], [6, -1, -1], [5, 2, 0], [0, 0, 5]]])
    found = reward("tournament_staged", groups_of([[1, 1, 4, 4]], outcome_rank=ranks))
    np.testing.assert_allclose(found, [[2 / 3, 2 / 3, -1, -1 / 3]], rtol=1e-6)


def test_any_success_ignores_the_turn():
    groups = groups_of([[1, 2, 3, 4], [4, 4, 4, 4]])
    np.testing.assert_array_equal(reward("any_success", groups), [[1, 1, 1, 0], [0, 0, 0, 0]])
    late = groups_of([[1, 3]], max_turns=2)  # turn 3 is "never" when T = 2
    np.testing.assert_array_equal(reward("any_success", late), [[1, 0]])


def test_manual_is_a_table_by_turn():
    np.testing.assert_allclose(reward("manual", groups_of([[1, 2, 3, 4]])), [[1, 0.8, 0.6, 0]])
    late = groups_of([[1, 2, 3, 3]], max_turns=2)
    np.testing.assert_allclose(reward("manual", late), [[1, 0.8, 0, 0]])


def test_first_turn_weighted_equals_a_loop():
    groups = random_groups(np.random.default_rng(4), (12, 8))
    for speed_weight in (0.0, 0.5):
        expected = np.zeros(groups.valid.shape)
        for p, g in np.argwhere(groups.valid):
            if groups.valid[p].sum() < 2:
                continue
            scores = []
            for t in range(groups.turns[p, g]):
                q = groups.checks_share[p, g, t]
                if groups.first_pass[p, g] == t + 1:
                    v = groups.baseline_us[p, g, t] / groups.time_us[p, g, t]
                    scores.append(1 + speed_weight * min(max(v - 1, 0), 1.0))
                else:
                    scores.append(-0.5 + 0.5 * q if q > 0 else -1)
            bonus = {1: 0.2, 2: 0.1}.get(int(groups.first_pass[p, g]), 0)
            expected[p, g] = 0.75 * scores[0] + 0.25 * max(scores) + bonus
        found = reward("first_turn_weighted", groups, speed_weight=speed_weight, speedup_cap=1.0)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_rewards_of_turns_by_hand():
    """Two rollouts: one passes at turn 2 in half the baseline's time, one at turn 1 in a tenth of it."""
    times = np.full((1, 2, 3), np.nan)
    times[0, 0, 1], times[0, 1, 0] = 10.0, 2.0
    shares = np.array([[[0.5, 1, 0], [1, 0, 0]]])
    groups = groups_of(
        [[2, 1]], time_us=times, baseline_us=np.where(np.isnan(times), np.nan, 20.0), checks_share=shares
    )
    np.testing.assert_allclose(reward("kevin", groups), [[[0, 2.3, 0], [10.3, 0, 0]]], rtol=1e-6)
    np.testing.assert_allclose(reward("speedup_capped", groups), [[[0, 3, 0], [4, 0, 0]]])
    np.testing.assert_allclose(reward("checks", groups), shares)
    without = groups._replace(time_us=np.full(times.shape, np.nan))
    np.testing.assert_allclose(reward("kevin", without, speed_weight=0.0), [[[0, 0.3, 0], [0.3, 0, 0]]], rtol=1e-6)
    np.testing.assert_allclose(reward("speedup_capped", without, speed_weight=0.0), [[[0, 1, 0], [1, 0, 0]]])
    for name in rewards.SPEED_WEIGHTED:
        assert np.isnan(reward(name, without)).any()  # a missing time is never taken for a slow one
        assert rewards.uses_speed(name, OPTIONS) and not rewards.uses_speed(name, OPTIONS | {"speed_weight": 0.0})
    assert [name for name in rewards.REWARDS if rewards.uses_speed(name, OPTIONS | {"speed_weight": 0.0})] == [
        "tournament_speed"
    ]


@ALL
def test_invalid_and_lonely_rollouts_get_nothing(name):
    groups = groups_of([[1, 4, 1], [1, 1, 4]], valid=[[True, True, False], [True, False, False]])
    values = reward(name, groups)
    assert values.dtype == np.float32
    assert values.shape == ((2, 3, 3) if name in rewards.PER_TURN else (2, 3))
    values = values.reshape(2, 3, -1)[..., 0]
    assert values[0, 2] == 0
    np.testing.assert_array_equal(values[1], 0)
    assert values[0, 0] > values[0, 1]


@ALL
def test_what_an_invalid_rollout_holds_does_not_matter(name):
    groups = random_groups(np.random.default_rng(5))
    there = groups.valid[..., None]
    poisoned = groups._replace(
        first_pass=np.where(groups.valid, groups.first_pass, 1),
        outcome_rank=np.where(there, groups.outcome_rank, -1),
        response_tokens=np.where(there, groups.response_tokens, 10**6),
        **{k: np.where(there, getattr(groups, k), np.nan) for k in ("checks_share", "time_us", "baseline_us")},
    )
    np.testing.assert_array_equal(reward(name, poisoned), reward(name, groups))
    assert not np.isnan(reward(name, groups)).any()


@ALL
def test_permuting_the_group_permutes_the_rewards(name):
    rng = np.random.default_rng(6)
    groups, order = random_groups(rng), rng.permutation(8)
    shuffled = Groups(*(values[:, order] for values in groups))
    np.testing.assert_array_equal(reward(name, shuffled), reward(name, groups)[:, order])


@ALL
def test_jit_changes_nothing(name):
    groups = random_groups(np.random.default_rng(0), (16, 8))
    compiled = jax.jit(rewards.resolve(name, OPTIONS))(groups)
    np.testing.assert_allclose(compiled, reward(name, groups), rtol=1e-6, atol=1e-7)


def test_a_users_function_by_dotted_path(tmp_path, monkeypatch):
    package = tmp_path / "their_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "scores.py").write_text(
        "NUMBER = 3\n"
        "def first_turn(groups):\n    return (groups.first_pass == 1) * 2.0\n"
        "def weighted(groups, *, weight, speed_weight=7.0):\n    return weight * groups.passed + speed_weight\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    function = rewards.resolve("their_package.scores.first_turn", {})
    np.testing.assert_array_equal(function(groups_of([[1, 2, 4]])), [[2, 0, 0]])
    weighted = rewards.resolve("their_package.scores.weighted", {"weight": 3.0, "turn_rewards": ()})
    np.testing.assert_array_equal(weighted(groups_of([[2]])), [[[7, 10, 7]]])
    with pytest.raises(ValueError, match=r"weighted' needs the constant weight: set config.reward_options.weight"):
        rewards.resolve("their_package.scores.weighted", {})
    with pytest.raises(ValueError, match=r"reward 'their_package.scores.missing'.*no function 'missing'"):
        rewards.resolve("their_package.scores.missing", {})
    with pytest.raises(ValueError, match="no function 'NUMBER'"):
        rewards.resolve("their_package.scores.NUMBER", {})
    for module in ("their_package", "their_package.scores"):
        sys.modules.pop(module)


@pytest.mark.parametrize("name", ["tournamnet", "", ".", ".x", "x.", "no_such_package.reward", "leap_jax..y"])
def test_an_unknown_name_lists_what_there_is(name):
    with pytest.raises(ValueError, match=r"reward .*use one of tournament, .*any_success, .*, or a dotted path"):
        rewards.resolve(name, {})
