"""The policy loss against a loop, and the ways of cutting a batch that must not change it."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leap_jax.algorithm import objective

CLIP = {"clip_low": 0.2, "clip_high": 0.28}


def batch_of(rows: int = 6, slots: int = 9, seed: int = 0):
    """Random log-probs near the sampled ones, with responses of different lengths."""
    rng = np.random.default_rng(seed)
    sampled = -rng.exponential(1.0, (rows, slots)).astype(np.float32)
    logprobs = (sampled + rng.normal(0, 0.3, sampled.shape)).astype(np.float32)
    reference = (sampled + rng.normal(0, 0.3, sampled.shape)).astype(np.float32)
    mask = np.arange(slots) < rng.integers(1, slots + 1, rows)[:, None]
    advantages = np.repeat(rng.normal(size=(rows, 1)), slots, axis=1).astype(np.float32)
    advantages[:, slots // 2 :] *= 0.5  # a second turn
    return logprobs, objective.Tokens(sampled, advantages, mask, reference)


def numpy_loss(logprobs, tokens, *, aggregation, ratio, kl_coef, constant_tokens, clip_low, clip_high) -> float:
    """The loss of a whole batch, one token at a time."""
    per_row, lengths = [], []
    for row in range(len(logprobs)):
        places = np.flatnonzero(tokens.mask[row])
        if not len(places):
            continue
        gaps = {t: float(logprobs[row, t]) - float(tokens.sampled_logprobs[row, t]) for t in places}
        total = 0.0
        for t in places:
            gap = gaps[t] if ratio == "token" else sum(gaps.values()) / len(gaps)
            r, a = np.exp(gap), float(tokens.advantages[row, t])
            total -= min(r * a, np.clip(r, 1 - clip_low, 1 + clip_high) * a)
            d = float(tokens.ref_logprobs[row, t]) - float(logprobs[row, t])
            total += kl_coef * (np.exp(d) - 1 - d)
        per_row.append(total)
        lengths.append(len(places))
    per_row, lengths = np.array(per_row), np.array(lengths)
    if aggregation == "token":
        return per_row.sum() / lengths.sum()
    return (per_row / (lengths if aggregation == "sequence" else constant_tokens)).mean()


def options(aggregation="token", ratio="token", kl_coef=0.0):
    return {"aggregation": aggregation, "ratio": ratio, "kl_coef": kl_coef, "constant_tokens": 16, **CLIP}


def loss_of(logprobs, tokens, count=None, **kwargs):
    count = objective.count(tokens.mask, mode=kwargs["aggregation"]) if count is None else count
    return objective.policy_loss(logprobs, tokens, global_count=count, **kwargs)[0]


@functools.cache
def compiled(aggregation, ratio, kl_coef):
    """(logprobs, tokens, count) -> (loss, gradient); jitted, for speed."""
    return jax.jit(jax.value_and_grad(functools.partial(loss_of, **options(aggregation, ratio, kl_coef))))


MODES = pytest.mark.parametrize("aggregation", objective.AGGREGATIONS)
RATIOS = pytest.mark.parametrize("ratio", objective.RATIOS)


@MODES
@RATIOS
@pytest.mark.parametrize("kl_coef", [0.0, 0.1])
def test_equals_a_loop_over_tokens(aggregation, ratio, kl_coef):
    logprobs, tokens = batch_of()
    count = objective.count(tokens.mask, mode=aggregation)
    loss, _ = compiled(aggregation, ratio, kl_coef)(logprobs, tokens, count)
    expected = numpy_loss(logprobs, tokens, **options(aggregation, ratio, kl_coef))
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


@MODES
@RATIOS
def test_micro_batches_add_up_to_the_same_gradient(aggregation, ratio):
    logprobs, tokens = batch_of()
    loss_and_gradient = compiled(aggregation, ratio, kl_coef=0.1)
    count = objective.count(tokens.mask, mode=aggregation)
    whole_loss, whole = loss_and_gradient(logprobs, tokens, count)
    for size in (1, 3):
        cuts = [slice(first, first + size) for first in range(0, len(logprobs), size)]
        parts = [loss_and_gradient(logprobs[c], objective.Tokens(*(x[c] for x in tokens)), count) for c in cuts]
        np.testing.assert_allclose(sum(loss for loss, _ in parts), whole_loss, rtol=1e-5)
        np.testing.assert_allclose(np.concatenate([g for _, g in parts]), whole, rtol=1e-5, atol=1e-7)


@MODES
@RATIOS
def test_padding_may_hold_anything(aggregation, ratio):
    logprobs, tokens = batch_of()
    loss_and_gradient = compiled(aggregation, ratio, kl_coef=0.1)
    count = objective.count(tokens.mask, mode=aggregation)
    expected, gradient = loss_and_gradient(logprobs, tokens, count)

    def padded(array, fill):
        out = np.full((logprobs.shape[0] + 2, logprobs.shape[1] + 3), fill, array.dtype)
        out[: logprobs.shape[0], : logprobs.shape[1]] = array
        return out

    mask = padded(tokens.mask, False)
    for poison in (np.nan, np.inf, -np.inf):
        poisoned = [
            np.where(mask, padded(x, poison), np.float32(poison))
            for x in (logprobs, tokens.sampled_logprobs, tokens.advantages, tokens.ref_logprobs)
        ]
        padded_tokens = objective.Tokens(poisoned[1], poisoned[2], mask, poisoned[3])
        value, found = loss_and_gradient(poisoned[0], padded_tokens, objective.count(mask, mode=aggregation))
        np.testing.assert_allclose(value, expected, rtol=1e-6)
        np.testing.assert_array_equal(found[~mask], 0)
        np.testing.assert_allclose(found[mask], gradient[tokens.mask], rtol=1e-6)


def test_jit_changes_nothing():
    logprobs, tokens = batch_of()
    eager = jax.value_and_grad(loss_of)(logprobs, tokens, 7.0, **options(kl_coef=0.1))
    jitted = compiled("token", "token", kl_coef=0.1)(logprobs, tokens, 7.0)
    for found, expected in zip(jitted, eager, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


# Ratio, advantage -> loss, clipped?, gradient of the loss with respect to the log-prob.
@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "clipped", "gradient"),
    [
        (1.0, 1.0, -1.0, False, -1.0),
        (1.2, 1.0, -1.2, False, -1.2),
        (1.5, 1.0, -1.28, True, 0.0),
        (0.5, 1.0, -0.5, False, -0.5),
        (0.5, -1.0, 0.8, True, 0.0),
        (0.9, -1.0, 0.9, False, 0.9),
        (1.5, -1.0, 1.5, False, 1.5),
        (1.5, 0.0, 0.0, False, 0.0),
    ],
)
def test_clipping_by_hand(ratio, advantage, loss, clipped, gradient):
    sampled, mask, a = jnp.array([[-1.0]]), jnp.array([[True]]), jnp.array([[advantage]])

    def surrogate(logprobs):
        per_token, was_clipped = objective.clipped_surrogate(logprobs, sampled, a, mask, **CLIP)
        return per_token[0, 0], was_clipped[0, 0]

    (value, was_clipped), found = jax.value_and_grad(surrogate, has_aux=True)(sampled + jnp.log(ratio))
    np.testing.assert_allclose([value, found[0, 0]], [loss, gradient], rtol=1e-5, atol=1e-7)
    assert bool(was_clipped) == clipped


def test_an_enormous_ratio_stays_finite():
    logprobs, sampled = jnp.array([[0.0, 0.0]]), jnp.array([[-500.0, -500.0]])
    advantages, mask = jnp.array([[-1.0, 0.0]]), jnp.ones((1, 2), bool)
    loss, _ = objective.clipped_surrogate(logprobs, sampled, advantages, mask, **CLIP)
    assert np.all(np.isfinite(loss)) and loss[0, 0] > 1e8 and loss[0, 1] == 0


def test_sequence_ratio_is_the_geometric_mean_and_its_gradient_keeps_each_turns_advantage():
    logprobs, tokens = batch_of()
    log_ratio = objective.log_ratio(logprobs, tokens.sampled_logprobs, tokens.mask, ratio="sequence")
    gap = np.where(tokens.mask, logprobs - tokens.sampled_logprobs, 0)
    mean_gap = gap.sum(1) / tokens.mask.sum(1)
    np.testing.assert_allclose(log_ratio, np.where(tokens.mask, mean_gap[:, None], 0), rtol=1e-4, atol=1e-6)

    config = options("sequence", "sequence") | {"clip_low": 0.999, "clip_high": 100.0}  # nothing is clipped
    gradient = jax.jit(jax.grad(functools.partial(loss_of, **config)))(logprobs, tokens)
    share = tokens.mask / tokens.mask.sum(1, keepdims=True) / len(logprobs)
    np.testing.assert_allclose(gradient, -np.exp(mean_gap)[:, None] * tokens.advantages * share, rtol=1e-4, atol=1e-7)


def test_sequence_ratio_has_the_gradient_of_gspo_when_the_advantage_is_one_per_trajectory():
    logprobs, tokens = batch_of()
    tokens = tokens._replace(advantages=np.repeat(tokens.advantages[:, :1], logprobs.shape[1], axis=1))

    def gspo(logprobs):  # equation 5 of arXiv 2507.18071
        gap = jnp.sum(jnp.where(tokens.mask, logprobs - tokens.sampled_logprobs, 0), 1) / tokens.mask.sum(1)
        s, a = jnp.exp(gap), tokens.advantages[:, 0]
        return -jnp.mean(jnp.minimum(s * a, jnp.clip(s, 1 - CLIP["clip_low"], 1 + CLIP["clip_high"]) * a))

    expected, gradient = jax.jit(jax.value_and_grad(gspo))(logprobs)
    count = objective.count(tokens.mask, mode="sequence")
    value, found = compiled("sequence", "sequence", kl_coef=0.0)(logprobs, tokens, count)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(found, gradient, rtol=1e-4, atol=1e-7)


def test_sequence_aggregation_gives_a_trajectory_one_weight_whatever_its_length():
    values = jnp.array([[1.0, 1.0, 1.0, 1.0], [5.0, 0.0, 0.0, 0.0]])
    mask = jnp.array([[True] * 4, [True] + [False] * 3])
    results = {m: objective.aggregate(values, mask, mode=m, constant_tokens=8) for m in objective.AGGREGATIONS}
    assert {m: (float(s), float(c)) for m, (s, c) in results.items()} == {
        "token": (9.0, 5.0),
        "sequence": (6.0, 2.0),
        "constant": (9 / 8, 2.0),
    }


def test_kl_k3_is_the_closed_form_and_never_negative():
    logprobs, tokens = batch_of(rows=20)
    kl = objective.kl_k3(logprobs, tokens.ref_logprobs, tokens.mask)
    d = np.float64(tokens.ref_logprobs) - logprobs
    np.testing.assert_allclose(kl, np.where(tokens.mask, np.exp(d) - 1 - d, 0), rtol=1e-3, atol=1e-7)
    assert np.all(kl >= 0) and not np.any(objective.kl_k3(logprobs, logprobs, tokens.mask))


def test_metrics_are_means_over_response_tokens_for_any_micro_batches():
    logprobs, tokens = batch_of()
    entropies = np.random.default_rng(1).random(logprobs.shape).astype(np.float32)

    sums_of = jax.jit(functools.partial(objective.policy_loss, global_count=1.0, **options(kl_coef=0.1)))

    def sums(rows):
        part = objective.Tokens(*(x[rows] for x in tokens))
        return sums_of(logprobs[rows], part, entropies=entropies[rows])[1]

    merged = objective.merge_metrics(sums(slice(0, 3)), sums(slice(3, 6)))
    found = {name: float(value) for name, value in objective.mean_metrics(merged).items()}
    mask, gap = tokens.mask, tokens.sampled_logprobs - logprobs
    ratio = np.exp(-gap)
    clipped = ((tokens.advantages > 0) & (ratio > 1.28)) | ((tokens.advantages < 0) & (ratio < 0.8))
    d = tokens.ref_logprobs - logprobs
    expected = {
        "tokens": mask.sum(),
        "clip_fraction": clipped[mask].mean(),
        "kl_sampled": gap[mask].mean(),
        "kl_sampled_abs_max": np.abs(gap[mask]).max(),
        "entropy": entropies[mask].mean(),
        "kl_reference": (np.exp(d) - 1 - d)[mask].mean(),
    }
    assert found == pytest.approx(expected, rel=1e-4)
    assert 0 < found["clip_fraction"] < 1


def test_unknown_modes_are_named():
    logprobs, tokens = batch_of()
    with pytest.raises(ValueError, match=r"'mean'.*token, sequence, constant"):
        objective.aggregate(logprobs, tokens.mask, mode="mean")
    with pytest.raises(ValueError, match=r"'turn'.*token, sequence"):
        objective.log_ratio(logprobs, logprobs, tokens.mask, ratio="turn")
    with pytest.raises(ValueError, match="constant_tokens > 0, got None"):
        objective.aggregate(logprobs, tokens.mask, mode="constant")
