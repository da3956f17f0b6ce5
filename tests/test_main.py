"""The command line: whatever is wrong is said in one line, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import SMOKE

WITHOUT_COMPILER = """
import runpy
from importlib import metadata
distribution = metadata.distribution
def hidden(package):
    if package == "nvidia-cuda-nvrtc":
        raise metadata.PackageNotFoundError(package)
    return distribution(package)
metadata.distribution = hidden
runpy.run_module("leap_jax.main", run_name="__main__", alter_sys=True)
"""


def refusal(done) -> str:
    """The one line that a refused command ends with."""
    assert done.returncode not in (0, None), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    *before, last = done.stderr.strip().splitlines()
    assert last.startswith("error: "), done.stderr
    assert not any("error" in line.lower() for line in before), done.stderr
    return last.removeprefix("error: ")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        pytest.param([SMOKE, "--config.group_sise=4"], "group_sise", id="unknown key"),
        pytest.param([SMOKE, "--config.gate.t_mim=4"], "t_mim", id="unknown inner key"),
        pytest.param([SMOKE, "--config.group_size=many"], "many", id="wrong type"),
        pytest.param([SMOKE, "--config.group_size=2.5"], "2.5", id="fraction for a count"),
        pytest.param([SMOKE, "--wokdir=runs/a"], "wokdir", id="unknown flag"),
        pytest.param([SMOKE, "again"], "'again'", id="stray argument"),
        pytest.param([], "--config is missing", id="no config"),
        pytest.param(["--config=experiments/none.py"], "experiments/none.py", id="no such file"),
        pytest.param(["--config=experiments/leap.py:smok"], "'smok'", id="unknown variant"),
        pytest.param([SMOKE, "--config.group_size=1"], "group_size=1: must be at least 2", id="group of one"),
        pytest.param(
            [SMOKE, "--config.gate.t_min=4", "--config.gate.t_max=2"], "gate.t_min=4, gate.t_max=2", id="gate"
        ),
        pytest.param(
            [SMOKE, "--config.sampling.max_response_tokens=-8"], "max_response_tokens=-8", id="negative length"
        ),
        pytest.param([SMOKE, "--config.reward=tournamen"], "'tournamen' is unknown", id="unknown reward"),
        pytest.param(
            [SMOKE, "--config.reward=tests.toy_rewards.missing"], "no function 'missing'", id="no such reward"
        ),
        pytest.param([SMOKE, "--config.kernels.device=pycuda"], "kernels.device", id="device"),
    ],
)
def test_a_bad_command_is_refused_in_one_line(launch, tmp_path, flags, said):
    assert said in refusal(launch(*flags, f"--workdir={tmp_path / 'run'}"))
    assert not (tmp_path / "run").exists()


def test_a_workdir_that_cannot_be_made_is_refused(launch, tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("kept")
    for workdir in (in_the_way, in_the_way / "run"):
        assert f"cannot write {workdir}" in refusal(launch(SMOKE, f"--workdir={workdir}"))
    assert in_the_way.read_text() == "kept"


def test_a_missing_compiler_is_named(launch, tmp_path):
    done = launch(SMOKE, f"--workdir={tmp_path / 'run'}", script=("-c", WITHOUT_COMPILER))
    assert "nvidia-cuda-nvrtc is not installed" in refusal(done)


def test_there_is_nothing_to_evaluate_without_a_run(launch, tmp_path):
    workdir = tmp_path / "run"
    assert f"{workdir} has no checkpoints: train there first" in refusal(
        launch(SMOKE, "--evaluate", f"--workdir={workdir}")
    )
    assert not workdir.exists()


@pytest.mark.parametrize(
    ("reward", "said"),
    [("not_a_number", "step 1: a reward is not finite"), ("one_a_group", "of shape (2,), not [P, G] = (2, 4)")],
)
def test_a_bad_reward_function_stops_the_run(launch, tmp_path, reward, said):
    done = launch(SMOKE, f"--config.reward=tests.toy_rewards.{reward}", f"--workdir={tmp_path / 'run'}")
    assert said in refusal(done)
    steps = [line for line in Path(tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(steps) == 1, "the step is not written"


def test_a_prompt_that_does_not_fit_is_named(launch, tmp_path):
    done = launch(SMOKE, "--config.sampling.max_prompt_tokens=16", f"--workdir={tmp_path / 'run'}")
    assert "raise sampling.max_prompt_tokens=16" in refusal(done)


def test_ctrl_c_in_the_cold_start_is_no_error(launch, tmp_path):
    script = str(Path(__file__).parent / "killed_run.py")
    target = ("leap_jax.kernels.pool:VerificationPool.submit", "1", "SIGINT")
    flags = (SMOKE, "--config.cold_start.compositions=3", "--config.cold_start.repairs=0")
    done = launch(*target, *flags, f"--workdir={tmp_path / 'run'}", script=(script,))
    assert done.returncode == 0, done.stderr
    assert "stopped before the first step; the same command starts again" in done.stderr
    assert "Traceback" not in done.stderr
