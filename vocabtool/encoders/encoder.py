"""What every encoder has, how it is opened, and what is the same for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import WEIGHTINGS, EncoderKind, Weighting
from vocabtool.errors import VocabtoolError
from vocabtool.system.parallel import pipe_rows
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.text_arrays import as_bytes, texts_array
from vocabtool.tokenization.words import Words

if TYPE_CHECKING:
    import pyarrow as pa

    from vocabtool.encoders.word_weights import FittedWeights

Texts: TypeAlias = "pa.StringArray | Sequence[str | bytes]"
Vectors: TypeAlias = NDArray[np.float32]

REPLACES_BYTES: Final = "invalid UTF-8 reaches the model as U+FFFD, the replacement character"
STORED: Final = frozenset(
    ("kind", "signature", "output", "name", "rule", "weights", "remove_component", "fingerprint")
)


class EncoderArguments(TypedDict, total=False):
    """:class:`EncoderOptions` as keyword arguments."""

    kind: EncoderKind | None
    signature: str | None
    output: str | None
    name: str | None
    rule: str | None
    exact_words: bool
    trust: bool
    weights: Weighting | None
    remove_component: bool | None
    fitted: FittedWeights | str | Path | None
    fingerprint: str | None
    max_batch: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderOptions:
    """How an encoder is opened. ``None`` and ``False``: not given.

    ``kind``: what the model is, instead of finding out from its content. ``max_batch``: texts
    encoded at once, at most.

    Of a TensorFlow model: ``signature``: the function, of several that give vectors (or a method's
    name); ``output``: one of its outputs; ``name``: the vocabulary, as ``inspect`` prints it;
    ``exact_words``: let the running model report its words (:meth:`Encoder.encode_with_words`).
    ``rule``: how texts become words, as in ``Words.of``; of a TensorFlow model that takes ids, and
    of word vectors.
    Of word vectors: ``weights`` of the words, ``idf`` unless said; ``remove_component``: take out
    the first component of the corpus; ``fitted``: weights and component that were fitted before, or
    the file that ``embed`` or ``FittedWeights.write`` kept them in.
    ``trust``: run a model though it may read or write files, use the network or run code.
    ``fingerprint``: of a Python callable, any text that changes when its vectors do.
    Raises ``ValueError`` for a value that none of them can have.
    """

    kind: EncoderKind | None = None
    signature: str | None = None
    output: str | None = None
    name: str | None = None
    rule: str | None = None
    exact_words: bool = False
    trust: bool = False
    weights: Weighting | None = None
    remove_component: bool | None = None
    fitted: FittedWeights | str | Path | None = None
    fingerprint: str | None = None
    max_batch: int | None = None

    def __post_init__(self) -> None:
        if self.max_batch is not None and self.max_batch < 1:
            raise ValueError(f"max_batch must be at least 1, got {self.max_batch}")
        if self.weights not in (None, *WEIGHTINGS):
            wanted = ", ".join(WEIGHTINGS)
            raise ValueError(f"weights {self.weights!r}, wanted one of {wanted}")

    def given_options(self) -> dict[str, Any]:
        """The options that were given, by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: value
            for name, value in values.items()
            if value is not None and (value is not False or name == "remove_component")
        }

    def to_record(self) -> dict[str, str | bool]:
        """The options that a folder may store, and later open the model with unasked.

        Nothing that lets a model do more, and no fitted weights: they have a file of their own.
        """
        return {name: value for name, value in self.given_options().items() if name in STORED}


class VectorsAndWords(NamedTuple):
    """``vectors``: shape (n, dim); ``words``: the words that the model looked up on the way."""

    vectors: Vectors
    words: WordLookup


class Encoder(ABC):
    """Makes vectors of texts. Several threads may call it, and it can be pickled.

    ``dim``: numbers in a vector. ``max_batch``: texts that it wants at once, at most.
    ``exact``: whether :meth:`encode_with_words` works.
    ``options``: what opens the same encoder again without looking at what its files are.
    """

    kind: ClassVar[EncoderKind]
    dim: int
    max_batch: int
    exact: bool = False
    options: EncoderOptions
    _notes: tuple[str, ...] = ()

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of all that decides its vectors.

        Of two encoders with the same fingerprint each is as good as the other.
        """
        raise NotImplementedError

    @cached_property
    def words(self) -> Words | None:
        """How the model cuts texts and which words it knows; ``None`` where that is unknown."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know: what was chosen, what becomes of texts."""
        return self._notes

    @abstractmethod
    def encode(self, texts: Texts) -> Vectors:
        """The vector of each text: float32, shape (n, dim); n may be 0, or above ``max_batch``.

        Raises :class:`VocabtoolError` where the model fails or gives no such matrix.
        """

    def encode_with_words(self, texts: Texts) -> VectorsAndWords:
        """The vectors, and the words that the running model looks up, in one pass.

        Raises :class:`VocabtoolError` where the encoder was not opened with ``exact_words``.
        """
        raise VocabtoolError(
            f"an encoder of kind {self.kind!r} opened without exact words does not report which "
            "words its model looks up"
        )

    def pipe(
        self, texts: Iterable[str | bytes], *, batch_size: int | None = None, workers: int = 1
    ) -> Iterator[Vectors]:
        """The vector of each text, shape (dim,), in order, while texts come in.

        Batches of ``batch_size`` texts (``max_batch`` unless said) are encoded, ``workers`` of
        them at a time in threads. Lazy: no more than ``2 * workers`` batches are taken ahead of
        what was asked for. Raises ``ValueError`` where either number is below one.
        """
        size = self.max_batch if batch_size is None else batch_size
        encode = cast(Callable[[list[str | bytes]], Sequence[Vectors]], self.encode)
        return pipe_rows(encode, texts, batch_size=size, workers=workers)


def decode_texts(texts: Texts) -> list[str]:
    """Texts as ``str`` for models that take no bytes; what is no UTF-8 becomes U+FFFD."""
    return [text.decode("utf-8", "replace") for text in as_bytes(texts_array(texts))]


def check_vectors(answer: Any, count: int, dim: int | None, source: str) -> Vectors:
    """What a model answered, as float32 of shape (count, dim); ``dim`` ``None``: any.

    ``source``: names the model and the batch in messages. Raises :class:`VocabtoolError` for
    another shape, and for what is not a finite number.
    """
    try:
        array = np.asarray(answer)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of unequal length; a GPU's tensor
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
    with np.errstate(over="ignore"):  # a number beyond float32 becomes infinity
        vectors: Vectors = np.ascontiguousarray(array, np.float32)
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise VocabtoolError(
            f"{source}: row {bad[0]:,} contains NaN, infinity or a number too large for float32"
        )
    return vectors
