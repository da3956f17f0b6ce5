"""What the samples of a timing mean: pure arithmetic, no driver. Imports the standard library only, as verdicts do."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

BUDGET_SECONDS = 1.0  # of all samples of both programs
FEWEST_SAMPLES = 20  # of each program
MOST_SAMPLES = 100
NOISY = 0.05  # interquartile range over median beyond which a timing is repeated, then marked


@dataclass(frozen=True)
class Spread:
    """Samples in short, in microseconds."""

    median_us: float
    quartiles_us: tuple[float, float]
    least_us: float
    samples: int

    @property
    def noise(self) -> float:
        """Interquartile range over median."""
        low, high = self.quartiles_us
        return (high - low) / self.median_us if self.median_us > 0 else math.inf


@dataclass(frozen=True)
class Health:
    """The GPU's state beside a timing. reasons: why its clock is held back, of those that spoil a timing."""

    clock_mhz: int
    temperature_c: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Timing:
    """A correct answer's time at the timing shape, and what it was measured beside.

    floor_us: of an empty kernel. roofline_us: below it memory would be faster than it can be.
    noisy: a second timing was no steadier, or the clock was held back. implausible: faster than the roofline.
    """

    device: str
    answer: Spread
    baseline: Spread
    baseline_name: str
    floor_us: float
    roofline_us: float
    noisy: bool
    health: tuple[Health, ...] = field(default=())

    @property
    def implausible(self) -> bool:
        return self.answer.median_us < self.roofline_us

    @property
    def time_us(self) -> float:
        """The answer's median, but never less than is possible."""
        return max(self.answer.median_us, self.floor_us, self.roofline_us)

    @property
    def baseline_us(self) -> float:
        return max(self.baseline.median_us, self.floor_us, self.roofline_us)


def sample_count(seconds_a_pair: float) -> int:
    """How many samples of each program the budget allows."""
    return _between(int(BUDGET_SECONDS / max(seconds_a_pair, 1e-9)), FEWEST_SAMPLES, MOST_SAMPLES)


def turns(count: int) -> Iterator[bool]:
    """A B B A A B B A ..., `count` of each: True for A. What drifts slowly meets both alike."""
    for pair in range(count):
        yield from ((True, False) if pair % 2 == 0 else (False, True))


def spread(samples_us: Sequence[float]) -> Spread:
    """Median and quartiles of the samples. Raises ValueError where one is not a positive number, or for less than 2."""
    if not all(math.isfinite(us) and us > 0 for us in samples_us):
        raise ValueError("a sample of a timing is not a positive number of microseconds")
    low, median, high = statistics.quantiles(samples_us, n=4, method="inclusive")
    return Spread(median, (low, high), min(samples_us), len(samples_us))


def roofline_us(min_bytes: float, output_bytes: int, bytes_per_us: float) -> float:
    """The least time in which memory can deliver the inputs. Outputs may still be in the cache when time stops."""
    return max(min_bytes - output_bytes, 0.0) / bytes_per_us if bytes_per_us > 0 else 0.0


def ring_size(input_bytes: int, l2_bytes: int, most: int) -> int:
    """How many sets of inputs go round: more than the cache holds, at least two, at most `most`."""
    return _between(2 * l2_bytes // max(input_bytes, 1) + 1, 2, most)


def _between(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))
