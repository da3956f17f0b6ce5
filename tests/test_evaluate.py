"""The numbers of an evaluation, in closed form on hand-made episodes."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from episodes import CORRECT, INCORRECT, INFRA_ERROR, NO_ANSWER, UNSUPPORTED, episode

from leap_jax.algorithm.gate import Outcomes
from leap_jax.evaluate import Results, by_kind, differences, every_group, ratios, scores, speeds, to_results
from leap_jax.kernels.generator import compose, seeds
from leap_jax.kernels.suite import SUITE
from leap_jax.policy.tokenizer import Tokenizer
from leap_jax.rollout import Episode, to_groups
from leap_jax.run_folder import evaluation_records
from leap_jax.statistics import interval
from leap_jax.task_sets import kinds, task_names

TOKENIZER = Tokenizer.train(["text"], 300)
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


def results(groups, max_turns: int) -> Results:
    return to_results(evaluation_records(0, groups, TOKENIZER), max_turns)


def test_results_are_what_the_episodes_say():
    found = results(GROUPS, 3)
    assert found.tasks == ["composed/0", "composed/0"]
    np.testing.assert_array_equal(found.passed_at, [[1, 1, 2, 4], [3, 4, 4, 4]])
    np.testing.assert_array_equal(found.valid, [[True, True, True, False], [True, True, True, False]])
    np.testing.assert_array_equal(found.turns, [[1, 1, 2, 2], [3, 3, 3, 1]])
    assert found.first_outcome[1].tolist() == ["no_answer", "no_answer", "incorrect", "unsupported"]
    tokens = [[sum(len(turn.response_ids) for turn in one.turns) for one in group] for group in GROUPS]
    np.testing.assert_array_equal(found.response_tokens, tokens)
    assert np.isnan(found.time_us).all()
    ours, groups = found, to_groups(GROUPS, 3)  # training sees the same
    for name, theirs in (("passed_at", groups.first_pass), ("valid", groups.valid), ("turns", groups.turns)):
        np.testing.assert_array_equal(getattr(ours, name), theirs)


def test_scores_in_closed_form():
    found = dict(scores(results(GROUPS, max_turns=3)))
    assert found["acc@1"] == pytest.approx(2 / 6)
    assert found["acc@2"] == pytest.approx(3 / 6)
    assert found["acc@3"] == pytest.approx(4 / 6)
    assert found["recovery"] == pytest.approx(2 / 4)
    assert found["recovery/no_answer"] == pytest.approx(1 / 2)
    assert found["recovery/incorrect"] == pytest.approx(1 / 2)
    assert {name for name in found if name.startswith("recovery/")} == {"recovery/no_answer", "recovery/incorrect"}
    assert (found["recovery@2"], found["recovery@3"]) == (pytest.approx(1 / 4), pytest.approx(1 / 3))
    assert found["rescued_tasks"] == 1.0
    assert found["turns_per_pass"] == pytest.approx((1 + 1 + 2 + 3 + 3 + 3) / 4)
    assert found["verifications_per_pass"] == pytest.approx(16 / 4)
    every = [len(turn.response_ids) for group in GROUPS for one in group for turn in one.turns]
    assert found["response_tokens_per_pass"] == pytest.approx(sum(every) / 4)
    assert found["pass@1"] == pytest.approx((2 / 3 + 0) / 2)
    assert found["pass@2"] == pytest.approx((1 + 0) / 2)
    assert found["best_of@2"] == pytest.approx((1 + 2 / 3) / 2)
    assert "pass@4" not in found  # three valid episodes of each task
    assert found["outcome/correct"] == pytest.approx(2 / 8)
    assert found["outcome/no_answer"] == pytest.approx(2 / 8)
    assert found["outcome/incorrect"] == pytest.approx(3 / 8)
    assert found["outcome/unsupported"] == pytest.approx(1 / 8)
    assert "outcome/infra_error" not in found  # outcomes are those of first turns
    valid = [one for group in GROUPS for one in group if one.valid]
    lengths = [len(turn.response_ids) for one in valid for turn in one.turns]
    assert found["response_tokens"] == pytest.approx(np.mean(lengths))


def test_scores_hold_the_intervals_of_the_first_and_the_last_accuracy():
    values = results(GROUPS, 3)
    found = dict(scores(values))
    for name in ("acc@1", "acc@3"):
        ends = interval(ratios(values)[name])
        assert found[f"{name}_low"] == ends.low < found[name] < ends.high == found[f"{name}_high"]
    assert "acc@2_low" not in found


def test_what_cannot_be_said_is_left_out():
    assert {name for name, _ in scores(results([[episode(UNSUPPORTED)], [episode(INFRA_ERROR)]], 2))} == {
        "outcome/unsupported",
        "outcome/infra_error",
    }
    nothing_failed = dict(scores(results([[episode(CORRECT), episode(CORRECT)]], max_turns=2)))
    assert [nothing_failed[name] for name in ("acc@1", "acc@2", "pass@2", "turns_per_pass")] == [1, 1, 1, 1]
    assert "recovery" not in nothing_failed
    nothing_passed = dict(scores(results([[episode(INCORRECT, INCORRECT)]], max_turns=2)))
    assert (nothing_passed["acc@2"], nothing_passed["recovery"]) == (0, 0)
    assert "turns_per_pass" not in nothing_passed
    one_turn = dict(scores(results([[episode(INCORRECT)], [episode(CORRECT)]], max_turns=1)))
    assert not any("recovery" in name or "best_of" in name or "rescued" in name for name in one_turn)


def timed(one: Episode, time_us: float) -> Episode:
    one.turns[-1].verdict = replace(one.turns[-1].verdict, time_us=time_us)
    return one


def test_speed_counts_failures_and_is_not_made_up():
    groups = [[timed(episode(CORRECT), 5.0), episode(INCORRECT)], [timed(episode(INCORRECT, CORRECT), 40.0)] * 2]
    found = speeds(results(groups, 2), np.array([10.0, 60.0]))
    assert [found[f"fast_{p}"].value for p in ("1", "1.1", "1.5", "2")] == [3 / 4, 3 / 4, 1 / 4, 0]
    assert found["speedup"].value == pytest.approx((2 * 1 * 1.5 * 1.5) ** (1 / 4))
    assert found["speedup_of_correct"].value == pytest.approx((2 * 1.5 * 1.5) ** (1 / 3))
    assert found["speedup"].low < found["speedup"].value < found["speedup"].high
    assert speeds(results(GROUPS, 3), np.full(2, np.nan)) == {}
    assert speeds(results(GROUPS, 3), np.ones(2)) == {}  # a baseline has a time, no answer has


def test_differences_are_those_of_the_same_tasks():
    worse = [[episode(INCORRECT, INCORRECT) if one.valid else one for one in group] for group in GROUPS]
    found = differences(results(GROUPS, 3), results(worse, 3))
    assert list(found) == ["acc@1", "acc@2", "acc@3", "pass@4", "best_of@4"]
    assert found["acc@3"].value == pytest.approx((1 + 1 / 3) / 2)
    assert (found["acc@3"].p_value, found["acc@3"].tasks) == (0.5, 2)  # two signs of the four are as far
    others = [[replace(one, task="composed/7") for one in group] for group in GROUPS]
    with pytest.raises(ValueError, match="different tasks"):
        differences(results(GROUPS, 3), results(others, 3))


def test_tasks_fall_into_kinds():
    names = ["softmax", "relu", "composed/0", "composed/1"]
    found = by_kind(names)
    for name in names[2:]:
        made = compose(int(name.removeprefix("composed/")))
        assert found[f"operations {made.level}"][names.index(name)]
        assert found[f"dtype {made.dtype}"][names.index(name)]
    assert found["level 1"].tolist() == [False, True, False, False]
    for seed, family in ((s, "elementwise") for s in range(40) if compose(s).row is None):
        assert kinds(f"composed/{seed}")["family"] == family
    reducing = next(s for s in range(100) if compose(s).reduces)
    normalising = next(s for s in range(100) if compose(s).row and not compose(s).reduces)
    assert kinds(f"composed/{reducing}")["family"] == "reduction"
    assert kinds(f"composed/{normalising}")["family"] == "normalisation"


def test_task_sets():
    assert task_names("heldout:3") == [f"composed/{seed}" for seed in seeds("heldout", 3)]
    assert task_names("train:2") == [f"composed/{seed}" for seed in seeds("train", 2)]
    assert task_names("suite") == list(SUITE)
    assert task_names("suite:softmax,relu") == ["softmax", "relu"]


@pytest.mark.parametrize("which", ["heldout", "heldout:", "heldout:0", "heldout:-1", "train:many", "test:3", "suite:"])
def test_an_unknown_task_set_is_refused_in_one_line(which):
    with pytest.raises(ValueError, match=f"^tasks '{which}'[^\n]*$"):
        task_names(which)


def test_a_task_that_is_not_in_the_suite_or_named_twice_is_refused():
    with pytest.raises(ValueError, match=r"no 'sofmax', it has .*softmax"):
        task_names("suite:relu,sofmax")
    with pytest.raises(ValueError, match="named twice"):
        task_names("suite:relu,relu")


def test_an_evaluation_opens_every_group():
    failed = np.zeros((2, 2), bool)
    gate = every_group(["relu", "softmax"], Outcomes(failed, ~failed, failed), jax.random.key(0))
    assert gate.open.tolist() == [True, True]
    assert gate.easy.tolist() == gate.catastrophic.tolist() == gate.explored.tolist() == [False, False]
