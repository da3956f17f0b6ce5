"""The statistics of evaluations, over arrays: estimates, intervals, paired tests, and curves over a run.

Shapes: N tasks, S rollouts of each, at most T turns. `passed_at` [N, S] int is the turn (from 1) of a rollout's first
pass, above T if there is none; `valid` [N, S] bool is False where the environment could not judge.

Nearly every statistic is a `Ratio` of sums over tasks, so that one bootstrap, one paired test and one way to
restrict it to some tasks serve them all. Tasks are what is resampled: the rollouts of a task stay together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

LEVEL = 0.95  # of the intervals
DRAWS = 2000  # of a bootstrap
FLIPS = 10_000  # of a permutation test


class Ratio(NamedTuple):
    """A statistic: the sum of `numerator` over tasks by that of `denominator`, both [N]."""

    numerator: np.ndarray
    denominator: np.ndarray

    @property
    def value(self) -> float:
        """NaN where nothing was counted."""
        total = np.sum(self.denominator)
        return float(np.sum(self.numerator) / total) if total else float("nan")

    def of(self, tasks: np.ndarray) -> Ratio:
        """The same over the tasks that a mask [N] or indices select."""
        return Ratio(self.numerator[tasks], self.denominator[tasks])


class Interval(NamedTuple):
    """An estimate and the ends of its confidence interval; NaN where there is none."""

    value: float
    low: float
    high: float


class Difference(NamedTuple):
    """How much higher a statistic is in one run than in another, on the tasks that both were judged on."""

    value: float
    low: float
    high: float
    p_value: float  # of the hypothesis that which run is which does not matter
    tasks: int


class Curve(NamedTuple):
    """A metric `y` [K] against what had been spent, `x` [K], rising."""

    x: np.ndarray
    y: np.ndarray


class Band(NamedTuple):
    """Several seeds at the same places: their mean, lowest and highest."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


# What is estimated.


def share(condition: np.ndarray, among: np.ndarray) -> Ratio:
    """The share of the rollouts `among` [N, S] for which the condition [N, S] holds."""
    return Ratio(np.sum(condition & among, axis=1), np.sum(among, axis=1))


def accuracy(passed_at: np.ndarray, valid: np.ndarray, turn: int) -> Ratio:
    """Acc@t: the share of valid rollouts that pass by `turn`."""
    return share(passed_at <= turn, valid)


def recovery(passed_at: np.ndarray, valid: np.ndarray, max_turns: int, among: np.ndarray | None = None) -> Ratio:
    """The share of the valid rollouts that failed turn 1 which pass later. `among` [N, S] restricts which."""
    failed = valid & (passed_at > 1)
    return share(passed_at <= max_turns, failed if among is None else failed & among)


def turn_recovery(passed_at: np.ndarray, valid: np.ndarray, turn: int) -> Ratio:
    """The share of the valid rollouts failing until `turn` that pass at it, where every failing one goes on."""
    return share(passed_at == turn, valid & (passed_at >= turn))


def rescued_tasks(passed_at: np.ndarray, valid: np.ndarray, max_turns: int) -> Ratio:
    """The share of tasks, of those with a valid rollout, with one that failed turn 1 and passes later."""
    rescued = valid & (passed_at > 1) & (passed_at <= max_turns)
    return Ratio(rescued.any(axis=1).astype(int), valid.any(axis=1).astype(int))


def per_pass(cost: np.ndarray, passed_at: np.ndarray, valid: np.ndarray, max_turns: int) -> Ratio:
    """What all rollouts cost, `cost` [N, S], by the number of valid ones that pass: failures are paid for too."""
    return Ratio(np.sum(cost, axis=1), np.sum(valid & (passed_at <= max_turns), axis=1))


def pass_at_k(passed_at: np.ndarray, valid: np.ndarray, k: int, turn: int = 1) -> Ratio:
    """The chance that one of k rollouts of a task passes by `turn`: 1 - C(n - c, k) / C(n, k), mean over tasks.

    Unbiased. A task with fewer than k valid rollouts is left out. With turn = T it is the success of best-of-k by
    verification: k rollouts with their debugging, of which one that passes is handed in.
    """
    best = expected_best((passed_at <= turn).astype(float), valid, k)
    return Ratio(np.nan_to_num(best), np.isfinite(best).astype(int))


def expected_best(values: np.ndarray, valid: np.ndarray, k: int) -> np.ndarray:
    """The expected largest of k valid rollouts' values [N, S] drawn without replacement: [N], NaN with fewer than k.

    Unbiased: with the values in rising order the r-th of n is the largest with chance C(r - 1, k - 1) / C(n, k).
    """
    rising = np.sort(np.where(valid, values, np.inf), axis=1)  # the invalid ones last, where their chance is 0
    rising[np.isinf(rising)] = 0.0
    count, ranks = valid.sum(axis=1), np.arange(values.shape[1] + 1)
    log_choose = np.cumsum(np.log(np.where(ranks > k, ranks / np.maximum(ranks - k, 1), 1.0)))  # log C(r, k), r >= k
    relative = np.minimum(log_choose[None, :] - log_choose[count, None], 0.0)
    all_within = np.where(ranks >= k, np.exp(relative), 0.0)  # chance that all k are of the r lowest
    return np.where(count >= k, np.sum(np.diff(all_within, axis=1) * rising, axis=1), np.nan)


def speedups(correct: np.ndarray, time_us: np.ndarray, baseline_us: np.ndarray) -> np.ndarray:
    """baseline_us [N] by time_us [N, S] where correct, 0 where not, NaN where a correct answer has no time.

    Both times must be of one kind: a measured time by an estimate says nothing.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(correct, baseline_us[:, None] / time_us, 0.0)


def fast_p(speedup: np.ndarray, valid: np.ndarray, p: float) -> Ratio:
    """The share of valid rollouts that are correct and more than p times as fast as the baseline."""
    return share(speedup > p, valid & ~np.isnan(speedup))


def log_speedup(speedup: np.ndarray, valid: np.ndarray, failed: float | None = 1.0) -> Ratio:
    """The mean log of speedups; exp of it (and of its interval) is the geometric mean.

    A failure counts as a speedup of `failed`: 1, as whoever has no answer runs the baseline; None leaves it out.
    """
    counted = valid & ~np.isnan(speedup) & ((speedup > 0) | (failed is not None))
    log = np.log(np.where(counted & (speedup > 0), speedup, 1.0 if failed is None else failed))
    return Ratio(np.sum(log * counted, axis=1), np.sum(counted, axis=1))


# How surely, and which is better.


def interval(ratio: Ratio, *, seed: int = 0, draws: int = DRAWS, level: float = LEVEL) -> Interval:
    """The value with a percentile bootstrap interval over tasks; no ends with fewer than two tasks.

    Like any bootstrap it gives an interval of no width where all tasks agree.
    """
    if np.count_nonzero(ratio.denominator) < 2:
        return Interval(ratio.value, float("nan"), float("nan"))
    weights = _resampled(len(ratio.denominator), draws, seed)
    numerator, denominator = weights @ ratio.numerator, weights @ ratio.denominator
    drawn = numerator[denominator != 0] / denominator[denominator != 0]
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(ratio.value, float(low), float(high))


def paired(ours: Ratio, theirs: Ratio, *, seed: int = 0, draws: int = DRAWS, level: float = LEVEL) -> Difference:
    """Ours minus theirs, where row i of both is the same task: the mean over tasks of the difference of their rates.

    The interval resamples tasks, the p-value is that of `sign_flip_p_value`. A task that one run has no judged
    rollout of is left out.
    """
    if len(ours.denominator) != len(theirs.denominator):
        raise ValueError(f"{len(ours.denominator)} and {len(theirs.denominator)} tasks: a paired test needs the same")
    both = (ours.denominator != 0) & (theirs.denominator != 0)
    rates = [ratio.numerator[both] / ratio.denominator[both] for ratio in (ours, theirs)]
    differences = rates[0] - rates[1]
    found = interval(Ratio(differences, np.ones(len(differences))), seed=seed, draws=draws, level=level)
    return Difference(*found, sign_flip_p_value(differences, seed=seed), len(differences))


def sign_flip_p_value(differences: np.ndarray, *, seed: int = 0, flips: int = FLIPS) -> float:
    """Two-sided p-value of per-task differences [N]: how often a sum with random signs is as far from 0.

    Exact, over all assignments of signs, where there are at most `flips` of them; else of random ones, counting
    the one that was observed, so that it is never 0.
    """
    moved = differences[differences != 0]  # the others do not change with their sign
    exact = 2.0 ** len(moved) <= flips
    if exact:
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(moved))))
    else:
        signs = np.random.default_rng(seed).choice(np.array([-1.0, 1.0]), (flips, len(moved)))
    rounding = 1e-9 * np.abs(moved).sum()
    as_far = np.abs(signs @ moved) >= np.abs(moved.sum()) - rounding
    return float(np.mean(as_far) if exact else (1 + as_far.sum()) / (1 + flips))


@lru_cache(maxsize=8)
def _resampled(tasks: int, draws: int, seed: int) -> np.ndarray:
    """How often each bootstrap sample holds each task: [draws, N]."""
    weights = np.random.default_rng(seed).multinomial(tasks, np.full(tasks, 1.0 / tasks), draws).astype(float)
    weights.setflags(write=False)
    return weights


# How fast it got there.

AXES = ("steps", "verifications", "response_tokens", "train_seconds")


def curve(records: Iterable[Mapping[str, Any]], metric: str, axis: str) -> Curve:
    """A metric of the lines of a metrics.jsonl against an axis of AXES: what training had spent by then.

    Lines without the metric are skipped. The total of an axis is read from `total/<axis>`; where a run has no
    `total/train_seconds`, its `seconds/step` are added up. Evaluations are in none of the axes.
    """
    if axis not in AXES:
        raise ValueError(f"axis {axis!r} is unknown: one of {', '.join(AXES)}")
    x, y, spent = [], [], 0.0
    for record in records:
        if axis == "steps":
            spent = record["step"]
        elif f"total/{axis}" in record:
            spent = record[f"total/{axis}"]
        elif axis == "train_seconds":
            spent += record.get("seconds/step", 0.0)
        if record.get(metric) is not None:
            x.append(spent)
            y.append(record[metric])
    return Curve(np.array(x, float), np.array(y, float))


def time_to_threshold(curve: Curve, threshold: float) -> float:
    """Where the curve, drawn with straight lines between evaluations, first reaches the threshold; NaN if never."""
    reached = np.flatnonzero(curve.y >= threshold)
    if not len(reached):
        return float("nan")
    after = reached[0]
    if after == 0:
        return float(curve.x[0])
    return float(np.interp(threshold, curve.y[after - 1 : after + 1], curve.x[after - 1 : after + 1]))


def normalised_area(curve: Curve, budget: float | None = None) -> float:
    """The mean height of the curve from its first point to `budget` (by default its end); NaN where it ends before."""
    if not len(curve.x):
        return float("nan")
    end = curve.x[-1] if budget is None else budget
    if not curve.x[0] < end <= curve.x[-1]:
        return float("nan")
    inner = curve.x < end
    x = np.append(curve.x[inner], end)
    y = np.append(curve.y[inner], np.interp(end, curve.x, curve.y))
    return float(np.trapezoid(y, x) / (end - x[0]))


def band(curves: Sequence[Curve], grid: np.ndarray) -> Band:
    """Several seeds, interpolated at the places grid [M]; NaN where not all of them have been."""
    inside = [np.interp(grid, c.x, c.y, left=np.nan, right=np.nan) for c in curves]
    return Band(np.mean(inside, axis=0), np.min(inside, axis=0), np.max(inside, axis=0))
