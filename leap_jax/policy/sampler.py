"""Sampling with a KV cache that is kept between turns: start -> sample -> extend -> sample -> ...

Every shape is static: rows come in buckets, and the cache has the slots of one turn at first, so that the turn that
every rollout has decodes over a short cache, and those of all turns from the second on. Tokens are append-only;
nothing is ever encoded, or prefilled, twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from leap_jax.policy import transformer
from leap_jax.policy.transformer import KVCache


@dataclass(frozen=True)
class State:
    """Rollouts between turns: the first `rows` of the bucket's rows are real, the others padding."""

    cache: KVCache
    hidden: jax.Array  # [B, D] of each row's last token: what the next token is sampled from
    rows: int
    turn: int  # turns begun, 1 after `start`


class Sampler:
    """The compiled functions of one policy, and the sizes they are compiled for.

    `compilations` counts programs built so far: one to start, one to decode a bucket in the first or in a later
    turn, one to extend from a bucket to another. A call with more rows than the largest bucket, or a text longer than
    its limit, raises ValueError.
    """

    def __init__(
        self,
        graphdef: nnx.GraphDef,
        *,
        max_prompt_tokens: int,
        max_response_tokens: int,
        max_feedback_tokens: int,
        max_turns: int,
        batch_buckets: tuple[int, ...],
        end_id: int,
        pad_id: int,
    ):
        self.max_prompt_tokens = max_prompt_tokens
        self.max_response_tokens = max_response_tokens
        self.max_feedback_tokens = max_feedback_tokens
        self.max_turns = max_turns
        self.batch_buckets = tuple(sorted(batch_buckets))
        self.end_id = end_id
        self.pad_id = pad_id
        self.compilations = 0
        self._prefill = self._jit(functools.partial(prefill, graphdef), static_argnames="slots")
        self._decode = self._jit(
            functools.partial(decode, graphdef, end_id=end_id, pad_id=pad_id),
            static_argnames=("steps", "impl"),
            donate_argnames="cache",
        )
        self._extend = self._jit(functools.partial(extend, graphdef), static_argnames="slots")

    def start(self, params: nnx.State, prompts: Sequence[Sequence[int]], repeats: int) -> State:
        """Prefill each prompt once and repeat it; row = prompt * repeats + repeat."""
        rows = len(prompts) * repeats
        bucket = self.bucket(rows)
        prompt_rows = -(-bucket // repeats)
        tokens, lengths = self._pad(prompts, prompt_rows, self.max_prompt_tokens, "prompt")
        owner = np.minimum(np.arange(bucket) // repeats, len(prompts) - 1).astype(np.int32)
        cache, hidden = self._prefill(params, tokens, lengths, owner, slots=self.slots(1))
        return State(cache, hidden, rows, turn=1)

    def sample(
        self, params: nnx.State, state: State, keys: jax.Array, temperature: float
    ) -> tuple[State, list[list[int]], list[np.ndarray], list[bool]]:
        """Sample every row until its end id or max_response_tokens; uses up `state`.

        keys: one typed key a row. A token depends on its row's key, its position and what precedes it, not on
        the other rows. Returns the state, the tokens (with the end id if it was sampled), their log-probs
        under softmax(logits / temperature), and which rows were cut off. Temperature 0 is greedy: the likeliest
        token, the first of equals, with log-prob 0.
        """
        if len(keys) != state.rows:
            raise ValueError(f"{len(keys)} keys for {state.rows} rows")
        if temperature < 0:
            raise ValueError(f"temperature={temperature} must not be below 0")
        bucket = state.hidden.shape[0]
        data = np.asarray(jax.random.key_data(keys))
        cache, hidden, tokens, logprobs, lengths, ended = self._decode(
            params,
            state.cache,
            state.hidden,
            np.concatenate([data, np.zeros((bucket - state.rows, *data.shape[1:]), data.dtype)]),
            np.arange(bucket) < state.rows,
            np.float32(temperature),
            steps=self.max_response_tokens,
            impl=jax.random.key_impl(keys),
        )
        tokens, logprobs, lengths, ended = jax.device_get((tokens, logprobs, lengths, ended))
        real = range(state.rows)
        return (
            State(cache, hidden, state.rows, state.turn),
            [tokens[row, : lengths[row]].tolist() for row in real],
            [logprobs[row, : lengths[row]] for row in real],
            [not ended[row] for row in real],
        )

    def extend(self, params: nnx.State, state: State, rows: Sequence[int], appended: Sequence[Sequence[int]]) -> State:
        """Go on with the given rows only, in the smallest bucket, after appending to each its ids."""
        if state.turn == self.max_turns:
            raise ValueError(f"turn {state.turn + 1} is past max_turns={self.max_turns}")
        if len(rows) != len(appended):
            raise ValueError(f"{len(appended)} texts for {len(rows)} rows")
        bucket = self.bucket(len(rows))
        tokens, lengths = self._pad(appended, bucket, self.max_feedback_tokens, "feedback")
        index = np.zeros(bucket, np.int32)
        index[: len(rows)] = rows
        cache, hidden = self._extend(params, state.cache, index, tokens, lengths, slots=self.slots(state.turn + 1))
        return State(cache, hidden, len(rows), state.turn + 1)

    def slots(self, turn: int) -> int:
        """Cache slots in a turn: for the first alone, or for all of them."""
        turns = 1 if turn == 1 else self.max_turns
        per_turn = self.max_response_tokens + self.max_feedback_tokens
        return self.max_prompt_tokens + turns * per_turn - self.max_feedback_tokens

    def bucket(self, rows: int) -> int:
        """The smallest bucket that holds the rows."""
        if not 0 < rows <= self.batch_buckets[-1]:
            raise ValueError(f"{rows} rows, but batch_buckets={self.batch_buckets}: split them")
        return next(bucket for bucket in self.batch_buckets if bucket >= rows)

    def _pad(self, texts: Sequence[Sequence[int]], rows: int, limit: int, what: str) -> tuple[np.ndarray, np.ndarray]:
        """Ids -> tokens [rows, limit], lengths [rows]; a padding row is one pad token long."""
        tokens = np.full((rows, limit), self.pad_id, np.int32)
        lengths = np.ones(rows, np.int32)
        for row, ids in enumerate(texts):
            if not 0 < len(ids) <= limit:
                raise ValueError(f"{what} {row} has {len(ids)} tokens; 1 to {limit} are allowed")
            tokens[row, : len(ids)] = ids
            lengths[row] = len(ids)
        return tokens, lengths

    def _jit(self, function: Callable, **options: object) -> Callable:
        """jax.jit that counts its traces: each is one compiled program."""

        def counted(*args: object, **kwargs: object) -> object:
            self.compilations += 1
            return function(*args, **kwargs)

        return jax.jit(counted, **options)


def prefill(
    graphdef: nnx.GraphDef,
    params: nnx.State,
    tokens: jax.Array,
    lengths: jax.Array,
    owner: jax.Array,
    *,
    slots: int,
) -> tuple[KVCache, jax.Array]:
    """Read prompts tokens [P, T] once; return the cache and last hidden of row b = prompt owner[b]."""
    config = nnx.merge(graphdef, params).config
    cache = transformer.empty_cache(config, *tokens.shape)
    cache, hidden = append(graphdef, params, cache, tokens, lengths)
    return transformer.take_rows(cache, owner, slots), hidden[owner]


def extend(
    graphdef: nnx.GraphDef,
    params: nnx.State,
    cache: KVCache,
    index: jax.Array,
    tokens: jax.Array,
    lengths: jax.Array,
    *,
    slots: int,
) -> tuple[KVCache, jax.Array]:
    """Go on with the rows index [B] of a cache, in `slots` slots: append to them tokens [B, T] (see `append`)."""
    return append(graphdef, params, transformer.take_rows(cache, index, slots), tokens, lengths)


def append(
    graphdef: nnx.GraphDef, params: nnx.State, cache: KVCache, tokens: jax.Array, lengths: jax.Array
) -> tuple[KVCache, jax.Array]:
    """Append a chunk tokens [B, T], lengths [B] >= 1; return the cache and the last token's hidden [B, D]."""
    hidden, cache = transformer.extend(graphdef, params, cache, tokens, lengths)
    return cache, jnp.take_along_axis(hidden, lengths[:, None, None] - 1, axis=1)[:, 0]


def decode(
    graphdef: nnx.GraphDef,
    params: nnx.State,
    cache: KVCache,
    hidden: jax.Array,
    key_data: jax.Array,
    active: jax.Array,
    temperature: jax.Array,
    *,
    steps: int,
    impl: str,
    end_id: int,
    pad_id: int,
) -> tuple[KVCache, jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    """Sample the active rows until all have ended, at most `steps` tokens.

    Returns cache, last hidden [B, D], tokens [B, steps], logprobs [B, steps], lengths [B], ended [B].
    """
    keys = jax.random.wrap_key_data(key_data, impl=impl)
    batch = hidden.shape[0]
    start_lengths = cache.lengths

    def unfinished(carry: tuple) -> jax.Array:
        step, _, _, running, _, _ = carry
        return (step < steps) & jnp.any(running)

    def one_token(carry: tuple) -> tuple:
        step, cache, hidden, running, tokens, logprobs = carry
        logits = at_temperature(transformer.unembed(graphdef, params, hidden), temperature)
        uniform = jax.vmap(lambda key, at: jax.random.uniform(jax.random.fold_in(key, at)))
        token, logprob = categorical(logits, uniform(keys, cache.lengths))
        token = jnp.where(running, token, pad_id)
        tokens = jax.lax.dynamic_update_slice(tokens, token[:, None], (0, step))
        logprobs = jax.lax.dynamic_update_slice(logprobs, logprob[:, None], (0, step))
        # An end token is fed as well: in the next turn it is part of what precedes the feedback.
        fed, cache = transformer.extend(graphdef, params, cache, token[:, None], running.astype(jnp.int32))
        hidden = jnp.where(running[:, None], fed[:, 0], hidden)
        return step + 1, cache, hidden, running & (token != end_id), tokens, logprobs

    tokens = jnp.full((batch, steps), pad_id, jnp.int32)
    logprobs = jnp.zeros((batch, steps), jnp.float32)
    _, cache, hidden, running, tokens, logprobs = jax.lax.while_loop(
        unfinished, one_token, (0, cache, hidden, active, tokens, logprobs)
    )
    return cache, hidden, tokens, logprobs, cache.lengths - start_lengths, ~running


def at_temperature(logits: jax.Array, temperature: jax.Array) -> jax.Array:
    """logits [B, V] / temperature; at 0 its limit, all weight on the largest (the first of equals)."""
    largest = jnp.arange(logits.shape[-1]) == jnp.argmax(logits, axis=-1, keepdims=True)
    limit = jnp.where(largest, 0.0, -jnp.inf)
    return jnp.where(temperature > 0, logits / jnp.where(temperature > 0, temperature, 1.0), limit)


def categorical(logits: jax.Array, uniform: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Invert the cumulative distribution of softmax(logits [B, V]) at uniform [B]; tokens and log-probs [B].

    One random number a row, where a Gumbel draw needs V: a tenth of the decode time on a CPU.
    """
    every_logprob = jax.nn.log_softmax(logits)
    cumulative = jnp.cumsum(jnp.exp(every_logprob), axis=-1)
    below = cumulative <= uniform[:, None] * cumulative[:, -1:]
    token = jnp.minimum(jnp.sum(below, axis=-1), logits.shape[-1] - 1).astype(jnp.int32)
    return token, jnp.take_along_axis(every_logprob, token[:, None], axis=-1)[:, 0]
