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


def groups_with(fails: list[int], valid: int = G) -> tuple[np.ndarray, np.ndarray]:
    """One group a row: `fails` of its first `valid` rollouts fail; the rest left the group."""
    rollout = np.arange(G)
    is_valid = np.broadcast_to(rollout < valid, (len(fails), G))
    return (rollout >= np.array(fails)[:, None]) & is_valid, is_valid


def test_default_window_opens_from_half_to_all_but_one():
    assert gate.default_thresholds(8) == (4, 7)
    assert gate.default_thresholds(5) == (3, 4)
    passed, valid = groups_with(list(range(9)))
    decision = gate.open_groups(passed, valid, KEY, mode="window", t_min=4, t_max=7)
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
    decision = gate.open_groups(passed, valid, KEY, mode="window", t_min=4, t_max=7)
    np.testing.assert_array_equal(decision.open, [False, True, True, False])
    np.testing.assert_array_equal(decision.catastrophic, [True, False, False, False])
    np.testing.assert_array_equal(decision.easy, [False, False, False, True])


@pytest.mark.parametrize("mode", gate.MODES)
@pytest.mark.parametrize("n_valid", [0, 1])
def test_a_group_without_peers_is_closed_and_unclassed(mode, n_valid):
    passed, valid = groups_with([n_valid], valid=n_valid)
    decision = gate.open_groups(passed, valid, KEY, mode=mode, t_min=0, t_max=8)
    assert not np.any([decision.open, decision.easy, decision.catastrophic])


def test_always_and_never_keep_the_classes():
    passed, valid = groups_with(list(range(9)))
    window = gate.open_groups(passed, valid, KEY, mode="window", t_min=4, t_max=7)
    for mode, expected in (("always", True), ("never", False)):
        decision = gate.open_groups(passed, valid, KEY, mode=mode, t_min=4, t_max=7)
        assert np.all(np.asarray(decision.open) == expected)
        np.testing.assert_array_equal(decision.easy, window.easy)
        np.testing.assert_array_equal(decision.catastrophic, window.catastrophic)


def test_classes_partition_the_groups_of_a_window():
    passed, valid = groups_with(list(range(7)), valid=6)
    decision = gate.open_groups(passed, valid, KEY, mode="window", t_min=2, t_max=5)
    assert np.all(sum(np.asarray(mask).astype(int) for mask in decision) == 1)


def test_random_opens_as_many_as_the_window_each_as_often():
    fails = [0, 1, 5, 6, 7, 8, 8, 8]
    passed, valid = groups_with(fails)
    valid = valid & (np.arange(8) != 7)[:, None]  # the last group cannot be compared
    keys = jax.random.split(KEY, 2000)
    is_open = jax.vmap(lambda key: gate.open_groups(passed, valid, key, mode="random", t_min=4, t_max=7).open)(keys)
    np.testing.assert_array_equal(np.sum(is_open, axis=1), 3)
    shares = np.mean(is_open, axis=0)
    np.testing.assert_allclose(shares[:7], 3 / 7, atol=0.05)
    assert shares[7] == 0


def test_unknown_mode_is_named():
    passed, valid = groups_with([1])
    with pytest.raises(ValueError, match=r"'windwo'.*window, always, never, random"):
        gate.open_groups(passed, valid, KEY, mode="windwo", t_min=4, t_max=7)


def test_jit_changes_nothing():
    passed, valid = groups_with(list(range(8)), valid=7)
    jitted = jax.jit(gate.open_groups, static_argnames=("mode", "t_min", "t_max"))
    for mode in gate.MODES:
        options = {"mode": mode, "t_min": 4, "t_max": 7}
        for eager, compiled in zip(
            gate.open_groups(passed, valid, KEY, **options), jitted(passed, valid, KEY, **options), strict=True
        ):
            np.testing.assert_array_equal(eager, compiled)
