"""The model of an index: recorded by name and fingerprints, opened at its first use.

Word vectors are opened from the files that the index keeps, any other model by its recorded name. A
name is opened only if it is the path of an existing file or folder. So an index never causes an
import or a download. The files are memory-mapped, so that no search reads a whole model:

    vocabulary-….arrow   the vocabulary, with sorted hashes of its entries
    weights-….arrow      word weights of a word-vector model, fitted on the corpus
    matrix-….npy         the word vectors; those of a large model are in the user's cache
    tokenizer-SHA256     copy of the FILE in a rule ``tokenizer:FILE``, named by its hash

The folder ``vectors`` in the user's cache has a file ``FINGERPRINT.npy`` for each large model. Such
a file may be missing; then it is made again from the model.

Files in the index are compared with their checksums when the index is opened, so their content is
not checked again. Of a file in the cache, only the header and the size are compared.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.encoders.encoder import (
    PROMPT_OPTIONS,
    STORED,
    WRAPPED,
    Encoder,
    EncoderOptions,
    FittedWeights,
    Vectors,
)
from vocabtool.encoders.open_encoder import Model, is_encoder, open_encoder, refuse_options
from vocabtool.encoders.static import (
    CACHED,
    StaticEncoder,
    VectorFile,
    cached_vectors,
    vectors_fingerprint,
)
from vocabtool.errors import (
    InvalidFile,
    NotFound,
    OtherModel,
    UnsupportedFormat,
    VocabtoolError,
    reading,
)
from vocabtool.formats.files import open_array, split_kind
from vocabtool.formats.vocabulary_files import facts_of, with_facts
from vocabtool.index.folder import Configuration, Creation, IndexOptions, Manifest
from vocabtool.index.measures import NAME_IT, Canaries, compare_canaries
from vocabtool.keywords.cutter import Cutter
from vocabtool.system.byte_strings import MappedStrings, hashes_of
from vocabtool.system.own_files import checksum, from_json, user_cache, whole_file
from vocabtool.tokenization.rule import names_tokenizer
from vocabtool.tokenization.words import GivenWords, KnownWords, Words, words_of
from vocabtool.vocabulary import Marker, Vocabulary

COMPARED: Final = (*WRAPPED, "fingerprint")  # an error shows both values of these
MAX_MATRIX: Final = 32 << 20  # bytes of a matrix in an index; a larger one is in the user's cache
FACTS: Final = b"vocabtool"  # key in the metadata of an Arrow file
DELETE_IT: Final = "delete this file: it is made again from the model"
TOKENIZER: Final = re.compile("tokenizer:(tokenizer-[0-9a-f]{64})")
# Models that an index never opens by their recorded name, and why.
NAMED_EACH_TIME: Final = {
    "python": "a Python function, which must be named each time, because it runs code",
    "openai": "a model on a server, which must be named each time, because it causes requests",
}


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """An encoder with its name and options, or only a vocabulary.

    ``rule``: ``None`` if only the model can split texts. ``tokenizer``: content of the FILE in it.
    """

    encoder: Encoder | None
    words: Words | None
    model: str | None = None
    options: Mapping[str, str | bool | int] = field(default_factory=dict)
    rule: str | None = None
    tokenizer: bytes | None = None

    @property
    def vocabulary(self) -> Words | None:
        return self.words if "vocabulary" in self.options else None

    def configuration(self, request: Creation, exact_below: int) -> Configuration:
        """Return the settings of a new index. ``exact_below``: the default of this option."""
        chosen = {option.name: getattr(request, option.name) for option in fields(IndexOptions)}
        if request.exact_below is None:
            chosen["exact_below"] = exact_below
        encoder, words = self.encoder, self.words
        static = encoder if isinstance(encoder, StaticEncoder) else None
        fitted = None if static is None else static.fitted
        return Configuration(
            **chosen,
            dim=(request.dim or 0) if encoder is None else encoder.dim,
            cutter=Cutter(request.language).fingerprint,
            model=self.model,
            kind=None if encoder is None else encoder.kind,
            options=self.options,
            encoder=None if encoder is None else encoder.fingerprint,
            words=None if words is None else words.fingerprint,
            vocabulary=None if words is None else words.vocabulary.fingerprint,
            vectors=None if static is None else static.vectors.fingerprint,
            rule=self.rule,
            weights=None if fitted is None else fitted.fingerprint,
        )

    def save(self, folder: Path) -> dict[str, int]:
        """Return each file's CRC-32C by name. A large matrix goes to the user's cache instead."""
        checksums: dict[str, int] = {}

        def save(write: Callable[[Any, Path], None], content: Any, kind: str, ending: str) -> None:
            file = folder / f".vocabtool-{kind}.tmp"
            write(content, file)
            crc = checksum(file)
            name = f"{kind}-{content.fingerprint:.16}-{crc:08x}{ending}"
            file.replace(folder / name)
            checksums[name] = crc

        if self.words is not None:
            save(write_vocabulary, self.words.vocabulary, "vocabulary", ".arrow")
        if isinstance(self.encoder, StaticEncoder):
            fitted, vectors = self.encoder.fitted, self.encoder.vectors
            if fitted is not None:
                save(write_weights, fitted, "weights", ".arrow")
            if vectors.matrix.nbytes > MAX_MATRIX:
                keep_in_cache(vectors)
            else:
                save(write_matrix, vectors, "matrix", ".npy")
        if self.tokenizer is not None:
            name = str(self.rule or self.options["rule"]).removeprefix("tokenizer:")
            with whole_file(folder / name) as file:
                file.write(self.tokenizer)
            checksums[name] = checksum(folder / name)
        return checksums


def open_model(request: Creation) -> OpenedModel:
    """Open the encoder for a new index, or only a vocabulary if there is no model.

    Raises ``ValueError`` for arguments that need a model or a vocabulary, and
    :class:`VocabtoolError` if weights must be fitted and there is no sample.
    """
    model, options = request.model, request.given_options()
    if model is None:
        if request.dim is None:
            raise ValueError(
                "pass a model, or dim (the length of your own vectors); to search keywords alone, "
                "pass dim=1 and vectors of zeros"
            )
        for name in options:
            if name not in ("dim", "vocabulary", "rule"):
                raise ValueError(f"{name}: this argument needs a model")
        if request.vocabulary is None:
            if request.rule is not None:
                raise ValueError(f"rule {request.rule!r} needs a vocabulary or a model")
            return OpenedModel(None, None)
        words = words_of(request.vocabulary, request.rule)
        return _with_vocabulary(OpenedModel(None, words), words)
    encoder = open_encoder(model, **options)
    if isinstance(encoder, StaticEncoder) and encoder.needs_fit:
        if request.sample is None:
            raise VocabtoolError(
                f"{model}: its word weights must be fitted on a sample of the corpus. Index "
                "documents from files, pass fitted weights (in Python fitted=FILE), use no weights "
                "(--weights none), or pass sample=texts (in Python)"
            )
        encoder = encoder.fit(request.sample)
    recorded = {
        name: value for name, value in options.items() if name in STORED and value is not None
    }
    for name in WRAPPED:  # prompts may be those of the model's files
        value = getattr(encoder.options, name)
        if value is not None:
            recorded[name] = value
    given = encoder.options.vocabulary
    if isinstance(given, Words):
        recorded.pop("rule", None)
        return _with_vocabulary(OpenedModel(encoder, given, _name(model), recorded), given)
    rule = encoder.options.rule if isinstance(encoder, StaticEncoder) else None
    return _with_tokenizer(OpenedModel(encoder, encoder.words, _name(model), recorded, rule))


def _with_vocabulary(opened: OpenedModel, words: Words) -> OpenedModel:
    """Record the address of a vocabulary that the user passed, and its rule if it has one."""
    model, name = words.source or (None, None)
    address = "" if model is None else (_name(model) or "") + (f"#{name}" if name else "")
    opened = replace(opened, options={**opened.options, "vocabulary": address})
    if words.rule is None:
        return opened
    with_rule = _with_tokenizer(replace(opened, rule=words.rule))
    if words.how == "recovered":
        # The rule names a file that may contain several tokenizers, and so split texts differently.
        again = Words.of(words.vocabulary, rule=words.rule)
        if again.fingerprint != words.fingerprint:
            return opened
    return with_rule


def _with_tokenizer(opened: OpenedModel) -> OpenedModel:
    """If the word rule names a tokenizer file, add its content. The rule then names its hash."""
    named = opened.rule or opened.options.get("rule")
    if not isinstance(named, str) or not names_tokenizer(named):
        return opened
    from vocabtool.tokenization.tokenizer_files import document_of, tokenizer_file

    file = tokenizer_file(named)
    with reading(str(file)):
        document = document_of(file)
        tokenizer = file.read_bytes() if document is None else json.dumps(document).encode()
    rule = f"tokenizer:tokenizer-{hashlib.sha256(tokenizer).hexdigest()}"
    opened = replace(opened, tokenizer=tokenizer)
    if opened.rule is not None:
        opened = replace(opened, rule=rule)
    if "rule" in opened.options:
        opened = replace(opened, options={**opened.options, "rule": rule})
    return opened


def _name(model: Model) -> str | None:
    if isinstance(model, Path):
        return os.path.abspath(model)  # noqa: PTH100 - keeps links, whose targets may move
    if not isinstance(model, str):
        return None
    prefix, rest = split_kind(model)
    return prefix + os.path.abspath(rest) if os.path.exists(rest) else model  # noqa: PTH100, PTH110 - as above; accepts any text


class IndexModel:
    """The model of one index.

    - ``canaries``: a function that returns some documents of the last commit, with their stored
      vectors. With them, a passed model is checked.
    - ``can_encode``: whether there is an encoder, opened or not.

    Raises :class:`VocabtoolError` for a vocabulary that the index does not need.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        canaries: Callable[[], Canaries],
        given: Model | None = None,
        options: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        self._folder, self._name = folder, name or str(folder)
        self.canaries = canaries
        self._files = {name.partition("-")[0]: folder / name for name in manifest.model_files}
        self._configuration = manifest.configuration
        self._given = given
        self.can_encode = given is not None or manifest.configuration.encoder is not None
        self._options = {**(options or {})}
        self.vocabulary: GivenWords | None = self._options.pop("vocabulary", None)
        # The vocabulary's path; "" for an object; None if the words are the model's.
        address = self._configuration.options.get("vocabulary")
        self._address = address if isinstance(address, str) else None
        if self.vocabulary is None:
            return
        # With a vocabulary, the rule is that of its words and not an option of the model.
        self._words_rule: str | None = self._options.pop("rule", None)
        if self._configuration.words is None:
            raise VocabtoolError(
                f"{self._name}: created without a vocabulary, so no word of a query counts as "
                "unknown. Omit the vocabulary, or index the documents again with it (in a new "
                "folder, or with --force)"
            )
        if self._configuration.encoder is not None and self._address is None:
            raise VocabtoolError(f"{self._name}: its model has its own words; omit the vocabulary")

    def check(self) -> None:
        """Raise :class:`VocabtoolError` if the caller's model or options make other vectors."""
        if self._given is None:
            recorded, differences = self._configuration.options, self._differences()
            changed = [
                name
                for name, value in self._options.items()
                if name in STORED and value not in (None, recorded.get(name))
            ]
            if differences or (changed and self._configuration.encoder is None):
                what = differences or f"it has no model for --{changed[0].replace('_', '-')}"
                raise VocabtoolError(
                    f"{self._name}: created with other options: {what}. Leave the option out, or "
                    "index the documents again (in a new folder, or with --force)"
                )
            if set(changed).issubset(COMPARED):  # they were compared: there is no difference
                return
        _ = self.encoder  # opens the model, which compares its fingerprint

    def _differences(self) -> str:
        """Return the options of the caller's model that the index recorded with other values."""
        recorded = {
            **dict.fromkeys(PROMPT_OPTIONS, ""),
            "fingerprint": "",
            **self._configuration.options,
            "dim": self._configuration.dim,
        }
        given = self._options
        if is_encoder(self._given):  # an encoder has its own options
            encoder: Any = self._given
            own = encoder.options.given_options()
            given = {name: own.get(name, "") for name in PROMPT_OPTIONS}
            if "dim" in own:
                given["dim"] = encoder.dim
        return "; ".join(
            f"--{name.replace('_', '-')} is {given[name]!r}, in the index {recorded[name]!r}"
            for name in COMPARED
            if given.get(name) is not None and given[name] != recorded[name]
        )

    def _other_encoder(self, what: str, wanted: str, got: str) -> OtherModel:
        advice, made_with = "", None if self._given is None else self._configuration.model
        differences = self._differences()
        if differences:
            use = "Use the options of the index, or build a new index"
            advice = f"The options differ: {differences}. {use}"
        return OtherModel(self._name, what, wanted, got, made_with, advice)

    @cached_property
    def encoder(self) -> Encoder | None:
        """The encoder, opened at the first use; ``None`` if the index has no model.

        Raises :class:`OtherModel` if another encoder made the vectors, and :class:`NotFound` if the
        recorded model does not exist on this machine.
        """
        configuration, given = self._configuration, self._given
        if configuration.encoder is None:
            return None if given is None else self._open_named(given)
        # The files of a model may state prompts; an index that records none does not use them.
        options: dict[str, Any] = {**dict.fromkeys(PROMPT_OPTIONS, ""), **configuration.options}
        options.pop("vocabulary", None)
        if isinstance(rule := options.get("rule"), str):
            options["rule"] = self._rule(rule)
        options |= self._options
        if given is None:
            encoder = self._open_recorded(options)
        elif is_encoder(given):  # an encoder has its own options
            encoder = open_encoder(given, **self._options)
        else:
            encoder = open_encoder(given, **options)
        weights = self._files.get("weights")
        if isinstance(encoder, StaticEncoder) and encoder.needs_fit and weights is not None:
            fitted = read_weights(weights)
            if encoder.vectors.fingerprint != fitted.vectors:
                what = ("file of word vectors", fitted.vectors, encoder.vectors.fingerprint)
                raise self._other_encoder(*what)
            encoder = encoder.with_weights(fitted)
        if encoder.fingerprint != configuration.encoder:
            raise self._other_encoder("encoder", configuration.encoder, encoder.fingerprint)
        if isinstance(encoder, StaticEncoder) and "matrix" not in self._files:
            keep_in_cache(encoder.vectors)
        return encoder

    def _open_recorded(self, options: Mapping[str, Any]) -> Encoder:
        """Open the model by its recorded name, or the copy of its word vectors."""
        configuration = self._configuration
        # What the index states need not be detected.
        known: dict[str, Any] = {"kind": configuration.kind}
        if configuration.kind == "static":
            known["rule"] = self._rule(str(configuration.rule))
            copy = self._copy()
            if copy is not None:
                chosen = EncoderOptions(**{**known, **options, "kind": "static"})
                refuse_options("static", chosen)
                return StaticEncoder(copy, chosen)
        model = self._recorded_path(configuration.model, "its vectors were made by", "model")
        try:
            return open_encoder(model, **{**known, **options})
        except VocabtoolError:  # now a model of another kind: `encoder` refuses its fingerprint
            return open_encoder(model, **options)

    def _copy(self) -> VectorCopy | None:
        """Open the copy of word vectors; ``None`` if it should be in the cache, but is not."""
        vocabulary, vectors = self._files.get("vocabulary"), self._configuration.vectors
        if vocabulary is None or vectors is None:
            return None
        if "matrix" in self._files:
            return VectorCopy(self._files["matrix"], vocabulary, vectors)
        return open_from_cache(vocabulary, vectors)

    def verify(self) -> None:
        """Read the word vectors in the cache. Raises :class:`InvalidFile` if they are damaged."""
        copy = None if "matrix" in self._files else self._copy()
        if copy is not None:
            copy.verify()

    def _open_named(self, given: Model) -> Encoder:
        """Open a model for an index that was created without one."""
        configuration, encoder = self._configuration, open_encoder(given, **self._options)
        if isinstance(encoder, StaticEncoder) and encoder.needs_fit:
            raise VocabtoolError(
                f"{self._name}: {given} needs word weights that were fitted on the corpus, and "
                "the index has none. Index the documents, or the shards that embed wrote, with "
                f"this model (vocabtool index SHARDS --model {given} -o DIR), or in Python pass "
                "open_encoder(MODEL, fitted='SHARDS/_weights.json')"
            )
        if encoder.dim != configuration.dim:
            advice = (
                f"it makes vectors of {encoder.dim:,} numbers, but the index needs "
                f"{configuration.dim:,}. {NAME_IT}"
            )
            raise OtherModel(self._name, "model", "", encoder.fingerprint, advice=advice)
        compare_canaries(self._name, self.canaries(), encoder, configuration.metric)
        return encoder

    @cached_property
    def known_words(self) -> KnownWords | None:
        """``None`` without a vocabulary. Raises :class:`OtherModel` if the words are others."""
        configuration = self._configuration
        if configuration.words is None:
            return None
        words = self._words()
        if words is None:
            return None
        of = "" if self._address is None else " of the vocabulary"
        for what, wanted, got in (
            (f"word rule{of}", configuration.words, words.fingerprint),
            ("vocabulary", configuration.vocabulary, words.vocabulary.fingerprint),
        ):
            if got != wanted:
                made_with = self._address or None
                raise OtherModel(self._name, what, wanted or "none", got, made_with)
        return KnownWords(words)

    def _words(self) -> Words | None:
        """Return the words that the model knows, without opening the model if possible."""
        configuration, file = self._configuration, self._files.get("vocabulary")
        has_encoder = configuration.encoder is not None
        if self.vocabulary is not None:
            return self._given_words(self.vocabulary)
        opened: Encoder | None = vars(self).get("encoder")  # the cached property, if it was used
        if opened is not None and opened.words is not None and has_encoder:
            return opened.words
        if configuration.rule is not None:
            # A keyword search does not need the model, which may be missing.
            rule = self._rule(configuration.rule)
            return None if file is None else Words.of(read_vocabulary(file), rule=rule)
        if (is_encoder(self._given) and has_encoder) or self._address is None:
            return None if self.encoder is None else self.encoder.words
        return words_of(self._recorded_path(self._address, "its words are those of", "vocabulary"))

    def _given_words(self, given: GivenWords) -> Words:
        """Return the words of a vocabulary that the caller passed, split by the recorded rule."""
        recorded, rule = self._configuration.rule, self._words_rule
        if isinstance(given, Words) or rule is not None:
            return words_of(given, rule)
        try:
            if isinstance(given, str | Path) and TOKENIZER.fullmatch(recorded or ""):
                with suppress(VocabtoolError):  # the file may be a tokenizer itself
                    return words_of(given, None)
            return words_of(given, None if recorded is None else self._rule(recorded))
        except VocabtoolError as error:
            if type(error) is not VocabtoolError:  # the file cannot be read
                raise
            why = str(error).partition("; ")[0]  # without its advice: no other rule fits either
            raise VocabtoolError(
                f"{self._name}: not the vocabulary of the index ({why}). Pass that of the index, "
                "or leave it out if the index has a copy of it"
            ) from error

    def _recorded_path(self, address: str | None, what: str, option: str) -> str:
        """Return a recorded path. Raises :class:`NotFound` if it does not exist here."""
        path = split_kind(address or "")[1]
        paths = accumulate(path.split("#"), "{}#{}".format)  # perhaps FILE#NAME
        if address and os.path.isabs(path) and any(map(os.path.exists, paths)):  # noqa: PTH117 - accepts any text
            return address
        maker = "an object in Python"
        if address:
            kind = address.partition(":")[0]
            maker = f"{address[:100]!r}, {NAMED_EACH_TIME.get(kind, 'which does not exist here')}"
        how = "--model, in Python model=" if option == "model" else f"in Python, {option}="
        raise NotFound(f"{self._name}: {what} {maker}; pass the {option} ({how})")

    def _rule(self, rule: str) -> str:
        """Return a recorded rule, with the path of its tokenizer if the index keeps a copy."""
        copy = TOKENIZER.fullmatch(rule)
        return rule if copy is None else f"tokenizer:{self._folder / copy[1]}"


def write_arrow(path: Path, columns: Mapping[str, pa.Array], facts: Mapping[str, Any]) -> None:
    batch = pa.record_batch(dict(columns)).replace_schema_metadata({FACTS: json.dumps(facts)})
    with whole_file(path) as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


def read_arrow(
    path: Path, types: Mapping[str, pa.DataType]
) -> tuple[pa.RecordBatch, dict[str, Any]]:
    """Return the columns, memory-mapped, and the facts. ``types``: those that a column may have."""
    try:
        with reading(str(path)):
            file = pa.ipc.open_file(pa.memory_map(str(path)))
            batch = file.get_batch(0)
            wanted = pa.schema({name: types[name] for name in batch.schema.names})
            if not batch.schema.equals(wanted):
                raise TypeError(f"wanted the columns {wanted}, got {batch.schema}")
            batch.validate()
            return batch, json.loads(batch.schema.metadata[FACTS])
    except (pa.ArrowException, ValueError, TypeError, LookupError) as error:
        raise InvalidFile(f"invalid or damaged: {error}", file=str(path)) from error


def numbers(column: pa.Array, dtype: Any) -> NDArray[Any]:
    """Return the numbers of a column without nulls; ``to_numpy`` would load pandas."""
    values = column.buffers()[1]
    return np.frombuffer(values, dtype, len(column)) if len(column) else np.zeros(0, dtype)


VOCABULARY: Final = {
    "token": pa.large_binary(),
    "hash": pa.uint64(),
    "position": pa.int32(),
    "id": pa.int64(),
}
WEIGHTS: Final = {"position": pa.int64(), "count": pa.int64()}


def write_vocabulary(vocabulary: Vocabulary, path: Path) -> None:
    hashes = hashes_of(vocabulary.stored)
    order = np.argsort(hashes, kind="stable")  # equal entries: the first one first
    columns = {
        "token": vocabulary.stored.to_arrow(),
        "hash": pa.array(hashes[order]),
        "position": pa.array(order.astype(np.int32)),
    }
    if vocabulary.ids is not None:
        columns["id"] = pa.array(vocabulary.ids)
    others = {"first_id": vocabulary.first_id, "likely_marker": vocabulary.likely_marker}
    write_arrow(path, columns, {**facts_of(vocabulary), **others})


def read_vocabulary(path: Path) -> Vocabulary:
    """Open a vocabulary that :func:`write_vocabulary` wrote. Raises :class:`InvalidFile`."""
    columns, facts = read_arrow(path, VOCABULARY)
    tokens = columns["token"]
    bounds = np.frombuffer(tokens.buffers()[1], np.int64, len(tokens) + 1)
    order = numbers(columns["position"], np.int32)
    hashes = numbers(columns["hash"], np.uint64)
    data = memoryview(tokens.buffers()[2] or b"")
    stored = MappedStrings(cast(bytes, data), bounds[:-1], bounds[1:], hashes, order)
    ids = numbers(columns["id"], np.int64) if "id" in columns.schema.names else None
    with reading(str(path)):
        if not 0 <= int(order.min(initial=0)) <= int(order.max(initial=0)) < max(len(stored), 1):
            raise InvalidFile("a position is out of range")
        first = from_json(int, facts.get("first_id"), "first_id")
        # To compute these again, all entries must be read.
        known = {
            "fingerprint": from_json(str, facts.get("fingerprint"), "fingerprint"),
            "likely_marker": from_json(Marker | None, facts.get("likely_marker"), "likely_marker"),
        }
        vocabulary = with_facts(Vocabulary("", "asset", stored, first, ids), facts)
    vars(vocabulary).update(known)
    return vocabulary


def write_weights(fitted: FittedWeights, path: Path) -> None:
    columns = {"position": pa.array(fitted.positions), "count": pa.array(fitted.counts)}
    names = ("documents", "vectors", "rule", "fingerprint")
    write_arrow(path, columns, {name: getattr(fitted, name) for name in names})


def read_weights(path: Path) -> FittedWeights:
    """Open weights that :func:`write_weights` wrote. Raises :class:`InvalidFile`."""
    columns, facts = read_arrow(path, WEIGHTS)
    with reading(str(path)):
        fitted = FittedWeights(
            documents=from_json(int, facts.get("documents"), "documents"),
            positions=numbers(columns["position"], np.int64),
            counts=numbers(columns["count"], np.int64),
            vectors=from_json(str, facts.get("vectors"), "vectors"),
            rule=from_json(str, facts.get("rule"), "rule"),
        )
        vars(fitted)["fingerprint"] = from_json(str, facts.get("fingerprint"), "fingerprint")
        return fitted


class VectorCopy(VectorFile):
    """A copy of the words and vectors of a model.

    ``file``: the ``.npy`` file with the matrix. ``vocabulary``: the file with the words.
    ``fingerprint``: that of the model. Raises :class:`InvalidFile` if the matrix has another type
    or size.
    """

    def __init__(self, file: Path, vocabulary: Path, fingerprint: str) -> None:
        self.file, self._vocabulary, self.fingerprint = file, vocabulary, fingerprint
        self.words, self.notes, self.converted = read_vocabulary(vocabulary), (), None
        with reading(str(file)):
            self.matrix: Vectors = np.asarray(open_array(file))
            rows, dtype = len(self.matrix), self.matrix.dtype
            if rows != len(self.words) or dtype != np.float32:
                what = f"{rows:,} rows of {dtype}, wanted {len(self.words):,} of float32"
                raise InvalidFile(f"damaged: {what}")

    def verify(self) -> None:
        """Read all vectors. Raises :class:`InvalidFile` if they are not those of the model."""
        fingerprint = vectors_fingerprint(self.words, self.matrix)
        if fingerprint != self.fingerprint:
            what = f"damaged: fingerprint {fingerprint[:12]}, expected {self.fingerprint[:12]}"
            raise InvalidFile(f"{what}; {DELETE_IT}", file=str(self.file))

    def __reduce__(self) -> tuple[Any, ...]:
        return VectorCopy, (self.file, self._vocabulary, self.fingerprint)


def write_matrix(vectors: VectorFile, path: Path) -> None:
    with whole_file(path) as file:
        np.save(file, vectors.matrix)


def keep_in_cache(vectors: VectorFile) -> None:
    """Store a matrix in the user's cache, unless it is there, or the cache cannot be written."""
    with suppress(OSError, VocabtoolError):  # a search then opens the model
        path = cached_vectors() / f"{vectors.fingerprint}.npy"
        if path.exists():
            return
        if vectors.converted is not None:
            with suppress(OSError):  # a file on another disk
                os.link(vectors.converted, path)
                return
        write_matrix(vectors, path)


def open_from_cache(vocabulary: Path, fingerprint: str) -> VectorCopy | None:
    """``None`` if it is not there. Raises :class:`InvalidFile` if the matrix is damaged."""
    if re.fullmatch("[0-9a-f]{64}", fingerprint) is None:  # the manifest may be another's
        raise InvalidFile(f"damaged: {fingerprint[:70]!r} is no fingerprint", file=str(vocabulary))
    file = user_cache() / CACHED / f"{fingerprint}.npy"
    if not file.exists():
        return None
    try:
        return VectorCopy(file, vocabulary, fingerprint)
    except (InvalidFile, UnsupportedFormat) as error:
        if error.file != str(file):
            raise
        raise InvalidFile(f"{error.what}; {DELETE_IT}", file=str(file)) from error
