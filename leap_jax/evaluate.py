"""How good a policy is on a set of tasks: rollouts -> records -> arrays -> statistics.

What a training run logs and what `python -m leap_jax.evaluate RUN` prints (evaluate_command.py) come from here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import jax
import numpy as np

from leap_jax import statistics
from leap_jax.algorithm.gate import Gate, Outcomes
from leap_jax.kernels.verdict import Outcome
from leap_jax.rollout import EVALUATE, Actor, Episode, Prompt, collect
from leap_jax.statistics import Difference, Interval, Ratio, interval, paired
from leap_jax.task_sets import kinds

SPEEDUPS = (1.0, 1.1, 1.2, 1.5, 2.0)  # the p of fast_p


class Results(NamedTuple):
    """What came of N tasks, S rollouts of each, at most T turns."""

    tasks: list[str]
    max_turns: int
    passed_at: np.ndarray  # [N, S] int: turn (1..T) of the first pass, T + 1 if none
    valid: np.ndarray  # [N, S] bool: False where a turn could not be judged
    turns: np.ndarray  # [N, S] int: turns taken, and verdicts asked for
    first_outcome: np.ndarray  # [N, S] str: of the first turn
    response_tokens: np.ndarray  # [N, S] int: of all turns
    time_us: np.ndarray  # [N, S] float: of the passing answer; NaN where none passed or it has no time


def evaluate(
    actor: Actor, params: Any, tasks: Sequence[str], *, samples: int, max_turns: int, seed: int, step: int
) -> list[list[Episode]]:
    """Roll out `samples` episodes of each task; every failing one goes on, whatever its group."""
    per_group = max(size for size in range(1, actor.sampler.batch_buckets[-1] + 1) if samples % size == 0)
    parts = samples // per_group  # of one task: a group must fit the largest batch
    groups = collect(
        actor,
        params,
        [task for task in tasks for _ in range(parts)],
        group_size=per_group,
        max_turns=max_turns,
        gate=every_group,
        seed=seed,
        purpose=EVALUATE,
        step=step,
    ).episodes
    return [list(chain.from_iterable(groups[first : first + parts])) for first in range(0, len(groups), parts)]


def every_group(prompts: Sequence[Prompt], outcomes: Outcomes, key: jax.Array) -> Gate:
    """The gate of an evaluation: all groups are open."""
    del outcomes, key
    none = np.zeros(len(prompts), bool)
    return Gate(open=~none, easy=none, catastrophic=none, explored=none)


def to_results(records: Sequence[Mapping[str, Any]], max_turns: int) -> Results:
    """The arrays of an evaluation's records (run_folder.evaluation_records): one a turn, in order."""
    shape = (1 + max(r["prompt"] for r in records), 1 + max(r["rollout"] for r in records))
    tasks = [""] * shape[0]
    passed_at, valid = np.full(shape, max_turns + 1), np.ones(shape, bool)
    turns, response_tokens = np.zeros(shape, int), np.zeros(shape, int)
    first_outcome, time_us = np.full(shape, "", "U16"), np.full(shape, np.nan)
    for record in records:
        at, outcome = (record["prompt"], record["rollout"]), Outcome(record["outcome"])
        tasks[record["prompt"]] = record["task"]
        turns[at] = record["turn"]
        response_tokens[at] += record["response_tokens"]
        valid[at] &= outcome.valid
        if record["turn"] == 1:
            first_outcome[at] = outcome
        if outcome is Outcome.CORRECT:
            passed_at[at] = record["turn"]
            time_us[at] = np.nan if record["time_us"] is None else record["time_us"]
    if not turns.all():
        raise ValueError("a rollout has no turn")
    return Results(tasks, max_turns, passed_at, valid, turns, first_outcome, response_tokens, time_us)


def ratios(results: Results) -> dict[str, Ratio]:
    """Every statistic of an evaluation but speed, by name. See `statistics` for what each is.

    acc@t; pass@k of first answers and best_of@k of whole rollouts, k = 1, 2, 4, ...; recovery, also by the outcome
    of the first turn (recovery/incorrect) and at one turn (recovery@2); what a pass costs; shares of first outcomes.
    """
    passed_at, valid, last = results.passed_at, results.valid, results.max_turns
    found = {f"acc@{turn}": statistics.accuracy(passed_at, valid, turn) for turn in range(1, last + 1)}
    powers = [2**i for i in range(valid.shape[1].bit_length())]
    found |= {f"pass@{k}": statistics.pass_at_k(passed_at, valid, k) for k in powers}
    present = [outcome for outcome in Outcome if (results.first_outcome == outcome).any()]
    if last > 1:
        found |= {f"best_of@{k}": statistics.pass_at_k(passed_at, valid, k, turn=last) for k in powers}
        found["recovery"] = statistics.recovery(passed_at, valid, last)
        for turn in range(2, last + 1):
            found[f"recovery@{turn}"] = statistics.turn_recovery(passed_at, valid, turn)
        for outcome in present:
            if outcome.valid and outcome is not Outcome.CORRECT:
                among = results.first_outcome == outcome
                found[f"recovery/{outcome}"] = statistics.recovery(passed_at, valid, last, among)
        found["rescued_tasks"] = statistics.rescued_tasks(passed_at, valid, last)
    found["turns_per_pass"] = statistics.per_pass(results.turns * valid, passed_at, valid, last)
    found["verifications_per_pass"] = statistics.per_pass(results.turns, passed_at, valid, last)
    found["response_tokens_per_pass"] = statistics.per_pass(results.response_tokens, passed_at, valid, last)
    found["response_tokens"] = Ratio(
        np.sum(results.response_tokens * valid, axis=1), np.sum(results.turns * valid, axis=1)
    )  # of a turn
    everything = np.ones_like(valid)
    found |= {f"outcome/{o}": statistics.share(results.first_outcome == o, everything) for o in present}
    return found


def scores(results: Results) -> Iterator[tuple[str, float]]:
    """Yield (name, value) of all `ratios` that have a value, and the ends of the intervals of Acc@1 and Acc@T."""
    found = ratios(results)
    for name, ratio in found.items():
        if math.isfinite(ratio.value):
            yield name, ratio.value
    for name in dict.fromkeys(("acc@1", f"acc@{results.max_turns}")):
        ends = interval(found[name])
        if math.isfinite(ends.low):
            yield f"{name}_low", ends.low
            yield f"{name}_high", ends.high


def speeds(results: Results, baseline_us: np.ndarray) -> dict[str, Interval]:
    """fast_p and geometric mean speedups against baseline_us [N], failures counted; {} where there are no times.

    The times of answers and of baselines must be of one kind, both measured or both estimates.
    """
    correct = results.passed_at <= results.max_turns
    speedup = statistics.speedups(correct, results.time_us, baseline_us)
    if not np.isfinite(speedup[correct & results.valid]).any():
        return {}
    found = {f"fast_{p:g}": interval(statistics.fast_p(speedup, results.valid, p)) for p in SPEEDUPS}
    for name, failed in (("speedup", 1.0), ("speedup_of_correct", None)):
        logs = interval(statistics.log_speedup(speedup, results.valid, failed))
        found[name] = Interval(*np.exp(logs).tolist())
    return found


def differences(ours: Results, theirs: Results) -> dict[str, Difference]:
    """Ours minus theirs on the same tasks, by name: Acc@t, and the largest pass@k and best_of@k.

    Raises ValueError where the tasks are not the same.
    """
    if ours.tasks != theirs.tasks:
        raise ValueError("the runs were scored on different tasks")
    of_ours, of_theirs = ratios(ours), ratios(theirs)
    compared = [name for name in of_ours if name.startswith("acc@")]
    for prefix in ("pass@", "best_of@"):
        compared += [name for name in of_ours if name.startswith(prefix)][-1:]
    return {name: paired(of_ours[name], of_theirs[name]) for name in compared if name in of_theirs}


def by_kind(tasks: Sequence[str]) -> dict[str, np.ndarray]:
    """The tasks of each kind as a mask [N], by name: "operations 2", "family reduction"."""
    kind_of = [{f"{what} {value}" for what, value in kinds(task).items()} for task in tasks]
    return {kind: np.array([kind in own for own in kind_of]) for kind in sorted(set().union(*kind_of))}


if __name__ == "__main__":
    from leap_jax import evaluate_command

    sys.exit(evaluate_command.main())
