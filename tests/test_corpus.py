"""The cold start's corpus, verified by the real harness on a handful of compositions."""

from __future__ import annotations

import pytest
from episodes import CORRECT, INCORRECT, INFRA_ERROR, FakePool

from leap_jax import corpus
from leap_jax.kernels import generator
from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.feedback import feedback
from leap_jax.kernels.pool import VerificationPool
from leap_jax.kernels.styles import answers
from leap_jax.kernels.verification import Settings

SETTINGS = Settings(
    device="emulator",
    compile_seconds=20.0,
    run_seconds=20.0,
    instructions_per_thread=100_000,
    threads_per_check=65_536,
    checks=2,
    seed=0,
)
SIZES = {"compositions": 6, "repairs": 3, "feedback_chars": 400, "seed": 0}
SEEDS = generator.seeds("train", 6)
NAMES = [f"composed/{seed}" for seed in SEEDS]


@pytest.fixture(scope="module")
def pool():
    with VerificationPool(2, SETTINGS, 120.0) as workers:
        yield workers


@pytest.fixture(scope="module")
def conversations(pool):
    return list(corpus.verified_conversations(pool, **SIZES))


def correct_answers() -> set[str]:
    return {answer for seed in SEEDS for answer in answers(generator.compose(seed)).values()}


def test_every_composition_has_an_answer_and_the_first_ones_a_repair(conversations):
    asked = [load_task(name).prompt() for name in NAMES]
    assert [c[0].text for c in conversations if len(c) == 2] == asked
    assert [c[0].text for c in conversations if len(c) == 4] == asked[:3]
    assert len(conversations) == 9


def test_only_answers_that_pass_are_imitated(conversations, pool):
    by_prompt = {load_task(name).prompt(): name for name in NAMES}
    for conversation in conversations:
        task = by_prompt[conversation[0].text]
        verdicts = [(turn, pool.submit(task, turn.text).result()) for turn in conversation if turn.role == "answer"]
        for turn, verdict in verdicts:
            assert turn.train == verdict.passed, (task, verdict.outcome)
        assert not any(turn.train for turn in conversation if turn.role != "answer")
        if len(conversation) == 4:
            assert [turn.role for turn in conversation] == ["task", "answer", "feedback", "answer"]
            assert conversation[2].text == feedback(load_task(task), verdicts[0][1], 400)
            assert conversation[3] == next(c for c in conversations if c[0] == conversation[0])[1]


def test_the_corpus_is_a_function_of_its_arguments(conversations, pool):
    assert list(corpus.verified_conversations(pool, **SIZES)) == conversations
    other = list(corpus.verified_conversations(pool, **SIZES | {"seed": 1}))
    assert [c[0] for c in other if len(c) == 2] == [c[0] for c in conversations if len(c) == 2]
    assert other != conversations


def test_the_corpus_is_of_train_compositions_only():
    assert all(generator.split(seed) == "train" for seed in SEEDS)


@pytest.mark.parametrize(("outcome", "kept"), [(INCORRECT, 0), (INFRA_ERROR, 0), (CORRECT, 6)])
def test_what_is_not_verified_is_dropped(outcome, kept):
    """A correct answer that does not pass goes with its repair; a broken one that passes is not called broken."""
    found = list(corpus.verified_conversations(FakePool(lambda task, text: outcome), **SIZES))
    assert len(found) == kept
    assert all(len(conversation) == 2 for conversation in found)


def test_a_broken_answer_that_could_not_be_judged_is_dropped():
    good = correct_answers()
    judge = FakePool(lambda task, text: CORRECT if text in good else INFRA_ERROR)
    assert [len(c) for c in corpus.verified_conversations(judge, **SIZES)] == [2] * 6


def test_answers_are_asked_for_ahead_of_what_is_read():
    judge = FakePool(lambda task, text: CORRECT)
    next(corpus.verified_conversations(judge, compositions=100, repairs=0, feedback_chars=400, seed=0))
    assert len(judge.submitted) == corpus.AHEAD


def test_a_saved_corpus_is_read_back_equal(conversations, tmp_path):
    corpus.save(tmp_path / "conversations.jsonl", conversations)
    assert corpus.load(tmp_path / "conversations.jsonl") == conversations
