"""Byte-level BPE for CUDA kernels and their feedback, trained on the texts at hand.

A line that many of the texts share is one token; everything else is cut into words, numbers and operators before
BPE joins bytes within them. A small policy then learns what to write and not how to spell: answers are a quarter as
long as in words alone, and the name of an operation is the same tokens wherever it stands. The special ids lie past
all others, so no text encodes to one.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

SPECIALS = ("pad", "end", "task", "answer", "feedback")
# A line with the newline before it, or its start up to a colon and the rest.
LINES = re.compile(r"\n?[^\n?:]+:|\n?[^\n]+|\n")
WORDS = r"\n *[A-Za-z_]*(?: =)?| ?[A-Za-z_]\w*\(?| ?\d+(?:\.\d+)?f?| ?[^\sA-Za-z_0-9]+|\s+"
# The characters that byte-level BPE writes bytes as: printable ones as themselves, the others from U+0100 on.
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(0x100) if byte not in _PRINTABLE]
BYTE = {chr(byte): byte for byte in _PRINTABLE} | {chr(0x100 + n): byte for n, byte in enumerate(_OTHERS)}
COMMON_SHARE = 0.01  # a line in at least this share of the texts becomes one token,
COMMON_VOCABULARY = 0.25  # and such lines take at most this share of the vocabulary


class Tokenizer:
    """Text to ids and back. A prompt is <task> text <answer>, feedback is <feedback> text <answer>."""

    def __init__(self, bpe: tokenizers.Tokenizer):
        self._bpe = bpe
        first = bpe.get_vocab_size()
        self.pad_id, self.end_id, self.task_id, self.answer_id, self.feedback_id = range(first, first + len(SPECIALS))
        self.vocab_size = first + len(SPECIALS)

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> Tokenizer:
        """Learn at most vocab_size ids, special ones included; the same texts give the same tokenizer."""
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        if vocab_size < len(alphabet) + len(SPECIALS):
            raise ValueError(f"vocab_size={vocab_size} is less than the bytes and special ids")
        texts = list(texts)
        lines = common_lines(texts, int(COMMON_VOCABULARY * (vocab_size - len(alphabet))))
        bpe = tokenizers.Tokenizer(models.BPE())
        bpe.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(tokenizers.Regex(WORDS), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        bpe.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size - len(lines) - len(SPECIALS),
            min_frequency=2,
            initial_alphabet=sorted(alphabet),
            show_progress=False,
        )
        whole = set(lines)
        rest = (line for text in texts for line in LINES.findall(text) if line not in whole)
        bpe.train_from_iterator(rest, trainer)
        bpe.add_tokens([tokenizers.AddedToken(line, normalized=False) for line in lines])
        return cls(bpe)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        return cls(tokenizers.Tokenizer.from_file(str(path)))

    def save(self, path: str | Path) -> None:
        """Write one JSON file."""
        self._bpe.save(str(path))

    def prompt_ids(self, text: str) -> list[int]:
        """<task> text <answer>: what a first response follows."""
        return [self.task_id, *self._encode(text), self.answer_id]

    def feedback_ids(self, text: str) -> list[int]:
        """<feedback> text <answer>: appended to an ended response; what the next response follows."""
        return [self.feedback_id, *self._encode(text), self.answer_id]

    def encode_answer(self, text: str) -> list[int]:
        """text <end>: a whole response."""
        return [*self._encode(text), self.end_id]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, without the special ones; bytes that are not UTF-8 become U+FFFD."""
        return self._bpe.decode([i for i in ids if i < self.pad_id])

    def token_lengths(self, ids: Sequence[int]) -> list[int]:
        """How many characters of `decode(ids)` each id adds: none if special, or if it ends within a character."""
        utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        lengths = [len(utf8.decode(self._bytes(i))) for i in ids]
        if lengths:
            lengths[-1] += len(utf8.decode(b"", final=True))
        return lengths

    def _bytes(self, token: int) -> bytes:
        """The bytes of an id as the decoder sees them; of a special one, none."""
        if token >= self.pad_id:
            return b""
        text = self._bpe.id_to_token(token)
        return bytes(map(BYTE.get, text)) if BYTE.keys() >= set(text) else text.encode()

    def _encode(self, text: str) -> list[int]:
        return self._bpe.encode(text).ids


def common_lines(texts: Sequence[str], at_most: int) -> list[str]:
    """The lines of more than one word in at least COMMON_SHARE of the texts, and in two; the commonest first."""
    found = Counter(line for text in texts for line in dict.fromkeys(LINES.findall(text)))
    enough = max(2, COMMON_SHARE * len(texts))
    common = (line for line, count in found.most_common() if count >= enough and len(re.findall(WORDS, line)) > 1)
    return list(itertools.islice(common, at_most))
