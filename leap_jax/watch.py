"""Look at a run from its files, without touching it: `python -m leap_jax.watch RUN [--once] [--every=2]`.

On a terminal the picture is refreshed until the run is finished or Ctrl-C; elsewhere, and with --once, it is printed
once, as plain text. Exit status: 0, or 1 where the folder is no run.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from leap_jax.kernels.verdict import Outcome
from leap_jax.reading import ReadError, Record, last_json_lines, read_config, read_metrics, visible

CURVES = (  # label, metric, format
    ("held-out Acc@1", "eval/heldout/acc@1", "{:.1%}"),
    ("train Acc@1", "train/acc@1", "{:.1%}"),
    ("recovery", "train/recovery", "{:.1%}"),
    ("open groups", "train/open_share", "{:.0%}"),
    ("easy", "train/easy_share", "{:.0%}"),
    ("catastrophic", "train/catastrophic_share", "{:.0%}"),
    ("zero signal", "train/zero_signal_share", "{:.0%}"),
    ("entropy", "train/entropy", "{:.3f}"),
    ("gradient norm", "train/gradient_norm", "{:.3f}"),
    ("seconds a step", "seconds/step", "{:.1f}"),
)
OUTCOME = "train/outcome/"
BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 32  # of a curve
FAILURES = 3
TAIL_BYTES = 1 << 18  # of rollouts.jsonl, in which the last failures are looked for
SILENT_STEPS = 10  # without a word for so many of its usual steps, a run is taken for stopped
PIPED_WIDTH = 160  # where the output is no terminal
SILENT_SECONDS = 120.0  # but not sooner


@dataclass
class Snapshot:
    """What the files of a run say at one moment."""

    run: Path
    config: dict[str, Any] | None = None  # None before the run has begun
    records: list[Record] = field(default_factory=list)  # of metrics.jsonl
    failures: list[Record] = field(default_factory=list)  # the last turns that failed, newest first
    silent_seconds: float = 0.0  # since one of its files was written
    problems: list[str] = field(default_factory=list)

    @property
    def step(self) -> int:
        return self.records[-1]["step"] if self.records else 0

    @property
    def progress(self) -> float:
        """Share of the budget that is spent, 1 when it is all."""
        spent = self.records[-1].get("total/progress") if self.records else 0.0
        steps = self.config["steps"] if self.config else 1
        return min(1.0, self.step / steps if spent is None else spent)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m leap_jax.watch", description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument("--once", action="store_true", help="print once and end, as without a terminal")
    parser.add_argument("--every", type=seconds, default=2.0, help="seconds between looks (default: %(default)s)")
    flags = parser.parse_args(arguments)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
    if not flags.run.is_dir():
        print(f"leap_jax.watch: {flags.run}: no such folder", file=sys.stderr)
        return 1
    try:
        snapshot = look(flags.run)
        if flags.once or not console.is_terminal:
            console.print(picture(snapshot))
            return 0
        with Live(picture(snapshot), console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while snapshot.progress < 1.0:
                time.sleep(flags.every)
                snapshot = look(flags.run)
                live.update(picture(snapshot), refresh=True)
    except ReadError as error:
        print(f"leap_jax.watch: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds between 0.1 and 3600")
    return value


# From the files.


def look(run: Path) -> Snapshot:
    """Read a run's files. Raises ReadError where its config cannot be read; what else is damaged is a problem."""
    snapshot = Snapshot(run, silent_seconds=time.time() - last_write(run))
    if not (run / "config.json").exists():
        return snapshot
    snapshot.config = read_config(run)
    if type(snapshot.config.get("steps")) is not int:
        raise ReadError(f"{run / 'config.json'}: no number steps")
    try:
        if (run / "metrics.jsonl").exists():
            snapshot.records.extend(read_metrics(run))
        if (run / "rollouts.jsonl").exists():
            turns = last_json_lines(run / "rollouts.jsonl", TAIL_BYTES)
            snapshot.failures = last_failures(turns, FAILURES)
    except ReadError as error:
        snapshot.problems.append(str(error))
    return snapshot


def last_write(run: Path) -> float:
    """When one of the files that a run writes was written last."""
    files = [run, *run.glob("*.json*"), *run.glob("tensorboard/*"), *run.glob("eval/*")]
    return max(file.stat().st_mtime for file in files if file.exists())


def last_failures(turns: Sequence[Record], count: int) -> list[Record]:
    """The last failing turns that say why, newest first, no two of one task."""
    found: dict[Any, Record] = {}
    for turn in reversed(turns):
        if turn.get("outcome") != Outcome.CORRECT and turn.get("feedback"):
            found.setdefault(turn.get("task"), turn)
    return list(found.values())[:count]


def usual_step_seconds(records: Sequence[Record]) -> float:
    """What a step and its evaluation take, the longest of the last ones."""
    last = [r.get("seconds/step", 0.0) + r.get("seconds/evaluate", 0.0) for r in records[-SILENT_STEPS:]]
    return max(last, default=0.0)


def state(snapshot: Snapshot) -> tuple[str, str]:
    """(what the run is doing, style)."""
    if snapshot.config is None:
        return "has not begun: there is no config.json yet", "yellow"
    if snapshot.progress >= 1.0:
        return "finished", "green"
    silent = duration(snapshot.silent_seconds)
    again = "the same command goes on"
    if not snapshot.records:
        return f"preparing: cold start or first evaluation; nothing written for {silent}", "yellow"
    if snapshot.silent_seconds > max(SILENT_SECONDS, SILENT_STEPS * usual_step_seconds(snapshot.records)):
        return f"stopped or killed: nothing written for {silent}; {again}", "red"
    return f"running, last written {silent} ago", "green"


def seconds_left(snapshot: Snapshot) -> float | None:
    """At the pace so far, evaluations included; None where there is none yet."""
    spent = sum(r.get("seconds/step", 0.0) + r.get("seconds/evaluate", 0.0) for r in snapshot.records)
    return spent / snapshot.progress * (1.0 - snapshot.progress) if snapshot.progress and spent else None


# The picture.


def picture(snapshot: Snapshot) -> Group:
    """All that is shown."""
    what, style = state(snapshot)
    head = Text.assemble((visible(str(snapshot.run)), "bold"), "  ", (what, style))
    parts: list[Any] = [head]
    if snapshot.records:
        left = seconds_left(snapshot)
        line = f"step {snapshot.step}, {snapshot.progress:.0%} of the budget"
        if snapshot.progress < 1.0 and left is not None:
            line += f", about {duration(left)} left"
        total = snapshot.records[-1].get("total/verifications")
        parts.append(Text(line if total is None else f"{line}, {total:,} verifications"))
        parts += [Text(), curves(snapshot.records), Text(), outcomes(snapshot.records)]
    if snapshot.failures:
        parts += [Text(), Text("last failures", style="bold"), *map(failure, snapshot.failures)]
    parts += [Text(problem, style="red") for problem in snapshot.problems]
    return Group(*parts)


def curves(records: Sequence[Record]) -> Table:
    table = Table.grid(padding=(0, 2))
    for label, metric, form in CURVES:
        values = [record[metric] for record in records if metric in record]
        if values:
            low, high = form.format(min(values)), form.format(max(values))
            table.add_row(label, Text(form.format(values[-1]), style="bold"), sparkline(values), f"{low} to {high}")
    return table


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """The values as blocks between their lowest and highest; more than `width` are averaged in equal parts."""
    size = math.ceil(len(values) / width)
    means = [statistics.fmean(values[i : i + size]) for i in range(0, len(values), size)]
    low, high = min(means), max(means)
    if low == high:
        return BLOCKS[0] * len(means)
    return "".join(BLOCKS[round((value - low) / (high - low) * (len(BLOCKS) - 1))] for value in means)


def outcomes(records: Sequence[Record]) -> Table:
    """First-turn outcomes of the last step, and their curves."""
    table = Table.grid(padding=(0, 2))
    for outcome in reversed(Outcome):
        values = [record[OUTCOME + outcome] for record in records if OUTCOME + outcome in record]
        if any(values):
            bar = "█" * round(values[-1] * WIDTH)
            table.add_row(str(outcome), f"{values[-1]:.0%}".rjust(4), bar.ljust(WIDTH), sparkline(values))
    return table


def failure(turn: Record) -> Text:
    """A failing turn with the start of its feedback, which the model can shape: nothing in it acts."""
    lines = visible(str(turn["feedback"])[:400]).split("\n")[:3]
    head = f"  step {turn['step']}, {visible(str(turn.get('task')))}, turn {turn.get('turn')}"
    return Text("\n".join([head, *(f"    {line}" for line in lines)]))


def duration(seconds: float) -> str:
    """3 s, 5 min, 2 h 10 min."""
    if seconds < 90:
        return f"{max(0.0, seconds):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


if __name__ == "__main__":
    sys.exit(main())
