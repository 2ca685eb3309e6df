"""The truths of ``text_models.py`` are what the saved models themselves answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("tensorflow", reason="the oracle of these tests is TensorFlow itself")
pytest.importorskip("tensorflow_text", reason="some models hold tensorflow-text's tokenizers")
pytest.importorskip("tf_keras", reason="some models are built by Keras 2")

import tensorflow as tf

import vocabtool
from tests.builders.tensorflow_models import Tensor, quiet
from tests.builders.text_models import FAILURES, TEXT_CASES, WITHOUT_TEXTS, TextTruth

NAMES = [case.name for case in TEXT_CASES]
Built = Callable[[str], tuple[Path, TextTruth]]


def answers(signature: Tensor, text: bytes) -> dict[str, list[int]]:
    """What a loaded model answers to one text, flat, by output."""
    ((name, spec),) = signature.structured_input_signature[1].items()
    given = tf.reshape(tf.constant([text]), [1] * spec.shape.rank)
    found = signature(**{name: given})
    return {key: tf.reshape(output, [-1]).numpy().tolist() for key, output in found.items()}


def main_ids(found: dict[str, list[int]]) -> list[int]:
    """The ids of the first table; Keras 2 calls an output as its layer."""
    named = [found[name] for name in ("ids", "words") if name in found]
    return named[0] if named else next(iter(found.values()))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", NAMES)
def test_the_model_answers_the_truths_ids(name: str, text_model: Built) -> None:
    """For each awkward text alone: the truth's ids, or a failure where it says so."""
    path, truth = text_model(name)
    assert truth.ids is not None
    texts = truth.accepted()
    with quiet():
        signature = tf.saved_model.load(str(path)).signatures["serving_default"]
        served = [main_ids(answers(signature, text)) for text in texts]
        wanted = [truth.served(ids) for ids in truth.ids(texts)]
        for text in truth.refused:
            with pytest.raises(FAILURES):
                answers(signature, text)
    assert dict(zip(texts, served, strict=True)) == dict(zip(texts, wanted, strict=True))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", NAMES)
def test_some_words_are_known_and_some_are_not(name: str, text_model: Built) -> None:
    """A truth that says the same of all words would prove nothing."""
    _, truth = text_model(name)
    for table in (truth, *truth.others):
        flags = {flag for row in table.known(truth.accepted()) for flag in row}
        assert flags == {True, False}


@pytest.mark.parametrize("name", list(WITHOUT_TEXTS))
def test_models_without_texts_take_none(name: str, tmp_path: Path) -> None:
    """They load, have a vocabulary, and no input of their signature is a string."""
    with quiet():
        WITHOUT_TEXTS[name](tmp_path / name)
        signature = tf.saved_model.load(str(tmp_path / name)).signatures["serving_default"]
    inputs = signature.structured_input_signature[1].values()
    assert tf.string not in {spec.dtype for spec in inputs}
    assert vocabtool.vocabularies(tmp_path / name)
