"""Checkpoints that TensorFlow's own writers made, or that strangers published: the same strings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import vocabtool
from tests.builders import saved_model_bytes as b

tf = pytest.importorskip("tensorflow", reason="the oracle: pip install '.[dev]'")

GRAPH = b.saved_model(b.graph(b.node(b"v", b"VarHandleOp", dtype=b.number(6, b.STRING))))


def inspected(folder: Path) -> vocabtool.Model:
    """A model with a string variable somewhere, and the checkpoint that is in its folder."""
    (folder / "saved_model.pb").write_bytes(GRAPH)
    return vocabtool.inspect(folder)


def words(folder: Path) -> dict[str, list[bytes]]:
    """The strings of each variable."""
    model = inspected(folder)
    assert model.warnings == ()
    return {vocabulary.name: list(vocabulary.stored) for vocabulary in model.vocabularies}


def prefix_in(folder: Path) -> str:
    (folder / "variables").mkdir()
    return str(folder / "variables" / "variables")


def save(folder: Path, **tensors: Any) -> None:
    """Let TensorFlow's writer save tensors under their names."""
    tf.raw_ops.SaveV2(
        prefix=prefix_in(folder),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def shared_names(shared: Path) -> list[str]:
    truth = json.loads((shared / "models" / "truth.json").read_bytes())
    names = [model["short"] for model in truth]
    return [name for name in names if (shared / "models" / name / "variables").is_dir()]


def test_shared_models(shared: Path, tmp_path: Path) -> None:
    """Of strangers' checkpoints the same string tensors are found as TensorFlow lists; the indexes
    of two, written inside Google, are compressed."""
    names = shared_names(shared)
    assert len(names) > 5
    for name in names:
        prefix = shared / "models" / name / "variables" / "variables"
        types = tf.train.load_checkpoint(str(prefix)).get_variable_to_dtype_map()
        wanted = {key for key, dtype in types.items() if dtype == tf.string}
        (tmp_path / name / "variables").mkdir(parents=True)
        for file in prefix.parent.iterdir():
            if file.name.endswith(".index") or file.stat().st_size < 1 << 20:
                shutil.copy(file, tmp_path / name / "variables")
        model = inspected(tmp_path / name)
        assert model.warnings == ()
        places = [item.place for item in model.passed_over]
        places += [place for vocabulary in model.vocabularies for place in vocabulary.places]
        assert {place.place for place in places} == wanted, name


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
    save(tmp_path, words=tf.constant(strings, tf.string))
    assert words(tmp_path) == {"words": strings}


def test_shapes(tmp_path: Path) -> None:
    """Scalars and matrices are passed over with their size; numbers and weights are left out."""
    save(
        tmp_path,
        scalar=tf.constant(b"one"),
        matrix=tf.constant([[b"a", b"b"], [b"c", b"d"]]),
        row=tf.constant([[b"a", b"b"]]),
        none=tf.zeros([0, 3], tf.string),
        int64=tf.constant([-(2**63), 2**63 - 1], tf.int64),
        weights=tf.constant([0.5, 1.5]),
    )
    assert words(tmp_path) == {"row": [b"a", b"b"], "none": []}
    sizes = {item.name: item.size for item in inspected(tmp_path).passed_over}
    assert sizes == {"scalar": 1, "matrix": 4}


def test_several_blocks(tmp_path: Path) -> None:
    """An index of many blocks, with shared prefixes and restart points, is read to its end."""
    names = [f"layer_{i:05d}/kernel_{'x' * (i % 97)}" for i in range(5000)]
    save(tmp_path, **{name: tf.constant("a") for name in names})
    assert (tmp_path / "variables" / "variables.index").stat().st_size > 262_144  # one block
    assert [item.name for item in inspected(tmp_path).passed_over] == names


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
        destination_prefix=prefix_in(tmp_path),
    )
    model = inspected(tmp_path)
    assert {v.name: v.tokens for v in model.vocabularies} == {"left": ["left"], "right": ["right"]}
    (warning,) = model.warnings
    assert "'parts' is partitioned" in warning
