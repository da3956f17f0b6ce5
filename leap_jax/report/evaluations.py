"""An evaluation on held-out tasks as arrays, read from its turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leap_jax.reading import ReadError
from leap_jax.report.rollouts import Group, Sample, groups, judged, passed_at
from leap_jax.statistics import Ratio

NEVER = 1 << 20  # later than any turn


@dataclass(frozen=True)
class Evaluation:
    """N tasks by S rollouts, as in leap_jax/statistics.py; a task with fewer has invalid ones at its end."""

    step: int
    max_turns: int  # the longest chain
    tasks: list[str]  # [N]
    passed_at: np.ndarray  # [N, S] int
    valid: np.ndarray  # [N, S] bool
    first_outcome: np.ndarray  # [N, S] str
    tokens: np.ndarray  # [N, S] int, of all responses of a rollout
    sample: Sample


def read_evaluation(path: Path, *, keep_groups: int) -> Evaluation:
    """Read eval/step_N.jsonl. Raises ReadError where it is damaged or empty."""
    sample, step, longest, rows = Sample(keep_groups), 0, 1, {}
    for group in groups(path):
        sample.offer(group)
        step = group[0][0]["step"]
        longest = max(longest, *map(len, group))
        rows[group[0][0]["task"]] = group_row(group)
    if not rows:
        raise ReadError(f"{path}: holds no rollout")
    samples = max(map(len, rows.values()))

    def table(column: int, filler: Any) -> np.ndarray:
        return np.array([[r[column] for r in row] + [filler] * (samples - len(row)) for row in rows.values()])

    return Evaluation(
        step=step,
        max_turns=longest,
        tasks=list(rows),
        passed_at=np.minimum(table(0, NEVER), longest + 1),
        valid=table(1, False),
        first_outcome=table(2, ""),
        tokens=table(3, 0),
        sample=sample,
    )


def group_row(group: Group) -> list[tuple[int, bool, str, int]]:
    """What is kept of each rollout: the turn that passed, whether it was judged, its first outcome, its tokens."""
    return [
        (passed_at(turns, NEVER), judged(turns), turns[0]["outcome"], sum(turn["response_tokens"] for turn in turns))
        for turns in group
    ]


def pooled(ratios: Sequence[Ratio]) -> Ratio:
    """One statistic of several runs on the same tasks, as of one run: the rollouts of a task together."""
    return Ratio(sum(r.numerator for r in ratios), sum(r.denominator for r in ratios))


def common_tasks(evaluations: Sequence[Evaluation]) -> list[np.ndarray]:
    """For each evaluation the indices of the tasks that all of them have, in one order."""
    places = [{task: index for index, task in enumerate(e.tasks)} for e in evaluations]
    shared = [task for task in places[0] if all(task in place for place in places)]
    return [np.array([place[task] for task in shared], int) for place in places]
