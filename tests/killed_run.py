"""The real entry point, in a process that signals itself at a chosen moment.

    python tests/killed_run.py leap_jax.train:append_jsonl 2 SIGKILL --config=experiments/leap.py:smoke ...

Right after the second call of that function has returned, the process sends itself the signal (or several, with
commas between).
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import runpy
import signal
import sys
from collections.abc import Sequence

MAIN = "leap_jax.main"


def signal_self_after(target: str, call: int, signals: Sequence[signal.Signals]) -> None:
    """Replace the function `module:name` or `module:Class.name` by one that does the same and then signals."""
    module, _, path = target.partition(":")
    *classes, name = path.split(".")
    owner = functools.reduce(getattr, classes, importlib.import_module(module))
    original, calls = getattr(owner, name), itertools.count(1)

    @functools.wraps(original)
    def signalling(*args, **kwargs):
        result = original(*args, **kwargs)
        if next(calls) == call:
            for number in signals:
                os.kill(os.getpid(), number)
        return result

    setattr(owner, name, signalling)


if __name__ == "__main__":
    target, call, names, *arguments = sys.argv[1:]
    signal_self_after(target, int(call), [signal.Signals[name] for name in names.split(",")])
    sys.argv[1:] = arguments
    runpy.run_module(MAIN, run_name="__main__", alter_sys=True)
