"""Options of a search, checked when they are set."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from vocabtool.choices import (
    FUSIONS,
    NO_RESULTS,
    PHRASES,
    RERANK_DEPTH,
    Fusion,
    NoResults,
    Phrases,
)

Predicate = Callable[[str], bool]

A_OF_WORDS: Final = 0.5  # the best fixed weights on public collections
A_OF_PIECES: Final = 0.4

DEPTH: Final = 100
MAX_SMALL: Final = 2_000  # rows; up to this size all are candidates: shorter lists cost nDCG


class Reranker(Protocol):
    """A function that scores texts for a query, for example with a cross-encoder.

    Several threads may call it at a time. The score of a text depends only on the query and this
    text, and is the same in every call.
    """

    def __call__(self, query: str, texts: list[str], /) -> Any:
        """Return one finite number for each of the n texts, shape (n,); higher is better.

        ``texts``: at least one. The result may be anything that ``numpy.asarray`` accepts.
        """


@dataclass(frozen=True, slots=True)
class Settings:
    """How the legs are searched and combined.

    - ``a``: weight of the keyword leg, 0 to 1. ``None``: the calibrated weight, or 0.5 (0.4 for
      models of subword pieces).
    - ``boost``: in the keyword search of the fusion ``coverage``, an unknown word has the weight 1
      + ``boost``.
    - ``code_boost``: there, a whole identifier has the weight 1 + ``code_boost`` or more.
    - ``k_rrf``: the constant of reciprocal rank fusion.
    - ``depth``: number of candidates per leg. ``None``: 100, or all rows if there are at most
      2,000.
    - ``guarantee``: rank documents with an identifier of the query first. For codes such as
      ``SKU-48``, only if the model does not know them; for names such as ``foo_bar``, always.
    - ``identifier``: which words are identifiers: a predicate, or a regular expression that must
      match the whole word. ``None``: :func:`~vocabtool.keywords.identifiers.is_identifier`.
    - ``empty``: what to return if all words are unknown and none is in the corpus: nothing, the
      nearest vectors as guesses, or hits for similar spellings.
    - ``phrases``: whether documents must contain the quoted phrases.
    - ``rerank``: a cross-encoder or a :class:`Reranker`, which ranks the first ``rerank_depth``
      candidates again: a path, a name, or a function. See
      :func:`~vocabtool.search.rerank.open_reranker`.
    - ``mmr``: the weight λ of relevance in maximal marginal relevance, 0 to 1, which orders the
      first ``rerank_depth`` candidates for variety. ``None``: off.
    - ``literal``: search for the whole query as words and phrases, even ``-word``, ``field:word``
      and ``OR`` (see ``search/language.py``).

    Raises ``ValueError`` for invalid values.
    """

    fusion: Fusion = "coverage"
    a: float | None = None
    boost: float = 0.5
    code_boost: float = 2.0
    k_rrf: int = 60
    depth: int | None = None
    guarantee: bool = True
    identifier: Predicate | str | None = None
    empty: NoResults = "nothing"
    phrases: Phrases = "required"
    rerank: str | Path | Reranker | None = None
    rerank_depth: int = RERANK_DEPTH
    mmr: float | None = None
    literal: bool = False

    def __post_init__(self) -> None:
        choices = {"fusion": FUSIONS, "empty": NO_RESULTS, "phrases": PHRASES}
        for name, allowed in choices.items():
            if (got := getattr(self, name)) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {got!r}")
        least = {"k_rrf": 1, "boost": 0, "code_boost": 0, "depth": 1, "rerank_depth": 1}
        for name, lowest in least.items():
            number = getattr(self, name)
            if number is not None and not lowest <= number < float("inf"):
                raise ValueError(f"{name} must be finite and at least {lowest}, got {number}")
        if self.a is not None and not 0 <= self.a <= 1:
            raise ValueError(f"the weight a must be from 0 to 1, got {self.a}")
        if self.mmr is not None and not 0 <= self.mmr <= 1:
            raise ValueError(f"mmr must be from 0 to 1, got {self.mmr}")
        if isinstance(self.identifier, str):
            try:
                re.compile(self.identifier)
            except re.error as error:
                what = f"identifier: {self.identifier!r} is not a valid regular expression: {error}"
                raise ValueError(what) from error

    def is_identifier(self) -> Predicate:
        """Return a function that tells whether a word is an identifier."""
        if self.identifier is None:
            from vocabtool.keywords.identifiers import is_identifier

            return is_identifier
        if isinstance(self.identifier, str):
            fits = re.compile(self.identifier).fullmatch
            return lambda word: fits(word) is not None
        return self.identifier

    def weight(self, subword: bool) -> float:
        """Return ``a``, or the default weight for models with or without ``subword`` pieces."""
        if self.a is not None:
            return self.a
        return A_OF_PIECES if subword else A_OF_WORDS

    def limit(self, documents: int) -> int:
        """Return ``depth``, or the default for this number of rows."""
        if self.depth is not None:
            return self.depth
        return max(documents, 1) if documents <= MAX_SMALL else DEPTH


@dataclass(frozen=True, slots=True)
class Calibration:
    """The weight of the keyword leg that is stored in an index.

    - ``a``: the weight, 0 to 1.
    - ``judged``: number of judged queries that tuned it; 0 for an estimate without judgements.
    - ``sample``: number of documents that queries were made from.
    - ``seed``: seed of the sample.
    - ``documents``: number of documents in the index at that time.
    - ``time``: that time in UTC (ISO 8601); ``""`` if it was not recorded.
    """

    a: float
    judged: int
    sample: int
    seed: int
    documents: int = 0
    time: str = field(default="", compare=False)
