"""The update against a loop over single episodes that is written down independently of it."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from episodes import CORRECT, INCORRECT, INFRA_ERROR, Episode, episode
from tiny_policy import split, tiny

from leap_jax.algorithm.objective import Objective
from leap_jax.policy import transformer
from leap_jax.update import Learner, global_count, micro_batches, to_batch

GRAPHDEF, PARAMS = split(tiny(layers=1), seed=1)
MAX_TURNS, LONGEST = 3, 16
PACKED = 4 * LONGEST  # a row of several episodes
CLIP_LOW, CLIP_HIGH, TEMPERATURE = 0.2, 0.28, 0.9
CONSTANTS = Objective(
    clip_low=CLIP_LOW,
    clip_high=CLIP_HIGH,
    dual_clip=None,
    ratio="token",
    aggregation="token",
    constant_tokens=9,
    kl_coef=0.0,
    kl_estimator="k3",
    token_veto=None,
    geometric_margin=None,
    mirror_pop=None,
)
# Two groups of four: single and multi-turn episodes, one that could not be judged, one that earned nothing.
GROUPS = [
    [
        episode(CORRECT, seed=0),
        episode(INCORRECT, CORRECT, seed=1),
        episode(INCORRECT, INCORRECT, INCORRECT, seed=2),
        episode(INCORRECT, INFRA_ERROR, seed=3),
    ],
    [
        episode(INCORRECT, seed=4),
        episode(INCORRECT, INCORRECT, CORRECT, seed=5),
        *(episode(CORRECT, seed=s) for s in (6, 7)),
    ],
]
ADVANTAGES = np.random.default_rng(0).normal(size=(2, 4, MAX_TURNS)).astype(np.float32)
ADVANTAGES[1, 3] = 0.0
EPISODES = [one for group in GROUPS for one in group]


def gradient_keeper() -> optax.GradientTransformation:
    """An optimiser that takes no step and keeps the gradient as its state."""
    return optax.GradientTransformation(
        lambda params: jax.tree.map(jnp.zeros_like, params),
        lambda gradient, state, params: (jax.tree.map(jnp.zeros_like, gradient), gradient),
    )


@cache
def learner(
    constants: Objective = CONSTANTS,
    *,
    optimizer: optax.GradientTransformation | None = None,
    sequence: str = "rollout",
    updates_per_step: int = 1,
    micro_batch_rows: int = 2,
    row_tokens: int = PACKED,
) -> Learner:
    return Learner(
        GRAPHDEF,
        optimizer or gradient_keeper(),
        constants,
        sequence=sequence,
        temperature=TEMPERATURE,
        chunk=8,
        updates_per_step=updates_per_step,
        micro_batch_rows=micro_batch_rows,
        row_tokens=row_tokens,
        reference_params=PARAMS if constants.kl_coef > 0 else None,
    )


@cache
def descending(constants: Objective = CONSTANTS, **sizes: int) -> Learner:
    return learner(constants, optimizer=optax.sgd(0.1), **sizes)


def own(params):
    """A copy: the update gives its buffers away."""
    return jax.tree.map(jnp.copy, params)


def gradient(learning: Learner, groups=GROUPS, advantages=ADVANTAGES):
    state, values = learning.update(learning.init(own(PARAMS)), groups, advantages, 1.0)
    return state.opt_state, values


@jax.jit
def loop_loss_sum(params, tokens, is_response, sampled, advantage):
    """sum_t -min(r A, clip(r) A) of one episode; all [T], sampled and advantage are 0 outside responses."""
    positions, segment = jnp.arange(LONGEST)[None], jnp.ones((1, LONGEST), jnp.int32)
    hidden = transformer.forward(GRAPHDEF, params, tokens[None], positions, segment)
    logits = transformer.unembed(GRAPHDEF, params, hidden)[0] / TEMPERATURE
    logprobs = jnp.take_along_axis(jax.nn.log_softmax(logits)[:-1], tokens[1:, None], axis=1)[:, 0]
    r = jnp.exp(logprobs - sampled[1:])
    surrogate = jnp.minimum(r * advantage[1:], jnp.clip(r, 1 - CLIP_LOW, 1 + CLIP_HIGH) * advantage[1:])
    return -jnp.sum(jnp.where(is_response[1:], surrogate, 0.0))


loop_gradient_of_sum = jax.jit(jax.grad(loop_loss_sum))


def spread(one: Episode, advantages) -> tuple[np.ndarray, ...]:
    """An episode as arrays [T], token by token; what follows it does not matter to a causal policy."""
    rows = [(token, False, 0.0, 0.0) for token in one.prompt_ids]
    for turn, advantage in zip(one.turns, advantages, strict=False):
        rows += [(t, True, s, advantage) for t, s in zip(turn.response_ids, turn.sampled_logprobs, strict=True)]
        rows += [(token, False, 0.0, 0.0) for token in turn.feedback_ids]
    rows += [(0, False, 0.0, 0.0)] * (LONGEST - len(rows))
    return tuple(np.array(c, d) for c, d in zip(zip(*rows, strict=True), ("i4", "?", "f4", "f4"), strict=True))


def loop_gradient(groups=GROUPS, advantages=ADVANTAGES, aggregation="token", sequence="rollout", dropped=frozenset()):
    """The gradient of the mean loss: one sequence after another, every valid one counts, the `dropped` numbers too."""
    total, count, number = jax.tree.map(jnp.zeros_like, PARAMS), 0, 0
    for one, weights in zip(
        (e for group in groups for e in group), np.reshape(advantages, (-1, MAX_TURNS)), strict=True
    ):
        if any(turn.verdict.outcome is INFRA_ERROR for turn in one.turns):
            continue
        lengths = [len(turn.response_ids) for turn in one.turns]
        parts = [range(len(lengths))] if sequence == "rollout" else [[t] for t in range(len(lengths))]
        for turns in parts:  # of one sequence
            tokens = sum(lengths[t] for t in turns)
            divisors = {"sequence": tokens, "constant": CONSTANTS.constant_tokens}
            count += tokens if aggregation == "token" else 1
            here = [weights[t] if t in turns else 0.0 for t in range(MAX_TURNS)]  # no advantage, no gradient
            if number not in dropped:
                part = loop_gradient_of_sum(PARAMS, *spread(one, here))
                scale = 1 / divisors.get(aggregation, 1)
                total = jax.tree.map(lambda a, b: a + scale * b, total, part)  # noqa: B023
            number += 1
    return jax.tree.map(lambda leaf: leaf / count, total)


def assert_close(found, expected, tolerance=2e-5):
    scale = max(float(jnp.max(jnp.abs(leaf))) for leaf in jax.tree.leaves(expected))
    assert scale > 1e-3
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale), found, expected)


@pytest.mark.parametrize("sequence", ["rollout", "turn"])
@pytest.mark.parametrize("aggregation", ["token", "sequence", "sequence_sum", "constant"])
def test_the_gradient_is_that_of_a_loop_over_sequences(aggregation, sequence):
    """So prompt and feedback tokens earn nothing, invalid episodes count nowhere, skipping zeros changes nothing."""
    found, values = gradient(learner(CONSTANTS._replace(aggregation=aggregation), sequence=sequence))
    assert_close(found, loop_gradient(aggregation=aggregation, sequence=sequence))
    assert values["gradient_norm"] == pytest.approx(float(optax.tree.norm(found)), rel=1e-5)


@pytest.mark.parametrize("sequence", ["rollout", "turn"])
def test_a_dropped_sequence_has_no_gradient_and_counts_in_the_divisor(sequence):
    """The veto's limit is the median of the smallest ratios of a sequence, so that it drops half of them."""
    valid = [(e, a) for e, a in zip(EPISODES, ADVANTAGES.reshape(-1, MAX_TURNS), strict=True) if e.valid]
    smallest = []
    for one, _ in valid:
        gaps = loop_log_ratios(*spread(one, [1.0] * MAX_TURNS)[:3])
        edges = np.cumsum([0] + [len(turn.response_ids) for turn in one.turns])
        per_turn = [min(gaps[a:b]) for a, b in pairwise(edges)]
        smallest += per_turn if sequence == "turn" else [min(per_turn)]
    limit = float(np.median(smallest)) + 1e-4
    dropped = {number for number, gap in enumerate(smallest) if gap < limit}
    assert 0 < len(dropped) < len(smallest)
    constants = CONSTANTS._replace(aggregation="sequence", token_veto=float(np.exp(limit)))
    found, values = gradient(learner(constants, sequence=sequence, micro_batch_rows=1, row_tokens=LONGEST))
    assert_close(found, loop_gradient(aggregation="sequence", sequence=sequence, dropped=dropped))
    computed = [
        n for n, a in enumerate(a for e, a in valid for _ in (e.turns if sequence == "turn" else [e])) if a.any()
    ]
    assert values["filtered_share"] == pytest.approx(np.mean([n in dropped for n in computed]))


def loop_log_ratios(tokens, is_response, sampled) -> list[float]:
    """log pi - log pi_sampled of the response tokens of one episode."""
    positions, segment = jnp.arange(LONGEST)[None], jnp.ones((1, LONGEST), jnp.int32)
    hidden = transformer.forward(GRAPHDEF, PARAMS, jnp.asarray(tokens)[None], positions, segment)
    logits = transformer.unembed(GRAPHDEF, PARAMS, hidden)[0] / TEMPERATURE
    logprobs = np.take_along_axis(np.asarray(jax.nn.log_softmax(logits))[:-1], tokens[1:, None], axis=1)[:, 0]
    return (logprobs - sampled[1:])[is_response[1:]].tolist()


@pytest.mark.parametrize(("micro_batch_rows", "row_tokens"), [(1, LONGEST), (3, 40)])
@pytest.mark.parametrize(
    ("changes", "sequence"),
    [
        ({}, "rollout"),
        ({"ratio": "sequence"}, "rollout"),
        ({"ratio": "sequence", "mirror_pop": 0.8, "dual_clip": 1.5}, "turn"),
    ],
)
def test_micro_batches_and_packing_change_nothing(micro_batch_rows, row_tokens, changes, sequence):
    constants, sizes = CONSTANTS._replace(**changes), {"micro_batch_rows": micro_batch_rows, "row_tokens": row_tokens}
    expected, expected_values = gradient(learner(constants, sequence=sequence))
    found, values = gradient(learner(constants, sequence=sequence, **sizes))
    assert_close(found, expected)
    assert values == pytest.approx(expected_values, rel=1e-4, abs=1e-6)


def test_an_invalid_episode_counts_nowhere():
    """Neither its tokens nor its advantage; an episode without advantage does count, in the divisor."""
    expected, _ = gradient(learner())
    changed = ADVANTAGES.copy()
    changed[0, 3] = 1e3
    longer = episode(INCORRECT, INFRA_ERROR, seed=99)
    longer.turns[0].response_ids *= 2
    assert_close(gradient(learner(), [[*GROUPS[0][:3], longer], GROUPS[1]], changed)[0], expected)

    without = [GROUPS[0], [*GROUPS[1][:3], episode(INFRA_ERROR, seed=7)]]
    tokens = [
        sum(len(turn.response_ids) for one in g for e in one if e.valid for turn in e.turns) for g in (GROUPS, without)
    ]
    assert tokens[0] > tokens[1]
    scaled = jax.tree.map(lambda leaf: leaf * tokens[0] / tokens[1], expected)
    assert_close(gradient(learner(), without)[0], scaled)


def test_no_advantage_no_step():
    learning = learner(optimizer=optax.adamw(1e-2, weight_decay=0.1))
    state = learning.init(own(PARAMS))
    after, values = learning.update(state, GROUPS, np.zeros_like(ADVANTAGES), 1.0)
    assert values == {"gradient_norm": 0.0}
    jax.tree.map(np.testing.assert_array_equal, after, state)


def test_an_update_raises_what_earned_and_lowers_what_cost():
    learning = descending()
    advantages = np.full_like(ADVANTAGES, 1.0)
    advantages[1] = -1.0
    after, _ = learning.update(learning.init(own(PARAMS)), GROUPS, advantages, 1.0)

    def log_likelihood(params, group):  # the loop's loss with A = 1 and no old policy is -sum of probabilities
        return sum(-loop_loss_sum(params, *spread(e, [1.0] * 3)) for e in group if e.valid)

    assert log_likelihood(after.params, GROUPS[0]) > log_likelihood(PARAMS, GROUPS[0])
    assert log_likelihood(after.params, GROUPS[1]) < log_likelihood(PARAMS, GROUPS[1])


def test_the_kl_term_pulls_to_the_reference():
    """Without advantages: no pull at the reference itself, and downhill towards it from elsewhere."""
    anchored = CONSTANTS._replace(kl_coef=0.1)
    learning = descending(anchored)
    _, values = learning.update(learning.init(own(PARAMS)), GROUPS, np.zeros_like(ADVANTAGES), 1.0)
    assert values["kl_reference"] == pytest.approx(0.0, abs=1e-9)
    assert values["gradient_norm"] < 1e-6

    noise = np.random.default_rng(5)
    away = jax.tree.map(lambda leaf: leaf + 0.05 * noise.normal(size=leaf.shape).astype(np.float32), own(PARAMS))
    state, kl = learning.init(away), []
    for _ in range(12):
        state, values = learning.update(state, GROUPS, np.zeros_like(ADVANTAGES), 1.0)
        kl.append(values["kl_reference"])
    assert all(later < earlier for earlier, later in pairwise(kl))
    assert kl[-1] < 0.8 * kl[0]


def test_a_gradient_that_is_not_finite_stops_the_run():
    broken = ADVANTAGES.copy()
    broken[0, 1] = np.inf
    with pytest.raises(FloatingPointError, match="gradient is not finite"):
        gradient(learner(), advantages=broken)


def test_updates_per_step_are_one_after_another_by_prompt():
    halves, whole = descending(updates_per_step=2), descending()
    state = whole.init(own(PARAMS))
    for half in (slice(0, 1), slice(1, 2)):
        state, _ = whole.update(state, GROUPS[half], ADVANTAGES[half], 1.0)
    both, _ = halves.update(halves.init(own(PARAMS)), GROUPS, ADVANTAGES, 1.0)
    assert_close(both.params, state.params, tolerance=1e-6)


def test_the_count_of_an_update():
    for sequence in ("rollout", "turn"):
        tokens = sum(len(t.response_ids) for e in EPISODES for t in e.turns)
        assert global_count(EPISODES, "token", sequence) == tokens
        assert global_count([], "token", sequence) == global_count([], "sequence", sequence) == 1
    for aggregation in ("sequence", "sequence_sum", "constant"):
        assert global_count(EPISODES, aggregation, "rollout") == 8
        assert global_count(EPISODES, aggregation, "turn") == sum(len(e.turns) for e in EPISODES) == 14


def episodes_of(batch):
    """The token lists of a batch's episodes, row by row."""
    return [
        row[ids == segment].tolist()
        for row, ids in zip(batch.tokens, batch.segment_ids, strict=True)
        for segment in range(1, ids.max() + 1)
    ]


def test_micro_batches_hold_every_episode_once_in_one_shape():
    pairs = list(zip(EPISODES, ADVANTAGES.reshape(-1, MAX_TURNS), strict=True))
    batches = list(micro_batches(pairs, 2, 40, "rollout"))
    assert len(batches) > 1 and {batch.tokens.shape for batch in batches} == {(2, 40)}
    found = [tokens for batch in batches for tokens in episodes_of(batch)]
    assert sorted(found) == sorted(spread(one, [0] * 3)[0][: one.num_tokens].tolist() for one in EPISODES)


@pytest.mark.parametrize("sequence", ["rollout", "turn"])
def test_a_batch_puts_everything_at_response_tokens_only(sequence):
    """Two episodes in the first row, one in the second, room for another."""
    members = [[(EPISODES[i], ADVANTAGES.reshape(-1, MAX_TURNS)[i]) for i in row] for row in ((2, 1), (0,))]
    batch = to_batch(members, 2, 2 * LONGEST, sequence)
    assert episodes_of(batch) == [spread(EPISODES[i], [0] * 3)[0][: EPISODES[i].num_tokens].tolist() for i in (2, 1, 0)]
    places, number = [], 0
    for one, weights in members[0] + members[1]:
        tokens, is_response, sampled, advantage = (values[: one.num_tokens] for values in spread(one, weights))
        lengths = [len(turn.response_ids) for turn in one.turns]
        start = 0
        for count in [sum(lengths)] if sequence == "rollout" else lengths:
            place = batch.place[number, :count]
            rows, columns = place // (2 * LONGEST), batch.response_index.reshape(-1)[place]
            its = np.flatnonzero(is_response)[start : start + count]
            np.testing.assert_array_equal(batch.tokens[rows, columns], tokens[its])
            np.testing.assert_array_equal(batch.sampled_logprobs[number, :count], sampled[its])
            np.testing.assert_array_equal(batch.advantages[number, :count], advantage[its])
            assert (batch.place[number, count:] == -1).all()
            places += place.tolist()
            number, start = number + 1, start + count
    assert number == (3 if sequence == "rollout" else 6)
    assert len(set(places)) == len(places) == (batch.response_index >= 0).sum()
    assert (batch.place[number:] == -1).all()
