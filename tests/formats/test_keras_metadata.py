"""Lookup layers in ``keras_metadata.pb``, compared with the layers that tf_keras saved."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vocabtool
from tests.builders import saved_model_bytes as b

GRAPH = b.saved_model(b.graph(b.node(b"x", b"Placeholder")))
LAYER = {"class_name": "StringLookup", "config": {"name": "words"}}


def node(path: str, metadata: Any) -> bytes:
    """One SavedObject: number, path, identifier and configuration."""
    described = metadata if isinstance(metadata, bytes) else json.dumps(metadata).encode()
    identifier = b.field(4, b"_tf_keras_layer")
    return b.field(1, b"\x10\x07" + b.field(3, path.encode()) + identifier + b.field(5, described))


def inspected(metadata: bytes) -> vocabtool.Model:
    """A model without words in its graph, and with such a ``keras_metadata.pb``."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "saved_model.pb").write_bytes(GRAPH)
        (Path(folder) / "keras_metadata.pb").write_bytes(metadata)
        return vocabtool.inspect(folder)


def warning(metadata: bytes) -> str:
    found = inspected(metadata)
    assert found.vocabularies == ()
    (only,) = found.warnings
    return only


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "contains no object: not a keras_metadata.pb, or truncated near its beginning"),
        (node("a" * 4097, LAYER), r"a path has 4,097 bytes; wanted at most 4,096 \(at byte 3\)"),
        (node("root", b'["StringLookup"'), "the configuration of 'root': not JSON: Expecting"),
        (node("root", b'"StringLookup\xff"'), "of 'root': JSON that is not UTF-8"),
        (node("root", b'{"StringLookup": ' + b"[]," * 131_073), "of 'root': this JSON is not a"),
    ],
)
def test_files_that_are_refused(data: bytes, message: str) -> None:
    """Damaged files, JSON that is none and JSON that would fill the memory are refused."""
    assert re.search(f"^keras_metadata.pb: .*{message}", warning(data))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"oov_token": "\ud800"}, "oov_token of .* has a lone surrogate"),
        ({"num_oov_indices": "1"}, "num_oov_indices of .* is a str, wanted int"),
    ],
)
def test_configurations_that_are_refused(config: dict[str, Any], message: str) -> None:
    """A setting of a kind that Keras does not write is refused by name."""
    described = {"class_name": "StringLookup", "config": config}
    assert re.search(message, warning(node("root.layer-0", described)))


@given(st.binary() | st.binary().map(lambda data: node("root", b'{"StringLookup":' + data)))
def test_any_file_is_read_or_refused(data: bytes) -> None:
    """Whatever the bytes, the answer is layers or a warning."""
    assert len(inspected(data).warnings) <= 1


def test_layers_as_keras_has_them(tmp_path: Path) -> None:
    """Each layer's entries, in id order with the specials, are Keras' own vocabulary."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tf = pytest.importorskip("tensorflow", reason="the oracle is tf_keras")
    keras = pytest.importorskip("tf_keras", reason="the oracle is tf_keras")
    (tmp_path / "words.txt").write_text("the\nof\n")
    text, number = keras.Input((1,), dtype=tf.string), keras.Input((1,), dtype=tf.int64)
    vectorization, strings = keras.layers.TextVectorization, keras.layers.StringLookup
    integers = keras.layers.IntegerLookup
    of_text = [
        vectorization(vocabulary=["a", "naïve"], name="tv"),
        vectorization(vocabulary=["", "[UNK]", "b"], name="tv_specials"),
        vectorization(vocabulary=["[UNK]", "c"], output_mode="count", name="tv_count"),
        vectorization(vocabulary=["d"], output_mode="multi_hot", name="tv_multi_hot"),
        strings(vocabulary=["e", "b"], name="sl"),
        strings(vocabulary=("f", "b"), mask_token="", name="sl_tuple"),
        strings(vocabulary=[b"g", b"b"], num_oov_indices=0, name="sl_bytes"),
        strings(
            vocabulary=["", "[UNK]", "[UNK]", "h"], mask_token="", num_oov_indices=2, name="sl_2"
        ),
        strings(vocabulary=["i"], mask_token="", output_mode="multi_hot", name="sl_hot"),
        strings(vocabulary=str(tmp_path / "words.txt"), name="sl_file"),
    ]
    of_numbers = [
        integers(vocabulary=[12, -7], name="il"),
        integers(vocabulary=[0, -1, 5], mask_token=0, name="il_specials"),
        integers(vocabulary=[5, 7], invert=True, name="il_inverse"),
    ]
    adapted = vectorization(name="adapted")
    adapted.adapt(["the quick brown fox"])
    of_text.append(adapted)
    outputs = [made(text) for made in of_text] + [made(number) for made in of_numbers]
    made = keras.Model([text, number], outputs)
    made.save(tmp_path / "model", save_format="tf")
    found = {v.name: v for v in vocabtool.vocabularies(tmp_path / "model")}
    layers = {layer.name: layer for layer in made.layers if not layer.name.startswith("input")}
    assert layers.keys() - found.keys() == set()
    for name, layer in layers.items():
        if name != "il_inverse":  # its table maps ids to numbers
            assert (name, found[name].entries()) == (name, [*map(str, layer.get_vocabulary())])
