"""What a step's rollouts say, as numbers for the curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from leap_jax.algorithm.groups import Groups
from leap_jax.kernels.verdict import Outcome
from leap_jax.rollout import Rollouts


def summarise(rollouts: Rollouts, groups: Groups, rewards: np.ndarray, advantages: np.ndarray) -> dict[str, Any]:
    """The numbers of one step. rewards [P, G] or [P, G, T], advantages [P, G, T]; P counts replaced groups as well.

    Shares of groups are over P, of outcomes over first turns. Repairs of earlier failures are left out of acc@1 and
    the outcomes; groups that were opened to explore are left out of the open share and its recovery: they have their
    own numbers, so that neither flatters the policy or the gate.
    """
    turns = [turn for group in rollouts.episodes for episode in group for turn in episode.turns]
    valid, first_pass = np.asarray(groups.valid), np.asarray(groups.first_pass)
    fresh = valid & ~np.array([[e.is_repair for e in group] for group in rollouts.episodes])
    first = Counter(e.turns[0].verdict.outcome for group in rollouts.episodes for e in group if not group[0].is_repair)
    seconds = rollouts.generate_seconds + rollouts.verify_seconds
    response_tokens = sum(len(turn.response_ids) for turn in turns)
    values = {
        "train/reward_mean": mean(rewards.reshape(*valid.shape, -1).sum(-1)[valid]),
        "train/acc@1": mean(first_pass[fresh] == 1),
        "train/easy_share": mean(rollouts.gate.easy),
        "train/catastrophic_share": mean(rollouts.gate.catastrophic),
        "train/still_open_share": mean(rollouts.still_open),
        "train/zero_signal_share": mean(zero_signal(advantages)[~rollouts.replaced]),
        "train/replaced_groups": int(rollouts.replaced.sum()),
        "train/repair_share": mean([group[0].is_repair for group in rollouts.episodes]),
        "train/repair_acc@1": mean(first_pass[valid & ~fresh] == 1),
        "train/invalid_share": mean(~valid),
        "train/truncated_share": mean([turn.truncated for turn in turns]),
        "train/verifications": len(turns),
        "train/response_tokens": response_tokens,
        "train/verdicts_per_second": len(turns) / max(seconds, 1e-9),
        "train/tokens_per_second": response_tokens / max(rollouts.generate_seconds, 1e-9),
        "seconds/generate": rollouts.generate_seconds,
        "seconds/verify": rollouts.verify_seconds,
    }
    explored = np.asarray(rollouts.gate.explored)
    for prefix, opened in (("", np.asarray(rollouts.gate.open) & ~explored), ("explored_", explored)):
        values |= {f"train/{prefix}{name}": value for name, value in debugging(groups, opened).items()}
    values |= {f"train/outcome/{o}": first[o] / max(1, first.total()) for o in Outcome}
    return values | dict(mean_advantages(groups, advantages))


def debugging(groups: Groups, opened: np.ndarray) -> dict[str, float]:
    """What the turns after the first cost and brought in the groups `opened` [P] bool.

    recovery: share of the rollouts that went on and passed; group_recovery: share of the opened groups, of those with
    anything to debug, in which at least one did.
    """
    turns, first_pass = np.asarray(groups.turns), np.asarray(groups.first_pass)
    went_on = (turns > 1) & opened[:, None]
    judged = went_on & np.asarray(groups.valid)
    recovered = judged & (first_pass <= groups.max_turns)
    return {
        "open_share": mean(opened),
        "debug_verifications": int((turns - 1)[went_on].sum()),
        "recovery": mean(recovered[judged]),
        "group_recovery": mean(recovered.any(axis=1)[judged.any(axis=1)]),
    }


def mean_advantages(groups: Groups, advantages: np.ndarray) -> Iterator[tuple[str, float]]:
    """Yield the mean advantage of a turn by when its rollout passed: train/advantage/pass_2/turn_1, .../fail/turn_3.

    Only of what occurred.
    """
    turns, first_pass = np.asarray(groups.turns), np.asarray(groups.first_pass)
    for tier in range(1, groups.max_turns + 2):
        name = f"pass_{tier}" if tier <= groups.max_turns else "fail"
        for turn in range(1, min(tier, groups.max_turns) + 1):
            there = np.asarray(groups.valid) & (first_pass == tier) & (turns >= turn)
            if there.any():
                yield f"train/advantage/{name}/turn_{turn}", mean(advantages[..., turn - 1][there])


def zero_signal(advantages: np.ndarray) -> np.ndarray:
    """Whether nothing in a group has an advantage, so that it teaches nothing. [P, G, T] -> [P] bool."""
    return ~np.any(advantages, axis=(1, 2))


def mean(values: Any) -> float:
    """The mean, and 0 of nothing."""
    return float(np.mean(values)) if np.size(values) else 0.0
