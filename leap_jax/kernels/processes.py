"""Child processes that neither outlive their parent nor leave children of their own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys

REAP_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Let SIGKILL end this process when the thread that started it ends; at once if that has happened."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        sys.exit()


def kill_group(process: subprocess.Popen) -> bool:
    """SIGKILL to the process group; whether the process is gone. One that is not (uninterruptible) is not awaited."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(REAP_SECONDS)
    return process.returncode is not None
