"""SentencePiece: texts as pieces with ids, and as the words that the pieces make up.

The ``sentencepiece`` library cuts, as it does inside tensorflow-text's ops. What it would trust
blindly in a model, the offsets of its normalizer's table, is checked here first. The list of a
model's pieces is read in ``formats/sentencepiece.py``.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
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
    """A tokenizer; ``model``: a serialised ``ModelProto``.

    ``add_bos``, ``add_eos``: marks around the pieces of each text; ``reverse``: last piece first.
    All methods raise :class:`InvalidFile` for a damaged model, :class:`VocabtoolError` where the
    library is missing.
    """

    model: bytes
    add_bos: bool = False
    add_eos: bool = False
    reverse: bool = False

    @property
    def unknown_id(self) -> int:
        """The id of the unknown piece."""
        found: int = _processor(self.model).unk_id()
        return found

    def pieces(self, texts: Sequence[bytes]) -> list[tuple[Piece, ...]]:
        """The pieces of each text as the op gives them, an unknown one as it is in the text."""
        processor = _processor(self.model)
        before = self._mark(self.add_bos, processor.bos_id())
        behind = self._mark(self.add_eos, processor.eos_id())
        each = ((*before, *pieces, *behind) for pieces in self._cut_pieces(texts))
        return [pieces[::-1] if self.reverse else pieces for pieces in each]

    def words(self, texts: Sequence[bytes]) -> list[tuple[SpelledWord, ...]]:
        """The words of each text in their order, without the marks at its ends.

        Their pieces, one after the other, are those that the library makes of the text.
        """
        behind = _is_space_behind(self.model)
        return [
            tuple(self._word(word) for word in group_by_word(pieces, behind) if word)
            for pieces in self._cut_pieces(texts)
        ]

    def _cut_pieces(self, texts: Sequence[bytes]) -> Iterator[tuple[Piece, ...]]:
        processor = _processor(self.model)
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

    def _mark(self, wanted: bool, number: int) -> tuple[Piece, ...]:
        if not wanted:
            return ()
        if number < 0:
            raise InvalidFile(
                "the SentencePiece model has no mark for the beginning or the end of a text, "
                "but they are asked for"
            )
        return ((_processor(self.model).id_to_piece(number).encode(), number),)

    def _word(self, pieces: tuple[Piece, ...]) -> SpelledWord:
        """``<0x41>`` stands for a byte."""
        processor = _processor(self.model)
        parts = (
            bytes.fromhex(piece[3:5].decode()) if processor.is_byte(number) else piece
            for piece, number in pieces
        )
        unknown = processor.unk_id()
        known = all(number != unknown for _, number in pieces)
        return SpelledWord(readable_word(b"".join(parts)), pieces, known)


def readable_word(spelled: bytes) -> bytes:
    """The word that pieces spell, without the blank that parts it from the next.

    Where there are only blanks, these.
    """
    text = spelled.replace(SPACE, b" ")
    return text.strip(b" ") or text


def group_by_word(pieces: tuple[Piece, ...], behind: bool = False) -> Iterator[tuple[Piece, ...]]:
    """The pieces of each word: the space before a word, or behind it, is in one of them."""
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
    """``rule``: what happens to a text before the pieces are cut."""

    rule: Rule
    model: SentencePieces
    vocabulary: Vocabulary

    def look_up(self, texts: pa.StringArray) -> WordLookup:
        """Cut texts into pieces, and those into words."""
        tokens = self.rule.tokens(texts)
        words = self.model.words(as_bytes(tokens.values))
        offsets = starts_of(list(map(len, words)))[tokens.offsets]
        flat = chain.from_iterable(words)
        return look_up_spelled(flat, offsets, self.vocabulary, self.model.unknown_id)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """As the word alone is cut."""
        (words,) = self.model.words([word])
        return tuple(piece for each in words for piece, _ in each.pieces)

    def describe(self) -> tuple[str, ...]:
        """The rule's steps, then the model."""
        before = self.rule.describe() if self.rule.steps else ()
        return (*before, "cut into pieces by SentencePiece, which make up words")

    @property
    def fingerprint(self) -> str:
        """Of the rule and the SentencePiece model."""
        model = hashlib.sha256(self.model.model).hexdigest()
        facts = f"vocabtool sentencepiece 1\n{self.rule.fingerprint}\n{model}\n"
        return hashlib.sha256(facts.encode()).hexdigest()


@lru_cache(maxsize=4)
def _processor(model: bytes) -> Any:
    model_proto.read_pieces(model)
    for charsmap in charsmaps(model):
        _check_charsmap(charsmap)
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise VocabtoolError(
            "the model cuts words with SentencePiece: pip install sentencepiece"
        ) from error
    processor = SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, OSError, ValueError) as error:
        raise InvalidFile(f"the sentencepiece library refuses the model: {error}") from error
    return processor


def charsmaps(model: bytes) -> Iterator[bytes]:
    """The compiled tables of the normalizers."""
    for number, wire_type, start, end in wire.fields(model, 0, len(model)):
        if number in NORMALIZERS and wire_type == LEN:
            for field, kind, at, stop in wire.fields(model, start, end):
                if field == CHARSMAP and kind == LEN and stop > at:
                    yield model[at:stop]


def _check_charsmap(charsmap: bytes) -> None:
    """Raise :class:`InvalidFile` where a lookup could leave the table.

    Layout: the length of the trie in bytes (uint32), the trie
    (``formats/saved_model/tokenizers.py``), then strings that end in NUL, to which the trie's
    values point.
    """
    size = struct.unpack_from("<I", charsmap)[0] if len(charsmap) > 4 else 0
    strings = charsmap[4 + size :]
    if not size or size % 4 or not strings.endswith(b"\0"):
        raise InvalidFile(f"the table of SentencePiece's normalizer is cut off ({size:,} bytes)")
    units = np.frombuffer(charsmap, "<u4", size // 4, 4)
    values = units[units >= VALUE] & np.uint32(VALUE - 1)
    nodes = np.flatnonzero(units < VALUE)
    far = (units[nodes] & np.uint32(FAR)) >> np.uint32(6)  # 8 or 0
    reached = (nodes ^ ((units[nodes] >> np.uint32(10)) << far).astype(np.int64)) | 0xFF
    if (values >= len(strings)).any() or (reached >= len(units)).any():
        raise InvalidFile("the table of SentencePiece's normalizer points outside itself")


@lru_cache(maxsize=4)
def _is_space_behind(model: bytes) -> bool:
    """Whether the model puts the space behind a word."""
    found = False
    for number, wire_type, start, end in wire.fields(model, 0, len(model)):
        if number == model_proto.TRAINER_SPEC and wire_type == LEN:
            for field, kind, at, stop in wire.fields(model, start, end):
                if field == SPACE_BEHIND and kind == VARINT:
                    found = wire.varint(model, at, stop)[0] != 0
    return found
