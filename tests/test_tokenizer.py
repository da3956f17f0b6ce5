"""Round trips over any text; special ids that no text can produce; training that repeats."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.policy.tokenizer import Tokenizer

CORPUS = [
    'extern "C" __global__ void kernel(const float* x, float* y, int n) {\n'
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    f"    if (i < n) {{\n        y[i] = {op}f(x[i]) * 256.0f;\n    }}\n}}\n"
    for op in ("exp", "tanh", "sin", "sqrt", "log")
] * 3
TOKENIZER = Tokenizer.train(CORPUS, vocab_size=400)
SPECIALS = ["<pad>", "<end>", "<task>", "<answer>", "<feedback>", "<|im_end|>", "<|endoftext|>", "</s>", "[PAD]"]


@settings(max_examples=60, deadline=None)
@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "replace")) | st.sampled_from(CORPUS))
def test_any_text_survives_the_round_trip(text):
    for ids in (TOKENIZER.encode_answer(text), TOKENIZER.prompt_ids(text), TOKENIZER.feedback_ids(text)):
        assert TOKENIZER.decode(ids) == text
        assert max(ids) < TOKENIZER.vocab_size


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([*SPECIALS, "x", " ", "\n", "<"]), max_size=8).map("".join))
def test_no_text_encodes_to_a_special_id(text):
    assert all(i < TOKENIZER.pad_id for i in TOKENIZER.encode_answer(text)[:-1])
    assert TOKENIZER.decode(TOKENIZER.encode_answer(text)) == text


def test_special_ids_frame_the_texts():
    t = TOKENIZER
    body = t.encode_answer("int n")[:-1]
    assert t.encode_answer("int n") == [*body, t.end_id]
    assert t.prompt_ids("int n") == [t.task_id, *body, t.answer_id]
    assert t.feedback_ids("int n") == [t.feedback_id, *body, t.answer_id]
    specials = {t.pad_id, t.end_id, t.task_id, t.answer_id, t.feedback_id}
    assert specials == set(range(t.vocab_size - 5, t.vocab_size))
    assert t.decode(sorted(specials)) == ""


def test_a_line_the_corpus_repeats_is_one_token():
    for line in ("\n    int i = blockIdx.x * blockDim.x + threadIdx.x;", "\n    if (i < n) {"):
        assert len(TOKENIZER.encode_answer(line)) == 2  # and the end id


def test_a_rare_line_is_cut_into_words_that_are_the_same_wherever_they_stand():
    rare = [f"\n{' ' * (i % 4)}y{i} = tanhf(x[{i}]);" for i in range(300)]
    t = Tokenizer.train(rare, vocab_size=400)
    for line in (rare[7], rare[8], "\n        float z = 2.0f + tanhf(z);"):
        assert " tanhf(" in [t.decode([i]) for i in t.encode_answer(line)]
    common = Tokenizer.train([*rare, *[rare[7]] * 4], vocab_size=400)  # five in 304 texts are over one percent
    assert [len(common.encode_answer(line)) == 2 for line in (rare[7], rare[8])] == [True, False]


def test_no_token_crosses_a_line_start():
    tokens = [TOKENIZER.decode([i]) for i in range(TOKENIZER.pad_id)]
    assert any(token.startswith("\n") and len(token) > 20 for token in tokens)
    assert not any("\n" in token[1:] for token in tokens)


def test_broken_utf8_is_replaced_not_raised():
    ids = TOKENIZER.encode_answer("\N{SNOWMAN}")
    assert TOKENIZER.decode(ids[:1]) == "�"


def test_training_repeats_and_files_hold_everything(tmp_path):
    again = Tokenizer.train(CORPUS, vocab_size=400)
    TOKENIZER.save(tmp_path / "one.json")
    again.save(tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    loaded = Tokenizer.load(tmp_path / "one.json")
    assert loaded.vocab_size == TOKENIZER.vocab_size <= 400
    assert loaded.prompt_ids(CORPUS[0]) == TOKENIZER.prompt_ids(CORPUS[0])
    assert loaded.decode(loaded.prompt_ids(CORPUS[0])) == CORPUS[0]


def test_a_vocabulary_smaller_than_the_bytes_is_refused():
    with pytest.raises(ValueError, match="vocab_size=200"):
        Tokenizer.train(CORPUS, vocab_size=200)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, TOKENIZER.vocab_size - 1), max_size=12) | st.text().map(TOKENIZER.encode_answer))
def test_token_lengths_cut_the_text_whatever_the_ids(ids):
    """Ids of half a character and of bytes that are no UTF-8 too."""
    lengths = TOKENIZER.token_lengths(ids)
    assert len(lengths) == len(ids)
    assert sum(lengths) == len(TOKENIZER.decode(ids))


def test_token_lengths_of_halves_of_a_character():
    ids = TOKENIZER.encode_answer("a€b")  # the sign is three bytes, each an id of its own
    assert [TOKENIZER.decode([i]) for i in ids] == ["a", "\ufffd", "\ufffd", "\ufffd", "b", ""]
    assert TOKENIZER.token_lengths(ids) == [1, 0, 0, 1, 1, 0]
    assert TOKENIZER.token_lengths(ids[:2]) == [1, 1]  # cut within it: the decoder writes a replacement
