"""Word vectors as text: files that gensim writes, odd words, files cut short and hostile ones."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vocabtool
from tests.conftest import ROOT
from tests.reader_checks import survives
from tests.reader_checks import written as write_file
from vocabtool import InvalidFile, Place, UnknownFormat, Vocabulary, WordVectors

written = partial(write_file, name="vectors.txt")

GLOVE = b"the 0.418 0.24968 -0.41242\nof 0.70853 0.57088 -0.4716\n. . . 1.5e-05 -1 0.3\n"
WORD2VEC = b"2 3\nthe 0.418 0.24968 -0.41242\nof 0.70853 0.57088 -0.4716\n"
# What a word may hold: anything but the end of a line. Those that end in numbers come below.
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\n\t0123456789"), max_size=8)


def only(folder: Path, data: bytes) -> Vocabulary:
    """The one vocabulary of a file that must be recognised."""
    found = vocabtool.inspect(written(folder, data))
    (vocabulary,) = found.vocabularies
    assert found.warnings == ()
    return vocabulary


def line(word: bytes, dim: int = 3) -> bytes:
    return word + b" 0.125" * dim + b"\n"


def test_glove(tmp_path: Path) -> None:
    """Without a header: words in order, their positions are their ids, nothing is unknown."""
    vocabulary = only(tmp_path, GLOVE)
    assert list(vocabulary.stored) == [b"the", b"of", b". . ."]
    assert (vocabulary.name, vocabulary.kind, vocabulary.first_id) == ("words", "vectors", 0)
    assert (vocabulary.ids, vocabulary.unknown, vocabulary.marker) == (None, None, None)
    assert vocabulary.places == (Place("vectors.txt", "first column"),)
    assert vocabulary.notes == ("3 dimensions; no header line, as GloVe writes",)


@pytest.mark.parametrize("header", [True, False])
def test_gensim(tmp_path: Path, header: bool) -> None:
    """What gensim's KeyedVectors writes, with and without a header."""
    models = pytest.importorskip("gensim.models", reason="gensim writes the files")
    words = ["the", "naïve", "日本", "287.9", "a\u2028b", "\u2028", "\x85", "a\xa0b", "1e5", "nan"]
    vectors = models.KeyedVectors(7)
    vectors.add_vectors(words, np.random.default_rng(0).standard_normal((len(words), 7)))
    path = tmp_path / "gensim.vec"
    vectors.save_word2vec_format(str(path), write_header=header)
    (vocabulary,) = vocabtool.inspect(path).vocabularies
    assert vocabulary.tokens == vectors.index_to_key == words


def test_blank_at_the_end_of_lines(tmp_path: Path) -> None:
    """FastText and word2vec write a blank behind the last value."""
    data = b"2 3 \nthe 0.418 0.24968 -0.41242 \nof a 0.70853 0.57088 -0.4716 \n"
    assert list(only(tmp_path, data).stored) == [b"the", b"of a"]


@given(st.lists(WORDS, min_size=1, max_size=30), st.integers(2, 9), st.booleans())
def test_any_words(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], dim: int, header: bool
) -> None:
    """Whatever words hold, they come back, as ``rsplit`` cuts them off."""
    first = b"%d %d\n" % (len(words) + 1, dim) if header else b""
    data = first + line(b"the", dim) + b"".join(line(word.encode(), dim) for word in words)
    path = written(tmp_path_factory.mktemp("any"), data)
    lines = data.split(b"\n")[header:-1]
    expected = [part.removesuffix(b"\r").rsplit(b" ", dim)[0] for part in lines]
    assert list(WordVectors.open(path).words.stored) == expected
    assert expected[1:] == [word.encode() for word in words]


@pytest.mark.parametrize(
    ("part", "is_value"),
    [(b"0.125", True), (b"-.125", True), (b"1e5", True), (b"1.5E-07", True), (b"0.125e3", True)]
    + [(word, False) for word in (b"3.1", b"3.11", b"2010", b"e5", b"1.", b".", b"v0.125", b"")],
)
def test_one_value_more(tmp_path: Path, part: bytes, is_value: bool) -> None:
    """A word may end in a number, but in none as values are written: that is one too many."""
    file = written(tmp_path, GLOVE * 2 + line(b"windows " + part))
    if is_value:
        with pytest.raises(InvalidFile, match="line 7 holds more than 3 values, wanted 3"):
            vocabtool.inspect(file)
    else:
        assert vocabtool.extract(file).stored[6] == b"windows " + part


@pytest.mark.parametrize(
    ("data", "message", "offset"),
    [
        pytest.param(
            GLOVE + b"x" * (2 << 22), "a line of more than 4,194,304 bytes", len(GLOVE), id="no end"
        ),
        pytest.param(GLOVE + b"and 0.125 0.5", "line 4 holds 2 values,", len(GLOVE), id="cut"),
        pytest.param(GLOVE + b"\n", "line 4 holds 0 values, wanted 3", len(GLOVE), id="empty line"),
        pytest.param(GLOVE + line(b"and", 4), "line 4 holds more than", len(GLOVE), id="one more"),
        pytest.param(GLOVE + b"and 0.125 0.5 x\n", "line 4 holds b'x'", len(GLOVE), id="text"),
        pytest.param(
            GLOVE + b"and 0.125  0.5\nof 1 2 3\n", "line 4 holds b'' where", len(GLOVE), id="gap"
        ),
        pytest.param(WORD2VEC.replace(b"2", b"3", 1), "promises 3 words, 2 lines", 0, id="fewer"),
        pytest.param(
            b"9" * 18 + b" 3\n" + line(b"the"), "promises 999,999,999,999,999,999", 0, id="liar"
        ),
    ],
)
def test_damaged(tmp_path: Path, data: bytes, message: str, offset: int) -> None:
    """What is wrong is told with the number of the line and where it begins."""
    with pytest.raises(InvalidFile, match=re.escape(message)) as caught:
        vocabtool.inspect(written(tmp_path, data))
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"the\nof\n", "the first line ends in no number"),
        (b"the 0.5\nof 0.25\n", "the first line ends in one number only"),
        (b"the 12 7\nof 11 5\n", "the numbers in its lines are whole"),
        (b"the\t0.5 0.25 0.5\nof\t0.5 0.25 0.5\n", "a tab stands in its first line"),
        (b"a 0.5 0.5\nb 1 0.5 0.5\nc 1 2 3 0.5 1\nd x\ne 1\n", "lines end in 2, 3, 5 ... numbers"),
        (b"x" * (1 << 16) + b" 0.5 0.5\n", "no whole line in its first 64 KiB"),
    ],
)
def test_reasons(tmp_path: Path, data: bytes, reason: str) -> None:
    """Why a file is no text of word vectors."""
    with pytest.raises(UnknownFormat, match=re.escape(reason)):
        WordVectors.open(written(tmp_path, data))


@pytest.mark.parametrize("data", [GLOVE * 4, WORD2VEC])
def test_damages(tmp_path: Path, data: bytes, full: bool) -> None:
    """Cut at every byte and with bits flipped: a result or our own error."""
    fine = survives(data, tmp_path, every=1, flips=2000 if full else 300)
    assert fine > 0


# Ten megabytes each, the words found in them (0 where they are refused).
HOSTILE = {
    "short lines": (b" 1 .5\n" * 1_700_000, 1_700_000),
    "blanks in words": ((b" " * 40 + b" 1 .5\n") * 230_000, 230_000),
    "blanks only": (GLOVE + b" " * 4_000_000, 0),
    "newlines only": (GLOVE + b"\n" * 10_000_000, 0),
    "no blanks": (GLOVE + b"x\n" * 5_000_000, 0),
    "a word of digits": (GLOVE + line(b"x " + b"1" * 4_000_000), 4),
    "a vector of a million numbers": (b"x" + b" .1" * 1_300_000 + b"\n", 0),
}

CHILD = """
import re, sys
import vocabtool
try:
    print(len(vocabtool.WordVectors.open(sys.argv[1])))
except (vocabtool.InvalidFile, vocabtool.UnknownFormat):
    print(0)
print(int(re.search("VmHWM:\\\\s*(\\\\d+)", open("/proc/self/status").read())[1]) / 1024)
"""


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile(name: str, tmp_path: Path) -> None:
    """Ten megabytes of malice cost at most 256 MB and 20 seconds."""
    data, expected = HOSTILE[name]
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(written(tmp_path, data))],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    count, peak = done.stdout.split()
    assert int(count) == expected
    assert float(peak) < 256
    assert time.perf_counter() - began < 20
