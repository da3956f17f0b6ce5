"""Check one kernel by hand: `python -m leap_jax.verify FILE.cu --task=softmax`.

FILE holds CUDA source with its `// launch:` lines, or a whole response with a fenced block. Exit status: 0
correct, 1 any other outcome, 2 bad usage, 3 no compiler or GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.compiler import CompilerUnavailable, containment_warnings
from leap_jax.kernels.feedback import feedback
from leap_jax.kernels.gpu import choice
from leap_jax.kernels.gpu.slots import GpuError
from leap_jax.kernels.task import Task
from leap_jax.kernels.verification import DEVICES, Settings, verify

FENCE = "```"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="leap_jax.verify", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", type=_text_file, metavar="FILE.cu")
    parser.add_argument("--task", type=_task, required=True, help="suite name, composed/<seed> or module:attribute")
    parser.add_argument("--seed", type=int, default=0, help="of inputs and of the order of checks")
    parser.add_argument("--checks", type=int, default=6)
    parser.add_argument("--run-seconds", type=float, default=60.0, help="limit for all checks together")
    parser.add_argument("--device", choices=("auto", *DEVICES), default="auto", help="auto: the GPU if there is one")
    parser.add_argument("--limit", type=int, default=2000, help="characters of feedback")
    flags = parser.parse_args(arguments)
    settings = Settings(
        device=choice.resolve(flags.device),
        compile_seconds=20.0,
        run_seconds=flags.run_seconds,
        instructions_per_thread=1_000_000,
        threads_per_check=2**22,
        checks=flags.checks,
        seed=flags.seed,
    )
    try:
        for line in containment_warnings():
            sys.stderr.write(f"leap_jax.verify: {line}\n")
        verdict = verify(flags.task, as_response(flags.file), settings)
    except (CompilerUnavailable, GpuError) as error:
        sys.stderr.write(f"leap_jax.verify: {error}\n")
        return 3
    sys.stdout.write(f"{feedback(flags.task, verdict, flags.limit)}\n")
    times = ", ".join(f"{stage} {seconds * 1e3:.0f} ms" for stage, seconds in verdict.seconds.items())
    sys.stdout.write(f"[{times}]\n")
    return 0 if verdict.passed else 1


def as_response(text: str) -> str:
    """The text with a fence around it, unless it has one."""
    if any(line.lstrip().startswith(FENCE) for line in text.splitlines()):
        return text
    return f"{FENCE}cuda\n{text}\n{FENCE}\n"


def _text_file(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"cannot read {path}: {error}") from error


def _task(name: str) -> Task:
    try:
        return load_task(name)
    except (KeyError, TypeError) as error:
        raise argparse.ArgumentTypeError(str(error.args[0])) from error


if __name__ == "__main__":
    sys.exit(main())
