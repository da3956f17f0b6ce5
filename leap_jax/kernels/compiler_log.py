"""Reading NVRTC's log: diagnostics about the answer's own text, and what the assembler says of each kernel.

The log is untrusted: an answer can put any text into it (`#pragma message`, `static_assert`), line ends
included. Only messages about the program file are kept; an error inside a header is reduced to where the
answer caused it.
"""

from __future__ import annotations

import re

from leap_jax.kernels.verdict import DEVICE_CODE_ONLY, Diagnostic, KernelResources

MESSAGE_LENGTH = 200
DIAGNOSTICS = 10

_HEAD = re.compile(r"(?P<file>\S+)\((?P<line>\d+)\): (?P<severity>(?:catastrophic )?error|warning)[^:]*: (?P<text>.*)")
_END_OF_SOURCE = re.compile(r"At end of source: (?:catastrophic )?error[^:]*: (?P<text>.*)")
_ASSEMBLER = re.compile(r" *ptxas [^;]*?(?:, line (?P<line>\d+); )?(?:error|fatal) *: (?P<text>.*)")
_CAUSE = re.compile(r" at line (\d+) of kernel\.cu")
_CARET = re.compile(r"\s*\^\s*")
_HOST_CODE = re.compile(r"A (?:function|namespace scope variable) without .* (host \w+ are not allowed) in JIT mode.*")
# What an answer with host code trips over first; it is told what is taken, the error stays what it is.
_HOST_NAME = re.compile(
    r'identifier "cuda[A-Z]\w*" is undefined|namespace "std" has no member|device-side kernel launch'
)
_ECHO_INDENT, _DETAIL_INDENT = 2, " " * 12

_ASSEMBLER_START = re.compile(r"^ptxas info    : \d+ bytes gmem", re.MULTILINE)
_ENTRY = re.compile(r"^ptxas info    : Compiling entry function '([^']+)'.*\n", re.MULTILINE)
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_STACK = re.compile(r"(\d+) bytes cumulative stack size")

_FILE = re.compile(r'^\s*\.file\s+(\d+) "/?(?:[^"]*/)?kernel\.cu"', re.MULTILINE)
_LOCATION = re.compile(r"\s*\.loc\s+(\d+) (\d+) \d+(?:.*inlined_at (\d+) (\d+) \d+)?")


def diagnostics(log: str, ptx: str) -> tuple[Diagnostic, ...]:
    """Return the errors of a failed compile in order, the assembler's placed by the line table in `ptx`."""
    lines = log.split("\n")
    found = []
    for index, line in enumerate(lines):
        if match := _HEAD.fullmatch(line):
            if match["severity"] == "warning":
                continue
            block = _block(lines, index)
            if match["file"] == "kernel.cu":
                text, column = _details(block)
                found.append(Diagnostic(int(match["line"]), column, clean(f"{match['text']}{text}")))
            else:
                cause = _CAUSE.search("\n".join(block))
                found.append(Diagnostic(int(cause[1]) if cause else 0, 0, "error inside a toolkit header"))
        elif match := _END_OF_SOURCE.fullmatch(line):
            found.append(Diagnostic(0, 0, clean(f"{match['text']} at end of source")))
        elif (match := _ASSEMBLER.fullmatch(line)) and "aborted due to errors" not in match["text"]:
            place = source_line(ptx, int(match["line"])) if match["line"] else 0
            found.append(Diagnostic(place, 0, clean(f"ptxas: {match['text']}")))
    return tuple(dict.fromkeys(found))[:DIAGNOSTICS]


def resources(log: str) -> dict[str, KernelResources]:
    """Return what each entry function needs, by its name in the PTX, from the log of a successful compile."""
    starts = list(_ASSEMBLER_START.finditer(log))
    if not starts:
        return {}
    # The front end writes first, so nothing that an answer has written follows the last start.
    _, *parts = _ENTRY.split(log[starts[-1].start() :])
    return {name: _kernel_resources(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def source_line(ptx: str, line: int) -> int:
    """Return the source line that the PTX `line` (from 1) was compiled from, 0 if the PTX does not say."""
    file = _FILE.search(ptx)
    for text in reversed(ptx.split("\n")[:line]):
        location = _LOCATION.match(text)
        if file and location and file[1] in (location[1], location[3]):
            return int(location[2] if location[1] == file[1] else location[4])
        if text.startswith((".visible", ".entry", ".func")):
            break
    return 0


def clean(message: str) -> str:
    """Return `message` as one short printable line."""
    message = "".join(character if character.isprintable() else " " for character in message)
    message = " ".join(message.split())
    if match := _HOST_CODE.match(message):
        message = f"{match[1]}: {DEVICE_CODE_ONLY}"
    elif _HOST_NAME.match(message):
        message = f"{message}; {DEVICE_CODE_ONLY}"
    return message[:MESSAGE_LENGTH]


def _block(lines: list[str], start: int) -> list[str]:
    """The lines that follow a message's head, up to the empty line or note that ends it."""
    block = []
    for line in lines[start + 1 :]:
        if not line or _HEAD.fullmatch(line) or ": note #" in line:
            break
        block.append(line)
    return block


def _details(block: list[str]) -> tuple[str, int]:
    """The rest of a message that spans lines, and the column (from 1) of the caret below it."""
    for index, line in enumerate(block):
        if index > 0 and _CARET.fullmatch(line):
            details = [text.strip() for text in block[: index - 1] if text.startswith(_DETAIL_INDENT)]
            return "".join(f"; {text}" for text in details), line.index("^") - _ECHO_INDENT + 1
    return "", 0


def _kernel_resources(text: str) -> KernelResources:
    """Read an entry's part of the log: its own function first, then the ones it calls."""

    def first(pattern: re.Pattern[str]) -> int:
        match = pattern.search(text)
        return int(match[1]) if match else 0

    spills = [tuple(map(int, match)) for match in _SPILLS.findall(text)]
    return KernelResources(
        registers=first(_USED),
        static_shared_bytes=first(_SHARED),
        stack_bytes=first(_STACK) or max((stack for stack, _, _ in spills), default=0),
        spill_store_bytes=sum(stores for _, stores, _ in spills),
        spill_load_bytes=sum(loads for _, _, loads in spills),
    )
