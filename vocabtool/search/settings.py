"""Options of a search, checked when they are set."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, Final, Protocol

from vocabtool.choices import FUSIONS, PHRASES, RERANK_DEPTH, Fusion, Phrases

Predicate = Callable[[str], bool]

A_OF_WORDS: Final = 0.5  # the best fixed weights on public collections
A_OF_PIECES: Final = 0.4

DEPTH: Final = 100
MAX_SMALL: Final = 2_000  # rows; up to this size all are candidates: shorter lists cost nDCG


class Reranker(Protocol):
    """A function that scores texts for a query, for example with a cross-encoder.

    Several threads may call the function at the same time. The score of a text must depend only on
    the query and this text, and must be the same in every call.
    """

    def __call__(self, query: str, texts: list[str], /) -> Any:
        """Return one finite score for each text, shape (len(texts),); higher is better.

        ``texts``: at least one. The result may be anything that ``numpy.asarray`` accepts.
        """


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of vector search, keyword search and their fusion.

    - ``a``: the weight of keyword search, 0 to 1. ``None``: the calibrated weight of the index;
      without calibration, 0.5, or 0.4 for models with subword pieces.
    - ``depth``: the number of candidates of vector search and of keyword search. ``None``: 100, or
      all rows if there are at most 2,000.
    - ``guarantee``: whether documents with an identifier of the query are ranked first. A code such
      as ``SKU-48`` is an identifier only if the model does not know it. A name such as ``foo_bar``
      always is an identifier.
    - ``identifier``: a regular expression that matches the whole of a word that looks like an
      identifier. ``None``: :func:`~vocabtool.keywords.tokens.is_identifier`.
    - ``phrases``: ``"required"`` if documents must contain the quoted phrases; ``"preferred"`` if
      documents with the phrases score higher.
    - ``rerank``: a cross-encoder that ranks the first ``rerank_depth`` candidates again: a path, a
      name, or a function (:class:`Reranker`). See :func:`~vocabtool.search.rerank.open_reranker`.
      ``None``: off.
    - ``literal``: whether to treat operators such as ``-word``, ``field:word`` and ``OR`` as words
      (see ``search/query.py``).

    Raises ``ValueError`` for invalid values.
    """

    fusion: Fusion = "coverage"
    a: float | None = None
    depth: int | None = None
    guarantee: bool = True
    identifier: str | None = None
    phrases: Phrases = "required"
    rerank: str | Path | Reranker | None = None
    rerank_depth: int = RERANK_DEPTH
    literal: bool = False

    def __post_init__(self) -> None:
        choices = {"fusion": FUSIONS, "phrases": PHRASES}
        for name, allowed in choices.items():
            if (got := getattr(self, name)) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {got!r}")
        for name in ("depth", "rerank_depth"):
            number: Any = getattr(self, name)
            is_whole = hasattr(number, "__index__")  # isinstance(…, SupportsIndex) is slow
            if number is not None and not (is_whole and number >= 1):
                raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}")
        a: Any = self.a
        if a is not None and not (isinstance(a, Real) and 0 <= a <= 1):
            raise ValueError(f"the weight a must be from 0 to 1, got {a!r}")
        if self.identifier is not None:
            try:
                re.compile(self.identifier)
            except (re.error, TypeError) as error:
                what = f"identifier: {self.identifier!r} is not a valid regular expression: {error}"
                raise ValueError(what) from error

    def is_identifier(self) -> Predicate:
        """Return a function that tells whether a word is an identifier."""
        if self.identifier is None:
            from vocabtool.keywords.tokens import is_identifier

            return is_identifier
        fits = re.compile(self.identifier).fullmatch
        return lambda word: fits(word) is not None

    def weight(self, subword: bool) -> float:
        """Return the setting ``a``, or its default if it is ``None``.

        ``subword``: whether the model uses subword pieces.
        """
        if self.a is not None:
            return self.a
        return A_OF_PIECES if subword else A_OF_WORDS

    def limit(self, documents: int) -> int:
        """Return ``depth``, or its default for this number of documents."""
        if self.depth is not None:
            return self.depth
        return max(documents, 1) if documents <= MAX_SMALL else DEPTH


@dataclass(frozen=True, slots=True)
class Calibration:
    """A weight of keyword search, as an index stores it.

    - ``a``: the weight, 0 to 1.
    - ``judged``: number of judged queries that the weight was tuned with; 0 if the weight was
      estimated without judgements.
    - ``sample``: number of documents that queries were made from.
    - ``seed``: seed of the sample.
    - ``documents``: number of documents in the index at the time of the calibration.
    - ``time``: time of the calibration in UTC (ISO 8601); ``""`` if it was not recorded.
    """

    a: float
    judged: int
    sample: int
    seed: int
    documents: int = 0
    time: str = field(default="", compare=False)
