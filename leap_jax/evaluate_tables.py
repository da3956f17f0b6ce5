"""The tables that `python -m leap_jax.evaluate` prints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from leap_jax.evaluate import by_kind, differences, ratios
from leap_jax.evaluate_run import Evaluation
from leap_jax.statistics import Interval, interval

COSTS = ("turns_per_pass", "verifications_per_pass", "response_tokens_per_pass", "response_tokens")


def heading(one: Evaluation) -> Text:
    """Which checkpoint, and what was asked of it."""
    asked = one.settings
    how = "greedy" if asked.temperature == 0 else f"temperature {asked.temperature:g}"
    asked_for = f"{asked.tasks}, {asked.samples} samples a task, {how}, seed {asked.seed}"
    return Text.assemble((f"{one.workdir}, step {one.step}", "bold"), f": {asked_for}")


def accuracies(one: Evaluation) -> Table:
    """Acc@t with its interval, overall and for each kind of task."""
    found = {name: ratio for name, ratio in ratios(one.results).items() if name.startswith("acc@")}
    table = _table("", "tasks", *(f"{name.capitalize()} %" for name in found))
    masks = {"all": slice(None)} | by_kind(one.results.tasks)
    for kind, mask in masks.items():
        cells = [_share(interval(ratio.of(mask))) for ratio in found.values()]
        table.add_row(kind, str(len(found["acc@1"].of(mask).denominator)), *cells)
    return table


def numbers(one: Evaluation) -> Table:
    """Everything else, with intervals."""
    table = _table("", "value [95 %]", "over")
    for name, ratio in ratios(one.results).items():
        if not name.startswith("acc@") and math.isfinite(ratio.value):
            shown = _number(interval(ratio)) if name in COSTS else _share(interval(ratio))
            unit = "" if name in COSTS else " %"
            table.add_row(_words(name) + unit, shown, _over(name, int(ratio.denominator.sum())))
    for name, found in one.speeds().items():
        shown = f"{_share(found)} %" if name.startswith("fast_") else f"{_number(found)} x"
        table.add_row(f"{_words(name)}, {one.time_kind}", shown, "")
    return table


def comparison(one: Evaluation, first: Evaluation) -> Table:
    """How much higher a run stands than the first, on the same tasks."""
    table = _table("", "points [95 %]", "p", "tasks")
    for name, found in differences(one.results, first.results).items():
        ends = f"{100 * found.value:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
        table.add_row(_words(name), ends, f"{found.p_value:.4f}", str(found.tasks))
    return table


def curves(found: Sequence[dict[str, Any]]) -> Table:
    """How fast the runs got there while they trained."""
    table = _table("run", "axis", "spent", "area", "of", "reaches", "at")
    for row in found:
        when = "never" if row["time_to_threshold"] is None else f"{row['time_to_threshold']:,.0f}"
        area = "" if row["area"] is None else f"{row['area']:.1%}"
        table.add_row(
            Text(row["run"]),
            row["axis"].replace("_", " "),
            f"{row['spent']:,.0f}",
            area,
            f"{row['budget']:,.0f}",
            f"{row['threshold']:.1%}",
            when,
        )
    return table


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=bool(number), overflow="fold")
    return table


def _words(name: str) -> str:
    """recovery/compile_error -> recovery after compile error; best_of@4 -> best of 4; recovery@2 stays."""
    return (
        name.replace("outcome/", "first answers: ")
        .replace("/", " after ")
        .replace("best_of@", "best of ")
        .replace("_", " ")
    )


def _over(name: str, count: int) -> str:
    """What the denominator counts."""
    if name.startswith(("pass@", "best_of@", "rescued_tasks")):
        return f"{count} tasks"
    if name.endswith("_per_pass"):
        return f"{count} passes"
    return f"{count} turns" if name == "response_tokens" else f"{count} rollouts"


def _share(found: Interval) -> str:
    if not math.isfinite(found.value):
        return "-"
    ends = f" [{100 * found.low:.0f}, {100 * found.high:.0f}]" if math.isfinite(found.low) else ""
    return f"{100 * found.value:.1f}{ends}"


def _number(found: Interval) -> str:
    ends = f" [{found.low:.2f}, {found.high:.2f}]" if math.isfinite(found.low) else ""
    return f"{found.value:.2f}{ends}"
