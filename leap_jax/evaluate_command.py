"""Score checkpoints: `python -m leap_jax.evaluate RUN [RUN ...] [--tasks=heldout:256] [--samples=8] [--step=best]`.

Prints tables for every run and, of several, the differences of each to the first, on the same tasks. Every turn and
all numbers are kept in RUN/eval/, under a name that tells what was asked, and read from there the next time.
Settings that are not given are those of the first run's config. Exit status: 0 done, 1 not possible, 2 bad usage.
"""

from __future__ import annotations

import argparse
import json
import logging as python_logging
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import logging
from ml_collections import ConfigDict
from rich.console import Console
from rich.text import Text

from leap_jax import evaluate_tables, run_folder, statistics
from leap_jax.checkpoint import CheckpointError
from leap_jax.evaluate import differences
from leap_jax.evaluate_run import Settings, evaluate_run
from leap_jax.experiment import ConfigError
from leap_jax.kernels.compiler import CompilerUnavailable
from leap_jax.reading import ReadError, json_lines
from leap_jax.task_sets import GRAMMAR, task_names
from leap_jax.train import BEST_METRIC, RunError

WIDTH = 120  # where the output is no terminal
NO_TIMES = "No speedups: the device of these runs gives no times, neither measured nor estimated."


def main(arguments: Sequence[str] | None = None) -> int:
    flags = _parser().parse_args(arguments)
    python_logging.basicConfig(format="%(message)s", force=True)
    logging.set_verbosity(logging.INFO)
    python_logging.getLogger("jax").setLevel(python_logging.WARNING)  # it reports every platform it does not find
    try:
        configs = [run_folder.stored_config(run) for run in flags.runs]
        settings = chosen_settings(flags, configs[0])
        found = [
            evaluate_run(run, config, settings, flags.step) for run, config in zip(flags.runs, configs, strict=True)
        ]
        curves = training_curves(flags.runs, flags.metric, flags.threshold)
    except (CheckpointError, CompilerUnavailable, ConfigError, ReadError, RunError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("stopped: the run that was being scored has nothing new, the others are written\n")
        return 1
    first, *others = found
    if flags.json:
        report = {
            "runs": [{"run": str(one.workdir)} | one.report() for one in found],
            "less_the_first": {
                str(one.workdir): {name: d._asdict() for name, d in differences(one.results, first.results).items()}
                for one in others
            },
            "training": curves,
        }
        sys.stdout.write(json.dumps(report) + "\n")
        return 0
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    for one in found:
        console.print(evaluate_tables.heading(one), soft_wrap=True)
        console.print(evaluate_tables.accuracies(one))
        console.print(evaluate_tables.numbers(one))
    if not any(one.speeds() for one in found):
        console.print(Text(NO_TIMES), soft_wrap=True)
    for one in others:
        console.print(
            Text(f"{one.workdir}, step {one.step}, less {first.workdir}, step {first.step}", "bold"), soft_wrap=True
        )
        console.print(evaluate_tables.comparison(one, first))
    console.print(Text(f"{flags.metric} while training", "bold"), soft_wrap=True)
    console.print(evaluate_tables.curves(curves))
    return 0


def chosen_settings(flags: argparse.Namespace, config: ConfigDict) -> Settings:
    """The flags, and the config's values for those that were not given. A greedy answer needs one sample."""
    limits = config.evaluation
    temperature = 0.0 if flags.greedy else flags.temperature
    if temperature is None:
        temperature = config.sampling.temperature
    if temperature == 0 and flags.samples not in (None, 1):
        raise ConfigError(f"--samples={flags.samples}: greedy answers to a task are all the same, leave it out")
    samples = flags.samples or limits.samples
    return Settings(
        tasks=flags.tasks or f"heldout:{limits.tasks}",
        samples=1 if temperature == 0 else samples,
        max_turns=flags.turns or limits.max_turns,
        temperature=temperature,
        seed=config.seed if flags.seed is None else flags.seed,
    )


def training_curves(runs: Sequence[Path], metric: str, threshold: float | None) -> list[dict[str, Any]]:
    """For every axis and run: the area under its curve up to what all runs have spent, and when it reaches a threshold.

    The threshold is by default the last value of the first run.
    """
    records = [list(json_lines(run / "metrics.jsonl")) for run in runs]
    rows = []
    for axis in statistics.AXES:
        curves = [statistics.curve(of_run, metric, axis) for of_run in records]
        if not all(len(curve.x) for curve in curves):
            lacking = next(run for run, curve in zip(runs, curves, strict=True) if not len(curve.x))
            raise CheckpointError(f"{lacking}/metrics.jsonl has no {metric}: choose another --metric")
        budget = min(curve.x[-1] for curve in curves)
        reached = float(curves[0].y[-1]) if threshold is None else threshold
        for run, curve in zip(runs, curves, strict=True):
            row = {
                "area": statistics.normalised_area(curve, budget),
                "time_to_threshold": statistics.time_to_threshold(curve, reached),
            }
            known = {name: value if math.isfinite(value) else None for name, value in row.items()}
            place = {"run": str(run), "axis": axis, "spent": float(curve.x[-1])}
            rows.append(place | known | {"budget": float(budget), "threshold": reached})
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="leap_jax.evaluate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="the folder of a run")
    parser.add_argument("--step", default="latest", help="of the checkpoint: latest (default), best, or a number")
    parser.add_argument("--tasks", type=_tasks, help=f"{GRAMMAR} (COUNT: the first of a split)")
    parser.add_argument("--samples", type=_at_least_1, help="rollouts of each task")
    parser.add_argument("--turns", type=_at_least_1, help="most turns of a rollout")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--temperature", type=_temperature, help="of sampling; 0 is greedy")
    how.add_argument("--greedy", action="store_true", help="always the likeliest token, one sample")
    parser.add_argument("--seed", type=_at_least_0, help="of sampling")
    parser.add_argument("--metric", default=BEST_METRIC, help="of the curves over training (%(default)s)")
    parser.add_argument("--threshold", type=float, help="when did it get there? (default: the first run's last value)")
    parser.add_argument("--json", action="store_true", help="one JSON object on the standard output")
    return parser


def _tasks(which: str) -> str:
    try:
        task_names(which)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return which


def _at_least_0(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def _at_least_1(text: str) -> int:
    if _at_least_0(text) == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return int(text)


def _temperature(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no temperature: 0 (greedy) or more")
    return value
