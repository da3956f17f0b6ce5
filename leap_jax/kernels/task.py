"""What a kernel task is: prompt, parameters, inputs, reference, tolerance, shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Scalars = Mapping[str, int | float]

NUMPY_DTYPES = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i32": np.dtype(np.int32),
    "u32": np.dtype(np.uint32),
    "i64": np.dtype(np.int64),
    "u64": np.dtype(np.uint64),
}
C_TYPES = {
    "f32": "float",
    "f64": "double",
    "i32": "int",
    "u32": "unsigned int",
    "i64": "long long",
    "u64": "unsigned long long",
}


@dataclass(frozen=True)
class Param:
    """One kernel parameter, in the order of the C signature.

    `role` is `in` or `out` (device buffers, row-major) or `scalar` (passed by value). `shape` holds one
    expression over the task's integer scalars per axis, such as ("rows", "cols"); empty for a scalar.
    """

    name: str
    dtype: str
    role: str
    shape: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """A kernel to write, and all that decides whether an answer is right.

    reference: `reference(xp, **values)` with every input (fp64, or its integer dtype) and scalar by name;
        returns the output array, or a tuple in the order of the `out` params. Pure, over an array namespace.
    inputs: `inputs(regime, scalars, rng)` -> {input name: array of the param's dtype and shape}.
    public_shapes, hidden_shapes, timing_shape: values for all integer scalars, e.g. {"rows": 3, "cols": 257}.
    baseline: a straightforward response (fenced block with launch lines) that passes.
    min_bytes, min_ops: closed forms over the scalars, as expressions.
    """

    name: str
    family: str
    level: int
    text: str
    params: tuple[Param, ...]
    reference: Callable[..., Any] = field(compare=False)
    inputs: Callable[..., dict[str, np.ndarray]] = field(compare=False)
    public_shapes: tuple[Scalars, ...]
    hidden_shapes: tuple[Scalars, ...]
    timing_shape: Scalars
    baseline: str
    min_bytes: str
    min_ops: str
    regimes: tuple[str, ...] = ("signed", "wide", "zero", "special")
    rtol: float = 1e-4
    atol: float = 1e-5

    def prompt(self) -> str:
        """The text a policy is asked with: what to compute, then the signature to write."""
        return f"{self.text}\n{self.signature()}"

    def signature(self, kernel: str = "kernel") -> str:
        """The C signature of a single-kernel answer."""
        return f"void {kernel}({', '.join(map(c_parameter, self.params))})"

    def params_with(self, role: str) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.role == role)


def c_parameter(param: Param) -> str:
    """`const float* x`, `float* y`, `int n`."""
    c_type = C_TYPES[param.dtype]
    if param.role == "scalar":
        return f"{c_type} {param.name}"
    return f"{'const ' if param.role == 'in' else ''}{c_type}* {param.name}"
