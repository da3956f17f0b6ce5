"""Time of a warm compile, beside nvcc's and on two cores: `python -m tests.benchmarks.compile [ROUNDS]`.

All baseline answers of the suite, on one core, nothing remembered; `nvcc -cubin` of the same files in between
where nvcc exists; then the same work by one process and by two. CPU time too: on a busy machine it is what holds.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from leap_jax.kernels import compiler
from leap_jax.kernels.answer import extract_source
from leap_jax.kernels.suite import SUITE

TICKS = os.sysconf("SC_CLK_TCK")


def sources() -> list[str]:
    return [extract_source(task.baseline) for task in SUITE.values()]


def compile_once(source: str) -> None:
    compiler._memory.clear()
    compiler.compile_source(source, timeout_seconds=120)


def nvrtc_seconds(source: str, rounds: int) -> tuple[float, float]:
    """Wall (median) and CPU time (mean) of one warm compile."""
    compiler.compiler_version()  # starts a child if the last one has served its share
    child, before, walls = compiler._child, _cpu_seconds(), []
    for _ in range(rounds):
        start = time.perf_counter()
        compile_once(source)
        walls.append(time.perf_counter() - start)
    if compiler._child is not child:  # replaced on the way: its time is gone
        return nvrtc_seconds(source, rounds)
    return statistics.median(walls), (_cpu_seconds() - before) / rounds


def _cpu_seconds() -> float:
    """CPU time of the compiler child so far."""
    fields = Path(f"/proc/{compiler._child.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def nvcc_seconds(nvcc: str, source: str, folder: str) -> tuple[float, float]:
    """Wall and CPU time of one `nvcc -cubin`."""
    path = Path(folder) / "kernel.cu"
    path.write_text(source)
    before, start = os.times(), time.perf_counter()
    subprocess.run([nvcc, "-cubin", "-arch=sm_90", "-o", str(path.with_suffix(".cubin")), str(path)], check=True)
    wall, after = time.perf_counter() - start, os.times()
    return wall, sum(after[2:4]) - sum(before[2:4])


def throughput(workers: int, rounds: int) -> float:
    """Compiles a second of so many processes, once they are warm."""
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_compile_all, [1] * workers))
        start = time.perf_counter()
        done = sum(pool.map(_compile_all, [rounds] * workers))
        return done / (time.perf_counter() - start)


def _compile_all(rounds: int) -> int:
    work = sources() * rounds
    for source in work:
        compile_once(source)
    return len(work)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    cores, nvcc = os.sched_getaffinity(0), shutil.which("nvcc")
    os.sched_setaffinity(0, {min(cores)})  # the child inherits it
    answers = sources()
    compile_once(answers[0])
    ours, theirs = [], []  # wall and CPU time by file
    with tempfile.TemporaryDirectory() as folder:
        for source in answers:
            ours.append(nvrtc_seconds(source, rounds))
            if nvcc:
                theirs.append(nvcc_seconds(nvcc, source, folder))
    load = os.getloadavg()[0]
    print(f"{compiler.compiler_version()}, {len(answers)} baseline answers, {rounds} rounds, load {load:.1f}")
    for what, index in (("wall", 0), ("CPU", 1)):
        mine = statistics.median(seconds[index] for seconds in ours)
        print(f"warm compile, {what} median: {1e3 * mine:.0f} ms")
        if nvcc:
            other = statistics.median(seconds[index] for seconds in theirs)
            print(f"nvcc -cubin,  {what} median: {1e3 * other:.0f} ms, {other / mine:.1f}x")
    compiler.close()
    os.sched_setaffinity(0, cores)
    one, two = throughput(1, rounds), throughput(2, rounds)
    print(f"one worker {one:.1f} compiles/s, two {two:.1f}: {two / one:.2f}x on {len(cores)} cores")


if __name__ == "__main__":
    main()
