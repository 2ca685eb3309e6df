"""Encoders of the sentence-transformers library, from a folder or the local cache, offline.

What may be loaded without trust is in ``sentence_transformers_files.py``: no code of the model's
own, no pickled weights. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np

from vocabtool.encoders.checked_vectors import checked_vectors
from vocabtool.encoders.decoding import DECODED, decoded
from vocabtool.encoders.encoder import EncoderKind, Texts, Vectors
from vocabtool.encoders.inexact import Inexact
from vocabtool.encoders.piping import Piping
from vocabtool.encoders.sentence_transformers_files import (
    check_files,
    files_fingerprint,
    folder_of,
)
from vocabtool.errors import UnsupportedFormat, VocabtoolError
from vocabtool.system.native_import import load_triton
from vocabtool.tokenization.words import Words

MAX_BATCH: Final = 256  # texts that are sorted by length
PADDED: Final = 32  # texts that are padded to the same length: the library's own choice
MISSING: Final = "sentence-transformers is not installed: pip install '.[sentence-transformers]'"


class SentenceTransformersEncoder(Piping, Inexact):
    """A model of sentence-transformers. Threads take turns: its tokenizer bears but one.

    Vectors are what ``SentenceTransformer.encode`` gives, of unit length only where the model makes
    them so. Texts are padded to the longest beside them, which changes numbers by less than 1e-6.
    Pickled it is the folder's path. Open one with :meth:`open`.
    """

    kind: EncoderKind = "sentence-transformers"

    def __init__(self, folder: Path, *, trust: bool, max_batch: int) -> None:
        self._folder = folder
        self._trust = trust
        self._max_batch = max_batch
        self._model = _load(folder, trust=trust)
        self._dim = int(self._model.get_embedding_dimension())
        self._lock = Lock()
        self._words, note = _words_of(folder)
        self._notes = (DECODED, *note)

    @classmethod
    def open(
        cls, model: str | Path, *, trust: bool = False, max_batch: int = MAX_BATCH
    ) -> SentenceTransformersEncoder:
        """Open a folder, or a name (``all-MiniLM-L6-v2``) that is in the local Hugging Face cache.

        ``trust``: run code that the model brings, and read pickled weights, which is the same.
        Raises :class:`NotFound`, :class:`UnsupportedFormat` where trust is needed or the library is
        missing, :class:`VocabtoolError` where the model cannot be loaded.
        """
        if max_batch < 1:
            raise ValueError(f"wanted max_batch of at least 1, got {max_batch}")
        folder = folder_of(model)
        if not trust:
            check_files(folder)
        return cls(folder, trust=trust, max_batch=max_batch)

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return self._dim

    @property
    def max_batch(self) -> int:
        """Texts that are sorted by length, so that few are padded much."""
        return self._max_batch

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of the folder's files; reads them all."""
        return files_fingerprint(self._folder)

    @property
    def words(self) -> Words | None:
        """The words of its tokenizer; ``None`` where its files do not tell."""
        return self._words

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know."""
        return self._notes

    def encode(self, texts: Texts) -> Vectors:
        """The vector of each text: float32, shape (n, dim).

        Raises :class:`VocabtoolError` where the model gives no matrix of finite numbers.
        """
        given = decoded(texts)
        parts = [
            self._encoded(given[start : start + self._max_batch])
            for start in range(0, len(given), self._max_batch)
        ]
        return np.concatenate([np.zeros((0, self._dim), np.float32), *parts])

    def __reduce__(self) -> tuple[Any, ...]:
        """The folder: it is loaded again."""
        return _opened_again, (self._folder, self._trust, self._max_batch)

    def _encoded(self, texts: list[str]) -> Vectors:
        with self._lock:
            found = self._model.encode(
                texts, batch_size=PADDED, show_progress_bar=False, convert_to_numpy=True
            )
        return checked_vectors(found, len(texts), self._dim, str(self._folder))


def _opened_again(folder: Path, trust: bool, max_batch: int) -> SentenceTransformersEncoder:
    return SentenceTransformersEncoder.open(folder, trust=trust, max_batch=max_batch)


def _load(folder: Path, *, trust: bool) -> Any:
    load_triton()
    try:
        from sentence_transformers import SentenceTransformer
    except ModuleNotFoundError as error:
        raise UnsupportedFormat(MISSING) from error
    try:
        with _no_progress_bar():
            return SentenceTransformer(
                str(folder),
                local_files_only=True,
                trust_remote_code=trust,
                model_kwargs=None if trust else {"use_safetensors": True},
            )
    except Exception as error:  # a damaged folder makes four libraries raise what they like
        raise VocabtoolError(
            f"{folder}: sentence-transformers cannot load it: {type(error).__name__}: {error}"
        ) from error


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """A library that draws on the terminal of others is asked not to."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging  # without types

    drawn = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if drawn:
            logging.enable_progress_bar()


def _words_of(folder: Path) -> tuple[Words | None, tuple[str, ...]]:
    try:
        return Words.of(folder), ()
    except VocabtoolError as error:
        return None, (f"its words are not told: {error}",)
