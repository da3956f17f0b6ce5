"""A decoder of the Llama / Qwen2 / Qwen3 family in Flax NNX, held functionally, with a KV cache.

Shape letters, everywhere: B batch, T time, S cache slots, N query heads, K kv heads, H head dim, D model,
F feed-forward, V vocabulary.

`graphdef, params = nnx.split(Transformer(config, rngs=...))`; then `forward`, `extend` and `unembed` are pure
functions of arrays. Training calls `forward` on whole sequences; sampling calls `extend` on a cache, with the
prompt, with a chunk of feedback, or with one token.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

# Finite, so that a row that may look at nothing (padding) gives a uniform average and never a NaN.
MASKED = -1e30
# Queries a block of training attention: later blocks look at longer prefixes, so the upper triangle of the
# scores is mostly never computed.
QUERY_BLOCK = 128


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and variants of a decoder; the defaults are the small policy of about 2M parameters."""

    vocab_size: int
    embed_dim: int = 192
    layers: int = 4
    query_heads: int = 6
    kv_heads: int = 2
    head_dim: int = 32
    ffw_dim: int = 512
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-6
    tie_embeddings: bool = True
    qkv_bias: bool = False
    qk_norm: bool = False
    param_dtype: str = "float32"
    compute_dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.query_heads % self.kv_heads:
            raise ValueError(f"query_heads={self.query_heads} is not a multiple of kv_heads={self.kv_heads}")
        if self.head_dim % 2:
            raise ValueError(f"head_dim={self.head_dim} must be even: RoPE rotates pairs")


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=("keys", "values", "filled", "used", "lengths"),
    meta_fields=(),
)
@dataclass(frozen=True)
class KVCache:
    """Keys and values of every token so far.

    A chunk takes the same T slots in every row, so that writing it is one contiguous update in place; a row
    with fewer tokens leaves holes, which `filled` masks. Positions count tokens, not slots. Keys are kept
    transposed: the product with a query is 2.5 times as fast on a CPU as over [S, H].
    """

    keys: tuple[jax.Array, ...]  # per layer [B, K, H, S]
    values: tuple[jax.Array, ...]  # per layer [B, K, S, H]
    filled: jax.Array  # [B, S] bool: the slot holds a token of its row
    used: jax.Array  # [] int32: slots handed out; the next chunk starts here
    lengths: jax.Array  # [B] int32: tokens of each row


class RMSNorm(nnx.Module):
    """x / rms(x) * scale over the last axis, computed in f32."""

    def __init__(self, dim: int, config: ModelConfig):
        self.scale = nnx.Param(jnp.ones((dim,), config.param_dtype))
        self.epsilon = config.norm_eps

    def __call__(self, x: jax.Array) -> jax.Array:
        wide = x.astype(jnp.float32)
        normed = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + self.epsilon)
        return (normed * self.scale[...]).astype(x.dtype)


class Attention(nnx.Module):
    """Grouped-query attention with rotary positions; query head n reads kv head n // (N / K)."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
        heads, kv_heads, head_dim = config.query_heads, config.kv_heads, config.head_dim
        linear = functools.partial(_linear, config=config, rngs=rngs)
        self.q_proj = linear(config.embed_dim, heads * head_dim, use_bias=config.qkv_bias)
        self.k_proj = linear(config.embed_dim, kv_heads * head_dim, use_bias=config.qkv_bias)
        self.v_proj = linear(config.embed_dim, kv_heads * head_dim, use_bias=config.qkv_bias)
        self.o_proj = linear(heads * head_dim, config.embed_dim, scale=residual_scale(config))
        self.q_norm = RMSNorm(head_dim, config) if config.qk_norm else None
        self.k_norm = RMSNorm(head_dim, config) if config.qk_norm else None
        self.kv_heads, self.head_dim = kv_heads, head_dim

    def project(self, x: jax.Array, rotation: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """x [B, T, D] -> q [B, T, N, H], keys [B, K, H, T], values [B, K, T, H]."""
        q, k, v = (
            projection(x).reshape(*x.shape[:2], -1, self.head_dim)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self.q_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotate(q, rotation), rotate(k, rotation)
        return q, k.transpose(0, 2, 3, 1), v.transpose(0, 2, 1, 3)


class FeedForward(nnx.Module):
    """SwiGLU: down(silu(gate(x)) * up(x))."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
        self.gate_proj = _linear(config.embed_dim, config.ffw_dim, config=config, rngs=rngs)
        self.up_proj = _linear(config.embed_dim, config.ffw_dim, config=config, rngs=rngs)
        self.down_proj = _linear(
            config.ffw_dim, config.embed_dim, config=config, rngs=rngs, scale=residual_scale(config)
        )

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.down_proj(jax.nn.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nnx.Module):
    """One pre-norm decoder layer."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
        self.attention_norm = RMSNorm(config.embed_dim, config)
        self.attention = Attention(config, rngs)
        self.ffw_norm = RMSNorm(config.embed_dim, config)
        self.ffw = FeedForward(config, rngs)

    def finish(self, x: jax.Array, mixed: jax.Array) -> jax.Array:
        """Add the attention output (mixed [B, T, N*H]) and the feed-forward to the residual x [B, T, D]."""
        x = x + self.attention.o_proj(mixed)
        return x + self.ffw(self.ffw_norm(x))


class Transformer(nnx.Module):
    """The parameters of a decoder; `forward`, `extend` and `unembed` say what they compute."""

    def __init__(self, config: ModelConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.embed = nnx.Embed(
            config.vocab_size,
            config.embed_dim,
            embedding_init=nnx.initializers.normal(0.02),
            dtype=config.compute_dtype,
            param_dtype=config.param_dtype,
            rngs=rngs,
        )
        self.layers = nnx.List([Layer(config, rngs) for _ in range(config.layers)])
        self.final_norm = RMSNorm(config.embed_dim, config)
        self.lm_head = (
            None if config.tie_embeddings else _linear(config.embed_dim, config.vocab_size, config=config, rngs=rngs)
        )


def forward(
    graphdef: nnx.GraphDef,
    params: nnx.State,
    tokens: jax.Array,
    positions: jax.Array,
    segment_ids: jax.Array,
) -> jax.Array:
    """Hidden states [B, T, D] of whole sequences [B, T]: causal within a segment; segment 0 is padding."""
    model = nnx.merge(graphdef, params)
    rotation = rope(positions, model.config)
    time = jnp.arange(tokens.shape[1])
    mask = (segment_ids[:, :, None] == segment_ids[:, None, :]) & (time[:, None] >= time)
    x = model.embed(tokens)
    for layer in model.layers:
        q, keys, values = layer.attention.project(layer.attention_norm(x), rotation)
        mixed = [
            attend(
                q[:, start:end],
                keys[..., :end],
                values[:, :, :end],
                mask[:, start:end, :end],
            )
            for start, end in _blocks(tokens.shape[1])
        ]
        x = layer.finish(x, jnp.concatenate(mixed, axis=1))
    return model.final_norm(x)


def extend(
    graphdef: nnx.GraphDef, params: nnx.State, cache: KVCache, tokens: jax.Array, lengths: jax.Array
) -> tuple[jax.Array, KVCache]:
    """Append the first lengths [B] of tokens [B, T] to each row of the cache; return hidden [B, T, D] and it.

    Takes T slots, whatever the lengths; the caller sees to it that they exist. Hidden states past a row's
    length mean nothing. Serves prefill (an empty cache), feedback and decoding (T = 1) alike.
    """
    model = nnx.merge(graphdef, params)
    chunk, slots = tokens.shape[1], cache.filled.shape[1]
    time, slot = jnp.arange(chunk), cache.used
    rotation = rope(cache.lengths[:, None] + time, model.config)
    filled = jax.lax.dynamic_update_slice(cache.filled, time < lengths[:, None], (0, slot))
    mask = filled[:, None, :] & (jnp.arange(slots) <= (slot + time)[:, None])
    x = model.embed(tokens)
    all_keys, all_values = [], []
    for layer, keys, values in zip(model.layers, cache.keys, cache.values, strict=True):
        q, new_keys, new_values = layer.attention.project(layer.attention_norm(x), rotation)
        keys = jax.lax.dynamic_update_slice(keys, new_keys.astype(keys.dtype), (0, 0, 0, slot))
        values = jax.lax.dynamic_update_slice(values, new_values.astype(values.dtype), (0, 0, slot, 0))
        x = layer.finish(x, attend(q, keys, values, mask))
        all_keys.append(keys)
        all_values.append(values)
    grown = KVCache(tuple(all_keys), tuple(all_values), filled, slot + chunk, cache.lengths + lengths)
    return model.final_norm(x), grown


def unembed(graphdef: nnx.GraphDef, params: nnx.State, hidden: jax.Array) -> jax.Array:
    """Logits [..., V] in f32 of hidden states [..., D]."""
    model = nnx.merge(graphdef, params)
    logits = model.embed.attend(hidden) if model.lm_head is None else model.lm_head(hidden)
    return logits.astype(jnp.float32)


def empty_cache(config: ModelConfig, batch: int, slots: int) -> KVCache:
    """A cache of `slots` free slots for each of `batch` rows."""
    shape = (batch, config.kv_heads, config.head_dim, slots)
    keys = tuple(jnp.zeros(shape, config.compute_dtype) for _ in range(config.layers))
    return KVCache(
        keys=keys,
        values=tuple(k.swapaxes(2, 3) for k in keys),
        filled=jnp.zeros((batch, slots), bool),
        used=jnp.zeros((), jnp.int32),
        lengths=jnp.zeros((batch,), jnp.int32),
    )


def take_rows(cache: KVCache, rows: jax.Array, slots: int) -> KVCache:
    """The cache of the given rows, with room for `slots` slots (at least as many as now)."""
    more = slots - cache.filled.shape[1]
    return KVCache(
        keys=tuple(jnp.pad(k[rows], ((0, 0), (0, 0), (0, 0), (0, more))) for k in cache.keys),
        values=tuple(jnp.pad(v[rows], ((0, 0), (0, 0), (0, more), (0, 0))) for v in cache.values),
        filled=jnp.pad(cache.filled[rows], ((0, 0), (0, more))),
        used=cache.used,
        lengths=cache.lengths[rows],
    )


def attend(q: jax.Array, keys: jax.Array, values: jax.Array, mask: jax.Array) -> jax.Array:
    """softmax(q k / sqrt(H)) v, for q [B, T, N, H], keys [B, K, H, S], values [B, K, S, H], mask [B, T, S].

    Returns [B, T, N*H]. The N / K query heads of a kv head and the T queries are one axis of two plain
    batched products: keys are never repeated, and einsum cannot swap the operands, which doubles the time.
    """
    batch, time, heads, head_dim = q.shape
    kv_heads, group = keys.shape[1], heads // keys.shape[1]
    q = (q * head_dim**-0.5).reshape(batch, time, kv_heads, group, head_dim).transpose(0, 2, 3, 1, 4)
    q = q.reshape(batch, kv_heads, group * time, head_dim)
    scores = jnp.matmul(q, keys, preferred_element_type=jnp.float32)
    scores = scores.reshape(batch, kv_heads, group, time, -1)
    weights = jax.nn.softmax(jnp.where(mask[:, None, None], scores, MASKED), axis=-1)
    weights = weights.reshape(batch, kv_heads, group * time, -1).astype(values.dtype)
    mixed = jnp.matmul(weights, values).reshape(batch, kv_heads, group, time, head_dim)
    return mixed.transpose(0, 3, 1, 2, 4).reshape(batch, time, heads * head_dim)


def rope(positions: jax.Array, config: ModelConfig) -> jax.Array:
    """cos and sin of position * theta^(-2i / H), stacked [2, B, T, 1, H/2]; f32, since bf16 cannot count."""
    half = config.head_dim // 2
    frequency = config.rope_theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = positions[..., None, None].astype(jnp.float32) * frequency
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def rotate(x: jax.Array, rotation: jax.Array) -> jax.Array:
    """Rotate the pairs (x_i, x_{i + H/2}) of x [B, T, heads, H] by their angles (the Llama pairing)."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    cos, sin = rotation
    rotated = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return rotated.astype(x.dtype)


def residual_scale(config: ModelConfig) -> float:
    """Shrinks the projections that write to the residual stream: 2 a layer add up to unit variance."""
    return (2 * config.layers) ** -0.5


def parameter_count(params: nnx.State) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def _linear(
    inputs: int,
    outputs: int,
    *,
    config: ModelConfig,
    rngs: nnx.Rngs,
    use_bias: bool = False,
    scale: float = 1.0,
) -> nnx.Linear:
    return nnx.Linear(
        inputs,
        outputs,
        use_bias=use_bias,
        kernel_init=nnx.initializers.normal(scale * inputs**-0.5),
        dtype=config.compute_dtype,
        param_dtype=config.param_dtype,
        rngs=rngs,
    )


def _blocks(time: int) -> list[tuple[int, int]]:
    return [(start, min(start + QUERY_BLOCK, time)) for start in range(0, time, QUERY_BLOCK)]
