"""Every experiment trains: one shrunk step of each, by the real loop, with verdicts that are drawn by a checksum.

The smoke policy passes nothing, so a real checker would say the same of all its answers. Programs are compiled once
for all experiments that share them.
"""

from __future__ import annotations

import importlib
import json
import math
import zlib
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT
from episodes import CORRECT, INCORRECT, NO_ANSWER, verdict
from ml_collections import ConfigDict

from experiments import leap
from leap_jax import assemble, train
from leap_jax.config import validate
from leap_jax.experiment import ConfigError, flatten
from leap_jax.initial_policy import initial_policy
from leap_jax.kernels.verdict import Outcome, Verdict

FILES = sorted(path.stem for path in (ROOT / "experiments").glob("*.py") if path.stem != "__init__")
MODULES = {name: importlib.import_module(f"experiments.{name}") for name in FILES}
EXPERIMENTS = [(name, variant) for name in FILES for variant in getattr(MODULES[name], "VARIANTS", ("",))]
NAMES = [f"{name}:{variant}".rstrip(":") for name, variant in EXPERIMENTS]
REFUSED = {"leap_speed": "reward=tournament_speed: needs the times of correct answers"}  # by what the emulator lacks
TAKEN = [  # steps: other variants differ from the first of their file in a number only
    (name, variant)
    for name, variant in EXPERIMENTS
    if name not in REFUSED and (not variant or variant == MODULES[name].VARIANTS[0] or name in ("credit", "staged"))
]

# Outcomes and the checks that each passes, of 6.
VERDICTS = [(CORRECT, 6)] * 3 + [(INCORRECT, 3), (Outcome.COMPILE_ERROR, 0), (NO_ANSWER, 0)]


class Pool:
    """A pool without workers, always open: half of all answers pass."""

    def submit(self, task: str, text: str) -> Future[Verdict]:
        outcome, passed = VERDICTS[zlib.crc32(f"{task} {text}".encode()) % len(VERDICTS)]
        judged: Future[Verdict] = Future()
        judged.set_result(replace(verdict(outcome), checks_passed=passed, checks_total=6))
        return judged

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def check(self, task: str) -> None:
        pass


def shrunk(config: ConfigDict, cache_dir: Path) -> ConfigDict:
    """A smoke config made smaller still: one layer, and a cold start that teaches nothing."""
    config.cache_dir = str(cache_dir)
    config.policy.num_layers, config.policy.embed_dim, config.policy.ffw_dim = 1, 32, 64
    config.cold_start.compositions, config.cold_start.repairs, config.cold_start.steps = 16, 4, 2
    config.sampling.max_response_tokens = 48
    return config


@pytest.fixture(scope="module")
def initial(cache_dir, tmp_path_factory) -> str:
    """The name of the cold start that all of them are given."""
    config, workdir = shrunk(leap.get_config("smoke"), cache_dir), tmp_path_factory.mktemp("cold")
    config.sampling.max_response_tokens = 160  # so that answers fit
    assemble.prepare_jax(config)
    with assemble.pool(config) as pool:
        initial_policy(config, workdir, pool, lambda: None)
    return (workdir / "initial_policy.txt").read_text()


@pytest.fixture(scope="module")
def one_step(cache_dir, initial, tmp_path_factory):
    """Train for one step; returns its metrics and rollouts. Samplers and learners of the same sizes are made once."""
    made: dict = {}

    def once(make):
        def cached(graphdef, *arguments, **sizes):
            key = (make, *(a for a in arguments if hasattr(a, "_fields")), *sorted(sizes.items()))
            if sizes.get("reference_params") is not None:
                return make(graphdef, *arguments, **sizes)
            if key not in made:
                made[key] = make(graphdef, *arguments, **sizes)
            return made[key]

        return cached

    def run(name: str, variant: str) -> tuple[dict, list[dict]]:
        config = shrunk(MODULES[name].get_config("+".join(filter(None, (variant, "smoke")))), cache_dir)
        config.steps, config.optimizer.warmup_steps = 1, 0
        config.prompts_per_step = 6
        config.evaluation.tasks, config.evaluation.samples = 1, 1
        workdir = tmp_path_factory.mktemp("runs") / "run"
        workdir.mkdir()
        (workdir / "initial_policy.txt").write_text(initial)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(assemble, "pool", lambda config: Pool())
            patched.setattr(assemble, "Sampler", once(assemble.Sampler))
            patched.setattr(assemble, "Learner", once(assemble.Learner))
            train.train(config, workdir)
        return read(workdir / "metrics.jsonl")[1], read(workdir / "rollouts.jsonl")

    return run


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(("name", "variant"), EXPERIMENTS, ids=NAMES)
@pytest.mark.parametrize("size", ["", "smoke"])
def test_every_experiment_is_valid(name, variant, size):
    """And has the keys of `leap`, no more and no fewer, each of the same type."""
    config = MODULES[name].get_config("+".join(filter(None, (variant, size))))
    ours, base = flatten(config), flatten(leap.get_config(size))
    assert ours.keys() == base.keys()
    assert all(type(ours[k]) is type(base[k]) or base[k] is None for k in base)
    json.dumps(ours)
    if name in REFUSED:
        with pytest.raises(ConfigError, match=REFUSED[name]):
            validate(config)
    else:
        validate(config)


def test_no_two_experiments_are_the_same():
    configs = [json.dumps(flatten(MODULES[name].get_config(variant))) for name, variant in EXPERIMENTS]
    assert len(set(configs)) == len(configs) >= 20


@pytest.mark.parametrize("name", FILES)
def test_an_unknown_variant_is_refused(name):
    with pytest.raises(ValueError, match="'smok'"):
        MODULES[name].get_config("smok")
    for variant in getattr(MODULES[name], "VARIANTS", ()):
        with pytest.raises(ValueError, match="'smok'"):
            MODULES[name].get_config(f"{variant}+smok")


@pytest.mark.parametrize("name", [name for name in FILES if name != "leap"])
def test_every_experiment_says_how_it_is_run_what_it_costs_and_what_to_expect(name):
    said = " ".join(MODULES[name].__doc__.split()).lower()
    assert f"./launch.sh --config=experiments/{name}.py" in said
    assert "cost" in said or "verifications" in said
    if variants := getattr(MODULES[name], "VARIANTS", ()):
        assert all(variant in said for variant in variants)


@pytest.mark.parametrize(("name", "variant"), TAKEN, ids=[f"{name}:{variant}".rstrip(":") for name, variant in TAKEN])
def test_every_experiment_takes_a_step(one_step, name, variant):
    metrics, rollouts = one_step(name, variant)
    assert metrics["train/verifications"] == len(rollouts)
    outcomes = {turn["outcome"] for turn in rollouts}
    assert "correct" in outcomes and len(outcomes) > 1
    assert metrics["train/gradient_norm"] > 0
    assert all(math.isfinite(value) for value in metrics.values())
    opened = metrics["train/open_share"] + metrics["train/explored_open_share"]
    debugged = any(turn["turn"] > 1 for turn in rollouts)
    assert opened > 0 if debugged else (opened == 0 or name in ("lt_half", "max_turns"))
    assert debugged == (name not in ("grpo", "dr_grpo") and (name, variant) != ("max_turns", "1"))
