"""The process that verifies: (task name, response) in, a Verdict out, until its pipe ends.

Started by `pool` as `python -m leap_jax.kernels.worker FD PARENT_PID`. FD is one end of a socket pair;
messages are length-prefixed pickles (multiprocessing.Connection), so nothing that a kernel or the compiler
prints can be taken for a verdict. Never imports JAX.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.checks import Check, make_checks
from leap_jax.kernels.processes import die_with_parent
from leap_jax.kernels.verdict import Outcome, Verdict
from leap_jax.kernels.verification import Settings, verify

READY = "ready"
_KEPT_TASKS = 256  # tasks whose inputs and references stay in memory; a group asks for its task many times


def serve(judge: Callable[[str, str, Settings], Verdict], descriptor: int, parent_pid: int) -> None:
    """Answers requests with `judge(task_name, response, settings)` until the other end is closed.

    The first message holds the settings. Dies with its parent.
    """
    die_with_parent(parent_pid)
    os.set_inheritable(descriptor, False)
    with Connection(descriptor) as pipe:
        try:
            settings = pipe.recv()
            pipe.send(READY)
            while True:
                pipe.send(judge(*pipe.recv(), settings))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return


def judge(task_name: str, response: str, settings: Settings) -> Verdict:
    """The verdict; a fault of our own (or of a missing compiler) becomes infra_error with its traceback."""
    try:
        task, checks = _task_and_checks(task_name, settings)
        return verify(task, response, settings, checks)
    except Exception:
        return Verdict(Outcome.INFRA_ERROR, "worker", traceback.format_exc())


@functools.lru_cache(maxsize=_KEPT_TASKS)
def _task_and_checks(task_name: str, settings: Settings) -> tuple[object, tuple[Check, ...]]:
    task = load_task(task_name)
    return task, make_checks(task, settings.checks, settings.seed)


if __name__ == "__main__":
    serve(judge, int(sys.argv[1]), int(sys.argv[2]))
