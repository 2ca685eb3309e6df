"""What every encoder of texts is asked: vectors, and what they depend on.

One file beside this for each kind. Where texts come from and where vectors go is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.words import Words

if TYPE_CHECKING:
    import pyarrow as pa

Texts: TypeAlias = "pa.StringArray | Sequence[str | bytes]"
Vectors: TypeAlias = NDArray[np.float32]

EncoderKind = Literal["tensorflow", "static", "sentence-transformers", "python"]

# How errors end about a name that tells nothing.
FORMS: Final = (
    "say what it is: tensorflow:FOLDER-OR-HANDLE, static:FILE, sentence-transformers:FOLDER-OR-"
    "NAME, python:package.module:attribute"
)


class Encoded(NamedTuple):
    """``vectors``: shape (n, dim); ``judged``: the words that the model looked up on the way."""

    vectors: Vectors
    judged: WordLookup


class Encoder(Protocol):
    """Makes vectors of texts. Several threads may call it, and it can be pickled.

    ``dim``: numbers in a vector. ``max_batch``: texts that it wants at once, at most.
    ``fingerprint``: hexadecimal sha256 of all that decides its vectors: of two encoders with the
    same fingerprint each is as good as the other.
    ``words``: how the model cuts texts and which words it knows; ``None`` where nothing tells.
    ``exact``: whether :meth:`encode_judged` can be asked. ``notes``: what a person should know.
    """

    kind: EncoderKind

    @property
    def dim(self) -> int: ...

    @property
    def max_batch(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def words(self) -> Words | None: ...

    @property
    def exact(self) -> bool: ...

    @property
    def notes(self) -> tuple[str, ...]: ...

    def encode(self, texts: Texts) -> Vectors:
        """The vector of each text, shape (n, dim); n may be 0, and more than ``max_batch``.

        Raises :class:`VocabtoolError` where the model fails or gives what is no such matrix.
        """

    def encode_judged(self, texts: Texts) -> Encoded:
        """The same with the words that the model itself looks up, in one pass."""

    def pipe(
        self, texts: Iterable[str | bytes], *, batch_size: int | None = None, workers: int = 1
    ) -> Iterator[Vectors]:
        """The vector of each text, shape (dim,), in order, while texts come in.

        Whole batches are encoded, ``workers`` of them at a time in threads; no more than
        ``2 * workers`` batches are taken ahead of what was asked for.
        """
