"""A program in the driver's hands: its module, its kernels ready to launch, and waiting for them with a deadline."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from leap_jax.kernels.gpu.buffers import Buffer
from leap_jax.kernels.gpu.protocol import Launch, Program

FIRST_PAUSE_SECONDS = 20e-6
LONGEST_PAUSE_SECONDS = 2e-3


class Late(Exception):
    """The deadline passed while a kernel ran; it may run for ever."""


class Loaded:
    """current: a list whose one item is kept at the kernel that an error of the driver would be of."""

    def __init__(self, driver: Any, program: Program, current: list[str]):
        self._driver, self._program, self._current = driver, program, current
        self.load()

    def load(self) -> None:
        """(Re)load the module, which gives all its variables their initial values."""
        self._module = self._driver.module_from_buffer(self._program.cubin)
        self._functions = [self._function(launch) for launch in self._program.launches]
        self._current[0] = ""

    def refresh(self) -> None:
        """As `load`, where the program could have left anything behind."""
        if self._program.stateful:
            self.load()

    def run(self, buffers: Mapping[str, Buffer], deadline: float) -> None:
        """Launch all, waiting for each so that a fault is blamed on the right kernel. Raises Late."""
        for launch, function in zip(self._program.launches, self._functions, strict=True):
            self._launch(launch, function, buffers)
            done = self._driver.Event()
            done.record()
            wait(done, deadline)
        self._current[0] = ""

    def time(self, buffers: Mapping[str, Buffer], deadline: float) -> float:
        """Microseconds on the GPU from before the first launch to after the last. Raises Late."""
        start, end = self._driver.Event(), self._driver.Event()
        start.record()
        for launch, function in zip(self._program.launches, self._functions, strict=True):
            self._launch(launch, function, buffers)
        end.record()
        wait(end, deadline)
        self._current[0] = ""
        return 1e3 * end.time_since(start)

    def _launch(self, launch: Launch, function: Any, buffers: Mapping[str, Buffer]) -> None:
        self._current[0] = launch.kernel
        args = [buffers[a].pointer if isinstance(a, str) else a for a in launch.args]
        function.prepared_async_call(launch.grid, launch.block, None, *args, shared_size=launch.shared_bytes)

    def _function(self, launch: Launch) -> Any:
        self._current[0] = launch.kernel
        function = self._module.get_function(launch.kernel)
        if launch.shared_bytes:
            name = self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(name, launch.shared_bytes)
        return function.prepare(launch.formats)


def wait(event: Any, deadline: float) -> None:
    """Poll an event, ever more slowly; never block in the driver, which knows no deadline. Raises Late."""
    pause = FIRST_PAUSE_SECONDS
    while not event.query():
        if time.monotonic() >= deadline:
            raise Late
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
