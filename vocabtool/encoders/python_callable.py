"""Any Python callable as an encoder: texts in, an array with a row for each out.

Callables are found by ``python:module:attribute`` in ``python_names.py``.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from vocabtool.encoders.checked_vectors import checked_vectors
from vocabtool.encoders.decoding import DECODED, decoded
from vocabtool.encoders.encoder import EncoderKind, Texts, Vectors
from vocabtool.encoders.inexact import Inexact
from vocabtool.encoders.piping import Piping
from vocabtool.errors import OperatorFailed, VocabtoolError
from vocabtool.tokenization.words import Words

MAX_BATCH: Final = 256
PROBE: Final = "How long is a vector?"
SOURCE_ONLY: Final = (
    "the fingerprint covers the source code of {name}, not what it calls or reads: give "
    "fingerprint= (or the callable an attribute of that name) to tell versions apart"
)

EncodeTexts = Callable[[list[str]], Any]


class PythonEncoder(Piping, Inexact):
    """Calls ``fn(texts)`` for an array of shape (n, dim), any kind of numbers.

    It may be called by several threads at once, so ``fn`` must bear that. It can be pickled where
    ``fn`` can. Texts come as ``str``; what is no UTF-8 in them as U+FFFD.
    """

    kind: EncoderKind = "python"

    def __init__(
        self,
        fn: EncodeTexts,
        dim: int | None = None,
        fingerprint: str | None = None,
        max_batch: int = MAX_BATCH,
        words: Words | None = None,
        made_by: Callable[[], Any] | None = None,
    ) -> None:
        """``dim``: without, ``fn`` is asked for one vector. ``max_batch``: texts for it at once.

        ``fingerprint``: any text that is another when the vectors are. Without, it is made of
        ``fn``'s attribute ``fingerprint``, or of its source code. ``made_by``: what made ``fn``,
        where its source code tells more.
        Raises :class:`VocabtoolError` where nothing tells ``fn`` apart from another, and where it
        gives no vectors or fails (:class:`OperatorFailed`); ``ValueError`` for wrong arguments.
        """
        if not callable(fn):
            raise ValueError(f"wanted something to call, got {fn!r}")
        if max_batch < 1 or (dim is not None and dim < 1):
            raise ValueError(f"wanted max_batch and dim of at least 1, got {max_batch}, {dim}")
        self._fn = fn
        self._name = _name_of(fn)
        given = fingerprint if fingerprint is not None else getattr(fn, "fingerprint", None)
        source = made_by or fn
        self._notes = (DECODED,) if given else (DECODED, SOURCE_ONLY.format(name=_name_of(source)))
        told = str(given) if given else _source_fingerprint(source)
        self._fingerprint = hashlib.sha256(f"vocabtool python 1\n{told}".encode()).hexdigest()
        self._max_batch = max_batch
        self._words = words
        self._dim = dim or self._probed()

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return self._dim

    @property
    def max_batch(self) -> int:
        """Texts that the callable gets at once, at most."""
        return self._max_batch

    @property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of what was given, or of the callable's source code."""
        return self._fingerprint

    @property
    def words(self) -> Words | None:
        """As given."""
        return self._words

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know."""
        return self._notes

    def encode(self, texts: Texts) -> Vectors:
        """The vector of each text: float32, shape (n, dim).

        What the callable raises comes through. Raises :class:`VocabtoolError` for a result that is
        no matrix of finite numbers with a row for each text.
        """
        given = decoded(texts)
        parts = [
            self._called(given[start : start + self._max_batch], self._dim, start)
            for start in range(0, len(given), self._max_batch)
        ]
        return np.concatenate([np.zeros((0, self._dim), np.float32), *parts])

    def _probed(self) -> int:
        """How long the vector of one text is."""
        try:
            return int(self._called([PROBE], None, 0).shape[1])
        except (VocabtoolError, OSError, MemoryError):
            raise
        except Exception as error:  # a callable may raise anything: its user wants to know what
            told = f"called with one text it raised {type(error).__name__}: {error}"
            raise OperatorFailed(self._name, told) from error

    def _called(self, texts: list[str], dim: int | None, start: int) -> Vectors:
        of = f"{self._name}, called with texts {start:,} to {start + len(texts) - 1:,}"
        return checked_vectors(self._fn(texts), len(texts), dim, of)


def _source_fingerprint(made_by: Callable[..., Any]) -> str:
    """Hexadecimal sha256 of module, qualified name and source code of a function or a class.

    Raises :class:`VocabtoolError` where these do not decide what it does: for what is made of other
    values (closures, methods, objects), and for what has no name or no source.
    """
    name = _name_of(made_by)
    plain = inspect.isclass(made_by) or (
        inspect.isfunction(made_by)
        and made_by.__closure__ is None
        and "<" not in made_by.__qualname__
    )
    try:
        if not plain:
            raise TypeError("it has no name of its own, or holds values that no source shows")
        source = inspect.getsource(made_by)
    except (OSError, TypeError) as error:
        raise VocabtoolError(
            f"nothing tells {name} apart from another callable ({error}): "
            "give --fingerprint (fingerprint=), a text that changes when its vectors do"
        ) from error
    told = f"{made_by.__module__}\n{made_by.__qualname__}\n{source}"
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def _name_of(fn: Callable[..., Any]) -> str:
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{named.__module__}.{named.__qualname__}"
