"""``tokenizer.json``, written by the tokenizers library and read here: entries and ids."""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from tests.reader_checks import only
from tests.tokenization.test_hf_words import MAKERS
from vocabtool import InvalidFile, Vocabulary

KINDS = {"WordLevel": "table", "WordPiece": "wordpiece", "BPE": "bpe", "Unigram": "unigram"}
UNTYPED = {
    "BPE": models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]),
    "WordLevel": models.WordLevel({"a": 0, "b": 1}, unk_token="a"),
    "WordPiece": models.WordPiece({"a": 0, "##b": 1}, unk_token="a"),
    "Unigram": models.Unigram([("a", -1.0), ("b", -2.0)], 1),
}


MADE: dict[str, tuple[str, str | None, str | None]] = {
    # What ours must say of it: kind, marker, the unknown entry.
    "WordLevel": ("table", None, "[UNK]"),
    "WordPiece": ("wordpiece", "##", "[UNK]"),
    "byte-level BPE": ("bpe", "Ġ", None),
    "BPE with a suffix": ("bpe", "</w>", "<unk>"),
    "Unigram": ("unigram", "▁", "<unk>"),
}


def pairs(vocabulary: Vocabulary) -> list[tuple[str, int]]:
    """Entries and ids, by id."""
    ids = vocabulary.id_array().tolist()
    assert ids == sorted(ids)
    return sorted(zip(vocabulary, ids, strict=True))


def theirs(tokenizer: Tokenizer) -> list[tuple[str, int]]:
    return sorted(tokenizer.get_vocab(with_added_tokens=True).items())


@pytest.mark.parametrize("maker", MADE)
@pytest.mark.parametrize("pretty", [False, True])
def test_as_the_library_has_it(maker: str, pretty: bool, tmp_path: Path) -> None:
    """Entry for entry and id for id, with added tokens; kind, marker and unknown entry too."""
    kind, marker, unknown = MADE[maker]
    tokenizer = MAKERS[maker]()
    tokenizer.add_special_tokens(["<mask>", AddedToken("the", lstrip=True)])
    tokenizer.add_tokens(["two words", "Grüße", "\n"])
    vocabulary = only(tmp_path, tokenizer.to_str(pretty=pretty))
    assert pairs(vocabulary) == theirs(tokenizer)
    assert (vocabulary.kind, vocabulary.marker) == (kind, marker)
    wanted = None if unknown is None else tokenizer.token_to_id(unknown)
    assert (vocabulary.unknown and vocabulary.unknown.id) == wanted
    assert vocabulary.ids is None


@pytest.mark.parametrize("model_type", UNTYPED)
def test_old_files_without_a_type(model_type: str, tmp_path: Path) -> None:
    """A model that does not say its type is taken for what the library takes it for."""
    document = json.loads(Tokenizer(UNTYPED[model_type]).to_str())
    assert document["model"].pop("type") == model_type
    text = json.dumps(document)
    library = Tokenizer.from_str(text)
    assert type(library.model).__name__ == model_type
    vocabulary = only(tmp_path, text)
    assert pairs(vocabulary) == theirs(library)
    assert vocabulary.kind == KINDS[model_type]
    assert vocabulary.notes[0].startswith(model_type)


@pytest.mark.skipif(
    tokenizers.__version__ < "0.23", reason="earlier ones number tokens from the highest id"
)
@settings(max_examples=60)
@given(
    model_type=st.sampled_from(["BPE", "WordLevel", "WordPiece", "Unigram"]),
    vocab=st.dictionaries(st.sampled_from(["a", "b", "far"]), st.integers(0, 4)),
    added=st.lists(st.tuples(st.sampled_from(["", "a", "b", "far", "x", "y"]), st.integers(0, 6))),
)
def test_ids_of_added_tokens(
    model_type: str, vocab: dict[str, int], added: list[tuple[str, int]]
) -> None:
    """Whatever tokens are added, and whatever ids are stated: the ids are the library's."""
    document = json.loads(Tokenizer(UNTYPED[model_type]).to_str())
    document["model"]["vocab"] = vocab
    if model_type == "Unigram":
        document["model"] |= {"vocab": [[entry, -1.0] for entry in vocab], "unk_id": None}
    if model_type == "BPE":
        document["model"]["merges"] = []
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    document["added_tokens"] = [{"id": i, "content": c, **flags} for c, i in added]
    text = json.dumps(document)
    with TemporaryDirectory() as folder:
        vocabulary = only(Path(folder), text)
    assert pairs(vocabulary) == theirs(Tokenizer.from_str(text))


REPLACE = normalizers.Replace(" ", "▁")
MARKS: dict[str, tuple[dict[str, Any], str | None, str | None]] = {
    "ByteLevel in a Sequence of Sequences": (
        {
            "pre_tokenizer": pre_tokenizers.Sequence(
                [pre_tokenizers.Sequence([pre_tokenizers.ByteLevel()])]
            )
        },
        "Ġ",
        None,
    ),
    "ByteLevel as normalizer": ({"normalizer": normalizers.ByteLevel()}, "Ġ", None),
    "Metaspace": ({"pre_tokenizer": pre_tokenizers.Metaspace()}, "▁", None),
    "blanks replaced": ({"normalizer": normalizers.Sequence([REPLACE])}, "▁", None),
    "another Metaspace": (
        {"pre_tokenizer": pre_tokenizers.Metaspace("_")},
        None,
        "'_' stands for a space",
    ),
    "nothing": ({}, None, None),
}


@pytest.mark.parametrize("case", MARKS)
def test_markers(case: str, tmp_path: Path) -> None:
    """The parts of a tokenizer say how pieces are marked, wherever they are nested."""
    parts, marker, note = MARKS[case]
    tokenizer = Tokenizer(models.BPE({"a": 0}, []))
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    vocabulary = only(tmp_path, tokenizer.to_str())
    assert vocabulary.marker == marker
    assert (note is None) or note in vocabulary.notes


def word_level_text(**changes: Any) -> str:
    """A WordLevel tokenizer with changes to its model, or with other added tokens."""
    model = {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}
    added = changes.pop("added_tokens", [])
    return json.dumps({"added_tokens": added, "model": model | changes})


def token(**changes: Any) -> dict[str, Any]:
    return {"id": 2, "content": "x", "special": True} | changes


MALFORMED: dict[str, tuple[str, str]] = {
    "type": (word_level_text(type="Charlevel"), "model.type is 'Charlevel', wanted one of WordL"),
    "vocab": (word_level_text(vocab=[]), "model.vocab is a list, wanted an object"),
    "pieces": (word_level_text(type="Unigram"), "model.vocab is an object, wanted a list"),
    "id": (word_level_text(vocab={"a": 0, "b": "1"}), "model.vocab: the id of 'b' is a text,"),
    "surrogate": (word_level_text(vocab={"a": 0, "\ud800": 1}), r"model.vocab: entry 1 is"),
    "item": (word_level_text(type="Unigram", vocab=[["a", 0.0], ["b"]]), "model.vocab: item 1 is"),
    "score": (word_level_text(type="Unigram", vocab=[["a", "0"]]), "model.vocab: the score of"),
    "piece": (
        word_level_text(type="Unigram", vocab=[["a", 0.0], [None, 0.0]]),
        "model.vocab: piece 1 is null, wanted a text",
    ),
    "unk_id": (
        word_level_text(type="Unigram", vocab=[["a", 0.0]], unk_id=1),
        "model.unk_id: wanted an id below 1, the number of pieces",
    ),
    "unk_token": (word_level_text(unk_token=0), "model.unk_token is a whole number, wanted a te"),
    "added": (word_level_text(added_tokens={}), "added_tokens is an object, wanted a list"),
    "many added": (word_level_text(added_tokens=[0] * 80_001), "80,001 tokens, wanted at most 80,"),
    "many steps": (word_level_text(x=[{}] * (1 << 18)), "more than 262,144 opening braces"),
    "added item": (word_level_text(added_tokens=["x"]), "added_tokens: item 0 is a text, wanted"),
    "added content": (
        word_level_text(added_tokens=[token(), token(content=None)]),
        "added_tokens: item 1: its content is null, wanted a text",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed(case: str, tmp_path: Path) -> None:
    """A file that contradicts the format is refused with where and what."""
    text, message = MALFORMED[case]
    with pytest.raises(InvalidFile, match=re.escape(message)):
        only(tmp_path, text)
