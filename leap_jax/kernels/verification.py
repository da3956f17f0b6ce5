"""The stages of a verdict: extract -> screen -> compile -> launch -> run -> compare, on a GPU also -> time.

The first stage that fails decides the outcome. Everything an answer could learn from is rebuilt for each
check: memory, module state, poison. What the outputs must be is known before the run, in arrays no kernel can
reach.
"""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from leap_jax.kernels.answer import (
    Answer,
    AnswerError,
    LaunchError,
    PlannedLaunch,
    check_launch_bounds,
    check_resources,
    check_types,
    parse_answer,
    plan,
    resolve_kernel,
    scratch_sizes,
)
from leap_jax.kernels.checks import Check, make_checks
from leap_jax.kernels.comparison import compare, unsteady
from leap_jax.kernels.compiler import Compiled, CompileError, compile_source
from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.isa import UnsupportedOpcode
from leap_jax.kernels.emulator.machine import Fault, Program, prepare
from leap_jax.kernels.emulator.ptx import PtxError, parse
from leap_jax.kernels.escapes import escape
from leap_jax.kernels.execution import Results, execute
from leap_jax.kernels.feedback import shape_text
from leap_jax.kernels.gpu.session import Planned, Session, find_gpus
from leap_jax.kernels.gpu.timed import time_answer
from leap_jax.kernels.gpu.timing import Timing
from leap_jax.kernels.includes import leaves_toolkit, strip
from leap_jax.kernels.task import Scalars, Task
from leap_jax.kernels.verdict import KernelResources, Mismatch, Outcome, Verdict

DEVICES = ("emulator", "pycuda")
_NOTHING = 'extern "C" __global__ void nothing() {}'
_ATOMIC = re.compile(r"^\s*(?:@!?%\w+\s+)?(?:atom|red)\.", re.MULTILINE)
_FLOATING_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.f(?:32|64)\s+([\w$]+)")


@dataclass(frozen=True)
class Settings:
    """How answers are verified; the same for every answer of a run.

    device: emulator, or pycuda for the host's GPU.
    compile_seconds, run_seconds: wall limits for one answer (its checks together).
    instructions_per_thread: budget of one launch. threads_per_check: bound on a check's launches together.
    checks: how many runs, spread over shapes and regimes; never fewer than the task has shapes.
    """

    device: str
    compile_seconds: float
    run_seconds: float
    instructions_per_thread: int
    threads_per_check: int
    checks: int
    seed: int


@dataclass
class _Progress:
    """What is known of an answer so far: what its verdict says beside the outcome."""

    checks_total: int
    stage: str = "extract"
    checks_passed: int = 0
    hidden_passed: int = 0
    hidden_total: int = 0  # 0 until the public checks have passed
    resources: dict[str, KernelResources] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        self.stage = stage
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    def verdict(self, outcome: Outcome, message: object = "", **evidence: object) -> Verdict:
        return Verdict(outcome=outcome, message=str(message), **vars(self), **evidence)


@dataclass(frozen=True)
class _Loaded:
    """An answer that compiled."""

    answer: Answer
    compiled: Compiled
    module: ir.Module
    program: Program | None  # None where the emulator cannot run it, and need not
    floating: frozenset[str]  # names of the parameters that are floating-point numbers

    @property
    def stateful(self) -> bool:
        """Whether anything of it outlives a launch."""
        variables = [v for function in self.module.functions.values() for v in function.variables]
        return any(v.space == "global" for v in (*self.module.variables.values(), *variables))

    @property
    def ordered(self) -> bool:
        """Whether it gives the same bits on the same input: without atomics nothing depends on who comes first."""
        return not _ATOMIC.search(self.compiled.ptx)


def verify(task: Task, response: str, settings: Settings, checks: tuple[Check, ...] | None = None) -> Verdict:
    """The verdict on one response; `checks`: what `make_checks` gives for this task, if it is at hand.

    Raises CompilerUnavailable, and whatever a broken task raises: neither is the answer's fault.
    """
    if settings.device not in DEVICES:
        raise ValueError(f"unknown device {settings.device!r}")
    checks = make_checks(task, settings.checks, settings.seed) if checks is None else checks
    if settings.device == "emulator":
        return _verify(task, response, settings, checks, None)
    with Session(find_gpus()) as session:
        return _verify(task, response, settings, checks, session)


def _verify(
    task: Task, response: str, settings: Settings, checks: tuple[Check, ...], session: Session | None
) -> Verdict:
    """The stages in turn, on the session's GPU or else on the emulator."""
    progress = _Progress(checks_total=len(checks))
    try:
        with progress.timed("extract"):
            answer = parse_answer(response, task)
        with progress.timed("screen"):
            refused = screen(answer.source)
        if refused:
            return progress.verdict(*refused)
        if session:
            session.start()
        with progress.timed("compile"):
            compiled = _compile(answer.source, settings, session)
            progress.resources = compiled.resources
            refused = escape(compiled.ptx, compiled.cubin)
            if refused:
                return progress.verdict(*refused)
            loaded = _load(answer, compiled, session)
            if not loaded.module.entries:
                return progress.verdict(Outcome.COMPILE_ERROR, "no __global__ kernel was compiled")
    except AnswerError as error:
        return progress.verdict(Outcome.NO_ANSWER, error)
    except CompileError as error:
        return progress.verdict(Outcome.COMPILE_ERROR, error.message, diagnostics=error.diagnostics)
    except (PtxError, UnsupportedOpcode) as error:
        return progress.verdict(Outcome.UNSUPPORTED, error)
    verdict = _run_checks(task, loaded, checks, settings, progress, session)
    return _time(task, loaded, settings, progress, session) if session and verdict.passed else verdict


def _compile(source: str, settings: Settings, session: Session | None) -> Compiled:
    """For the GPU that will run it, if one will."""
    target = {"architecture": session.architecture} if session else {}
    return compile_source(source, timeout_seconds=settings.compile_seconds, **target)


def _load(answer: Answer, compiled: Compiled, session: Session | None) -> _Loaded:
    """Raises PtxError, and UnsupportedOpcode where the emulator is all there is."""
    module = parse(compiled.ptx)
    try:
        program = prepare(module)
    except UnsupportedOpcode:
        if session is None:
            raise
        program = None
    return _Loaded(answer, compiled, module, program, frozenset(_FLOATING_PARAMETER.findall(compiled.ptx)))


def screen(source: str) -> tuple[Outcome, str] | None:
    """What is refused before the compiler sees it, and why; None if nothing is.

    An include that leaves the toolkit's headers. This names the reason; the sandbox is what keeps files closed.
    """
    if leaves_toolkit(strip(source)):
        return Outcome.HACK, "an include leaves the toolkit's headers"
    return None


def _run_checks(
    task: Task,
    loaded: _Loaded,
    checks: tuple[Check, ...],
    settings: Settings,
    progress: _Progress,
    session: Session | None,
) -> Verdict:
    """Public checks up to the first that fails; then all hidden ones, whose count is all that may be told.

    On a GPU their order is the answer's own, so that no launch knows by its number which one it is.
    """
    if session:
        rng = np.random.default_rng((settings.seed, zlib.crc32(loaded.answer.source.encode(errors="replace"))))
        checks = tuple(checks[i] for i in rng.permutation(len(checks)))
        session.open()
    deadline = time.monotonic() + settings.run_seconds
    run = _runner(loaded, settings, session)
    hidden = [check for check in checks if not check.public]
    for check in checks:
        if check.public:
            failure = _run_check(task, loaded, run, check, settings, deadline, progress)
            if failure:
                return _diagnosed(task, loaded, check, settings, progress, session, failure)
            progress.checks_passed += 1
    progress.hidden_total = len(hidden)
    failures = []
    for check in hidden:
        failure = _run_check(task, loaded, run, check, settings, deadline, progress)
        if failure:
            failures.append((check, failure))
        else:
            progress.checks_passed += 1
            progress.hidden_passed += 1
    if failures:
        check, failure = failures[0]
        counts = {"checks_passed": progress.checks_passed, "hidden_passed": progress.hidden_passed}
        return replace(_diagnosed(task, loaded, check, settings, progress, session, failure), **counts)
    progress.stage = "done"
    return progress.verdict(Outcome.CORRECT)


def _runner(loaded: _Loaded, settings: Settings, session: Session | None) -> Callable[..., Results]:
    """What runs a check: (launches, task, check, scratch, deadline) -> Results."""
    if session:
        return partial(session.run, loaded.compiled.cubin, loaded.stateful)
    return partial(execute, loaded.program, instructions_per_thread=settings.instructions_per_thread)


def _run_check(
    task: Task,
    loaded: _Loaded,
    run: Callable[..., Results],
    check: Check,
    settings: Settings,
    deadline: float,
    progress: _Progress,
) -> Verdict | None:
    """launch -> run -> compare for one check; None if it passes."""
    where = f"at {shape_text(check.scalars, check.regime)}"
    try:
        with progress.timed("launch"):
            launches = _plan(task, loaded, check.scalars)
            _bound_threads(launches, settings)
            sizes = scratch_sizes(loaded.answer, check.scalars)
        with progress.timed("run"):
            scratch = [(s, sizes[s.name]) for s in loaded.answer.scratch]
            results = run(launches, task, check, scratch, deadline=deadline)
        with progress.timed("compare"):
            mismatch = _first_mismatch(task, loaded, check, results)
    except LaunchError as error:
        return progress.verdict(Outcome.LAUNCH_ERROR, f"{error} {where}")
    except Fault as fault:
        return progress.verdict(Outcome.RUNTIME_ERROR, where, fault=fault.report)
    return progress.verdict(Outcome.INCORRECT, mismatch=mismatch) if mismatch else None


def _diagnosed(
    task: Task,
    loaded: _Loaded,
    check: Check,
    settings: Settings,
    progress: _Progress,
    session: Session | None,
    failure: Verdict,
) -> Verdict:
    """A failure on a GPU as the emulator sees it, which knows line, block and thread; as it is where it sees none."""
    if session is None or loaded.program is None or failure.outcome is Outcome.LAUNCH_ERROR:
        return failure
    session.close()  # others need the GPU
    deadline = time.monotonic() + settings.run_seconds
    seen = _run_check(task, loaded, _runner(loaded, settings, None), check, settings, deadline, progress)
    slow = seen is not None and seen.fault is not None and seen.fault.kind == "timeout"
    hung = failure.fault is not None and failure.fault.kind == "timeout"
    return failure if seen is None or (slow and not hung) else seen


def _time(task: Task, loaded: _Loaded, settings: Settings, progress: _Progress, session: Session) -> Verdict:
    """The verdict on a correct answer once it was timed: what timed launches get wrong counts as well."""
    where = f"at {shape_text(task.timing_shape, 'timing')}"
    try:
        with progress.timed("time"):
            answer = parse_answer(task.baseline, task)
            baseline = _load(answer, _compile(answer.source, settings, session), session)
            timed = time_answer(
                session,
                task,
                settings.seed,
                _planned(task, loaded),
                _planned(task, baseline),
                _compile(_NOTHING, settings, session).cubin,
                partial(_first_mismatch, task, loaded),
            )
    except LaunchError as error:
        return progress.verdict(Outcome.LAUNCH_ERROR, f"{error} {where}")
    except Fault as fault:
        return progress.verdict(Outcome.RUNTIME_ERROR, where, fault=fault.report)
    if not isinstance(timed, Timing):
        return progress.verdict(Outcome.INCORRECT, mismatch=timed)
    progress.stage = "done"
    return progress.verdict(Outcome.CORRECT, time_us=timed.time_us, baseline_us=timed.baseline_us, timing=timed)


def _planned(task: Task, loaded: _Loaded) -> Planned:
    """The answer at the timing shape."""
    sizes = scratch_sizes(loaded.answer, task.timing_shape)
    scratch = [(s, sizes[s.name]) for s in loaded.answer.scratch]
    return Planned(loaded.compiled.cubin, loaded.stateful, _plan(task, loaded, task.timing_shape), scratch)


def _plan(task: Task, loaded: _Loaded, scalars: Scalars) -> tuple[PlannedLaunch, ...]:
    """The launches at one shape within the device's limits. Raises LaunchError."""
    entries = loaded.module.entries
    signatures = {name: tuple(p.size_bytes for p in entry.params) for name, entry in entries.items()}
    for name in {resolve_kernel(line.kernel, signatures) for line in loaded.answer.launches}:
        _check_by_value(name, entries[name])
    launches = plan(loaded.answer, task, scalars, signatures)
    for line, planned in zip(loaded.answer.launches, launches, strict=True):
        check_types(line, planned, [p.name in loaded.floating for p in entries[planned.kernel].params])
        check_resources(planned, loaded.compiled.resources[planned.kernel])
        check_launch_bounds(planned, entries[planned.kernel].directives)
    return launches


def _bound_threads(launches: tuple[PlannedLaunch, ...], settings: Settings) -> None:
    """Raises LaunchError for more threads than a check may have."""
    threads = sum(planned.threads for planned in launches)
    if threads > settings.threads_per_check:
        raise LaunchError(f"{threads} threads launched, at most {settings.threads_per_check}")


def _check_by_value(kernel: str, entry: ir.Function) -> None:
    """Raises LaunchError for a parameter that no argument of a launch line can fill."""
    for number, parameter in enumerate(entry.params, start=1):
        if parameter.size_bytes * 8 > parameter.element_bits:
            raise LaunchError(
                f"{kernel}: parameter {number} is a vector or struct of {parameter.size_bytes} bytes by value: "
                "only pointers and plain numbers can be passed"
            )


def _first_mismatch(task: Task, loaded: _Loaded, check: Check, results: Results) -> Mismatch | None:
    """The first output that is wrong, or an input that was written, or an output that differs between two runs."""
    common = {"shape": dict(check.scalars), "regime": check.regime, "public": check.public}
    for name in results.modified_inputs:
        return Mismatch(name, 0, check.inputs[name].size, (), "", "", "input_modified", **common)
    tolerance = {"rtol": task.rtol, "atol": task.atol}
    for outputs in filter(None, (results.outputs, results.again)):
        for name, wanted in check.wanted.items():
            mismatch = compare(name, outputs[name], wanted, results.defined[name], **tolerance, **common)
            if mismatch:
                return mismatch
    if results.again and loaded.ordered:
        for name, first in results.outputs.items():
            mismatch = unsteady(name, first, results.again[name], **common)
            if mismatch:
                return mismatch
    return None
