"""The decoder against NumPy and against itself through the cache; segments and padding do not interfere."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from tiny_policy import QUICK_BUILD, TIME, VOCAB, extend, forward, padded, random_tokens, split, tiny

from leap_jax.policy import transformer
from leap_jax.policy.transformer import ModelConfig, Transformer

CLOSE = {"atol": 2e-5, "rtol": 2e-5}
VARIANTS = {
    "llama": {},
    "qwen": {"qkv_bias": True, "qk_norm": True, "tie_embeddings": False, "kv_heads": 1},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_extending_a_cache_in_ragged_chunks_equals_forward(variant):
    config = tiny(**VARIANTS[variant])
    graphdef, params = split(config)
    tokens = random_tokens(3, TIME)
    expected = forward(graphdef, params, *padded(tokens))

    cache = transformer.empty_cache(config, batch=3, slots=30)
    starts = np.zeros(3, int)
    for lengths, width in (([5, 2, 4], 5), ([0, 3, 1], 5), ([1, 0, 1], 1), ([1, 1, 1], 1), ([4, 2, 0], 5)):
        chunk = np.full((3, width), VOCAB - 1, np.int32)
        for row, length in enumerate(lengths):
            chunk[row, :length] = tokens[row, starts[row] : starts[row] + length]
        hidden, cache = extend(graphdef, params, cache, chunk, np.array(lengths))
        for row, length in enumerate(lengths):
            new = expected[row, starts[row] : starts[row] + length]
            np.testing.assert_allclose(hidden[row, :length], new, **CLOSE)
        starts += lengths
    np.testing.assert_array_equal(cache.lengths, starts)
    assert int(cache.used) == 5 + 5 + 1 + 1 + 5


def test_the_forward_pass_equals_numpy():
    """One layer of the whole model, written out in NumPy, in float64."""
    config = tiny(layers=1, qkv_bias=True, qk_norm=True)
    graphdef, params = split(config)
    tokens = random_tokens(3, TIME)
    weights = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), nnx.to_pure_dict(params))
    layer = weights["layers"][0]
    attention, ffw = layer["attention"], layer["ffw"]

    def norm(x: np.ndarray, parameters: dict) -> np.ndarray:
        return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + config.norm_eps) * parameters["scale"]

    def heads(name: str) -> np.ndarray:
        projected = normed @ attention[f"{name}_proj"]["kernel"] + attention[f"{name}_proj"]["bias"]
        return projected.reshape(TIME, -1, config.head_dim)

    def turn(x: np.ndarray) -> np.ndarray:
        pairs = x[..., :4] + 1j * x[..., 4:]
        angle = np.arange(TIME)[:, None, None] * config.rope_theta ** (-np.arange(4) / 4)
        return np.concatenate([(pairs * np.exp(1j * angle)).real, (pairs * np.exp(1j * angle)).imag], -1)

    x = weights["embed"]["embedding"][tokens[0]]
    normed = norm(x, layer["attention_norm"])
    q, k = (turn(norm(heads(name), attention[f"{name}_norm"])) for name in "qk")
    v = heads("v")
    mixed = np.zeros((TIME, 4, 8))
    for t, n in np.ndindex(TIME, 4):
        scores = np.exp([q[t, n] @ k[s, n // 2] / np.sqrt(8) for s in range(t + 1)])
        mixed[t, n] = scores / scores.sum() @ v[: t + 1, n // 2]
    x = x + mixed.reshape(TIME, -1) @ attention["o_proj"]["kernel"]
    normed = norm(x, layer["ffw_norm"])
    gate, up = normed @ ffw["gate_proj"]["kernel"], normed @ ffw["up_proj"]["kernel"]
    x = norm(x + (gate / (1 + np.exp(-gate)) * up) @ ffw["down_proj"]["kernel"], weights["final_norm"])

    hidden = forward(graphdef, params, *padded(tokens))[0]
    np.testing.assert_allclose(hidden, x, **CLOSE)
    logits = transformer.unembed(graphdef, params, hidden)
    np.testing.assert_allclose(logits, x @ weights["embed"]["embedding"].T, atol=1e-4, rtol=1e-4)


def test_attention_equals_a_numpy_loop():
    """Query head n reads kv head n // (N / K); softmax(q k / sqrt(H)) v over the slots the mask allows."""
    rng = np.random.default_rng(0)
    q, keys = rng.normal(size=(2, 3, 6, 4)), rng.normal(size=(2, 2, 4, 5))
    values, mask = rng.normal(size=(2, 2, 5, 4)), rng.random((2, 3, 5)) < 0.6
    mask[..., 0] = True
    expected = np.zeros((2, 3, 6, 4))
    for b, t, n in np.ndindex(2, 3, 6):
        scores = np.array([q[b, t, n] @ keys[b, n // 3, :, s] / 2 for s in range(5)])
        weights = np.where(mask[b, t], np.exp(scores), 0)
        expected[b, t, n] = weights / weights.sum() @ values[b, n // 3]
    mixed = jax.jit(transformer.attend)(*map(np.float32, (q, keys, values)), mask)
    np.testing.assert_allclose(mixed, expected.reshape(2, 3, 24), atol=1e-5)


def test_ragged_rows_equal_single_rows_and_padding_is_never_seen():
    graphdef, params = split(tiny())
    rows = [random_tokens(length, seed=length) for length in (9, 4, 1)]
    together = forward(graphdef, params, *padded(rows))
    for row, ids in enumerate(rows):
        alone = forward(graphdef, params, *padded([ids], filler=VOCAB - 1))
        np.testing.assert_allclose(together[row, : len(ids)], alone[0, : len(ids)], **CLOSE)
        assert np.isfinite(alone).all()


def test_segments_do_not_see_each_other():
    graphdef, params = split(tiny())
    first, second = random_tokens(5, seed=1), random_tokens(6, seed=2)
    tokens, positions, segment_ids = padded([[*first, *second]])
    positions = np.concatenate([np.arange(5), np.arange(6), np.arange(3)]) * np.ones((3, 1), int)
    segment_ids[0, 5:11] = 2
    packed = forward(graphdef, params, tokens, positions, segment_ids)[0]
    alone = forward(graphdef, params, *padded([first, second]))
    np.testing.assert_allclose(packed[:5], alone[0, :5], **CLOSE)
    np.testing.assert_allclose(packed[5:11], alone[1, :6], **CLOSE)


def test_several_query_blocks_equal_one(monkeypatch):
    graphdef, params = split(tiny())
    batch = padded(random_tokens(3, TIME))
    whole = forward(graphdef, params, *batch)
    monkeypatch.setattr(transformer, "QUERY_BLOCK", 5)
    blocks = jax.jit(lambda params: transformer.forward(graphdef, params, *batch))(params)
    np.testing.assert_allclose(whole, blocks, **CLOSE)


def test_no_gradient_flows_from_later_tokens():
    """d hidden[t] / d embedding of token s is zero for s > t and not zero for s <= t."""
    graphdef, params = split(tiny())
    batch = padded([np.arange(TIME)])  # each token once, so its embedding is its own

    def energy(params: nnx.State, t: int) -> jax.Array:
        return jnp.sum(transformer.forward(graphdef, params, *batch)[0, t] ** 2)

    gradient = jax.jit(jax.grad(energy), compiler_options=QUICK_BUILD)
    for t in (0, 3, TIME - 1):
        reached = np.abs(gradient(params, t)["embed"]["embedding"][...]).max(axis=1)[:TIME] > 0
        np.testing.assert_array_equal(reached, np.arange(TIME) <= t)


def test_taken_rows_keep_their_tokens_and_gain_room():
    config = tiny()
    graphdef, params = split(config)
    tokens = random_tokens(3, 5)
    cache = transformer.empty_cache(config, batch=3, slots=5)
    _, cache = extend(graphdef, params, cache, tokens, np.array([5, 2, 3]))
    taken = transformer.take_rows(cache, np.array([2, 0, 2]), slots=30)
    hidden, _ = extend(graphdef, params, taken, np.full((3, 1), 7, np.int32), np.ones(3, np.int32))
    whole = [[*tokens[2, :3], 7], [*tokens[0], 7], [*tokens[2, :3], 7]]
    expected = forward(graphdef, params, *padded(whole))
    for row, ids in enumerate(whole):
        np.testing.assert_allclose(hidden[row, 0], expected[row, len(ids) - 1], **CLOSE)


def test_bfloat16_computes_near_float32():
    graphdef, params = split(tiny())
    half_graphdef, _ = split(tiny(compute_dtype="bfloat16"))
    batch = padded(random_tokens(3, TIME))
    full = np.asarray(forward(graphdef, params, *batch))
    half = forward(half_graphdef, params, *batch)
    assert half.dtype == jnp.bfloat16
    assert np.abs(np.asarray(half, np.float32) - full).mean() < 0.05 * np.abs(full).mean()


def test_the_default_policy_has_about_two_million_parameters():
    model = nnx.eval_shape(lambda: Transformer(ModelConfig(vocab_size=1024), rngs=nnx.Rngs(0)))
    assert transformer.parameter_count(nnx.split(model)[1]) == 1_771_200


@pytest.mark.parametrize("wrong", [{"kv_heads": 3}, {"head_dim": 7}])
def test_impossible_sizes_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        tiny(**wrong)
