"""Options of a search, checked when they are set."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from vocabtool.choices import RERANK_DEPTH, Fusion, Phrases, list_options, option
from vocabtool.system.arguments import check_options

A_OF_WORDS: Final = 0.5  # the best fixed weights on public collections
A_OF_PIECES: Final = 0.4

DEPTH: Final = 100
MAX_SMALL: Final = 2_000  # rows; up to this size all are candidates: shorter lists cost nDCG


Reranker = Callable[[str, list[str]], Any]
"""A function of a query and texts that scores the texts, for example with a cross-encoder.

It gets at least one text, and returns one finite score for each, shape (len(texts),); higher is
better. The result may be anything that ``numpy.asarray`` accepts. Several threads may call the
function at the same time. The score of a text must depend only on the query and this text, and must
be the same in every call.
"""


@list_options
@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Options of a search. Raises ``ValueError`` for invalid values."""

    k: int = option(10, "Number of hits.", least=1, flags=("-k",))
    where: str | None = option(
        None,
        "Condition on fields, such as: year >= 2020 and lang = 'en'. `tags contains 'x'`: the list "
        "tags has the element 'x', or the text tags has the substring 'x'.",
        metavar="CONDITION",
    )
    explain: bool = option(False, "Explain each hit and the weight of each word.")
    sort: str | Sequence[str] = option(
        (),
        "Order the candidates by this kept field, such as year:desc, not by score. If there are "
        "several, the next one orders documents with equal values. Documents without the field "
        "come last.",
        metavar="FIELD[:desc]",
        repeated=True,
    )
    facets: str | Sequence[str] = option(
        (),
        "Count the values of these kept fields in the documents that satisfy the condition and "
        "contain a word of the query.",
        metavar="FIELD,...",
    )
    offset: int = option(
        0,
        "Number of hits before the first one that is shown. The depth limits how many there are.",
        least=0,
    )
    group_by: str | None = option(
        None,
        "Show only the best document with each value of this kept field, and count the other "
        "candidates. k is then the number of values.",
        metavar="FIELD",
    )
    fusion: Fusion = option("coverage", "How vector and keyword hits are combined.")
    a: float | None = option(
        None,
        "Weight of keyword search; that of vector search is 1 - a.",
        if_none="as calibrated, else 0.5, or 0.4 for models of subword pieces",
        least=0,
        most=1,
        flags=("-a", "--weight"),
    )
    depth: int | None = option(
        None,
        "Number of candidates from vector search, and from keyword search.",
        if_none="100, or all documents if there are at most 2,000",
        least=1,
        most=1_000_000,
    )
    guarantee: bool = option(
        True,
        "Rank documents that contain an identifier of the query above all others. A code such as "
        "SKU-48 is an identifier only if the model does not know it. A name such as foo_bar always "
        "is one.",
    )
    identifier: str | None = option(
        None,
        "Regular expression that matches the whole of a word that looks like an identifier.",
        if_none="joined words such as SKU-48 and foo_bar",
    )
    phrases: Phrases = option(
        "required",
        "Whether a document must contain the quoted phrases of the query. preferred: documents "
        "with them score higher.",
    )
    literal: bool = option(
        False, "Take -, OR, FIELD: and brackets in the query as text, not as operators."
    )
    rerank: str | Path | Reranker | None = option(
        None,
        "Cross-encoder that ranks the first 50 hits again: a folder or name of "
        "sentence-transformers, or python:MODULE:NAME.",
        metavar="MODEL",
    )
    rerank_depth: int = option(
        RERANK_DEPTH, "Number of candidates that `rerank` ranks again.", least=1
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.identifier is not None:
            try:
                re.compile(self.identifier)
            except re.error as error:
                what = f"identifier: {self.identifier!r} is not a valid regular expression: {error}"
                raise ValueError(what) from error

    def base_weight(self, subword: bool, calibrated: float | None = None) -> float:
        """Return the weight of keyword search before unknown words of a query raise it.

        It is ``a``; if that is ``None``, the calibrated weight, or else the default. ``subword``:
        whether the model uses subword pieces.
        """
        if self.a is not None:
            return self.a
        if calibrated is not None:
            return calibrated
        return A_OF_PIECES if subword else A_OF_WORDS

    def limit(self, documents: int) -> int:
        """Return ``depth``, or its default for this number of documents."""
        if self.depth is not None:
            return self.depth
        return max(documents, 1) if documents <= MAX_SMALL else DEPTH


@dataclass(frozen=True, slots=True)
class Search(Settings):
    """The arguments of :meth:`Index.search`."""

    text: str | None = None
    vector: NDArray[Any] | Sequence[float] | str | Path | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Searches(Settings):
    """The arguments of :meth:`Index.search_many`."""

    texts: Sequence[str]
    vectors: NDArray[Any] | Sequence[Any] | None = field(default=None, kw_only=True)
    threads: int | None = field(default=None, kw_only=True)


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
