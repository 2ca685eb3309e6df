"""Real models of strangers, against the truth that TensorFlow was asked for once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import vocabtool

NAMES = (
    *("babyweight_estimate", "serving_tftext", "tfdf_adult_rf", "tftext_segmenter"),
    *("tfx_keras_serving", "tfx_taxi_serving_tf1", "tfx_taxi_tft", "use_lite_2"),
)


def truth_of(shared: Path, name: str) -> list[dict[str, Any]]:
    models = json.loads((shared / "models" / "truth.json").read_bytes())
    found: list[dict[str, Any]] = next(m for m in models if m["short"] == name)["vocabularies"]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_equals_the_truth(shared: Path, name: str) -> None:
    """Each vocabulary of the truth is found, byte for byte, in all its places, and none besides."""
    model = vocabtool.inspect(shared / "models" / name)
    truth = truth_of(shared, name)
    assert model.complete, model.warnings
    assert {v.sha256 for v in model.vocabularies} == {t["sha256"] for t in truth}
    assert {len(v) for v in model.vocabularies} == {t["length"] for t in truth}
    by_hash = {v.sha256: v for v in model.vocabularies}
    for t in truth:
        found = by_hash[t["sha256"]]
        assert (found.tokens[:5], found.tokens[-5:]) == (t["first5"], t["last5"])
        if "id_min" in t:
            assert (found.first_id, found.last_id) == (t["id_min"], t["id_max"])
        if node := t.get("keys_node"):
            assert any(f"/{node}" in place.place for place in found.places), node


def test_buckets_of_real_models(shared: Path) -> None:
    """Hash buckets begin behind the table: 10 in tf.Transform, 1 in the segmenter."""
    transform = vocabtool.vocabularies(shared / "models" / "tfx_taxi_tft")
    assert {(v.unknown.id, v.unknown.count) for v in transform if v.unknown} == {(53, 10), (6, 10)}
    segmenter = vocabtool.vocabularies(shared / "models" / "tftext_segmenter")
    assert {(v.unknown.id, v.unknown.count) for v in segmenter if v.unknown} == {
        (90471, 1),
        (4299, 1),
    }
