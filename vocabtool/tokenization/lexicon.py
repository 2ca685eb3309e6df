"""Which words a vocabulary knows: by a table that holds them, or by the pieces they fall into.

A word is unknown where the model gives it the unknown id *and* the vocabulary does not hold it: a
word that is called ``<UNK>`` may be an entry itself.
"""

from __future__ import annotations

from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vocabtool.tokenization.cut import as_bytes
from vocabtool.tokenization.judged import Spelled
from vocabtool.tokenization.wordpiece import WordPiece
from vocabtool.vocabulary import Vocabulary, encode

if TYPE_CHECKING:
    import pyarrow as pa

FEW: Final = 4_096  # words that Python looks up faster than Arrow learns the entries


class Verdict(NamedTuple):
    """What a vocabulary says of d words; fields as in ``judged.Judged``."""

    known: NDArray[np.bool_]
    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    pieces: NDArray[np.int32] | None = None
    spelled: Spelled | None = None


class Lexicon(Protocol):
    """Looks words up."""

    def judge(self, words: pa.StringArray) -> Verdict:
        """Say of each word whether it is known, and as what."""

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """The pieces of a word; nothing where words are looked up whole."""


class TableLexicon:
    """Whole words in a table: known is what the table holds, or the token of Keras' mask."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._ids = vocabulary.id_array()
        unknown = vocabulary.unknown
        self._unknown = unknown.id if unknown is not None and unknown.count == 1 else -1
        masks = (special for special in vocabulary.specials if special.role == "mask")
        self._masks = {encode(mask.entry): mask.id for mask in masks}

    @cached_property
    def _entries(self) -> pa.LargeBinaryArray:
        return self._vocabulary.to_arrow().column("token").combine_chunks()

    def judge(self, words: pa.StringArray) -> Verdict:
        """Look each word up; of several buckets for unknown words nothing tells which."""
        positions = self._positions(words)
        known = positions >= 0
        ids = np.full(len(positions), self._unknown, np.int64)
        ids[known] = self._ids[positions[known]]
        for mask, number in self._masks.items():
            masked = self._equal(words, mask) & ~known
            ids[masked], known[masked] = number, True
        return Verdict(known, ids, positions)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """Nothing."""
        return ()

    def _positions(self, words: pa.StringArray) -> NDArray[np.int64]:
        """Where each word stands first, -1 for none."""
        if len(words) < FEW:
            held = map(self._vocabulary.positions.get, as_bytes(words), repeat(-1))
            return np.fromiter(held, np.int64, len(words))
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pc.index_in(words.view(pa.binary()).cast(pa.large_binary()), self._entries)
        positions: NDArray[np.int64] = found.fill_null(-1).to_numpy().astype(np.int64)
        return positions

    @staticmethod
    def _equal(words: pa.StringArray, wanted: bytes) -> NDArray[np.bool_]:
        import pyarrow as pa
        import pyarrow.compute as pc

        equal = pc.equal(words.view(pa.binary()), pa.scalar(wanted, pa.binary()))
        found: NDArray[np.bool_] = equal.to_numpy(zero_copy_only=False)
        return found


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
        counts = np.array([len(pieces) for pieces in cut], np.int32)
        each = [piece for pieces in cut for piece in pieces]
        spelled = Spelled(
            [piece for piece, _ in each],
            np.array([i != self._unknown for _, i in each], np.bool_),
            np.append(0, np.cumsum(counts, dtype=np.int64)),
        )
        return Verdict(
            np.array(known, np.bool_),
            np.array(ids, np.int64),
            np.array(held, np.int64),
            counts,
            spelled,
        )

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """As the tokenizer cuts it."""
        return tuple(piece for piece, _ in self._wordpiece.pieces([word])[0])
