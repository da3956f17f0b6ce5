"""What only a GPU can show; skipped where there is none. `./launch.sh gpu-test` runs this and keeps the numbers."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

import pytest
from cases_kernels import BROKEN
from hand_tasks import ADD
from test_source_corpus import HOSTILE

from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.gpu import choice
from leap_jax.kernels.gpu.protocol import DRIVER
from leap_jax.kernels.pool import VerificationPool
from leap_jax.kernels.suite import SUITE
from leap_jax.kernels.verdict import Outcome
from leap_jax.kernels.verification import Settings, verify

MISSING = choice.missing()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(MISSING), reason=f"needs a GPU: {MISSING}")]
GPU = Settings("pycuda", 20.0, 20.0, 100_000, 2**20, 6, 0)
EMULATOR = replace(GPU, device="emulator")
FAULTING = ADD.baseline.replace("z[i] = x[i] + y[i]", "*(volatile float*)8 = x[i]")
FAULTS = 1000
STEADY = 0.03


@pytest.mark.parametrize("name", SUITE)
def test_a_baseline_passes_on_both_devices(name, record_property):
    verdict = verify(SUITE[name], SUITE[name].baseline, GPU)
    assert verdict.passed, verdict
    assert verify(SUITE[name], SUITE[name].baseline, EMULATOR).passed
    assert not verdict.timing.implausible, verdict.timing
    record_property("time_us", verdict.time_us)
    record_property("noise", verdict.timing.answer.noise)
    record_property("roofline_us", verdict.timing.roofline_us)


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name)
def test_a_broken_answer_has_the_same_outcome_on_both_devices(case):
    task = load_task(case.task)
    assert verify(task, case.response, GPU).outcome is verify(task, case.response, EMULATOR).outcome


@pytest.mark.parametrize("file", HOSTILE, ids=lambda file: file.stem)
def test_a_hostile_answer_has_the_same_outcome_on_both_devices(file):
    response = f"```cuda\n{file.read_bytes().decode()}\n```\n"
    assert verify(ADD, response, GPU).outcome is verify(ADD, response, EMULATOR).outcome


@pytest.mark.parametrize("name", ["relu", "softmax", "matmul", "transpose"])
def test_times_repeat(name, record_property):
    times = [verify(SUITE[name], SUITE[name].baseline, GPU).time_us for _ in range(5)]
    error = (max(times) - min(times)) / statistics.median(times)
    record_property("times_us", times)
    assert error <= STEADY


def test_throughput(record_property):
    answers = [SUITE["relu"].baseline.replace("256", str(32 * k)) for k in range(1, 33)]
    with VerificationPool(8, GPU, 120.0) as pool:
        pool.check("softmax")
        start = time.monotonic()
        verdicts = [future.result() for future in [pool.submit("relu", a) for a in answers]]
        record_property("verdicts_per_second", len(verdicts) / (time.monotonic() - start))
    assert all(verdict.passed for verdict in verdicts)


def test_faulting_kernels_cost_no_gpu(record_property):
    start = time.monotonic()
    for number in range(FAULTS):
        verdict = verify(ADD, FAULTING, GPU)
        assert verdict.outcome is Outcome.RUNTIME_ERROR, (number, verdict)
    record_property("faults_per_second", FAULTS / (time.monotonic() - start))
    assert verify(ADD, ADD.baseline, GPU).passed


def test_the_driver_has_every_name_that_the_double_has(monkeypatch):
    driver = pytest.importorskip(DRIVER)
    monkeypatch.setenv("LEAP_DOUBLE", "{}")
    import pycuda_double

    for name, value in vars(pycuda_double).items():
        if getattr(value, "__module__", "") != "pycuda_double" or name.startswith("_"):
            continue
        assert hasattr(driver, name), name
        members = vars(value) if isinstance(value, type) else ()
        assert {m for m in members if not m.startswith("_")} <= set(dir(getattr(driver, name))), name
