"""The base class of encoders, their options, and shared checks of texts and vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import WEIGHTINGS, EncoderKind, Weighting
from vocabtool.errors import VocabtoolError
from vocabtool.system.parallel import pipe_rows
from vocabtool.tokenization.text_arrays import as_bytes, texts_array
from vocabtool.tokenization.token_limit import count_cut
from vocabtool.tokenization.words import GivenWords, Words

if TYPE_CHECKING:
    import pyarrow as pa

    from vocabtool.encoders.word_weights import FittedWeights

Texts: TypeAlias = "pa.StringArray | Sequence[str | bytes]"
Vectors: TypeAlias = NDArray[np.float32]

PROBE: Final = "How long is a vector?"  # the text whose vector shows it
TINY: Final = 1e-12  # a shorter vector is not scaled to length 1

# Options that a folder records to open the same model again. None gives it more permissions.
STORED: Final = frozenset(
    (
        *("kind", "signature", "output", "name", "rule", "weights"),
        *("fingerprint", "prompt_query", "prompt_document", "dim"),
    )
)


class EncoderArguments(TypedDict, total=False):
    kind: EncoderKind | None
    signature: str | None
    output: str | None
    name: str | None
    rule: str | None
    trust: bool
    weights: Weighting | None
    fitted: FittedWeights | str | Path | None
    fingerprint: str | None
    vocabulary: GivenWords | None
    prompt_query: str | None
    prompt_document: str | None
    dim: int | None
    max_batch: int | None
    api_key_env: str | None
    requests: int | None
    timeout: float | None
    retries: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderOptions:
    """Options to open an encoder. ``None`` or ``False`` means that an option is not given.

    ``kind``: the kind of model. Default: recognised by the content.
    ``max_batch``: the maximum number of texts encoded at a time.
    ``signature``: for TensorFlow: the signature or method to call. Needed only if several
    signatures return vectors.
    ``output``: for TensorFlow and ONNX: the output to use.
    ``name``: for TensorFlow: the name of the vocabulary, as ``inspect`` prints it.
    ``rule``: how texts are split into words, see ``Words.of``. For word vectors, and for TensorFlow
    models with ids as input.
    ``weights``: for word vectors: how words are weighted, default ``idf``.
    ``fitted``: for word vectors: ``FittedWeights``, or the path of a file that ``embed`` or
    ``FittedWeights.write`` saved.
    ``trust``: allow a model to read or write files, use the network or run its own code.
    ``fingerprint``: for a Python callable: a version string of your choice. Change it whenever the
    vectors of the callable change.
    ``vocabulary``: for a model that has no vocabulary: the words that the model knows, as
    :class:`~vocabtool.Words`, a file, a model or entries. See ``Words.of``. The options of an open
    encoder contain these words as a ``Words`` object.
    ``prompt_query``, ``prompt_document``: the text put before each query, and before each document.
    Not for word vectors. Default: the prompt in the model's settings. ``""`` means no prompt.
    ``dim``: the length of vectors; longer vectors are cut. Not for word vectors. The server of an
    ``openai:`` model cuts the vectors itself.

    These options are only for ``openai:MODEL@URL``:

    ``api_key_env``: the environment variable that contains the key, default ``OPENAI_API_KEY``.
    ``requests``: the number of requests sent at once, default 8.
    ``timeout``: seconds for a request, default 120.
    ``retries``: how often a failed request is repeated, default 8.

    Raises ``ValueError`` for numbers that are too small and for unknown ``weights``.
    """

    kind: EncoderKind | None = None
    signature: str | None = None
    output: str | None = None
    name: str | None = None
    rule: str | None = None
    trust: bool = False
    weights: Weighting | None = None
    fitted: FittedWeights | str | Path | None = None
    fingerprint: str | None = None
    vocabulary: GivenWords | None = None
    prompt_query: str | None = None
    prompt_document: str | None = None
    dim: int | None = None
    max_batch: int | None = None
    api_key_env: str | None = None
    requests: int | None = None
    timeout: float | None = None
    retries: int | None = None

    def __post_init__(self) -> None:
        for name in ("dim", "max_batch", "requests"):
            if (number := getattr(self, name)) is not None and number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout must be above 0, got {self.timeout}")
        if self.retries is not None and self.retries < 0:
            raise ValueError(f"retries must be at least 0, got {self.retries}")
        if self.weights not in (None, *WEIGHTINGS):
            wanted = ", ".join(WEIGHTINGS)
            raise ValueError(f"weights must be one of {wanted}, got {self.weights!r}")

    def given_options(self) -> dict[str, Any]:
        """Return the options that were given, by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: value
            for name, value in values.items()
            if value is not None and value is not False
        }

    @property
    def words(self) -> Words | None:
        """The given ``vocabulary`` if it is a ``Words`` object, otherwise ``None``."""
        return self.vocabulary if isinstance(self.vocabulary, Words) else None

    def to_record(self) -> dict[str, str | bool | int]:
        """Return the options that a folder stores to open the same model again.

        ``trust`` is not stored: it must be given each time. Fitted weights have their own file.
        """
        return {name: value for name, value in self.given_options().items() if name in STORED}


class EncodedTexts(NamedTuple):
    """Vectors of n texts, shape (n, dim), and counts of what the model does not read.

    ``too_long``: number of texts that are too long. ``tokens_cut``: number of tokens not read.
    ``estimated``: number of texts for which ``tokens_cut`` contains only an estimate.
    """

    vectors: Vectors
    too_long: int = 0
    tokens_cut: int = 0
    estimated: int = 0


class Encoder(ABC):
    """Turns texts into vectors. An encoder is thread-safe and can be pickled.

    ``dim``: length of a vector. ``max_batch``: maximum number of texts per call of the model.
    ``max_tokens``: how many tokens of a text are used at most. Special tokens, which the model
    adds, do not count. ``None``: no limit, or the limit is unknown.
    ``options``: the options that open the same encoder again, including the kind.
    ``folder``: the folder of a local model, which may contain a file with prompts, or ``None``.
    ``skips_blank``: whether blank texts get the zero vector without a run of the model.
    """

    kind: EncoderKind
    dim: int
    max_batch: int
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
        return None

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
        """Encode texts, and count the tokens that the model does not read.

        The counts are 0 if they are unknown.
        """
        if self.max_tokens is None or self.words is None:
            return EncodedTexts(self.encode(texts))
        cut = count_cut(self.words.look_up(texts), self.max_tokens)
        return EncodedTexts(self.encode(texts), *cut)

    def encode_queries(self, texts: Texts) -> Vectors:
        """Return one vector for each query. Queries may have another prompt than documents."""
        return self.encode(texts)

    def encode_batches(self, texts: pa.StringArray, size: int) -> list[Vectors]:
        """Return a list with one array of vectors for each batch of ``size`` texts."""
        return [self.encode(texts[at : at + size]) for at in range(0, len(texts), size)]

    def with_words(self, words: Words) -> Self:
        """Return a copy of this encoder with other words."""
        encoder = object.__new__(type(self))
        vars(encoder).update(vars(self), words=words, _notes=(*self._notes, *words.notes))
        encoder.options = replace(self.options, vocabulary=words)
        return encoder

    def pipe(
        self, texts: Iterable[str | bytes], *, batch_size: int | None = None, workers: int = 1
    ) -> Iterator[Vectors]:
        """Yield the vector of each text, shape (dim,), lazily and in order.

        ``batch_size``: texts encoded at a time, default ``max_batch``. ``workers``: number of
        threads. Each thread encodes one batch at a time. At most ``2 * workers`` batches are read
        ahead.
        Raises ``ValueError`` if ``batch_size`` or ``workers`` is below 1.
        """
        size = self.max_batch if batch_size is None else batch_size
        encode = cast(Callable[[list[str | bytes]], Sequence[Vectors]], self.encode)
        return pipe_rows(encode, texts, batch_size=size, workers=workers)


def decode_texts(texts: Texts) -> list[str]:
    """Decode texts; invalid UTF-8 becomes U+FFFD."""
    return [text.decode("utf-8", "replace") for text in as_bytes(texts_array(texts))]


def check_vectors(answer: Any, count: int, dim: int | None, source: str) -> Vectors:
    """Convert the output of a model to float32, shape (count, dim).

    ``dim``: the expected length of a vector; ``None`` allows any length. ``source``: a description
    of the model and the batch for error messages. Raises :class:`VocabtoolError` if the shape is
    wrong or a number is not finite.
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


def unit_length(vectors: Vectors) -> Vectors:
    """Scale vectors to length 1: float32, shape (n, dim). Zero vectors stay zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = np.divide(vectors, np.maximum(norms, TINY), dtype=np.float32)
    return scaled
