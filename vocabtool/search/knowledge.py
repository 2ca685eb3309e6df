"""Which words of a query the model of the vectors knows.

The model's own rule decides: a surface word is unknown when a key that the model makes of it is.
What that means for a ranking is in ``weighing.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Knowing(NamedTuple):
    """``known``: whether the model knows every key that it makes of the word.

    ``pieces``: into how many pieces a subword model cuts it; ``None`` for models of whole words.
    """

    known: bool
    pieces: int | None = None


class Knowledge(Protocol):
    """Tells what one model knows. Several threads may ask at a time.

    ``subword``: whether the model is one of pieces, to which hardly any word is unknown.
    """

    @property
    def subword(self) -> bool: ...

    def of(self, surfaces: Sequence[str]) -> list[Knowing]:
        """Of each word as it is written what the model knows."""
