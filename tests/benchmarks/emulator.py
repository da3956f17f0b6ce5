"""CPU time of the emulator on the kernel corpus: `python -m tests.benchmarks.emulator [repeats]`.

Two fixed kernels, then each of the corpus at the slowest check of its task: launches alone, with all checks on, medians
in CPU milliseconds (so that other work on the machine matters little). Then the slowest kernels.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leap_jax.kernels.answer import parse_answer, plan, scratch_sizes
from leap_jax.kernels.checks import Check, make_checks
from leap_jax.kernels.compiler import compile_source
from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.machine import Limits, Program, launch, prepare
from leap_jax.kernels.emulator.memory import GlobalMemory
from leap_jax.kernels.emulator.ptx import parse
from leap_jax.kernels.execution import execute
from leap_jax.kernels.task import Task

sys.path.insert(0, str(Path(__file__).parents[1]))
from test_kernel_corpus import KERNELS, SETTINGS, task_of

SLOWEST = 10


@dataclass(frozen=True)
class Row:
    """One kernel: medians over repeats of its slowest check."""

    name: str
    milliseconds: float
    prepare_ms: float


def run_check(program: Program, module: ir.Module, task: Task, answer, check: Check) -> None:
    signatures = {name: tuple(p.size_bytes for p in entry.params) for name, entry in module.entries.items()}
    sizes = scratch_sizes(answer, check.scalars)
    execute(
        program,
        plan(answer, task, check.scalars, signatures),
        task,
        check,
        [(s, sizes[s.name]) for s in answer.scratch],
        instructions_per_thread=SETTINGS.instructions_per_thread,
        deadline=time.monotonic() + 600.0,
    )


def measure(file: Path, repeats: int) -> Row:
    """The check that takes longest."""
    source = file.read_text()
    task = task_of(source)
    answer = parse_answer(f"```cuda\n{source}\n```\n", task)
    ptx = compile_source(answer.source, timeout_seconds=600.0).ptx
    start = time.process_time()
    module = parse(ptx)
    program = prepare(module)
    prepared = time.process_time() - start
    medians = []
    for check in make_checks(task, SETTINGS.checks, SETTINGS.seed):
        times = []
        for _ in range(repeats):
            start = time.process_time()
            run_check(program, module, task, answer, check)
            times.append(time.process_time() - start)
        medians.append(statistics.median(times))
    return Row(file.stem, 1e3 * max(medians), 1e3 * prepared)


MATMUL = """extern "C" __global__ void kernel(const float* a, const float* b, float* c, int n) {
  __shared__ float as[16][16], bs[16][16];
  int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * 16 + tx, row = blockIdx.y * 16 + ty;
  float sum = 0.0f;
  for (int base = 0; base < n; base += 16) {
    as[ty][tx] = a[row * n + base + tx];
    bs[ty][tx] = b[(base + ty) * n + col];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += as[ty][i] * bs[i][tx];
    __syncthreads();
  }
  c[row * n + col] = sum;
}"""
ADD = """extern "C" __global__ void kernel(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}"""


def figure(source: str, extent: int, n: int, grid: Sequence[int], block: Sequence[int], repeats: int) -> tuple:
    """(median CPU milliseconds, nanoseconds per lane-instruction) of a kernel of two inputs and one output."""
    program = prepare(parse(compile_source(source, timeout_seconds=600.0).ptx))
    data = np.random.default_rng(0).standard_normal(extent).astype(np.float32)
    times = []
    for _ in range(repeats):
        memory = GlobalMemory()
        pointers = [memory.allocate(name, np.float32, extent, writable=name == "c") for name in "abc"]
        for pointer in pointers[:2]:
            memory.write(pointer, data)
        start = time.process_time()
        counters = launch(
            program,
            memory,
            "kernel",
            tuple(grid),
            tuple(block),
            0,
            [*pointers, np.int32(n)],
            limits=Limits(10**6, 600.0),
        )
        times.append(time.process_time() - start)
    seconds = statistics.median(times)
    return 1e3 * seconds, 1e9 * seconds / counters.lane_instructions


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for name, source, extent, n, grid, block in (
        ("add of 65536", ADD, 65536, 65536, (256, 1, 1), (256, 1, 1)),
        ("tiled matmul 128x128x128", MATMUL, 128 * 128, 128, (8, 8, 1), (16, 16, 1)),
    ):
        milliseconds, nanoseconds = figure(source, extent, n, grid, block, repeats)
        print(f"{name:32} {milliseconds:8.1f} ms  {nanoseconds:6.2f} ns per lane-instruction")
    rows = sorted((measure(file, repeats) for file in KERNELS), key=lambda row: -row.milliseconds)
    print(f"\n{len(rows)} corpus kernels, slowest check of each, median of {repeats}; parse and prepare")
    for row in rows[:SLOWEST]:
        print(f"{row.name:32} {row.milliseconds:8.1f} ms  {row.prepare_ms:8.1f} ms")
    print(f"median {statistics.median(r.milliseconds for r in rows):.1f} ms")
    print(f"memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")


if __name__ == "__main__":
    main()
