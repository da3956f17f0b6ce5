"""Tolerances, special values and the tags of mismatches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.kernels.comparison import compare, shown, wrong_elements

INF, NAN = np.inf, np.nan
FLOAT_MAX = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("got", "want", "wrong"),
    [
        (1.0, 1.0, False),
        (1.001, 1.0, False),
        (1.2, 1.0, True),
        (0.01, 0.0, False),
        (0.2, 0.0, True),
        (NAN, NAN, False),
        (NAN, 1.0, True),
        (1.0, NAN, True),
        (INF, INF, False),
        (-INF, INF, True),
        (INF, FLOAT_MAX, True),
        (FLOAT_MAX, INF, True),
        (INF, 1e300, False),
        (-INF, -1e39, False),
        (FLOAT_MAX, 1e300, True),
        (-0.0, 0.0, False),
    ],
)
def test_one_float(got, want, wrong):
    assert wrong_elements(np.float32([got]), np.array([want]), rtol=0.01, atol=0.05).item() is wrong


def test_f64_outputs_keep_their_range():
    assert not wrong_elements(np.array([1e300]), np.array([1e300]), 1e-6, 0.0).any()
    assert wrong_elements(np.array([INF]), np.array([1e300]), 1e-6, 0.0).all()


def test_integers_are_exact():
    got = np.array([1, 2, 2**31 - 1], np.int32)
    assert wrong_elements(got, np.array([1, 3, 2**31 - 1], np.int32), 1.0, 100.0).tolist() == [0, 1, 0]


@settings(max_examples=50, deadline=None)
@given(st.floats(width=32), st.floats(width=32))
def test_is_the_negated_inequality(got, want):
    wrong = wrong_elements(np.float32([got]), np.array([want]), 1e-4, 1e-5).item()
    if np.isfinite(got) and np.isfinite(want):
        assert wrong == (not abs(got - want) <= 1e-5 + 1e-4 * abs(want))
    else:
        assert wrong == (not (got == want or (np.isnan(got) and np.isnan(want))))


def _mismatch(got, want, defined=None):
    got = np.asarray(got)
    defined = np.ones(got.shape, bool) if defined is None else defined
    options = {"rtol": 1e-4, "atol": 1e-5, "shape": {"n": got.size}, "regime": "signed", "public": True}
    return compare("y", got, np.asarray(want), defined, **options)


WANT = np.random.default_rng(0).normal(size=(16, 16))


def _with(index, value):
    got = WANT.astype(np.float32)
    got[index] = value
    return got


@pytest.mark.parametrize(
    ("pattern", "got"),
    [
        ("all_zero", np.zeros((16, 16), np.float32)),
        ("all_nan", np.full((16, 16), NAN, np.float32)),
        ("last_tile", _with(slice(14, 16), 9.0)),
        ("last_tile", _with((15, 15), 9.0)),
        ("first_block_only", _with(slice(2, 16), 0.0)),
        ("transposed", WANT.T.astype(np.float32)),
        ("shifted", np.roll(WANT.ravel(), 1).reshape(16, 16).astype(np.float32)),
        ("shifted", np.roll(WANT.ravel(), -1).reshape(16, 16).astype(np.float32)),
        ("constant_offset", (WANT + 3.0).astype(np.float32)),
        ("scaled", (WANT * -0.5).astype(np.float32)),
        ("some", np.abs(WANT).astype(np.float32)),
        ("some", _with((0, 0), 9.0)),
    ],
)
def test_patterns(pattern, got):
    assert _mismatch(got, WANT).pattern == pattern


def test_a_rectangle_written_in_the_other_order_is_transposed():
    want = np.arange(12.0).reshape(3, 4)
    assert _mismatch(want.T.reshape(3, 4).astype(np.float32), want).pattern == "transposed"


def test_unwritten_elements_are_wrong_whatever_they_hold():
    got = WANT.astype(np.float32)
    assert _mismatch(got, WANT) is None
    nothing = _mismatch(got, WANT, np.zeros(got.shape, bool))
    assert (nothing.pattern, nothing.wrong, nothing.got) == ("untouched", 256, "unwritten")
    head = np.arange(256).reshape(16, 16) < 224
    tail = _mismatch(got, WANT, head)
    assert (tail.pattern, tail.wrong, tail.index, tail.got) == ("last_tile", 32, (14, 0), "unwritten")


def test_the_report():
    found = _mismatch(_with((3, 5), 9.25), WANT)
    assert (found.output, found.wrong, found.total, found.index) == ("y", 1, 256, (3, 5))
    assert (found.got, found.want) == ("9.25", shown(WANT[3, 5]))
    assert (found.shape, found.regime, found.public) == ({"n": 256}, "signed", True)


def test_integer_patterns_and_values():
    want = np.arange(1, 9, dtype=np.int32)
    assert _mismatch(want * 3, want).pattern == "scaled"
    assert _mismatch(want + 3, want).pattern == "constant_offset"
    assert _mismatch(want * 3, want).got == "3"


def test_a_size_of_one_has_no_pattern_of_position():
    assert _mismatch(np.float32([2.0]), np.array([1.0])).pattern == "some"
