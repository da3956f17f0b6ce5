"""Prefix operations."""

from __future__ import annotations

from leap_jax.kernels.regimes import input_generator
from leap_jax.kernels.suite.common import (
    INPUT_RMS,
    INTEGER,
    MATRIX_SHAPES,
    ROW_LAUNCH,
    SUM_LARGEST,
    VECTOR_SHAPES,
    response,
    scalar,
    sum_tolerance,
    tensor_in,
    tensor_out,
)
from leap_jax.kernels.task import Task

_ROW_PARAMS = (
    tensor_in("x", "rows", "cols"),
    tensor_out("y", "rows", "cols"),
    scalar("rows"),
    scalar("cols"),
)
_VECTOR_PARAMS = (tensor_in("x", "n", dtype="u32"), tensor_out("y", "n", dtype="u32"), scalar("n"))


def row_cumsum(xp, *, x, rows, cols):
    return xp.cumsum(x, axis=1)


def exclusive_scan(xp, *, x, n):
    return xp.cumsum(x, dtype=x.dtype) - x


_ROW_BASELINE = response(
    """
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  __shared__ float values[128];
  int t = threadIdx.x;
  float carry = 0.0f;
  for (int start = 0; start < cols; start += blockDim.x) {
    int c = start + t;
    values[t] = c < cols ? x[blockIdx.x * cols + c] : 0.0f;
    __syncthreads();
    for (int distance = 1; distance < blockDim.x; distance *= 2) {
      float left = t >= distance ? values[t - distance] : 0.0f;
      __syncthreads();
      values[t] += left;
      __syncthreads();
    }
    if (c < cols) y[blockIdx.x * cols + c] = carry + values[t];
    carry += values[blockDim.x - 1];
    __syncthreads();
  }
}
""",
    ROW_LAUNCH,
)
_EXCLUSIVE_BASELINE = response(
    """
extern "C" __global__ void scan_blocks(const unsigned int* x, unsigned int* y, unsigned int* totals, int n) {
  __shared__ unsigned int values[256];
  int t = threadIdx.x;
  int i = blockIdx.x * blockDim.x + t;
  unsigned int own = i < n ? x[i] : 0;
  values[t] = own;
  __syncthreads();
  for (int distance = 1; distance < blockDim.x; distance *= 2) {
    unsigned int left = t >= distance ? values[t - distance] : 0;
    __syncthreads();
    values[t] += left;
    __syncthreads();
  }
  if (i < n) y[i] = values[t] - own;
  if (t == blockDim.x - 1) totals[blockIdx.x] = values[t];
}

extern "C" __global__ void scan_totals(unsigned int* totals, int count) {
  __shared__ unsigned int values[256];
  int t = threadIdx.x;
  unsigned int carry = 0;
  for (int start = 0; start < count; start += blockDim.x) {
    int i = start + t;
    unsigned int own = i < count ? totals[i] : 0;
    values[t] = own;
    __syncthreads();
    for (int distance = 1; distance < blockDim.x; distance *= 2) {
      unsigned int left = t >= distance ? values[t - distance] : 0;
      __syncthreads();
      values[t] += left;
      __syncthreads();
    }
    if (i < count) totals[i] = carry + values[t] - own;
    carry += values[blockDim.x - 1];
    __syncthreads();
  }
}

extern "C" __global__ void add_totals(unsigned int* y, const unsigned int* totals, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += totals[blockIdx.x];
}
""",
    "scratch: totals uint32_t ceil_div(n, 256)",
    "launch: scan_blocks grid=(ceil_div(n, 256)) block=(256) args=(x, y, totals, n)",
    "launch: scan_totals grid=(1) block=(256) args=(totals, ceil_div(n, 256))",
    "launch: add_totals grid=(ceil_div(n, 256)) block=(256) args=(y, totals, n)",
)

TASKS = (
    Task(
        name="row_cumsum",
        family="scan",
        level=3,
        text="Inclusive prefix sum of each row: y[r, c] = sum of x[r, j] over 0 <= j <= c.\n"
        "x and y are row-major, rows x cols.",
        params=_ROW_PARAMS,
        reference=row_cumsum,
        inputs=input_generator(_ROW_PARAMS, largest=SUM_LARGEST),
        baseline=_ROW_BASELINE,
        min_bytes="8 * rows * cols",
        min_ops="rows * cols",
        **MATRIX_SHAPES,
        **sum_tolerance(1000, INPUT_RMS),
    ),
    Task(
        name="exclusive_scan",
        family="scan",
        level=3,
        text="Exclusive prefix sum: y[i] = sum of x[j] over 0 <= j < i, for 0 <= i < n; y[0] = 0.\n"
        "Sums wrap modulo 2^32.",
        params=_VECTOR_PARAMS,
        reference=exclusive_scan,
        inputs=input_generator(_VECTOR_PARAMS),
        baseline=_EXCLUSIVE_BASELINE,
        min_bytes="8 * n",
        min_ops="n",
        **VECTOR_SHAPES,
        **INTEGER,
    ),
)
