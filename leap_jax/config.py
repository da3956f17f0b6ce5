"""Refuse a config that cannot mean anything, naming the key; everything derived from two keys is derived here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from leap_jax.algorithm import advantages, credit, gate, objective, returns, rewards
from leap_jax.experiment import ConfigError, flatten
from leap_jax.kernels.gpu import choice

DEVICES = ("auto", "pycuda", "emulator")
DEVICES_WITH_TIMES = ("pycuda",)  # whose verdicts say how long a correct answer takes
DEAD_GROUPS = ("keep", "refill", "retry_buffer")


def gate_window(config: ConfigDict) -> tuple[int, int]:
    """(T_min, T_max): the fewest and the most failing rollouts of an open group, defaults filled in."""
    t_min, t_max = gate.default_thresholds(config.group_size)
    return (
        t_min if config.gate.t_min is None else config.gate.t_min,
        t_max if config.gate.t_max is None else config.gate.t_max,
    )


def longest_prompt(config: ConfigDict) -> int:
    """Tokens of the longest prompt; with a retry buffer it ends with a failed answer and its feedback."""
    sampling = config.sampling
    repair = config.dead_groups.then == "retry_buffer"
    return sampling.max_prompt_tokens + repair * (sampling.max_response_tokens + sampling.max_feedback_tokens)


def validate(config: ConfigDict) -> None:
    """Raise ConfigError for the first impossible value."""
    for key, value in flatten(config).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{key}={value}: must be a finite number")

    _at_least(config, 0, "seed", "evaluation.every_steps", "optimizer.warmup_steps", "cold_start.warmup_steps")
    _at_least(config, 1, "steps", "prompts_per_step", "max_turns", "optimizer.updates_per_step")
    _positive(config, *(f"budget.{name}" for name, limit in config.budget.items() if limit is not None))
    _at_least(config, 1, "optimizer.micro_batch_tokens", "checkpoint.every_steps", "checkpoint.keep_last")
    _at_least(config, 1, "evaluation.tasks", "evaluation.samples")
    _at_least(config, 2, "group_size")
    _at_least(
        config,
        1,
        *(f"policy.{k}" for k in ("embed_dim", "num_layers", "num_heads", "num_kv_heads", "head_dim", "ffw_dim")),
    )
    _at_least(config, 300, "policy.vocab_size")
    _at_least(config, 8, *(f"sampling.max_{k}_tokens" for k in ("prompt", "response", "feedback")))
    _at_least(config, 1, *(f"cold_start.{k}" for k in ("compositions", "steps", "batch_size")))
    _at_least(config, 0, "cold_start.repairs", "cold_start.seed")
    _at_least(config, 64, "cold_start.sequence_tokens")
    _at_least(config, 1, "kernels.workers", "kernels.instructions_per_thread")
    _at_least(config, 80, "kernels.feedback_chars")
    _positive(
        config,
        "optimizer.learning_rate",
        "optimizer.grad_clip",
        "cold_start.learning_rate",
        "policy.rope_theta",
    )
    _positive(config, "sampling.temperature", *(f"kernels.{k}_seconds" for k in ("compile", "run", "deadline")))
    _between(config, 0.0, 1.0, "credit.gamma", "kernels.infra_error_limit", "objective.clip_low")
    _between(config, 0.0, 1.0, "gate.explore_prob", "gate.history_decay", "dead_groups.retry_prob")
    _at_least(config, 0.0, "gate.prior_rollouts")
    _at_least(config, 1, "dead_groups.refill_rounds", "dead_groups.buffer_size")
    _at_least(
        config,
        0.0,
        "objective.clip_high",
        "objective.kl_coef",
        "optimizer.weight_decay",
        "cold_start.weight_decay",
    )
    _one_of(config, "gate.mode", gate.MODES)
    _one_of(config, "dead_groups.then", DEAD_GROUPS)
    _one_of(config, "advantage", advantages.ADVANTAGES)
    _one_of(config, "advantage_over", advantages.OVER)
    _one_of(config, "credit.rule", credit.RULES | returns.RULES)
    _one_of(config, "objective.aggregation", objective.AGGREGATIONS)
    _one_of(config, "objective.ratio", objective.RATIOS)
    _one_of(config, "objective.sequence", objective.SEQUENCES)
    _one_of(config, "objective.kl_estimator", objective.KL_ESTIMATORS)
    _one_of(config, "optimizer.name", ("adamw", "muon"))
    _one_of(config, "cold_start.optimizer", ("adamw", "muon"))
    _one_of(config, "kernels.device", DEVICES)
    if config.kernels.device == "pycuda" and (reason := choice.missing()):
        raise ConfigError(f"kernels.device=pycuda: {reason}; set kernels.device=emulator, which needs no GPU")
    _method(config)

    for warmup, total in (("optimizer.warmup_steps", "steps"), ("cold_start.warmup_steps", "cold_start.steps")):
        if _get(config, warmup) >= _get(config, total):
            raise ConfigError(f"{warmup}={_get(config, warmup)}: must be less than {total}={_get(config, total)}")
    t_min, t_max = gate_window(config)
    if not 0 <= t_min <= t_max <= config.group_size:
        raise ConfigError(
            f"gate.t_min={t_min}, gate.t_max={t_max}: 0 <= t_min <= t_max <= group_size={config.group_size} must hold"
        )
    if config.gate.recheck_each_turn and config.gate.mode not in gate.RECHECKABLE:
        raise ConfigError(
            f"gate.recheck_each_turn=True: gate.mode={config.gate.mode} says the same after every turn; "
            f"use one of {', '.join(gate.RECHECKABLE)}"
        )
    if config.gate.explore_prob > 0 and (config.gate.mode == "always" or config.max_turns == 1):
        raise ConfigError(
            f"gate.explore_prob={config.gate.explore_prob}: there is no closed group to open with "
            f"gate.mode={config.gate.mode}, max_turns={config.max_turns}; set it to 0"
        )
    if config.dead_groups.then == "retry_buffer" and config.dead_groups.retry_prob == 0:
        raise ConfigError("dead_groups.retry_prob=0.0: nothing would ever leave the retry buffer")
    if any(most < 1 for most in config.curriculum.max_operations):
        raise ConfigError(
            f"curriculum.max_operations={tuple(config.curriculum.max_operations)}: a task has at least 1 operation"
        )
    if config.policy.num_heads % config.policy.num_kv_heads:
        raise ConfigError(
            f"policy.num_kv_heads={config.policy.num_kv_heads}: must divide policy.num_heads={config.policy.num_heads}"
        )
    if config.policy.head_dim % 2:
        raise ConfigError(f"policy.head_dim={config.policy.head_dim}: must be even (rotary embedding)")
    buckets = tuple(config.sampling.batch_buckets)
    if not buckets or list(buckets) != sorted(set(buckets)) or buckets[0] < 1:
        raise ConfigError(f"sampling.batch_buckets={buckets}: must be increasing positive sizes")
    for key in ("group_size", "evaluation.samples"):
        if _get(config, key) > buckets[-1]:
            raise ConfigError(
                f"{key}={_get(config, key)}: a group must fit the largest of sampling.batch_buckets={buckets}"
            )
    if config.prompts_per_step % config.optimizer.updates_per_step:
        raise ConfigError(
            f"optimizer.updates_per_step={config.optimizer.updates_per_step}: must divide "
            f"prompts_per_step={config.prompts_per_step}"
        )


def _method(config: ConfigDict) -> None:
    """Refuse rewards and objectives that cannot be combined or computed."""
    options, rule = config.reward_options, config.credit.rule
    try:
        rewards.resolve(config.reward, options)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    _between(config, 0.0, 1.0, "reward_options.first_turn_weight")
    _at_least(config, 0.0, "reward_options.noise_margin", "reward_options.speed_weight", "credit.negative_weight")
    _at_least(config, 1, "reward_options.length_bin_tokens")
    _positive(config, "reward_options.speedup_cap")
    device = choice.resolve(config.kernels.device)
    if rewards.uses_speed(config.reward, options) and device not in DEVICES_WITH_TIMES:
        weighted = config.reward in rewards.SPEED_WEIGHTED
        instead = "set reward_options.speed_weight=0" if weighted else "use reward=tournament"
        raise ConfigError(
            f"reward={config.reward}: needs the times of correct answers, and kernels.device={device} gives none; "
            f"{instead}"
        )
    if config.reward == "manual" and len(options.turn_rewards) < config.max_turns:
        raise ConfigError(
            f"reward_options.turn_rewards={tuple(options.turn_rewards)}: one for each of max_turns={config.max_turns}"
        )
    if config.reward in rewards.REWARDS and (config.reward in rewards.PER_TURN) != (rule in returns.RULES):
        kind, rules = ("each turn", returns.RULES) if config.reward in rewards.PER_TURN else ("a rollout", credit.RULES)
        raise ConfigError(
            f"reward={config.reward}, credit.rule={rule}: this reward is of {kind}; use a rule for it: "
            f"{', '.join(rules)}"
        )
    if config.advantage_over == "turn" and rule not in returns.RULES:
        raise ConfigError(
            f"advantage_over=turn, credit.rule={rule}: a baseline of each turn needs returns of each turn; "
            f"use credit.rule={' or '.join(returns.RULES)}"
        )
    limits = ("dual_clip", "token_veto", "geometric_margin", "mirror_pop")
    _positive(config, *(f"objective.{name}" for name in limits if config.objective[name] is not None))
    if config.objective.token_veto is not None:
        _between(config, 0.0, 1.0, "objective.token_veto")
    if config.objective.dual_clip is not None and config.objective.dual_clip <= 1:
        raise ConfigError(f"objective.dual_clip={config.objective.dual_clip}: must be greater than 1")


def _get(config: ConfigDict, key: str) -> Any:
    for part in key.split("."):
        config = config[part]
    return config


def _at_least(config: ConfigDict, least: float, *keys: str) -> None:
    for key in keys:
        if _get(config, key) < least:
            raise ConfigError(f"{key}={_get(config, key)}: must be at least {least}")


def _positive(config: ConfigDict, *keys: str) -> None:
    for key in keys:
        if not _get(config, key) > 0:
            raise ConfigError(f"{key}={_get(config, key)}: must be greater than 0")


def _between(config: ConfigDict, low: float, high: float, *keys: str) -> None:
    for key in keys:
        if not low <= _get(config, key) <= high:
            raise ConfigError(f"{key}={_get(config, key)}: must lie between {low} and {high}")


def _one_of(config: ConfigDict, key: str, names: Mapping[str, Any] | tuple[str, ...]) -> None:
    if _get(config, key) not in names:
        raise ConfigError(f"{key}={_get(config, key)!r}: must be one of {', '.join(names)}")
