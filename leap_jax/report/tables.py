"""The tables of the page: results with intervals, paired differences, the gate's confusion, what the runs are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leap_jax import statistics
from leap_jax.algorithm import gate
from leap_jax.kernels.verdict import Outcome
from leap_jax.report.evaluations import Evaluation, common_tasks, pooled
from leap_jax.report.rollouts import GroupCounts, merged
from leap_jax.report.runs import Method, Run, differing_keys
from leap_jax.statistics import Curve, Difference, Interval, Ratio

PAIRED_METHODS = 8  # more than so many are compared with the first only
FIRST_TURN = "eval/heldout/acc@1"

Statistic = Callable[[Evaluation], Ratio]


@dataclass(frozen=True)
class Table:
    """Cells of text, the first of a row its name."""

    title: str
    note: str
    columns: list[str]
    rows: list[list[str]]


def tables(methods: Sequence[Method]) -> list[Table]:
    """Those that the runs have data for."""
    found = (results(methods), differences(methods), error_classes(methods), confusion(methods), configs(methods))
    return [table for table in found if table.rows]


def results(methods: Sequence[Method]) -> Table:
    """What each method reached, and what it spent on it."""
    evaluated = [method for method in methods if evaluations(method)]
    turns = longest(evaluated)
    goal = min((final_accuracy(method) for method in evaluated), default=math.nan)
    budget = min((c.x[-1] for m in evaluated for c in accuracy_curves(m)), default=math.nan)
    rows = []
    for method in evaluated:
        reached = [statistics.time_to_threshold(curve, goal) for curve in accuracy_curves(method)]
        areas = [statistics.normalised_area(curve, budget) for curve in accuracy_curves(method)]
        last = [run.records[-1] for run in method.runs if run.records]
        rows.append(
            [
                method.name,
                f"{len(method.runs)}",
                estimate(method, acc_at(1)),
                *([estimate(method, acc_at(turns)), estimate(method, recovery)] if turns > 1 else []),
                share(np.mean([run.records[0].get(FIRST_TURN, math.nan) for run in method.runs if run.records])),
                *(amount(mean(record.get(key) for record in last)) for key in ("step", "total/verifications")),
                amount(mean(record.get("total/response_tokens") for record in last)),
                amount(mean(minutes(run) for run in method.runs)),
                *([amount(np.mean(reached)), share(np.mean(areas))] if len(evaluated) > 1 else []),
            ]
        )
    columns = ["method", "runs", "Acc@1", *([f"Acc@{turns}", "recovery"] if turns > 1 else []), "Acc@1 at step 0"]
    columns += ["steps", "verifications", "tokens", "minutes"]
    if len(evaluated) > 1:
        columns += [f"verifications to {goal:.1%}", "mean Acc@1 on the way"]
    note = (
        "Held-out tasks at the last evaluation of each run, with 95 % bootstrap intervals over tasks. The seeds of "
        "a method are pooled: how much seeds differ is not in the interval, but in the bands of the plots. What was "
        "spent is the mean of the seeds; minutes are of training steps. "
    )
    if len(evaluated) > 1:
        note += (
            "The verifications to an accuracy are to the one that all methods reach; the mean on the way is the area "
            f"under Acc@1 against verifications up to {budget:,.0f}, where the shortest run ends."
        )
    return Table("Results", note, columns, rows)


def differences(methods: Sequence[Method]) -> Table:
    """Each pair of methods on the tasks that both were judged on."""
    evaluated = [method for method in methods if evaluations(method)]
    turns = longest(evaluated)
    pairs = list(itertools.combinations(evaluated, 2))
    if len(evaluated) > PAIRED_METHODS:
        pairs = [(evaluated[0], other) for other in evaluated[1:]]
    rows = []
    for ours, theirs in pairs:
        tasks = common_tasks(evaluations(ours) + evaluations(theirs))
        if not len(tasks[0]):
            continue
        row = [f"{ours.name} − {theirs.name}", f"{len(tasks[0])}"]
        for turn in dict.fromkeys((1, turns)):
            found = paired(ours, theirs, acc_at(turn), tasks)
            row += [signed(found), f"{found.p_value:.3f}"]
        rows.append(row)
    columns = ["pair", "tasks"]
    for turn in dict.fromkeys((1, turns)):
        columns += [f"Acc@{turn}, points", "p"]
    note = (
        "The mean difference on the same held-out tasks, with its 95 % bootstrap interval over tasks and the p-value "
        "of a paired permutation test. Seeds are pooled; no correction for the number of pairs."
    )
    return Table("Paired differences", note, columns, rows)


def error_classes(methods: Sequence[Method]) -> Table:
    """Recovery on held-out tasks by what went wrong in the first turn."""
    classes = [o for o in Outcome if o.valid and o is not Outcome.CORRECT]

    def of(outcome: Outcome) -> Statistic:
        return lambda e: statistics.recovery(e.passed_at, e.valid, e.max_turns, e.first_outcome == outcome)

    evaluated = [m for m in methods if evaluations(m) and longest([m]) > 1]
    counted = [o for o in classes if any(whole(m, of(o)).denominator.sum() for m in evaluated)]
    rows = [[m.name, *(with_count(whole(m, of(o))) for o in counted)] for m in evaluated] if counted else []
    note = (
        "Of the held-out rollouts that failed turn 1 in this way, the share that passed later, and how many there were."
    )
    return Table("Recovery by error", note, ["method", *map(str, counted)], rows)


def confusion(methods: Sequence[Method]) -> Table:
    """Which groups were opened, against which would have recovered."""
    rows = []
    for method in methods:
        counts = merged([run.tally for run in method.runs])
        if not any(c.opened for c in counts.values()):
            continue
        if method.config["gate.mode"] == "always":
            for window, name in windows(methods):
                opens = {d: bool(gate.window(d.failing, d.valid, **window)) for d in counts if d.failing}
                rows.append([f"{method.name}, if gated by {name}", *confusion_cells(counts, opens)])
        else:
            total = sum((c for d, c in counts.items() if d.failing), GroupCounts())
            untried = f"{total.groups - total.opened:,} not tried"
            rows.append([method.name, f"{total.rescued:,}", f"{total.opened - total.rescued:,}", untried, "–", "–"])
    columns = ["method", "opened, recovered", "opened, not", "closed, would have", "closed, would not", "turns saved"]
    note = (
        "Groups of training with a failing rollout. A group recovers if a rollout that failed turn 1 passes later. "
        "What a closed group would have done is known only from unpruned runs: each window is applied to them "
        "afterwards, and the turns saved are the share of their debugging turns that it would not have taken."
    )
    return Table("Gate confusion", note, columns, rows)


def windows(methods: Sequence[Method]) -> list[tuple[dict[str, int], str]]:
    """The gate windows that occur among the methods, with a name each; the default one if none."""
    found: dict[tuple[int, int, int], str] = {}
    for method in methods:
        config = method.config
        size = config["group_size"]
        low, high = gate.default_thresholds(size)
        low, high = (
            (low if config.get("gate.t_min") is None else config["gate.t_min"]),
            (high if config.get("gate.t_max") is None else config["gate.t_max"]),
        )
        found.setdefault((low, high, size), f"{low} ≤ N_fail ≤ {high}")
    return [({"t_min": low, "t_max": high, "group_size": size}, name) for (low, high, size), name in found.items()]


def confusion_cells(counts: dict[Any, GroupCounts], opens: dict[Any, bool]) -> list[str]:
    def total(name: str, is_open: bool) -> int:
        return sum(getattr(counts[d], name) for d in opens if opens[d] is is_open)

    cells = []
    for is_open in (True, False):
        rescued = total("rescued", is_open)
        cells += [f"{rescued:,}", f"{total('groups', is_open) - rescued:,}"]
    turns = total("extra_turns", True) + total("extra_turns", False)
    return [*cells, share(total("extra_turns", False) / turns if turns else math.nan)]


def configs(methods: Sequence[Method]) -> Table:
    """The keys in which the methods differ."""
    keys = differing_keys([method.config for method in methods])
    rows = [[key, *(f"{method.config.get(key)}" for method in methods)] for key in keys]
    note = "Config keys in which the methods differ; seeds aside, the runs of a method agree in all."
    return Table("Configs", note, ["key", *(method.name for method in methods)], rows)


# Statistics of a method: its runs pooled.


def evaluations(method: Method) -> list[Evaluation]:
    return [run.evaluation for run in method.runs if run.evaluation]


def longest(methods: Sequence[Method]) -> int:
    """The turns that every evaluation allowed."""
    return min((e.max_turns for method in methods for e in evaluations(method)), default=1)


def acc_at(turn: int) -> Statistic:
    return lambda e: statistics.accuracy(e.passed_at, e.valid, turn)


def recovery(e: Evaluation) -> Ratio:
    return statistics.recovery(e.passed_at, e.valid, e.max_turns)


def whole(method: Method, statistic: Statistic) -> Ratio:
    """Over the tasks that all seeds have."""
    some = evaluations(method)
    return pooled([statistic(e).of(tasks) for e, tasks in zip(some, common_tasks(some), strict=True)])


def paired(ours: Method, theirs: Method, statistic: Statistic, tasks: list[np.ndarray]) -> Difference:
    ratios = [statistic(e).of(t) for e, t in zip(evaluations(ours) + evaluations(theirs), tasks, strict=True)]
    cut = len(evaluations(ours))
    return statistics.paired(pooled(ratios[:cut]), pooled(ratios[cut:]))


def accuracy_curves(method: Method) -> list[Curve]:
    curves = (statistics.curve(run.records, FIRST_TURN, "verifications") for run in method.runs)
    return [curve for curve in curves if len(curve.x)]


def final_accuracy(method: Method) -> float:
    """Mean of the seeds, at their last evaluations."""
    return mean(curve.y[-1] for curve in accuracy_curves(method))


def minutes(run: Run) -> float:
    return sum(record.get("seconds/step", 0.0) for record in run.records) / 60


def mean(values) -> float:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else math.nan


# Cells.


def estimate(method: Method, statistic: Statistic) -> str:
    found: Interval = statistics.interval(whole(method, statistic))
    return f"{share(found.value)} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def signed(found: Difference) -> str:
    return f"{100 * found.value:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def with_count(ratio: Ratio) -> str:
    count = int(ratio.denominator.sum())
    return f"{share(ratio.value)} of {count:,}" if count else "–"


def share(value: float) -> str:
    return f"{100 * value:.1f} %" if math.isfinite(value) else "–"


def amount(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) and (value >= 100 or value == round(value)) else f"{value:.1f}"
