"""fastText models: those of fastText itself, of gensim, and damaged ones."""

from __future__ import annotations

import re
import struct
from functools import partial
from pathlib import Path

import pytest

import vocabtool
from tests.reader_checks import written as write_file
from vocabtool import Place
from vocabtool.errors import InvalidFile, UnsupportedFormat

written = partial(write_file, name="model.bin")

MAGIC = struct.pack("<i", 793712314)
HEAD = struct.Struct("<2i 12i d 3i 2q")
ENTRIES = ((b"</s>", 0), (b"the", 0), ("naïve".encode(), 0), (b"__label__a", 1))


def model(
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


def test_words_and_labels(tmp_path: Path) -> None:
    """Words are one vocabulary, labels another; ids count from 0 in each."""
    found = vocabtool.inspect(written(tmp_path, model()))
    words, labels = found.vocabularies
    assert list(words.stored) == [b"</s>", b"the", "naïve".encode()]
    assert (words.name, words.kind, words.first_id, words.ids) == ("words", "vectors", 0, None)
    assert list(labels.stored) == [b"__label__a"]
    assert (labels.name, labels.kind, labels.first_id, labels.ids) == ("labels", "list", 0, None)
    assert words.unknown is labels.unknown is None
    assert words.places == labels.places == (Place("model.bin", "dictionary"),)
    assert found.warnings == ()


def test_what_unknown_means(tmp_path: Path) -> None:
    """Words outside have vectors where the model has subwords; version 11 had none for labels."""
    subwords = "an out-of-vocabulary word still gets a vector, from its n-grams of 3 to 6 "
    subwords += "characters"
    for data, expected in (
        (model(), subwords),
        (model(maxn=0), "no subwords: an out-of-vocabulary word gets no vector"),
        (model(version=11, kind=3), "no subwords: an out-of-vocabulary word gets no vector"),
        (model(version=11, kind=2), subwords),
        (model(version=12, kind=3), subwords),
    ):
        words, _ = vocabtool.inspect(written(tmp_path, data)).vocabularies
        assert words.notes == ("2 dimensions", expected)


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


def test_gensim(tmp_path: Path) -> None:
    """What gensim writes in fastText's format."""
    gensim = pytest.importorskip("gensim.models.fasttext", reason="gensim writes the files")
    text = [["the", "naïve", "日本"], ["the", "287.9"]] * 5
    trained = gensim.FastText(text, vector_size=4, min_count=1, epochs=1, bucket=20)
    path = tmp_path / "gensim.bin"
    gensim.save_facebook_model(trained, str(path))
    found = vocabtool.inspect(path)
    assert found.vocabularies[0].tokens == trained.wv.index_to_key
    assert found.warnings == ()


GOOD = model()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(model(version=13), "of version 13, wanted 11 or 12", id="version"),
        pytest.param(GOOD[:40], "the file has 40 bytes, but fastText's header", id="head"),
        pytest.param(GOOD[: HEAD.size + 30], "states 4 entries (3 words, 1 labels)", id="cut"),
        pytest.param(model(counts=(5, 4, 1))[: HEAD.size + 80], "an entry of type", id="counts"),
        pytest.param(model(ENTRIES[::-1]), "an entry of type 1, wanted 0", id="labels first"),
        pytest.param(model(counts=(4, 3, 2)), "4 entries (3 words, 2 labels)", id="sum"),
        pytest.param(model(counts=(0, 0, 0)), "header states 0 entries (0 words", id="nothing"),
        pytest.param(model(counts=(4, 5, -1)), "(5 words, -1 labels)", id="negative"),
        pytest.param(model(counts=(2**31 - 1, 2**31 - 1, 0)), "cannot contain", id="2^31"),
        pytest.param(model(dim=0), "0 dimensions, n-grams of", id="no dimension"),
        pytest.param(model(((b"x" * 70_000, 0),)), "longer than 65,536 bytes", id="a long word"),
    ],
)
def test_damaged(tmp_path: Path, data: bytes, message: str) -> None:
    """What is wrong is told; a version of the format that is not known is refused."""
    with pytest.raises((InvalidFile, UnsupportedFormat), match=re.escape(message)):
        vocabtool.inspect(written(tmp_path, data))


@pytest.mark.parametrize("less", [1, 100])
def test_vectors_cut_off(tmp_path: Path, less: int) -> None:
    """The words in front of damaged vectors are whole: read, with a warning."""
    found = vocabtool.inspect(written(tmp_path, GOOD[:-less]))
    assert len(found.vocabularies[0]) == 3
    (warning,) = found.warnings
    assert warning.startswith("the vectors after the dictionary are damaged or truncated")
