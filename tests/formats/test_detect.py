"""Which reader gets a file, what a folder of vocabulary files gives, and how one of them is picked.

What each reader makes of its format is tested beside it; SavedModels are in test_saved_model.py.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import vocabtool
from tests.builders import saved_model_bytes as b
from tests.reader_checks import FILES, written
from vocabtool import NotFound, NoVocabulary, UnknownFormat, UnsupportedFormat

WORDS = tuple(b"word%d" % number for number in range(12))
VOCAB_TXT = b"[PAD]\n[UNK]\nthe\n##s\nof\n##ly\n"
VOCAB_JSON = b'{"the": 0, "of": 1, "to": 2}'
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


# Files.


def test_every_reader_says_why_not(tmp_path: Path) -> None:
    """A file that is none of them gets an error with a reason of each."""
    file = written(tmp_path, FILES["png"], "photo.png")
    with pytest.raises(UnknownFormat, match=r"photo\.png: not a model that vocabtool") as caught:
        vocabtool.inspect(file)
    told = [reason.partition(": ")[0] for reason in caught.value.tried]
    assert (told[:3], told[-1]) == (["SavedModel", "frozen GraphDef", "GGUF"], "list of words")
    assert len(set(told)) == len(told) == 16


def test_a_list_that_begins_like_a_graph(tmp_path: Path) -> None:
    """Words are no text proto because the first is called like one of its fields."""
    for first in ("node", "library", "version"):
        file = tmp_path / f"{first}.txt"
        file.write_text(f"{first}\nedge\n")
        assert vocabtool.extract(file).tokens == [first, "edge"]
    (tmp_path / "graph.pbtxt").write_text('node {\n  name: "x"\n  op: "NoOp"\n}\n')
    with pytest.raises(UnsupportedFormat, match=r"a GraphDef in .*text format.*graph\.pb"):
        vocabtool.inspect(tmp_path / "graph.pbtxt")


# Folders.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tokenizer's folder, with all that lies in one."""
    made = tmp_path / "model"
    (made / "onnx").mkdir(parents=True)
    for name, data in {
        "vocab.json": VOCAB_JSON,
        "merges.txt": b"#version: 0.2\nt he\no f\n",
        "README.md": b"# A model\n\nword\n",
        "LICENSE": b"MIT\n\nFree\n",
        "requirements.txt": b"numpy\nscipy\n",
        ".gitattributes": b"*.bin lfs\n",
        "config.json": b'{"model_type": "gpt2", "vocab_size": 3}',
        "model.safetensors": FILES["safetensors"],
        "pytorch_model.bin": FILES["pickle_2"],
        "logo.png": FILES["png"],
    }.items():
        written(made, data, name)
    return made


def test_a_tokenizers_folder(folder: Path) -> None:
    """``vocab.json`` with ``merges.txt`` is one vocabulary; nothing else becomes one, or noise."""
    model = vocabtool.inspect(folder)
    assert model.format == "folder: JSON object of ids (Hugging Face vocab.json)"
    (vocabulary,) = model.vocabularies
    assert vocabulary.tokens == ["the", "of", "to"]
    assert (vocabulary.name, vocabulary.kind) == ("vocab.json", "bpe")
    assert vocabulary.places == (("vocab.json", "whole object"),)
    used = "files used: vocab.json with config.json, merges.txt"
    assert vocabulary.notes == ("BPE with the merges in merges.txt", used)
    assert model.warnings == ()
    assert [item.name for item in model.passed_over] == ["config.json"]


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        *(("vocab.txt", True), ("vocab_en.txt", True), ("words.txt", True), ("Words-2.TXT", True)),
        *(("tokens.txt", True), ("dictionary.txt", True), ("en.vocab", True)),
        *(("notes.txt", False), ("merges.txt", False), ("words.md", False), ("vocab", False)),
    ],
)
def test_plain_lists_are_told_by_name(name: str, taken: bool, tmp_path: Path) -> None:
    """In a folder, what any text could be is taken only where its name says so."""
    (tmp_path / name).write_bytes(b"the\nof\nto\n")
    if taken:
        assert vocabtool.extract(tmp_path).tokens == ["the", "of", "to"]
    else:
        with pytest.raises(UnknownFormat, match=f"no saved_model.pb and no .* contains {name}\\."):
            vocabtool.inspect(tmp_path)
        assert vocabtool.extract(tmp_path / name).tokens == ["the", "of", "to"]


def test_a_damaged_file_is_a_warning(folder: Path) -> None:
    """The other files are still read, and what is missing is said."""
    written(folder, FILES["gguf"][:10], "m.gguf")
    written(folder, POINTER, "tokenizer.json")
    model = vocabtool.inspect(folder)
    assert [v.name for v in model.vocabularies] == ["vocab.json"]
    one, two = model.warnings
    assert one.startswith("m.gguf: ")
    assert two.startswith("tokenizer.json: a pointer of Git LFS")


def test_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    """A link that leads out of the folder is not opened, and said to be one."""
    (tmp_path / "vocab.txt").write_bytes(VOCAB_TXT)
    (folder / "vocab.txt").symlink_to("../vocab.txt")
    (folder / "words.txt").symlink_to(tmp_path / "vocab.txt")
    (folder / "tokens.txt").symlink_to("nowhere")
    model = vocabtool.inspect(folder)
    assert [v.name for v in model.vocabularies] == ["vocab.json"]
    why = {item.name: item.why for item in model.passed_over}
    assert why["vocab.txt"] == why["words.txt"] == "symbolic links are not followed"


def cached(root: Path) -> Path:
    """A snapshot in a cache of Hugging Face: each file is a link to a blob."""
    snapshot = root / "models--someone--model" / "snapshots" / "0a1b"
    snapshot.mkdir(parents=True)
    blobs = root / "models--someone--model" / "blobs"
    blobs.mkdir()
    written(blobs, VOCAB_TXT, "c0ffee")
    (snapshot / "vocab.txt").symlink_to("../../blobs/c0ffee")
    return snapshot


def test_a_hugging_face_cache(tmp_path: Path) -> None:
    """A snapshot's links lead to its blobs: these are the files."""
    snapshot = cached(tmp_path)
    (snapshot / "onnx").mkdir()
    (snapshot / "onnx" / "vocab.txt").symlink_to("../../../blobs/c0ffee")
    for folder in (snapshot, snapshot / "onnx"):
        (vocabulary,) = vocabtool.vocabularies(folder)
        assert (vocabulary.name, vocabulary.places[0].file) == ("vocab.txt", "vocab.txt")
        assert vocabulary.tokens == VOCAB_TXT.decode().split("\n")[:-1]


def test_blobs_that_are_elsewhere(tmp_path: Path) -> None:
    """A model may bring a link as its folder of blobs."""
    snapshot = cached(tmp_path)
    blobs = snapshot.parent.parent / "blobs"
    blobs.rename(tmp_path / "elsewhere")
    blobs.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnknownFormat, match=r"no vocabulary in it; it contains vocab\.txt\."):
        vocabtool.inspect(snapshot)


@pytest.mark.parametrize(
    "target",
    [
        *("../../blobs/../blobs/c0ffee", "../../blobs/sub/c0ffee", "../../../blobs/c0ffee"),
        *("../../blobs/link", "../../blobs/..", "../../blobs/nothing", "../../blobs/c0ffee/"),
    ],
)
def test_links_that_are_not_of_a_cache(target: str, tmp_path: Path) -> None:
    """Only the one shape of a link is followed, and only to a regular file of the same cache."""
    snapshot = cached(tmp_path)
    blobs = snapshot.parent.parent / "blobs"
    (tmp_path / "blobs").mkdir()
    written(tmp_path / "blobs", VOCAB_TXT, "c0ffee")
    (blobs / "link").symlink_to(blobs / "c0ffee")
    (snapshot / "vocab.txt").unlink()
    (snapshot / "vocab.txt").symlink_to(target)
    with pytest.raises(UnknownFormat, match=r"no vocabulary in it; it contains vocab\.txt\."):
        vocabtool.inspect(snapshot)


def test_a_saved_model_comes_first(folder: Path) -> None:
    """Beside a SavedModel, no other file is looked at."""
    written(folder, b.saved_model(b.graph(*b.table_nodes(WORDS))), "saved_model.pb")
    model = vocabtool.inspect(folder)
    assert (model.format, [v.name for v in model.vocabularies]) == ("SavedModel", ["words"])


def test_a_pipe_is_no_model(tmp_path: Path) -> None:
    """What is no regular file is not opened, alone or in a folder."""
    os.mkfifo(tmp_path / "vocab.txt")
    with pytest.raises(NotFound, match="wanted a model's folder or file"):
        vocabtool.inspect(tmp_path / "vocab.txt")
    with pytest.raises(UnknownFormat, match=r"no vocabulary in it; it contains vocab\.txt\."):
        vocabtool.inspect(tmp_path)
    os.mkfifo(tmp_path / "saved_model.pb")
    with pytest.raises(NotFound, match=r"saved_model\.pb: neither a file"):
        vocabtool.inspect(tmp_path)


def test_too_many_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of more files than any model has is refused."""
    monkeypatch.setattr("vocabtool.formats.detection.MAX_FILES", 5)
    with pytest.raises(UnsupportedFormat, match="a folder of more than 5 files"):
        vocabtool.inspect(folder)


def test_one_of_several_vocabularies_is_taken(tmp_path: Path) -> None:
    """``PATH`` is as ``extract`` takes it, ``PATH#NAME`` the vocabulary of that name.

    Which of several was taken where no name says so is told, and what could not be read.
    """
    written(tmp_path, VOCAB_JSON, "vocab.json")
    written(tmp_path, b"to 0.25 0.5\nof 0.5 0.25\n", "b.vec")
    named = f"{tmp_path}#words"
    both = vocabtool.diff(tmp_path, named)
    assert both.tokens.to_pylist() == [b"the", b"of", b"to"]
    assert (both.common, both.only_a, both.only_b) == (2, 1, 0)
    taken = "using vocab.json, one of 2 vocabularies"
    assert f"{tmp_path}: {taken}; select another with {tmp_path}#NAME" in both.notes
    assert [note for note in vocabtool.diff(named, named).notes if "select" in note] == []
    with pytest.raises(NoVocabulary, match="no vocabulary named 'nonsense'"):
        vocabtool.diff(named, f"{tmp_path}#nonsense")
    with pytest.raises(NotFound, match="nowhere#words: no such file"):
        vocabtool.diff("nowhere#words", named)
    written(tmp_path, b"TFL3" * 4, "c.model")
    (warning,) = vocabtool.inspect(tmp_path).warnings
    assert f"{tmp_path}: incomplete: {warning}" in vocabtool.diff(named, named).notes


# The cache of TensorFlow Hub, compared with tensorflow_hub itself.

USE = "https://tfhub.dev/google/universal-sentence-encoder/4"
GRAPH = b.saved_model(b.graph(b.const(b"a", b.scalar_tensor(b"b"))))
HANDLES = (
    USE,
    USE + "/",
    USE + "?tf-hub-format=compressed",
    "https://www.kaggle.com/models/google/universal-sentence-encoder/TensorFlow2/large/2",
    "http://localhost:8000/naïve%20model.tar.gz",
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    return tmp_path


def hub_cached(cache: Path, handle: str) -> Path:
    """A module as tensorflow_hub leaves it in its cache."""
    folder = cache / hashlib.sha1(handle.encode()).hexdigest()
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(GRAPH)
    descriptor = f"Module: {handle}\nDownload Time: 2024-01-01\nDownloader Hostname: h (PID:1)"
    folder.with_suffix(".descriptor.txt").write_text(descriptor, encoding="utf-8")
    return folder


def missing(handle: str) -> str:
    with pytest.raises(NotFound, match="is not in the local cache of TensorFlow Hub") as caught:
        vocabtool.inspect(handle)
    return str(caught.value)


@pytest.mark.parametrize("value", [None, ""])
def test_the_temporary_folder(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without TFHUB_CACHE_DIR, or with an empty one, the cache is in the temporary folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("TFHUB_CACHE_DIR", raising=False)
    if value is not None:
        monkeypatch.setenv("TFHUB_CACHE_DIR", value)
    folder = hub_cached(tmp_path / "tfhub_modules", USE)
    assert vocabtool.inspect(USE).path == str(folder)
    assert "(TFHUB_CACHE_DIR is not set)" in missing("https://host/m?v=1")
    assert "'https://host/m?v=1&tf-hub-format=compressed' | tar" in missing("https://host/m?v=1")


def test_commands_are_quoted(cache: Path) -> None:
    """A handle with quotes in it cannot break out of the commands that the message shows."""
    found = re.search(r"python -c (.*)", missing("https://host/'; exit 7; '"))
    assert found is not None
    shown = subprocess.run(["sh", "-c", f"echo {found[1]}"], capture_output=True, text=True)
    assert (shown.returncode, shown.stdout) == (
        0,
        "import tensorflow_hub; tensorflow_hub.resolve(\"https://host/'; exit 7; '\")\n",
    )


def test_the_folders_are_those_of_tensorflow_hub(cache: Path) -> None:
    """tensorflow_hub, asked for modules in its cache, answers with the same folders."""
    if importlib.util.find_spec("tensorflow_hub") is None:
        pytest.skip("the oracle is tensorflow_hub")
    folders = [str(hub_cached(cache, handle)) for handle in HANDLES]
    code = f"import tensorflow_hub as hub; print(*map(hub.resolve, {HANDLES!r}), sep='\\n')"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = [vocabtool.inspect(handle).path for handle in HANDLES]
    assert told.stdout.splitlines() == folders == ours
