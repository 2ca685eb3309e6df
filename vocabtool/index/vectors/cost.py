"""What searches cost, roughly: enough to choose between them, the same on every machine.

In nanoseconds on one core of a server of 2023 (measured on a million vectors of 256 numbers).
"""

from __future__ import annotations

from typing import Final

COMPARED: Final = 0.04  # per dimension of a row whose code is compared
REFINED: Final = 1.8  # per dimension of a row whose vector is read and compared


def by_codes(rows: float, candidates: int, dim: int) -> float:
    """Of comparing so many codes and refining so many candidates."""
    return dim * (rows * COMPARED + candidates * REFINED)


def exactly(rows: int, dim: int) -> float:
    """Of comparing so many vectors that lie scattered in a file."""
    return dim * rows * REFINED
