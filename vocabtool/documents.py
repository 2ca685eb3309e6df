"""Documents from anywhere, lazily: files, globs, standard input, and whatever can be iterated.

    batches(...)     the texts alone, as Arrow arrays of about 4 MB: for what must be fast
    documents(...)   one by one, with an id and the other fields of their row

How a format is read is in ``document_files/``. What becomes of the documents is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import IO, Final, Literal, NamedTuple, assert_never, cast, get_args

import numpy as np

from vocabtool.document_files import csv_file, jsonl, lines, parquet_file
from vocabtool.document_files.opening import Format, find, kind_of, opened
from vocabtool.document_files.rows import (
    MOST_ROWS,
    SIZE,
    BadRow,
    Batch,
    Request,
    Skip,
    Skipped,
    strings,
)
from vocabtool.errors import InvalidFile, reading
from vocabtool.vocabulary import decode, encode

__all__ = [
    "SIZE",
    "Batch",
    "Document",
    "Format",
    "OnError",
    "Skip",
    "Skipped",
    "batches",
    "documents",
]

OnError = Literal["raise", "skip"]

WHAT_NEXT: Final = "mend or cut it, or leave it out with --on-error skip"
ITERABLE: Final = "texts"  # what an iterable is called in ids and messages


@dataclass(frozen=True, slots=True)
class Document:
    """A text, what it is called, and what else is known of it.

    ``text``: bytes that are not UTF-8 stand in it as Python's ``surrogateescape`` puts them.
    """

    id: str
    text: str
    fields: Mapping[str, object] = field(default_factory=dict)


Name = str | PathLike[str]
Item = str | bytes | Document | Mapping[str, object]
Sources = Name | Iterable[Name] | Iterable[Item]


def batches(
    sources: Sources,
    *,
    field: str | None = None,
    format: Format | None = None,  # noqa: A002 - what it is called on the command line
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
    size: int = SIZE,
) -> Iterator[Batch]:
    """The texts of ``sources`` in order, in batches that never mix two of them.

    ``sources``: a path, a glob (``**`` too) or ``-`` for standard input, or a list or tuple of
    these; else any iterable of texts, ``bytes``, objects or documents, also an endless one (texts
    in a list: ``iter(texts)``). A file is looked for and opened when it is reached, not before.
    ``field``: which field holds the text, ``text`` unless said; or the only column there is.
    ``format``: of every file; else each file's suffix tells, and ``lines`` if it does not.
    ``on_error``: what becomes of a bad row; ``"skip"`` needs a ``skipped`` to count it in.
    ``size``: about how many bytes of text a batch holds; a longer text is a batch of its own.

    Raises :class:`InvalidFile` for damaged files and, with file and line, for bad rows;
    :class:`NotFound`; :class:`UnsupportedFormat`.
    """
    counter = _counter(on_error, skipped, size)
    names = names_of(sources)
    if names is None:
        request = _request(ITERABLE, field, size, False, counter)
        yield from _batched(_rows_of_items(cast(Iterable[Item], sources), request), size)
        return
    for file in _files(names):
        request = _request(file, field, size, False, counter)
        yield from _of_file(file, format, request)


def documents(
    sources: Sources,
    *,
    field: str | None = None,
    format: Format | None = None,  # noqa: A002 - what it is called on the command line
    id_field: str | None = None,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
    size: int = SIZE,
) -> Iterator[Document]:
    """The documents of ``sources`` in order; arguments and errors as those of :func:`batches`.

    A document that comes as one is passed on as it is. Of others the id is the value of
    ``id_field`` (a string or whole number, else the row is bad), or the place: ``corpus.jsonl:17``.
    """
    counter = _counter(on_error, skipped, size)
    names = names_of(sources)
    if names is None:
        request = _request(ITERABLE, field, size, True, counter)
        yield from _named(_rows_of_items(cast(Iterable[Item], sources), request), id_field, request)
        return
    for file in _files(names):
        request = _request(file, field, size, True, counter)
        yield from _named(_rows_of(_of_file(file, format, request)), id_field, request)


class _Row(NamedTuple):
    """One text on its way; ``document``: what it came as, where it came as one."""

    number: int
    text: bytes
    fields: Mapping[str, object]
    document: Document | None = None


def _counter(on_error: OnError, skipped: Skipped | None, size: int) -> Skipped | None:
    """Where bad rows are counted; ``None``: they raise. Refuses a caller's mistakes."""
    if not 1 <= size <= lines.LONGEST:
        raise ValueError(f"size: wanted 1 to {lines.LONGEST:,} bytes, got {size:,}")
    if on_error not in get_args(OnError):
        raise ValueError(f"on_error: wanted one of {get_args(OnError)}, got {on_error!r}")
    if on_error == "skip" and skipped is None:
        raise ValueError("on_error='skip' needs skipped=Skipped(), to count what is left out")
    return skipped if on_error == "skip" else None


def names_of(sources: Sources) -> list[str] | None:
    """The names in ``sources``; ``None`` where it holds the documents themselves."""
    if isinstance(sources, str | PathLike):
        return [fspath(sources)]
    if isinstance(sources, list | tuple) and all(isinstance(s, str | PathLike) for s in sources):
        return [fspath(name) for name in sources]
    return None


def _files(names: Iterable[str]) -> Iterator[str]:
    """The files that are meant, each looked for when the one before it is done."""
    for name in names:
        with reading(name):
            found = find(name)
        yield from found


def _request(
    source: str, field: str | None, size: int, whole: bool, skipped: Skipped | None
) -> Request:
    """``skipped``: where bad rows are counted; ``None``: they raise."""

    def refuse(number: int, reason: str) -> None:
        place = f"{source}:{number}"
        if skipped is None:
            raise InvalidFile(f"{reason} ({WHAT_NEXT})", file=place)
        skipped.add(place, reason)

    return Request(source, field, size, whole, refuse)


def _of_file(name: str, wanted: Format | None, request: Request) -> Iterator[Batch]:
    with reading(name):
        kind = kind_of(name, wanted)
        with opened(name, kind.codec) as file:
            match kind.format:
                case "lines":
                    yield from lines.read(file, request)
                case "jsonl":
                    yield from jsonl.read(file, request)
                case "csv":
                    yield from csv_file.read(file, request, ",")
                case "tsv":
                    yield from csv_file.read(file, request, "\t")
                case "parquet":
                    yield from parquet_file.read(cast(IO[bytes], file), request)
                case _:
                    assert_never(kind.format)


def _rows_of(found: Iterable[Batch]) -> Iterator[_Row]:
    for batch in found:
        texts = batch.texts.view("binary").to_pylist()
        fields = batch.fields or [{}] * len(batch)
        for number, text, others in zip(batch.numbers.tolist(), texts, fields, strict=True):
            yield _Row(number, text, others)


def _rows_of_items(items: Iterable[Item], request: Request) -> Iterator[_Row]:
    for number, item in enumerate(items, 1):
        try:
            yield _row_of_item(item, number, request.field)
        except BadRow as bad:
            request.refuse(number, str(bad))


def _row_of_item(item: Item, number: int, field: str | None) -> _Row:
    match item:
        case bytes():
            return _Row(number, item, {})
        case str():
            return _Row(number, _bytes_of(item), {})
        case Document():
            return _Row(number, _bytes_of(item.text), item.fields, item)
        case Mapping():
            return _Row(number, *jsonl.row_of(item, field))
    what = type(item).__name__
    raise BadRow(f"wanted a string, bytes, a Document or a mapping, got {what}")


def _bytes_of(text: str) -> bytes:
    """A text as bytes; surrogates that no byte was made into become three bytes each."""
    try:
        return encode(text)
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _named(rows: Iterable[_Row], id_field: str | None, request: Request) -> Iterator[Document]:
    for row in rows:
        try:
            yield row.document or Document(
                _id(row, id_field, request), decode(row.text), row.fields
            )
        except BadRow as bad:
            request.refuse(row.number, str(bad))


def _id(row: _Row, id_field: str | None, request: Request) -> str:
    if id_field is None:
        return f"{request.source}:{row.number}"
    value = row.fields.get(id_field)
    if isinstance(value, bool) or not isinstance(value, str | int):
        wanted = "wanted a string or a whole number for the id"
        raise BadRow(f"field {id_field!r}: {wanted}, got {type(value).__name__}")
    return str(value)


def _batched(rows: Iterable[_Row], size: int) -> Iterator[Batch]:
    """Rows gathered until they hold ``size`` bytes; takes no row more than it gives out."""
    held: list[_Row] = []
    total = 0
    for row in rows:
        held.append(row)
        total += len(row.text)
        if total >= size or len(held) == MOST_ROWS:
            yield _batch(held)
            held, total = [], 0
    if held:
        yield _batch(held)


def _batch(rows: list[_Row]) -> Batch:
    numbers = np.array([row.number for row in rows], np.int64)
    places = (f"{ITERABLE}:{row.number}" for row in rows)
    named = any(row.document for row in rows)
    ids = tuple(
        row.document.id if row.document else place for row, place in zip(rows, places, strict=True)
    )
    return Batch(ITERABLE, strings([row.text for row in rows]), numbers, ids if named else None)
