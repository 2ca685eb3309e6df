"""How much there is to read, as far as that is known without reading it: rows and bytes.

Exact where a footer or a length says so. What is read is told in ``documents/reading.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vocabtool.documents import arrow_ipc, parquet_file
from vocabtool.documents.items import is_indexable
from vocabtool.documents.opening import STDIN, find, kind_of
from vocabtool.documents.options import Format
from vocabtool.documents.sources import Named, Sources, told
from vocabtool.errors import VocabtoolError


@dataclass(frozen=True, slots=True)
class Extent:
    """``rows``: how many rows, bad ones too. ``bytes``: how large the files are, as they lie there.

    ``None``: not known, or without end.
    """

    rows: int | None
    bytes: int | None


UNKNOWN = Extent(None, None)


def extent(sources: Sources, *, format: Format | None = None) -> Extent:  # noqa: A002 - as elsewhere
    """How much there is in all of ``sources``; arguments as of :func:`documents.batches`.

    Rows are told by Parquet, by files of Arrow IPC and by ``len``; bytes are those of plain files.
    A file that is not there, or damaged, is not known: who reads it is told.
    """
    parts = []
    for source in told(sources):
        if isinstance(source, Named):
            parts += _of_name(source.name, format)
        else:
            held = source.source
            parts.append(Extent(len(held), None) if is_indexable(held) else UNKNOWN)
    return _sum(parts)


def _of_name(name: str, wanted: Format | None) -> list[Extent]:
    try:
        return [_of_file(file, wanted) for file in find(name)]
    except (VocabtoolError, OSError):  # not there, or not readable: unknown, as promised
        return [UNKNOWN]


def _of_file(name: str, wanted: Format | None) -> Extent:
    if name == STDIN or not Path(name).is_file():
        return UNKNOWN
    return Extent(_rows(name, wanted), Path(name).stat().st_size)


def _rows(name: str, wanted: Format | None) -> int | None:
    counts = row_counts(name, wanted)
    return None if counts is None else sum(counts)


def row_counts(name: str, wanted: Format | None) -> list[int] | None:
    """How many rows each part of a file has that a reader can start at; ``None``: not known."""
    kind = kind_of(name, wanted)
    if kind.format == "parquet":
        return parquet_file.row_counts(name)
    return arrow_ipc.row_counts(name) if kind == ("arrow", None) else None


def _sum(parts: Iterable[Extent]) -> Extent:
    parts = list(parts)
    rows = [part.rows for part in parts]
    sizes = [part.bytes for part in parts]
    return Extent(_total(rows), _total(sizes))


def _total(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
