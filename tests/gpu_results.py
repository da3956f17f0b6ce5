"""A pytest plugin: the results of a session, with what its tests recorded, as gpu-results.json."""

from __future__ import annotations

import dataclasses
import json
import platform
from pathlib import Path

from leap_jax.kernels.compiler import compiler_version
from leap_jax.kernels.gpu import choice
from leap_jax.kernels.gpu.session import find_gpus

FILE = Path("gpu-results.json")
_results: list[dict] = []


def pytest_runtest_logreport(report):
    """One entry a test: when it was called, or where it was skipped or failed before that."""
    if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
        reason = {"reason": str(report.longrepr)[-2000:]} if report.outcome != "passed" else {}
        entry = {"test": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 3)}
        _results.append(entry | reason | dict(report.user_properties))


def pytest_sessionfinish():
    missing = choice.missing()
    gpus = [] if missing else [dataclasses.asdict(gpu) for gpu in find_gpus()]
    host = {"python": platform.python_version(), "compiler": compiler_version(), "gpus": gpus, "missing": missing}
    FILE.write_text(json.dumps(host | {"results": _results}, indent=1) + "\n")


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"results: {FILE}")
