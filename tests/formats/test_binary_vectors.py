"""word2vec's binary format: files that gensim writes, word2vec's own newlines, damaged files."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import vocabtool
from tests.reader_checks import format_of, survives
from tests.reader_checks import written as write_file
from vocabtool import InvalidFile, Place, Vocabulary

written = partial(write_file, name="vectors.bin")

WORDS = (b"</s>", b"the", "naïve".encode(), b"\xff", b"a\x00b", b"", b"the")
DIM = 5
VECTORS = np.random.default_rng(0).standard_normal((len(WORDS), DIM)).astype("<f4")


def binary(words: tuple[bytes, ...] = WORDS, behind: bytes = b"") -> bytes:
    """A file as word2vec writes it, with ``behind`` after each vector."""
    rows = zip(words, VECTORS, strict=False)
    records = b"".join(word + b" " + row.tobytes() + behind for word, row in rows)
    return b"%d %d\n" % (len(words), DIM) + records


def only(folder: Path, data: bytes) -> Vocabulary:
    """The one vocabulary of a file that must be recognised."""
    (vocabulary,) = vocabtool.inspect(written(folder, data)).vocabularies
    return vocabulary


@pytest.mark.parametrize("behind", [b"", b"\n"])
def test_words(tmp_path: Path, behind: bytes) -> None:
    """Words in order, their positions their ids; newlines behind vectors are not part of them."""
    vocabulary = only(tmp_path, binary(behind=behind))
    assert tuple(vocabulary.stored) == WORDS
    assert (vocabulary.name, vocabulary.kind, vocabulary.first_id) == ("words", "vectors", 0)
    assert (vocabulary.ids, vocabulary.unknown) == (None, None)
    assert vocabulary.places == (Place("vectors.bin", "before each vector"),)
    assert vocabulary.notes == ("5 dimensions",)


def test_newline_in_a_word(tmp_path: Path) -> None:
    """A newline that does not stand behind every vector is part of the word."""
    words = (b"the", b"\nof", b"and")
    assert tuple(only(tmp_path, binary(words)).stored) == words


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(binary()[:-1], "vector 7 of 7 is cut off", id="cut by one byte"),
        pytest.param(binary()[:60], "the header promises 7 vectors of 5 dimensions", id="cut"),
        pytest.param(binary() + b"\n\n", "2 bytes lie behind the 7 vectors", id="more"),
        pytest.param(binary() + b"x", "1 bytes lie behind the 7 vectors", id="one more"),
        pytest.param(b"%d 5\n" % 10**17 + binary(), "promises 100,000,000,000,000,000", id="liar"),
        pytest.param(b"1 100000\n" + binary(), "wanted some of 1 to 65,536", id="a long vector"),
        pytest.param(b"0 5\n" + binary()[4:], "0 vectors of 5 dimensions", id="no vectors"),
    ],
)
def test_damaged(tmp_path: Path, data: bytes, message: str) -> None:
    """What is wrong is told."""
    with pytest.raises(InvalidFile, match=re.escape(message)):
        vocabtool.inspect(written(tmp_path, data))


@pytest.mark.parametrize("dim", [1, 2, 3, 50, 300])
def test_text_or_binary(tmp_path: Path, dim: int) -> None:
    """Of the same vectors as text and in binary, each reader takes its own only."""
    models = pytest.importorskip("gensim.models", reason="gensim writes the files")
    vectors = models.KeyedVectors(dim)
    vectors.add_vectors(["the", "of", "1.5"], np.zeros((3, dim)) + 0.5)
    for is_binary in (False, True):
        path = tmp_path / "vectors"
        vectors.save_word2vec_format(str(path), binary=is_binary)
        assert (format_of(path) == "word2vec binary") == is_binary
        as_text = (format_of(path) or "").startswith("word vectors as text")
        assert as_text == (not is_binary and dim >= 2)


@pytest.mark.parametrize("behind", [b"", b"\n"])
def test_damages(tmp_path: Path, behind: bytes, full: bool) -> None:
    """Cut at every byte and with bits flipped: a result or our own error."""
    flips = 2000 if full else 300
    assert survives(binary(behind=behind), tmp_path, every=1, flips=flips) > 0
