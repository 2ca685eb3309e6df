"""Documents from anywhere, lazily: files, folders, globs, standard input, and what Python holds.

    batches(...)     the texts alone, as Arrow arrays of about 4 MB: for what must be fast
    documents(...)   one by one, with an id and the other fields of their row
    extent(...)      how much there is, as far as that is known without reading it

How a format is read, and what may be a source, is in ``document_files/``. What becomes of the
documents is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Final, Literal, NamedTuple, assert_never, cast, get_args

from vocabtool.documents import arrow_ipc, csv_file, items, jsonl, lines, parquet_file, tfrecord
from vocabtool.documents.duplicates import (
    OnDuplicate,
    Repeat,
    Repeated,
    first_of_repeated,
    last_of_repeated,
    refuse_repeated,
)
from vocabtool.documents.extent import Extent, extent
from vocabtool.documents.items import END
from vocabtool.documents.opening import (
    STDIN,
    Format,
    Readable,
    find,
    kind_of,
    opened,
)
from vocabtool.documents.rows import (
    MOST_ROWS,
    SIZE,
    Ahead,
    Batch,
    Document,
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
    "Reached",
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

OnError = Literal["raise", "skip"]


@dataclass(slots=True)
class Reached:
    """How many bytes of the files, as they lie on the disk, are read so far."""

    bytes: int = 0


WHAT_NEXT: Final = "mend or cut it, or leave it out with --on-error skip"


def batches(
    sources: Sources,
    *,
    field: str | None = None,
    format: Format | None = None,  # noqa: A002 - what it is called on the command line
    id_field: str | None = None,
    keep: Sequence[str] = (),
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
    on_duplicate: OnDuplicate | None = "error",
    repeated: Repeated | None = None,
    size: int = SIZE,
    rows: int = MOST_ROWS,
    start: int = 0,
    reached: Reached | None = None,
) -> Iterator[Batch]:
    """The texts of ``sources`` in order, in batches that never mix two of them.

    ``sources``: a path, a folder, a glob (``**`` too) or ``-`` for standard input; an iterable,
    also an endless one; what has ``len`` and an index; a queue that another thread fills and ends
    with :data:`END`, or with an exception, which is raised here. These hold texts, ``bytes``,
    objects or documents. Or a list or tuple of several such, or of names (texts in a list:
    ``iter(texts)``). A file is looked for and opened when it is reached, not before.
    ``field``: which field holds the text, ``text`` unless said; or the only column there is.
    ``format``: of every file; else each file's suffix tells, and ``lines`` if it does not.
    ``id_field``: which field holds the id, a string or whole number, else the row is bad.
    ``keep``: which other fields become columns of strings: a string as it is, another value as
    its JSON text, null where a row has none.
    ``on_error``: what becomes of a bad row; ``"skip"`` needs a ``skipped`` to count it in.
    ``on_duplicate``: what becomes of documents of one ``id_field``, or that come with one id:
    ``"first"`` or ``"last"`` keeps one of them and counts others in ``repeated``; ``None``: ids are
    not compared, which takes 16 bytes a document (8 in memory). ``"last"`` reads everything twice.
    ``size``: about how many bytes of text a batch holds; a longer text is a batch of its own.
    ``rows``: how many documents of an iterable or a queue are gathered at most.
    ``start``: how many documents at the beginning are left out. They are not read where bad rows
    raise and no ``id_field`` is compared: rows behind an index, row groups of Parquet, record
    batches of Arrow IPC; of lines and records only the ends are sought.
    ``reached``: told how much of the files is read.

    Raises :class:`InvalidFile` for damaged files and, with file and line, for bad rows and for ids
    that repeat; :class:`NotFound`; :class:`UnsupportedFormat`; :class:`VocabtoolError` where
    ``"last"`` is asked of what cannot be read again.
    """
    counter = _counter(on_error, skipped, size)
    _check(on_duplicate, repeated, start, keep)
    compared = on_duplicate is not None
    ahead = Ahead(start, counter is None and not (compared and id_field is not None), compared)
    asked = _Asked(field, format, id_field, tuple(keep), size, False, counter, ahead, reached, rows)
    match on_duplicate:
        case None:
            found = _read(sources, asked)
        case "error":
            found = refuse_repeated(_read(sources, asked))
        case "first":
            found = first_of_repeated(_read(sources, asked), repeated or Repeated())
        case "last":
            found = _last_of_repeated(sources, asked, repeated or Repeated())
        case _:
            assert_never(on_duplicate)
    yield from _behind(found, ahead)


def documents(
    sources: Sources,
    *,
    field: str | None = None,
    format: Format | None = None,  # noqa: A002 - what it is called on the command line
    id_field: str | None = None,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
    size: int = SIZE,
    start: int = 0,
) -> Iterator[Document]:
    """The documents of ``sources`` in order; arguments and errors as those of :func:`batches`.

    A document that comes as one is passed on as it is. Of others the id is the value of
    ``id_field`` or the place: ``corpus.jsonl:17``. Ids are not compared with each other.
    """
    counter = _counter(on_error, skipped, size)
    _check(None, None, start, ())
    ahead = Ahead(start, counter is None, False)
    asked = _Asked(field, format, id_field, (), size, True, counter, ahead)
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

    field: str | None
    format: Format | None
    id_field: str | None
    keep: tuple[str, ...]
    size: int
    whole: bool
    skipped: Skipped | None
    ahead: Ahead
    reached: Reached | None = None
    rows: int = MOST_ROWS


def _counter(on_error: OnError, skipped: Skipped | None, size: int) -> Skipped | None:
    """Where bad rows are counted; ``None``: they raise. Refuses a caller's mistakes."""
    if not 1 <= size <= lines.LONGEST:
        raise ValueError(f"size: wanted 1 to {lines.LONGEST:,} bytes, got {size:,}")
    if on_error not in get_args(OnError):
        raise ValueError(f"on_error: wanted one of {get_args(OnError)}, got {on_error!r}")
    if on_error == "skip" and skipped is None:
        raise ValueError("on_error='skip' needs skipped=Skipped(), to count what is left out")
    return skipped if on_error == "skip" else None


def _check(
    on_duplicate: OnDuplicate | None, repeated: Repeated | None, start: int, keep: Sequence[str]
) -> None:
    """Refuse further mistakes of a caller."""
    choices = get_args(OnDuplicate)
    if on_duplicate is not None and on_duplicate not in choices:
        raise ValueError(f"on_duplicate: wanted one of {choices} or None, got {on_duplicate!r}")
    if on_duplicate in ("first", "last") and repeated is None:
        wanted = "needs repeated=Repeated(), to count what is left out"
        raise ValueError(f"on_duplicate={on_duplicate!r} {wanted}")
    if start < 0:
        raise ValueError(f"start: wanted 0 or more documents, got {start:,}")
    if isinstance(keep, str):
        raise ValueError(f"keep: wanted several names, got one: [{keep!r}]")


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
    first = asked._replace(skipped=uncounted, keep=(), ahead=Ahead(0, False, True))
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
        yield from _of_file(file, asked.format, _request(file, asked), asked.reached)


def _request(source: str, asked: _Asked) -> Request:
    def refuse(number: int, reason: str) -> None:
        place = f"{source}:{number}"
        if asked.skipped is None:
            raise InvalidFile(f"{reason} ({WHAT_NEXT})", file=place)
        asked.skipped.add(place, reason)

    field, _, id_field, keep, size, whole, _, ahead, _, rows = asked
    return Request(source, field, id_field, keep, size, whole, refuse, ahead, rows)


def _of_file(
    name: str, wanted: Format | None, request: Request, reached: Reached | None
) -> Iterator[Batch]:
    before = reached.bytes if reached is not None else 0
    with reading(name):
        kind = kind_of(name, wanted)
        with opened(name, kind.codec) as file:
            for batch in _of_format(kind.format, file, request):
                if reached is not None and name != STDIN:
                    reached.bytes = before + file.tell()
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
