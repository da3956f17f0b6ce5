"""The compile service under a mixed load from several clients: `python -m tests.benchmarks.soak [COMPILES] [CLIENTS]`.

By default 2,000 compiles from 4 clients, each a process with its own compiler child, as verification workers are:
good sources, wrong ones, small bombs, and children killed from outside. Exit status 1 if an answer was not as
expected or something was left behind.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from leap_jax.kernels import compiler
from leap_jax.kernels.compiler import CompileError, CompilerUnavailable, compile_source

COMPILES, CLIENTS = 2000, 4
PATIENCE, SHORT = 60.0, 0.3  # seconds for a compile that should end, and for one that never does
GROWTH = 1.10  # of memory, from the second quarter to the last

KERNEL = 'extern "C" __global__ void kernel(float* y) '
GOOD = KERNEL + "{{ float s = 0; for (int i = 0; i < {0}; i++) s += y[i * {0}]; y[threadIdx.x] = s; }}"
INCLUDING = "#include <cuda_fp16.h>\n" + KERNEL + "{{ y[{0}] = __half2float(__float2half(y[0])); }}"
WRONG = KERNEL + "{{ y[{0}] = undefined_{0}; }}"
FLOOD = "".join(f"x{i};" for i in range(2000)) + "int y{0};"
RECURSION = "template <int N> struct S {{ static const int v = S<N + 1>::v; }};\n" + KERNEL + "{{ y[{0}] = S<0>::v; }}"
BOMB = (
    "template <int D, long P> struct B {{ static const long v = B<D - 1, 2 * P>::v + B<D - 1, 2 * P + 1>::v; }};\n"
    "template <long P> struct B<0, P> {{ static const long v = P; }};\n" + KERNEL + "{{ y[{0}] = B<30, 1>::v; }}"
)


@dataclass(frozen=True)
class Report:
    """What all clients saw. memory: mean bytes of a client with its child, by quarter of the run."""

    compiles: int
    seconds: float
    unexpected: tuple[str, ...]
    children: int
    zombies: int
    survivors: int
    descriptors: int  # more open at the end than after the first compile
    files: tuple[str, ...]
    memory: tuple[float, ...]

    def problems(self) -> list[str]:
        """Say what is wrong, but for memory, which only a long run can tell."""
        found = list(self.unexpected)
        for what in ("zombies", "survivors", "descriptors", "files"):
            if left := getattr(self, what):
                found.append(f"{what} left: {left}")
        return found

    def growth(self) -> float:
        return self.memory[3] / self.memory[1]


def run(compiles: int, clients: int) -> Report:
    """Send the load and gather what the clients report."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        jobs = [(client, clients, compiles, folder) for client in range(clients)]
        with ProcessPoolExecutor(clients, multiprocessing.get_context("spawn")) as pool:
            seen = list(pool.map(_client, jobs))
        names = {path.name for path in Path(folder).rglob("*")} - {"cache"}
    expected_names = {name for client in seen for name in client["stored"]}
    quarters = [[size for client in seen for quarter, size in client["sizes"] if quarter == q] for q in range(4)]
    return Report(
        compiles=compiles,
        seconds=time.monotonic() - start,
        unexpected=tuple(text for client in seen for text in client["unexpected"]),
        children=sum(len(client["children"]) for client in seen),
        zombies=sum(client["zombies"] for client in seen),
        survivors=sum(Path(f"/proc/{pid}").exists() for client in seen for pid in client["children"]),
        descriptors=sum(client["descriptors"] for client in seen),
        files=tuple(names - expected_names),
        memory=tuple(map(statistics.fmean, quarters)),
    )


def _client(job: tuple[int, int, int, str]) -> dict:
    """Compile every `clients`-th source of the load."""
    client, clients, compiles, folder = job
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    seen = {"unexpected": [], "children": set(), "sizes": [], "stored": set()}
    compiler.compiler_version()
    compile_source(GOOD.format(compiles))
    descriptors = _open_files()
    for index in range(client, compiles, clients):
        source, seconds, want = _request(index)
        got = _outcome(source, seconds, Path(folder) / "cache")
        if want not in got:
            seen["unexpected"].append(f"{index}: {got!r}, not {want!r}")
        if got in ("compiled", "wrong"):
            seen["stored"].add(compiler._cache_key(compiler._screened(source)))
        compiler.compiler_version()  # a child that was lost is replaced, so that there is memory to measure
        child = compiler._child
        seen["children"].add(child.process.pid)
        seen["sizes"].append((4 * index // compiles, child.resident_bytes() + _resident()))
    seen["descriptors"] = max(_open_files() - descriptors, 0)
    seen["zombies"] = _zombies()
    compiler.close()
    return seen


def _request(index: int) -> tuple[str, float, str]:
    """The source of that number, its deadline, and the outcome it must have."""
    kind = index % 50
    if kind == 24:
        return BOMB.format(index), SHORT, "time limit"
    if kind == 49:
        os.kill(compiler._child.process.pid, signal.SIGKILL)
        return GOOD.format(index), PATIENCE, "compiled"
    text, want = {
        3: (WRONG, "wrong"),
        5: (INCLUDING, "compiled"),
        6: (WRONG, "wrong"),
        7: (FLOOD, "wrong"),
        8: (RECURSION, "wrong"),
    }.get(kind % 10, (GOOD, "compiled"))
    return text.format(index), PATIENCE, want


def _outcome(source: str, seconds: float, cache: Path) -> str:
    try:
        compile_source(source, timeout_seconds=seconds, cache_folder=cache)
    except CompileError as error:
        return "wrong" if error.diagnostics else error.message
    except CompilerUnavailable as error:
        return f"unavailable: {error}"
    return "compiled"


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _zombies() -> int:
    """Children of this process that nobody has reaped."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        count += state == "Z" and int(parent) == os.getpid()
    return count


def main() -> int:
    compiles, clients = (*map(int, sys.argv[1:]), *(COMPILES, CLIENTS)[len(sys.argv) - 1 :])
    report = run(compiles, clients)
    print(f"{report.compiles} compiles, {clients} clients, {report.children} children, {report.seconds:.0f} s")
    print("memory of a client with its child by quarter: " + ", ".join(f"{m / 2**20:.0f} MiB" for m in report.memory))
    print(f"last quarter over second: {report.growth():.3f} (at most {GROWTH})")
    problems = report.problems() + (["memory grows"] if report.growth() > GROWTH else [])
    print("\n".join(problems) if problems else "nothing lost, nothing left: no zombie, child, file or descriptor")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
