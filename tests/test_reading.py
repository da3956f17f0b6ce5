"""Files of a run, whole, half written and damaged."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap_jax import reading
from leap_jax.reading import ReadError, json_lines, last_json_lines, read_config, read_metrics


def test_a_half_written_last_line_is_left_for_later(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes('{"step": 0, "a": "ß"}\n{"step": 1}\n{"step": 2, "a": "ß'.encode()[:-1])
    assert list(json_lines(path)) == [{"step": 0, "a": "ß"}, {"step": 1}]
    path.write_text("")
    assert list(json_lines(path)) == []


@pytest.mark.parametrize("line", [b"{", b"[1]", b"{}", b'{"step": "1"}', b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_line_is_named_after_the_sound_ones(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 0}\n' + line + b'\n{"step": 2}\n')
    lines = json_lines(path)
    assert next(lines) == {"step": 0}
    with pytest.raises(ReadError, match=r"metrics.jsonl, line 2: not a JSON object with a step$"):
        next(lines)


def test_a_line_without_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 1000)
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(b'{"step": 0}\n' + b"x" * 5000)
    with pytest.raises(ReadError, match=r"line 2: longer than 1,000 bytes"):
        list(json_lines(path))


def test_a_missing_file_is_named(tmp_path):
    for read in (lambda: list(json_lines(tmp_path / "x")), lambda: last_json_lines(tmp_path / "x", 9)):
        with pytest.raises(ReadError, match=r"x: No such file"):
            read()
    with pytest.raises(ReadError, match=r"config.json: No such file"):
        read_config(tmp_path)
    for text in ("{", "[]"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ReadError, match=r"config.json: not "):
            read_config(tmp_path)


def test_the_end_of_a_file_holds_whole_records_only(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps({"step": step}) + "\n" for step in range(9)) + '{"st')
    assert [r["step"] for r in last_json_lines(path, 1000)] == list(range(9))
    assert [r["step"] for r in last_json_lines(path, 4 + 2 * 12)] == [8]  # the line that is cut is not whole
    assert last_json_lines(path, 5) == []


def test_metrics_are_finite_numbers(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(
        '{"step": 1, "a": 0.5, "b": null, "c": NaN, "d": "x", "e": [1], "f": true}\n'
    )
    assert list(read_metrics(tmp_path)) == [{"step": 1, "a": 0.5}]


@given(st.text(st.characters() | st.sampled_from("\x1b\r\n\t\x00\x9b\u202e\u200b\ufeff\ud800")))
def test_visible_text_has_nothing_that_acts_and_keeps_its_length(text):
    shown = reading.visible(text)
    assert len(shown) == len(text)
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cs"} - (
        {"Cc"} if {"\n", "\t"} & set(shown) else set()
    )
    assert not set("\x1b\r\x00\x9b\u202e\u200b\u2066\ufeff") & set(shown)
    shown.encode()
