"""The BM25 formula of one term, as tantivy computes it, and the types of a keyword query.

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009), with the
inverse document frequency of Lucene and tantivy:

    idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))
    score(t, d) = idf(t) tf (k1 + 1) / (tf + k1 (1 - b + b |d| / mean |d|))

Here |d| is the length of a text as :func:`stored_length` returns it; the mean is of exact lengths.

A phrase counts as one term; its idf is the sum of the idfs of its terms. The score of an
identifier is only its idf, because texts have too few identifiers for a meaningful length.
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

    ``parts``: for a clause with an identifier, the terms of the identifier's parts. The score of
    the clause is the larger of the identifier's score and the sum of the parts' scores.
    """

    terms: tuple[Term, ...]
    boost: float = 1.0
    parts: tuple[Term, ...] = ()


class KeywordQuery(NamedTuple):
    """A query: the score of a document is the sum of the scores of its clauses.

    A search finds the documents that match every clause of ``must``. If ``must`` is empty, the
    search finds the documents that match any clause of ``should``.
    """

    should: tuple[Clause, ...]
    must: tuple[Clause, ...] = ()


K1: Final = 1.2
B: Final = 0.75


def idf(documents: int, frequency: int) -> float:
    """Return the inverse document frequency of a term.

    ``frequency``: the number of documents that contain the term. It may exceed ``documents``,
    because it includes deleted documents.
    """
    frequency = min(frequency, documents)
    return math.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def stored_length(length: int) -> int:
    """Return the number of words of a text as tantivy stores it, in one byte.

    Numbers below 40 are exact. A larger one is rounded down: 24 is subtracted, and only the four
    highest bits of the rest are kept. Source: Lucene's ``SmallFloat.intToByte4``.
    """
    rest = max(length - 24, 0)
    dropped = max(rest.bit_length() - 4, 0)
    return min(length, 24) + (rest >> dropped << dropped)


def term_score(idf: float, count: int, length: float, mean_length: float) -> float:
    """Return the BM25 score of a term in a text.

    ``count``: the number of occurrences of the term. ``length``: the number of words of the text,
    or its stored length.
    """
    return idf * count * (K1 + 1) / (count + K1 * (1 - B + B * length / mean_length))
