"""The queries that can tell rankings apart: those for which somebody found a relevant document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.evaluation.metrics import RELEVANT, Judged
from vocabtool.evaluation.qrels import Qrels
from vocabtool.evaluation.queries import Query

if TYPE_CHECKING:
    from vocabtool.index.index import Index


class JudgedQueries(NamedTuple):
    """``at``: which of the queries given these are. ``notes``: what was left out."""

    queries: list[Query]
    judged: list[Judged]
    at: list[int]
    given: int
    notes: list[str]

    def vectors(self, index: Index, vectors: NDArray[Any] | None) -> Vectors | None:
        """Of these out of those of all queries, or by the index's encoder; ``None``: neither.

        Raises ``ValueError`` for a number of vectors that is not that of the queries.
        """
        if vectors is None:
            encoder = index.encoder
            return None if encoder is None else encoder.encode([each.text for each in self.queries])
        if len(vectors) != self.given:
            raise ValueError(f"{len(vectors):,} vectors for {self.given:,} queries")
        return np.asarray(vectors[self.at], np.float32)


def judgeable(queries: Sequence[Query], qrels: Qrels) -> JudgedQueries:
    """The queries with a relevant document.

    Raises :class:`VocabtoolError` where there is none.
    """
    chosen = JudgedQueries([], [], [], len(queries), [])
    for at, query in enumerate(queries):
        judged = qrels.get(query.id, {})
        if max(judged.values(), default=0) >= RELEVANT:
            chosen.queries.append(query)
            chosen.judged.append(judged)
            chosen.at.append(at)
    if not chosen.queries:
        raise VocabtoolError(
            f"none of {len(queries):,} queries has a relevant document among the judgements of "
            f"{len(qrels):,} queries. Are both files of one collection?"
        )
    chosen.notes.extend(_left_out(queries, qrels, len(chosen.queries)))
    return chosen


def _left_out(queries: Sequence[Query], qrels: Qrels, chosen: int) -> list[str]:
    without, untold = len(queries) - chosen, len(qrels.keys() - {query.id for query in queries})
    notes = []
    if without:
        notes.append(f"{without:,} queries without a relevant document are left out")
    if untold:
        notes.append(f"{untold:,} judged queries have no text")
    return notes
