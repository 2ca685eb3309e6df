"""What a search needs of an index: one commit, in a folder or an engine.

``index/generation.py`` implements it for folders, and ``index/postgres/snapshot.py`` for
PostgreSQL. Several threads may use a snapshot at the same time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from sys import getsizeof
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.batch import Document, Kind
from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.cutter import Clause, Cutter, KeywordQuery, Term
from vocabtool.search.conditions import Where
from vocabtool.search.fusion import Candidates
from vocabtool.system.ranking import RankedRows, Rows
from vocabtool.tokenization.words import KnownWords

MAX_COMPARED: Final = 100  # documents with all parts of a joined word


FieldValue = str | int | float | bool


@dataclass(frozen=True, slots=True)
class ValueCount:
    """A value of a field, or an element of a list in a field, and how often it occurs."""

    value: FieldValue
    count: int


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """The most frequent values of a field, and the number of its distinct values."""

    frequent: tuple[ValueCount, ...]
    distinct: int


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """The values of a kept field in all rows of a commit.

    - ``codes``: for each row, the place of its value in ``values``, or -1 without a value: int32,
      shape (rows,).
    - ``values``: the distinct values in ascending order. A list is given as JSON text.
    - ``parts``: the distinct values that facets count, in ascending order: the elements of lists,
      and all values that are not lists.
    - ``owners``, ``elements``: two arrays of the same length. For each i, ``values[owners[i]]`` is
      or contains ``parts[elements[i]]``.
    """

    codes: NDArray[np.int32]
    values: tuple[FieldValue, ...]
    parts: tuple[FieldValue, ...]
    owners: NDArray[np.int64]
    elements: NDArray[np.int64]

    @classmethod
    def of(cls, codes: NDArray[np.int32], stored: Sequence[Any], kind: Kind) -> FieldColumn:
        values: list[Any] = [*map(bool, stored)] if kind == "boolean" else [*stored]
        owners = elements = np.arange(len(values))
        parts = values
        if any(isinstance(value, str) and value.startswith("[") for value in values):
            # True equals 1 in Python, but not in JSON.
            of_value = [{(isinstance(e, bool), e): e for e in _elements(value)} for value in values]
            known = {key: element for members in of_value for key, element in members.items()}
            in_order = sorted(known, key=lambda key: (key[0], isinstance(key[1], str), key[1]))
            place_of = {key: at for at, key in enumerate(in_order)}
            parts = [known[key] for key in in_order]
            owners = np.repeat(np.arange(len(values)), [len(members) for members in of_value])
            elements = np.array(
                [place_of[key] for members in of_value for key in members], np.int64
            )
        return cls(codes, tuple(values), tuple(parts), owners, elements)

    def count(self, rows: Rows, limit: int) -> ValueCounts:
        """Return the most frequent of ``self.parts`` in ``rows`` with counts, at most ``limit``."""
        of_value = np.bincount(self.codes[rows] + 1, minlength=len(self.values) + 1)[1:]
        weights = of_value[self.owners]
        counts = np.bincount(self.elements, weights, len(self.parts)).astype(np.int64)
        distinct = int(np.count_nonzero(counts))
        best = (-counts).argsort(kind="stable")[: min(distinct, limit)]
        pairs = zip(best.tolist(), counts[best].tolist(), strict=True)
        return ValueCounts(tuple(ValueCount(self.parts[at], n) for at, n in pairs), distinct)

    @property
    def size(self) -> int:
        """The size in memory, in bytes."""
        size = sum(map(getsizeof, (*self.values, *self.parts)))
        return self.codes.nbytes + self.owners.nbytes + self.elements.nbytes + size


def _elements(value: FieldValue) -> list[FieldValue]:
    """Return the scalar elements of a list in JSON; for any other value, return ``[value]``."""
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError, RecursionError):  # a text that begins with a bracket
            return [
                element for element in json.loads(value) if isinstance(element, str | int | float)
            ]
    return [value]


@dataclass(frozen=True, slots=True)
class Combination:
    """Asks for all or any of its parts, or that a document satisfies none of them."""

    word: Literal["all", "any", "none"]
    parts: tuple[Demand, ...]


# What a query asks of a row: terms in a row, a condition on fields, or a combination.
Demand: TypeAlias = "Clause | Where | Combination"
# The rows that may be found, as only the store can read it: a mask, or a part of a statement.
Selection: TypeAlias = Any


class Snapshot(Protocol):
    """One commit of an index. A search reads folders and engines through this interface.

    A query calls :meth:`statistics`, :meth:`select`, :meth:`legs`, and :meth:`fetch_documents`. An
    engine behind a network answers each of these calls in one round trip.

    - ``version``: the id of the index, and the number of the commit.
    - ``rows``: number of rows, the N in the formula of the idf.
    - ``live``: the selection of all documents.
    - ``fields``: the kinds of the kept fields.
    - ``known_words``: the words that the model knows, or ``None``.
    - ``searched_fields``: the fields that texts consist of; empty if texts have one field.
    - ``mean_length``: the mean number of words per row, in the keyword field ``words``.
    - ``calibrated``: the calibrated weight of keyword search, or ``None``.

    Row numbers are int64, shape (n,).
    """

    live: Selection
    cutter: Cutter
    rows: int
    fields: Mapping[str, Kind]
    searched_fields: tuple[str, ...]
    mean_length: float
    calibrated: float | None

    @property
    def version(self) -> tuple[str, int]: ...
    @property
    def known_words(self) -> KnownWords | None: ...

    def by_chance(self, vector: Vectors) -> float | None:
        """Return the similarity that unrelated vectors reach with ``vector``, if it is known."""

    def select(self, demands: Sequence[Demand], without: int | None = None) -> Selection:
        """Select the documents that satisfy all ``demands``. ``without``: a row to leave out.

        Raises :class:`InvalidCondition` if a condition does not fit the fields.
        """

    def only(self, rows: Rows) -> Selection: ...

    def is_empty(self, selection: Selection) -> bool: ...

    def in_order(self, selection: Selection) -> Rows:
        """Return all rows of a selection in the order of their ids."""

    def statistics(
        self, terms: Iterable[Term], joined: Mapping[Term, Sequence[Clause]] | None = None
    ) -> tuple[Mapping[Term, int], Mapping[Term, float]]:
        """Return document frequencies, and the best score for the parts of each joined word.

        ``joined``: of words among ``terms``, such as ``input/output``, the parts whose scores the
        score of the whole word replaces.

        Only the best ``MAX_COMPARED`` documents that contain all parts are compared. The score is
        the highest one of those without the whole word, or 0 if there is no such document. A word
        that is not in the corpus may be left out.
        """

    def near_spellings(self, term: Term, limit: int) -> list[Term]:
        """Return terms of the same field with a similar spelling, most similar first."""

    def legs(
        self, query: KeywordQuery, vector: Vectors | None, limit: int, among: Selection
    ) -> tuple[Candidates, NDArray[np.int8]]:
        """Return the candidates of both legs, and their tiers.

        ``vector``: float32, shape (dim,), not zero; ``None`` to search by keywords only.
        ``limit``: how many of the best documents each leg finds.

        Documents that match a clause of ``query.codes`` are always candidates. Their tier is 1, or
        2 if they also match a clause of ``query.unstemmed``. Other documents have tier 0.
        """

    def search_each(
        self, queries: Sequence[KeywordQuery], limit: int, among: Selection
    ) -> list[RankedRows]:
        """Return the best documents for queries without ``must``, in one round trip."""

    def take(self, rows: Rows) -> Vectors:
        """Return the stored vectors of ``rows``, shape (n, dim); zero if a document has none."""

    def ids(self, rows: Rows) -> list[str]: ...

    def fetch_documents(self, rows: Rows) -> list[Document]:
        """Return the documents in ``rows``, without null fields."""

    def value_ranks(self, name: str, rows: Rows) -> NDArray[np.int64]:
        """Return the rank of each row's value, smaller for smaller values, -1 without a value."""

    def count_values(
        self, names: Sequence[str], terms: Sequence[Term], among: Selection, limit: int
    ) -> dict[str, ValueCounts]:
        """Count the values of kept fields in the documents of ``among`` with any of the terms.

        If ``terms`` is empty, all documents of ``among`` count. The ``limit`` most frequent values
        of each field are returned. Among equally frequent values, smaller values come first.
        """
