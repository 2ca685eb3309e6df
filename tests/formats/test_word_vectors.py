"""Word vectors: what gensim and NumPy save is opened, rows are equal, a matrix is made once."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import vocabtool
from tests.fuzzing import damages
from vocabtool import WordVectors
from vocabtool.errors import (
    InvalidFile,
    NotFound,
    UnknownFormat,
    UnsupportedFormat,
    VocabtoolError,
)

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


def test_words(opened: WordVectors) -> None:
    """Words, duplicates kept, and sizes."""
    assert opened.words.tokens == WORDS
    assert opened.words.kind == "vectors"
    assert (len(opened), opened.dim) == (len(WORDS), DIM)


def test_vectors(opened: WordVectors) -> None:
    """Rows in any order, repeated or none: exactly the float32 that was saved."""
    for positions in ([0, 1, 2, 3, 4], [4, 0, 4], [], np.array([2], np.uint8)):
        found = opened.vectors(positions)
        assert found.dtype == np.float32
        assert np.array_equal(found, MATRIX[np.asarray(positions, int)])
        assert found.shape == (len(positions), DIM)


def test_arrays_without_words(tmp_path: Path) -> None:
    """Nothing of an array or an archive is taken for words that is not named so."""
    np.savez(tmp_path / "other.npz", words=np.array(WORDS), weights=MATRIX)
    np.save(tmp_path / "alone.npy", MATRIX)
    np.savez(tmp_path / "objects.npz", words=np.array(WORDS, object), vectors=MATRIX)
    for name, why in (
        ("other.npz", "other than `words` and `vectors`"),
        ("alone.npy", r"file of the same name that ends in \.txt"),
        ("objects.npz", "an array of Python objects, which is a pickle and never loaded"),
    ):
        with pytest.raises(UnsupportedFormat, match=why):
            vocabtool.inspect(tmp_path / name)


@pytest.mark.parametrize("positions", [[5], [-1], [0, 99]])
def test_no_such_position(opened: WordVectors, positions: list[int]) -> None:
    """A position that no word has."""
    with pytest.raises(IndexError, match="of 5 words"):
        opened.vectors(positions)


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
    assert made.stat().st_mtime_ns == before.st_mtime_ns
    assert made.stat().st_ino == before.st_ino

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


@pytest.mark.parametrize("binary_form", [False, True])
def test_gensim(tmp_path: Path, binary_form: bool) -> None:
    """What gensim's KeyedVectors writes has the vectors that gensim reads back."""
    models = pytest.importorskip("gensim.models", reason="gensim writes the files")
    saved = models.KeyedVectors(50)
    generator = np.random.default_rng(2)
    saved.add_vectors([f"w{i}" for i in range(200)], generator.standard_normal((200, 50)))
    path = tmp_path / "gensim"
    saved.save_word2vec_format(str(path), binary=binary_form)
    loaded = models.KeyedVectors.load_word2vec_format(str(path), binary=binary_form)
    opened = WordVectors.open(path)
    assert opened.words.tokens == loaded.index_to_key
    assert np.array_equal(opened.vectors(range(200)), loaded.vectors)
    assert np.array_equal(opened.matrix(), loaded.vectors)


def test_a_number_that_is_none(tmp_path: Path) -> None:
    """Text among the numbers is found at last when its row is read."""
    path = tmp_path / "vectors.txt"
    path.write_bytes(b"the 1.5 2\nof 1 2x\nand 1 2\n")
    opened = WordVectors.open(path)
    assert opened.vectors([0, 2]).tolist() == [[1.5, 2], [1, 2]]
    with pytest.raises(InvalidFile, match=r"vectors\.txt: b'1 2x' \.\.\. is not 2 numbers"):
        opened.vectors([1])
    with pytest.raises(InvalidFile, match="is not 2 numbers"):
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
    with pytest.raises(NotFound, match=r"wanted the words of vectors\.npy, one a line"):
        WordVectors.open(path, tmp_path / "nowhere")


def test_fasttext_is_refused(tmp_path: Path) -> None:
    """A fastText model is told what it is, and what to do."""
    path = tmp_path / "model.bin"
    path.write_bytes((793712314).to_bytes(4, "little") + bytes(100))
    with pytest.raises(UnsupportedFormat, match=r"a fastText model: .* print-word-vectors"):
        WordVectors.open(path)


def test_what_is_none(tmp_path: Path) -> None:
    """No file, a folder, and a file of something else."""
    path = tmp_path / "vectors"
    for wrong in (path, tmp_path):
        with pytest.raises(NotFound, match="wanted a file of word vectors, there is none"):
            WordVectors.open(wrong)
    path.write_bytes(b"the\nof\n")
    with pytest.raises(UnknownFormat, match="not a file of word vectors") as caught:
        WordVectors.open(path)
    assert len(caught.value.tried) == 2


def npz(**arrays: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type] # NumPy's stub takes a keyword for its own
    return file.getvalue()


def compressed() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, words=np.array(WORDS), vectors=MATRIX)
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


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        pytest.param(compressed, UnsupportedFormat, "vectors.npy is compressed", id="compressed"),
        pytest.param(bomb, InvalidFile, "unpacks to more than", id="bomb"),
        pytest.param(
            lambda: npz(words=OBJECTS, vectors=MATRIX),
            UnsupportedFormat,
            "an array of Python objects, which is a pickle",
            id="pickled words",
        ),
        pytest.param(lambda: npz(a=MATRIX), UnsupportedFormat, "without the arrays", id="names"),
        pytest.param(
            lambda: npz(words=MATRIX, vectors=MATRIX), UnsupportedFormat, "one row of text", id="2d"
        ),
        pytest.param(
            lambda: npz(words=np.array(WORDS), vectors=MATRIX[:4]),
            InvalidFile,
            "4 vectors, but 5 words",
            id="fewer vectors",
        ),
        pytest.param(
            lambda: npz(words=np.array(WORDS), vectors=np.arange(5)),
            UnsupportedFormat,
            "wanted floats in rows and columns",
            id="integers",
        ),
        pytest.param(
            lambda: npz(words=np.frombuffer(b"\xff" * 20, "<U1"), vectors=MATRIX),
            InvalidFile,
            "a word is not Unicode",
            id="not Unicode",
        ),
        pytest.param(lambda: npy(HEAD), InvalidFile, "needs 60 bytes, 0 are there", id="cut"),
        pytest.param(
            lambda: npy("(" * 9000), UnsupportedFormat, "neither numbers nor text", id="nested"
        ),
        pytest.param(
            lambda: npy(HEAD.replace("5, 3", f"{10**17}, 9")),
            InvalidFile,
            "needs 3,600,0",
            id="huge",
        ),
        pytest.param(
            lambda: npy(HEAD.replace("<f4", "<f5")), InvalidFile, "of type b'<f5'", id="type"
        ),
        pytest.param(
            lambda: npy(HEAD.replace("5, 3", "0, 3")), UnsupportedFormat, "wanted floats", id="none"
        ),
        pytest.param(lambda: b"\x93NUMPY\x09\x00", InvalidFile, "not a NumPy array", id="version"),
        pytest.param(
            lambda: b"\x93NUMPY\x02\x00\xff\xff\xff\xff", InvalidFile, "wanted at most", id="head"
        ),
    ],
)
def test_refused(
    tmp_path: Path, data: Callable[[], bytes], error: type[Exception], message: str
) -> None:
    """Arrays that are damaged, hostile or something else."""
    path = tmp_path / "vectors.npy"
    path.write_bytes(data())
    path.with_suffix(".txt").write_bytes(b"a\nb\nc\nd\ne\n")
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
