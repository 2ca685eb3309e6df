"""Which words of some texts a model knows: the lookup that reports and masks are made of.

A rule and a lexicon, or another tokenizer, make it of texts. A lexicon is a table of whole words,
or the pieces that words fall into. A word is unknown where the model gives it the unknown id *and*
the vocabulary does not hold it: a word that is called ``<UNK>`` may be an entry itself.
"""

from __future__ import annotations

from functools import cached_property
from itertools import repeat
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.tokenization.rule import Coded, Rule
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.tokenization.wordpiece import WordPiece
from vocabtool.vocabulary import Vocabulary, encode


class Spelled(NamedTuple):
    """The pieces of d words, p altogether, as a model makes them where these words stand.

    ``pieces``: length p. ``known``: bool, shape (p,), false for what the model has no piece for.
    ``offsets``: int64, shape (d + 1,); the pieces of word ``i`` are
    ``pieces[offsets[i]:offsets[i + 1]]``.
    """

    pieces: list[bytes]
    known: NDArray[np.bool_]
    offsets: NDArray[np.int64]

    def of(self, word: int) -> list[tuple[bytes, bool]]:
        """The pieces of one word, and which are known."""
        start, end = self.offsets[word : word + 2].tolist()
        return list(zip(self.pieces[start:end], self.known[start:end].tolist(), strict=True))


class WordLookup(NamedTuple):
    """The words of ``n`` texts, m altogether, of which d are told apart.

    ``codes``: int32, shape (m,), for each word its place in ``distinct``.
    ``offsets``: int64, shape (n + 1,); the words of text ``i`` are
    ``codes[offsets[i]:offsets[i + 1]]``.
    ``distinct``: Arrow ``string`` array of length d, what the model looks up, perhaps not UTF-8.
    ``known``: bool, shape (d,), whether the model knows the word.
    ``ids``: int64, shape (d,), the id that it gets, -1 where nothing tells (a hash bucket).
    ``positions``: int64, shape (d,), where in the vocabulary's ``stored`` it stands, -1: nowhere.
    ``pieces``: int32, shape (d,), how many pieces a subword model makes of it; ``None`` for a
    model of whole words.
    ``unique``: whether it is certain that no two of ``distinct`` are equal.
    ``spelled``: the pieces of each of ``distinct``; ``None`` where nothing tells them.
    """

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    distinct: pa.StringArray
    known: NDArray[np.bool_]
    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    pieces: NDArray[np.int32] | None = None
    unique: bool = False
    spelled: Spelled | None = None


def without_blanks(judged: WordLookup) -> WordLookup:
    """Without the words of a model of pieces that are nothing but blanks: no word, to a reader."""

    if judged.pieces is None:
        return judged
    lengths = pc.binary_length(judged.distinct).to_numpy()
    trimmed = pc.binary_length(pc.ascii_trim(judged.distinct, " ")).to_numpy()
    kept = ((lengths == 0) | (trimmed > 0))[judged.codes]
    offsets = np.append(0, np.cumsum(kept))[judged.offsets]
    return judged._replace(codes=judged.codes[kept], offsets=offsets)


FEW: Final = 4_096  # words that Python looks up faster than Arrow learns the entries


class Verdict(NamedTuple):
    """What a vocabulary says of d words; fields as in ``judged.WordLookup``."""

    known: NDArray[np.bool_]
    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    pieces: NDArray[np.int32] | None = None
    spelled: Spelled | None = None


class Lexicon(Protocol):
    """Looks words up."""

    def look_up(self, words: pa.StringArray) -> Verdict:
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

    def look_up(self, words: pa.StringArray) -> Verdict:
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

        found = pc.index_in(words.view(pa.binary()).cast(pa.large_binary()), self._entries)
        positions: NDArray[np.int64] = found.fill_null(-1).to_numpy().astype(np.int64)
        return positions

    @staticmethod
    def _equal(words: pa.StringArray, wanted: bytes) -> NDArray[np.bool_]:

        equal = pc.equal(words.view(pa.binary()), pa.scalar(wanted, pa.binary()))
        found: NDArray[np.bool_] = equal.to_numpy(zero_copy_only=False)
        return found


class WordPieceLexicon:
    """Words that fall into pieces: unknown is a word that no pieces make up."""

    def __init__(self, vocabulary: Vocabulary, wordpiece: WordPiece) -> None:
        self._wordpiece = wordpiece
        self._positions = vocabulary.positions
        self._unknown = vocabulary.unknown.id if vocabulary.unknown is not None else -1

    def look_up(self, words: pa.StringArray) -> Verdict:
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


class Tokenizer(Protocol):
    """Cuts texts as a model does and says which of the words it knows."""

    def look_up(self, texts: pa.StringArray) -> WordLookup:
        """The words of each text, known and unknown."""

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """What a subword model makes of a word; nothing for a model of whole words."""

    def describe(self) -> tuple[str, ...]:
        """What happens to a text, a line for each step."""

    @property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of what decides where words begin and end."""


class RuleTokenizer(NamedTuple):
    """A rule makes the words, a lexicon says which are known."""

    rule: Rule
    lexicon: Lexicon

    def look_up(self, texts: pa.StringArray) -> WordLookup:
        """Cut and look up, each distinct word once; may be called by several threads."""
        return look_up_tokens(self.rule.coded(texts), self.lexicon)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """The lexicon's."""
        return self.lexicon.pieces(word)

    def describe(self) -> tuple[str, ...]:
        """The rule's steps."""
        return self.rule.describe()

    @property
    def fingerprint(self) -> str:
        """The rule's."""
        return self.rule.fingerprint


class PieceTokenizer(NamedTuple):
    """A tokenizer makes the words, the entries of a vocabulary say which of them are known.

    Known is a word whose pieces are all entries, none of them the tokenizer's unknown one.
    """

    tokenizer: Tokenizer
    vocabulary: Vocabulary

    def look_up(self, texts: pa.StringArray) -> WordLookup:
        """Cut as the tokenizer does, and look the pieces up; ids are the vocabulary's."""
        found = self.tokenizer.look_up(texts)
        spelled = found.spelled
        if spelled is None:  # its pieces are whole words
            words = as_bytes(found.distinct)
            spelled = Spelled(words, found.known, np.arange(len(words) + 1))
        entries = self.vocabulary.positions
        held = np.array([entries.get(piece, -1) for piece in spelled.pieces], np.int64)
        held[~spelled.known] = -1
        missed = np.append(0, np.cumsum(held < 0))
        starts, ends = spelled.offsets[:-1], spelled.offsets[1:]
        known = found.known & (missed[ends] == missed[starts])
        single = known & (ends - starts == 1)
        positions = np.full(len(known), -1, np.int64)
        positions[single] = held[starts[single]]
        ids = np.full(len(known), -1, np.int64)
        ids[single] = self.vocabulary.id_array()[positions[single]]
        if found.spelled is not None:
            found = found._replace(spelled=spelled._replace(known=held >= 0))
        return found._replace(known=known, ids=ids, positions=positions)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """The tokenizer's."""
        return self.tokenizer.pieces(word)

    def describe(self) -> tuple[str, ...]:
        """The tokenizer's steps."""
        return self.tokenizer.describe()

    @property
    def fingerprint(self) -> str:
        """The tokenizer's."""
        return self.tokenizer.fingerprint


def look_up_tokens(coded: Coded, lexicon: Lexicon) -> WordLookup:
    """Words that are told apart, looked up."""
    verdict = lexicon.look_up(coded.distinct)
    return WordLookup(
        coded.codes,
        coded.offsets,
        coded.distinct,
        verdict.known,
        verdict.ids,
        verdict.positions,
        verdict.pieces,
        unique=True,
        spelled=verdict.spelled,
    )
