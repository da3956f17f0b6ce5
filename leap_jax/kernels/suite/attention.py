"""Softmax-weighted sums of values."""

from __future__ import annotations

import numpy as np

from leap_jax.kernels.regimes import input_generator
from leap_jax.kernels.suite.common import (
    BLOCK_MAX,
    BLOCK_SUM,
    SUM_LARGEST,
    response,
    scalar,
    tensor_in,
    tensor_out,
)
from leap_jax.kernels.task import Scalars, Task

_PARAMS = (
    tensor_in("q", "length", "dim"),
    tensor_in("k", "length", "dim"),
    tensor_in("v", "length", "dim"),
    tensor_out("y", "length", "dim"),
    scalar("length"),
    scalar("dim"),
)


def causal_attention(xp, *, q, k, v, length, dim):
    scores = xp.matmul(q, xp.transpose(k)) / dim**0.5
    position = xp.arange(length)
    scores = xp.where(position[None, :] <= position[:, None], scores, -xp.inf)
    weights = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return xp.matmul(weights / xp.sum(weights, axis=1, keepdims=True), v)


def _inputs(regime: str, scalars: Scalars, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Values out of the regime; queries an eighth of it, to keep errors of scores well below 1."""
    values = input_generator(_PARAMS, largest=SUM_LARGEST)(regime, scalars, rng)
    return {**values, "q": values["q"] / 8}


TASKS = (
    Task(
        name="causal_attention",
        family="attention",
        level=3,
        text="Causal attention: p = softmax over j <= i of (sum over d of q[i, d] * k[j, d]) / sqrt(dim),\n"
        "y[i, d] = sum over j <= i of p[j] * v[j, d]. q, k, v and y are row-major, length x dim.",
        params=_PARAMS,
        reference=causal_attention,
        inputs=_inputs,
        baseline=response(
            BLOCK_MAX
            + BLOCK_SUM
            + """
extern "C" __global__ void kernel(const float* q, const float* k, const float* v, float* y,
                                  int length, int dim) {
  extern __shared__ float weights[];
  int i = blockIdx.x;
  float largest = -INFINITY;
  for (int j = threadIdx.x; j <= i; j += blockDim.x) {
    float score = 0.0f;
    for (int d = 0; d < dim; d++) score += q[i * dim + d] * k[j * dim + d];
    weights[j] = score / sqrtf(dim);
    largest = fmaxf(largest, weights[j]);
  }
  largest = block_max(largest);
  float sum = 0.0f;
  for (int j = threadIdx.x; j <= i; j += blockDim.x) {
    weights[j] = expf(weights[j] - largest);
    sum += weights[j];
  }
  sum = block_sum(sum);
  for (int d = threadIdx.x; d < dim; d += blockDim.x) {
    float total = 0.0f;
    for (int j = 0; j <= i; j++) total += weights[j] * v[j * dim + d];
    y[i * dim + d] = total / sum;
  }
}
""",
            "launch: grid=(length) block=(64) shared=4 * length",
        ),
        min_bytes="16 * length * dim",
        min_ops="2 * length * (length + 1) * dim",
        public_shapes=({"length": 31, "dim": 16}, {"length": 48, "dim": 32}),
        hidden_shapes=({"length": 1, "dim": 8}, {"length": 67, "dim": 24}),
        timing_shape={"length": 8192, "dim": 128},
        rtol=2e-4,
        atol=2e-4,
    ),
)
