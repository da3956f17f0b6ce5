"""The fenced code blocks of a response, as CommonMark reads them, except that a fence with a language nests."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^[ \t]*+(?P<marks>`{3,}+|~{3,}+)(?P<info>[^`\n]*+)$", re.MULTILINE)


def code_blocks(text: str) -> tuple[list[str], bool]:
    """Return the blocks that are closed and hold no other block, in order, and whether one is left open.

    A closing fence is at least as long as its opening one, of the same mark, and alone on its line.
    """
    blocks: list[str] = []
    open_fences: list[tuple[str, int]] = []  # marks, where the block starts
    innermost = False
    for fence in _FENCE.finditer(text):
        marks, info = fence["marks"], fence["info"].strip()
        if open_fences and not info and marks.startswith(open_fences[-1][0]):
            _, start = open_fences.pop()
            if innermost:
                blocks.append(text[start : fence.start()])
            innermost = False
        elif not open_fences or info:
            open_fences.append((marks, fence.end() + 1))
            innermost = True
    return blocks, bool(open_fences)
