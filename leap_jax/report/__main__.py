"""`python -m leap_jax.report runs/* [--out=report.html]`: one page from one or more run folders.

A folder that is no run stands for the runs below it. Exit status: 0 written, 1 nothing to report or not writable, 2
bad usage. What cannot be read is named, on the page too, and the rest is reported.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from leap_jax.reading import ReadError
from leap_jax.report.page import page
from leap_jax.report.runs import Run, methods, read_run, short_names

DEPTH = 3  # folders below an argument in which runs are looked for


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m leap_jax.report", description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, or folders of them")
    parser.add_argument("--out", type=Path, default=Path("report.html"), help="the page (default: %(default)s)")
    parser.add_argument(
        "--rollouts",
        type=positive,
        default=2000,
        help="at most so many on the page, of all runs (default: %(default)s)",
    )
    flags = parser.parse_args(arguments)
    problems: list[str] = []
    folders = [folder for path in flags.runs for folder in run_folders(path, problems)]
    folders = list({folder.resolve(): folder for folder in folders}.values())
    runs: list[Run] = []
    for folder, name in zip(folders, short_names(folders) if folders else (), strict=True):
        try:
            runs.append(read_run(folder, name=name, keep_rollouts=max(1, flags.rollouts // len(folders))))
        except ReadError as error:
            problems.append(str(error))
    problems += [problem for run in runs for problem in run.problems]
    for problem in problems:
        print(f"leap_jax.report: {problem}", file=sys.stderr)
    if not runs:
        print("leap_jax.report: no run to report", file=sys.stderr)
        return 1
    found = methods(runs)
    html = page(found, problems)
    try:
        flags.out.parent.mkdir(parents=True, exist_ok=True)
        flags.out.write_text(html, encoding="utf-8")
    except OSError as error:
        print(f"leap_jax.report: cannot write {flags.out}: {error.strerror}", file=sys.stderr)
        return 1
    size = flags.out.stat().st_size / 1e6
    print(f"{flags.out}: runs {len(runs)}, methods {len(found)}, {size:.1f} MB")
    return 0


def run_folders(path: Path, problems: list[str]) -> Iterator[Path]:
    """The folder itself, or the runs below it in order; one line in `problems` where there is none."""
    if (path / "config.json").exists():
        yield path
        return
    below = (config.parent for depth in range(1, DEPTH + 1) for config in path.glob("*/" * depth + "config.json"))
    found = sorted(folder for folder in below if "checkpoints" not in folder.parts)
    if not found:
        problems.append(f"{path}: " + ("no run in it (no config.json)" if path.is_dir() else "no such folder"))
    yield from found


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
