"""Words counted in bounded memory, with known error, once there are too many to hold each.

Apache DataSketches does the work: frequent items (Misra-Gries with purges) for counts,
HyperLogLog for how many there are. ``word_tally.py`` counts exactly before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

LG_ITEMS: Final = 17  # words tracked: at most 3/4 of 2**17, some 20 MB
LG_REGISTERS: Final = 16  # 64 KiB; 3 sigma is 1.0 % of the words, 1.3 % after a merge
SIGMAS: Final = 3
LONGEST: Final = 256  # bytes; longer words are counted, but none by itself
MOST_PIECES: Final = 127


class LateWord(NamedTuple):
    """A word of the stream and its figures; what is estimated is not lower than the truth."""

    word: bytes
    known: bool
    pieces: int
    tokens: int
    documents: int


class Distinct(NamedTuple):
    """How many distinct words there are, about, and how far off that may be (3 sigma)."""

    words: int
    off_by: int


class WordSketches:
    """Counts and numbers of words; memory does not grow with what is added."""

    def __init__(self) -> None:
        from datasketches import frequent_strings_sketch, hll_sketch, tgt_hll_type

        self._counts = frequent_strings_sketch(LG_ITEMS)
        self._documents = frequent_strings_sketch(LG_ITEMS)
        self._words = hll_sketch(LG_REGISTERS, tgt_hll_type.HLL_8)
        self._unknown = hll_sketch(LG_REGISTERS, tgt_hll_type.HLL_8)

    def see(self, words: Iterable[bytes], known: Iterable[bool]) -> None:
        """Note that there are such words, as often as one likes; nothing is counted."""
        for word, is_known in zip(words, known, strict=True):
            text = word.decode("latin-1")  # the library takes text, and this keeps bytes apart
            self._words.update(text)
            if not is_known:
                self._unknown.update(text)

    def add(self, words: Iterable[LateWord]) -> None:
        """Count words; ``documents`` is not counted for known ones."""
        for word, known, pieces, tokens, documents in words:
            self.see((word,), (known,))
            if len(word) > LONGEST:
                continue
            key = chr(2 * min(pieces, MOST_PIECES) + known) + word.decode("latin-1")
            self._counts.update(key, tokens)
            if not known:
                self._documents.update(key, documents)

    def merge(self, other: WordSketches) -> None:
        """Add what another has counted."""
        self._counts.merge(other._counts)
        self._documents.merge(other._documents)
        self._words = _union(self._words, other._words)
        self._unknown = _union(self._unknown, other._unknown)

    @property
    def count_error(self) -> int:
        """How many tokens a count is too high at most; no word that is not tracked stands more
        often, but for those of more than ``LONGEST`` bytes."""
        return int(self._counts.get_upper_bound(""))  # no key is empty: what was never added

    @property
    def document_error(self) -> int:
        """The same for documents."""
        return int(self._documents.get_upper_bound(""))

    def words(self) -> Iterator[LateWord]:
        """The words tracked, in no particular order; as high as they can be."""
        from datasketches import frequent_items_error_type

        items = self._counts.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES, 0)
        for key, _, _, upper in items:
            pieces, known = divmod(ord(key[0]), 2)
            documents = 0 if known else min(upper, int(self._documents.get_upper_bound(key)))
            yield LateWord(key[1:].encode("latin-1"), bool(known), pieces, upper, documents)

    @property
    def distinct(self) -> Distinct:
        """All the words seen."""
        return _distinct(self._words)

    @property
    def distinct_unknown(self) -> Distinct:
        """The unknown ones among them."""
        return _distinct(self._unknown)

    def __getstate__(self) -> tuple[bytes, ...]:
        counts, documents = self._counts.serialize(), self._documents.serialize()
        return counts, documents, *map(_to_bytes, (self._words, self._unknown))

    def __setstate__(self, state: tuple[bytes, ...]) -> None:
        from datasketches import frequent_strings_sketch, hll_sketch

        self._counts, self._documents = map(frequent_strings_sketch.deserialize, state[:2])
        self._words, self._unknown = map(hll_sketch.deserialize, state[2:])


def _to_bytes(sketch: Any) -> bytes:
    return bytes(sketch.serialize_updatable())


def _distinct(sketch: Any) -> Distinct:
    estimate = sketch.get_estimate()
    low, high = sketch.get_lower_bound(SIGMAS), sketch.get_upper_bound(SIGMAS)
    return Distinct(round(estimate), int(max(high - estimate, estimate - low)) + 1)


def _union(one: Any, other: Any) -> Any:
    from datasketches import hll_union, tgt_hll_type

    union = hll_union(LG_REGISTERS)
    union.update(one)
    union.update(other)
    return union.get_result(tgt_hll_type.HLL_8)
