"""``vocabtool embed`` on real collections, with a SavedModel made of real word vectors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.conftest import ROOT
from vocabtool import Shards

COLLECTIONS: Final = ("cosqa", "cranfield", "scifact")
BATCH: Final = 64


@pytest.fixture(scope="module")
def model(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence encoder as a user would have one: cut, look up, mean of the vectors."""
    pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("words20k")
    data = np.load(shared / "vectors" / "words20k.npz")
    words, vectors = data["words"], data["vectors"]
    rows = np.vstack([np.zeros((1, vectors.shape[1]), np.float32), vectors]).astype(np.float32)

    class Encoder(tf.Module):  # type: ignore[misc] # TensorFlow carries no types
        def __init__(self) -> None:
            super().__init__()
            fill = tf.lookup.KeyValueTensorInitializer(
                tf.constant(words.tolist()), tf.range(1, len(words) + 1, dtype=tf.int64)
            )
            self.table = tf.lookup.StaticHashTable(fill, 0)
            self.rows = tf.Variable(rows)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])  # type: ignore[untyped-decorator] # the same
        def __call__(self, text: Any) -> Any:
            lower = tf.strings.lower(text, encoding="utf-8")
            cut = tf.strings.split(tf.strings.regex_replace(lower, r"[^a-z0-9]+", " "))
            ids = self.table.lookup(cut.flat_values)
            found = tf.math.segment_mean(tf.gather(self.rows, ids), cut.value_rowids())
            missing = tf.shape(text)[0] - tf.shape(found)[0]
            return tf.math.l2_normalize(tf.pad(found, [[0, missing], [0, 0]]), -1)

    tf.saved_model.save(Encoder(), str(folder))
    return folder


@pytest.mark.sampled(3)
@pytest.mark.parametrize("collection", COLLECTIONS)
def test_a_collection(collection: str, model: Path, shared: Path, tmp_path: Path) -> None:
    """Ids, texts and vectors are those of the collection and of TensorFlow, bit for bit."""
    pytest.importorskip("tensorflow", reason="TensorFlow is an extra")
    import tensorflow as tf

    corpus = shared / "ir" / collection / "corpus.jsonl"
    command = [sys.executable, "-m", "vocabtool", "embed", str(corpus), "--model", str(model)]
    options = ["--id-field", "_id", "--keep", "title", "--batch-size", str(BATCH)]
    out = tmp_path / "out"
    given = [*options, "--shard-rows", "1000", "-o", str(out), "--format", "json"]
    done = subprocess.run([*command, *given], capture_output=True, cwd=ROOT, check=True)
    rows = [json.loads(line) for line in corpus.read_text("utf-8").splitlines()]
    told = json.loads(done.stdout)
    assert (told["documents"], told["shards"]) == (len(rows), -(-len(rows) // 1000))
    shards = Shards.open(out)
    shards.verify()
    documents = list(shards.documents())
    assert [document.id for document in documents] == [row["_id"] for row in rows]
    assert [document.text for document in documents] == [row["text"] for row in rows]
    direct = tf.saved_model.load(str(model))
    at = 0
    for size in (part.counts.documents for part in shards.manifest.shards):
        for start in range(at, at + size, BATCH):
            texts = [row["text"].encode() for row in rows[start : min(start + BATCH, at + size)]]
            wanted = direct(tf.constant(texts)).numpy()
            found = [documents[start + row].fields["vector"] for row in range(len(texts))]
            assert np.array_equal(np.array(found), wanted)
        at += size
    assert 0 < told["tokens_unknown"] < told["tokens"] / 2
    assert (told["skipped"], told["not_utf8"]) == (0, 0)
