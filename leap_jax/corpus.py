"""What the cold start imitates: answers to composed tasks that the harness verified, and repairs of broken ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import numpy as np
from absl import logging

from leap_jax.kernels import generator
from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.feedback import feedback
from leap_jax.kernels.mutations import broken
from leap_jax.kernels.pool import VerificationPool
from leap_jax.kernels.styles import answers
from leap_jax.kernels.task import Task
from leap_jax.kernels.verdict import Verdict
from leap_jax.policy.packing import Conversation, Turn

AHEAD = 64  # answers in the pool at once


def verified_conversations(
    pool: VerificationPool, *, compositions: int, repairs: int, feedback_chars: int, seed: int
) -> Iterator[Conversation]:
    """Yield (task, answer) of `compositions` train compositions, and for the first `repairs` of them
    (task, broken answer, feedback, answer) as well.

    Every answer was verified: a correct one that fails is dropped with a warning, and so is a broken one that
    passes. Only correct answers are marked to be imitated. A function of the arguments.
    """
    pending: list[tuple[Task, str, Future[Verdict], str, Future[Verdict] | None]] = []
    for number, task_seed in enumerate(generator.seeds("train", compositions)):
        rng = np.random.default_rng((seed, number))
        task, composition = load_task(f"composed/{task_seed}"), generator.compose(task_seed)
        correct = sorted(answers(composition).values())
        if number < repairs:
            _, wrong = broken(composition, rng)
            answer, wrong_verdict = _closest(correct, wrong), pool.submit(task.name, wrong)
        else:
            wrong, answer, wrong_verdict = "", correct[rng.integers(len(correct))], None
        pending.append((task, answer, pool.submit(task.name, answer), wrong, wrong_verdict))
        if len(pending) >= AHEAD:
            yield from _conversations(*pending.pop(0), feedback_chars)
    for plan in pending:
        yield from _conversations(*plan, feedback_chars)


def _conversations(
    task: Task,
    answer: str,
    answer_verdict: Future[Verdict],
    wrong: str,
    wrong_verdict: Future[Verdict] | None,
    feedback_chars: int,
) -> Iterator[Conversation]:
    """The conversations of one task, if the verdicts are what they should be."""
    if not answer_verdict.result().passed:
        logging.warning("%s: a reference answer is %s, dropped", task.name, answer_verdict.result().outcome)
        return
    asked, solved = Turn("task", task.prompt()), Turn("answer", answer, train=True)
    yield (asked, solved)
    if wrong_verdict is not None:
        verdict = wrong_verdict.result()
        if verdict.passed or not verdict.outcome.valid:
            logging.warning("%s: a broken answer is %s, dropped", task.name, verdict.outcome)
            return
        said = Turn("feedback", feedback(task, verdict, feedback_chars))
        yield (asked, Turn("answer", wrong), said, solved)


def _closest(answers: list[str], wrong: str) -> str:
    """The answer that differs in the fewest lines from the broken one: what a repair of it looks like."""
    lines = set(wrong.splitlines())
    return min(answers, key=lambda answer: len(lines ^ set(answer.splitlines())))


def save(path: Path, conversations: list[Conversation]) -> None:
    """One JSON line a conversation."""
    path.write_text("".join(json.dumps(conversation) + "\n" for conversation in conversations))


def load(path: Path) -> list[Conversation]:
    return [tuple(Turn(*turn) for turn in json.loads(line)) for line in path.read_text().splitlines()]
