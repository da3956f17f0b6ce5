"""What the cold start imitates: answers to composed tasks that the harness verified, and repairs of broken ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
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
from leap_jax.kernels.verdict import Verdict
from leap_jax.policy.packing import Conversation, Turn

AHEAD = 64  # answers in the pool at once


def verified_conversations(
    pool: VerificationPool, *, compositions: int, repairs: int, feedback_chars: int, seed: int
) -> Iterator[Conversation]:
    """Yield `compositions` times (task, answer), then `repairs` times (task, broken answer, feedback, answer).

    Every answer was verified: a correct one that fails is dropped with a warning, and so is a broken one that
    passes. Only correct answers are marked to be imitated. A function of the arguments.
    """
    seeds = generator.seeds("train", max(compositions, repairs))
    plans = [(s, False) for s in seeds[:compositions]] + [(s, True) for s in seeds[:repairs]]
    pending: list[tuple[int, str, str, Future[Verdict], Future[Verdict] | None]] = []
    for number, (task_seed, repair) in enumerate(plans):
        rng = np.random.default_rng((seed, number))
        name, composition = f"composed/{task_seed}", generator.compose(task_seed)
        correct = sorted(answers(composition).values())
        wrong = broken(composition, rng)[1] if repair else ""
        answer = _closest(correct, wrong) if repair else correct[rng.integers(len(correct))]
        pending.append(
            (
                task_seed,
                answer,
                wrong,
                pool.submit(name, answer),
                pool.submit(name, wrong) if repair else None,
            )
        )
        if len(pending) >= AHEAD:
            yield from _conversation(*pending.pop(0), feedback_chars)
    for plan in pending:
        yield from _conversation(*plan, feedback_chars)


def _conversation(
    task_seed: int,
    answer: str,
    wrong: str,
    answer_verdict: Future[Verdict],
    wrong_verdict: Future[Verdict] | None,
    feedback_chars: int,
) -> Iterator[Conversation]:
    """The conversation, if the verdicts are what they should be."""
    task = load_task(f"composed/{task_seed}")
    if not answer_verdict.result().passed:
        logging.warning("%s: a reference answer is %s, dropped", task.name, answer_verdict.result().outcome)
        return
    asked, solved = Turn("task", task.prompt()), Turn("answer", answer, train=True)
    if wrong_verdict is None:
        yield (asked, solved)
        return
    verdict = wrong_verdict.result()
    if verdict.passed or not verdict.outcome.valid:
        logging.warning("%s: a broken answer is %s, dropped", task.name, verdict.outcome)
        return
    yield (asked, Turn("answer", wrong), Turn("feedback", feedback(task, verdict, feedback_chars)), solved)


def _closest(answers: list[str], wrong: str) -> str:
    """The answer that shares most lines with the broken one: what a repair of it looks like."""
    lines = set(wrong.splitlines())
    return max(
        answers,
        key=lambda answer: len(lines & set(answer.splitlines())) - len(lines ^ set(answer.splitlines())),
    )


def save(path: Path, conversations: list[Conversation]) -> None:
    """One JSON line a conversation."""
    path.write_text("".join(json.dumps(conversation) + "\n" for conversation in conversations))


def load(path: Path) -> list[Conversation]:
    return [tuple(Turn(*turn) for turn in json.loads(line)) for line in path.read_text().splitlines()]


def with_progress(
    conversations: Iterator[Conversation], total: int, report: Callable[[int, int], None]
) -> list[Conversation]:
    """Collect the conversations, reporting (done, total) after each."""
    collected = []
    for conversation in conversations:
        collected.append(conversation)
        report(len(collected), total)
    return collected
