"""Small tasks written by hand, so that the verifier's tests do not depend on the suite."""

from __future__ import annotations

import numpy as np

from leap_jax.kernels.regimes import input_generator
from leap_jax.kernels.task import Param, Task

KERNEL = """extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
"""


def respond(lines: str, code: str = KERNEL) -> str:
    """A response: launch lines and code in a fence."""
    return f"```cuda\n{lines}\n{code}\n```\n"


_ADD_PARAMS = (
    Param("x", "f32", "in", ("n",)),
    Param("y", "f32", "in", ("n",)),
    Param("z", "f32", "out", ("n",)),
    Param("n", "i32", "scalar"),
)
ADD = Task(
    name="hand_add",
    family="elementwise",
    level=1,
    text="Add two vectors: z[i] = x[i] + y[i].",
    params=_ADD_PARAMS,
    reference=lambda xp, x, y, n: x + y,
    inputs=input_generator(_ADD_PARAMS),
    public_shapes=({"n": 257}, {"n": 1}),
    hidden_shapes=({"n": 1000}, {"n": 64}),
    timing_shape={"n": 2**20},
    baseline=respond("// launch: grid=(ceil_div(n, 256)) block=(256)"),
    min_bytes="12 * n",
    min_ops="n",
)

_SUM_PARAMS = (
    Param("x", "f32", "in", ("rows", "cols")),
    Param("y", "f32", "out", ("rows",)),
    Param("rows", "i32", "scalar"),
    Param("cols", "i32", "scalar"),
)
ROW_SUM_KERNEL = """extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  __shared__ float part[128];
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += x[blockIdx.x * cols + c];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
"""
ROW_SUM = Task(
    name="hand_row_sum",
    family="reduction",
    level=1,
    text="Sum each row: y[r] = sum of x[r, c] over c.",
    params=_SUM_PARAMS,
    reference=lambda xp, x, rows, cols: xp.sum(x, axis=1),
    inputs=input_generator(_SUM_PARAMS, largest=100.0),
    public_shapes=({"rows": 3, "cols": 257}, {"rows": 4, "cols": 32}),
    hidden_shapes=({"rows": 2, "cols": 1000}, {"rows": 5, "cols": 1}),
    timing_shape={"rows": 4096, "cols": 4096},
    baseline=respond("// launch: grid=(rows) block=(128)", ROW_SUM_KERNEL),
    min_bytes="4 * rows * cols",
    min_ops="rows * cols",
    atol=1e-3,
)

_SPLIT_PARAMS = (
    Param("x", "i32", "in", ("n",)),
    Param("doubled", "i32", "out", ("n",)),
    Param("half", "f64", "out", ("n",)),
    Param("alpha", "f32", "scalar"),
    Param("n", "i32", "scalar"),
)
SPLIT = Task(
    name="hand_split",
    family="elementwise",
    level=1,
    text="doubled[i] = 2 x[i] (modulo 2^32), half[i] = alpha x[i].",
    params=_SPLIT_PARAMS,
    reference=lambda xp, x, alpha, n: (np.left_shift(x, 1), alpha * x.astype(np.float64)),
    inputs=input_generator(_SPLIT_PARAMS),
    public_shapes=({"n": 33, "alpha": 0.5},),
    hidden_shapes=(),
    timing_shape={"n": 2**20, "alpha": 0.5},
    baseline=respond(
        "// launch: grid=(1) block=(64)",
        'extern "C" __global__ void kernel(const int* x, int* d, double* h, float alpha, int n) {'
        " int i = threadIdx.x; if (i < n) { d[i] = 2u * x[i]; h[i] = (double)alpha * x[i]; } }",
    ),
    min_bytes="16 * n",
    min_ops="2 * n",
)
