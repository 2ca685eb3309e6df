"""The choices of a comparison, for the library and the command line; no heavy import here."""

from __future__ import annotations

from typing import Final, Literal, get_args

Fold = Literal["case", "nfkc", "markers"]
FOLDS: Final[tuple[Fold, ...]] = get_args(Fold)
Only = Literal["a", "b", "both"]  # a list of one part alone: who holds its entries
