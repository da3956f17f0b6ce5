"""One answer's use of a GPU, from the side that judges: this process never touches CUDA.

A process on the GPU (`worker`) does, for this answer only. It starts while the answer is compiled, takes a GPU when
one is free and runs what it is sent. It gets a deadline and this side a later one, after which it is killed with its
group. What it leaves behind, if it cannot be killed, is the lock of its GPU.
"""

from __future__ import annotations

import functools
import logging
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.reduction import send_handle
from pathlib import Path

import numpy as np

from leap_jax.kernels.answer import LaunchError, PlannedLaunch, ScalarArgument, Scratch
from leap_jax.kernels.checks import Check
from leap_jax.kernels.emulator.machine import Fault
from leap_jax.kernels.execution import Results, poison
from leap_jax.kernels.gpu import protocol, slots
from leap_jax.kernels.gpu.buffers import digest
from leap_jax.kernels.gpu.protocol import Blank, Describe, Facts, Failed, Launch, Measure, Measured, Open, Program, Ran
from leap_jax.kernels.gpu.slots import Gpu, GpuError
from leap_jax.kernels.processes import kill_group
from leap_jax.kernels.task import NUMPY_DTYPES, Task
from leap_jax.kernels.verdict import FaultReport

QUEUE_SECONDS = 20.0  # for a free GPU
START_SECONDS = 60.0  # of a process on the GPU; a driver that was idle takes seconds
GRACE_SECONDS = 10.0  # beyond the worker's own deadline; a busy host answers late
ATTEMPTS = 2
_ROOT = Path(__file__).parents[3]
_FORMATS = {"f32": "f", "f64": "d", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}


@dataclass(frozen=True)
class Planned:
    """A compiled answer at one shape; `scratch` pairs a buffer with its element count."""

    cubin: bytes
    stateful: bool
    launches: Sequence[PlannedLaunch]
    scratch: Sequence[tuple[Scratch, int]]

    def program(self, rng: np.random.Generator) -> Program:
        """As the process on the GPU takes it, with poison of this run."""
        scratch = tuple(Blank(s.name, NUMPY_DTYPES[s.dtype].name, n, poison(s.dtype, rng)) for s, n in self.scratch)
        return Program(self.cubin, tuple(map(_launch, self.launches)), scratch, self.stateful)


class Session:
    """A context manager; processes start and end as they are needed. Not thread-safe.

    Its methods raise Fault and LaunchError for what an answer does wrong, GpuError for everything else.
    """

    def __init__(self, gpus: Sequence[Gpu]):
        if not gpus:
            raise GpuError("no NVIDIA GPU is visible; set kernels.device=emulator")
        self._gpus = slots.alike(gpus)
        self._held = ExitStack()  # the lock
        self._gpu: Gpu | None = None
        self._process: _Process | None = None

    @property
    def architecture(self) -> int:
        return self._gpus[0].facts.architecture

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the process, so that it is there when it is needed."""
        if self._process is None:
            self._process = _Process()

    def open(self) -> None:
        """Take a GPU and make its process ready, unless it is; what waits for it counts against no answer."""
        failures = []
        for _ in range(ATTEMPTS):
            gpu = self.gpu
            self.start()
            try:
                if not self._process.opened:
                    self._process.open(gpu, self._lock)
                return
            except _Died as error:
                self._end_process()
                failures.append(str(error))
        raise GpuError(f"{gpu.facts.name}: {'; '.join(failures)}")

    def close(self) -> None:
        """End the process and give the GPU back. Safe to call twice."""
        self._end_process()
        self._held.close()
        self._gpu = None

    def run(
        self,
        cubin: bytes,
        stateful: bool,
        launches: Sequence[PlannedLaunch],
        task: Task,
        check: Check,
        scratch: Sequence[tuple[Scratch, int]],
        *,
        deadline: float,
    ) -> Results:
        """One check, run twice: on other addresses, between other bytes, over another poison.

        An element is unwritten if it held the poison both times. `deadline` is of time.monotonic.
        """
        started = time.monotonic()
        self.open()
        deadline += time.monotonic() - started
        runs, poisons = [], []
        for attempt in range(2):
            rng = np.random.default_rng((*check.poison_seed, attempt, secrets.randbits(63)))
            program = Planned(cubin, stateful, launches, scratch).program(rng)
            outputs = blank_outputs(task, check, rng)
            request = protocol.Run(
                program, dict(check.inputs), outputs, secrets.randbits(63), max(deadline - time.monotonic(), 0.0)
            )
            ran = self._ask(request, request.seconds)
            refuse_damage(ran.damage)
            runs.append(ran)
            poisons.append({blank.name: blank.bits for blank in outputs})
        shapes = {name: wanted.shape for name, wanted in check.wanted.items()}
        first, again = ({n: ran.outputs[n].reshape(shape) for n, shape in shapes.items()} for ran in runs)
        defined = {
            name: np.logical_or(*(_bits(o[name]) != p[name] for o, p in zip((first, again), poisons, strict=True)))
            for name in shapes
        }
        return Results(first, defined, modified_inputs(check.inputs, [ran.digests for ran in runs]), again)

    def measure(self, request: Measure) -> Measured:
        """Samples of a timing."""
        return self._ask(request, request.seconds)

    @property
    def gpu(self) -> Gpu:
        """The GPU that this session holds, or first takes now."""
        if self._gpu is None:
            self._gpu, self._lock = self._held.enter_context(slots.one_of(self._gpus, QUEUE_SECONDS))
        return self._gpu

    def _ask(self, request: protocol.Run | Measure, seconds: float) -> Ran | Measured:
        """The reply of a healthy process; one that died of nothing the answer did is replaced once."""
        failures = []
        for _ in range(ATTEMPTS):
            self.open()
            try:
                reply = self._process.ask(request, seconds + GRACE_SECONDS)
            except _Died as error:
                self._end_process()
                failures.append(str(error))
                continue
            except _Overdue:  # its own deadline did not end it: the driver does not answer
                self._end_process()
                raise Fault(FaultReport("timeout", f"the GPU did not answer within {seconds:.3g} seconds")) from None
            if not isinstance(reply, Failed):
                return reply
            self._end_process()  # whatever failed, its context is not to be trusted
            match reply.kind:
                case "launch":
                    raise LaunchError(f"{reply.kernel}: {reply.message}")
                case "driver" | "memory":
                    failures.append(reply.message)
                case kind:
                    raise Fault(FaultReport(kind, reply.message, reply.kernel))
        raise GpuError(f"{self.gpu.facts.name}: {'; '.join(failures)}")

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None and not process.end():
            logging.getLogger(__name__).error(
                "process %d on %s cannot be killed: the GPU stays locked until it is gone (%s)",
                process.pid,
                self._gpu.facts.name if self._gpu else "no GPU",
                self._gpu.lock_path if self._gpu else "",
            )


class _Died(Exception):
    """The process ended without a reply, or does not open its GPU."""


class _Overdue(Exception):
    """The process did not reply in time."""


class _Process:
    """A process on the GPU and this end of its pipe."""

    def __init__(self) -> None:
        self._pipe, theirs = Pipe()
        command = (sys.executable, "-m", "leap_jax.kernels.gpu.worker")
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(os.getpid()), protocol.DRIVER],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # kernels print there
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=_environment(),
            )
        self.pid, self.opened = self._process.pid, False

    def open(self, gpu: Gpu, lock: int) -> None:
        """Take the GPU, and its lock for as long as the process lives. Raises _Died."""
        try:
            reply = self.ask(Open(gpu.visible), START_SECONDS, handle=lock)
        except _Overdue as error:
            raise _Died(f"no context on {gpu.facts.name} within {START_SECONDS:g} s") from error
        if isinstance(reply, Failed):
            raise _Died(reply.message)
        self.opened = True

    def ask(self, request: object, seconds: float, handle: int | None = None) -> protocol.Reply:
        """The reply to a request. Raises _Died and _Overdue."""
        nonce = secrets.token_bytes(16)
        try:
            self._pipe.send((nonce, request))
            if handle is not None:
                send_handle(self._pipe, handle, self.pid)
            if not self._pipe.poll(seconds):
                raise _Overdue
            echoed, reply = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise _Died(f"the process on the GPU died ({self._exit_status()})") from error
        if not secrets.compare_digest(echoed, nonce):
            raise _Died("the process on the GPU answered another request")
        return reply

    def end(self) -> bool:
        """Kill the process group; whether it is gone."""
        gone = kill_group(self._process)
        self._pipe.close()
        return gone

    def _exit_status(self) -> str:
        try:
            return f"exit status {self._process.wait(1.0)}"
        except subprocess.TimeoutExpired:
            return "still running"


@functools.cache
def find_gpus() -> tuple[Gpu, ...]:
    """The GPUs that KERNELS_VISIBLE_DEVICES lets see, or else CUDA_VISIBLE_DEVICES, which also hides them from JAX.

    Raises GpuError where the driver cannot be asked.
    """
    visible = os.environ.get("KERNELS_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    if visible is not None and "MIG-" in visible:  # CUDA shows a process one slice only
        names = [name.strip() for name in visible.split(",")]
        return tuple(Gpu(name, facts) for name in names for facts in _describe(name))
    facts = _describe(visible)
    return tuple(Gpu(name, f) for name, f in zip(slots.names(visible, len(facts)), facts, strict=True))


def _describe(visible: str | None) -> tuple[Facts, ...]:
    process = _Process()
    try:
        reply = process.ask(Describe(visible), START_SECONDS)
    except (_Died, _Overdue) as error:
        raise GpuError(f"cannot ask {protocol.DRIVER} for GPUs: {str(error) or 'no answer'}") from error
    finally:
        process.end()
    if isinstance(reply, Failed):
        raise GpuError(f"cannot ask {protocol.DRIVER} for GPUs: {reply.message}")
    return reply


def modified_inputs(inputs: dict[str, np.ndarray], digests: Sequence[dict[str, bytes]]) -> tuple[str, ...]:
    """Names of the inputs that are not what was uploaded, in any of the runs."""
    return tuple(n for n, array in inputs.items() if any(run[n] != digest(array) for run in digests))


def blank_outputs(task: Task, check: Check, rng: np.random.Generator) -> tuple[Blank, ...]:
    """The outputs of a check before anything is written to them, with poison of this run."""
    return tuple(
        Blank(p.name, NUMPY_DTYPES[p.dtype].name, check.wanted[p.name].size, poison(p.dtype, rng))
        for p in task.params_with("out")
    )


def refuse_damage(damage: Sequence[protocol.Damage]) -> None:
    """Raises Fault for a write outside the buffers."""
    for d in damage:
        side = "before the start" if d.side == "before" else "past the end"
        raise Fault(FaultReport("memory_fault", f"invalid global write: {d.distance} bytes {side} of {d.buffer}"))


def _launch(planned: PlannedLaunch) -> Launch:
    return Launch(
        planned.kernel,
        planned.grid,
        planned.block,
        planned.shared_bytes,
        "".join(_FORMATS[a.dtype] if isinstance(a, ScalarArgument) else "P" for a in planned.args),
        tuple(a.value if isinstance(a, ScalarArgument) else a for a in planned.args),
    )


def _bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}")


def _environment() -> dict[str, str]:
    """The parent's, with this package importable; modules load at once, so that no first launch loads one."""
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "CUDA_MODULE_LOADING": "EAGER",
        "CUDA_CACHE_DISABLE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
