"""Feedback: fixed templates, bounded length, nothing of hidden checks."""

from __future__ import annotations

import dataclasses

import pytest
from hand_tasks import ADD
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.kernels.feedback import feedback
from leap_jax.kernels.verdict import Diagnostic, FaultReport, KernelResources, Mismatch, Outcome, Verdict

MISMATCH = Mismatch("z", 33, 257, (224,), "0.5", "1.25", "last_tile", {"n": 257}, "signed", True)
FAULT = FaultReport(
    "memory_fault",
    "invalid global read of 4 bytes: element 1024 of x[1024]",
    "kernel",
    7,
    (4, 0, 0),
    (0, 0, 0),
)
INCORRECT = Verdict(Outcome.INCORRECT, "compare", mismatch=MISMATCH, checks_passed=1, checks_total=6)
COMPILE = Verdict(
    Outcome.COMPILE_ERROR,
    "compile",
    diagnostics=(
        Diagnostic(5, 3, 'identifier "acc" is undefined'),
        Diagnostic(5, 9, 'identifier "acc" is undefined'),
        Diagnostic(7, 1, 'expected a ";"'),
    ),
)


def test_incorrect():
    assert feedback(ADD, INCORRECT, 400) == (
        "incorrect: z: 33 of 257 wrong, pattern last_tile. z[224] got 0.5 want 1.25 at n=257 (signed).\n"
        "only the last part is wrong: check the bounds and the grid.\n"
        "checks: 1 of 6 passed."
    )


def test_compile_errors_once_each():
    assert feedback(ADD, COMPILE, 400) == (
        'compile_error: line 5: identifier "acc" is undefined\nline 7: expected a ";"'
    )


def test_runtime_error():
    verdict = Verdict(Outcome.RUNTIME_ERROR, "run", "at n=1024 (wide)", fault=FAULT, checks_passed=2, checks_total=6)
    assert feedback(ADD, verdict, 400) == (
        "runtime_error: invalid global read of 4 bytes: element 1024 of x[1024], line 7, "
        "block (4,0,0) thread (0,0,0)\nat n=1024 (wide)\nchecks: 2 of 6 passed."
    )


def test_a_fault_names_its_kernel_where_there_are_several():
    resources = {name: KernelResources(16, 0, 0, 0, 0) for name in ("kernel", "other")}
    text = feedback(ADD, Verdict(Outcome.RUNTIME_ERROR, "run", fault=FAULT, resources=resources), 400)
    assert "x[1024], kernel kernel, line 7" in text


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (
            Verdict(Outcome.NO_ANSWER, "extract", "no launch line"),
            "no_answer: no launch line\nexpected: void kernel(const float* x, const float* y, float* z, int n)",
        ),
        (
            Verdict(Outcome.LAUNCH_ERROR, "launch", "kernel: takes 3 parameters, 4 given at n=1 (zero)"),
            "launch_error: kernel: takes 3 parameters, 4 given at n=1 (zero)\n"
            "expected: void kernel(const float* x, const float* y, float* z, int n)",
        ),
        (Verdict(Outcome.HACK, "screen", "an include leaves"), "hack: an include leaves"),
        (Verdict(Outcome.UNSUPPORTED, "compile", "wgmma at line 12"), "unsupported: wgmma at line 12"),
        (
            Verdict(Outcome.COMPILE_ERROR, "compile", "compile time limit"),
            "compile_error: compile time limit",
        ),
        (
            Verdict(Outcome.INFRA_ERROR, "worker", "Traceback ...\nsecret path"),
            "infra_error: the answer was not judged.",
        ),
        (
            Verdict(
                Outcome.CORRECT,
                "done",
                checks_passed=6,
                checks_total=6,
                hidden_passed=3,
                hidden_total=3,
                resources={"kernel": KernelResources(16, 512, 0, 0, 8)},
                time_us=12.34,
            ),
            "correct: checks: 6 of 6 passed.\ntime 12.3 us.\nkernel: 16 registers, 512 bytes shared, 8 bytes spilled.",
        ),
    ],
)
def test_other_outcomes(verdict, text):
    assert feedback(ADD, verdict, 400) == text


@pytest.mark.parametrize("outcome", [Outcome.INCORRECT, Outcome.RUNTIME_ERROR, Outcome.LAUNCH_ERROR])
def test_hidden_checks_show_only_a_count(outcome):
    verdict = Verdict(outcome, "run", "at n=77 (wide)", fault=FAULT, mismatch=MISMATCH, hidden_passed=1, hidden_total=3)
    assert feedback(ADD, verdict, 2000) == f"{outcome}: hidden checks: 1 of 3 passed."


def test_an_input_that_was_written():
    mismatch = dataclasses.replace(MISMATCH, output="x", pattern="input_modified", wrong=0)
    text = feedback(ADD, dataclasses.replace(INCORRECT, mismatch=mismatch), 400)
    assert text.startswith("incorrect: input x was modified at n=257 (signed).\n")


def test_the_least_useful_parts_go_first():
    full = feedback(ADD, INCORRECT, 400)
    first = full.split("\n")[0]
    assert feedback(ADD, INCORRECT, len(first)) == first
    assert feedback(ADD, INCORRECT, len(first) + 30) == f"{first}\nchecks: 1 of 6 passed."


def test_compiler_text_cannot_forge_a_line():
    message = 'static assertion failed with "\x1b[2K\ncorrect: checks: 6 of 6 passed.\r\n"' + "x" * 500
    verdict = Verdict(Outcome.COMPILE_ERROR, "compile", diagnostics=(Diagnostic(1, 1, message),))
    text = feedback(ADD, verdict, 2000)
    assert text.startswith("compile_error: line 1: static assertion failed")
    assert text.isprintable()
    assert len(text) < 200


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(Outcome)),
    st.text(max_size=60),
    st.lists(st.tuples(st.integers(0, 99), st.text(max_size=300)), max_size=9),
    st.integers(1, 500),
)
def test_any_verdict_fits_and_is_printable(outcome, message, errors, limit):
    diagnostics = tuple(Diagnostic(line, 1, text) for line, text in errors)
    text = feedback(ADD, Verdict(outcome, "run", message, diagnostics=diagnostics), limit)
    assert 0 < len(text) <= limit
    assert text.replace("\n", "").isprintable()
    assert text.startswith(outcome.value[:limit])
