"""How much the keyword leg weighs in one index, as the index keeps it.

It is found in ``evaluation/calibrate.py`` and ``evaluation/tune.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vocabtool.errors import InvalidFile


@dataclass(frozen=True, slots=True)
class Calibration:
    """``a``: the weight that a search takes, 0 to 1.

    ``judged``: by how many judged queries it was tuned, 0: by none, it is an estimate. ``sample``:
    documents that queries were made of; ``seed``: of the drawing. ``documents``: how many the index
    held.
    """

    a: float
    judged: int
    sample: int
    seed: int
    documents: int = 0

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Calibration:
        """Out of a file. Raises :class:`InvalidFile` for what is none."""
        found = cls(**told)
        if type(found.a) is not float or not 0 <= found.a <= 1:
            raise InvalidFile("the calibration's weight is no number from 0 to 1")
        counts = (found.judged, found.sample, found.documents)
        if not all(type(each) is int for each in (*counts, found.seed)) or min(counts) < 0:
            raise InvalidFile("the calibration's counts are no whole numbers")
        return found
