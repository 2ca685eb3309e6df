"""Known and unknown words of a SentencePiece model: by the id of its unknown piece."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vocabtool.tokenization.lookup import Spelled, WordLookup
from vocabtool.tokenization.rule import Rule
from vocabtool.tokenization.sentencepieces import SentencePieces, Word
from vocabtool.tokenization.text_arrays import as_bytes, string_array
from vocabtool.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa


class SentencePieceTokenizer(NamedTuple):
    """``rule``: what happens to a text before the tokenizer gets it."""

    rule: Rule
    tokenizer: SentencePieces
    vocabulary: Vocabulary

    def look_up(self, texts: pa.StringArray) -> WordLookup:
        """Cut texts into pieces, and those into words."""
        cut = self.rule.cut(texts)
        words = self.tokenizer.words(as_bytes(cut.values))
        bounds = np.array([0, *accumulate(map(len, words))], np.int64)
        flat = (word for each in words for word in each)
        unknown = self.tokenizer.unknown_id
        return judged_words(flat, bounds[cut.offsets], self.vocabulary, unknown)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """As the tokenizer cuts the word alone."""
        words = self.tokenizer.words([word])[0]
        return tuple(piece for each in words for piece, _ in each.pieces)

    def describe(self) -> tuple[str, ...]:
        """The rule's steps, then the tokenizer."""
        before = self.rule.describe() if self.rule.steps else ()
        return (*before, "cut into pieces by SentencePiece, which make up words")

    @property
    def fingerprint(self) -> str:
        """Of the rule and the tokenizer's model."""
        model = hashlib.sha256(self.tokenizer.model).hexdigest()
        told = f"vocabtool sentencepiece 1\n{self.rule.fingerprint}\n{model}\n"
        return hashlib.sha256(told.encode()).hexdigest()


def judged_words(
    words: Iterable[Word],
    offsets: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    vocabulary: Vocabulary,
    unknown: int,
) -> WordLookup:
    """Words of which the pieces are told; equal ones are the same distinct word.

    ``unknown``: the id of the unknown piece, -1 where there is none.
    """
    places: dict[Word, int] = {}
    codes = np.array([places.setdefault(word, len(places)) for word in words], np.int32)
    single = [word.pieces[0] if len(word.pieces) == 1 else None for word in places]
    held = [vocabulary.positions.get(piece[0], -1) if piece else -1 for piece in single]
    counts = np.array([len(word.pieces) for word in places], np.int32)
    each = [piece for word in places for piece in word.pieces]
    spelled = Spelled(
        [piece for piece, _ in each],
        np.array([i != unknown for _, i in each], np.bool_),
        np.append(0, np.cumsum(counts, dtype=np.int64)),
    )
    return WordLookup(
        codes,
        offsets,
        string_array(word.text for word in places),
        np.array([word.known for word in places], np.bool_),
        np.array([piece[1] if piece else -1 for piece in single], np.int64),
        np.array(held, np.int64),
        counts,
        spelled=spelled,
    )
