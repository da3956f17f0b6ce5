"""A value that cannot mean anything is refused by its key. What the experiments are is in test_experiments.py."""

from __future__ import annotations

import pytest
from ml_collections import ConfigDict

from experiments import leap
from leap_jax.config import gate_window, longest_prompt, validate
from leap_jax.experiment import ConfigError, flatten


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
        ({"gate.explore_prob": 1.5}, "gate.explore_prob=1.5: must lie between 0.0 and 1.0"),
        ({"gate.explore_prob": 0.5, "gate.mode": "always"}, "gate.explore_prob=0.5: there is no closed group"),
        ({"gate.explore_prob": 0.5, "max_turns": 1}, "gate.explore_prob=0.5: there is no closed group"),
        ({"gate.recheck_each_turn": True, "gate.mode": "random"}, "gate.recheck_each_turn=True: gate.mode=random"),
        ({"gate.recheck_each_turn": True, "gate.mode": "always"}, "gate.recheck_each_turn=True: gate.mode=always"),
        ({"gate.prior_rollouts": -1.0}, "gate.prior_rollouts=-1.0"),
        ({"gate.history_decay": 1.1}, "gate.history_decay=1.1"),
        ({"dead_groups.then": "drop"}, "dead_groups.then='drop': must be one of keep, refill, retry_buffer"),
        ({"dead_groups.refill_rounds": 0}, "dead_groups.refill_rounds=0"),
        ({"dead_groups.buffer_size": 0}, "dead_groups.buffer_size=0"),
        ({"dead_groups.then": "retry_buffer", "dead_groups.retry_prob": 0.0}, "dead_groups.retry_prob=0.0"),
        ({"curriculum.max_operations": (0, 2)}, "curriculum.max_operations=(0, 2): a task has at least 1 operation"),
        ({"reward": "nothing"}, "reward 'nothing' is unknown"),
        ({"reward": "no_package.module.f"}, "cannot be imported"),
        ({"advantage": "median"}, "advantage='median'"),
        ({"credit.rule": "last"}, "credit.rule='last'"),
        ({"credit.rule": "reward_to_go"}, "reward=tournament, credit.rule=reward_to_go: this reward is of a rollout"),
        ({"reward": "checks"}, "reward=checks, credit.rule=leap: this reward is of each turn; use a rule for it"),
        ({"advantage_over": "step"}, "advantage_over='step': must be one of group, turn"),
        ({"advantage_over": "turn"}, "advantage_over=turn, credit.rule=leap: a baseline of each turn"),
        (
            {"reward": "kevin", "credit.rule": "reward_to_go"},
            "reward=kevin: needs the times of correct answers, and kernels.device=emulator gives none; "
            "set reward_options.speed_weight=0",
        ),
        ({"reward": "tournament_speed"}, "reward=tournament_speed: needs the times of correct answers"),
        (
            {"reward": "manual", "max_turns": 4},
            "reward_options.turn_rewards=(1.0, 0.8, 0.6): one for each of max_turns",
        ),
        ({"reward_options.first_turn_weight": 1.5}, "reward_options.first_turn_weight=1.5"),
        ({"credit.negative_weight": -1.0}, "credit.negative_weight=-1.0"),
        ({"objective.dual_clip": 1.0}, "objective.dual_clip=1.0: must be greater than 1"),
        ({"objective.token_veto": 2.0}, "objective.token_veto=2.0: must lie between"),
        ({"objective.mirror_pop": 0.0}, "objective.mirror_pop=0.0: must be greater than 0"),
        ({"objective.kl_estimator": "k4"}, "objective.kl_estimator='k4': must be one of k1, k2, k3"),
        ({"objective.sequence": "token"}, "objective.sequence='token': must be one of rollout, turn"),
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


def test_a_repair_is_given_the_room_of_a_prompt_an_answer_and_its_feedback():
    config = leap.get_config()
    assert longest_prompt(config) == config.sampling.max_prompt_tokens == 64
    config.dead_groups.then = "retry_buffer"
    assert longest_prompt(config) == 64 + 128 + 96
