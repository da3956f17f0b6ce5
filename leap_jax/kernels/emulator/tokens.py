"""PTX text -> tokens and literals."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

import numpy as np

from leap_jax.kernels.emulator import ir


class PtxError(ValueError):
    """Text that is not PTX as this parser knows it; one line, with the line number in the PTX."""


_TOKEN = re.compile(
    r"""
    (?P<space>   (?: \s+ | //[^\n]* | /\*.*?\*/ )+ )
  | (?P<float>   0[fF][0-9a-fA-F]{8}(?![0-9a-fA-F]) | 0[dD][0-9a-fA-F]{16}(?![0-9a-fA-F])
               | \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+ )
  | (?P<integer> (?: 0[xX][0-9a-fA-F]+ | 0[bB][01]+ | 0[0-7]* | [1-9]\d* )U? )
  | (?P<dotted>  \.[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)* )
  | (?P<name>    [A-Za-z_$%][A-Za-z0-9_$]* )
  | (?P<string>  "[^"]*" )
  | (?P<mark>    [][{}()<>,;:@!|+=-] )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str  # float, integer, dotted, name, string, mark, end
    text: str
    position: int


def error_at(text: str, position: int, message: str) -> PtxError:
    line = text.count("\n", 0, position) + 1
    return PtxError(f"PTX line {line}: {message}")


def tokenize(text: str) -> list[Token]:
    """Tokens of `text` without blanks and comments, closed by one of kind `end`. Raises PtxError."""
    tokens = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise error_at(text, position, f"unexpected character {text[position]!r}")
        if match.lastgroup != "space":
            tokens.append(Token(match.lastgroup, match[0], position))
        position = match.end()
    tokens.append(Token("end", "", position))
    return tokens


def integer(text: str) -> int:
    """Hexadecimal, binary, octal (leading 0) or decimal, with an optional U."""
    digits = text.rstrip("U").lower()
    if digits[:2] in ("0x", "0b"):
        return int(digits, 0)
    return int(digits, 8) if len(digits) > 1 and digits[0] == "0" else int(digits)


def literal(token: Token, negative: bool = False) -> ir.Immediate:
    """The value of an integer or float token."""
    text = token.text
    if token.kind == "integer":
        value = integer(text)
        return ir.Immediate((-value if negative else value) & (1 << 64) - 1, "int")
    if text[:2] in ("0f", "0F"):
        return ir.Immediate(int(text[2:], 16) ^ negative << 31, "f32")
    if text[:2] in ("0d", "0D"):
        return ir.Immediate(int(text[2:], 16) ^ negative << 63, "f64")
    (bits,) = struct.unpack("<Q", struct.pack("<d", float(text)))
    return ir.Immediate(bits ^ negative << 63, "f64")


def as_f32(value: ir.Immediate) -> ir.Immediate:
    """A binary64 literal where binary32 is meant, rounded; others as they are."""
    if value.kind != "f64":
        return value
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = np.uint64(value.bits).view(np.float64).astype(np.float32)
    return ir.Immediate(int(narrow.view(np.uint32)), "f32")
