"""Answers on a GPU: the same verdicts as on the emulator, times, and no fault of the machine taken for an answer's."""

from __future__ import annotations

import pytest
from hand_tasks import ADD, ROW_SUM, respond
from on_double import SMALL_ADD, double  # noqa: F401

from leap_jax.kernels.verdict import Outcome

LINE = "// launch: grid=(ceil_div(n, 256)) block=(256)"


def test_a_good_answer_is_correct_and_timed(double):  # noqa: F811
    double.set(clock_us={"kernel": 80.0, "nothing": 2.0})
    verdict = double.verify(SMALL_ADD.baseline)
    assert verdict.passed, verdict
    assert (verdict.stage, verdict.checks_passed) == ("done", verdict.checks_total)
    assert verdict.time_us == verdict.baseline_us == pytest.approx(80.0)
