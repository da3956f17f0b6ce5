"""Packing keeps every conversation whole and marks what to imitate; training lowers the loss and repeats itself."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_policy import split, tiny

from leap_jax.policy import cold_start, packing
from leap_jax.policy.cold_start import ColdStartSettings
from leap_jax.policy.packing import Turn
from leap_jax.policy.tokenizer import Tokenizer

TASKS = {"twice": "x + x", "square": "x * x", "zero": "0"}
TOKENIZER = Tokenizer.train([*TASKS, *TASKS.values()], vocab_size=300)
SINGLE = [(Turn("task", task), Turn("answer", answer, train=True)) for task, answer in TASKS.items()]
REPAIR = (
    Turn("task", "twice"),
    Turn("answer", "x - x"),
    Turn("feedback", "wrong"),
    Turn("answer", "x + x", train=True),
)
SETTINGS = ColdStartSettings(
    steps=60,
    batch_rows=4,
    row_tokens=48,
    optimizer="adamw",
    learning_rate=3e-2,
    warmup_steps=3,
    weight_decay=0.0,
    clip_norm=1.0,
    chunk=16,
    seed=0,
)


def unpacked(rows: packing.PackedRows) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(ids, places to imitate within the conversation) of every segment of every row."""
    found = []
    for tokens, segment_ids, index in zip(rows.tokens, rows.segment_ids, rows.response_index, strict=True):
        for segment in range(1, segment_ids.max() + 1):
            (where,) = np.nonzero(segment_ids == segment)
            assert (np.diff(where) == 1).all()
            imitate = [i - where[0] for i in index if i in where]
            found.append((tuple(tokens[where].tolist()), tuple(int(i) for i in imitate)))
    return found


words = st.text("ab x+", max_size=6)
conversations = st.builds(
    lambda task, broken, feedback, answer: (
        Turn("task", task),
        *([Turn("answer", broken), Turn("feedback", feedback)] if broken else []),
        Turn("answer", answer, train=True),
    ),
    words,
    words,
    words,
    words,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(conversations, min_size=1, max_size=12))
def test_packing_holds_every_conversation_exactly_once(batch):
    rows = packing.pack(batch, TOKENIZER, row_tokens=40, pad_id=TOKENIZER.pad_id)
    expected = []
    for conversation in batch:
        ids, imitate = packing.encode_conversation(conversation, TOKENIZER)
        expected.append((tuple(ids), tuple(np.flatnonzero(imitate).tolist())))
    assert sorted(unpacked(rows)) == sorted(expected)
    assert (rows.tokens[rows.segment_ids == 0] == TOKENIZER.pad_id).all()
    assert (rows.response_index >= 0).any(axis=0).all()  # no wider than needed


def test_only_good_answers_are_imitated_and_ids_are_those_of_a_rollout():
    ids, imitate = packing.encode_conversation(REPAIR, TOKENIZER)
    good = TOKENIZER.encode_answer("x + x")
    assert [i for i, kept in zip(ids, imitate, strict=True) if kept] == good
    before = TOKENIZER.prompt_ids("twice") + TOKENIZER.encode_answer("x - x") + TOKENIZER.feedback_ids("wrong")
    assert ids == before + good


def test_packing_fills_rows_in_first_fit_order():
    """Lengths 5, 4, 3, 5 into rows of 9: [5, 4], [3, 5]."""
    lengths = [5, 4, 3, 5]
    batch = [(Turn("task", "b" * (length - 3)), Turn("answer", "", train=True)) for length in lengths]
    rows = packing.pack(batch, TOKENIZER, row_tokens=9, pad_id=TOKENIZER.pad_id)
    assert [np.bincount(row)[1:].tolist() for row in rows.segment_ids] == [[5, 4], [3, 5]]


@pytest.mark.parametrize(
    ("conversation", "message"),
    [
        ((Turn("task", "x" * 50),), "conversation 0 has 52 tokens; a row has 48"),
        ((Turn("user", "x"),), "role 'user'"),
        ((Turn("task", "x", train=True),), "a task turn has train=True"),
        ((Turn("task", "x"), Turn("answer", "x")), "no conversation has an answer"),
    ],
)
def test_conversations_that_cannot_be_trained_on_are_refused(conversation, message):
    with pytest.raises(ValueError, match=message):
        packing.pack([conversation], TOKENIZER, row_tokens=48, pad_id=0)


def test_an_epoch_shows_every_row_once_and_depends_on_the_step_only():
    steps = [cold_start.batch_row_numbers(10, 4, seed=3, step=step) for step in range(10)]
    stream = np.concatenate(steps)
    for epoch in range(4):
        assert sorted(stream[epoch * 10 : (epoch + 1) * 10]) == list(range(10))
    assert (stream[:10] != stream[10:20]).any()
    assert (cold_start.batch_row_numbers(10, 4, seed=3, step=7) == steps[7]).all()
    assert (cold_start.batch_row_numbers(10, 4, seed=4, step=7) != steps[7]).any()


def run(**overrides: object) -> tuple[list[float], list[np.ndarray]]:
    """Losses and trained parameters."""
    graphdef, params = split(tiny(layers=1, vocab_size=TOKENIZER.vocab_size), scale=0.1)
    losses = []
    trained = cold_start.train(
        graphdef,
        params,
        [*SINGLE, REPAIR],
        TOKENIZER,
        dataclasses.replace(SETTINGS, **overrides),
        lambda step, metrics: losses.append(metrics["loss"]),
    )
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(params))
    return losses, [np.asarray(leaf) for leaf in jax.tree.leaves(trained)]


def test_the_loss_falls_and_training_repeats_bit_for_bit():
    losses, params = run()
    assert losses[0] > 4.0
    assert losses[-1] < 1.0
    again, same = run()
    assert losses == again
    for a, b in zip(params, same, strict=True):
        np.testing.assert_array_equal(a, b)


def test_muon_turns_matrices_by_orthogonal_steps_of_the_scheduled_size():
    """Singular values of a matrix's update are near the learning rate, whatever the gradient's size."""
    optimizer = cold_start.make_optimizer("muon", cold_start.warmup_cosine(0.5, 0, 10), weight_decay=0.0, clip_norm=1e9)
    params = {"kernel": np.zeros((6, 6), np.float32), "scale": np.zeros(6, np.float32)}
    grads = jax.tree.map(lambda leaf: 100.0 * np.random.default_rng(0).normal(size=leaf.shape), params)
    updates, _ = jax.jit(optimizer.update)(grads, optimizer.init(params), params)
    singular = np.linalg.svd(updates["kernel"], compute_uv=False)
    assert singular.min() > 0.3
    assert singular.max() < 0.7
    np.testing.assert_array_equal(np.sign(updates["scale"]), -np.sign(grads["scale"]))
    assert np.ptp(np.abs(updates["scale"])) < 1e-3  # Adam's first step: the sign, whatever the size


@pytest.mark.parametrize("quantity", ["loss", "gradient norm"])
def test_what_is_not_finite_stops_the_training_with_its_step(monkeypatch, quantity):
    def step(graphdef, optimizer, params, opt_state, *batch, chunk):
        count = opt_state + 1
        bad = jnp.where(count == 3, np.inf, 1.0)
        return params, count, *((bad, 1.0) if quantity == "loss" else (1.0, bad))

    optimizer = optax.GradientTransformation(lambda params: jnp.zeros(()), None)
    monkeypatch.setattr(cold_start, "make_optimizer", lambda *args, **kwargs: optimizer)
    monkeypatch.setattr(cold_start, "train_step", step)
    with pytest.raises(FloatingPointError, match=f"step 2: .*{quantity} inf"):
        run()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"optimizer": "sgd"}, "optimizer 'sgd'"), ({"warmup_steps": 99}, "warmup_steps=99 must be under")],
)
def test_impossible_settings_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        run(**wrong)
