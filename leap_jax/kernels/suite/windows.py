"""Outputs that look at a window of neighbouring inputs."""

from __future__ import annotations

from leap_jax.kernels.regimes import input_generator
from leap_jax.kernels.suite.common import (
    INPUT_RMS,
    INTEGER,
    SUM_LARGEST,
    response,
    scalar,
    sum_tolerance,
    tensor_in,
    tensor_out,
)
from leap_jax.kernels.task import Task

_CONVOLUTION_PARAMS = (
    tensor_in("x", "n"),
    tensor_in("weight", "taps"),
    tensor_out("y", "n - taps + 1"),
    scalar("n"),
    scalar("taps"),
)
_POOL_PARAMS = (
    tensor_in("x", "rows", "cols"),
    tensor_out("y", "rows // 2", "cols // 2"),
    scalar("rows"),
    scalar("cols"),
)


def conv1d(xp, *, x, weight, n, taps):
    return sum(x[t : n - taps + 1 + t] * weight[t] for t in range(taps))


def max_pool_2d(xp, *, x, rows, cols):
    x = x[: rows // 2 * 2, : cols // 2 * 2]
    return xp.max(xp.reshape(x, (rows // 2, 2, cols // 2, 2)), axis=(1, 3))


TASKS = (
    Task(
        name="conv1d",
        family="windows",
        level=2,
        text="Sliding dot product: y[i] = sum over t of x[i + t] * weight[t], 0 <= t < taps,\n"
        "for 0 <= i < n - taps + 1. x has n elements.",
        params=_CONVOLUTION_PARAMS,
        reference=conv1d,
        inputs=input_generator(_CONVOLUTION_PARAMS, largest=SUM_LARGEST),
        baseline=response(
            """
extern "C" __global__ void kernel(const float* x, const float* weight, float* y, int n, int taps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n - taps + 1) {
    float sum = 0.0f;
    for (int t = 0; t < taps; t++) sum += x[i + t] * weight[t];
    y[i] = sum;
  }
}
""",
            "launch: grid=(ceil_div(n - taps + 1, 256)) block=(256)",
        ),
        min_bytes="8 * n + 4",
        min_ops="2 * taps * (n - taps + 1)",
        public_shapes=({"n": 257, "taps": 3}, {"n": 1000, "taps": 8}),
        hidden_shapes=({"n": 31, "taps": 31}, {"n": 2003, "taps": 13}),
        timing_shape={"n": 1 << 24, "taps": 9},
        **sum_tolerance(31, INPUT_RMS**2),
    ),
    Task(
        name="max_pool_2d",
        family="windows",
        level=2,
        text="2 x 2 max pooling: y[r, c] = the largest x[i, j] with i = 2r, 2r + 1 and j = 2c, 2c + 1.\n"
        "x is row-major, rows x cols; y is row-major, (rows / 2) x (cols / 2), rounded down.",
        params=_POOL_PARAMS,
        reference=max_pool_2d,
        inputs=input_generator(_POOL_PARAMS),
        baseline=response(
            """
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  int r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r < rows / 2 && c < cols / 2) {
    const float* top = x + 2 * r * cols + 2 * c;
    const float* bottom = top + cols;
    y[r * (cols / 2) + c] = fmaxf(fmaxf(top[0], top[1]), fmaxf(bottom[0], bottom[1]));
  }
}
""",
            "launch: grid=(ceil_div(cols, 64), ceil_div(rows, 16)) block=(32, 8)",
        ),
        min_bytes="4 * rows * cols + 4 * (rows // 2) * (cols // 2)",
        min_ops="3 * (rows // 2) * (cols // 2)",
        public_shapes=({"rows": 6, "cols": 257}, {"rows": 33, "cols": 32}),
        hidden_shapes=({"rows": 2, "cols": 1001}, {"rows": 41, "cols": 67}),
        timing_shape={"rows": 8192, "cols": 8192},
        **INTEGER,
    ),
)
