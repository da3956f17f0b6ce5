"""Kernels with one mistake each: the report names its kind and its line, and says what is wrong.

tests/corpus/faults/*.cu begin with `// fault: KIND words of the message`; the line at fault ends in `// fault`. They
take x, the numbers 0 to 1023, fill y, and get n = 1024; `// run:` says with which grid, block and shared memory.
A run takes a slice, as in test_kernel_corpus.py.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from emulated import Out, run
from test_kernel_corpus import chosen

from leap_jax.kernels.emulator.machine import Fault, Limits

FAULTS = sorted((Path(__file__).parent / "corpus" / "faults").glob("*.cu"))
LIMITS = Limits(instructions_per_thread=20_000, seconds=60.0)
_HEAD = re.compile(r"// fault: (\w+) (.*)")
_LAUNCH = re.compile(r"(\w+)=\(?([\d,]+)\)?")


def launch_of(source: str) -> dict[str, tuple[int, ...]]:
    options = re.search(r"^// run: (.*)$", source, re.MULTILINE)
    found = _LAUNCH.findall(options[1]) if options else []
    return {"grid": (1,), "block": (64,), "shared": (0,)} | {k: tuple(map(int, v.split(","))) for k, v in found}


@pytest.mark.parametrize("file", chosen(FAULTS), ids=lambda file: file.stem)
def test_fault_is_named_with_its_line(file):
    source = file.read_text()
    kind, words = _HEAD.match(source).groups()
    launch = launch_of(source)
    args = [np.arange(1024, dtype=np.float32), Out(np.float32, 1024), np.int32(1024)]
    with pytest.raises(Fault) as caught:
        run(source, args, grid=launch["grid"], block=launch["block"], shared=launch["shared"][0], limits=LIMITS)
    report = caught.value.report
    assert report.kind == kind, report
    assert words in report.message, report
    assert source.splitlines()[report.line - 1].endswith("// fault") or kind == "timeout", report
    if kind == "timeout":
        line, rounds = map(int, re.search(r"line (\d+), which ran (\d+) times", report.message).groups())
        assert source.splitlines()[line - 1].endswith("// fault"), report
        assert 100 < rounds <= LIMITS.instructions_per_thread


def test_every_mistake_comes_in_three_ways():
    groups = Counter(file.stem.split("_")[0] for file in FAULTS)
    assert len(FAULTS) >= 60
    assert {group for group, count in groups.items() if count < 3} <= {"local", "matrix"}
    for file in FAULTS:
        source = file.read_text()
        assert _HEAD.match(source), file.name
        assert any(line.endswith("// fault") for line in source.splitlines()), file.name
