"""Integer expressions over a task's scalars, such as `ceil_div(n, 256)`: one small parser, never `eval`.

    sum     = product (("+" | "-") product)*
    product = unary (("*" | "/" | "//" | "%") unary)*
    unary   = "-" unary | atom
    atom    = integer | name | function "(" sum ("," sum)* ")" | "(" sum ")"

Division rounds towards minus infinity; `/` means `//`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

MAX_CHARACTERS = 256
MAX_NESTING = 24
MAX_MAGNITUDE = 2**63

_TOKEN = re.compile(r"\s*(?:(?P<integer>\d+)|(?P<name>[A-Za-z_]\w*)|(?P<symbol>//|[-+*/%(),]))", re.ASCII)


class ExpressionError(ValueError):
    """The text is not an expression, or it has no value; one clear line."""


def evaluate(text: str, scalars: Mapping[str, int]) -> int:
    """The value of `text` with the names in `scalars`. Raises ExpressionError."""
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(f"expression is longer than {MAX_CHARACTERS} characters")
    parser = _Parser(text, scalars)
    value = parser.sum(0)
    parser.expect("")
    return value


def ceil_div(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max, "ceil_div": ceil_div}
_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


class _Parser:
    """Recursive descent that evaluates as it reads; the end of the text is the token ""."""

    def __init__(self, text: str, scalars: Mapping[str, int]):
        self.text = text
        self.scalars = scalars
        self.tokens = _tokens(text)
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position]

    def take(self) -> str:
        token = self.peek()
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def expect(self, token: str) -> None:
        found = self.take()
        if found != token:
            raise ExpressionError(f"{_shown(token)} expected, {_shown(found)} found in {self.text.strip()!r}")

    def sum(self, depth: int) -> int:
        return self.chain(("+", "-"), self.product, depth)

    def product(self, depth: int) -> int:
        return self.chain(("*", "/", "//", "%"), self.unary, depth)

    def chain(self, operators: tuple[str, ...], operand: Callable[[int], int], depth: int) -> int:
        value = operand(depth)
        while self.peek() in operators:
            operator = self.take()
            value = self.apply(_OPERATORS[operator], value, operand(depth))
        return value

    def unary(self, depth: int) -> int:
        if depth > MAX_NESTING:
            raise ExpressionError(f"expression is nested deeper than {MAX_NESTING}")
        if self.peek() == "-":
            self.take()
            return -self.unary(depth + 1)
        return self.atom(depth)

    def atom(self, depth: int) -> int:
        token = self.take()
        if token == "(":
            value = self.sum(depth + 1)
            self.expect(")")
            return value
        if token.isdigit():
            return _bounded(int(token))
        if token in _FUNCTIONS and self.peek() == "(":
            return self.call(token, depth + 1)
        if token in self.scalars:
            return _bounded(int(self.scalars[token]))
        if token.isidentifier():
            known = ", ".join((*self.scalars, *_FUNCTIONS))
            raise ExpressionError(f"unknown name {token!r} in {self.text.strip()!r} (known: {known})")
        raise ExpressionError(f"a value expected, {_shown(token)} found in {self.text.strip()!r}")

    def call(self, name: str, depth: int) -> int:
        self.expect("(")
        values = [self.sum(depth)]
        while self.peek() == ",":
            self.take()
            values.append(self.sum(depth))
        self.expect(")")
        if len(values) != 2:
            raise ExpressionError(f"{name} takes 2 values, {len(values)} given in {self.text.strip()!r}")
        return self.apply(_FUNCTIONS[name], *values)

    def apply(self, function: Callable[[int, int], int], left: int, right: int) -> int:
        try:
            return _bounded(function(left, right))
        except ZeroDivisionError:
            raise ExpressionError(f"division by zero in {self.text.strip()!r}") from None


def _tokens(text: str) -> list[str]:
    tokens, position, end = [], 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ExpressionError(f"unexpected {text[position:].strip()[:1]!r} in {text.strip()!r}")
        tokens.append(match[match.lastgroup or 0])
        position = match.end()
    return [*tokens, ""]


def _bounded(value: int) -> int:
    if abs(value) >= MAX_MAGNITUDE:
        raise ExpressionError("value does not fit in 64 bits")
    return value


def _shown(token: str) -> str:
    return repr(token) if token else "the end"
