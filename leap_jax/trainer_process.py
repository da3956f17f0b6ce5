"""A run of `leap_jax.main` in a process of its own, which ends with the process that started it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PROGRAM = "leap_jax.main"
# The kernel sends the run SIGTERM when its parent dies, however that was (prctl PR_SET_PDEATHSIG; Linux).
_BOOT = (
    "import ctypes, runpy, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGTERM); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


class TrainerProcess:
    """Started at once, its output appended to `log`; a context manager that kills what still runs at its end."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._stopping = False
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, PROGRAM, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # a Ctrl-C on the terminal is for the parent to hand on, once
            )

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Ask it, once, to finish its step, save and leave."""
        if not self._stopping:
            self._stopping = True
            self._process.send_signal(signal.SIGINT)

    def last_line(self) -> str:
        """The last line that it wrote."""
        lines = self._log.read_text(errors="replace").strip().splitlines() or ["it wrote nothing"]
        return lines[-1].removeprefix("error: ")

    def __enter__(self) -> TrainerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.poll() is None:
            self._process.kill()
            self._process.wait()
