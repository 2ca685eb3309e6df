"""What a model knows of words, remembered: the interface of ``knowledge.py`` over its ``Words``.

Each word is judged as a text of its own: a key that the model makes of it and does not know makes
it unknown, and so does making no key of it at all (a rule that deletes digits, say).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from vocabtool.search.knowledge import Knowing
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.words import Words

MOST_REMEMBERED: Final = 1 << 16  # words; past it all are forgotten
LONGEST_REMEMBERED: Final = 100  # characters: longer ones hardly come twice


class ModelKnowledge:
    """Asks a model's words once for each word; several threads may ask."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._remembered: dict[str, Knowing] = {}
        self._subword = words.look_up(["a"]).pieces is not None

    @property
    def subword(self) -> bool:
        """Whether the model is one of pieces."""
        return self._subword

    def of(self, surfaces: Sequence[str]) -> list[Knowing]:
        """Of each word as it is written what the model knows; new ones are judged in one call."""
        remembered = self._remembered
        new = [surface for surface in dict.fromkeys(surfaces) if surface not in remembered]
        if not new:
            return [remembered[surface] for surface in surfaces]
        told = dict(zip(new, _knowing(self._words.look_up(new)), strict=True))
        found = [told.get(surface) or remembered[surface] for surface in surfaces]
        self._remember(told)
        return found

    def _remember(self, told: dict[str, Knowing]) -> None:
        """Another thread may still read the old ones, so those are replaced, never cleared."""
        kept = {each: told[each] for each in told if len(each) <= LONGEST_REMEMBERED}
        if len(self._remembered) + len(kept) > MOST_REMEMBERED:
            self._remembered = {}
        self._remembered.update(kept)


def _knowing(judged: WordLookup) -> list[Knowing]:
    """Of each text: whether all of its words are known and there is one, and pieces altogether."""
    missed = np.append(0, np.cumsum(~judged.known[judged.codes]))
    pieces = None
    if judged.pieces is not None:
        pieces = np.append(0, np.cumsum(judged.pieces[judged.codes], dtype=np.int64))
    found = []
    for start, end in pairwise(judged.offsets.tolist()):
        known = start < end and bool(missed[start] == missed[end])
        found.append(Knowing(known, None if pieces is None else int(pieces[end] - pieces[start])))
    return found
