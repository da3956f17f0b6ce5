"""Log-probabilities of response tokens under the policy, without ever holding logits [B, T, V]."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from leap_jax.policy import transformer


def response_logprobs(
    graphdef: nnx.GraphDef,
    params: nnx.State,
    tokens: jax.Array,
    segment_ids: jax.Array,
    response_index: jax.Array,
    *,
    temperature: float | jax.Array,
    chunk: int,
) -> tuple[jax.Array, jax.Array]:
    """log p(tokens[b, i] | what precedes it in its segment) and the entropy there, i = response_index[b, r].

    tokens, segment_ids [B, T]; response_index [B, R] -> logprobs, entropy [B, R], both in nats, of
    softmax(logits / temperature). An index of -1 is padding: its results are 0 and carry no gradient. (So are
    those of an index of 0: nothing precedes the first token.) Logits exist for `chunk` response positions of
    a row at a time and are computed again in the backward pass.
    """
    hidden = transformer.forward(graphdef, params, tokens, segment_positions(segment_ids), segment_ids)
    responses = response_index.shape[1]
    chunk = min(chunk, responses)
    padded = jnp.pad(response_index, ((0, 0), (0, -responses % chunk)), constant_values=-1)
    chunks = padded.reshape(tokens.shape[0], -1, chunk).swapaxes(0, 1)  # [chunks, B, chunk]

    @jax.checkpoint
    def one_chunk(index: jax.Array) -> tuple[jax.Array, jax.Array]:
        valid = index > 0
        index = jnp.where(valid, index, 1)
        before = jnp.take_along_axis(hidden, index[..., None] - 1, axis=1)
        logits = transformer.unembed(graphdef, params, before) / temperature
        target = jnp.take_along_axis(tokens, index, axis=1)
        logprobs, entropy = token_logprobs(logits, target)
        return jnp.where(valid, logprobs, 0.0), jnp.where(valid, entropy, 0.0)

    logprobs, entropy = jax.lax.map(one_chunk, chunks)
    return _join(logprobs, responses), _join(entropy, responses)


def token_logprobs(logits: jax.Array, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
    """log softmax(logits [..., V])[tokens [...]] and the entropy of the distribution."""
    logprobs = jax.nn.log_softmax(logits)
    entropy = -jnp.sum(jnp.exp(logprobs) * logprobs, axis=-1)
    return jnp.take_along_axis(logprobs, tokens[..., None], axis=-1)[..., 0], entropy


def segment_positions(segment_ids: jax.Array) -> jax.Array:
    """Positions [B, T] that restart at 0 where the segment changes."""
    time = jnp.arange(segment_ids.shape[1])
    changed = segment_ids != jnp.pad(segment_ids, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
    return time - jax.lax.cummax(jnp.where(changed, time, 0), axis=1)


def _join(chunks: jax.Array, responses: int) -> jax.Array:
    """[chunks, B, chunk] -> [B, R]."""
    return chunks.swapaxes(0, 1).reshape(chunks.shape[1], -1)[:, :responses]
