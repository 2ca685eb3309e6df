"""Tables with columns ``id`` and ``text`` as documents; their other columns are fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from vocabtool.documents.batch import names_of
from vocabtool.documents.columns import as_strings, in_parts, is_long, is_strings
from vocabtool.index.document_columns import (
    ID,
    MOST_FIELDS,
    MOST_ROWS,
    TEXT,
    DocumentRows,
    check_name,
    checked,
    place_of,
)
from vocabtool.index.document_fields import of_column

if TYPE_CHECKING:
    import pyarrow as pa


def rows_of_table(parts: Iterable[pa.RecordBatch]) -> Iterator[DocumentRows]:
    """The rows of a table in batches of at most 4 MB of text. Raises ``ValueError``."""
    first = 0
    for whole in parts:
        _check_columns(whole.schema)
        long = [field.name for field in whole.schema if is_long(field.type)]
        for start in range(0, whole.num_rows, MOST_ROWS):
            for part in in_parts(whole.slice(start, MOST_ROWS), long):
                yield _of_part(part, first)
                first += part.num_rows


def _check_columns(schema: pa.Schema) -> None:
    import pyarrow.types as of

    for name in (ID, TEXT):
        if schema.names.count(name) != 1:
            found = names_of(schema.names)
            raise ValueError(f"documents: wanted one column {name!r}, got {found}")
        kind = schema.field(name).type
        if not is_strings(kind) and not (name == ID and of.is_integer(kind)):
            raise ValueError(f"documents: column {name!r}: wanted strings, got {kind}")
    others = [name for name in schema.names if name not in (ID, TEXT)]
    if len(set(others)) < len(others) or len(others) > MOST_FIELDS:
        raise ValueError(f"documents: wanted at most {MOST_FIELDS} columns, each of its own name")
    for name in others:
        check_name(name, "documents")


def _of_part(part: pa.RecordBatch, first: int) -> DocumentRows:
    fields = {
        name: of_column(part.column(name), name)
        for name in part.schema.names
        if name not in (ID, TEXT)
    }
    ids, texts = (as_strings(part.column(name), name) for name in (ID, TEXT))
    return checked(DocumentRows(ids, texts, fields), lambda row: place_of(first + row))
