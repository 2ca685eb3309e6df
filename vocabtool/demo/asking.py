"""Queries whose answer is known, asked of an index by each way of searching.

How the queries are made is in ``questions.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

import numpy as np

from vocabtool.demo.questions import Question

if TYPE_CHECKING:
    from vocabtool.encoders.encoder import Encoder
    from vocabtool.index.index import Index
    from vocabtool.search.hits import Hit, Hits

Fusion = Literal["dense", "keyword", "rrf", "coverage"]

FUSIONS: Final[tuple[Fusion, ...]] = get_args(Fusion)
DEEP: Final = 100  # how far down an answer is looked for
FOUND: Final = 10  # places that a person looks at
TOP: Final = 3  # hits kept
NO_WORD: Final = "xqzzyvw"  # takes the place of an unknown word


@dataclass(frozen=True, slots=True)
class Answer:
    """Where the one right document came, by each way of searching.

    ``places``: from 1; ``None`` where it is not among the first :data:`DEEP`.
    ``dense``, ``hybrid``: the first :data:`TOP` hits without and with keywords, explained.
    ``blind``: whether the vector of the query is the same to the bit with any other unknown word
    in place of its own.
    """

    question: Question
    places: Mapping[Fusion, int | None]
    dense: Hits
    hybrid: Hits
    blind: bool

    def finds(self, fusion: Fusion) -> bool:
        """Whether the right document is among the first :data:`FOUND`."""
        place = self.places[fusion]
        return place is not None and place <= FOUND


class Found(NamedTuple):
    """In how many answers the right document came first, and among the first :data:`FOUND`."""

    first: int
    ten: int

    @classmethod
    def of(cls, answers: Sequence[Answer], fusion: Fusion) -> Found:
        """How well one way of searching did."""
        first = sum(answer.places[fusion] == 1 for answer in answers)
        return cls(first, sum(answer.finds(fusion) for answer in answers))


def ask(index: Index, encoder: Encoder, question: Question) -> Answer:
    """Search by each of :data:`FUSIONS`, with the settings that they have by default."""
    found = {fusion: index.search(question.text, k=DEEP, fusion=fusion) for fusion in FUSIONS}
    return Answer(
        question,
        {fusion: _place(found[fusion], question.document) for fusion in FUSIONS},
        index.search(question.text, k=TOP, fusion="dense", explain=True),
        index.search(question.text, k=TOP, fusion="coverage", explain=True),
        _is_blind(encoder, question),
    )


def _place(hits: Sequence[Hit], document: str) -> int | None:
    ids = [hit.id for hit in hits]
    return ids.index(document) + 1 if document in ids else None


def _is_blind(encoder: Encoder, question: Question) -> bool:
    """Whether the unknown word leaves no trace in the vector."""
    words = question.text.split()
    other = " ".join(NO_WORD if word == question.unknown else word for word in words)
    own, others = encoder.encode([question.text, other])
    return np.array_equal(own, others)
