"""The policy loss: a clipped surrogate over response tokens, as a (sum, count) pair.

Arrays are [B, R]: B sequences, R token slots. A sequence holds the responses of all turns of an episode, or of one
turn (`update.to_batch` lays them out). `mask` is True at response tokens. Everything else (prompt, feedback, padding)
may hold anything, NaN included: values are selected by the mask before any arithmetic, so neither the loss nor its
gradient sees them.

A mean over a batch that is processed in micro-batches is taken once, over the whole batch: each micro-batch
contributes its sum, divided by the count of the whole (`count`, from the masks alone, before any gradient).
The gradients then add up to the same value for every way of cutting the batch.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

AGGREGATIONS = ("token", "sequence", "sequence_sum", "constant")
RATIOS = ("token", "sequence")
SEQUENCES = ("rollout", "turn")  # what is one sequence
KL_ESTIMATORS = ("k1", "k2", "k3")
FILTERED = "filtered_share"  # the metric that is a mean over sequences
MAX_LOG_RATIO = 20.0  # exp of a larger one overflows to inf, and inf * 0 is NaN


class Tokens(NamedTuple):
    """What the loss needs to know of the sampled tokens."""

    sampled_logprobs: jax.Array  # [B, R] log-probabilities under the policy that sampled
    advantages: jax.Array  # [B, R] constant over the tokens of a turn
    mask: jax.Array  # [B, R] bool: response tokens
    ref_logprobs: jax.Array | None = None  # [B, R] under the KL anchor; needed when kl_coef is not 0


class Objective(NamedTuple):
    """The constants of the loss; None switches a part off."""

    clip_low: float
    clip_high: float
    dual_clip: float | None  # where A < 0 the ratio counts as no more than this (above 1)
    ratio: str
    aggregation: str
    constant_tokens: int  # the divisor of `constant` aggregation
    kl_coef: float
    kl_estimator: str
    token_veto: float | None  # see `kept_sequences`, for these three
    geometric_margin: float | None
    mirror_pop: float | None

    @property
    def filters(self) -> dict[str, float]:
        """The limits of `kept_sequences` that are on."""
        limits = {name: getattr(self, name) for name in ("token_veto", "geometric_margin", "mirror_pop")}
        return {name: limit for name, limit in limits.items() if limit is not None}


def log_ratio(logprobs, sampled_logprobs, mask, *, ratio: str):
    """Log of the importance ratio of each token, 0 outside the mask; values within +-MAX_LOG_RATIO.

    `token`: log pi_t - log pi_old_t (PPO, GRPO). `sequence`: the mean of that over the sequence's tokens,
    one value for all of them (GSPO, its token form): token t's gradient is the sequence's ratio times that of
    log pi_t, so that turns of a sequence may carry different advantages.
    """
    logprobs = jnp.where(mask, logprobs, 0.0)
    difference = logprobs - jnp.where(mask, sampled_logprobs, 0.0)
    if ratio == "sequence":
        average = jnp.sum(difference, axis=-1, keepdims=True) / _row_tokens(mask)[:, None]
        stopped = jax.lax.stop_gradient(average - logprobs)
        difference = jnp.where(mask, stopped + logprobs, 0.0)
    elif ratio != "token":
        raise ValueError(f"ratio {ratio!r} is unknown; use one of {', '.join(RATIOS)}")
    return jnp.clip(difference, -MAX_LOG_RATIO, MAX_LOG_RATIO)


def clipped_surrogate(
    logprobs, sampled_logprobs, advantages, mask, *, clip_low, clip_high, dual_clip=None, ratio="token"
):
    """Return (loss [B, R], clipped [B, R] bool), both 0 outside the mask.

    loss = -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), and where A < 0 no more than -dual_clip A (dual-clip
    PPO, arXiv 1912.09729): else the loss of an unlikely failure that became likely has no bound. `clipped`: a clip
    took the gradient.
    """
    advantages = jnp.where(mask, advantages, 0.0)
    r = jnp.exp(log_ratio(logprobs, sampled_logprobs, mask, ratio=ratio))
    loss = -jnp.minimum(r * advantages, jnp.clip(r, 1.0 - clip_low, 1.0 + clip_high) * advantages)
    clipped = ((advantages > 0) & (r > 1.0 + clip_high)) | ((advantages < 0) & (r < 1.0 - clip_low))
    if dual_clip is not None:
        beyond = (advantages < 0) & (r > dual_clip)
        loss, clipped = jnp.where(beyond, -dual_clip * advantages, loss), clipped | beyond
    return jnp.where(mask, loss, 0.0), mask & clipped


def kept_sequences(logprobs, sampled_logprobs, mask, *, token_veto=None, geometric_margin=None, mirror_pop=None):
    """Tell the sequences that are near enough to the policy that sampled them: [B] bool, no gradient passes.

    With rho_t the token ratios of a sequence, all of these that are not None must hold:
    `token_veto`: no rho_t is below it (1e-4, Dr.Kernel).
    `geometric_margin`: the geometric mean of rho lies in 1 +- it (0.001, Dr.Kernel's mismatch rejection).
    `mirror_pop`: mean |log rho_t| <= it (MusaCoder's MirrorPop): opposite drifts do not cancel.

    A sequence that is dropped has no loss and no KL term, but still counts in what the loss is divided by: which
    are dropped is known only after a forward pass, and the divisor must be known before the first micro-batch. So a
    step with many dropped sequences is a smaller step, not one in which the others weigh more.
    """
    gap = jax.lax.stop_gradient(jnp.where(mask, logprobs, 0.0)) - jnp.where(mask, sampled_logprobs, 0.0)
    tokens, kept = _row_tokens(mask), jnp.ones(mask.shape[0], bool)
    if token_veto is not None:
        kept &= jnp.all(gap >= jnp.log(token_veto), axis=-1)
    if geometric_margin is not None:
        kept &= jnp.abs(jnp.expm1(jnp.sum(gap, axis=-1) / tokens)) <= geometric_margin
    if mirror_pop is not None:
        kept &= jnp.sum(jnp.abs(gap), axis=-1) / tokens <= mirror_pop
    return kept


def kl_penalty(logprobs, ref_logprobs, mask, *, estimator: str):
    """Estimate KL(policy || reference) at each token, 0 outside the mask; d = log pi - log ref. [B, R].

    `k1`: d, unbiased; can be negative. Its own gradient has mean 0 whatever the reference, so it is given that of
    the KL as a reward, d grad log pi. `k2`: d^2 / 2, biased, with the same gradient: on samples of the policy its
    mean is exactly grad KL(policy || reference). `k3`: exp(-d) - 1 + d, unbiased, never negative (GRPO); the mean of
    its gradient is grad KL(reference || policy), the KL of the other direction, which agrees near the reference.
    """
    logprobs = jnp.where(mask, logprobs, 0.0)
    d = logprobs - jnp.where(mask, ref_logprobs, 0.0)
    if estimator == "k1":
        d = jax.lax.stop_gradient(d)
        return d + d * (logprobs - jax.lax.stop_gradient(logprobs))
    if estimator == "k2":
        return d**2 / 2
    if estimator == "k3":
        return jnp.expm1(jnp.minimum(-d, MAX_LOG_RATIO)) + d
    raise ValueError(f"KL estimator {estimator!r} is unknown; use one of {', '.join(KL_ESTIMATORS)}")


def count(mask, *, mode: str):
    """Return what to divide by: the number of tokens (`token`), else of sequences that have a token."""
    return jnp.sum(mask) if mode == "token" else jnp.sum(jnp.any(mask, axis=-1))


def aggregate(per_token, mask, *, mode: str, constant_tokens: int | None = None):
    """Reduce [B, R] values to (sum, count), whose quotient over the whole batch is the mean.

    `token`: every token weighs the same (DAPO, over the batch as in its code; its equation normalises each prompt
    alone). `sequence`: every sequence does, by the mean over its tokens (GRPO). `sequence_sum`: the mean over sequences
    of the sum over their tokens (Dr.Kernel's seq-mean-token-sum). `constant`: that sum divided by `constant_tokens`
    (Dr.GRPO: no length bias, and the scale of a mean). A row without tokens counts nowhere.
    """
    sums = jnp.sum(jnp.where(mask, per_token, 0.0), axis=-1)
    if mode == "sequence":
        sums = sums / _row_tokens(mask)
    elif mode == "constant":
        if not constant_tokens or constant_tokens < 0:
            raise ValueError(f"aggregation 'constant' needs constant_tokens > 0, got {constant_tokens}")
        sums = sums / constant_tokens
    elif mode not in AGGREGATIONS:
        raise ValueError(f"aggregation {mode!r} is unknown; use one of {', '.join(AGGREGATIONS)}")
    return jnp.sum(sums), count(mask, mode=mode)


def policy_loss(logprobs, tokens: Tokens, constants: Objective, *, global_count, entropies=None):
    """Return (loss, metric sums) of one micro-batch; both add up over micro-batches (see `merge_metrics`).

    `global_count` is `count` of the whole batch, 1 or more. `entropies` [B, R], if known, only feeds the
    metrics.
    """
    mask = tokens.mask
    per_token, clipped = clipped_surrogate(
        logprobs,
        tokens.sampled_logprobs,
        tokens.advantages,
        mask,
        clip_low=constants.clip_low,
        clip_high=constants.clip_high,
        dual_clip=constants.dual_clip,
        ratio=constants.ratio,
    )
    sums = metrics(logprobs, tokens.sampled_logprobs, mask, clipped=clipped, entropies=entropies)
    if constants.kl_coef:
        kl = kl_penalty(logprobs, tokens.ref_logprobs, mask, estimator=constants.kl_estimator)
        sums["kl_reference"] = jax.lax.stop_gradient(jnp.sum(kl))
        per_token = per_token + constants.kl_coef * kl
    if constants.filters:
        kept = kept_sequences(logprobs, tokens.sampled_logprobs, mask, **constants.filters)
        sums[FILTERED] = jnp.sum(~kept & jnp.any(mask, axis=-1)).astype(jnp.float32)
        per_token = jnp.where(kept[:, None], per_token, 0.0)
    total, _ = aggregate(per_token, mask, mode=constants.aggregation, constant_tokens=constants.constant_tokens)
    return total / global_count, sums


def metrics(logprobs, sampled_logprobs, mask, *, clipped, entropies=None):
    """Return sums over response tokens, and maxima under names that end in `_max`; no gradient passes.

    `kl_sampled` is the k1 estimate of KL(sampler || trainer), log pi_old - log pi: on the first update it is
    the gap between two computations of the same number.
    """
    logprobs = jax.lax.stop_gradient(logprobs)
    gap = jnp.where(mask, sampled_logprobs, 0.0) - jnp.where(mask, logprobs, 0.0)
    sums = {
        "tokens": jnp.sum(mask).astype(jnp.float32),
        "sequences": jnp.sum(jnp.any(mask, axis=-1)).astype(jnp.float32),
        "clip_fraction": jnp.sum(clipped).astype(jnp.float32),
        "kl_sampled": jnp.sum(gap),
        "kl_sampled_abs_max": jnp.max(jnp.abs(gap)),
    }
    if entropies is not None:
        sums["entropy"] = jnp.sum(jnp.where(mask, jax.lax.stop_gradient(entropies), 0.0))
    return sums


def merge_metrics(first: dict, second: dict) -> dict:
    """Join the metric sums of two micro-batches: maxima by max, all else by addition."""
    return {
        name: jnp.maximum(value, second[name]) if name.endswith("_max") else value + second[name]
        for name, value in first.items()
    }


def mean_metrics(sums: dict) -> dict:
    """Turn merged sums into means: per response token, or per sequence (FILTERED); counts and maxima stay."""

    def mean(name: str, value):
        if name in ("tokens", "sequences") or name.endswith("_max"):
            return value
        return value / jnp.maximum(sums["sequences" if name == FILTERED else "tokens"], 1.0)

    return {name: mean(name, value) for name, value in sums.items()}


def _row_tokens(mask):
    """Tokens of each row, at least 1. [B, R] -> [B]."""
    return jnp.maximum(jnp.sum(mask, axis=-1), 1)
