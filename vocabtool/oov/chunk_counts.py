"""Batches of text counted by chunks: each chunk between blanks is looked at when it is new.

Which word a chunk is, and in which slot of the tally, is remembered in a ``ChunkTable``; later it
costs no more than finding it there. Only for rules that provably work between blanks; a chunk of
several words, or of none, is looked at each time. Counting itself is in ``batch_counts.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.oov.batch_counts import BatchCounts, batch_counts, occurring
from vocabtool.oov.word_tally import WordTally
from vocabtool.tokenization.chunk_table import ChunkTable
from vocabtool.tokenization.lookup import RuleTokenizer, WordLookup
from vocabtool.tokenization.text_arrays import (
    TokenCodes,
    as_bytes,
    as_strings,
    chunks,
    dictionary_encode,
    text_bounds,
)

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BITS: Final = 20  # 21 MB
WORD_BITS: Final = 19  # 10 MB


class Named(NamedTuple):
    """Strings, and which word of a batch each stands for: int64, rows of its ``BatchCounts``."""

    strings: pa.StringArray
    rows: NDArray[np.int64]


class New(NamedTuple):
    """What a batch holds for the first time: chunks that are one word each, and words."""

    chunks: Named
    words: Named


class _Found(NamedTuple):
    """The m chunks of n texts. ``slots``: int32, shape (m,), of each one's word, or -1.

    ``offsets``: int64, shape (n + 1,); the chunks of text ``i`` are those from ``offsets[i]`` to
    ``offsets[i + 1]``. ``missing``: int64, where ``slots`` has -1, and ``which``: int32, which of
    the distinct chunks that were looked at stands there.
    """

    slots: NDArray[np.int32]
    offsets: NDArray[np.int64]
    missing: NDArray[np.int64]
    which: NDArray[np.int32]


class _Looked(NamedTuple):
    """What was found out about the distinct chunks that the table does not hold.

    ``words``: theirs; ``slots``: int32, of each distinct word, -1 where the tally does not hold it.
    """

    chunks: pa.StringArray
    words: WordLookup
    slots: NDArray[np.int32]


class ChunkCounts:
    """Counts batches for one tally. ``judge``: which words there are, and which are known.

    :meth:`count` may be called by several threads; :meth:`remember` by the one that adds to the
    tally, when it holds the words of the batch.
    """

    def __init__(self, judge: RuleTokenizer, tally: WordTally) -> None:
        self._judge = judge
        self._tally = tally
        self._chunks = ChunkTable(CHUNK_BITS)
        self._words = ChunkTable(WORD_BITS)

    def count(self, texts: pa.StringArray) -> tuple[BatchCounts, New | None]:
        """Count some texts; and what may be remembered of them."""
        rule = self._judge.rule
        if rule.ngrams or not rule.works_between_blanks(texts):
            return batch_counts(self._judge.look_up(texts)), None
        pieces, offsets = chunks(texts)
        slots = self._chunks.find(*_bytes_of(pieces))
        missing = np.flatnonzero(slots < 0)
        encoded = dictionary_encode(pieces.take(missing))
        found = _Found(slots, offsets, missing, encoded.indices.to_numpy())
        return self._counted(found, self._look(as_strings(encoded.dictionary)))

    def remember(self, new: New, slots: NDArray[np.int64]) -> None:
        """Know these from now on. ``slots``: of all the batch's words, -1 where it is not held."""
        for table, named in ((self._chunks, new.chunks), (self._words, new.words)):
            numbers = slots[named.rows].astype(np.int32)
            table.add(*_bytes_of(named.strings), numbers)

    def _look(self, distinct: pa.StringArray) -> _Looked:
        words = self._judge.lexicon.look_up(self._judge.rule.chunk_tokens(distinct))
        slots = self._words.find(*_bytes_of(words.distinct))
        others = np.flatnonzero(slots < 0)
        slots[others] = self._tally.slots_of(as_bytes(words.distinct.take(others)))
        return _Looked(distinct, words, slots)

    def _counted(self, found: _Found, looked: _Looked) -> tuple[BatchCounts, New]:
        words, new = looked.words, np.flatnonzero(looked.slots < 0)
        first_new = len(self._tally.slots)
        numbers = looked.slots.copy()
        numbers[new] = np.arange(first_new, first_new + len(new))
        coded = TokenCodes(numbers[words.codes], words.offsets, words.distinct)
        known = self._known(first_new + len(new), numbers, words)
        occur = occurring(*_joined(found, coded), known)
        before = len(occur.codes) - len(new)
        new_words = words.distinct.take(new)
        counts = BatchCounts(
            occur.codes[:before],
            as_bytes(new_words),
            words.positions[new],
            known[occur.codes],
            self._pieces(occur.codes, numbers, words),
            occur.counts,
            occur.unknown,
            subwords=words.pieces is not None,
        )
        single = np.flatnonzero(np.diff(words.offsets) == 1)
        rows = np.searchsorted(occur.codes, coded.codes[words.offsets[single]])
        chunks_of_one = Named(looked.chunks.take(single), rows)
        return counts, New(chunks_of_one, Named(new_words, before + np.arange(len(new))))

    def _known(
        self, count: int, numbers: NDArray[np.int32], words: WordLookup
    ) -> NDArray[np.bool_]:
        """Of each number below ``count`` whether it is a known word's.

        The tally may not have noted yet what it holds of the youngest slots: those are not found
        in the table, so ``words`` says it.
        """
        known = np.zeros(count, np.bool_)
        held = self._tally.held.known[:count]
        known[: len(held)] = held
        known[numbers] = words.known
        return known

    def _pieces(
        self, codes: NDArray[np.int64], numbers: NDArray[np.int32], words: WordLookup
    ) -> NDArray[np.int32]:
        """How many pieces each word has."""
        if words.pieces is None:
            return np.ones(len(codes), np.int32)
        pieces = np.zeros(1 + max(int(each.max(initial=0)) for each in (codes, numbers)), np.int32)
        held = self._tally.held.pieces[: len(pieces)]
        pieces[: len(held)] = held
        pieces[numbers] = words.pieces
        return pieces[codes]


def _bytes_of(strings: pa.StringArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The buffer of some strings, and int64 bounds of shape (n + 1,) into it."""
    data = np.frombuffer(strings.buffers()[2] or b"", np.uint8)
    return data, text_bounds(strings).astype(np.int64)


def _joined(found: _Found, words: TokenCodes) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The words of all chunks in order, and where each text's begin.

    ``words``: of the distinct chunks that were looked at.
    """
    slots, offsets, missing, which = found
    lengths = np.diff(words.offsets)
    if bool((lengths == 1).all()):
        slots[missing] = words.codes[which]
        return slots, offsets
    each = np.ones(len(slots), np.int64)
    each[missing] = lengths[which]
    ends = np.cumsum(each)
    remembered = np.flatnonzero(slots >= 0)
    is_remembered = np.zeros(int(ends[-1]), np.bool_)
    is_remembered[ends[remembered] - 1] = True
    tokens = np.empty(len(is_remembered), np.int32)
    tokens[is_remembered] = slots[remembered]
    tokens[~is_remembered] = words.of_texts(which, np.arange(len(which) + 1)).codes
    return tokens, np.append(0, ends)[offsets]
