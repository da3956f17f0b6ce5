"""Whole runs of the shipped smoke experiment through the real entry point: trained, killed, resumed, evaluated.

All runs share one cold start. The policy of six cold steps passes nothing, so a reward by length, which is a user's
own by dotted path, gives these runs a signal, and an open gate gives them second turns.
"""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from conftest import ROOT, SMOKE

from experiments.leap import get_config
from leap_jax import train

SIGNAL = (
    SMOKE,
    "--config.reward=tests.toy_rewards.by_length",
    "--config.advantage=mean",
    "--config.gate.mode=always",
    "--config.optimizer.micro_batch_tokens=512",
)
KILLED_RUN = str(ROOT / "tests" / "killed_run.py")
VOLATILE = ("seconds/", "system/", "total/train_seconds")  # and *_per_second: what a clock or the process decides


def killed(launch, target: str, call: int, signals: str, *flags: str):
    """A run that signals itself right after that call of `target` has returned."""
    return launch(target, str(call), signals, *flags, script=(KILLED_RUN,))


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def steady(path: Path) -> list[dict]:
    """The metrics that must not depend on the clock."""
    return [
        {k: v for k, v in line.items() if not k.startswith(VOLATILE) and not k.endswith("_per_second")}
        for line in lines(path)
    ]


def state_of(workdir: Path, step: int) -> dict[str, np.ndarray]:
    """Every array of a checkpoint by name: parameters and optimiser state."""
    with ocp.StandardCheckpointer() as checkpointer:
        arrays = checkpointer.restore((workdir / "checkpoints" / str(step) / "arrays").absolute())
    return {jax.tree_util.keystr(path): np.asarray(a) for path, a in jax.tree_util.tree_leaves_with_path(arrays)}


def assert_same_run(found: Path, expected: Path) -> None:
    """Bit for bit: metrics, rollouts, evaluations, parameters and optimiser state."""
    assert steady(found / "metrics.jsonl") == steady(expected / "metrics.jsonl")
    for name in ("rollouts.jsonl", *(f"eval/{path.name}" for path in (expected / "eval").iterdir())):
        assert (found / name).read_bytes() == (expected / name).read_bytes(), name
    ours, theirs = state_of(found, 3), state_of(expected, 3)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name].tobytes() == theirs[name].tobytes(), name


@pytest.fixture(scope="session")
def undisturbed(launch, tmp_path_factory) -> Path:
    """A finished run."""
    workdir = tmp_path_factory.mktemp("runs") / "undisturbed"
    done = launch(*SIGNAL, f"--workdir={workdir}")
    assert done.returncode == 0, done.stderr
    assert f"done: 3 steps, everything is in {workdir}" in done.stderr
    return workdir


def test_a_run_leaves_what_it_promises(undisturbed):
    metrics = {line["step"]: line for line in lines(undisturbed / "metrics.jsonl")}
    assert list(metrics) == [0, 1, 2, 3]
    assert [step for step, values in metrics.items() if "eval/heldout/acc@1" in values] == [0, 2, 3]
    for step in (1, 2, 3):
        for name in (
            *(f"train/{k}" for k in ("reward_mean", "acc@1", "open_share", "easy_share", "catastrophic_share")),
            *(f"train/{k}" for k in ("zero_signal_share", "verifications", "entropy", "kl_sampled", "clip_fraction")),
            *(f"train/{k}" for k in ("gradient_norm", "response_tokens", "outcome/correct", "outcome/infra_error")),
            *(f"seconds/{k}" for k in ("generate", "verify", "update", "evaluate")),
            *("system/compilations", "system/peak_memory_gib", "total/verifications"),
        ):
            assert math.isfinite(metrics[step][name]), name
        assert abs(metrics[step]["train/kl_sampled"]) < 1e-4
        assert metrics[step]["train/gradient_norm"] > 0
    assert metrics[3]["total/verifications"] == sum(metrics[s]["train/verifications"] for s in (1, 2, 3))

    turns = lines(undisturbed / "rollouts.jsonl")
    assert [sum(turn["step"] == s for turn in turns) for s in (1, 2, 3)] == [
        metrics[s]["train/verifications"] for s in (1, 2, 3)
    ]
    assert {turn["turn"] for turn in turns} == {1, 2}
    assert all(bool(turn["feedback"]) == (turn["turn"] == 1) for turn in turns if turn["outcome"] != "correct")
    assert len({turn["task"] for turn in turns}) == 6  # two prompts a step, none twice
    lengths = Counter()
    for turn in turns:
        lengths[turn["step"], turn["prompt"], turn["rollout"]] += turn["response_tokens"]
    for turn in turns:  # the user's reward is what was earned
        assert turn["reward"] == pytest.approx(-lengths[turn["step"], turn["prompt"], turn["rollout"]] / 100)

    assert sorted(path.name for path in (undisturbed / "eval").iterdir()) == [f"step_00000{s}.jsonl" for s in (0, 2, 3)]
    assert json.loads((undisturbed / "config.json").read_text())["reward"] == "tests.toy_rewards.by_length"
    assert list((undisturbed / "tensorboard").iterdir())
    before, after = state_of(undisturbed, 2), state_of(undisturbed, 3)  # the two that are kept
    assert any(before[name].tobytes() != after[name].tobytes() for name in before)


def test_a_run_killed_in_every_phase_ends_the_same(undisturbed, launch, tmp_path):
    """One run that dies five times and is started again with the same command."""
    workdir = tmp_path / "run"
    moments = (
        ("leap_jax.policy.sampler:Sampler.sample", 1, "SIGKILL"),  # in the first evaluation: no checkpoint yet
        ("leap_jax.rollout:_Part.decide", 2, "SIGINT,SIGINT"),  # Ctrl-C twice ends at once: step 1 is half sampled
        ("leap_jax.checkpoint:Checkpoints.save", 1, "SIGKILL"),  # the save of step 1 has begun
        ("leap_jax.update:Learner.update", 1, "SIGKILL"),  # the next update is in memory only
        ("leap_jax.train:append_jsonl", 1, "SIGKILL"),  # its rollouts are written, its metrics are not
    )
    for target, call, signals in moments:
        died = killed(launch, target, call, signals, *SIGNAL, f"--workdir={workdir}")
        assert died.returncode == (-9 if signals == "SIGKILL" else -2), died.stderr
        assert "saved at step" not in died.stderr
    done = launch(*SIGNAL, f"--workdir={workdir}")
    assert done.returncode == 0, done.stderr
    assert "resumed at step" in done.stderr
    assert_same_run(workdir, undisturbed)


def test_stopped_by_ctrl_c_it_saves_and_goes_on_to_the_same_end(undisturbed, launch, tmp_path):
    """2N steps = N, then the same command again for the other N."""
    workdir = tmp_path / "run"
    stopped = killed(launch, "leap_jax.update:Learner.update", 1, "SIGINT", *SIGNAL, f"--workdir={workdir}")
    assert stopped.returncode == 0, stopped.stderr
    assert "saved at step 1, 33% of the budget; the same command goes on" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert (workdir / "checkpoints" / "1").is_dir()
    assert [line["step"] for line in lines(workdir / "metrics.jsonl")] == [0, 1]
    done = launch(*SIGNAL, f"--workdir={workdir}")
    assert done.returncode == 0, done.stderr
    assert "resumed at step 1 from" in done.stderr
    assert_same_run(workdir, undisturbed)


def test_what_a_run_remembers_survives_its_death(cache_dir, tmp_path, monkeypatch):
    """A retry buffer and pass rates, with groups opened to explore: three steps, and three with a death in the last."""
    config = get_config("smoke")
    config.update_from_flattened_dict(
        {
            "cache_dir": str(cache_dir),
            "reward": "tests.toy_rewards.by_length",
            "advantage": "mean",
            "gate.mode": "pass_rate",
            "gate.explore_prob": 0.5,
            "dead_groups.then": "retry_buffer",
            "dead_groups.retry_prob": 0.7,
            "sampling.max_feedback_tokens": 200,
            "sampling.max_response_tokens": 32,
            "evaluation.tasks": 1,
        }
    )
    undisturbed, workdir = tmp_path / "undisturbed", tmp_path / "run"
    train.train(config, undisturbed)
    metrics = lines(undisturbed / "metrics.jsonl")
    assert [line["train/repair_share"] > 0 for line in metrics[1:]].count(True) > 0
    assert metrics[1]["train/retry_buffer"] == 0 < metrics[3]["train/retry_buffer"] + metrics[3]["train/repair_share"]
    assert {turn["repair"] for turn in lines(undisturbed / "rollouts.jsonl")} == {True, False}
    assert metrics[1]["train/expected_pass_rate"] == 0.5, "nothing was seen before"

    def dies(*arguments):
        raise InterruptedError

    with monkeypatch.context() as patched:
        write = train.append_jsonl
        patched.setattr(train, "append_jsonl", lambda path, *r: dies() if r[0]["step"] == 3 else write(path, *r))
        with pytest.raises(InterruptedError):
            train.train(config, workdir)
    assert [line["step"] for line in lines(workdir / "metrics.jsonl")] == [0, 1, 2]
    train.train(config, workdir)
    assert_same_run(workdir, undisturbed)
    remembered = [(path / "checkpoints/3/extra/metadata").read_text() for path in (undisturbed, workdir)]
    ours, theirs = (json.loads(text)["history"] for text in remembered)
    assert ours == theirs
    assert sum(ours["judged"].values()) > 4, "two prompts of four rollouts a step, the older the less"


def test_dead_groups_are_replaced_and_paid_for(cache_dir, tmp_path):
    """Every answer fails, so the tournament has no signal: all groups are replaced twice, the last ones stay."""
    config = get_config("smoke")
    config.cache_dir, config.steps, config.optimizer.warmup_steps = str(cache_dir), 1, 0
    config.dead_groups.then, config.evaluation.tasks = "refill", 1
    train.train(config, tmp_path / "run")
    metrics = lines(tmp_path / "run" / "metrics.jsonl")[1]
    assert metrics["train/replaced_groups"] == 4
    assert metrics["train/verifications"] == metrics["total/verifications"] == 3 * 2 * 4
    asked = lines(tmp_path / "run" / "rollouts.jsonl")
    assert [turn["prompt"] for turn in asked] == sorted([0, 1, 2, 3, 4, 5] * 4)
    assert len({turn["task"] for turn in asked}) == 6
    assert len({turn["response"] for turn in asked}) > 6 * 2, "rollouts have keys of their own"


def test_a_finished_run_can_be_evaluated(undisturbed, launch, tmp_path):
    """The same numbers as at the end of training, in files of their own; the same flags again sample nothing."""
    workdir = shutil.copytree(undisturbed, tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in workdir.rglob("*") if path.is_file()}
    scored = launch(*SIGNAL, f"--workdir={workdir}", "--evaluate")
    assert scored.returncode == 0, scored.stderr
    last = lines(workdir / "metrics.jsonl")[-1]
    for name in ("acc@1", "acc@2", "acc@1_low", "response_tokens"):
        assert f"step 3  eval/heldout/{name} = {last[f'eval/heldout/{name}']:.4f}" in scored.stderr
    after = {path: path.stat().st_mtime_ns for path in workdir.rglob("*") if path.is_file()}
    name = "step_000003.heldout-4.samples-2.turns-2.temperature-1.seed-0"
    assert {path.name for path in after if after[path] != before.get(path)} == {f"{name}.json", f"{name}.jsonl"}
    assert (workdir / "eval" / f"{name}.jsonl").read_bytes() == (workdir / "eval/step_000003.jsonl").read_bytes()

    again = launch(str(workdir), "--json", script=("-m", "leap_jax.evaluate"))
    assert again.returncode == 0, again.stderr
    assert f"read from eval/{name}" in again.stderr
    (run,) = json.loads(again.stdout)["runs"]
    assert run["scores"]["response_tokens"]["value"] == last["eval/heldout/response_tokens"]
    assert run["scores"]["acc@1"]["high"] == last["eval/heldout/acc@1_high"]


def test_runs_are_compared_on_the_same_tasks(undisturbed, launch, tmp_path):
    """Of two copies of a run one is scored greedily on suite tasks first: only the other one samples then."""
    one, other = (shutil.copytree(undisturbed, tmp_path / name) for name in ("one", "other"))
    flags = ("--greedy", "--tasks=suite:relu,softmax", "--turns=1", "--step=2")
    alone = launch(str(one), *flags, script=("-m", "leap_jax.evaluate"))
    assert alone.returncode == 0, alone.stderr
    assert "one, step 2: suite:relu,softmax, 1 samples a task, greedy, seed 0" in alone.stdout
    assert "No speedups" in alone.stdout
    both = launch(str(one), str(other), *flags, "--json", script=("-m", "leap_jax.evaluate"))
    assert both.returncode == 0, both.stderr
    assert both.stderr.count("read from eval/") == 1
    report = json.loads(both.stdout)
    assert [run["tasks"] for run in report["runs"]] == [2, 2]
    assert report["runs"][0]["scores"] == report["runs"][1]["scores"]
    assert report["less_the_first"][str(other)]["acc@1"] == {"value": 0, "low": 0, "high": 0, "p_value": 1, "tasks": 2}
    assert {row["axis"]: row["spent"] for row in report["training"] if row["run"] == str(other)}["steps"] == 3
    assert "has no checkpoint '7'" in launch(str(one), "--step=7", script=("-m", "leap_jax.evaluate")).stderr


def test_another_config_is_refused_and_named(undisturbed, launch, tmp_path):
    workdir = tmp_path / "run"
    shutil.copytree(undisturbed, workdir)
    refused = launch(*SIGNAL, "--config.optimizer.learning_rate=0.5", "--config.steps=4", f"--workdir={workdir}")
    assert refused.returncode == 1
    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("error: ")]
    assert f"optimizer.learning_rate was {get_config().optimizer.learning_rate}, is 0.5" in line
    assert "steps was 3, is 4" in line
    assert "Traceback" not in refused.stderr
    assert_same_run(workdir, undisturbed)
    assert (workdir / "config.json").read_bytes() == (undisturbed / "config.json").read_bytes()
