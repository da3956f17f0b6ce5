"""Reward functions: `Groups -> [P, G]`, what a rollout earned, or `-> [P, G, T]`, what each of its turns did; float32.

A built-in is named in the config (`reward='tournament'`); any other name is a dotted path to a user's function with
the same signature (`reward='my_package.my_module.my_reward'`). A parameter after the `*` is a constant of the reward:
it is given the value of that name in `config.reward_options`.

Rollouts that cannot be compared (invalid, or without a valid peer) earn 0.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from leap_jax.algorithm import tournament as pairwise
from leap_jax.algorithm.groups import Groups, comparable

Reward = Callable[..., jax.Array]  # (Groups, *, constants) -> [P, G] or [P, G, T]


def tournament(groups: Groups):
    """Rank by the turn of the first pass: (peers beaten - peers that beat it) / (G_valid - 1), in [-1, 1]."""
    beats = pairwise.earlier_pass_beats(groups.first_pass, groups.valid)
    return pairwise.relative_rewards(beats, groups.valid)


def tournament_speed(groups: Groups, *, noise_margin: float, length_bin_tokens: int):
    """As `tournament`; rollouts that pass at the same turn are ranked by time, then by length of the response.

    A time counts as shorter by more than a factor of 1 + noise_margin, a response by a bin of length_bin_tokens
    (RLRR's floor(length / lambda)): smaller differences are noise, not quality.
    """
    winner = jnp.minimum(groups.first_pass, groups.max_turns)[..., None] - 1
    time_us, tokens = (
        jnp.take_along_axis(values, winner, axis=-1)[..., 0] for values in (groups.time_us, groups.response_tokens)
    )
    passed = groups.valid & (groups.first_pass <= groups.max_turns)
    beats = pairwise.first_decides(
        pairwise.earlier_pass_beats(groups.first_pass, groups.valid),
        pairwise.larger_beats(-jnp.log(time_us), passed, margin=jnp.log1p(noise_margin)),
        pairwise.larger_beats(-(tokens // length_bin_tokens), passed),
    )
    return pairwise.relative_rewards(beats, groups.valid)


def tournament_staged(groups: Groups):
    """As `tournament`; rollouts that never pass are ranked by their last outcome: hack < ... < incorrect."""
    last = jnp.take_along_axis(groups.outcome_rank, groups.turns[..., None] - 1, axis=-1)[..., 0]
    failed = groups.valid & (groups.first_pass > groups.max_turns)
    beats = pairwise.first_decides(
        pairwise.earlier_pass_beats(groups.first_pass, groups.valid), pairwise.larger_beats(last, failed)
    )
    return pairwise.relative_rewards(beats, groups.valid)


def any_success(groups: Groups):
    """Give 1 for a pass at any turn, else 0."""
    return _of_comparable(groups, groups.first_pass <= groups.max_turns)


def manual(groups: Groups, *, turn_rewards: Sequence[float]):
    """Give turn_rewards[t - 1] for a first pass at turn t, else 0: the scalars (1, 0.8, 0.6) that LEAP replaces."""
    return _of_comparable(groups, _at_first_pass(groups, turn_rewards))


def first_turn_weighted(
    groups: Groups,
    *,
    first_turn_weight: float,
    early_bonus: Sequence[float],
    speed_weight: float,
    speedup_cap: float,
):
    """PrimeEcho (MusaCoder, arXiv 2606.04847): w s_1 + (1 - w) max_t s_t + early_bonus[k - 1], k the first pass.

    s_t is the score of turn t: -1 for no check passed, -0.5 + 0.5 q for a share q of them, and for all
    1 + speed_weight min(max(speedup - 1, 0), speedup_cap). The paper's credit goes to the first turn alone.
    """
    q = groups.checks_share
    failed = jnp.where(q > 0, -0.5 + 0.5 * q, -1.0)
    beyond = jnp.clip(groups.speedup - 1.0, 0.0, speedup_cap)
    score = jnp.where(groups.passed, 1.0 + (speed_weight * beyond if speed_weight else 0.0), failed)
    best = jnp.max(jnp.where(groups.outcome_rank >= 0, score, -1.0), axis=-1)
    echoed = first_turn_weight * score[..., 0] + (1.0 - first_turn_weight) * best
    return _of_comparable(groups, echoed + _at_first_pass(groups, early_bonus))


def checks(groups: Groups):
    """Give each turn the share of the task's checks that it passed (Murphy, arXiv 2511.07833). [P, G, T]."""
    return _of_comparable(groups, groups.checks_share)


def kevin(groups: Groups, *, correct_reward: float, speed_weight: float):
    """Give each correct turn correct_reward + speed_weight speedup, 0.3 + speedup in the paper (2507.11948)."""
    speed = speed_weight * groups.speedup if speed_weight else 0.0
    return _of_comparable(groups, jnp.where(groups.passed, correct_reward + speed, 0.0))


def speedup_capped(groups: Groups, *, speed_weight: float, speedup_cap: float):
    """Give each correct turn 1 + speed_weight min(speedup, speedup_cap) (Dr.Kernel, arXiv 2602.05885). [P, G, T]."""
    speed = speed_weight * jnp.minimum(groups.speedup, speedup_cap) if speed_weight else 0.0
    return _of_comparable(groups, jnp.where(groups.passed, 1.0 + speed, 0.0))


REWARDS: dict[str, Reward] = {
    "tournament": tournament,
    "tournament_speed": tournament_speed,
    "tournament_staged": tournament_staged,
    "any_success": any_success,
    "manual": manual,
    "first_turn_weighted": first_turn_weighted,
    "checks": checks,
    "kevin": kevin,
    "speedup_capped": speedup_capped,
}
PER_TURN = ("checks", "kevin", "speedup_capped")  # [P, G, T]; the other built-ins are [P, G]
SPEED_WEIGHTED = ("first_turn_weighted", "kevin", "speedup_capped")  # read no time where speed_weight is 0


def resolve(name: str, options: Mapping[str, Any]) -> Callable[[Groups], jax.Array]:
    """Return the reward `name`, a built-in or a dotted path to a user's, with its constants from `options`.

    Raises ValueError for a function that is not there, or that wants a constant that is not.
    """
    function = REWARDS.get(name) or _imported(name)
    wanted = _constants(function)
    missing = [constant for constant, required in wanted.items() if required and constant not in options]
    if missing:
        raise ValueError(f"reward {name!r} needs the constant {missing[0]}: set config.reward_options.{missing[0]}")
    return partial(function, **{constant: options[constant] for constant in wanted if constant in options})


def uses_speed(name: str, options: Mapping[str, Any]) -> bool:
    """Whether the built-in reward `name` reads times."""
    return (name in SPEED_WEIGHTED and options["speed_weight"] > 0) or name == "tournament_speed"


def _constants(function: Reward) -> dict[str, bool]:
    """The names of a reward's keyword-only parameters, and whether they are required."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default is p.empty for p in parameters if p.kind is p.KEYWORD_ONLY}


def _imported(name: str) -> Reward:
    module_name, _, attribute = name.rpartition(".")
    expected = f"use one of {', '.join(REWARDS)}, or a dotted path such as my_package.my_module.my_reward"
    if not module_name or not attribute:
        raise ValueError(f"reward {name!r} is unknown; {expected}")
    try:
        function = getattr(importlib.import_module(module_name), attribute, None)
    except (ImportError, ValueError) as error:  # ValueError: a malformed path such as '.x'
        raise ValueError(f"reward {name!r} cannot be imported: {error}; {expected}") from error
    if not callable(function):
        raise ValueError(f"reward {name!r}: module {module_name} has no function {attribute!r}; {expected}")
    return function


def _at_first_pass(groups: Groups, by_turn: Sequence[float]):
    """Pick by_turn[t - 1] at first pass t; 0 beyond its end and where nothing passed. [P, G]."""
    values = jnp.asarray([*by_turn, 0.0], jnp.float32)
    place = jnp.minimum(groups.first_pass - 1, len(by_turn))
    return jnp.where(groups.first_pass <= groups.max_turns, values[place], 0.0)


def _of_comparable(groups: Groups, rewards):
    """Let the others earn 0. rewards [P, G] or [P, G, T] -> float32."""
    kept = comparable(groups.valid)
    return jnp.where(kept if rewards.ndim == 2 else kept[..., None], rewards, 0.0).astype(jnp.float32)
