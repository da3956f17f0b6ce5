"""Several experiments, several seeds, one budget: `python -m leap_jax.compare --configs=leap,grpo --seeds=0,1,2`.

Each run is `python -m leap_jax.main` in a folder of its own, FOLDER/EXPERIMENT/seed_N, from the same cold start and on
the same prompts in the same order. The same command again goes on where a killed one stopped and runs only what is
missing. Exit status: 0 all runs are complete, 1 a run failed, 2 bad usage, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from ml_collections import ConfigDict
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from leap_jax import budget
from leap_jax.experiment import ConfigError, flatten, load
from leap_jax.interrupt import Interrupt
from leap_jax.reading import ReadError, read_metrics
from leap_jax.trainer_process import TrainerProcess

POLL_SECONDS = 1.0
COMPLETE, FAILED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130
UNBOUNDED_STEPS = 1_000_000  # where seconds end a run
PIPED_WIDTH = 160
FIRST_TURN = "eval/heldout/acc@1"


@dataclass
class Run:
    """One experiment with one seed, and what its folder says of it."""

    experiment: str  # "leap", or "leap:smoke" for a variant
    seed: int
    config: ConfigDict
    arguments: list[str]  # of leap_jax.main
    workdir: Path
    state: str = "waiting"  # waiting, running, complete, stopped, failed
    error: str = ""  # the line that a failed run ended with
    metrics: dict[str, Any] = field(default_factory=dict)  # the newest value of each
    started: float | None = None  # clock reading when this session began to run it, and when it ended
    ended: float | None = None
    progress_before: float = 0.0

    @property
    def progress(self) -> float:
        """The share of the budget that is spent, at most 1."""
        return min(1.0, self.metrics.get("total/progress", 0.0))

    @property
    def last_turn(self) -> str:
        """The metric of passing by the last turn."""
        return f"eval/heldout/acc@{self.config.evaluation.max_turns}"

    def read(self) -> None:
        """Take in the metrics that the run has written so far."""
        with suppress(ReadError):  # there is none yet, or it is damaged: the run itself will say so
            for values in read_metrics(self.workdir):
                self.metrics |= values

    def is_complete(self) -> bool:
        """Whether this very config has spent its budget and left its last checkpoint."""
        try:
            theirs = json.loads((self.workdir / "config.json").read_text())
        except (OSError, ValueError):
            return False  # whether the folder can be used is the run's own to say
        last = self.workdir / "checkpoints" / str(self.metrics.get("step"))
        return self.progress >= 1.0 and last.is_dir() and theirs == json.loads(json.dumps(flatten(self.config)))


def main(arguments: Sequence[str] | None = None) -> int:
    flags = parser().parse_args(arguments)
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    try:
        runs = plan(flags.configs.split(","), seeds(flags.seeds), flags.budget, flags.set, Path(flags.folder))
        require_one_start(runs)
    except ConfigError as error:
        console.print(f"error: {error}")
        return BAD_USAGE
    work(runs, flags.parallel, console)
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else PIPED_WIDTH).print(results(runs))
    for run in runs:
        if run.state == "failed":
            console.print(f"error: {run.workdir}: {run.error}")
    console.print(f"curves, intervals and rollouts: python -m leap_jax.report {flags.folder}")
    states = {run.state for run in runs}
    return FAILED if "failed" in states else COMPLETE if states == {"complete"} else INTERRUPTED


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m leap_jax.compare", description=__doc__.splitlines()[0])
    parser.add_argument("--configs", required=True, help="experiments, such as leap,grpo,credit:last_turn")
    parser.add_argument("--seeds", default="0", help="such as 0,1,2")
    parser.add_argument("--budget", help="KIND:AMOUNT; kinds: steps, verifications, response_tokens, train_seconds")
    parser.add_argument("--folder", default="runs/compare", help="where the runs lie (default: %(default)s)")
    parser.add_argument("--parallel", type=positive, default=1, help="runs at a time (default: %(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="in every run; may be repeated")
    return parser


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)


def seeds(text: str) -> list[int]:
    """Read "0,1,2". Raises ConfigError."""
    if not all(part.isdecimal() for part in text.split(",")):
        raise ConfigError(f"--seeds={text}: give numbers from 0 on, such as 0,1,2")
    return list(map(int, text.split(",")))


def plan(
    experiments: Sequence[str], seeds: Sequence[int], limit: str | None, settings: Sequence[str], folder: Path
) -> list[Run]:
    """All runs, seed by seed, so that whole comparisons come first. Raises ConfigError for what cannot run."""
    from leap_jax.config import validate

    runs = []
    for seed in dict.fromkeys(seeds):
        for experiment in dict.fromkeys(experiments):
            name, _, variant = experiment.partition(":")
            file = Path("experiments", f"{name}.py")
            if not file.is_file():
                known = ", ".join(sorted(path.stem for path in file.parent.glob("[!_]*.py")))
                raise ConfigError(f"--configs: {file} does not exist; here are: {known or 'none'}")
            path = f"{file}:{variant}" if variant else str(file)
            overrides = [f"seed={seed}", *settings]
            if limit:
                overrides += limit_overrides(limit, load(path, overrides))
            config = load(path, overrides)
            try:
                validate(config)
            except ConfigError as error:
                raise ConfigError(f"{experiment}: {error}") from error
            workdir = folder / experiment.replace(":", "-").replace("/", "-") / f"seed_{seed}"
            arguments = [f"--config={path}", f"--workdir={workdir}", *(f"--config.{o}" for o in overrides)]
            runs.append(Run(experiment, seed, config, arguments, workdir))
    return runs


def limit_overrides(limit: str, config: ConfigDict) -> list[str]:
    """Turn "verifications:20000" into the config keys that end a run there. Raises ConfigError."""
    kind, _, amount = limit.partition(":")
    kinds = ("steps", *budget.SPENT_IN_STEP)
    if kind not in kinds or not amount.isdecimal() or int(amount) < 1:
        raise ConfigError(f"--budget={limit}: give KIND:AMOUNT, such as verifications:20000; kinds: {', '.join(kinds)}")
    if kind == "steps":
        return [f"steps={amount}"]
    least_a_step = config.prompts_per_step * config.group_size  # first answers, of one token or more
    most_steps = UNBOUNDED_STEPS if kind == "train_seconds" else -(-int(amount) // least_a_step)
    return [f"budget.{kind}={amount}", f"steps={most_steps}"]


def require_one_start(runs: Sequence[Run]) -> None:
    """Raise ConfigError unless all runs start from the same policy and are asked the same prompts."""
    from leap_jax.initial_policy import policy_key

    first = runs[0]
    for run in runs[1:]:
        if policy_key(run.config) != policy_key(first.config):
            raise ConfigError(
                f"{run.experiment} does not start from the same policy as {first.experiment}: their configs must agree "
                "in cold_start, policy, kernels and sampling.max_response_tokens (--set changes a key in all)"
            )


def work(runs: Sequence[Run], parallel: int, console: Console) -> None:
    """Run what is missing, `parallel` at a time; an interrupt lets every run save its step and stop."""
    for run in runs:
        run.read()
        if run.is_complete():
            run.state = "complete"
    processes: list[tuple[Run, TrainerProcess]] = []
    with ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt())
        show = stack.enter_context(live_table(console)) if console.is_terminal else News(console)
        while True:
            for run, process in list(processes):
                run.read()
                if interrupt.requested:
                    process.stop()
                if process.poll() is not None:
                    processes.remove((run, process))
                    settle(run, process)
            waiting = [] if interrupt.requested else [run for run in runs if run.state == "waiting"]
            for run in waiting[: parallel - len(processes)]:
                process = TrainerProcess(run.arguments, log=run.workdir / "log.txt")
                processes.append((run, stack.enter_context(process)))
                run.state, run.started, run.progress_before = "running", time.monotonic(), run.progress
            show(runs, seconds_left(runs, parallel, time.monotonic()))
            if not processes and not waiting:
                return
            time.sleep(POLL_SECONDS)


def settle(run: Run, process: TrainerProcess) -> None:
    """Set the state of a run whose process has ended."""
    run.read()
    run.ended = time.monotonic()
    if process.poll() == 0:
        run.state = "complete" if run.is_complete() else "stopped"
    else:
        run.state, run.error = "failed", process.last_line()


def seconds_left(runs: Sequence[Run], parallel: int, now: float) -> float | None:
    """Guess the time to the end from what the runs of this session took for their progress; None before any has."""
    paces: dict[str, list[float]] = {}  # seconds for a whole budget, by experiment
    for run in runs:
        if run.started is not None and run.progress > run.progress_before:
            until = now if run.state == "running" else run.ended
            paces.setdefault(run.experiment, []).append((until - run.started) / (run.progress - run.progress_before))
    if not paces:
        return None
    any_pace = mean([pace for known in paces.values() for pace in known])
    left = [
        (1.0 - run.progress) * mean(paces.get(run.experiment, [any_pace]))
        for run in runs
        if run.state in ("waiting", "running")
    ]
    return max(sum(left) / parallel, max(left, default=0.0))


@contextmanager
def live_table(console: Console) -> Iterator[Callable]:
    """Yield a function that shows runs and the time left in a table that stays in its place."""
    with Live(console=console, auto_refresh=False) as live:
        yield lambda runs, left: live.update(progress_table(runs, left), refresh=True)


class News:
    """Prints a line for each run whose state, or newest evaluation, has changed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: dict[Path, tuple] = {}

    def __call__(self, runs: Sequence[Run], left: float | None) -> None:
        for run in runs:
            news = (run.state, run.metrics.get(FIRST_TURN))
            if run.state != "waiting" and self._said.get(run.workdir) != news:
                self._said[run.workdir] = news
                self._console.print(
                    f"{run.experiment} seed {run.seed}: {run.state}, {run.progress:.0%} of the budget, held-out Acc@1 "
                    f"{share(news[1])}, {duration(left)} left for all"
                )


def progress_table(runs: Sequence[Run], left: float | None) -> Table:
    """How far each run is."""
    table = Table("experiment", "seed", "state", "budget", "step", "verifications", "Acc@1", box=box.SIMPLE_HEAD)
    table.caption = f"{duration(left)} left; Ctrl-C saves and stops, the same command goes on"
    for run in runs:
        step, verifications = run.metrics.get("step", 0), run.metrics.get("total/verifications", 0)
        accuracy = share(run.metrics.get(FIRST_TURN))
        table.add_row(
            run.experiment, str(run.seed), run.state, f"{run.progress:.0%}", str(step), f"{verifications:,}", accuracy
        )
    return table


def results(runs: Sequence[Run]) -> Table:
    """One row an experiment, over the seeds that are complete: mean, and lowest to highest where there are several."""
    turns = max(run.config.evaluation.max_turns for run in runs)
    table = Table("experiment", "seeds", "Acc@1", f"Acc@{turns}", "steps", "verifications", "tokens", "minutes")
    table.box, table.title = box.SIMPLE_HEAD, "held-out accuracy when the budget was spent"
    for experiment in dict.fromkeys(run.experiment for run in runs):
        done = [run.metrics for run in runs if run.experiment == experiment and run.state == "complete"]
        columns = [
            (FIRST_TURN, share),
            (f"eval/heldout/acc@{turns}", share),
            ("step", "{:,.0f}".format),
            ("total/verifications", "{:,.0f}".format),
            ("total/response_tokens", "{:,.0f}".format),
            ("total/train_seconds", lambda seconds: f"{seconds / 60:.1f}"),
        ]
        cells = [spread([metrics[name] for metrics in done if name in metrics], form) for name, form in columns]
        table.add_row(experiment, str(len(done)), *cells)
    return table


def spread(values: Sequence[float], form: Callable[[float], str]) -> str:
    """ "52.1 % (50.0 % to 54.2 %)" """
    if not values:
        return "-"
    if len(values) == 1:
        return form(values[0])
    return f"{form(mean(values))} [{form(min(values))}, {form(max(values))}]"


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def duration(seconds: float | None) -> str:
    """ "1:05" hours and minutes, "?" where it is not known."""
    return "?" if seconds is None else f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02}"


if __name__ == "__main__":
    sys.exit(main())
