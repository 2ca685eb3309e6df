"""Static embeddings: the vectors of the libraries that own the formats; hostile files are named."""

# own process: model2vec

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from tests.builders.word_piece import tokenizer_of
from tests.cli.running import environment
from tests.encoder_cases import PIECES, put, put_in_hub_cache
from vocabtool import Words, open_encoder
from vocabtool.errors import InvalidFile, NotFound, UnknownFormat, UnsupportedFormat, VocabtoolError

model2vec: Any = pytest.importorskip("model2vec", reason="the oracle model2vec is missing")

TEXTS = [
    *("I love to use Xapian, Lucene!", "", " ", "love", "zzz", "naïve café 日本語 😀"),
    "Ünknown\0love",
    *("use " * 700, "love, to: " * 300, "to\u00a0use?\nquestions", "I" * 5_000),
]
RANDOM = np.random.default_rng(7)


def trained(kind: str) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    if kind == "WordPiece":
        return tokenizer_of(PIECES)
    model, trainer = {
        "WordLevel": (
            models.WordLevel(unk_token="[UNK]"),
            trainers.WordLevelTrainer(special_tokens=["[UNK]"]),
        ),
        "BPE": (models.BPE(), trainers.BpeTrainer(vocab_size=60)),
        "Unigram": (
            models.Unigram(),
            trainers.UnigramTrainer(vocab_size=40, special_tokens=["<unk>"], unk_token="<unk>"),
        ),
    }[kind]
    made: Any = Tokenizer(model)
    made.pre_tokenizer = pre_tokenizers.ByteLevel() if kind == "BPE" else pre_tokenizers.Metaspace()
    made.train_from_iterator(["I love to use xapian", "to love questions, to use love"], trainer)
    made.add_special_tokens(["<extra token>"])
    return made


def matrix_for(tokenizer: Any, dtype: str) -> NDArray[Any]:
    rows = RANDOM.standard_normal((tokenizer.get_vocab_size(), 16))
    return (rows * 40).astype(dtype) if dtype == "int8" else rows.astype(dtype)


SETTINGS: list[tuple[str, bool, int | None]] = [
    *(("float32", False, None), ("float32", True, 5), ("float32", True, 512)),
    *(("float16", True, None), ("float64", False, 5), ("int8", True, 1)),
]


@pytest.mark.parametrize(("dtype", "normalize", "max_length"), SETTINGS)
@pytest.mark.parametrize("kind", ["WordPiece", "WordLevel", "BPE", "Unigram"])
def test_model2vec(
    kind: str, dtype: str, normalize: bool, max_length: int | None, tmp_path: Path
) -> None:
    """Every tokenizer, type and setting; half precision is computed in float32."""
    tokenizer = trained(kind)
    matrix = matrix_for(tokenizer, dtype)
    more = {"normalize": normalize, "max_length": max_length}
    model2vec.StaticModel(matrix, tokenizer, **more).save_pretrained(tmp_path)
    wide = "float32" if dtype == "float16" else None
    wanted = model2vec.StaticModel.from_pretrained(tmp_path, quantize_to=wide).encode(TEXTS)
    encoder = open_encoder(tmp_path)
    assert (encoder.kind, encoder.dim, encoder.max_tokens) == ("model2vec", 16, max_length)
    np.testing.assert_allclose(encoder.encode(TEXTS), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("more", [("mapping", "weights"), ("mapping",), ("weights",)])
def test_weights_and_mapping(more: tuple[str, ...], dtype: str, tmp_path: Path) -> None:
    """A row for several tokens, and a weight for each token."""
    count, matrix = len(PIECES), matrix_for(tokenizer_of(PIECES), dtype)
    given: dict[str, Any] = {}
    if "mapping" in more:
        given, matrix = {"token_mapping": RANDOM.integers(0, 5, count)}, matrix[:5]
    if "weights" in more:
        given["weights"] = RANDOM.random(count).astype(np.float32)
    model2vec.StaticModel(matrix, tokenizer_of(PIECES), **given).save_pretrained(tmp_path)
    wanted = model2vec.StaticModel.from_pretrained(tmp_path).encode(TEXTS)
    np.testing.assert_allclose(open_encoder(tmp_path).encode(TEXTS), wanted, rtol=1e-6, atol=1e-6)


def saved_by_sentence_transformers(
    folder: Path, *, normalize: bool = False, most: int | None = None, **more: Any
) -> Any:
    library = pytest.importorskip(
        "sentence_transformers", reason="the extra sentence-transformers is not installed"
    )
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    tokenizer = tokenizer_of(PIECES)
    if most is not None:
        tokenizer.enable_truncation(most)
    embedding = StaticEmbedding(tokenizer, matrix_for(tokenizer, "float32"))
    modules = [embedding, Normalize()] if normalize else [embedding]
    made = library.SentenceTransformer(modules=modules, device="cpu", **more)
    made.save(str(folder))
    return made


@pytest.mark.parametrize(
    ("nested", "normalize", "most"), [(False, False, None), (False, True, 3), (True, True, None)]
)
def test_sentence_transformers(
    nested: bool, normalize: bool, most: int | None, tmp_path: Path
) -> None:
    """Unknown pieces count, and so do all tokens, or those of the tokenizer's own limit."""
    library = saved_by_sentence_transformers(tmp_path, normalize=normalize, most=most)
    if nested:  # where another version puts it
        part = tmp_path / "0_StaticEmbedding"
        part.mkdir(exist_ok=True)
        for name in ("model.safetensors", "tokenizer.json"):
            (tmp_path / name).rename(part / name)
        modules = json.loads((tmp_path / "modules.json").read_text())
        modules[0]["path"] = part.name
        (tmp_path / "modules.json").write_text(json.dumps(modules))
    encoder = open_encoder(tmp_path)
    assert (encoder.kind, encoder.max_tokens) == ("model2vec", most)
    wanted = library.encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(encoder.encode(TEXTS), wanted, rtol=1e-6, atol=1e-6)
    bare = open_encoder(tmp_path, kind="sentence-transformers")
    np.testing.assert_allclose(bare.encode(TEXTS), wanted, rtol=1e-6, atol=1e-6)
    assert Words.of(tmp_path).unknown("love Lucene") == ["lucene"]


def test_tokenlearn() -> None:
    """A real model of 276,326 tokens in 10,000 rows of int8: the library's vectors."""
    package: Any = pytest.importorskip("static_model", reason="tokenlearn-static-model is missing")
    folder = Path(package.__file__).parent / "model"
    wanted = model2vec.StaticModel.from_pretrained(folder).encode(TEXTS)  # half a gigabyte
    encoder = open_encoder(folder)
    np.testing.assert_allclose(encoder.encode(TEXTS), wanted, rtol=0, atol=1e-6)
    assert encoder.words is not None
    assert encoder.words.unknown("I love 🜁") == ["🜁"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    rows = np.arange(len(PIECES) * 3, dtype=np.float32).reshape(-1, 3)
    folder = tmp_path / "model"
    model2vec.StaticModel(rows, tokenizer_of(PIECES)).save_pretrained(folder)
    return folder


def test_ways_to_name_it(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, its tensors, a prefix, a name in the local cache: the same encoder; no torch."""
    wanted = open_encoder(model)
    put_in_hub_cache(model, tmp_path / "hub", "somebody--tiny")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    named = (model / "model.safetensors", f"model2vec:{model}", "model2vec:somebody/tiny")
    for name in named:
        encoder = open_encoder(name)
        assert encoder.fingerprint == wanted.fingerprint
        assert np.array_equal(encoder.encode(["love"]), [[6, 7, 8]])
        assert Words.of(name).unknown("love Lucene") == ["lucene"]
    with pytest.raises(NotFound, match="hf download somebody/other"):
        open_encoder("model2vec:somebody/other")
    (model / "modules.json").unlink()  # which old versions do not write
    assert open_encoder(model).fingerprint == wanted.fingerprint
    code = "import sys, vocabtool; vocabtool.open_encoder(sys.argv[1]).encode(['love']); "
    code += "print({'torch', 'safetensors', 'sentence_transformers'} & set(sys.modules))"
    command = [sys.executable, "-c", code, str(model)]
    assert subprocess.check_output(command, env=environment(), text=True) == "set()\n"


@pytest.mark.parametrize("file", ["README.md", "modules.json", "tokenizer.json"])
def test_fingerprint(model: Path, file: str) -> None:
    """Tensors, tokenizer and settings count, and nothing else."""
    before = open_encoder(model).fingerprint
    with (model / file).open("ab") as changed:
        changed.write(b"\n")
    assert (open_encoder(model).fingerprint == before) is (file != "tokenizer.json")
    edit(model, normalize=True)
    assert open_encoder(model).fingerprint != before


def edit(model: Path, **values: object) -> None:
    file = model / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def tensors(**changed: Any) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        file = model / "model.safetensors"
        held = {**load_file(file), **changed}
        save_file({name: each for name, each in held.items() if each is not None}, file)

    return change


def header(
    stated: object, values: bytes = b"", length: int | None = None
) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        text = stated if isinstance(stated, bytes) else json.dumps(stated).encode()
        start = struct.pack("<Q", len(text) if length is None else length)
        (model / "model.safetensors").write_bytes(start + text + values)

    return change


def embeddings(**facts: Any) -> Callable[[Path], None]:
    sound = {"dtype": "F32", "shape": [len(PIECES), 1], "data_offsets": [0, 4 * len(PIECES)]}
    return header({"embeddings": sound | facts}, bytes(4 * len(PIECES)))


ROWS = np.ones((len(PIECES), 2), np.float32)
DAMAGED: dict[str, tuple[Callable[[Path], None], type[VocabtoolError], str]] = {
    "no bytes": (header(b"", b""), InvalidFile, "not safetensors"),
    "long header": (header(b"{", length=1 << 40), InvalidFile, "1,099,511,627,776 bytes"),
    "cut header": (
        header(b"{}", length=100),
        InvalidFile,
        "the header needs 100 bytes, but only 2 are left",
    ),
    "negative": (embeddings(shape=[-1, -1]), InvalidFile, "invalid shape or data_offsets"),
    "fraction": (embeddings(data_offsets=[0, 1.5]), InvalidFile, "invalid shape or data_offsets"),
    "beyond": (embeddings(shape=[1 << 30, 1 << 30]), InvalidFile, "damaged or truncated"),
    "type": (embeddings(dtype="BF16"), UnsupportedFormat, "BF16.*wanted one of F64"),
    "no numbers": (tensors(embeddings=ROWS > 0), InvalidFile, "wanted a matrix.*bool"),
    "few rows": (tensors(embeddings=ROWS[1:]), InvalidFile, "need 16 rows, but the matrix has 15"),
    "short mapping": (tensors(mapping=np.zeros(3, np.int64)), InvalidFile, "'mapping' is int64"),
    "row below": (tensors(mapping=np.full(16, -1)), InvalidFile, "below 0"),
    "weights": (tensors(weights=ROWS), InvalidFile, "'weights' is float32 of shape"),
    "normalize": (lambda model: edit(model, normalize="yes"), InvalidFile, "normalize is a text"),
    "module": (
        put("modules.json", '[{"type": "mine.StaticEmbedding"}]'),
        UnknownFormat,
        r"its modules are mine\.StaticEmbedding",
    ),
    "path": (
        put(
            "modules.json",
            '[{"type": "sentence_transformers.models.StaticEmbedding", "path": "../model"}]',
        ),
        InvalidFile,
        "names a file by the path",
    ),
    "missing": (
        lambda model: (model / "tokenizer.json").unlink(),
        UnknownFormat,
        r"no tokenizer\.json",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage(name: str, model: Path) -> None:
    """Every error names the file and what was wanted."""
    change, error, message = DAMAGED[name]
    change(model)
    with pytest.raises(error, match=message) as caught:
        open_encoder(f"model2vec:{model}")
    assert re.search(r"[/ ](model\.safetensors|\w+\.json|model)\b", f" {caught.value}")


def test_flipped(model: Path, full: bool) -> None:
    """A bit of the file that is another one: vectors, or our own error."""
    file = model / "model.safetensors"
    held = file.read_bytes()
    most = 8 + int.from_bytes(held[:8], "little") + 60  # and of the first values
    fine = 0
    for at in range(0, most, 1 if full else 5):
        file.write_bytes(held[:at] + bytes([held[at] ^ 1 << at % 8]) + held[at + 1 :])
        with suppress(VocabtoolError):
            fine += open_encoder(f"model2vec:{model}").encode(TEXTS[:5]).shape[0] == 5
    assert 0 < fine < most


def test_unaligned(model: Path) -> None:
    """Values that do not begin at a multiple of their size are copied."""
    held = load_file(model / "model.safetensors")["embeddings"]
    facts = {"dtype": "F32", "shape": list(held.shape), "data_offsets": [0, held.nbytes]}
    text = json.dumps({"embeddings": facts}).encode()
    text += b" " * (-len(text) % 4 + 1)
    header(text, held.tobytes())(model)
    assert np.array_equal(open_encoder(model).encode(["love"]), [[6, 7, 8]])
