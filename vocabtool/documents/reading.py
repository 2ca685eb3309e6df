"""Read documents lazily from files, folders, globs, standard input and Python objects.

To add a format, write a function in a module of its own and add it to ``READERS``.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.documents import headings, pieces, row_files, tables
from vocabtool.documents.batch import (
    BATCH_BYTES,
    MAX_ROWS,
    Batch,
    Document,
    Measure,
    ReadLog,
    Request,
    Skip,
    SkipCounter,
    gather,
    id_of_row,
    is_indexable,
    is_table,
    object_rows,
)
from vocabtool.documents.files import (
    DEFAULTS,
    STDIN,
    Sources,
    each_source,
    find,
    kind_of,
    left_out,
    names_of,
    open_file,
    reading_documents,
)
from vocabtool.documents.options import Format, OnDuplicate, OnError, ReadOptions
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError
from vocabtool.system.messages import MAX_DOCUMENT_BYTES, text_too_long
from vocabtool.vocabulary import decode, encode

__all__ = [
    "BATCH_BYTES", "Batch", "Document", "Extent", "Format", "OnDuplicate", "OnError",
    "ReadLog", "ReadOptions", "Skip", "SkipCounter", "Sources", "batches", "documents", "extent",
    "left_out", "names_of",
]  # fmt: skip  # one name a line would be twenty lines

READERS: Final[dict[Format, Callable[[Any, Request], Iterator[Batch]]]] = {
    "lines": row_files.read_lines,
    "jsonl": row_files.read_jsonl,
    "csv": partial(tables.read_csv, delimiter=","),
    "tsv": partial(tables.read_csv, delimiter="\t"),
    "parquet": tables.read_parquet,
    "arrow": tables.read_arrow,
    "tfrecord": row_files.read_tfrecord,
    "json": row_files.read_json,
    "text": partial(pieces.read_text, mark=headings.plain_text),
    "code": pieces.read_text,
    "markdown": partial(pieces.read_text, mark=headings.markdown),
    "rst": partial(pieces.read_text, mark=headings.rst),
    "html": partial(pieces.read_text, mark=headings.html, decode_bytes=headings.decode_html),
    "python": partial(pieces.read_text, mark=headings.python),
    "notebook": partial(pieces.read_pieces, mark=headings.notebook),
    "pdf": partial(pieces.read_pieces, mark=headings.pdf),
    "docx": partial(pieces.read_pieces, mark=headings.docx),
}
SAMPLE_ROWS: Final = 20_000  # documents used to fit weights of word vectors
SAMPLE_BYTES: Final = 1 << 20  # of text read at a time for the sample
WITH_LISTS: Final = ("jsonl", "parquet", "arrow")  # formats whose fields may be lists of numbers


def batches(
    sources: Sources,
    read: ReadOptions = DEFAULTS,
    *,
    log: ReadLog | None = None,
    size: int = BATCH_BYTES,
    rows: int = MAX_ROWS,
    start: int = 0,
    measure: Measure | None = None,
) -> Iterator[Batch]:
    """Yield the texts of ``sources`` in order, in batches; a batch never mixes two sources.

    ``sources``: one of these, or a list of several:

    - a path, a folder, a glob (also ``**``), or ``-`` for standard input. A ``.txt`` in a folder is
      text, cut into pieces; one that is named has a document on each line.
    - a table: an Arrow table or reader, a data frame of pandas or Polars (also lazy), a relation
      of DuckDB, or any other object with ``__arrow_c_stream__``
    - an iterable, which may be infinite, or a sequence

    Items of an iterable or a sequence are strings, ``bytes``, mappings or
    :class:`Document`. But strings in a list are names of files: to read a list of texts, pass
    ``iter(texts)``. Files are found and opened one after another.

    ``log``: counts invalid rows, repeated ids and bytes read. Required if ``read`` allows rows or
    documents to be skipped.
    ``size``: approximate bytes of text in a batch; a longer text is a batch of its own.
    ``rows``: maximum number of documents in a batch of Python objects, a JSON array, TFRecord or
    pieces.
    ``start``: number of documents to skip at the start.
    ``measure``: counts the tokens of texts that are split into pieces. Default: words are counted.

    Documents skipped by ``start`` are not parsed. In sequences, Parquet and Arrow IPC, most of them
    are not even read. But all documents are read and parsed if ``on_error`` is ``"skip"``, if rows
    are split, or if ids of ``id_field`` are compared.

    Raises:

    - :class:`InvalidFile` for damaged files, invalid rows and repeated ids. For rows and ids, the
      message contains the file and the line. A text of more than ``MAX_DOCUMENT_BYTES`` is an
      invalid row, unless it is split into pieces.
    - :class:`NotFound`
    - :class:`UnsupportedFormat`
    """
    if read.on_duplicate == "first" and log is None:
        raise ValueError("on_duplicate='first' needs log=ReadLog(), which counts what is skipped")
    request = _request(read, log, size, start)
    request.rows, request.measure = rows, measure
    of_sources = (_of_source(name, source, request) for name, source in each_source(sources))
    of_rows: Iterator[Batch] = chain.from_iterable(of_sources)
    if read.on_duplicate is not None:
        of_rows = _without_repeated(of_rows, request)  # before rows are split, which changes ids
    yield from _split_and_drop(of_rows, request)


def documents(
    sources: Sources,
    read: ReadOptions = DEFAULTS,
    *,
    log: ReadLog | None = None,
    size: int = BATCH_BYTES,
    start: int = 0,
) -> Iterator[Document]:
    """Yield the documents of ``sources`` in order. For arguments and errors see :func:`batches`.

    An item that is a :class:`Document` is not changed. For any other item, the id is the value of
    ``id_field``, or by default the value of ``id`` of a Python mapping, or else the location, such
    as ``corpus.jsonl:17``; the fields are all fields
    of the item except the text. Repeated ids are not detected.
    """
    read = replace(read, keep=(), on_duplicate=None)
    request = _request(read, log, size, start)
    request.all_fields = True
    for name, source in each_source(sources):
        request.source = name
        if read.splits_rows and not isinstance(source, str):
            hint = "works only for files in documents(); use batches() for Python objects"
            raise ValueError(f"{name}: split={read.split!r} {hint}")
        if not isinstance(source, str) and not is_table(source):
            for row, item in object_rows(source, request):
                if request.to_skip:
                    request.to_skip -= 1
                elif isinstance(item, Document):
                    yield item
                else:
                    yield Document(decode(id_of_row(row, request)), decode(row.text), row.fields)
            continue
        for batch in _split_and_drop(_of_source(name, source, request), request):
            texts = map(decode, batch.texts.view(pa.binary()).to_pylist())
            ids = map(decode, batch.id_array().view(pa.binary()).to_pylist())
            fields = batch.fields or [{}] * len(batch)
            yield from map(Document, ids, texts, fields)


def sample(files: Sequence[str], read: ReadOptions) -> Iterator[bytes]:
    """Yield texts for fitting word weights: equally many from the start of each file."""
    read = replace(read, id_field=None, keep=(), on_error="skip", on_duplicate="error")
    total = 0
    for file in files:
        log, count = ReadLog(), 0
        sampled = batches(file, read, log=log, size=SAMPLE_BYTES)
        texts = (text for batch in sampled for text in batch.texts.view(pa.binary()).to_pylist())
        for text in islice(texts, -(-SAMPLE_ROWS // len(files))):
            count += 1
            yield text
        if not count and log.skipped.first:  # every row of the file is invalid
            first = log.skipped.first[0]
            raise InvalidFile(first.reason, file=first.place)
        total += count
    if not total:
        raise NotFound(f"{', '.join(files)}: no document in it")


def _request(read: ReadOptions, log: ReadLog | None, size: int, start: int) -> Request:
    """Check the arguments of :func:`batches` and return them for the readers."""
    if not 1 <= size <= row_files.MAX_LINE_BYTES:
        raise ValueError(f"size must be from 1 to {row_files.MAX_LINE_BYTES:,} bytes, got {size:,}")
    if start < 0:
        raise ValueError(f"start must be at least 0, got {start:,}")
    raises = read.on_error == "raise"
    if log is None and not raises:
        raise ValueError("on_error='skip' needs log=ReadLog(), which counts what is skipped")
    compares_ids = read.on_duplicate is not None and read.id_field is not None
    # A row that is split gives several documents.
    can_skip = raises and not compares_ids and not read.splits_rows
    return Request(read=read, log=log or ReadLog(), size=size, to_skip=start, can_skip=can_skip)


def _of_source(name: str, source: object, request: Request) -> Iterator[Batch]:
    """Yield the batches of one source: a table, a Python object, or the files of a name."""
    request.source = name
    if is_table(source):
        yield from tables.read_table(source, request)
        return
    if not isinstance(source, str):
        yield from gather((row for row, _ in object_rows(source, request)), request)
        return
    with reading_documents(name):
        files = find(name, request.read)
    for file in files:
        bytes_before = request.log.bytes
        has_position = os.path.isfile(file)  # noqa: PTH113 - quicker; a pipe has none
        with reading_documents(file):
            format_, codec = kind_of(file, request.read)
            if request.read.vector_field is not None and format_ not in WITH_LISTS:
                formats = "Parquet, Arrow or JSON lines"
                what = f"--vector-field (vector_field=) needs {formats}, got the format {format_!r}"
                raise InvalidFile(what)
            request.source = file
            with open_file(file, codec) as readable:
                for batch in READERS[format_](readable, request):
                    if has_position:
                        request.log.bytes = bytes_before + readable.tell()
                    yield batch


def _split_and_drop(batches: Iterable[Batch], request: Request) -> Iterator[Batch]:
    """Split rows if the options say so; drop too long texts and ``request.to_skip`` documents."""
    read = request.read
    for rows in batches:
        pieces_of_rows: Iterable[Batch] = [rows]
        if read.splits_rows and rows.parts is None:
            if read.fields:
                what = f"split={read.split!r} cuts only rows with one text field"
                raise InvalidFile(f"{what}, got {' and '.join(read.fields)}", file=rows.source)
            short = _without_long_texts(rows, request, pieces.MAX_FILE_BYTES)
            pieces_of_rows = pieces.split_rows(short, request)
        for whole_batch in pieces_of_rows:
            batch = _without_long_texts(whole_batch, request, MAX_DOCUMENT_BYTES)
            dropped = min(request.to_skip, len(batch))
            request.to_skip -= dropped
            if dropped < len(batch):
                yield batch.part(dropped, len(batch))


def _without_long_texts(batch: Batch, request: Request, most: int) -> Batch:
    """Refuse the texts of more than ``most`` bytes, and return the other rows."""
    if batch.texts.nbytes <= most:
        return batch
    lengths = pc.binary_length(batch.texts).to_numpy()
    for row in np.flatnonzero(lengths > most).tolist():
        request.refuse(int(batch.numbers[row]), text_too_long(lengths[row], most))
    return batch.only(lengths <= most)


# ---- repeated ids

WHAT_NEXT: Final = "change one of the ids; in Python, on_duplicate='first' keeps the first document"
ID_BYTES: Final = 16  # of the hash that stands for an id: two ids never have the same in practice


class SeenIds:
    """The first row with each id, from 0. Ten million ids need about 1.3 GB of memory."""

    def __init__(self) -> None:
        self._rows: dict[bytes, int] = {}  # by the hash of the id
        self._count = 0
        self._starts: list[int] = []  # the first row of each batch, its source and its numbers
        self._places: list[tuple[str, NDArray[np.int64]]] = []

    def add(self, ids: pa.StringArray, source: str, numbers: NDArray[np.int64]) -> list[int]:
        """Add a batch of ids, and return the indexes of those that were there before.

        ``source``, ``numbers``: those of the batch, for :meth:`first_place`.
        """
        hashes, start = _hashes(ids), self._count
        self._count += len(hashes)
        self._starts.append(start)
        self._places.append((source, numbers))
        rows = enumerate(hashes, start)
        return [row - start for row, hash_ in rows if self._rows.setdefault(hash_, row) != row]

    def first_place(self, id_: bytes) -> str:
        """Return the location of the first row with an id, such as ``corpus.jsonl:17``."""
        row = self._rows[_hash(id_)]
        batch = bisect_right(self._starts, row) - 1
        source, numbers = self._places[batch]
        return f"{source}:{numbers[row - self._starts[batch]]}"

    def rows_of(self, ids: pa.StringArray) -> NDArray[np.int64]:
        """Return the first row with each id, or -1 for an unknown id: int64, shape (n,)."""
        return np.array([self._rows.get(hash_, -1) for hash_ in _hashes(ids)], np.int64)


def _hash(id_: bytes) -> bytes:
    return blake2b(id_, digest_size=ID_BYTES).digest()


def _hashes(ids: pa.StringArray) -> list[bytes]:
    return [_hash(id_) for id_ in ids.view(pa.binary()).to_pylist()]


def _without_repeated(batches: Iterable[Batch], request: Request) -> Iterator[Batch]:
    """Yield the first document with each id; refuse or count the others, as the options say."""
    seen = SeenIds()
    for batch in batches:
        rows = [] if batch.ids is None else seen.add(batch.ids, batch.source, batch.numbers)
        if rows and request.read.on_duplicate == "error":
            id_ = batch.id_of(rows[0])
            earlier = seen.first_place(encode(id_))
            what = f"the id {id_!r} is also the id of {earlier} ({WHAT_NEXT})"
            raise InvalidFile(what, file=batch.place(rows[0]))
        request.log.repeated += len(rows)
        if len(rows) < len(batch):
            yield batch.only(~np.isin(np.arange(len(batch)), rows)) if rows else batch


# ---- number of rows and bytes, if known without reading the documents


class Extent(NamedTuple):
    """The number of rows, including invalid rows, and the size of the stored files in bytes.

    A number is ``None`` if it is unknown or infinite.
    """

    rows: int | None = None
    bytes: int | None = None


def extent(sources: Sources, *, read: ReadOptions = DEFAULTS) -> Extent:
    """Return the total number of rows and bytes of ``sources``.

    The number of rows is known for Parquet, Arrow IPC files and objects with ``len``. The number of
    bytes is known for regular files. Neither number is known if a file is missing or damaged.

    ``sources``: as for :func:`batches`. ``read``: how the files are read.
    """
    extents: list[Extent] = []
    for _, source in each_source(sources):
        if isinstance(source, str):
            try:
                for file in find(source, read):
                    if file == STDIN or not Path(file).is_file():
                        extents.append(Extent())
                        continue
                    counts = tables.row_counts(file, read)
                    rows = None if counts is None else sum(counts)
                    extents.append(Extent(rows, Path(file).stat().st_size))
            except (VocabtoolError, OSError):
                extents.append(Extent())
        elif is_indexable(source) and not read.splits_rows:
            extents.append(Extent(len(source)))
        else:
            extents.append(Extent())
    return Extent(total(one.rows for one in extents), total(one.bytes for one in extents))


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the counts; ``None`` if one of them is not known."""
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)
