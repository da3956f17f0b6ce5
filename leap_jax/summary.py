"""What a step's rollouts say, as numbers for the curves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from leap_jax.algorithm.rewards import Groups
from leap_jax.kernels.verdict import Outcome
from leap_jax.rollout import Rollouts


def summarise(rollouts: Rollouts, groups: Groups, rewards: np.ndarray) -> dict[str, Any]:
    """The numbers of one step. Shares of groups are over P, of outcomes over first turns; rewards [P, G]."""
    turns = [turn for group in rollouts.episodes for episode in group for turn in episode.turns]
    valid = np.asarray(groups.valid)
    failed_first = np.array([[not e.turns[0].verdict.passed for e in group] for group in rollouts.episodes])
    recovered = failed_first & valid & (groups.first_pass <= groups.max_turns)
    went_on = np.asarray(groups.turns) > 1
    first = Counter(e.turns[0].verdict.outcome for group in rollouts.episodes for e in group)
    seconds = rollouts.generate_seconds + rollouts.verify_seconds
    response_tokens = sum(len(turn.response_ids) for turn in turns)
    values = {
        "train/reward_mean": float(np.mean(rewards[valid])) if valid.any() else 0.0,
        "train/acc@1": float(np.mean(~failed_first[valid])) if valid.any() else 0.0,
        "train/open_share": float(np.mean(rollouts.gate.open)),
        "train/easy_share": float(np.mean(rollouts.gate.easy)),
        "train/catastrophic_share": float(np.mean(rollouts.gate.catastrophic)),
        "train/zero_signal_share": float(np.mean(zero_signal(rewards, valid))),
        "train/recovery": float(recovered.sum() / max(1, (went_on & valid).sum())),
        "train/invalid_share": float(np.mean(~valid)),
        "train/truncated_share": float(np.mean([turn.truncated for turn in turns])),
        "train/verifications": len(turns),
        "train/response_tokens": response_tokens,
        "train/verdicts_per_second": len(turns) / max(seconds, 1e-9),
        "train/tokens_per_second": response_tokens / max(rollouts.generate_seconds, 1e-9),
        "seconds/generate": rollouts.generate_seconds,
        "seconds/verify": rollouts.verify_seconds,
    }
    values |= {f"train/outcome/{o}": first[o] / failed_first.size for o in Outcome}
    return values


def zero_signal(rewards: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Whether all valid rollouts of a group earn the same, and so teach nothing. [P, G], [P, G] bool -> [P] bool."""
    lowest = np.min(np.where(valid, rewards, np.inf), axis=1)
    highest = np.max(np.where(valid, rewards, -np.inf), axis=1)
    return ~(lowest < highest)
