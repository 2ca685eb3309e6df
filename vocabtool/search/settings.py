"""What a caller may choose about a search, checked when it is chosen."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vocabtool.choices import FUSIONS, NO_RESULTS, PHRASES, Fusion, NoResults, Phrases

Predicate = Callable[[str], bool]

A_OF_WORDS: Final = 0.5  # the best fixed weights on public collections
A_OF_PIECES: Final = 0.4

DEPTH: Final = 100
MAX_SMALL: Final = 2_000  # rows: of no more, all are candidates, as a list's end costs nDCG


@dataclass(frozen=True, slots=True)
class Settings:
    """How the two legs are asked and fused.

    ``a``: weight of the keyword leg, 0 to 1; ``None``: 0.5, or 0.4 for models of pieces, where the
    index was not calibrated.
    ``boost``, ``code_boost``: ``coverage`` counts an unknown word 1 + ``boost`` times, an
    identifier as a whole 1 + ``code_boost`` times at least.
    ``k_rrf``: the constant of reciprocal rank fusion.
    ``depth``: how many documents a leg gives; ``None``: 100, or all of 2,000 rows at most.
    ``guarantee``: whether documents that hold an identifier of the query come first: a name, or a
    code that the model does not know.
    ``identifier``: which words, as written, are identifiers: a predicate, or a regular expression
    that the whole word fits; ``None``: :func:`~vocabtool.keywords.identifiers.is_identifier`.
    ``empty``: what to give where every word is unknown and none is in the corpus: nothing, the
    nearest vectors as guesses, or what the nearest spellings find.
    ``phrases``: whether documents without a quoted phrase are left out.
    Raises ``ValueError`` for what is out of its range.
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

    def __post_init__(self) -> None:
        choices = {"fusion": FUSIONS, "empty": NO_RESULTS, "phrases": PHRASES}
        for name, allowed in choices.items():
            if (got := getattr(self, name)) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {got!r}")
        least = {"k_rrf": 1, "boost": 0, "code_boost": 0, "depth": 1}
        for name, lowest in least.items():
            number = getattr(self, name)
            if number is not None and not lowest <= number < float("inf"):
                raise ValueError(f"{name} must be at least {lowest}, got {number}")
        if self.a is not None and not 0 <= self.a <= 1:
            raise ValueError(f"a must be from 0 to 1, got {self.a}")
        if isinstance(self.identifier, str):
            try:
                re.compile(self.identifier)
            except re.error as error:
                what = f"identifier: {self.identifier!r} is not a valid regular expression: {error}"
                raise ValueError(what) from error

    def is_identifier(self) -> Predicate:
        """Which words count as identifiers."""
        if self.identifier is None:
            from vocabtool.keywords.identifiers import is_identifier

            return is_identifier
        if isinstance(self.identifier, str):
            fits = re.compile(self.identifier).fullmatch
            return lambda word: fits(word) is not None
        return self.identifier

    def weight(self, subword: bool) -> float:
        """``a``, or the default."""
        if self.a is not None:
            return self.a
        return A_OF_PIECES if subword else A_OF_WORDS

    def limit(self, documents: int) -> int:
        """``depth``, or the default for an index of so many rows."""
        if self.depth is not None:
            return self.depth
        return max(documents, 1) if documents <= MAX_SMALL else DEPTH


@dataclass(frozen=True, slots=True)
class Calibration:
    """How much the keyword leg weighs in one index, as the index keeps it.

    ``a``: the weight that a search takes, 0 to 1, found by ``evaluation/``.

    ``judged``: by how many judged queries it was tuned, 0: by none, it is an estimate. ``sample``:
    documents that queries were made of; ``seed``: of the drawing. ``documents``: how many the index
    held.
    """

    a: float
    judged: int
    sample: int
    seed: int
    documents: int = 0
