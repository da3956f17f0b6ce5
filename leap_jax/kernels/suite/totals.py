"""Whole vectors reduced to a few numbers, over several launches or with atomics."""

from __future__ import annotations

import numpy as np

from leap_jax.kernels.regimes import input_generator
from leap_jax.kernels.suite.common import (
    BLOCK_SUM,
    INPUT_RMS,
    INTEGER,
    SUM_LARGEST,
    VECTOR_SHAPES,
    response,
    scalar,
    sum_tolerance,
    tensor_in,
    tensor_out,
)
from leap_jax.kernels.task import Scalars, Task

_DOT_PARAMS = (tensor_in("u", "n"), tensor_in("v", "n"), tensor_out("y", "1"), scalar("n"))
_HISTOGRAM_PARAMS = (
    tensor_in("x", "n", dtype="i32"),
    tensor_out("counts", "bins", dtype="i32"),
    scalar("n"),
    scalar("bins"),
)


def dot_product(xp, *, u, v, n):
    return xp.sum(u * v, keepdims=True)


def mean_squared_error(xp, *, u, v, n):
    return xp.mean((u - v) * (u - v), keepdims=True)


def histogram(xp, *, x, n, bins):
    ordered, keys = xp.sort(x), xp.arange(bins)
    return xp.searchsorted(ordered, keys, side="right") - xp.searchsorted(ordered, keys, side="left")


def _bin_inputs(regime: str, scalars: Scalars, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Bin numbers: uniform, crowded into the low bins (wide), all zero, or the outermost two (special)."""
    n, bins = scalars["n"], scalars["bins"]
    uniform = rng.random(n)
    match regime:
        case "signed":
            x = bins * uniform
        case "wide":
            x = bins * uniform**4
        case "zero":
            x = np.zeros(n)
        case _:
            x = np.where(uniform < 0.5, 0, bins - 1)
    return {"x": x.astype(np.int32)}


_DOT_BASELINE = response(
    BLOCK_SUM
    + """
extern "C" __global__ void dot_partial(const float* u, const float* v, float* partial, int n) {
  float sum = 0.0f;
  int end = min(n, (int)(blockIdx.x + 1) * 1024);
  for (int i = blockIdx.x * 1024 + threadIdx.x; i < end; i += blockDim.x) sum += u[i] * v[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

extern "C" __global__ void dot_final(const float* partial, float* y, int count) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) y[0] = sum;
}
""",
    "scratch: partial float ceil_div(n, 1024)",
    "launch: dot_partial grid=(ceil_div(n, 1024)) block=(256) args=(u, v, partial, n)",
    "launch: dot_final grid=(1) block=(256) args=(partial, y, ceil_div(n, 1024))",
)
_MSE_BASELINE = response(
    BLOCK_SUM
    + """
extern "C" __global__ void clear(float* y) { y[0] = 0.0f; }

extern "C" __global__ void accumulate(const float* u, const float* v, float* y, int n) {
  float sum = 0.0f;
  int end = min(n, (int)(blockIdx.x + 1) * 1024);
  for (int i = blockIdx.x * 1024 + threadIdx.x; i < end; i += blockDim.x) {
    float difference = u[i] - v[i];
    sum += difference * difference;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) atomicAdd(y, sum / n);
}
""",
    "launch: clear grid=(1) block=(1) args=(y)",
    "launch: accumulate grid=(ceil_div(n, 1024)) block=(256) args=(u, v, y, n)",
)
_HISTOGRAM_BASELINE = response(
    """
extern "C" __global__ void clear(int* counts, int bins) {
  int bin = blockIdx.x * blockDim.x + threadIdx.x;
  if (bin < bins) counts[bin] = 0;
}

extern "C" __global__ void count(const int* x, int* counts, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&counts[x[i]], 1);
}
""",
    "launch: clear grid=(ceil_div(bins, 256)) block=(256) args=(counts, bins)",
    "launch: count grid=(ceil_div(n, 256)) block=(256) args=(x, counts, n)",
)

TASKS = (
    Task(
        name="dot_product",
        family="totals",
        level=3,
        text="Dot product: y[0] = sum over i of u[i] * v[i], 0 <= i < n.",
        params=_DOT_PARAMS,
        reference=dot_product,
        inputs=input_generator(_DOT_PARAMS, largest=SUM_LARGEST),
        baseline=_DOT_BASELINE,
        min_bytes="8 * n + 4",
        min_ops="2 * n",
        **VECTOR_SHAPES,
        **sum_tolerance(3001, INPUT_RMS**2),
    ),
    Task(
        name="mean_squared_error",
        family="totals",
        level=3,
        text="Mean squared error: y[0] = (sum over i of (u[i] - v[i])^2) / n, 0 <= i < n.",
        params=_DOT_PARAMS,
        reference=mean_squared_error,
        inputs=input_generator(_DOT_PARAMS, largest=SUM_LARGEST),
        baseline=_MSE_BASELINE,
        min_bytes="8 * n + 4",
        min_ops="3 * n",
        **VECTOR_SHAPES,
        rtol=1e-5,
        atol=1e-6,
    ),
    Task(
        name="histogram",
        family="totals",
        level=3,
        text="Histogram: counts[b] = how many x[i] equal b, for 0 <= b < bins and 0 <= i < n.\n"
        "Every x[i] is in 0..bins-1.",
        params=_HISTOGRAM_PARAMS,
        reference=histogram,
        inputs=_bin_inputs,
        baseline=_HISTOGRAM_BASELINE,
        min_bytes="4 * n + 4 * bins",
        min_ops="n",
        public_shapes=({"n": 257, "bins": 10}, {"n": 1000, "bins": 64}),
        hidden_shapes=({"n": 1, "bins": 3}, {"n": 3001, "bins": 300}),
        timing_shape={"n": 1 << 25, "bins": 256},
        **INTEGER,
    ),
)
