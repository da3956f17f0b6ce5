"""Methods to one HTML file that needs nothing else: no network, no server."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from leap_jax.report import counts, curves, tables
from leap_jax.report.browser import browser_data
from leap_jax.report.figures import Plot
from leap_jax.report.rollouts import TEXT_CHARS
from leap_jax.report.runs import Method
from leap_jax.report.tables import Table

FOLDER = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Section:
    title: str
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        return self.title.lower()


def sections(methods: Sequence[Method]) -> list[Section]:
    """All that is drawn, without what the runs have no data for."""
    last_turn = max((e.max_turns for method in methods for e in tables.evaluations(method)), default=1)
    everything = (
        Section(
            "Accuracy",
            [tables.results(methods), tables.differences(methods)],
            [*(curves.headline(methods, turn) for turn in dict.fromkeys((1, last_turn))), curves.tokens(methods)],
        ),
        Section("Cost", [], [counts.cost(methods), curves.speed(methods)]),
        Section(
            "Gate",
            [tables.confusion(methods), tables.error_classes(methods)],
            [curves.gate_shares(methods), counts.recovery(methods), counts.difficulties(methods)],
        ),
        Section("Signal", [], [counts.advantages(methods), counts.turns_to_pass(methods)]),
        Section("Policy", [], [curves.policy(methods), curves.outcomes(methods)]),
    )
    kept = [
        Section(s.title, [t for t in s.tables if t.rows], [plot for plot in s.plots if plot.drawn]) for s in everything
    ]
    return [section for section in kept if section.tables or section.plots]


def page(methods: Sequence[Method], problems: Sequence[str]) -> str:
    """The HTML. `problems` are lines about what could not be read."""
    drawn = sections(methods)
    rollouts = browser_data(methods)
    figures = [[figure for _, figure in plot.views] for section in drawn for plot in section.plots]
    scripts = [get_plotlyjs(), (FOLDER / "page.js").read_text()]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("page.html").render(
        methods=methods,
        sections=drawn,
        rollouts=rollouts,
        runs=[(method, run) for method in methods for run in method.runs],
        configs=tables.configs(methods),
        problems=problems,
        text_chars=TEXT_CHARS,
        css=Markup((FOLDER / "page.css").read_text()),
        scripts=[Markup(script) for script in scripts],
        hashes=" ".join(f"'{source_hash(script)}'" for script in scripts),
        data=Markup(as_json({"figures": figures, "rollouts": rollouts})),
    )


def source_hash(script: str) -> str:
    """What a content security policy calls a script: no other one runs, whatever the texts hold."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def as_json(value: Any) -> str:
    """JSON that holds no tag, whatever its texts do."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
