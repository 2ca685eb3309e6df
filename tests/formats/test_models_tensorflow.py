"""Every hiding place, in a model that TensorFlow builds here, against TensorFlow's account."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tensorflow", reason="the oracle of these tests is TensorFlow itself")
pytest.importorskip("tensorflow_text", reason="some models hold tensorflow-text's tokenizers")
pytest.importorskip("tf_keras", reason="some models are built by Keras 2")

import vocabtool
from tests.builders.tensorflow_models import (
    CASES,
    Truth,
    build_all,
    save_v1,
    serve_table_v1,
    tables,
)
from vocabtool import Vocabulary

# A .keras archive is a format of its own: test_keras_archive.py.
MODELS = [case.name for case in CASES if not case.name.endswith(".keras")]

# Keras 3 leaves a custom oov_token out of what it exports; "[UNK]" is its default.
TOKEN_NOT_SAVED = {"k3_lookup_oov_token"}

Built = dict[str, tuple[Path, tuple[Truth, ...]]]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """All models, built once."""
    return build_all(tmp_path_factory.mktemp("models"), MODELS)


def facts(vocabulary: Vocabulary, truth: Truth) -> tuple[object, ...]:
    """What the truth knows of a vocabulary, in its terms."""
    unknown = vocabulary.unknown
    return (
        vocabulary.kind,
        tuple(vocabulary.stored),
        None if truth.ids is None else tuple(vocabulary.id_array().tolist()),
        None if unknown is None else (unknown.id, unknown.count),
        tuple((special.id, special.entry) for special in vocabulary.specials),
    )


def expected(truth: Truth) -> tuple[object, ...]:
    return truth.kind, truth.entries, truth.ids, truth.unknown, truth.specials


@pytest.mark.parametrize("name", MODELS)
def test_finds_what_tensorflow_finds(name: str, built: Built) -> None:
    """Entries, ids, unknown ids and specials are TensorFlow's, and nothing else is found.

    Each is called as its maker called it, with a place for each time it is stored; nothing tells
    the folder in which the model was made.
    """
    path, truths = built[name]
    model = vocabtool.inspect(path)
    assert model.warnings == ()
    assert len(model.vocabularies) == len(truths)
    found = [
        next(v for v in model.vocabularies if tuple(v.stored) == truth.entries) for truth in truths
    ]
    for vocabulary, truth in zip(found, truths, strict=True):
        assert truth.name in (None, vocabulary.name)
        assert truth.places in (None, len(vocabulary.places))
        for text in (vocabulary.name, *(place.place for place in vocabulary.places)):
            assert str(path.parent) not in text
        if name in TOKEN_NOT_SAVED:
            assert [special.entry for special in vocabulary.specials] == ["[UNK]"]
            continue
        assert facts(vocabulary, truth) == expected(truth)
        if truth.get_vocabulary is not None:
            assert vocabulary.entries() == [str(entry) for entry in truth.get_vocabulary]


def test_resaved_model_is_found_inside_a_function(built: Built) -> None:
    """The USE v4 shape: the words are a Const inside a library function of the graph."""
    (vocabulary,) = vocabtool.vocabularies(built["tf1_resaved"][0])
    assert vocabulary.name == "Embeddings_words"
    assert vocabulary.places[0].place.startswith("function __inference_pruned_")


def test_meta_graphs_are_told_apart(built: Built) -> None:
    """Several MetaGraphDefs give one vocabulary, with a place in each, named by its tags."""
    (vocabulary,) = vocabtool.vocabularies(built["tf1_tags"][0])
    places = [place.place for place in vocabulary.places]
    assert any("[serve]" in place for place in places)
    assert any("[serve, gpu]" in place for place in places)


def test_text_format_is_refused_with_what_converts_it(tmp_path: Path) -> None:
    """The two lines of Python in the message make a ``saved_model.pb`` that is read."""
    save_v1(tmp_path, serve_table_v1, as_text=True)
    with pytest.raises(vocabtool.UnsupportedFormat, match="Convert it with TensorFlow") as caught:
        vocabtool.inspect(tmp_path)
    code = "\n".join(line.strip() for line in str(caught.value).splitlines()[1:])
    assert code.count("\n") == 1
    exec(code, {})
    (truth,) = tables(tmp_path)
    (vocabulary,) = vocabtool.vocabularies(tmp_path)
    assert tuple(vocabulary.stored) == truth.entries
