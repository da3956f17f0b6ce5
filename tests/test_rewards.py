"""Reward functions by name, built-in and the user's own."""

from __future__ import annotations

import sys

import jax
import numpy as np
import pytest

from leap_jax.algorithm import rewards


def groups_of(first_pass, valid=None, max_turns: int = 3) -> rewards.Groups:
    first_pass = np.asarray(first_pass)
    turns = np.minimum(first_pass, max_turns)
    taken = np.arange(1, max_turns + 1) <= turns[..., None]
    return rewards.Groups(
        first_pass=first_pass,
        turns=turns,
        valid=np.ones(first_pass.shape, bool) if valid is None else np.asarray(valid),
        outcome_rank=np.where(taken, 0, -1),
        response_tokens=np.where(taken, 10, 0),
        time_us=np.where(first_pass <= max_turns, 5.0, np.nan),
    )


def test_tournament_ranks_by_turn():
    groups = groups_of([[1, 2, 2, 4]])
    np.testing.assert_allclose(rewards.tournament(groups), [[1, 0, 0, -1]])


def test_any_success_ignores_the_turn():
    groups = groups_of([[1, 2, 3, 4], [4, 4, 4, 4]])
    np.testing.assert_array_equal(rewards.any_success(groups), [[1, 1, 1, 0], [0, 0, 0, 0]])
    late = groups_of([[1, 3]], max_turns=2)  # turn 3 is "never" when T = 2
    np.testing.assert_array_equal(rewards.any_success(late), [[1, 0]])


@pytest.mark.parametrize("name", rewards.REWARDS)
def test_invalid_and_lonely_rollouts_get_nothing(name):
    groups = groups_of([[1, 4, 1], [1, 1, 4]], valid=[[True, True, False], [True, False, False]])
    values = np.asarray(rewards.resolve(name)(groups))
    assert values.dtype == np.float32
    assert values[0, 2] == 0
    np.testing.assert_array_equal(values[1], 0)
    assert values[0, 0] > values[0, 1]


@pytest.mark.parametrize("name", rewards.REWARDS)
def test_jit_changes_nothing(name):
    rng = np.random.default_rng(0)
    groups = groups_of(rng.integers(1, 5, (16, 8)), rng.random((16, 8)) < 0.9)
    np.testing.assert_array_equal(jax.jit(rewards.resolve(name))(groups), rewards.resolve(name)(groups))


def test_a_users_function_by_dotted_path(tmp_path, monkeypatch):
    package = tmp_path / "their_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "scores.py").write_text(
        "NUMBER = 3\ndef first_turn(groups):\n    return (groups.first_pass == 1) * 2.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    function = rewards.resolve("their_package.scores.first_turn")
    np.testing.assert_array_equal(function(groups_of([[1, 2, 4]])), [[2, 0, 0]])
    with pytest.raises(ValueError, match=r"reward 'their_package.scores.missing'.*no function 'missing'"):
        rewards.resolve("their_package.scores.missing")
    with pytest.raises(ValueError, match="no function 'NUMBER'"):
        rewards.resolve("their_package.scores.NUMBER")
    for module in ("their_package", "their_package.scores"):
        sys.modules.pop(module)


@pytest.mark.parametrize("name", ["tournamnet", "", ".", ".x", "x.", "no_such_package.reward", "leap_jax..y"])
def test_an_unknown_name_lists_what_there_is(name):
    with pytest.raises(ValueError, match=r"reward .*use one of tournament, any_success, or a dotted path"):
        rewards.resolve(name)
