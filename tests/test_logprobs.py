"""Log-probs and entropy at response positions against the whole logits; padding is silent."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_policy import QUICK_BUILD, forward, padded, random_tokens, split, tiny

from leap_jax.policy import transformer
from leap_jax.policy.logprobs import response_logprobs, segment_positions

quick = functools.partial(jax.jit, compiler_options=QUICK_BUILD)
GRAPHDEF, PARAMS = split(tiny())
ROWS = [random_tokens(length, seed=length) for length in (14, 9, 5)]
TOKENS, _, SEGMENT_IDS = padded(ROWS)
INDEX = np.array([[13, 3, 4, 5, -1], [1, 2, 8, -1, -1], [-1] * 5])


def logprobs(params, temperature, chunk, index=INDEX):
    return response_logprobs(GRAPHDEF, params, TOKENS, SEGMENT_IDS, index, temperature=temperature, chunk=chunk)


def whole_log_softmax(temperature: float) -> np.ndarray:
    hidden = np.asarray(forward(GRAPHDEF, PARAMS, *padded(ROWS)), np.float64)
    logits = hidden @ np.asarray(PARAMS["embed"]["embedding"][...], np.float64).T / temperature
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize(("temperature", "chunk"), [(1.0, 5), (0.7, 2)])
def test_equal_to_the_whole_log_softmax(temperature, chunk):
    """R = 5 in chunks of 2 does not divide evenly."""
    whole = whole_log_softmax(temperature)
    found, entropy = quick(functools.partial(logprobs, chunk=chunk))(PARAMS, temperature)
    for b, r in np.ndindex(INDEX.shape):
        i = INDEX[b, r]
        before = whole[b, i - 1]
        expected = (before[TOKENS[b, i]], -(np.exp(before) * before).sum()) if i > 0 else (0.0, 0.0)
        np.testing.assert_allclose((found[b, r], entropy[b, r]), expected, atol=2e-5, rtol=2e-5)


def test_gradient_equals_that_of_the_whole_and_padding_has_none():
    weights = np.random.default_rng(0).normal(size=INDEX.shape)

    def chunked(params):
        found, entropy = logprobs(params, 0.7, 2)
        return jnp.sum(weights * (found + 0.3 * entropy))

    def whole(params):
        hidden = transformer.forward(GRAPHDEF, params, *padded(ROWS))
        every = jax.nn.log_softmax(transformer.unembed(GRAPHDEF, params, hidden) / 0.7)
        before = jnp.take_along_axis(every, np.maximum(INDEX - 1, 0)[..., None], axis=1)  # [B, R, V]
        target = np.take_along_axis(TOKENS, np.maximum(INDEX, 0), axis=1)
        found = jnp.take_along_axis(before, target[..., None], axis=-1)[..., 0]
        entropy = -jnp.sum(jnp.exp(before) * before, axis=-1)
        return jnp.sum(jnp.where(INDEX > 0, weights * (found + 0.3 * entropy), 0.0))

    def silent(params):
        found, entropy = logprobs(params, 1e-3, 5, index=np.full((3, 5), -1))
        return jnp.sum(found + entropy)

    first, second, none = (quick(jax.grad(loss))(PARAMS) for loss in (chunked, whole, silent))
    for a, b, zero in zip(*map(jax.tree.leaves, (first, second, none)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4, rtol=1e-3)
        np.testing.assert_array_equal(zero, 0.0)


def test_positions_restart_with_each_segment():
    segment_ids = np.array([[1, 1, 1, 2, 2, 0, 0], [1, 2, 3, 3, 3, 3, 0]])
    np.testing.assert_array_equal(segment_positions(segment_ids), [[0, 1, 2, 0, 1, 0, 1], [0, 0, 0, 1, 2, 3, 0]])


def test_no_program_holds_logits_of_every_position():
    """At B 3, R 12, V 37 in chunks of 2, no array of the gradient's program has B * R * V elements."""
    index = np.broadcast_to(np.arange(1, 13), (3, 12))
    loss = lambda params: jnp.sum(logprobs(params, 1.0, 2, index=index)[0])  # noqa: E731
    jaxpr = jax.make_jaxpr(jax.grad(loss))(PARAMS)
    assert largest_with_vocabulary(jaxpr.jaxpr) == 3 * 2 * 37


def largest_with_vocabulary(jaxpr) -> int:
    """The most elements of any array [B, ..., V] that is computed, inner programs included."""
    sizes = [0]
    for equation in jaxpr.eqns:
        shapes = [variable.aval.shape for variable in equation.outvars]
        sizes += [int(np.prod(shape)) for shape in shapes if len(shape) > 2 and shape[-1] == 37]
        inner = [getattr(value, "jaxpr", value) for value in equation.params.values()]
        sizes += [largest_with_vocabulary(program) for program in inner if hasattr(program, "eqns")]
    return max(sizes)
