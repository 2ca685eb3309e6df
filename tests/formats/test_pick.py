"""How one vocabulary of a file or folder is picked by its name, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import vocabtool
from vocabtool import NotFound, NoVocabulary
from vocabtool.formats.registry import pick


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of one vocabulary."""
    made = tmp_path / "model"
    made.mkdir()
    (made / "vocab.json").write_bytes(b'{"the": 0, "of": 1, "to": 2}')
    return made


def test_pick(folder: Path) -> None:
    """``PATH`` is as ``extract`` takes it, ``PATH#NAME`` the vocabulary of that name."""
    (folder / "b.vec").write_bytes(b"to 0.25 0.5\nof 0.5 0.25\n")
    first = pick(folder).vocabulary.tokens
    assert first == pick(str(folder)).vocabulary.tokens == ["the", "of", "to"]
    assert pick(f"{folder}#words").vocabulary.tokens == ["to", "of"]
    with pytest.raises(NoVocabulary, match="no vocabulary named 'nonsense'"):
        pick(f"{folder}#nonsense")
    with pytest.raises(NotFound, match="nowhere#words: no such file"):
        pick("nowhere#words")


def test_pick_says_what_else_there_is(folder: Path) -> None:
    """Which of several was taken where no name says so, and what could not be read."""
    (folder / "b.vec").write_bytes(b"to 0.25 0.5\nof 0.5 0.25\n")
    (note,) = pick(folder).notes
    taken = "took vocab.json, one of 2 vocabularies"
    assert note == f"{folder}: {taken}: {folder}#NAME takes another"
    assert pick(f"{folder}#words").notes == ()
    (folder / "c.model").write_bytes(b"TFL3" * 4)
    warnings = vocabtool.inspect(folder).warnings
    assert len(warnings) == 1
    assert pick(f"{folder}#words").notes == (f"{folder}: incomplete: {warnings[0]}",)


def test_pick_where_the_path_has_the_mark(folder: Path) -> None:
    """A path that holds a ``#`` is tried as a whole, then its longest part that is there."""
    strange = folder.rename(folder.parent / "a#b")
    assert pick(f"{strange}").vocabulary.name == "vocab.json"
    assert pick(f"{strange}#vocab.json").vocabulary.tokens == ["the", "of", "to"]
    other = strange.parent / "a"
    other.mkdir()
    (other / "vocab.txt").write_bytes(b"[PAD]\n[UNK]\nthe\n##s\n")
    assert pick(f"{strange}").vocabulary.name == "vocab.json"
    assert pick(f"{other}#vocab.txt").vocabulary.name == "vocab.txt"
    with pytest.raises(NoVocabulary, match="no vocabulary named 'c#d'"):
        pick(f"{other}#c#d")
