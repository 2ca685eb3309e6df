"""What became of pieces of text before: their words, judged once for a whole corpus.

A rule that works between blanks makes the same words of the same piece every time, and a word that
is known stays known. Bounded: pieces that come when it is full are worked out in each batch anew.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.words.cut import as_bytes, as_strings
from vocabtool.words.lexicon import Lexicon, Verdict
from vocabtool.words.rule import Coded

if TYPE_CHECKING:
    import pyarrow as pa

MOST: Final = 500_000  # pieces, and words


class Words(NamedTuple):
    """All the words of a memo so far, judged; places in them do not change any more."""

    distinct: pa.StringArray
    verdict: Verdict


class Memo:
    """Pieces and their words. Not for several threads at once.

    A piece is a row of ``_counts``: how many words it makes, and where their codes begin.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._rows: dict[bytes, int] = {}
        self._codes: dict[bytes, int] = {}
        self._starts = np.zeros(0, np.int64)
        self._counts = np.zeros(0, np.int64)
        self._flat = np.zeros(0, np.int32)
        self._words: Words | None = None

    @property
    def full(self) -> bool:
        """Whether nothing more is kept."""
        return len(self._rows) >= MOST or len(self._codes) >= MOST

    @property
    def words(self) -> Words:
        """Every word that was met, in the order of its code."""
        if self._words is None:
            self._words = self._judged([])
        return self._words

    def rows(self, pieces: list[bytes]) -> NDArray[np.int64]:
        """The row of each piece, -1 for one that is not kept yet: int64, shape (len(pieces),)."""
        return np.fromiter(map(self._rows.get, pieces, repeat(-1)), np.int64, len(pieces))

    def keep(self, pieces: list[bytes], words: Coded) -> NDArray[np.int64]:
        """Keep pieces that were not kept, and what they became: ``words``, piece by piece.

        Returns their rows.
        """
        codes = self._codes_of(as_bytes(words.distinct))
        base = len(self._flat)
        first = len(self._rows)
        self._rows.update(zip(pieces, range(first, first + len(pieces)), strict=True))
        self._starts = np.concatenate((self._starts, base + words.offsets[:-1]))
        self._counts = np.concatenate((self._counts, np.diff(words.offsets)))
        self._flat = np.concatenate((self._flat, codes[words.codes]))
        return np.arange(first, first + len(pieces))

    def _codes_of(self, words: list[bytes]) -> NDArray[np.int32]:
        found = [self._codes.get(word, -1) for word in words]
        new = [word for word, code in zip(words, found, strict=True) if code < 0]
        if new:
            self._words = self._judged(new)
            first = len(self._codes)
            self._codes.update(zip(new, range(first, first + len(new)), strict=True))
            found = [self._codes[word] for word in words]
        return np.array(found, np.int32)

    def _judged(self, new: list[bytes]) -> Words:
        """The words so far and some more."""
        import pyarrow as pa

        more = as_strings(pa.array(new, pa.binary()))
        verdict = self._lexicon.judge(more)
        if self._words is None:
            return Words(more, verdict)
        distinct, before = self._words
        pieces = None
        if before.pieces is not None and verdict.pieces is not None:
            pieces = np.concatenate((before.pieces, verdict.pieces))
        return Words(
            pa.concat_arrays([distinct, more]),
            Verdict(
                np.concatenate((before.known, verdict.known)),
                np.concatenate((before.ids, verdict.ids)),
                np.concatenate((before.positions, verdict.positions)),
                pieces,
            ),
        )

    def unfolded(
        self, rows: NDArray[np.int64], places: NDArray[np.int32], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Codes and offsets of the words of texts.

        ``rows``: of the distinct pieces; ``places``: for each piece of the texts which of these
        it is; ``offsets``: of the texts into ``places``.
        """
        starts, counts = self._starts[rows], self._counts[rows]
        if bool((counts == 1).all()):
            return self._flat[starts][places], offsets
        lengths = counts[places]
        ends = np.cumsum(lengths)
        within = np.repeat(starts[places] - (ends - lengths), lengths)
        within += np.arange(len(within))
        return self._flat[within], np.concatenate(([0], ends))[offsets]
