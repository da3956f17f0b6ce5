"""The driver of comparisons: what it plans, what it runs, skips and resumes, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT

from leap_jax import compare, trainer_process

TOY = """
import sys
from leap_jax import compare, trainer_process
trainer_process.PROGRAM = "tests.toy_trainer"
compare.POLL_SECONDS = 0.05
sys.exit(compare.main())
"""
TWO = ("--configs=leap:smoke,grpo:smoke", "--seeds=0,1")


def command(folder: Path, *flags: str) -> list[str]:
    return [sys.executable, "-c", TOY, f"--folder={folder}", *flags]


@pytest.fixture
def toy(monkeypatch, tmp_path, capsys):
    """Run the driver on toy trainers; returns its exit status and what it printed."""
    monkeypatch.setattr(trainer_process, "PROGRAM", "tests.toy_trainer")
    monkeypatch.setattr(compare, "POLL_SECONDS", 0.05)
    monkeypatch.chdir(ROOT)

    def run(*flags: str) -> tuple[int, str, str]:
        status = compare.main([f"--folder={tmp_path}", *flags])
        return status, *capsys.readouterr()

    return run


def starts(folder: Path) -> dict[str, list[str]]:
    """By run: from which step each of its processes went on."""
    return {
        f"{path.parent.parent.name} {path.parent.name}": path.read_text().split()
        for path in sorted(folder.glob("*/*/starts"))
    }


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("steps:7", ["steps=7"]),
        ("verifications:10", ["budget.verifications=10", "steps=2"]),  # 8 first answers a step of the smoke variant
        ("response_tokens:16", ["budget.response_tokens=16", "steps=2"]),
        ("train_seconds:60", ["budget.train_seconds=60", "steps=1000000"]),
    ],
)
def test_a_budget_becomes_config_keys(limit, expected):
    (run,) = compare.plan(["leap:smoke"], [5], limit, ["gate.t_min=1"], Path("runs"))
    assert compare.limit_overrides(limit, run.config) == expected
    assert run.arguments == [
        "--config=experiments/leap.py:smoke",
        "--workdir=runs/leap-smoke/seed_5",
        *(f"--config.{override}" for override in ("seed=5", "gate.t_min=1", *expected)),
    ]
    assert (run.config.seed, run.config.gate.t_min) == (5, 1)


def test_runs_are_planned_seed_by_seed_each_once():
    runs = compare.plan(["leap", "grpo", "leap"], [0, 1, 0], None, [], Path("runs"))
    assert [(run.experiment, run.seed) for run in runs] == [("leap", 0), ("grpo", 0), ("leap", 1), ("grpo", 1)]
    compare.require_one_start(runs)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--configs=leapp"], "leapp.py does not exist; here are: any_success_pruned, "),
        (["--configs=leap:smok"], "'smok'"),
        (["--configs=leap", "--seeds=0,x"], "--seeds=0,x"),
        (["--configs=leap", "--budget=verdicts:5"], "kinds: steps, verifications, response_tokens, train_seconds"),
        (["--configs=leap", "--budget=steps"], "--budget=steps"),
        (["--configs=leap", "--set=gate.x=1"], "'x'"),
        (["--configs=leap", "--set=group_size=1"], "leap: group_size=1"),
        (["--configs=leap,leap:smoke"], "leap:smoke does not start from the same policy as leap"),
        (["--configs=leap", "--parallel=0"], "--parallel"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_runs(flags, said, tmp_path, capsys):
    try:
        status = compare.main([f"--folder={tmp_path / 'runs'}", *flags])
    except SystemExit as refused:
        status = refused.code
    assert status == compare.BAD_USAGE
    assert said in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_only_what_is_missing_is_run(toy, tmp_path):
    assert toy("--configs=leap:smoke")[0] == compare.COMPLETE
    status, out, err = toy(*TWO, "--parallel=2")
    assert status == compare.COMPLETE
    assert starts(tmp_path) == {f"{name}-smoke seed_{seed}": ["0"] for name in ("grpo", "leap") for seed in (0, 1)}
    assert "leap:smoke seed 0: complete, 100% of the budget, held-out Acc@1 40.0%" in err
    assert "\x1b" not in out + err
    (row,) = [line.split() for line in out.splitlines() if line.strip().startswith("leap:smoke")]
    assert row[:8] == ["leap:smoke", "2", "40.0%", "[40.0%,", "40.0%]", "20.0%", "[20.0%,", "20.0%]"]


def test_a_failed_run_is_named_and_the_others_go_on(toy, tmp_path):
    status, _, err = toy("--configs=leap:smoke", "--seeds=13,0")
    assert status == compare.FAILED
    assert f"error: {tmp_path / 'leap-smoke' / 'seed_13'}: the seed is unlucky" in err
    assert starts(tmp_path) == {"leap-smoke seed_0": ["0"]}


def test_a_folder_of_another_config_is_not_complete(toy, tmp_path):
    assert toy("--configs=leap:smoke")[0] == compare.COMPLETE
    for settings, complete in (([], True), (["gate.t_min=1"], False)):
        (run,) = compare.plan(["leap:smoke"], [0], None, settings, tmp_path)
        run.read()
        assert run.progress == 1.0
        assert run.is_complete() == complete


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_stopped_or_killed_it_goes_on_where_it_was(toy, tmp_path, sent):
    driver = subprocess.Popen(command(tmp_path, *TWO), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    metrics = tmp_path / "grpo-smoke" / "seed_0" / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_text().count("\n") >= 1):
        time.sleep(0.02)
    driver.send_signal(sent)
    driver.communicate(timeout=60)
    assert driver.returncode == (compare.INTERRUPTED if sent is signal.SIGINT else -signal.SIGKILL)
    time.sleep(0.1)
    assert not trainers(tmp_path)
    assert toy(*TWO)[0] == compare.COMPLETE
    went_on = starts(tmp_path)
    assert len(went_on.pop("grpo-smoke seed_0")) == 2
    assert set(map(tuple, went_on.values())) == {("0",)}
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == [1, 2, 3, 4]


def trainers(folder: Path) -> list[str]:
    """Command lines of living processes that work under the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in text and int(path.parent.name) != os.getpid():
            found.append(text)
    return found


def test_the_time_left_follows_the_pace_of_this_session():
    runs = compare.plan(["leap", "grpo"], [0, 1], None, [], Path("runs"))
    assert compare.seconds_left(runs, 1, now=0.0) is None
    leap_0, grpo_0, _, _ = runs
    leap_0.state, leap_0.started, leap_0.ended = "complete", 0.0, 100.0
    leap_0.progress_before, leap_0.metrics["total/progress"] = 0.5, 1.0  # 200 s for a whole run
    grpo_0.state, grpo_0.started, grpo_0.metrics["total/progress"] = "running", 100.0, 0.25
    # grpo: 80 s for a whole run, of which 60 left, and all of seed 1; leap: all of seed 1
    assert compare.seconds_left(runs, 1, now=120.0) == pytest.approx(60 + 80 + 200)
    assert compare.seconds_left(runs, 4, now=120.0) == pytest.approx(200)  # no run is cut in pieces


def test_real_runs_start_from_one_cold_start_and_end_at_the_budget(cache_dir, tmp_path):
    """The real entry point, two methods; a verdict more or less is a step, so both end at or just past it."""
    flags = ("--configs=leap:smoke,unpruned:smoke", "--budget=verifications:9", f"--folder={tmp_path}")
    small = ("--set=evaluation.tasks=1", f"--set=cache_dir={cache_dir}")
    done = subprocess.run(
        [sys.executable, "-m", "leap_jax.compare", *flags, *small], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    starts, prompts = set(), set()
    for name, steps in (("leap-smoke", 2), ("unpruned-smoke", 1)):
        workdir = tmp_path / name / "seed_0"
        metrics = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
        assert [line["step"] for line in metrics] == list(range(steps + 1))
        assert metrics[-1]["total/verifications"] >= 9
        starts.add((workdir / "initial_policy.txt").read_text())
        rollouts = map(json.loads, (workdir / "rollouts.jsonl").read_text().splitlines())
        prompts.add(tuple(sorted({turn["task"] for turn in rollouts if turn["step"] == 1})))
    assert len(starts) == len(prompts) == 1
    assert "unpruned:smoke" in done.stdout


def test_a_folder_is_not_shared(launch, cache_dir, tmp_path):
    from leap_jax.run_folder import locked

    workdir = tmp_path / "run"
    workdir.mkdir()
    with locked(workdir):
        done = launch("--config=experiments/leap.py:smoke", f"--workdir={workdir}")
    assert done.returncode == 1
    assert f"error: {workdir} is in use by another process" in done.stderr
