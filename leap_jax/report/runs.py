"""Runs as they were recorded, and the methods that they are seeds of."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leap_jax.reading import ReadError, Record, read_config, read_metrics
from leap_jax.report.evaluations import Evaluation, read_evaluation
from leap_jax.report.rollouts import Sample, Tally, groups

NOT_THE_METHOD = ("seed", "cache_dir")  # keys in which the runs of one method may differ
NUMBERS = ("seed", "steps", "group_size", "max_turns", "evaluation.samples")  # that this page reads in a config
SEED_ALONE = re.compile(r"(seed|s)?[-_]?\d+", re.IGNORECASE)  # seed_0: the experiment is the folder above
SEED_AT_END = re.compile(r"[-_.](seed|s)?[-_]?\d+$", re.IGNORECASE)  # leap-0, leap_seed1


@dataclass(frozen=True)
class Run:
    """One run folder. `problems` are the files that could not be read, a line each."""

    name: str  # its folder below the one that all runs of the page lie in
    path: Path
    config: dict[str, Any]
    records: list[Record]  # of metrics.jsonl
    tally: Tally  # of rollouts.jsonl
    sample: Sample
    evaluation: Evaluation | None  # the last one
    problems: list[str] = field(default_factory=list)

    @property
    def step(self) -> int:
        return self.records[-1]["step"] if self.records else 0

    @property
    def progress(self) -> float:
        """Share of the budget that is spent."""
        spent = self.records[-1].get("total/progress") if self.records else 0.0
        return self.step / self.config["steps"] if spent is None else spent


@dataclass(frozen=True)
class Method:
    """Runs of one name that differ in their seed only."""

    name: str
    runs: list[Run]

    @property
    def config(self) -> dict[str, Any]:
        return self.runs[0].config


def read_run(path: Path, *, keep_rollouts: int, name: str = "") -> Run:
    """Read a run folder, and of its rollouts about `keep_rollouts` texts. ReadError where it is none."""
    config = read_config(path)
    for key in NUMBERS:
        if type(config.get(key)) is not int:
            raise ReadError(f"{path / 'config.json'}: no number {key}")
    problems: list[str] = []
    records: list[Record] = []
    try:
        records.extend(read_metrics(path))
    except ReadError as error:
        problems.append(str(error))
    tally = Tally(config["max_turns"])
    sample = Sample(max(1, keep_rollouts * 3 // 4 // config["group_size"]))
    try:
        for group in groups(path / "rollouts.jsonl") if any(r["step"] > 0 for r in records) else ():
            tally.add(group)
            sample.offer(group)
    except ReadError as error:
        problems.append(str(error))
    evaluation = None
    for file in sorted((path / "eval").glob(f"step_{6 * '[0-9]'}.jsonl"), reverse=True):
        try:
            evaluation = read_evaluation(file, keep_groups=max(1, keep_rollouts // 4 // config["evaluation.samples"]))
            break  # the last that can be read
        except ReadError as error:
            problems.append(str(error))
    return Run(name or path.name, path, config, records, tally, sample, evaluation, problems)


def methods(runs: Sequence[Run]) -> list[Method]:
    """Group runs by folder name without seed and by config; a name that several configs share tells them apart."""
    by_config: dict[tuple[str, tuple], list[Run]] = {}
    for run in runs:
        key = tuple(sorted((k, repr(v)) for k, v in run.config.items() if k not in NOT_THE_METHOD))
        by_config.setdefault((name_without_seed(run.path), key), []).append(run)
    found = []
    for (name, _), members in by_config.items():
        namesakes = [other[0].config for (theirs, _), other in by_config.items() if theirs == name]
        keys = differing_keys(namesakes)
        values = ", ".join(f"{key}={members[0].config.get(key)}" for key in keys)
        found.append(Method(f"{name} ({values})" if keys else name, members))
    return found


def differing_keys(configs: Sequence[dict[str, Any]]) -> list[str]:
    """The keys, seeds aside, that the configs disagree in."""
    keys = sorted(set().union(*configs) - set(NOT_THE_METHOD))
    return [key for key in keys if any(config.get(key) != configs[0].get(key) for config in configs)]


def name_without_seed(path: Path) -> str:
    """`leap` for runs/leap-0, runs/leap_seed1 and runs/leap/seed_2."""
    path = path.absolute()
    return path.parent.name if SEED_ALONE.fullmatch(path.name) else SEED_AT_END.sub("", path.name) or path.name


def short_names(paths: Sequence[Path]) -> list[str]:
    """`leap/seed_0` for runs that lie in one folder: what tells them apart, and nothing of where they lie."""
    above = os.path.commonpath([path.absolute().parent for path in paths])
    return [os.path.relpath(path.absolute(), above) for path in paths]
