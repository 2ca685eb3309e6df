"""Read vectors that another system made, from a file or an array, and match them to documents.

    .npy        an array of shape (n, dim); it is mapped into memory
    .parquet    a column of lists and, if rows have ids, a column ``id``

A row belongs to the document with the same id; in a file without ids, to the document at the same
position. Rows are counted from 0. At most a few megabytes of vectors are in memory at a time.

The format of .npy: numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final, NoReturn, TypeAlias

import google_crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from vocabtool.choices import MAX_DIM
from vocabtool.documents.batch import NOT_FINITE, Batch, Measure, ReadLog, vectors_in
from vocabtool.documents.files import arrow_errors
from vocabtool.documents.options import ID, VECTOR, ReadOptions
from vocabtool.documents.reading import SeenIds, Sources, batches, extent
from vocabtool.documents.tables import (
    PARQUET_ERROR,
    as_strings,
    is_numbers,
    is_strings,
    open_parquet,
    row_groups,
)
from vocabtool.errors import (
    GIT_LFS,
    InvalidFile,
    UnsupportedFormat,
    VocabtoolError,
    reading,
    refuse_pointer,
)
from vocabtool.formats.files import read_array_head
from vocabtool.vocabulary import decode

Vectors: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = NDArray[np.int64]
Given: TypeAlias = str | os.PathLike[str] | ArrayLike

ARRAY: Final = "vectors"  # the name of an array in messages
VECTOR_BYTES: Final = 4 << 20  # of vectors, as float32, that are read at a time
BY_POSITION: Final = (
    "vectors without ids belong to documents by position. Give one vector for each document, in "
    "order, or give the vectors ids: a Parquet file with a column 'id'"
)


class GivenVectors:
    """Vectors from an array in memory or in a file, read by one thread at a time.

    ``mapped``: a function that returns the array; a file is mapped into memory again at each call.
    ``ids``: a function that yields the ids in order, some thousands at a time.
    ``shape``: the shape of the array, if it is known already.
    """

    def __init__(
        self,
        name: str,
        mapped: Callable[[], NDArray[Any]],
        ids: Callable[[], Iterator[pa.StringArray]] | None = None,
        shape: tuple[int, int] | None = None,
    ) -> None:
        if shape is None:
            array = mapped()
            if array.ndim != 2 or array.dtype.kind not in "fiu":
                got = f"{array.dtype} of shape {array.shape}"
                raise InvalidFile(f"expected numbers of shape (n, dim), got {got}", file=name)
            shape = (array.shape[0], array.shape[1])
        self.count, self.dim = shape
        if not self.count or not 0 < self.dim <= MAX_DIM:
            what = f"expected at least one vector of 1 to {MAX_DIM:,} numbers"
            raise InvalidFile(f"{what}, got the shape ({self.count:,}, {self.dim:,})", file=name)
        self.name, self.has_ids = name, ids is not None
        self._mapped, self.ids = mapped, ids or (lambda: iter(()))

    def take(self, rows: Rows) -> Vectors:
        """Return the vectors of ``rows``: float32, shape (len(rows), dim)."""
        with np.errstate(over="ignore"):  # infinity is refused below
            vectors: Vectors = np.ascontiguousarray(self._mapped()[rows], np.float32)
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            self.refuse(int(rows[np.argmin(finite)]), NOT_FINITE)
        return vectors

    def refuse(self, row: int, what: str) -> NoReturn:
        """Raise :class:`InvalidFile`, which names the row and its id, if there are ids."""
        first, name_of_row = 0, f"row {row:,}"
        for ids in self.ids():
            if first <= row < first + len(ids):
                name_of_row += f" (id {decode(bytes(ids[row - first].as_buffer()))!r})"
            first += len(ids)
        raise InvalidFile(f"{name_of_row}: {what}", file=self.name)


@contextmanager
def open_vectors(
    source: Given, beside: Path | None = None, *, one: bool = False
) -> Iterator[GivenVectors]:
    """Open vectors: a file (see the module), or an array of shape (n, dim) in memory.

    ``beside``: the folder for temporary files. ``one``: whether a .npy may have the shape (dim,).
    """
    if not isinstance(source, str | os.PathLike):
        array = np.asarray(source)
        yield GivenVectors(ARRAY, lambda: array)
        return
    name = os.fspath(source)
    with ExitStack() as opened:

        def temporary() -> BinaryIO:
            return opened.enter_context(TemporaryFile(dir=beside))

        with reading(name):
            ending = Path(name).suffix.lower()
            if ending not in (".npy", ".parquet", ".pq"):
                what = f".npy or .parquet, got {ending or 'no ending'}"
                raise UnsupportedFormat(f"expected vectors in a file that ends in {what}")
            file = opened.enter_context(Path(name).open("rb"))
            refuse_pointer(file.peek(len(GIT_LFS[0])))
            if ending == ".npy":
                vectors = GivenVectors(name, map_npy(file, one=one))
            else:
                vectors = _open_parquet(name, file, temporary)
        yield vectors


def _open_parquet(name: str, file: BinaryIO, temporary: Callable[[], BinaryIO]) -> GivenVectors:
    """Open the only column of lists of numbers, or the column ``vector``.

    When the first vectors are needed, all are copied to a ``temporary`` file, which can be mapped.
    """
    try:
        table = open_parquet(file)
        schema = table.schema_arrow
        names, lists = schema.names, [field.name for field in schema if is_numbers(field.type)]
    except UnicodeDecodeError as error:
        raise InvalidFile("the column names are not UTF-8") from error
    if len(lists) != 1 and lists.count(VECTOR) != 1:
        got = ", ".join(map(repr, lists)) or f"the columns {names}"
        raise InvalidFile(f"expected one column of lists of numbers, or {VECTOR!r}, got {got}")
    column = lists[0] if len(lists) == 1 else VECTOR
    has_ids = names.count(ID) == 1
    if has_ids:
        kind = schema.field(ID).type
        if not is_strings(kind) and not pa.types.is_integer(kind):
            raise InvalidFile(f"field {ID!r}: expected strings or integers as ids, got {kind}")

    def read_column(column_name: str) -> Iterator[pa.Array]:
        with reading(name), arrow_errors(PARQUET_ERROR):
            for rows in row_groups(table, file, [column_name]):
                yield rows.column(0)

    def read_ids() -> Iterator[pa.StringArray]:
        first = 0
        for array in read_column(ID):
            if array.null_count:
                row = first + int(np.argmin(np.asarray(array.is_valid())))
                what = f"row {row:,}: field {ID!r}: expected an id, got null"
                raise InvalidFile(what, file=name)
            yield as_strings(array, ID)
            first += len(array)

    first_rows = next(read_column(column), None)
    dim = 0 if first_rows is None else vectors_in(first_rows, column)[0].shape[1]
    count = table.metadata.num_rows

    @cache
    def copy_vectors() -> BinaryIO:
        copy, start = temporary(), 0
        for array in read_column(column):
            vectors, invalid = vectors_in(array, column)
            if not invalid and vectors.shape[1] != dim:
                invalid = {0: f"expected {dim:,} numbers, got {vectors.shape[1]:,}"}
            for row, reason in invalid.items():
                opened.refuse(start + row, reason)
            with reading(f"{name}: its copy in a temporary file"):
                copy.write(vectors.data)
            start += len(array)
        if start != count:
            raise InvalidFile("has fewer rows than its footer states", file=name)
        copy.flush()
        return copy

    opened = GivenVectors(
        name,
        lambda: np.memmap(copy_vectors(), np.float32, "r", 0, (count, dim)),
        read_ids if has_ids else None,
        (count, dim),
    )
    return opened


def map_npy(file: BinaryIO, *, one: bool = False) -> Callable[[], NDArray[Any]]:
    """Return a function that maps the array of a ``.npy`` file, whose size is checked here.

    ``one``: whether an array of shape (dim,) becomes (1, dim). Raises :class:`InvalidFile`, and
    :class:`UnsupportedFormat` for an array of other values than numbers and texts.
    """
    file.seek(0)
    head = read_array_head(file)
    shape = (1, *head.shape) if one and len(head.shape) == 1 else head.shape
    size = os.fstat(file.fileno()).st_size - head.start
    if head.size > size:
        raise InvalidFile(f"truncated: expected {head.size:,} bytes of numbers, got {size:,}")
    if not head.size:
        return lambda: np.zeros([min(length, 1) for length in shape], np.float32)
    return lambda: np.memmap(file, head.dtype, "r", head.start, shape, head.order)


class Matcher:
    """Attaches vectors to documents, after the first ``start``. A repeated id is refused."""

    def __init__(self, vectors: GivenVectors, start: int = 0) -> None:
        self._vectors = vectors
        self._next = start
        self._rows: SeenIds | None = None  # the row of each id, if the vectors have ids
        if not vectors.has_ids:
            return
        self._rows = seen = SeenIds()
        first = 0
        for ids in vectors.ids():
            repeated = seen.add(ids, vectors.name, np.arange(first, first + len(ids)))
            if repeated:
                row = repeated[0]
                id_ = bytes(ids[row].as_buffer())
                earlier = seen.first_place(id_).rpartition(":")[2]
                what = f"the id {decode(id_)!r} is also the id of row {earlier}"
                raise InvalidFile(f"row {first + row:,}: {what}", file=vectors.name)
            first += len(ids)

    def attach(self, batch: Batch) -> Iterator[Batch]:
        """Yield a few megabytes at a time. Raises :class:`InvalidFile` if a vector is missing."""
        vectors, count = self._vectors, len(batch)
        rows = np.arange(self._next, self._next + count)
        self._next += count
        if self._rows is not None:
            rows = self._rows.rows_of(batch.id_array())
        missing = np.flatnonzero((rows < 0) | (rows >= vectors.count))
        if len(missing):
            at = int(missing[0])
            what = f"the document {batch.id_of(at)!r} has no vector: "
            if self._rows is not None:
                hint = "--id-field names the documents' ids"
                what += f"no row of {vectors.name} has this id ({hint})"
            else:
                what += f"{vectors.name} has {vectors.count:,} rows, and {BY_POSITION}"
            raise InvalidFile(what, file=batch.place(at))
        size = max(1, VECTOR_BYTES // (4 * vectors.dim))
        for first in range(0, count, size):
            vectors_of_part = vectors.take(rows[first : first + size])
            yield replace(batch.part(first, first + size), vectors=vectors_of_part)

    def finish(self) -> str | None:
        """Return a note if some vectors belong to no document. Call this after the last batch.

        Raises :class:`VocabtoolError` if such vectors have no ids.
        """
        unused = self._vectors.count - self._next
        if self._rows is None and unused:
            raise _refuse_count(self._vectors, self._next)
        if unused <= 0:
            return None
        name, count = self._vectors.name, self._vectors.count
        return f"{name}: {unused:,} of {count:,} vectors belong to no document that was read"


def check_counts(
    given: GivenVectors, sources: Sources, read: ReadOptions, measure: Measure | None = None
) -> None:
    """Raise ``VocabtoolError`` if there are more or fewer documents than vectors.

    Vectors with ids are not checked. Documents are read once more if their number is not known.
    """
    if given.has_ids:
        return
    if read.on_duplicate == "first":
        what = "on_duplicate='first' leaves documents out"
        raise VocabtoolError(f"{given.name}: {what}, but {BY_POSITION}")
    count = extent(sources, read=read).rows
    if count is None:
        plain = replace(read, keep=(), id_field=None, on_duplicate=None)
        count = sum(map(len, batches(sources, plain, log=ReadLog(), measure=measure)))
    if count != given.count:
        raise _refuse_count(given, count)


def _refuse_count(given: GivenVectors, documents: int) -> VocabtoolError:
    counts = f"{given.count:,} vectors for {documents:,} documents"
    return VocabtoolError(f"{given.name}: {counts}, but {BY_POSITION}")


def checksum_of(vectors: ArrayLike) -> str:
    """Return a text with the shape, the type and the CRC-32C of an array in memory."""
    array, checksum = np.asarray(vectors), 0
    step = max(1, VECTOR_BYTES // max(array[:1].nbytes, 1))
    for start in range(0, len(array), step):
        checksum = google_crc32c.extend(
            checksum, np.ascontiguousarray(array[start : start + step]).tobytes()
        )
    return f"{array.dtype} {array.shape} {checksum:08x}"


def read_vector(name: str) -> Vectors:
    """Read one vector from a file: float32, shape (dim,).

    ``name``: FILE, or FILE#N for row N, from 0. A .npy may also contain one vector, shape (dim,).
    """
    file, _, number = name.rpartition("#")
    if not (file and number.isdecimal()) or Path(name).exists():
        file, number = name, ""
    with open_vectors(file, one=True) as vectors:
        row, count = int(number or 0), vectors.count
        if row >= count or (not number and count > 1):
            choice = f"name one: {file}#0 to {file}#{count - 1}"
            raise VocabtoolError(f"{name}: it has {count:,} rows, {choice}")
        vector: Vectors = vectors.take(np.array([row]))[0]
        return vector
