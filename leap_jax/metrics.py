"""What a run tells: metrics.jsonl and TensorBoard curves, a progress bar, and the memory it took.

Every line of a run folder's .jsonl files is one object with a `step`. A run that is killed and resumed drops
what lies after the restored step, so its files equal those of a run that was never disturbed.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import rich.console
import rich.progress
from absl import logging
from tensorboardX import SummaryWriter

from leap_jax.checkpoint import CheckpointError
from leap_jax.reading import visible

Number = int | float

# Label in the progress bar, key in the metrics, format.
LIVE = (
    ("reward", "train/reward_mean", "{:.3f}"),
    ("acc@1", "train/acc@1", "{:.1%}"),
    ("open", "train/open_share", "{:.0%}"),
    ("verdicts/s", "train/verdicts_per_second", "{:.1f}"),
    ("tok/s", "train/tokens_per_second", "{:.0f}"),
    ("loss", "loss", "{:.3f}"),  # of the cold start, as is the next
    ("tok/s", "tokens_per_second", "{:.0f}"),
)


# TensorBoard folds curves by what stands before the first slash: one fold for each question that is asked of a run.
CURVES = {
    "eval/heldout/outcome/": "heldout_outcome/",
    "eval/heldout/": "heldout/",
    "train/outcome/": "outcome/",
    **{
        f"train/{name}": f"{fold}/{name}"
        for fold, names in {
            "gate": "open_share easy_share catastrophic_share zero_signal_share recovery",
            "policy": "entropy kl_sampled_abs_max kl_sampled kl clip_fraction gradient_norm learning_rate loss",
            "throughput": "tokens_per_second verdicts_per_second",
        }.items()
        for name in names.split()
    },
}
SAMPLE_CHARS = 2000  # of a response, and of a feedback, in TensorBoard's text


class MetricsWriter:
    """Append one line a step to WORKDIR/metrics.jsonl and the same numbers to WORKDIR/tensorboard.

    `restored_step` is the step that training continues from, -1 for a start from scratch; lines and curves
    after it, left by a killed run, are dropped.
    """

    def __init__(self, workdir: Path, *, restored_step: int = -1) -> None:
        self._path = workdir / "metrics.jsonl"
        truncate_jsonl(self._path, after_step=restored_step)
        self._curves = SummaryWriter(logdir=str(workdir / "tensorboard"), purge_step=restored_step + 1)

    def write(self, step: int, values: Mapping[str, Number]) -> None:
        """Write one step's numbers (Python, NumPy or JAX). A non-finite one is null, with a warning."""
        record: dict[str, Number | None] = {}
        for name in sorted(values):
            record[name] = finite(values[name])
            if record[name] is None:
                logging.warning("step %d: metric %s is %s", step, name, values[name])
            else:
                self._curves.add_scalar(curve_name(name), record[name], step)
        append_jsonl(self._path, {"step": step, **record})
        self._curves.flush()

    def write_samples(self, step: int, turns: Sequence[Mapping[str, Any]]) -> None:
        """Show a passing and a failing rollout of a step, of its records, as texts in TensorBoard."""
        for name, text in sample_texts(turns).items():
            self._curves.add_text(f"rollout/{name}", text, step)

    def close(self) -> None:
        """Finish the TensorBoard file."""
        self._curves.close()

    def __enter__(self) -> MetricsWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def curve_name(metric: str) -> str:
    """What TensorBoard calls a metric: in its fold, and without an @, which it has not."""
    prefix = next((prefix for prefix in CURVES if metric.startswith(prefix)), "")
    return (CURVES[prefix] + metric[len(prefix) :] if prefix else metric).replace("@", "_at_")


def sample_texts(turns: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """{"passing": Markdown, "failing": Markdown}, each of the first of the longest such rollouts; absent if none.

    A record for every turn, those of a rollout one after another. Code is indented, so that no text ends its block.
    """
    rollouts = [list(of) for _, of in groupby(turns, key=lambda turn: (turn["prompt"], turn["rollout"]))]
    texts = {}
    for name, passes in (("passing", True), ("failing", False)):
        some = [rollout for rollout in rollouts if (rollout[-1]["outcome"] == "correct") is passes]
        if some:
            texts[name] = "\n\n".join(_markdown(turn) for turn in max(some, key=len))
    return texts


def _markdown(turn: Mapping[str, Any]) -> str:
    def block(text: str) -> str:
        cut = visible(text[:SAMPLE_CHARS]) + (" ..." if len(text) > SAMPLE_CHARS else "")
        return "\n".join(f"    {line}" for line in cut.split("\n"))

    said = (block(turn[name]) for name in ("response", "feedback") if turn[name])
    earned = f"reward {turn['reward']:.3g}, advantage {turn['advantage']:.3g}"
    return "\n\n".join((f"**{turn['task']}, turn {turn['turn']}: {turn['outcome']}** ({earned})", *said))


def finite(value: Number) -> Number | None:
    """Return an int or a finite float, or None."""
    value = getattr(value, "item", lambda: value)()  # NumPy and JAX scalars know their Python type
    return None if isinstance(value, float) and not math.isfinite(value) else value


def append_jsonl(path: Path, *records: Mapping[str, object]) -> None:
    """Append records as lines of JSON, in one write. ValueError on NaN or Inf, which JSON does not have."""
    text = "".join(json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n" for record in records)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def truncate_jsonl(path: Path, *, after_step: int) -> None:
    """Drop the lines whose step lies after `after_step`, and a last line that was cut short. Atomic.

    Raises CheckpointError, leaving the file alone, where another line is no JSON object with a step.
    """
    if not path.exists():
        return
    kept_path = path.with_name(path.name + ".tmp")
    with path.open("rb") as lines, kept_path.open("wb") as kept:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                break
            try:
                step = json.loads(line)["step"]
            except (ValueError, KeyError, TypeError) as error:
                raise CheckpointError(
                    f"{path}, line {number}: not a JSON object with a step; repair or remove it"
                ) from error
            if step <= after_step:
                kept.write(line)
    os.replace(kept_path, path)


class ProgressBar:
    """One bar with time left and live numbers on a terminal; elsewhere a log line every `log_every` steps.

    `first_step` of `total_steps` are done already when a run resumes.
    """

    def __init__(
        self,
        total_steps: int,
        *,
        first_step: int = 0,
        label: str = "step",
        log_every: int = 1,
        console: rich.console.Console | None = None,
    ) -> None:
        self._total = total_steps
        self._label = label
        self._log_every = log_every
        self._progress = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}"),
            rich.progress.MofNCompleteColumn(),
            rich.progress.BarColumn(bar_width=24),
            rich.progress.TimeElapsedColumn(),
            rich.progress.TextColumn("eta"),
            rich.progress.TimeRemainingColumn(),
            rich.progress.TextColumn("{task.fields[numbers]}"),
            console=console or rich.console.Console(stderr=True),
        )
        self._progress.disable = not self._progress.console.is_terminal
        self._task = self._progress.add_task(label, total=total_steps, completed=first_step, numbers="")

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        self._route_log(sys.stderr)
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        self._route_log(sys.stderr)

    def update(self, step: int, values: Mapping[str, Number], *, total: int | None = None) -> None:
        """Show that `step` steps are done, with the `LIVE` numbers among `values`; `total` is a better guess."""
        self._total = total or self._total
        numbers = "  ".join(f"{label} {form.format(values[key])}" for label, key, form in LIVE if key in values)
        if not self._progress.disable:
            self._progress.update(self._task, completed=step, total=self._total, numbers=numbers)
        elif step % self._log_every == 0 or step == self._total:
            logging.info("%s %d/%d  %s", self._label, step, self._total, numbers)

    def _route_log(self, stream) -> None:
        # While a bar is live, sys.stderr is rich's proxy, which prints above it; absl's handler keeps the
        # stream it met first, and its lines would tear the bar.
        if not self._progress.disable:
            logging.get_absl_handler().python_handler.stream = stream


def peak_memory_bytes(process_id: int | None = None) -> int:
    """Sum the peak resident memory of a process (default: this one) and of its living descendants.

    An upper bound of their joint peak, since they need not peak together. Read from /proc (Linux).
    """
    children: dict[int, list[int]] = {}
    peaks: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue
        pid = int(status.parent.name)
        children.setdefault(int(fields["PPid"]), []).append(pid)
        peaks[pid] = int(fields.get("VmHWM", "0 kB").split()[0]) * 1024
    total, pending = 0, [process_id or os.getpid()]
    while pending:
        pid = pending.pop()
        total += peaks.get(pid, 0)
        pending += children.get(pid, [])
    return total
