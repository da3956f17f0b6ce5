"""Composed tasks: pure, fair, disjoint between the splits, and right."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from leap_jax.kernels import generator
from leap_jax.kernels.answer import parse_answer
from leap_jax.kernels.composition import Composition, evaluate
from leap_jax.kernels.expressions import evaluate as evaluate_expression
from leap_jax.kernels.generator import compose, composed_task, seeds, split, structure
from leap_jax.kernels.operations import BINARY, NORMALISATIONS, REDUCTIONS, UNARY
from leap_jax.kernels.regimes import concrete_shape
from leap_jax.kernels.styles import answers, baseline

SEEDS = range(600)

# An independent reading of the prompts: each phrase as a Python function of one number.
PLAIN = {
    "negate": lambda v: -v,
    "abs": abs,
    "square": lambda v: v**2,
    "cube": lambda v: v**3,
    "sqrt of abs": lambda v: abs(v) ** 0.5,
    "log1p of abs": lambda v: math.log(1 + abs(v)),
    "exp": math.exp,
    "gaussian": lambda v: math.exp(-(v**2)),
    "reciprocal of 1 + square": lambda v: (1 + v**2) ** -1,
    "sin": math.sin,
    "cos": math.cos,
    "atan": math.atan,
    "tanh": math.tanh,
    "sigmoid": lambda v: 0.5 + 0.5 * math.tanh(v / 2),
    "log sigmoid": lambda v: -math.log(1 + math.exp(-v)),
    "softplus": lambda v: math.log(1 + math.exp(v)),
    "softsign": lambda v: v / (abs(v) + 1),
    "relu": lambda v: v if v > 0 else 0,
    "relu6": lambda v: min(max(v, 0), 6),
    "relu squared": lambda v: v**2 if v > 0 else 0,
    "elu": lambda v: v if v > 0 else math.exp(v) - 1,
    "silu": lambda v: v * (0.5 + 0.5 * math.tanh(v / 2)),
    "gelu (tanh)": lambda v: v / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
    "quick gelu": lambda v: v * (0.5 + 0.5 * math.tanh(1.702 * v / 2)),
    "mish": lambda v: v * math.tanh(math.log(1 + math.exp(v))),
    "hardtanh": lambda v: sorted((-1, v, 1))[1],
    "hardsigmoid": lambda v: sorted((0, (v + 3) / 6, 1))[1],
    "hardswish": lambda v: v * sorted((0, (v + 3) / 6, 1))[1],
    "tanhshrink": lambda v: v - math.tanh(v),
    "step": lambda v: int(v > 0),
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round to even": round,
    "bitwise not": lambda v: -v - 1,
    "popcount": lambda v: (v & 0xFFFFFFFF).bit_count(),
}
WITH_CONSTANT = {
    "plus": lambda v, c: v + c,
    "minus": lambda v, c: v - c,
    "subtract from": lambda v, c: c - v,
    "times": lambda v, c: v * c,
    "at least": max,
    "at most": min,
    "clamp to": lambda v, c: max(min(v, c), -c),
    "leaky relu": lambda v, c: v if v > 0 else v * c,
    "softshrink": lambda v, c: v - c if v > c else v + c if v < -c else 0,
    "hardshrink": lambda v, c: v if abs(v) > c else 0,
    "xor": lambda v, c: v ^ c,
    "and": lambda v, c: v & c,
    "or": lambda v, c: v | c,
    "shift left": lambda v, c: v * 2**c,
    "shift right": lambda v, c: math.floor(v / 2**c),
}
WITH_Y = {
    "add y": lambda v, y: v + y,
    "subtract y": lambda v, y: v - y,
    "subtract from y": lambda v, y: y - v,
    "multiply by y": lambda v, y: v * y,
    "divide by 1 + abs y": lambda v, y: v / (1 + abs(y)),
    "max with y": max,
    "min with y": min,
    "mean with y": lambda v, y: (v + y) / 2,
    "distance to y": lambda v, y: abs(y - v),
    "squared error to y": lambda v, y: (y - v) ** 2,
    "hypot with y": math.hypot,
    "gate by relu of y": lambda v, y: v * max(y, 0),
    "gate by sigmoid of y": lambda v, y: v * (0.5 + 0.5 * math.tanh(y / 2)),
    "xor y": lambda v, y: v ^ y,
    "and y": lambda v, y: v & y,
    "or y": lambda v, y: v | y,
}
ALONG_ROW = {
    "row sum": lambda r: [sum(r)],
    "row mean": lambda r: [sum(r) / len(r)],
    "row max": lambda r: [max(r)],
    "row min": lambda r: [min(r)],
    "row max abs": lambda r: [max(map(abs, r))],
    "row l1 norm": lambda r: [sum(map(abs, r))],
    "row l2 norm": lambda r: [math.hypot(*r)],
    "row mean square": lambda r: [sum(v * v for v in r) / len(r)],
    "softmax": lambda r: [1 / sum(math.exp(w - v) for w in r) for v in r],
    "log softmax": lambda r: [-math.log(sum(math.exp(w - v) for w in r)) for v in r],
    "layernorm (eps 1e-5)": lambda r: [(v - sum(r) / len(r)) / math.sqrt(np.var(r) + 1e-5) for v in r],
    "rmsnorm (eps 1e-5)": lambda r: [v / math.sqrt(np.mean(np.square(r)) + 1e-5) for v in r],
    "l2 normalize (eps 1e-5)": lambda r: [v / math.sqrt(np.sum(np.square(r)) + 1e-5) for v in r],
    "minus row mean": lambda r: [v - sum(r) / len(r) for v in r],
    "minus row max": lambda r: [v - max(r) for v in r],
    "minus row min": lambda r: [v - min(r) for v in r],
}


def follow(prompt: str, row: list, y: list) -> list:
    """What a prompt asks for, for one row of x and the row of y beside it."""
    number = int if "const int*" in prompt else float
    for phrase in prompt[prompt.index("order: ") + 7 : prompt.index("\n") - 1].split(", "):
        phrase = phrase.partition(") ")[2]
        name, _, constant = phrase.rpartition(" ")
        if phrase in ALONG_ROW:
            row = ALONG_ROW[phrase](row)
        elif phrase in WITH_Y:
            row = [WITH_Y[phrase](v, w) for v, w in zip(row, y, strict=True)]
        elif phrase in PLAIN:
            row = [PLAIN[phrase](v) for v in row]
        else:
            row = [WITH_CONSTANT[name](v, number(constant.removeprefix("+-"))) for v in row]
    return row


def dims(composition: Composition) -> dict[str, int]:
    return {"rows": 3, "cols": 5} if composition.matrix else {"n": 5}


@pytest.mark.parametrize("start", range(0, 400, 50))
def test_references_do_what_the_prompts_say(start: int) -> None:
    for seed in range(start, start + 50):
        composition = compose(seed)
        task = composed_task(composition)
        scalars = dims(composition)
        inputs = task.inputs("signed", scalars, np.random.default_rng(seed))
        values = {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in inputs.items()}
        got = np.atleast_2d(task.reference(np, **values, **scalars))
        rows = np.atleast_2d(values["x"])
        ys = np.broadcast_to(values.get("y", 0), rows.shape)
        want = [follow(task.prompt(), x.tolist(), y.tolist()) for x, y in zip(rows, ys, strict=True)]
        np.testing.assert_allclose(got, np.reshape(want, got.shape), rtol=1e-9, atol=1e-12, err_msg=task.text)


def test_the_interpreter_knows_every_operation() -> None:
    known = PLAIN.keys() | WITH_Y.keys() | ALONG_ROW.keys()
    known |= {f"{name} +-{{a}}" for name in WITH_CONSTANT} | {f"{name} {{a}}" for name in WITH_CONSTANT}
    for tables in (UNARY, BINARY, REDUCTIONS, NORMALISATIONS):
        assert {op.phrase for table in tables.values() for op in table} <= known


def test_tables_are_large_and_names_unique() -> None:
    assert len(UNARY["f32"]) >= 25 and len(BINARY["f32"]) >= 8
    for dtype in ("f32", "i32"):
        operations = UNARY[dtype] + BINARY[dtype] + REDUCTIONS[dtype] + NORMALISATIONS[dtype]
        assert len({op.name for op in operations}) == len({op.phrase for op in operations}) == len(operations)


def test_a_composition_is_a_pure_function_of_its_seed() -> None:
    program = (
        "from leap_jax.kernels.generator import *\n"
        "print([composed_task(compose(s)).prompt() for s in range(39, -1, -1)], seeds('heldout', 9, 5))"
    )
    elsewhere = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    here = [composed_task(compose(s)).prompt() for s in range(39, -1, -1)]
    assert elsewhere.stdout.strip() == f"{here} {seeds('heldout', 9, 5)}"


def test_splits_share_no_structure() -> None:
    structures = {"train": set(), "heldout": set()}
    for seed in range(1500):
        structures[split(seed)].add(structure(compose(seed)))
    assert not structures["train"] & structures["heldout"]
    assert len(structures["train"]) > 800 and len(structures["heldout"]) > 200
    share = len(structures["heldout"]) / sum(map(len, structures.values()))
    assert share == pytest.approx(generator.HELDOUT_SHARE, abs=0.04)


def test_a_structure_forgets_order_constants_and_shapes() -> None:
    plus, times = (next(op for op in UNARY["f32"] if op.name == name) for name in ("plus", "times"))
    a = Composition(0, "f32", False, "none", (generator.Step(plus, "2"), generator.Step(times, "3")))
    b = Composition(1, "f32", True, "none", (generator.Step(times, "0.5"), generator.Step(plus, "1")))
    assert structure(a) == structure(b) == ("plus", "times")


def test_seeds_are_the_first_of_their_split() -> None:
    train, heldout = seeds("train", 40, start=100), seeds("heldout", 10, start=100)
    assert train == [s for s in range(100, train[-1] + 1) if split(s) == "train"]
    assert heldout == [s for s in range(100, heldout[-1] + 1) if split(s) == "heldout"]
    with pytest.raises(ValueError, match="unknown split"):
        seeds("test", 1)


def test_the_mix_has_every_kind_and_level() -> None:
    compositions = [compose(seed) for seed in SEEDS]
    assert {c.level for c in compositions} == {1, 2, 3, 4}
    assert {c.dtype for c in compositions} == {"f32", "i32"}
    assert {c.second for c in compositions} == {"none", "same", "column"}
    rows = [c for c in compositions if c.row]
    assert 0.2 < len(rows) / len(compositions) < 0.6
    assert any(c.reduces for c in rows) and any(not c.reduces for c in rows)
    assert any(c.matrix and not c.row for c in compositions) and any(not c.matrix for c in compositions)


def test_prompts_are_short_and_complete() -> None:
    for seed in SEEDS:
        composition = compose(seed)
        task = composed_task(composition)
        assert len(task.prompt()) <= 230
        for step in composition.steps:
            assert step.phrase in task.text
        assert composition.row is None or composition.row.phrase in task.text
        assert task.prompt().endswith(task.signature())
        assert ("y (" in task.text) == (composition.second != "none")


def test_tasks_are_consistent() -> None:
    for seed in range(100):
        composition = compose(seed)
        task = composed_task(composition)
        assert task.baseline == baseline(composition)
        (out,) = task.params_with("out")
        for scalars in (*task.public_shapes, *task.hidden_shapes):
            for regime in task.regimes:
                inputs = task.inputs(regime, scalars, np.random.default_rng(seed))
                for param in task.params_with("in"):
                    assert inputs[param.name].shape == concrete_shape(param, scalars)
                with np.errstate(all="ignore"):
                    result = task.reference(np, **inputs, **scalars)
                assert result.shape == concrete_shape(out, scalars)
                assert result.dtype == inputs["x"].dtype
            moved = sum(math.prod(concrete_shape(p, scalars)) for p in task.params if p.role != "scalar")
            assert evaluate_expression(task.min_bytes, scalars) == 4 * moved
            assert evaluate_expression(task.min_ops, scalars) >= 1


def test_compositions_are_well_conditioned_on_new_inputs() -> None:
    """f32 arithmetic in the order of a loop is right on values the generator did not judge by, bar a rare tail."""
    wrong = []
    for seed in range(300):
        task = composed_task(compose(seed))
        for i, scalars in enumerate((*task.public_shapes, *task.hidden_shapes)):
            inputs = task.inputs(task.regimes[(seed + i) % 4], scalars, np.random.default_rng(seed))
            wide = {n: a.astype("f8" if a.dtype.kind == "f" else "i8") for n, a in inputs.items()}
            with np.errstate(all="ignore"):
                got = task.reference(generator.SERIAL, **inputs, **scalars)
                want = task.reference(np, **wide, **scalars)
            if generator.wrong_elements(got, want, task.rtol, task.atol).any():
                wrong.append(task.text)
    assert len(wrong) <= 2, wrong


def test_unfair_compositions_are_refused() -> None:
    by_name = {op.name: op for op in UNARY["f32"]}

    def chain(*names: str) -> Composition:
        return Composition(0, "f32", False, "none", tuple(generator.Step(by_name[name]) for name in names))

    assert generator.well_conditioned(chain("tanh", "exp"))
    assert not generator.well_conditioned(chain("cube", "exp"))  # overflows for ordinary inputs
    assert not generator.well_conditioned(chain("abs", "relu"))  # the second operation does nothing
    assert not generator.well_conditioned(chain("negate", "negate"))  # the identity
    assert not generator.well_conditioned(chain("cube", "sin"))  # f32 loses the angle


def test_every_composition_has_four_different_answers() -> None:
    for seed in SEEDS:
        composition = compose(seed)
        responses = answers(composition)
        assert len(responses) >= 4 and len(set(responses.values())) == len(responses)
        task = composed_task(composition)
        for response in responses.values():
            assert response.startswith("```cuda\n// launch: ") and response.endswith("\n```")
            answer = parse_answer(response, task)
            assert len(answer.launches) == 1
            assert f"__global__ {task.signature()}" in answer.source


def test_evaluate_keeps_the_dtype_of_its_input() -> None:
    for seed in SEEDS:
        composition = compose(seed)
        inputs = {
            name: values.astype("f4" if values.dtype.kind == "f" else "i4")
            for name, values in generator.sample(composition).items()
        }
        with np.errstate(all="ignore"):
            assert evaluate(composition, np, **inputs).dtype == inputs["x"].dtype
