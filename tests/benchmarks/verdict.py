"""Time of a verdict, warm, by programming style and stage: `python -m tests.benchmarks.verdict`.

Medians over composed tasks, in one process; compile includes the compiler's child.
"""

from __future__ import annotations

import statistics
from collections import defaultdict

from leap_jax.kernels import generator
from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.compiler import compiler_version
from leap_jax.kernels.styles import answers
from leap_jax.kernels.verification import Settings, verify

COMPOSITIONS = 40
SETTINGS = Settings(
    device="emulator",
    compile_seconds=10.0,
    run_seconds=10.0,
    instructions_per_thread=100_000,
    threads_per_check=65_536,
    checks=6,
    seed=0,
)


def main() -> None:
    stages = defaultdict(list)
    for seed in generator.seeds("train", COMPOSITIONS):
        for style, answer in answers(generator.compose(seed)).items():
            verdict = verify(load_task(f"composed/{seed}"), answer, SETTINGS)
            assert verdict.passed, (seed, style, verdict)
            stages[style].append(verdict.seconds)
            stages["all"].append(verdict.seconds)
    print(f"{compiler_version()}, {COMPOSITIONS} compositions; milliseconds, median")
    for style, seconds in stages.items():
        compile_ms = 1e3 * statistics.median(s["compile"] for s in seconds)
        run_ms = 1e3 * statistics.median(s["run"] + s["compare"] for s in seconds)
        print(f"{style:15} {len(seconds):4} verdicts  compile {compile_ms:6.1f}  run and compare {run_ms:6.1f}")


if __name__ == "__main__":
    main()
