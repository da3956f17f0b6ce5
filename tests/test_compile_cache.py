"""The compile cache: what it returns is what was stored, whole, or nothing."""

from __future__ import annotations

import os

import pytest

from leap_jax.kernels import compile_cache
from leap_jax.kernels.compile_cache import Memory

REPLY = (6, "log \u00fc", ".version 9.0\n", b"\x7fELF\0")


def test_a_stored_reply_is_read_back(tmp_path):
    folder = tmp_path / "made" / "here"
    compile_cache.store(folder, "a", REPLY)
    assert compile_cache.load(folder, "a") == REPLY
    assert compile_cache.load(folder, "b") is None
    assert [path.name for path in folder.iterdir()] == ["a"]


def test_a_file_cut_short_or_changed_is_a_miss(tmp_path):
    compile_cache.store(tmp_path, "a", REPLY)
    data = (tmp_path / "a").read_bytes()
    for broken in (b"", data[:10], data[:-1], data[:-1] + b"x", data + b"x"):
        (tmp_path / "a").write_bytes(broken)
        assert compile_cache.load(tmp_path, "a") is None
    compile_cache.store(tmp_path, "a", REPLY)
    assert compile_cache.load(tmp_path, "a") == REPLY


def test_a_failed_write_leaves_nothing_and_is_no_error(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    compile_cache.store(tmp_path, "a", REPLY)
    assert not list(tmp_path.iterdir())
    compile_cache.store(tmp_path / "file", "a", REPLY)
    (tmp_path / "taken").write_text("")
    compile_cache.store(tmp_path / "taken", "a", REPLY)


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        compile_cache.store(tmp_path, "a", REPLY)
    assert not list(tmp_path.iterdir())


def test_keys_differ_where_parts_do():
    parts = [(), ("",), ("", ""), ("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("\ud800",)]
    assert len({compile_cache.key(p) for p in parts}) == len(parts)


def test_memory_keeps_the_replies_used_last_within_its_limit():
    memory = Memory(limit=30)
    for name in "abc":
        memory.store(name, (0, "", "", bytes(10)))
    assert memory.load("a")  # used, so now younger than b
    memory.store("d", (0, "", "", bytes(10)))
    assert [name for name in "abcd" if memory.load(name)] == ["a", "c", "d"]
    memory.store("d", (0, "", "", bytes(1)))  # smaller than before
    memory.store("e", (0, "", "", bytes(9)))
    assert [name for name in "abcde" if memory.load(name)] == ["a", "c", "d", "e"]
    memory.store("huge", (0, "", "", bytes(31)))
    assert memory.load("huge") is None
    memory.store("a", REPLY)
    assert memory.load("a") == REPLY
