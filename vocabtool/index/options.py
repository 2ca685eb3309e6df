"""What an index can be made and filled with; no heavy import: the command line reads it."""

from __future__ import annotations

from typing import Final, Literal, get_args

Metric = Literal["cosine", "inner-product", "l2"]
StoredType = Literal["float16", "float32"]
OnExisting = Literal["error", "skip", "update"]

METRICS: Final[tuple[Metric, ...]] = get_args(Metric)
STORED_TYPES: Final[tuple[StoredType, ...]] = get_args(StoredType)
ON_EXISTING: Final[tuple[OnExisting, ...]] = get_args(OnExisting)

EXACT_BELOW: Final = 20_000  # rows up to which a search of all vectors is quick
RECALL: Final = 0.95
COMMIT_ROWS: Final = 100_000  # documents between commits: what a stop can cost
