"""SentencePiece models: bytes written here, and real ones read by the library that owns them."""

from __future__ import annotations

import struct
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

import vocabtool
from tests.builders.saved_model_bytes import field, varint
from tests.reader_checks import ids_and_entries, written
from tests.tokenization.test_sentencepiece_words import OPTIONS as WORD_OPTIONS
from tests.tokenization.test_sentencepiece_words import train
from vocabtool import InvalidFile, VocabtoolError, Vocabulary

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def integer(number: int, value: int) -> bytes:
    """A varint field."""
    return varint(number << 3) + varint(value)


def score(value: float = -1.5) -> bytes:
    return b"\x15" + struct.pack("<f", value)


def piece(text: bytes, kind: int = NORMAL) -> bytes:
    """One piece as SentencePiece writes it: text, score, and the type if it is not normal."""
    return field(1, field(1, text) + score() + (integer(3, kind) if kind != NORMAL else b""))


SMALL = piece(b"<unk>", UNKNOWN) + piece(b"<s>", CONTROL) + piece("▁the".encode())


FORMAT = "SentencePiece"


def read(model: bytes) -> Vocabulary:
    """The one vocabulary of a file with these bytes."""
    with TemporaryDirectory() as folder:
        (vocabulary,) = vocabtool.vocabularies(written(Path(folder), model))
        return vocabulary


def unknown_id(model: bytes) -> int | None:
    unknown = read(model).unknown
    return None if unknown is None else unknown.id


def is_recognised(data: bytes) -> bool:
    """Whether a file is read as a model, or refused as a damaged one."""
    with TemporaryDirectory() as folder:
        try:
            return vocabtool.inspect(written(Path(folder), data)).format == FORMAT
        except InvalidFile:
            return True
        except VocabtoolError:
            return False


def test_unknown_of_the_trainer() -> None:
    """Without a piece of type 2 the trainer's unk_id counts, if there is such a piece."""
    pieces = piece(b"a") + piece(b"b")
    assert unknown_id(pieces + field(2, integer(40, 1))) == 1
    assert unknown_id(pieces + field(2, integer(40, 2))) is None
    assert unknown_id(pieces + field(2, integer(40, 2**64 - 1))) is None
    assert unknown_id(pieces) is None
    assert unknown_id(SMALL + field(2, integer(40, 2))) == 0


UNUSUAL = {
    "no score": field(1, b"x"),
    "score first": score() + field(1, b"x"),
    "an extension": field(1, b"x") + field(200, b"anything") + score(),
    "text twice, the last counts": field(1, b"not this") + score() + field(1, b"x"),
    "a type of the future": field(1, b"x") + score() + integer(3, 7),
}


@pytest.mark.parametrize("record", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_unusual_order(record: bytes) -> None:
    """A piece is read in any order of its fields, as protobuf reads it."""
    model = SMALL + field(1, record) + piece(b"y", UNUSED)
    found = read(model)
    assert ids_and_entries(found)[3:] == [(3, b"x"), (4, b"y")]
    assert found.notes[-1] == "besides normal pieces: 1 control, 1 unused"


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.integers(CONTROL, BYTE)), min_size=1)
)
def test_pieces_come_back(pieces: list[tuple[bytes, int]]) -> None:
    """Any bytes are a piece, valid text or not, a length of two bytes or one."""
    found = read(PLAIN + b"".join(piece(text, kind) for text, kind in pieces))
    assert list(found.stored)[8:] == [text for text, _ in pieces]


PLAIN = b"".join(piece(b"%d" % number) for number in range(8))  # by which a file is recognised
MALFORMED = {
    "no text": (field(1, score()), "a piece has no text"),
    "two unknown": (piece(b"a", UNKNOWN) * 2, "two pieces are of type unknown: ids 8 and 9"),
    "piece too long": (b"\x0a\x09" + field(1, b"x") + score(), "the last string runs 1 bytes past"),
    "rest is no protobuf": (b"\x0f", "wire type 7 does not exist"),
}


@pytest.mark.parametrize(("data", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed(data: bytes, message: str) -> None:
    """A broken model is refused, and the error says what is wrong."""
    with pytest.raises(InvalidFile, match=message):
        read(PLAIN + data)


def test_scattered_pieces() -> None:
    """Pieces behind other fields, which no writer leaves, are refused."""
    with pytest.raises(InvalidFile, match="the strings of a list are not together"):
        read(SMALL + field(2, b"") + SMALL)


NOT_MODELS = {
    "words": b"the\nquick\nbrown\n",
    "a blank line, then words": b"\n\nthe\nquick\nbrown fox\n",
    "wrapped words": field(1, b"<unk>") + field(1, b"<s>"),
    "pieces without score or type": field(1, field(1, b"x")) * 10,
    "a piece that is not text": piece(b"\xff\xfe"),
    "a piece without text": field(1, score()),
    "a piece beyond all measure": piece(b"x" * 9000),
}


@pytest.mark.parametrize("data", NOT_MODELS.values(), ids=NOT_MODELS.keys())
def test_not_recognised(data: bytes) -> None:
    """Vocabulary text and other protobufs are not taken for a model."""
    assert not is_recognised(data)


def owners_view(model: bytes) -> tuple[list[tuple[int, bytes]], int]:
    """What the sentencepiece library reads: ids with pieces, and the unknown id."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(i).encode() for i in range(processor.get_piece_size())]
    return list(enumerate(pieces)), processor.unk_id()


OPTIONS: dict[str, dict[str, Any]] = {
    **{name: WORD_OPTIONS[name] for name in ("unigram", "bpe", "char", "word", "as Mistral's")},
    "symbols": {"user_defined_symbols": "<sep>,<cls>", "control_symbols": "<mask>"},
    "other ids": {"unk_id": 3, "bos_id": 0, "eos_id": 1, "pad_id": 2, "unk_piece": "[?]"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_as_sentencepiece_reads_it(name: str) -> None:
    """Pieces, ids and the unknown id of every kind of model are those of its own library."""
    model = train(**OPTIONS[name])
    found = read(model)
    assert (ids_and_entries(found), unknown_id(model)) == owners_view(model)


def test_use_lite(shared: Path) -> None:
    """The 8,000 pieces of the Universal Sentence Encoder lite are all there, in order."""
    path = shared / "models" / "use_lite_2" / "assets" / "universal_encoder_8k_spm.model"
    model = path.read_bytes()
    assert (ids_and_entries(read(model)), unknown_id(model)) == owners_view(model)
