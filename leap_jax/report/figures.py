"""What all plots share: plain plotly figures, drawn by the browser, and their looks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Figure = dict[str, Any]  # of plotly: data, layout

METHOD_COLOURS = ("#3d85c6", "#e0812f", "#3f9e6e", "#b565b8", "#c4a11d", "#4fb3bf", "#d4515f", "#8a8f98")
TURN_COLOURS = ("#2f9e6e", "#7fc29b", "#c3d98b", "#e3c567", "#e0a458", "#d98b5f")
FAIL_COLOUR = "#9aa0aa"


@dataclass(frozen=True)
class Plot:
    """A card of the page. It shows one of the views: other axes, or other methods."""

    title: str
    note: str
    views: list[tuple[str, Figure]]  # (label, figure)

    @property
    def drawn(self) -> bool:
        """Whether there is anything to see."""
        return any(figure["data"] for _, figure in self.views)


def tier_name(tier: int, max_turns: int) -> str:
    return f"turn {tier}" if tier <= max_turns else "fail"


def tier_colour(tier: int, max_turns: int) -> str:
    return TURN_COLOURS[min(tier, len(TURN_COLOURS)) - 1] if tier <= max_turns else FAIL_COLOUR


def method_colour(number: int) -> str:
    return METHOD_COLOURS[number % len(METHOD_COLOURS)]


def faded(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"


def y_axis(title: str, percent: bool) -> Figure:
    return {"title": {"text": title}, **({"tickformat": ".0%", "rangemode": "tozero"} if percent else {})}


def numbers(values: Iterable[float]) -> list[float | None]:
    """For JSON: six digits, no NaN."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]
