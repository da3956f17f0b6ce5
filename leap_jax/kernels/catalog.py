"""Tasks by name."""

from __future__ import annotations

import functools
import importlib

from leap_jax.kernels import generator
from leap_jax.kernels.suite import SUITE
from leap_jax.kernels.task import Task

COMPOSED = "composed/"


@functools.lru_cache(maxsize=4096)
def load_task(name: str) -> Task:
    """The task of that name: of the suite ("softmax"), "composed/<seed>", or at a path ("pkg.module:attr").

    Raises KeyError with one clear line where there is no such task, TypeError where a path leads elsewhere.
    """
    if name.startswith(COMPOSED):
        seed = name.removeprefix(COMPOSED)
        if not seed.isascii() or not seed.isdigit():
            raise KeyError(f"{name!r}: a composed task is named {COMPOSED}<seed>, with a whole number")
        return generator.composed_task(generator.compose(int(seed)))
    if ":" in name:
        return _task_at(name)
    if name not in SUITE:
        raise KeyError(f"no task {name!r}; the suite has {', '.join(SUITE)}")
    return SUITE[name]


def _task_at(path: str) -> Task:
    module_name, _, attribute = path.partition(":")
    try:
        task = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise KeyError(f"no task at {path!r}: {error}") from error
    if not isinstance(task, Task):
        raise TypeError(f"{path!r} is a {type(task).__name__}, not a Task")
    return task
