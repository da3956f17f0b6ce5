"""What the suite's tasks share: parameters, shapes, the response format, tolerances, block reductions."""

from __future__ import annotations

from leap_jax.kernels.task import Param

F32_ROUNDING = 2.0**-24

VECTOR_LAUNCH = "launch: grid=(ceil_div(n, 256)) block=(256)"
MATRIX_LAUNCH = "launch: grid=(ceil_div(cols, 32), ceil_div(rows, 8)) block=(32, 8)"
ROW_LAUNCH = "launch: grid=(rows) block=(128)"

VECTOR_SHAPES = {
    "public_shapes": ({"n": 257}, {"n": 1000}),
    "hidden_shapes": ({"n": 1}, {"n": 3001}),
    "timing_shape": {"n": 1 << 25},
}
MATRIX_SHAPES = {
    "public_shapes": ({"rows": 5, "cols": 257}, {"rows": 33, "cols": 31}),
    "hidden_shapes": ({"rows": 1, "cols": 1000}, {"rows": 41, "cols": 67}),
    "timing_shape": {"rows": 8192, "cols": 4096},
}

# Tolerances follow three rules, each at least 4 times the error of a straightforward f32 kernel.
# Few roundings and no transcendental function: EXACT. With exp, tanh, log or a division: SMOOTH. Long sums:
# sum_tolerance. A kernel that works in f16 or tf32 (relative error up to 2**-11) fails all of them.
EXACT = {"rtol": 2e-6, "atol": 2e-6}
SMOOTH = {"rtol": 5e-5, "atol": 5e-6}
INTEGER = {"rtol": 0.0, "atol": 0.0}

# Sums bound their special values by this much, so that one term does not drown the rounding of the others.
SUM_LARGEST = 16.0
INPUT_RMS = 7.0  # an upper bound of the root-mean-square input over all regimes, with SUM_LARGEST


def sum_tolerance(length: int, rms: float) -> dict[str, float]:
    """Tolerance for an f32 sum of `length` terms of root-mean-square `rms`, in any order.

    Partial sums walk at random: each of `length` roundings is about 2**-24 * rms * sqrt(length), and they
    walk at random too. The worst of many serial sums stays under 2**-24 * rms * length; the margin is 4.
    """
    return {"rtol": 1e-5, "atol": 4 * F32_ROUNDING * rms * length}


def tensor_in(name: str, *shape: str, dtype: str = "f32") -> Param:
    """An input buffer."""
    return Param(name, dtype, "in", shape)


def tensor_out(name: str, *shape: str, dtype: str = "f32") -> Param:
    """An output buffer."""
    return Param(name, dtype, "out", shape)


def scalar(name: str, dtype: str = "i32") -> Param:
    """A parameter passed by value."""
    return Param(name, dtype, "scalar")


def response(source: str, *plan: str) -> str:
    """An answer in the format that policies use: one fenced block, its launch plan as comments on top."""
    comments = "".join(f"// {line}\n" for line in plan)
    return f"```cuda\n{comments}{source.strip()}\n```"


# A block-wide reduction over shared memory; blockDim.x must be a power of two. Every thread gets the result.
_BLOCK_REDUCE = """
__device__ float block_{name}(float value) {{
  __shared__ float values[1024];
  int t = threadIdx.x;
  values[t] = value;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {{
    if (t < stride) values[t] = {combine};
    __syncthreads();
  }}
  float result = values[0];
  __syncthreads();
  return result;
}}
"""
BLOCK_SUM = _BLOCK_REDUCE.format(name="sum", combine="values[t] + values[t + stride]")
BLOCK_MAX = _BLOCK_REDUCE.format(name="max", combine="fmaxf(values[t], values[t + stride])")
