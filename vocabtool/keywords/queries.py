"""What a keyword engine is asked: clauses of terms, each with the weight that it counts.

How a text becomes terms is in ``cutter.py``, what weighs how much is the search's business.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

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
