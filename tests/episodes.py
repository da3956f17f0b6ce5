"""Episodes made by hand, and a pool whose verdicts a function gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

import numpy as np

from leap_jax.kernels.verdict import Outcome, Verdict
from leap_jax.rollout import Episode, Turn

CORRECT, INCORRECT, NO_ANSWER = Outcome.CORRECT, Outcome.INCORRECT, Outcome.NO_ANSWER
UNSUPPORTED, INFRA_ERROR = Outcome.UNSUPPORTED, Outcome.INFRA_ERROR


def verdict(outcome: Outcome) -> Verdict:
    return Verdict(outcome, "done" if outcome is CORRECT else "compare", "a message", time_us=None)


def episode(*outcomes: Outcome, seed: int = 0, vocab: int = 37, prompt_tokens: int = 3) -> Episode:
    """An episode with a turn for each outcome, of 1 to 3 random tokens each, and feedback of 2 between them."""
    rng = np.random.default_rng((seed, len(outcomes)))

    def ids(count: int) -> list[int]:
        return rng.integers(0, vocab, count).tolist()

    turns = []
    for number, outcome in enumerate(outcomes, start=1):
        response = ids(rng.integers(1, 4))
        logprobs = -rng.uniform(2.5, 4.5, len(response)).astype(np.float32)
        goes_on = number < len(outcomes)
        said = {"feedback": "wrong", "feedback_ids": ids(2)} if goes_on else {}
        turns.append(Turn(response, logprobs, False, "text", verdict(outcome), **said))
    return Episode(f"composed/{seed}", ids(prompt_tokens), turns)


class FakePool:
    """Answers at once what `judge(task, text)` says; `submitted` and `log` tell what was asked, in order."""

    def __init__(self, judge: Callable[[str, str], Outcome]) -> None:
        self._judge = judge
        self.submitted: list[tuple[str, str]] = []

    def submit(self, task: str, text: str) -> Future[Verdict]:
        self.submitted.append((task, text))
        future: Future[Verdict] = Future()
        future.set_result(verdict(self._judge(task, text)))
        return future


def all_turns(groups: Sequence[Sequence[Episode]]) -> list[Turn]:
    return [turn for group in groups for one in group for turn in one.turns]
