"""Folders of spaCy pipelines: words with vectors, as spaCy itself lists them; damaged ones."""

# own process: spaCy

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vocabtool
from tests.fuzzing import damages
from vocabtool.errors import InvalidFile, UnknownFormat, UnsupportedFormat, VocabtoolError

spacy = pytest.importorskip("spacy", reason="the oracle: spaCy writes the folders")

# Symbols of spaCy are numbered instead of hashed, and are words all the same.
WORDS = ("hello", "naïve", "日本", "neg", "PERSON", "a b", "a\nb", "x" * 40, "of", "")


def pipeline(folder: Path, words: Sequence[str] = WORDS, rows: int = 0) -> Any:
    """A pipeline, saved; ``rows``: how many vectors the words share, if not one each."""
    nlp = spacy.blank("en")
    choose = np.random.default_rng(0)
    for word in words:
        nlp.vocab.set_vector(word, choose.normal(size=4).astype("f"))
    if rows:
        nlp.vocab.prune_vectors(rows)
    nlp.vocab.strings.add("no vector")
    nlp.to_disk(folder)
    return nlp


def of_spacy(nlp: Any) -> list[tuple[int, str]]:
    """The row and the word of each key, in the order of a vocabulary."""
    return sorted((row, nlp.vocab.strings[key]) for key, row in nlp.vocab.vectors.key2row.items())


def pairs(vocabulary: vocabtool.Vocabulary) -> list[tuple[int, str]]:
    return sorted(zip(vocabulary.id_array().tolist(), vocabulary, strict=True))


@pytest.mark.parametrize("rows", [0, 3])
def test_words_with_vectors(tmp_path: Path, rows: int) -> None:
    """Words by the rows of their vectors, which several share where vectors were pruned."""
    nlp = pipeline(tmp_path / "m", rows=rows)
    model = vocabtool.inspect(tmp_path / "m")
    assert (model.complete, model.format) == (True, "spaCy vocab")
    (words,) = model.vocabularies
    assert pairs(words) == of_spacy(nlp)
    assert (words.name, words.kind) == ("words", "vectors")
    assert words.places == (("vocab/key2row", "words with a vector"),)
    assert words.notes == ("4 dimensions; the id of a word is the row of its vector",)
    assert [(item.name, item.size) for item in model.passed_over] == [
        ("strings.json", len(nlp.vocab.strings))
    ]
    assert vocabtool.extract(tmp_path / "m" / "vocab") == words


def test_strings(tmp_path: Path) -> None:
    """All strings, where no words have vectors; floret's vectors are refused by name."""
    nlp = pipeline(tmp_path / "m", ())
    vocabulary = vocabtool.extract(tmp_path / "m")
    assert (list(vocabulary), vocabulary.kind) == (sorted(nlp.vocab.strings), "list")
    hashed: dict[str, Any] = {"data": np.ones((50, 4), "f"), "hash_count": 2, "minn": 3, "maxn": 5}
    nlp.vocab.vectors = spacy.vectors.Vectors(strings=nlp.vocab.strings, mode="floret", **hashed)
    nlp.to_disk(tmp_path / "floret")
    for folder in ("floret", "floret/vocab"):
        with pytest.raises(UnsupportedFormat, match=r"floret vectors.*no word is unknown"):
            vocabtool.inspect(tmp_path / folder)


def test_keys(tmp_path: Path) -> None:
    """A key is what spaCy makes of the string: a hash of any length, or the number of a symbol."""
    lengths = ["naïve 日本"[: number % 8 + 1] * number for number in range(1, 80)]
    nlp = pipeline(
        tmp_path / "m", [*dict.fromkeys([*lengths, *spacy.symbols.NAMES[spacy.symbols.PERSON :]])]
    )
    assert pairs(vocabtool.extract(tmp_path / "m")) == of_spacy(nlp)


def test_a_word_that_is_not_held(tmp_path: Path) -> None:
    """A vector whose word nothing tells is counted."""
    pipeline(tmp_path / "m")
    file = tmp_path / "m/vocab/strings.json"
    strings = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps([text for text in strings if text != "hello"]))
    words = vocabtool.extract(tmp_path / "m")
    assert set(words) == set(WORDS) - {"hello"}
    assert words.notes[-1] == "1 vectors belong to words that are not in strings.json"


def test_a_level_too_high(tmp_path: Path) -> None:
    """The folder of a Python package with a pipeline in it: what to pass is named."""
    (tmp_path / "en_model").mkdir()
    pipeline(tmp_path / "en_model/en_model-1.0")
    with pytest.raises(
        UnknownFormat, match=r"contains models in subfolders(?s:.*)en_model-1\.0/vocab"
    ):
        vocabtool.inspect(tmp_path / "en_model")


@pytest.mark.parametrize(
    ("file", "data", "why"),
    [
        ("key2row", b"", "it begins with , wanted a MessagePack map (at byte 0)"),
        ("key2row", b"\xdf\xff\xff\xff\xff", "8,589,934,590 numbers do not fit in 5 bytes"),
        ("key2row", b"\x81\x01\xa1x", "wanted a non-negative integer as a key or row (at byte 2)"),
        ("key2row", b"\x81\x01\x02\x03", "1 bytes follow the map (at byte 3)"),
        ("key2row", b"\x81\1\xcd\xff\xff", "key2row needs row 65,535, but the array has shape "),
        ("vectors", b"nothin", "not a NumPy array: it begins with 6e 6f 74 68 69 6e (at byte 0)"),
    ],
)
def test_damaged(tmp_path: Path, file: str, data: bytes, why: str) -> None:
    """What is wrong with the vectors' files is told; the strings are there all the same."""
    pipeline(tmp_path / "m")
    (tmp_path / "m/vocab" / file).write_bytes(data)
    model = vocabtool.inspect(tmp_path / "m")
    assert [found.kind for found in model.vocabularies] == ["list"]
    (warning,) = model.warnings
    assert warning.startswith(f"vocab/{file}: {why}")
    assert warning.endswith(": the words with vectors are not read")


@pytest.mark.parametrize(
    ("file", "data"),
    [
        *(("strings.json", data) for data in (b'{"a": 1}', b"[1]", b"nothing", b"null", b"{}")),
        *(("vectors.cfg", data) for data in (b"{", b"[]")),
    ],
)
def test_damaged_lists_and_settings(tmp_path: Path, file: str, data: bytes) -> None:
    """Without strings, and where it is not known what the vectors are, nothing is read."""
    pipeline(tmp_path / "m")
    (tmp_path / "m/vocab" / file).write_bytes(data)
    with pytest.raises(InvalidFile, match=rf"vocab/{re.escape(file)}: "):
        vocabtool.inspect(tmp_path / "m")


def test_no_link_is_followed(tmp_path: Path) -> None:
    """A link out of the folder is not opened."""
    pipeline(tmp_path / "m")
    shutil.move(tmp_path / "m/vocab/key2row", tmp_path / "outside")
    (tmp_path / "m/vocab/key2row").symlink_to(tmp_path / "outside")
    (warning,) = vocabtool.inspect(tmp_path / "m").warnings
    assert warning.startswith("vocab/key2row: a symbolic link: it is not opened")


@pytest.mark.parametrize("file", ["key2row", "strings.json", "vectors"])
def test_damage(tmp_path: Path, file: str) -> None:
    """Cut and flipped: a result, a warning or our own error."""
    pipeline(tmp_path / "m", [f"word{random.Random(n).random()}" for n in range(20)])
    path = tmp_path / "m/vocab" / file
    fine = 0
    for damaged in damages(path.read_bytes()[:4_000], 97, 200, file):
        path.write_bytes(damaged)
        try:
            fine += len(vocabtool.inspect(tmp_path / "m").vocabularies)
        except VocabtoolError:
            continue
    assert fine or file == "strings.json"
