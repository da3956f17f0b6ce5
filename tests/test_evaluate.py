"""The numbers of an evaluation and of a training step, in closed form on hand-made episodes."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import jax
import numpy as np
import pytest
from episodes import CORRECT, INCORRECT, INFRA_ERROR, NO_ANSWER, UNSUPPORTED, episode
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.algorithm.gate import Gate
from leap_jax.evaluate import every_group, pass_at_k, scores
from leap_jax.rollout import Rollouts, to_groups
from leap_jax.summary import summarise, zero_signal

# Two tasks of four episodes: 2 pass at turn 1, 1 at turn 2, 1 at turn 3, 2 never, 2 cannot be judged.
GROUPS = [
    [episode(CORRECT), episode(CORRECT), episode(INCORRECT, CORRECT), episode(INCORRECT, INFRA_ERROR)],
    [
        episode(NO_ANSWER, INCORRECT, CORRECT),
        episode(NO_ANSWER, NO_ANSWER, INCORRECT),
        episode(INCORRECT, INCORRECT, INCORRECT),
        episode(UNSUPPORTED),
    ],
]


def test_scores_in_closed_form():
    found = dict(scores(GROUPS, max_turns=3))
    assert found["acc@1"] == pytest.approx(2 / 6)
    assert found["acc@2"] == pytest.approx(3 / 6)
    assert found["acc@3"] == pytest.approx(4 / 6)
    assert found["recovery"] == pytest.approx(2 / 4)
    assert found["turns_per_pass"] == pytest.approx((1 + 1 + 2 + 3 + 3 + 3) / 4)
    assert found["pass@3"] == pytest.approx((1 + 0) / 2)  # 3 valid episodes of each task
    assert found["outcome/correct"] == pytest.approx(2 / 8)
    assert found["outcome/no_answer"] == pytest.approx(2 / 8)
    assert found["outcome/incorrect"] == pytest.approx(3 / 8)
    assert found["outcome/unsupported"] == pytest.approx(1 / 8)
    assert "outcome/infra_error" not in found  # outcomes are those of first turns
    valid = [one for group in GROUPS for one in group if one.valid]
    lengths = [len(turn.response_ids) for one in valid for turn in one.turns]
    assert found["response_tokens"] == pytest.approx(np.mean(lengths))


def test_scores_without_a_valid_episode_are_zero():
    found = dict(scores([[episode(UNSUPPORTED)], [episode(INFRA_ERROR)]], max_turns=2))
    assert {found[k] for k in ("acc@1", "acc@2", "recovery", "turns_per_pass", "response_tokens")} == {0.0}


def test_scores_when_all_pass_at_once():
    found = dict(scores([[episode(CORRECT), episode(CORRECT)]], max_turns=2))
    assert (found["acc@1"], found["acc@2"], found["pass@2"], found["turns_per_pass"]) == (1, 1, 1, 1)
    assert found["recovery"] == 0.0  # nothing failed


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
@settings(max_examples=40, deadline=None)
def test_pass_at_k_is_the_share_of_subsets_that_hold_a_pass(passed, data):
    k = data.draw(st.integers(1, len(passed)))
    subsets = list(combinations(passed, k))
    assert pass_at_k(len(passed), sum(passed), k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_an_evaluation_opens_every_group():
    gate = every_group(np.array([[True, True], [False, False]]), np.ones((2, 2), bool), jax.random.key(0))
    assert gate.open.tolist() == [True, True]
    assert gate.easy.tolist() == gate.catastrophic.tolist() == [False, False]


def step_summary(rewards: np.ndarray) -> dict:
    gate = Gate(open=np.array([True, False]), easy=np.array([False, False]), catastrophic=np.array([False, True]))
    return summarise(Rollouts(GROUPS, gate, 4.0, 1.0), to_groups(GROUPS, 3), rewards)


def test_a_step_in_closed_form():
    rewards = np.array([[0.5, 0.5, -1.0, 7.0], [0.25, 0.0, -0.25, 7.0]])
    found = step_summary(rewards)
    assert found["train/reward_mean"] == pytest.approx(0.0)
    assert found["train/acc@1"] == pytest.approx(2 / 6)
    assert found["train/recovery"] == pytest.approx(2 / 4)
    assert (found["train/open_share"], found["train/easy_share"], found["train/catastrophic_share"]) == (0.5, 0.0, 0.5)
    assert found["train/invalid_share"] == pytest.approx(2 / 8)
    assert found["train/zero_signal_share"] == 0.0
    assert found["train/verifications"] == sum(len(one.turns) for group in GROUPS for one in group) == 16
    tokens = sum(len(turn.response_ids) for group in GROUPS for one in group for turn in one.turns)
    assert found["train/response_tokens"] == tokens
    assert found["train/verdicts_per_second"] == pytest.approx(16 / 5)
    assert found["train/tokens_per_second"] == pytest.approx(tokens / 4)
    assert (found["seconds/generate"], found["seconds/verify"]) == (4.0, 1.0)
    shares = {name: value for name, value in found.items() if name.startswith("train/outcome/")}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["train/outcome/incorrect"] == pytest.approx(3 / 8)
    assert shares["train/outcome/hack"] == 0.0


def test_truncated_responses_are_counted_over_turns():
    group = [episode(INCORRECT, INCORRECT), episode(CORRECT)]
    group[0].turns[0] = replace(group[0].turns[0], truncated=True)
    nothing = np.zeros(1, bool)
    found = summarise(
        Rollouts([group], Gate(~nothing, nothing, nothing), 1.0, 1.0), to_groups([group], 2), np.eye(2)[:1]
    )
    assert found["train/truncated_share"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("rewards", "valid", "zero"),
    [
        ([0.3, 0.3, 0.3], [1, 1, 1], True),
        ([0.3, 0.3, 0.1], [1, 1, 1], False),
        ([1.0, 1.0, 0.0], [1, 1, 0], True),  # 0 is only what an invalid rollout is given
        ([1.0, 0.0, 0.0], [1, 0, 0], True),
        ([0.0, 1.0, 2.0], [0, 0, 0], True),
        ([0.0, 0.5, 0.0], [0, 1, 1], False),
    ],
)
def test_zero_signal_looks_at_valid_rollouts_only(rewards, valid, zero):
    assert zero_signal(np.array([rewards]), np.array([valid], bool)).tolist() == [zero]
