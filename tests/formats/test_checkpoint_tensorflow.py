"""Checkpoints read with and without TensorFlow: the same keys, shapes and values."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vocabtool.errors import UnsupportedFormat
from vocabtool.formats.saved_model.checkpoint import INTEGER_TYPES, STRING_TYPES, Checkpoint

tf = pytest.importorskip("tensorflow", reason="the oracle: pip install '.[dev]'")

SHARED = Path(os.environ.get("VOCABTOOL_SHARED", Path(__file__).parents[3] / "shared"))
MODELS = sorted(
    path.parent.parent.name for path in SHARED.glob("models/*/variables/variables.index")
)
COMPRESSED = ("tfdf_adult_rf", "use_lite_2")  # written inside Google, whose indexes use Snappy

needs_shared = pytest.mark.skipif(
    not (SHARED / "models").is_dir(), reason="no shared models: set VOCABTOOL_SHARED"
)


def elements(tensor: Any) -> list[Any]:
    """A tensor as TensorFlow's reader returns it (bytes for one string), flattened."""
    return [tensor] if isinstance(tensor, bytes) else list(np.ravel(tensor).tolist())


def values(found: Checkpoint, key: bytes) -> list[Any]:
    if found.entries[key].dtype in STRING_TYPES:
        return list(found.strings(key))
    return list(found.integers(key))


def compare(prefix: Path) -> int:
    """Demand what TensorFlow reads from a checkpoint; return how many tensors were compared.

    TensorFlow does not list the slices of partitioned tensors, whose keys begin with a zero byte.
    """
    found = Checkpoint.open(prefix)
    entries = {key: entry for key, entry in found.entries.items() if not key.startswith(b"\0")}
    oracle = tf.train.load_checkpoint(str(prefix))
    shapes = {key.encode(): shape for key, shape in oracle.get_variable_to_shape_map().items()}
    assert {key: list(entry.shape) for key, entry in entries.items()} == shapes
    types = {key.encode(): dtype for key, dtype in oracle.get_variable_to_dtype_map().items()}
    assert {key: entry.dtype for key, entry in entries.items()} == {
        key: dtype.as_datatype_enum for key, dtype in types.items()
    }
    readable = {*STRING_TYPES, *INTEGER_TYPES}
    compared = [key for key, entry in entries.items() if entry.dtype in readable]
    for key in compared:
        assert values(found, key) == elements(oracle.get_tensor(key.decode())), key
    return len(compared)


def save(prefix: Path, **tensors: Any) -> Path:
    """Let TensorFlow's writer save tensors under their names."""
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
    return prefix


@needs_shared
@pytest.mark.parametrize("model", MODELS)
def test_shared_models(model: str) -> None:
    """Strangers' checkpoints hold what TensorFlow reads from them."""
    compare(SHARED / "models" / model / "variables" / "variables")


@needs_shared
@pytest.mark.parametrize("model", COMPRESSED)
def test_compressed_models(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them have a compressed index, which pyarrow unpacks."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pyarrow"):
        Checkpoint.open(SHARED / "models" / model / "variables" / "variables")


@pytest.mark.parametrize(
    "strings",
    [
        [b"the", b"of", b"and"],
        [],
        [b""],
        [b"", b"", b"a", b""],
        [b"\xff\xfe", "Äpfel".encode(), b"a\0b", b"line\nbreak", b" space "],
        [b"a" * 127, b"b" * 128, b"c" * 16383, b"d" * 16384, b"e" * 2097152],
        [b"x" * (i % 300) for i in range(20_000)],
    ],
    ids=["plain", "none", "empty", "mostly empty", "bytes", "long", "many"],
)
def test_strings(tmp_path: Path, strings: list[bytes]) -> None:
    """String tensors of TensorFlow's writer come back byte for byte."""
    prefix = save(tmp_path / "saved", words=tf.constant(strings, tf.string))
    assert list(Checkpoint.open(prefix).strings(b"words")) == strings
    assert compare(prefix) == 1


def test_shapes_and_integers(tmp_path: Path) -> None:
    """Scalars, matrices and empty tensors agree; small integers, like weights, are left out."""
    prefix = save(
        tmp_path / "saved",
        scalar_string=tf.constant(b"one"),
        matrix_string=tf.constant([[b"a", b"b"], [b"c", b"d"]]),
        none_string=tf.zeros([0, 3], tf.string),
        scalar=tf.constant(-5, tf.int64),
        none=tf.zeros([0], tf.int64),
        int64=tf.constant([-(2**63), 2**63 - 1], tf.int64),
        int32=tf.constant([[-(2**31)], [2**31 - 1]], tf.int32),
        int16=tf.constant([-(2**15), 2**15 - 1], tf.int16),
        int8=tf.constant([-128, 127], tf.int8),
        uint8=tf.constant([0, 255], tf.uint8),
        weights=tf.constant([0.5, 1.5]),
    )
    assert compare(prefix) == 7


def test_string_variable(tmp_path: Path) -> None:
    """A string variable is found under its path through the objects that hold it."""
    module = tf.Module()
    module.vocabulary = tf.Variable([b"the", b"\xff", b""], dtype=tf.string)
    prefix = Path(tf.train.Checkpoint(module=module).write(str(tmp_path / "saved")))
    words = Checkpoint.open(prefix).strings(b"module/vocabulary/.ATTRIBUTES/VARIABLE_VALUE")
    assert list(words) == [b"the", b"\xff", b""]
    assert compare(prefix) == 2  # with the graph of objects


@pytest.mark.parametrize("dense", [False, True])
def test_mutable_tables(tmp_path: Path, dense: bool) -> None:
    """Keys and values of a mutable table agree, the dense one's free buckets included."""
    module = tf.Module()
    if dense:
        module.table = tf.lookup.experimental.DenseHashTable(
            tf.string, tf.int64, default_value=-1, empty_key="", deleted_key="$"
        )
    else:
        module.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    module.table.insert(tf.constant(["the", "of", "and"]), tf.constant([7, 8, 9], tf.int64))
    prefix = Path(tf.train.Checkpoint(module=module).write(str(tmp_path / "saved")))
    found = Checkpoint.open(prefix)
    (keys,) = [key for key in found.entries if key.endswith(b"-keys")]
    ids = found.integers(keys.removesuffix(b"-keys") + b"-values")
    pairs = dict(zip(found.strings(keys), ids.tolist(), strict=True))
    assert {word: pairs[word] for word in (b"the", b"of", b"and")} == {
        b"the": 7,
        b"of": 8,
        b"and": 9,
    }
    assert compare(prefix) == 3


def test_several_blocks(tmp_path: Path) -> None:
    """An index of many blocks, with shared prefixes and restart points, is read to its end."""
    names = {f"layer_{i:05d}/kernel_{'x' * (i % 97)}": tf.constant([i]) for i in range(5000)}
    prefix = save(tmp_path / "saved", **names)
    assert Path(f"{prefix}.index").stat().st_size > 262_144  # the writer's block size
    assert compare(prefix) == 5000


def test_merged_and_partitioned(tmp_path: Path) -> None:
    """Merged checkpoints have several data files; whole tensors are read, partitioned refused."""
    for name, part in (("left", "4 0,2"), ("right", "4 2,2")):
        tf.raw_ops.SaveV2(
            prefix=str(tmp_path / name),
            tensor_names=["parts", name],
            shape_and_slices=[part, ""],
            tensors=[tf.constant([b"p", b"q"]), tf.constant([name.encode()])],
        )
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=[str(tmp_path / "left"), str(tmp_path / "right")],
        destination_prefix=str(tmp_path / "merged"),
    )
    found = Checkpoint.open(tmp_path / "merged")
    assert found.num_shards == 2
    assert list(found.strings(b"left")) == [b"left"]
    assert list(found.strings(b"right")) == [b"right"]
    assert found.entries[b"parts"].shape == (4,)
    with pytest.raises(UnsupportedFormat, match="'parts' is partitioned"):
        found.strings(b"parts")
