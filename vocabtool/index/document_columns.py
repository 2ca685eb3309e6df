"""Documents as Arrow columns on their way into an index, and what may be in them.

How they are made of what a caller gives is in ``document_items.py`` and ``document_tables.py``,
where they are kept in ``document_writer.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.batch import BadRow
from vocabtool.documents.columns import byte_lengths
from vocabtool.documents.objects import as_bytes
from vocabtool.index.document_fields import FieldColumn
from vocabtool.vocabulary import decode

if TYPE_CHECKING:
    import pyarrow as pa

ID: Final = "id"
TEXT: Final = "text"
MOST_ROWS: Final = 8192  # in a batch
MOST_ID: Final = 1 << 15  # bytes; the keyword leg holds an id as one term of at most 65,530
MOST_TEXT: Final = 1 << 29  # bytes; a batch of one more stays below Arrow's 2 GB of strings
MOST_FIELDS: Final = 256
MOST_NAME: Final = 256  # bytes of a field's name


class DocumentRows(NamedTuple):
    """Documents that follow each other; row ``i`` of everything is the same one.

    ``ids``, ``texts``: Arrow ``string`` arrays of length n without nulls, perhaps not UTF-8.
    ``fields``: columns of the same length, by name. ``place``: where a row stands in a file.
    """

    ids: pa.StringArray
    texts: pa.StringArray
    fields: Mapping[str, FieldColumn]
    place: Callable[[int], str] | None = None

    @property
    def rows(self) -> int:
        """How many documents they are."""
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """How many bytes the columns take."""
        held = sum(column.texts.nbytes for column in self.fields.values())
        return int(self.ids.nbytes + self.texts.nbytes + held)

    def only(self, chosen: NDArray[np.bool_]) -> DocumentRows:
        """The rows that are chosen; ``chosen``: shape (n,). A field keeps its kind."""
        import pyarrow as pa

        mask = pa.array(chosen)
        fields = {
            name: FieldColumn(column.texts.filter(mask), column.kind)
            for name, column in self.fields.items()
        }
        return DocumentRows(self.ids.filter(mask), self.texts.filter(mask), fields)


def id_in_utf8(id_: str) -> str:
    """An id as an index holds it: U+FFFD in place of what is not UTF-8. ``ValueError``: no id."""
    if not isinstance(id_, str):
        raise ValueError(f"wanted an id, a string, got {type(id_).__name__}")
    return as_bytes(id_).decode("utf-8", "replace")


def decoded(column: pa.StringArray) -> list[str]:
    """Ids or texts as Python's strings; bytes that are not UTF-8 become lone surrogates."""
    import pyarrow as pa

    try:
        return cast(list[str], column.to_pylist())
    except UnicodeDecodeError:
        return [*map(decode, column.view(pa.binary()).to_pylist())]


def place_of(number: int) -> str:
    """Where an element stands that a caller gave; from 0 on."""
    return f"documents: element {number:,}"


def checked(rows: DocumentRows, place: Callable[[int], str]) -> DocumentRows:
    """Raises ``ValueError`` for a row without id or text, or where one is too long."""
    for name, column, most in ((ID, rows.ids, MOST_ID), (TEXT, rows.texts, MOST_TEXT)):
        if column.null_count:
            row = int(np.argmin(np.asarray(column.is_valid())))
            raise ValueError(f"{place(row)}: wanted a string for {name!r}, got null")
        lengths = byte_lengths(column)
        if len(lengths) and lengths.max() > most:
            row = int(np.argmax(lengths))
            what = f"{name!r} of {lengths[row]:,} bytes, wanted at most {most:,}"
            raise ValueError(f"{place(row)}: {what}")
    return rows


def check_lengths(id_bytes: int, text_bytes: int) -> None:
    """Raise :class:`BadRow` for an id or a text that is too long."""
    if id_bytes > MOST_ID:
        raise BadRow(f"an id of {id_bytes:,} bytes, wanted at most {MOST_ID:,}")
    if text_bytes > MOST_TEXT:
        raise BadRow(f"a text of {text_bytes:,} bytes, wanted at most {MOST_TEXT:,}")


def check_field(name: object, others: int) -> None:
    """Raise :class:`BadRow` for what is no name of a field, or is one too many."""
    if not isinstance(name, str) or not name:
        raise BadRow(f"wanted a name for each field, got {name!r}")
    if len(as_bytes(name)) > MOST_NAME or not name.isprintable():
        raise BadRow(f"a field's name is of at most {MOST_NAME} printable bytes: {name[:50]!r}")
    if others >= MOST_FIELDS:
        raise BadRow(f"more than {MOST_FIELDS} fields; the last is {name!r}")


def check_name(name: str, where: str) -> None:
    """Raise ``ValueError`` for a column that cannot be a field."""
    try:
        if name in (ID, TEXT):
            raise BadRow(f"the name {name!r} is taken by the document's own {name}")
        check_field(name, 0)
    except BadRow as bad:
        raise ValueError(f"{where}: {bad}") from bad
