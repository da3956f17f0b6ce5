"""Running CUDA source on the emulator, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from leap_jax.kernels.compiler import compile_source
from leap_jax.kernels.emulator.counters import LaunchCounters
from leap_jax.kernels.emulator.machine import Limits, Program, launch, prepare
from leap_jax.kernels.emulator.memory import GlobalMemory, Pointer
from leap_jax.kernels.emulator.ptx import parse

LIMITS = Limits(instructions_per_thread=1_000_000, seconds=30.0)
POISON = 0x7FC12345


@dataclass(frozen=True)
class Out:
    """An undefined buffer that a kernel is to fill."""

    dtype: type
    count: int


@dataclass
class Run:
    outputs: list[np.ndarray]
    defined: list[np.ndarray]
    modified: list[bool]  # of the inputs
    counters: LaunchCounters


@lru_cache(maxsize=256)
def program_of(source: str) -> Program:
    """A prepared program, from CUDA or PTX."""
    ptx = source if source.startswith(".version") else compile_source(source).ptx
    return prepare(parse(ptx))


def run(
    source: str,
    args: Sequence[np.ndarray | np.generic | Out],
    *,
    grid: int | tuple[int, ...] = 1,
    block: int | tuple[int, ...] = 32,
    shared: int = 0,
    limits: Limits = LIMITS,
    kernels: Sequence[str] = ("kernel",),
) -> Run:
    """Launches kernels in turn on the same arguments: arrays are inputs, Out are outputs, NumPy scalars go by value."""
    memory = GlobalMemory()
    passed: list[np.generic | Pointer] = []
    for position, arg in enumerate(args):
        if isinstance(arg, np.generic):
            passed.append(arg)
        elif isinstance(arg, Out):
            passed.append(memory.allocate(f"out{position}", np.dtype(arg.dtype), arg.count, writable=True))
            memory.fill(passed[-1], POISON)
        else:
            passed.append(memory.allocate(f"in{position}", arg.dtype, arg.size, writable=False))
            memory.write(passed[-1], arg)
    for kernel in kernels:
        counters = launch(
            program_of(source), memory, kernel, _three(grid), _three(block), shared, passed, limits=limits
        )
    outputs = [p for p, a in zip(passed, args, strict=True) if isinstance(a, Out)]
    inputs = [p for p, a in zip(passed, args, strict=True) if isinstance(a, np.ndarray)]
    return Run(
        [memory.read(p) for p in outputs],
        [memory.defined(p) for p in outputs],
        [memory.modified(p) for p in inputs],
        counters,
    )


def ptx_kernel(parameters: str, body: str, functions: str = "") -> str:
    """A PTX module with one kernel; `parameters` as `.param .u64 x, ...`."""
    header = ".version 9.0\n.target sm_90\n.address_size 64\n"
    return f"{header}{functions}\n.visible .entry kernel({parameters}) {{\n{body}\n}}"


def _three(extent: int | tuple[int, ...]) -> tuple[int, int, int]:
    extent = extent if isinstance(extent, tuple) else (extent,)
    return (*extent, *(1,) * (3 - len(extent)))
