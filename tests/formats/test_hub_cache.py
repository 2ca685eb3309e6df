"""Where TensorFlow Hub keeps its downloads, compared with tensorflow_hub itself."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from vocabtool.errors import NotFound
from vocabtool.formats.hub_cache import find, is_handle

USE = "https://tfhub.dev/google/universal-sentence-encoder/4"
USE_SHA1 = "063d866c06683311b44b4992fd46003be952409c"
HANDLES = (
    USE,
    USE + "/",
    USE + "?tf-hub-format=compressed",
    "https://www.kaggle.com/models/google/universal-sentence-encoder/TensorFlow2/large/2",
    "http://localhost:8000/naïve%20model.tar.gz",
)


def cached(cache: Path, handle: str) -> Path:
    """A module as tensorflow_hub leaves it in its cache."""
    folder = cache / hashlib.sha1(handle.encode()).hexdigest()
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"\x08\x01\x12\x00")
    descriptor = f"Module: {handle}\nDownload Time: 2024-01-01\nDownloader Hostname: h (PID:1)"
    folder.with_suffix(".descriptor.txt").write_text(descriptor, encoding="utf-8")
    return folder


@pytest.mark.parametrize("text", [*HANDLES, "http://a"])
def test_addresses_are_handles(text: str) -> None:
    """Any http or https address is a handle, whatever its host."""
    assert is_handle(text)


@pytest.mark.parametrize(
    "text",
    [
        *("google/universal-sentence-encoder/4", "/models/use", "C:\\models\\use", "use.pb", ""),
        *("https://", "https:///x", "https:/tfhub.dev/x", "gs://bucket/use", "ftp://host/use"),
        *(" https://tfhub.dev/x/1", "file:///models/use", "https//tfhub.dev"),
    ],
)
def test_paths_are_not_handles(text: str) -> None:
    """Paths, short names and other schemes are no handles."""
    assert not is_handle(text)


def test_find_in_the_folder_of_the_environment(tmp_path: Path) -> None:
    """The module lies in TFHUB_CACHE_DIR, in a folder named by the handle's SHA-1."""
    folder = cached(tmp_path, USE)
    assert folder.name == USE_SHA1
    assert find(USE, {"TFHUB_CACHE_DIR": str(tmp_path)}) == folder


@pytest.mark.parametrize("environ", [{}, {"TFHUB_CACHE_DIR": ""}])
def test_find_in_the_temporary_folder(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without TFHUB_CACHE_DIR, or with an empty one, the cache is in the temporary folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = cached(tmp_path / "tfhub_modules", USE)
    assert find(USE, environ) == folder


def test_the_environment_is_that_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless told otherwise ``find`` asks the environment of the process, at the time of a call."""
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    folder = cached(tmp_path, USE)
    assert find(USE) == folder


def test_other_spellings_are_other_modules(tmp_path: Path) -> None:
    """A slash or a query more makes another folder, as in tensorflow_hub; the cache is named."""
    cached(tmp_path, USE)
    with pytest.raises(NotFound, match=rf"That cache holds: {USE}\n"):
        find(USE + "/", {"TFHUB_CACHE_DIR": str(tmp_path)})


def test_message(tmp_path: Path) -> None:
    """What is not there is said with the folder looked for and both ways to get it."""
    with pytest.raises(NotFound) as caught:
        find(USE, {"TFHUB_CACHE_DIR": str(tmp_path)})
    assert str(caught.value) == (
        f"{USE} is not in the local cache of TensorFlow Hub.\n"
        f"Looked for the folder {USE_SHA1} in {tmp_path} (TFHUB_CACHE_DIR).\n"
        "To download it into the cache:\n"
        "  python -c 'import tensorflow_hub; tensorflow_hub.resolve("
        f'"{USE}")\'\n'
        "Or, without TensorFlow, into a folder to give instead of the address:\n"
        f"  mkdir model && curl -L '{USE}?tf-hub-format=compressed' | tar xz -C model"
    )


def test_message_without_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says when TFHUB_CACHE_DIR is not set, and keeps a query that is there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(NotFound, match=r"tfhub_modules \(TFHUB_CACHE_DIR is not set\)") as caught:
        find("https://host/m?v=1", {})
    assert "curl -L 'https://host/m?v=1&tf-hub-format=compressed' | tar" in str(caught.value)


def test_commands_are_quoted(tmp_path: Path) -> None:
    """A handle with quotes in it cannot break out of the commands that the message shows."""
    with pytest.raises(NotFound) as caught:
        find("https://host/'; exit 7; '", {"TFHUB_CACHE_DIR": str(tmp_path)})
    command = str(caught.value).splitlines()[3].strip()
    shown = command.replace("python -c", "echo")
    words = subprocess.run(["sh", "-c", shown], capture_output=True, text=True, check=True).stdout
    assert words == (
        "import tensorflow_hub; tensorflow_hub.resolve(\"https://host/'; exit 7; '\")\n"
    )


def test_an_empty_folder_is_no_module(tmp_path: Path) -> None:
    """An empty folder is not there: tensorflow_hub would download into it."""
    (tmp_path / USE_SHA1).mkdir()
    with pytest.raises(NotFound, match="is not in the local cache"):
        find(USE, {"TFHUB_CACHE_DIR": str(tmp_path)})


def test_odd_descriptors_are_passed_over(tmp_path: Path) -> None:
    """Descriptors of other contents, without a folder or that are folders name nothing."""
    cached(tmp_path, "https://host/a").with_suffix(".descriptor.txt").write_bytes(b"\xff")
    (tmp_path / "gone.descriptor.txt").write_text("Module: https://host/gone")
    (tmp_path / "folder.descriptor.txt").mkdir()
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotFound) as caught:
        find(USE, {"TFHUB_CACHE_DIR": str(tmp_path)})
    assert "That cache holds" not in str(caught.value)


def test_handles_of_any_bytes(tmp_path: Path) -> None:
    """An argument that is not UTF-8 is looked for and not found, like any other."""
    with pytest.raises(NotFound, match="is not in the local cache"):
        find(os.fsdecode(b"https://host/\xff"), {"TFHUB_CACHE_DIR": str(tmp_path)})


def test_the_folders_are_those_of_tensorflow_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tensorflow_hub, asked for modules in its cache, answers with the same folders."""
    if importlib.util.find_spec("tensorflow_hub") is None:
        pytest.skip("the oracle is tensorflow_hub")
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    folders = [cached(tmp_path, handle) for handle in HANDLES]
    code = f"import tensorflow_hub as hub; print(*map(hub.resolve, {HANDLES!r}), sep='\\n')"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert list(map(Path, told.stdout.splitlines())) == folders == list(map(find, HANDLES))


def test_the_temporary_folder_is_that_of_tensorflow_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without TFHUB_CACHE_DIR tensorflow_hub looks below the temporary folder, too."""
    if importlib.util.find_spec("tensorflow_hub") is None:
        pytest.skip("the oracle is tensorflow_hub")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.delenv("TFHUB_CACHE_DIR", raising=False)
    folder = cached(tmp_path / "tfhub_modules", USE)
    code = f"import tensorflow_hub as hub; print(hub.resolve({USE!r}))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert Path(told.stdout.strip()) == folder == find(USE)
