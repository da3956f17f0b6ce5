"""Plots of what metrics.jsonl says over a run.

Where a method has several seeds, a line is their mean and the band around it reaches from the lowest seed to the
highest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from leap_jax import statistics
from leap_jax.kernels.verdict import Outcome
from leap_jax.report.figures import Figure, Plot, faded, method_colour, numbers, y_axis
from leap_jax.report.runs import Method, Run
from leap_jax.statistics import Curve

POINTS = 40  # of a curve over training: longer ones are averaged in as many parts
OUTCOME_COLOURS = {
    Outcome.CORRECT: "#2f9e6e",
    Outcome.INCORRECT: "#e3b341",
    Outcome.RUNTIME_ERROR: "#e0812f",
    Outcome.LAUNCH_ERROR: "#b565b8",
    Outcome.COMPILE_ERROR: "#d4515f",
    Outcome.NO_ANSWER: "#8a8f98",
    Outcome.HACK: "#d63fa0",
    Outcome.UNSUPPORTED: "#5b7f9e",
    Outcome.INFRA_ERROR: "#b9bec7",
}
AXES = {  # of leap_jax/statistics.py: title, unit
    "verifications": ("verifications", 1.0),
    "response_tokens": ("response tokens", 1.0),
    "train_seconds": ("minutes of training steps", 60.0),
    "steps": ("step", 1.0),
}


def headline(methods: Sequence[Method], turn: int) -> Plot:
    key = f"eval/heldout/acc@{turn}"
    views = [(axis.replace("_", " "), curves(methods, key, axis, percent=True)) for axis in AXES]
    what = "First-turn accuracy" if turn == 1 else f"Accuracy with up to {turn} turns"
    return Plot(f"Acc@{turn}, held out", f"{what} on tasks never trained on. Dots are the evaluations of a run.", views)


def speed(methods: Sequence[Method]) -> Plot:
    views = [
        ("seconds a step", curves(methods, "seconds/step", title="seconds")),
        ("verifications a step", curves(methods, "train/verifications", title="verifications")),
        ("tokens a step", curves(methods, "train/response_tokens", title="response tokens")),
    ]
    return Plot("Cost over training", "Pruning makes steps cheap where groups are easy or hopeless.", views)


def gate_shares(methods: Sequence[Method]) -> Plot:
    keys = ("open", "easy", "catastrophic", "zero_signal")
    views = [(key.replace("_", " "), curves(methods, f"train/{key}_share", percent=True)) for key in keys]
    note = (
        "Shares of groups after turn 1. Easy and catastrophic are classes by the thresholds, whatever the gate did; "
        "groups with zero signal give all rollouts the same reward and teach nothing."
    )
    return Plot("Open, easy, catastrophic", note, views)


def policy(methods: Sequence[Method]) -> Plot:
    views = [
        ("entropy", curves(methods, "train/entropy", title="nats a token")),
        ("KL trainer to sampler", curves(methods, "train/kl_sampled", title="nats a token")),
        ("KL to reference", curves(methods, "train/kl", title="nats a token")),
        ("gradient norm", curves(methods, "train/gradient_norm", title="norm")),
        ("clipped tokens", curves(methods, "train/clip_fraction", percent=True)),
        ("train Acc@1", curves(methods, "train/acc@1", percent=True)),
        ("recovery", curves(methods, "train/recovery", percent=True)),
    ]
    note = (
        "Entropy that falls to 0 ends exploration. The KL between trainer and sampler is near 0 unless they disagree."
    )
    return Plot("Policy health", note, [view for view in views if view[1]["data"]])


def curves(
    methods: Sequence[Method], key: str, axis: str = "steps", *, title: str = "", percent: bool = False
) -> Figure:
    """A metric against what was spent, a line for each method."""
    traces: list[Figure] = []
    x_title, unit = AXES[axis]
    held_out = key.startswith("eval/")
    for number, method in enumerate(methods):
        seeds = [shortened(statistics.curve(run.records, key, axis)) for run in method.runs]
        seeds = [Curve(seed.x / unit, seed.y) for seed in seeds if len(seed.x)]
        if not seeds:
            continue
        colour = method_colour(number)
        grid = common_grid(seeds)
        band = statistics.band(seeds, grid)
        common = {"legendgroup": method.name, "hoverinfo": "skip", "showlegend": False}
        if len(seeds) > 1:
            around = {"x": numbers([*grid, *grid[::-1]]), "y": numbers([*band.low, *band.high[::-1]])}
            traces.append(
                {**around, **common, "fill": "toself", "fillcolor": faded(colour), "mode": "none", "type": "scatter"}
            )
        if held_out:
            for seed in seeds:
                dots = {"x": numbers(seed.x), "y": numbers(seed.y), "mode": "markers", "type": "scatter"}
                traces.append({**dots, **common, "marker": {"color": colour, "size": 5, "opacity": 0.6}})
        line = {"x": numbers(grid), "y": numbers(band.mean), "name": method.name, "legendgroup": method.name}
        mode = "lines" if len(grid) > 1 else "markers"
        traces.append({**line, "mode": mode, "type": "scatter", "line": {"color": colour, "width": 2.5}})
    return {"data": traces, "layout": {"xaxis": {"title": {"text": x_title}}, "yaxis": y_axis(title, percent)}}


def shortened(curve: Curve) -> Curve:
    """At most about `POINTS` points: means over equal parts."""
    size = math.ceil(len(curve.x) / POINTS) if len(curve.x) > POINTS else 1
    starts = range(0, len(curve.x), size)
    return Curve(*(np.array([np.mean(values[s : s + size]) for s in starts]) for values in curve))


def common_grid(seeds: Sequence[Curve]) -> np.ndarray:
    """Every place where a seed was measured, between the first and the last that all of them reach."""
    low, high = max(seed.x[0] for seed in seeds), min(seed.x[-1] for seed in seeds)
    places = np.unique(np.concatenate([seed.x for seed in seeds]))
    return places[(low <= places) & (places <= high)]


def tokens(methods: Sequence[Method]) -> Plot:
    def figure(cost: Callable[[Run], float | None], title: str) -> Figure:
        traces = []
        for number, method in enumerate(methods):
            points = [
                (
                    cost(run),
                    statistics.accuracy(run.evaluation.passed_at, run.evaluation.valid, run.evaluation.max_turns).value,
                    run.name,
                )
                for run in method.runs
                if run.evaluation and cost(run) is not None
            ]
            if points:
                x, y, names = zip(*points, strict=True)
                marker = {"color": method_colour(number), "size": 11, "opacity": 0.85}
                trace = {"x": numbers(x), "y": numbers(y), "name": method.name, "text": names}
                traces.append({**trace, "mode": "markers", "type": "scatter", "marker": marker})
        return {"data": traces, "layout": {"xaxis": {"title": {"text": title}}, "yaxis": y_axis("", percent=True)}}

    views = [
        (
            "spent in training",
            figure(lambda run: run.records[-1].get("total/response_tokens"), "response tokens of training"),
        ),
        (
            "spent on an answer",
            figure(lambda run: float(np.mean(run.evaluation.tokens)), "response tokens of a rollout, all turns"),
        ),
    ]
    return Plot(
        "Tokens against accuracy",
        "A dot is a run at its last evaluation, with all its turns. Up and left is better.",
        views,
    )


def outcomes(methods: Sequence[Method]) -> Plot:
    views = []
    for method in methods:
        data = []
        for outcome, colour in OUTCOME_COLOURS.items():
            seeds = [
                shortened(statistics.curve(run.records, f"train/outcome/{outcome}", "steps")) for run in method.runs
            ]
            seeds = [seed for seed in seeds if len(seed.x)]
            if seeds and any(seed.y.any() for seed in seeds):
                grid = common_grid(seeds)
                line = {"x": numbers(grid), "y": numbers(statistics.band(seeds, grid).mean), "name": str(outcome)}
                style = {"mode": "lines", "line": {"width": 0.5, "color": colour}, "fillcolor": colour}
                data.append({**line, **style, "type": "scatter", "stackgroup": "outcomes"})
        layout = {"xaxis": {"title": {"text": "step"}}, "yaxis": {**y_axis("", True), "range": [0, 1]}}
        views.append((method.name, {"data": data, "layout": layout}))
    return Plot("Outcomes of first turns", "Shares of the outcomes of training answers, seeds averaged.", views)
