"""Read the files of a run folder, finished or still being written. Reads only, streams, and does not import jax."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]

MAX_LINE_BYTES = 1 << 26  # a longer line is no record of ours
# C0 and C1 controls, which a terminal obeys; marks that reorder or hide text; lone surrogates, which no file can hold.
_HOSTILE = (
    *(c for c in (*range(0x20), *range(0x7F, 0xA0)) if chr(c) not in "\n\t"),
    *(0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF),
    *range(0xD800, 0xE000),
)
_VISIBLE = {c: chr(0x2400 + c) if c < 0x20 else "\N{REPLACEMENT CHARACTER}" for c in _HOSTILE}


class ReadError(ValueError):
    """A file of a run is missing or damaged: one line that names it."""


def visible(text: str) -> str:
    """The text with every character that acts instead of showing replaced by one that shows; of the same length."""
    return text.translate(_VISIBLE)


def json_lines(path: Path) -> Iterator[Record]:
    """Yield the records of a .jsonl file, one in memory at a time; a last line without its end is still being written.

    Raises ReadError where the file cannot be read, or where a line is no JSON object; what came before is sound.
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES):
                number += 1
                if not line.endswith(b"\n"):
                    if len(line) == MAX_LINE_BYTES:
                        raise ReadError(f"{path}, line {number}: longer than {MAX_LINE_BYTES:,} bytes")
                    return
                yield _record(path, number, line)
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror}") from error


def last_json_lines(path: Path, at_most_bytes: int) -> list[Record]:
    """The whole records within the last bytes of a .jsonl file, oldest first. Raises ReadError as `json_lines`."""
    try:
        with path.open("rb") as file:
            start = max(0, file.seek(0, 2) - at_most_bytes)
            file.seek(start)
            lines = file.read(at_most_bytes).split(b"\n")
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror}") from error
    return [_record(path, None, line) for line in lines[bool(start) : -1]]


def read_metrics(run: Path) -> Iterator[Record]:
    """Yield the lines of metrics.jsonl, finite numbers only. Raises ReadError as `json_lines`."""
    for record in json_lines(run / "metrics.jsonl"):
        yield {name: value for name, value in record.items() if type(value) in (int, float)}


def read_config(run: Path) -> dict[str, Any]:
    """The config of a run, flat. Raises ReadError."""
    path = run / "config.json"
    try:
        config = json.loads(path.read_bytes())
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ReadError(f"{path}: not readable as JSON ({error})") from error
    if not isinstance(config, dict):
        raise ReadError(f"{path}: not a JSON object")
    return config


def _record(path: Path, number: int | None, line: bytes) -> Record:
    try:
        record = json.loads(line, parse_constant=lambda name: None)  # no NaN, no Inf
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("step"), int):
        where = f"{path}, line {number}" if number else f"{path}, near its end"
        raise ReadError(f"{where}: not a JSON object with a step")
    return {sys.intern(key): value for key, value in record.items()}  # the keys of all lines are the same
