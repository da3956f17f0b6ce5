"""Supervised warm start: imitate verified answers, from random parameters to a policy worth reinforcing.

Batches are functions of (seed, step), so a run is repeated exactly by its settings. Nothing here reads or
writes files.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from leap_jax.policy.logprobs import response_logprobs
from leap_jax.policy.packing import Conversation, pack
from leap_jax.policy.tokenizer import Tokenizer


@dataclass(frozen=True)
class ColdStartSettings:
    """Sizes and schedule; a step trains on batch_rows rows of row_tokens tokens."""

    steps: int
    batch_rows: int
    row_tokens: int
    optimizer: str  # adamw or muon
    learning_rate: float
    warmup_steps: int
    weight_decay: float
    clip_norm: float
    chunk: int  # logits exist for this many tokens of a row at a time
    seed: int


def train(
    graphdef: nnx.GraphDef,
    params: nnx.State,
    conversations: Sequence[Conversation],
    tokenizer: Tokenizer,
    settings: ColdStartSettings,
    on_step: Callable[[int, dict[str, float]], None],
) -> nnx.State:
    """Train on the conversations' answers; return new parameters.

    Calls on_step(step, {"loss", "grad_norm", "tokens_per_second"}) after each step, from 0; the loss is in
    nats an imitated token. Raises FloatingPointError at a non-finite loss or gradient.
    """
    rows = pack(conversations, tokenizer, row_tokens=settings.row_tokens, pad_id=tokenizer.pad_id)
    optimizer = make_optimizer(
        settings.optimizer,
        warmup_cosine(settings.learning_rate, settings.warmup_steps, settings.steps),
        weight_decay=settings.weight_decay,
        clip_norm=settings.clip_norm,
    )
    step_function = jax.jit(
        functools.partial(train_step, graphdef, optimizer, chunk=settings.chunk), donate_argnums=(0, 1)
    )
    params = jax.tree.map(jnp.copy, params)  # the caller keeps its own: the step gives its buffers away
    opt_state = optimizer.init(params)
    for step in range(settings.steps):
        started = time.perf_counter()
        batch = rows.take(batch_row_numbers(len(rows.tokens), settings.batch_rows, settings.seed, step))
        params, opt_state, loss, grad_norm = step_function(
            params, opt_state, batch.tokens, batch.segment_ids, batch.response_index
        )
        loss, grad_norm = float(loss), float(grad_norm)
        if not (math.isfinite(loss) and math.isfinite(grad_norm)):
            raise FloatingPointError(f"cold start step {step}: loss {loss}, gradient norm {grad_norm}")
        rate = batch.tokens.size / (time.perf_counter() - started)
        on_step(step, {"loss": loss, "grad_norm": grad_norm, "tokens_per_second": rate})
    return params


def train_step(
    graphdef: nnx.GraphDef,
    optimizer: optax.GradientTransformation,
    params: nnx.State,
    opt_state: optax.OptState,
    tokens: jax.Array,
    segment_ids: jax.Array,
    response_index: jax.Array,
    *,
    chunk: int,
) -> tuple[nnx.State, optax.OptState, jax.Array, jax.Array]:
    """One update on a batch (shapes as in PackedRows); returns params, opt_state, loss, gradient norm."""

    def mean_loss(params: nnx.State) -> jax.Array:
        logprobs, _ = response_logprobs(
            graphdef, params, tokens, segment_ids, response_index, temperature=1.0, chunk=chunk
        )
        return -jnp.sum(logprobs) / jnp.maximum(jnp.sum(response_index > 0), 1)

    loss, grads = jax.value_and_grad(mean_loss)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, optax.tree.norm(grads)


def warmup_cosine(peak: float, warmup_steps: int, total_steps: int) -> optax.Schedule:
    """A linear warm-up, then a cosine decay to a tenth of the peak."""
    if not 0 <= warmup_steps < total_steps:
        raise ValueError(f"warmup_steps={warmup_steps} must be under total_steps={total_steps}")
    return optax.warmup_cosine_decay_schedule(
        init_value=0.0, peak_value=peak, warmup_steps=warmup_steps, decay_steps=total_steps, end_value=0.1 * peak
    )


def make_optimizer(
    name: str, learning_rate: float | optax.Schedule, *, weight_decay: float, clip_norm: float
) -> optax.GradientTransformation:
    """`adamw` or `muon` (its Adam for vectors), after clipping the gradient's global norm."""
    if name == "adamw":
        update = optax.adamw(learning_rate, b2=0.98, weight_decay=weight_decay)
    elif name == "muon":
        update = optax.contrib.muon(learning_rate, weight_decay=weight_decay)
    else:
        raise ValueError(f"optimizer {name!r}: it must be adamw or muon")
    return optax.chain(optax.clip_by_global_norm(clip_norm), update)


def batch_row_numbers(rows: int, batch_rows: int, seed: int, step: int) -> np.ndarray:
    """Row numbers [batch_rows] of a step: each epoch is one permutation, and batches run on across epochs."""
    epochs, offsets = np.divmod(step * batch_rows + np.arange(batch_rows), rows)
    orders = {epoch: np.random.default_rng((seed, epoch)).permutation(rows) for epoch in set(epochs.tolist())}
    return np.array([orders[epoch][offset] for epoch, offset in zip(epochs.tolist(), offsets, strict=True)])
