"""What the environment says about one answer."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from leap_jax.kernels.gpu.timing import Timing

DEVICE_CODE_ONLY = "only device code and launch lines are taken"


class Outcome(enum.StrEnum):
    """The class of a verdict, worst to best; the last two are nobody's fault and leave the group."""

    HACK = "hack"
    NO_ANSWER = "no_answer"
    COMPILE_ERROR = "compile_error"
    LAUNCH_ERROR = "launch_error"
    RUNTIME_ERROR = "runtime_error"
    INCORRECT = "incorrect"
    CORRECT = "correct"
    UNSUPPORTED = "unsupported"
    INFRA_ERROR = "infra_error"

    @property
    def rank(self) -> int:
        """Position in the order worst to best; -1 for the outcomes that leave the group."""
        return _RANKS[self]

    @property
    def valid(self) -> bool:
        """Whether the outcome says anything about the answer."""
        return _RANKS[self] >= 0


_RANKS = {outcome: rank for rank, outcome in enumerate(Outcome)}
_RANKS[Outcome.UNSUPPORTED] = _RANKS[Outcome.INFRA_ERROR] = -1


@dataclass(frozen=True)
class Diagnostic:
    """A compiler message about the answer's own text. `message` is untrusted: the model can shape it."""

    line: int
    column: int
    message: str


@dataclass(frozen=True)
class FaultReport:
    """A run-time fault, in the shape of compute-sanitizer's reports."""

    kind: str  # memory_fault, misaligned, uninitialised, race, barrier, timeout, trap, stack
    message: str  # one line, e.g. "invalid global read of 4 bytes: element 1024 of x[1024]"
    kernel: str = ""
    line: int = 0  # source line, 0 if unknown
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class Mismatch:
    """How one output differs from the reference in one check."""

    output: str
    wrong: int  # elements out of tolerance
    total: int
    index: tuple[int, ...]  # first wrong element
    got: str
    want: str
    pattern: str  # untouched, all_zero, all_nan, first_block_only, last_tile, transposed, shifted, constant_offset,
    # scaled, input_modified, nondeterministic, or `some`
    shape: dict[str, int]  # the scalars of the check
    regime: str
    public: bool


@dataclass(frozen=True)
class KernelResources:
    """What the assembler says one kernel needs."""

    registers: int
    static_shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


@dataclass(frozen=True)
class Verdict:
    """The outcome of one answer, the stage that decided it, and the evidence for feedback."""

    outcome: Outcome
    stage: str  # extract, screen, compile, launch, run, compare, time, done
    message: str = ""  # one line; for no_answer, launch_error, hack, unsupported, infra_error
    diagnostics: tuple[Diagnostic, ...] = ()
    fault: FaultReport | None = None
    mismatch: Mismatch | None = None
    checks_passed: int = 0
    checks_total: int = 0
    hidden_passed: int = 0
    hidden_total: int = 0
    resources: dict[str, KernelResources] = field(default_factory=dict)
    time_us: float | None = None  # at the timing shape; None where the device gives none
    baseline_us: float | None = None  # of the task's baseline answer, beside it
    timing: Timing | None = None  # what both were measured by
    seconds: dict[str, float] = field(default_factory=dict)  # wall time by stage

    @property
    def checks_share(self) -> float:
        """Share of the task's checks that passed; 0 where none ran."""
        return self.checks_passed / self.checks_total if self.checks_total else 0.0

    @property
    def passed(self) -> bool:
        return self.outcome is Outcome.CORRECT
