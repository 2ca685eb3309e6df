"""SentencePiece: texts as pieces with ids, and as the words that the pieces make up.

The ``sentencepiece`` library cuts, as it does inside tensorflow-text's ops. What it would trust
blindly in a model, the offsets of its normalizer's table, is checked here first. The list of a
model's pieces is read in ``formats/sentencepiece.py``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from vocabtool.errors import InvalidFile, NotFound, VocabtoolError, reading, refuse_pointer
from vocabtool.formats import sentencepiece as model_proto
from vocabtool.formats import wire
from vocabtool.formats.saved_model.double_array import FAR, VALUE
from vocabtool.formats.wire import LEN, VARINT

SPACE: Final = "▁".encode()
NORMALIZERS: Final = (3, 5)  # normalizer_spec and denormalizer_spec of ModelProto
CHARSMAP: Final = 2  # of NormalizerSpec
SPACE_BEHIND: Final = 24  # treat_whitespace_as_suffix of TrainerSpec

MOST_BYTES: Final = 1 << 28

Piece = tuple[bytes, int]


class Word(NamedTuple):
    """What stands between blanks in the normalized text, or blanks that are pieces of their own.

    ``known``: no piece is the unknown one.
    """

    text: bytes
    pieces: tuple[Piece, ...]
    known: bool


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
        before, behind = self._ends()
        each = ((*before, *pieces, *behind) for pieces in self._cut(texts))
        return [pieces[::-1] if self.reverse else pieces for pieces in each]

    def words(self, texts: Sequence[bytes]) -> list[tuple[Word, ...]]:
        """The words of each text in their order, without the marks at its ends.

        Their pieces, one after the other, are those that the library makes of the text.
        """
        behind = _space_behind(self.model)
        return [
            tuple(self._word(word) for word in grouped(pieces, behind) if word)
            for pieces in self._cut(texts)
        ]

    def _cut(self, texts: Sequence[bytes]) -> Iterator[tuple[Piece, ...]]:
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

    def _ends(self) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
        processor = _processor(self.model)
        wanted = ((self.add_bos, processor.bos_id()), (self.add_eos, processor.eos_id()))
        if any(asked and mark < 0 for asked, mark in wanted):
            raise InvalidFile(
                "the SentencePiece model has no mark for the beginning or the end of a text, "
                "but they are asked for"
            )
        before, behind = (
            ((processor.id_to_piece(mark).encode(), mark),) if asked else ()
            for asked, mark in wanted
        )
        return before, behind

    def _word(self, pieces: tuple[Piece, ...]) -> Word:
        processor = _processor(self.model)
        parts = (_byte(piece) if processor.is_byte(i) else piece for piece, i in pieces)
        unknown = processor.unk_id()
        return Word(readable(b"".join(parts)), pieces, all(i != unknown for _, i in pieces))


def read_model(file: Path) -> bytes:
    """A model file. Raises :class:`NotFound`, or :class:`InvalidFile` where it is none."""
    with reading(str(file)):
        if not file.is_file():
            raise NotFound(f"{file}: no such file; wanted a SentencePiece .model")
        if file.stat().st_size > MOST_BYTES:
            raise InvalidFile(f"more than {MOST_BYTES:,} bytes: not a SentencePiece model")
        model = file.read_bytes()
        refuse_pointer(model)
        model_proto.read_pieces(model)
    return model


def _byte(piece: bytes) -> bytes:
    """The byte that ``<0x41>`` stands for."""
    return bytes.fromhex(piece[3:5].decode())


def readable(spelled: bytes) -> bytes:
    """The word that pieces spell, without the blank that parts it from the next.

    Where there are only blanks, these.
    """
    text = spelled.replace(SPACE, b" ")
    return text.strip(b" ") or text


def grouped(pieces: tuple[Piece, ...], behind: bool = False) -> Iterator[tuple[Piece, ...]]:
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

    Layout: the length of the trie in bytes (uint32), the trie (``formats/double_array.py``), then
    strings that end in NUL, to which the trie's values point.
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
def _space_behind(model: bytes) -> bool:
    """Whether the model puts the space behind a word."""
    found = False
    for number, wire_type, start, end in wire.fields(model, 0, len(model)):
        if number == model_proto.TRAINER_SPEC and wire_type == LEN:
            for field, kind, at, stop in wire.fields(model, start, end):
                if field == SPACE_BEHIND and kind == VARINT:
                    found = wire.varint(model, at, stop)[0] != 0
    return found
