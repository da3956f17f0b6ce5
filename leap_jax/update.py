"""The critic-free update: episodes and their advantages -> micro-batches -> optimiser steps (GRPO)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from leap_jax.algorithm import objective
from leap_jax.policy.logprobs import response_logprobs
from leap_jax.rollout import Episode


class State(NamedTuple):
    """All that training changes."""

    params: Any
    opt_state: Any


class Batch(NamedTuple):
    """Whole episodes as they were sampled, one a row. A row without response tokens only fills the batch."""

    tokens: np.ndarray  # [B, T] prompt, response, feedback, response, ...
    segment_ids: np.ndarray  # [B, T] 1 at tokens, 0 at padding
    response_index: np.ndarray  # [B, R] where in T the response tokens stand; -1 past the last
    sampled_logprobs: np.ndarray  # [B, R]
    advantages: np.ndarray  # [B, R] constant over the tokens of a turn


class Objective(NamedTuple):
    """The constants of the loss."""

    temperature: float
    clip_low: float
    clip_high: float
    kl_coef: float
    aggregation: str
    ratio: str
    constant_tokens: int  # the divisor of `constant` aggregation
    chunk: int  # response positions whose logits exist at once


class Learner:
    """The jitted update of one policy; `reference_params` anchor the KL term, and may be None without one."""

    def __init__(
        self,
        graphdef: nnx.GraphDef,
        optimizer: optax.GradientTransformation,
        constants: Objective,
        *,
        updates_per_step: int,
        micro_batch_tokens: int,
        row_tokens: Sequence[int],
        reference_params: Any,
    ) -> None:
        self._optimizer = optimizer
        self._updates_per_step = updates_per_step
        self._micro_batch_tokens = micro_batch_tokens
        self._row_tokens = tuple(row_tokens)
        self._kl_coef = constants.kl_coef
        self._aggregation = constants.aggregation
        self._reference_params = reference_params
        loss = partial(micro_batch_loss, graphdef=graphdef, constants=constants)
        self._gradient = jax.jit(jax.grad(loss, has_aux=True))
        self._add = jax.jit(lambda a, b: jax.tree.map(jnp.add, a, b), donate_argnums=0)
        self._apply = jax.jit(partial(apply_gradient, optimizer), donate_argnums=(0, 1))

    def init(self, params: Any) -> State:
        return State(params, self._optimizer.init(params))

    @property
    def compilations(self) -> int:
        return sum(f._cache_size() for f in (self._gradient, self._add, self._apply))

    def update(
        self, state: State, groups: Sequence[Sequence[Episode]], advantages: np.ndarray
    ) -> tuple[State, dict[str, float]]:
        """Update on groups [P][G] of episodes with advantages [P, G, T]; returns the new state and metrics.

        Where the KL term has no weight, an episode whose advantages are all 0 moves nothing: it counts in the
        normalisation but is not computed. Raises FloatingPointError on a non-finite gradient.
        """
        size = len(groups) // self._updates_per_step
        sums: dict[str, Any] = {}
        norms = []
        for first in range(0, len(groups), size):
            episodes = [e for group in groups[first : first + size] for e in group]
            weights = advantages[first : first + size].reshape(len(episodes), -1)
            state, new_sums, norm = self._one_update(state, episodes, weights)
            sums = objective.merge_metrics(sums, new_sums) if sums and new_sums else sums or new_sums
            norms.append(norm)
        means = {name: float(value) for name, value in objective.mean_metrics(sums).items()} if sums else {}
        return state, means | {"gradient_norm": float(np.mean(norms))}

    def _one_update(self, state: State, episodes: Sequence[Episode], advantages: np.ndarray):
        pairs = [(e, a) for e, a in zip(episodes, advantages, strict=True) if e.valid]
        count = global_count([e for e, _ in pairs], self._aggregation)
        pairs = [(e, a) for e, a in pairs if self._kl_coef > 0 or np.any(a)]
        if not pairs:
            return state, {}, 0.0
        gradient, sums = None, {}
        for batch in micro_batches(pairs, self._row_tokens, self._micro_batch_tokens):
            part, new_sums = self._gradient(state.params, self._reference_params, batch, np.float32(count))
            gradient = part if gradient is None else self._add(gradient, part)
            sums = objective.merge_metrics(sums, new_sums) if sums else new_sums
        norm = float(optax.tree.norm(gradient))
        if not np.isfinite(norm):
            raise FloatingPointError(f"the gradient is not finite (norm {norm}) over {len(pairs)} episodes")
        return State(*self._apply(*state, gradient)), sums, norm


def micro_batch_loss(params, reference_params, batch: Batch, count, *, graphdef, constants: Objective):
    """The share of one micro-batch in the loss of its update, and metric sums."""

    def logprobs_under(params):
        return response_logprobs(
            graphdef,
            params,
            batch.tokens,
            batch.segment_ids,
            batch.response_index,
            temperature=constants.temperature,
            chunk=constants.chunk,
        )

    logprobs, entropies = logprobs_under(params)
    ref_logprobs = logprobs_under(reference_params)[0] if constants.kl_coef > 0 else None
    mask = batch.response_index >= 0
    return objective.policy_loss(
        logprobs,
        objective.Tokens(batch.sampled_logprobs, batch.advantages, mask, ref_logprobs),
        global_count=count,
        clip_low=constants.clip_low,
        clip_high=constants.clip_high,
        ratio=constants.ratio,
        aggregation=constants.aggregation,
        constant_tokens=constants.constant_tokens,
        kl_coef=constants.kl_coef,
        entropies=entropies,
    )


def apply_gradient(optimizer: optax.GradientTransformation, params, opt_state, gradient):
    updates, opt_state = optimizer.update(gradient, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


def global_count(episodes: Sequence[Episode], aggregation: str) -> int:
    """What the loss of an update is divided by (`objective.count`), at least 1."""
    tokens = sum(len(turn.response_ids) for e in episodes for turn in e.turns)
    return max(1, tokens if aggregation == "token" else len(episodes))


def micro_batches(
    pairs: Sequence[tuple[Episode, np.ndarray]], row_tokens: Sequence[int], batch_tokens: int
) -> Iterator[Batch]:
    """Cut (episode, advantages [T]) pairs into batches of about `batch_tokens`, episodes of like length together.

    An episode is padded to the smallest of `row_tokens` that holds it: a run compiles one step for each.
    """
    by_length = sorted(pairs, key=lambda pair: pair[0].num_tokens)
    while by_length:
        width = next(w for w in row_tokens if w >= by_length[0][0].num_tokens)
        size = max(1, batch_tokens // width)
        rows = [pair for pair in by_length[:size] if pair[0].num_tokens <= width]
        by_length = by_length[len(rows) :]
        yield to_batch(rows, size, width)


def to_batch(rows: Sequence[tuple[Episode, np.ndarray]], size: int, num_tokens: int) -> Batch:
    """Lay episodes out as arrays of `size` rows, T = R = `num_tokens`."""
    batch = Batch(
        tokens=np.zeros((size, num_tokens), np.int32),
        segment_ids=np.zeros((size, num_tokens), np.int32),
        response_index=np.full((size, num_tokens), -1, np.int32),
        sampled_logprobs=np.zeros((size, num_tokens), np.float32),
        advantages=np.zeros((size, num_tokens), np.float32),
    )
    for row, (episode, advantages) in enumerate(rows):
        ids, index, logprobs, weights = list(episode.prompt_ids), [], [], []
        for turn, advantage in zip(episode.turns, advantages, strict=False):
            index += range(len(ids), len(ids) + len(turn.response_ids))
            logprobs += list(turn.sampled_logprobs)
            weights += [advantage] * len(turn.response_ids)
            ids += turn.response_ids + turn.feedback_ids
        batch.tokens[row, : len(ids)] = ids
        batch.segment_ids[row, : len(ids)] = 1
        batch.response_index[row, : len(index)] = index
        batch.sampled_logprobs[row, : len(index)] = logprobs
        batch.advantages[row, : len(index)] = weights
    return batch
