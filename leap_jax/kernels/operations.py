"""The operations of composed tasks: how a prompt names them, how C spells them, what they compute.

Elementwise operations act on a value `v`. Row operations reduce a row of values to one, or normalise it.
References take an array namespace `xp` (numpy or jax.numpy) and compute in the dtype of their arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Array = Any

GELU_SCALE = math.sqrt(2.0 / math.pi)
EPSILON = 1e-5  # added under the root by the normalisations that divide by a spread


@dataclass(frozen=True)
class Operation:
    """An elementwise operation.

    phrase: what a prompt calls it, with `{a}` for a constant.
    expression: C over `{v}` and `{a}`, the constant or the second operand; fit to stand after `v = `.
    reference: `reference(xp, v, a)`; `a` is the constant, the second operand, or None.
    constants: what a constant is drawn from, as written in a prompt; empty where the operation has none.
    discontinuous: a rounding error of `v` can change the result by any amount.
    """

    name: str
    phrase: str
    expression: str
    reference: Callable[[Any, Array, Any], Array]
    constants: tuple[str, ...] = ()
    discontinuous: bool = False


@dataclass(frozen=True)
class Stage:
    """One pass over a row: `variable = finish(combine over j of element(v_j))`, in C.

    combine is `sum`, `max` or `min`; `finish` is C over `{a}`, the combined value.
    """

    variable: str
    combine: str
    element: str = "{v}"
    finish: str = "{a}"


@dataclass(frozen=True)
class RowOperation:
    """An operation on the rows of a matrix: a reduction (no `expression`) or a normalisation.

    expression: C over `{v}` and the variables of the stages.
    reference: `reference(xp, v)` along the last axis; a reduction keeps that axis with length 1.
    """

    name: str
    phrase: str
    stages: tuple[Stage, ...]
    reference: Callable[[Any, Array], Array]
    expression: str | None = None


SCALES = ("0.5", "2", "3", "0.1", "1.5", "-2")
SHIFTS = ("0.5", "2", "3", "0.1", "1.5", "1")
BOUNDS = ("0.5", "2", "3", "1.5", "1")
SLOPES = ("0.1", "0.2", "0.01")


def _softplus(xp: Any, v: Array) -> Array:
    return xp.fmax(v, 0) + xp.log1p(xp.exp(-xp.abs(v)))


def _sigmoid(xp: Any, v: Array) -> Array:
    return 1 / (1 + xp.exp(-v))


def _gelu(xp: Any, v: Array) -> Array:
    return 0.5 * v * (1 + xp.tanh(GELU_SCALE * (v + 0.044715 * v * v * v)))


def _clamp(xp: Any, v: Array, low: float, high: float) -> Array:
    return xp.fmin(xp.fmax(v, low), high)


FLOAT_UNARY = (
    Operation("plus", "plus {a}", "{v} + {a}", lambda xp, v, a: v + a, SHIFTS),
    Operation("minus", "minus {a}", "{v} - {a}", lambda xp, v, a: v - a, SHIFTS),
    Operation("from", "subtract from {a}", "{a} - {v}", lambda xp, v, a: a - v, SHIFTS),
    Operation("times", "times {a}", "{v} * {a}", lambda xp, v, a: v * a, SCALES),
    Operation("at_least", "at least {a}", "fmaxf({v}, {a})", lambda xp, v, a: xp.fmax(v, a), BOUNDS),
    Operation("at_most", "at most {a}", "fminf({v}, {a})", lambda xp, v, a: xp.fmin(v, a), BOUNDS),
    Operation("clamp", "clamp to +-{a}", "fminf(fmaxf({v}, -{a}), {a})",
              lambda xp, v, a: _clamp(xp, v, -a, a), BOUNDS),
    Operation("negate", "negate", "-{v}", lambda xp, v, a: -v),
    Operation("abs", "abs", "fabsf({v})", lambda xp, v, a: xp.abs(v)),
    Operation("square", "square", "{v} * {v}", lambda xp, v, a: v * v),
    Operation("cube", "cube", "{v} * {v} * {v}", lambda xp, v, a: v * v * v),
    Operation("sqrt_abs", "sqrt of abs", "sqrtf(fabsf({v}))", lambda xp, v, a: xp.sqrt(xp.abs(v))),
    Operation("log1p_abs", "log1p of abs", "log1pf(fabsf({v}))", lambda xp, v, a: xp.log1p(xp.abs(v))),
    Operation("exp", "exp", "expf({v})", lambda xp, v, a: xp.exp(v)),
    Operation("gaussian", "gaussian", "expf(-{v} * {v})", lambda xp, v, a: xp.exp(-v * v)),
    Operation("cauchy", "reciprocal of 1 + square", "1.0f / (1.0f + {v} * {v})",
              lambda xp, v, a: 1 / (1 + v * v)),
    Operation("sin", "sin", "sinf({v})", lambda xp, v, a: xp.sin(v)),
    Operation("cos", "cos", "cosf({v})", lambda xp, v, a: xp.cos(v)),
    Operation("atan", "atan", "atanf({v})", lambda xp, v, a: xp.arctan(v)),
    Operation("tanh", "tanh", "tanhf({v})", lambda xp, v, a: xp.tanh(v)),
    Operation("sigmoid", "sigmoid", "1.0f / (1.0f + expf(-{v}))", lambda xp, v, a: _sigmoid(xp, v)),
    Operation("log_sigmoid", "log sigmoid", "fminf({v}, 0.0f) - log1pf(expf(-fabsf({v})))",
              lambda xp, v, a: -_softplus(xp, -v)),
    Operation("softplus", "softplus", "fmaxf({v}, 0.0f) + log1pf(expf(-fabsf({v})))",
              lambda xp, v, a: _softplus(xp, v)),
    Operation("softsign", "softsign", "{v} / (1.0f + fabsf({v}))", lambda xp, v, a: v / (1 + xp.abs(v))),
    Operation("relu", "relu", "fmaxf({v}, 0.0f)", lambda xp, v, a: xp.fmax(v, 0)),
    Operation("relu6", "relu6", "fminf(fmaxf({v}, 0.0f), 6.0f)", lambda xp, v, a: _clamp(xp, v, 0, 6)),
    Operation("relu_squared", "relu squared", "{v} * fmaxf({v}, 0.0f)", lambda xp, v, a: v * xp.fmax(v, 0)),
    Operation("leaky_relu", "leaky relu {a}", "{v} > 0.0f ? {v} : {a} * {v}",
              lambda xp, v, a: xp.where(v > 0, v, a * v), SLOPES),
    Operation("elu", "elu", "{v} > 0.0f ? {v} : expm1f({v})",
              lambda xp, v, a: xp.where(v > 0, v, xp.expm1(xp.fmin(v, 0)))),
    Operation("silu", "silu", "{v} / (1.0f + expf(-{v}))", lambda xp, v, a: v / (1 + xp.exp(-v))),
    Operation("gelu", "gelu (tanh)",
              "0.5f * {v} * (1.0f + tanhf(0.7978846f * ({v} + 0.044715f * {v} * {v} * {v})))",
              lambda xp, v, a: _gelu(xp, v)),
    Operation("quick_gelu", "quick gelu", "{v} / (1.0f + expf(-1.702f * {v}))",
              lambda xp, v, a: v / (1 + xp.exp(-1.702 * v))),
    Operation("mish", "mish", "{v} * tanhf(log1pf(expf({v})))",
              lambda xp, v, a: v * xp.tanh(_softplus(xp, v))),
    Operation("hardtanh", "hardtanh", "fminf(fmaxf({v}, -1.0f), 1.0f)",
              lambda xp, v, a: _clamp(xp, v, -1, 1)),
    Operation("hardsigmoid", "hardsigmoid", "fminf(fmaxf({v} / 6.0f + 0.5f, 0.0f), 1.0f)",
              lambda xp, v, a: _clamp(xp, v / 6 + 0.5, 0, 1)),
    Operation("hardswish", "hardswish", "{v} * fminf(fmaxf({v} + 3.0f, 0.0f), 6.0f) / 6.0f",
              lambda xp, v, a: v * _clamp(xp, v + 3, 0, 6) / 6),
    Operation("tanhshrink", "tanhshrink", "{v} - tanhf({v})", lambda xp, v, a: v - xp.tanh(v)),
    Operation("softshrink", "softshrink {a}", "{v} - fminf(fmaxf({v}, -{a}), {a})",
              lambda xp, v, a: v - _clamp(xp, v, -a, a), BOUNDS),
    Operation("hardshrink", "hardshrink {a}", "fabsf({v}) > {a} ? {v} : 0.0f",
              lambda xp, v, a: xp.where(xp.abs(v) > a, v, 0 * v), BOUNDS, discontinuous=True),
    Operation("step", "step", "{v} > 0.0f ? 1.0f : 0.0f",
              lambda xp, v, a: (v > 0).astype(v.dtype), discontinuous=True),
    Operation("floor", "floor", "floorf({v})", lambda xp, v, a: xp.floor(v), discontinuous=True),
    Operation("ceil", "ceil", "ceilf({v})", lambda xp, v, a: xp.ceil(v), discontinuous=True),
    Operation("trunc", "trunc", "truncf({v})", lambda xp, v, a: xp.trunc(v), discontinuous=True),
    Operation("round", "round to even", "rintf({v})", lambda xp, v, a: xp.rint(v), discontinuous=True),
)  # fmt: skip

FLOAT_BINARY = (
    Operation("add_y", "add y", "{v} + {a}", lambda xp, v, a: v + a),
    Operation("sub_y", "subtract y", "{v} - {a}", lambda xp, v, a: v - a),
    Operation("rsub_y", "subtract from y", "{a} - {v}", lambda xp, v, a: a - v),
    Operation("mul_y", "multiply by y", "{v} * {a}", lambda xp, v, a: v * a),
    Operation("div_abs_y", "divide by 1 + abs y", "{v} / (1.0f + fabsf({a}))",
              lambda xp, v, a: v / (1 + xp.abs(a))),
    Operation("max_y", "max with y", "fmaxf({v}, {a})", lambda xp, v, a: xp.fmax(v, a)),
    Operation("min_y", "min with y", "fminf({v}, {a})", lambda xp, v, a: xp.fmin(v, a)),
    Operation("mean_y", "mean with y", "0.5f * ({v} + {a})", lambda xp, v, a: 0.5 * (v + a)),
    Operation("distance_y", "distance to y", "fabsf({v} - {a})", lambda xp, v, a: xp.abs(v - a)),
    Operation("square_error_y", "squared error to y", "({v} - {a}) * ({v} - {a})",
              lambda xp, v, a: (v - a) * (v - a)),
    Operation("hypot_y", "hypot with y", "sqrtf({v} * {v} + {a} * {a})",
              lambda xp, v, a: xp.sqrt(v * v + a * a)),
    Operation("gate_relu_y", "gate by relu of y", "{v} * fmaxf({a}, 0.0f)",
              lambda xp, v, a: v * xp.fmax(a, 0)),
    Operation("gate_y", "gate by sigmoid of y", "{v} / (1.0f + expf(-{a}))",
              lambda xp, v, a: v * _sigmoid(xp, a)),
)  # fmt: skip

INT_UNARY = (
    Operation("plus", "plus {a}", "{v} + {a}", lambda xp, v, a: v + a, ("1", "3", "7", "10", "64")),
    Operation("minus", "minus {a}", "{v} - {a}", lambda xp, v, a: v - a, ("1", "3", "7", "10", "64")),
    Operation("from", "subtract from {a}", "{a} - {v}", lambda xp, v, a: a - v, ("1", "7", "10", "64")),
    Operation("times", "times {a}", "{v} * {a}", lambda xp, v, a: v * a, ("2", "3", "5", "7", "-2")),
    Operation("xor", "xor {a}", "{v} ^ {a}", lambda xp, v, a: v ^ a, ("1", "5", "7", "15", "255")),
    Operation("and", "and {a}", "{v} & {a}", lambda xp, v, a: v & a, ("7", "15", "31", "255")),
    Operation("or", "or {a}", "{v} | {a}", lambda xp, v, a: v | a, ("1", "3", "8", "15")),
    Operation("shift_left", "shift left {a}", "{v} << {a}", lambda xp, v, a: v << a, ("1", "2", "3")),
    Operation("shift_right", "shift right {a}", "{v} >> {a}", lambda xp, v, a: v >> a, ("1", "2", "3")),
    Operation("at_least", "at least {a}", "max({v}, {a})", lambda xp, v, a: xp.maximum(v, a),
              ("0", "1", "7", "10")),
    Operation("at_most", "at most {a}", "min({v}, {a})", lambda xp, v, a: xp.minimum(v, a),
              ("0", "1", "7", "10")),
    Operation("clamp", "clamp to +-{a}", "min(max({v}, -{a}), {a})",
              lambda xp, v, a: xp.minimum(xp.maximum(v, -a), a), ("10", "31", "64")),
    Operation("negate", "negate", "-{v}", lambda xp, v, a: -v),
    Operation("abs", "abs", "abs({v})", lambda xp, v, a: xp.abs(v)),
    Operation("square", "square", "{v} * {v}", lambda xp, v, a: v * v),
    Operation("not", "bitwise not", "~{v}", lambda xp, v, a: ~v),
    Operation("relu", "relu", "max({v}, 0)", lambda xp, v, a: xp.maximum(v, 0)),
    Operation("step", "step", "{v} > 0 ? 1 : 0", lambda xp, v, a: (v > 0).astype(v.dtype)),
    Operation("popcount", "popcount", "__popc({v})",
              lambda xp, v, a: xp.bitwise_count(v.astype(xp.uint32)).astype(v.dtype)),
)  # fmt: skip

INT_BINARY = (
    Operation("add_y", "add y", "{v} + {a}", lambda xp, v, a: v + a),
    Operation("sub_y", "subtract y", "{v} - {a}", lambda xp, v, a: v - a),
    Operation("rsub_y", "subtract from y", "{a} - {v}", lambda xp, v, a: a - v),
    Operation("mul_y", "multiply by y", "{v} * {a}", lambda xp, v, a: v * a),
    Operation("max_y", "max with y", "max({v}, {a})", lambda xp, v, a: xp.maximum(v, a)),
    Operation("min_y", "min with y", "min({v}, {a})", lambda xp, v, a: xp.minimum(v, a)),
    Operation("distance_y", "distance to y", "abs({v} - {a})", lambda xp, v, a: xp.abs(v - a)),
    Operation("xor_y", "xor y", "{v} ^ {a}", lambda xp, v, a: v ^ a),
    Operation("and_y", "and y", "{v} & {a}", lambda xp, v, a: v & a),
    Operation("or_y", "or y", "{v} | {a}", lambda xp, v, a: v | a),
)

MAX = Stage("acc", "max")
MIN = Stage("acc", "min")
SUM = Stage("acc", "sum")


def _sum(xp: Any, v: Array) -> Array:
    return xp.sum(v, axis=-1, keepdims=True, dtype=v.dtype)


def _mean(xp: Any, v: Array) -> Array:
    return xp.mean(v, axis=-1, keepdims=True)


def _max(xp: Any, v: Array) -> Array:
    return xp.max(v, axis=-1, keepdims=True)


def _min(xp: Any, v: Array) -> Array:
    return xp.min(v, axis=-1, keepdims=True)


def _softmax(xp: Any, v: Array) -> Array:
    e = xp.exp(v - _max(xp, v))
    return e / _sum(xp, e)


def _log_softmax(xp: Any, v: Array) -> Array:
    shifted = v - _max(xp, v)
    return shifted - xp.log(_sum(xp, xp.exp(shifted)))


def _layer_norm(xp: Any, v: Array) -> Array:
    centred = v - _mean(xp, v)
    return centred / xp.sqrt(_mean(xp, centred * centred) + EPSILON)


FLOAT_REDUCTIONS = (
    RowOperation("row_sum", "row sum", (SUM,), _sum),
    RowOperation("row_mean", "row mean", (Stage("acc", "sum", finish="{a} / cols"),), _mean),
    RowOperation("row_max", "row max", (MAX,), _max),
    RowOperation("row_min", "row min", (MIN,), _min),
    RowOperation("row_max_abs", "row max abs", (Stage("acc", "max", "fabsf({v})"),),
                 lambda xp, v: _max(xp, xp.abs(v))),
    RowOperation("row_l1", "row l1 norm", (Stage("acc", "sum", "fabsf({v})"),),
                 lambda xp, v: _sum(xp, xp.abs(v))),
    RowOperation("row_l2", "row l2 norm", (Stage("acc", "sum", "{v} * {v}", "sqrtf({a})"),),
                 lambda xp, v: xp.sqrt(_sum(xp, v * v))),
    RowOperation("row_mean_square", "row mean square", (Stage("acc", "sum", "{v} * {v}", "{a} / cols"),),
                 lambda xp, v: _mean(xp, v * v)),
)  # fmt: skip

FLOAT_NORMALISATIONS = (
    RowOperation("softmax", "softmax", (Stage("m", "max"), Stage("s", "sum", "expf({v} - m)")), _softmax,
                 "expf({v} - m) / s"),
    RowOperation("log_softmax", "log softmax",
                 (Stage("m", "max"), Stage("s", "sum", "expf({v} - m)", "logf({a})")),
                 _log_softmax, "{v} - m - s"),
    RowOperation("layernorm", "layernorm (eps 1e-5)",
                 (Stage("m", "sum", finish="{a} / cols"),
                  Stage("s", "sum", "({v} - m) * ({v} - m)", "rsqrtf({a} / cols + 1e-5f)")),
                 _layer_norm, "({v} - m) * s"),
    RowOperation("rmsnorm", "rmsnorm (eps 1e-5)",
                 (Stage("s", "sum", "{v} * {v}", "rsqrtf({a} / cols + 1e-5f)"),),
                 lambda xp, v: v / xp.sqrt(_mean(xp, v * v) + EPSILON), "{v} * s"),
    RowOperation("l2_normalize", "l2 normalize (eps 1e-5)",
                 (Stage("s", "sum", "{v} * {v}", "rsqrtf({a} + 1e-5f)"),),
                 lambda xp, v: v / xp.sqrt(_sum(xp, v * v) + EPSILON), "{v} * s"),
    RowOperation("minus_row_mean", "minus row mean", (Stage("m", "sum", finish="{a} / cols"),),
                 lambda xp, v: v - _mean(xp, v), "{v} - m"),
    RowOperation("minus_row_max", "minus row max", (Stage("m", "max"),), lambda xp, v: v - _max(xp, v),
                 "{v} - m"),
    RowOperation("minus_row_min", "minus row min", (Stage("m", "min"),), lambda xp, v: v - _min(xp, v),
                 "{v} - m"),
)  # fmt: skip

INT_REDUCTIONS = (
    RowOperation("row_sum", "row sum", (SUM,), _sum),
    RowOperation("row_max", "row max", (MAX,), _max),
    RowOperation("row_min", "row min", (MIN,), _min),
    RowOperation("row_max_abs", "row max abs", (Stage("acc", "max", "abs({v})"),),
                 lambda xp, v: _max(xp, xp.abs(v))),
)  # fmt: skip

INT_NORMALISATIONS = (
    RowOperation("minus_row_max", "minus row max", (Stage("m", "max"),), lambda xp, v: v - _max(xp, v), "{v} - m"),
    RowOperation("minus_row_min", "minus row min", (Stage("m", "min"),), lambda xp, v: v - _min(xp, v), "{v} - m"),
)

UNARY = {"f32": FLOAT_UNARY, "i32": INT_UNARY}
BINARY = {"f32": FLOAT_BINARY, "i32": INT_BINARY}
REDUCTIONS = {"f32": FLOAT_REDUCTIONS, "i32": INT_REDUCTIONS}
NORMALISATIONS = {"f32": FLOAT_NORMALISATIONS, "i32": INT_NORMALISATIONS}
