"""Every hiding place, in a model that TensorFlow builds here, against TensorFlow's account."""

# own process: TensorFlow

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tensorflow", reason="the oracle of these tests is TensorFlow itself")
pytest.importorskip("tensorflow_text", reason="some models hold tensorflow-text's tokenizers")
pytest.importorskip("tf_keras", reason="some models are built by Keras 2")

import vocabtool
from tests.builders.tensorflow_models import CASES, Truth, build_all

MODELS = [*CASES]

# Keras 3 leaves a custom oov_token out of what it exports; "[UNK]" is its default.
TOKEN_NOT_SAVED = {"k3_lookup_oov_token"}

Built = dict[str, tuple[Path, tuple[Truth, ...]]]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """All models, built once."""
    return build_all(tmp_path_factory.mktemp("models"), MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_finds_what_tensorflow_finds(name: str, built: Built) -> None:
    """Entries, ids, unknown ids and specials are TensorFlow's, and nothing else is found.

    Each is called as its maker called it, with a place for each time it is stored; nothing tells
    the folder in which the model was made.
    """
    path, truths = built[name]
    model = vocabtool.inspect(path)
    assert len(model.vocabularies) == len(truths)
    assert model.warnings == ()
    for truth in truths:
        vocabulary = next(v for v in model.vocabularies if tuple(v.stored) == truth.entries)
        assert truth.name in (None, vocabulary.name)
        assert truth.places in (None, len(vocabulary.places))
        for text in (vocabulary.name, *(place.place for place in vocabulary.places)):
            assert str(path.parent) not in text
        if name in TOKEN_NOT_SAVED:
            assert [special.entry for special in vocabulary.specials] == ["[UNK]"]
            continue
        unknown = vocabulary.unknown
        assert (vocabulary.kind, unknown and (unknown.id, unknown.count)) == (
            truth.kind,
            truth.unknown,
        )
        assert truth.ids in (None, tuple(vocabulary.id_array().tolist()))
        assert tuple((each.id, each.entry) for each in vocabulary.specials) == truth.specials
        if truth.get_vocabulary is not None:
            assert vocabulary.entries() == [str(entry) for entry in truth.get_vocabulary]


def test_places(built: Built) -> None:
    """A function (the USE v4 shape) and the tags of several MetaGraphDefs are told as places."""
    (vocabulary,) = vocabtool.vocabularies(built["tf1_resaved"][0])
    assert vocabulary.places[0].place.startswith("function __inference_pruned_")
    (vocabulary,) = vocabtool.vocabularies(built["tf1_tags"][0])
    places = " ".join(place.place for place in vocabulary.places)
    assert "[serve]" in places
    assert "[serve, gpu]" in places
