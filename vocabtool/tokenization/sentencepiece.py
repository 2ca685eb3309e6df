"""Split texts with the ``sentencepiece`` library: into pieces with ids, and into words.

A model's normalizer has a table of replaced characters. The library does not check the offsets in
this table, so this module checks them first.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.formats import sentencepiece as model_proto
from vocabtool.formats import wire
from vocabtool.formats.saved_model.tokenizers import FAR, VALUE
from vocabtool.formats.wire import LEN, VARINT
from vocabtool.tokenization.lookup import Piece, SpelledWord, WordLookup, look_up_spelled
from vocabtool.tokenization.rule import Rule
from vocabtool.tokenization.text_arrays import as_bytes, starts_of
from vocabtool.vocabulary import Vocabulary

SPACE: Final = "▁".encode()
NORMALIZERS: Final = (3, 5)  # normalizer_spec and denormalizer_spec of ModelProto
CHARSMAP: Final = 2  # of NormalizerSpec
SPACE_BEHIND: Final = 24  # treat_whitespace_as_suffix of TrainerSpec


@dataclass(frozen=True, slots=True)
class SentencePieces:
    """A SentencePiece tokenizer. All methods raise :class:`InvalidFile` for a damaged model.

    - ``model``: A serialised ``ModelProto``.
    - ``add_bos``, ``add_eos``: Whether :meth:`pieces` adds a control piece before or after a text.
    - ``reverse``: Whether :meth:`pieces` returns the last piece first.
    """

    model: bytes
    add_bos: bool = False
    add_eos: bool = False
    reverse: bool = False

    @property
    def unknown_id(self) -> int:
        return int(_open(self.model)[0].unk_id())

    def pieces(self, texts: Sequence[bytes]) -> list[tuple[Piece, ...]]:
        """Return the pieces of each text. An unknown piece is spelled as in the text."""
        processor, _ = _open(self.model)
        marks = []
        for wanted, number in (
            (self.add_bos, processor.bos_id()),
            (self.add_eos, processor.eos_id()),
        ):
            if wanted and number < 0:
                raise InvalidFile(
                    "the SentencePiece model has no control piece for the beginning or the end of "
                    "a text, but the op requests such a piece"
                )
            marks.append([(processor.id_to_piece(number).encode(), number)] if wanted else [])
        each = [(*marks[0], *pieces, *marks[1]) for pieces in self._cut(texts)]
        return [pieces[::-1] for pieces in each] if self.reverse else each

    def words(self, texts: Sequence[bytes]) -> list[tuple[SpelledWord, ...]]:
        """Return the words of each text, without control pieces."""
        processor, behind = _open(self.model)
        unknown, is_byte = processor.unk_id(), processor.is_byte

        def word(pieces: tuple[Piece, ...]) -> SpelledWord:
            spelled = b"".join(  # <0x41> stands for a byte
                bytes.fromhex(piece[3:5].decode()) if is_byte(number) else piece
                for piece, number in pieces
            )
            known = all(number != unknown for _, number in pieces)
            return SpelledWord(readable_word(spelled), pieces, known)

        return [
            tuple(word(each) for each in group_by_word(pieces, behind) if each)
            for pieces in self._cut(texts)
        ]

    def _cut(self, texts: Sequence[bytes]) -> Iterator[tuple[Piece, ...]]:
        processor, _ = _open(self.model)
        if not texts:
            return
        try:
            spelled = processor.encode(list(texts), out_type=str)
        except UnicodeDecodeError as error:
            raise InvalidFile(
                f"a piece of the SentencePiece model is not UTF-8: {error}"
            ) from error
        numbered = processor.encode(list(texts), out_type=int)
        for pieces, ids in zip(spelled, numbered, strict=True):
            yield tuple((p.encode(), i) for p, i in zip(pieces, ids, strict=True))


def readable_word(spelled: bytes) -> bytes:
    """Replace ``▁`` by blanks, and remove the blanks at both ends.

    If a word consists only of blanks, its blanks are kept.
    """
    text = spelled.replace(SPACE, b" ")
    return text.strip(b" ") or text


def group_by_word(pieces: tuple[Piece, ...], behind: bool = False) -> Iterator[tuple[Piece, ...]]:
    """Yield the pieces of each word. A word includes the blank before it.

    ``behind``: Whether a word includes the blank after it instead.
    """
    word: list[Piece] = []
    for piece in pieces:
        if word and not behind and piece[0].startswith((SPACE, b" ")):
            yield tuple(word)
            word = []
        word.append(piece)
        if behind and piece[0].endswith((SPACE, b" ")):
            yield tuple(word)
            word = []
    yield tuple(word)


class SentencePieceTokenizer(NamedTuple):
    rule: Rule
    model: SentencePieces
    vocabulary: Vocabulary

    def look_up(self, texts: pa.StringArray) -> WordLookup:
        tokens = self.rule.tokens(texts)
        words = self.model.words(as_bytes(tokens.values))
        offsets = starts_of(list(map(len, words)))[tokens.offsets]
        flat = chain.from_iterable(words)
        return look_up_spelled(flat, offsets, self.vocabulary, self.model.unknown_id)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        (words,) = self.model.words([word])
        return tuple(piece for each in words for piece, _ in each.pieces)

    def describe(self) -> tuple[str, ...]:
        before = self.rule.describe() if self.rule.steps else ()
        return (*before, "split into pieces by SentencePiece; the pieces form words")

    @property
    def fingerprint(self) -> str:
        model = hashlib.sha256(self.model.model).hexdigest()
        facts = f"vocabtool sentencepiece 1\n{self.rule.fingerprint}\n{model}\n"
        return hashlib.sha256(facts.encode()).hexdigest()


@lru_cache(maxsize=4)
def _open(model: bytes) -> tuple[Any, bool]:
    """Return the library's processor, and whether a blank marks a word's end."""
    model_proto.read_pieces(model)
    for charsmap in charsmaps(model):
        _check_charsmap(charsmap)
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise VocabtoolError(
            "reading the model needs the sentencepiece library: pip install sentencepiece"
        ) from error
    processor = SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, OSError, ValueError) as error:
        raise InvalidFile(f"the sentencepiece library rejects the model: {error}") from error
    trainer = _fields(model, (model_proto.TRAINER_SPEC,), SPACE_BEHIND, VARINT)
    flags = [wire.varint(model, start, end)[0] != 0 for start, end in trainer]
    return processor, flags[-1] if flags else False


def charsmaps(model: bytes) -> Iterator[bytes]:
    for start, end in _fields(model, NORMALIZERS, CHARSMAP, LEN):
        if end > start:
            yield model[start:end]


def _fields(
    model: bytes, messages: Collection[int], field: int, wire_type: int
) -> Iterator[tuple[int, int]]:
    for message, kind, start, end in wire.fields(model, 0, len(model)):
        if message in messages and kind == LEN:
            for number, own, at, stop in wire.fields(model, start, end):
                if number == field and own == wire_type:
                    yield at, stop


def _check_charsmap(charsmap: bytes) -> None:
    """Raise :class:`InvalidFile` if a lookup in a normalizer's table could read outside the table.

    The table consists of the length of the trie in bytes (uint32), the trie (for its format, see
    ``formats/saved_model/tokenizers.py``), and NUL-terminated strings to which the trie's values
    point.
    """
    size = struct.unpack_from("<I", charsmap)[0] if len(charsmap) > 4 else 0
    strings = charsmap[4 + size :]
    if not size or size % 4 or not strings.endswith(b"\0"):
        raise InvalidFile(f"the table of SentencePiece's normalizer is truncated ({size:,} bytes)")
    units = np.frombuffer(charsmap, "<u4", size // 4, 4)
    values = units[units >= VALUE] & np.uint32(VALUE - 1)
    nodes = np.flatnonzero(units < VALUE)
    far = (units[nodes] & np.uint32(FAR)) >> np.uint32(6)  # 8 or 0
    reached = (nodes ^ ((units[nodes] >> np.uint32(10)) << far).astype(np.int64)) | 0xFF
    if (values >= len(strings)).any() or (reached >= len(units)).any():
        raise InvalidFile("the table of SentencePiece's normalizer has an offset outside the table")
