"""From a config to the parts of a run: the one place that turns keys into objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
from absl import logging
from ml_collections import ConfigDict

from leap_jax.algorithm import advantages, credit, gate, returns, rewards
from leap_jax.algorithm.groups import comparable, turns_taken
from leap_jax.algorithm.objective import Objective
from leap_jax.config import gate_window, longest_prompt
from leap_jax.initial_policy import Policy
from leap_jax.kernels.compiler import compiler_version, containment_warnings, sandbox_layers
from leap_jax.kernels.gpu import choice
from leap_jax.kernels.gpu.session import find_gpus
from leap_jax.kernels.gpu.timed import GPU_SECONDS
from leap_jax.kernels.pool import VerificationPool
from leap_jax.kernels.verification import Settings
from leap_jax.policy.cold_start import make_optimizer
from leap_jax.policy.sampler import Sampler
from leap_jax.rollout import Actor
from leap_jax.update import Learner

LOGPROB_CHUNK = 128  # response positions whose logits exist at once; changes no result


class Algorithm(NamedTuple):
    """The method, as three functions of arrays."""

    gate: Callable  # (gate.Outcomes [P, G], expected pass rates [P], key) -> gate.Gate
    reward: Callable  # Groups -> [P, G] or [P, G, T]
    advantage: Callable  # (rewards [P, G] or [P, G, T], valid [P, G], turns [P, G]) -> [P, G, T]


def algorithm(config: ConfigDict) -> Algorithm:
    """The jitted gate, reward and advantage that the config names."""
    t_min, t_max = gate_window(config)
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
        reward=rewards.resolve(config.reward, config.reward_options),
        advantage=jax.jit(turn_advantages(config)),
    )


def turn_advantages(config: ConfigDict) -> Callable:
    """From what was earned to the advantage of every turn, in the order that the credit rule asks for.

    A rule of `credit` takes rewards of rollouts [P, G]: baseline first, then the advantage is shared out over turns.
    A rule of `returns` takes rewards of turns [P, G, T]: returns from each turn on first, then the baseline.
    """
    rule, max_turns, gamma = config.credit.rule, config.max_turns, config.credit.gamma
    baseline = partial(advantages.OVER[config.advantage_over], advantages.ADVANTAGES[config.advantage])

    def shared_out(rewards, valid, turns):
        advantage = baseline(rewards, comparable(valid))
        return credit.RULES[rule](advantage, turns, max_turns=max_turns, gamma=gamma)

    def to_go(rewards, valid, turns):
        present = comparable(valid)[..., None] & turns_taken(turns, max_turns)
        return baseline(returns.RULES[rule](rewards, present, gamma=gamma), present)

    ordered = to_go if rule in returns.RULES else shared_out
    return lambda *earned: credit.weigh_losses(ordered(*earned), config.credit.negative_weight)


def pool(config: ConfigDict) -> VerificationPool:
    """The verification workers, not started yet."""
    kernels = config.kernels
    device = choice.resolve(kernels.device)
    settings = Settings(
        device=device,
        compile_seconds=kernels.compile_seconds,
        run_seconds=kernels.run_seconds,
        instructions_per_thread=kernels.instructions_per_thread,
        threads_per_check=kernels.threads_per_check,
        checks=kernels.checks,
        seed=kernels.seed,
    )
    beside = GPU_SECONDS if device == "pycuda" else 0.0
    return VerificationPool(kernels.workers, settings, kernels.deadline_seconds + beside)


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
    sampling, objective = config.sampling, config.objective
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
            clip_low=objective.clip_low,
            clip_high=objective.clip_high,
            dual_clip=objective.dual_clip,
            ratio=objective.ratio,
            aggregation=objective.aggregation,
            constant_tokens=sampling.max_response_tokens * (1 if objective.sequence == "turn" else config.max_turns),
            kl_coef=objective.kl_coef,
            kl_estimator=objective.kl_estimator,
            token_veto=objective.token_veto,
            geometric_margin=objective.geometric_margin,
            mirror_pop=objective.mirror_pop,
        ),
        sequence=objective.sequence,
        temperature=sampling.temperature,
        chunk=LOGPROB_CHUNK,
        updates_per_step=config.optimizer.updates_per_step,
        micro_batch_rows=max(1, config.optimizer.micro_batch_tokens // longest),
        row_tokens=longest,
        # A copy: the first update gives the buffers of the policy that it starts from away.
        reference_params=jax.tree.map(jnp.copy, policy.params) if objective.kl_coef > 0 else None,
    )


def prepare_jax(config: ConfigDict) -> None:
    """Keep compiled steps in the cache folder, so that a second start does not compile them again."""
    jax.config.update("jax_compilation_cache_dir", str(Path(config.cache_dir).expanduser() / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def report_devices(config: ConfigDict) -> None:
    """Say where the policy and the kernels run, and with which compiler."""
    logging.info("policy: jax %s on %s", jax.__version__, ", ".join(map(str, jax.devices())))
    device = choice.resolve(config.kernels.device)
    names = ", ".join(gpu.facts.name for gpu in find_gpus()) if device == "pycuda" else "needs no GPU"
    logging.info("kernels: on %s (%s), %d workers, %s", device, names, config.kernels.workers, compiler_version())
    if config.kernels.device == "auto" and device == "emulator":
        logging.info("kernels: not on a GPU: %s", choice.missing())
    logging.info("kernels: the compiler is contained by %s", ", ".join(sandbox_layers()))
    for line in containment_warnings():
        logging.warning("kernels: %s", line)
