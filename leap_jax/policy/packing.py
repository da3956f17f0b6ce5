"""Conversations to packed rows: several in a row, told apart by segment ids, and what to imitate in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from leap_jax.policy.tokenizer import Tokenizer


class Turn(NamedTuple):
    """role: task, answer or feedback; train: imitate this answer (a broken one is shown, not imitated)."""

    role: str
    text: str
    train: bool = False


Conversation = tuple[Turn, ...]


@dataclass(frozen=True)
class PackedRows:
    """Rows of T tokens; what is past the last conversation of a row is padding, segment 0."""

    tokens: np.ndarray  # [rows, T] int32
    segment_ids: np.ndarray  # [rows, T] int32, 1, 2, ... within a row
    response_index: np.ndarray  # [rows, R] int32: where the tokens to imitate are, then -1

    def take(self, rows: np.ndarray) -> PackedRows:
        return PackedRows(self.tokens[rows], self.segment_ids[rows], self.response_index[rows])


def encode_conversation(conversation: Conversation, tokenizer: Tokenizer) -> tuple[list[int], list[bool]]:
    """Ids of all turns in order, exactly as a rollout would append them, and which of them to imitate."""
    encoders = {
        "task": tokenizer.prompt_ids,
        "answer": tokenizer.encode_answer,
        "feedback": tokenizer.feedback_ids,
    }
    ids: list[int] = []
    imitate: list[bool] = []
    for turn in conversation:
        if turn.role not in encoders:
            raise ValueError(f"role {turn.role!r}: it must be one of {', '.join(encoders)}")
        if turn.train and turn.role != "answer":
            raise ValueError(f"a {turn.role} turn has train=True: only answers are imitated")
        turn_ids = encoders[turn.role](turn.text)
        ids += turn_ids
        imitate += [turn.train] * len(turn_ids)
    return ids, imitate


def pack(conversations: Sequence[Conversation], tokenizer: Tokenizer, *, row_tokens: int, pad_id: int) -> PackedRows:
    """Greedy first fit: each conversation, whole, once, into the first row with room for it.

    Raises ValueError when one is longer than a row, or when nothing is to be imitated.
    """
    encoded = [encode_conversation(conversation, tokenizer) for conversation in conversations]
    for number, (ids, _) in enumerate(encoded):
        if len(ids) > row_tokens:
            raise ValueError(f"conversation {number} has {len(ids)} tokens; a row has {row_tokens}")
    members = first_fit([len(ids) for ids, _ in encoded], row_tokens=row_tokens, row_items=len(encoded))

    tokens = np.full((len(members), row_tokens), pad_id, np.int32)
    segment_ids = np.zeros_like(tokens)
    imitate = np.zeros(tokens.shape, bool)
    for row, numbers in enumerate(members):
        end = 0
        for segment, number in enumerate(numbers, start=1):
            start, end = end, end + len(encoded[number][0])
            tokens[row, start:end], imitate[row, start:end] = encoded[number]
            segment_ids[row, start:end] = segment
    if not imitate.any():
        raise ValueError("no conversation has an answer with train=True")
    return PackedRows(tokens, segment_ids, mask_to_index(imitate))


def first_fit(lengths: Sequence[int], *, row_tokens: int, row_items: int) -> list[list[int]]:
    """Each item, by its number, in the first row with room for it: at most row_tokens tokens and row_items items.

    No length may be above row_tokens.
    """
    free = np.full(len(lengths), row_tokens)
    rows: list[list[int]] = []
    for number, length in enumerate(lengths):
        row = int(np.argmax(free >= length))
        if row == len(rows):
            rows.append([])
        rows[row].append(number)
        free[row] = free[row] - length if len(rows[row]) < row_items else 0
    return rows


def mask_to_index(mask: np.ndarray) -> np.ndarray:
    """mask [B, T] -> the columns that are set, in order [B, R], then -1; R is the largest count of a row."""
    index = np.full((len(mask), mask.sum(axis=1).max(initial=0)), -1, np.int32)
    for row, columns in enumerate(mask):
        where = np.flatnonzero(columns)
        index[row, : len(where)] = where
    return index
