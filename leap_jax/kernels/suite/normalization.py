"""Rows rescaled by statistics of the same row."""

from __future__ import annotations

from leap_jax.kernels.regimes import input_generator
from leap_jax.kernels.suite.common import (
    BLOCK_MAX,
    BLOCK_SUM,
    MATRIX_SHAPES,
    ROW_LAUNCH,
    SMOOTH,
    SUM_LARGEST,
    response,
    scalar,
    tensor_in,
    tensor_out,
)
from leap_jax.kernels.task import Param, Task, c_parameter

_SIZES = (scalar("rows"), scalar("cols"))
_X, _Y = tensor_in("x", "rows", "cols"), tensor_out("y", "rows", "cols")
_PLAIN_PARAMS = (_X, _Y, *_SIZES)
_RMS_PARAMS = (_X, tensor_in("weight", "cols"), _Y, *_SIZES)
_LAYER_PARAMS = (_X, tensor_in("weight", "cols"), tensor_in("bias", "cols"), _Y, *_SIZES)


def softmax(xp, *, x, rows, cols):
    exponentials = xp.exp(x - xp.max(x, axis=1, keepdims=True))
    return exponentials / xp.sum(exponentials, axis=1, keepdims=True)


def log_softmax(xp, *, x, rows, cols):
    shifted = x - xp.max(x, axis=1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=1, keepdims=True))


def rms_norm(xp, *, x, weight, rows, cols):
    return x / xp.sqrt(xp.mean(x * x, axis=1, keepdims=True) + 1e-5) * weight


def layer_norm(xp, *, x, weight, bias, rows, cols):
    centered = x - xp.mean(x, axis=1, keepdims=True)
    variance = xp.mean(centered * centered, axis=1, keepdims=True)
    return centered / xp.sqrt(variance + 1e-5) * weight + bias


def l2_normalize(xp, *, x, rows, cols):
    return x / xp.maximum(xp.sqrt(xp.sum(x * x, axis=1, keepdims=True)), 1e-6)


def _row_kernel(params: tuple[Param, ...], helpers: str, body: str) -> str:
    """A kernel with one block per row; `body` reads `in` and writes `out`, the row's first elements."""
    return response(
        f"""
{helpers.strip()}

extern "C" __global__ void kernel({", ".join(map(c_parameter, params))}) {{
  const float* in = x + blockIdx.x * cols;
  float* out = y + blockIdx.x * cols;
  {body.strip()}
}}
""",
        ROW_LAUNCH,
    )


_SOFTMAX_BASELINE = _row_kernel(
    _PLAIN_PARAMS,
    BLOCK_MAX + BLOCK_SUM,
    """
  float largest = -INFINITY;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) largest = fmaxf(largest, in[c]);
  largest = block_max(largest);
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += expf(in[c] - largest);
  sum = block_sum(sum);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) out[c] = expf(in[c] - largest) / sum;
""",
)
_LOG_SOFTMAX_BASELINE = _row_kernel(
    _PLAIN_PARAMS,
    BLOCK_MAX + BLOCK_SUM,
    """
  float largest = -INFINITY;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) largest = fmaxf(largest, in[c]);
  largest = block_max(largest);
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += expf(in[c] - largest);
  float log_sum = logf(block_sum(sum));
  for (int c = threadIdx.x; c < cols; c += blockDim.x) out[c] = in[c] - largest - log_sum;
""",
)
_RMS_NORM_BASELINE = _row_kernel(
    _RMS_PARAMS,
    BLOCK_SUM,
    """
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += in[c] * in[c];
  float scale = rsqrtf(block_sum(sum) / cols + 1e-5f);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) out[c] = in[c] * scale * weight[c];
""",
)
_LAYER_NORM_BASELINE = _row_kernel(
    _LAYER_PARAMS,
    BLOCK_SUM,
    """
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += in[c];
  float mean = block_sum(sum) / cols;
  float squares = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) squares += (in[c] - mean) * (in[c] - mean);
  float scale = rsqrtf(block_sum(squares) / cols + 1e-5f);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) out[c] = (in[c] - mean) * scale * weight[c] + bias[c];
""",
)
_L2_NORMALIZE_BASELINE = _row_kernel(
    _PLAIN_PARAMS,
    BLOCK_SUM,
    """
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += in[c] * in[c];
  float norm = fmaxf(sqrtf(block_sum(sum)), 1e-6f);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) out[c] = in[c] / norm;
""",
)

_LAYOUT = "x and y are row-major, rows x cols"

TASKS = (
    Task(
        name="softmax",
        family="normalization",
        level=3,
        text="Stable softmax of each row: y[r, c] = exp(x[r, c] - m) / sum over j of exp(x[r, j] - m),\n"
        f"m = the row's maximum. {_LAYOUT}.",
        params=_PLAIN_PARAMS,
        reference=softmax,
        inputs=input_generator(_PLAIN_PARAMS),
        baseline=_SOFTMAX_BASELINE,
        min_bytes="8 * rows * cols",
        min_ops="5 * rows * cols",
        **MATRIX_SHAPES,
        rtol=5e-5,
        atol=1e-7,  # a row of 1000 has values about 1e-3
    ),
    Task(
        name="log_softmax",
        family="normalization",
        level=3,
        text="Stable log-softmax of each row: y[r, c] = x[r, c] - m - log(sum over j of exp(x[r, j] - m)),\n"
        f"m = the row's maximum. {_LAYOUT}.",
        params=_PLAIN_PARAMS,
        reference=log_softmax,
        inputs=input_generator(_PLAIN_PARAMS),
        baseline=_LOG_SOFTMAX_BASELINE,
        min_bytes="8 * rows * cols",
        min_ops="5 * rows * cols",
        **MATRIX_SHAPES,
        **SMOOTH,
    ),
    Task(
        name="rms_norm",
        family="normalization",
        level=3,
        text="RMS norm of each row: y[r, c] = x[r, c] / sqrt(mean over j of x[r, j]^2 + 1e-5) * weight[c].\n"
        f"{_LAYOUT}; weight has cols elements.",
        params=_RMS_PARAMS,
        reference=rms_norm,
        inputs=input_generator(_RMS_PARAMS, largest=SUM_LARGEST),
        baseline=_RMS_NORM_BASELINE,
        min_bytes="8 * rows * cols + 4 * cols",
        min_ops="4 * rows * cols",
        **MATRIX_SHAPES,
        **SMOOTH,
    ),
    Task(
        name="layer_norm",
        family="normalization",
        level=3,
        text="Layer norm: y[r, c] = (x[r, c] - mean) / sqrt(variance + 1e-5) * weight[c] + bias[c],\n"
        "mean and biased variance (divided by cols) of row r.\n"
        f"{_LAYOUT}; weight and bias have cols elements.",
        params=_LAYER_PARAMS,
        reference=layer_norm,
        inputs=input_generator(_LAYER_PARAMS, largest=SUM_LARGEST),
        baseline=_LAYER_NORM_BASELINE,
        min_bytes="8 * rows * cols + 8 * cols",
        min_ops="7 * rows * cols",
        **MATRIX_SHAPES,
        rtol=5e-5,
        atol=1e-4,  # the scaled value and the bias may cancel
    ),
    Task(
        name="l2_normalize",
        family="normalization",
        level=3,
        text="Scale each row to unit length: y[r, c] = x[r, c] / max(sqrt(sum over j of x[r, j]^2), 1e-6).\n"
        f"{_LAYOUT}.",
        params=_PLAIN_PARAMS,
        reference=l2_normalize,
        inputs=input_generator(_PLAIN_PARAMS),
        baseline=_L2_NORMALIZE_BASELINE,
        min_bytes="8 * rows * cols",
        min_ops="3 * rows * cols",
        **MATRIX_SHAPES,
        rtol=5e-5,
        atol=1e-7,
    ),
)
