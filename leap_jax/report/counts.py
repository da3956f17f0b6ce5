"""Plots of what is counted over all rollouts and steps: cost, difficulty, recovery, credit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from leap_jax.report.figures import (
    FAIL_COLOUR,
    METHOD_COLOURS,
    Plot,
    method_colour,
    numbers,
    tier_colour,
    tier_name,
    y_axis,
)
from leap_jax.report.rollouts import Difficulty, GroupCounts, merged
from leap_jax.report.runs import Method

PHASES = {"generate": "#3d85c6", "verify": "#e0812f", "update": "#3f9e6e", "other": "#b9bec7"}


def cost(methods: Sequence[Method]) -> Plot:
    rows = {name: [[] for _ in methods] for name in PHASES}
    for column, method in enumerate(methods):
        for record in (r for run in method.runs for r in run.records if "seconds/step" in r):
            parts = {name: record.get(f"seconds/{name}", 0.0) for name in PHASES if name != "other"}
            parts["other"] = max(0.0, record["seconds/step"] - sum(parts.values()))
            for name, seconds in parts.items():
                rows[name][column].append(seconds)
    known = [column for column in range(len(methods)) if rows["other"][column]]
    data = [
        {
            **{"type": "bar", "orientation": "h", "name": name, "marker": {"color": colour}},
            "y": [methods[column].name for column in known],
            "x": numbers(np.mean(rows[name][column]) for column in known),
        }
        for name, colour in PHASES.items()
        if known
    ]
    layout = {
        "barmode": "stack",
        "xaxis": {"title": {"text": "seconds a step"}},
        "yaxis": {"autorange": "reversed", "automargin": True},
    }
    note = "Mean over steps and seeds; verify is the time spent waiting for verdicts with nothing left to generate."
    return Plot("Cost of a step", note, [("", {"data": data, "layout": layout})])


def recovery(methods: Sequence[Method]) -> Plot:
    views = []
    for label, of in (("rollouts", rollouts_recovered), ("groups", groups_rescued)):
        data = []
        for number, method in enumerate(methods):
            counts = by_failures(method)
            tried = {n: of(c) for n, c in counts.items() if c.went_on}
            if tried:
                data.append(
                    {
                        **{"type": "scatter", "mode": "lines+markers", "name": method.name},
                        "x": list(tried),
                        "y": numbers(share for share, _ in tried.values()),
                        "text": [f"of {total:,} {label}" for _, total in tried.values()],
                        "marker": {
                            "size": [
                                6 + 12 * math.sqrt(c.went_on / max(k.went_on for k in counts.values()))
                                for c in counts.values()
                                if c.went_on
                            ]
                        },
                        "line": {"color": method_colour(number)},
                    }
                )
        layout = {
            "xaxis": {"title": {"text": "failing rollouts of the group, N_fail"}, "dtick": 1},
            "yaxis": y_axis("", percent=True),
        }
        views.append((label, {"data": data, "layout": layout}))
    note = (
        "Of the rollouts that failed turn 1 and got another turn, the share that passed later (or of the groups, with "
        "one that did), by how many of the group failed. Larger dots, more data. Only what the gate let in is seen."
    )
    return Plot("Recovery against N_fail", note, views)


def rollouts_recovered(counts: GroupCounts) -> tuple[float, int]:
    return counts.recovered / counts.went_on, counts.went_on


def groups_rescued(counts: GroupCounts) -> tuple[float, int]:
    return counts.rescued / counts.opened, counts.opened


def by_failures(method: Method) -> dict[int, GroupCounts]:
    """Counts of a method's groups by N_fail."""
    total: dict[int, GroupCounts] = {}
    counted: dict[Difficulty, GroupCounts] = merged([run.tally for run in method.runs])
    for difficulty, counts in counted.items():
        total[difficulty.failing] = total.get(difficulty.failing, GroupCounts()) + counts
    return dict(sorted(total.items()))


def difficulties(methods: Sequence[Method]) -> Plot:
    views = []
    for method in methods:
        counts = by_failures(method)
        groups = sum(c.groups for c in counts.values())
        parts = {
            "opened, someone recovered": ("#2f9e6e", [c.rescued for c in counts.values()]),
            "opened, nobody did": ("#e0812f", [c.opened - c.rescued for c in counts.values()]),
            "closed": (FAIL_COLOUR, [c.groups - c.opened for c in counts.values()]),
        }
        data = [
            {
                "type": "bar",
                "name": name,
                "x": list(counts),
                "y": numbers(n / groups for n in values),
                "marker": {"color": colour},
            }
            for name, (colour, values) in parts.items()
            if groups
        ]
        x_axis = {"title": {"text": "failing rollouts of the group, N_fail"}, "dtick": 1}
        views.append(
            (method.name, {"data": data, "layout": {"barmode": "stack", "xaxis": x_axis, "yaxis": y_axis("", True)}})
        )
    note = "All groups of training by their pass rate at turn 1, what the gate did with them, and what came of it."
    return Plot("Gate against pass rate", note, views)


def turns_to_pass(methods: Sequence[Method]) -> Plot:
    views = []
    for method in methods:
        counts: Counter[tuple[int, int]] = sum((run.tally.passed_at for run in method.runs), Counter())
        last = max((step for step, _ in counts), default=0)
        width = max(1, math.ceil(last / 20))
        bins = range((last + width - 1) // width)
        by_bin = Counter()
        for (step, tier), count in counts.items():
            by_bin[(step - 1) // width, tier] += count
        turns = method.config["max_turns"]
        totals = [sum(by_bin[b, tier] for tier in range(1, turns + 2)) or 1 for b in bins]
        data = [
            {
                **{"type": "bar", "name": tier_name(tier, turns), "marker": {"color": tier_colour(tier, turns)}},
                "x": [b * width + (width + 1) / 2 for b in bins],
                "y": numbers(by_bin[b, tier] / total for b, total in zip(bins, totals, strict=True)),
            }
            for tier in range(1, turns + 2)
            if counts
        ]
        layout = {"barmode": "stack", "bargap": 0.08, "xaxis": {"title": {"text": "step"}}, "yaxis": y_axis("", True)}
        views.append((method.name, {"data": data, "layout": layout}))
    return Plot("Turns to pass", "In which turn rollouts of training passed, the seeds of a method together.", views)


def advantages(methods: Sequence[Method]) -> Plot:
    views = []
    for method in methods:
        turns = method.config["max_turns"]
        seen: dict[tuple[int, int], Counter[float]] = {}
        for run in method.runs:
            for key, counts in run.tally.advantages.items():
                seen[key] = seen.get(key, Counter()) + counts
        data = []
        for turn in sorted({turn for _, turn in seen}):
            tiers = sorted(tier for tier, t in seen if t == turn)
            boxes = [quantiles(seen[tier, turn]) for tier in tiers]
            names = ("lowerfence", "q1", "median", "q3", "upperfence", "mean")
            data.append(
                {
                    **{"type": "box", "name": f"in turn {turn}", "x": [tier_name(tier, turns) for tier in tiers]},
                    **{name: numbers(box[i] for box in boxes) for i, name in enumerate(names)},
                    "marker": {"color": METHOD_COLOURS[(turn - 1) % len(METHOD_COLOURS)]},
                }
            )
        order = [tier_name(tier, turns) for tier in range(1, turns + 2)]
        x_axis = {"title": {"text": "turn of the pass"}, "categoryorder": "array", "categoryarray": order}
        layout = {"boxmode": "group", "xaxis": x_axis, "yaxis": {"title": {"text": "advantage"}, "zeroline": True}}
        views.append((method.name, {"data": data, "layout": layout}))
    note = (
        "What the tokens of a turn are credited with, by the turn in which the rollout passed: median, quartiles, "
        "5 % and 95 % (whiskers), mean (dashed)."
    )
    return Plot("Advantages by tier and turn", note, views)


def quantiles(counts: Counter[float]) -> list[float]:
    """5 %, 25 %, 50 %, 75 %, 95 % and the mean of counted values."""
    values = np.repeat(sorted(counts), [counts[v] for v in sorted(counts)])
    return [*np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95)), np.mean(values)]
