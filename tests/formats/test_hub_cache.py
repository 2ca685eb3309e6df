"""Where TensorFlow Hub keeps its downloads, compared with tensorflow_hub itself."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import vocabtool
from tests.builders import saved_model_bytes as b
from vocabtool import NotFound

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


def cached(cache: Path, handle: str) -> Path:
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
    folder = cached(tmp_path / "tfhub_modules", USE)
    assert vocabtool.inspect(USE).path == str(folder)
    assert "(TFHUB_CACHE_DIR is not set)" in missing("https://host/m?v=1")
    assert "'https://host/m?v=1&tf-hub-format=compressed' | tar" in missing("https://host/m?v=1")


@pytest.mark.parametrize(
    "text",
    [
        *("google/universal-sentence-encoder/4", "C:\\models\\use", "use.pb", "https://"),
        *("https:///x", "https:/tfhub.dev/x", "gs://bucket/use", " https://tfhub.dev/x/1"),
    ],
)
def test_paths_are_not_handles(text: str) -> None:
    """Paths, short names and other schemes are no handles."""
    with pytest.raises(NotFound, match="no such file or folder"):
        vocabtool.inspect(text)


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
    folders = [str(cached(cache, handle)) for handle in HANDLES]
    code = f"import tensorflow_hub as hub; print(*map(hub.resolve, {HANDLES!r}), sep='\\n')"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = [vocabtool.inspect(handle).path for handle in HANDLES]
    assert told.stdout.splitlines() == folders == ours
