"""Systematic mistakes: they differ from every right answer and come in all kinds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from leap_jax.kernels import mutations
from leap_jax.kernels.answer import AnswerError, parse_answer
from leap_jax.kernels.composition import evaluate
from leap_jax.kernels.generator import compose, composed_task, sample, visibly_different
from leap_jax.kernels.mutations import MISREADINGS, SLIPS, broken
from leap_jax.kernels.styles import answers
from leap_jax.kernels.verdict import Outcome
from leap_jax.kernels.verification import Settings, verify

DRAWS = [(seed, *broken(compose(seed % 400), np.random.default_rng(seed))) for seed in range(800)]


def test_a_broken_response_is_no_correct_one() -> None:
    for seed, _, response in DRAWS:
        assert response not in answers(compose(seed % 400)).values()
        assert response.startswith("```cuda\n") and response.endswith("```")


def test_every_kind_of_mistake_occurs() -> None:
    kinds = Counter(kind for _, kind, _ in DRAWS)
    row_max = [c for c in map(compose, range(1500)) if c.row and c.row.name == "row_max"]  # some mistakes need one
    kinds += Counter(broken(c, np.random.default_rng(i))[0] for c in row_max for i in range(20))
    assert kinds.keys() == {mistake.__name__ for mistake in MISREADINGS + SLIPS}


def test_broken_is_a_function_of_composition_and_rng() -> None:
    for seed in range(50):
        first, again = (broken(compose(seed), np.random.default_rng(seed)) for _ in range(2))
        assert first == again


def test_misreadings_change_the_numbers() -> None:
    """What a misread answer computes, told by the composition it is right for, is visibly different."""
    for seed, kind, response in DRAWS:
        composition = compose(seed % 400)
        mistake = getattr(mutations, kind)
        if mistake not in MISREADINGS:
            continue
        rng = np.random.default_rng(seed)
        candidates = [mistake(composition, rng) for _ in range(8)]
        inputs = sample(composition)
        with np.errstate(all="ignore"):
            want = evaluate(composition, np, **inputs)
            for other in filter(None, candidates):
                if response in answers(other).values():
                    assert visibly_different(want, evaluate(other, np, **inputs))


def test_only_a_missing_launch_line_is_no_answer() -> None:
    for seed, kind, response in DRAWS:
        task = composed_task(compose(seed % 400))
        if kind == "missing_launch_line":
            with pytest.raises(AnswerError):
                parse_answer(response, task)
        else:
            parse_answer(response, task)


@pytest.mark.parametrize(
    ("mistake", "style", "gone", "come"),
    [
        ("missing_guard", "guarded", "if (i < n) {", "    {"),
        ("missing_guard", "helper", "if (i >= n) return;", ""),
        ("missing_guard", "two_per_thread", "min(start + 2, n)", "i < start + 2;"),
        ("guard_off_by_one", "guarded", "i < n", "i <= n"),
        ("guard_off_by_one", "helper", "i >= n", "i > n"),
        ("undeclared_variable", "guarded", "out[i] = v", "out[i] = result"),
        ("missing_launch_line", "guarded", "// launch", ""),
    ],
)
def test_slips_change_one_place(mistake: str, style: str, gone: str, come: str) -> None:
    composition = next(c for c in map(compose, range(100)) if not c.matrix)
    text = answers(composition)[style]
    draws = (getattr(mutations, mistake)(text, composition, np.random.default_rng(i)) for i in range(20))
    spoiled = next(filter(None, draws))
    assert gone in text and gone not in spoiled and come in spoiled


def test_slips_that_need_a_row_leave_elementwise_answers_alone() -> None:
    composition = next(c for c in map(compose, range(100)) if not c.matrix)
    rng = np.random.default_rng(0)
    for mistake in (mutations.missing_barrier, mutations.missing_shuffle, mutations.wrong_initial_value):
        for text in answers(composition).values():
            assert mistake(text, composition, rng) is None


def test_the_harness_rejects_mistakes_and_accepts_every_style() -> None:
    settings = Settings(
        device="emulator",
        compile_seconds=20.0,
        run_seconds=20.0,
        instructions_per_thread=100_000,
        threads_per_check=2**20,
        checks=4,
        seed=0,
    )
    rng = np.random.default_rng(0)
    kinds = (
        lambda c: c.second == "column" and not c.row,
        lambda c: c.dtype == "i32" and c.row,
        lambda c: c.row and len(c.row.stages) == 2 and c.before and c.after,
    )
    for fits in kinds:
        composition = next(c for c in map(compose, range(1000)) if fits(c))
        task = composed_task(composition)
        for name, response in answers(composition).items():
            assert verify(task, response, settings).outcome is Outcome.CORRECT, (task.text, name)
        for _ in range(3):
            kind, response = broken(composition, rng)
            assert verify(task, response, settings).outcome.rank in range(Outcome.CORRECT.rank), (task.text, kind)
