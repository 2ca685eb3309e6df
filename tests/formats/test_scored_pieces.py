"""Pieces with scores in JSON, as the sentence encoder of TensorFlow.js has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import vocabtool
from tests import reader_checks
from vocabtool.errors import InvalidFile, UnknownFormat
from vocabtool.formats import json_text, scored_pieces
from vocabtool.vocabulary import Unknown, Vocabulary

PAIRS: list[tuple[str, float | None]] = [
    *(("\ufffd", 0), ("<s>", 0), ("▁the", -3.5)),
    *(("a\nb", -4), (":", None), ("▁the", -9.25)),
]


def read(path: Path, document: object) -> Vocabulary:
    path.write_text(json.dumps(document))
    (vocabulary,) = reader_checks.found_in(json_text.READER, path).vocabularies
    return vocabulary


def test_pieces(tmp_path: Path) -> None:
    """Ids are positions, scores may be missing, the first piece is unknown's where it looks so."""
    vocabulary = read(tmp_path / "vocab.json", PAIRS)
    assert list(vocabulary) == [piece for piece, _ in PAIRS]
    assert (vocabulary.id_range, vocabulary.unknown) == ("0..5", Unknown(0))
    assert (vocabulary.kind, vocabulary.marker) == ("unigram", "▁")
    assert vocabulary.notes == ("5 pieces have a score",)
    assert read(tmp_path / "vocab.json", PAIRS[1:]).unknown is None


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({}, "an object, wanted a list of pieces and scores"),
        ([], "an empty list"),
        ([["a", 1], ["b"]], "item 1 is a list, wanted a piece and its score"),
        ([["a", 1], "b"], "item 1 is a text, wanted a piece and its score"),
        ([[1, "a"]], "item 0 holds a whole number and a text, wanted a text and a number"),
        ([["a", True]], "item 0 holds a text and true or false, wanted a text and a number"),
    ],
)
def test_others(tmp_path: Path, document: object, why: str) -> None:
    """What is not such a list, and why."""
    assert scored_pieces.recognise(document) == why
    (tmp_path / "f.json").write_text(json.dumps(document))
    with pytest.raises(UnknownFormat):
        vocabtool.inspect(tmp_path / "f.json")


def test_half_a_surrogate_pair(tmp_path: Path) -> None:
    """JSON can spell what is no character."""
    with pytest.raises(InvalidFile, match=r"piece 1 is .*half of a surrogate pair"):
        read(tmp_path / "f.json", [["a", 1], ["\ud83d", 2]])


def test_real_encoder(shared: Path) -> None:
    """The file alone, and its folder, whose weights are not there."""
    folder = shared / "files/tfjs_use"
    pairs = json.loads((folder / "vocab.json").read_text("utf-8"))
    alone = vocabtool.inspect(folder / "vocab.json")
    assert alone.complete
    for model in (alone, vocabtool.inspect(folder)):
        (vocabulary,) = model.vocabularies
        assert list(vocabulary) == [piece for piece, _ in pairs]
        assert (len(vocabulary), vocabulary.unknown, vocabulary.marker) == (8000, Unknown(0), "▁")
