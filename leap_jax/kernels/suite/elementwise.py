"""One output element from the input elements at the same index."""

from __future__ import annotations

from collections.abc import Callable

from leap_jax.kernels.regimes import input_generator
from leap_jax.kernels.suite.common import (
    EXACT,
    INTEGER,
    SMOOTH,
    VECTOR_LAUNCH,
    VECTOR_SHAPES,
    response,
    scalar,
    tensor_in,
    tensor_out,
)
from leap_jax.kernels.task import Param, Task, c_parameter


def _vector_kernel(params: tuple[Param, ...], body: str) -> str:
    """A kernel with one thread per element i that runs `body`."""
    return response(
        f"""
extern "C" __global__ void kernel({", ".join(map(c_parameter, params))}) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {{
    {body}
  }}
}}
""",
        VECTOR_LAUNCH,
    )


def _elementwise(
    name: str,
    text: str,
    reference: Callable,
    body: str,
    *,
    tolerance: dict[str, float],
    operations: int,
    inputs: tuple[str, ...] = ("x",),
    scalars: tuple[Param, ...] = (),
    values: tuple[dict[str, int | float], ...] = ({}, {}, {}, {}, {}),
    dtype: str = "f32",
    level: int = 1,
) -> Task:
    """A task y[i] = f(x[i], ...) over vectors of length n.

    `values` holds the other scalars for the two public, the two hidden and the timing shape.
    """
    params = (
        *(tensor_in(tensor, "n", dtype=dtype) for tensor in inputs),
        tensor_out("y", "n", dtype=dtype),
        *scalars,
        scalar("n"),
    )
    public, hidden = VECTOR_SHAPES["public_shapes"], VECTOR_SHAPES["hidden_shapes"]
    shapes = (*public, *hidden, VECTOR_SHAPES["timing_shape"])
    shapes = tuple({**extra, **shape} for extra, shape in zip(values, shapes, strict=True))
    return Task(
        name=name,
        family="elementwise",
        level=level,
        text=text,
        params=params,
        reference=reference,
        inputs=input_generator(params),
        public_shapes=shapes[:2],
        hidden_shapes=shapes[2:4],
        timing_shape=shapes[4],
        baseline=_vector_kernel(params, body),
        min_bytes=f"{4 * (len(inputs) + 1)} * n",
        min_ops=f"{operations} * n",
        **tolerance,
    )


def relu(xp, *, x, n):
    return xp.maximum(x, 0)


def gelu(xp, *, x, n):
    return 0.5 * x * (1 + xp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def silu(xp, *, x, n):
    return x * xp.exp(-xp.logaddexp(0.0, -x))  # x / (1 + exp(-x)) without overflow


def swiglu(xp, *, x, gate, n):
    return x * silu(xp, x=gate, n=n)


def saxpy(xp, *, x, z, a, n):
    return a * x + z


def clamp(xp, *, x, low, high, n):
    return xp.minimum(xp.maximum(x, low), high)


def floor_mod(xp, *, x, m, n):
    return xp.mod(x, m)


def hash32(xp, *, x, n):
    x = (x ^ (x >> 16)) * 0x45D9F3B
    x = (x ^ (x >> 16)) * 0x45D9F3B
    return x ^ (x >> 16)


TASKS = (
    _elementwise(
        "relu",
        "relu: y[i] = max(x[i], 0) for 0 <= i < n.",
        relu,
        "y[i] = fmaxf(x[i], 0.0f);",
        tolerance=EXACT,
        operations=1,
    ),
    _elementwise(
        "gelu",
        "gelu, tanh form: y[i] = 0.5 * v * (1 + tanh(0.7978845608 * (v + 0.044715 * v^3))),\nv = x[i], for 0 <= i < n.",
        gelu,
        "float v = x[i];\n    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));",
        tolerance=SMOOTH,
        operations=9,
    ),
    _elementwise(
        "silu",
        "silu: y[i] = x[i] / (1 + exp(-x[i])) for 0 <= i < n.",
        silu,
        "y[i] = x[i] / (1.0f + expf(-x[i]));",
        tolerance=SMOOTH,
        operations=4,
    ),
    _elementwise(
        "swiglu",
        "swiglu: y[i] = x[i] * gate[i] / (1 + exp(-gate[i])) for 0 <= i < n.",
        swiglu,
        "y[i] = x[i] * (gate[i] / (1.0f + expf(-gate[i])));",
        inputs=("x", "gate"),
        tolerance=SMOOTH,
        operations=5,
    ),
    _elementwise(
        "saxpy",
        "saxpy: y[i] = a * x[i] + z[i] for 0 <= i < n.",
        saxpy,
        "y[i] = a * x[i] + z[i];",
        inputs=("x", "z"),
        scalars=(scalar("a", "f32"),),
        values=({"a": 2.5}, {"a": -0.75}, {"a": 1.5}, {"a": -3.25}, {"a": 2.5}),
        tolerance={"rtol": 1e-6, "atol": 4e-5},  # a * x[i] and z[i] may cancel
        operations=2,
    ),
    _elementwise(
        "clamp",
        "clamp: y[i] = min(max(x[i], low), high) for 0 <= i < n; low <= high.",
        clamp,
        "y[i] = fminf(fmaxf(x[i], low), high);",
        scalars=(scalar("low", "f32"), scalar("high", "f32")),
        values=(
            {"low": -1.0, "high": 1.0},
            {"low": -2.5, "high": 0.5},
            {"low": -1.25, "high": 3.0},
            {"low": -0.5, "high": 2.75},
            {"low": -1.0, "high": 1.0},
        ),
        tolerance=EXACT,
        operations=2,
    ),
    _elementwise(
        "floor_mod",
        "Modulo with the sign of the divisor: y[i] = x[i] - m * floor(x[i] / m) for 0 <= i < n; m > 0.\n"
        "So y[i] is in 0..m-1, for negative x[i] too.",
        floor_mod,
        "y[i] = ((x[i] % m) + m) % m;",
        scalars=(scalar("m"),),
        values=({"m": 7}, {"m": 10}, {"m": 64}, {"m": 1000}, {"m": 7}),
        dtype="i32",
        tolerance=INTEGER,
        operations=3,
    ),
    _elementwise(
        "hash32",
        "Hash each x[i], 0 <= i < n, to y[i]: twice v = (v ^ (v >> 16)) * 0x45d9f3b, then v ^ (v >> 16).\n"
        "v starts as x[i]; products wrap modulo 2^32.",
        hash32,
        "unsigned int v = x[i];\n"
        "    v = (v ^ (v >> 16)) * 0x45d9f3bu;\n"
        "    v = (v ^ (v >> 16)) * 0x45d9f3bu;\n"
        "    y[i] = v ^ (v >> 16);",
        dtype="u32",
        tolerance=INTEGER,
        operations=8,
    ),
)
