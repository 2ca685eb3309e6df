"""Of each text the words that a model does not know: the column beside its vector.

Counting them over a corpus is in ``counter.py``. Where the rule provably works between blanks, what
stands in a chunk is remembered from batch to batch, as in ``chunk_counts.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vocabtool.tokenization.chunk_table import ChunkTable
from vocabtool.tokenization.lookup import RuleTokenizer, WordLookup, without_blanks
from vocabtool.tokenization.text_arrays import (
    as_bytes,
    as_strings,
    chunks,
    dictionary_encode,
    text_bounds,
)
from vocabtool.tokenization.words import Words

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BITS: Final = 20  # 21 MB
MOST_WORDS: Final = 1 << 18  # unknown words that are remembered; past it all is forgotten
MOST_BYTES: Final = 1 << 25  # of these words: some are as long as a text
MOST_CHUNKS: Final = 1 << 20  # 24 MB
FIRST_ROOM: Final = 1 << 12

Integers = NDArray[np.int64]
Number = TypeVar("Number", np.int32, np.int64)


class Unknown(NamedTuple):
    """What a model does not know of n texts.

    ``words``: Arrow list of ``string``, length n: the distinct unknown words of each text in order
    of first appearance, as they are looked up, perhaps not UTF-8.
    ``tokens``, ``tokens_unknown``: how many words the texts have, and how many of them are unknown.
    """

    words: pa.ListArray
    tokens: int
    tokens_unknown: int


def unknown_of(words: WordLookup) -> Unknown:
    """The unknown words of texts that are judged already."""
    words = without_blanks(words)
    missing = ~words.known[words.codes]
    texts = np.repeat(np.arange(len(words.offsets) - 1), np.diff(words.offsets))[missing]
    told = words if words.unique else _told_apart(words)
    listed = _listed(texts, told.codes[missing].astype(np.int64), len(words.offsets) - 1)
    return Unknown(_lists(listed, told.distinct), len(words.codes), int(np.count_nonzero(missing)))


def _told_apart(words: WordLookup) -> WordLookup:
    encoded = dictionary_encode(words.distinct)
    codes = encoded.indices.to_numpy()[words.codes]
    return words._replace(codes=codes, distinct=as_strings(encoded.dictionary))


class UnknownWords:
    """Finds the unknown words of text after text; for one thread at a time."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._forget()

    def of(self, texts: pa.StringArray) -> Unknown:
        """The unknown words of some texts; the answer does not depend on what came before."""
        judge = self._words.tokenizer
        if not isinstance(judge, RuleTokenizer) or judge.rule.ngrams:
            return unknown_of(self._words.look_up(texts))
        if not judge.rule.works_between_blanks(texts):
            return unknown_of(judge.look_up(texts))
        if self._is_full():
            self._forget()
        return self._by_chunks(texts, judge)

    def _is_full(self) -> bool:
        return (
            len(self._spelled) > MOST_WORDS
            or self._spelled_bytes > MOST_BYTES
            or self._facts.rows > MOST_CHUNKS
        )

    def _forget(self) -> None:
        self._table = ChunkTable(CHUNK_BITS)
        self._facts = _Facts()
        self._numbers: dict[bytes, int] = {}
        self._spelled: list[bytes] = []
        self._spelled_bytes = 0

    def _by_chunks(self, texts: pa.StringArray, judge: RuleTokenizer) -> Unknown:
        pieces, offsets = chunks(texts)
        rows = self._table.find(*_buffers(pieces))
        missing = np.flatnonzero(rows < 0)
        encoded = dictionary_encode(pieces.take(missing))
        learnt = self._learn(as_strings(encoded.dictionary), judge)
        rows[missing] = learnt[encoded.indices.to_numpy()]
        others = np.flatnonzero(rows)
        tokens, found, counts = self._facts.of(rows[others])
        text_of = np.searchsorted(offsets, others, "right") - 1
        listed = _listed(np.repeat(text_of, counts), found, len(texts))
        return Unknown(self._spell(listed), len(rows) - len(others) + tokens, len(found))

    def _learn(self, distinct: pa.StringArray, judge: RuleTokenizer) -> NDArray[np.int32]:
        """Look chunks up, and remember them; the row of each in the facts."""
        words = judge.lexicon.look_up(judge.rule.chunk_tokens(distinct))
        strange = np.flatnonzero(~words.known)
        numbers = np.full(len(words.known), -1, np.int64)
        numbers[strange] = [self._number(word) for word in as_bytes(words.distinct.take(strange))]
        rows = self._facts.add(np.diff(words.offsets), numbers[words.codes], words.offsets)
        self._table.add(*_buffers(distinct), rows)
        return rows

    def _number(self, word: bytes) -> int:
        number = self._numbers.setdefault(word, len(self._spelled))
        if number == len(self._spelled):
            self._spelled.append(word)
            self._spelled_bytes += len(word)
        return number

    def _spell(self, listed: _Listed) -> pa.ListArray:
        distinct, codes = np.unique(listed.words, return_inverse=True)
        import pyarrow as pa

        spelled = pa.array([self._spelled[number] for number in distinct.tolist()], pa.binary())
        return _lists(_Listed(codes.astype(np.int64), listed.offsets), as_strings(spelled))


class _Facts:
    """What is known of chunks that are not just one known word, which is what row 0 stands for.

    ``tokens``, ``counts``: int32, how many words, and how many unknown ones. These are, of row
    ``i``, those from ``starts[i]`` on in ``words``. ``rows``: how many there are.
    """

    def __init__(self) -> None:
        self._tokens: NDArray[np.int32] = np.zeros(FIRST_ROOM, np.int32)
        self._counts: NDArray[np.int32] = np.zeros(FIRST_ROOM, np.int32)
        self._starts: Integers = np.zeros(FIRST_ROOM, np.int64)
        self._words: Integers = np.zeros(FIRST_ROOM, np.int64)
        self.rows = 1
        self._filled = 0

    def add(self, tokens: Integers, numbers: Integers, offsets: Integers) -> NDArray[np.int32]:
        """Rows for chunks; ``numbers``: of their words one after the other, -1 where known."""
        strange = numbers >= 0
        before = np.append(0, np.cumsum(strange))
        counts = np.diff(before[offsets])
        others = np.flatnonzero((tokens != 1) | (counts > 0))
        new = slice(self.rows, self.rows + len(others))
        end = self._filled + int(before[-1])
        self._tokens = _with_room(self._tokens, new.stop)
        self._counts = _with_room(self._counts, new.stop)
        self._starts = _with_room(self._starts, new.stop)
        self._words = _with_room(self._words, end)
        self._tokens[new] = tokens[others]
        self._counts[new] = counts[others]
        self._starts[new] = self._filled + before[offsets[others]]
        self._words[self._filled : end] = numbers[strange]
        rows = np.zeros(len(tokens), np.int32)
        rows[others] = np.arange(new.start, new.stop)
        self.rows, self._filled = new.stop, end
        return rows

    def of(self, rows: NDArray[np.int32]) -> tuple[int, Integers, Integers]:
        """Of some rows: how many words, the unknown ones, and how many of these each has."""
        counts = self._counts[rows].astype(np.int64)
        ends = np.cumsum(counts)
        first = np.repeat(self._starts[rows] - (ends - counts), counts)
        unknown = self._words[first + np.arange(len(first))]
        return int(self._tokens[rows].sum()), unknown, counts


def _with_room(array: NDArray[Number], size: int) -> NDArray[Number]:
    """The array, twice as long or more where it is too short."""
    if size <= len(array):
        return array
    larger = np.zeros(max(size, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger


class _Listed(NamedTuple):
    """``words``: numbers of words, text by text; ``offsets``: shape (n + 1,)."""

    words: Integers
    offsets: Integers


def _listed(texts: Integers, words: Integers, count: int) -> _Listed:
    """The first of each word in each text; ``texts``: ascending, of which text each word is."""
    span = int(words.max(initial=0)) + 1
    first = np.unique(texts * span + words, return_index=True)[1]
    first.sort()
    offsets = np.searchsorted(texts[first], np.arange(count + 1)).astype(np.int64)
    return _Listed(words[first], offsets)


def _lists(listed: _Listed, spelled: pa.StringArray) -> pa.ListArray:
    import pyarrow as pa

    values = spelled.take(pa.array(listed.words))
    return pa.ListArray.from_arrays(pa.array(listed.offsets.astype(np.int32)), values)


def _buffers(strings: pa.StringArray) -> tuple[NDArray[np.uint8], Integers]:
    data = np.frombuffer(strings.buffers()[2] or b"", np.uint8)
    return data, text_bounds(strings).astype(np.int64)
