"""Rollouts as the page's browser shows them: text with its highlighting, tokens and differences as numbers beside it.

Text never becomes markup: the page makes elements of it by itself, from lengths. All lengths are in UTF-16 units, in
which JavaScript counts.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence
from typing import Any

from pygments.lexers import CudaLexer
from pygments.token import Token, _TokenType

from leap_jax.reading import Record, visible
from leap_jax.report.rollouts import Group, Rollout, judged, passed_at
from leap_jax.report.runs import Method

STYLES = (  # the class of a stretch of code is its place here, from 1; 0 is plain
    (Token.Comment.Preproc, "preprocessor"),
    (Token.Comment, "comment"),
    (Token.Keyword.Type, "type"),
    (Token.Keyword, "keyword"),
    (Token.Name.Function, "function"),
    (Token.Name.Builtin, "builtin"),
    (Token.Literal.String, "string"),
    (Token.Literal.Number, "number"),
)
LINE_CHARS = 400  # a longer line is not highlighted: the lexer's patterns may take quadratic time on it
LINES = 600  # of a response that are shown
LEXER = CudaLexer(stripnl=False, ensurenl=False)


def browser_data(methods: Sequence[Method]) -> dict[str, Any]:
    """All that the browser shows: runs, and groups with their rollouts and turns."""
    runs, groups, left_out = [], [], 0
    for method in methods:
        for run in method.runs:
            sources = [("train", run.sample, run.config["max_turns"])]
            if run.evaluation:
                sources.append(("held out", run.evaluation.sample, run.evaluation.max_turns))
            for kind, sample, max_turns in sources:
                shown = sample.groups()
                left_out += sample.offered - len(shown)
                groups += [group_view(len(runs), kind, group, max_turns) for group in shown]
            runs.append(run.name)
    styles = ["plain", *(name for _, name in STYLES)]
    return {"runs": runs, "groups": groups, "leftOut": left_out, "styles": styles}


def group_view(run: int, kind: str, group: Group, max_turns: int) -> dict[str, Any]:
    first = group[0][0]
    return {
        "run": run,
        "kind": kind,
        "step": first["step"],
        "prompt": first["prompt"],
        "task": visible(first["task"]),
        "text": visible(str(first.get("prompt_text", ""))),
        "rollouts": [rollout_view(rollout, max_turns) for rollout in group],
    }


def rollout_view(rollout: Rollout, max_turns: int) -> dict[str, Any]:
    turns, before = [], None
    for record in rollout:
        turns.append(turn_view(record, before))
        before = turns[-1]["text"]
    return {
        "id": rollout[0]["rollout"],
        "pass": passed_at(rollout, max_turns) if judged(rollout) else 0,
        "reward": rounded(rollout[0].get("reward")),
        "turns": turns,
    }


def turn_view(record: Record, before: str | None) -> dict[str, Any]:
    """A turn; `before` is the text of the previous one, to which `diff` gives the lines that differ."""
    text = "\n".join(visible(record["response"]).split("\n")[:LINES])
    lengths, logprobs = tokens(record, text)
    view = {
        "outcome": record["outcome"],
        "stage": visible(record["stage"]),
        "tokens": record["response_tokens"],
        "advantage": rounded(record.get("advantage")),
        "text": text,
        "cut": record["response_chars"] if len(text) < record["response_chars"] else 0,
        "styles": styles(text),
        "lengths": lengths,
        "logprobs": logprobs,
        "feedback": visible(record["feedback"]),
        "diff": None if before is None else changed_lines(before, text),
    }
    return {name: value for name, value in view.items() if value not in (None, "", 0, [])} | {"text": text}


def styles(text: str) -> list[int]:
    """[style, length, style, length, ...] that cover the text."""
    if max(map(len, text.split("\n"))) > LINE_CHARS:
        return [0, utf16(text)]
    found: list[int] = []
    for kind, part in LEXER.get_tokens(text):
        style = style_of(kind)
        if found and found[-2] == style:
            found[-1] += utf16(part)
        else:
            found += [style, utf16(part)]
    return found


def style_of(kind: _TokenType) -> int:
    return next((place for place, (style, _) in enumerate(STYLES, start=1) if kind in style), 0)


def tokens(record: Record, text: str) -> tuple[list[int], list[float]]:
    """Lengths and log-probabilities of the tokens that the text holds; empty where the record has none that fit."""
    lengths, logprobs = record.get("token_lengths"), record.get("logprobs")
    if not (isinstance(lengths, list) and isinstance(logprobs, list) and len(lengths) == len(logprobs)):
        return [], []
    if not all(type(n) is int and n >= 0 for n in lengths) or not all(type(p) in (int, float) for p in logprobs):
        return [], []
    ends = list(itertools.accumulate(lengths))
    shown = sum(end - length <= len(text) for end, length in zip(ends, lengths, strict=True))
    lengths, logprobs, ends = lengths[:shown], logprobs[:shown], ends[:shown]  # those of a cut text
    parts = [text[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    return [utf16(part) for part in parts], logprobs


def changed_lines(before: str, after: str) -> list[list[int]]:
    """[[i1, i2, j1, j2], ...]: lines i1 to i2 of `before` became lines j1 to j2 of `after`."""
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    return [list(places) for tag, *places in matcher.get_opcodes() if tag != "equal"]


def utf16(text: str) -> int:
    """Its length in JavaScript."""
    return len(text) + sum(character > "\uffff" for character in text)


def rounded(value: Any) -> float | None:
    return float(f"{value:.4g}") if type(value) in (int, float) else None
