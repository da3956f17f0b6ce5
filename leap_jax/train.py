"""The training loop of LEAP (arXiv 2608.01804): roll out, verify, gate, debug, compare, update."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from absl import logging
from ml_collections import ConfigDict

from leap_jax import assemble, budget, curriculum, history, run_folder
from leap_jax.algorithm import returns
from leap_jax.algorithm.groups import Groups
from leap_jax.checkpoint import Checkpoints
from leap_jax.config import validate
from leap_jax.evaluate import evaluate, scores, to_results
from leap_jax.initial_policy import initial_policy
from leap_jax.interrupt import Interrupt
from leap_jax.kernels import generator
from leap_jax.kernels.pool import VerificationPool
from leap_jax.metrics import MetricsWriter, ProgressBar, append_jsonl, peak_memory_bytes, truncate_jsonl
from leap_jax.refill import refill
from leap_jax.rollout import TRAIN, Actor, Episode, collect, to_groups
from leap_jax.summary import summarise

BEST_METRIC = "eval/heldout/acc@1"
KNOWN_TASK = "relu"  # its baseline is verified before anything else


class RunError(RuntimeError):
    """The run cannot go on; one line that says why and what to do."""


def train(config: ConfigDict, workdir: Path) -> None:
    """Train from the config, or go on from the latest checkpoint in the workdir."""
    validate(config)
    run_folder.claim(workdir, config)
    assemble.prepare_jax(config)
    assemble.report_devices(config)
    with ExitStack() as stack:
        stack.enter_context(run_folder.locked(workdir))
        interrupt = stack.enter_context(Interrupt())
        pool = stack.enter_context(assemble.pool(config))
        require_working(pool)
        policy = initial_policy(config, workdir, pool, interrupt.check)
        actor = assemble.actor(config, policy, pool)
        learner = assemble.learner(config, policy)
        algorithm = assemble.algorithm(config)

        checkpoints = stack.enter_context(open_checkpoints(config, workdir))
        state = learner.init(policy.params)
        limits, totals, past = budget.limits(config), budget.NOTHING_SPENT, history.EMPTY
        step = -1
        if restored := checkpoints.restore_latest(state):
            step, state, extra = restored
            totals, past = extra["spent"], history.from_json(extra["history"])
            logging.info("resumed at step %d from %s", step, workdir)
        truncate_jsonl(workdir / "rollouts.jsonl", after_step=step)
        writer = stack.enter_context(MetricsWriter(workdir, restored_step=step))
        progress = budget.progress({"steps": max(step, 0)} | totals, limits)
        bar = stack.enter_context(ProgressBar(config.steps, first_step=max(step, 0)))

        logging.info(
            "training: from step %d until %s, %d prompts of %d rollouts each",
            max(step, 0) + 1,
            " or ".join(f"{limit} {name.replace('_', ' ')}" for name, limit in limits.items()),
            config.prompts_per_step,
            config.group_size,
        )
        if step < 0:  # step 0 is the policy before any update
            step, values = 0, run_evaluation(config, actor, state.params, workdir, step=0)
            writer.write(step, values)
            checkpoints.save(step, state, extra=kept(totals, past), metrics=values)
        while progress < 1.0 and not interrupt.requested:
            step += 1
            started = time.monotonic()
            prompts, further, past = curriculum.step_prompts(config, step, progress, past)
            roll_out = partial(
                collect,
                actor,
                state.params,
                group_size=config.group_size,
                max_turns=config.max_turns,
                gate=history.informed(algorithm.gate, past),
                recheck_each_turn=config.gate.recheck_each_turn,
                seed=config.seed,
                purpose=TRAIN,
                step=step,
            )
            rollouts = roll_out(prompts)
            earned = partial(compare, config, algorithm, step)
            if config.dead_groups.then == "refill":
                rollouts = refill(rollouts, further, roll_out, earned, rounds=config.dead_groups.refill_rounds)
            refuse_infra_errors(config, rollouts.episodes)
            groups, rewards, advantages = earned(rollouts.episodes)
            used = ~rollouts.replaced
            updating = time.monotonic()
            learning_rate = budget.learning_rate(
                step, progress, peak=config.optimizer.learning_rate, warmup_steps=config.optimizer.warmup_steps
            )
            state, learned = learner.update(
                state, list(compress(rollouts.episodes, used)), advantages[used], learning_rate
            )
            updated = time.monotonic()

            values = summarise(rollouts, groups, rewards, advantages) | {f"train/{k}": v for k, v in learned.items()}
            values |= history.metrics(past, prompts)
            past = history.after(config, past, rollouts.episodes, actor)
            values |= {"seconds/step": updated - started, "train/learning_rate": learning_rate}
            totals = budget.add(totals, values)
            progress = budget.progress({"steps": step} | totals, limits)
            values |= {f"total/{name}": total for name, total in totals.items()} | {"total/progress": progress}
            if progress >= 1.0 or (config.evaluation.every_steps and step % config.evaluation.every_steps == 0):
                values |= run_evaluation(config, actor, state.params, workdir, step=step)
            values |= {
                "seconds/update": updated - updating,
                "seconds/evaluate": time.monotonic() - updated,
                "system/compilations": actor.sampler.compilations + learner.compilations,
                "system/peak_memory_gib": peak_memory_bytes() / 2**30,
            }
            turns = list(run_folder.rollout_records(step, rollouts.episodes, rewards, advantages, actor.tokenizer))
            append_jsonl(workdir / "rollouts.jsonl", *turns)
            writer.write_samples(step, turns)
            writer.write(step, values)
            bar.update(step, values, total=round(step / progress))
            if step % config.checkpoint.every_steps == 0 or BEST_METRIC in values:
                checkpoints.save(step, state, extra=kept(totals, past), metrics=values)
        checkpoints.save(step, state, extra=kept(totals, past))
    if progress < 1.0:
        logging.info("saved at step %d, %.0f%% of the budget; the same command goes on", step, 100 * progress)
    else:
        logging.info("done: %d steps, everything is in %s", step, workdir)


def run_evaluation(config: ConfigDict, actor: Actor, params: Any, workdir: Path, *, step: int) -> dict[str, float]:
    """Score the policy on held-out tasks; every turn goes to eval/step_N.jsonl."""
    limits = config.evaluation
    tasks = [f"composed/{seed}" for seed in generator.seeds("heldout", limits.tasks)]
    groups = evaluate(
        actor, params, tasks, samples=limits.samples, max_turns=limits.max_turns, seed=config.seed, step=step
    )
    refuse_infra_errors(config, groups)
    records = run_folder.evaluation_records(step, groups, actor.tokenizer)
    values = {f"eval/heldout/{name}": value for name, value in scores(to_results(records, limits.max_turns))}
    run_folder.write_evaluation(workdir, f"step_{step:06d}", records)
    shown = [f"acc@{t} {values.get(f'eval/heldout/acc@{t}', math.nan):.1%}" for t in range(1, limits.max_turns + 1)]
    logging.info("step %d: held-out %s", step, ", ".join(shown))
    return values


def compare(
    config: ConfigDict, algorithm: assemble.Algorithm, step: int, episodes: Sequence[Sequence[Episode]]
) -> tuple[Groups, np.ndarray, np.ndarray]:
    """What became of the groups, rewards [P, G] or [P, G, T], advantages [P, G, T]. RunError where one is no number."""
    groups = to_groups(episodes, config.max_turns)
    rewards = np.asarray(algorithm.reward(groups))
    require_shape(config, rewards, groups)
    advantages = np.asarray(algorithm.advantage(rewards, groups.valid, groups.turns))
    require_finite(step, reward=rewards, advantage=advantages)
    return groups, rewards, advantages


def kept(totals: dict[str, float], past: history.History) -> dict[str, Any]:
    """What a checkpoint holds besides arrays."""
    return {"spent": totals, "history": history.to_json(past)}


def open_checkpoints(config: ConfigDict, workdir: Path, read_only: bool = False) -> Checkpoints:
    return Checkpoints(
        workdir / "checkpoints",
        keep_last=config.checkpoint.keep_last,
        best_metric=BEST_METRIC,
        read_only=read_only,
    )


def require_working(pool: VerificationPool) -> None:
    """Raise RunError unless the workers find a known answer correct."""
    try:
        pool.check(KNOWN_TASK)
    except RuntimeError as error:
        raise RunError(str(error)) from error


def refuse_infra_errors(config: ConfigDict, groups: list[list[Episode]]) -> None:
    """Raise RunError where too many verdicts say nothing about their answers."""
    verdicts = [turn.verdict for group in groups for episode in group for turn in episode.turns]
    unjudged = [verdict for verdict in verdicts if not verdict.outcome.valid]
    if len(unjudged) > config.kernels.infra_error_limit * len(verdicts):
        raise RunError(
            f"{len(unjudged)} of {len(verdicts)} answers could not be judged, over "
            f"kernels.infra_error_limit={config.kernels.infra_error_limit}; the last one: "
            f"{unjudged[-1].outcome}: {json.dumps(unjudged[-1].message[-300:])}"
        )


def require_shape(config: ConfigDict, rewards: np.ndarray, groups: Groups) -> None:
    """Raise RunError unless the reward is of what the credit rule takes: rollouts, or their turns."""
    per_turn = config.credit.rule in returns.RULES
    named, shape = ("[P, G, T]", groups.outcome_rank.shape) if per_turn else ("[P, G]", groups.valid.shape)
    if rewards.shape != shape:
        raise RunError(
            f"reward={config.reward}: returned an array of shape {rewards.shape}, not {named} = {shape}, "
            f"which credit.rule={config.credit.rule} takes"
        )


def require_finite(step: int, **arrays: np.ndarray) -> None:
    """Raise RunError naming the array that holds a NaN or Inf; nothing is saved after it."""
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise RunError(f"step {step}: a {name} is not finite; check config.{name} and the reward function")
