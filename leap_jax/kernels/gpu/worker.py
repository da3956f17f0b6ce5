"""The process on the GPU: holds one context for one answer, and answers requests until its pipe ends.

Started by `session` as `python -m leap_jax.kernels.gpu.worker FD PARENT_PID DRIVER_MODULE`. It knows neither what the
outputs must be nor the tolerance. After an error the context is of no use, so the process ends; it always ends with
`os._exit`, since cleaning up after a kernel can hang.
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys
import time
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any, NoReturn

import numpy as np

from leap_jax.kernels.gpu import measuring
from leap_jax.kernels.gpu.buffers import Buffer, blank, digest
from leap_jax.kernels.gpu.faults import classify
from leap_jax.kernels.gpu.loaded import Late, Loaded
from leap_jax.kernels.gpu.protocol import Describe, Facts, Failed, Measure, Open, Ran, Reply, Run
from leap_jax.kernels.processes import die_with_parent

PRINTF_BYTES = 64 << 10  # device prints are read by nobody


def main(descriptor: int, parent_pid: int, driver_module: str) -> None:
    die_with_parent(parent_pid)
    os.set_inheritable(descriptor, False)
    try:
        driver = importlib.import_module(driver_module)
        serve(Connection(descriptor), driver)
    finally:
        os._exit(1)


def serve(pipe: Connection, driver: Any) -> None:
    """Answers until the other end is closed, or the GPU failed; does not return."""
    kept: list[object] = []  # the lock and the context, for as long as this process lives
    current = [""]  # the kernel that an error would be of
    while True:
        try:
            nonce, request = pipe.recv()
        except (EOFError, ConnectionResetError):
            os._exit(0)
        try:
            if isinstance(request, Open):
                kept.append(recv_handle(pipe))
            reply = answer(driver, request, kept, current)
        except Late:
            _give_up(pipe, nonce, Failed("timeout", "the time limit is over", current[0]))
        except driver.Error as error:
            _give_up(pipe, nonce, classify(error, current[0]))
        pipe.send((nonce, reply))


def answer(driver: Any, request: object, kept: list[object], current: list[str]) -> Reply:
    """Carry out one request."""
    match request:
        case Describe():
            if request.visible is not None:
                os.environ["CUDA_VISIBLE_DEVICES"] = request.visible
            driver.init()
            return tuple(facts(driver, driver.Device(i)) for i in range(driver.Device.count()))
        case Open():
            os.environ["CUDA_VISIBLE_DEVICES"] = request.visible
            driver.init()
            device = driver.Device(0)
            kept.append(device.make_context())
            driver.Context.set_limit(driver.limit.PRINTF_FIFO_SIZE, PRINTF_BYTES)
            return facts(driver, device, free_bytes=driver.mem_get_info()[0])
        case Run():
            return run(driver, request, current)
        case Measure():
            return measuring.measure(driver, request, current)
    raise TypeError(f"unknown request {request!r}")


def _give_up(pipe: Connection, nonce: bytes, failed: Failed) -> NoReturn:
    """Say so and end, from within the handler of the error: past it buffers are freed, which waits for the kernel."""
    pipe.send((nonce, failed))
    os._exit(0)


def run(driver: Any, request: Run, current: list[str]) -> Ran:
    """One run of a program on memory of its own."""
    deadline = time.monotonic() + request.seconds
    rng = np.random.default_rng(request.seed)
    inputs = [Buffer(driver, name, array, rng) for name, array in request.inputs.items()]
    outputs = [blank(driver, what, rng) for what in request.outputs]
    scratch = [blank(driver, what, rng) for what in request.program.scratch]
    buffers = {buffer.name: buffer for buffer in itertools.chain(inputs, outputs, scratch)}
    Loaded(driver, request.program, current).run(buffers, deadline)
    read = {name: buffer.read() for name, buffer in buffers.items()}
    return Ran(
        outputs={b.name: read[b.name][0] for b in outputs},
        digests={b.name: digest(read[b.name][0]) for b in inputs},
        damage=tuple(itertools.chain.from_iterable(damage for _, damage in read.values())),
    )


def facts(driver: Any, device: Any, free_bytes: int = 0) -> Facts:
    """What the driver says of a device."""
    major, minor = device.compute_capability()

    def attribute(name: str) -> int:
        return device.get_attribute(getattr(driver.device_attribute, name))

    # kHz, two transfers a cycle, bits: bytes a microsecond
    bytes_per_us = attribute("MEMORY_CLOCK_RATE") * 2 * attribute("GLOBAL_MEMORY_BUS_WIDTH") / 8 / 1e3
    return Facts(
        name=device.name(),
        architecture=10 * major + minor,
        pci_bus_id=device.pci_bus_id(),
        total_bytes=device.total_memory(),
        free_bytes=free_bytes,
        l2_bytes=attribute("L2_CACHE_SIZE"),
        bytes_per_us=bytes_per_us,
        driver_version=driver.get_driver_version(),
        reaches_host=bool(attribute("PAGEABLE_MEMORY_ACCESS")),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
