"""Word vectors: what gensim and NumPy save is opened, rows are equal, a matrix is made once."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import vocabtool
from tests.cli.running import told
from tests.fuzzing import damages
from tests.reader_checks import format_of, survives
from tests.reader_checks import written as write_file
from vocabtool import Place, WordVectors
from vocabtool.errors import InvalidFile, NotFound, UnknownFormat, UnsupportedFormat, VocabtoolError

written = partial(write_file, name="vectors")

WORDS = ["the", "naïve", "日本", "the", "287.9"]
DIM = 3
MATRIX = np.random.default_rng(0).standard_normal((len(WORDS), DIM)).astype(np.float32)


def text(path: Path) -> None:
    rows = zip(WORDS, MATRIX.tolist(), strict=True)
    lines = (f"{word} {' '.join(map(repr, row))}\n" for word, row in rows)
    path.write_bytes("".join(lines).encode())


def binary(path: Path) -> None:
    rows = zip(WORDS, MATRIX, strict=True)
    records = (word.encode() + b" " + row.astype("<f4").tobytes() for word, row in rows)
    path.write_bytes(b"%d %d\n" % (len(WORDS), DIM) + b"".join(records))


def archive(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, words=np.array(WORDS), vectors=MATRIX)


def array(path: Path, matrix: NDArray[Any] = MATRIX) -> None:
    with path.open("wb") as file:
        np.save(file, matrix)
    path.with_suffix(".txt").write_text("\n".join(WORDS) + "\n", "utf-8")


Writer = Callable[[Path], None]
WRITERS: dict[str, Writer] = {"text": text, "binary": binary, "npz": archive, "npy": array}


@pytest.fixture(params=sorted(WRITERS))
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> WordVectors:
    """The same words and vectors in each format."""
    path = tmp_path / "vectors"
    WRITERS[request.param](path)
    return WordVectors.open(path)


def test_words_and_vectors(opened: WordVectors) -> None:
    """Words, duplicates kept; rows in any order, repeated or none: the float32 that was saved."""
    assert opened.words.tokens == WORDS
    assert opened.words.kind == "vectors"
    assert (len(opened), opened.dim) == (len(WORDS), DIM)
    for positions in ([0, 1, 2, 3, 4], [4, 0, 4], [], np.array([2], np.uint8)):
        found = opened.vectors(positions)
        assert found.dtype == np.float32
        assert np.array_equal(found, MATRIX[np.asarray(positions, int)])
        assert found.shape == (len(positions), DIM)
    for wrong in ([5], [-1], [0, 99]):
        with pytest.raises(IndexError, match="wanted 0 to 4"):
            opened.vectors(wrong)


def test_matrix(opened: WordVectors, tmp_path: Path) -> None:
    """All rows as one memory map that cannot be written to."""
    matrix = opened.matrix()
    assert np.array_equal(matrix, MATRIX)
    assert matrix.dtype == np.float32
    assert isinstance(matrix, np.memmap)
    assert not matrix.flags.writeable
    again = opened.matrix()
    assert isinstance(again, np.memmap)
    assert again.filename == matrix.filename
    assert list(tmp_path.glob(".vocabtool-*")) == []


def test_matrix_is_made_once(tmp_path: Path) -> None:
    """A second call, and a second opening, use the file of the first; a changed file gets anew."""
    path, folder = tmp_path / "vectors.txt", tmp_path / "converted"
    text(path)
    folder.mkdir()
    first = WordVectors.open(path).matrix(folder)
    (made,) = folder.iterdir()
    before = made.stat()
    second = WordVectors.open(path).matrix(folder)
    assert isinstance(first, np.memmap)
    assert isinstance(second, np.memmap)
    assert str(first.filename) == str(second.filename) == str(made.resolve())
    after = made.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)

    path.write_bytes(b"one 1.5 2.5\n")
    assert WordVectors.open(path).matrix(folder).tolist() == [[1.5, 2.5]]
    assert np.array_equal(first, MATRIX)
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("writer", [array, archive])
def test_what_is_a_matrix_is_used_as_it_is(tmp_path: Path, writer: Writer) -> None:
    """NumPy's float32 arrays need no conversion: nothing is written."""
    path = tmp_path / "vectors"
    writer(path)
    before = sorted(tmp_path.iterdir())
    matrix = WordVectors.open(path).matrix()
    assert isinstance(matrix, np.memmap)
    assert str(matrix.filename) == str(path.resolve())
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ">f4"])
def test_other_floats(tmp_path: Path, dtype: Any) -> None:
    """Floats of another size or byte order, and columns first, become float32 in rows."""
    path = tmp_path / "vectors.npy"
    stored = np.asfortranarray(MATRIX.astype(dtype))
    array(path, stored)
    opened = WordVectors.open(path)
    assert np.array_equal(opened.vectors([1, 4]), stored[[1, 4]].astype(np.float32))
    matrix = opened.matrix()
    assert np.array_equal(matrix, stored.astype(np.float32))
    assert matrix.dtype == np.float32
    assert matrix.flags.c_contiguous


NASTY = ["the", "naïve", "日本", "287.9", "a\u2028b", "\u2028", "\x85", "a\xa0b", "1e5", "nan"]


@pytest.mark.parametrize("dim", [1, 2, 7, 300])
@pytest.mark.parametrize("form", ["text", "text without a header", "binary"])
def test_gensim(tmp_path: Path, form: str, dim: int) -> None:
    """What gensim's KeyedVectors writes has the words and vectors that gensim reads back."""
    models = pytest.importorskip("gensim.models", reason="gensim writes the files")
    saved = models.KeyedVectors(dim)
    saved.add_vectors(NASTY, np.random.default_rng(2).standard_normal((len(NASTY), dim)))
    path, header = tmp_path / "gensim", form != "text without a header"
    saved.save_word2vec_format(str(path), binary=form == "binary", write_header=header)
    read_as = (format_of(path) or "").partition(" (")[0]
    if dim == 1 and form != "binary":
        assert read_as != "word vectors as text"
        return
    assert read_as == ("word2vec binary" if form == "binary" else "word vectors as text")
    opened = WordVectors.open(path)
    assert opened.words.tokens == saved.index_to_key
    if form == "binary":
        assert np.array_equal(opened.vectors(range(len(NASTY))), saved.vectors)
    else:
        assert np.allclose(opened.matrix(), saved.vectors, rtol=1e-6)


def test_a_number_that_is_none(tmp_path: Path) -> None:
    """Text among the numbers is found at last when its row is read."""
    path = tmp_path / "vectors.txt"
    path.write_bytes(b"the 1.5 2\nof 1 2x\nand 1 2\n")
    opened = WordVectors.open(path)
    assert opened.vectors([0, 2]).tolist() == [[1.5, 2], [1, 2]]
    with pytest.raises(InvalidFile, match=r"vectors\.txt: b'1 2x' \.\.\.: wanted 2 numbers"):
        opened.vectors([1])
    with pytest.raises(InvalidFile, match="wanted 2 numbers"):
        opened.matrix()
    assert sorted(tmp_path.iterdir()) == [path]


def test_words_elsewhere(tmp_path: Path) -> None:
    """The words of an array may be named; as many as there are vectors."""
    path = tmp_path / "vectors.npy"
    array(path)
    words = tmp_path / "words"
    words.write_bytes(b"a\r\nb\n\nd\ne")
    assert WordVectors.open(path, words).words.tokens == ["a", "b", "", "d", "e"]
    words.write_bytes(b"a\nb\n")
    with pytest.raises(InvalidFile, match="5 vectors, but 2 words in words"):
        WordVectors.open(path, words)
    with pytest.raises(NotFound, match=r"the words of vectors\.npy"):
        WordVectors.open(path, tmp_path / "nowhere")


def test_what_is_none(tmp_path: Path) -> None:
    """No file, a folder, a fastText model, and a file of something else."""
    path = tmp_path / "vectors"
    for wrong in (path, tmp_path):
        with pytest.raises(NotFound, match="no such file; wanted a file of word vectors"):
            WordVectors.open(wrong)
    path.write_bytes((793712314).to_bytes(4, "little") + bytes(100))
    with pytest.raises(UnsupportedFormat, match=r"a fastText model .* print-word-vectors"):
        WordVectors.open(path)
    path.write_bytes(b"the\nof\n")
    with pytest.raises(UnknownFormat, match="not a file of word vectors") as caught:
        WordVectors.open(path)
    assert len(caught.value.tried) == 2


def npz(save: Callable[..., None] = np.savez, **arrays: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def bomb() -> bytes:
    """Words that unpack to a thousand times their size."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        with packed.open("words.npy", "w") as words:
            head = {"descr": "|S1024", "fortran_order": False, "shape": (1 << 16,)}
            np.lib.format.write_array_header_1_0(words, head)
            for _ in range(1 << 6):
                words.write(bytes(1 << 20))
        packed.writestr("vectors.npy", b"")
    return file.getvalue()


def npy(head: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode()


HEAD = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3), }\n"
OBJECTS = np.array(WORDS, object)


TEXTS = np.array(WORDS)
UNSUPPORTED: dict[str, tuple[Callable[[], bytes], str]] = {
    "compressed": (
        lambda: npz(np.savez_compressed, words=TEXTS, vectors=MATRIX),
        "vectors.npy is compressed",
    ),
    "pickled words": (lambda: npz(words=OBJECTS, vectors=MATRIX), "of Python objects is a pickle"),
    "names": (lambda: npz(a=MATRIX), "without the arrays"),
    "2d": (lambda: npz(words=MATRIX, vectors=MATRIX), "wanted text in one dimension"),
    "integers": (lambda: npz(words=TEXTS, vectors=np.arange(5)), "wanted two-dimensional floats"),
    "nested": (lambda: npy("(" * 9000), "not an array of numbers or text"),
}
NOT_UNICODE = np.frombuffer(b"\xff" * 20, "<U1")
DAMAGED: dict[str, tuple[Callable[[], bytes], str]] = {
    "bomb": (bomb, "unpacks to more than"),
    "fewer": (lambda: npz(words=TEXTS, vectors=MATRIX[:4]), "4 vectors, but 5 words"),
    "not Unicode": (lambda: npz(words=NOT_UNICODE, vectors=MATRIX), "a word is not Unicode"),
    "cut": (lambda: npy(HEAD), "needs 60 bytes, got 0"),
    "huge": (lambda: npy(HEAD.replace("5, 3", f"{10**17}, 9")), "needs 3,600,0"),
    "type": (lambda: npy(HEAD.replace("<f4", "<f5")), "invalid type b'<f5'"),
    "version": (lambda: b"\x93NUMPY\x09\x00", "not a NumPy array"),
    "head": (lambda: b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "wanted at most"),
}


@pytest.mark.parametrize("case", [*UNSUPPORTED, *DAMAGED])
def test_arrays_that_are_refused(tmp_path: Path, case: str) -> None:
    """Arrays that are damaged, hostile or something else."""
    data, message = (UNSUPPORTED | DAMAGED)[case]
    path = tmp_path / "vectors.npy"
    path.write_bytes(data())
    path.with_suffix(".txt").write_bytes(b"a\nb\nc\nd\ne\n")
    error = UnsupportedFormat if case in UNSUPPORTED else InvalidFile
    with pytest.raises(error, match=message) as caught:
        WordVectors.open(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_damages(name: str, tmp_path: Path, full: bool) -> None:
    """Cut at every byte and with bits flipped: vectors or our own error."""
    path = tmp_path / "vectors"
    WRITERS[name](path)
    fine = 0
    for damaged in damages(path.read_bytes(), 1, 2000 if full else 300, name):
        path.unlink()  # a memory map may still be open
        path.write_bytes(damaged)
        try:
            opened = WordVectors.open(path)
            assert opened.vectors(range(len(opened))).shape == (len(opened), opened.dim)
        except VocabtoolError:
            continue
        fine += 1
    assert fine > 0


# Text.

GLOVE = b"the 0.418 0.24968 -0.41242\nof 0.70853 0.57088 -0.4716\n. . . 1.5e-05 -1 0.3\n"
# What a word may hold: anything but the end of a line. Those that end in numbers come below.
ANY_WORD = st.text(st.characters(codec="utf-8", exclude_characters="\n\t0123456789"), max_size=8)


def line(word: bytes, dim: int = 3) -> bytes:
    return word + b" 0.125" * dim + b"\n"


def test_glove(tmp_path: Path) -> None:
    """Without a header: words in order, their positions are their ids, nothing is unknown."""
    (vocabulary,) = vocabtool.inspect(written(tmp_path, GLOVE)).vocabularies
    assert list(vocabulary.stored) == [b"the", b"of", b". . ."]
    assert (vocabulary.name, vocabulary.kind, vocabulary.first_id) == ("words", "vectors", 0)
    assert (vocabulary.ids, vocabulary.unknown, vocabulary.marker) == (None, None, None)
    assert vocabulary.places == (Place("vectors", "first column"),)
    assert vocabulary.notes == ("3 dimensions; no header line, as GloVe writes",)


@given(st.lists(ANY_WORD, min_size=1, max_size=30), st.integers(2, 9), st.booleans())
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
        with pytest.raises(InvalidFile, match="line 7 has more than 3 values, wanted 3"):
            vocabtool.inspect(file)
    else:
        assert vocabtool.extract(file).stored[6] == b"windows " + part


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        pytest.param(b"x" * (2 << 22), "a line has more than 4,194,304 bytes", id="no end"),
        pytest.param(b"and 0.125 0.5", "line 4 has 2 values,", id="cut"),
        pytest.param(b"and 0.125  0.5\nof 1 2 3\n", "line 4 has b'', wanted a number", id="gap"),
    ],
)
def test_damaged_text(tmp_path: Path, rest: bytes, message: str) -> None:
    """What is wrong is told with the number of the line and where it begins."""
    with pytest.raises(InvalidFile, match=re.escape(message)) as caught:
        vocabtool.inspect(written(tmp_path, GLOVE + rest))
    assert caught.value.offset == len(GLOVE)


def test_header_that_lies(tmp_path: Path) -> None:
    """The number of words in the first line is that of the lines."""
    for data, number in (
        (b"3 3\n" + line(b"the") * 2, "3"),
        (b"9" * 18 + b" 3\n" + line(b"the"), "999,999,999,999,999,999"),
    ):
        with pytest.raises(InvalidFile, match=f"states {number} words, ") as caught:
            vocabtool.inspect(written(tmp_path, data))
        assert caught.value.offset == 0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"the 0.5\nof 0.25\n", "the first line ends in one number only"),
        (b"the\t0.5 0.25 0.5\nof\t0.5 0.25 0.5\n", "its first line has a tab"),
        (b"a 0.5 0.5\nb 1 0.5 0.5\nc 1 2 3 0.5 1\nd x\ne 1\n", "lines end in 2, 3, 5 ... numbers"),
        (b"x" * (1 << 16) + b" 0.5 0.5\n", "no whole line in its first 64 KiB"),
        (GLOVE + b"\n" * 10_000_000, "its lines end in 3, 3, 3 ... numbers"),
    ],
)
def test_reasons(tmp_path: Path, data: bytes, reason: str) -> None:
    """Why a file is no text of word vectors."""
    with pytest.raises(UnknownFormat, match=re.escape(reason)):
        WordVectors.open(written(tmp_path, data))


# word2vec's binary format.

BYTES = (b"</s>", b"the", "naïve".encode(), b"\xff", b"a\x00b", b"", b"the")
FLOATS = np.random.default_rng(0).standard_normal((len(BYTES), 5)).astype("<f4")


def records(words: tuple[bytes, ...] = BYTES, behind: bytes = b"") -> bytes:
    """A file as word2vec writes it, with ``behind`` after each vector."""
    rows = zip(words, FLOATS, strict=False)
    made = b"".join(word + b" " + row.tobytes() + behind for word, row in rows)
    return b"%d %d\n" % (len(words), 5) + made


@pytest.mark.parametrize("behind", [b"", b"\n"])
def test_binary(tmp_path: Path, behind: bytes, full: bool) -> None:
    """Words in order, their positions their ids; newlines behind vectors are not part of them."""
    data = records(behind=behind)
    (vocabulary,) = vocabtool.inspect(written(tmp_path, data)).vocabularies
    assert tuple(vocabulary.stored) == BYTES
    assert (vocabulary.name, vocabulary.kind, vocabulary.first_id) == ("words", "vectors", 0)
    assert (vocabulary.ids, vocabulary.unknown) == (None, None)
    assert vocabulary.places == (Place("vectors", "before each vector"),)
    assert vocabulary.notes == ("5 dimensions",)
    assert survives(data, tmp_path, every=1, flips=2000 if full else 300) > 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(records()[:-1], "vector 7 of 7 is truncated", id="cut by one byte"),
        pytest.param(
            records()[:60], "the header states 7 vectors of 5 dimensions, wanted", id="cut"
        ),
        pytest.param(records() + b"\n\n", "states 7 vectors, but 2 more bytes follow", id="more"),
        pytest.param(b"%d 5\n" % 10**17 + records(), "100,000,000,000,000,000 vectors", id="liar"),
        pytest.param(
            b"1 100000\n" + records(), "wanted at least 1 of 1 to 65,536", id="a long vector"
        ),
    ],
)
def test_damaged_binary(tmp_path: Path, data: bytes, message: str) -> None:
    """What is wrong is told."""
    with pytest.raises(InvalidFile, match=re.escape(message)):
        vocabtool.inspect(written(tmp_path, data))


# fastText's models.

MAGIC = struct.pack("<i", 793712314)
HEADER = struct.Struct("<2i 12i d 3i 2q")
ENTRIES = ((b"</s>", 0), (b"the", 0), ("naïve".encode(), 0), (b"__label__a", 1))


def fast_text(
    entries: tuple[tuple[bytes, int], ...] = ENTRIES,
    *,
    version: int = 12,
    dim: int = 2,
    kind: int = 2,
    maxn: int = 6,
    pruned: int = -1,
    counts: tuple[int, int, int] | None = None,
) -> bytes:
    """A model as fastText writes it, up to its first matrix."""
    labels = sum(type_ for _, type_ in entries)
    counts = counts or (len(entries), len(entries) - labels, labels)
    settings = (dim, 5, 5, 1, 5, 1, 1, kind, 10, 3, maxn, 100)
    data = MAGIC + struct.pack("<i12id", version, *settings, 1e-4)
    data += struct.pack("<3i2q", *counts, 99, pruned)
    data += b"".join(word + b"\0" + struct.pack("<qb", 7, type_) for word, type_ in entries)
    rows = len(entries) - labels + 10
    data += bytes(8 * max(pruned, 0)) + struct.pack("<?2q", False, rows, dim)
    return data + bytes(4 * rows * dim)


def test_what_unknown_means(tmp_path: Path) -> None:
    """Words outside have vectors where the model has subwords; version 11 had none for labels."""
    subwords = "an out-of-vocabulary word still gets a vector, from its n-grams of 3 to 6 "
    subwords += "characters"
    for data, expected in (
        (fast_text(), subwords),
        (fast_text(maxn=0), "no subwords: an out-of-vocabulary word gets no vector"),
        (fast_text(version=11, kind=3), "no subwords: an out-of-vocabulary word gets no vector"),
        (fast_text(version=11, kind=2), subwords),
        (fast_text(version=12, kind=3), subwords),
    ):
        words, _ = vocabtool.inspect(written(tmp_path, data, name="model.bin")).vocabularies
        assert words.notes == ("2 dimensions", expected)


@pytest.mark.parametrize("maxn", [6, 0])
def test_unknown_words_with_vectors_are_told(tmp_path: Path, maxn: int) -> None:
    """``oov``, ``words`` and ``search`` say it, once, where words outside have vectors."""
    model = written(tmp_path, fast_text(maxn=maxn), name="model.bin")
    texts = written(tmp_path, "the cat\nthe\n", name="texts.txt")
    said = "an out-of-vocabulary word still gets a vector"
    words = vocabtool.Words.of(model, rule="whitespace")
    vocabtool.Index.create(tmp_path / "index", vocabulary=words, dim=2)
    index = vocabtool.Index.open(tmp_path / "index")
    options = ("--rule", "whitespace", "--format", "json")
    notes = {
        "oov": json.loads(told("oov", model, texts, *options)[0])["notes"],
        "words": json.loads(told("words", model, "the", *options)[0])["notes"],
        "guessed": list(vocabtool.Words.of(model).notes),
        "search": list(index.search("the dog").notes),
        "known": list(index.search("the").notes),
    }
    counts = {name: sum(note.startswith(said) for note in each) for name, each in notes.items()}
    assert counts == {name: int(maxn > 0 and name != "known") for name in notes}


def test_fasttext(tmp_path: Path) -> None:
    """What fastText trains and saves: words and labels as it tells them, quantised or not."""
    fasttext = pytest.importorskip("fasttext", reason="the oracle: fastText writes the model")
    text = tmp_path / "text"
    lines = [f"__label__{number % 3} word{number} naïve {number}" for number in range(400)]
    text.write_text("\n".join(lines) + "\n", "utf-8")
    settings = {"dim": 4, "epoch": 1, "minCount": 1, "bucket": 50, "thread": 1, "verbose": 0}
    supervised = fasttext.train_supervised(str(text), **settings, minn=2, maxn=3)
    plain = tmp_path / "plain"
    plain.write_text(text.read_text("utf-8").replace("__label__", "label"), "utf-8")
    unsupervised = fasttext.train_unsupervised(str(plain), **settings)
    unsupervised.save_model(str(tmp_path / "unsupervised"))
    supervised.save_model(str(tmp_path / "supervised"))
    for name, cutoff in (("quantised", 0), ("pruned", 300)):
        smaller = fasttext.load_model(str(tmp_path / "supervised"))
        smaller.quantize(cutoff=cutoff)
        smaller.save_model(str(tmp_path / name))
    for name in ("unsupervised", "supervised", "quantised", "pruned"):
        loaded = fasttext.load_model(str(tmp_path / name))
        found = vocabtool.inspect(tmp_path / name)
        words, *labels = found.vocabularies
        assert words.tokens == loaded.words
        assert found.warnings == ()
        assert any("pruned by quantisation" in note for note in words.notes) == (name == "pruned")
        if name == "unsupervised":
            assert labels == []
        else:
            assert labels[0].tokens == loaded.labels
            assert set(loaded.labels) == {"__label__0", "__label__1", "__label__2"}


GOOD = fast_text()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(fast_text(version=13), "of version 13, wanted 11 or 12", id="version"),
        pytest.param(GOOD[:40], "the file has 40 bytes, but fastText's header", id="head"),
        pytest.param(
            fast_text(counts=(5, 4, 1))[: HEADER.size + 80], "an entry of type", id="counts"
        ),
        pytest.param(fast_text(ENTRIES[::-1]), "an entry of type 1, wanted 0", id="labels first"),
        pytest.param(fast_text(counts=(4, 3, 2)), "4 entries (3 words, 2 labels)", id="sum"),
        pytest.param(fast_text(counts=(2**31 - 1, 2**31 - 1, 0)), "cannot contain", id="2^31"),
        pytest.param(
            fast_text(((b"x" * 70_000, 0),)), "longer than 65,536 bytes", id="a long word"
        ),
    ],
)
def test_damaged_fasttext(tmp_path: Path, data: bytes, message: str) -> None:
    """What is wrong is told; a version of the format that is not known is refused."""
    with pytest.raises((InvalidFile, UnsupportedFormat), match=re.escape(message)):
        vocabtool.inspect(written(tmp_path, data, name="model.bin"))


@pytest.mark.parametrize("less", [1, 100])
def test_vectors_cut_off(tmp_path: Path, less: int) -> None:
    """The words in front of damaged vectors are whole: read, with a warning."""
    found = vocabtool.inspect(written(tmp_path, GOOD[:-less], name="model.bin"))
    assert len(found.vocabularies[0]) == 3
    (warning,) = found.warnings
    assert warning.startswith("the vectors after the dictionary are damaged or truncated")
