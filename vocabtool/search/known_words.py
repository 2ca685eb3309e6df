"""Which words the model of the vectors knows, by its own rule.

Each word is judged as a text of its own: a key that the model makes of it and does not know makes
it unknown, and so does making no key of it at all (a rule that deletes digits, say).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from vocabtool.tokenization.words import Words

MAX_REMEMBERED: Final = 1 << 16  # words; past it all are forgotten
MAX_REMEMBERED_LENGTH: Final = 100  # characters: longer ones hardly come twice


@dataclass(frozen=True, slots=True)
class WordStatus:
    """``known``: whether the model knows every key that it makes of the word.

    ``pieces``: into how many pieces a subword model cuts it; ``None`` for models of whole words.
    """

    known: bool
    pieces: int | None = None


class KnownWords:
    """Asks a model's words once for each word; several threads may ask.

    ``subword``: whether the model is one of pieces, to which hardly any word is unknown.
    """

    def __init__(self, words: Words) -> None:
        self._words = words
        self._remembered: dict[str, WordStatus] = {}
        self.subword = words.look_up(["a"]).pieces is not None

    def statuses(self, surfaces: Sequence[str]) -> list[WordStatus]:
        """What the model knows of each word as it is written; new ones are judged in one call."""
        remembered = self._remembered
        new = [surface for surface in dict.fromkeys(surfaces) if surface not in remembered]
        if not new:
            return [remembered[surface] for surface in surfaces]
        judged = dict(zip(new, self._judge(new), strict=True))
        found = [judged.get(surface) or remembered[surface] for surface in surfaces]
        kept = {each: judged[each] for each in judged if len(each) <= MAX_REMEMBERED_LENGTH}
        # Another thread may still read the old dictionary, so it is replaced, never cleared.
        if len(self._remembered) + len(kept) > MAX_REMEMBERED:
            self._remembered = {}
        self._remembered.update(kept)
        return found

    def _judge(self, surfaces: list[str]) -> list[WordStatus]:
        judged = self._words.look_up(surfaces)
        missed = np.append(0, np.cumsum(~judged.known[judged.codes]))
        pieces = None
        if judged.pieces is not None:
            pieces = np.append(0, np.cumsum(judged.pieces[judged.codes], dtype=np.int64))
        statuses = []
        for start, end in pairwise(judged.offsets.tolist()):
            known = start < end and bool(missed[start] == missed[end])
            count = None if pieces is None else int(pieces[end] - pieces[start])
            statuses.append(WordStatus(known, count))
        return statuses
