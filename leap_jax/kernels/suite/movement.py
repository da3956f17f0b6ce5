"""Elements moved to other places, unchanged."""

from __future__ import annotations

import numpy as np

from leap_jax.kernels.regimes import input_generator
from leap_jax.kernels.suite.common import (
    INTEGER,
    MATRIX_LAUNCH,
    MATRIX_SHAPES,
    response,
    scalar,
    tensor_in,
    tensor_out,
)
from leap_jax.kernels.task import Scalars, Task

_SIZES = (scalar("rows"), scalar("cols"))
_TRANSPOSE_PARAMS = (tensor_in("x", "rows", "cols"), tensor_out("y", "cols", "rows"), *_SIZES)
_REVERSE_PARAMS = (tensor_in("x", "rows", "cols"), tensor_out("y", "rows", "cols"), *_SIZES)
_GATHER_PARAMS = (
    tensor_in("table", "entries", "cols"),
    tensor_in("index", "rows", dtype="i32"),
    tensor_out("y", "rows", "cols"),
    scalar("entries"),
    scalar("rows"),
    scalar("cols"),
)


def transpose(xp, *, x, rows, cols):
    return xp.transpose(x)


def reverse_rows(xp, *, x, rows, cols):
    return x[:, ::-1]


def gather_rows(xp, *, table, index, entries, rows, cols):
    return table[index]


def _gather_inputs(regime: str, scalars: Scalars, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A table out of the regime; indices uniform, all 0 (zero), or the first and last entry (special)."""
    values = input_generator(_GATHER_PARAMS[:1])(regime, scalars, rng)
    entries, rows = scalars["entries"], scalars["rows"]
    match regime:
        case "zero":
            index = np.zeros(rows)
        case "special":
            index = np.where(rng.random(rows) < 0.5, 0, entries - 1)
        case _:
            index = rng.integers(0, entries, rows)
    return {**values, "index": index.astype(np.int32)}


TASKS = (
    Task(
        name="transpose",
        family="movement",
        level=1,
        text="Transpose: y[c, r] = x[r, c].\nx is row-major, rows x cols; y is row-major, cols x rows.",
        params=_TRANSPOSE_PARAMS,
        reference=transpose,
        inputs=input_generator(_TRANSPOSE_PARAMS),
        baseline=response(
            """
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  int r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r < rows && c < cols) y[c * rows + r] = x[r * cols + c];
}
""",
            MATRIX_LAUNCH,
        ),
        min_bytes="8 * rows * cols",
        min_ops="0",
        **MATRIX_SHAPES,
        **INTEGER,
    ),
    Task(
        name="reverse_rows",
        family="movement",
        level=1,
        text="Reverse each row: y[r, c] = x[r, cols - 1 - c].\nx and y are row-major, rows x cols.",
        params=_REVERSE_PARAMS,
        reference=reverse_rows,
        inputs=input_generator(_REVERSE_PARAMS),
        baseline=response(
            """
extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  int r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r < rows && c < cols) y[r * cols + c] = x[r * cols + cols - 1 - c];
}
""",
            MATRIX_LAUNCH,
        ),
        min_bytes="8 * rows * cols",
        min_ops="0",
        **MATRIX_SHAPES,
        **INTEGER,
    ),
    Task(
        name="gather_rows",
        family="movement",
        level=2,
        text="Gather rows: y[r, c] = table[index[r], c]; every index[r] is in 0..entries-1.\n"
        "table is row-major, entries x cols; y is row-major, rows x cols; index has rows elements.",
        params=_GATHER_PARAMS,
        reference=gather_rows,
        inputs=_gather_inputs,
        baseline=response(
            """
extern "C" __global__ void kernel(const float* table, const int* index, float* y,
                                  int entries, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  int r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r < rows && c < cols) y[r * cols + c] = table[index[r] * cols + c];
}
""",
            MATRIX_LAUNCH,
        ),
        min_bytes="8 * rows * cols + 4 * rows",
        min_ops="0",
        public_shapes=({"entries": 10, "rows": 31, "cols": 33}, {"entries": 40, "rows": 7, "cols": 65}),
        hidden_shapes=({"entries": 1, "rows": 1, "cols": 257}, {"entries": 29, "rows": 64, "cols": 17}),
        timing_shape={"entries": 32000, "rows": 16384, "cols": 1024},
        **INTEGER,
    ),
)
