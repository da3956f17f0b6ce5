"""A stand-in for the part of `pycuda.driver` that is called here, on top of the emulator.

Names, parameters and errors are those of PyCUDA 2026.1, read in its source (src/wrapper/wrap_cudadrv.cpp,
src/cpp/cuda.hpp, pycuda/driver.py). As on a GPU, a launch returns at once and what it did wrong shows in a later call,
then in every call; a kernel that never ends leaves its event undone for ever and blocks whoever waits in the driver.
A cubin says nothing to the emulator: its PTX lies in a folder, under the cubin's SHA-256.

LEAP_DOUBLE is JSON: {"folder": path, "faults": {call: what}, "devices": n, "clock_us": {kernel: microseconds}}.
What a call does instead of its work: "hang", "die", or [error class, text]; "call#3" means its third time only.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import json
import os
import signal
import struct
import sys
import time
from enum import IntEnum
from pathlib import Path

import numpy as np

from leap_jax.kernels.emulator.machine import Fault, Limits, launch, prepare
from leap_jax.kernels.emulator.memory import GlobalMemory, Pointer
from leap_jax.kernels.emulator.ptx import parse

SETTINGS = json.loads(os.environ["LEAP_DOUBLE"])
ATTRIBUTES = {
    "MEMORY_CLOCK_RATE": 1_000_000,  # kHz
    "GLOBAL_MEMORY_BUS_WIDTH": 64,
    "L2_CACHE_SIZE": 1 << 16,
    "PAGEABLE_MEMORY_ACCESS": 0,
}
# What an emulator's fault is on a GPU: an error, or nothing but a wrong result.
ERRORS = {
    "memory_fault": ("LogicError", "an illegal memory access was encountered"),
    "misaligned": ("LogicError", "misaligned address"),
    "stack": ("LogicError", "hardware stack error"),
    "trap": ("LaunchError", "unspecified launch failure"),
}
ENDLESS = ("timeout", "barrier")


class Error(Exception):
    pass


class MemoryError(Error):
    pass


class LogicError(Error):
    pass


class LaunchError(Error):
    pass


class RuntimeError(Error):
    pass


device_attribute = IntEnum("device_attribute", list(ATTRIBUTES))
function_attribute = IntEnum("function_attribute", ["MAX_DYNAMIC_SHARED_SIZE_BYTES"])
limit = IntEnum("limit", ["STACK_SIZE", "PRINTF_FIFO_SIZE", "MALLOC_HEAP_SIZE"])

_calls: collections.Counter[str] = collections.Counter()
_state: dict = {"initialised": False, "context": None, "error": None, "hung": False, "now_us": 0.0}
_memory = GlobalMemory()


def _injected(name: str) -> None:
    _calls[name] += 1
    faults = SETTINGS.get("faults", {})
    what = faults.get(f"{name}#{_calls[name]}", faults.get(name))
    if what == "hang":
        time.sleep(1000)
    elif what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what is not None:
        raise getattr(sys.modules[__name__], what[0])(f"{name} failed: {what[1]}")


def _call(name: str, *, needs_context: bool = True, waits: bool = False):
    """A driver call: faults on demand, sticky errors, and if it waits for the GPU no end before the kernels end."""

    def wrap(function):
        @functools.wraps(function)
        def called(*args, **kwargs):
            _injected(name)
            if needs_context and _state["context"] is None:
                raise LogicError(f"{name} failed: invalid device context")
            if _state["error"]:
                kind, text = _state["error"]
                raise getattr(sys.modules[__name__], kind)(f"{name} failed: {text}")
            if waits and _state["hung"]:
                time.sleep(1000)
            return function(*args, **kwargs)

        return called

    return wrap


@_call("cuInit", needs_context=False)
def init(flags=0):
    if "jax" in sys.modules:
        raise AssertionError("a process on the GPU imports no JAX")
    _state["initialised"] = True


def get_driver_version():
    return 13000


class Device:
    def __init__(self, number):
        if not _state["initialised"]:
            raise LogicError("cuDeviceGet failed: initialization error")
        if not 0 <= number < self.count():
            raise LogicError("cuDeviceGet failed: invalid device ordinal")
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        self._number = number if visible is None else _number(visible.split(",")[number])

    @staticmethod
    @_call("cuDeviceGetCount", needs_context=False)
    def count():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        return SETTINGS.get("devices", 1) if visible is None else len(visible.split(",")) if visible else 0

    def name(self):
        return f"Double {self._number}"

    def pci_bus_id(self):
        return f"{SETTINGS['folder'].rsplit('/', 1)[-1]}:0{self._number}:00.0"

    def compute_capability(self):
        return (9, 0)

    def total_memory(self):
        return 1 << 30

    @_call("cuDeviceGetAttribute", needs_context=False)
    def get_attribute(self, attr):
        return ATTRIBUTES[attr.name]

    @_call("cuCtxCreate", needs_context=False)
    def make_context(self, flags=0):
        _state["context"] = Context(self)
        return _state["context"]


def _number(name: str) -> int:
    return int(name) if name.isdigit() else int(name[-1])


class Context:
    def __init__(self, device):
        self._device = device

    @staticmethod
    @_call("cuCtxGetDevice")
    def get_device():
        return _state["context"]._device

    @staticmethod
    @_call("cuCtxSetLimit")
    def set_limit(limit, value):
        assert value > 0


@_call("cuMemGetInfo")
def mem_get_info():
    return (1 << 29, 1 << 30)


class DeviceAllocation:
    def __init__(self, pointer, size):
        self._pointer, self._size = pointer, size

    def __int__(self):
        return self._pointer.address

    __index__ = __int__

    def __del__(self):  # cuMemFree waits for all kernels
        if _state["hung"]:
            time.sleep(1000)


@_call("cuMemAlloc")
def mem_alloc(bytes):  # PyCUDA takes it by position only
    pointer = _memory.allocate("memory", np.dtype(np.uint8), bytes, writable=True)
    _memory.write(pointer, np.full(bytes, 0xA5, np.uint8))  # defined, as all memory of a GPU is
    return DeviceAllocation(pointer, bytes)


@_call("cuMemcpyHtoD", waits=True)
def memcpy_htod(dest, src):
    raw = np.ascontiguousarray(src).reshape(-1).view(np.uint8)
    _bytes_at(int(dest))[: raw.size] = raw


@_call("cuMemcpyDtoH", waits=True)
def memcpy_dtoh(dest, src):
    raw = dest.reshape(-1).view(np.uint8)
    raw[:] = _bytes_at(int(src))[: raw.size]


@_call("cuMemcpyDtoD", waits=True)
def memcpy_dtod(dest, src, size):
    _bytes_at(int(dest))[:size] = _bytes_at(int(src))[:size]


@_call("cuMemsetD8", waits=True)
def memset_d8(dest, data, size):
    _bytes_at(int(dest))[:size] = data


def _bytes_at(address: int) -> np.ndarray:
    allocation = _memory.space.find(address)
    return allocation.data[address - allocation.base : allocation.size]


class Event:
    @_call("cuEventCreate")
    def __init__(self, flags=0):
        self._us = None

    @_call("cuEventRecord")
    def record(self, stream=None):
        self._us = _state["now_us"]
        return self

    @_call("cuEventQuery")
    def query(self):
        return not _state["hung"]

    @_call("cuEventElapsedTime")
    def time_since(self, start):
        return (self._us - start._us) / 1e3


@_call("cuModuleLoadDataEx")
def module_from_buffer(buffer, options=(), message_handler=None):
    text = (Path(SETTINGS["folder"]) / hashlib.sha256(buffer).hexdigest()).read_text()
    return Module(_program(text), GlobalMemory(_memory.space))


@functools.lru_cache
def _program(ptx: str):
    return prepare(parse(ptx))


class Module:
    def __init__(self, program, memory):
        self._program, self._memory = program, memory

    def __del__(self):  # cuModuleUnload waits, too
        if _state["hung"]:
            time.sleep(1000)

    @_call("cuModuleGetFunction")
    def get_function(self, name):
        if name not in self._program.codes:
            raise LogicError("cuModuleGetFunction failed: named symbol not found")
        return Function(self, name)


class Function:
    def __init__(self, module, name):
        self._module, self._name = module, name

    @_call("cuFuncSetAttribute")
    def set_attribute(self, attr, value):
        if value > 227 << 10:
            raise LogicError("cuFuncSetAttribute failed: invalid argument")

    def prepare(self, arg_types, texrefs=None):
        self.arg_format = "".join(arg_types)
        return self

    def prepared_async_call(self, grid, block, stream, *args, **kwargs):
        shared_size = kwargs.pop("shared_size", 0)
        if kwargs:
            raise TypeError("unknown keyword arguments: " + ", ".join(kwargs))
        struct.pack(self.arg_format, *args)
        self._launch_kernel(grid, block, args, shared_size, stream)

    @_call("cuLaunchKernel")
    def _launch_kernel(self, grid, block, args, shared_size, stream):
        passed = [
            Pointer(value) if letter == "P" else np.frombuffer(struct.pack(letter, value), np.dtype(letter))[0]
            for letter, value in zip(self.arg_format, args, strict=True)
        ]
        limits = Limits(SETTINGS.get("instructions", 20_000), 20.0)
        try:
            launch(
                self._module._program, self._module._memory, self._name, grid, block, shared_size, passed, limits=limits
            )
        except Fault as fault:
            _state["error"] = ERRORS.get(fault.report.kind)
            _state["hung"] = fault.report.kind in ENDLESS
        jitter = SETTINGS.get("jitter", 0.0) * (_calls["cuLaunchKernel"] % 5)
        _state["now_us"] += SETTINGS.get("clock_us", {}).get(self._name, 10.0) * (1 + jitter)
