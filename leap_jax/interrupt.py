"""Ctrl-C once: finish the step, save and leave. Twice: leave at once."""

from __future__ import annotations

import signal
from types import FrameType

from absl import logging


class Interrupted(Exception):
    """The user asked to stop where nothing needs to be finished."""


class Interrupt:
    """Catches SIGINT and SIGTERM while open; `requested` turns True at the first, the second has its usual effect."""

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> Interrupt:
        self._previous = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise Interrupted if a stop was requested."""
        if self.requested:
            raise Interrupted

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.requested = True
        signal.signal(number, signal.SIG_DFL)
        logging.warning("stopping after this step; press Ctrl-C again to stop at once")
