"""Which source line PTX belongs to, told by its debug directives."""

from __future__ import annotations

from leap_jax.kernels.emulator.cursor import Cursor
from leap_jax.kernels.emulator.tokens import Token, integer

DIRECTIVES = (".file", ".loc", ".section", ".pragma")
_HEADER_SUFFIXES = (".h", ".hpp", ".cuh", ".inl")

Location = tuple[int, int, int]  # file, line, column


class SourceLines:
    """`current` is the line of the answer that the next instruction was compiled from, 0 where none is known."""

    def __init__(self, tokens: list[Token]):
        self.current = 0
        self._headers = _header_files(tokens)
        self._callers: dict[Location, Location] = {}  # inlined code -> where it was last inlined

    def directive(self, cursor: Cursor) -> None:
        """Read `.file`, `.loc`, `.section` or `.pragma`."""
        directive = cursor.take()
        if directive == ".file":
            cursor.integer()
            cursor.take(kind="string")
            while cursor.accept(","):
                cursor.take(kind="integer")
        elif directive == ".loc":
            self._location(cursor)
        elif directive == ".section":
            while cursor.take() != "{":
                pass
            while cursor.take() != "}":
                pass
        else:  # .pragma
            cursor.take(kind="string")
            cursor.take(";")

    def _location(self, cursor: Cursor) -> None:
        """`.loc file line column [, function_name label] [, inlined_at file line column]`"""
        place = (cursor.integer(), cursor.integer(), cursor.integer())
        self._callers.pop(place, None)
        while cursor.accept(","):
            attribute = cursor.take(kind="name")
            if attribute == "function_name":
                cursor.take(kind="name")
                if cursor.accept("+"):
                    cursor.take(kind="integer")
            elif attribute == "inlined_at":
                self._callers[place] = (cursor.integer(), cursor.integer(), cursor.integer())
            else:
                raise cursor.error(f"unknown .loc attribute {attribute!r}")
        self.current = self._user_line(place)

    def _user_line(self, place: Location) -> int:
        """The line at or around `place` that is not in a header; 0 if there is none."""
        seen = set()
        while place[0] in self._headers:
            if place in seen or place not in self._callers:
                return 0
            seen.add(place)
            place = self._callers[place]
        return place[1]


def _header_files(tokens: list[Token]) -> frozenset[int]:
    """Numbers of the `.file` entries that are headers. They may follow the code that uses them."""
    return frozenset(
        integer(number.text)
        for directive, number, name in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if directive.text == ".file" and name.text.strip('"').endswith(_HEADER_SUFFIXES)
    )
