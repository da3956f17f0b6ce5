"""What a run remembers of its rollouts from step to step: pass rates by class of tasks, and failures to retry.

A pure function of what was seen. It is saved in every checkpoint, so that a resumed run remembers the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from ml_collections import ConfigDict

from leap_jax.algorithm.gate import Gate
from leap_jax.kernels import generator
from leap_jax.kernels.catalog import COMPOSED, load_task
from leap_jax.kernels.feedback import feedback
from leap_jax.rollout import Actor, Episode, GateRule, Prompt, Repair, feedback_ids, task_of


class History(NamedTuple):
    """Both counts weigh the answers of earlier steps less and less."""

    passed: dict[str, float]  # first answers that passed, by difficulty class
    judged: dict[str, float]  # first answers that could be judged, by difficulty class
    failures: tuple[Repair, ...]  # the retry buffer, the oldest first


EMPTY = History({}, {}, ())


def to_json(history: History) -> dict[str, Any]:
    """What `from_json` reads back, to the last bit."""
    failures = [[failure.task, list(failure.attempt_ids)] for failure in history.failures]
    return {"passed": history.passed, "judged": history.judged, "failures": failures}


def from_json(saved: Mapping[str, Any]) -> History:
    failures = tuple(Repair(task, tuple(ids)) for task, ids in saved["failures"])
    return History(dict(saved["passed"]), dict(saved["judged"]), failures)


def difficulty_class(task: str, is_repair: bool) -> str:
    """The prompts that are about as hard: `elementwise 3` (operations), of a suite `scan 2`; repairs are apart.

    No training task comes twice, so what is known of a task beforehand is what is known of its class.
    """
    if task.startswith(COMPOSED):
        composition = generator.compose(int(task.removeprefix(COMPOSED)))
        kind = "reduction" if composition.reduces else "normalisation" if composition.row else "elementwise"
        level = composition.level
    else:
        kind, level = load_task(task).family, load_task(task).level
    return f"{'repair of ' if is_repair else ''}{kind} {level}"


def expected_pass_rates(history: History, prompts: Sequence[Prompt]) -> np.ndarray:
    """The posterior mean of the chance that a first answer passes, Beta(1 + passed, 1 + failed). -> [P] float32."""
    classes = [difficulty_class(task_of(prompt), isinstance(prompt, Repair)) for prompt in prompts]
    return np.array(
        [(1.0 + history.passed.get(name, 0.0)) / (2.0 + history.judged.get(name, 0.0)) for name in classes], np.float32
    )


def count_first_answers(history: History, groups: Sequence[Sequence[Episode]], *, decay: float) -> History:
    """Add a step's first answers to those of before, which count `decay` times as much as they did."""
    passed = {name: decay * number for name, number in history.passed.items()}
    judged = {name: decay * number for name, number in history.judged.items()}
    for group in groups:
        name = difficulty_class(group[0].task, group[0].is_repair)
        verdicts = [episode.turns[0].verdict for episode in group]
        passed[name] = passed.get(name, 0.0) + sum(verdict.passed for verdict in verdicts)
        judged[name] = judged.get(name, 0.0) + sum(verdict.outcome.valid for verdict in verdicts)
    return history._replace(passed=passed, judged=judged)


def take_failures(history: History, tasks: Sequence[str], take: Sequence[bool]) -> tuple[list[Prompt], History]:
    """Replace the tasks where `take` says so by failures to repair, the oldest first, as long as there are any."""
    failures = list(history.failures)
    prompts = [failures.pop(0) if wanted and failures else task for task, wanted in zip(tasks, take, strict=True)]
    return prompts, history._replace(failures=tuple(failures))


def keep_failures(history: History, groups: Sequence[Sequence[Episode]], actor: Actor, *, size: int) -> History:
    """Put the prompts whose whole group failed at the end of the buffer; the oldest beyond `size` leave it.

    A repair that failed again is not put back: every prompt gets one more chance.
    """
    failed = [to_repair(actor, group) for group in groups if all_failed(group) and not group[0].is_repair]
    return history._replace(failures=(*history.failures, *filter(None, failed))[-size:])


def all_failed(group: Sequence[Episode]) -> bool:
    """Whether answers could be judged, and none passed at any turn."""
    judged = [episode for episode in group if episode.valid]
    return bool(judged) and all(episode.first_pass is None for episode in judged)


def to_repair(actor: Actor, group: Sequence[Episode]) -> Repair | None:
    """The answer of the group that came closest, the first of equals, and what was wrong with it.

    None where all of it does not fit a prompt.
    """
    turns = [turn for episode in group if episode.valid for turn in episode.turns]
    closest = max(turns, key=lambda turn: turn.verdict.outcome.rank)
    said = feedback(load_task(group[0].task), closest.verdict, actor.feedback_chars)
    attempt = (*closest.response_ids, *feedback_ids(actor.tokenizer, actor.sampler, said))
    fits = len(group[0].prompt_ids) + len(attempt) <= actor.sampler.max_prompt_tokens
    return Repair(group[0].task, attempt) if fits else None


def after(config: ConfigDict, history: History, groups: Sequence[Sequence[Episode]], actor: Actor) -> History:
    """The history after the rollouts of one more step."""
    history = count_first_answers(history, groups, decay=config.gate.history_decay)
    if config.dead_groups.then != "retry_buffer":
        return history
    return keep_failures(history, groups, actor, size=config.dead_groups.buffer_size)


def informed(gate: Callable[..., Gate], history: History) -> GateRule:
    """The gate (outcomes, expected pass rates, key) with the pass rates that the history expects of its prompts."""
    return lambda prompts, outcomes, key: gate(outcomes, expected_pass_rates(history, prompts), key)


def metrics(history: History, prompts: Sequence[Prompt]) -> dict[str, float]:
    """What was expected of a step's prompts, and how many failures wait to be retried."""
    return {
        "train/expected_pass_rate": float(np.mean(expected_pass_rates(history, prompts))),
        "train/retry_buffer": len(history.failures),
    }
