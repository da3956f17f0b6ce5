"""Whole verdicts: known answers get their known outcomes, and checks are made as promised."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases_kernels import BROKEN, GOOD
from hand_tasks import ADD, ROW_SUM, SPLIT, respond

from leap_jax import verify as command
from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.checks import make_checks
from leap_jax.kernels.execution import poison
from leap_jax.kernels.feedback import feedback
from leap_jax.kernels.pool import VerificationPool
from leap_jax.kernels.verdict import Outcome
from leap_jax.kernels.verification import Settings, screen, verify

SETTINGS = Settings(
    device="emulator",
    compile_seconds=20.0,
    run_seconds=20.0,
    instructions_per_thread=100_000,
    threads_per_check=2**20,
    checks=6,
    seed=0,
)


@pytest.mark.parametrize("case", GOOD + BROKEN, ids=lambda case: case.name)
def test_case(case):
    task = load_task(case.task)
    settings = SETTINGS if case.outcome is Outcome.CORRECT else replace(SETTINGS, instructions_per_thread=4_000)
    verdict = verify(task, case.response, settings)
    text = feedback(task, verdict, 2000)
    assert verdict.outcome is case.outcome, f"{text}\n{verdict}"
    assert case.words in text
    if verdict.passed:
        assert verdict.checks_passed == verdict.checks_total == 6
        assert verdict.hidden_passed == verdict.hidden_total == 3
        assert verdict.stage == "done"


@pytest.mark.parametrize("task", [ADD, ROW_SUM, SPLIT], ids=lambda task: task.name)
def test_hand_tasks(task):
    verdict = verify(task, task.baseline, SETTINGS)
    assert verdict.passed, verdict
    assert set(verdict.seconds) == {"extract", "screen", "compile", "launch", "run", "compare"}
    assert verdict.resources["kernel"].registers > 0


@pytest.mark.parametrize("seed", range(3))
def test_checks_cover_shapes_and_regimes(seed):
    checks = make_checks(ADD, 6, seed)
    assert len(checks) == 6
    assert [check.public for check in checks] == [True] * 3 + [False] * 3
    assert {check.scalars["n"] for check in checks if check.public} == {257, 1}
    assert {check.scalars["n"] for check in checks if not check.public} == {1000, 64}
    assert {check.regime for check in checks} == set(ADD.regimes)
    for check in checks:
        np.testing.assert_allclose(check.wanted["z"], check.inputs["x"].astype(np.float64) + check.inputs["y"], rtol=0)
        assert check.wanted["z"].dtype == np.float64
        assert not check.inputs["x"].flags.writeable


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [1, 6, 9])
def test_no_shape_is_checked_in_masking_regimes_alone(count, seed):
    checks = make_checks(ADD, count, seed)
    telling = {check.scalars["n"] for check in checks if check.regime not in ("zero", "special")}
    assert telling == {check.scalars["n"] for check in checks} == {257, 1, 1000, 64}
    assert {check.regime for check in checks} == set(ADD.regimes)


def test_checks_depend_on_seed_and_name_only():
    first, again, other = make_checks(ADD, 6, 1), make_checks(ADD, 6, 1), make_checks(ADD, 6, 2)
    same = [np.array_equal(a.inputs["x"], b.inputs["x"]) for a, b in zip(first, again, strict=True)]
    assert all(same)
    assert any(
        a.inputs["x"].shape != b.inputs["x"].shape or not np.array_equal(a.inputs["x"], b.inputs["x"])
        for a, b in zip(first, other, strict=True)
    )


def test_poison_is_never_a_right_answer_and_differs():
    rng = np.random.default_rng(0)
    patterns = {poison("f32", rng) for _ in range(20)}
    assert len(patterns) > 15
    assert all(np.isnan(np.uint32(bits).view(np.float32)) for bits in patterns)
    assert np.isnan(np.uint64(poison("f64", rng)).view(np.float64))
    assert abs(poison("i32", rng)) > 2**29


def test_a_hidden_failure_counts_all_hidden_checks():
    code = """extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
      int i = blockIdx.x * 256 + threadIdx.x; if (i < n) z[i] = n == 1000 ? 0 : x[i] + y[i]; }"""
    verdict = verify(ADD, respond("// launch: grid=(ceil_div(n, 256)) block=(256)", code), SETTINGS)
    checks = [c for c in make_checks(ADD, SETTINGS.checks, SETTINGS.seed) if not c.public]
    passing = sum(c.scalars["n"] != 1000 or c.regime == "zero" for c in checks)
    assert (verdict.outcome, verdict.hidden_passed, verdict.hidden_total) == (Outcome.INCORRECT, passing, 3)
    assert verdict.checks_passed == 3 + passing
    assert "1000" not in feedback(ADD, verdict, 2000)


def test_the_second_output_and_float_scalars_are_compared():
    good = SPLIT.baseline
    assert (
        verify(SPLIT, good.replace("h[i] = (double)alpha", "h[i] = (double)-alpha"), SETTINGS).mismatch.output == "half"
    )
    assert verify(SPLIT, good.replace("2u *", "3u *"), SETTINGS).mismatch.output == "doubled"


def test_a_verdict_is_the_same_twice():
    response = respond("// launch: grid=(1) block=(32)")
    first, second = (verify(ADD, response, SETTINGS) for _ in range(2))
    assert first.mismatch == second.mismatch
    assert first.outcome is second.outcome


def test_the_compile_deadline_holds():
    tree = """template <int D, int I> struct T { static const int v = T<D - 1, 2 * I>::v + T<D - 1, 2 * I + 1>::v; };
template <int I> struct T<0, I> { static const int v = I; };
"""
    code = tree + ADD.baseline.split("\n", 2)[2].replace("x[i] + y[i]", "T<18, 0>::v")
    settings = replace(SETTINGS, compile_seconds=1.0)
    verdict = verify(ADD, f"```cuda\n// launch: grid=(1) block=(1)\n{code}", settings)
    assert verdict.outcome is Outcome.COMPILE_ERROR
    assert "time limit" in verdict.message


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        ("const float* x, const float* y, float* z, float n", "parameter 4 is a floating-point number, int is passed"),
        ("const float* x, double y, float* z, int n", "parameter 2 is a floating-point number, the pointer y is"),
        ("const float* x, const float* y, float* z, unsigned n", None),
    ],
)
def test_parameters_of_another_type_are_told(signature, words):
    value = "y" if "double" in signature else "y[i]"
    code = f"""extern "C" __global__ void kernel({signature}) {{
      int i = blockIdx.x * 256 + threadIdx.x; if (i < (int)n) z[i] = x[i] + {value}; }}"""
    verdict = verify(ADD, respond("// launch: grid=(ceil_div(n, 256)) block=(256)", code), SETTINGS)
    assert verdict.outcome is (Outcome.LAUNCH_ERROR if words else Outcome.CORRECT), verdict
    assert (words or "") in verdict.message


def test_unknown_device():
    with pytest.raises(ValueError, match="unknown device"):
        verify(ADD, ADD.baseline, replace(SETTINGS, device="abacus"))


@pytest.mark.parametrize(
    "include",
    [
        '#include "/etc/passwd"',
        "#  include\t</etc/passwd>",
        '%:include "/etc/passwd"',
        '#inc\\\nlude "/etc/passwd"',
        '#include "../../secret.h"',
        "#include <cuda/../../../etc/passwd>",
    ],
)
def test_includes_that_leave_the_toolkit_are_hacks(include):
    assert screen(f"{include}\n__global__ void k() {{}}")[0] is Outcome.HACK


@pytest.mark.parametrize(
    "code",
    [
        "#include <cuda_fp16.h>\n__global__ void k() {}",
        '// #include "/etc/passwd" is not allowed\n__global__ void k() {}',
        '__global__ void k() { asm("mov.u32 %0, %tid.x;" : "=r"(i)); }',
        '__global__ void k() { asm volatile("st.global.f32 [%0], %1;" :: "l"(p), "f"(v)); }',
        '__global__ void k() { asm("{ .reg .pred p; setp.eq.u32 p, %0, 0; }" :: "r"(i)); }',
    ],
)
def test_ordinary_code_is_not_refused(code):
    assert screen(code) is None


def test_pool_of_real_workers(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    with VerificationPool(2, SETTINGS, deadline_seconds=60.0) as pool:
        pool.check("relu")
        responses = {case.name: pool.submit(case.task, case.response) for case in (GOOD[14], BROKEN[0])}
        assert [future.result(60).outcome for future in responses.values()] == [
            Outcome.CORRECT,
            Outcome.INCORRECT,
        ]
        assert pool.submit("no_such_task", GOOD[0].response).result(60).outcome is Outcome.INFRA_ERROR
        assert pool.submit("hand_tasks:ADD", ADD.baseline).result(60).passed


def test_check_of_a_broken_set_up_is_one_clear_line():
    with (
        VerificationPool(1, SETTINGS, 60.0, command=(sys.executable, "-c", "raise SystemExit(3)")) as pool,
        pytest.raises(RuntimeError, match=r"verification does not work: .* did not start"),
    ):
        pool.check("relu")


def test_a_worker_imports_no_jax():
    code = "import sys, leap_jax.kernels.worker; sys.exit('jax' in sys.modules)"
    root = str(Path(command.__file__).parents[1])
    assert subprocess.run([sys.executable, "-c", code], cwd=root).returncode == 0


def test_the_command_line(tmp_path, capsys):
    file = tmp_path / "kernel.cu"
    file.write_text(GOOD[0].response.strip("`\n").removeprefix("cuda\n"))
    assert command.main([str(file), "--task=relu"]) == 0
    assert "correct: checks: 6 of 6 passed." in capsys.readouterr().out
    file.write_text(BROKEN[0].response)
    assert command.main([str(file), "--task=relu"]) == 1
    assert "untouched" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.cu", "--task=relu"], "cannot read missing.cu"),
        ([__file__, "--task=nothing"], "no task"),
        ([__file__, "--task=composed/x"], "composed"),
        ([__file__], "--task"),
    ],
)
def test_bad_usage_is_one_line(arguments, words, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err
