"""The budget: what ends a run, and the learning rate over it."""

from __future__ import annotations

import json

import pytest

from experiments import leap
from leap_jax import budget, train


def test_the_nearest_limit_decides():
    config = leap.get_config()
    assert budget.limits(config) == {"steps": 80}
    config.budget.verifications, config.budget.train_seconds = 1000, 60.0
    limits = budget.limits(config)
    spent = {"steps": 20, "verifications": 500, "response_tokens": 10**9, "train_seconds": 6.0}
    assert budget.progress(spent, limits) == 0.5  # tokens have no limit
    assert budget.progress(spent | {"steps": 60}, limits) == 0.75
    assert budget.progress(spent | {"train_seconds": 90.0}, limits) == 1.5


def test_spending_adds_up_by_step():
    step = {"train/verifications": 10, "train/response_tokens": 300, "seconds/step": 1.5, "train/other": 7}
    assert budget.add(budget.add(budget.NOTHING_SPENT, step), step) == {
        "verifications": 20,
        "response_tokens": 600,
        "train_seconds": 3.0,
    }


@pytest.mark.parametrize(
    ("step", "progress", "expected"),
    [(1, 0.0, 0.25), (3, 0.0, 0.75), (4, 0.0, 1.0), (90, 0.5, 0.55), (90, 1.0, 0.1), (90, 1.2, 0.1), (2, 0.5, 0.275)],
)
def test_the_learning_rate_warms_up_by_step_and_decays_by_budget(step, progress, expected):
    assert budget.learning_rate(step, progress, peak=2.0, warmup_steps=3) == pytest.approx(2.0 * expected)


def test_a_run_ends_at_its_budget_evaluates_there_and_stays_ended(cache_dir, tmp_path):
    config = leap.get_config("smoke")
    config.cache_dir = str(cache_dir)
    config.steps, config.evaluation.tasks, config.evaluation.every_steps = 9, 1, 0
    config.budget.verifications = 12  # a step of the smoke run is 8 first turns: over in the second
    train.train(config, tmp_path / "run")
    train.train(config, tmp_path / "run")  # nothing is left to do
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == [0, 1, 2]
    assert ["eval/heldout/acc@1" in line for line in metrics] == [True, False, True]
    assert [line["total/progress"] for line in metrics[1:]] == [8 / 12, 16 / 12]
    peak = config.optimizer.learning_rate
    assert metrics[1]["train/learning_rate"] == pytest.approx(peak / 2)  # one step of warm-up
    assert metrics[2]["train/learning_rate"] == pytest.approx(
        budget.learning_rate(2, 8 / 12, peak=peak, warmup_steps=1)
    )
