"""Declarations of variables and parameters in PTX."""

from __future__ import annotations

from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.cursor import Cursor
from leap_jax.kernels.emulator.tokens import as_f32

SPACES = (".global", ".const", ".shared", ".local", ".param")
_WIDTHS = {"pred": 1, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "f64": 64, "b128": 128}
_WIDTHS |= {f"{kind}{width}": width for kind in "bus" for width in (8, 16, 32, 64)}


def variables(cursor: Cursor) -> list[ir.Variable]:
    """`.space [.align n] [.v2|.v4] .type name[dims] [= initial], ... ;`"""
    space = cursor.take().lstrip(".")
    declared = []
    alignment, width, lanes = variable_type(cursor)
    while True:
        declared.append(variable(cursor, space, alignment, width, lanes))
        if not cursor.accept(","):
            break
    cursor.take(";")
    return declared


def variable_type(cursor: Cursor) -> tuple[int | None, int, int]:
    """(alignment or None, element bits, vector length), with parameter attributes skipped."""
    alignment, width, lanes = None, 0, 1
    while cursor.here.kind == "dotted":
        word = cursor.take().lstrip(".")
        if word == "align":
            value = cursor.integer()
            alignment = alignment if width else value  # after the type it is `.ptr .align`
        elif word in ("v2", "v4", "v8"):
            lanes = int(word[1:])
        elif word == "attribute":
            while cursor.take() != ")":
                pass
        elif word in _WIDTHS:
            width = _WIDTHS[word]
        elif word not in ("ptr", "global", "const", "shared", "local", "generic"):
            raise cursor.error(f"unknown type or attribute .{word}")
    if not width:
        raise cursor.error("a declaration without a type")
    return alignment, width, lanes


def variable(cursor: Cursor, space: str, alignment: int | None, width: int, lanes: int) -> ir.Variable:
    name = cursor.take(kind="name")
    element_bytes = width // 8 * lanes
    count, unsized = 1, False
    while cursor.accept("["):
        if cursor.here.text == "]":
            unsized = True
        else:
            count *= cursor.integer()
        cursor.take("]")
    initial, relocations = _initialiser(cursor, width // 8) if cursor.accept("=") else (b"", ())
    size = len(initial) if unsized else count * element_bytes
    return ir.Variable(
        name,
        space,
        size,
        alignment or element_bytes,
        width,
        initial.ljust(size, b"\0") if initial else b"",
        relocations,
    )


def _initialiser(cursor: Cursor, element_bytes: int) -> tuple[bytes, tuple[tuple[int, ir.Symbol], ...]]:
    data = bytearray()
    relocations: list[tuple[int, ir.Symbol]] = []

    def element() -> None:
        if cursor.accept("{"):
            while not cursor.accept("}"):
                element()
                cursor.accept(",")
            return
        if cursor.here.kind == "name":
            name = cursor.take()
            wrapped = cursor.accept("(")  # generic(symbol)
            if wrapped:
                name = cursor.take(kind="name")
            offset = cursor.integer() if cursor.accept("+") else 0
            if wrapped:
                cursor.take(")")
                offset += cursor.integer() if cursor.accept("+") else 0
            relocations.append((len(data), ir.Symbol(name, offset)))
            data.extend(bytes(element_bytes))
            return
        value = as_f32(cursor.immediate()) if element_bytes == 4 else cursor.immediate()
        data.extend((value.bits & (1 << 8 * element_bytes) - 1).to_bytes(element_bytes, "little"))

    element()
    return bytes(data), tuple(relocations)
