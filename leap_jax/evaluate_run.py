"""Score a checkpoint of a run folder, once: what came of it is kept in RUN/eval/ and read from there next time."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from absl import logging
from ml_collections import ConfigDict

from leap_jax import assemble, run_folder
from leap_jax.checkpoint import CheckpointError, write_text
from leap_jax.config import validate
from leap_jax.evaluate import Results, by_kind, evaluate, ratios, scores, speeds, to_results
from leap_jax.initial_policy import initial_policy, policy_key
from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.pool import VerificationPool
from leap_jax.reading import json_lines
from leap_jax.statistics import Interval, interval
from leap_jax.task_sets import task_names
from leap_jax.train import open_checkpoints, refuse_infra_errors, require_working

LONGEST_NAME = 60  # characters of a list of tasks in a file's name


@dataclass(frozen=True)
class Settings:
    """What is asked of a checkpoint; temperature 0 is greedy."""

    tasks: str  # see task_sets.task_names
    samples: int
    max_turns: int
    temperature: float
    seed: int

    def name(self, step: int) -> str:
        """The name of an evaluation's files, such as step_000080.heldout-256.samples-8.turns-3.temperature-1.seed-0."""
        tasks = self.tasks.replace(":", "-").replace(",", "-")
        if len(tasks) > LONGEST_NAME:
            tasks = f"{tasks[: LONGEST_NAME // 2]}-{hashlib.sha256(tasks.encode()).hexdigest()[:8]}"
        return (
            f"step_{step:06d}.{tasks}.samples-{self.samples}.turns-{self.max_turns}"
            f".temperature-{self.temperature:g}.seed-{self.seed}"
        )


class Evaluation(NamedTuple):
    """A checkpoint's results under some settings."""

    workdir: Path
    step: int
    settings: Settings
    results: Results
    time_kind: str  # "measured" or "estimate": never compared with each other
    baseline_us: np.ndarray  # [N], NaN where the device gives no time

    def report(self) -> dict[str, Any]:
        """All numbers, ready for JSON: {"value", "low", "high"} each, null where there is none."""
        found = ratios(self.results)
        kinds = by_kind(self.results.tasks)
        accuracies = [name for name in found if name.startswith("acc@")]
        return {
            "step": self.step,
            "settings": asdict(self.settings),
            "tasks": len(self.results.tasks),
            "scores": {name: _numbers(interval(ratio)) for name, ratio in found.items()},
            "kinds": {
                kind: {"tasks": int(mask.sum())} | {n: _numbers(interval(found[n].of(mask))) for n in accuracies}
                for kind, mask in kinds.items()
            },
            "speed": {name: _numbers(value) for name, value in self.speeds().items()},
            "time_kind": self.time_kind,
            "baseline_us": [None if np.isnan(t) else t for t in self.baseline_us.tolist()],
        }

    def speeds(self) -> dict[str, Interval]:
        return speeds(self.results, self.baseline_us)


def evaluate_run(workdir: Path, config: ConfigDict, settings: Settings, step: str) -> Evaluation:
    """The evaluation of a step ("latest", "best" or its number): sampled and written, or read if it is there.

    What was written is read again only if it was made by the same code and config. Raises CheckpointError,
    ConfigError or train.RunError with one line that says what to do.
    """
    validate(config)
    number = _find_step(workdir, config, step)
    name, made_by = settings.name(number), {"code": policy_key(config), "settings": asdict(settings)}
    records_path, numbers_path = (workdir / "eval" / f"{name}{suffix}" for suffix in (".jsonl", ".json"))
    time_kind = "estimate" if config.kernels.device == "emulator" else "measured"
    written = _read_numbers(numbers_path)
    known = records_path.exists() and all(written.get(key) == value for key, value in made_by.items())
    if known:
        logging.info("%s, step %d: sampled before with these settings, read from eval/%s", workdir, number, name)
        records, baseline_us = list(json_lines(records_path)), np.array(written["baseline_us"], float)
    else:
        records, baseline_us = _sample(workdir, config, settings, number)
    try:
        results = to_results(records, settings.max_turns)
    except (KeyError, ValueError, IndexError) as error:
        raise CheckpointError(f"{records_path} is damaged ({error}): remove it, to sample again") from error
    evaluation = Evaluation(workdir, number, settings, results, time_kind, baseline_us)
    if not known:
        run_folder.write_evaluation(workdir, name, records)
        write_text(numbers_path, json.dumps(made_by | evaluation.report(), indent=1) + "\n")
    return evaluation


def evaluate_latest(config: ConfigDict, workdir: Path) -> None:
    """Score the latest checkpoint of the workdir on the config's held-out tasks and log every number."""
    limits = config.evaluation
    settings = Settings(
        f"heldout:{limits.tasks}", limits.samples, limits.max_turns, config.sampling.temperature, config.seed
    )
    evaluation = evaluate_run(workdir, config, settings, "latest")
    for name, value in scores(evaluation.results):
        logging.info("step %d  eval/heldout/%s = %.4f", evaluation.step, name, value)


def _find_step(workdir: Path, config: ConfigDict, step: str) -> int:
    """The number of a checkpoint that is there."""
    if not (workdir / "checkpoints").is_dir():
        raise CheckpointError(f"{workdir} has no checkpoints: train there first")
    with open_checkpoints(config, workdir, read_only=True) as checkpoints:
        steps, best = checkpoints.steps(), checkpoints.best_step
    if not steps:
        raise CheckpointError(f"{workdir} has no complete checkpoint: train there first")
    number = {"latest": steps[-1], "best": best}.get(step, int(step) if step.isdigit() else None)
    if number not in steps:
        raise CheckpointError(f"{workdir} has no checkpoint {step!r}: latest, best or one of {steps}")
    return number


def _sample(
    workdir: Path, config: ConfigDict, settings: Settings, step: int
) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Roll out; return the records of all turns and the baselines' times [N]."""
    tasks = task_names(settings.tasks)
    assemble.prepare_jax(config)
    assemble.report_devices(config)
    with assemble.pool(config) as pool:
        require_working(pool)
        policy = initial_policy(config, workdir, pool, lambda: None)
        with open_checkpoints(config, workdir, read_only=True) as checkpoints:
            state = checkpoints.restore(step, assemble.learner(config, policy).init(policy.params)).state
        sized = ConfigDict(config)  # the sizes of buffers change no result
        longest = max(len(policy.tokenizer.prompt_ids(load_task(task).prompt())) for task in tasks)
        with sized.unlocked():
            sized.sampling.max_prompt_tokens = max(config.sampling.max_prompt_tokens, longest)
            sized.evaluation.max_turns = settings.max_turns
            sized.sampling.temperature = settings.temperature
        logging.info("%s, step %d: %d tasks, %d samples of each", workdir, step, len(tasks), settings.samples)
        groups = evaluate(
            assemble.actor(sized, policy, pool),
            state.params,
            tasks,
            samples=settings.samples,
            max_turns=settings.max_turns,
            seed=settings.seed,
            step=step,
        )
        refuse_infra_errors(config, groups)
        records = run_folder.evaluation_records(step, groups, policy.tokenizer)
        return records, _baseline_times(pool, tasks, records)


def _baseline_times(pool: VerificationPool, tasks: list[str], records: list[dict[str, Any]]) -> np.ndarray:
    """The times [N] of the tasks' own baselines, where answers have times."""
    if all(record["time_us"] is None for record in records):
        return np.full(len(tasks), np.nan)
    verdicts = [pool.submit(task, load_task(task).baseline) for task in tasks]
    times = [verdict.result().time_us for verdict in verdicts]
    return np.array([np.nan if time is None else time for time in times])


def _read_numbers(path: Path) -> dict[str, Any]:
    """What an earlier evaluation wrote; {} where nothing (whole) is there."""
    try:
        written = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return written if isinstance(written, dict) else {}


def _numbers(found: Interval) -> dict[str, float | None]:
    return {name: value if np.isfinite(value) else None for name, value in found._asdict().items()}
