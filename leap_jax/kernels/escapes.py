"""What the compiled form of an answer may not hold, whatever its source looked like.

The rules read the PTX and the cubin, so no spelling in the source gets around them: functions outside the program
(device malloc, the device runtime), managed memory, and inline assembly that reaches beyond its own statement.
The compiler marks where inline assembly begins and ends with comments, which assembly can print as well. To the letter,
they cannot be told apart, for all that is known of a function is text in the same file. So a function between forged
marks is not seen as assembly; all that may not leave the program is looked for in it as everywhere, and it is run and
checked as any other kernel is.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from leap_jax.kernels.verdict import Outcome

EXTERNAL_FUNCTIONS = frozenset({"vprintf", "__assertfail"})
_HEAP_FUNCTIONS = frozenset({"malloc", "free"})
_ASSEMBLY_DIRECTIVES = frozenset({".reg", ".param", ".shared", ".local", ".pragma", ".branchtargets", ".callprototype"})

_BEGIN, _END = "\t// begin inline asm", "\t// end inline asm"
_MARK = re.compile(r"inline asm")
_COMMENT_OR_STRING = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"[^\"\n]*\"?", re.DOTALL)
_CLOSED = re.compile(r"//.*|/\*.*\*/|\".*\"", re.DOTALL)
_STATEMENT = re.compile(r"[{}]|[^{};]+")
_DIRECTIVE = re.compile(r"(?:\s*[\w$%]+\s*:)*\s*(\.\w+)")  # after labels
_EXTERNAL_FUNCTION = re.compile(r"\.extern\s+\.func\s+(?:\([^)]*\)\s*)?([\w$]+)")
_MANAGED = re.compile(r"\.managed\b")

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE, _UNDEFINED = 2, 0


def escape(ptx: str, cubin: bytes) -> tuple[Outcome, str] | None:
    """Return the outcome and the reason for a compiled answer that is refused, None for one that is not."""
    if reason := _assembly_escape(ptx):
        return Outcome.HACK, f"inline assembly {reason}"
    code = _code(ptx)
    external = {*_EXTERNAL_FUNCTION.findall(code), *undefined_symbols(cubin)} - EXTERNAL_FUNCTIONS
    if external & _HEAP_FUNCTIONS:
        return Outcome.COMPILE_ERROR, "device malloc, free, new and delete are not allowed: use scratch buffers"
    if external:
        return Outcome.COMPILE_ERROR, f"external function {min(external)[:60]} is not allowed"
    if _MANAGED.search(code):
        return Outcome.COMPILE_ERROR, "managed memory is not allowed"
    return None


def undefined_symbols(cubin: bytes) -> Iterator[str]:
    """Names that the ELF image `cubin` uses and does not define."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count = struct.unpack_from("<HH", cubin, 0x3A)
    sections = [_SECTION.unpack_from(cubin, table + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = cubin[sections[link][4] :]
        for name, _, _, section, _, _ in _SYMBOL.iter_unpack(cubin[offset : offset + length]):
            text = names[name : names.index(b"\0", name)].decode(errors="replace")
            if section == _UNDEFINED and text.strip(".") == text != "":  # the assembler's own begin with a dot
                yield text


def _assembly_escape(ptx: str) -> str:
    """How inline assembly leaves its place, or nothing."""
    start = None
    for mark in _MARK.finditer(ptx):
        line_start, line_end = ptx.rfind("\n", 0, mark.start()) + 1, ptx.find("\n", mark.end())
        if ptx[line_start:line_end] != (_BEGIN if start is None else _END):
            return "forges the compiler's marks"
        if start is None:
            start = line_end
        else:
            if reason := _statement_escape(ptx[start:line_start]):
                return reason
            start = None
    return "" if start is None else "forges the compiler's marks"


def _code(ptx: str) -> str:
    """The text without comments and strings, but for one that is left open."""
    return _COMMENT_OR_STRING.sub(lambda match: " " if _CLOSED.fullmatch(match[0]) else match[0], ptx)


def _statement_escape(assembly: str) -> str:
    code = _code(assembly)
    if "/*" in code or '"' in code:
        return "leaves a comment or a string open"
    depth = 0
    for statement in _STATEMENT.findall(code):
        depth += {"{": 1, "}": -1}.get(statement, 0)
        if depth < 0:
            return "closes the function around it"
        directive = _DIRECTIVE.match(statement)
        if directive and directive[1] not in _ASSEMBLY_DIRECTIVES:
            return f"declares with {directive[1][:20]}, which opens a function or a variable"
    return "leaves a brace open" if depth else ""
