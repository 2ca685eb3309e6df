"""sentence-transformers: the library's own vectors, offline, and nothing of a stranger's is run."""

# own process: PyTorch

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.builders.tiny_sentence_transformer import build
from tests.cli.running import errors, output
from tests.encoder_cases import put_in_hub_cache
from vocabtool import Words, open_encoder
from vocabtool.errors import InvalidFile, NotFound, UnsupportedFormat, VocabtoolError

TEXTS = ["I love to use Xapian", "", "use " * 100, "love", "unheard of"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers", reason="the extra is missing")
    return build(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def model(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "model"))


def test_words(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of its tokenizer; where its files do not tell any, it encodes, and notes say why."""
    encoder = open_encoder(sound)
    assert encoder.words is not None
    assert encoder.words.unknown("I love xapian Lucene") == ["lucene"]

    def refuse(model: Path) -> Words:
        raise UnsupportedFormat("a tokenizer that nobody understands", file=str(model))

    monkeypatch.setattr(Words, "of", refuse)
    encoder = open_encoder(sound)
    assert encoder.words is None
    assert "a tokenizer that nobody understands" in encoder.notes[0]
    assert encoder.encode(["love"]).shape == (1, 8)


def test_device(sound: Path) -> None:
    """Where PyTorch computes; a device that is not here is an error that names those that are."""
    encoder = open_encoder(sound, device="cpu")
    assert np.array_equal(encoder.encode(TEXTS), open_encoder(sound).encode(TEXTS))
    for wrong in ("xpu:7", "gpu", "meta"):
        with pytest.raises(UnsupportedFormat, match=rf"device '{wrong}': .* but on cpu"):
            open_encoder(sound, device=wrong)


def test_device_of_commands(sound: Path, tmp_path: Path) -> None:
    """An index does not record the device; each command that encodes takes one."""
    file, index = tmp_path / "texts.txt", tmp_path / "index"
    file.write_text("I love to use Xapian\n")
    output("index", file, "--model", sound, "-o", index, "--device", "cpu", "--quiet")
    kept = [path.read_bytes() for path in index.rglob("*.json")]
    assert kept
    assert not any(b"device" in content for content in kept)
    assert "texts.txt:1" in output("search", index, "love", "--device", "cpu")
    other = tmp_path / "more.txt"
    other.write_text("use\n")
    device = ("--device", "cuda:77")
    for message in (
        errors("search", index, "love", *device),
        errors("index", other, "-o", index, *device),
    ):
        assert "device 'cuda:77': PyTorch does not" in message


def test_quiet(sound: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is drawn on anybody's terminal, and the library's own setting stays."""
    from transformers.utils import logging

    assert logging.is_progress_bar_enabled()
    open_encoder(sound).encode(TEXTS)
    assert capfd.readouterr() == ("", "")
    assert logging.is_progress_bar_enabled()


@pytest.mark.parametrize(
    "file", ["README.md", ".cache", "model.safetensors", "1_Pooling/config.json", "config2.json"]
)
def test_fingerprint(sound: Path, model: Path, file: str) -> None:
    """All files count but what people read."""
    wanted = open_encoder(sound).fingerprint
    encoder = open_encoder(model)
    with (model / file).open("ab") as changed:  # read when the fingerprint is first asked for
        changed.write(b" ")
    assert (encoder.fingerprint == wanted) is (file in ("README.md", ".cache"))


def test_pickled_weights(model: Path, tmp_path: Path) -> None:
    """Weights in a pickle are refused before anything is loaded, unless trusted."""
    import torch
    from safetensors.torch import load_file

    weights = load_file(model / "model.safetensors")
    wanted = open_encoder(model).encode(TEXTS)
    torch.save(weights, model / "pytorch_model.bin")
    assert np.array_equal(open_encoder(model).encode(TEXTS), wanted)
    (model / "model.safetensors").unlink()
    with pytest.raises(UnsupportedFormat, match=r"pytorch_model\.bin: pickled weights.*--trust"):
        open_encoder(model)
    trusted = open_encoder(model, trust=True)
    np.testing.assert_allclose(trusted.encode(TEXTS), wanted, rtol=0, atol=1e-6)
    again = pickle.loads(pickle.dumps(trusted))
    assert np.array_equal(again.encode(TEXTS), trusted.encode(TEXTS))
    (model / "pytorch_model.bin").rename(tmp_path / "pytorch_model.bin")
    (model / "2_Dense").mkdir()
    (model / "2_Dense" / "pytorch_model.bin").write_bytes(b"pickled")
    (model / "2_Dense" / "other.safetensors").touch()  # which the library would not look at
    with pytest.raises(UnsupportedFormat, match="2_Dense"):
        open_encoder(model)


def with_modules(model: Path, change: Callable[[list[Any]], Any]) -> None:
    file = model / "modules.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))


def test_code_of_its_own(model: Path, tmp_path: Path) -> None:
    """A module that the folder brings is not imported without trust; no other is, by any name."""
    ran = tmp_path / "ran"
    (model / "mine.py").write_text(f"open({str(ran)!r}, 'w').close()\nraise OSError('mine')\n")
    with_modules(model, lambda modules: [*modules[:1], modules[1] | {"type": "mine.Pooling"}])
    with pytest.raises(UnsupportedFormat, match=r"'mine\.Pooling'.*--trust"):
        open_encoder(model)
    assert not ran.exists()
    for wrong in ("os.system", "sentence_transformers", None, 17):
        with_modules(model, lambda modules: [modules[0] | {"type": wrong}, *modules[1:]])  # noqa: B023 - called at once
        with pytest.raises(UnsupportedFormat, match="custom module"):
            open_encoder(model)


@pytest.mark.parametrize("wrong", ["{}", "[17]", "[", "\udcff"])
def test_damage(model: Path, wrong: str) -> None:
    """A list of modules that is none, and weights that the library cannot load, are named."""
    kept = (model / "modules.json").read_bytes()
    (model / "modules.json").write_bytes(wrong.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidFile, match=r"modules\.json"):
        open_encoder(model)
    (model / "modules.json").write_bytes(kept)
    (model / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(VocabtoolError, match="cannot load it"):
        open_encoder(model)


def test_cached_name(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is found in the local cache, with its owner or without; else how to get it is said."""
    put_in_hub_cache(sound, tmp_path, "sentence-transformers--tiny")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    wanted = open_encoder(sound).fingerprint
    for name in ("tiny", "sentence-transformers/tiny"):
        assert open_encoder(f"sentence-transformers:{name}").fingerprint == wanted
    with pytest.raises(NotFound, match="hf download somebody/other"):
        open_encoder("sentence-transformers:somebody/other")
    with pytest.raises(NotFound, match=r"modules\.json, got a file"):
        open_encoder(sound / "config.json", kind="sentence-transformers")
