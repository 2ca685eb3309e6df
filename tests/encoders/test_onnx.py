"""ONNX: the vectors of sentence-transformers on the same weights; hostile graphs are named."""

# own process: PyTorch

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.builders.minilm import minilm as minilm_folder
from tests.builders.onnx_models import export, graph, half, modules, quantized, save
from tests.builders.saved_model_bytes import field, number
from tests.builders.word_piece import tokenizer_of
from tests.cli.running import environment
from tests.encoder_cases import PIECES, put, put_in_hub_cache, with_ends
from vocabtool import Words, open_encoder
from vocabtool.errors import InvalidFile, NotFound, UnknownFormat, UnsupportedFormat, VocabtoolError

onnx: Any = pytest.importorskip("onnx", reason="onnx, which writes the files, is missing")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

TEXTS = [
    *("I love to use Xapian, Lucene!", "", " ", "love", "zzz", "naïve café 日本語 😀"),
    *("use " * 700, "love, to: " * 30, "to\u00a0use?\nquestions", "I" * 300, "Ünknown\0love"),
]
POOLING = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
COUNT = len(PIECES) + 2


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tokenizer = with_ends(PIECES)
    return modules(save(tmp_path / "model", graph(COUNT), tokenizer), pooling_mode="mean")


# The library's vectors.


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, NDArray[Any]]:
    """MiniLM, exported by PyTorch, and the vectors of sentence-transformers."""
    source = minilm_folder()
    pytest.importorskip("torch", reason="torch, which exports the model, is missing")
    library: Any = pytest.importorskip(
        "sentence_transformers", reason="the oracle sentence-transformers is missing"
    )
    bare = library.SentenceTransformer(str(source), device="cpu", local_files_only=True)
    wanted = bare.encode(TEXTS, show_progress_bar=False)
    return export(source, tmp_path_factory.mktemp("minilm") / "model"), wanted


def cosines(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray(np.sum(a * b, axis=1) / lengths)


def test_minilm(minilm: tuple[Path, NDArray[Any]]) -> None:
    """float32: the same numbers, of texts of every length; its own limit of 256 tokens."""
    folder, wanted = minilm
    encoder = open_encoder(folder)
    assert (encoder.kind, encoder.dim, encoder.max_tokens) == ("onnx", 384, 254)
    found = encoder.encode(TEXTS)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6)
    assert cosines(found, wanted).min() > 0.99999
    assert encoder.words is not None
    assert encoder.words.pieces("xapian") == ["x", "##ap", "##ian"]


@pytest.mark.parametrize(("convert", "least"), [(half, 0.9999), (quantized, 0.95)])
def test_precisions(
    convert: Callable[[Path], Path], least: float, minilm: tuple[Path, NDArray[Any]]
) -> None:
    """float16 and int8, chosen by name: near the same; a vector never depends on other texts."""
    folder, wanted = minilm
    plain = open_encoder(folder)
    file = convert(folder)
    encoder = open_encoder(f"onnx:{file}")
    found = encoder.encode(TEXTS)
    assert cosines(found, wanted).min() > least
    assert encoder.fingerprint != plain.fingerprint
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(found, alone, rtol=0, atol=1e-3 if convert is half else 0)
    assert any(file.name in note for note in open_encoder(folder).notes)
    assert any("one by one" in note for note in encoder.notes) is (convert is quantized)


@pytest.mark.parametrize("modes", [*((mode,) for mode in POOLING), ("cls", "max", "lasttoken")])
def test_pooling(modes: tuple[str, ...], model: Path) -> None:
    """Every kind of pooling is the library's."""
    torch: Any = pytest.importorskip("torch", reason="the oracle torch is missing")
    library: Any = pytest.importorskip(
        "sentence_transformers.sentence_transformer.modules", reason="the oracle is missing"
    )
    from onnx.reference import ReferenceEvaluator

    modules(model, ["Transformer", "Pooling"], pooling_mode=list(modes))
    encoder = open_encoder(model)
    texts = ["love", "I love to use Xapian, Lucene!", "to use"]
    tokenizer = with_ends(PIECES)
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(texts)
    parts = (("input_ids", "ids"), ("attention_mask",) * 2, ("token_type_ids", "type_ids"))
    feed = {name: np.array([getattr(each, key) for each in encoded]) for name, key in parts}
    reference: Any = ReferenceEvaluator(onnx.load(model / "model.onnx"))
    (hidden,) = reference.run(None, feed)
    mask = torch.from_numpy(feed["attention_mask"])
    features = {"token_embeddings": torch.from_numpy(hidden), "attention_mask": mask}
    wanted = library.Pooling(hidden.shape[2], modes)(features)["sentence_embedding"].numpy()
    np.testing.assert_allclose(encoder.encode(texts), wanted, rtol=0, atol=1e-6)
    assert encoder.dim == hidden.shape[2] * len(modes)


def test_old_switches(model: Path) -> None:
    """The switches of older versions mean the same; none of them is the mean."""
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}, ["cls", "max"]),
        ({}, "mean"),
    ]
    for switches, mode in cases:
        modules(model, **switches)
        old = open_encoder(model).encode(TEXTS)
        modules(model, pooling_mode=mode)
        assert np.array_equal(open_encoder(model).encode(TEXTS), old)


# What a graph and a folder may be.


def test_without_settings(model: Path) -> None:
    """The mean, not scaled, and 512 tokens: both are said."""
    scaled = open_encoder(model).encode(TEXTS)
    (model / "modules.json").unlink()
    shutil.rmtree(model / "1_Pooling")
    encoder = open_encoder(model)
    found = encoder.encode(TEXTS)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    assert not np.allclose(lengths, 1)
    np.testing.assert_allclose(found / lengths, scaled, rtol=0, atol=1e-6)
    assert any("no modules.json" in note and "mean" in note for note in encoder.notes)
    assert any("no file states" in note and "512" in note for note in encoder.notes)


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"sentence_bert_config": {"max_seq_length": 9}, "config": {}}, 9),
        ({"tokenizer_config": {"model_max_length": 7}}, 7),
        ({"config": {"max_position_embeddings": 9, "model_type": "roberta"}}, 7),
    ],
)
def test_limit(files: dict[str, Any], wanted: int, model: Path) -> None:
    """How many tokens count, by the file that says it; special tokens are among them."""
    for name, settings in files.items():
        (model / f"{name}.json").write_text(json.dumps(settings))
    encoder = open_encoder(model)
    assert encoder.max_tokens == wanted - 2
    most = "use " * (wanted - 2)
    first, second = encoder.encode([most, most + "love love"])
    assert np.array_equal(first, second)
    assert not np.allclose(first, encoder.encode(["use " * (wanted - 3) + "love"]))


def test_the_side_that_is_cut(model: Path) -> None:
    """Left, if the tokenizer's settings say so."""
    (model / "tokenizer_config.json").write_text(
        json.dumps({"model_max_length": 4, "truncation_side": "left"})
    )
    encoder = open_encoder(model)
    assert np.array_equal(*encoder.encode(["love love to use", "to use"]))
    assert any("of a text, the last" in note for note in encoder.notes)


@pytest.mark.parametrize(
    "facts",
    [
        {"inputs": ["input_ids", "attention_mask"]},
        {"inputs": ["input_ids"]},
        {"numbers": "INT32"},
        {"output": "token_embeddings"},
        {"output": "something"},
    ],
)
def test_graphs(facts: dict[str, Any], model: Path) -> None:
    """Inputs that a graph lacks are not given; without a mask, nothing is padded."""
    save(model, graph(COUNT, **facts), with_ends(PIECES))
    encoder = open_encoder(model)
    found = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(found, alone, rtol=0, atol=5e-6)


def test_outputs(model: Path) -> None:
    """A vector of each text is used as it is; among several outputs, one can be chosen."""
    plain = open_encoder(model)
    modules(model, ["Transformer", "Pooling", "Dense"], pooling_mode="cls")
    with pytest.raises(UnsupportedFormat, match=r"the modules Transformer, Pooling, Dense: export"):
        open_encoder(model)
    whole = graph(COUNT, output="sentence_embedding", pooled=True)
    whole.graph.output.append(onnx.helper.make_tensor_value_info("hidden", 1, None))
    save(model, whole, with_ends(PIECES))
    pooled = open_encoder(model).encode(TEXTS)
    modules(model, ["Transformer", "Pooling"], pooling_mode="cls")
    by_us = open_encoder(model, output="hidden")
    np.testing.assert_allclose(by_us.encode(TEXTS), pooled, rtol=0, atol=1e-6)
    assert by_us.fingerprint not in (plain.fingerprint, open_encoder(model).fingerprint)
    assert by_us.options.given_options() == {"kind": "onnx", "output": "hidden"}
    with pytest.raises(VocabtoolError, match=r"no output 'nothing'.*sentence_embedding, hidden"):
        open_encoder(model, output="nothing")
    whole.graph.output[0].name = whole.graph.node[-1].output[0] = "another"
    save(model, whole, with_ends(PIECES))
    with pytest.raises(VocabtoolError, match=r"several outputs.*--output"):
        open_encoder(model)


def test_device(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider by its short name; one that is missing, or does not start, is an error."""
    plain = open_encoder(model)
    named = open_encoder(model, device="CPU")
    assert named.options.given_options() == {"kind": "onnx", "device": "CPU"}
    assert named.fingerprint == plain.fingerprint
    assert np.array_equal(named.encode(TEXTS), plain.encode(TEXTS))
    for wrong in ("cuda", "cuda:1", "gpu", "cpu:x", "azure", ""):
        with pytest.raises(UnsupportedFormat, match=rf"device '{wrong}': .* on cpu; for a GPU"):
            open_encoder(model, device=wrong)
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: providers)
    with (
        pytest.warns(UserWarning, match="not in available provider"),
        pytest.raises(UnsupportedFormat, match="device 'cuda:1': onnxruntime does not run here"),
    ):
        open_encoder(model, device="cuda:1")


def test_texts_without_tokens(tmp_path: Path) -> None:
    """Zero, and the others are not changed."""
    save(tmp_path, graph(len(PIECES)), tokenizer_of(PIECES))
    encoder = open_encoder(tmp_path)
    found = encoder.encode(["", "love", " "])
    assert not found[[0, 2]].any()
    assert np.array_equal(found[1:2], encoder.encode(["love"]))


def test_ways_to_name_it(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, its graph, a prefix, a name in the local cache: the same encoder; no torch."""
    (model / "onnx").mkdir()
    (model / "model.onnx").rename(model / "onnx" / "model.onnx")
    wanted = open_encoder(model)
    put_in_hub_cache(model, tmp_path / "hub", "somebody--tiny")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    named = (model / "onnx/model.onnx", f"onnx:{model}/onnx/model.onnx", "onnx:somebody/tiny")
    for name in named:
        encoder = open_encoder(name)
        assert encoder.fingerprint == wanted.fingerprint
        assert np.array_equal(encoder.encode(TEXTS), wanted.encode(TEXTS))
        assert Words.of(name).unknown("love Lucene") == ["lucene"]
    code = "import sys, vocabtool; vocabtool.open_encoder(sys.argv[1]).encode(['love']); "
    code += "print({'torch', 'onnx', 'sentence_transformers'} & set(sys.modules))"
    command = [sys.executable, "-c", code, str(model)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_which_graph(model: Path) -> None:
    """model.onnx before others, the only other one, or the one that is named."""
    shutil.copy(model / "model.onnx", model / "model_int8.onnx")
    assert any("model_int8.onnx" in note for note in open_encoder(model).notes)
    (model / "model.onnx").rename(model / "model_fp16.onnx")
    with pytest.raises(UnknownFormat, match=r"model_fp16\.onnx, model_int8\.onnx"):
        open_encoder(f"onnx:{model}")
    (model / "model_int8.onnx").unlink()
    assert open_encoder(model).dim == 6


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_cores(model: Path) -> None:
    """A process that may use one core starts no threads for the others."""
    code = "import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
    code += "import onnxruntime, vocabtool; before = len(os.listdir('/proc/self/task')); "
    code += "encoder = vocabtool.open_encoder(sys.argv[1]); "
    code += "print(encoder._session.get_session_options().intra_op_num_threads)"
    command = [sys.executable, "-c", code, str(model)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.parametrize("file", ["README.md", "model.onnx", "tokenizer.json"])
def test_fingerprint(model: Path, file: str) -> None:
    """Graph, tokenizer and settings count, and nothing else."""
    before = open_encoder(model).fingerprint
    if file == "tokenizer.json":
        made = with_ends(PIECES)
        made.normalizer = None
        made.save(str(model / file))
    else:
        with (model / file).open("ab") as changed:
            changed.write(number(5, 7) if file == "model.onnx" else b"\n")
    assert (open_encoder(model).fingerprint == before) is (file == "README.md")
    modules(model, pooling_mode="cls")
    assert open_encoder(model).fingerprint != before


# Tensors in other files.


def outside(model: Path, location: str = "rows.bin", **more: str) -> Path:
    """Put the first tensor into a file, or say so."""
    whole = graph(COUNT)
    tensor = whole.graph.initializer[0]
    (model / "rows.bin").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=value)
    onnx.save(whole, model / "model.onnx")
    return model


def test_tensors_in_another_file(model: Path) -> None:
    """They are read, and they are part of the fingerprint."""
    wanted = open_encoder(model).encode(TEXTS)
    size = COUNT * 6 * 4
    encoder = open_encoder(outside(model, offset="0", length=str(size)))
    assert np.array_equal(encoder.encode(TEXTS), wanted)
    before = encoder.fingerprint
    with (model / "rows.bin").open("ab") as changed:
        changed.write(b"\0")
    assert open_encoder(model).fingerprint != before


def test_links(model: Path, tmp_path: Path) -> None:
    """A link is followed in a Hugging Face cache only."""
    wanted = open_encoder(outside(model)).fingerprint
    (tmp_path / "blobs").mkdir()
    (model / "rows.bin").rename(tmp_path / "blobs" / "0a1b")
    (model / "rows.bin").symlink_to(tmp_path / "blobs" / "0a1b")
    with pytest.raises(InvalidFile, match=r"model\.onnx: rows\.bin.*symbolic link"):
        open_encoder(model)
    snapshot = tmp_path / "snapshots" / "1"
    snapshot.parent.mkdir()
    model.rename(snapshot)
    (snapshot / "rows.bin").unlink()
    (snapshot / "rows.bin").symlink_to("../../blobs/0a1b")
    (snapshot / "model.onnx").rename(tmp_path / "blobs" / "2c3d")
    (snapshot / "model.onnx").symlink_to("../../blobs/2c3d")
    assert open_encoder(snapshot).fingerprint == wanted
    (tmp_path / "secret").write_bytes(bytes(1000))
    (tmp_path / "blobs" / "0a1b").unlink()
    (tmp_path / "blobs" / "0a1b").symlink_to(tmp_path / "secret")
    with pytest.raises(InvalidFile, match="symbolic link"):
        open_encoder(snapshot)


OUTSIDE: dict[str, tuple[dict[str, str], type[VocabtoolError], str]] = {
    "above": ({"location": "../rows.bin"}, InvalidFile, "opens only files"),
    "memory": ({"location": "*/_ORT_MEM_ADDR_/*"}, InvalidFile, "opens only files"),
    "missing": ({"location": "none.bin"}, NotFound, r"none\.bin, which is missing"),
    "far": ({"offset": "10", "length": "432"}, InvalidFile, "ends at byte 442 of rows.bin.*432"),
    "negative": ({"offset": "-4"}, InvalidFile, "not whole numbers"),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_tensors_elsewhere(name: str, model: Path) -> None:
    """Nothing outside the folder is opened, and nothing behind the end of a file."""
    facts, error, message = OUTSIDE[name]
    with pytest.raises(error, match=message) as caught:
        open_encoder(outside(model, **facts))
    assert "model.onnx" in str(caught.value)


def in_attribute() -> bytes:
    """A constant in a branch of a node, whose values are elsewhere."""
    tensor = number(1, 3) + number(2, 1) + field(13, field(1, b"location") + field(2, b"../secret"))
    constant = field(4, b"Constant") + field(5, field(1, b"value") + field(5, tensor))
    branch = field(1, constant)
    return field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, branch)))


@pytest.mark.parametrize("place", ["branch", "function", "training", "sparse", "repeated"])
def test_hidden_tensors(place: str, model: Path) -> None:
    """Every place where a tensor may be is looked at, before onnxruntime sees the graph."""
    entry = field(13, field(1, b"location") + field(2, b"../secret"))
    added = {
        "branch": field(7, in_attribute()),
        "function": field(25, field(7, field(5, field(5, entry)))),
        "training": field(20, field(2, in_attribute())),
        "sparse": field(7, field(15, field(2, entry))),
        "repeated": field(7, field(5, field(13, field(1, b"location") + field(2, b"a")) + entry)),
    }[place]
    with (model / "model.onnx").open("ab") as file:
        file.write(added)
    with pytest.raises(InvalidFile, match=r"'\.\./secret'.*opens only files"):
        open_encoder(model)


# Damage.


def changed(**facts: Any) -> Callable[[Path], None]:
    return lambda model: onnx.save(graph(COUNT, **facts), model / "model.onnx")


def operator(op: str, domain: str) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        whole = graph(COUNT)
        whole.graph.node[-1].op_type = op
        whole.graph.node[-1].domain = domain
        whole.opset_import.append(onnx.helper.make_opsetid(domain, 1))
        onnx.save(whole, model / "model.onnx")

    return change


TRANSFORMER = '{"type": "sentence_transformers.models.Transformer", "path": ""}'
DAMAGED: dict[str, tuple[Callable[[Path], None], type[VocabtoolError], str]] = {
    "custom operator": (operator("Steal", "evil"), InvalidFile, "onnxruntime refuses it.*evil"),
    "cut": (
        lambda model: put("model.onnx", (model / "model.onnx").read_bytes()[:-9])(model),
        VocabtoolError,
        "past the end of its message",
    ),
    "no model": (put("model.onnx", b"hello"), UnknownFormat, "not an ONNX model"),
    "no input": (changed(inputs=["ids"]), UnknownFormat, "no input 'input_ids'; its inputs: ids"),
    "other input": (
        changed(inputs=["input_ids", "attention_mask", "position_ids"]),
        UnsupportedFormat,
        "input 'position_ids' .* is not supported",
    ),
    "fixed": (changed(shape=(1, 8)), UnsupportedFormat, r"fixed shape \[1, 8\].*dynamic axes"),
    "few rows": (
        lambda model: onnx.save(graph(3), model / "model.onnx"),
        VocabtoolError,
        "onnxruntime fails on 1 texts",
    ),
    "no tokenizer": (
        lambda model: (model / "tokenizer.json").unlink(),
        UnknownFormat,
        "no tokenizer.json beside it",
    ),
    "foreign": (
        put("modules.json", '[{"type": "mine.Pooling"}]'),
        UnsupportedFormat,
        r"does not apply the modules mine\.Pooling",
    ),
    "path": (
        put(
            "modules.json",
            f'[{TRANSFORMER}, {{"type": "sentence_transformers.models.Pooling", "path": "../x"}}]',
        ),
        InvalidFile,
        "opens only files",
    ),
    "pooling": (
        put("1_Pooling/config.json", '{"pooling_mode": "median"}'),
        InvalidFile,
        "pooling_mode is .*median.*wanted one or more of cls",
    ),
    "limit": (
        put("sentence_bert_config.json", '{"max_seq_length": 0}'),
        InvalidFile,
        "sentence_bert_config.json: max_seq_length is '0'",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage(name: str, model: Path) -> None:
    """What is wrong, and where; never a traceback."""
    change, error, message = DAMAGED[name]
    change(model)
    with pytest.raises(error, match=re.compile(message, re.DOTALL)):
        open_encoder(f"onnx:{model}")


def test_lower_case(model: Path) -> None:
    """Texts are lower-cased before the tokenizer, which may not do it; its words say so."""
    put("sentence_bert_config.json", '{"do_lower_case": true}')(model)
    wanted = open_encoder(model).encode(["LOVE"])
    tokenizer = with_ends(PIECES)
    tokenizer.normalizer = None
    tokenizer.save(str(model / "tokenizer.json"))
    encoder = open_encoder(model)
    assert wanted.any()
    assert np.array_equal(encoder.encode(["LOVE"]), wanted)
    assert encoder.words is not None
    assert encoder.words.unknown("LOVE") == []


def test_flipped_bytes(model: Path) -> None:
    """Whatever byte of a graph is another: vectors, or an error that says why."""
    data = (model / "model.onnx").read_bytes()
    random, opened = np.random.default_rng(8), 0
    for at in random.integers(0, len(data), 40).tolist():
        damaged = bytearray(data)
        damaged[at] ^= int(random.integers(1, 256))
        (model / "model.onnx").write_bytes(damaged)
        with suppress(VocabtoolError):
            assert np.isfinite(open_encoder(f"onnx:{model}").encode(["love to use"])).all()
            opened += 1
    assert 0 < opened < 40


def test_without_onnxruntime(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install is said."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UnsupportedFormat, match=r"pip install '\.\[onnx\]'"):
        open_encoder(model)
