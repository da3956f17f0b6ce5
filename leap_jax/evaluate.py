"""How good the policy is on tasks it never trained on: Acc@t, pass@k, recovery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import comb
from typing import Any

import jax
import numpy as np

from leap_jax.algorithm.gate import Gate
from leap_jax.rollout import EVALUATE, Actor, Episode, collect


def evaluate(
    actor: Actor, params: Any, tasks: Sequence[str], *, samples: int, max_turns: int, seed: int, step: int
) -> list[list[Episode]]:
    """Roll out `samples` episodes of each task; every failing one goes on, whatever its group."""
    return collect(
        actor,
        params,
        tasks,
        group_size=samples,
        max_turns=max_turns,
        gate=every_group,
        seed=seed,
        purpose=EVALUATE,
        step=step,
    ).episodes


def every_group(passed: np.ndarray, valid: np.ndarray, key: jax.Array) -> Gate:
    """The gate of an evaluation: all groups are open."""
    del valid, key
    none = np.zeros(len(passed), bool)
    return Gate(open=~none, easy=none, catastrophic=none)


def scores(groups: Sequence[Sequence[Episode]], max_turns: int) -> Iterator[tuple[str, float]]:
    """Yield (name, value) over the valid episodes of groups [P][G].

    acc@t: share of episodes that pass by turn t. pass@k: chance that one of k first-turn answers of a task passes,
    unbiased, k up to the group's size. recovery: share of the episodes that failed turn 1 and pass later.
    """
    episodes = [e for group in groups for e in group if e.valid]
    total = len(episodes)
    passed_at = Counter(e.first_pass for e in episodes)
    for turn in range(1, max_turns + 1):
        yield f"acc@{turn}", sum(passed_at[t] for t in range(1, turn + 1)) / max(1, total)
    first = [[e.first_pass == 1 for e in group if e.valid] for group in groups]
    for k in sorted({1, min(map(len, first), default=1)} - {0, 1}):
        yield f"pass@{k}", float(np.mean([pass_at_k(len(group), sum(group), k) for group in first]))
    failed = total - passed_at[1]
    yield "recovery", (total - passed_at[1] - passed_at[None]) / max(1, failed)
    yield "turns_per_pass", sum(len(e.turns) for e in episodes) / max(1, total - passed_at[None])
    yield "response_tokens", float(np.mean([len(t.response_ids) for e in episodes for t in e.turns] or [0]))
    for outcome, count in sorted(Counter(e.turns[0].verdict.outcome for group in groups for e in group).items()):
        yield f"outcome/{outcome}", count / sum(map(len, groups))


def pass_at_k(samples: int, passed: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k): the unbiased estimate of the chance that one of k samples passes."""
    return 1.0 - comb(samples - passed, k) / comb(samples, k)
