"""Verdict -> the text a policy reads before its next turn.

The first line says what is wrong in fixed words and always stays; what follows is ordered by use and dropped
from the end until the text fits. Text after `line N:` comes from the compiler and is shaped by the answer: it
is cut to one printable line, so that it can never look like one of ours. A hidden check shows only a count.
"""

from __future__ import annotations

from leap_jax.kernels.task import Task
from leap_jax.kernels.verdict import Diagnostic, FaultReport, Mismatch, Outcome, Verdict

MAX_QUOTED_CHARACTERS = 175  # of the compiler's or the answer's own words in one line
MAX_DIAGNOSTICS = 5

_ADVICE = {
    "untouched": "nothing was written to {output}.",
    "all_zero": "{output} is 0 everywhere.",
    "all_nan": "{output} is nan everywhere.",
    "first_block_only": "only the first part is right: check the grid and the index.",
    "last_tile": "only the last part is wrong: check the bounds and the grid.",
    "transposed": "{output} is right but transposed: check the index.",
    "shifted": "{output} is right but shifted by one: check the index.",
    "constant_offset": "{output} is off by a constant.",
    "scaled": "{output} is off by a factor.",
    "input_modified": "inputs must not be written.",
    "nondeterministic": "a race, or a value that is read before it is written.",
}


def feedback(task: Task, verdict: Verdict, limit: int) -> str:
    """At most `limit` characters of plain text, the first error first."""
    return _fit([_printable(line) for line in _lines(task, verdict)], limit)


def shape_text(shape: dict[str, int], regime: str) -> str:
    """`rows=3, cols=257 (signed)`."""
    return f"{', '.join(f'{name}={value}' for name, value in shape.items())} ({regime})"


def _lines(task: Task, verdict: Verdict) -> list[str]:
    """The whole feedback, most useful line first."""
    name = verdict.outcome.value
    match verdict.outcome:
        case Outcome.CORRECT:
            return [f"{name}: {_count(verdict)}.", *_performance(verdict)]
        case Outcome.INFRA_ERROR:
            return [f"{name}: the answer was not judged."]
        case Outcome.COMPILE_ERROR if verdict.diagnostics:
            return _compile_lines(name, verdict.diagnostics)
        case Outcome.INCORRECT | Outcome.RUNTIME_ERROR | Outcome.LAUNCH_ERROR if _is_hidden(verdict):
            return [f"{name}: hidden checks: {verdict.hidden_passed} of {verdict.hidden_total} passed."]
        case Outcome.INCORRECT if verdict.mismatch:
            return [*_mismatch_lines(verdict.mismatch), f"{_count(verdict)}."]
        case Outcome.RUNTIME_ERROR if verdict.fault:
            return [f"{name}: {_fault(verdict)}", verdict.message, f"{_count(verdict)}."]
        case Outcome.NO_ANSWER | Outcome.LAUNCH_ERROR:
            return [f"{name}: {_cut(verdict.message)}", f"expected: {task.signature()}"]
        case _:
            return [f"{name}: {_cut(verdict.message)}"]


def _compile_lines(name: str, diagnostics: tuple[Diagnostic, ...]) -> list[str]:
    places = (f"line {d.line}: " if d.line else "" for d in diagnostics)
    texts = list(dict.fromkeys(p + _cut(d.message) for p, d in zip(places, diagnostics, strict=True)))
    lines = [f"{name}: {texts[0]}", *texts[1:MAX_DIAGNOSTICS]]
    if len(texts) > MAX_DIAGNOSTICS:
        lines.append(f"and {len(texts) - MAX_DIAGNOSTICS} more errors.")
    return lines


def _mismatch_lines(m: Mismatch) -> list[str]:
    where = f"at {shape_text(m.shape, m.regime)}"
    if m.pattern == "input_modified":
        lines = [f"incorrect: input {m.output} was modified {where}."]
    elif m.pattern == "nondeterministic":
        lines = [f"incorrect: {m.output}: {m.wrong} of {m.total} differ between two runs on the same input {where}."]
    else:
        index = ",".join(map(str, m.index))
        lines = [
            f"incorrect: {m.output}: {m.wrong} of {m.total} wrong, pattern {m.pattern}. "
            f"{m.output}[{index}] got {m.got} want {m.want} {where}."
        ]
    if m.pattern in _ADVICE:
        lines.append(_ADVICE[m.pattern].format(output=m.output))
    return lines


def _fault(verdict: Verdict) -> str:
    fault: FaultReport = verdict.fault
    parts = [_cut(fault.message)]
    if len(verdict.resources) > 1 and fault.kernel:
        parts.append(f"kernel {fault.kernel}")
    if fault.line:
        parts.append(f"line {fault.line}")
    if fault.block and fault.thread:
        parts.append(f"block {_triple(fault.block)} thread {_triple(fault.thread)}")
    return ", ".join(parts)


def _performance(verdict: Verdict) -> list[str]:
    lines = []
    if verdict.time_us is not None:
        beside = f", baseline {verdict.baseline_us:.1f} us" if verdict.baseline_us is not None else ""
        lines.append(f"time {verdict.time_us:.1f} us{beside}.")
    return lines + [
        f"{kernel}: {r.registers} registers, {r.static_shared_bytes} bytes shared, "
        f"{r.spill_store_bytes + r.spill_load_bytes} bytes spilled."
        for kernel, r in verdict.resources.items()
    ]


def _is_hidden(verdict: Verdict) -> bool:
    """Whether a hidden check decided: public ones have passed, and no timed launch was asked."""
    return verdict.hidden_total > 0 and verdict.stage != "time"


def _count(verdict: Verdict) -> str:
    return f"checks: {verdict.checks_passed} of {verdict.checks_total} passed"


def _triple(index: tuple[int, int, int]) -> str:
    return f"({','.join(map(str, index))})"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_QUOTED_CHARACTERS else f"{text[: MAX_QUOTED_CHARACTERS - 3]}..."


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text).strip()


def _fit(lines: list[str], limit: int) -> str:
    """Whole lines from the front; the first is cut only where the limit leaves no choice."""
    lines = [line for line in lines if line]
    text = lines[0][:limit]
    for line in lines[1:]:
        if len(text) + 1 + len(line) <= limit:
            text += f"\n{line}"
    return text
