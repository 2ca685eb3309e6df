"""Options for reading documents, shared by ``oov``, ``embed``, ``index`` and ``stream``.

The command line imports the choices of its options from here, so this module imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

Format = Literal["lines", "jsonl", "csv", "tsv", "parquet", "arrow", "tfrecord"]
OnError = Literal["raise", "skip"]
OnDuplicate = Literal["error", "first", "last"]


class ReadArguments(TypedDict, total=False):
    """The keyword arguments of :class:`ReadOptions`."""

    field: str | None
    format: Format | None
    id_field: str | None
    keep: Sequence[str]
    on_error: OnError
    on_duplicate: OnDuplicate | None
    vector_field: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadOptions:
    """Options for reading documents.

    ``field``: the field that contains the text. Default: ``text``, or else the only column.
    ``format``: the format of every file. Default: by the suffix of each file, else ``lines``.
    ``id_field``: the field that contains the id, a string or an integer; a row without it is
    invalid. Default: the location of a document is its id.
    ``keep``: other fields to keep, as columns of strings. A string is kept unchanged, any other
    value as JSON text; if a row lacks the field, the value is null.
    ``on_error``: for an invalid row, ``"raise"`` an error, or ``"skip"`` and count the row.
    ``on_duplicate``: if an id occurs again, raise an ``"error"``, or read only the ``"first"`` or
    the ``"last"`` document with the id (``"last"`` reads the sources twice). ``None``: ids are not
    compared.
    ``vector_field``: the field with the vector of a document, a list of numbers (Parquet, Arrow,
    JSON lines and Python objects). A row without it, or of another length, is invalid.

    Raises ``ValueError`` for an invalid value of ``keep``, ``format``, ``on_error`` or
    ``on_duplicate``.
    """

    field: str | None = None
    format: Format | None = None
    id_field: str | None = None
    keep: Sequence[str] = ()
    on_error: OnError = "raise"
    on_duplicate: OnDuplicate | None = "error"
    vector_field: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.keep, str):
            raise ValueError(f"keep must be a list of names, got a string; use [{self.keep!r}]")
        object.__setattr__(self, "keep", tuple(self.keep))
        for name, choices, or_none in (
            ("format", Format, " or None"),
            ("on_error", OnError, ""),
            ("on_duplicate", OnDuplicate, " or None"),
        ):
            value, wanted = getattr(self, name), get_args(choices)
            if value not in wanted and not (or_none and value is None):
                raise ValueError(f"{name}: wanted one of {wanted}{or_none}, got {value!r}")
