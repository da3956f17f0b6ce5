"""A short soak of the compile service; `python -m tests.benchmarks.soak` is the long one."""

from __future__ import annotations

from benchmarks import soak


def test_a_mixed_load_loses_and_leaves_nothing():
    report = soak.run(compiles=60, clients=2)
    assert report.problems() == []
    assert report.children >= 4  # one killed, one late, and those after them
    assert report.growth() < 1.5  # too short for the bound of the long one
