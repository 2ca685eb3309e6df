"""Keras' ``Tokenizer.to_json()``: its words, and texts cut as the tokenizer cuts them.

The oracle is ``Tokenizer`` of tf_keras, which writes the files here that are not damaged.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import vocabtool
from vocabtool import Unknown, Vocabulary
from vocabtool.errors import InvalidFile

TEXTS = ("The cat sat; the CAT, sat! On the mat.", "It's naïve:\tÉTÉ\x0bend\nthe the ΣΑΣ", "a  b-b")
ALPHABET = "ab A.É-ς\t\n\r\x0b\x1c\xa0'\\]^"
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "oov": {"oov_token": "<OOV>"},
    "oov that is a word": {"oov_token": "the"},
    "few words": {"num_words": 4, "oov_token": "<OOV>"},
    "few words and no oov": {"num_words": 4},
    "no words": {"num_words": 1, "oov_token": "<OOV>"},
    "case kept": {"lower": False},
    "no filters": {"filters": ""},
    "filters of a class": {"filters": "^]\\-a[é\0"},
    "split at another": {"split": "-"},
    "split at several": {"split": "\\1 "},
    "characters": {"char_level": True, "oov_token": "?"},
    "characters, case kept": {"char_level": True, "lower": False},
}


def fitted(case: str) -> Any:
    text = pytest.importorskip("tf_keras", reason="the oracle is Keras itself").preprocessing.text
    made = text.Tokenizer(**CASES[case])
    made.fit_on_texts(TEXTS)
    return made


def written(document: object, folder: Path) -> Path:
    file = folder / "tokenizer.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")
    return file


def only(document: object, folder: Path) -> Vocabulary:
    (vocabulary,) = vocabtool.inspect(written(document, folder)).vocabularies
    return vocabulary


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_words(case: str, twice: bool, tmp_path: Path) -> None:
    """The words that it looks up, with their ids; in a file that was encoded twice, too."""
    made = fitted(case)
    told = made.to_json()
    vocabulary = only(json.dumps(told, ensure_ascii=False) if twice else told, tmp_path)
    end, oov = made.num_words or 1 << 60, made.oov_token
    wanted = {word: i for word, i in made.word_index.items() if i < end or word == oov}
    assert dict(zip(vocabulary, vocabulary.id_array().tolist(), strict=True)) == wanted
    assert vocabulary.unknown == (None if oov is None else Unknown(made.word_index[oov]))
    assert (vocabulary.kind, vocabulary.marker) == ("table", None)
    left = len(made.word_index) - len(wanted)
    note = f"num_words is 4: {left} words with higher ids are left out"
    assert (note in vocabulary.notes) == (made.num_words == 4)


@pytest.mark.parametrize("case", CASES)
@example([*TEXTS, "", " ", "Ünknown <OOV> oov", "a\0b. c"])
@given(st.lists(st.text(ALPHABET) | st.text(), min_size=1))
def test_sequences(case: str, texts: list[str]) -> None:
    """The ids that Keras gives, unknown words as it gives them or leaves them out."""
    made = fitted(case)
    with TemporaryDirectory() as folder:
        words = vocabtool.Words.of(written(made.to_json(), Path(folder)))
    assert words.how == "recovered"
    found = [
        [word["id"] for word in text if made.oov_token is not None or word["known"]]
        for text in words.split(texts).to_pylist()
    ]
    assert found == made.texts_to_sequences(texts)


def test_known_and_unknown(tmp_path: Path) -> None:
    """Unknown is what has no id below num_words; the rule is told in plain words."""
    words = vocabtool.Words.of(written(fitted("few words").to_json(), tmp_path))
    assert words.unknown("The cat sat on Xapian!") == ["sat", "on", "xapian"]
    assert words.describe() == (
        "lower-case in every script",
        r"""replace every match of '[!"#$%&()*+,\-./:;<=>?@\[\\\]\^_`{|}~\t\n]' by ' '""",
        "split at each ' '",
        "drop empty strings",
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"word_index": "{"}, "not JSON: Expecting property name"),
        ({"word_index": "[" * 99_999}, "needs about|nested too deeply"),
        ({"word_index": "[1]"}, "word_index is a list, wanted an object"),
        ({"word_index": {"the": -1}}, "word_index: the id of 'the' is -1"),
        ({"word_index": {"the": 1 << 80}}, "word_index: the id of 'the' is 1,208"),
        ({"word_index": {"the": 1.5}}, "word_index: the id of 'the' is a number"),
        ({"word_index": {"\ud800": 1}}, "a lone surrogate is not a character"),
        ({"word_index": '{"\\ud800": 1}'}, "a lone surrogate is not a character"),
        (
            {"word_index": {}, "num_words": "5"},
            "num_words is a text, wanted null or a whole number",
        ),
        ({"word_index": {}, "num_words": -5}, "num_words is a whole number, wanted null"),
        ({"word_index": {}, "num_words": True}, "num_words is true or false"),
        ({"word_index": {}, "oov_token": 1}, "oov_token is a whole number, wanted a text"),
    ],
)
def test_damaged(config: dict[str, Any], message: str, tmp_path: Path) -> None:
    """What contradicts the format is named."""
    with pytest.raises(InvalidFile, match=message):
        only({"class_name": "Tokenizer", "config": config}, tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"filters": None}, "filters is null, wanted a text"),
        ({"filters": ["ab"]}, "filters is a list, wanted a text"),
        ({"split": ""}, "split is empty, wanted a text to split at"),
        ({"split": None}, "split is null, wanted a text to split at"),
        ({"split": "\ud800"}, "'split' has a lone surrogate"),
    ],
)
def test_settings_that_cut_no_text(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    """The words are there all the same, and the rule is refused."""
    file = written({"config": {"word_index": {"the": 1}, **settings}}, tmp_path)
    assert vocabtool.extract(file).tokens == ["the"]
    with pytest.raises(InvalidFile, match=message):
        vocabtool.Words.of(file)
