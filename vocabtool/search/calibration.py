"""How much the keyword leg weighs in one index: what a calibration found, as the index keeps it.

It is found in ``evaluation/calibrating.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from vocabtool.errors import InvalidFile


def shifted(a0: float, shift: float) -> float:
    """A weight, 0 to 1: the estimate by documents, and by how much queries move it."""
    return min(max(a0 + shift, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Calibration:
    """``a``: the weight that a search takes. ``a0``: the estimate by pseudo-queries alone.

    ``shift``: what unjudged queries moved it by. ``judged``: by how many judged queries it was
    tuned instead, 0: by none, it is an estimate. ``sample``: documents; ``seed``: of the drawing.
    ``documents``: how many the index held.
    """

    a: float
    a0: float
    shift: float
    judged: int
    sample: int
    seed: int
    documents: int = 0

    def shifted_by(self, shift: float) -> Calibration:
        """The same documents' estimate, as other queries shifted it."""
        return replace(self, a=shifted(self.a0, shift), shift=shift)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Calibration:
        """Out of a file. Raises :class:`InvalidFile` for what is none."""
        found = cls(**told)
        if not all(type(each) is float for each in (found.a, found.a0, found.shift)):
            raise InvalidFile("the calibration's weights are none")
        if not (0 <= found.a <= 1 and 0 <= found.a0 <= 1 and -1 <= found.shift <= 1):
            raise InvalidFile("the calibration's weights are none")
        counts = (found.judged, found.sample, found.documents)
        if not all(type(each) is int for each in (*counts, found.seed)) or min(counts) < 0:
            raise InvalidFile("the calibration's counts are none")
        return found
