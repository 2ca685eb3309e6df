"""Word vectors as text: files that gensim writes, odd words, files cut short and hostile ones."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vocabtool
from tests.conftest import ROOT
from tests.reader_checks import survives
from vocabtool import InvalidFile, Place, UnknownFormat, Vocabulary, WordVectors

GLOVE = b"the 0.418 0.24968 -0.41242\nof 0.70853 0.57088 -0.4716\n. . . 1.5e-05 -1 0.3\n"
WORD2VEC = b"2 3\nthe 0.418 0.24968 -0.41242\nof 0.70853 0.57088 -0.4716\n"
# What a word may hold: anything but the end of a line. Those that end in numbers come below.
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\n\t0123456789"), max_size=8)


def written(folder: Path, data: bytes) -> Path:
    path = folder / "vectors.txt"
    path.write_bytes(data)
    return path


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


def test_header(tmp_path: Path) -> None:
    """The header line is no word."""
    vocabulary = only(tmp_path, WORD2VEC)
    assert list(vocabulary.stored) == [b"the", b"of"]
    assert vocabulary.notes == ("3 dimensions; a header line, as word2vec and fastText write",)


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


def test_no_newline_at_the_end(tmp_path: Path) -> None:
    """The last line counts without a newline; that the file may be cut there is told."""
    vocabulary = only(tmp_path, GLOVE[:-1])
    assert vocabulary == only(tmp_path, GLOVE)
    assert only(tmp_path, GLOVE[:-1]).notes[1].startswith("no newline ends the last line")


def test_odd_words(tmp_path: Path) -> None:
    """Duplicates, an empty word, blanks alone, a separator of lines, bytes that are not UTF-8."""
    words = [
        b"the",
        b"the",
        b"",
        b" ",
        b"\xe2\x80\xa8",
        b"\xff\xfe",
        b"a\rb",
        b"3.5",
        b"at 5",
        b"nan",
    ]
    vocabulary = only(tmp_path, b"".join(map(line, words)))
    assert list(vocabulary.stored) == words
    assert vocabulary.duplicates == 1
    assert vocabulary.notes[1] == "empty words: 1"


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


@pytest.mark.parametrize("window", [1, 7, 64, 1000])
@pytest.mark.parametrize("data", [GLOVE * 20, WORD2VEC, GLOVE.replace(b"\n", b" \r\n")])
def test_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int, data: bytes) -> None:
    """However a file is cut into windows, it holds the same words at the same places."""
    file = written(tmp_path, data)
    expected = WordVectors.open(file)
    monkeypatch.setattr("vocabtool.formats.text_vectors.WINDOW", window)
    found = WordVectors.open(file)
    assert found.words == expected.words
    rows = range(len(found))
    assert np.array_equal(found.vectors(rows), expected.vectors(rows))


def test_several_windows(tmp_path: Path) -> None:
    """Of a file of many windows every word is found, and a short line told by its number."""
    words = [b"word%d" % number if number % 7 else b"a word %d" % number for number in range(9000)]
    data = b"".join(line(word, 50) for word in words)
    assert len(data) > 4 << 19
    assert list(only(tmp_path, data).stored) == words
    short = data.replace(b"word8000 0.125", b"word8000")
    with pytest.raises(InvalidFile, match="line 8,001 holds 49 values, wanted 50") as caught:
        only(tmp_path, short)
    assert caught.value.offset == short.index(b"word8000")


@pytest.mark.parametrize(
    ("data", "message", "offset"),
    [
        pytest.param(
            GLOVE + b"and 0.125 0.5", "line 4 holds 2 values, wanted 3", len(GLOVE), id="cut"
        ),
        pytest.param(GLOVE + b"and", "line 4 holds 0 values, wanted 3", len(GLOVE), id="a word"),
        pytest.param(GLOVE + b"\n", "line 4 holds 0 values, wanted 3", len(GLOVE), id="empty line"),
        pytest.param(b"4 3\n\n" + GLOVE, "line 2 holds 0 values", 4, id="empty line first"),
        pytest.param(
            GLOVE + line(b"and", 4), "line 4 holds more than 3 values", len(GLOVE), id="one more"
        ),
        pytest.param(
            GLOVE + b"and 0.125 0.5 x\n", "line 4 holds b'x' where a number", len(GLOVE), id="text"
        ),
        pytest.param(
            GLOVE + b"and 0.125  0.5\nof 1 2 3\n", "line 4 holds b'' where", len(GLOVE), id="gap"
        ),
        pytest.param(
            GLOVE + b". . 0.125 0.5\nof 1 2 3\n", "line 4 holds b'.' where", len(GLOVE), id="both"
        ),
        pytest.param(WORD2VEC.replace(b"2", b"3", 1), "promises 3 words, 2 lines", 0, id="fewer"),
        pytest.param(WORD2VEC.replace(b"2", b"1", 1), "promises 1 words, 2 lines", 0, id="more"),
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


def test_line_without_end(tmp_path: Path) -> None:
    """A line that does not end within bounds is no line of vectors."""
    path = written(tmp_path, GLOVE + b"x" * (2 << 22))
    with pytest.raises(InvalidFile, match="a line of more than 4,194,304 bytes") as caught:
        vocabtool.inspect(path)
    assert caught.value.offset == len(GLOVE)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"the\nof\n", "the first line ends in no number"),
        (b"the 0.5\nof 0.25\n", "the first line ends in one number only"),
        (b"the 12 7\nof 11 5\n", "the numbers in its lines are whole"),
        (b"the\t0.5 0.25 0.5\nof\t0.5 0.25 0.5\n", "a tab stands in its first line"),
        (b"a 0.5 0.5\nb 1 0.5 0.5\nc 1 2 3 0.5 1\nd x\ne 1\n", "lines end in 2, 3, 5 ... numbers"),
        (b"3 2\n", "nothing follows its header line"),
        (b"2 4\nthe 0.5 0.5\nof 0.5 0.5\n", "end in 2, 2 ... numbers, not in 4"),
        (b"x" * (1 << 16) + b" 0.5 0.5\n", "no whole line in its first 64 KiB"),
        (b"", "no whole line in its first 64 KiB"),
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
