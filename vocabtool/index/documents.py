"""Documents on their way into an index: what callers give, as Arrow columns.

Documents, mappings and texts of Python, tables, and the batches that ``documents/`` reads from
files all become ``DocumentRows``.

Fields of documents: which kind their values are of, and how they are written as text.

Values come as texts, and the kind of a field says how they are read. It is that of the first commit
which has the field, and stays, but that whole numbers may become numbers: a value of another kind
is refused, or left out.

    null      nothing but nulls so far
    integer   whole numbers of 64 bits
    number    whole numbers and others: read as 64-bit floating point (IEEE 754)
    boolean   true and false
    string    all else; lists and objects as their JSON text
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import isnan
from numbers import Integral
from typing import Final, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as of
from numpy.typing import NDArray

from vocabtool.documents.batch import BATCH_BYTES, BadRow, Batch, Document, names_of, strings
from vocabtool.documents.objects import as_bytes, as_string
from vocabtool.documents.tables import as_strings, byte_lengths, in_parts, is_long, is_strings
from vocabtool.embedding.shard_files import as_utf8
from vocabtool.errors import InvalidFile
from vocabtool.vocabulary import decode

Kind = Literal["null", "integer", "number", "boolean", "string"]

PLAIN: Final[dict[Kind, str]] = {
    "null": "nothing",
    "integer": "whole numbers",
    "number": "numbers",
    "boolean": "true and false",
    "string": "strings",
}
LEAST: Final = -(1 << 63)
MOST: Final = (1 << 63) - 1
# RFC 8259, section 6; more digits than a 64-bit integer has are no integer
BOOLEAN: Final = "true|false"
INTEGER: Final = "-?(0|[1-9][0-9]{0,18})"
NUMBER: Final = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?"


Value = bytes | int | float | None


class FieldColumn(NamedTuple):
    """One field of some documents: Arrow ``string`` array of length n with nulls, and its kind."""

    texts: pa.StringArray
    kind: Kind


def union(one: Kind, other: Kind) -> Kind:
    """The narrowest kind that holds the values of both."""
    if other in (one, "null"):
        return one
    if one == "null":
        return other
    return "number" if {one, other} == {"integer", "number"} else "string"


def fit_to_kind(column: FieldColumn, kind: Kind) -> tuple[FieldColumn, list[int]]:
    """A column of values that are of a kind, others null, and the rows of these.

    Whole numbers become numbers where others come; all is text where the kind is.
    """
    if kind == "null" or union(kind, column.kind) in (kind, "number"):
        return column, []
    pattern = BOOLEAN if kind == "boolean" else NUMBER
    fits = pc.match_substring_regex(column.texts, f"^(?:{pattern})$")
    texts = pc.if_else(fits, column.texts, pa.scalar(None, pa.string()))
    return of_texts(texts), np.flatnonzero(np.asarray(pc.invert(fits).fill_null(False))).tolist()


def narrowest(kinds: Iterable[Kind]) -> Kind:
    """The narrowest kind that holds the values of all."""
    return reduce(union, kinds, "null")


def of_values(values: Sequence[object], name: str) -> FieldColumn:
    """What Python holds, by the types of the values; ``None`` and not-a-number are null.

    Raises :class:`~vocabtool.documents.batch.BadRow` where no JSON can be made of a value.
    """
    plain = [value if type(value) in (str, int) else _plain(value) for value in values]
    kind = narrowest(set(map(_kind, plain)))
    return FieldColumn(_to_texts(plain, kind, name), kind)


def _plain(value: object) -> object:
    """A NumPy number as Python's; what is not a number as null."""
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "ndim", None) == 0:
        value = item()
    return None if isinstance(value, float) and isnan(value) else value


def _to_texts(values: Sequence[object], kind: Kind, name: str) -> pa.StringArray:
    """As texts; whole numbers and plain words all at once, as that is quick."""
    try:
        if kind == "integer":
            return pa.array(values, pa.int64()).cast(pa.string())
        return pa.array(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        return strings([as_string(value, name) for value in values])


def _kind(value: object) -> Kind:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer" if LEAST <= value <= MOST else "number"
        case float():
            return "number"
        case _:
            return "string"


def of_texts(texts: pa.StringArray) -> FieldColumn:
    """A column of strings, as a file of documents gives them: their spelling tells the kind."""
    return FieldColumn(texts, _find_kind(texts))


def _find_kind(texts: pa.StringArray) -> Kind:
    there = texts.drop_null() if texts.null_count else texts
    if not len(there):
        return "null"
    first = there[0].as_buffer().to_pybytes()  # tells of most columns of words that they are some
    if first in (b"true", b"false"):
        return "boolean" if _all_like(there, BOOLEAN) else "string"
    if not re.fullmatch(NUMBER.encode(), first):
        return "string"
    if _all_like(there, INTEGER):
        return "integer" if _fit(there) else "number"
    return "number" if _all_like(there, NUMBER) else "string"


def _all_like(texts: pa.StringArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, f"^(?:{pattern})$")).as_py())


def _fit(texts: pa.StringArray) -> bool:
    """Whether whole numbers are of 64 bits."""
    try:
        texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def of_column(column: pa.Array, name: str) -> FieldColumn:
    """A typed column of Arrow; times become ISO 8601. Raises :class:`InvalidFile`: too deep."""
    kind = column.type
    if of.is_dictionary(kind):
        return of_column(column.dictionary_decode(), name)
    if of.is_null(kind):
        return FieldColumn(pa.nulls(len(column), pa.string()), "null")
    if of.is_boolean(kind):
        return FieldColumn(column.cast(pa.string()), "boolean")
    if of.is_integer(kind):
        texts = column.cast(pa.string())
        return FieldColumn(texts, "integer" if _fit(texts) else "number")
    if of.is_floating(kind) or of.is_decimal(kind):
        return FieldColumn(_numbers(column).cast(pa.string()), "number")
    return FieldColumn(as_strings(column, name), "string")


def _numbers(column: pa.Array) -> pa.Array:
    """Null where one is not a number."""
    if of.is_decimal(column.type):
        return column
    wide = column.cast(pa.float32()) if of.is_float16(column.type) else column
    return pc.if_else(pc.is_nan(wide), None, wide)


def values_of(column: FieldColumn, kind: Kind) -> list[Value]:
    """The values of a column as a database keeps them, read as values of a kind.

    Strings are given as bytes, which may be no UTF-8.
    """
    texts: list[bytes | None] = column.texts.view(pa.binary()).to_pylist()
    if kind in ("string", "null"):
        return [*texts]
    if kind == "integer":
        whole: list[Value] = column.texts.cast(pa.int64()).to_pylist()
        return whole
    return [None if text is None else value_of(text.decode(), kind) for text in texts]


def value_of(text: str, kind: Kind) -> Value:
    """One text read as a value of a kind; a whole number stays one among other numbers."""
    if kind == "boolean":
        return int(text == "true")
    if re.fullmatch(INTEGER, text) and LEAST <= int(text) <= MOST:
        return int(text)
    return float(text)


ID: Final = "id"
TEXT: Final = "text"
MAX_BATCH_ROWS: Final = 8192
MAX_ID_BYTES: Final = 1 << 15  # the keyword leg holds an id as one term of at most 65,530
MAX_TEXT_BYTES: Final = 1 << 29  # a batch of one more stays below Arrow's 2 GB of strings
MAX_FIELDS: Final = 256
MAX_NAME_BYTES: Final = 256

Item: TypeAlias = Document | Mapping[str, object] | str
Items: TypeAlias = "Iterable[Item] | pa.Table | pa.RecordBatch | pa.RecordBatchReader"


@dataclass(frozen=True, slots=True, eq=False)
class DocumentRows:
    """Documents that follow each other; row ``i`` of everything is the same one.

    ``ids``, ``texts``: Arrow ``string`` arrays of length n without nulls, perhaps not UTF-8.
    ``fields``: columns of the same length, by name. ``place``: where a row stands in a file.
    """

    ids: pa.StringArray
    texts: pa.StringArray
    fields: Mapping[str, FieldColumn]
    place: Callable[[int], str] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def only(self, chosen: NDArray[np.bool_]) -> DocumentRows:
        """The rows that are chosen; ``chosen``: shape (n,). A field keeps its kind."""
        mask = pa.array(chosen)
        fields = {
            name: FieldColumn(column.texts.filter(mask), column.kind)
            for name, column in self.fields.items()
        }
        return DocumentRows(self.ids.filter(mask), self.texts.filter(mask), fields)

    def in_utf8(self) -> DocumentRows:
        """The documents with U+FFFD in ids and texts in place of bytes that are not UTF-8."""
        ids, texts = (as_utf8(column)[0] for column in (self.ids, self.texts))
        return replace(self, ids=ids, texts=texts)


def id_in_utf8(id_: str) -> str:
    """An id as an index holds it: U+FFFD in place of what is not UTF-8. ``ValueError``: no id."""
    if not isinstance(id_, str):
        raise ValueError(f"wanted an id, a string, got {type(id_).__name__}")
    return as_bytes(id_).decode("utf-8", "replace")


def python_strings(column: pa.StringArray) -> list[str]:
    """Texts as Python's strings; bytes that are not UTF-8 become lone surrogates."""
    try:
        return cast(list[str], column.to_pylist())
    except UnicodeDecodeError:
        return [*map(decode, column.view(pa.binary()).to_pylist())]


def of_batch(batch: Batch) -> DocumentRows:
    """A batch of files; the spelling of the kept fields' strings tells their kinds."""
    for name in batch.columns:
        _check_column_name(name, batch.source)
    fields = {name: of_texts(column) for name, column in batch.columns.items()}
    rows = DocumentRows(batch.id_array(), batch.texts, fields, batch.place)
    return out_of_file(rows, batch.place)


def out_of_file(rows: DocumentRows, place: Callable[[int], str]) -> DocumentRows:
    """The rows, checked. Raises :class:`InvalidFile`: they are not what a caller made up."""
    try:
        return _check_rows(rows, place)
    except ValueError as error:
        raise InvalidFile(str(error)) from error


def document_rows(items: Items, first_row: int = 0) -> Iterator[DocumentRows]:
    """What Python holds in batches of about 4 MB of text; takes no item more than it gives out.

    ``items``: an iterable of documents, of mappings with ``id`` and ``text``, or of texts; or a
    table with such columns (Arrow, and what hands itself over as Arrow: pandas, Polars). What else
    a mapping or table has are fields. A text is called by its row, counted on from ``first_row``.

    Raises ``ValueError`` with the place of the element that is no document.
    """
    if isinstance(items, pa.RecordBatch):
        return _rows_of_table([items])
    if hasattr(items, "__arrow_c_stream__"):
        return _rows_of_table(pa.RecordBatchReader.from_stream(items))
    if isinstance(items, Iterable) and not isinstance(items, str | bytes | Mapping):
        return _rows_of_items(items, first_row)
    wanted = "documents: wanted an iterable of documents, mappings or texts, or a table"
    raise ValueError(f"{wanted}, got {type(items).__name__}")


def _place(number: int) -> str:
    return f"documents: element {number:,}"


def _rows_of_items(items: Iterable[Item], first_row: int) -> Iterator[DocumentRows]:
    batch, size = _ItemBatch(first_row), 0
    for item in items:
        size += batch.add(item)
        if size >= BATCH_BYTES or len(batch.ids) == MAX_BATCH_ROWS:
            yield batch.rows()
            batch, size = _ItemBatch(first_row, batch.before + len(batch.ids)), 0
    if batch.ids:
        yield batch.rows()


class _ItemBatch:
    """Items gathered for a batch; ``before``: how many there were in earlier batches."""

    def __init__(self, first_row: int, before: int = 0) -> None:
        self.before = before
        self.ids: list[bytes] = []
        self._first_row = first_row
        self._texts: list[bytes] = []
        self._fields: dict[str, list[object]] = {}

    def add(self, item: Item) -> int:
        """Take one document; how many bytes its text has."""
        number = self.before + len(self.ids)
        try:
            id_, text, fields = _parts(item, self._first_row + number)
            id_bytes, text_bytes = as_bytes(id_), as_bytes(text)
            for what, length, most in (
                ("an id", len(id_bytes), MAX_ID_BYTES),
                ("a text", len(text_bytes), MAX_TEXT_BYTES),
            ):
                if length > most:
                    raise BadRow(f"{what} of {length:,} bytes, wanted at most {most:,}")
            for name, value in fields.items():
                if name not in self._fields:
                    _check_name(name, len(self._fields))
                values = self._fields.setdefault(name, [])
                values += [*[None] * (len(self.ids) - len(values)), value]
        except BadRow as bad:
            raise ValueError(f"{_place(number)}: {bad}") from bad
        self.ids.append(id_bytes)
        self._texts.append(text_bytes)
        return len(text_bytes)

    def rows(self) -> DocumentRows:
        """All as columns."""
        count, fields = len(self.ids), {}
        try:
            for name, values in self._fields.items():
                fields[name] = of_values([*values, *[None] * (count - len(values))], name)
        except BadRow as bad:
            last = self.before + count - 1
            raise ValueError(f"documents: elements {self.before:,} to {last:,}: {bad}") from bad
        return DocumentRows(strings(self.ids), strings(self._texts), fields)


def _parts(item: Item, row: int) -> tuple[str, str, Mapping[str, object]]:
    match item:
        case str():
            return str(row), item, {}
        case Document():
            return _id(item.id), _text(item.text), _without_taken(item)
        case Mapping():
            found = dict(item)
            for name in (ID, TEXT):
                if name not in found:
                    there = names_of([*map(str, found)])
                    raise BadRow(f"no field {name!r}; the fields are {there}")
            return _id(found.pop(ID)), _text(found.pop(TEXT)), found
    wanted = "wanted a Document, a mapping with id and text, or a string"
    raise BadRow(f"{wanted}, got {type(item).__name__}")


def _without_taken(document: Document) -> Mapping[str, object]:
    """The other fields of a document; one that says the id or text again is left out.

    Raises :class:`BadRow` where it says something else: conditions could not tell them apart.
    """
    fields = dict(document.fields)
    for name, value, hint in (
        (ID, document.id, "id_field='id'"),
        (TEXT, document.text, "field='text'"),
    ):
        if name in fields and str(fields.pop(name)) != value:
            what = f"a field {name!r} beside the document's own {name} {value[:50]!r}"
            raise BadRow(f"{what}: rename it, or read the documents with {hint}")
    return fields


def _id(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | Integral):
        raise BadRow(f"wanted a string or a whole number for the id, got {type(value).__name__}")
    return str(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise BadRow(f"field 'text': wanted a string, got {type(value).__name__}")
    return value


def _rows_of_table(parts: Iterable[pa.RecordBatch]) -> Iterator[DocumentRows]:
    first = 0
    for whole in parts:
        _check_columns(whole.schema)
        long = [field.name for field in whole.schema if is_long(field.type)]
        for start in range(0, whole.num_rows, MAX_BATCH_ROWS):
            for part in in_parts(whole.slice(start, MAX_BATCH_ROWS), long):
                yield _of_table_part(part, first)
                first += part.num_rows


def _of_table_part(part: pa.RecordBatch, first: int) -> DocumentRows:
    names = [name for name in part.schema.names if name not in (ID, TEXT)]
    fields = {name: of_column(part.column(name), name) for name in names}
    ids, texts = (as_strings(part.column(name), name) for name in (ID, TEXT))
    return _check_rows(DocumentRows(ids, texts, fields), lambda row: _place(first + row))


def _check_columns(schema: pa.Schema) -> None:
    for name in (ID, TEXT):
        if schema.names.count(name) != 1:
            found = names_of(schema.names)
            raise ValueError(f"documents: wanted one column {name!r}, got {found}")
        kind = schema.field(name).type
        if not is_strings(kind) and not (name == ID and of.is_integer(kind)):
            raise ValueError(f"documents: column {name!r}: wanted strings, got {kind}")
    others = [name for name in schema.names if name not in (ID, TEXT)]
    if len(set(others)) < len(others) or len(others) > MAX_FIELDS:
        raise ValueError(f"documents: wanted at most {MAX_FIELDS} columns, each of its own name")
    for name in others:
        _check_column_name(name, "documents")


def _check_column_name(name: str, where: str) -> None:
    if name in (ID, TEXT):
        raise ValueError(f"{where}: the name {name!r} is taken by the document's own {name}")
    try:
        _check_name(name, 0)
    except BadRow as bad:
        raise ValueError(f"{where}: {bad}") from bad


def _check_name(name: object, others: int) -> None:
    """Raise :class:`BadRow` for what is no name of a field, or is one too many."""
    if not isinstance(name, str) or not name:
        raise BadRow(f"wanted a name for each field, got {name!r}")
    if len(as_bytes(name)) > MAX_NAME_BYTES or not name.isprintable():
        raise BadRow(
            f"a field's name is of at most {MAX_NAME_BYTES} printable bytes: {name[:50]!r}"
        )
    if others >= MAX_FIELDS:
        raise BadRow(f"more than {MAX_FIELDS} fields; the last is {name!r}")


def _check_rows(rows: DocumentRows, place: Callable[[int], str]) -> DocumentRows:
    """Raises ``ValueError`` for a row without id or text, or where one is too long."""
    for name, column, most in ((ID, rows.ids, MAX_ID_BYTES), (TEXT, rows.texts, MAX_TEXT_BYTES)):
        if column.null_count:
            row = int(np.argmin(np.asarray(column.is_valid())))
            raise ValueError(f"{place(row)}: wanted a string for {name!r}, got null")
        lengths = byte_lengths(column)
        if len(lengths) and lengths.max() > most:
            row = int(np.argmax(lengths))
            what = f"{name!r} of {lengths[row]:,} bytes, wanted at most {most:,}"
            raise ValueError(f"{place(row)}: {what}")
    return rows
