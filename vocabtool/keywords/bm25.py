"""BM25 of one term, as the engine computes it.

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009), with the
inverse document frequency that Lucene and tantivy use, which is never negative:

    idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))
    score(t, d) = idf(t) tf (k1 + 1) / (tf + k1 (1 - b + b |d| / mean |d|))

A phrase counts as one term that occurs as often as the phrase does; its idf is the sum of its
terms'. The identifiers of the field "surfaces" are there or not: their score is their idf alone,
since in most texts there are so few that their lengths would say nothing.

What a keyword engine is asked: clauses of terms, each with the weight that it counts.

How a text becomes terms is in ``cutter.py``, what weighs how much is the search's business.
"""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

Field = Literal["words", "surfaces"]


class Term(NamedTuple):
    """``words``: folded and stemmed words; ``surfaces``: identifiers by their folded surface."""

    field: Field
    text: str


class Clause(NamedTuple):
    """One term, or several words of the field ``words`` that follow each other: a phrase.

    ``boost`` multiplies its BM25 score.
    ``parts``: of a whole surface the words of the same query that it outdoes: it adds only what
    its score is above the sum of theirs.
    """

    terms: tuple[Term, ...]
    boost: float = 1.0
    parts: tuple[Term, ...] = ()


class KeywordQuery(NamedTuple):
    """A document's score is the sum of its clauses' scores; it holds every clause of ``must``.

    Without ``must`` it holds at least one clause of ``should``.
    """

    should: tuple[Clause, ...]
    must: tuple[Clause, ...] = ()


K1: Final = 1.2
B: Final = 0.75


def idf(documents: int, frequency: int) -> float:
    """Inverse document frequency of a term that ``frequency`` of ``documents`` hold.

    A frequency may count deleted documents too: one above ``documents`` is taken for all of them.
    """
    frequency = min(frequency, documents)
    return math.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def term_score(idf: float, count: int, length: float, mean_length: float) -> float:
    """What ``count`` occurrences in a text of ``length`` words are worth."""
    return idf * count * (K1 + 1) / (count + K1 * (1 - B + B * length / mean_length))
