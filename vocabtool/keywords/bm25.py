"""The BM25 formula of one term, as tantivy computes it, and the types of a keyword query.

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009), with the
inverse document frequency that Lucene and tantivy use, which is never negative:

    idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))
    score(t, d) = idf(t) tf (k1 + 1) / (tf + k1 (1 - b + b |d| / mean |d|))

A phrase counts as one term, whose frequency is that of the phrase, and whose idf is the sum of the
idfs of its terms. An identifier in the field "surfaces" scores its idf alone, however often it
occurs: most texts have so few identifiers that the length of this field means nothing.

A query consists of clauses of terms, each with a weight. Texts are split into terms in
``cutter.py``; the weights are set in ``search/query.py``.
"""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

Field = Literal["words", "surfaces"]


class Term(NamedTuple):
    """A term of a field: a folded and stemmed word (``words``) or an identifier (``surfaces``)."""

    field: Field
    text: str


class Clause(NamedTuple):
    """One term, or a phrase: several consecutive words of the field ``words``.

    ``boost`` multiplies the BM25 score.
    ``parts``: for an identifier, the terms of the query that are its parts. The identifier and its
    parts together score the larger of the identifier's score and the sum of the parts' scores.
    """

    terms: tuple[Term, ...]
    boost: float = 1.0
    parts: tuple[Term, ...] = ()


class KeywordQuery(NamedTuple):
    """A query: the score of a document is the sum of the scores of its clauses.

    Documents with every clause of ``must`` are found; if it is empty, those with any of ``should``.
    """

    should: tuple[Clause, ...]
    must: tuple[Clause, ...] = ()


K1: Final = 1.2
B: Final = 0.75


def idf(documents: int, frequency: int) -> float:
    """Return the inverse document frequency of a term that ``frequency`` documents contain.

    ``frequency`` may include deleted documents. If it is larger than ``documents``, ``documents``
    is used in its place.
    """
    frequency = min(frequency, documents)
    return math.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def term_score(idf: float, count: int, length: float, mean_length: float) -> float:
    """Return the BM25 score of ``count`` occurrences in a text of ``length`` words."""
    return idf * count * (K1 + 1) / (count + K1 * (1 - B + B * length / mean_length))
