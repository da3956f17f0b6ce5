"""Compile one file by hand: `python -m leap_jax.kernels.compiler FILE.cu`.

FILE holds CUDA source, with or without `// launch:` lines, or a whole response with a fenced block. Prints the
errors with their source lines, or what each kernel needs and how full it can make the named GPU. Exit status:
0 compiled, 1 compile error (or no code in the response), 2 bad usage, 3 no compiler.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from leap_jax.kernels.answer import AnswerError, extract_source
from leap_jax.kernels.compiler import (
    Compiled,
    CompileError,
    CompilerUnavailable,
    compile_source,
    compiler_version,
    containment_warnings,
    sandbox_layers,
)
from leap_jax.kernels.devices import DEVICES, Device, occupancy

DEFAULT_BLOCK = 256
COMPILED, FAILED, NO_COMPILER = 0, 1, 3  # argparse exits with 2

_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\([^)]*\)((?:\s*\.(?:max|min|req)\w+[ \t]+[\d, ]+)*)")
_MOST_THREADS = re.compile(r"\.(?:max|req)ntid[ \t]+([\d, ]+)")


def main(arguments: Sequence[str] | None = None) -> int:
    flags = _parser().parse_args(arguments)
    output, errors = Console(soft_wrap=True, highlight=False), Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        source, offset = _source(flags.file.text)
        compiled = compile_source(source, timeout_seconds=flags.seconds, cache_folder=flags.cache)
        version, layers = compiler_version(), sandbox_layers()
        for line in containment_warnings():
            errors.print(Text(f"warning: {line}"))
    except AnswerError as error:
        return _fail(flags, output, FAILED, str(error))
    except CompileError as error:
        diagnostics = [asdict(d) | {"line": d.line + offset if d.line else 0} for d in error.diagnostics]
        return _fail(flags, output, FAILED, diagnostics[0]["message"] if diagnostics else error.message, diagnostics)
    except CompilerUnavailable as error:
        return _fail(flags, errors, NO_COMPILER, str(error))
    kernels = {name: _needs(compiled, name, flags) for name in compiled.resources}
    if flags.json:
        report = {"ok": True, "compiler": version, "layers": layers, "gpu": flags.gpu.name, "kernels": kernels}
        sys.stdout.write(f"{json.dumps(report)}\n")
    else:
        output.print(_table(kernels, f"{flags.file.name}: {version}, sm_90, occupancy on {flags.gpu.name}"))
    return COMPILED


def block_sizes(ptx: str) -> dict[str, int | None]:
    """Return for each kernel the threads of a block that its launch bounds name, None without such."""
    sizes = {}
    for name, directives in _ENTRY.findall(ptx):
        bound = _MOST_THREADS.search(directives)
        sizes[name] = _product(bound[1]) if bound else None
    return sizes


class _File:
    """The name and the text of the file to compile; what argparse makes of the argument."""

    def __init__(self, path: str) -> None:
        self.name = Path(path).name
        try:
            self.text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise argparse.ArgumentTypeError(f"cannot read {path}: {error}") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="leap_jax.kernels.compiler", description=__doc__)
    parser.add_argument("file", type=_File, metavar="FILE.cu")
    parser.add_argument("--gpu", type=_device, default="h100", help=f"for occupancy: {', '.join(DEVICES)}")
    parser.add_argument("--block", type=int, help=f"threads of a block (default: launch bounds, else {DEFAULT_BLOCK})")
    parser.add_argument("--shared", type=int, default=0, help="bytes of dynamic shared memory of a block")
    parser.add_argument("--seconds", type=float, default=20.0, help="time limit")
    parser.add_argument("--cache", type=Path, help="folder that keeps what was compiled")
    parser.add_argument("--json", action="store_true", help="one JSON object on the standard output")
    return parser


def _device(name: str) -> Device:
    if name not in DEVICES:
        raise argparse.ArgumentTypeError(f"no GPU {name!r}; known: {', '.join(DEVICES)}")
    return DEVICES[name]


def _source(text: str) -> tuple[str, int]:
    """The code to compile, and how many lines of the file precede it. Raises AnswerError."""
    if not _FENCE.search(text):
        return text, 0
    source = extract_source(text)
    return source, text[: max(text.rfind(source), 0)].count("\n")


def _needs(compiled: Compiled, name: str, flags: argparse.Namespace) -> dict[str, object]:
    """What one kernel needs, and its occupancy."""
    resources = compiled.resources[name]
    block = flags.block or block_sizes(compiled.ptx).get(name) or DEFAULT_BLOCK
    shared_bytes = resources.static_shared_bytes + flags.shared
    return {
        **asdict(resources),
        "block": block,
        "dynamic_shared_bytes": flags.shared,
        "occupancy": asdict(occupancy(flags.gpu, block, resources.registers, shared_bytes)),
    }


def _table(kernels: dict[str, dict], title: str) -> Table:
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("kernel", overflow="fold")
    for heading in ("registers", "spilled", "shared", "stack", "block"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("occupancy")
    for name, needs in kernels.items():
        held = needs["occupancy"]
        full = f"{held['share']:.0%}, {held['blocks']} blocks a multiprocessor, by {held['limiter']}"
        table.add_row(
            Text(name),
            str(needs["registers"]),
            f"{needs['spill_store_bytes'] + needs['spill_load_bytes']} B",
            f"{needs['static_shared_bytes'] + needs['dynamic_shared_bytes']} B",
            f"{needs['stack_bytes']} B",
            str(needs["block"]),
            full if held["blocks"] else Text(f"cannot launch, by {held['limiter']}", style="bold red"),
        )
    return table


def _fail(
    flags: argparse.Namespace, console: Console, status: int, message: str, diagnostics: Sequence[dict] = ()
) -> int:
    if flags.json:
        report = {"ok": False, "message": message, "diagnostics": list(diagnostics)}
        sys.stdout.write(f"{json.dumps(report)}\n")
        return status
    for diagnostic in diagnostics:
        console.print(_shown(flags.file, diagnostic))
    if not diagnostics:
        console.print(Text.assemble(f"{flags.file.name}: ", ("error: ", "bold red"), message))
    return status


def _shown(file: _File, diagnostic: dict) -> Text:
    """An error as compilers show it: place, message, the source line, and a caret."""
    line, column, lines = diagnostic["line"], diagnostic["column"], file.text.split("\n")
    place = ":".join([file.name, *(str(number) for number in (line, column) if number)])
    shown = Text.assemble((f"{place}: ", "bold"), ("error: ", "bold red"), diagnostic["message"])
    if 0 < line <= len(lines):
        code = "".join(c if c.isprintable() else " " for c in lines[line - 1])  # no escape sequence to the terminal
        shown.append(f"\n{line:5} | {code.rstrip()}")
        if column:
            shown.append("\n      | " + " " * (column - 1))
            shown.append("^", style="bold green")
    return shown


def _product(dimensions: str) -> int:
    product = 1
    for size in dimensions.split(","):
        product *= int(size)
    return product
