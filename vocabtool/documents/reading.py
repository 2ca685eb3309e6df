"""Documents from anywhere, lazily: files, folders, globs, standard input, and what Python holds.

    batches(...)     texts, ids and kept fields as Arrow arrays of about 4 MB
    documents(...)   one by one, with an id and the other fields of their row
    extent(...)      how much there is, as far as that is known without reading it

How they are read is said by :class:`ReadOptions`; what happened on the way is in :class:`ReadLog`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Final, NamedTuple, assert_never, cast

from vocabtool.documents import arrow_ipc, csv_file, items, jsonl, lines, parquet_file, tfrecord
from vocabtool.documents.duplicates import first_of_repeated, last_of_repeated, refuse_repeated
from vocabtool.documents.extents import Extent, extent
from vocabtool.documents.items import END
from vocabtool.documents.opening import Readable, find, kind_of, opened
from vocabtool.documents.options import Format, OnDuplicate, OnError, ReadOptions
from vocabtool.documents.rows import (
    MOST_ROWS,
    SIZE,
    Ahead,
    Batch,
    Document,
    ReadLog,
    Repeat,
    Repeated,
    Request,
    Skip,
    Skipped,
)
from vocabtool.documents.sources import (
    Held,
    Sources,
    can_be_read_again,
    left_out,
    names_of,
    told,
)
from vocabtool.errors import InvalidFile, VocabtoolError, reading
from vocabtool.vocabulary import decode

__all__ = [
    "END",
    "SIZE",
    "Batch",
    "Document",
    "Extent",
    "Format",
    "OnDuplicate",
    "OnError",
    "ReadLog",
    "ReadOptions",
    "Repeat",
    "Repeated",
    "Skip",
    "Skipped",
    "Sources",
    "batches",
    "documents",
    "extent",
    "left_out",
    "names_of",
]

DEFAULTS: Final = ReadOptions()

WHAT_NEXT: Final = "mend or cut it, or leave it out with --on-error skip"


def batches(
    sources: Sources,
    options: ReadOptions = DEFAULTS,
    *,
    log: ReadLog | None = None,
    size: int = SIZE,
    rows: int = MOST_ROWS,
    start: int = 0,
) -> Iterator[Batch]:
    """The texts of ``sources`` in order, in batches that never mix two of them.

    ``sources``: a path, a folder, a glob (``**`` too) or ``-`` for standard input; an iterable,
    also an endless one; what has ``len`` and an index; a queue that another thread fills and ends
    with :data:`END`, or with an exception, which is raised here. These hold texts, ``bytes``,
    objects or documents. Or a list or tuple of several such, or of names (texts in a list:
    ``iter(texts)``). A file is looked for and opened when it is reached, not before.
    ``log``: counts bad rows, repeated ids and bytes on the way; needed where rows may be left out.
    ``size``: about how many bytes of text a batch holds; a longer text is a batch of its own.
    ``rows``: how many documents of an iterable or a queue are gathered at most.
    ``start``: how many documents at the beginning are left out. They are not read where bad rows
    raise and no ``id_field`` is compared: rows behind an index, row groups of Parquet, record
    batches of Arrow IPC; of lines and records only the ends are sought.

    Raises :class:`InvalidFile` for damaged files and, with file and line, for bad rows and for ids
    that repeat; :class:`NotFound`; :class:`UnsupportedFormat`; :class:`VocabtoolError` where
    ``on_duplicate="last"`` is asked of what cannot be read again.
    """
    if options.on_duplicate in ("first", "last") and log is None:
        wanted = "needs log=ReadLog(), to count what is left out"
        raise ValueError(f"on_duplicate={options.on_duplicate!r} {wanted}")
    counter = _counter(options, log, size, start)
    compared = options.on_duplicate is not None
    ahead = Ahead(
        start, counter is None and not (compared and options.id_field is not None), compared
    )
    log = log or ReadLog()
    asked = _Asked(options, size, False, counter, ahead, log, rows)
    match options.on_duplicate:
        case None:
            found = _read(sources, asked)
        case "error":
            found = refuse_repeated(_read(sources, asked))
        case "first":
            found = first_of_repeated(_read(sources, asked), log.repeated)
        case "last":
            found = _last_of_repeated(sources, asked, log.repeated)
        case _:
            assert_never(options.on_duplicate)
    yield from _behind(found, ahead)


def documents(
    sources: Sources,
    options: ReadOptions = DEFAULTS,
    *,
    log: ReadLog | None = None,
    size: int = SIZE,
    start: int = 0,
) -> Iterator[Document]:
    """The documents of ``sources`` in order; arguments and errors as those of :func:`batches`.

    A document that comes as one is passed on as it is. Of others the id is the value of
    ``id_field`` or the place: ``corpus.jsonl:17``, and all other fields are kept. Ids are not
    compared with each other.
    """
    counter = _counter(options, log, size, start)
    ahead = Ahead(start, counter is None, False)
    asked = _Asked(replace(options, keep=()), size, True, counter, ahead, log or ReadLog())
    for source in told(sources):
        if isinstance(source, Held):
            for document in items.documents(source.source, _request(source.name, asked)):
                if ahead.left:
                    ahead.left -= 1
                else:
                    yield document
        else:
            yield from _each(_behind(_of_name(source.name, asked), ahead))


class _Asked(NamedTuple):
    """What is asked of all sources alike; see :class:`Request`.

    ``skipped``: where bad rows are counted; ``None``: they raise.
    """

    options: ReadOptions
    size: int
    whole: bool
    skipped: Skipped | None
    ahead: Ahead
    log: ReadLog
    rows: int = MOST_ROWS


def _counter(options: ReadOptions, log: ReadLog | None, size: int, start: int) -> Skipped | None:
    """Where bad rows are counted; ``None``: they raise. Refuses a caller's mistakes."""
    if not 1 <= size <= lines.LONGEST:
        raise ValueError(f"size: wanted 1 to {lines.LONGEST:,} bytes, got {size:,}")
    if start < 0:
        raise ValueError(f"start: wanted 0 or more documents, got {start:,}")
    if options.on_error == "raise":
        return None
    if log is None:
        raise ValueError("on_error='skip' needs log=ReadLog(), to count what is left out")
    return log.skipped


def _read(sources: Sources, asked: _Asked) -> Iterator[Batch]:
    for source in told(sources):
        if isinstance(source, Held):
            yield from items.batches(source.source, _request(source.name, asked))
        else:
            yield from _of_name(source.name, asked)


def _last_of_repeated(sources: Sources, asked: _Asked, repeated: Repeated) -> Iterator[Batch]:
    """Reads twice; bad rows are counted once."""
    for source in told(sources):
        if not can_be_read_again(source):
            wanted = "on_duplicate='last' reads twice, and this can be read once only"
            raise VocabtoolError(f"{source.name}: {wanted}. Keep the first, or put it into a file.")
    uncounted = None if asked.skipped is None else Skipped()
    without = replace(asked.options, keep=())
    first = asked._replace(skipped=uncounted, options=without, ahead=Ahead(0, False, True))
    return last_of_repeated(_read(sources, first), _read(sources, asked), repeated)


def _behind(found: Iterable[Batch], ahead: Ahead) -> Iterator[Batch]:
    """The batches without the documents that are still to be left out."""
    for batch in found:
        out = min(ahead.left, len(batch))
        ahead.left -= out
        if out < len(batch):
            yield batch.part(out, len(batch)) if out else batch


def _of_name(name: str, asked: _Asked) -> Iterator[Batch]:
    """What the files hold that are meant, each looked for when the one before it is done."""
    with reading(name):
        files = find(name)
    for file in files:
        yield from _of_file(file, asked.options.format, _request(file, asked), asked.log)


def _request(source: str, asked: _Asked) -> Request:
    def refuse(number: int, reason: str) -> None:
        place = f"{source}:{number}"
        if asked.skipped is None:
            raise InvalidFile(f"{reason} ({WHAT_NEXT})", file=place)
        asked.skipped.add(place, reason)

    options = asked.options
    return Request(
        source,
        options.field,
        options.id_field,
        tuple(options.keep),
        asked.size,
        asked.whole,
        refuse,
        asked.ahead,
        asked.rows,
    )


def _of_file(name: str, wanted: Format | None, request: Request, log: ReadLog) -> Iterator[Batch]:
    before = log.bytes
    tells = Path(name).is_file()  # a pipe does not say how far it is read
    with reading(name):
        kind = kind_of(name, wanted)
        with opened(name, kind.codec) as file:
            for batch in _of_format(kind.format, file, request):
                if tells:
                    log.bytes = before + file.tell()
                yield batch


def _of_format(format: Format, file: Readable, request: Request) -> Iterator[Batch]:  # noqa: A002 - what it is called on the command line
    match format:
        case "lines":
            return lines.read(file, request)
        case "jsonl":
            return jsonl.read(file, request)
        case "csv":
            return csv_file.read(file, request, ",")
        case "tsv":
            return csv_file.read(file, request, "\t")
        case "parquet":
            return parquet_file.read(cast(IO[bytes], file), request)
        case "arrow":
            return arrow_ipc.read(file, request)
        case "tfrecord":
            return tfrecord.read(file, request)
        case _:
            assert_never(format)


def _each(found: Iterable[Batch]) -> Iterator[Document]:
    import pyarrow as pa

    for batch in found:
        texts = map(decode, batch.texts.view(pa.binary()).to_pylist())
        ids = map(decode, batch.id_array().view(pa.binary()).to_pylist())
        for id_, text, fields in zip(ids, texts, batch.fields or [{}] * len(batch), strict=True):
            yield Document(id_, text, fields)
