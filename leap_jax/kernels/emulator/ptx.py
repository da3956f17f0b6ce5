"""PTX text -> `ir.Module`: what NVRTC emits for sm_75 to sm_100, inline assembly included.

The grammar is that of the PTX ISA. Inline assembly puts several statements on a line and opens scopes
anywhere, so the text is tokenised and read by recursive descent, never line by line.
"""

from __future__ import annotations

from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.body import Body
from leap_jax.kernels.emulator.cursor import Cursor
from leap_jax.kernels.emulator.declarations import SPACES, variable, variable_type, variables
from leap_jax.kernels.emulator.source_lines import DIRECTIVES, SourceLines
from leap_jax.kernels.emulator.tokens import PtxError

__all__ = ["PtxError", "parse"]

_LINKAGE = (".visible", ".weak", ".extern", ".common")


def parse(text: str) -> ir.Module:
    """The module in `text`. Raises PtxError."""
    cursor = Cursor(text)
    try:
        return _module(cursor, SourceLines(cursor.tokens))
    except RecursionError:
        raise PtxError("PTX: braces are nested too deeply") from None


def _module(cursor: Cursor, lines: SourceLines) -> ir.Module:
    functions: dict[str, ir.Function] = {}
    declared: dict[str, ir.Variable] = {}
    target = ""
    while cursor.here.kind != "end":
        directive = cursor.here.text
        if directive in (".version", ".address_size"):
            cursor.take()
            cursor.take()
        elif directive == ".target":
            cursor.take()
            target = cursor.take(kind="name")
            while cursor.accept(","):
                cursor.take(kind="name")
        elif directive in DIRECTIVES:
            lines.directive(cursor)
        elif directive == ";":
            cursor.take()
        else:
            external = False
            while cursor.here.text in _LINKAGE:
                external |= cursor.take() in (".extern", ".common")
            if cursor.here.text in (".entry", ".func"):
                function = _function(cursor, lines)
                if function is not None:
                    functions[function.name] = function
            elif cursor.here.text in SPACES:
                for found in variables(cursor):
                    if found.name not in declared or not external:
                        declared[found.name] = found
            else:
                raise cursor.error(f"unknown directive {cursor.here.text!r}")
    return ir.Module(functions, declared, target)


def _function(cursor: Cursor, lines: SourceLines) -> ir.Function | None:
    """`.entry` or `.func` with its body; None for a declaration."""
    is_entry = cursor.take() == ".entry"
    returns = () if is_entry else _parameters(cursor)
    name = cursor.take(kind="name")
    parameters = _parameters(cursor)
    directives = _performance_directives(cursor, lines)
    if cursor.accept(";"):
        return None
    lines.current = 0
    body = Body(cursor, lines, (*returns, *parameters))
    body.read()
    return ir.Function(
        name,
        is_entry,
        parameters,
        returns,
        body.registers,
        tuple(body.variables),
        tuple(body.instructions),
        body.labels,
        body.branch_targets,
        directives,
    )


def _parameters(cursor: Cursor) -> tuple[ir.Variable, ...]:
    """`(.param ..., .param ...)`, or nothing."""
    found: list[ir.Variable] = []
    if not cursor.accept("("):
        return ()
    while not cursor.accept(")"):
        cursor.take(".param")
        alignment, width, lanes = variable_type(cursor)
        found.append(variable(cursor, "param", alignment, width, lanes))
        cursor.accept(",")
    return tuple(found)


def _performance_directives(cursor: Cursor, lines: SourceLines) -> dict[str, tuple[int, ...]]:
    """`.maxntid 256, 1, 1` and the like, up to the body."""
    directives: dict[str, tuple[int, ...]] = {}
    while cursor.here.kind == "dotted":
        if cursor.here.text == ".pragma":
            lines.directive(cursor)
            continue
        name = cursor.take().lstrip(".")
        values = []
        while cursor.here.kind == "integer":
            values.append(cursor.integer())
            if not cursor.accept(","):
                break
        directives[name] = tuple(values)
    return directives
