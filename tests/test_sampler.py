"""Sampling against log-probs computed again from whole sequences; rows, buckets and turns do not interfere."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from tiny_policy import QUICK_BUILD, VOCAB, random_tokens, split, tiny

from leap_jax.policy.logprobs import response_logprobs
from leap_jax.policy.sampler import Sampler, at_temperature, categorical

END, PAD = 1, 0
GRAPHDEF, PARAMS = split(tiny(layers=1), scale=0.5)
PROMPTS = [random_tokens(length, seed=length).tolist() for length in (6, 2, 4)]


@functools.cache
def sampler() -> Sampler:
    return Sampler(
        GRAPHDEF,
        max_prompt_tokens=6,
        max_response_tokens=12,
        max_feedback_tokens=5,
        max_turns=3,
        batch_buckets=(6, 2),
        end_id=END,
        pad_id=PAD,
    )


def keys(count: int, seed: int = 0) -> jax.Array:
    return jax.random.split(jax.random.key(seed), 8)[:count]


@functools.partial(jax.jit, compiler_options=QUICK_BUILD)
def whole_logprobs(tokens, segment_ids, index, temperature):
    return response_logprobs(GRAPHDEF, PARAMS, tokens, segment_ids, index, temperature=temperature, chunk=64)[0]


def recomputed(rows: list[list[int]], responses: list[list[int]], temperature: float) -> list[np.ndarray]:
    """Log-probs of each row's last response from the whole sequence, in one padded batch of 6 x 60."""
    tokens, index = np.full((6, 60), PAD, np.int32), np.full((6, 12), -1, np.int32)
    segment_ids = np.zeros_like(tokens)
    for row, (before, response) in enumerate(zip(rows, responses, strict=True)):
        end = len(before) + len(response)
        tokens[row, :end] = before + response
        segment_ids[row, :end] = 1
        index[row, : len(response)] = np.arange(len(before), end)
    found = np.asarray(whole_logprobs(tokens, segment_ids, index, temperature))
    return [found[row, : len(response)] for row, response in enumerate(responses)]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_sampled_logprobs_equal_recomputed_ones_over_three_turns(temperature):
    """Ids are only appended; positions, holes in the cache and dropped rows leave log-probs as they are."""
    state = sampler().start(PARAMS, PROMPTS, repeats=2)
    rows = [list(prompt) for prompt in PROMPTS for _ in range(2)]
    going_on = [list(range(6)), [4, 1], [1, 0]]
    for turn in range(3):
        state, tokens, logprobs, truncated = sampler().sample(PARAMS, state, keys(len(rows), seed=turn), temperature)
        for found, expected in zip(logprobs, recomputed(rows, tokens, temperature), strict=True):
            np.testing.assert_allclose(found, expected, atol=5e-5, rtol=5e-5)
        for response, cut in zip(tokens, truncated, strict=True):
            assert END not in response[:-1]
            assert cut == (response[-1] != END)
            assert len(response) == 12 if cut else 1 <= len(response) <= 12
        if turn < 2:
            kept = going_on[turn + 1]
            feedback = [[5, 6, 7], [8, 9, 10, 11, 12]]
            state = sampler().extend(PARAMS, state, kept, feedback)
            rows = [rows[k] + tokens[k] + ids for k, ids in zip(kept, feedback, strict=True)]
    lengths = np.asarray(state.cache.lengths)
    assert lengths.tolist() == [len(row) + len(ids) for row, ids in zip(rows, tokens, strict=True)]


def test_responses_differ_in_length_and_between_repeats():
    """Guards the tests above: some rows end early and some are cut off, and repeats are not copies."""
    state = sampler().start(PARAMS, PROMPTS, repeats=2)
    _, tokens, _, truncated = sampler().sample(PARAMS, state, keys(6), 1.0)
    assert any(truncated) and not all(truncated)
    assert tokens[0] != tokens[1]


def test_a_row_depends_on_its_own_key_and_prompt_only():
    state = sampler().start(PARAMS, PROMPTS, repeats=2)
    _, together, _, _ = sampler().sample(PARAMS, state, keys(6), 1.0)
    for row in (0, 3, 5):
        state = sampler().start(PARAMS, [PROMPTS[row // 2]], repeats=1)  # the smaller bucket
        _, alone, _, _ = sampler().sample(PARAMS, state, keys(6)[row : row + 1], 1.0)
        assert alone[0] == together[row]
    state = sampler().start(PARAMS, PROMPTS, repeats=2)
    _, reordered, _, _ = sampler().sample(PARAMS, state, keys(6)[::-1], 1.0)
    assert reordered[4] != together[4]
    state = sampler().start(PARAMS, PROMPTS[::-1], repeats=2)
    _, swapped, _, _ = sampler().sample(PARAMS, state, keys(6)[np.array([4, 5, 2, 3, 0, 1])], 1.0)
    assert [swapped[row] for row in (4, 5, 2, 3, 0, 1)] == together


def test_extending_equals_prefilling_the_whole_text():
    """The kept cache and a fresh prefill of the same ids give the same next tokens."""
    state = sampler().start(PARAMS, PROMPTS[1:2], repeats=2)
    state, tokens, _, _ = sampler().sample(PARAMS, state, keys(2), 1.0)
    state = sampler().extend(PARAMS, state, [1, 0], [[5, 6], [7]])
    _, continued, logprobs, _ = sampler().sample(PARAMS, state, keys(2, seed=9), 1.0)

    whole = [PROMPTS[1] + tokens[1] + [5, 6], PROMPTS[1] + tokens[0] + [7]]
    fresh = Sampler(
        GRAPHDEF,
        max_prompt_tokens=20,
        max_response_tokens=12,
        max_feedback_tokens=5,
        max_turns=1,
        batch_buckets=(2,),
        end_id=END,
        pad_id=PAD,
    )
    _, expected, expected_logprobs, _ = fresh.sample(
        PARAMS, fresh.start(PARAMS, whole, repeats=1), keys(2, seed=9), 1.0
    )
    assert continued == expected
    for found, again in zip(logprobs, expected_logprobs, strict=True):
        np.testing.assert_allclose(found, again, atol=5e-5)


def test_tokens_come_as_often_as_their_probability():
    """Pearson's chi-square of 20,000 draws over 37 tokens stays under its 1 - 1e-6 quantile (36 degrees: 100)."""
    logits = np.random.default_rng(0).normal(size=VOCAB).astype(np.float32) * 1.5
    uniform = jax.random.uniform(jax.random.key(3), (20_000,))
    tokens, logprobs = jax.jit(categorical)(np.broadcast_to(logits, (20_000, VOCAB)), uniform)
    probability = np.exp(logits) / np.exp(logits).sum()
    counts, expected = np.bincount(tokens, minlength=VOCAB), 20_000 * probability
    assert ((counts - expected) ** 2 / expected).sum() < 100
    np.testing.assert_allclose(logprobs[:50], np.log(probability)[np.asarray(tokens[:50])], atol=1e-4)


def test_the_ends_of_the_unit_interval_give_possible_tokens():
    logits = np.array([[-np.inf, 0.0, -np.inf, 1.0, -np.inf]] * 2, np.float32)
    tokens, _ = categorical(logits, np.array([0.0, 1 - 2**-24], np.float32))
    assert tokens.tolist() == [1, 3]


@pytest.mark.parametrize(("temperature", "largest"), [(1e-3, 0.1), (0.0, 0.0)])
def test_a_low_temperature_takes_the_likeliest_token_and_none_always(temperature, largest):
    state = sampler().start(PARAMS, PROMPTS, repeats=2)
    _, tokens, logprobs, _ = sampler().sample(PARAMS, state, keys(6), temperature)
    assert tokens[0::2] == tokens[1::2]
    assert max(np.abs(row).max() for row in logprobs) <= largest
    everything = recomputed([list(prompt) for prompt in PROMPTS for _ in range(2)], tokens, 1e-3)
    assert max(np.abs(row).max() for row in everything) < 0.1, "another token was likelier"


def test_temperature_0_takes_the_first_of_equals_whatever_the_key():
    logits = np.array([[1.0, 3.0, 3.0, 2.0], [-5.0, -9.0, -6.0, -7.0]], np.float32)
    sharp = at_temperature(logits, np.float32(0))
    for uniform in (0.0, 0.5, 1 - 2**-24):
        tokens, logprobs = categorical(sharp, np.full(2, uniform, np.float32))
        assert (tokens.tolist(), logprobs.tolist()) == ([1, 0], [0.0, 0.0])
    np.testing.assert_array_equal(at_temperature(logits, np.float32(0.5)), logits / np.float32(0.5))


def test_repeating_calls_compiles_nothing_new():
    """One program to start and one to decode a bucket; extending to it takes two, and decoding there one."""
    state = sampler().start(PARAMS, PROMPTS, repeats=2)
    state, _, _, _ = sampler().sample(PARAMS, state, keys(6), 1.0)
    sampler().sample(PARAMS, sampler().extend(PARAMS, state, [0, 5], [[5], [6]]), keys(2), 1.0)
    before = sampler().compilations
    state = sampler().start(PARAMS, PROMPTS[:2], repeats=2)  # other counts and lengths, same buckets
    state, _, _, _ = sampler().sample(PARAMS, state, keys(4), 0.0)
    sampler().sample(PARAMS, sampler().extend(PARAMS, state, [3], [[5, 6, 7]]), keys(1), 1.0)
    assert sampler().compilations == before


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"7 rows, but batch_buckets=\(2, 6\)"):
        sampler().start(PARAMS, PROMPTS[:1], repeats=7)
    with pytest.raises(ValueError, match="prompt 0 has 7 tokens"):
        sampler().start(PARAMS, [[2] * 7], repeats=1)
    state = sampler().start(PARAMS, PROMPTS[:1], repeats=1)
    with pytest.raises(ValueError, match="2 keys for 1 rows"):
        sampler().sample(PARAMS, state, keys(2), 1.0)
    with pytest.raises(ValueError, match="temperature=-1"):
        sampler().sample(PARAMS, state, keys(1), -1)
    with pytest.raises(ValueError, match="feedback 0 has 0 tokens"):
        sampler().extend(PARAMS, state, [0], [[]])
    last = sampler().extend(PARAMS, sampler().extend(PARAMS, state, [0], [[2]]), [0], [[2]])
    with pytest.raises(ValueError, match="past max_turns=3"):
        sampler().extend(PARAMS, last, [0], [[2]])
