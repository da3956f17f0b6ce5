"""Multi-turn episodes: prompt -> response -> verdict -> feedback -> next response.

Tokens are append-only. An episode is its prompt's ids, then for each turn the ids as sampled and the ids of the
feedback that followed; nothing is ever tokenised twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from leap_jax.algorithm import gate as gates
from leap_jax.algorithm.gate import Gate
from leap_jax.algorithm.groups import Groups
from leap_jax.experiment import ConfigError
from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.feedback import feedback
from leap_jax.kernels.pool import VerificationPool
from leap_jax.kernels.verdict import Outcome, Verdict
from leap_jax.policy.sampler import Sampler
from leap_jax.policy.tokenizer import Tokenizer

TRAIN, EVALUATE, REPAIR = 0, 1, 2  # purposes of random keys
GATE_TURN = 0  # its key is the gate's; turns are counted from 1


class Repair(NamedTuple):
    """A prompt that asks for a task again after a failed answer: both, and the feedback, are read before turn 1."""

    task: str
    attempt_ids: tuple[int, ...]  # the answer as sampled, then its feedback


Prompt = str | Repair  # a task by name, or its repair
GateRule = Callable[[Sequence[Prompt], gates.Outcomes, jax.Array], Gate]  # (prompts [P], outcomes [P, G], key)


@dataclass
class Turn:
    """A response, its verdict, and the feedback that followed where the episode went on."""

    response_ids: list[int]  # as sampled, the end id included
    sampled_logprobs: np.ndarray  # one per response id
    truncated: bool
    text: str
    verdict: Verdict | None = None  # None while it is in the pool
    feedback: str = ""
    feedback_ids: list[int] = field(default_factory=list)


@dataclass
class Episode:
    """One rollout of one prompt: a chain of turns that ends at the first pass."""

    task: str
    prompt_ids: list[int]
    turns: list[Turn] = field(default_factory=list)
    is_repair: bool = False  # the prompt ends with a failed answer of an earlier step and its feedback

    @property
    def num_tokens(self) -> int:
        """Length of the whole conversation."""
        return len(self.prompt_ids) + sum(len(t.response_ids) + len(t.feedback_ids) for t in self.turns)

    @property
    def first_pass(self) -> int | None:
        """The turn (from 1) that passed; only the last one can."""
        return len(self.turns) if self.turns[-1].verdict.passed else None

    @property
    def valid(self) -> bool:
        """False once the environment could not judge: such an episode leaves its group."""
        return all(turn.verdict.outcome.valid for turn in self.turns)


class Rollouts(NamedTuple):
    episodes: list[list[Episode]]  # [P][G]
    gate: Gate  # [P] bool: which groups went on after turn 1, and their difficulty
    still_open: np.ndarray  # [P] bool: which of them the gate left open to the end
    replaced: np.ndarray  # [P] bool: groups in whose place others were asked; paid for, not learnt from
    generate_seconds: float
    verify_seconds: float  # waiting for verdicts with nothing left to generate


@dataclass(frozen=True)
class Actor:
    """A policy ready to act: what samples, and what judges it."""

    sampler: Sampler
    tokenizer: Tokenizer
    pool: VerificationPool
    temperature: float
    feedback_chars: int


def collect(
    actor: Actor,
    params: Any,
    prompts: Sequence[Prompt],
    *,
    group_size: int,
    max_turns: int,
    gate: GateRule,
    recheck_each_turn: bool = False,
    seed: int,
    purpose: int,
    step: int,
    first_prompt: int = 0,
) -> Rollouts:
    """Roll out `group_size` episodes of each prompt, at most `max_turns` turns in the groups that `gate` opens.

    The gate decides once, after turn 1, or again after every turn. The prompts are cut into parts that fill the
    largest batch bucket. While the pool verifies one part, the next one is generated. `first_prompt` counts the
    prompts of this step that were rolled out before.
    """
    clock = _Clock()
    per_part = max(1, actor.sampler.batch_buckets[-1] // group_size)
    parts = []
    for first in range(0, len(prompts), per_part):
        keys = partial(row_keys, seed, purpose, step, (first_prompt + first) * group_size)
        with clock.generating():
            parts.append(_Part(actor, params, prompts[first : first + per_part], group_size, keys))
    for part in parts:
        with clock.verifying():
            part.settle()
        part.decide(gate)
        if max_turns > 1:
            with clock.generating():
                part.next_turn()
    for turn in range(2, max_turns + 1):
        for part in parts:
            with clock.verifying():
                part.settle()
            if turn < max_turns:
                if recheck_each_turn:
                    part.decide(gate)
                with clock.generating():
                    part.next_turn()
    episodes = [group for part in parts for group in part.groups]
    return Rollouts(
        episodes,
        Gate(*map(np.concatenate, zip(*(part.gate for part in parts), strict=True))),
        still_open=np.concatenate([part.still_open for part in parts]),
        replaced=np.zeros(len(episodes), bool),
        generate_seconds=clock.generate_seconds,
        verify_seconds=clock.verify_seconds,
    )


def joined(first: Rollouts, second: Rollouts) -> Rollouts:
    """The rollouts of the same step in two rounds, as if they were of one."""
    return Rollouts(
        first.episodes + second.episodes,
        Gate(*map(np.concatenate, zip(first.gate, second.gate, strict=True))),
        still_open=np.concatenate([first.still_open, second.still_open]),
        replaced=np.concatenate([first.replaced, second.replaced]),
        generate_seconds=first.generate_seconds + second.generate_seconds,
        verify_seconds=first.verify_seconds + second.verify_seconds,
    )


class _Part:
    """The groups that are decoded together: their episodes, and the rows of the batch that are still going."""

    def __init__(self, actor: Actor, params: Any, prompts: Sequence[Prompt], group_size: int, keys: Callable) -> None:
        """Start the groups and sample turn 1."""
        given = [prompt_ids(actor.tokenizer, actor.sampler, prompt) for prompt in prompts]
        self.groups = [
            [new_episode(prompt, ids) for _ in range(group_size)] for prompt, ids in zip(prompts, given, strict=True)
        ]
        self.gate: Gate | None = None  # the first decision
        self.still_open: np.ndarray | None = None  # the last one
        self._prompts = prompts
        self._actor, self._params, self._keys = actor, params, keys
        self._rows = [(p, g) for p in range(len(prompts)) for g in range(group_size)]
        self._state = actor.sampler.start(params, given, group_size)
        self._pending: list[tuple[Episode, Turn, Future[Verdict]]] = []
        self._sample(turn=1)

    def settle(self) -> None:
        """Wait for the verdicts of the last responses and append the turns to their episodes."""
        for episode, turn, verdict in self._pending:
            turn.verdict = verdict.result()
            episode.turns.append(turn)
        self._pending = []

    def decide(self, gate: GateRule) -> None:
        """Let the gate judge the groups by their turns so far; a group that it has closed stays closed."""
        key = self._keys(GATE_TURN, np.zeros(1, np.int32))[0]
        decision = Gate(*map(np.asarray, gate(self._prompts, outcomes(self.groups), key)))
        if self.gate is None:
            self.gate, self.still_open = decision, decision.open
        else:
            self.still_open = self.still_open & np.asarray(gates.recheck(self.gate, decision))

    def next_turn(self) -> None:
        """Give feedback to the failing episodes of open groups, and only to those, and sample their response."""
        going_on, appended = [], []
        for row, (p, g) in enumerate(self._rows):
            episode = self.groups[p][g]
            if self.still_open[p] and episode.valid and episode.first_pass is None:
                turn = episode.turns[-1]
                turn.feedback = feedback(load_task(episode.task), turn.verdict, self._actor.feedback_chars)
                turn.feedback_ids = feedback_ids(self._actor.tokenizer, self._actor.sampler, turn.feedback)
                going_on.append(row)
                appended.append(turn.feedback_ids)
        self._rows = [self._rows[row] for row in going_on]
        if self._rows:
            self._state = self._actor.sampler.extend(self._params, self._state, going_on, appended)
            self._sample(turn=self._state.turn)

    def _sample(self, turn: int) -> None:
        """Sample one response a row and hand it to the pool."""
        group_size = len(self.groups[0])
        rows = np.zeros(self._actor.sampler.batch_buckets[-1], np.int32)  # padded: one shape for all turns
        rows[: len(self._rows)] = [p * group_size + g for p, g in self._rows]
        keys = self._keys(turn, rows)[: len(self._rows)]
        self._state, responses, logprobs, truncated = self._actor.sampler.sample(
            self._params, self._state, keys, self._actor.temperature
        )
        for (p, g), ids, ids_logprobs, cut in zip(self._rows, responses, logprobs, truncated, strict=True):
            episode = self.groups[p][g]
            text = self._actor.tokenizer.decode(ids)
            verdict = self._actor.pool.submit(episode.task, text)
            self._pending.append((episode, Turn(ids, ids_logprobs, cut, text), verdict))


@jax.jit
def row_keys(seed: int, purpose: int, step: int, first_row: int, turn: int, rows: jax.Array) -> jax.Array:
    """Keys [B], each `fold_in` of (seed, purpose, step, turn, row of the step): no random state is ever stored."""
    key = jax.random.key(seed)
    for number in (purpose, step, turn):
        key = jax.random.fold_in(key, number)
    return jax.vmap(lambda row: jax.random.fold_in(key, first_row + row))(rows)


def new_episode(prompt: Prompt, ids: list[int]) -> Episode:
    """An episode without turns, of a prompt with these ids."""
    return Episode(task_of(prompt), ids, is_repair=isinstance(prompt, Repair))


def task_of(prompt: Prompt) -> str:
    return prompt.task if isinstance(prompt, Repair) else prompt


def outcomes(groups: Sequence[Sequence[Episode]]) -> gates.Outcomes:
    """What a gate sees of the groups, arrays [P, G]."""

    def table(value: Callable[[Episode], bool]) -> np.ndarray:
        return np.array([[value(e) for e in group] for group in groups], bool)

    return gates.Outcomes(
        passed=table(lambda e: e.first_pass is not None),
        valid=table(lambda e: e.valid),
        compiled=table(lambda e: e.turns[-1].verdict.outcome.rank > Outcome.COMPILE_ERROR.rank),
    )


def prompt_ids(tokenizer: Tokenizer, sampler: Sampler, prompt: Prompt) -> list[int]:
    """The ids a policy is asked with. ConfigError where the prompt does not fit."""
    task = task_of(prompt)
    ids = tokenizer.prompt_ids(load_task(task).prompt())
    if isinstance(prompt, Repair):
        ids += prompt.attempt_ids
    if len(ids) > sampler.max_prompt_tokens:
        raise ConfigError(
            f"the prompt of task {task} has {len(ids)} tokens: raise "
            f"sampling.max_prompt_tokens={sampler.max_prompt_tokens}"
        )
    return ids


def feedback_ids(tokenizer: Tokenizer, sampler: Sampler, text: str) -> list[int]:
    """The ids of a feedback text; a text over the limit loses its end, never the token that asks for an answer."""
    ids = tokenizer.feedback_ids(text)
    limit = sampler.max_feedback_tokens
    return ids if len(ids) <= limit else ids[: limit - 1] + ids[-1:]


def to_groups(episodes: Sequence[Sequence[Episode]], max_turns: int) -> Groups:
    """What the algorithm sees of the episodes: arrays [P, G] and [P, G, T]."""

    def table(value: Callable[[Episode], Any], dtype) -> np.ndarray:
        return np.array([[value(e) for e in group] for group in episodes], dtype)

    def per_turn(value: Callable[[Turn], float | None], empty: float, dtype) -> np.ndarray:
        def row(episode: Episode) -> list[float]:
            values = [value(turn) for turn in episode.turns] + [None] * (max_turns - len(episode.turns))
            return [empty if v is None else v for v in values]

        return table(row, dtype)

    return Groups(
        first_pass=table(lambda e: e.first_pass or max_turns + 1, np.int32),
        turns=table(lambda e: len(e.turns), np.int32),
        valid=table(lambda e: e.valid, bool),
        outcome_rank=per_turn(lambda t: t.verdict.outcome.rank, -1, np.int32),
        response_tokens=per_turn(lambda t: len(t.response_ids), 0, np.int32),
        checks_share=per_turn(lambda t: t.verdict.checks_share, 0.0, np.float32),
        time_us=per_turn(lambda t: t.verdict.time_us, np.nan, np.float32),
        baseline_us=per_turn(lambda t: t.verdict.baseline_us, np.nan, np.float32),
    )


class _Clock:
    """Wall seconds spent generating, and waiting for verdicts."""

    def __init__(self) -> None:
        self.generate_seconds = self.verify_seconds = 0.0

    @contextmanager
    def generating(self) -> Iterator[None]:
        start = time.monotonic()
        yield
        self.generate_seconds += time.monotonic() - start

    @contextmanager
    def verifying(self) -> Iterator[None]:
        start = time.monotonic()
        yield
        self.verify_seconds += time.monotonic() - start
