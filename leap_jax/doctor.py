"""Is this machine ready? `python -m leap_jax.doctor [--device=auto|pycuda|emulator]`.

Looks at everything that a run needs and says what to do about what is missing. Exit status: 0 ready, 1 not, 2 bad
usage. What only warns (a sandbox layer that does not hold, a GPU that is hot) does not keep a run from starting.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.compiler import CompilerUnavailable, compile_source, compiler_version, containment_warnings
from leap_jax.kernels.gpu import choice, health
from leap_jax.kernels.gpu.session import find_gpus
from leap_jax.kernels.gpu.slots import GpuError
from leap_jax.kernels.verdict import Outcome
from leap_jax.kernels.verification import Settings, verify

OK, WARNING, BAD = "ok", "warning", "BAD"
TASK = "relu"
# Writes nothing: passes only where what was there before is taken for an answer.
CHEAT = """```cuda
// launch: grid=(1) block=(1)
extern "C" __global__ void kernel(const float* x, float* y, int n) {}
```"""
NEEDED_BYTES = 4 << 30
DRIVER_FILES = "/dev/nvidiactl", "/dev/nvidia-uvm"
_REQUIREMENTS = Path(__file__).parents[1] / "requirements.txt"
_PINNED = re.compile(r"^([\w.-]+)==([\w.]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Finding:
    """state: OK, WARNING or BAD; advice: what to do, where there is something to do."""

    what: str
    state: str
    text: str
    advice: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="leap_jax.doctor", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", choices=("auto", "pycuda", "emulator"), default="auto", help="for the kernels")
    flags = parser.parse_args(arguments)
    ready = True
    for finding in examine(flags.device):
        ready &= finding.state != BAD
        sys.stdout.write(f"{finding.state:8}{finding.what}: {_printable(finding.text)}\n")
        if finding.advice:
            sys.stdout.write(f"{'':8}  -> {finding.advice}\n")
        sys.stdout.flush()
    sys.stdout.write("ready\n" if ready else "not ready\n")
    return 0 if ready else 1


def examine(device: str) -> Iterator[Finding]:
    """Everything that a run on that device (auto, pycuda, emulator) needs, cheap things first."""
    yield from packages(_REQUIREMENTS)
    yield memory()
    yield from compiler()
    yield from judging("emulator")
    reason = choice.missing()
    if device != "emulator" and not reason:
        yield from gpus()
        yield from judging("pycuda")
    elif device == "pycuda":
        yield Finding("GPU", BAD, reason, _driver_advice())
    elif device == "auto":
        yield Finding("GPU", OK, f"not used: {reason}")
    yield trainer()


def packages(requirements: Path) -> Iterator[Finding]:
    """Every pinned package, in the version that was tested."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", OK if sys.version_info >= (3, 11) else BAD, python)
    wrong = []
    try:
        pinned = _PINNED.findall(requirements.read_text())
    except OSError as error:
        yield Finding(
            "packages", BAD, f"cannot read {requirements.name}: {error.strerror}", "run from a whole checkout"
        )
        return
    for name, version in pinned:
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed = "missing"
        if installed != version:
            wrong.append((name, installed, version))
    if wrong:
        text = ", ".join(f"{name} is {installed}, {version} was tested" for name, installed, version in wrong)
        state = BAD if any(installed == "missing" for _, installed, _ in wrong) else WARNING
        yield Finding("packages", state, text, "pip install -r requirements.txt")
    else:
        yield Finding("packages", OK, f"all {len(pinned)} in the tested versions")


def memory() -> Finding:
    """Of the host: the policy, its optimiser and the workers share it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    text = f"{total / 2**30:.1f} GiB, {os.cpu_count()} cores"
    if total < NEEDED_BYTES:
        return Finding("memory", WARNING, text, "a default run takes 3 GiB: lower kernels.workers or the policy's size")
    return Finding("memory", OK, text)


def compiler() -> Iterator[Finding]:
    """NVRTC, and the layers of its sandbox."""
    try:
        yield Finding("compiler", OK, compiler_version())
    except CompilerUnavailable as error:
        yield Finding("compiler", BAD, str(error), "pip install -r requirements.txt")
        return
    warnings = containment_warnings()
    for line in warnings:
        yield Finding("sandbox", WARNING, line, "allow user namespaces and seccomp, or run in a machine of its own")
    if not warnings:
        yield Finding("sandbox", OK, "every layer holds")


def judging(device: str) -> Iterator[Finding]:
    """A known answer must pass on the device, and one that writes nothing must not."""
    task = load_task(TASK)
    settings = Settings(device, 20.0, 20.0, 100_000, 2**20, 6, 0)
    for what, response, wanted in (
        ("a good kernel", task.baseline, Outcome.CORRECT),
        ("a cheat", CHEAT, Outcome.INCORRECT),
    ):
        try:
            verdict = verify(task, response, settings)
        except (CompilerUnavailable, GpuError) as error:
            yield Finding(f"{what} on {device}", BAD, str(error), "see the lines above")
            continue
        time = f", {verdict.time_us:.1f} us" if verdict.time_us is not None else ""
        state = OK if verdict.outcome is wanted else BAD
        yield Finding(f"{what} on {device}", state, f"{verdict.outcome}{time}", "" if state == OK else "report this")


def gpus() -> Iterator[Finding]:
    """Each visible GPU: architecture, memory, clock."""
    for gpu in find_gpus():
        facts = gpu.facts
        what = f"GPU {gpu.visible}"
        driver = f"CUDA {facts.driver_version // 1000}.{facts.driver_version % 1000 // 10}"
        text = f"{facts.name}, sm_{facts.architecture}, {facts.total_bytes / 2**30:.0f} GiB, {driver}"
        try:
            compile_source('extern "C" __global__ void nothing() {}', architecture=facts.architecture)
        except CompilerUnavailable as error:
            yield Finding(
                what, BAD, f"{text}: {error}", "use another GPU (CUDA_VISIBLE_DEVICES), or kernels.device=emulator"
            )
            continue
        yield Finding(what, OK, text)
        if facts.reaches_host:
            advice = "load nvidia-uvm with uvm_disable_hmm=1, or trust the kernels that run"
            yield Finding(what, WARNING, "kernels can reach ordinary host memory of their process", advice)
        state = health.read(facts.pci_bus_id)
        if state is None:
            yield Finding(what, WARNING, "clock and temperature are not known", "pip install nvidia-ml-py")
        elif state.reasons:
            yield Finding(
                what, WARNING, f"the clock is held back: {', '.join(state.reasons)}", "cool it, or expect noise"
            )
        else:
            yield Finding(what, OK, f"{state.clock_mhz} MHz, {state.temperature_c} C")


def trainer() -> Finding:
    """Where JAX would train the policy."""
    try:
        import jax

        return Finding("JAX", OK, f"{jax.__version__} on {', '.join(map(str, jax.devices()))}")
    except (ImportError, RuntimeError) as error:
        return Finding("JAX", BAD, str(error), "pip install -r requirements.txt; or JAX_PLATFORMS=cpu")


def _driver_advice(exists: Callable[[str], bool] = os.path.exists) -> str:
    """The first thing on the way to a GPU that is not there."""
    if not exists("/proc/driver/nvidia/version"):
        return "install the NVIDIA driver (nvidia-smi must work), or set kernels.device=emulator"
    if absent := [path for path in DRIVER_FILES if not exists(path)]:
        return f"{absent[0]} is missing: in a container, start it with the NVIDIA runtime (--gpus all)"
    if closed := [path for path in DRIVER_FILES if not os.access(path, os.R_OK | os.W_OK)]:
        return f"no permission for {closed[0]}: add this user to its group"
    return "run ./launch.sh once on this machine, which installs pycuda"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


if __name__ == "__main__":
    sys.exit(main())
