"""The doctor says what is missing, what to do, and whether a run can start."""

from __future__ import annotations

import os

import pytest
from on_double import SMALL_ADD, double

from leap_jax import doctor
from leap_jax.doctor import BAD, OK, WARNING
from leap_jax.kernels import verification
from leap_jax.kernels.gpu import choice

__all__ = ["double"]  # a fixture


ABSENT = "pycuda is not installed"


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(choice, "missing", lambda: ABSENT)


def findings(steps) -> list[tuple[str, str]]:
    return [(finding.what, finding.state) for finding in steps]


def test_a_machine_without_a_gpu_is_ready(no_gpu, capsys):
    assert doctor.main(["--device=auto"]) == 0
    said = capsys.readouterr().out
    assert "ok      a good kernel on emulator: correct\n" in said
    assert "ok      a cheat on emulator: incorrect\n" in said
    assert "GPU: not used: pycuda is not installed" in said
    assert said.endswith("ready\n")


def test_a_gpu_that_is_asked_for_and_missing_is_not_ready(no_gpu, capsys, monkeypatch):
    monkeypatch.setattr(doctor, "packages", lambda _: iter(()))
    monkeypatch.setattr(doctor, "judging", lambda _: iter(()))
    monkeypatch.setattr(doctor, "trainer", lambda: doctor.Finding("JAX", OK, ""))
    assert doctor.main(["--device=pycuda"]) == 1
    said = capsys.readouterr().out
    assert "BAD     GPU: pycuda is not installed" in said
    assert "\n          -> " in said
    assert said.endswith("not ready\n")


def test_a_gpu_is_described_and_judges(double, monkeypatch):
    monkeypatch.setattr(doctor, "load_task", lambda _: SMALL_ADD)
    monkeypatch.setattr(doctor, "CHEAT", doctor.CHEAT.replace("float* y,", "const float* y, float* z,"))
    assert findings(doctor.gpus()) == [("GPU 0", OK), ("GPU 0", WARNING)]
    assert findings(doctor.judging("pycuda")) == [("a good kernel on pycuda", OK), ("a cheat on pycuda", OK)]
    double.set(faults={"cuCtxCreate": ["LogicError", "unknown error"]})
    assert findings(doctor.judging("pycuda")) == [("a good kernel on pycuda", BAD), ("a cheat on pycuda", BAD)]


def test_a_verifier_that_takes_a_cheat_is_found(monkeypatch):
    monkeypatch.setattr(verification, "_first_mismatch", lambda *_: None)
    assert findings(doctor.judging("emulator"))[1] == ("a cheat on emulator", BAD)


@pytest.mark.parametrize(
    ("pins", "state", "said"),
    [
        ("numpy==0.1\n", WARNING, "0.1 was tested"),
        ("no-such-package==1.0\n", BAD, "no-such-package is missing"),
        ("# only a comment\n", OK, "all 0"),
    ],
)
def test_packages_are_compared_with_their_pins(tmp_path, pins, state, said):
    file = tmp_path / "requirements.txt"
    file.write_text(pins)
    *_, found = doctor.packages(file)
    assert found.state == state
    assert said in found.text


def test_missing_requirements_are_said():
    *_, found = doctor.packages(doctor.Path("nowhere/requirements.txt"))
    assert found.state == BAD and "cannot read requirements.txt" in found.text


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ((), "install the NVIDIA driver"),
        (("/proc/driver/nvidia/version",), "/dev/nvidiactl is missing"),
        (("/proc/driver/nvidia/version", "/dev/nvidiactl"), "/dev/nvidia-uvm is missing"),
    ],
)
def test_advice_names_the_first_thing_that_is_not_there(there, said):
    assert said in doctor._driver_advice(exists=lambda path: path in there)


def test_little_memory_is_a_warning(monkeypatch):
    assert doctor.memory().state == OK
    monkeypatch.setattr(os, "sysconf", lambda name: 1024)
    assert doctor.memory().state == WARNING
