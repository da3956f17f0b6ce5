"""Which prompts a step asks, and what takes the place of groups that teach nothing."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from episodes import CORRECT, INCORRECT, episode

from experiments import leap
from leap_jax import curriculum
from leap_jax.algorithm.gate import Gate
from leap_jax.history import EMPTY
from leap_jax.kernels import generator
from leap_jax.refill import refill
from leap_jax.rollout import Repair, Rollouts

STORED = EMPTY._replace(failures=tuple(Repair(f"composed/{seed}", (seed,)) for seed in range(100)))


def config(**overrides: object):
    made = leap.get_config("smoke")
    made.prompts_per_step = 6
    made.update_from_flattened_dict(overrides)
    return made


def level(task: str) -> int:
    return generator.compose(int(task.removeprefix("composed/"))).level


def test_no_two_steps_ask_the_same_and_none_asks_what_is_held_out():
    asked = [curriculum.step_prompts(config(), step, 0.0, EMPTY)[0] for step in (1, 2, 3)]
    assert len({task for tasks in asked for task in tasks}) == 18
    assert {generator.split(int(task.removeprefix("composed/"))) for tasks in asked for task in tasks} == {"train"}
    prompts, further, _ = curriculum.step_prompts(config(), 2, 0.7, EMPTY)
    assert prompts == asked[1], "progress matters without a curriculum"
    more = config(prompts_per_step=9)
    assert prompts + list(islice(further, 3)) == curriculum.step_prompts(more, 2, 0.0, EMPTY)[0]


def test_a_curriculum_bounds_the_operations_in_equal_shares_of_the_budget():
    staged = config(**{"curriculum.max_operations": (2, 3, 4)})
    at = (0.0, 0.33, 0.34, 0.66, 0.67, 0.999)
    assert [curriculum.most_operations(staged, progress) for progress in at] == [2, 2, 3, 3, 4, 4]
    assert curriculum.most_operations(config(), 0.5) is None
    prompts, further, _ = curriculum.step_prompts(staged, 1, 0.1, EMPTY)
    found = [level(task) for task in [*prompts, *islice(further, 6)]]
    assert max(found) == 2
    every = [task for task in islice(curriculum.tasks(1), 200) if level(task) <= 2]
    assert prompts == every[:6], "the tasks that fit, in the order of the stream"


def test_failures_are_retried_with_the_given_chance_in_the_slots_of_their_step():
    def retried(step: int, **overrides: object) -> list[bool]:
        settings = {"dead_groups.then": "retry_buffer", "dead_groups.retry_prob": 0.25, "prompts_per_step": 32}
        prompts, _, left = curriculum.step_prompts(config(**settings | overrides), step, 0.0, STORED)
        taken = [isinstance(prompt, Repair) for prompt in prompts]
        assert [prompt for prompt in prompts if isinstance(prompt, Repair)] == list(STORED.failures[: sum(taken)])
        assert left.failures == STORED.failures[sum(taken) :]
        fresh = curriculum.step_prompts(config(prompts_per_step=32), step, 0.0, STORED)[0]
        assert all(given == task for given, task, repair in zip(prompts, fresh, taken, strict=True) if not repair)
        return taken

    steps = [retried(step) for step in range(1, 5)]
    assert np.mean(steps) == pytest.approx(0.25, abs=0.08)
    assert retried(1) == steps[0] != steps[1]
    assert retried(1, seed=1) != steps[0]
    assert all(retried(1, **{"dead_groups.retry_prob": 1.0}))
    for then in ("keep", "refill"):
        prompts, _, left = curriculum.step_prompts(config(**{"dead_groups.then": then}), 1, 0.0, STORED)
        assert left is STORED and not any(isinstance(prompt, Repair) for prompt in prompts)


def outcome(task: str) -> Rollouts:
    """One task's group of two: it passes and fails where the task is `live`, and only fails elsewhere."""
    return [episode(CORRECT if task.startswith("live") else INCORRECT), episode(INCORRECT)]


class Asked:
    """Rolls out tasks by name and remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], int]] = []

    def __call__(self, tasks: list[str], *, first_prompt: int = 0) -> Rollouts:
        self.calls.append((tasks, first_prompt))
        closed = np.zeros(len(tasks), bool)
        return Rollouts([outcome(task) for task in tasks], Gate(*[closed] * 4), closed, closed, 1.0, 2.0)


def signal(episodes: list) -> tuple[None, None, np.ndarray]:
    """Advantages [P, 2, 1]: 0 where both fail."""
    live = np.array([group[0].first_pass is not None for group in episodes])
    return None, None, live[:, None, None] * np.array([1.0, -1.0])[:, None]


def test_dead_groups_give_way_to_fresh_tasks_a_bounded_number_of_times():
    asked, further = Asked(), iter(["dead 4", "live 5", "dead 6", "live 7"])
    rollouts = refill(asked(["live 0", "dead 1", "dead 2", "live 3"]), further, asked, signal, rounds=2)
    assert asked.calls[1:] == [(["dead 4", "live 5"], 4), (["dead 6"], 6)]
    assert rollouts.replaced.tolist() == [False, True, True, False, True, False, False]
    assert len(rollouts.episodes) == 7 and rollouts.generate_seconds == 3.0
    assert sum(~rollouts.replaced) == 4
    assert next(further) == "live 7"


def test_live_groups_are_left_alone():
    asked = Asked()
    rollouts = refill(asked(["live 0", "live 1"]), iter([]), asked, signal, rounds=5)
    assert len(asked.calls) == 1 and not rollouts.replaced.any()
    asked = Asked()
    rollouts = refill(asked(["dead 0", "live 1"]), iter(["live 2", "live 3"]), asked, signal, rounds=5)
    assert len(asked.calls) == 2 and rollouts.replaced.tolist() == [True, False, False]
