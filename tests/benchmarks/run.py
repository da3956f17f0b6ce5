"""Where the time and memory of a finished run went: `python -m tests.benchmarks.run runs/leap`."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path


def main() -> None:
    lines = (Path(sys.argv[1]) / "metrics.jsonl").read_text().splitlines()
    steps = [record for record in map(json.loads, lines) if "seconds/step" in record][2:]  # past the compilations
    print(f"{len(steps)} steps, medians")
    total = statistics.median(s["seconds/step"] for s in steps)
    for phase in ("generate", "verify", "update", "step"):
        seconds = statistics.median(s[f"seconds/{phase}"] for s in steps)
        print(f"{phase:10} {seconds:7.2f} s  {seconds / total:6.1%}")
    for name in ("train/verifications", "train/response_tokens", "train/verdicts_per_second"):
        print(f"{name}: {statistics.median(s[name] for s in steps):.1f}")
    print(f"compilations: {steps[-1]['system/compilations']}")
    print(f"peak memory: {max(s['system/peak_memory_gib'] for s in steps):.2f} GiB")


if __name__ == "__main__":
    main()
