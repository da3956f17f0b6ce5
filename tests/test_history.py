"""What is remembered from step to step: a function of what was seen, the same after a file as before."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from episodes import CORRECT, INCORRECT, INFRA_ERROR, NO_ANSWER, UNSUPPORTED, FakePool, episode

from leap_jax import history
from leap_jax.kernels import generator
from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.feedback import feedback
from leap_jax.policy.tokenizer import Tokenizer
from leap_jax.rollout import Actor, Repair

TOKENIZER = Tokenizer.train(["a message of no_answer", "expected: void kernel()"], 300)


class Limits:
    """The two sizes of a sampler that matter here."""

    def __init__(self, max_prompt_tokens: int = 500, max_feedback_tokens: int = 200) -> None:
        self.max_prompt_tokens = max_prompt_tokens
        self.max_feedback_tokens = max_feedback_tokens


def actor(**limits: int) -> Actor:
    return Actor(Limits(**limits), TOKENIZER, FakePool(lambda task, text: INCORRECT), 1.0, feedback_chars=80)


def kept(groups: list, size: int = 8, before: history.History = history.EMPTY, **limits: int) -> tuple[Repair, ...]:
    return history.keep_failures(before, groups, actor(**limits), size=size).failures


def test_classes_are_kind_and_number_of_operations():
    names = {history.difficulty_class(f"composed/{seed}", False) for seed in range(200)}
    assert {name.split()[0] for name in names} == {"elementwise", "reduction", "normalisation"}
    for seed in range(20):
        composition = generator.compose(seed)
        assert history.difficulty_class(f"composed/{seed}", False).endswith(f" {composition.level}")
    task = load_task("softmax")
    assert history.difficulty_class("softmax", False) == f"{task.family} {task.level}"
    assert history.difficulty_class("softmax", True) == f"repair of {task.family} {task.level}"


def test_pass_rates_are_the_mean_of_a_posterior_that_forgets():
    """Two steps with a decay of 0.5, counted by hand."""
    easy = [replace(one, task="softmax") for one in (episode(CORRECT), episode(CORRECT), episode(INCORRECT, CORRECT))]
    odd = [replace(one, task="softmax") for one in (episode(UNSUPPORTED), episode(INFRA_ERROR), episode(NO_ANSWER))]
    past = history.count_first_answers(history.EMPTY, [easy], decay=0.5)
    np.testing.assert_allclose(history.expected_pass_rates(past, ["softmax"]), (1 + 2) / (2 + 3))
    past = history.count_first_answers(past, [odd], decay=0.5)
    np.testing.assert_allclose(history.expected_pass_rates(past, ["softmax"]), (1 + 1) / (2 + 1.5 + 1))
    np.testing.assert_allclose(history.expected_pass_rates(past, [Repair("softmax", (1,))]), 0.5)
    past = history.count_first_answers(past, [[replace(one, is_repair=True) for one in easy]], decay=0.5)
    found = history.expected_pass_rates(past, ["softmax", Repair("softmax", (1,))])
    np.testing.assert_allclose(found, [(1 + 0.5) / (2 + 1.25), (1 + 2) / (2 + 3)])


def test_only_groups_in_which_nothing_passed_are_kept():
    groups = [
        [episode(INCORRECT, INCORRECT, seed=1), episode(NO_ANSWER, seed=1)],
        [episode(INCORRECT, seed=2), episode(INCORRECT, CORRECT, seed=2)],
        [episode(UNSUPPORTED, seed=3), episode(INFRA_ERROR, seed=3)],
        [episode(INFRA_ERROR, seed=4), episode(NO_ANSWER, seed=4)],
        [replace(episode(INCORRECT, seed=5), is_repair=True)],
    ]
    assert [failure.task for failure in kept(groups)] == ["composed/1", "composed/4"]


def test_a_failure_is_the_closest_answer_as_sampled_and_its_feedback():
    closest, later = episode(NO_ANSWER, INCORRECT, seed=1), episode(INCORRECT, seed=1)
    (failure,) = kept([[episode(NO_ANSWER, seed=1), closest, later]])
    turn = closest.turns[1]
    said = feedback(load_task("composed/1"), turn.verdict, 80)
    assert failure.attempt_ids == (*turn.response_ids, *TOKENIZER.feedback_ids(said))
    short = len(TOKENIZER.feedback_ids(said)) - 2
    (cut,) = kept([[closest]], max_feedback_tokens=short)
    assert len(cut.attempt_ids) == len(turn.response_ids) + short
    assert cut.attempt_ids[-1] == TOKENIZER.answer_id
    whole = len(closest.prompt_ids) + len(failure.attempt_ids)
    assert kept([[closest]], max_prompt_tokens=whole) == (failure,)
    assert kept([[closest]], max_prompt_tokens=whole - 1) == ()


def test_the_buffer_is_first_in_first_out_and_bounded():
    groups = [[episode(INCORRECT, seed=seed)] for seed in range(5)]
    failures = kept(groups, size=3)
    assert [failure.task for failure in failures] == ["composed/2", "composed/3", "composed/4"]
    past = history.EMPTY._replace(failures=failures)
    prompts, left = history.take_failures(past, ["a", "b", "c", "d"], [False, True, False, True])
    assert prompts == ["a", failures[0], "c", failures[1]]
    assert left.failures == failures[2:]
    prompts, left = history.take_failures(left, ["a", "b"], [True, True])
    assert prompts == [failures[2], "b"] and left.failures == ()
    more = kept([[episode(INCORRECT, seed=9)]], size=3, before=past)
    assert [failure.task for failure in more] == ["composed/3", "composed/4", "composed/9"]


@pytest.mark.parametrize("decay", [0.9, 1 / 3])
def test_a_file_changes_nothing(decay):
    groups = [[episode(INCORRECT, seed=seed), episode(NO_ANSWER, seed=seed)] for seed in range(6)]
    groups += [[episode(CORRECT, seed=7)]]
    past = history.EMPTY
    for _ in range(3):
        past = history.keep_failures(history.count_first_answers(past, groups, decay=decay), groups, actor(), size=8)
    assert history.from_json(json.loads(json.dumps(history.to_json(past)))) == past
    assert len(past.failures) == 8 and past.passed and past.judged
