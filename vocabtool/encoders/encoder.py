"""The base class of encoders, options of encoders and of training, prompts, and checks of vectors.

A prompt is a text such as ``query: ``. Folders of sentence-transformers state prompts in
``config_sentence_transformers.json``:

    {"prompts": {"query": "query: ", "document": "passage: "}, "default_prompt_name": null}

If ``prompts`` contains no prompt for queries, or none for documents, the prompt with the name
``default_prompt_name`` is used. Source: ``encode_query``, ``encode_document`` and
``_resolve_prompt`` in huggingface/sentence-transformers.

A model with Matryoshka training (Kusupati et al., NeurIPS 2022, arxiv.org/abs/2205.13147) puts the
most important numbers of a vector v first. Such a vector is cut to its first N numbers, and the
result is scaled to the norm of v:

    v[:N] |v| / |v[:N]|
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from vocabtool.choices import RULE_NAMES, EncoderKind, Weighting, list_options, option
from vocabtool.documents.batch import Measure, ReadLog
from vocabtool.documents.options import ReadOptions
from vocabtool.errors import InvalidFile, OperatorFailed, UnsupportedFormat, VocabtoolError, reading
from vocabtool.formats import json_file
from vocabtool.formats.encoder_files import PROMPTS, read_settings
from vocabtool.system.arguments import check_options
from vocabtool.system.messages import Progress
from vocabtool.system.own_files import whole_file
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.text_arrays import as_bytes, texts_array
from vocabtool.tokenization.words import GivenWords, Words
from vocabtool.vocabulary import text_bytes

if TYPE_CHECKING:
    import pyarrow as pa

Texts: TypeAlias = "pa.StringArray | Sequence[str | bytes]"
Vectors: TypeAlias = NDArray[np.float32]

DEFAULT_BATCH: Final = 64  # texts at a time; where they are padded, sorted by length first
FIRST_ROWS: Final = 4  # texts that are encoded together before the speed of the encoder is known
MOST_SECONDS: Final = 8.0  # that the encoder is given texts for at a time
PROBE: Final = "How long is a vector?"  # the text whose vector shows it
WEIGHTS_FORMAT: Final = "vocabtool fitted weights 2"
TINY: Final = 1e-12  # a shorter vector is not scaled to length 1


# Options that a folder records to open the same model again. None gives it more permissions.
STORED: Final = frozenset(
    (
        *("kind", "signature", "output", "name", "rule", "weights"),
        *("fingerprint", "prompt_query", "prompt_document", "dim"),
    )
)


@dataclass(frozen=True, eq=False)
class FittedWeights:
    """The numbers of documents that contain each word, from which the weights ``idf`` follow.

    ``documents``: in the sample. ``positions``: int64, shape (k,), ascending: the matrix rows of
    the words in the sample. ``counts``: int64, shape (k,): how many documents contain each.
    ``vectors``, ``rule``: fingerprints of the word vectors, and of the rule that split the texts.
    """

    documents: int
    positions: NDArray[np.int64]
    counts: NDArray[np.int64]
    vectors: str
    rule: str

    def weights(self, words: int) -> NDArray[np.float32]:
        """Return the weight of each of the words of a matrix: float32, shape (words,)."""
        if self.positions[-1] >= words:
            raise InvalidFile(
                f"fitted weights do not match a matrix of {words:,} rows: their last row number is "
                f"{self.positions[-1]:,}"
            )
        weights = np.full(words, np.log(1 + self.documents) + 1, np.float32)
        weights[self.positions] = np.log((1 + self.documents) / (1 + self.counts)) + 1
        return weights

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(self._to_json()).hexdigest()

    def write(self, path: str | Path) -> None:
        with reading(str(path)), whole_file(path) as file:
            file.write(self._to_json())

    @classmethod
    def read(cls, path: str | Path) -> FittedWeights:
        with reading(str(path)):
            record: Any = json_file.parse(Path(path).read_bytes())
            if not isinstance(record, dict) or record.pop("format", None) != WEIGHTS_FORMAT:
                raise InvalidFile(
                    f"not a file of fitted weights: wanted an object of format {WEIGHTS_FORMAT!r}"
                )
            try:
                record["positions"] = np.array(record["positions"], np.int64)
                record["counts"] = np.array(record["counts"], np.int64)
                fitted = cls(**record)
            except (TypeError, ValueError, KeyError, OverflowError) as error:
                raise InvalidFile(f"fitted weights: {error}") from error
            positions, counts = fitted.positions, fitted.counts
            if type(fitted.documents) is not int or not 1 <= fitted.documents < 1 << 62:
                raise InvalidFile("'documents' must be a positive integer")
            if type(fitted.vectors) is not str or type(fitted.rule) is not str:
                raise InvalidFile("'vectors' and 'rule' must be strings (fingerprints)")
            if positions.shape != counts.shape or positions.ndim != 1 or not positions.size:
                raise InvalidFile(
                    "positions and counts must be equally long and not empty, got "
                    f"{positions.size:,} and {counts.size:,} values"
                )
            if positions[0] < 0 or (np.diff(positions) <= 0).any():
                raise InvalidFile("positions must be ascending and not negative")
            if counts.min() < 1 or counts.max() > fitted.documents:
                raise InvalidFile(
                    f"counts must be from 1 to {fitted.documents:,}, got {counts.min():,} to "
                    f"{counts.max():,}"
                )
            return fitted

    def _to_json(self) -> bytes:
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
        return orjson.dumps({"format": WEIGHTS_FORMAT, **values}, option=option)


@list_options
@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderOptions:
    """Options to open an encoder. ``None`` or ``False`` means that an option is not given.

    The options of an open encoder have its ``vocabulary`` as a :class:`~vocabtool.Words`. Raises
    ``ValueError`` for numbers that are too small and for unknown choices.
    """

    kind: EncoderKind | None = option(None, "Kind of the model.", if_none="as its content says")
    signature: str | None = option(
        None, "TensorFlow models: the signature that takes texts.", metavar="NAME"
    )
    output: str | None = option(
        None, "TensorFlow and ONNX models: the output to use.", metavar="NAME"
    )
    name: str | None = option(None, "Name of the vocabulary, as inspect prints it.", metavar="NAME")
    fingerprint: str | None = option(
        None,
        "For a Python callable: a version string of your choice. Change it whenever the callable's "
        "vectors change.",
        if_none="a hash of its source code",
    )
    rule: str | None = option(
        None,
        f"Rule that splits texts into words: {', '.join(RULE_NAMES)}.",
        if_none="the model's own",
        metavar="RULE",
    )
    vocabulary: GivenWords | None = option(
        None,
        "File or model whose words count as known, such as a tokenizer.json, GGUF file or word "
        "list with a rule. Use it with models python:… and openai:…, and with your own vectors; "
        "other models have their own.",
        if_none="the model's own",
        metavar="FILE",
    )
    trust: bool = option(
        False, "Run the model even if it reads files, uses the network or runs Python."
    )
    prompt_query: str | None = option(
        None,
        "Text to put before each query; '' for no text. Not for word vectors.",
        if_none="the model's own, or none",
        metavar="TEXT",
    )
    prompt_document: str | None = option(
        None,
        "Text to put before each document; '' for no text. Not for word vectors.",
        if_none="the model's own, or none",
        metavar="TEXT",
    )
    dim: int | None = option(
        None,
        "Cut vectors to their first N numbers, for models that are trained for this (Matryoshka). "
        "Not for word vectors.",
        if_none="all",
        least=1,
        metavar="N",
    )
    weights: Weighting | None = option(
        None,
        "Word vectors: how to weight words. The weights are fitted on the corpus.",
        if_none="idf",
    )
    fitted: FittedWeights | str | Path | None = option(
        None,
        "Word vectors: the fitted weights, or a file that ``embed`` or ``FittedWeights.write`` "
        "saved.",
    )
    max_batch: int | None = option(None, "Most texts that are encoded at a time.", least=1)
    device: str | None = option(
        None,
        "Where the model runs: sentence-transformers: cpu, cuda (a GPU), cuda:1, mps, …; ONNX: a "
        "provider of onnxruntime, such as cuda, cuda:1 or coreml. TensorFlow uses a GPU by itself.",
        if_none="sentence-transformers: the GPU if there is one; ONNX: cpu",
        metavar="DEVICE",
    )
    api_key_env: str | None = option(
        None,
        "Models on a server: environment variable with the API key.",
        if_none="OPENAI_API_KEY",
        metavar="NAME",
    )
    requests: int | None = option(
        None, "Models on a server: requests that are sent at once.", if_none="8", least=1
    )
    timeout: float | None = option(
        None,
        "Models on a server: time limit of a request, in seconds.",
        if_none="120",
        least=0.001,
        metavar="SECONDS",
    )
    retries: int | None = option(
        None, "Models on a server: how often a failed request is repeated.", if_none="8", least=0
    )

    def __post_init__(self) -> None:
        check_options(self)

    def given_options(self) -> dict[str, Any]:
        """Return the options that were given, by name; no other fields of a subclass."""
        values = ((option.name, getattr(self, option.name)) for option in fields(EncoderOptions))
        return {name: value for name, value in values if value is not None and value is not False}


@list_options
@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """The arguments of :func:`vocabtool.train`, besides the documents.

    - ``read``: how the documents are read. ``log``: as for ``vocabtool.documents.batches``.
    - ``progress``: is called with the name of a step and the share of the step that is done.
    """

    read: ReadOptions | None = field(default=None, kw_only=False)
    log: ReadLog | None = None
    progress: Progress | None = None
    dim: int = option(300, "Length of a vector, less than the number of words.", least=1)
    window: int = option(10, "Number of words on each side of a word that count as near.", least=1)
    min_count: int = option(2, "Words with fewer occurrences get no vector.", least=1)
    max_words: int = option(50_000, "Only so many words, the most frequent, get a vector.", least=1)
    rule: str = option(
        "words",
        "Rule that splits texts into words: whitespace, lower, keras, ptb, words (runs of letters "
        "and digits, lower-cased) or regex:PATTERN. The file stores the rule, so other commands "
        "need no --rule.",
    )

    def __post_init__(self) -> None:
        check_options(self)


class EncodedTexts(NamedTuple):
    """Vectors of n texts, shape (n, dim), and counts of what the model does not read.

    ``estimated``: number of texts for which ``tokens_cut`` contains only an estimate.
    """

    vectors: Vectors
    too_long: int = 0
    tokens_cut: int = 0
    estimated: int = 0


class Encoder(ABC):
    """Turns texts into vectors. An encoder is thread-safe and can be pickled.

    ``dim``: length of a vector. ``max_batch``: maximum number of texts per call of the model.
    ``threads``: how many batches are best encoded in parallel.
    ``max_tokens``: how many tokens of a text are used at most. Special tokens, which the model
    adds, do not count. ``None``: no limit, or the limit is unknown.
    ``options``: the options that open the same encoder again, including the kind.
    ``folder``: the folder of a local model, which may contain a file with prompts, or ``None``.
    ``skips_blank``: whether blank texts get the zero vector without a run of the model.
    """

    kind: EncoderKind
    dim: int
    max_batch: int
    threads: int = 1
    max_tokens: int | None = None
    folder: Path | None = None
    skips_blank: bool = False
    options: EncoderOptions = EncoderOptions()
    _notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.kind}, {self.dim:,} numbers>"

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 of everything that determines the vectors.

        Encoders with the same fingerprint are interchangeable.
        """
        raise NotImplementedError

    @cached_property
    def words(self) -> Words | None:
        """How the model splits texts and which words it knows; ``None`` if that is unknown."""
        given = self.options.vocabulary
        return given if isinstance(given, Words) else None

    @property
    def measure(self) -> Measure | None:
        """How texts are measured that are cut for the model; ``None`` if by their words."""
        if self.words is None or (self.max_tokens is None and not self.words.subword):
            return None
        from vocabtool.tokenization.token_limit import CountTokens  # a search counts no tokens

        return Measure(CountTokens(self.words), self.max_tokens)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user: what was chosen, and how texts are changed before encoding."""
        return self._notes

    @abstractmethod
    def encode(self, texts: Texts) -> Vectors:
        """Return one vector for each of n document texts: float32, shape (n, dim).

        ``texts`` may be empty. Raises :class:`VocabtoolError` if the model fails or returns an
        invalid array.
        """

    def encode_counting(self, texts: Texts) -> EncodedTexts:
        """Encode texts, and count the tokens that the model does not read; 0 if unknown."""
        if self.max_tokens is None or self.words is None:
            return EncodedTexts(self.encode(texts))
        # Readers have checked the length of a text; a prompt before it may pass the limit.
        cut = self.words.tokenizer.look_up(texts_array(texts)).count_cut(self.max_tokens)
        return EncodedTexts(self.encode(texts), *cut)

    def encode_queries(self, texts: Texts) -> Vectors:
        """Return one vector for each query. Queries may have another prompt than documents."""
        return self.encode(texts)

    def encode_batches(
        self, texts: pa.StringArray, size: int, lookup: WordLookup | None = None
    ) -> list[Vectors]:
        """Return a list with one array of vectors for each batch of ``size`` texts.

        ``lookup``: from ``words.look_up``, if it is known already: word vectors then use it.
        """
        return [self.encode(texts[at : at + size]) for at in range(0, len(texts), size)]

    def with_words(self, words: Words) -> Self:
        """Return a copy of this encoder with other words."""
        encoder = object.__new__(type(self))
        vars(encoder).update(vars(self), words=words, _notes=(*self._notes, *words.notes))
        encoder.options = replace(self.options, vocabulary=words)
        return encoder


class Pace:
    """Decides how many texts an encoder gets at once. ``seconds``: how long the last ones took."""

    def __init__(self, rows: int | None = None) -> None:
        self._rows, self.seconds = rows or FIRST_ROWS, 0.0

    def spans(self, rows: int, step: int = 1) -> Iterator[tuple[int, int]]:
        """Yield start and end of spans, each but the last a multiple of ``step`` texts long."""
        start = 0
        while start < rows:
            end = min(start + max(self._rows // step, 1) * step, rows)
            yield start, end
            start = end

    @contextmanager
    def timed(self, rows: int) -> Iterator[None]:
        """Measure how long the ``with`` block takes to encode ``rows`` texts, to adapt the pace."""
        began = time.monotonic()
        yield
        self.seconds = time.monotonic() - began
        if self.seconds > MOST_SECONDS:
            self._rows = max(rows // 2, 1)
        elif rows >= self._rows and self.seconds < MOST_SECONDS / 2:
            self._rows = rows * (8 if self.seconds < MOST_SECONDS / 16 else 2)


def decode_texts(texts: Texts) -> list[str]:
    """Decode texts; invalid UTF-8 becomes U+FFFD."""
    return [text.decode("utf-8", "replace") for text in as_bytes(texts_array(texts))]


def check_vectors(answer: Any, count: int, dim: int | None, source: str) -> Vectors:
    """Convert the output of a model to float32, shape (count, dim).

    ``dim``: ``None`` allows any length. ``source``: the model and the batch, for messages. Raises
    :class:`VocabtoolError` if the shape is wrong or a number is not finite.
    """
    try:
        array = np.asarray(answer)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of unequal length; a GPU tensor
        raise VocabtoolError(
            f"{source}: {type(answer).__name__} is not an array of numbers: {error}"
        ) from error
    wanted = f"({count:,}, {'dim' if dim is None else format(dim, ',')})"
    if array.ndim != 2 or len(array) != count or dim not in (None, array.shape[1]):
        raise VocabtoolError(f"{source}: expected an array of shape {wanted}, got {array.shape}")
    if array.dtype.kind not in "fiu" or not array.shape[1]:
        raise VocabtoolError(
            f"{source}: expected numbers, got {array.dtype} of shape {array.shape}"
        )
    with np.errstate(over="ignore"):  # a number too large for float32 becomes infinity
        vectors: Vectors = np.ascontiguousarray(array, np.float32)
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise VocabtoolError(
            f"{source}: row {bad[0]:,} contains NaN, infinity or a number too large for float32"
        )
    return vectors


def hash_files(start: bytes, files: Iterable[Path], folder: Path | None = None) -> str:
    """Hash ``start`` and the contents of files (SHA-256), and with ``folder`` their paths in it."""
    digest = hashlib.sha256(start)
    for file in files:
        with reading(str(file)), file.open("rb") as opened:
            content = hashlib.file_digest(opened, "sha256").digest()
        name = b"" if folder is None else os.fsencode(file.relative_to(folder).as_posix())
        digest.update(b"%d\n" % len(name) + name + content)
    return digest.hexdigest()


def unit_length(vectors: Vectors) -> Vectors:
    """Scale vectors to length 1: float32, shape (n, dim). Zero vectors stay zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = np.divide(vectors, np.maximum(norms, TINY), dtype=np.float32)
    return scaled


PROMPT_OPTIONS: Final = ("prompt_query", "prompt_document")
WRAPPED: Final = (*PROMPT_OPTIONS, "dim")  # options that apply to any encoder but word vectors
DOCUMENT_NAMES: Final = ("document", "passage", "corpus")  # the first of them that is there
MAX_PROMPT: Final = 1 << 14  # characters
POOLING: Final = "*_Pooling/config.json"
LEFT_OUT: Final = (
    "include_prompt is false: the model leaves the tokens of a prompt out of its vectors, which is "
    "not supported. Use sentence-transformers in a callable of your own (python:MODULE:NAME), or "
    "no prompts (--prompt-query '' --prompt-document '')"
)
COMPARE: Final = "compare the ranking with and without --dim (vocabtool eval)"


class Prompts(NamedTuple):
    """The texts put before queries and documents. ``""`` means no prompt."""

    query: str = ""
    document: str = ""


class PromptEncoder(Encoder):
    """Wraps the encoder ``plain``: adds prompts to texts, and cuts vectors to ``dim`` numbers."""

    def __init__(
        self, encoder: Encoder, prompts: Prompts, dim: int, notes: tuple[str, ...]
    ) -> None:
        self.plain, self._prompts, self._prompt_notes = encoder, prompts, notes
        self.kind, self.threads, self.dim = encoder.kind, encoder.threads, dim
        self.max_batch = encoder.max_batch
        self.options = replace(
            encoder.options,
            prompt_query=prompts.query,
            prompt_document=prompts.document,
            dim=dim if dim < encoder.dim else encoder.options.dim,
        )
        self.max_tokens = encoder.max_tokens
        if self.max_tokens is not None and prompts.document and encoder.words is not None:
            _, tokens = encoder.words.look_up([prompts.document]).count_cut(0)
            self.max_tokens = max(self.max_tokens - tokens, 0)

    def __repr__(self) -> str:
        query, document = self._prompts
        return f"{super().__repr__()[:-1]}, prompts {query!r} and {document!r}>"

    @cached_property
    def fingerprint(self) -> str:
        query, document = self._prompts
        cut = self.dim if self.dim < self.plain.dim else None
        facts = ["vocabtool prompts 1", self.plain.fingerprint, query, document, cut]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @cached_property
    def words(self) -> Words | None:
        return self.plain.words

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.plain.notes, *self._prompt_notes)

    def encode(self, texts: Texts) -> Vectors:
        return self._cut(self.plain.encode(self._after(self._prompts.document, texts)))

    def encode_counting(self, texts: Texts) -> EncodedTexts:
        vectors, *cut = self.plain.encode_counting(self._after(self._prompts.document, texts))
        return EncodedTexts(self._cut(vectors), *cut)

    def encode_queries(self, texts: Texts) -> Vectors:
        return self._cut(self.plain.encode(self._after(self._prompts.query, texts)))

    def encode_batches(
        self, texts: pa.StringArray, size: int, lookup: WordLookup | None = None
    ) -> list[Vectors]:
        prompted = texts_array(self._after(self._prompts.document, texts))
        return [self._cut(batch) for batch in self.plain.encode_batches(prompted, size)]

    def with_words(self, words: Words) -> PromptEncoder:
        return PromptEncoder(
            self.plain.with_words(words), self._prompts, self.dim, self._prompt_notes
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return PromptEncoder, (self.plain, self._prompts, self.dim, self._prompt_notes)

    def _after(self, prompt: str, texts: Texts) -> Texts:
        """Put a prompt before each text, but not before a blank text that the encoder skips."""
        if not prompt:
            return texts
        start, skips_blank = text_bytes(prompt), self.plain.skips_blank
        return [
            text if skips_blank and not text.decode("utf-8", "replace").strip() else start + text
            for text in as_bytes(texts_array(texts))
        ]

    def _cut(self, vectors: Vectors) -> Vectors:
        """Cut vectors to their first ``dim`` numbers, and scale them to the norm they had."""
        if vectors.shape[1] == self.dim:
            return vectors
        cut = np.ascontiguousarray(vectors[:, : self.dim])
        norms, cut_norms = np.linalg.norm(vectors, axis=1), np.linalg.norm(cut, axis=1)
        scale = np.divide(norms, cut_norms, out=np.zeros_like(norms), where=cut_norms > 0)
        cut *= scale[:, np.newaxis]
        return cut


def with_prompts(encoder: Encoder, options: EncoderOptions) -> Encoder:
    """Return an encoder with ``options``' prompts and vector length, or its own, or the model's."""
    values = encoder.options.given_options() | options.given_options()
    if isinstance(encoder, PromptEncoder):
        encoder = encoder.plain
    stated = read_prompts(encoder.folder)
    query: str = values.get("prompt_query", stated.query)
    prompts = Prompts(query, values.get("prompt_document", stated.document))
    dim: int = values.get("dim", encoder.dim)
    if dim > encoder.dim:
        raise VocabtoolError(
            f"--dim {dim:,}: the vectors of this model have only {encoder.dim:,} numbers; leave "
            "--dim out, or give a smaller number"
        )
    if not any(prompts) and dim == encoder.dim:
        return encoder
    notes: tuple[str, ...] = ()
    for whom, prompt in (("each query", prompts.query), ("each document", prompts.document)):
        if len(prompt) > MAX_PROMPT:
            size = f"{len(prompt):,} characters, wanted at most {MAX_PROMPT:,}"
            raise VocabtoolError(f"the prompt has {size}: {prompt[:40]!r}…")
        if prompt:
            notes += (f"the prompt {prompt!r} is put before {whom}",)
    if encoder.folder is not None and (prompts.query or prompts.document):
        for file in sorted(encoder.folder.glob(POOLING)):
            if read_settings(file, dict).get("include_prompt") is False:
                raise UnsupportedFormat(LEFT_OUT, file=str(file))
    if dim < encoder.dim:
        notes += (
            f"of {encoder.dim:,} numbers of a vector the first {dim:,} are kept. Unless the model "
            f"was trained for this (Matryoshka), {COMPARE}",
        )
    return PromptEncoder(encoder, prompts, dim, notes)


def same_for_documents(encoder: Encoder) -> set[str]:
    """Return the fingerprints of encoders that differ from ``encoder`` only in the query prompt.

    All these encoders give documents the same vectors. Their query prompt is either empty or the
    one in the settings of the model.
    """
    plain, document = encoder, ""
    if isinstance(encoder, PromptEncoder):
        plain, document = encoder.plain, encoder.options.prompt_document or ""
    same = {
        PromptEncoder(plain, Prompts(query, document), encoder.dim, ()).fingerprint
        for query in ("", read_prompts(plain.folder).query)
    }
    if document or encoder.dim < plain.dim:
        return same
    return {plain.fingerprint, *same}  # without prompts, with_prompts returns the plain encoder


def read_prompts(folder: Path | None) -> Prompts:
    """Return the prompts in the settings of a model's folder, if there is one."""
    if folder is None or not (folder / PROMPTS).is_file():
        return Prompts()
    file = folder / PROMPTS
    settings = read_settings(file, dict)
    with reading(str(file)):
        stated = json_file.expect(settings.get("prompts") or {}, dict, "prompts")
        texts = {
            name: "" if text is None else json_file.expect(text, str, f"the prompt {name!r:.40}")
            for name, text in stated.items()
        }
        default, name = "", settings.get("default_prompt_name")
        if name is not None:
            if json_file.expect(name, str, "default_prompt_name") not in texts:
                raise InvalidFile(f"default_prompt_name is {name!r:.40}, which is not in `prompts`")
            default = texts[name]
    document = (texts[name] for name in DOCUMENT_NAMES if name in texts)
    return Prompts(texts.get("query", default), next(document, default))


@contextmanager
def naming_documents(ids: pa.StringArray) -> Iterator[None]:
    """Raise an error of a model as :class:`OperatorFailed` that names the first and last id."""
    try:
        yield
    except (VocabtoolError, MemoryError):
        raise
    except Exception as error:  # a user's function may raise anything
        first, last = (bytes(ids[at].as_buffer()).decode("utf-8", "replace") for at in (0, -1))
        what = f"the model raised {type(error).__name__}: {error}"
        raise OperatorFailed(f"{first} to {last}", what) from error
