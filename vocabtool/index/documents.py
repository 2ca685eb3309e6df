"""The documents of a load or a writer: which FILEs are read, checks, batches, kinds of fields.

The first commit that contains a field determines its kind. Later, ``integer`` may become
``number``. A value that does not fit is an error or is skipped. ``database.py`` lists the kinds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from glob import has_magic
from math import isnan
from numbers import Integral
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as of

from vocabtool.documents.batch import (
    BATCH_BYTES,
    BadRow,
    Batch,
    Document,
    Kind,
    as_string,
    byte_lengths,
    list_names,
    strings,
)
from vocabtool.documents.files import (
    Sources,
    can_be_read_again,
    files_outside,
    find,
    left_out,
    names_of,
)
from vocabtool.documents.options import ID, TEXT, ReadOptions
from vocabtool.documents.tables import as_strings, in_parts, is_strings
from vocabtool.documents.vectors import Given
from vocabtool.embedding.shards import RUN
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError
from vocabtool.index.database import BOOLEAN, INTEGER, MAX_FIELDS, NUMBER, union
from vocabtool.index.folder import Source
from vocabtool.search.conditions import LEAST, MOST, is_exact
from vocabtool.vocabulary import text_bytes

WHOLE: Final = re.compile("-?[0-9]+")
MIN_DIGITS: Final = 19  # of a whole number of more than 64 bits

BATCH_ROWS: Final = 8192
MAX_ID_BYTES: Final = 1 << 15  # tantivy stores an id as one term, of at most 65,530 bytes
MAX_TEXT_BYTES: Final = 1 << 29  # a batch plus one such text stays below Arrow's 2 GB of strings
MAX_NAME_BYTES: Final = 256

AS_SHIPPED: Final = ReadOptions(path_first=True)
WAS_READ: Final = ", but {0} was made from it; restore it, or name the FILEs to read"

Item: TypeAlias = Document | Mapping[str, object] | str
Items: TypeAlias = "Iterable[Item] | pa.Table | pa.RecordBatch | pa.RecordBatchReader"


@dataclass(frozen=True, slots=True)
class FileGroup:
    """FILE arguments that are read with the same options.

    - ``sources``: what is read. If the same id is in several of them, the last document counts.
    - ``files``: for each path, two values: the name of the file in ids and messages, and the number
      of its FILE argument.
    - ``is_stream``: whether the documents can be read only once.
    - ``notes``: messages about files that are not read.
    - ``shards``: the path, if the only FILE is a folder of shards.
    """

    sources: tuple[Sources, ...]
    read: ReadOptions
    files: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    is_stream: bool = False
    notes: tuple[str, ...] = ()
    shards: Path | None = None


def fit_to_kind(batch: Batch, name: str, kind: Kind) -> tuple[Batch, list[int]]:
    """Set values of a field to null if they do not fit ``kind``; return their rows too."""
    # All values fit, or the integers of the field become numbers.
    if kind == "null" or union(kind, batch.kinds[name]) in (kind, "number"):
        return batch, []
    texts = batch.columns[name]
    fits = pc.match_substring_regex(texts, f"^(?:{BOOLEAN if kind == 'boolean' else NUMBER})$")
    inexact = _inexact_rows(texts)
    if inexact:
        fits = pc.and_(fits, pa.array(~np.isin(np.arange(len(texts)), inexact)))
    unfit = np.flatnonzero(np.asarray(pc.invert(fits).fill_null(False)))
    texts = pc.if_else(fits, texts, pa.scalar(None, pa.string()))
    columns, kinds = {**batch.columns, name: texts}, {**batch.kinds, name: kind_of_spelling(texts)}
    return replace(batch, columns=columns, kinds=kinds), unfit.tolist()


def kind_of_spelling(texts: pa.StringArray) -> Kind:
    """Return the kind that fits all strings of a column, such as ``integer``."""
    texts = texts.drop_null() if texts.null_count else texts
    if not len(texts):
        return "null"

    def all_match(pattern: str) -> bool:
        return bool(pc.all(pc.match_substring_regex(texts, f"^(?:{pattern})$")).as_py())

    first = texts[0].as_buffer().to_pybytes()  # enough to recognise most string columns
    if first in (b"true", b"false"):
        return "boolean" if all_match(BOOLEAN) else "string"
    if not re.fullmatch(NUMBER.encode(), first):
        return "string"
    if all_match(INTEGER):
        return _kind_of_integers(texts)
    return "number" if all_match(NUMBER) and not _inexact_rows(texts) else "string"


def _kind_of_integers(texts: pa.StringArray) -> Kind:
    try:
        texts.cast(pa.int64())
    except pa.ArrowInvalid:  # more than 64 bits
        return "string" if _inexact_rows(texts) else "number"
    return "integer"


def _inexact_rows(texts: pa.StringArray) -> list[int]:
    """Return the places of whole numbers that neither 64 bits nor floating point hold exactly."""
    is_long = np.asarray(pc.fill_null(pc.binary_length(texts), 0)) >= MIN_DIGITS
    return [
        row
        for row in np.flatnonzero(is_long).tolist()
        if re.fullmatch(WHOLE, text := texts[row].as_py()) and not is_exact(text)
    ]


def of_file(batch: Batch, searched: Collection[str]) -> Batch:
    """Check a batch that was read from a file; add its ids and the kinds of its fields.

    ``searched``: fields that are strings even if their values look like numbers. Raises
    :class:`InvalidFile` for an invalid row.
    """
    for name in batch.columns:
        check_column_name(name, batch.source)
    kinds = {name: kind_of_spelling(texts) for name, texts in batch.columns.items()}
    kinds |= {name: "string" for name in searched if kinds.get(name, "null") != "null"}
    batch = replace(batch, ids=batch.id_array(), kinds=kinds)
    try:
        return _check_rows(batch, batch.place)
    except ValueError as error:
        raise InvalidFile(str(error)) from error


def batches_of(
    items: Items,
    first_row: int = 0,
    place: Callable[[int], str] = "documents: element {:,}".format,
) -> Iterator[Batch]:
    """Convert documents in Python to batches of about 4 MB of text, without reading ahead.

    A text without an id gets its number as id, counted from ``first_row``. ``place``: returns the
    name of an element for messages. Raises ``ValueError`` for an invalid element.
    """
    if isinstance(items, pa.RecordBatch):
        return _batches_of_table([items])
    if hasattr(items, "__arrow_c_stream__"):
        return _batches_of_table(pa.RecordBatchReader.from_stream(items))
    if isinstance(items, Iterable) and not isinstance(items, str | bytes | Mapping):
        return _batches_of_items(items, first_row, place)
    wanted = "documents: expected an iterable of documents, mappings or texts, or a table"
    raise ValueError(f"{wanted}, got {type(items).__name__}")


def _batches_of_items(
    items: Iterable[Item], first_row: int, place: Callable[[int], str]
) -> Iterator[Batch]:
    ids: list[bytes] = []
    texts: list[bytes] = []
    fields: dict[str, list[object]] = {}
    size = 0
    for number, item in enumerate(items):
        try:
            id_, text, item_fields = _contents_of(item, first_row + number)
            for what, length, most in (
                ("an id", len(id_), MAX_ID_BYTES),
                ("a text", len(text), MAX_TEXT_BYTES),
            ):
                if length > most:
                    raise BadRow(f"{what} has {length:,} bytes, but the limit is {most:,}")
            for name, value in item_fields.items():
                if name not in fields:
                    _check_name(name, len(fields))
                values = fields.setdefault(name, [])
                # Earlier documents of the batch without this field have null.
                values += [*[None] * (len(ids) - len(values)), value]
        except BadRow as bad:
            raise ValueError(f"{place(number)}: {bad}") from bad
        ids.append(id_)
        texts.append(text)
        size += len(text)
        if size >= BATCH_BYTES or len(ids) == BATCH_ROWS:
            yield _batch_of_values(ids, texts, fields, number)
            ids, texts, fields, size = [], [], {}, 0
    if ids:
        yield _batch_of_values(ids, texts, fields, number)


def _batch_of_values(
    ids: list[bytes], texts: list[bytes], fields: dict[str, list[object]], last: int
) -> Batch:
    """``fields`` may lack values at the end. ``last``: the last document's number, for messages."""
    columns: dict[str, pa.StringArray] = {}
    kinds: dict[str, Kind] = {}
    try:
        for name, values in fields.items():
            plain = [value if type(value) in (str, int) else _plain(value) for value in values]
            plain += [None] * (len(ids) - len(values))
            kinds[name] = reduce(union, set(map(_kind, plain)), "null")
            try:  # convert all at once if possible: fast
                if kinds[name] == "integer":
                    columns[name] = pa.array(plain, pa.int64()).cast(pa.string())
                else:
                    columns[name] = pa.array(plain, pa.string())
            except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
                columns[name] = strings([as_string(value, name) for value in plain])
    except BadRow as bad:
        raise ValueError(f"documents: elements {last + 1 - len(ids):,} to {last:,}: {bad}") from bad
    numbers = np.arange(len(ids))
    return Batch("", strings(texts), numbers, strings(ids), columns, kinds=kinds)


def _contents_of(item: Item, row: int) -> tuple[bytes, bytes, Mapping[str, object]]:
    """Return id, text and fields. ``row``: the id of a plain text. Raises :class:`BadRow`."""
    id_: object
    text: object
    fields: dict[str, object]
    match item:
        case str():
            return str(row).encode(), text_bytes(item), {}
        case Document():
            id_, text, fields = item.id, item.text, dict(item.fields)
            for name, value, hint in ((ID, id_, "id_field='id'"), (TEXT, text, "field='text'")):
                # A field equal to the id or text is dropped: conditions could not distinguish them.
                if name in fields and str(fields.pop(name)) != value:
                    raise BadRow(
                        f"the {name} of the document is {str(value)[:50]!r}, but its field "
                        f"{name!r} has another value: rename the field, or read the documents with "
                        f"{hint}"
                    )
        case Mapping():
            fields = dict(item)
            for name in (ID, TEXT):
                if name not in fields:
                    names = list_names([*map(str, fields)])
                    raise BadRow(f"no field {name!r}; the fields are {names}")
            id_, text = fields.pop(ID), fields.pop(TEXT)
        case _:
            wanted = "expected a Document, a mapping with id and text, or a string"
            raise BadRow(f"{wanted}, got {type(item).__name__}")
    if isinstance(id_, bool) or not isinstance(id_, str | Integral):
        raise BadRow(f"the id must be a string or an integer, got {type(id_).__name__}")
    if not isinstance(text, str):
        raise BadRow(f"field 'text' must be a string, got {type(text).__name__}")
    return text_bytes(str(id_)), text_bytes(text), fields


def _plain(value: object) -> object:
    """Return ``None`` for NaN, and a Python number for a NumPy scalar."""
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "ndim", None) == 0:
        value = item()
    return None if isinstance(value, float) and isnan(value) else value


def _kind(value: object) -> Kind:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            if LEAST <= value <= MOST:
                return "integer"
            return "number" if is_exact(str(value)) else "string"
        case float():
            return "number"
        case _:
            return "string"


def _batches_of_table(tables: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
    """Yield the rows of Arrow tables with the same columns, checked, in small batches."""
    first = 0  # number of the first row of a batch, in all tables
    for table in tables:
        _check_columns(table.schema)
        for start in range(0, table.num_rows, BATCH_ROWS):
            for rows in in_parts(table.slice(start, BATCH_ROWS)):
                yield _batch_of_rows(rows, first)
                first += rows.num_rows


def _batch_of_rows(rows: pa.RecordBatch, first: int) -> Batch:
    """Convert rows of a table, and check them. ``first``: the number of the first row."""
    columns, kinds = {}, {}
    for name in rows.schema.names:
        if name not in (ID, TEXT):
            columns[name], kinds[name] = _column_of_array(rows.column(name), name)
    ids, texts = as_strings(rows.column(ID), ID), as_strings(rows.column(TEXT), TEXT)
    numbers = np.arange(first, first + rows.num_rows)
    batch = Batch("", texts, numbers, ids, columns, kinds=kinds)
    return _check_rows(batch, lambda row: f"documents: element {first + row:,}")


def _column_of_array(column: pa.Array, name: str) -> tuple[pa.StringArray, Kind]:
    """Convert an Arrow column to texts (times to ISO 8601); return its kind too."""
    kind = column.type
    if of.is_dictionary(kind):
        return _column_of_array(column.dictionary_decode(), name)
    if of.is_null(kind):
        return pa.nulls(len(column), pa.string()), "null"
    if of.is_boolean(kind):
        return column.cast(pa.string()), "boolean"
    if of.is_integer(kind):
        texts = column.cast(pa.string())
        return texts, _kind_of_integers(texts)
    if of.is_decimal(kind):
        texts = column.cast(pa.string())
        return texts, "string" if _inexact_rows(texts) else "number"
    if of.is_floating(kind):
        wide = column.cast(pa.float32()) if of.is_float16(kind) else column
        return pc.if_else(pc.is_nan(wide), None, wide).cast(pa.string()), "number"
    return as_strings(column, name), "string"


def _check_columns(schema: pa.Schema) -> None:
    """Raise ``ValueError`` for a table whose columns cannot be documents."""
    for name in (ID, TEXT):
        if schema.names.count(name) != 1:
            names = list_names(schema.names)
            raise ValueError(f"documents: expected one column {name!r}, got {names}")
        kind = schema.field(name).type
        if not is_strings(kind) and not (name == ID and of.is_integer(kind)):
            raise ValueError(f"documents: column {name!r} must contain strings, got {kind}")
    others = [name for name in schema.names if name not in (ID, TEXT)]
    if len(set(others)) < len(others):
        raise ValueError(f"documents: each field needs a different name, got {others}")
    if len(others) > MAX_FIELDS:
        raise ValueError(f"documents: wanted at most {MAX_FIELDS} fields, got {len(others)}")
    for name in others:
        check_column_name(name, "documents")


def check_column_name(name: str, where: str) -> None:
    """Raise ``ValueError`` for an invalid name. ``where``: the source, for the message."""
    if name in (ID, TEXT):
        raise ValueError(f"{where}: the name {name!r} is reserved for the document's own {name}")
    try:
        _check_name(name, 0)
    except BadRow as bad:
        raise ValueError(f"{where}: {bad}") from bad


def _check_name(name: object, others: int) -> None:
    """Raise :class:`BadRow` for an invalid name of a field. ``others``: number of other fields."""
    if not isinstance(name, str) or not name:
        raise BadRow(f"the name of a field must be a non-empty string, got {name!r}")
    if len(text_bytes(name)) > MAX_NAME_BYTES or not name.isprintable():
        raise BadRow(
            f"the name of a field must be printable and have at most {MAX_NAME_BYTES} bytes, "
            f"got {name[:50]!r}"
        )
    if others >= MAX_FIELDS:
        raise BadRow(f"wanted at most {MAX_FIELDS} fields; {name!r} is one too many")


def _check_rows(batch: Batch, place: Callable[[int], str]) -> Batch:
    """Raise ``ValueError`` for a null or a too long value. ``place`` names a row for messages."""
    columns = ((ID, batch.id_array(), MAX_ID_BYTES), (TEXT, batch.texts, MAX_TEXT_BYTES))
    for name, column, most in columns:
        if column.null_count:
            row = int(np.argmin(np.asarray(column.is_valid())))
            raise ValueError(f"{place(row)}: {name!r} must be a string, got null")
        lengths = byte_lengths(column)
        if len(lengths) and lengths.max() > most:
            row = int(np.argmax(lengths))
            what = f"{name!r} has {lengths[row]:,} bytes, but the limit is {most:,}"
            raise ValueError(f"{place(row)}: {what}")
    return batch


def groups_of_names(
    sources: Sources,
    read: ReadOptions,
    known: Sequence[Source],
    index: Path,
    vectors: Given | None = None,
) -> tuple[list[FileGroup], tuple[Source, ...]]:
    """Return a list of one group, which reads ``sources``, and all FILEs to record.

    ``known``: the recorded FILEs. ``index``: the folder of the index, whose files are not read.
    """
    read = replace(read, path_first=vectors is None)
    names, files = names_of(sources), files_outside(sources, index, read)
    if files is None or names is None or not can_be_read_again(files):
        stream = sources if files is None else files
        return [FileGroup((stream,), read, is_stream=True)], (*known,)
    named = [Source.from_name(name, index, read) for name in names]
    recorded, numbers = _record(known, named)
    labels: dict[str, tuple[str, int]] = {}
    for source in named:
        for file in files_outside([source.name], index, read) or []:
            labels.setdefault(file, (file, numbers[source.path]))
    shards = shards_in(sources)
    if shards is not None:
        return [FileGroup((sources,), read, labels, shards=shards)], recorded
    notes = left_out(sources, read, index)
    return [FileGroup((files,), read, labels, notes=notes)], recorded


def groups_of_index(
    sources: Sources | None,
    known: Sequence[Source],
    index: Path,
    *,
    sync: bool,
    vectors: Given | None = None,
) -> tuple[list[FileGroup], tuple[Source, ...]]:
    """Return the groups of FILEs that an update reads, and all FILEs to record.

    ``sources``: ``None`` for all ``known``. Raises :class:`NotFound` and :class:`VocabtoolError`.
    """
    located = []
    for source in known:  # the directory of a FILE may have moved together with the index
        moved = os.path.normpath(os.path.join(index.absolute(), source.beside))  # noqa: PTH118 - "..", too
        other = replace(source, at=moved)
        located.append(other if not is_there(source) and is_there(other) else source)
    known = chosen = located
    if sources is None and not known:
        raise VocabtoolError(f"{index}: the index has recorded no FILE; name the FILEs to read")
    if sources is not None:
        read = known[-1].options if known else AS_SHIPPED
        names, files = names_of(sources), files_outside(sources, index, read)
        if names is None or not can_be_read_again(files):
            if sync:
                raise VocabtoolError("a stream cannot be synced: pass the names of files")
            stream = sources if files is None else files
            return [FileGroup((stream,), read, is_stream=True)], (*known,)
        by_path = {source.path: source for source in known}
        named = [Source.from_name(name, index, read) for name in names]
        chosen = [by_path.get(source.path, source) for source in named]
        if sync:
            _refuse_partial_sync(chosen, known)
    recorded, numbers = _record(known, chosen)
    groups: list[FileGroup] = []
    grouped: set[str] = set()  # real paths of the files that are in a group
    for source in dict.fromkeys(chosen):
        if not is_there(source):
            is_known = any(source.path == other.path for other in known)
            raise NotFound(f"{source.path}: does not exist{WAS_READ.format(index) * is_known}")
        name = source.from_anywhere
        by_real_path = {
            os.path.realpath(file): file
            for file in files_outside([name], index, source.options) or []
        }
        if not can_be_read_again(by_real_path.values()):
            raise VocabtoolError(f"{name}: is now a stream; name the FILEs to read")
        files = [file for real_path, file in by_real_path.items() if real_path not in grouped]
        grouped.update(by_real_path)
        # A file is named in ids as at the first load: relative to the directory of that load.
        directory = "" if name == source.name else os.path.join(source.at, "")  # noqa: PTH118 - globs
        labels = {file: (file.removeprefix(directory), numbers[source.path]) for file in files}
        shards = shards_in(name)
        if shards is not None:
            groups.append(FileGroup((name,), source.options, labels, shards=shards))
            continue
        notes = left_out(name, source.options, index)
        inputs: tuple[Sources, ...] = (files,)
        last = groups[-1] if groups else None
        if last is not None and last.read == source.options and last.shards is None:
            groups.pop()
            labels, notes = {**last.files, **labels}, (*last.notes, *notes)
            # Read as one input, an id that is in two FILEs would be an error.
            is_apart = source.options.on_duplicate == "error" and vectors is None
            inputs = (*last.sources, files) if is_apart else ([*labels],)
        groups.append(FileGroup(inputs, source.options, labels, notes=notes))
    return groups, recorded


def _refuse_partial_sync(chosen: Sequence[Source], known: Sequence[Source]) -> None:
    """Refuse to sync a part of a recorded folder or glob: its documents are recorded under that."""
    for source in chosen:
        for other in known:
            if source in known or other in chosen:
                continue
            is_glob = has_magic(other.path) and is_there(other)
            if Path(source.path).is_relative_to(other.path) or (
                is_glob and source.path in find(other.path, other.options)
            ):
                raise VocabtoolError(
                    f"{source.name} is a part of {other.name} and cannot be synced alone: sync "
                    f"{other.name}, or omit FILE to sync all"
                )


def _record(
    known: Sequence[Source], chosen: Iterable[Source]
) -> tuple[tuple[Source, ...], dict[str, int]]:
    """Return all FILEs to record, and the number of each by its path, counted from 1."""
    by_path = {source.path: source for source in (*known, *chosen)}
    return (*by_path.values(),), {path: number for number, path in enumerate(by_path, 1)}


def in_scope(known: Sequence[Source], groups: Sequence[FileGroup]) -> list[int]:
    """Return the numbers of the FILEs whose documents a sync of ``groups`` may remove.

    These are the FILEs that are read, and known FILEs inside a folder that is read, unless they are
    hidden or were not read although they exist.
    """
    numbers = {number for group in groups for _, number in group.files.values()}
    files = {os.path.abspath(file) for group in groups for file in group.files}  # noqa: PTH100 - links stay
    folders = [Path(known[number - 1].path) for number in numbers]
    for number, source in enumerate(known, 1):
        path = Path(source.path)
        inside = [path.relative_to(folder) for folder in folders if path.is_relative_to(folder)]
        is_visible = any(
            not any(name.startswith(".") for name in relative.parts) for relative in inside
        )
        if is_visible and (str(path) in files or path.is_dir() or not path.exists()):
            numbers.add(number)
    return sorted(numbers)


def shards_in(sources: Sources) -> Path | None:
    """Return the path of ``sources`` if it is one folder of shards, else ``None``."""
    names = names_of(sources)
    if names is not None and len(names) == 1 and (Path(names[0]) / RUN).is_file():
        return Path(names[0])
    return None


def is_there(source: Source) -> bool:
    try:
        return any(map(os.path.exists, find(source.path, source.options)[:1]))
    except NotFound:
        return False
