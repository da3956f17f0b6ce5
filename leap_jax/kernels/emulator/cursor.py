"""A place in PTX tokens: what the parts of the parser share."""

from __future__ import annotations

from leap_jax.kernels.emulator import ir
from leap_jax.kernels.emulator.tokens import PtxError, Token, error_at, integer, literal, tokenize


class Cursor:
    """The next token of a text, and ways to take it. Errors name its line."""

    def __init__(self, text: str):
        self.text = text
        self.tokens = tokenize(text)
        self.index = 0

    @property
    def here(self) -> Token:
        return self.tokens[self.index]

    def take(self, text: str | None = None, kind: str | None = None) -> str:
        """The next token's text, which must be `text` or of `kind` if given."""
        token = self.here
        if token.kind == "end" or text not in (None, token.text) or kind not in (None, token.kind):
            raise self.error(f"expected {text or kind or 'more'}, found {token.text or 'the end'!r}")
        self.index += 1
        return token.text

    def accept(self, text: str) -> bool:
        if self.here.text != text:
            return False
        self.index += 1
        return True

    @property
    def following(self) -> Token:
        """The token after the next one."""
        return self.tokens[min(self.index + 1, len(self.tokens) - 1)]

    def error(self, message: str) -> PtxError:
        return error_at(self.text, self.here.position, message)

    def integer(self) -> int:
        negative = self.accept("-")
        value = integer(self.take(kind="integer"))
        return -value if negative else value

    def immediate(self) -> ir.Immediate:
        negative = self.accept("-")
        token = self.here
        if token.kind not in ("integer", "float"):
            raise self.error(f"expected an operand, found {token.text or 'the end'!r}")
        self.take()
        return literal(token, negative)
