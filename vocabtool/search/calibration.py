"""How much the keyword leg weighs in one index, as the index keeps it.

It is found in ``evaluation/calibrate.py`` and ``evaluation/tune.py``.
"""

from __future__ import annotations

from dataclasses import dataclass


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
