"""The model that an index belongs to: kept by fingerprints, opened when it is asked for.

    vocabulary-….parquet    the entries that the model knows, where that is known
    weights-….json          of word vectors, fitted on the corpus
    tokenizer-SHA256        the file of a rule ``tokenizer:FILE``, named by its content

A model is opened by the name that the index holds only where that is a file or folder here. A
Python callable or a handle of TensorFlow Hub is named by the caller, each time: nothing is imported
and nothing fetched because a folder says so.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from vocabtool.choices import KINDS
from vocabtool.encoders.encoder import Encoder
from vocabtool.encoders.open_encoder import Model, is_encoder, open_encoder
from vocabtool.encoders.static import StaticEncoder
from vocabtool.encoders.word_weights import FittedWeights
from vocabtool.errors import NotFound, OtherModel, VocabtoolError, reading
from vocabtool.formats.vocabulary_files import read, save
from vocabtool.index.folder import Manifest
from vocabtool.search.store import KnownWords
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.system.own_files import checksum, whole_file
from vocabtool.tokenization.rule import tokenizer_file
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary, encode

RULE: Final = "keras"  # for a vocabulary without a rule: lower-case, without ASCII's punctuation
TOKENIZER: Final = re.compile("tokenizer:(tokenizer-[0-9a-f]{64})")
# What an encoder may be opened with again unasked: nothing that lets a model do more.
OPTIONS: Final = frozenset(
    ("kind", "signature", "output", "name", "rule", "weights", "remove_component", "fingerprint")
)


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """An encoder, by which name and with which options it was opened; or words alone.

    ``rule``: where the vocabulary and it tell the words, without the model. ``tokenizer``: the
    file of a rule ``tokenizer:FILE``, which is kept beside the index.
    """

    encoder: Encoder | None
    words: Words | None
    model: str | None = None
    options: Mapping[str, str | bool] = field(default_factory=dict)
    rule: str | None = None
    tokenizer: bytes | None = None

    @property
    def weights(self) -> FittedWeights | None:
        """What was fitted on the corpus; ``None``: nothing."""
        return self.encoder.fitted if isinstance(self.encoder, StaticEncoder) else None

    def save(self, folder: Path) -> dict[str, int]:
        """Write what the model is known by; the CRC-32C of each file, by its name."""
        found: dict[str, int] = {}

        def keep(start: str, end: str, write: Callable[[Path], object]) -> None:
            part = folder / f".vocabtool-{start}.tmp"
            write(part)
            crc = checksum(part)
            name = f"{start}-{crc:08x}{end}"
            part.replace(folder / name)
            found[name] = crc

        if self.words is not None:
            known = self.words.vocabulary
            name = f"vocabulary-{known.fingerprint:.16}"
            keep(name, ".parquet", lambda part: save(known, part, "parquet"))
        if self.weights is not None:
            keep(f"weights-{self.weights.fingerprint:.16}", ".json", self.weights.write)
        if self.tokenizer is not None:
            _, _, name = str(self.rule or self.options["rule"]).partition(":")
            file = folder / name
            with whole_file(file) as written:
                written.write(self.tokenizer)
            found[file.name] = checksum(file)
        return found


def open_model(
    model: Model, options: Mapping[str, Any], sample: Iterable[str | bytes] | None
) -> OpenedModel:
    """The encoder that an index is created for.

    ``sample``: texts that the weights of word vectors are fitted on. Raises :class:`VocabtoolError`
    where they are not fitted and there is no sample.
    """
    encoder = open_encoder(model, **options)
    if isinstance(encoder, StaticEncoder) and encoder.needs_fit:
        if sample is None:
            raise VocabtoolError(
                f"{model}: its weights of words are fitted on a sample of the corpus, which needs "
                "files: pass fitted weights (--fitted FILE), or use none (--weights none), "
                "in Python also sample=texts"
            )
        encoder = encoder.fit(sample)
    kept = {name: value for name, value in options.items() if name in OPTIONS and value is not None}
    rule = encoder.options.rule if isinstance(encoder, StaticEncoder) else None
    return _with_tokenizer(OpenedModel(encoder, encoder.words, _name(model), kept, rule))


def vocabulary_alone(
    vocabulary: Vocabulary | Iterable[str] | None, rule: str | None
) -> OpenedModel:
    """What an index of vectors of one's own is created for. ``ValueError``: a rule for nothing."""
    if vocabulary is None:
        if rule is not None:
            raise ValueError(f"rule {rule!r} needs a vocabulary or a model")
        return OpenedModel(None, None)
    if not isinstance(vocabulary, Vocabulary):
        entries = ByteStrings.of(encode(word) for word in vocabulary)
        vocabulary = Vocabulary("words", "list", entries)
    rule = rule or RULE
    return _with_tokenizer(OpenedModel(None, Words.of(vocabulary, rule=rule), rule=rule))


def _with_tokenizer(opened: OpenedModel) -> OpenedModel:
    """The same, where its rule names a tokenizer with that file and the name it is kept by."""
    told = opened.rule or opened.options.get("rule")
    file = tokenizer_file(told) if isinstance(told, str) else None
    if file is None:
        return opened
    with reading(str(file)):
        tokenizer = file.read_bytes()
    rule = f"tokenizer:tokenizer-{hashlib.sha256(tokenizer).hexdigest()}"
    options = {name: rule if name == "rule" else each for name, each in opened.options.items()}
    return replace(opened, rule=opened.rule and rule, options=options, tokenizer=tokenizer)


def _name(model: Model) -> str | None:
    """How a model is found again, wherever the next command runs; ``None``: by the caller."""
    if isinstance(model, Path):
        return os.path.abspath(model)  # noqa: PTH100 - links stay: what is behind may move
    if not isinstance(model, str):
        return None
    prefix, rest = _split_kind(model)
    return prefix + os.path.abspath(rest) if os.path.exists(rest) else model  # noqa: PTH100, PTH110 - the same; bears any text


def _split_kind(model: str) -> tuple[str, str]:
    """What says that a file or folder is of a kind (``static:``), and the rest.

    Never ``python:``, whose rest is imported.
    """
    prefix, colon, rest = model.partition(":")
    if prefix in KINDS and prefix != "python" and not os.path.exists(model):  # noqa: PTH110 - bears any text
        return prefix + colon, rest
    return "", model


class IndexModel:
    """The model of one index. ``given``: what the caller names it by now, with its options.

    Raises :class:`VocabtoolError` where a model is given for vectors of one's own.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        given: Model | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder = folder
        self._files = {name.partition("-")[0]: folder / name for name in manifest.model_files}
        self._configuration = manifest.configuration
        if given is not None and self._configuration.encoder is None:
            raise VocabtoolError(
                f"{folder}: created without a model, so it is unknown what made its vectors. "
                "Omit the model, or index the documents again with it (in a new folder, or with "
                "--force)"
            )
        self._given = given
        self._options = options or {}

    def check_given(self) -> None:
        """Raise :class:`OtherModel` if the caller named another model than that of the vectors."""
        if self._given is not None:
            _ = self.encoder

    @cached_property
    def encoder(self) -> Encoder | None:
        """The encoder; ``None`` where the index holds vectors of one's own.

        Raises :class:`OtherModel` where it is not the one that made the vectors.
        """
        held, given = self._configuration, self._given
        if held.encoder is None:
            return None
        weights = self._files.get("weights")
        fitted = FittedWeights.read(weights) if weights is not None else None
        options: dict[str, Any] = dict(held.options)
        if isinstance(rule := options.get("rule"), str):
            options["rule"] = self._rule(rule)
        options |= self._options
        if given is not None:  # an encoder has its options already
            encoder = open_encoder(given, **(self._options if is_encoder(given) else options))
        else:
            model = held.model
            path = _split_kind(model)[1] if model else ""
            # What is not a whole path may as well be the name of something to import.
            if model is None or not os.path.isabs(path) or not os.path.exists(path):  # noqa: PTH110, PTH117 - these bear any text
                told = (
                    f"{model[:100]!r}, which does not exist here"
                    if model
                    else "an object in Python"
                )
                raise NotFound(
                    f"{self._folder}: its vectors were made by {told}; pass the model (--model, in "
                    "Python model=)"
                )
            known: dict[str, Any] = {}
            if held.kind == "static":  # all that opening would find out is known
                known = {"kind": "static", "rule": self._rule(str(held.rule)), "fitted": fitted}
            try:
                encoder = open_encoder(model, **{**known, **options})
            except VocabtoolError:
                if not known:
                    raise
                encoder = open_encoder(model, **options)  # other vectors: a fingerprint tells
        made_with = None if given is None else held.model
        if isinstance(encoder, StaticEncoder) and encoder.needs_fit and fitted is not None:
            if (found := encoder.vectors_fingerprint) != fitted.vectors:
                part = "file of word vectors"
                raise OtherModel(str(self._folder), part, fitted.vectors, found, made_with)
            encoder = encoder.with_weights(fitted)
        if (found := encoder.fingerprint) != held.encoder:
            raise OtherModel(str(self._folder), "encoder", held.encoder, found, made_with)
        return encoder

    @cached_property
    def known_words(self) -> KnownWords | None:
        """Which words the model knows; ``None`` where nothing tells."""
        held = self._configuration
        if held.words is None:
            return None
        if held.rule is not None and vars(self).get("encoder") is None:
            # Searched by keywords: the model may be missing.
            file = self._files.get("vocabulary")
            words = Words.of(read(file), rule=self._rule(held.rule)) if file is not None else None
        else:
            words = self.encoder.words if self.encoder is not None else None
        if words is None:
            return None
        for part, wanted, found in (
            ("word rule", held.words, words.fingerprint),
            ("vocabulary", held.vocabulary, words.vocabulary.fingerprint),
        ):
            if found != wanted:
                raise OtherModel(str(self._folder), part, wanted or "none", found)
        return KnownWords(words)

    def _rule(self, rule: str) -> str:
        """The rule with the tokenizer that lies beside the index, where it has one."""
        kept = TOKENIZER.fullmatch(rule)
        return rule if kept is None else f"tokenizer:{self._folder / kept[1]}"
