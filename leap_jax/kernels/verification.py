"""The stages of a verdict: extract -> screen -> compile -> launch -> run -> compare.

The first stage that fails decides the outcome. Everything an answer could learn from is rebuilt for each
check: memory, module state, poison. What the outputs must be is known before the run, in arrays no kernel can
reach.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

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
from leap_jax.kernels.comparison import compare
from leap_jax.kernels.compiler import Compiled, CompileError, compile_source
from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.isa import UnsupportedOpcode
from leap_jax.kernels.emulator.machine import Fault, Program, prepare
from leap_jax.kernels.emulator.ptx import PtxError, parse
from leap_jax.kernels.escapes import escape
from leap_jax.kernels.execution import Results, execute
from leap_jax.kernels.feedback import shape_text
from leap_jax.kernels.includes import leaves_toolkit, strip
from leap_jax.kernels.task import Task
from leap_jax.kernels.verdict import KernelResources, Mismatch, Outcome, Verdict

_FLOATING_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.f(?:32|64)\s+([\w$]+)")


@dataclass(frozen=True)
class Settings:
    """How answers are verified; the same for every answer of a run.

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
    program: Program
    floating: frozenset[str]  # names of the parameters that are floating-point numbers


def verify(task: Task, response: str, settings: Settings, checks: tuple[Check, ...] | None = None) -> Verdict:
    """The verdict on one response; `checks`: what `make_checks` gives for this task, if it is at hand.

    Raises CompilerUnavailable, and whatever a broken task raises: neither is the answer's fault.
    """
    if settings.device != "emulator":
        raise ValueError(f"unknown device {settings.device!r}")
    checks = make_checks(task, settings.checks, settings.seed) if checks is None else checks
    progress = _Progress(checks_total=len(checks))
    try:
        with progress.timed("extract"):
            answer = parse_answer(response, task)
        with progress.timed("screen"):
            refused = screen(answer.source)
        if refused:
            return progress.verdict(*refused)
        with progress.timed("compile"):
            compiled = compile_source(answer.source, timeout_seconds=settings.compile_seconds)
            progress.resources = compiled.resources
            refused = escape(compiled.ptx, compiled.cubin)
            if refused:
                return progress.verdict(*refused)
            module = parse(compiled.ptx)
            if not module.entries:
                return progress.verdict(Outcome.COMPILE_ERROR, "no __global__ kernel was compiled")
            floating = frozenset(_FLOATING_PARAMETER.findall(compiled.ptx))
            loaded = _Loaded(answer, compiled, module, prepare(module), floating)
    except AnswerError as error:
        return progress.verdict(Outcome.NO_ANSWER, error)
    except CompileError as error:
        return progress.verdict(Outcome.COMPILE_ERROR, error.message, diagnostics=error.diagnostics)
    except (PtxError, UnsupportedOpcode) as error:
        return progress.verdict(Outcome.UNSUPPORTED, error)
    return _run_checks(task, loaded, checks, settings, progress)


def screen(source: str) -> tuple[Outcome, str] | None:
    """What is refused before the compiler sees it, and why; None if nothing is.

    An include that leaves the toolkit's headers. This names the reason; the sandbox is what keeps files closed.
    """
    if leaves_toolkit(strip(source)):
        return Outcome.HACK, "an include leaves the toolkit's headers"
    return None


def _run_checks(
    task: Task, loaded: _Loaded, checks: tuple[Check, ...], settings: Settings, progress: _Progress
) -> Verdict:
    """Public checks up to the first that fails; then all hidden ones, whose count is all that may be told."""
    deadline = time.monotonic() + settings.run_seconds
    hidden = [check for check in checks if not check.public]
    for check in checks:
        if check.public:
            failure = _run_check(task, loaded, check, settings, deadline, progress)
            if failure:
                return failure
            progress.checks_passed += 1
    progress.hidden_total = len(hidden)
    failures = []
    for check in hidden:
        failure = _run_check(task, loaded, check, settings, deadline, progress)
        if failure:
            failures.append(failure)
        else:
            progress.checks_passed += 1
            progress.hidden_passed += 1
    if failures:
        counts = {"checks_passed": progress.checks_passed, "hidden_passed": progress.hidden_passed}
        return replace(failures[0], **counts)
    progress.stage = "done"
    return progress.verdict(Outcome.CORRECT)


def _run_check(
    task: Task, loaded: _Loaded, check: Check, settings: Settings, deadline: float, progress: _Progress
) -> Verdict | None:
    """launch -> run -> compare for one check; None if it passes."""
    where = f"at {shape_text(check.scalars, check.regime)}"
    try:
        with progress.timed("launch"):
            launches = _plan(task, loaded, check, settings)
            sizes = scratch_sizes(loaded.answer, check.scalars)
        with progress.timed("run"):
            results = execute(
                loaded.program,
                launches,
                task,
                check,
                [(s, sizes[s.name]) for s in loaded.answer.scratch],
                instructions_per_thread=settings.instructions_per_thread,
                deadline=deadline,
            )
        with progress.timed("compare"):
            mismatch = _first_mismatch(task, check, results)
    except LaunchError as error:
        return progress.verdict(Outcome.LAUNCH_ERROR, f"{error} {where}")
    except Fault as fault:
        return progress.verdict(Outcome.RUNTIME_ERROR, where, fault=fault.report)
    return progress.verdict(Outcome.INCORRECT, mismatch=mismatch) if mismatch else None


def _plan(task: Task, loaded: _Loaded, check: Check, settings: Settings) -> tuple[PlannedLaunch, ...]:
    """The launches of one check within all limits. Raises LaunchError."""
    entries = loaded.module.entries
    signatures = {name: tuple(p.size_bytes for p in entry.params) for name, entry in entries.items()}
    for name in {resolve_kernel(line.kernel, signatures) for line in loaded.answer.launches}:
        _check_by_value(name, entries[name])
    launches = plan(loaded.answer, task, check.scalars, signatures)
    for line, planned in zip(loaded.answer.launches, launches, strict=True):
        check_types(line, planned, [p.name in loaded.floating for p in entries[planned.kernel].params])
        check_resources(planned, loaded.compiled.resources[planned.kernel])
        check_launch_bounds(planned, entries[planned.kernel].directives)
    threads = sum(planned.threads for planned in launches)
    if threads > settings.threads_per_check:
        raise LaunchError(f"{threads} threads launched, at most {settings.threads_per_check}")
    return launches


def _check_by_value(kernel: str, entry: ir.Function) -> None:
    """Raises LaunchError for a parameter that no argument of a launch line can fill."""
    for number, parameter in enumerate(entry.params, start=1):
        if parameter.size_bytes * 8 > parameter.element_bits:
            raise LaunchError(
                f"{kernel}: parameter {number} is a vector or struct of {parameter.size_bytes} bytes by value: "
                "only pointers and plain numbers can be passed"
            )


def _first_mismatch(task: Task, check: Check, results: Results) -> Mismatch | None:
    """The first output that is wrong, or an input that was written."""
    for name in results.modified_inputs:
        return Mismatch(
            output=name,
            wrong=0,
            total=check.inputs[name].size,
            index=(),
            got="",
            want="",
            pattern="input_modified",
            shape=dict(check.scalars),
            regime=check.regime,
            public=check.public,
        )
    mismatches = (
        compare(
            name,
            results.outputs[name],
            wanted,
            results.defined[name],
            rtol=task.rtol,
            atol=task.atol,
            shape=check.scalars,
            regime=check.regime,
            public=check.public,
        )
        for name, wanted in check.wanted.items()
    )
    return next((mismatch for mismatch in mismatches if mismatch), None)
