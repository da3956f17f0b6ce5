"""Matrix products."""

from __future__ import annotations

from leap_jax.kernels.regimes import input_generator
from leap_jax.kernels.suite.common import (
    BLOCK_SUM,
    INPUT_RMS,
    MATRIX_SHAPES,
    ROW_LAUNCH,
    SUM_LARGEST,
    response,
    scalar,
    sum_tolerance,
    tensor_in,
    tensor_out,
)
from leap_jax.kernels.task import Param, Task, c_parameter

_SIZES = (scalar("m"), scalar("n"), scalar("k"))
_A, _C = tensor_in("a", "m", "k"), tensor_out("c", "m", "n")
_MATMUL_PARAMS = (_A, tensor_in("b", "k", "n"), _C, *_SIZES)
_TRANSPOSED_PARAMS = (_A, tensor_in("b", "n", "k"), _C, *_SIZES)
_LINEAR_PARAMS = (_A, tensor_in("b", "k", "n"), tensor_in("bias", "n"), _C, *_SIZES)
_MATVEC_PARAMS = (
    tensor_in("a", "rows", "cols"),
    tensor_in("x", "cols"),
    tensor_out("y", "rows"),
    scalar("rows"),
    scalar("cols"),
)
_PRODUCT_SHAPES = {
    "public_shapes": ({"m": 33, "n": 17, "k": 65}, {"m": 16, "n": 32, "k": 48}),
    "hidden_shapes": ({"m": 1, "n": 31, "k": 97}, {"m": 37, "n": 41, "k": 29}),
    "timing_shape": {"m": 2048, "n": 2048, "k": 2048},
}


def matmul(xp, *, a, b, m, n, k):
    return xp.matmul(a, b)


def matmul_transposed(xp, *, a, b, m, n, k):
    return xp.matmul(a, xp.transpose(b))


def linear_relu(xp, *, a, b, bias, m, n, k):
    return xp.maximum(xp.matmul(a, b) + bias[None, :], 0)


def matvec(xp, *, a, x, rows, cols):
    return xp.matmul(a, x)


def _product_kernel(params: tuple[Param, ...], term: str, result: str = "sum") -> str:
    """A kernel with one thread per element of c, that adds up `term` over `p` and stores `result`."""
    return response(
        f"""
extern "C" __global__ void kernel({", ".join(map(c_parameter, params))}) {{
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < m && col < n) {{
    float sum = 0.0f;
    for (int p = 0; p < k; p++) sum += {term};
    c[row * n + col] = {result};
  }}
}}
""",
        "launch: grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16)",
    )


TASKS = (
    Task(
        name="matmul",
        family="matmul",
        level=3,
        text="Matrix product: c[i, j] = sum over p of a[i, p] * b[p, j].\n"
        "All row-major: a is m x k, b is k x n, c is m x n.",
        params=_MATMUL_PARAMS,
        reference=matmul,
        inputs=input_generator(_MATMUL_PARAMS, largest=SUM_LARGEST),
        baseline=_product_kernel(_MATMUL_PARAMS, "a[row * k + p] * b[p * n + col]"),
        min_bytes="4 * (m * k + k * n + m * n)",
        min_ops="2 * m * n * k",
        **_PRODUCT_SHAPES,
        **sum_tolerance(97, INPUT_RMS**2),
    ),
    Task(
        name="matmul_transposed",
        family="matmul",
        level=3,
        text="Matrix product with b transposed: c[i, j] = sum over p of a[i, p] * b[j, p].\n"
        "All row-major: a is m x k, b is n x k, c is m x n.",
        params=_TRANSPOSED_PARAMS,
        reference=matmul_transposed,
        inputs=input_generator(_TRANSPOSED_PARAMS, largest=SUM_LARGEST),
        baseline=_product_kernel(_TRANSPOSED_PARAMS, "a[row * k + p] * b[col * k + p]"),
        min_bytes="4 * (m * k + k * n + m * n)",
        min_ops="2 * m * n * k",
        **_PRODUCT_SHAPES,
        **sum_tolerance(97, INPUT_RMS**2),
    ),
    Task(
        name="linear_relu",
        family="matmul",
        level=3,
        text="Linear layer with relu: c[i, j] = max(0, bias[j] + sum over p of a[i, p] * b[p, j]).\n"
        "All row-major: a is m x k, b is k x n, c is m x n; bias has n elements.",
        params=_LINEAR_PARAMS,
        reference=linear_relu,
        inputs=input_generator(_LINEAR_PARAMS, largest=SUM_LARGEST),
        baseline=_product_kernel(_LINEAR_PARAMS, "a[row * k + p] * b[p * n + col]", "fmaxf(sum + bias[col], 0.0f)"),
        min_bytes="4 * (m * k + k * n + m * n + n)",
        min_ops="2 * m * n * k + 2 * m * n",
        **_PRODUCT_SHAPES,
        **sum_tolerance(97, INPUT_RMS**2),
    ),
    Task(
        name="matvec",
        family="matmul",
        level=2,
        text="Matrix times vector: y[r] = sum over c of a[r, c] * x[c].\n"
        "a is row-major, rows x cols; x has cols elements, y has rows elements.",
        params=_MATVEC_PARAMS,
        reference=matvec,
        inputs=input_generator(_MATVEC_PARAMS, largest=SUM_LARGEST),
        baseline=response(
            BLOCK_SUM
            + """
extern "C" __global__ void kernel(const float* a, const float* x, float* y, int rows, int cols) {
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += a[blockIdx.x * cols + c] * x[c];
  sum = block_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""",
            ROW_LAUNCH,
        ),
        min_bytes="4 * (rows * cols + rows + cols)",
        min_ops="2 * rows * cols",
        **MATRIX_SHAPES,
        **sum_tolerance(1000, INPUT_RMS**2),
    ),
)
