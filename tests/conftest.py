"""What all tests share: quickly built programs, one cold start, and the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SMOKE = "--config=experiments/leap.py:smoke"
# Test programs are small: building them is most of their time. Before JAX starts, and for child processes too.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory) -> Path:
    """The cache of cold starts and compiled programs that the tests of this session fill once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def launch(cache_dir) -> Callable[..., subprocess.CompletedProcess]:
    """Run `python -m leap_jax.main` (or a script in its place) with some flags, as a user would from a shell."""

    def run(*flags: str, script: tuple[str, ...] = ("-m", "leap_jax.main")) -> subprocess.CompletedProcess:
        cache = [f"--config.cache_dir={cache_dir}"] if any(f.startswith("--config=") for f in flags) else []
        command = [sys.executable, *script, *flags, *cache]
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        return subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, timeout=600
        )

    return run
