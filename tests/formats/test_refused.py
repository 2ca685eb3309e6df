"""Files that are recognised and refused by name, with a way out; no pickle is ever loaded."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import vocabtool
from tests.reader_checks import written
from vocabtool import UnsupportedFormat, VocabtoolError

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


@pytest.mark.parametrize("protocol", [0, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "value", [WORDS, list(WORDS), ("a", "b", "c"), {"the": 0}, [], [["the", 1.5], None]]
)
def test_pickles(tmp_path: Path, protocol: int, value: Any) -> None:
    """Of the protocol of text and of those with a magic number, large and small."""
    said = refusal(written(tmp_path, pickle.dumps(value, protocol)))
    assert said.startswith("a pickle (of Python,")
    assert "not run; pass the tokenizer's files beside it" in said


def test_parquet_of_others(tmp_path: Path) -> None:
    """Recognised with and without rows."""
    for rows in (["the"], []):
        parquet.write_table(pa.table({"word": pa.array(rows, pa.string())}), tmp_path / "t")
        assert refusal(tmp_path / "t").startswith("a Parquet file that was not written by vocab")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ("token,id\nthe,0\nof,1", "(CSV)"),
        (',"Token";index\n0;the;5\n', "(CSV)"),
        ("id\tword\r\n0\tthe\r\n", "(CSV)"),
        ('\ufeffword,doc_freq,x\n"a,b",5,1\n', "(CSV)"),
        ('the,0\n"a ""b"", c",1\nof,2\n', "(CSV)"),
        ("4\nhello/MS\nworld/S\nfoo\nnew york\n", "Hunspell"),
        ("20000\n" + "0/nm\nabacus/SM\nplain\nword\tpo:noun\n" * 5_000, "Hunspell"),
        ("\\data\\\nngram 1=3\n\n\\1-grams:\n-1.0\t<unk>\n\n\\end\\\n", "(ARPA)"),
        ("a comment\n\\data\\\r\nngram 1 = 3\r\n", "(ARPA)"),
        ("5 4 3 5 2 2166136261 < >\n0 0.5 0.25 0.5 1.0\n1 0.5 0.25 0.5 1.0\n", "floret"),
    ],
)
def test_tables_and_dictionaries(tmp_path: Path, data: str, what: str) -> None:
    """Files whose lines are not words: each says what to do instead."""
    said = refusal(written(tmp_path, data))
    assert what in said
    assert ("in a text file, one on each line" in said) == (what != "floret")


@pytest.mark.parametrize(
    "data",
    [
        "token\nid\nthe\n",
        "1,000\n2,500\n3,000\n",
        "0\n00\n000\nkm/h\nTCP/IP\n",
        "7\nAC/DC\nTCP/IP\n",
        "word\nword, id\n",
        "\\data\\\nwords\n",
    ],
)
def test_lists_that_resemble_them(tmp_path: Path, data: str) -> None:
    """A column's name, numbers with commas, or slashes in some words make no table of a list."""
    assert list(vocabtool.extract(written(tmp_path, data))) == data.splitlines()


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_unpickled(tmp_path: Path, protocol: int) -> None:
    """A pickle that would run when it is loaded does not."""
    data = pickle.dumps(Trap(), protocol)
    with pytest.raises(VocabtoolError):
        vocabtool.inspect(written(tmp_path, data))
    assert not Trap.loaded
    pickle.loads(data)
    assert Trap.loaded
    Trap.loaded = False


def torch_zip(names: list[str]) -> bytes:
    """A file laid out as torch.save does (torch/serialization.py): members stored, a pickle."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            content = pickle.dumps({"weights": 1}, 2) if name.endswith(".pkl") else b"\0" * 64
            archive.writestr(name, content)
    return out.getvalue()


def test_torch(tmp_path: Path) -> None:
    """Zip archives with a pickle in them, also those of TorchScript."""
    for names in (
        ["archive/data.pkl", "archive/data/0", "archive/version"],
        ["model/code/__torch__.py", "model/data.pkl"],
    ):
        assert refusal(written(tmp_path, torch_zip(names))).startswith(
            "a pickle (of Python, PyTorch"
        )


def test_safetensors_and_hdf5(tmp_path: Path) -> None:
    """Files of the libraries that own the formats: which file to pass, how to save the model."""
    numpy = pytest.importorskip("safetensors.numpy", reason="safetensors writes the file")
    numpy.save_file({"weights": np.ones((9, 9))}, tmp_path / "m")
    said = refusal(tmp_path / "m")
    assert said.startswith("a safetensors file, which contains numbers but no words; pass ")
    h5py = pytest.importorskip("h5py", reason="h5py writes the file")
    with h5py.File(tmp_path / "model.h5", "w") as file:
        file["weights"] = np.ones(9)
    assert "`model.export(FOLDER)`" in refusal(tmp_path / "model.h5")


@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        (np.array(["the", None], object), "a pickle (of Python,"),
        (np.ones((9, 4), np.float32), "NumPy arrays other than words with their vectors"),
    ],
)
def test_numpy(tmp_path: Path, array: Any, wanted: str) -> None:
    """Arrays of objects are pickles; others are words or vectors alone."""
    np.save(tmp_path / "a.npy", array)
    assert refusal(tmp_path / "a.npy").startswith(wanted)
    np.savez(tmp_path / "a.npz", words=array)
    assert refusal(tmp_path / "a.npz").startswith("NumPy arrays other than words")


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"1 'the' 3\n2 b'\\xff' 1\n3 \"it's\" 4\n", "an RWKV vocabulary"),
        (b"### SubwordTextEncoder\n### Metadata: {}\n'the_'\n", "a list of subwords of TensorFlow"),
        (b"'<pad>'\n'<EOS>'\n'the_'\n", "a list of subwords of TensorFlow"),
        (b'{"bpe_ranks": "! 0 IQ==", "special_tokens": {}}', "tiktoken ranks in JSON"),
    ],
)
def test_lists_of_other_libraries(tmp_path: Path, data: bytes, wanted: str) -> None:
    """Lists whose lines are no words are refused by name, in a folder too."""
    assert refusal(written(tmp_path, data, "vocab.txt")).startswith(wanted)
    with pytest.raises(VocabtoolError, match=wanted):
        vocabtool.extract(tmp_path)


def is_taken(folder: Path, data: bytes) -> bool:
    try:
        vocabtool.inspect(written(folder, data))
    except VocabtoolError as error:
        return "a pickle (of Python" in str(error)
    return False


@pytest.mark.parametrize(
    "data",
    [
        b"(\n)\n]\n}\n",
        b"cat\nceiling\ncar\ncan\nVan\nPot\n" * 99,
        b"1 'a'\n2 'b'\n3 'c'\n",
        torch_zip(["config.json", "assets/data.txt"]),
    ],
)
def test_words_are_not_refused(tmp_path: Path, data: bytes) -> None:
    """Any letter is an opcode of old protocols; words, archives and noise are not taken."""
    assert not is_taken(tmp_path, data)


WORD = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters="()"), min_size=1, max_size=12
)


@given(
    first=st.sampled_from([*map(chr, range(33, 127)), "Vienna", "cat", "I1", "p0", "lp0", "S'a'"]),
    words=st.lists(WORD | st.sampled_from(["queen", "Vaduz", "I1", "a", "."]), max_size=9),
    repeated=st.sampled_from([1, 9_000]),
)
def test_no_plain_words_are_a_pickle(first: str, words: list[str], repeated: int) -> None:
    """Whatever the first letter of a list is, and however long the list."""
    data = "\n".join([first, *words * repeated]).encode()
    with TemporaryDirectory() as folder:
        assert not is_taken(Path(folder), data)
