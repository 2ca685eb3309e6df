"""Look words up: find which words of texts are known, with their ids and pieces.

A word is unknown if the model gives it the unknown id *and* the vocabulary does not contain the
word. So the word ``<UNK>`` is known if it is an entry.

WordPiece follows WordpieceTokenizeWithOffsets (tensorflow_text/core/kernels/wordpiece_tokenizer.cc)
and FastWordpieceTokenizeWithOffsets with the settings of its flatbuffer.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate, chain, pairwise
from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.formats import sentencepiece, wire
from vocabtool.formats.sentencepiece import END_TO_END, read_wordpiece
from vocabtool.tokenization.rule import Rule
from vocabtool.tokenization.text_arrays import (
    Integers,
    TokenCodes,
    as_bytes,
    list_offsets,
    starts_of,
    string_array,
)
from vocabtool.vocabulary import Vocabulary, decode, encode

AHEAD: Final = 1000  # letters within which a word must begin in a text
TRIED: Final = 32  # candidate places of a word in a text
MAX_BYTES, INDICATOR, UNKNOWN_TOKEN, UNKNOWN_ID = 4, 5, 6, 7  # as in formats/sentencepiece.py

# One UTF-8 character, or the longest prefix of one, as ICU and the Unicode standard (3.9, "U+FFFD
# substitution of maximal subparts") define it.
CHARACTER: Final = re.compile(
    rb"[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]?|\xed[\x80-\x9f][\x80-\xbf]?"
    rb"|[\xe1-\xec\xee\xef][\x80-\xbf]{1,2}|\xf0[\x90-\xbf][\x80-\xbf]{0,2}"
    rb"|[\xf1-\xf3][\x80-\xbf]{1,3}|\xf4[\x80-\x8f][\x80-\xbf]{0,2}|[\x80-\xff]"
)

Item = TypeVar("Item")
Piece = tuple[bytes, int]
Span = tuple[int, int]  # start and end in a text, in characters


@dataclass(frozen=True, eq=False)
class WordPiece:
    """A WordPiece tokenizer.

    - ``ids``: of the entries. Those that continue a word begin with ``suffix_indicator``.
    - ``max_bytes_per_word``: the largest length of a known word.
    - ``max_chars_per_token``: the largest length of a piece without the indicator; 0: no limit.
    - ``unknown_token``: what a word becomes that cannot be split; ``None`` leaves it as it is.
    - ``split_unknown_characters``: a character that begins no entry is unknown, not the whole word.
    - ``unknown_id``: the id of pieces that are not entries.
    """

    ids: Mapping[bytes, int]
    suffix_indicator: bytes = b"##"
    max_bytes_per_word: int = 100
    max_chars_per_token: int = 0
    unknown_token: bytes | None = b"[UNK]"
    split_unknown_characters: bool = False
    unknown_id: int = -1

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.ids), default=0)

    def cut(self, word: bytes) -> tuple[tuple[Piece, ...], bool]:
        """Return the pieces of a word, and whether all pieces are entries."""
        ids, token = self.ids, self.unknown_token
        instead = word if token is None else token
        unknown = (((instead, ids.get(instead, self.unknown_id)),), False)
        if len(word) > self.max_bytes_per_word:
            return unknown
        ends = list(accumulate(map(len, CHARACTER.findall(word))))  # of the characters, in bytes
        pieces: list[Piece] = []
        known = True
        first = start = 0  # where the next piece begins, in characters and in bytes
        while first < len(ends):  # the longest entry, or a character that begins no entry
            indicator = self.suffix_indicator if start else b""
            last = bisect_right(ends, start + self._longest - len(indicator)) - 1
            if self.max_chars_per_token:
                last = min(last, first + self.max_chars_per_token - 1)
            last = max(last, first)
            while last > first and indicator + word[start : ends[last]] not in ids:
                last -= 1
            piece = indicator + word[start : ends[last]]
            if piece not in ids:
                if not self.split_unknown_characters:
                    return unknown
                known = False
                piece = piece if token is None else indicator + token
            pieces.append((piece, ids.get(piece, self.unknown_id)))
            first, start = last + 1, ends[last]
        return tuple(pieces), known


def read_fast_wordpiece(buffer: bytes) -> tuple[WordPiece, bool]:
    """Read a FastWordpiece op, and whether it first splits texts, as :class:`BertSplit` does."""
    vocabulary = read_wordpiece(buffer)
    model = wire.flatbuffer_root(buffer)
    longest = model.integer(MAX_BYTES)
    if longest < 1:
        raise InvalidFile(f"the largest word length must be at least 1, got {longest}")
    wordpiece = WordPiece(
        dict(zip(vocabulary.stored, vocabulary.id_array().tolist(), strict=True)),
        suffix_indicator=model.string(INDICATOR),
        max_bytes_per_word=longest,
        unknown_token=model.string(UNKNOWN_TOKEN),
        unknown_id=model.integer(UNKNOWN_ID),
    )
    return wordpiece, bool(model.byte(END_TO_END))


class Spellings(NamedTuple):
    """The p pieces of d words. Word ``i`` has ``pieces[offsets[i]:offsets[i + 1]]``.

    ``known``: shape (p,), whether the piece is an entry. ``offsets``: shape (d + 1,).
    """

    pieces: list[bytes]
    known: NDArray[np.bool_]
    offsets: Integers

    def of_word(self, word: int) -> list[tuple[bytes, bool]]:
        """Return the pieces of word ``word``, and whether each is known."""
        start, end = self.offsets[word : word + 2].tolist()
        return list(zip(self.pieces[start:end], self.known[start:end].tolist(), strict=True))


class WordLookup(NamedTuple):
    """The m words of ``n`` texts; d of the words are distinct.

    - ``codes``: shape (m,), position of each word in ``distinct``.
    - ``offsets``: shape (n + 1,). Text ``i`` has the words ``codes[offsets[i]:offsets[i + 1]]``.
    - ``distinct``: The d words as the model looks them up. They may be invalid UTF-8.
    - ``known``: shape (d,), whether the model knows the word.
    - ``ids``: shape (d,). The id is -1 if a hash bucket determines it, or if the word has several
      pieces.
    - ``positions``: shape (d,), the word's position among the stored entries; -1 if absent.
    - ``pieces``: shape (d,), number of subword pieces; ``None`` for a model of whole words.
    - ``unique``: Whether ``distinct`` is certain to contain no duplicates.
    - ``spelled``: The pieces of each distinct word; ``None`` for a model of whole words.
    """

    codes: NDArray[np.int32]
    offsets: Integers
    distinct: pa.StringArray
    known: NDArray[np.bool_]
    ids: Integers
    positions: Integers
    pieces: NDArray[np.int32] | None = None
    unique: bool = False
    spelled: Spellings | None = None

    def of_texts(self, chunks: NDArray[np.int32], offsets: Integers) -> WordLookup:
        """Combine the words of chunks into the words of texts, as :meth:`TokenCodes.of_texts`."""
        tokens = TokenCodes(self.codes, self.offsets, self.distinct).of_texts(chunks, offsets)
        return self._replace(codes=tokens.codes, offsets=tokens.offsets)

    def rows(self, items: Sequence[Item]) -> list[list[Item]]:
        """Return the words of each text as items. ``items``: one for each distinct word."""
        words = [items[code] for code in self.codes.tolist()]
        return [words[start:end] for start, end in pairwise(self.offsets.tolist())]

    @property
    def ends(self) -> Integers:
        """How many tokens come before each of the m words, and the total: shape (m + 1,)."""
        if self.pieces is None:
            return np.arange(len(self.codes) + 1)
        return starts_of(self.pieces[self.codes])

    def count_cut(self, most: int | None) -> tuple[int, int]:
        """Return how many texts have more than ``most`` tokens, and how many tokens are cut off."""
        if most is None:
            return 0, 0
        cut = np.maximum(np.diff(self.ends[self.offsets]) - most, 0)
        return int(np.count_nonzero(cut)), int(cut.sum())


def join_lookups(lookups: Iterable[WordLookup]) -> WordLookup:
    """Combine the lookups of consecutive texts, at least one. Words that are equal become one.

    A distinct word takes about 100 bytes here, and several times as much as a :class:`SpelledWord`.
    """
    # Replace the pieces of all words by numbers, one for each distinct piece and whether it is
    # known. ``unspelled``: the lookups without their pieces.
    numbers: dict[tuple[bytes, bool], int] = {}
    unspelled: list[WordLookup] = []
    keys, spellings = [], []
    for lookup in lookups:
        spelled = lookup.spelled
        if spelled is None:
            no_pieces = np.zeros(len(lookup.ids) + 1, np.int64)
            spelled = Spellings([], np.zeros(0, np.bool_), no_pieces)
        pairs = zip(spelled.pieces, spelled.known.tolist(), strict=True)
        pieces = np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs], np.int32)
        spellings.append(pa.ListArray.from_arrays(pa.array(spelled.offsets, pa.int32()), pieces))
        keys.append(_keys(lookup, spelled.offsets, pieces))
        unspelled.append(lookup._replace(spelled=None))

    # Give words with the same key the same code. ``first``: where each code occurs first.
    new_codes, first = _first_places(pa.concat_arrays(keys))
    del keys
    distinct = pa.concat_arrays([lookup.distinct.view(pa.binary()) for lookup in unspelled])
    distinct = distinct.take(first)
    starts = starts_of([len(lookup.ids) for lookup in unspelled])[:-1].tolist()
    codes = [
        new_codes[lookup.codes + start] for lookup, start in zip(unspelled, starts, strict=True)
    ]
    joined = WordLookup(
        np.concatenate(codes).astype(np.int32),
        starts_of(np.concatenate([np.diff(lookup.offsets) for lookup in unspelled])),
        distinct.view(pa.string()),
        known=np.concatenate([lookup.known for lookup in unspelled])[first],
        ids=np.concatenate([lookup.ids for lookup in unspelled])[first],
        positions=np.concatenate([lookup.positions for lookup in unspelled])[first],
        unique=len(_first_places(distinct)[1]) == len(distinct),
    )
    if unspelled[0].pieces is None:
        return joined
    lists = pa.concat_arrays(spellings).take(first)
    offsets, pieces = list_offsets(lists), lists.flatten().to_numpy()
    entries = [piece for piece, _ in numbers]
    spelling = Spellings(
        [entries[number] for number in pieces],
        np.array([known for _, known in numbers], np.bool_)[pieces],
        offsets,
    )
    return joined._replace(pieces=np.diff(offsets).astype(np.int32), spelled=spelling)


def _first_places(values: pa.BinaryArray) -> tuple[Integers, Integers]:
    """Number values by first occurrence. Return each value's number, and where a number is first.

    A dictionary would do the same with several times the memory.
    """
    order = pc.array_sort_indices(values)  # equal values stay in order
    ordered = values.take(order)
    begins = np.ones(len(values), np.bool_)
    begins[1:] = pc.not_equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)
    rows = order.to_numpy().astype(np.int64)
    first = np.sort(rows[begins])
    numbers = np.empty(len(values), np.int64)
    numbers[rows] = np.searchsorted(first, rows[begins])[np.cumsum(begins) - 1]
    return numbers, first


def _keys(lookup: WordLookup, offsets: Integers, pieces: NDArray[np.int32]) -> pa.BinaryArray:
    """Return a key for each word. Words have the same key if they are equal in everything.

    That is: text, pieces (their numbers, with offsets as in :class:`Spellings`), id, known or not.
    """
    facts = np.zeros(len(lookup.ids), [("id", "i8"), ("known", "i4"), ("pieces", "i4")])
    facts["id"], facts["known"], facts["pieces"] = lookup.ids, lookup.known, np.diff(offsets)
    bounds = pa.py_buffer((offsets * pieces.itemsize).astype(np.int32))
    spelled = pa.Array.from_buffers(pa.binary(), len(facts), [None, bounds, pa.py_buffer(pieces)])
    fixed = pa.binary(facts.itemsize)
    last = pa.Array.from_buffers(fixed, len(facts), [None, pa.py_buffer(facts)]).cast(pa.binary())
    # The end has a fixed length and says how many pieces are before it.
    return pc.binary_join_element_wise(lookup.distinct.view(pa.binary()), spelled, last, b"")


def without_blanks(lookup: WordLookup) -> WordLookup:
    """Remove the words that consist only of blanks from the lookup of a subword model."""
    if lookup.pieces is None:
        return lookup
    lengths = pc.binary_length(lookup.distinct).to_numpy()
    trimmed = pc.binary_length(pc.ascii_trim(lookup.distinct, " ")).to_numpy()
    is_word = ((lengths == 0) | (trimmed > 0))[lookup.codes]
    return lookup._replace(codes=lookup.codes[is_word], offsets=starts_of(is_word)[lookup.offsets])


def find_in_order(line: str, words: Sequence[str]) -> list[Span | None]:
    """Find words in order by letters and digits, without case and accents; ``None`` if absent."""
    folded = list(map(_fold, line))
    letters = "".join(folded)
    # The character of the line that each letter comes from.
    places = [at for at, of_character in enumerate(folded) for _ in of_character]
    keys = ["".join(map(_fold, word)) for word in words]
    spans: list[Span | None] = []
    read = 0  # the end of the last span
    for word, key, next_key in zip(words, keys, [*keys[1:], ""], strict=False):
        start = end = -1
        next_letter = bisect_left(places, read)  # the first letter behind the last span
        if key:
            limit = next_letter + AHEAD + len(key)
            at = first = letters.find(key, next_letter, limit)
            for _ in range(TRIED):  # prefer a place where a word of the line begins
                if at <= next_letter or not folded[places[at] - 1]:
                    break
                at = letters.find(key, at + 1, limit)
            at = first if at < 0 else at
            if at >= 0:
                start, end = places[at], places[at + len(key) - 1] + 1
                # The marks around the word's letters belong to it if the line has them, too.
                lettered = [i for i, character in enumerate(word) if _fold(character)]
                before, behind = word[: lettered[0]], word[lettered[-1] + 1 :]
                start -= len(before) if line.endswith(before, read, start) else 0
                end += len(behind) if line.startswith(behind, end) else 0
        elif word:  # only marks
            start = line.find(word, read, read + AHEAD + len(word))
            at, end = bisect_left(places, start), start + len(word)
        # If the next word comes first, this word is not in the line.
        skips = start >= 0 and at > next_letter and next_key
        if start < 0 or (skips and letters.startswith(next_key, next_letter)):
            spans.append(None)
        else:
            spans.append((start, end))
            read = end
    return spans


@cache
def _fold(character: str) -> str:
    """Return the letters and digits of a character, in lower case and without accents."""
    plain = unicodedata.normalize("NFKD", character).casefold()
    return "".join(c for c in unicodedata.normalize("NFKD", plain) if c.isalnum())


class SpelledWord(NamedTuple):
    text: bytes
    pieces: tuple[Piece, ...]
    known: bool


def look_up_spelled(
    words: Iterable[SpelledWord], offsets: Integers, vocabulary: Vocabulary, unknown: int
) -> WordLookup:
    """Make a lookup from words in pieces. ``unknown``: the id of the unknown piece; -1: none."""
    places: dict[SpelledWord, int] = {}
    codes = np.array([places.setdefault(word, len(places)) for word in words], np.int32)
    distinct = list(places)
    ids = np.full(len(distinct), -1, np.int64)
    positions = np.full(len(distinct), -1, np.int64)
    entries = vocabulary.positions
    for at, word in enumerate(distinct):
        if len(word.pieces) == 1:
            piece, ids[at] = word.pieces[0]
            if word.known:
                positions[at] = entries.get(piece, -1)
    pieces = [piece for word in distinct for piece in word.pieces]
    counts = np.array([len(word.pieces) for word in distinct], np.int32)
    return WordLookup(
        codes,
        offsets,
        string_array(word.text for word in distinct),
        known=np.array([word.known for word in distinct], np.bool_),
        ids=ids,
        positions=positions,
        pieces=counts,
        unique=len({word.text for word in distinct}) == len(distinct),
        spelled=Spellings(
            [piece for piece, _ in pieces],
            np.array([number != unknown for _, number in pieces], np.bool_),
            starts_of(counts),
        ),
    )


class Tokenizer(Protocol):
    def look_up(self, texts: pa.StringArray) -> WordLookup:
        """Return the words of each text. Thread-safe."""

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """Return the subword pieces of a word; empty for a model of whole words."""

    def describe(self) -> tuple[str, ...]:
        """Describe the steps that split a text into words, one line for each step."""

    @property
    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 of everything that decides where words begin and end."""


class RuleTokenizer:
    """Splits texts by a rule. A word is known if it is an entry or the mask token of Keras."""

    def __init__(self, rule: Rule, vocabulary: Vocabulary) -> None:
        self._rule, self._vocabulary = rule, vocabulary
        self._ids = vocabulary.id_array()
        self.fingerprint = rule.fingerprint

    def look_up(self, texts: pa.StringArray) -> WordLookup:
        return self.look_up_words(self._rule.token_codes(texts))

    def look_up_words(self, tokens: TokenCodes) -> WordLookup:
        words, vocabulary = tokens.distinct, self._vocabulary
        positions = vocabulary.stored.find(as_bytes(words))
        known = positions >= 0
        unknown = vocabulary.unknown
        # With several buckets, the bucket of an unknown word is unknown.
        missing = unknown.id if unknown is not None and unknown.count == 1 else -1
        ids = np.full(len(positions), missing, np.int64)
        ids[known] = self._ids[positions[known]]
        for special in vocabulary.specials:
            if special.role == "mask":
                mask = pa.scalar(encode(special.entry), pa.binary())
                equal = pc.equal(words.view(pa.binary()), mask)
                masked = equal.to_numpy(zero_copy_only=False) & (positions < 0)
                ids[masked], known[masked] = special.id, True
        return WordLookup(*tokens, known, ids, positions, unique=True)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        return ()

    def describe(self) -> tuple[str, ...]:
        return self._rule.describe()


class WordPieceTokenizer(RuleTokenizer):
    """Splits texts by a rule and WordPiece. A word is known if all its pieces are entries."""

    def __init__(self, rule: Rule, vocabulary: Vocabulary, wordpiece: WordPiece) -> None:
        super().__init__(rule, vocabulary)
        self._wordpiece = wordpiece

    def look_up_words(self, tokens: TokenCodes) -> WordLookup:
        unknown = self._vocabulary.unknown.id if self._vocabulary.unknown is not None else -1
        words = []
        for word in as_bytes(tokens.distinct):
            pieces, known = self._wordpiece.cut(word)
            known = known and all(number != unknown for _, number in pieces)
            words.append(SpelledWord(word, pieces, known))
        lookup = look_up_spelled(words, np.arange(len(words) + 1), self._vocabulary, unknown)
        return lookup.of_texts(tokens.codes, tokens.offsets)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        return tuple(piece for piece, _ in self._wordpiece.cut(word)[0])


class PieceTokenizer(NamedTuple):
    """The tokenizer of one file, used with the vocabulary of another file.

    A word is known if the tokenizer knows all its pieces and the vocabulary contains them.
    """

    tokenizer: Tokenizer
    vocabulary: Vocabulary

    def look_up(self, texts: pa.StringArray) -> WordLookup:
        lookup = self.tokenizer.look_up(texts)
        spelled = lookup.spelled
        if spelled is None:  # whole words
            words = as_bytes(lookup.distinct)
            spelled = Spellings(words, lookup.known, np.arange(len(words) + 1))
        entries = self.vocabulary.positions
        piece_positions = np.array([entries.get(piece, -1) for piece in spelled.pieces], np.int64)
        piece_positions[~spelled.known] = -1
        unknown_before = starts_of(piece_positions < 0)  # how many unknown pieces come before each
        starts, ends = spelled.offsets[:-1], spelled.offsets[1:]
        known = lookup.known & (unknown_before[ends] == unknown_before[starts])
        single = known & (ends - starts == 1)
        positions = np.full(len(known), -1, np.int64)
        positions[single] = piece_positions[starts[single]]
        ids = np.full(len(known), -1, np.int64)
        ids[single] = self.vocabulary.id_array()[positions[single]]
        if lookup.spelled is not None:
            lookup = lookup._replace(spelled=spelled._replace(known=piece_positions >= 0))
        return lookup._replace(known=known, ids=ids, positions=positions)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        return self.tokenizer.pieces(word)

    def describe(self) -> tuple[str, ...]:
        return self.tokenizer.describe()

    @property
    def fingerprint(self) -> str:
        return self.tokenizer.fingerprint


# SentencePiece.

SPACE: Final = "▁".encode()


@dataclass(frozen=True, slots=True)
class SentencePieceTokenizer:
    """Splits texts with a SentencePiece model. Raises :class:`InvalidFile` for a damaged model.

    ``model``: a serialised ``ModelProto``. ``rule``: what is done to texts before. ``added``:
    tokens that are kept whole. A text between two of them is split by itself.
    """

    model: bytes
    vocabulary: Vocabulary
    rule: Rule
    added: tuple[bytes, ...] = ()

    def cut(self, texts: Sequence[bytes]) -> list[tuple[Piece, ...]]:
        """Return the pieces of each text, without control pieces; an unknown one as in the text."""
        processor, _ = sentencepiece.open_model(self.model)
        if self.added:
            longest_first = sorted(self.added, key=len, reverse=True)
            split = re.compile(b"(" + b"|".join(map(re.escape, longest_first)) + b")").split
            without = replace(self, added=())
            rows = []
            for text in texts:
                pieces: list[Piece] = []
                for stretch in split(text):
                    if stretch in self.added:
                        pieces.append((stretch, processor.piece_to_id(stretch.decode())))
                    else:
                        pieces += without.cut([stretch])[0]
                rows.append(tuple(pieces))
            return rows
        if not texts:
            return []
        try:
            spelled = processor.encode(list(texts), out_type=str)
        except UnicodeDecodeError as error:
            what = "a piece of the SentencePiece model is not UTF-8"
            raise InvalidFile(f"{what}: {error}") from error
        numbered = processor.encode(list(texts), out_type=int)
        return [
            tuple((p.encode(), i) for p, i in zip(pieces, ids, strict=True))
            for pieces, ids in zip(spelled, numbered, strict=True)
        ]

    def words(self, texts: Sequence[bytes]) -> list[list[SpelledWord]]:
        """Return the words of each text, without control pieces.

        A word includes the blank before it, or behind it in a model that marks ends of words.
        """
        processor, marks_ends = sentencepiece.open_model(self.model)
        unknown, is_byte = processor.unk_id(), processor.is_byte
        rows = []
        for pieces in self.cut(texts):
            pieces_of_words: list[list[Piece]] = []
            ended = True  # whether the next piece begins a word
            for piece in pieces:
                if ended or (not marks_ends and piece[0].startswith((SPACE, b" "))):
                    pieces_of_words.append([])
                pieces_of_words[-1].append(piece)
                ended = marks_ends and piece[0].endswith((SPACE, b" "))
            words = []
            for pieces_of_word in pieces_of_words:
                spelled = b"".join(  # <0x41> stands for a byte
                    bytes.fromhex(piece[3:5].decode()) if is_byte(number) else piece
                    for piece, number in pieces_of_word
                )
                text = spelled.replace(SPACE, b" ")
                known = all(number != unknown for _, number in pieces_of_word)
                words.append(SpelledWord(text.strip(b" ") or text, tuple(pieces_of_word), known))
            rows.append(words)
        return rows

    def look_up(self, texts: pa.StringArray) -> WordLookup:
        tokens = self.rule.tokens(texts)
        words = self.words(as_bytes(tokens.values))
        offsets = starts_of(list(map(len, words)))[tokens.offsets]
        unknown = int(sentencepiece.open_model(self.model)[0].unk_id())
        return look_up_spelled(chain.from_iterable(words), offsets, self.vocabulary, unknown)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        return tuple(piece for piece, _ in self.cut([word])[0])

    def describe(self) -> tuple[str, ...]:
        before = self.rule.describe() if self.rule.steps else ()
        return (*before, "split into pieces by SentencePiece; the pieces form words")

    @property
    def fingerprint(self) -> str:
        model = hashlib.sha256(self.model).hexdigest()
        facts = f"vocabtool sentencepiece 1\n{self.rule.fingerprint}\n{model}\n"
        facts += " ".join(map(decode, self.added))
        return hashlib.sha256(facts.encode()).hexdigest()
