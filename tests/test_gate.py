"""The DCP gate: thresholds, their scaling to a smaller group, the classes."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.algorithm import gate

G = 8
KEY = jax.random.key(0)


def decide(
    passed: np.ndarray,
    valid: np.ndarray,
    key: jax.Array = KEY,
    *,
    compiled: np.ndarray | None = None,
    **options: object,
) -> gate.Gate:
    """The decision of a gate that neither expects anything nor explores, unless told to."""
    compiled = np.ones_like(passed) if compiled is None else compiled
    expected = options.pop("expected", np.full(len(passed), 0.5))
    options = {"mode": "window", "t_min": 4, "t_max": 7, "prior_rollouts": 0.0, "explore_prob": 0.0} | options
    return gate.open_groups(gate.Outcomes(passed, valid, compiled), expected, key, **options)


def groups_with(fails: list[int], valid: int = G) -> tuple[np.ndarray, np.ndarray]:
    """One group a row: `fails` of its first `valid` rollouts fail; the rest left the group."""
    rollout = np.arange(G)
    is_valid = np.broadcast_to(rollout < valid, (len(fails), G))
    return (rollout >= np.array(fails)[:, None]) & is_valid, is_valid


def test_default_window_opens_from_half_to_all_but_one():
    assert gate.default_thresholds(8) == (4, 7)
    assert gate.default_thresholds(5) == (3, 4)
    passed, valid = groups_with(list(range(9)))
    decision = decide(passed, valid)
    np.testing.assert_array_equal(decision.open, [n in (4, 5, 6, 7) for n in range(9)])
    np.testing.assert_array_equal(decision.easy, [n < 4 for n in range(9)])
    np.testing.assert_array_equal(decision.catastrophic, [n == 8 for n in range(9)])


def test_invalid_rollouts_are_no_failures():
    passed = np.zeros((1, G), bool)
    valid = np.array([[True] * 3 + [False] * 5])
    np.testing.assert_array_equal(gate.failing_count(passed, valid), [3])


@pytest.mark.parametrize(
    ("n_valid", "expected"), [(8, (4, 7)), (7, (4, 6)), (6, (3, 5)), (5, (3, 4)), (3, (2, 2)), (2, (1, 1))]
)
def test_thresholds_shrink_with_the_group(n_valid, expected):
    lowest, highest = gate.scale_thresholds(np.array([n_valid]), t_min=4, t_max=7, group_size=8)
    assert (int(lowest[0]), int(highest[0])) == expected


@given(st.integers(2, 16), st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_scaled_bounds_keep_their_meaning(group_size, data):
    n_valid = data.draw(st.integers(1, group_size))
    t_min, t_max = sorted(data.draw(st.tuples(st.integers(0, group_size), st.integers(0, group_size))))
    lowest, highest = gate.scale_thresholds(np.array([n_valid]), t_min=t_min, t_max=t_max, group_size=group_size)
    assert 0 <= lowest[0] <= highest[0] <= n_valid
    needed = group_size - t_max  # successes, of a full group
    assert n_valid - highest[0] == -(-needed * n_valid // group_size)
    if needed == 1:
        assert highest[0] == n_valid - 1
    if n_valid == group_size:
        assert (lowest[0], highest[0]) == (t_min, t_max)


def test_all_fail_of_a_smaller_group_is_catastrophic():
    passed, valid = groups_with([5, 4, 3, 2], valid=5)
    decision = decide(passed, valid)
    np.testing.assert_array_equal(decision.open, [False, True, True, False])
    np.testing.assert_array_equal(decision.catastrophic, [True, False, False, False])
    np.testing.assert_array_equal(decision.easy, [False, False, False, True])


@pytest.mark.parametrize("mode", gate.MODES)
@pytest.mark.parametrize("n_valid", [0, 1])
def test_a_group_without_peers_is_closed_and_unclassed(mode, n_valid):
    passed, valid = groups_with([n_valid], valid=n_valid)
    decision = decide(passed, valid, mode=mode, t_min=0, t_max=8, explore_prob=1.0)
    assert not np.any([decision.open, decision.easy, decision.catastrophic])


def test_always_and_never_keep_the_classes():
    passed, valid = groups_with(list(range(9)))
    window = decide(passed, valid)
    for mode, expected in (("always", True), ("never", False)):
        decision = decide(passed, valid, mode=mode)
        assert np.all(np.asarray(decision.open) == expected)
        np.testing.assert_array_equal(decision.easy, window.easy)
        np.testing.assert_array_equal(decision.catastrophic, window.catastrophic)


def test_classes_partition_the_groups_of_a_window():
    passed, valid = groups_with(list(range(7)), valid=6)
    decision = decide(passed, valid, t_min=2, t_max=5)
    masks = (decision.open, decision.easy, decision.catastrophic)
    assert np.all(sum(np.asarray(mask).astype(int) for mask in masks) == 1)


def test_random_opens_as_many_as_the_window_each_as_often():
    fails = [0, 1, 5, 6, 7, 8, 8, 8]
    passed, valid = groups_with(fails)
    valid = valid & (np.arange(8) != 7)[:, None]  # the last group cannot be compared
    keys = jax.random.split(KEY, 2000)
    is_open = jax.vmap(lambda key: decide(passed, valid, key, mode="random").open)(keys)
    np.testing.assert_array_equal(np.sum(is_open, axis=1), 3)
    shares = np.mean(is_open, axis=0)
    np.testing.assert_allclose(shares[:7], 3 / 7, atol=0.05)
    assert shares[7] == 0


def test_unknown_mode_is_named():
    passed, valid = groups_with([1])
    with pytest.raises(ValueError, match=r"'windwo'.*window, always, never, random"):
        decide(passed, valid, mode="windwo")


def test_half_of_the_valid_rollouts_is_where_the_two_halves_meet():
    for valid_rollouts in (8, 7):
        passed, valid = groups_with(list(range(valid_rollouts + 1)), valid=valid_rollouts)
        low, high = decide(passed, valid, mode="lt_half"), decide(passed, valid, mode="ge_half")
        np.testing.assert_array_equal(low.open, [n < 4 for n in range(valid_rollouts + 1)])
        np.testing.assert_array_equal(high.open, ~np.asarray(low.open))
        assert high.open[-1] and high.catastrophic[-1], "all fail"


def test_staged_forgives_failures_that_compile():
    """8 of 8 fail in each group; 7, then 8 of them do not even compile. The last group is easy."""
    passed, valid = groups_with([8, 8, 8, 3])
    compiled = np.arange(G) >= np.array([0, 7, 8, 8])[:, None]
    np.testing.assert_array_equal(decide(passed, valid, compiled=compiled).open, [False] * 4)
    np.testing.assert_array_equal(
        decide(passed, valid, compiled=compiled, mode="staged").open, [True, True, False, False]
    )
    decision = decide(passed, valid, compiled=np.zeros_like(compiled), mode="staged", t_max=G)
    np.testing.assert_array_equal(decision.open, [True, True, True, False])


def test_a_pass_that_is_not_marked_as_compiled_is_no_compile_error():
    passed, valid = groups_with([4])
    assert decide(passed, valid, compiled=np.zeros_like(passed), mode="staged", t_max=4).open[0]


@given(st.integers(0, 8), st.integers(0, 8), st.floats(0, 1))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_without_a_prior_the_pass_rate_is_the_window(t_min, t_max, expected):
    passed, valid = groups_with(list(range(9)))
    bounds = {"t_min": min(t_min, t_max), "t_max": max(t_min, t_max)}
    found = decide(passed, valid, mode="pass_rate", expected=np.full(9, expected), **bounds)
    np.testing.assert_array_equal(found.open, decide(passed, valid, **bounds).open)


def test_the_prior_moves_a_group_towards_its_class():
    """8 of 8 and 3 of 8 fail, and the posterior failure rates are (8 (1 - p) + N_fail) / 16 with window [.5, .875]."""
    passed, valid = groups_with([8, 8, 8, 3, 3])
    expected = np.array([0.2, 0.25, 0.5, 0.3, 0.5])  # 14.4, 14, 12, 8.6 and 7 failures of 16
    found = decide(passed, valid, mode="pass_rate", expected=expected, prior_rollouts=8.0)
    np.testing.assert_array_equal(found.open, [False, True, True, True, False])
    heavy = decide(passed, valid, mode="pass_rate", expected=np.full(5, 0.4), prior_rollouts=1e6)
    np.testing.assert_array_equal(heavy.open, [True] * 5)


def test_exploring_opens_closed_groups_that_have_something_to_debug():
    fails = [0, 2, 5, 8]
    passed, valid = groups_with(fails)
    rule = decide(passed, valid)
    keys = jax.random.split(KEY, 2000)
    found = jax.vmap(lambda key: decide(passed, valid, key, explore_prob=0.25))(keys)
    np.testing.assert_allclose(np.mean(found.explored, axis=0), [0, 0.25, 0, 0.25], atol=0.03)
    np.testing.assert_array_equal(found.open, found.explored | np.asarray(rule.open))
    assert np.mean(found.explored[:, 1] & found.explored[:, 3]) == pytest.approx(1 / 16, abs=0.02), "drawn together"
    everything = decide(passed, valid, explore_prob=1.0)
    np.testing.assert_array_equal(everything.open, [False, True, True, True])
    np.testing.assert_array_equal(everything.catastrophic, rule.catastrophic)


def test_the_random_gate_explores_with_draws_of_its_own():
    passed, valid = groups_with([1, 5, 6, 7, 8, 8, 8, 8])
    plain, exploring = (decide(passed, valid, mode="random", explore_prob=prob) for prob in (0.0, 1.0))
    np.testing.assert_array_equal(plain.open, exploring.open & ~np.asarray(exploring.explored))
    keys = jax.random.split(KEY, 2000)
    explored = jax.vmap(lambda key: decide(passed, valid, key, mode="random", explore_prob=0.25).explored)(keys)
    assert np.mean(explored) == pytest.approx(5 / 8 * 0.25, abs=0.01), "5 of 8 are closed"


def test_a_recheck_closes_what_left_the_window_and_keeps_what_is_explored():
    passed, valid = groups_with([5, 5, 3, 8])
    first = decide(passed, valid, explore_prob=1.0)
    np.testing.assert_array_equal(first.explored, [False, False, True, True])
    later_passed, _ = groups_with([4, 3, 1, 8])
    later = decide(later_passed, valid, explore_prob=1.0)
    np.testing.assert_array_equal(gate.recheck(first, later), [True, False, True, True])
    reopened = gate.recheck(decide(*groups_with([3])), decide(*groups_with([5])))
    np.testing.assert_array_equal(reopened, [False])


def test_jit_changes_nothing():
    passed, valid = groups_with(list(range(8)), valid=7)
    outcomes, expected = gate.Outcomes(passed, valid, ~passed), np.linspace(0, 1, 8)
    jitted = jax.jit(gate.open_groups, static_argnames=("mode", "t_min", "t_max"))
    for mode in gate.MODES:
        options = {"mode": mode, "t_min": 4, "t_max": 7, "prior_rollouts": 8.0, "explore_prob": 0.5}
        eager, compiled = (f(outcomes, expected, KEY, **options) for f in (gate.open_groups, jitted))
        for ours, theirs in zip(eager, compiled, strict=True):
            np.testing.assert_array_equal(ours, theirs)
