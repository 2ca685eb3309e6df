"""Pickles and files of arrays: recognised by content, refused with a way out, never loaded."""

from __future__ import annotations

import gzip
import io
import pickle
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vocabtool
from tests.reader_checks import survives, written
from vocabtool import UnsupportedFormat, VocabtoolError

write = partial(written, name="file.bin")
WORDS = {f"word{number}": number for number in range(5_000)}


class Trap:
    """A pickle that says what it is when it is loaded."""

    loaded = False

    def __reduce__(self) -> Any:
        return setattr, (Trap, "loaded", True)


def refusal(path: Path) -> str:
    """What is said of a file that must be recognised and refused."""
    with pytest.raises(UnsupportedFormat) as caught:
        vocabtool.inspect(path)
    return caught.value.what


def is_no_pickle(folder: Path, data: bytes) -> bool:
    """Whether a file is read, or refused for another reason."""
    try:
        vocabtool.inspect(write(folder, data))
    except VocabtoolError as error:
        return "a pickle" not in str(error)
    return True


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "value", [WORDS, list(WORDS), ("a", "b", "c"), {"the": 0}, [], [["the", 1.5], None]]
)
def test_pickles(tmp_path: Path, protocol: int, value: Any) -> None:
    """Of every protocol, large and small."""
    said = refusal(write(tmp_path, pickle.dumps(value, protocol)))
    assert said.startswith("a pickle, which is a program: it is not run. Load it where you trust")
    assert '`"\\n".join(words)`.' in said


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_unpickled(tmp_path: Path, protocol: int) -> None:
    """A pickle that would run when it is loaded does not."""
    data = pickle.dumps(Trap(), protocol)
    refusal(write(tmp_path, data))
    if protocol > 1:
        refusal(write(tmp_path, zlib.compress(data)))
    assert not Trap.loaded
    pickle.loads(data)
    assert Trap.loaded
    Trap.loaded = False


def test_gensim(tmp_path: Path) -> None:
    """Its models and vectors: how to export the words."""
    models = pytest.importorskip("gensim.models", reason="gensim writes the files")
    vectors = models.KeyedVectors(4)
    vectors.add_vectors(["the", "of"], np.ones((2, 4), np.float32))
    vectors.save(str(tmp_path / "kv"))
    sentences = [["the", "quick", "fox"]] * 9
    models.Word2Vec(sentences, vector_size=4, min_count=1).save(str(tmp_path / "w2v"))
    for name in ("kv", "w2v"):
        said = refusal(tmp_path / name)
        assert said.startswith("a model saved by gensim, a pickle, which is a program: it is not")
        assert "`KeyedVectors.save_word2vec_format`" in said


def torch_zip(names: list[str]) -> bytes:
    """A file laid out as torch.save does (torch/serialization.py): members stored, a pickle."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            content = pickle.dumps({"weights": 1}, 2) if name.endswith(".pkl") else b"\0" * 64
            archive.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize(
    "names",
    [
        ["archive/data.pkl", "archive/data/0", "archive/version"],
        ["model/code/__torch__.py", "model/data.pkl"],
        ["pytorch_model/.format_version", "pytorch_model/data.pkl", "pytorch_model/byteorder"],
    ],
)
def test_torch(tmp_path: Path, names: list[str]) -> None:
    """Zip archives with a pickle in them, also those of TorchScript."""
    said = refusal(write(tmp_path, torch_zip(names)))
    assert said.startswith("a PyTorch file with a pickle in it, which is a program: it is not")
    assert "tokenizer.json" in said


@pytest.mark.parametrize("compress", [0, 3, "zlib", "gzip", "bz2", "xz", "lzma"])
def test_joblib(tmp_path: Path, compress: Any) -> None:
    """Compressed or not."""
    joblib = pytest.importorskip("joblib", reason="joblib writes the file")
    path = tmp_path / "words.joblib"
    joblib.dump(WORDS, path, compress=(compress, 3) if isinstance(compress, str) else compress)
    said = refusal(path)
    wanted = "a compressed joblib file" if compress else "a pickle, which is "
    assert said.startswith(wanted)


def test_safetensors_and_hdf5(tmp_path: Path) -> None:
    """Files of the libraries that own the formats: which file to pass, how to save the model."""
    numpy = pytest.importorskip("safetensors.numpy", reason="safetensors writes the file")
    numpy.save_file({"weights": np.ones((9, 9))}, tmp_path / "m")
    said = refusal(tmp_path / "m")
    assert said.startswith("a safetensors file, which contains numbers but no words. Pass ")
    assert said.endswith("(tokenizer.json, vocab.txt, tokenizer.model), or the folder.")
    h5py = pytest.importorskip("h5py", reason="h5py writes the file")
    with h5py.File(tmp_path / "model.h5", "w") as file:
        file["weights"] = np.ones(9)
    said = refusal(tmp_path / "model.h5")
    assert said.startswith("an HDF5 file, which is not read.")
    assert "`model.export(FOLDER)`" in said


@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        (np.array(["the", None], object), "a NumPy array of objects, a pickle, which is a program"),
        (np.ones((9, 4), np.float32), "a NumPy array, which is not read by itself."),
        (np.array(["the", "of"]), "a NumPy array, which is not read by itself."),
    ],
)
def test_numpy(tmp_path: Path, array: Any, wanted: str) -> None:
    """Arrays of objects are pickles; others are words or vectors alone."""
    np.save(tmp_path / "a.npy", array)
    assert refusal(tmp_path / "a.npy").startswith(wanted)
    np.savez(tmp_path / "a.npz", words=array)
    assert refusal(tmp_path / "a.npz").startswith("an archive of NumPy arrays (.npz)")


@pytest.mark.parametrize(
    "data",
    [
        b"(\n)\n]\n}\n",
        b"cat\nceiling\ncar\ncan\nVan\nPot\n" * 99,
        b"Veni\nVidi\nVici\nPa\nPb\n" * 9_000,
        b"I\np0\np1\n.\n",
        b"p0\np1\np2\n.",
        b"the\nof\n.",
        b"]q the\n",
        b"x the\nof\n",
        b"xylophone\nyes\n" * 9,
        b"\x80\x04",
        b"\x80\x81\x82\x83" * 99,
        gzip.compress(b"the\nof\n", mtime=0),
        gzip.compress(b"", mtime=0)[:5],
        b"BZh9 the\n",
        b"\xfd7zXZ\x00",
        b"x\x9c" + bytes(9),
        (1 << 60).to_bytes(8, "little") + b'{"',
        torch_zip(["config.json", "assets/data.txt"]),
    ],
)
def test_words_are_no_pickles(tmp_path: Path, data: bytes) -> None:
    """Any letter is an opcode of old protocols; words, archives and noise are not taken."""
    assert is_no_pickle(tmp_path, data)


WORD = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters="()"), min_size=1, max_size=12
)


@given(
    first=st.sampled_from([*map(chr, range(33, 127)), "Vienna", "cat", "I1", "p0", "lp0", "S'a'"]),
    words=st.lists(
        WORD | st.sampled_from(["p0", "q", "queen", "Vaduz", "I1", "a", "."]), max_size=9
    ),
    repeated=st.sampled_from([1, 9_000]),
)
def test_no_plain_words_are_a_pickle(first: str, words: list[str], repeated: int) -> None:
    """Whatever the first letter of a list is, and however long the list."""
    data = "\n".join([first, *words * repeated]).encode()
    with TemporaryDirectory() as folder:
        assert is_no_pickle(Path(folder), data)


@pytest.mark.parametrize("pack", [zlib.compress, gzip.compress])
def test_bombs(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Of a compressed file only the first bytes are unpacked."""
    data = pack(bytes(50 << 20))
    tracemalloc.start()
    assert is_no_pickle(tmp_path, data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 22


def test_damage(tmp_path: Path) -> None:
    """Whatever the bytes, recognition does not raise and reading refuses."""
    short, long = pickle.dumps(list(WORDS)[:200], 0), pickle.dumps(WORDS, 4)[:2_000]
    for data in (short, long, torch_zip(["archive/data.pkl"])):
        assert survives(data, tmp_path, every=7, flips=300) >= 0
