"""The model that an index belongs to: kept by fingerprints, opened when it is asked for.

    vocabulary-….parquet    the entries that the model knows, where that is known
    weights-….json          of word vectors, fitted on the corpus

A model is opened by the name that the index holds only where that is a file or folder here. A
Python callable or a handle of TensorFlow Hub is named by the caller, each time: nothing is imported
and nothing fetched because a folder says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from vocabtool.encoders.encoder import Encoder
from vocabtool.encoders.opening import KINDS, Model, is_encoder, open_encoder
from vocabtool.encoders.static import StaticEncoder
from vocabtool.encoders.static_weights import FittedWeights
from vocabtool.errors import NotFound, OtherModel, VocabtoolError
from vocabtool.index.configuration import OPTIONS, VOCABULARY, WEIGHTS, Configuration
from vocabtool.search.knowledge import Knowledge
from vocabtool.search.model_knowledge import ModelKnowledge
from vocabtool.vocabulary import Vocabulary
from vocabtool.vocabulary_files import read, save
from vocabtool.words.model_words import Words
from vocabtool.words.named import sentencepiece_file


class Opened(NamedTuple):
    """An encoder, by which name and with which options it was opened; or words alone.

    ``rule``: where the vocabulary and it tell the words, without the model.
    """

    encoder: Encoder | None
    words: Words | None
    model: str | None = None
    options: Mapping[str, str | bool] = {}
    rule: str | None = None

    @property
    def weights(self) -> FittedWeights | None:
        """What was fitted on the corpus; ``None``: nothing."""
        return self.encoder.fitted if isinstance(self.encoder, StaticEncoder) else None


def opened(
    model: Model | None, options: Mapping[str, Any], sample: Iterable[str | bytes] | None
) -> Opened:
    """The encoder that an index is created for.

    ``sample``: texts that the weights of word vectors are fitted on. Raises :class:`VocabtoolError`
    where they are not fitted and there is no sample.
    """
    if model is None:
        return Opened(None, None)
    encoder = open_encoder(model, **options)
    if isinstance(encoder, StaticEncoder) and encoder.needs_fit:
        if sample is None:
            raise VocabtoolError(
                f"{model}: its words are weighted by the corpus, of which a sample is taken from "
                "files: here give weights fitted before (--fitted FILE) or none (--weights none), "
                "in Python also sample=texts"
            )
        encoder = encoder.fit(sample)
    kept = {name: value for name, value in options.items() if name in OPTIONS and value is not None}
    return Opened(encoder, encoder.words, _name(model), kept, _rule(encoder))


def _rule(encoder: Encoder) -> str | None:
    """By which its vocabulary alone tells what it knows; ``None``: more than that is needed."""
    if not isinstance(encoder, StaticEncoder) or sentencepiece_file(encoder.rule) is not None:
        return None
    return encoder.rule


def _name(model: Model) -> str | None:
    """How a model is found again, wherever the next command runs; ``None``: by the caller."""
    if isinstance(model, Path):
        return os.path.abspath(model)  # noqa: PTH100 - links stay: what is behind may move
    if not isinstance(model, str):
        return None
    prefix, rest = _parted(model)
    return prefix + os.path.abspath(rest) if os.path.exists(rest) else model  # noqa: PTH100, PTH110 - the same; bears any text


def _parted(model: str) -> tuple[str, str]:
    """What says that a file or folder is of a kind (``static:``), and the rest.

    Never ``python:``, whose rest is imported.
    """
    prefix, colon, rest = model.partition(":")
    if prefix in KINDS and prefix != "python" and not os.path.exists(model):  # noqa: PTH110 - bears any text
        return prefix + colon, rest
    return "", model


def keep(folder: Path, opened: Opened) -> None:
    """Write beside an index what its model is known by."""
    if opened.words is not None:
        vocabulary = opened.words.vocabulary
        save(vocabulary, folder / VOCABULARY.format(vocabulary.fingerprint), "parquet")
    if opened.weights is not None:
        opened.weights.write(folder / WEIGHTS.format(opened.weights.fingerprint))


class Belonging:
    """The model of one index. ``given``: what the caller names it by now, with its options."""

    def __init__(
        self,
        folder: Path,
        configuration: Configuration,
        given: Model | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder = folder
        self._configuration = configuration
        self._given = given
        self._options = options or {}

    @cached_property
    def encoder(self) -> Encoder | None:
        """The encoder; ``None`` where the index holds vectors of one's own.

        Raises :class:`OtherModel` where it is not the one that made the vectors.
        """
        held = self._configuration
        if held.encoder is None:
            return None
        encoder = self._found()
        made_with = None if self._given is None else held.model
        if isinstance(encoder, StaticEncoder) and encoder.needs_fit and held.weights is not None:
            fitted = FittedWeights.read(self._folder / WEIGHTS.format(held.weights))
            found = encoder.vectors_fingerprint
            if found != fitted.vectors:
                part = "file of word vectors"
                raise OtherModel(str(self._folder), part, fitted.vectors, found, made_with)
            encoder = encoder.with_weights(fitted)
        if encoder.fingerprint != held.encoder:
            raise OtherModel(
                str(self._folder), "encoder", held.encoder, encoder.fingerprint, made_with
            )
        return encoder

    @cached_property
    def knowledge(self) -> Knowledge | None:
        """Which words the model knows; ``None`` where nothing tells."""
        words = self._words()
        if words is None:
            return None
        if words.fingerprint != self._configuration.words:
            wanted = self._configuration.words or "none"
            raise OtherModel(str(self._folder), "word rule", wanted, words.fingerprint)
        if words.vocabulary.fingerprint != self._configuration.vocabulary:
            wanted = self._configuration.vocabulary or "none"
            found = words.vocabulary.fingerprint
            raise OtherModel(str(self._folder), "vocabulary", wanted, found)
        return ModelKnowledge(words)

    def vocabulary(self) -> Vocabulary | None:
        """The entries that the model knows; ``None`` where nothing tells."""
        if self._configuration.vocabulary is None:
            return None
        return read(self._folder / VOCABULARY.format(self._configuration.vocabulary))

    def _words(self) -> Words | None:
        if self._configuration.words is None:
            return None
        rule, is_open = self._configuration.rule, vars(self).get("encoder") is not None
        if rule is not None and not is_open:  # searched by keywords, the model may be missing
            vocabulary = self.vocabulary()
            return None if vocabulary is None else Words.of(vocabulary, rule=rule)
        return None if self.encoder is None else self.encoder.words

    def _found(self) -> Encoder:
        given = self._own_model() if self._given is None else self._given
        if is_encoder(given):  # it has its options already
            return open_encoder(given, **self._options)
        return open_encoder(given, **{**self._configuration.options, **self._options})

    def _own_model(self) -> str:
        model = self._configuration.model
        path = _parted(model)[1] if model else ""
        # What is not a whole path may as well be the name of something to import.
        if model is None or not os.path.isabs(path) or not os.path.exists(path):  # noqa: PTH110, PTH117 - these bear any text
            told = f"{model[:100]!r}, which is not here" if model else "an object in Python"
            raise NotFound(
                f"{self._folder}: its vectors were made by {told}: name the model (--model, in "
                "Python model=)"
            )
        return model
