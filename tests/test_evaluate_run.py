"""What is asked of a run: settings, the names of files, the config that a folder keeps, curves over its training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from episodes import CORRECT, FakePool, verdict

from experiments.leap import get_config
from leap_jax import evaluate_command, evaluate_run
from leap_jax.checkpoint import CheckpointError
from leap_jax.evaluate_command import chosen_settings, training_curves
from leap_jax.evaluate_run import Settings
from leap_jax.experiment import ConfigError, flatten
from leap_jax.run_folder import claim, stored_config


def flags(*arguments: str):
    return evaluate_command._parser().parse_args(["run", *arguments])


def test_what_is_not_given_is_that_of_the_config():
    config = get_config()
    config.seed = 3
    assert chosen_settings(flags(), config) == Settings("heldout:96", 4, 3, 1.0, 3)
    given = flags("--tasks=suite:relu", "--samples=9", "--turns=1", "--temperature=0.7", "--seed=0")
    assert chosen_settings(given, config) == Settings("suite:relu", 9, 1, 0.7, 0)


def test_greedy_takes_one_sample():
    for greedy in ("--greedy", "--temperature=0"):
        found = chosen_settings(flags(greedy), get_config())
        assert (found.temperature, found.samples) == (0, 1)
        with pytest.raises(ConfigError, match="--samples=2: greedy"):
            chosen_settings(flags(greedy, "--samples=2"), get_config())


@pytest.mark.parametrize(
    "bad", ["--samples=0", "--turns=x", "--temperature=-1", "--temperature=nan", "--seed=-1", "--tasks=test:4"]
)
def test_a_bad_flag_is_refused_in_one_line(bad, capsys):
    with pytest.raises(SystemExit) as refused:
        flags(bad)
    assert refused.value.code == 2
    assert bad.split("=")[0] in capsys.readouterr().err.strip().splitlines()[-1]


def test_every_setting_is_in_the_name():
    base = Settings("heldout:256", 8, 3, 1.0, 0)
    assert base.name(80) == "step_000080.heldout-256.samples-8.turns-3.temperature-1.seed-0"
    others = [
        Settings("heldout:64", 8, 3, 1.0, 0),
        Settings("heldout:256", 4, 3, 1.0, 0),
        Settings("heldout:256", 8, 1, 1.0, 0),
        Settings("heldout:256", 8, 3, 0.7, 0),
        Settings("heldout:256", 8, 3, 1.0, 1),
    ]
    assert len({one.name(80) for one in [base, *others]} | {base.name(8)}) == 7
    long = [Settings(f"suite:{','.join(['softmax'] * 40)},{last}", 1, 1, 0.0, 0).name(1) for last in ("relu", "gelu")]
    assert long[0] != long[1] and all(len(name) < 150 for name in long)


def test_a_run_folder_keeps_its_config(tmp_path):
    config = get_config()
    config.gate.t_min = 2
    config.optimizer.learning_rate = 0.25
    claim(tmp_path, config)
    assert stored_config(tmp_path).to_dict() == config.to_dict()


def test_a_key_that_is_newer_than_the_run_is_named(tmp_path, caplog):
    stored = flatten(get_config("smoke"))
    del stored["gate.mode"]
    (tmp_path / "config.json").write_text(json.dumps(stored | {"removed.since": 1}))
    found = stored_config(tmp_path)
    assert (found.gate.mode, found.steps, found.removed.since) == ("window", 3, 1)
    assert "gate.mode" in caplog.text and "steps" not in caplog.text


@pytest.mark.parametrize("text", [None, "{", "[1]", '{"steps": "many"}', '{"steps.inner": 1}'])
def test_a_folder_that_is_no_run_is_refused_in_one_line(text, tmp_path, capsys):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    assert evaluate_command.main([str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: ") and str(tmp_path) in line


def test_curves_are_compared_at_what_all_runs_have_spent(tmp_path):
    def run(name: str, heights: list[float], cost: int) -> Path:
        (tmp_path / name).mkdir()
        lines = [
            {"step": s, "acc": y, "seconds/step": 2.0, "total/verifications": s * cost, "total/response_tokens": s}
            for s, y in enumerate(heights)
        ]
        (tmp_path / name / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return tmp_path / name

    runs = [run("a", [0.0, 0.5, 0.6], 10), run("b", [0.0, 0.1, 0.2, 0.3], 10)]
    rows = {(row["run"][-1], row["axis"]): row for row in training_curves(runs, "acc", None)}
    spent = {"spent": 30.0, "budget": 20.0, "area": pytest.approx(0.1), "threshold": 0.6, "time_to_threshold": None}
    assert rows["b", "verifications"] == {"run": str(runs[1]), "axis": "verifications"} | spent
    assert rows["a", "verifications"]["time_to_threshold"] == 20.0
    assert training_curves(runs, "acc", 0.25)[1]["time_to_threshold"] == pytest.approx(2.5)
    with pytest.raises(CheckpointError, match="has no loss: choose another --metric"):
        training_curves(runs, "loss", None)


def test_baselines_are_timed_only_where_answers_have_times():
    pool = FakePool(lambda task, text: CORRECT)
    assert np.isnan(evaluate_run._baseline_times(pool, ["relu"], [{"time_us": None}])).all()
    assert not pool.submitted
    assert np.isnan(evaluate_run._baseline_times(pool, ["relu"], [{"time_us": 3.0}])).all()  # it has none itself
    assert [task for task, _ in pool.submitted] == ["relu"]
    assert verdict(CORRECT).time_us is None
