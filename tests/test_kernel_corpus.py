"""Good kernels of every usual kind: right against fp64 at every shape of their task, without any false alarm.

tests/corpus/kernels/*.cu are answers whose first lines say which task they solve (`// task:`), and, where they compute
in less than f32, how near they come (`// tolerance: rtol atol`) and with which inputs (`// regimes:`). A run takes
a slice that changes from day to day; CORPUS=all takes every kernel, CORPUS=<number> the slice of that number.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import re
from pathlib import Path

import pytest
from corpus_tasks import TASKS

from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.feedback import feedback
from leap_jax.kernels.task import Task
from leap_jax.kernels.verdict import Outcome
from leap_jax.kernels.verification import Settings, verify

KERNELS = sorted((Path(__file__).parent / "corpus" / "kernels").glob("*.cu"))
SLICES = 8
SETTINGS = Settings("emulator", 60.0, 60.0, 200_000, 2**20, 4, 0)


def chosen(files: list[Path]) -> list[Path]:
    """The files of this run."""
    which = os.environ.get("CORPUS") or str(datetime.date.today().toordinal())
    return files if which == "all" else files[int(which) % SLICES :: SLICES]


def head(source: str, name: str) -> list[str]:
    """The words of a `// name:` line."""
    match = re.search(rf"^// {name}: (.*)$", source, re.MULTILINE)
    return match[1].split() if match else []


def task_of(source: str) -> Task:
    (name,) = head(source, "task")
    task = TASKS[name] if name in TASKS else load_task(name)
    if tolerance := head(source, "tolerance"):
        task = dataclasses.replace(task, rtol=float(tolerance[0]), atol=float(tolerance[1]))
    if regimes := head(source, "regimes"):
        task = dataclasses.replace(task, regimes=tuple(regimes))
    return task


@pytest.mark.parametrize("file", chosen(KERNELS), ids=lambda file: file.stem)
def test_kernel_is_right_and_raises_no_alarm(file):
    source = file.read_text()
    task = task_of(source)
    verdict = verify(task, f"```cuda\n{source}\n```\n", SETTINGS)
    assert verdict.outcome is Outcome.CORRECT, feedback(task, verdict, 2000)
    assert verdict.checks_total >= 3


def test_every_kernel_belongs_to_a_task_with_three_shapes():
    for file in KERNELS:
        task = task_of(file.read_text())
        assert len(task.public_shapes) + len(task.hidden_shapes) >= 3, file.name
    assert len(KERNELS) >= 60
