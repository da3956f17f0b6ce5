"""The numbers of a training step, in closed form on hand-made episodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from episodes import CORRECT, INCORRECT, INFRA_ERROR, NO_ANSWER, UNSUPPORTED, episode

from leap_jax.algorithm.gate import Gate
from leap_jax.rollout import Episode, Rollouts, to_groups
from leap_jax.summary import debugging, summarise, zero_signal

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
REWARDS = np.array([[0.5, 0.5, -1.0, 7.0], [0.25, 0.0, -0.25, 7.0]])


def rolled_out(groups: list[list[Episode]], **masks: list[bool]) -> Rollouts:
    """Rollouts whose masks are False where they are not given; 4 s of generation, 1 s of waiting."""
    count = len(groups)
    named = {name: np.array(masks.get(name, [False] * count)) for name in (*Gate._fields, "still_open", "replaced")}
    gate = Gate(*(named.pop(name) for name in Gate._fields))
    return Rollouts(groups, gate, **named, generate_seconds=4.0, verify_seconds=1.0)


def summary(
    groups: list[list[Episode]],
    rewards: np.ndarray = REWARDS,
    advantages: np.ndarray | None = None,
    **masks: list[bool],
) -> dict:
    """The numbers of those groups; the advantages are 0, 1, 2, ... where they are not given."""
    seen = to_groups(groups, 3)
    if advantages is None:
        advantages = np.arange(seen.outcome_rank.size, dtype=float).reshape(seen.outcome_rank.shape)
    return summarise(rolled_out(groups, **masks), seen, rewards, advantages)


def test_a_step_in_closed_form():
    found = summary(GROUPS, open=[True, False], catastrophic=[False, True])
    assert found["train/reward_mean"] == pytest.approx(0.0)
    assert found["train/acc@1"] == pytest.approx(2 / 6)
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


def test_what_debugging_cost_and_brought():
    """Of the first group 2 rollouts went on, one of which could be judged; of the second all 3, with 2 turns each."""
    groups = to_groups([*GROUPS, [episode(CORRECT)] * 4], 3)
    everywhere = debugging(groups, np.array([True, True, True]))
    assert everywhere == {
        "open_share": 1.0,
        "debug_verifications": 2 + 6,
        "recovery": pytest.approx(2 / 4),
        "group_recovery": 1.0,  # the third group had nothing to debug
    }
    only_second = debugging(groups, np.array([False, True, False]))
    assert only_second["debug_verifications"] == 6
    assert only_second["recovery"] == pytest.approx(1 / 3)
    assert only_second["open_share"] == pytest.approx(1 / 3)
    failed = debugging(to_groups([[episode(INCORRECT, INCORRECT)] * 2, GROUPS[0][:2]], 3), np.array([True, True]))
    assert (failed["recovery"], failed["group_recovery"]) == (0.0, 0.0)


def test_explored_groups_are_counted_apart():
    found = summary(GROUPS, open=[True, True], explored=[False, True], still_open=[True, False])
    assert (found["train/open_share"], found["train/explored_open_share"]) == (0.5, 0.5)
    assert (found["train/debug_verifications"], found["train/explored_debug_verifications"]) == (2, 6)
    assert found["train/recovery"] == 1.0
    assert found["train/explored_recovery"] == pytest.approx(1 / 3)
    assert found["train/still_open_share"] == 0.5


def test_repairs_do_not_count_as_first_answers_to_a_task():
    repaired = [replace(one, is_repair=True) for one in [*GROUPS[0][:2], episode(NO_ANSWER), episode(UNSUPPORTED)]]
    found = summary([GROUPS[1], repaired])
    assert found["train/acc@1"] == 0.0
    assert found["train/repair_acc@1"] == pytest.approx(2 / 3)
    assert found["train/repair_share"] == 0.5
    assert found["train/outcome/correct"] == 0.0
    assert found["train/outcome/no_answer"] == pytest.approx(2 / 4)


def test_replaced_groups_are_paid_for_but_do_not_dilute_the_signal():
    advantages = np.zeros((2, 4, 3))
    advantages[1, 0] = 1.0
    found = summary(GROUPS, advantages=advantages, replaced=[True, False])
    assert found["train/replaced_groups"] == 1
    assert found["train/verifications"] == 16
    assert found["train/zero_signal_share"] == 0.0
    assert summary(GROUPS, advantages=advantages)["train/zero_signal_share"] == 0.5


def test_mean_advantages_by_tier_and_turn():
    """Advantage [p, g, t] is 12 p + 3 g + t; what was not taken or is not valid does not count.

    A third group fails at turn 1 and was closed: it has no later turns.
    """
    found = summary([*GROUPS, [episode(INCORRECT)] * 4], np.zeros((3, 4)))
    assert {name: value for name, value in found.items() if "advantage" in name} == {
        "train/advantage/pass_1/turn_1": (0 + 3) / 2,
        "train/advantage/pass_2/turn_1": 6.0,
        "train/advantage/pass_2/turn_2": 7.0,
        **{f"train/advantage/pass_3/turn_{t}": 12.0 + t - 1 for t in (1, 2, 3)},
        "train/advantage/fail/turn_1": (15 + 18 + 24 + 27 + 30 + 33) / 6,
        **{f"train/advantage/fail/turn_{t}": (15 + 18) / 2 + t - 1 for t in (2, 3)},
    }


def test_truncated_responses_are_counted_over_turns():
    group = [episode(INCORRECT, INCORRECT), episode(CORRECT)]
    group[0].turns[0] = replace(group[0].turns[0], truncated=True)
    assert summary([group], np.eye(2)[:1])["train/truncated_share"] == pytest.approx(1 / 3)


def test_a_group_without_an_advantage_has_no_signal():
    advantages = np.zeros((3, 2, 2))
    advantages[1, 1, 0], advantages[2, 0, 1] = 0.5, -0.5
    assert zero_signal(advantages).tolist() == [True, False, False]


def test_rewards_of_turns_add_up_to_that_of_a_rollout():
    rewards = np.ones((2, 4, 3))
    rewards[0, 3] = rewards[1, 3] = 9.0  # not valid
    assert summary(GROUPS, rewards)["train/reward_mean"] == pytest.approx(3.0)
