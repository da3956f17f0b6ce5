"""The GPUs that answers may run on, and the locks that give each to one answer at a time.

CUDA_VISIBLE_DEVICES is respected, MIG slices in it as well. The lock is a file, so that all processes of the host keep
to it; whoever runs on the GPU holds it until that process is gone, so a GPU with a process that cannot be killed is
never given out again.
"""

from __future__ import annotations

import fcntl
import os
import random
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from leap_jax.kernels.gpu.protocol import Facts

POLL_SECONDS = 0.02


class GpuError(RuntimeError):
    """The GPU, its driver or its process failed: nobody's answer is at fault."""


@dataclass(frozen=True)
class Gpu:
    """visible: the entry of CUDA_VISIBLE_DEVICES that shows it alone."""

    visible: str
    facts: Facts

    @property
    def lock_path(self) -> Path:
        slice_or_board = self.visible if self.visible.startswith("MIG-") else self.facts.pci_bus_id
        name = re.sub(r"[^\w.-]", "-", slice_or_board)
        return Path(tempfile.gettempdir()) / f"leap_jax-gpu-{name}.lock"


def names(visible: str | None, count: int) -> list[str]:
    """How to name each of the `count` GPUs in CUDA_VISIBLE_DEVICES, which is `visible` (None: not set) now."""
    if visible is None:
        return [str(i) for i in range(count)]
    return [entry.strip() for entry in visible.split(",")][:count]


def alike(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Those of the first one's architecture: an answer is compiled once, for whichever of them is free."""
    return tuple(gpu for gpu in gpus if gpu.facts.architecture == gpus[0].facts.architecture)


@contextmanager
def one_of(gpus: Sequence[Gpu], seconds: float) -> Iterator[tuple[Gpu, int]]:
    """A free GPU and the handle of its lock, within `seconds`. Raises GpuError."""
    deadline = time.monotonic() + seconds
    handles = {gpu: _open(gpu.lock_path) for gpu in random.sample(list(gpus), len(gpus))}
    try:
        yield _first_free(handles, deadline, seconds)
    finally:
        for handle in handles.values():
            os.close(handle)


def _first_free(handles: dict[Gpu, int], deadline: float, seconds: float) -> tuple[Gpu, int]:
    while True:
        for gpu, handle in handles.items():
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return gpu, handle
        if time.monotonic() >= deadline:
            names = ", ".join(str(gpu.lock_path) for gpu in handles)
            raise GpuError(f"no GPU was free within {seconds:g} s: another process holds {names}")
        time.sleep(POLL_SECONDS)


def _open(path: Path) -> int:
    """Another user's file will do: a lock needs no right to write."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except PermissionError:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
