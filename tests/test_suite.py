"""The hand-made tasks: what they ask for, what their references compute, what tolerances let through."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from leap_jax.kernels.answer import parse_answer, plan, scratch_sizes
from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.comparison import wrong_elements
from leap_jax.kernels.expressions import evaluate
from leap_jax.kernels.regimes import concrete_shape, input_generator, regime_values
from leap_jax.kernels.suite import SUITE
from leap_jax.kernels.task import NUMPY_DTYPES, Task
from leap_jax.kernels.verdict import Outcome
from leap_jax.kernels.verification import Settings, verify

EXAMPLE = SUITE["relu"]
FLOAT_TASKS = [name for name, task in SUITE.items() if task.rtol > 0]


@pytest.fixture(params=SUITE)
def task(request) -> Task:
    return SUITE[request.param]


def shapes(task: Task) -> tuple[dict, ...]:
    return (*task.public_shapes, *task.hidden_shapes)


class Checked(NamedTuple):
    """One check of a task: a shape, a regime, inputs drawn from it, and the output they must give."""

    scalars: dict
    regime: str
    inputs: dict[str, np.ndarray]
    want: np.ndarray


@functools.cache
def checks(name: str) -> tuple[Checked, ...]:
    """Every check shape of a task under every regime."""
    task = SUITE[name]
    result = []
    for i, scalars in enumerate(shapes(task)):
        for j, regime in enumerate(task.regimes):
            inputs = task.inputs(regime, scalars, np.random.default_rng([i, j]))
            result.append(Checked(scalars, regime, inputs, evaluated(task, inputs, scalars)))
    return tuple(result)


def evaluated(task: Task, inputs: dict[str, np.ndarray], scalars: dict, dtype=np.float64) -> np.ndarray:
    """The reference's output, with float inputs and scalars in `dtype`."""
    values = {name: x.astype(dtype) if x.dtype.kind == "f" else x for name, x in inputs.items()}
    scalars = {name: dtype(x) if isinstance(x, float) else x for name, x in scalars.items()}
    return np.asarray(task.reference(np, **values, **scalars))


def caught(task: Task, answer: np.ndarray, want: np.ndarray) -> bool:
    (output,) = task.params_with("out")
    with np.errstate(all="ignore"):
        answer = np.asarray(answer).astype(NUMPY_DTYPES[output.dtype])
    return bool(wrong_elements(answer, want, task.rtol, task.atol).any())


# The tasks' own declarations.


def test_suite_has_over_twenty_tasks_in_several_families_under_their_own_names():
    assert len(SUITE) >= 20
    assert len({task.family for task in SUITE.values()}) >= 6
    assert all(name == task.name for name, task in SUITE.items())


def test_prompt_is_short_and_names_every_param(task):
    words = set("".join(c if c.isalnum() else " " for c in task.text).split())
    assert {p.name for p in task.params} <= words
    assert len(task.text.splitlines()) <= 3
    assert max(map(len, task.text.splitlines())) <= 120


def test_shapes_give_every_scalar_and_check_shapes_stay_small(task):
    names = {p.name for p in task.params_with("scalar")}
    for scalars in (*shapes(task), task.timing_shape):
        assert set(scalars) == names
    assert len(task.public_shapes) >= 2
    assert len(task.hidden_shapes) >= 2
    assert not any(public == hidden for public in task.public_shapes for hidden in task.hidden_shapes)
    for scalars in shapes(task):
        assert all(0 < math.prod(concrete_shape(p, scalars)) <= 4096 for p in task.params)


def test_inputs_and_outputs_have_the_declared_shapes_and_are_finite(task):
    (output,) = task.params_with("out")
    for scalars, _, inputs, want in checks(task.name):
        assert list(inputs) == [p.name for p in task.params_with("in")]
        for param in task.params_with("in"):
            assert inputs[param.name].dtype == NUMPY_DTYPES[param.dtype]
            assert inputs[param.name].shape == concrete_shape(param, scalars)
        assert want.shape == concrete_shape(output, scalars)
        assert np.isfinite(want).all()


def test_same_seed_gives_same_inputs_and_another_seed_other_inputs(task):
    def drawn(seed):
        inputs = task.inputs("signed", task.public_shapes[1], np.random.default_rng(seed))
        return np.concatenate([x.ravel() for x in inputs.values()])

    assert np.array_equal(drawn(0), drawn(0))
    assert not np.array_equal(drawn(0), drawn(1))


def test_min_bytes_is_each_buffer_moved_once(task):
    scalars = {name: x for name, x in task.timing_shape.items() if isinstance(x, int)}
    buffers = [p for p in task.params if p.role != "scalar"]
    total = sum(math.prod(concrete_shape(p, scalars)) * NUMPY_DTYPES[p.dtype].itemsize for p in buffers)
    if task.name == "gather_rows":  # not every entry of the table is needed
        assert evaluate(task.min_bytes, scalars) < total
    else:
        assert evaluate(task.min_bytes, scalars) == total
    assert evaluate(task.min_ops, scalars) >= 0


def test_timing_shape_is_large_but_within_32_bit_indices(task):
    counts = [math.prod(concrete_shape(p, task.timing_shape)) for p in task.params if p.role != "scalar"]
    assert 2**20 <= max(counts) < 2**31


def test_baseline_launches_are_planned_at_every_shape(task):
    answer = parse_answer(task.baseline, task)
    for scalars in (*shapes(task), task.timing_shape):
        scratch_sizes(answer, scalars)
        for launch in answer.launches:
            if launch.args is None:
                sizes = tuple(8 if p.role != "scalar" else NUMPY_DTYPES[p.dtype].itemsize for p in task.params)
                assert plan(answer, task, scalars, {launch.kernel: sizes})[0].threads > 0


# References against plain Python. Each takes the inputs as nested lists and the scalars, all by name.


def _gelu(v):
    return 0.5 * v * (1 + math.tanh(0.7978845608 * (v + 0.044715 * v**3)))


def _sigmoid(v):
    return 1 / (1 + math.exp(-v)) if v > -700 else 0.0


def _hash(v):
    for _ in range(2):
        v = (v ^ (v >> 16)) * 0x45D9F3B % 2**32
    return v ^ (v >> 16)


def _dot(u, v):
    return math.fsum(p * q for p, q in zip(u, v, strict=True))


def _columns(x):
    return [list(column) for column in zip(*x, strict=True)]


def _softmax(row):
    weights = [math.exp(v - max(row)) for v in row]
    return [w / math.fsum(weights) for w in weights]


def _log_sum_exp(row):
    return max(row) + math.log(math.fsum(math.exp(v - max(row)) for v in row))


def _layer_norm(row, weight, bias):
    mean = math.fsum(row) / len(row)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in row) / len(row) + 1e-5)
    return [(v - mean) / deviation * w + b for v, w, b in zip(row, weight, bias, strict=True)]


def _rms_norm(row, weight):
    scale = math.sqrt(_dot(row, row) / len(row) + 1e-5)
    return [v / scale * w for v, w in zip(row, weight, strict=True)]


def _attended(query, keys, values, divisor):
    weights = _softmax([_dot(query, key) / divisor for key in keys])
    return [_dot(weights, column) for column in _columns(values)]


def _pooled(x, r, c):
    return max(x[2 * r][2 * c], x[2 * r][2 * c + 1], x[2 * r + 1][2 * c], x[2 * r + 1][2 * c + 1])


PLAIN_PYTHON = {
    "relu": lambda x, n: [v if v > 0 else 0.0 for v in x],
    "gelu": lambda x, n: [_gelu(v) for v in x],
    "silu": lambda x, n: [v * _sigmoid(v) for v in x],
    "swiglu": lambda x, gate, n: [v * g * _sigmoid(g) for v, g in zip(x, gate, strict=True)],
    "saxpy": lambda x, z, a, n: [a * x[i] + z[i] for i in range(n)],
    "clamp": lambda x, low, high, n: [sorted((low, v, high))[1] for v in x],
    "floor_mod": lambda x, m, n: [v % m for v in x],
    "hash32": lambda x, n: [_hash(v) for v in x],
    "bias_add": lambda x, bias, rows, cols: [[x[r][c] + bias[c] for c in range(cols)] for r in range(rows)],
    "scale_rows": lambda x, scale, rows, cols: [[v * scale[r] for v in x[r]] for r in range(rows)],
    "outer_product": lambda u, v, rows, cols: [[p * q for q in v] for p in u],
    "affine_columns": lambda x, scale, shift, rows, cols: [
        [x[r][c] * scale[c] + shift[c] for c in range(cols)] for r in range(rows)
    ],
    "bias_gelu_residual": lambda x, bias, residual, rows, cols: [
        [_gelu(x[r][c] + bias[c]) + residual[r][c] for c in range(cols)] for r in range(rows)
    ],
    "transpose": lambda x, rows, cols: _columns(x),
    "reverse_rows": lambda x, rows, cols: [list(reversed(row)) for row in x],
    "gather_rows": lambda table, index, entries, rows, cols: [table[i] for i in index],
    "row_sum": lambda x, rows, cols: [math.fsum(row) for row in x],
    "row_mean": lambda x, rows, cols: [math.fsum(row) / cols for row in x],
    "row_max": lambda x, rows, cols: [max(row) for row in x],
    "row_argmax": lambda x, rows, cols: [row.index(max(row)) for row in x],
    "row_l2_norm": lambda x, rows, cols: [math.hypot(*row) for row in x],
    "row_logsumexp": lambda x, rows, cols: [_log_sum_exp(row) for row in x],
    "column_sum": lambda x, rows, cols: [math.fsum(column) for column in _columns(x)],
    "dot_product": lambda u, v, n: [_dot(u, v)],
    "mean_squared_error": lambda u, v, n: [math.dist(u, v) ** 2 / n],
    "histogram": lambda x, n, bins: [x.count(b) for b in range(bins)],
    "softmax": lambda x, rows, cols: [_softmax(row) for row in x],
    "log_softmax": lambda x, rows, cols: [[v - _log_sum_exp(row) for v in row] for row in x],
    "rms_norm": lambda x, weight, rows, cols: [_rms_norm(row, weight) for row in x],
    "layer_norm": lambda x, weight, bias, rows, cols: [_layer_norm(row, weight, bias) for row in x],
    "l2_normalize": lambda x, rows, cols: [[v / max(math.hypot(*row), 1e-6) for v in row] for row in x],
    "row_cumsum": lambda x, rows, cols: [[math.fsum(row[: c + 1]) for c in range(cols)] for row in x],
    "exclusive_scan": lambda x, n: [sum(x[:i]) % 2**32 for i in range(n)],
    "conv1d": lambda x, weight, n, taps: [_dot(x[i : i + taps], weight) for i in range(n - taps + 1)],
    "max_pool_2d": lambda x, rows, cols: [[_pooled(x, r, c) for c in range(cols // 2)] for r in range(rows // 2)],
    "matmul": lambda a, b, m, n, k: [[_dot(row, column) for column in _columns(b)] for row in a],
    "matmul_transposed": lambda a, b, m, n, k: [[_dot(row, column) for column in b] for row in a],
    "linear_relu": lambda a, b, bias, m, n, k: [
        [max(0.0, bias[j] + _dot(row, column)) for j, column in enumerate(_columns(b))] for row in a
    ],
    "matvec": lambda a, x, rows, cols: [_dot(row, x) for row in a],
    "causal_attention": lambda q, k, v, length, dim: [
        _attended(q[i], k[: i + 1], v[: i + 1], math.sqrt(dim)) for i in range(length)
    ],
}


def test_reference_agrees_with_plain_python(task):
    scalars = min(task.public_shapes, key=lambda s: sum(v for v in s.values() if isinstance(v, int)))
    for regime in task.regimes:
        inputs = task.inputs(regime, scalars, np.random.default_rng(3))
        want = PLAIN_PYTHON[task.name](**{name: x.tolist() for name, x in inputs.items()}, **scalars)
        np.testing.assert_allclose(evaluated(task, inputs, scalars), want, rtol=1e-12, atol=1e-9)


def test_reference_runs_on_jax_arrays(task):
    scalars = task.public_shapes[0]
    inputs = task.inputs("signed", scalars, np.random.default_rng(4))
    on_jax = task.reference(jnp, **{name: jnp.asarray(x) for name, x in inputs.items()}, **scalars)
    assert not caught(task, on_jax, evaluated(task, inputs, scalars))


# Tolerances: a straightforward f32 answer passes with room to spare, a wrong one fails.


@pytest.mark.parametrize("name", FLOAT_TASKS)
def test_f32_evaluation_stays_within_a_quarter_of_the_tolerance(name):
    task = SUITE[name]
    for scalars, regime, inputs, want in checks(name):
        with np.errstate(all="ignore"):
            error = np.abs(evaluated(task, inputs, scalars, np.float32) - want)
        assert (error <= 0.25 * (task.atol + task.rtol * np.abs(want))).all(), (scalars, regime)


MUTANTS = {
    "zeros": np.zeros_like,
    "negated": np.negative,
    "one_percent_too_large": lambda want: want * 1.01,
    "last_element_zero": lambda want: np.append(want.ravel()[:-1], 0).reshape(want.shape),
    # Of one element, these give the answer itself:
    "constant_mean": lambda want: np.full_like(want, want.mean()),
    "reversed": lambda want: want.ravel()[::-1].reshape(want.shape),
    "second_half_zero": lambda want: np.where(np.arange(want.size).reshape(want.shape) < want.size / 2, want, 0),
}
PER_ELEMENT_MUTANTS = ("zeros", "negated", "one_percent_too_large", "last_element_zero")
MUTATED = [
    (name, mutant)
    for name, task in SUITE.items()
    for mutant in (PER_ELEMENT_MUTANTS if task.params_with("out")[0].shape == ("1",) else MUTANTS)
]


@pytest.mark.parametrize(("name", "mutant"), MUTATED)
def test_wrong_answers_are_outside_the_tolerance(name, mutant):
    assert any(caught(SUITE[name], MUTANTS[mutant](check.want), check.want) for check in checks(name))


@pytest.mark.parametrize("name", FLOAT_TASKS)
def test_nan_answers_are_always_outside_the_tolerance(name):
    for check in checks(name):
        assert caught(SUITE[name], np.full_like(check.want, np.nan), check.want)


def test_zeroing_negative_outputs_is_outside_the_tolerance_where_there_are_any(task):
    wants = [check.want for check in checks(task.name)]
    if any((want < 0).any() for want in wants):
        assert any(caught(task, np.maximum(want, 0), want) for want in wants)


def test_copying_an_input_is_outside_the_tolerance(task):
    for param in task.params_with("in"):
        assert any(
            caught(task, np.resize(check.inputs[param.name], check.want.shape), check.want)
            for check in checks(task.name)
        )


@pytest.mark.parametrize("name", FLOAT_TASKS)
def test_half_precision_is_outside_the_tolerance_in_signed_and_wide_checks(name):
    task = SUITE[name]
    for tested in ("signed", "wide"):
        wrong = []
        for scalars, regime, inputs, want in checks(name):
            if regime == tested:
                half = {k: x.astype(np.float16) if x.dtype.kind == "f" else x for k, x in inputs.items()}
                with np.errstate(over="ignore"):
                    answer = evaluated(task, half, scalars).astype(np.float16)
                wrong.append(caught(task, answer, want))
        assert any(wrong)


def test_ignoring_half_of_any_input_is_outside_the_tolerance(task):
    for param in task.params_with("in"):
        wrong = []
        for scalars, _, inputs, want in checks(task.name):
            partial = inputs[param.name].copy()
            partial[..., partial.shape[-1] // 2 :] = 0
            answer = evaluated(task, {**inputs, param.name: partial}, scalars)
            wrong.append(caught(task, answer, want))
        assert any(wrong), param.name


# Kernels on the emulator.

SETTINGS = Settings(
    device="emulator",
    compile_seconds=20.0,
    run_seconds=30.0,
    instructions_per_thread=100_000,
    threads_per_check=1 << 20,
    checks=4,
    seed=0,
)


def test_baseline_is_correct_within_a_quarter_of_the_tolerance(task):
    strict = dataclasses.replace(task, rtol=task.rtol / 4, atol=task.atol / 4)
    verdict = verify(strict, task.baseline, SETTINGS)
    assert verdict.passed, verdict
    assert verdict.checks_passed == verdict.checks_total >= 4


COMMON_MISTAKES = [
    ("relu", "fmaxf(x[i], 0.0f)", "x[i]"),
    ("floor_mod", "((x[i] % m) + m) % m", "x[i] % m"),
    ("transpose", "c * rows + r", "r * cols + c"),
    ("row_mean", "value / cols", "value"),
    ("row_argmax", "row[c] > best", "row[c] >= best"),
    ("softmax", "[c] - largest", "[c]"),
    ("layer_norm", "block_sum(squares) / cols", "block_sum(squares) / (cols - 1)"),
    ("row_cumsum", "carry +=", "carry ="),
    ("exclusive_scan", "values[t] - own", "values[t]"),
    ("histogram", "counts[bin] = 0", "counts[bin] = counts[bin]"),
    ("matmul", "p < k", "p < k - 1"),
    ("causal_attention", "j <= i", "j < length"),
]


@pytest.mark.parametrize(("name", "right", "wrong"), COMMON_MISTAKES)
def test_common_mistake_is_not_correct(name, right, wrong):
    assert right in SUITE[name].baseline
    answer = SUITE[name].baseline.replace(right, wrong)
    assert verify(SUITE[name], answer, SETTINGS).outcome in (Outcome.INCORRECT, Outcome.RUNTIME_ERROR)


# Regimes and the catalogue.


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("regime", ["signed", "wide", "zero", "special"])
def test_regimes_keep_to_their_description(regime, dtype):
    values = regime_values(regime, (64, 65), dtype, np.random.default_rng(0))
    assert values.dtype == NUMPY_DTYPES[dtype]
    assert values.shape == (64, 65)
    assert values.any() == (regime != "zero")
    if values.dtype.kind == "f":
        assert np.isfinite(values).all()
        if regime == "signed":
            assert abs(values.std() - 2) < 0.1
        if regime == "wide":
            assert np.abs(values).min() >= 0.99e-3
            assert np.abs(values).max() <= 30.01
        if regime == "special":
            assert {1.0, -1.0, 1e4, -1e4} <= set(values.ravel().tolist())
            assert {True, False} == set(np.signbit(values[values == 0]).tolist())
    else:
        info = np.iinfo(values.dtype)
        if regime == "signed":
            assert values.max() <= 200
        if regime == "wide":
            assert values.max() > info.max / 2
        if regime == "special":
            assert {int(info.min), int(info.max)} <= set(values.ravel().tolist())


def test_special_values_respect_the_bound_for_sums():
    values = regime_values("special", (4096,), "f32", np.random.default_rng(0), largest=16.0)
    assert np.abs(values).max() == 16.0


def test_unknown_regime_is_refused():
    for dtype in ("f32", "i32"):
        with pytest.raises(ValueError, match="unknown regime 'loud'"):
            regime_values("loud", (3,), dtype, np.random.default_rng(0))


def test_input_generator_draws_every_input_at_its_shape():
    task = SUITE["layer_norm"]
    inputs = input_generator(task.params)("signed", {"rows": 3, "cols": 5}, np.random.default_rng(0))
    assert {name: x.shape for name, x in inputs.items()} == {"x": (3, 5), "weight": (5,), "bias": (5,)}


def test_load_task_finds_suite_and_composed_tasks_and_paths():
    assert load_task("softmax") is SUITE["softmax"]
    assert load_task("composed/7").name == "composed/7"
    assert load_task(f"{__name__}:EXAMPLE") is EXAMPLE


@pytest.mark.parametrize("name", ["sofmax", "composed/", "composed/x1", "nowhere_at_all:task", "math:nothing"])
def test_load_task_says_what_is_not_there(name):
    with pytest.raises(KeyError, match=name):
        load_task(name)


def test_load_task_refuses_a_path_to_something_else():
    with pytest.raises(TypeError, match="not a Task"):
        load_task("math:pi")
