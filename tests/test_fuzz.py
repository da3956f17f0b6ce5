"""A slice of the fuzzers; the long runs are by hand, see tests/fuzz/."""

from __future__ import annotations

import datetime

from fuzz import mutated_ptx, programs

TODAY = datetime.date.today().toordinal()


def test_damaged_ptx_is_refused_or_runs_within_its_limits():
    first = 200 * (TODAY % 50)
    seen = mutated_ptx.check(mutated_ptx.base_texts(), seed=0, indices=range(first, first + 200))
    assert seen["refused"] > 20
    assert sum(seen.values()) - seen["refused"] - seen["unsupported"] > 20


def test_random_programs_compute_what_numpy_does():
    first = programs.BATCH * (TODAY % 400)
    assert programs.check(0, range(first, first + programs.BATCH)) == programs.BATCH
