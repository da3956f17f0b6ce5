"""Every experiment means something, and a value that cannot is refused by its key."""

from __future__ import annotations

import importlib
import json

import pytest
from conftest import ROOT
from ml_collections import ConfigDict

from experiments import leap
from leap_jax import train
from leap_jax.config import gate_window, validate
from leap_jax.experiment import ConfigError, flatten

EXPERIMENTS = sorted(path.stem for path in (ROOT / "experiments").glob("*.py") if path.stem != "__init__")


def experiment(name: str, variant: str = "") -> ConfigDict:
    return importlib.import_module(f"experiments.{name}").get_config(variant)


@pytest.mark.parametrize("variant", ["", "smoke"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_valid(name, variant):
    """And has the keys of `leap`, no more and no fewer, each of the same type."""
    config = experiment(name, variant)
    validate(config)
    ours, base = flatten(config), flatten(leap.get_config())
    assert ours.keys() == base.keys()
    assert all(type(ours[k]) is type(base[k]) for k in base)
    json.dumps(ours)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_unknown_variant_is_refused(name):
    with pytest.raises(ValueError, match="'smok'"):
        experiment(name, "smok")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"group_size": 1}, "group_size=1: must be at least 2"),
        ({"steps": 0}, "steps=0: must be at least 1"),
        ({"seed": -1}, "seed=-1"),
        ({"max_turns": 0}, "max_turns=0"),
        ({"gate.mode": "open"}, "gate.mode='open': must be one of window, always, never"),
        ({"gate.t_min": 5, "gate.t_max": 4}, "gate.t_min=5, gate.t_max=4"),
        ({"gate.t_min": -1}, "gate.t_min=-1"),
        ({"gate.t_max": 9}, "gate.t_max=9"),
        ({"reward": "nothing"}, "reward 'nothing' is unknown"),
        ({"reward": "no_package.module.f"}, "cannot be imported"),
        ({"advantage": "median"}, "advantage='median'"),
        ({"credit.rule": "last"}, "credit.rule='last'"),
        ({"credit.gamma": 1.5}, "credit.gamma=1.5: must lie between 0.0 and 1.0"),
        ({"objective.clip_low": -0.1}, "objective.clip_low=-0.1"),
        ({"objective.kl_coef": -1.0}, "objective.kl_coef=-1.0"),
        ({"objective.aggregation": "mean"}, "objective.aggregation='mean'"),
        ({"optimizer.learning_rate": 0.0}, "optimizer.learning_rate=0.0: must be greater than 0"),
        ({"optimizer.learning_rate": float("nan")}, "optimizer.learning_rate=nan: must be a finite number"),
        ({"optimizer.name": "sgd"}, "optimizer.name='sgd'"),
        ({"optimizer.warmup_steps": 10**6}, "optimizer.warmup_steps=1000000: must be less than steps"),
        ({"optimizer.updates_per_step": 3}, "optimizer.updates_per_step=3: must divide prompts_per_step=16"),
        ({"policy.num_kv_heads": 4}, "policy.num_kv_heads=4: must divide policy.num_heads"),
        ({"policy.head_dim": 33}, "policy.head_dim=33: must be even"),
        ({"sampling.max_response_tokens": -5}, "sampling.max_response_tokens=-5"),
        ({"sampling.temperature": 0.0}, "sampling.temperature=0.0"),
        ({"sampling.batch_buckets": (16, 8)}, "sampling.batch_buckets=(16, 8): must be increasing"),
        ({"sampling.batch_buckets": (4,)}, "group_size=8: a group must fit"),
        ({"cold_start.compositions": 0}, "cold_start.compositions=0"),
        ({"kernels.workers": 0}, "kernels.workers=0"),
        ({"kernels.device": "pycuda"}, "kernels.device=pycuda"),
        ({"kernels.device": "opencl"}, "kernels.device='opencl'"),
        ({"kernels.infra_error_limit": 2.0}, "kernels.infra_error_limit=2.0"),
        ({"kernels.deadline_seconds": -1.0}, "kernels.deadline_seconds=-1.0"),
    ],
    ids=lambda value: None if isinstance(value, str) else ",".join(value),
)
def test_an_impossible_value_is_refused_by_its_key(overrides, said):
    config = leap.get_config()
    config.update_from_flattened_dict(overrides)
    with pytest.raises(ConfigError) as refused:
        validate(config)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_gate_window_is_filled_in():
    config = leap.get_config()
    assert gate_window(config) == (4, 7)  # of 8: at least half fail, at least one passes
    config.group_size = 5
    assert gate_window(config) == (3, 4)
    config.gate.t_min, config.gate.t_max = 0, 5
    assert gate_window(config) == (0, 5)


def test_flatten_names_inner_keys_by_path():
    assert flatten(ConfigDict({"a": 1, "b": {"c": None, "d": {"e": "x"}}})) == {"a": 1, "b.c": None, "b.d.e": "x"}


@pytest.mark.parametrize("name", ["grpo", "unpruned"])
def test_a_baseline_runs_a_step(name, cache_dir, tmp_path):
    config = experiment(name, "smoke")
    config.cache_dir = str(cache_dir)
    config.steps, config.optimizer.warmup_steps = 1, 0
    config.evaluation.tasks = 1
    config.reward = "tests.toy_rewards.by_length"  # the smoke policy passes nothing
    train.train(config, tmp_path / "run")
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == [0, 1]
    multi_turn = name == "unpruned"
    assert metrics[1]["train/open_share"] == float(multi_turn)
    assert metrics[1]["train/verifications"] == (16 if multi_turn else 8)  # nothing passes: every turn is taken
    assert metrics[1]["train/gradient_norm"] > 0
