"""Each row or column of a matrix reduced to one number."""

from __future__ import annotations

import numpy as np

from leap_jax.kernels.regimes import input_generator
from leap_jax.kernels.suite.common import (
    BLOCK_MAX,
    BLOCK_SUM,
    EXACT,
    INPUT_RMS,
    INTEGER,
    MATRIX_SHAPES,
    ROW_LAUNCH,
    SMOOTH,
    SUM_LARGEST,
    response,
    scalar,
    sum_tolerance,
    tensor_in,
    tensor_out,
)
from leap_jax.kernels.task import Scalars, Task

_SIZES = (scalar("rows"), scalar("cols"))
_X = tensor_in("x", "rows", "cols")
_ROW_PARAMS = (_X, tensor_out("y", "rows"), *_SIZES)
_COLUMN_PARAMS = (_X, tensor_out("y", "cols"), *_SIZES)
_ARGMAX_PARAMS = (_X, tensor_out("y", "rows", dtype="i32"), *_SIZES)


def row_sum(xp, *, x, rows, cols):
    return xp.sum(x, axis=1)


def row_mean(xp, *, x, rows, cols):
    return xp.mean(x, axis=1)


def row_max(xp, *, x, rows, cols):
    return xp.max(x, axis=1)


def row_argmax(xp, *, x, rows, cols):
    return xp.argmax(x, axis=1)


def row_l2_norm(xp, *, x, rows, cols):
    return xp.sqrt(xp.sum(x * x, axis=1))


def row_logsumexp(xp, *, x, rows, cols):
    largest = xp.max(x, axis=1)
    return largest + xp.log(xp.sum(xp.exp(x - largest[:, None]), axis=1))


def column_sum(xp, *, x, rows, cols):
    return xp.sum(x, axis=0)


def _tied_inputs(regime: str, scalars: Scalars, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Special values rounded to integers, so that a row's maximum often occurs more than once."""
    values = input_generator(_ARGMAX_PARAMS, largest=3.0)(regime, scalars, rng)["x"]
    return {"x": np.round(values) if regime == "special" else values}


def _row_kernel(start: str, combine: str, reduce: str, result: str) -> str:
    """A kernel with one block per row: each thread folds every blockDim.x-th element into `value`."""
    return response(
        f"""
{reduce.strip()}

extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {{
  const float* row = x + blockIdx.x * cols;
  float value = {start};
  for (int c = threadIdx.x; c < cols; c += blockDim.x) value = {combine};
  {result}
}}
""",
        ROW_LAUNCH,
    )


_SUM_BASELINE = _row_kernel(
    "0.0f",
    "value + row[c]",
    BLOCK_SUM,
    "value = block_sum(value);\n  if (threadIdx.x == 0) y[blockIdx.x] = value;",
)
_MEAN_BASELINE = _row_kernel(
    "0.0f",
    "value + row[c]",
    BLOCK_SUM,
    "value = block_sum(value);\n  if (threadIdx.x == 0) y[blockIdx.x] = value / cols;",
)
_MAX_BASELINE = _row_kernel(
    "-INFINITY",
    "fmaxf(value, row[c])",
    BLOCK_MAX,
    "value = block_max(value);\n  if (threadIdx.x == 0) y[blockIdx.x] = value;",
)
_L2_BASELINE = _row_kernel(
    "0.0f",
    "value + row[c] * row[c]",
    BLOCK_SUM,
    "value = block_sum(value);\n  if (threadIdx.x == 0) y[blockIdx.x] = sqrtf(value);",
)
_LOGSUMEXP_BASELINE = _row_kernel(
    "-INFINITY",
    "fmaxf(value, row[c])",
    BLOCK_MAX + BLOCK_SUM,
    """float largest = block_max(value);
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += expf(row[c] - largest);
  sum = block_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = largest + logf(sum);""",
)
_ARGMAX_BASELINE = response(
    """
extern "C" __global__ void kernel(const float* x, int* y, int rows, int cols) {
  __shared__ float values[128];
  __shared__ int indices[128];
  const float* row = x + blockIdx.x * cols;
  int t = threadIdx.x;
  float best = -INFINITY;
  int index = cols;
  for (int c = t; c < cols; c += blockDim.x) {
    if (row[c] > best) {
      best = row[c];
      index = c;
    }
  }
  values[t] = best;
  indices[t] = index;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (t < stride) {
      float other = values[t + stride];
      if (other > values[t] || (other == values[t] && indices[t + stride] < indices[t])) {
        values[t] = other;
        indices[t] = indices[t + stride];
      }
    }
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = indices[0];
}
""",
    ROW_LAUNCH,
)
_COLUMN_SUM_BASELINE = response(
    """
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c < cols) {
    float sum = 0.0f;
    for (int r = 0; r < rows; r++) sum += x[r * cols + c];
    y[c] = sum;
  }
}
""",
    "launch: grid=(ceil_div(cols, 128)) block=(128)",
)
_LAYOUT = "x is row-major, rows x cols"

TASKS = (
    Task(
        name="row_sum",
        family="reductions",
        level=2,
        text=f"Sum of each row: y[r] = sum over c of x[r, c].\n{_LAYOUT}; y has rows elements.",
        params=_ROW_PARAMS,
        reference=row_sum,
        inputs=input_generator(_ROW_PARAMS, largest=SUM_LARGEST),
        baseline=_SUM_BASELINE,
        min_bytes="4 * rows * cols + 4 * rows",
        min_ops="rows * cols",
        **MATRIX_SHAPES,
        **sum_tolerance(1000, INPUT_RMS),
    ),
    Task(
        name="row_mean",
        family="reductions",
        level=2,
        text=f"Mean of each row: y[r] = (sum over c of x[r, c]) / cols.\n{_LAYOUT}; y has rows elements.",
        params=_ROW_PARAMS,
        reference=row_mean,
        inputs=input_generator(_ROW_PARAMS, largest=SUM_LARGEST),
        baseline=_MEAN_BASELINE,
        min_bytes="4 * rows * cols + 4 * rows",
        min_ops="rows * cols",
        **MATRIX_SHAPES,
        **sum_tolerance(1, INPUT_RMS),
    ),
    Task(
        name="row_max",
        family="reductions",
        level=2,
        text=f"Maximum of each row: y[r] = max over c of x[r, c].\n{_LAYOUT}; y has rows elements.",
        params=_ROW_PARAMS,
        reference=row_max,
        inputs=input_generator(_ROW_PARAMS),
        baseline=_MAX_BASELINE,
        min_bytes="4 * rows * cols + 4 * rows",
        min_ops="rows * cols",
        **MATRIX_SHAPES,
        **EXACT,
    ),
    Task(
        name="row_argmax",
        family="reductions",
        level=2,
        text="Index of each row's maximum: y[r] = the c with the largest x[r, c]; of equals, the least c.\n"
        f"{_LAYOUT}; y has rows elements.",
        params=_ARGMAX_PARAMS,
        reference=row_argmax,
        inputs=_tied_inputs,
        baseline=_ARGMAX_BASELINE,
        min_bytes="4 * rows * cols + 4 * rows",
        min_ops="rows * cols",
        **MATRIX_SHAPES,
        **INTEGER,
    ),
    Task(
        name="row_l2_norm",
        family="reductions",
        level=2,
        text=f"Euclidean norm of each row: y[r] = sqrt(sum over c of x[r, c]^2).\n{_LAYOUT}; y has rows elements.",
        params=_ROW_PARAMS,
        reference=row_l2_norm,
        inputs=input_generator(_ROW_PARAMS),
        baseline=_L2_BASELINE,
        min_bytes="4 * rows * cols + 4 * rows",
        min_ops="2 * rows * cols + rows",
        **MATRIX_SHAPES,
        rtol=1e-5,
        atol=1e-6,
    ),
    Task(
        name="row_logsumexp",
        family="reductions",
        level=3,
        text="Log-sum-exp of each row: y[r] = log(sum over c of exp(x[r, c])), without overflow.\n"
        f"{_LAYOUT}; y has rows elements.",
        params=_ROW_PARAMS,
        reference=row_logsumexp,
        inputs=input_generator(_ROW_PARAMS),
        baseline=_LOGSUMEXP_BASELINE,
        min_bytes="4 * rows * cols + 4 * rows",
        min_ops="4 * rows * cols + 2 * rows",
        **MATRIX_SHAPES,
        **SMOOTH,
    ),
    Task(
        name="column_sum",
        family="reductions",
        level=2,
        text=f"Sum of each column: y[c] = sum over r of x[r, c].\n{_LAYOUT}; y has cols elements.",
        params=_COLUMN_PARAMS,
        reference=column_sum,
        inputs=input_generator(_COLUMN_PARAMS, largest=SUM_LARGEST),
        baseline=_COLUMN_SUM_BASELINE,
        min_bytes="4 * rows * cols + 4 * cols",
        min_ops="rows * cols",
        public_shapes=({"rows": 31, "cols": 33}, {"rows": 257, "cols": 7}),
        hidden_shapes=({"rows": 1, "cols": 131}, {"rows": 293, "cols": 13}),
        timing_shape={"rows": 4096, "cols": 8192},
        **sum_tolerance(293, INPUT_RMS),
    ),
)
