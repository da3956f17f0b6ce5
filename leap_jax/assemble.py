"""From a config to the parts of a run: the one place that turns keys into objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
from absl import logging
from ml_collections import ConfigDict

from leap_jax.algorithm import advantages, credit, gate, rewards
from leap_jax.config import gate_window, longest_prompt
from leap_jax.initial_policy import Policy
from leap_jax.kernels.compiler import compiler_version, containment_warnings, sandbox_layers
from leap_jax.kernels.pool import VerificationPool
from leap_jax.kernels.verification import Settings
from leap_jax.policy.cold_start import make_optimizer
from leap_jax.policy.sampler import Sampler
from leap_jax.rollout import Actor
from leap_jax.update import Learner, Objective

LOGPROB_CHUNK = 128  # response positions whose logits exist at once; changes no result


class Algorithm(NamedTuple):
    """The method, as three functions of arrays."""

    gate: Callable  # (gate.Outcomes [P, G], expected pass rates [P], key) -> gate.Gate
    reward: Callable  # Groups -> [P, G]
    advantage: Callable  # (rewards [P, G], valid [P, G], turns [P, G]) -> [P, G, T]


def algorithm(config: ConfigDict) -> Algorithm:
    """The jitted gate, reward and advantage that the config names."""
    t_min, t_max = gate_window(config)
    centre = advantages.ADVANTAGES[config.advantage]
    share = partial(credit.RULES[config.credit.rule], max_turns=config.max_turns, gamma=config.credit.gamma)
    return Algorithm(
        gate=jax.jit(
            partial(
                gate.open_groups,
                mode=config.gate.mode,
                t_min=t_min,
                t_max=t_max,
                prior_rollouts=config.gate.prior_rollouts,
                explore_prob=config.gate.explore_prob,
            )
        ),
        reward=rewards.resolve(config.reward),
        advantage=jax.jit(lambda reward, valid, turns: share(centre(reward, valid), turns)),
    )


def pool(config: ConfigDict) -> VerificationPool:
    """The verification workers, not started yet."""
    kernels = config.kernels
    settings = Settings(
        device=kernels.device,
        compile_seconds=kernels.compile_seconds,
        run_seconds=kernels.run_seconds,
        instructions_per_thread=kernels.instructions_per_thread,
        threads_per_check=kernels.threads_per_check,
        checks=kernels.checks,
        seed=kernels.seed,
    )
    return VerificationPool(kernels.workers, settings, kernels.deadline_seconds)


def actor(config: ConfigDict, policy: Policy, workers: VerificationPool) -> Actor:
    """What samples responses and has them judged."""
    sampling = config.sampling
    sampler = Sampler(
        policy.graphdef,
        max_prompt_tokens=longest_prompt(config),
        max_response_tokens=sampling.max_response_tokens,
        max_feedback_tokens=sampling.max_feedback_tokens,
        max_turns=max(config.max_turns, config.evaluation.max_turns),
        batch_buckets=tuple(sampling.batch_buckets),
        end_id=policy.tokenizer.end_id,
        pad_id=policy.tokenizer.pad_id,
    )
    return Actor(sampler, policy.tokenizer, workers, sampling.temperature, config.kernels.feedback_chars)


def learner(config: ConfigDict, policy: Policy) -> Learner:
    """What updates the policy; the KL term, if it has weight, is anchored at the cold start."""
    sampling = config.sampling
    longest = longest_prompt(config) + config.max_turns * sampling.max_response_tokens
    longest += (config.max_turns - 1) * sampling.max_feedback_tokens
    return Learner(
        policy.graphdef,
        make_optimizer(
            config.optimizer.name,
            1.0,  # the learner scales each update
            weight_decay=config.optimizer.weight_decay,
            clip_norm=config.optimizer.grad_clip,
        ),
        Objective(
            temperature=sampling.temperature,
            clip_low=config.objective.clip_low,
            clip_high=config.objective.clip_high,
            kl_coef=config.objective.kl_coef,
            aggregation=config.objective.aggregation,
            ratio=config.objective.ratio,
            constant_tokens=config.max_turns * sampling.max_response_tokens,
            chunk=LOGPROB_CHUNK,
        ),
        updates_per_step=config.optimizer.updates_per_step,
        micro_batch_rows=max(1, config.optimizer.micro_batch_tokens // longest),
        row_tokens=longest,
        reference_params=policy.params if config.objective.kl_coef > 0 else None,
    )


def prepare_jax(config: ConfigDict) -> None:
    """Keep compiled steps in the cache folder, so that a second start does not compile them again."""
    jax.config.update("jax_compilation_cache_dir", str(Path(config.cache_dir).expanduser() / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def report_devices(config: ConfigDict) -> None:
    """Say where the policy and the kernels run, and with which compiler."""
    logging.info("policy: jax %s on %s", jax.__version__, ", ".join(map(str, jax.devices())))
    logging.info(
        "kernels: device %s (kernels.device; runs everywhere, needs no GPU), %d workers, %s",
        config.kernels.device,
        config.kernels.workers,
        compiler_version(),
    )
    logging.info("kernels: the compiler is contained by %s", ", ".join(sandbox_layers()))
    for line in containment_warnings():
        logging.warning("kernels: %s", line)
