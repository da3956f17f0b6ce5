"""Statistics against worked examples, brute force over subsets and signs, and known distributions."""

from __future__ import annotations

import itertools
from math import nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax import statistics
from leap_jax.statistics import Curve, Ratio, interval, paired

# Three tasks of four rollouts, T = 3; the last rollout of each is invalid in the first two tasks.
PASSED_AT = np.array([[1, 2, 4, 1], [1, 1, 3, 4], [4, 4, 4, 4]])
VALID = np.array([[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]], bool)
EVERY = np.ones((1, 4), bool)


def test_accuracy_counts_valid_rollouts():
    assert [statistics.accuracy(PASSED_AT, VALID, t).value for t in (1, 2, 3)] == [3 / 10, 4 / 10, 5 / 10]
    assert statistics.accuracy(PASSED_AT, VALID, 1).of(np.array([True, False, True])).value == 1 / 7
    assert np.isnan(statistics.accuracy(PASSED_AT, np.zeros_like(VALID), 1).value)


def test_recovery_by_turn_class_and_task():
    assert statistics.recovery(PASSED_AT, VALID, 3).value == 2 / 7
    among = np.zeros_like(VALID)
    among[0] = among[1, 0] = True  # (1, 0) passed at once: it is no failure to recover from
    assert statistics.recovery(PASSED_AT, VALID, 3, among).value == 1 / 2
    assert statistics.turn_recovery(PASSED_AT, VALID, 2).value == 1 / 7
    assert statistics.turn_recovery(PASSED_AT, VALID, 3).value == 1 / 6
    assert statistics.rescued_tasks(PASSED_AT, VALID, 3).value == 2 / 3
    assert statistics.rescued_tasks(PASSED_AT, VALID, 2).value == 1 / 3
    assert statistics.rescued_tasks(PASSED_AT[:1], ~VALID[:1], 3).value == 0.0
    assert np.isnan(statistics.rescued_tasks(PASSED_AT, np.zeros_like(VALID), 3).value)


def test_cost_per_pass_counts_what_failures_and_unjudged_rollouts_cost():
    assert statistics.per_pass(np.full((3, 4), 2), PASSED_AT, VALID, 3).value == 24 / 5
    assert np.isnan(statistics.per_pass(np.ones((1, 4)), PASSED_AT[2:], VALID[2:], 3).value)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_best_of_k_is_the_mean_over_all_subsets(data):
    """Also with few distinct values, where it is pass@k, and with some rollouts invalid."""
    samples = data.draw(st.integers(1, 7))
    k = data.draw(st.integers(1, samples))
    rows = st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0, -2.0]), min_size=samples, max_size=samples)
    values = np.array(data.draw(st.lists(rows, min_size=1, max_size=3)))
    valid = np.array([data.draw(st.lists(st.booleans(), min_size=samples, max_size=samples)) for _ in values])
    found = statistics.expected_best(values, valid, k)
    for best, row, judged in zip(found, values, valid, strict=True):
        subsets = list(itertools.combinations(row[judged], k))
        assert best == pytest.approx(np.mean([max(s) for s in subsets]) if subsets else nan, nan_ok=True)


def test_pass_at_k_in_closed_form():
    found = statistics.pass_at_k(PASSED_AT, VALID, 2)
    assert found.value == pytest.approx(((1 - 1 / 3) + 1 + 0) / 3)  # 1 - C(2, 2) / C(3, 2), 1 - C(1, 2) / C(3, 2)
    assert statistics.pass_at_k(PASSED_AT, VALID, 4).denominator.tolist() == [0, 0, 1]
    assert statistics.pass_at_k(PASSED_AT, VALID, 2, turn=3).value == pytest.approx((1 + 1 + 0) / 3)
    many = np.where(np.arange(3000) < 30, 1, 4)[None]  # 1 - C(2970, 1500) / C(3000, 1500)
    assert statistics.pass_at_k(many, np.ones((1, 3000), bool), 1500).value == pytest.approx(1, abs=1e-8)
    assert statistics.pass_at_k(many, np.ones((1, 3000), bool), 1).value == pytest.approx(0.01)


def test_speedups_count_failures_and_leave_out_what_has_no_time():
    correct = np.array([[True, True, False, True]])
    time_us = np.array([[5.0, 20.0, nan, nan]])
    speedup = statistics.speedups(correct, time_us, np.array([10.0]))
    np.testing.assert_array_equal(speedup, [[2.0, 0.5, 0.0, nan]])
    assert [statistics.fast_p(speedup, EVERY, p).value for p in (0, 0.5, 1, 2)] == [2 / 3, 1 / 3, 1 / 3, 0]
    assert np.exp(statistics.log_speedup(speedup, EVERY).value) == pytest.approx((2 * 0.5 * 1) ** (1 / 3))
    assert np.exp(statistics.log_speedup(speedup, EVERY, failed=0.1).value) == pytest.approx(0.1 ** (1 / 3))
    assert np.exp(statistics.log_speedup(speedup, EVERY, failed=None).value) == pytest.approx(1.0)
    only_fast = np.array([[True, False, False, False]])
    assert np.exp(statistics.log_speedup(speedup, only_fast, failed=None).value) == pytest.approx(2.0)
    assert np.isnan(statistics.fast_p(np.full((1, 4), nan), EVERY, 1).value)


def test_the_interval_of_a_mean_has_its_standard_error():
    """For many tasks the bootstrap interval is value -+ 1.96 standard errors."""
    rates = np.random.default_rng(0).uniform(size=400)
    found = interval(Ratio(rates, np.ones(400)), draws=20_000)
    error = rates.std() / 20
    assert found.value == pytest.approx(rates.mean())
    assert found.low == pytest.approx(rates.mean() - 1.96 * error, abs=0.05 * error)
    assert found.high == pytest.approx(rates.mean() + 1.96 * error, abs=0.05 * error)


def test_the_interval_is_that_of_a_loop_over_resampled_tasks():
    rng = np.random.default_rng(1)
    ratio = Ratio(rng.integers(0, 4, 30), rng.integers(0, 6, 30))
    drawn = []
    for _ in range(20_000):
        tasks = rng.integers(0, 30, 30)
        drawn.append(ratio.numerator[tasks].sum() / ratio.denominator[tasks].sum())
    found = interval(ratio, draws=20_000, level=0.8)
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [0.1, 0.9]), rel=0.02)


def test_rollouts_of_a_task_stay_together():
    """Ten copies of every rollout say nothing new: the interval does not shrink."""
    passed_at = np.random.default_rng(2).integers(1, 4, (50, 1))
    one, ten = (np.repeat(passed_at, n, axis=1) for n in (1, 10))
    once, often = (interval(statistics.accuracy(p, np.ones_like(p, bool), 1)) for p in (one, ten))
    assert once == pytest.approx(often)
    assert once.high - once.low > 0.2


def test_intervals_and_tests_are_functions_of_the_seed():
    rng = np.random.default_rng(3)
    ratio, other = (Ratio(rng.uniform(size=40), np.ones(40)) for _ in range(2))
    assert interval(ratio, seed=5) == interval(ratio, seed=5) != interval(ratio, seed=6)
    one, same, another = (paired(ratio, other, seed=seed) for seed in (5, 5, 6))
    assert one == same
    assert one.low != another.low and one.p_value != another.p_value


def test_one_task_has_no_interval():
    for counts in ([1], [0, 3]):
        found = interval(Ratio(np.array(counts), np.array(counts)))
        assert found.value == 1.0 and np.isnan(found.low) and np.isnan(found.high)
    assert np.isnan(interval(Ratio(np.zeros(3), np.zeros(3)))).all()


def test_a_paired_difference_is_surer_than_its_parts():
    """Tasks differ much, the runs little: unpaired the intervals overlap, paired the difference is plain."""
    rng = np.random.default_rng(4)
    base = rng.uniform(size=100)
    ours, theirs = (Ratio(base + shift, np.ones(100)) for shift in (rng.uniform(0, 0.1, 100), 0.0))
    assert interval(theirs).high > interval(ours).low
    found = paired(ours, theirs)
    assert found.value == pytest.approx(interval(ours).value - interval(theirs).value)
    assert 0.04 < found.low < found.value < found.high < found.low + 0.015
    assert found.p_value == pytest.approx(1 / 10_001)
    assert (found.low, found.high) == interval(Ratio(ours.numerator - base, np.ones(100)))[1:]
    assert paired(theirs, ours).value == -found.value


def test_a_paired_difference_leaves_out_tasks_that_one_run_was_not_judged_on():
    ours = Ratio(np.array([2, 1, 4]), np.array([4, 4, 4]))
    theirs = Ratio(np.array([1, 0, 1]), np.array([4, 0, 2]))
    found = paired(ours, theirs)
    assert (found.value, found.tasks) == (pytest.approx((1 / 4 + 1 / 2) / 2), 2)
    with pytest.raises(ValueError, match="3 and 2 tasks"):
        paired(ours, Ratio(np.ones(2), np.ones(2)))


@given(st.lists(st.integers(-3, 3), max_size=9))
@settings(max_examples=60, deadline=None)
def test_the_permutation_test_is_exact_for_few_tasks(integers):
    differences = np.array(integers, float) / 10
    total = abs(sum(integers))
    sums = [
        abs(sum(s * d for s, d in zip(signs, integers, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(integers))
    ]
    expected = np.mean([s >= total for s in sums])
    assert statistics.sign_flip_p_value(differences) == pytest.approx(expected)


def test_the_random_permutation_test_agrees_with_the_exact_one():
    differences = np.random.default_rng(5).normal(0.4, 1.0, 13)
    exact = statistics.sign_flip_p_value(differences)  # 8192 assignments
    assert 0.02 < exact < 0.5
    assert statistics.sign_flip_p_value(differences, flips=8191) == pytest.approx(exact, abs=0.015)


def test_without_a_difference_one_test_in_ten_has_p_below_a_tenth():
    rng = np.random.default_rng(6)
    p_values = [statistics.sign_flip_p_value(rng.normal(size=30), seed=s, flips=500) for s in range(400)]
    assert np.mean(np.array(p_values) <= 0.1) == pytest.approx(0.1, abs=0.045)  # 3 standard errors


RECORDS = [
    {"step": 0, "acc": 0.2},
    {"step": 1, "total/verifications": 100, "seconds/step": 4.0},
    {"step": 2, "total/verifications": 250, "seconds/step": 6.0, "acc": 0.4},
    {"step": 3, "total/verifications": 300, "seconds/step": 5.0, "acc": None},
    {"step": 4, "total/verifications": 450, "seconds/step": 5.0, "acc": 0.3},
]


def test_a_curve_stands_over_what_had_been_spent():
    for axis, x in (("steps", [0, 2, 4]), ("verifications", [0, 250, 450]), ("train_seconds", [0, 10, 20])):
        found = statistics.curve(RECORDS, "acc", axis)
        assert (found.x.tolist(), found.y.tolist()) == (x, [0.2, 0.4, 0.3])
    timed = [record | {"total/train_seconds": 7.0 * record["step"]} for record in RECORDS]
    assert statistics.curve(timed, "acc", "train_seconds").x.tolist() == [0, 14, 28]
    with pytest.raises(ValueError, match="axis 'hours' is unknown"):
        statistics.curve(RECORDS, "acc", "hours")


def test_time_to_a_threshold_is_where_the_lines_cross_it_first():
    curve = Curve(np.array([0.0, 10, 20, 30]), np.array([0.2, 0.4, 0.3, 0.5]))
    found = [statistics.time_to_threshold(curve, y) for y in (0.1, 0.2, 0.35, 0.4, 0.45, 0.6)]
    assert found == pytest.approx([0, 0, 7.5, 10, 27.5, nan], nan_ok=True)
    assert np.isnan(statistics.time_to_threshold(Curve(np.array([]), np.array([])), 0.1))


def test_the_area_is_the_mean_height_up_to_the_budget():
    curve = Curve(np.array([0.0, 10, 20]), np.array([0.2, 0.4, 0.4]))
    assert statistics.normalised_area(curve) == pytest.approx((3 + 4) / 20)
    assert statistics.normalised_area(curve, 10) == pytest.approx(0.3)
    assert statistics.normalised_area(curve, 5) == pytest.approx(0.25)
    assert np.isnan(statistics.normalised_area(curve, 21))
    assert np.isnan(statistics.normalised_area(Curve(np.array([3.0]), np.array([0.5]))))


def test_a_band_covers_its_seeds_where_all_have_been():
    long, short = (Curve(np.array([0.0, end]), np.array([0.0, height])) for end, height in ((10, 1.0), (5, 1.0)))
    found = statistics.band([long, short], np.array([0.0, 2.5, 5.0, 7.5]))
    np.testing.assert_allclose(found.mean, [0, 0.375, 0.75, nan])
    np.testing.assert_allclose(found.low, [0, 0.25, 0.5, nan])
    np.testing.assert_allclose(found.high, [0, 0.5, 1.0, nan])
