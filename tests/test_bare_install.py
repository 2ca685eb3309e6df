"""The package as a user gets it: a wheel in an environment of its own, without extras."""

from __future__ import annotations

import json
import subprocess
import venv
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with vocabtool and what it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", ROOT], check=True)
    return folder / "bin"


def run(bare: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [str(bare / "vocabtool"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def test_commands(bare: Path, tmp_path: Path) -> None:
    """Help, an extraction in every format, and words of a tokenizer.json work without any extra."""
    done = run(bare, "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "extract" in done.stdout
    for output in ("text", "json", "csv", "parquet"):
        file = tmp_path / output
        model = str(ROOT / "data" / "sentence_encoder")
        done = run(bare, "extract", model, "--format", output, "-o", str(file), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert file.stat().st_size > 10_000
    assert len((tmp_path / "text").read_text("utf-8").split("\n")) == 2001
    level = {"type": "WordLevel", "vocab": {"[UNK]": 0, "love": 1}, "unk_token": "[UNK]"}
    parts = {"pre_tokenizer": {"type": "Whitespace"}, "model": level}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", **parts}))
    done = run(bare, "words", "tokenizer.json", "love Xapian", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["love\t1\tknown", "Xapian\t0\tunknown"]


def test_tensorflow_is_not_there(bare: Path) -> None:
    """Neither TensorFlow comes along, nor is the marker missing that types are to be used."""
    code = "from importlib.resources import files; from importlib.util import find_spec; "
    code += "print(find_spec('tensorflow'), find_spec('pytest'), "
    code += "(files('vocabtool') / 'py.typed').is_file())"
    done = subprocess.run([bare / "python", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None None True\n"
