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
from leap_jax.algorithm.objective import Objective
from leap_jax.policy.logprobs import response_logprobs
from leap_jax.policy.packing import first_fit
from leap_jax.rollout import Episode

EPISODE_TOKENS = 16  # hardly any episode has fewer: bounds how many a row has room for


class State(NamedTuple):
    """All that training changes."""

    params: Any
    opt_state: Any


class Batch(NamedTuple):
    """Whole episodes as they were sampled, several in a row: what the policy reads, then what the loss reads.

    The loss reads E sequences, each the responses of an episode or of one turn.
    """

    tokens: np.ndarray  # [B, T] prompt, response, feedback, response, ...
    segment_ids: np.ndarray  # [B, T] 1, 2, ... the episodes of a row; 0 at padding
    response_index: np.ndarray  # [B, T] where in a row its response tokens stand, in order; -1 past the last
    place: np.ndarray  # [E, R] which of these B * T response tokens are a sequence's; -1 past its last
    sampled_logprobs: np.ndarray  # [E, R]
    advantages: np.ndarray  # [E, R] constant over the tokens of a turn


class Learner:
    """The jitted update of one policy; `reference_params` anchor the KL term, and may be None without one.

    `chunk`: response positions whose logits exist at once.
    """

    def __init__(
        self,
        graphdef: nnx.GraphDef,
        optimizer: optax.GradientTransformation,
        constants: Objective,
        *,
        sequence: str,
        temperature: float,
        chunk: int,
        updates_per_step: int,
        micro_batch_rows: int,
        row_tokens: int,
        reference_params: Any,
    ) -> None:
        self._optimizer = optimizer
        self._updates_per_step = updates_per_step
        self._micro_batch_rows = micro_batch_rows
        self._row_tokens = row_tokens
        self._constants = constants
        self._sequence = sequence
        self._reference_params = reference_params
        loss = partial(micro_batch_loss, graphdef=graphdef, constants=constants, temperature=temperature, chunk=chunk)
        self._gradient = jax.jit(jax.grad(loss, has_aux=True))
        self._add = jax.jit(lambda a, b: jax.tree.map(jnp.add, a, b), donate_argnums=0)
        self._apply = jax.jit(partial(apply_gradient, optimizer), donate_argnums=(0, 1))

    def init(self, params: Any) -> State:
        return State(params, self._optimizer.init(params))

    @property
    def compilations(self) -> int:
        return sum(f._cache_size() for f in (self._gradient, self._add, self._apply))

    def update(
        self, state: State, groups: Sequence[Sequence[Episode]], advantages: np.ndarray, learning_rate: float
    ) -> tuple[State, dict[str, float]]:
        """Update on groups [P][G] of episodes with advantages [P, G, T]; returns the new state and metrics.

        The optimiser's update is multiplied by `learning_rate`.

        Where the KL term has no weight, an episode whose advantages are all 0 moves nothing: it counts in the
        normalisation but is not computed. Raises FloatingPointError on a non-finite gradient.
        """
        size = len(groups) // self._updates_per_step
        sums: dict[str, Any] = {}
        norms = []
        for first in range(0, len(groups), size):
            episodes = [e for group in groups[first : first + size] for e in group]
            weights = advantages[first : first + size].reshape(len(episodes), -1)
            state, new_sums, norm = self._one_update(state, episodes, weights, learning_rate)
            sums = objective.merge_metrics(sums, new_sums) if sums and new_sums else sums or new_sums
            norms.append(norm)
        means = {name: float(value) for name, value in objective.mean_metrics(sums).items()} if sums else {}
        return state, means | {"gradient_norm": float(np.mean(norms))}

    def _one_update(
        self, state: State, episodes: Sequence[Episode], advantages: np.ndarray, learning_rate: float
    ) -> tuple[State, dict[str, Any], float]:
        pairs = [(e, a) for e, a in zip(episodes, advantages, strict=True) if e.valid]
        count = global_count([e for e, _ in pairs], self._constants.aggregation, self._sequence)
        pairs = [(e, a) for e, a in pairs if self._constants.kl_coef > 0 or np.any(a)]
        if not pairs:
            return state, {}, 0.0
        gradient, sums = None, {}
        for batch in micro_batches(pairs, self._micro_batch_rows, self._row_tokens, self._sequence):
            part, new_sums = self._gradient(state.params, self._reference_params, batch, np.float32(count))
            gradient = part if gradient is None else self._add(gradient, part)
            sums = objective.merge_metrics(sums, new_sums) if sums else new_sums
        norm = float(optax.tree.norm(gradient))
        if not np.isfinite(norm):
            raise FloatingPointError(f"the gradient is not finite (norm {norm}) over {len(pairs)} episodes")
        return State(*self._apply(*state, gradient, np.float32(learning_rate))), sums, norm


def micro_batch_loss(
    params,
    reference_params,
    batch: Batch,
    count,
    *,
    graphdef: nnx.GraphDef,
    constants: Objective,
    temperature: float,
    chunk: int,
):
    """The share of one micro-batch in the loss of its update, and metric sums."""

    mask = batch.place >= 0

    def logprobs_under(params):
        found = response_logprobs(
            graphdef,
            params,
            batch.tokens,
            batch.segment_ids,
            batch.response_index,
            temperature=temperature,
            chunk=chunk,
        )
        return [jnp.where(mask, values.reshape(-1)[batch.place], 0.0) for values in found]

    logprobs, entropies = logprobs_under(params)
    ref_logprobs = logprobs_under(reference_params)[0] if constants.kl_coef > 0 else None
    tokens = objective.Tokens(batch.sampled_logprobs, batch.advantages, mask, ref_logprobs)
    return objective.policy_loss(logprobs, tokens, constants, global_count=count, entropies=entropies)


def apply_gradient(optimizer: optax.GradientTransformation, params, opt_state, gradient, learning_rate):
    """One step of an optimiser that was made for a learning rate of 1."""
    updates, opt_state = optimizer.update(gradient, opt_state, params)
    return optax.apply_updates(params, optax.tree.scale(learning_rate, updates)), opt_state


def global_count(episodes: Sequence[Episode], aggregation: str, sequence: str) -> int:
    """What the loss of an update is divided by (`objective.count`), at least 1."""
    turns = [turn for e in episodes for turn in e.turns]
    if aggregation == "token":
        return max(1, sum(len(turn.response_ids) for turn in turns))
    return max(1, len(turns if sequence == "turn" else episodes))


def micro_batches(
    pairs: Sequence[tuple[Episode, np.ndarray]], rows: int, row_tokens: int, sequence: str
) -> Iterator[Batch]:
    """Pack (episode, advantages [T]) pairs into batches of one shape; long episodes first, which packs them well."""
    pairs = sorted(pairs, key=lambda pair: -pair[0].num_tokens)
    members = first_fit(
        [episode.num_tokens for episode, _ in pairs], row_tokens=row_tokens, row_items=row_episodes(row_tokens)
    )
    for first in range(0, len(members), rows):
        yield to_batch([[pairs[i] for i in row] for row in members[first : first + rows]], rows, row_tokens, sequence)


def row_episodes(row_tokens: int) -> int:
    """The most episodes in a row."""
    return max(1, row_tokens // EPISODE_TOKENS)


def to_batch(
    members: Sequence[Sequence[tuple[Episode, np.ndarray]]], rows: int, row_tokens: int, sequence: str
) -> Batch:
    """Lay out the episodes of each row as arrays, with a `sequence` for each rollout or for each turn.

    B = `rows`, T = R = `row_tokens`, E = the most sequences that `rows` may hold.
    """
    max_turns = len(members[0][0][1])
    most = rows * row_episodes(row_tokens) * (max_turns if sequence == "turn" else 1)
    shape, sequences = (rows, row_tokens), (most, row_tokens)
    batch = Batch(
        tokens=np.zeros(shape, np.int32),
        segment_ids=np.zeros(shape, np.int32),
        response_index=np.full(shape, -1, np.int32),
        place=np.full(sequences, -1, np.int32),
        sampled_logprobs=np.zeros(sequences, np.float32),
        advantages=np.zeros(sequences, np.float32),
    )
    number = 0
    for row, pairs in enumerate(members):
        ids, index = [], []
        for segment, (episode, advantages) in enumerate(pairs, 1):
            start, filled = len(ids), 0
            ids += episode.prompt_ids
            for turn, advantage in zip(episode.turns, advantages, strict=False):
                count = len(turn.response_ids)
                slots = slice(filled, filled + count)
                batch.place[number, slots] = row * row_tokens + len(index) + np.arange(count)
                batch.sampled_logprobs[number, slots] = turn.sampled_logprobs
                batch.advantages[number, slots] = advantage
                index += range(len(ids), len(ids) + count)
                ids += turn.response_ids + turn.feedback_ids
                filled += count
                if sequence == "turn":
                    number, filled = number + 1, 0
            if sequence == "rollout":
                number += 1
            batch.segment_ids[row, start : len(ids)] = segment
        batch.tokens[row, : len(ids)] = ids
        batch.response_index[row, : len(index)] = index
    return batch
