"""Multi-turn episodes of a small real policy: what was sampled, who goes on, and what the update is given."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, partial

import jax
import numpy as np
import pytest
from episodes import CORRECT, INCORRECT, INFRA_ERROR, NO_ANSWER, UNSUPPORTED, FakePool, all_turns, episode
from tiny_policy import QUICK_BUILD, split, tiny

from leap_jax.algorithm.gate import Gate
from leap_jax.evaluate import evaluate, every_group
from leap_jax.experiment import ConfigError
from leap_jax.kernels.catalog import load_task
from leap_jax.kernels.feedback import feedback
from leap_jax.kernels.verdict import Outcome, Verdict
from leap_jax.policy.logprobs import response_logprobs
from leap_jax.policy.sampler import Sampler
from leap_jax.policy.tokenizer import Tokenizer
from leap_jax.rollout import (
    EVALUATE,
    TRAIN,
    Actor,
    Repair,
    Rollouts,
    collect,
    feedback_ids,
    joined,
    prompt_ids,
    row_keys,
    to_groups,
)
from leap_jax.update import to_batch

TASKS = ["composed/0", "composed/1", "composed/2"]
SPOKEN = feedback(load_task(TASKS[0]), Verdict(INCORRECT, "compare", "a message"), 80)
TOKENIZER = Tokenizer.train([load_task(task).prompt() for task in TASKS] * 2 + [SPOKEN] * 2, 330)
GRAPHDEF, PARAMS = split(tiny(layers=1, vocab_size=TOKENIZER.vocab_size), scale=0.3)
LONGEST_PROMPT = max(len(TOKENIZER.prompt_ids(load_task(task).prompt())) for task in TASKS)
TEMPERATURE = 0.8


@cache
def sampler(
    batch_buckets: tuple[int, ...] = (4, 12), max_feedback_tokens: int = 24, max_prompt_tokens: int = LONGEST_PROMPT
) -> Sampler:
    return Sampler(
        GRAPHDEF,
        max_prompt_tokens=max_prompt_tokens,
        max_response_tokens=8,
        max_feedback_tokens=max_feedback_tokens,
        max_turns=3,
        batch_buckets=batch_buckets,
        end_id=TOKENIZER.end_id,
        pad_id=TOKENIZER.pad_id,
    )


def actor(judge: Callable[[str, str], Outcome], **sizes: object) -> Actor:
    return Actor(sampler(**sizes), TOKENIZER, FakePool(judge), TEMPERATURE, feedback_chars=80)


def rollouts(acting: Actor, *, gate: Callable = every_group, max_turns: int = 3, **place: int) -> Rollouts:
    place = {"seed": 0, "purpose": TRAIN, "step": 1} | place
    return collect(acting, PARAMS, TASKS, group_size=4, max_turns=max_turns, gate=gate, **place)


def by_hash(*outcomes: Outcome) -> Callable[[str, str], Outcome]:
    """Judge a text by its checksum: a function of what was sampled, as a real verdict is."""
    return lambda task, text: outcomes[zlib.crc32(text.encode()) % len(outcomes)]


MIXED = by_hash(INCORRECT, CORRECT, NO_ANSWER)


def responses(found: Rollouts) -> list[list[int]]:
    return [turn.response_ids for turn in all_turns(found.episodes)]


def outcomes(found: Rollouts) -> Iterable[list[Outcome]]:
    return ([turn.verdict.outcome for turn in one.turns] for group in found.episodes for one in group)


def test_an_episode_is_exactly_what_was_fed_and_sampled(monkeypatch):
    """The sampler's own log of ids, row by row, equals what the update is given: nothing is tokenised again."""
    fed: list[list[int]] = []  # one conversation for each row that is still going
    ended: list[list[int]] = []
    start, sample, extend = Sampler.start, Sampler.sample, Sampler.extend

    def logged_start(self, params, prompts, repeats):
        ended.extend(fed)
        fed[:] = [list(prompt) for prompt in prompts for _ in range(repeats)]
        return start(self, params, prompts, repeats)

    def logged_sample(self, *arguments):
        result = sample(self, *arguments)
        for row, ids in zip(fed, result[1], strict=True):
            row += ids
        return result

    def logged_extend(self, params, state, rows, appended):
        ended.extend(row for number, row in enumerate(fed) if number not in rows)
        fed[:] = [fed[row] + list(ids) for row, ids in zip(rows, appended, strict=True)]
        return extend(self, params, state, rows, appended)

    for name, logged in (("start", logged_start), ("sample", logged_sample), ("extend", logged_extend)):
        monkeypatch.setattr(Sampler, name, logged)
    acting = actor(MIXED)
    found = rollouts(acting)
    ended += fed

    episodes = [one for group in found.episodes for one in group]
    assert {len(one.turns) for one in episodes} == {1, 2, 3}
    batch = one_a_row(episodes)
    given = [row[mask == 1].tolist() for row, mask in zip(batch.tokens, batch.segment_ids, strict=True)]
    assert sorted(given) == sorted(ended)
    assert sorted(text for _, text in acting.pool.submitted) == sorted(map(TOKENIZER.decode, responses(found)))


def one_a_row(episodes):
    """The batch of an update, each episode in its own row."""
    longest = max(one.num_tokens for one in episodes)
    return to_batch([[(one, np.ones(3))] for one in episodes], len(episodes), longest, "rollout")


def test_sampled_logprobs_equal_recomputed_ones():
    """Over whole multi-turn episodes as the update lays them out."""
    found = rollouts(actor(MIXED))
    episodes = [one for group in found.episodes for one in group]
    batch = one_a_row(episodes)
    longest = batch.tokens.shape[1]

    @partial(jax.jit, compiler_options=QUICK_BUILD)
    def recompute(params, tokens, segment_ids, index):
        sizes = {"temperature": TEMPERATURE, "chunk": longest}
        return response_logprobs(GRAPHDEF, params, tokens, segment_ids, index, **sizes)

    recomputed, _ = recompute(PARAMS, batch.tokens, batch.segment_ids, batch.response_index)
    there = batch.place >= 0
    assert there.sum() == sum(len(ids) for ids in responses(found)) > 100
    recomputed = np.asarray(recomputed).reshape(-1)[batch.place[there]]
    np.testing.assert_allclose(recomputed, batch.sampled_logprobs[there], atol=2e-5)
    for one, tokens, index in zip(episodes, batch.tokens, batch.response_index, strict=True):
        assert tokens[index[index >= 0]].tolist() == [i for turn in one.turns for i in turn.response_ids]


def test_only_failing_episodes_of_open_groups_go_on():
    def first_two(prompts, seen, key):
        is_open = np.array([task in TASKS[:2] for task in prompts])
        return Gate(is_open, ~is_open, np.zeros_like(is_open), np.zeros_like(is_open))

    found = rollouts(actor(by_hash(CORRECT, INCORRECT, INCORRECT, NO_ANSWER)), gate=first_two)
    np.testing.assert_array_equal(found.gate.open, [True, True, False])
    np.testing.assert_array_equal(found.gate.easy, [False, False, True])
    for group, is_open in zip(found.episodes, found.gate.open, strict=True):
        for one in group:
            passed = [turn.verdict.passed for turn in one.turns]
            assert not any(passed[:-1])
            assert len(one.turns) == (3 if is_open else 1) or passed[-1]
            assert [bool(turn.feedback_ids) for turn in one.turns] == [True] * (len(one.turns) - 1) + [False]
    assert {len(one.turns) for one in found.episodes[0] + found.episodes[1]} == {1, 2, 3}


def test_feedback_is_that_of_the_verdict():
    found = rollouts(actor(by_hash(INCORRECT, NO_ANSWER)), max_turns=2)
    for group in found.episodes:
        for one in group:
            said = feedback(load_task(one.task), one.turns[0].verdict, 80)
            assert one.turns[0].feedback == said
            assert one.turns[0].feedback_ids == feedback_ids(TOKENIZER, sampler(), said)


@pytest.mark.parametrize("unjudged", [UNSUPPORTED, INFRA_ERROR])
def test_an_episode_that_cannot_be_judged_leaves_its_group(unjudged):
    found = rollouts(actor(by_hash(CORRECT, INCORRECT, INCORRECT, unjudged)))
    groups = to_groups(found.episodes, 3)
    episodes = [one for group in found.episodes for one in group]
    for one, seen, valid, ranks in zip(
        episodes, outcomes(found), groups.valid.ravel(), groups.outcome_rank.reshape(-1, 3), strict=True
    ):
        assert unjudged not in seen[:-1], "it went on"
        assert valid == one.valid == (seen[-1] is not unjudged)
        assert ranks.tolist() == [outcome.rank for outcome in seen] + [-1] * (3 - len(seen))
    assert 0 < (~groups.valid).sum() < groups.valid.size


def test_the_gate_sees_valid_and_passed_of_the_first_turn():
    seen = []

    def gate(prompts, shown, key):
        assert prompts == TASKS
        seen.append(shown)
        return every_group(prompts, shown, key)

    found = rollouts(actor(by_hash(CORRECT, INCORRECT, UNSUPPORTED, Outcome.COMPILE_ERROR, NO_ANSWER)), gate=gate)
    first = np.array([one[0] for one in outcomes(found)]).reshape(3, 4)
    (shown,) = seen
    np.testing.assert_array_equal(shown.passed, first == CORRECT)
    np.testing.assert_array_equal(shown.valid, first != UNSUPPORTED)
    np.testing.assert_array_equal(shown.compiled, (first == CORRECT) | (first == INCORRECT))


def test_a_gate_that_is_asked_again_closes_groups_for_good():
    """The second task's group is closed after turn 2; what the rule says after turn 1 is what is reported as open."""
    seen = []

    def gate(prompts, shown, key):
        seen.append(shown)
        is_open = np.array([len(seen) == 1 or task != TASKS[1] for task in prompts])
        return Gate(is_open, *np.zeros((3, len(is_open)), bool))

    found = rollouts(actor(by_hash(INCORRECT)), gate=gate, recheck_each_turn=True)
    assert len(seen) == 2
    assert [{len(one.turns) for one in group} for group in found.episodes] == [{3}, {2}, {3}]
    assert found.gate.open.tolist() == [True, True, True]
    assert found.still_open.tolist() == [True, False, True]
    seen.clear()
    assert {len(one.turns) for group in rollouts(actor(by_hash(INCORRECT)), gate=gate).episodes for one in group} == {3}


def test_a_repair_reads_its_failed_answer_before_the_first_turn():
    """It goes on from the ids of an episode that was sampled, and no id of them is changed."""
    acting = actor(by_hash(INCORRECT), max_prompt_tokens=LONGEST_PROMPT + 8 + 24)
    failed = rollouts(acting, max_turns=2).episodes[1][2]
    attempt = (*failed.turns[0].response_ids, *failed.turns[0].feedback_ids)
    place = {"group_size": 4, "max_turns": 1, "gate": every_group, "seed": 0, "purpose": TRAIN, "step": 1}
    found = collect(acting, PARAMS, [TASKS[0], Repair(TASKS[1], attempt)], **place)
    fresh, repaired = found.episodes
    assert [one.is_repair for one in (*fresh, *repaired)] == [False] * 4 + [True] * 4
    assert {one.task for one in repaired} == {TASKS[1]}
    for one in repaired:
        assert one.prompt_ids == [*failed.prompt_ids, *attempt]
        assert one.first_pass is None and len(one.turns) == 1
    batch = one_a_row(repaired)
    there = batch.place >= 0
    logprobs, _ = response_logprobs(
        GRAPHDEF,
        PARAMS,
        batch.tokens,
        batch.segment_ids,
        batch.response_index,
        temperature=TEMPERATURE,
        chunk=batch.tokens.shape[1],
    )
    np.testing.assert_allclose(
        np.asarray(logprobs).reshape(-1)[batch.place[there]], batch.sampled_logprobs[there], atol=2e-5
    )
    with pytest.raises(ConfigError, match=r"raise sampling\.max_prompt_tokens"):
        collect(actor(by_hash(INCORRECT)), PARAMS, [Repair(TASKS[1], attempt)], **place)


def test_prompts_asked_later_in_a_step_are_sampled_as_if_asked_at_once():
    acting = actor(MIXED)
    place = {"group_size": 4, "max_turns": 3, "gate": every_group, "seed": 0, "purpose": TRAIN, "step": 1}
    at_once = collect(acting, PARAMS, TASKS, **place)
    later = collect(acting, PARAMS, TASKS[2:], first_prompt=2, **place)
    assert responses(later) == [turn.response_ids for turn in all_turns(at_once.episodes[2:])]
    both = joined(collect(acting, PARAMS, TASKS[:2], **place), later)
    assert responses(both) == responses(at_once)
    assert [len(mask) for mask in (*both.gate, both.still_open, both.replaced)] == [3] * 6


def test_rollouts_of_a_group_differ_and_a_step_repeats_itself():
    def first_answers(**place):
        return [one.turns[0].response_ids for group in rollouts(acting, max_turns=1, **place).episodes for one in group]

    acting = actor(by_hash(INCORRECT))
    ours = first_answers()
    assert all(len({tuple(ids) for ids in ours[i : i + 4]}) == 4 for i in (0, 4, 8))
    assert first_answers() == ours
    for other in ({"seed": 1}, {"step": 2}, {"purpose": EVALUATE}):
        assert all(a != b for a, b in zip(first_answers(**other), ours, strict=True)), other


def test_every_row_of_every_turn_has_its_own_key():
    keys = [row_keys(0, TRAIN, 1, first, turn, np.arange(4)) for first in (0, 4) for turn in (1, 2, 3)]
    data = np.concatenate([jax.random.key_data(key) for key in keys])
    assert len({tuple(row) for row in data.tolist()}) == 2 * 3 * 4
    moved = row_keys(0, TRAIN, 1, 2, 1, np.arange(2))
    np.testing.assert_array_equal(jax.random.key_data(moved), jax.random.key_data(keys[0])[2:])


def test_parts_change_no_result():
    """All prompts in one part, one prompt a part, and two of three in the first part."""
    for buckets, max_turns in (((4,), 3), ((8,), 1)):
        one_part, parts = (rollouts(actor(MIXED, **s), max_turns=max_turns) for s in ({}, {"batch_buckets": buckets}))
        assert responses(parts) == responses(one_part)
        assert list(outcomes(parts)) == list(outcomes(one_part))
        for a, b in zip(all_turns(parts.episodes), all_turns(one_part.episodes), strict=True):
            np.testing.assert_allclose(a.sampled_logprobs, b.sampled_logprobs, atol=1e-5)


@pytest.mark.parametrize("samples", [6, 5])  # two groups of three; five of one, where the largest batch has four rows
def test_an_evaluation_has_any_number_of_samples(samples):
    found = evaluate(actor(MIXED, batch_buckets=(4,)), PARAMS, TASKS, samples=samples, max_turns=2, seed=0, step=1)
    assert [[one.task for one in group] for group in found] == [[task] * samples for task in TASKS]
    for group in found:
        assert len({tuple(one.turns[0].response_ids) for one in group}) == samples


def test_a_part_is_judged_while_the_next_one_is_generated(monkeypatch):
    """All first turns are with the pool before any verdict is waited for."""
    acting = actor(MIXED, batch_buckets=(4,))
    waited: list[int] = []

    class Watched:
        def __init__(self, verdict):
            self._verdict = verdict

        def result(self):
            waited.append(len(acting.pool.submitted))
            return self._verdict.result()

    submit = acting.pool.submit
    monkeypatch.setattr(acting.pool, "submit", lambda *request: Watched(submit(*request)))
    rollouts(acting, max_turns=1)
    assert waited[0] == 12


def test_feedback_over_the_limit_still_asks_for_an_answer():
    said = "incorrect: 3 of 7 elements"
    whole = TOKENIZER.feedback_ids(said)
    short = sampler(max_feedback_tokens=len(whole) - 2)
    assert feedback_ids(TOKENIZER, short, said) == [*whole[: len(whole) - 3], TOKENIZER.answer_id]
    assert feedback_ids(TOKENIZER, short, "") == TOKENIZER.feedback_ids("")


def test_a_prompt_that_does_not_fit_is_refused():
    longest = max(TASKS, key=lambda task: len(TOKENIZER.prompt_ids(load_task(task).prompt())))
    assert len(prompt_ids(TOKENIZER, sampler(), longest)) == LONGEST_PROMPT
    tight = Sampler(
        GRAPHDEF,
        max_prompt_tokens=LONGEST_PROMPT - 1,
        max_response_tokens=8,
        max_feedback_tokens=8,
        max_turns=1,
        batch_buckets=(4,),
        end_id=TOKENIZER.end_id,
        pad_id=TOKENIZER.pad_id,
    )
    with pytest.raises(ConfigError, match=f"{longest} has {LONGEST_PROMPT} tokens: raise sampling.max_prompt_tokens"):
        prompt_ids(TOKENIZER, tight, longest)


def test_groups_of_hand_made_episodes():
    fast = episode(INCORRECT, CORRECT)
    counts = {"checks_total": 6}
    fast.turns[0].verdict = replace(fast.turns[0].verdict, checks_passed=3, **counts)
    fast.turns[1].verdict = replace(fast.turns[1].verdict, time_us=12.5, baseline_us=25.0, checks_passed=6, **counts)
    groups = to_groups([[episode(CORRECT), fast], [episode(NO_ANSWER, INFRA_ERROR), episode(INCORRECT)]], 3)
    np.testing.assert_array_equal(groups.first_pass, [[1, 2], [4, 4]])
    np.testing.assert_array_equal(groups.turns, [[1, 2], [2, 1]])
    np.testing.assert_array_equal(groups.valid, [[True, True], [False, True]])
    c, i, n = CORRECT.rank, INCORRECT.rank, NO_ANSWER.rank
    np.testing.assert_array_equal(groups.outcome_rank, [[[c, -1, -1], [i, c, -1]], [[n, -1, -1], [i, -1, -1]]])
    nan = np.nan
    np.testing.assert_array_equal(groups.time_us, [[[nan] * 3, [nan, 12.5, nan]], [[nan] * 3, [nan] * 3]])
    np.testing.assert_array_equal(groups.baseline_us, [[[nan] * 3, [nan, 25.0, nan]], [[nan] * 3, [nan] * 3]])
    np.testing.assert_array_equal(groups.speedup[0], [[nan, 0, 0], [0, 2, 0]])
    np.testing.assert_array_equal(groups.checks_share, [[[0, 0, 0], [0.5, 1, 0]], [[0, 0, 0], [0, 0, 0]]])
    lengths = [len(turn.response_ids) for turn in fast.turns]
    np.testing.assert_array_equal(groups.response_tokens[0, 1], [*lengths, 0])
    assert groups.max_turns == 3


def test_the_gate_has_a_key_of_its_own_in_every_part_and_step():
    seen = []

    def gate(prompts, shown, key):
        seen.append(tuple(jax.random.key_data(key).tolist()))
        return every_group(prompts, shown, key)

    for step in (1, 2):
        rollouts(actor(MIXED, batch_buckets=(4,)), gate=gate, step=step)  # a group a part
    first = list(seen)
    assert len(set(first)) == 6
    rollouts(actor(MIXED, batch_buckets=(4,)), gate=gate, step=1)
    assert seen[6:] == first[:3]
