"""What samples of a timing mean."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from leap_jax.kernels.gpu import health, timing
from leap_jax.kernels.gpu.timing import Spread, Timing


def test_the_two_programs_take_turns():
    assert "".join("BA"[turn] for turn in timing.turns(5)) == "ABBAABBAAB"


def test_spread_is_median_and_quartiles():
    spread = timing.spread([5.0, 1.0, 2.0, 4.0, 3.0])
    assert spread == Spread(3.0, (2.0, 4.0), 1.0, 5)
    assert spread.noise == pytest.approx(2 / 3)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_samples_are_refused(bad):
    with pytest.raises(ValueError, match="positive number of microseconds"):
        timing.spread([1.0, bad, 2.0])


@pytest.mark.parametrize(("seconds", "count"), [(1.0, 20), (0.02, 50), (1e-6, 100), (0.0, 100)])
def test_samples_fill_the_budget(seconds, count):
    assert timing.sample_count(seconds) == count


def test_the_roofline_counts_what_must_come_from_memory():
    assert timing.roofline_us(12e6, 4_000_000, bytes_per_us=1e6) == pytest.approx(8.0)
    assert timing.roofline_us(12e6, 20_000_000, bytes_per_us=1e6) == 0.0
    assert timing.roofline_us(12e6, 0, bytes_per_us=0.0) == 0.0


@pytest.mark.parametrize(("input_bytes", "sets"), [(1 << 30, 2), (30 << 20, 4), (1, 8), (0, 8)])
def test_the_ring_is_larger_than_the_cache(input_bytes, sets):
    assert timing.ring_size(input_bytes, 50 << 20, most=8) == sets


def result(answer_us: float, floor_us: float = 2.0, roofline_us: float = 5.0) -> Timing:
    steady = [Spread(us, (us, us), us, 20) for us in (answer_us, 40.0)]
    return Timing("gpu", *steady, "own", floor_us, roofline_us, noisy=False)


def test_no_answer_is_faster_than_is_possible():
    assert (result(20.0).time_us, result(20.0).implausible) == (20.0, False)
    assert (result(4.0).time_us, result(4.0).implausible) == (5.0, True)
    assert (result(1.0, floor_us=9.0).time_us, result(1.0).baseline_us) == (9.0, 40.0)


def test_health_names_what_spoils_a_timing(monkeypatch):
    nvml = SimpleNamespace(
        NVMLError=OSError,
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByPciBusId=lambda bus: bus,
        nvmlDeviceGetCurrentClocksEventReasons=lambda handle: 0x1 | 0x8 | 0x40,
        nvmlDeviceGetClockInfo=lambda handle, clock: 1755,
        nvmlDeviceGetTemperature=lambda handle, sensor: 61,
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert health.read("0000:01:00.0") == timing.Health(1755, 61, ("hardware slowdown", "hot (hardware)"))

    def lost(handle):
        raise OSError

    nvml.nvmlDeviceGetCurrentClocksEventReasons = lost
    assert health.read("0000:01:00.0") is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert health.read("0000:01:00.0") is None
