"""Inferred rules and TensorFlow agree token for token."""

# own process: TensorFlow

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("tensorflow", reason="the oracle of these tests is TensorFlow itself")
pytest.importorskip("tensorflow_text", reason="some models hold tensorflow-text's tokenizers")
pytest.importorskip("tf_keras", reason="some models are built by Keras 2")

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.text_models import TEXT_CASES, TextTruth
from tests.unicode12 import assigned_text
from vocabtool import Words
from vocabtool.errors import VocabtoolError

# Its flatbuffer contains another form of the tokenizer, which only its op runs.
NOT_UNDERSTOOD = ("fast_sentencepiece",)
NAMES = [*TEXT_CASES]
# SentencePiece's ops get whole texts; other tests compare their pieces.
PLAIN = [name for name in NAMES if "sentencepiece" not in name]
WORDPIECES = [name for name in PLAIN if name.startswith(("bert", "fast_", "wordpiece"))]
Built = Callable[[str], tuple[Path, TextTruth]]
Told = list[list[tuple[bytes, bool]]]


def told(words: Words, texts: tuple[bytes, ...]) -> Told:
    """Return each word and whether it is known, by text."""
    rows = words.split(texts).to_pylist()
    return [[(word["word"], word["known"]) for word in row] for row in rows]


def spelled(words: Words, texts: tuple[bytes, ...]) -> list[Told]:
    """Return the pieces of each word of each text, and which of them are known."""
    found = words.look_up(texts)
    assert found.spelled is not None
    of_words = [found.spelled.of_word(code) for code in found.codes.tolist()]
    return [of_words[start:end] for start, end in pairwise(found.offsets.tolist())]


def wanted(truth: TextTruth, texts: tuple[bytes, ...]) -> Told:
    pairs = zip(truth.words(texts), truth.known(texts), strict=True)
    return [list(zip(words, known, strict=True)) for words, known in pairs]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", [*PLAIN, *NOT_UNDERSTOOD])
def test_rules_make_the_words_that_tensorflow_makes(name: str, text_model: Built) -> None:
    """Without TensorFlow the same words, known and unknown, or an error that names the op.

    Ids are the model's own, except for hash buckets; pieces are those of the op.
    """
    path, truth = text_model(name)
    if name in NOT_UNDERSTOOD:
        with pytest.raises(VocabtoolError, match=r"FastSentencepieceTokenize(?s:.*)--rule"):
            Words.of(path, name=truth.vocabulary)
        return
    words = Words.of(path, name=truth.vocabulary)
    texts = truth.accepted()
    assert dict(zip(texts, told(words, texts), strict=True)) == dict(
        zip(texts, wanted(truth, texts), strict=True)
    )
    others = {other.vocabulary.name: other for other in words.others}
    for other in truth.others:
        assert told(others[other.vocabulary or ""], texts) == wanted(other, texts)
    if name in WORDPIECES:
        assert truth.pieces is not None
        for row, pieces in zip(truth.words(texts), truth.pieces(texts), strict=True):
            assert [[*map(str.encode, words.pieces(word))] for word in row] == pieces
        return
    buckets = words.vocabulary.unknown is not None and words.vocabulary.unknown.count > 1
    for judged, ids in zip(words.split(texts).to_pylist(), truth.ids(texts), strict=True):
        hidden = [buckets and not word["known"] for word in judged]
        shown = [None if hide else i for i, hide in zip(ids, hidden, strict=True)]
        assert [word["id"] for word in judged] == shown


SENTENCEPIECES = [name for name in NAMES if name.startswith("sentencepiece")]


@pytest.mark.parametrize("name", SENTENCEPIECES)
def test_pieces_are_those_of_tensorflow(name: str, text_model: Built) -> None:
    """A text's words are known if the op knows their pieces."""
    path, truth = text_model(name)
    texts = truth.accepted()
    rows = told(Words.of(path, name=truth.vocabulary), texts)
    for row, flags in zip(rows, truth.known(texts), strict=True):
        assert all(known for _, known in row) == all(flags)


PROBES = st.lists(assigned_text(max_size=30).map(str.encode) | st.binary(max_size=12), max_size=6)
SHAPES = [
    *("nested", "bigrams", "tf1_resaved", "k3_nmt"),
    *("text_folded", "text_script", "text_regex_kept", "bert_lower", "bert_cased"),
    *("fast_bert_lower", "fast_wordpiece", "wordpiece", "sentencepiece_normalized", "characters"),
]


@pytest.mark.parametrize("name", SHAPES)
def test_rules_agree_with_tensorflow_on_anything(name: str, text_model: Built) -> None:
    """On texts of every script of Unicode 12, and on invalid bytes."""
    path, truth = text_model(name)
    rule = Words.of(path, name=truth.vocabulary)

    @settings(max_examples=settings().max_examples // 4)
    @given(PROBES)
    def agree(probes: list[bytes]) -> None:
        texts = tuple(probes)
        if name in SENTENCEPIECES:  # the op gets whole texts, so pieces are compared
            assert truth.pieces is not None
            made = [[piece for word in row for piece in word] for row in spelled(rule, texts)]
            pieces = [row[0] for row in truth.pieces(texts)]
            flags = truth.known(texts)
            assert made == [list(zip(*row, strict=True)) for row in zip(pieces, flags, strict=True)]
        else:
            assert told(rule, texts) == wanted(truth, texts)

    agree()
