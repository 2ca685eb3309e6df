"""The copy of word vectors that an index keeps: small in its folder, large in the cache."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.builders.small_indexes import add, scored
from tests.conftest import ROOT
from vocabtool import Document, Index, embed, open_encoder
from vocabtool.choices import NAMED
from vocabtool.documents import ReadOptions
from vocabtool.encoders.encoder import FittedWeights
from vocabtool.errors import InvalidFile, NotFound, OtherModel
from vocabtool.index.model import read_vocabulary, write_vocabulary
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Vocabulary

# The second `twice` is never used; a text cannot contain the bytes or the word with blanks.
HARD = ["naïve", "日本", "twice", "twice", "x" * 300, "İ", "ﬁ", "e\u0301", "a\x00b", ". . .", "'"]
DIM = 256
LARGE = 40_000  # words of DIM numbers: 41 MB


def of_text(folder: Path) -> Path:
    """A text file with hard words, among them one that is not UTF-8."""
    file = folder / "vectors.txt"
    rows = np.random.default_rng(3).standard_normal((len(HARD) + 1, 4)).round(3)
    words = [*(word.encode() for word in HARD), b"\xff\xfe"]
    lines = [
        word + b" " + " ".join(map(str, row)).encode()
        for word, row in zip(words, rows, strict=True)
    ]
    file.write_bytes(b"\n".join(lines) + b"\n")
    return file


def large(folder: Path, seed: int = 0) -> Path:
    """Word vectors that are too large for the folder of an index; the hard words are among them."""
    file = folder / "vectors.npz"
    words = [*HARD, *(f"w{number}" for number in range(LARGE - len(HARD)))]
    matrix = np.random.default_rng(seed).standard_normal((LARGE, DIM)).astype(np.float32)
    np.savez(file, words=np.array(words), vectors=matrix)
    return file


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, empty."""
    monkeypatch.setenv("VOCABTOOL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def made(folder: Path, model: Path, weights: Any = "idf") -> Index:
    """An index with a document for each word."""
    texts = [*dict.fromkeys(HARD), "twice naïve unheard 日本"]
    sample = texts if weights == "idf" else None
    index = Index.create(
        folder / "index", model, rule="whitespace", weights=weights, sample=sample, dtype="float32"
    )
    add(index, [Document(f"d{number}", text) for number, text in enumerate(texts)])
    return index


def test_given_weights_are_taken_instead_of_those_beside_shards(tmp_path: Path) -> None:
    """So these need not be sound."""
    model, shards, weights = of_text(tmp_path), tmp_path / "shards", tmp_path / "weights.json"
    file = tmp_path / "texts.txt"
    file.write_text("twice naïve\n日本\n")
    embed(file, open_encoder(model, rule="whitespace"), shards)
    damaged = shards / "_weights.json"
    damaged.rename(weights)
    damaged.write_text("{}")
    more: dict[str, Any] = {"read": ReadOptions(), "rule": "whitespace"}
    index = Index.create_for(tmp_path / "index", shards, model, fitted=weights, **more)
    fitted = FittedWeights.read(weights)
    assert index.configuration.weights == fitted.fingerprint
    with pytest.raises(InvalidFile, match=r"_weights\.json: not a file of fitted weights"):
        Index.create_for(tmp_path / "other", shards, model, **more)


def test_a_search_loads_no_pandas(cache: Path, tmp_path: Path) -> None:
    """Whatever the rule of the model: it is a third of a first search."""
    model, folders = of_text(tmp_path), [str(tmp_path / rule) for rule in NAMED]
    for folder, rule in zip(folders, NAMED, strict=True):
        index = Index.create(folder, model, rule=rule, weights="none", dtype="float32")
        add(index, [Document("d", "twice")])
    code = "import sys, vocabtool as v; hits = [v.open(p).search('a, twice') for p in sys.argv[1:]]"
    code += "; print(*(some.query.words[-1].known for some in hits), 'pandas' in sys.modules)"
    command = [sys.executable, "-c", code, *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["True"] * len(NAMED) + ["False"]


@pytest.mark.parametrize("weights", ["idf", "none"])
@pytest.mark.parametrize("model", [of_text, large])
def test_a_moved_model_still_searches(
    cache: Path, tmp_path: Path, model: Callable[[Path], Path], weights: str
) -> None:
    """With the same vectors and known words as the model itself, and it can be added to."""
    file = model(tmp_path)
    index = made(tmp_path, file, weights)
    assert index.encoder is not None
    queries = [*HARD, "twice 日本 unheard", "unheard"]
    wanted = index.encoder.encode(queries)
    fingerprint = index.encoder.fingerprint
    file.unlink()
    moved = Index.open(index.path)
    assert moved.encoder is not None
    assert moved.encoder.fingerprint == fingerprint
    assert moved.encoder.encode(queries).tolist() == wanted.tolist()
    single = [moved.encoder.encode([query])[0].tolist() for query in queries]
    assert single == wanted.tolist()
    hits = moved.search("twice", fusion="dense")
    assert scored(hits) == scored(moved.search("", vector=wanted[2], fusion="dense"))
    words = moved.search("twice unheard 日本", fusion="keyword").query.words
    assert [word.known for word in words] == [True, False, True]
    assert add(moved, [Document("new", "twice")]) == 1
    assert moved.verify(model=True).documents == len(moved)
    code = "import sys; from vocabtool.cli.main import cli; cli(standalone_mode=False)"
    code += "; print(*sys.modules)"
    command = [sys.executable, "-c", code, "search", str(index.path), "twice naïve"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "pandas" not in done.stdout.split()  # half of the time of a first search
    many = [f"{word} {number}" for number in range(1_500) for word in HARD[:2]]  # in a dictionary
    assert moved.encoder.encode(many).tolist() == [*wanted[:2].tolist()] * 1_500


def test_another_model_of_the_same_name(cache: Path, tmp_path: Path) -> None:
    """Is refused if it is passed; without it, the copy answers as before."""
    file = large(tmp_path)
    index = made(tmp_path, file)
    before = scored(index.search("twice"))
    large(tmp_path, seed=1)
    with pytest.raises(OtherModel):
        Index.open(index.path, file).search("twice")
    assert scored(Index.open(index.path).search("twice")) == before


def test_a_damaged_copy_in_the_cache(cache: Path, tmp_path: Path) -> None:
    """A search compares its size, `verify` its content. It is made again from the model."""
    file = large(tmp_path)
    index = made(tmp_path, file)
    (copy,) = cache.rglob("*.npy")
    data = copy.read_bytes()
    copy.write_bytes(data[:-4])
    with pytest.raises(InvalidFile, match=rf"{copy.name}.*delete this file") as caught:
        Index.open(index.path).search("twice")
    assert caught.value.file == str(copy)
    copy.unlink()
    copy.write_bytes(data[:-4] + b"abcd")
    with pytest.raises(InvalidFile, match=rf"{copy.name}.*damaged"):
        Index.open(index.path).verify()
    copy.unlink()
    assert scored(Index.open(index.path).search("twice")) == scored(index.search("twice"))
    assert copy.read_bytes() == data
    copy.unlink()
    large(tmp_path, seed=1)
    with pytest.raises(OtherModel):
        Index.open(index.path).search("twice")
    file.unlink()
    with pytest.raises(NotFound, match=r"vectors\.npz"):
        Index.open(index.path).search("twice")


def test_large_vectors_are_not_in_the_folder(cache: Path, tmp_path: Path) -> None:
    """Those of small models are; the matrix of a text file is not stored twice in the cache."""
    made(tmp_path, large(tmp_path))
    assert not [*(tmp_path / "index").glob("*.npy")]
    (copy,) = cache.rglob("*.npy")
    with np.load(tmp_path / "vectors.npz") as arrays:
        np.testing.assert_array_equal(np.load(copy), arrays["vectors"])
    encoder = open_encoder(of_text(tmp_path), rule="whitespace", weights="none")
    (tmp_path / "small").mkdir()
    index = made(tmp_path / "small", tmp_path / "vectors.txt")
    (matrix,) = index.path.glob("matrix-*.npy")
    np.testing.assert_allclose(
        np.load(matrix)[0] / np.linalg.norm(np.load(matrix)[0]),
        encoder.encode([HARD[0]])[0],
        atol=1e-6,
    )


def test_words_of_an_index_can_be_sent_to_another_process(tmp_path: Path) -> None:
    """And a mapped vocabulary has bytes for entries, whatever their length."""
    entries = [b"%05d" % number + b"x" * 90 for number in range(20_000)]
    path = tmp_path / "vocabulary.arrow"
    write_vocabulary(Vocabulary("words", "list", ByteStrings.of(entries)), path)
    vocabulary = read_vocabulary(path)
    assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary
    assert [*vocabulary.stored.take(np.array([1, 2]))] == entries[1:3]
    assert vocabulary.stored.sha256 == ByteStrings.of(entries).sha256
