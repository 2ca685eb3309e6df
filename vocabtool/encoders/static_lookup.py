"""Which rows of a matrix of word vectors texts stand for: those of the words that it knows.

Of a tokenizer's words these are the rows of their pieces.

Where the rule provably works between blanks, what a chunk of text stands for is remembered from
batch to batch; it is looked up anew where the table has no room. What is remembered changes no
answer. What is done with the rows is in ``static_means.py``.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.tokenization.chunk_table import ChunkTable
from vocabtool.tokenization.lookup import RuleTokenizer
from vocabtool.tokenization.text_arrays import (
    TokenCodes,
    as_strings,
    chunks,
    dictionary_encode,
    text_bounds,
)
from vocabtool.tokenization.words import Words

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BITS: Final = 20  # 21 MB
SEVERAL: Final = -1


class Rows(NamedTuple):
    """The known words of n texts, k altogether, as rows of the matrix.

    ``numbers``: int32, shape (k,); ``offsets``: int64, shape (n + 1,); those of text ``i`` are
    ``numbers[offsets[i]:offsets[i + 1]]``, in the order of its words.
    """

    numbers: NDArray[np.int32]
    offsets: NDArray[np.int64]


class _Looked(NamedTuple):
    """What distinct chunks stand for.

    ``alone``: int32, the row of a chunk that is one word, :data:`SEVERAL` for others; ``words``:
    of each chunk; ``rows``: int32, of each distinct word.
    """

    alone: NDArray[np.int32]
    words: TokenCodes
    rows: NDArray[np.int32]


class RowLookup:
    """Looks texts up. Several threads may ask. ``remember``: whether chunks are remembered."""

    def __init__(self, words: Words, *, remember: bool = True) -> None:
        self._words = words
        self._unknown = np.int32(len(words.vocabulary))  # what stands for words without a row
        self._table = ChunkTable(CHUNK_BITS)
        self._adding = Lock()
        self._remember = remember

    def rows(self, texts: pa.StringArray) -> Rows:
        """The known words of each text."""
        judge = self._words.tokenizer
        if not isinstance(judge, RuleTokenizer) or judge.rule.ngrams:
            return self._whole(texts)
        if not self._remember or not judge.rule.works_between_blanks(texts):
            return self._whole(texts)
        return self._by_chunks(texts, judge)

    def _whole(self, texts: pa.StringArray) -> Rows:
        found = self._words.look_up(texts)
        if found.spelled is None:
            return self._known(self._numbered(found.positions)[found.codes], found.offsets)
        pieces, known, offsets = found.spelled
        entries = self._words.vocabulary.positions
        rows = [entries.get(p, -1) if k else -1 for p, k in zip(pieces, known, strict=True)]
        each = TokenCodes(self._numbered(np.array(rows, np.int64)), offsets, found.distinct)
        in_texts = each.of_texts(found.codes, found.offsets)
        return self._known(in_texts.codes, in_texts.offsets)

    def _by_chunks(self, texts: pa.StringArray, judge: RuleTokenizer) -> Rows:
        pieces, offsets = chunks(texts)
        numbers = self._table.find(*_buffers(pieces))
        missing = np.flatnonzero(numbers < 0)
        if not len(missing):
            return self._known(numbers, offsets)
        encoded = dictionary_encode(pieces.take(missing))
        looked = self._look(as_strings(encoded.dictionary), judge)
        which = encoded.indices.to_numpy()
        numbers[missing] = looked.alone[which]
        several = missing[numbers[missing] == SEVERAL]
        if not len(several):
            return self._known(numbers, offsets)
        which = which[looked.alone[which] == SEVERAL]
        return self._known(*_spread(numbers, offsets, several, looked, which))

    def _look(self, distinct: pa.StringArray, judge: RuleTokenizer) -> _Looked:
        """Look chunks up, and remember those that are one word."""
        found = judge.lexicon.look_up(judge.rule.chunk_tokens(distinct))
        rows = self._numbered(found.positions)
        alone = np.full(len(distinct), SEVERAL, np.int32)
        single = np.diff(found.offsets) == 1
        alone[single] = rows[found.codes[found.offsets[:-1][single]]]
        with self._adding:
            self._table.add(*_buffers(distinct), alone)
        return _Looked(alone, TokenCodes(found.codes, found.offsets, found.distinct), rows)

    def _numbered(self, positions: NDArray[np.int64]) -> NDArray[np.int32]:
        return np.where(positions < 0, self._unknown, positions).astype(np.int32)

    def _known(self, numbers: NDArray[np.int32], offsets: NDArray[np.int64]) -> Rows:
        """Without the words that have no row."""
        known = numbers != self._unknown
        before = np.zeros(len(known) + 1, np.int64)
        np.cumsum(known, out=before[1:])
        return Rows(numbers[known], before[offsets])


def _spread(
    numbers: NDArray[np.int32],
    offsets: NDArray[np.int64],
    several: NDArray[np.int64],
    looked: _Looked,
    which: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Put the words of chunks that are not one word where these stand.

    ``several``: the places of these chunks in ``numbers``; ``which``: which chunk stands there.
    """
    lengths = np.ones(len(numbers), np.int64)
    lengths[several] = np.diff(looked.words.offsets)[which]
    spread = np.repeat(numbers, lengths)
    words = looked.words.of_texts(which, np.arange(len(which) + 1))
    spread[spread == SEVERAL] = looked.rows[words.codes]
    return spread, np.append(0, np.cumsum(lengths))[offsets]


def _buffers(strings: pa.StringArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The buffer of some strings, and int64 bounds of shape (n + 1,) into it."""
    data = np.frombuffer(strings.buffers()[2] or b"", np.uint8)
    return data, text_bounds(strings).astype(np.int64)
