"""The demonstration data: our script gives what is committed, and vocabtool reads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import vocabtool
from tests.conftest import ROOT

DATA = ROOT / "data"
GLOVE = DATA / "small_glove.txt"


def test_the_script_makes_what_is_committed(tmp_path: Path) -> None:
    """A second run, where strings hash by another seed, gives the same bytes; few of them."""
    script = [sys.executable, str(DATA / "make_vocabularies.py"), str(tmp_path)]
    subprocess.run(script, check=True, env={"PYTHONHASHSEED": "7"}, stdout=subprocess.DEVNULL)
    assert [file.name for file in tmp_path.iterdir()] == [GLOVE.name]
    assert (tmp_path / GLOVE.name).read_bytes() == GLOVE.read_bytes()
    assert GLOVE.stat().st_size < 300_000


def test_the_vectors_are_read_as_what_they_are() -> None:
    """Every line is a word and four numbers, also where the word holds blanks."""
    words = [line.rsplit(" ", 4)[0] for line in GLOVE.read_text("utf-8").split("\n")[:-1]]
    vocabulary = vocabtool.extract(GLOVE)
    assert (vocabulary.kind, list(vocabulary)) == ("vectors", words)
    assert vocabulary.duplicates == 0
    assert {"287.9", ". . .", "new york", "well-known", "naïve", "москва", "北京"} <= set(words)
