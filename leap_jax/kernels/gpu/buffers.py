"""Buffers on the GPU between zones of random bytes, so that a write past either end shows."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from leap_jax.kernels.gpu.protocol import Blank, Damage

ZONE_BYTES = 4096  # at least, before and after
STEP_BYTES = 256  # alignment that cuMemAlloc promises
STEPS = 16


class Buffer:
    """Exactly the bytes of `content`, at an offset into an allocation that no other run shares."""

    def __init__(self, driver: Any, name: str, content: np.ndarray, rng: np.random.Generator):
        self.name, self._driver = name, driver
        self._start = ZONE_BYTES + STEP_BYTES * int(rng.integers(STEPS))
        self._dtype, self._end = content.dtype, self._start + content.nbytes
        before, after = (np.frombuffer(rng.bytes(size), np.uint8) for size in (self._start, ZONE_BYTES))
        self._image = np.concatenate((before, np.ascontiguousarray(content).reshape(-1).view(np.uint8), after))
        self._allocation = driver.mem_alloc(self._image.size)
        self._copy: Any = None
        driver.memcpy_htod(self._allocation, self._image)

    @property
    def pointer(self) -> int:
        return int(self._allocation) + self._start

    def keep_a_copy(self) -> None:
        """Another allocation with the same bytes, from which `restore` takes them without the host."""
        self._copy = self._driver.mem_alloc(self._image.size)
        self._driver.memcpy_htod(self._copy, self._image)

    def restore(self) -> None:
        self._driver.memcpy_dtod(self._allocation, self._copy, self._image.size)

    def read(self) -> tuple[np.ndarray, tuple[Damage, ...]]:
        """The content now, flat, and what was changed around it."""
        now = np.empty_like(self._image)
        self._driver.memcpy_dtoh(now, self._allocation)
        changed = np.flatnonzero(now != self._image)
        before, after = changed[changed < self._start], changed[changed >= self._end]
        damage = [Damage(self.name, "before", self._start - int(before[-1]))] if before.size else []
        damage += [Damage(self.name, "after", int(after[0]) - self._end + 1)] if after.size else []
        return now[self._start : self._end].view(self._dtype), tuple(damage)


def blank(driver: Any, what: Blank, rng: np.random.Generator) -> Buffer:
    """A buffer that holds the poison of `what`."""
    dtype = np.dtype(what.dtype)
    return Buffer(driver, what.name, np.full(what.count, what.bits, f"u{dtype.itemsize}").view(dtype), rng)


def digest(array: np.ndarray) -> bytes:
    """SHA-256 of an array's bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8)).digest()
