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


def options(aggregation="token", ratio="token", kl_coef=0.0, **changes) -> objective.Objective:
    constants = objective.Objective(
        **CLIP,
        dual_clip=None,
        ratio=ratio,
        aggregation=aggregation,
        constant_tokens=16,
        kl_coef=kl_coef,
        kl_estimator="k3",
        token_veto=None,
        geometric_margin=None,
        mirror_pop=None,
    )
    return constants._replace(**changes)


KL = {"k1": lambda d: d, "k2": lambda d: d**2 / 2, "k3": lambda d: np.exp(-d) - 1 + d}


def numpy_loss(logprobs, tokens, constants: objective.Objective) -> float:
    """The loss of a whole batch, one token at a time."""
    per_row, lengths = [], []
    for row in range(len(logprobs)):
        places = np.flatnonzero(tokens.mask[row])
        if not len(places):
            continue
        gaps = {t: float(logprobs[row, t]) - float(tokens.sampled_logprobs[row, t]) for t in places}
        total = 0.0
        for t in places:
            gap = gaps[t] if constants.ratio == "token" else sum(gaps.values()) / len(gaps)
            r, a = np.exp(gap), float(tokens.advantages[row, t])
            surrogate = min(r * a, np.clip(r, 1 - constants.clip_low, 1 + constants.clip_high) * a)
            if constants.dual_clip is not None and a < 0:
                surrogate = max(surrogate, constants.dual_clip * a)
            total -= surrogate
            d = float(logprobs[row, t]) - float(tokens.ref_logprobs[row, t])
            total += constants.kl_coef * KL[constants.kl_estimator](d)
        per_row.append(total if kept_by_loop(gaps.values(), constants) else 0.0)
        lengths.append(len(places))
    per_row, lengths = np.array(per_row), np.array(lengths)
    if constants.aggregation == "token":
        return per_row.sum() / lengths.sum()
    return (per_row / {"sequence": lengths, "sequence_sum": 1, "constant": 16}[constants.aggregation]).mean()


def kept_by_loop(gaps, constants: objective.Objective) -> bool:
    """The three filters by their definitions."""
    ratios = np.exp(list(gaps))
    if constants.token_veto is not None and any(r < constants.token_veto for r in ratios):
        return False
    margin, delta = constants.geometric_margin, constants.mirror_pop
    if margin is not None and not 1 - margin <= np.prod(ratios) ** (1 / len(ratios)) <= 1 + margin:
        return False
    return delta is None or np.mean(np.log(np.maximum(ratios, 1 / ratios))) <= delta


def loss_of(logprobs, tokens, count=None, *, constants):
    count = objective.count(tokens.mask, mode=constants.aggregation) if count is None else count
    return objective.policy_loss(logprobs, tokens, constants, global_count=count)[0]


@functools.cache
def compiled(aggregation, ratio, kl_coef, **changes):
    """(logprobs, tokens, count) -> (loss, gradient); jitted, for speed."""
    constants = options(aggregation, ratio, kl_coef, **changes)
    return jax.jit(jax.value_and_grad(functools.partial(loss_of, constants=constants)))


MODES = pytest.mark.parametrize("aggregation", objective.AGGREGATIONS)
RATIOS = pytest.mark.parametrize("ratio", objective.RATIOS)


@MODES
@RATIOS
@pytest.mark.parametrize("kl_coef", [0.0, 0.1])
def test_equals_a_loop_over_tokens(aggregation, ratio, kl_coef):
    logprobs, tokens = batch_of()
    count = objective.count(tokens.mask, mode=aggregation)
    loss, _ = compiled(aggregation, ratio, kl_coef)(logprobs, tokens, count)
    expected = numpy_loss(logprobs, tokens, options(aggregation, ratio, kl_coef))
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


SWITCHES = pytest.mark.parametrize(
    "changes",
    [
        {"dual_clip": 1.3},
        {"kl_estimator": "k1"},
        {"kl_estimator": "k2"},
        {"token_veto": 0.7},
        {"geometric_margin": 0.1},
        {"mirror_pop": 0.22},
        {"token_veto": 0.6, "geometric_margin": 0.1, "mirror_pop": 0.25, "dual_clip": 1.3},
    ],
    ids=lambda changes: "+".join(map(str, changes)),
)


@SWITCHES
def test_a_switch_equals_the_loop_and_changes_something(changes):
    logprobs, tokens = batch_of(rows=12)
    count = objective.count(tokens.mask, mode="sequence")
    loss, _ = compiled("sequence", "token", 0.1, **changes)(logprobs, tokens, count)
    np.testing.assert_allclose(
        loss, numpy_loss(logprobs, tokens, options("sequence", kl_coef=0.1, **changes)), rtol=1e-5
    )
    assert abs(float(loss) - numpy_loss(logprobs, tokens, options("sequence", kl_coef=0.1))) > 1e-4


@SWITCHES
def test_a_switch_adds_up_over_micro_batches_and_never_sees_padding(changes):
    logprobs, tokens = batch_of(rows=12)
    both = compiled("token", "token", 0.1, **changes)
    count = objective.count(tokens.mask, mode="token")
    whole, gradient = both(logprobs, tokens, count)
    parts = [both(logprobs[c], objective.Tokens(*(x[c] for x in tokens)), count) for c in (slice(0, 6), slice(6, 12))]
    np.testing.assert_allclose(sum(loss for loss, _ in parts), whole, rtol=1e-5)
    np.testing.assert_allclose(np.concatenate([g for _, g in parts]), gradient, rtol=1e-5, atol=1e-7)

    sampled, advantages, reference = (
        np.where(tokens.mask, x, np.nan) for x in (tokens.sampled_logprobs, tokens.advantages, tokens.ref_logprobs)
    )
    poisoned = objective.Tokens(sampled, advantages, tokens.mask, reference)
    value, found = both(np.where(tokens.mask, logprobs, np.nan), poisoned, count)
    np.testing.assert_allclose(value, whole, rtol=1e-6)
    np.testing.assert_allclose(found, gradient, rtol=1e-6)


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
    eager = jax.value_and_grad(loss_of)(logprobs, tokens, 7.0, constants=options(kl_coef=0.1))
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

    constants = options("sequence", "sequence", clip_low=0.999, clip_high=100.0)  # nothing is clipped
    gradient = jax.jit(jax.grad(functools.partial(loss_of, constants=constants)))(logprobs, tokens)
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
        "sequence_sum": (9.0, 2.0),
        "constant": (9 / 8, 2.0),
    }


@pytest.mark.parametrize("estimator", objective.KL_ESTIMATORS)
def test_the_kl_estimate_is_its_formula(estimator):
    logprobs, tokens = batch_of(rows=20)
    kl = objective.kl_penalty(logprobs, tokens.ref_logprobs, tokens.mask, estimator=estimator)
    d = np.float64(logprobs) - tokens.ref_logprobs
    np.testing.assert_allclose(kl, np.where(tokens.mask, KL[estimator](d), 0), rtol=1e-3, atol=1e-6)
    if estimator != "k1":
        assert np.all(kl >= 0)
    assert not np.any(objective.kl_penalty(logprobs, logprobs, tokens.mask, estimator=estimator))


@pytest.mark.parametrize("estimator", objective.KL_ESTIMATORS)
def test_the_mean_gradient_of_a_kl_estimate_is_that_of_a_kl(estimator):
    """Over all tokens of a small vocabulary, by their probability: k1 and k2, KL(pi || ref); k3, KL(ref || pi)."""
    logits, ref = jnp.array([0.3, -1.0, 0.8, 0.1]), jax.nn.log_softmax(jnp.array([-0.5, 0.4, 1.0, 0.0]))
    probabilities = jax.nn.softmax(logits)

    def mean_of_samples(logits):
        logprobs = jax.nn.log_softmax(logits)[None]
        kl = objective.kl_penalty(logprobs, ref[None], jnp.ones((1, 4), bool), estimator=estimator)
        return jnp.sum(probabilities * kl[0])

    def divergence(logits):
        logprobs = jax.nn.log_softmax(logits)
        if estimator == "k3":
            return jnp.sum(jnp.exp(ref) * (ref - logprobs))
        return jnp.sum(jnp.exp(logprobs) * (logprobs - ref))

    found, expected = jax.grad(mean_of_samples)(logits), jax.grad(divergence)(logits)
    assert np.max(np.abs(expected)) > 0.05
    np.testing.assert_allclose(found, expected, atol=1e-6)
    if estimator != "k2":
        forward = jnp.sum(probabilities * (jnp.log(probabilities) - ref))
        np.testing.assert_allclose(mean_of_samples(logits), forward, rtol=1e-5)


def test_dual_clip_by_hand():
    """A failure that became five times as likely: 3 |A| at most, and no gradient; a success is not touched."""
    mask, sampled = jnp.ones((1, 3), bool), jnp.full((1, 3), -3.0)
    advantages, ratios = jnp.array([[-2.0, -2.0, 2.0]]), jnp.array([[5.0, 2.0, 5.0]])

    def loss(logprobs):
        per_token, clipped = objective.clipped_surrogate(logprobs, sampled, advantages, mask, **CLIP, dual_clip=3.0)
        return jnp.sum(per_token), (per_token, clipped)

    gradient, (per_token, clipped) = jax.grad(loss, has_aux=True)(sampled + jnp.log(ratios))
    np.testing.assert_allclose(per_token, [[6.0, 4.0, -2.56]], rtol=1e-5)
    np.testing.assert_allclose(gradient, [[0.0, 4.0, 0.0]], rtol=1e-5)
    np.testing.assert_array_equal(clipped, [[True, False, True]])


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        ({}, [True, True, True, True]),
        ({"token_veto": 1e-4}, [True, True, False, True]),
        ({"geometric_margin": 0.001}, [True, False, False, True]),  # opposite drifts cancel in the last
        ({"mirror_pop": 0.11}, [True, True, False, False]),
    ],
)
def test_a_filter_by_hand(limit, kept):
    gaps = jnp.array([[0.0005, 0.0], [0.1, 0.1], [-10.0, 0.0], [0.5, -0.5]])
    found = objective.kept_sequences(gaps - 1.0, jnp.full(gaps.shape, -1.0), jnp.ones(gaps.shape, bool), **limit)
    np.testing.assert_array_equal(found, kept)


def test_a_dropped_sequence_has_no_gradient_and_a_filter_has_none():
    logprobs, tokens = batch_of(rows=12)
    constants = options("sequence", kl_coef=0.1, mirror_pop=0.22)
    kept = np.asarray(objective.kept_sequences(logprobs, tokens.sampled_logprobs, tokens.mask, mirror_pop=0.22))
    assert 0 < kept.sum() < 12
    (_, sums), gradient = jax.jit(
        jax.value_and_grad(
            functools.partial(objective.policy_loss, constants=constants, global_count=12.0), has_aux=True
        )
    )(logprobs, tokens)
    _, whole = compiled("sequence", "token", 0.1)(logprobs, tokens, 12.0)
    np.testing.assert_array_equal(gradient[~kept], 0)
    np.testing.assert_allclose(gradient[kept], whole[kept], rtol=1e-6)
    assert float(objective.mean_metrics(sums)["filtered_share"]) == pytest.approx(1 - kept.mean())


def test_metrics_are_means_over_response_tokens_for_any_micro_batches():
    logprobs, tokens = batch_of()
    entropies = np.random.default_rng(1).random(logprobs.shape).astype(np.float32)

    constants = options(kl_coef=0.1)
    sums_of = jax.jit(functools.partial(objective.policy_loss, constants=constants, global_count=1.0))

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
        "sequences": 6,
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
    with pytest.raises(ValueError, match=r"'mean'.*token, sequence, sequence_sum, constant"):
        objective.aggregate(logprobs, tokens.mask, mode="mean")
    with pytest.raises(ValueError, match=r"'k4'.*k1, k2, k3"):
        objective.kl_penalty(logprobs, logprobs, tokens.mask, estimator="k4")
    with pytest.raises(ValueError, match=r"'turn'.*token, sequence"):
        objective.log_ratio(logprobs, logprobs, tokens.mask, ratio="turn")
    with pytest.raises(ValueError, match="constant_tokens > 0, got None"):
        objective.aggregate(logprobs, tokens.mask, mode="constant")
