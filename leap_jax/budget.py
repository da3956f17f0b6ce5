"""How much of its budget a run has spent, and the learning rate that follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ml_collections import ConfigDict

SPENT_IN_STEP = {  # the metric that says it
    "verifications": "train/verifications",
    "response_tokens": "train/response_tokens",
    "train_seconds": "seconds/step",
}
NOTHING_SPENT = dict.fromkeys(SPENT_IN_STEP, 0)
LAST_SHARE = 0.1  # of the peak learning rate, when the budget is spent


def limits(config: ConfigDict) -> dict[str, float]:
    """What ends the run, by name: `config.steps`, and the keys of `config.budget` that are set."""
    return {"steps": config.steps} | {name: limit for name, limit in config.budget.items() if limit is not None}


def add(spent: Mapping[str, float], metrics: Mapping[str, float]) -> dict[str, float]:
    """What is spent after a step with these metrics."""
    return {name: total + metrics[SPENT_IN_STEP[name]] for name, total in spent.items()}


def progress(spent: Mapping[str, float], limits: Mapping[str, float]) -> float:
    """The largest share of a limit that is spent: 0 at the start, 1 or more when the run is over."""
    return max(spent[name] / limit for name, limit in limits.items())


def learning_rate(step: int, progress: float, *, peak: float, warmup_steps: int) -> float:
    """A linear warm-up over steps 1, 2, ..., times a cosine over the budget from `peak` to a tenth of it.

    As a function of the budget and not of steps it decays alike in methods whose steps cost differently.
    """
    cosine = LAST_SHARE + (1.0 - LAST_SHARE) * 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0)))
    return peak * cosine * min(1.0, step / (warmup_steps + 1))
