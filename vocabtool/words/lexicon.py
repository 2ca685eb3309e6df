"""Which words a vocabulary knows: by a table that holds them, or by the pieces they fall into.

A word is unknown where the model gives it the unknown id *and* the vocabulary does not hold it: a
word that is called ``<UNK>`` may be an entry itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vocabtool.vocabulary import Vocabulary, encode
from vocabtool.words.cut import as_bytes
from vocabtool.words.wordpiece import WordPiece

if TYPE_CHECKING:
    import pyarrow as pa


class Verdict(NamedTuple):
    """What a vocabulary says of d words; fields as in :class:`~vocabtool.words.judged.Judged`."""

    known: NDArray[np.bool_]
    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    pieces: NDArray[np.int32] | None = None


class Lexicon(Protocol):
    """Looks words up."""

    def judge(self, words: pa.StringArray) -> Verdict:
        """Say of each word whether it is known, and as what."""


class TableLexicon:
    """Whole words in a table: known is what the table holds, or the token of Keras' mask."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._positions = vocabulary.positions
        self._ids = vocabulary.id_array()
        unknown = vocabulary.unknown
        self._unknown = unknown.id if unknown is not None and unknown.count == 1 else -1
        masks = (special for special in vocabulary.specials if special.role == "mask")
        self._masks = {encode(mask.entry): mask.id for mask in masks}

    def judge(self, words: pa.StringArray) -> Verdict:
        """Look each word up; of several buckets for unknown words nothing tells which."""
        keys = as_bytes(words)
        positions = np.array([self._positions.get(key, -1) for key in keys], np.int64)
        known = positions >= 0
        ids = np.full(len(positions), self._unknown, np.int64)
        ids[known] = self._ids[positions[known]]
        for key, mask in self._masks.items():
            if key in keys and key not in self._positions:
                ids[keys.index(key)], known[keys.index(key)] = mask, True
        return Verdict(known, ids, positions)


class WordPieceLexicon:
    """Words that fall into pieces: unknown is a word that no pieces make up."""

    def __init__(self, vocabulary: Vocabulary, wordpiece: WordPiece) -> None:
        self._wordpiece = wordpiece
        self._positions = vocabulary.positions
        self._unknown = vocabulary.unknown.id if vocabulary.unknown is not None else -1

    def judge(self, words: pa.StringArray) -> Verdict:
        """Cut each word; ``positions`` and ``ids`` are those of words that are one piece."""
        keys = as_bytes(words)
        cut = self._wordpiece.pieces(keys)
        made_up = self._wordpiece.known(keys)
        known = [
            held and all(i != self._unknown for _, i in pieces)
            for held, pieces in zip(made_up, cut, strict=True)
        ]
        single = [len(pieces) == 1 for pieces in cut]
        ids = [pieces[0][1] if one else -1 for pieces, one in zip(cut, single, strict=True)]
        held = [
            self._positions.get(pieces[0][0], -1) if one else -1
            for pieces, one in zip(cut, single, strict=True)
        ]
        return Verdict(
            np.array(known, np.bool_),
            np.array(ids, np.int64),
            np.array(held, np.int64),
            np.array([len(pieces) for pieces in cut], np.int32),
        )
