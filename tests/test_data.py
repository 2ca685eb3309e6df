"""The demonstration data: our script gives what is committed, and vocabtool reads it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import vocabtool
from tests.conftest import ROOT

DATA = ROOT / "data"
GLOVE = DATA / "small_glove.txt"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the script writes, where strings hash by another seed."""
    folder = tmp_path_factory.mktemp("data")
    subprocess.run(
        [sys.executable, DATA / "make_vocabularies.py", folder],
        check=True,
        env={"PYTHONHASHSEED": "7"},
        stdout=subprocess.DEVNULL,
    )
    yield folder


def test_the_script_makes_what_is_committed(made: Path) -> None:
    """A second run gives the same bytes; the file stays small."""
    assert [file.name for file in made.iterdir()] == [GLOVE.name]
    assert (made / GLOVE.name).read_bytes() == GLOVE.read_bytes()
    assert GLOVE.stat().st_size < 300_000


def test_the_vectors_are_read_as_what_they_are() -> None:
    """Every line is a word and four numbers, also where the word holds blanks."""
    words = [line.rsplit(" ", 4)[0] for line in GLOVE.read_text("utf-8").split("\n")[:-1]]
    vocabulary = vocabtool.extract(GLOVE)
    assert (vocabulary.kind, list(vocabulary)) == ("vectors", words)
    assert vocabulary.duplicates == 0
    assert (words[0], words[-1]) == ("the", "<unk>")
    assert {"287.9", ". . .", "new york", "well-known", "naïve", "москва", "北京"} <= set(words)


@pytest.mark.parametrize(
    ("forms", "no_words"),
    [
        ("stop stops stopping stopped", "stoping"),
        ("use uses using used", "useing"),
        ("carry carries carrying carried", "carryed"),
        ("die dies dying died", "dieing"),
        ("agree agrees agreeing agreed", "agreing"),
        ("city cities", "citys"),
        ("box boxes", "boxs"),
        ("man men", "mans"),
        ("big bigger biggest", "biger"),
    ],
)
def test_inflected_words_are_english(forms: str, no_words: str) -> None:
    """What the script makes of a word is spelt as English is."""
    vocabulary = vocabtool.extract(GLOVE)
    assert [form for form in forms.split() if form not in vocabulary] == []
    assert [word for word in no_words.split() if word in vocabulary] == []


def test_the_questions_are_different() -> None:
    """No text stands twice in the corpus, or there would be pairs that are equal by themselves."""
    questions = (DATA / "questions.txt").read_text("utf-8").split("\n")
    assert questions.pop() == ""
    assert len(questions) == len(set(questions)) == 80
    assert [text for text in questions if text != text.strip() or not text] == []
