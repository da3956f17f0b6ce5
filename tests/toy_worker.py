"""A worker for the pool's tests: the real protocol around a judge that does what the response says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from leap_jax.kernels.verdict import Outcome, Verdict
from leap_jax.kernels.worker import serve


def judge(task_name: str, response: str, settings: object) -> Verdict:
    command, _, value = response.partition(" ")
    match command:
        case "say":
            return Verdict(Outcome.CORRECT, "done", f"{task_name} {value} {settings}")
        case "pid":
            return Verdict(Outcome.CORRECT, "done", str(os.getpid()))
        case "infra":
            return Verdict(Outcome.INFRA_ERROR, "worker", value)
        case "nap":
            time.sleep(float(value))
            return Verdict(Outcome.CORRECT, "done", value)
        case "print":
            sys.stdout.write("correct\n" * 100_000)
            sys.stdout.flush()
            return Verdict(Outcome.INCORRECT, "compare", "printed")
        case "die":
            os._exit(7)
        case "die_once":
            _once(Path(value), lambda: os._exit(7))
            return Verdict(Outcome.CORRECT, "done", "second try")
        case "hang_once":
            _once(Path(value), lambda: time.sleep(1000))
            return Verdict(Outcome.CORRECT, "done", "second try")
        case "hang_with_child":
            child = subprocess.Popen(["sleep", "1000"])
            with Path(value).open("a") as file:
                file.write(f"{child.pid}\n")
            time.sleep(1000)
    raise ValueError(response)


def _once(mark: Path, action) -> None:
    if not mark.exists():
        mark.touch()
        action()


if __name__ == "__main__":
    serve(judge, int(sys.argv[1]), int(sys.argv[2]))
