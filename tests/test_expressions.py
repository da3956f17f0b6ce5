"""Expressions agree with Python's integers, and everything else is one clear error."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.kernels.expressions import MAX_CHARACTERS, ExpressionError, evaluate

SCALARS = {"n": 257, "rows": 3, "cols": 64}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        (" n ", 257),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 3 - 2", 5),
        ("n / 2", 128),
        ("n // 2", 128),
        ("n % 32", 1),
        ("-7 // 2", -4),
        ("2 * -3", -6),
        ("--5", 5),
        ("ceil_div(n, 256)", 2),
        ("ceil_div(256, 256)", 1),
        ("min(rows * cols, 1024)", 192),
        ("max(n, ceil_div(n, 2) * 3)", 387),
    ],
)
def test_values(text, value):
    assert evaluate(text, SCALARS) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a value expected, the end found"),
        ("n +", "a value expected"),
        ("m", "unknown name 'm'"),
        ("n n", "the end expected, 'n' found"),
        ("(n", "')' expected, the end found"),
        ("n)", "the end expected"),
        ("1 / 0", "division by zero"),
        ("n % (n - 257)", "division by zero"),
        ("ceil_div(n)", "ceil_div takes 2 values"),
        ("min(1, 2, 3)", "min takes 2 values"),
        ("2 ** 3", "a value expected"),
        ("1.5", "unexpected '.'"),
        ("__import__('os')", "unexpected"),
        ("n; m", "unexpected ';'"),
        ("9223372036854775808", "64 bits"),
        ("4294967296 * 4294967296", "64 bits"),
        ("1+" * MAX_CHARACTERS + "1", "longer than"),
        ("(" * 60 + "1" + ")" * 60, "nested deeper"),
        ("-" * 100 + "1", "nested deeper"),
        ("٣", "unexpected"),
    ],
)
def test_errors_are_one_line(text, words):
    with pytest.raises(ExpressionError) as caught:
        evaluate(text, SCALARS)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def _expressions():
    leaves = st.one_of(st.integers(0, 99).map(str), st.sampled_from(list(SCALARS)))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
            inner.map(lambda text: f"-{text}"),
        ),
        max_leaves=8,
    )


@settings(max_examples=60, deadline=None)
@given(_expressions())
def test_agrees_with_python(text):
    expected = eval(text, {"__builtins__": {}, "min": min, "max": max}, SCALARS)
    if len(text) <= MAX_CHARACTERS and abs(expected) < 2**63:
        assert evaluate(text, SCALARS) == expected


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="n0123 +-*/%(),minax_ceildv\n\0", max_size=40))
def test_any_text_is_a_value_or_an_expression_error(text):
    try:
        assert isinstance(evaluate(text, SCALARS), int)
    except ExpressionError as error:
        assert str(error)
