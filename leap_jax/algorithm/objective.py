"""The policy loss: a clipped surrogate over response tokens, as a (sum, count) pair.

Arrays are [B, R]: B trajectories, R token slots that hold the responses of all turns of an episode. `mask` is
True at response tokens. Everything else (prompt, feedback, padding) may hold anything, NaN included: values
are selected by the mask before any arithmetic, so neither the loss nor its gradient sees them.

A mean over a batch that is processed in micro-batches is taken once, over the whole batch: each micro-batch
contributes its sum, divided by the count of the whole (`count`, from the masks alone, before any gradient).
The gradients then add up to the same value for every way of cutting the batch.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

AGGREGATIONS = ("token", "sequence", "constant")
RATIOS = ("token", "sequence")
MAX_LOG_RATIO = 20.0  # exp of a larger one overflows to inf, and inf * 0 is NaN


class Tokens(NamedTuple):
    """What the loss needs to know of the sampled tokens."""

    sampled_logprobs: jax.Array  # [B, R] log-probabilities under the policy that sampled
    advantages: jax.Array  # [B, R] constant over the tokens of a turn
    mask: jax.Array  # [B, R] bool: response tokens
    ref_logprobs: jax.Array | None = None  # [B, R] under the KL anchor; needed when kl_coef is not 0


def log_ratio(logprobs, sampled_logprobs, mask, *, ratio: str):
    """Log of the importance ratio of each token, 0 outside the mask; values within +-MAX_LOG_RATIO.

    `token`: log pi_t - log pi_old_t (PPO, GRPO). `sequence`: the mean of that over the trajectory's tokens,
    one value for all of them (GSPO, its token form): token t's gradient is the sequence's ratio times that of
    log pi_t, so that turns of a trajectory may carry different advantages.
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


def clipped_surrogate(logprobs, sampled_logprobs, advantages, mask, *, clip_low, clip_high, ratio="token"):
    """Return (loss [B, R], clipped [B, R] bool), both 0 outside the mask.

    loss = -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A). `clipped`: the clip took the gradient.
    """
    advantages = jnp.where(mask, advantages, 0.0)
    r = jnp.exp(log_ratio(logprobs, sampled_logprobs, mask, ratio=ratio))
    loss = -jnp.minimum(r * advantages, jnp.clip(r, 1.0 - clip_low, 1.0 + clip_high) * advantages)
    too_high, too_low = (advantages > 0) & (r > 1.0 + clip_high), (advantages < 0) & (r < 1.0 - clip_low)
    return jnp.where(mask, loss, 0.0), mask & (too_high | too_low)


def kl_k3(logprobs, ref_logprobs, mask):
    """Estimate KL(policy || reference) at each token: exp(d) - 1 - d >= 0 with d = ref - logprobs. [B, R]."""
    d = jnp.where(mask, ref_logprobs, 0.0) - jnp.where(mask, logprobs, 0.0)
    return jnp.expm1(jnp.minimum(d, MAX_LOG_RATIO)) - d


def count(mask, *, mode: str):
    """Return what to divide by: the number of tokens (`token`), else of trajectories that have a token."""
    return jnp.sum(mask) if mode == "token" else jnp.sum(jnp.any(mask, axis=-1))


def aggregate(per_token, mask, *, mode: str, constant_tokens: int | None = None):
    """Reduce [B, R] values to (sum, count), whose quotient over the whole batch is the mean.

    `token`: every token weighs the same. `sequence`: every trajectory does, by the mean over its tokens,
    whatever its number of turns. `constant`: the sum over a trajectory's tokens divided by `constant_tokens`
    (Dr.GRPO: no length bias). A row without tokens counts nowhere.
    """
    sums = jnp.sum(jnp.where(mask, per_token, 0.0), axis=-1)
    if mode == "sequence":
        sums = sums / _row_tokens(mask)
    elif mode == "constant":
        if not constant_tokens or constant_tokens < 0:
            raise ValueError(f"aggregation 'constant' needs constant_tokens > 0, got {constant_tokens}")
        sums = sums / constant_tokens
    elif mode != "token":
        raise ValueError(f"aggregation {mode!r} is unknown; use one of {', '.join(AGGREGATIONS)}")
    return jnp.sum(sums), count(mask, mode=mode)


def policy_loss(
    logprobs,
    tokens: Tokens,
    *,
    global_count,
    clip_low: float,
    clip_high: float,
    ratio: str,
    aggregation: str,
    constant_tokens: int | None = None,
    kl_coef: float = 0.0,
    entropies=None,
):
    """Return (loss, metric sums) of one micro-batch; both add up over micro-batches (see `merge_metrics`).

    `global_count` is `count` of the whole batch, 1 or more. `entropies` [B, R], if known, only feeds the
    metrics.
    """
    per_token, clipped = clipped_surrogate(
        logprobs,
        tokens.sampled_logprobs,
        tokens.advantages,
        tokens.mask,
        clip_low=clip_low,
        clip_high=clip_high,
        ratio=ratio,
    )
    sums = metrics(logprobs, tokens.sampled_logprobs, tokens.mask, clipped=clipped, entropies=entropies)
    if kl_coef:
        kl = kl_k3(logprobs, tokens.ref_logprobs, tokens.mask)
        sums["kl_reference"] = jax.lax.stop_gradient(jnp.sum(kl))
        per_token = per_token + kl_coef * kl
    total, _ = aggregate(per_token, tokens.mask, mode=aggregation, constant_tokens=constant_tokens)
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
    """Turn merged sums into means per response token; `tokens` and maxima stay as they are."""
    tokens = jnp.maximum(sums["tokens"], 1.0)
    return {
        name: value if name == "tokens" or name.endswith("_max") else value / tokens for name, value in sums.items()
    }


def _row_tokens(mask):
    """Tokens of each row, at least 1. [B, R] -> [B]."""
    return jnp.maximum(jnp.sum(mask, axis=-1), 1)
