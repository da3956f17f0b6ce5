"""A decoder small enough to test with, and the compiled functions the tests share."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from leap_jax.policy import transformer
from leap_jax.policy.transformer import ModelConfig, Transformer

VOCAB, TIME = 37, 14
# Test programs are small: building them is most of their time.
QUICK_BUILD = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

forward = jax.jit(transformer.forward, static_argnums=0, compiler_options=QUICK_BUILD)
extend = jax.jit(transformer.extend, static_argnums=0, compiler_options=QUICK_BUILD)


def tiny(**overrides: object) -> ModelConfig:
    sizes = {"embed_dim": 16, "layers": 2, "query_heads": 4, "kv_heads": 2, "head_dim": 8, "ffw_dim": 24}
    return ModelConfig(**{"vocab_size": VOCAB, **sizes, **overrides})


def split(config: ModelConfig, seed: int = 0, scale: float = 0.3) -> tuple[nnx.GraphDef, nnx.State]:
    """graphdef and params with every parameter random, norms and biases as well."""
    rng = np.random.default_rng(seed)
    graphdef, shapes = nnx.split(nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0))))

    def draw(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        return jnp.asarray(scale * rng.normal(size=leaf.shape) + (leaf.ndim == 1), leaf.dtype)

    return graphdef, jax.tree.map(draw, shapes)


def random_tokens(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, VOCAB, shape, np.int32)


def padded(rows: Sequence[Sequence[int]], filler: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of ids -> tokens, positions, segment_ids [3, TIME]: the one shape that `forward` is built for."""
    tokens = np.full((3, TIME), filler, np.int32)
    segment_ids = np.zeros_like(tokens)
    for row, ids in enumerate(rows):
        tokens[row, : len(ids)] = ids
        segment_ids[row, : len(ids)] = 1
    return tokens, np.broadcast_to(np.arange(TIME), tokens.shape), segment_ids
