"""Groups made by hand, for rewards and what follows from them."""

from __future__ import annotations

import numpy as np

from leap_jax.algorithm.groups import Groups

OPTIONS = {
    "turn_rewards": (1.0, 0.8, 0.6),
    "noise_margin": 0.05,
    "length_bin_tokens": 16,
    "first_turn_weight": 0.75,
    "early_bonus": (0.2, 0.1),
    "correct_reward": 0.3,
    "speed_weight": 1.0,
    "speedup_cap": 3.0,
}


def groups_of(first_pass, valid=None, max_turns: int = 3, **fields: object) -> Groups:
    """Groups [P, G] whose failing rollouts take all turns; by default all times are 5 us and failures pass no check."""
    first_pass = np.asarray(first_pass)
    turns = np.minimum(first_pass, max_turns)
    turn = np.arange(1, max_turns + 1)
    taken, passed = turn <= turns[..., None], turn == first_pass[..., None]
    made = Groups(
        first_pass=first_pass,
        turns=turns,
        valid=np.ones(first_pass.shape, bool) if valid is None else np.asarray(valid),
        outcome_rank=np.where(passed, 6, np.where(taken, 0, -1)),
        response_tokens=np.where(taken, 10, 0),
        checks_share=np.where(passed, 1.0, 0.0).astype(np.float32),
        time_us=np.where(passed, 5.0, np.nan).astype(np.float32),
        baseline_us=np.where(passed, 5.0, np.nan).astype(np.float32),
    )
    return made._replace(**{name: np.asarray(value) for name, value in fields.items()})


def random_groups(rng: np.random.Generator, shape: tuple[int, int] = (6, 8), max_turns: int = 3) -> Groups:
    """Groups of all kinds: invalid rollouts, failures that stop early, times, lengths, shares of checks."""
    first_pass = rng.integers(1, max_turns + 2, shape)
    turns = np.where(first_pass <= max_turns, first_pass, rng.integers(1, max_turns + 1, shape))
    turn = np.arange(1, max_turns + 1)
    taken, passed = turn <= turns[..., None], turn == first_pass[..., None]
    size = taken.shape
    return Groups(
        first_pass=first_pass,
        turns=turns,
        valid=rng.random(shape) < 0.8,
        outcome_rank=np.where(passed, 6, np.where(taken, rng.integers(0, 6, size), -1)),
        response_tokens=np.where(taken, rng.integers(1, 60, size), 0),
        checks_share=np.where(passed, 1.0, np.where(taken, rng.integers(0, 6, size) / 6, 0)).astype(np.float32),
        time_us=np.where(passed, rng.uniform(1, 4, size), np.nan).astype(np.float32),
        baseline_us=np.where(passed, 3.0, np.nan).astype(np.float32),
    )
