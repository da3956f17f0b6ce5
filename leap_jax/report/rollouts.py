"""What thousands of rollouts say, read one group at a time: counts over all of them, and the texts of a few groups."""

from __future__ import annotations

import heapq
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from leap_jax.kernels.verdict import Outcome
from leap_jax.reading import ReadError, Record, json_lines

TEXT_CHARS = 8000  # of a response or a feedback that the page shows
FIELDS = {"prompt": int, "rollout": int, "turn": int, "task": str, "response": str, "response_tokens": int}
FIELDS |= {"outcome": str, "stage": str, "feedback": str}

Rollout = list[Record]  # its turns in order
Group = list[Rollout]  # of one prompt


def groups(path: Path) -> Iterator[Group]:
    """Yield the groups of a .jsonl file of turns. Raises ReadError at the first damaged line."""
    for _, turns in groupby(_turns(path), key=lambda turn: (turn["step"], turn["prompt"])):
        yield [list(rollout) for _, rollout in groupby(turns, key=lambda turn: turn["rollout"])]


def _turns(path: Path) -> Iterator[Record]:
    for number, turn in enumerate(json_lines(path), start=1):
        for name, kind in FIELDS.items():
            if not isinstance(turn.get(name), kind):
                raise ReadError(f"{path}, line {number}: not the record of a turn, its {name!r} is no {kind.__name__}")
        if turn["outcome"] not in set(Outcome):
            raise ReadError(f"{path}, line {number}: unknown outcome {turn['outcome']!r:.40}")
        yield turn


def judged(rollout: Rollout) -> bool:
    """Whether the environment could judge every turn."""
    return all(Outcome(turn["outcome"]).valid for turn in rollout)


def passed_at(rollout: Rollout, max_turns: int) -> int:
    """The turn that passed, only the last one can; max_turns + 1 if none."""
    return len(rollout) if rollout[-1]["outcome"] == Outcome.CORRECT else max_turns + 1


class Difficulty(NamedTuple):
    """Of a group after turn 1."""

    valid: int  # rollouts that could be judged
    failing: int  # of them


@dataclass
class GroupCounts:
    """Groups of one difficulty."""

    groups: int = 0
    opened: int = 0  # groups whose failing rollouts went on
    rescued: int = 0  # groups in which one of those passed later
    went_on: int = 0  # rollouts that failed turn 1 and took another
    recovered: int = 0  # of them, that passed later
    extra_turns: int = 0  # verifications after turn 1

    def __add__(self, other: GroupCounts) -> GroupCounts:
        return GroupCounts(**{name: count + getattr(other, name) for name, count in vars(self).items()})


@dataclass
class Tally:
    """Counts over the rollouts of a run."""

    max_turns: int
    passed_at: Counter[tuple[int, int]] = field(default_factory=Counter)  # (step, turn of the pass)
    difficulties: dict[Difficulty, GroupCounts] = field(default_factory=dict)
    advantages: dict[tuple[int, int], Counter[float]] = field(default_factory=dict)  # (turn of the pass, turn)

    def add(self, group: Group) -> None:
        rollouts = [rollout for rollout in group if judged(rollout)]
        for rollout in rollouts:
            tier = passed_at(rollout, self.max_turns)
            self.passed_at[rollout[0]["step"], tier] += 1
            for turn in rollout:
                if isinstance(turn.get("advantage"), int | float):
                    seen = self.advantages.setdefault((tier, turn["turn"]), Counter())
                    seen[float(f"{turn['advantage']:.3g}")] += 1  # rounded: few distinct ones, whatever the reward
        failing = [rollout for rollout in rollouts if rollout[0]["outcome"] != Outcome.CORRECT]
        went_on = [rollout for rollout in failing if len(rollout) > 1]
        recovered = sum(passed_at(rollout, self.max_turns) <= self.max_turns for rollout in went_on)
        difficulty = Difficulty(len(rollouts), len(failing))
        counts = GroupCounts(
            groups=1,
            opened=int(bool(went_on)),
            rescued=int(bool(recovered)),
            went_on=len(went_on),
            recovered=recovered,
            extra_turns=sum(len(rollout) - 1 for rollout in went_on),
        )
        self.difficulties[difficulty] = self.difficulties.get(difficulty, GroupCounts()) + counts


def merged(tallies: Sequence[Tally]) -> dict[Difficulty, GroupCounts]:
    """The counts by difficulty of several runs together."""
    total: dict[Difficulty, GroupCounts] = {}
    for tally in tallies:
        for difficulty, counts in tally.difficulties.items():
            total[difficulty] = total.get(difficulty, GroupCounts()) + counts
    return dict(sorted(total.items()))


class Sample:
    """The groups of a run whose texts are shown: of all that were offered, the `size` with the lowest rank."""

    def __init__(self, size: int) -> None:
        self.offered = 0  # groups
        self._size = size
        self._heap: list[tuple[int, int, Group]] = []  # the highest rank on top: what falls out is not needed again

    def offer(self, group: Group) -> None:
        self.offered += 1
        entry = (-rank(group[0][0]), -self.offered)
        if len(self._heap) < self._size or entry > self._heap[0][:2]:
            heapq.heappush(self._heap, (*entry, [[_bounded(turn) for turn in rollout] for rollout in group]))
        if len(self._heap) > self._size:
            heapq.heappop(self._heap)

    def groups(self) -> list[Group]:
        """Those kept, in the order of the run."""
        return [group for *_, group in sorted(self._heap, key=lambda entry: -entry[1])]


def rank(turn: Record) -> int:
    """A fixed random number of a step and prompt, the same in all runs: so that they show the same prompts."""
    return zlib.crc32(f"{turn['step']}/{turn['prompt']}".encode())


def _bounded(turn: Record) -> Record:
    """The turn with its texts and lists cut; `response_chars` is the whole length of the response."""
    names = ("response", "feedback", "prompt_text", "token_lengths", "logprobs")
    cut = {name: turn[name][:TEXT_CHARS] for name in names if isinstance(turn.get(name), str | list)}
    return turn | cut | {"response_chars": len(turn["response"])}
