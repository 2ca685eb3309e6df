"""Documents from anywhere, lazily: files, folders, globs, standard input, and what Python holds.

    batches(...)     texts, ids and kept fields as Arrow arrays of about 4 MB
    documents(...)   one by one, with an id and the other fields of their row
    extent(...)      how much there is, as far as that is known without reading it

How they are read is said by :class:`ReadOptions`; what happened on the way is in :class:`ReadLog`.
A format is a function in a file of its own, and a line in ``READERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from vocabtool.documents import (
    arrow_ipc,
    csv_file,
    jsonl,
    lines,
    objects,
    parquet_file,
    tfrecord,
)
from vocabtool.documents.batch import (
    BATCH_BYTES,
    MAX_ROWS,
    Ahead,
    Batch,
    Document,
    DuplicateCounter,
    ReadLog,
    Repeat,
    Request,
    Skip,
    SkipCounter,
)
from vocabtool.documents.duplicates import first_of_repeated, last_of_repeated, refuse_repeated
from vocabtool.documents.extents import Extent, extent
from vocabtool.documents.files import find, kind_of, open_file
from vocabtool.documents.objects import END
from vocabtool.documents.options import Format, OnDuplicate, OnError, ReadOptions
from vocabtool.documents.sources import (
    Container,
    Sources,
    can_be_read_again,
    each_source,
    left_out,
    names_of,
)
from vocabtool.errors import InvalidFile, VocabtoolError, reading
from vocabtool.vocabulary import decode

__all__ = [
    "BATCH_BYTES",
    "END",
    "Batch",
    "Document",
    "DuplicateCounter",
    "Extent",
    "Format",
    "OnDuplicate",
    "OnError",
    "ReadLog",
    "ReadOptions",
    "Repeat",
    "Skip",
    "SkipCounter",
    "Sources",
    "batches",
    "documents",
    "extent",
    "left_out",
    "names_of",
]

READERS: Final[dict[Format, Callable[[Any, Request], Iterator[Batch]]]] = {
    "lines": lines.read,
    "jsonl": jsonl.read,
    "csv": partial(csv_file.read, delimiter=","),
    "tsv": partial(csv_file.read, delimiter="\t"),
    "parquet": parquet_file.read,
    "arrow": arrow_ipc.read,
    "tfrecord": tfrecord.read,
}
DEFAULTS: Final = ReadOptions()
WHAT_NEXT: Final = "mend or cut it, or leave it out with --on-error skip"


def batches(
    sources: Sources,
    options: ReadOptions = DEFAULTS,
    *,
    log: ReadLog | None = None,
    size: int = BATCH_BYTES,
    rows: int = MAX_ROWS,
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
    run = _Reading(sources, options, log, size, rows, start)
    repeated = run.log.repeated
    if options.on_duplicate is None:
        yield from run.drop_start(run.batches())
    elif options.on_duplicate == "error":
        yield from run.drop_start(refuse_repeated(run.batches()))
    elif options.on_duplicate == "first":
        yield from run.drop_start(first_of_repeated(run.batches(), repeated))
    else:
        for source in each_source(sources):
            if not can_be_read_again(source):
                wanted = "on_duplicate='last' reads twice, and this can be read once only"
                what_next = "Keep the first, or put it into a file."
                raise VocabtoolError(f"{source.name}: {wanted}. {what_next}")
        uncounted = ReadLog()  # bad rows are counted once
        before = _Reading(sources, options, uncounted, size, rows, 0)
        yield from run.drop_start(last_of_repeated(before.batches(), run.batches(), repeated))


def documents(
    sources: Sources,
    options: ReadOptions = DEFAULTS,
    *,
    log: ReadLog | None = None,
    size: int = BATCH_BYTES,
    start: int = 0,
) -> Iterator[Document]:
    """The documents of ``sources`` in order; arguments and errors as those of :func:`batches`.

    A document that comes as one is passed on as it is. Of others the id is the value of
    ``id_field`` or the place: ``corpus.jsonl:17``, and all other fields are kept. Ids are not
    compared with each other.
    """
    options = replace(options, keep=(), on_duplicate=None)
    run = _Reading(sources, options, log, size, MAX_ROWS, start, whole=True)
    for source in each_source(sources):
        if isinstance(source, Container):
            for document in objects.documents(source.source, run.request(source.name)):
                if run.ahead.left:
                    run.ahead.left -= 1
                else:
                    yield document
        else:
            for batch in run.drop_start(run.files(source.name)):
                texts = map(decode, batch.texts.view(pa.binary()).to_pylist())
                ids = map(decode, batch.id_array().view(pa.binary()).to_pylist())
                fields = batch.fields or [{}] * len(batch)
                yield from map(Document, ids, texts, fields)


@dataclass
class _Reading:
    """One reading of all sources: what is asked of each of them, and what happens on the way."""

    sources: Sources
    options: ReadOptions
    given_log: ReadLog | None
    size: int
    rows: int
    start: int
    whole: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.size <= lines.MAX_LINE_BYTES:
            most = lines.MAX_LINE_BYTES
            raise ValueError(f"size: wanted 1 to {most:,} bytes, got {self.size:,}")
        if self.start < 0:
            raise ValueError(f"start: wanted 0 or more documents, got {self.start:,}")
        raises = self.options.on_error == "raise"
        if self.given_log is None and not raises:
            raise ValueError("on_error='skip' needs log=ReadLog(), to count what is left out")
        self.log = self.given_log or ReadLog()
        compared = self.options.on_duplicate is not None and self.options.id_field is not None
        self.ahead = Ahead(self.start, raises and not compared)

    def batches(self) -> Iterator[Batch]:
        """All of them; a reader may have left out some at the start unread."""
        for source in each_source(self.sources):
            if isinstance(source, Container):
                yield from objects.batches(source.source, self.request(source.name))
            else:
                yield from self.files(source.name)

    def drop_start(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The batches without the documents that are still to be left out."""
        for batch in batches:
            out = min(self.ahead.left, len(batch))
            self.ahead.left -= out
            if out < len(batch):
                yield batch.part(out, len(batch)) if out else batch

    def files(self, name: str) -> Iterator[Batch]:
        """What the files hold that are meant, each looked for when the one before it is done."""
        with reading(name):
            files = find(name)
        for file in files:
            before = self.log.bytes
            tells = Path(file).is_file()  # a pipe does not say how far it is read
            with reading(file):
                kind = kind_of(file, self.options.format)
                with open_file(file, kind.codec) as readable:
                    for batch in READERS[kind.format](readable, self.request(file)):
                        if tells:
                            self.log.bytes = before + readable.tell()
                        yield batch

    def request(self, source: str) -> Request:
        """What is asked of one source."""

        def refuse(number: int, reason: str) -> None:
            place = f"{source}:{number}"
            if self.options.on_error == "raise":
                raise InvalidFile(f"{reason} ({WHAT_NEXT})", file=place)
            self.log.skipped.add(place, reason)

        return Request(
            source=source,
            options=self.options,
            size=self.size,
            rows=self.rows,
            whole=self.whole,
            refuse=refuse,
            ahead=self.ahead,
        )
