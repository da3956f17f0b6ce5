"""Answers judged on a GPU that is not there: the real processes and protocol, and `pycuda_double` for the driver."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hand_tasks import ADD

from leap_jax.kernels import verification
from leap_jax.kernels.compiler import compile_source
from leap_jax.kernels.gpu import protocol, session
from leap_jax.kernels.task import Task
from leap_jax.kernels.verdict import Verdict
from leap_jax.kernels.verification import Settings, verify

SETTINGS = Settings(
    device="pycuda",
    compile_seconds=60.0,
    run_seconds=30.0,
    instructions_per_thread=20_000,
    threads_per_check=2**20,
    checks=4,
    seed=0,
)
SMALL_ADD = replace(ADD, timing_shape={"n": 500})


@dataclass
class Double:
    """The driver's double, and what it is told to do."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch

    def set(self, **options: object) -> None:
        """Options of `pycuda_double`, for processes that start from now on."""
        self.monkeypatch.setenv("LEAP_DOUBLE", json.dumps({"folder": str(self.folder)} | options))
        session.find_gpus.cache_clear()

    def verify(self, response: str, task: Task = SMALL_ADD, **settings: object) -> Verdict:
        return verify(task, response, replace(SETTINGS, **settings))


@pytest.fixture
def double(tmp_path, monkeypatch):
    folder = tmp_path / tmp_path.name
    folder.mkdir()

    def compile_and_keep(*args, **options):
        compiled = compile_source(*args, **options)
        (folder / hashlib.sha256(compiled.cubin).hexdigest()).write_text(compiled.ptx)
        return compiled

    monkeypatch.setattr(verification, "compile_source", compile_and_keep)
    monkeypatch.setattr(protocol, "DRIVER", "pycuda_double")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    double = Double(folder, monkeypatch)
    double.set()
    yield double
    session.find_gpus.cache_clear()
