"""Matrices combined with vectors along rows or columns."""

from __future__ import annotations

from leap_jax.kernels.regimes import input_generator
from leap_jax.kernels.suite.common import (
    EXACT,
    MATRIX_LAUNCH,
    MATRIX_SHAPES,
    SUM_LARGEST,
    response,
    scalar,
    tensor_in,
    tensor_out,
)
from leap_jax.kernels.suite.elementwise import gelu
from leap_jax.kernels.task import Param, Task, c_parameter


def _matrix_kernel(params: tuple[Param, ...], body: str) -> str:
    """A kernel with one thread per element (r, c) that runs `body`."""
    return response(
        f"""
extern "C" __global__ void kernel({", ".join(map(c_parameter, params))}) {{
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  int r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r < rows && c < cols) {{
    {body}
  }}
}}
""",
        MATRIX_LAUNCH,
    )


def bias_add(xp, *, x, bias, rows, cols):
    return x + bias[None, :]


def scale_rows(xp, *, x, scale, rows, cols):
    return x * scale[:, None]


def outer_product(xp, *, u, v, rows, cols):
    return u[:, None] * v[None, :]


def affine_columns(xp, *, x, scale, shift, rows, cols):
    return x * scale[None, :] + shift[None, :]


def bias_gelu_residual(xp, *, x, bias, residual, rows, cols):
    return gelu(xp, x=x + bias[None, :], n=None) + residual


_SIZES = (scalar("rows"), scalar("cols"))
_X, _Y = tensor_in("x", "rows", "cols"), tensor_out("y", "rows", "cols")
_BIAS_PARAMS = (_X, tensor_in("bias", "cols"), _Y, *_SIZES)
_SCALE_PARAMS = (_X, tensor_in("scale", "rows"), _Y, *_SIZES)
_OUTER_PARAMS = (tensor_in("u", "rows"), tensor_in("v", "cols"), _Y, *_SIZES)
_AFFINE_PARAMS = (_X, tensor_in("scale", "cols"), tensor_in("shift", "cols"), _Y, *_SIZES)
_FUSED_PARAMS = (_X, tensor_in("bias", "cols"), tensor_in("residual", "rows", "cols"), _Y, *_SIZES)

TASKS = (
    Task(
        name="bias_add",
        family="broadcasting",
        level=1,
        text="Add a bias to every row: y[r, c] = x[r, c] + bias[c].\n"
        "x and y are row-major, rows x cols; bias has cols elements.",
        params=_BIAS_PARAMS,
        reference=bias_add,
        inputs=input_generator(_BIAS_PARAMS),
        baseline=_matrix_kernel(_BIAS_PARAMS, "y[r * cols + c] = x[r * cols + c] + bias[c];"),
        min_bytes="8 * rows * cols + 4 * cols",
        min_ops="rows * cols",
        **MATRIX_SHAPES,
        **EXACT,
    ),
    Task(
        name="scale_rows",
        family="broadcasting",
        level=1,
        text="Scale each row: y[r, c] = x[r, c] * scale[r].\n"
        "x and y are row-major, rows x cols; scale has rows elements.",
        params=_SCALE_PARAMS,
        reference=scale_rows,
        inputs=input_generator(_SCALE_PARAMS),
        baseline=_matrix_kernel(_SCALE_PARAMS, "y[r * cols + c] = x[r * cols + c] * scale[r];"),
        min_bytes="8 * rows * cols + 4 * rows",
        min_ops="rows * cols",
        **MATRIX_SHAPES,
        **EXACT,
    ),
    Task(
        name="outer_product",
        family="broadcasting",
        level=1,
        text="Outer product: y[r, c] = u[r] * v[c].\n"
        "y is row-major, rows x cols; u has rows elements, v has cols elements.",
        params=_OUTER_PARAMS,
        reference=outer_product,
        inputs=input_generator(_OUTER_PARAMS),
        baseline=_matrix_kernel(_OUTER_PARAMS, "y[r * cols + c] = u[r] * v[c];"),
        min_bytes="4 * rows * cols + 4 * rows + 4 * cols",
        min_ops="rows * cols",
        **MATRIX_SHAPES,
        **EXACT,
    ),
    Task(
        name="affine_columns",
        family="broadcasting",
        level=1,
        text="Affine map of each column: y[r, c] = x[r, c] * scale[c] + shift[c].\n"
        "x and y are row-major, rows x cols; scale and shift have cols elements.",
        params=_AFFINE_PARAMS,
        reference=affine_columns,
        inputs=input_generator(_AFFINE_PARAMS, largest=SUM_LARGEST),
        baseline=_matrix_kernel(_AFFINE_PARAMS, "y[r * cols + c] = x[r * cols + c] * scale[c] + shift[c];"),
        min_bytes="8 * rows * cols + 8 * cols",
        min_ops="2 * rows * cols",
        **MATRIX_SHAPES,
        rtol=1e-6,
        atol=4e-5,  # the product and the shift may cancel
    ),
    Task(
        name="bias_gelu_residual",
        family="broadcasting",
        level=2,
        text="y[r, c] = gelu(x[r, c] + bias[c]) + residual[r, c],\n"
        "gelu(v) = 0.5 * v * (1 + tanh(0.7978845608 * (v + 0.044715 * v^3))).\n"
        "x, residual and y are row-major, rows x cols; bias has cols elements.",
        params=_FUSED_PARAMS,
        reference=bias_gelu_residual,
        inputs=input_generator(_FUSED_PARAMS, largest=SUM_LARGEST),
        baseline=_matrix_kernel(
            _FUSED_PARAMS,
            "float v = x[r * cols + c] + bias[c];\n"
            "    float g = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));\n"
            "    y[r * cols + c] = g + residual[r * cols + c];",
        ),
        min_bytes="12 * rows * cols + 4 * cols",
        min_ops="11 * rows * cols",
        **MATRIX_SHAPES,
        rtol=5e-5,
        atol=5e-5,  # gelu and the residual may cancel
    ),
)
