"""Answers judged on a GPU that is not there: the real processes and protocol, and `pycuda_double` for the driver."""

from __future__ import annotations

import hashlib
import json
import os
import sys
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
from leap_jax.kernels.worker import judge, serve

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


def keep_ptx(folder: Path, compile_source=compile_source):
    """`compile_source` that also leaves the PTX where the double looks for it."""

    def compile_and_keep(*args, **options):
        compiled = compile_source(*args, **options)
        (folder / hashlib.sha256(compiled.cubin).hexdigest()).write_text(compiled.ptx)
        return compiled

    return compile_and_keep


@pytest.fixture
def double(tmp_path, monkeypatch):
    """The driver's double, healthy, with one GPU."""
    folder = tmp_path / tmp_path.name
    folder.mkdir()
    monkeypatch.setattr(verification, "compile_source", keep_ptx(folder))
    monkeypatch.setattr(protocol, "DRIVER", "pycuda_double")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    for name in ("CUDA_VISIBLE_DEVICES", "KERNELS_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    double = Double(folder, monkeypatch)
    double.set()
    yield double
    session.find_gpus.cache_clear()


if __name__ == "__main__":  # a worker of the pool
    protocol.DRIVER = "pycuda_double"
    verification.compile_source = keep_ptx(Path(json.loads(os.environ["LEAP_DOUBLE"])["folder"]))
    serve(judge, int(sys.argv[1]), int(sys.argv[2]))
