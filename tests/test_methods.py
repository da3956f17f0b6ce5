"""Whole methods, from their config keys to the advantage of every turn, against loops written from the papers."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest
from grouped import groups_of, random_groups
from ml_collections import ConfigDict

from experiments import leap
from leap_jax import assemble, train
from leap_jax.algorithm import advantages, credit, returns, rewards
from leap_jax.algorithm.groups import Groups

METHODS = {
    "leap": {},
    "grpo": {"reward": "any_success", "advantage": "mean_std", "credit.rule": "uniform"},
    "kevin": {
        "reward": "kevin",
        "credit.rule": "reward_to_go",
        "credit.gamma": 0.4,
        "advantage": "mean_std",
    },
    "dr_kernel": {
        "reward": "speedup_capped",
        "credit.rule": "reward_to_go",
        "credit.gamma": 1.0,
        "advantage": "leave_one_out",
        "advantage_over": "turn",
    },
    "murphy": {
        "reward": "checks",
        "credit.rule": "max_to_go",
        "credit.gamma": 1.0,
        "advantage": "mean_std",
        "advantage_over": "turn",
    },
    "musacoder": {"reward": "first_turn_weighted", "advantage": "mean_std", "credit.rule": "first_turn"},
}
ALL = pytest.mark.parametrize("method", METHODS)


def config_of(method: str) -> ConfigDict:
    config = leap.get_config()
    config.update_from_flattened_dict(METHODS[method])
    return config


def found(method: str, groups: Groups) -> np.ndarray:
    algorithm = assemble.algorithm(config_of(method))
    return np.asarray(algorithm.advantage(algorithm.reward(groups), groups.valid, groups.turns))


def loop(method: str, groups: Groups, p: int, peers: np.ndarray) -> dict[tuple[int, int], float]:
    """{(rollout, turn): advantage} of the `peers`, the valid rollouts of group p, two or more."""
    turns, first = groups.turns[p], groups.first_pass[p]
    taken = [(g, t) for g in peers for t in range(turns[g])]

    def speedup(g, t):
        return groups.baseline_us[p, g, t] / groups.time_us[p, g, t]

    def passes(g, t):
        return first[g] == t + 1

    def z(value, others):
        return (value - np.mean(others)) / (np.std(others) + 1e-6)

    if method == "leap":
        r = {
            g: sum(int(first[g] < first[j]) - int(first[j] < first[g]) for j in peers) / (len(peers) - 1) for g in peers
        }
        return {(g, t): r[g] * (0.5 ** (turns[g] - 1 - t) if r[g] >= 0 else 1) for g, t in taken}
    if method == "grpo":
        r = {g: float(first[g] <= 3) for g in peers}
        return {(g, t): z(r[g], list(r.values())) for g, t in taken}
    if method == "kevin":  # every turn a sample; all turns of the prompt are one population
        s = {(g, t): 0.3 + speedup(g, t) if passes(g, t) else 0.0 for g, t in taken}
        r = {(g, t): sum(0.4 ** (i - t) * s[g, i] for i in range(t, turns[g])) for g, t in taken}
        return {key: z(value, list(r.values())) for key, value in r.items()}
    if method == "dr_kernel":  # G - mean of the others at the same turn; G itself where there is no other
        s = {(g, t): 1 + min(speedup(g, t), 3) if passes(g, t) else 0.0 for g, t in taken}
        r = {(g, t): sum(s[g, i] for i in range(t, turns[g])) for g, t in taken}
        others = {(g, t): [r[j, t] for j in peers if j != g and turns[j] > t] for g, t in taken}
        return {key: value - (np.mean(others[key]) if others[key] else 0.0) for key, value in r.items()}
    if method == "murphy":  # MaRS from the last turn backwards, then z-scores among those at the same turn
        c = {}
        for g, t in reversed(taken):
            c[g, t] = max(groups.checks_share[p, g, t], c.get((g, t + 1), 0.0))
        return {(g, t): z(c[g, t], [c[j, t] for j in peers if turns[j] > t]) for g, t in taken}
    r = dict(zip(peers, prime_echo(groups, p, peers), strict=True))
    return {(g, t): z(r[g], list(r.values())) if t == 0 else 0.0 for g, t in taken}


def prime_echo(groups: Groups, p: int, peers: np.ndarray) -> list[float]:
    """alpha s_first + (1 - alpha) max_k s_k + b_early."""
    found = []
    for g in peers:
        scores = []
        for t in range(groups.turns[p, g]):
            q = groups.checks_share[p, g, t]
            if groups.first_pass[p, g] == t + 1:
                v = groups.baseline_us[p, g, t] / groups.time_us[p, g, t]
                scores.append(1 + min(max(v - 1, 0), 3.0))
            else:
                scores.append(-0.5 + 0.5 * q if q else -1.0)
        found.append(0.75 * scores[0] + 0.25 * max(scores) + {1: 0.2, 2: 0.1}.get(int(groups.first_pass[p, g]), 0.0))
    return found


@ALL
def test_a_method_equals_its_loop(method):
    groups = random_groups(np.random.default_rng(0), (16, 6))
    groups = groups._replace(valid=groups.valid & (np.arange(16) > 0)[:, None])  # a group of nobody,
    groups.valid[1] = np.arange(6) == 2  # and one of one
    expected = np.zeros(groups.outcome_rank.shape)
    for p, valid in enumerate(groups.valid):
        if valid.sum() >= 2:
            for (g, t), advantage in loop(method, groups, p, np.flatnonzero(valid)).items():
                expected[p, g, t] = advantage
    np.testing.assert_allclose(found(method, groups), expected, rtol=2e-4, atol=2e-5)


def test_the_last_one_still_debugging_has_no_baseline_in_trloo():
    """Turn 1: three peers, returns 2, 2 and 0. Turn 2: one alone, which passes at the baseline's speed."""
    groups = groups_of([[1, 2, 4]])._replace(turns=np.array([[1, 2, 1]]))
    np.testing.assert_allclose(found("dr_kernel", groups), [[[1, 0, 0], [1, 2, 0], [-2, 0, 0]]])


@pytest.mark.parametrize(("method", "population"), [("kevin", (1, 2)), ("murphy", 1), ("musacoder", (1, 2))])
def test_advantages_sum_to_zero_over_those_that_share_a_baseline(method, population):
    advantage = found(method, random_groups(np.random.default_rng(1)))
    assert np.any(advantage)
    np.testing.assert_allclose(advantage.sum(axis=population), 0, atol=2e-4)


@ALL
def test_permuting_a_group_permutes_its_advantages_and_invalid_rollouts_never_matter(method):
    rng = np.random.default_rng(2)
    groups, order = random_groups(rng), rng.permutation(8)
    expected = found(method, groups)
    shuffled = Groups(*(values[:, order] for values in groups))
    np.testing.assert_allclose(found(method, shuffled), expected[:, order], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(expected[~groups.valid], 0)
    there = groups.valid[..., None]
    poisoned = groups._replace(
        turns=np.where(groups.valid, groups.turns, 1),
        first_pass=np.where(groups.valid, groups.first_pass, 1),
        checks_share=np.where(there, groups.checks_share, np.nan),
        time_us=np.where(there, groups.time_us, np.nan),
    )
    np.testing.assert_array_equal(found(method, poisoned), expected)


@ALL
def test_jit_changes_nothing(method):
    groups = random_groups(np.random.default_rng(3))
    config = config_of(method)
    reward = rewards.resolve(config.reward, config.reward_options)(groups)
    eager = assemble.turn_advantages(config)(reward, groups.valid, groups.turns)
    np.testing.assert_allclose(found(method, groups), eager, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", [*credit.RULES, *returns.RULES])
@pytest.mark.parametrize("over", advantages.OVER)
def test_losses_are_weighed_after_everything(rule, over):
    config = leap.get_config()
    config.credit.rule, config.advantage, config.advantage_over = rule, "mean", "group"
    groups = random_groups(np.random.default_rng(4))
    reward = rewards.checks(groups) if rule in returns.RULES else rewards.any_success(groups)
    if rule in returns.RULES:
        config.advantage_over = over
    whole = np.asarray(assemble.turn_advantages(config)(reward, groups.valid, groups.turns))
    config.credit.negative_weight = 0.5
    halved = jax.jit(assemble.turn_advantages(config))(reward, groups.valid, groups.turns)
    np.testing.assert_allclose(halved, np.where(whole < 0, whole / 2, whole), rtol=1e-4, atol=1e-6)
    assert (whole < 0).any()


@pytest.mark.parametrize("rule", ["leap", "reward_to_go"])
def test_a_reward_of_another_shape_than_the_credit_rule_takes_is_refused_by_both_keys(rule):
    config, groups = leap.get_config(), groups_of([[1, 2]])
    config.reward, config.credit.rule = "mine.own", rule
    of_rollouts, of_turns = np.zeros((1, 2)), np.zeros((1, 2, 3))
    right, wrong = (of_rollouts, of_turns) if rule == "leap" else (of_turns, of_rollouts)
    train.require_shape(config, right, groups)
    with pytest.raises(train.RunError, match=rf"reward=mine.own: .*, which credit.rule={rule} takes"):
        train.require_shape(config, wrong, groups)


def test_rewards_of_turns_train(cache_dir, tmp_path):
    """Dr.Kernel's way with a user's reward of each turn: two updates, its loss and filters, KL to the cold start."""
    config = leap.get_config("smoke")
    config.update_from_flattened_dict(METHODS["dr_kernel"])
    config.cache_dir, config.reward = str(cache_dir), "tests.toy_rewards.turns_by_length"
    config.steps, config.optimizer.warmup_steps, config.evaluation.tasks = 1, 0, 1
    config.optimizer.updates_per_step = 2
    config.gate.mode = "always"
    objective = config.objective
    objective.sequence, objective.aggregation, objective.dual_clip = "turn", "sequence_sum", 3.0
    objective.kl_coef, objective.kl_estimator = 0.01, "k2"
    objective.token_veto, objective.geometric_margin = 1e-4, 1e-3
    train.train(config, tmp_path / "run")
    metrics = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    turns = [json.loads(line) for line in (tmp_path / "run" / "rollouts.jsonl").read_text().splitlines()]
    assert metrics["train/verifications"] == metrics["train/sequences"] == len(turns) == 16  # nothing passes
    assert 0 <= metrics["train/filtered_share"] <= 1 and metrics["train/gradient_norm"] > 0
    assert all(turn["reward"] == pytest.approx(-turn["response_tokens"] / 100) for turn in turns)
    assert metrics["train/reward_mean"] == pytest.approx(sum(turn["reward"] for turn in turns) / 8)
    for turn in turns:  # the return from this turn on, against that of the others at the same turn
        go = {}
        for other in turns:
            if other["prompt"] == turn["prompt"] and other["turn"] >= turn["turn"]:
                go[other["rollout"]] = go.get(other["rollout"], 0.0) + other["reward"]
        own = go.pop(turn["rollout"])
        assert turn["advantage"] == pytest.approx(own - np.mean(list(go.values())), abs=1e-4)
