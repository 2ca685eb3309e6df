"""How documents are read: the options that ``oov``, ``embed``, ``index`` and ``stream`` share.

Imports nothing heavy: the command line takes its choices from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

Format = Literal["lines", "jsonl", "csv", "tsv", "parquet", "arrow", "tfrecord"]
OnError = Literal["raise", "skip"]
OnDuplicate = Literal["error", "first", "last"]


class ReadArguments(TypedDict, total=False):
    """The keyword arguments that make :class:`ReadOptions`."""

    field: str | None
    format: Format | None
    id_field: str | None
    keep: Sequence[str]
    on_error: OnError
    on_duplicate: OnDuplicate | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadOptions:
    """How documents are read.

    ``field``: which field holds the text, ``text`` unless said; or the only column there is.
    ``format``: of every file; else each file's suffix tells, and ``lines`` if it does not.
    ``id_field``: which field holds the id, a string or whole number, else the row is bad.
    ``keep``: which other fields become columns of strings: a string as it is, another value as
    its JSON text, null where a row has none.
    ``on_error``: whether a bad row raises, or is skipped and counted.
    ``on_duplicate``: whether an id that was there before is an error, or only the ``"first"`` or
    ``"last"`` document of each id is read (``"last"`` reads everything twice). ``None``: ids are
    not compared.

    Raises ``ValueError`` for a value that none of them can have.
    """

    field: str | None = None
    format: Format | None = None
    id_field: str | None = None
    keep: Sequence[str] = ()
    on_error: OnError = "raise"
    on_duplicate: OnDuplicate | None = "error"

    @property
    def passes(self) -> int:
        """Return how many times each file is read."""
        return 2 if self.on_duplicate == "last" else 1

    def __post_init__(self) -> None:
        if isinstance(self.keep, str):
            raise ValueError(f"keep must be a list of names, got one: [{self.keep!r}]")
        object.__setattr__(self, "keep", tuple(self.keep))
        for name, choices, or_none in (
            ("format", Format, " or None"),
            ("on_error", OnError, ""),
            ("on_duplicate", OnDuplicate, " or None"),
        ):
            value, wanted = getattr(self, name), get_args(choices)
            if value not in wanted and not (or_none and value is None):
                raise ValueError(f"{name}: wanted one of {wanted}{or_none}, got {value!r}")
