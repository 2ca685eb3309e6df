"""What a run of ``embed`` can be told; no heavy import: the command line reads it."""

from __future__ import annotations

from typing import Final, Literal, get_args

Runner = Literal["local", "ray"]
Check = Literal["stat", "content"]
Dtype = Literal["float32", "float16"]

RUNNERS: Final[tuple[Runner, ...]] = get_args(Runner)
CHECKS: Final[tuple[Check, ...]] = get_args(Check)
DTYPES: Final[tuple[Dtype, ...]] = get_args(Dtype)
SHARD_ROWS: Final = 65_536
