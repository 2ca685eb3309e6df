"""Documents that Python holds one by one, as columns: documents, mappings, and texts alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral
from typing import TypeAlias

from vocabtool.documents.batch import BATCH_BYTES, BadRow, Document, names_of, strings
from vocabtool.documents.objects import as_bytes
from vocabtool.index.document_columns import (
    ID,
    MOST_ROWS,
    TEXT,
    DocumentRows,
    check_field,
    check_lengths,
    place_of,
)
from vocabtool.index.document_fields import of_values

Item: TypeAlias = Document | Mapping[str, object] | str


def rows_of_items(items: Iterable[Item], first_row: int) -> Iterator[DocumentRows]:
    """Documents in batches of about 4 MB of text; takes no item more than it gives out.

    A text is called by its row, counted on from ``first_row``. Raises ``ValueError``.
    """
    held, size = _Held(first_row), 0
    for item in items:
        size += held.add(item)
        if size >= BATCH_BYTES or len(held) == MOST_ROWS:
            yield held.rows()
            held, size = _Held(first_row, held.taken), 0
    if len(held):
        yield held.rows()


class _Held:
    """Documents gathered for a batch. ``taken``: how many items came so far, also before."""

    def __init__(self, first_row: int, taken: int = 0) -> None:
        self._first_row = first_row
        self._before = taken
        self._ids: list[bytes] = []
        self._texts: list[bytes] = []
        self._fields: dict[str, list[object]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def taken(self) -> int:
        return self._before + len(self)

    def add(self, item: Item) -> int:
        """Take one document; how many bytes its text has."""
        try:
            id_, text, fields = _parts(item, self._first_row + self.taken)
            held_id, held_text = as_bytes(id_), as_bytes(text)
            check_lengths(len(held_id), len(held_text))
            self._take(fields)
        except BadRow as bad:
            raise ValueError(f"{place_of(self.taken)}: {bad}") from bad
        self._ids.append(held_id)
        self._texts.append(held_text)
        return len(held_text)

    def _take(self, fields: Mapping[str, object]) -> None:
        """Put values at the ends of their columns; where documents had none, nulls come before."""
        for name, value in fields.items():
            if name not in self._fields:
                check_field(name, len(self._fields))
                self._fields[name] = []
            self._fields[name] += [*[None] * (len(self) - len(self._fields[name])), value]

    def rows(self) -> DocumentRows:
        """Them all as columns."""
        fields = {}
        try:
            for name, values in self._fields.items():
                fields[name] = of_values([*values, *[None] * (len(self) - len(values))], name)
        except BadRow as bad:
            place = f"documents: elements {self._before:,} to {self.taken - 1:,}"
            raise ValueError(f"{place}: {bad}") from bad
        return DocumentRows(strings(self._ids), strings(self._texts), fields)


def _parts(item: Item, row: int) -> tuple[str, str, Mapping[str, object]]:
    match item:
        case str():
            return str(row), item, {}
        case Document():
            return _name(item.id), _text(item.text), _without_taken(item)
        case Mapping():
            found = dict(item)
            for name in (ID, TEXT):
                if name not in found:
                    there = names_of([*map(str, found)])
                    raise BadRow(f"no field {name!r}; the fields are {there}")
            return _name(found.pop(ID)), _text(found.pop(TEXT)), found
    wanted = "wanted a Document, a mapping with id and text, or a string"
    raise BadRow(f"{wanted}, got {type(item).__name__}")


def _without_taken(document: Document) -> Mapping[str, object]:
    """The other fields of a document; one that says the id or text again is left out.

    Raises :class:`BadRow` where it says something else: conditions could not tell them apart.
    """
    fields = document.fields
    for name, value, hint in (
        (ID, document.id, "id_field='id'"),
        (TEXT, document.text, "field='text'"),
    ):
        if name in fields:
            if str(fields[name]) != value:
                what = f"a field {name!r} beside the document's own {name} {value[:50]!r}"
                raise BadRow(f"{what}: rename it, or read the documents with {hint}")
            fields = {other: fields[other] for other in fields if other != name}
    return fields


def _name(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | Integral):
        raise BadRow(f"wanted a string or a whole number for the id, got {type(value).__name__}")
    return str(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise BadRow(f"field 'text': wanted a string, got {type(value).__name__}")
    return value
