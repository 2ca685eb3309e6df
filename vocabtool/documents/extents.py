"""How much there is to read, as far as that is known without reading it: rows and bytes.

Exact where a footer or a length says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from vocabtool.documents import arrow_ipc, parquet_file
from vocabtool.documents.files import STDIN, find, kind_of
from vocabtool.documents.objects import is_indexable
from vocabtool.documents.options import Format
from vocabtool.documents.sources import Files, Sources, each_source
from vocabtool.errors import VocabtoolError


class Extent(NamedTuple):
    """``rows``: how many rows, bad ones too. ``bytes``: how large the files are, as they lie there.

    ``None``: not known, or without end.
    """

    rows: int | None = None
    bytes: int | None = None


def extent(sources: Sources, *, format: Format | None = None) -> Extent:  # noqa: A002 - as elsewhere
    """How much there is in all of ``sources``; arguments as of :func:`documents.batches`.

    Rows are told by Parquet, by files of Arrow IPC and by ``len``; bytes are those of plain files.
    A file that is not there, or damaged, is not known: who reads it is told.
    """
    parts: list[Extent] = []
    for source in each_source(sources):
        if isinstance(source, Files):
            try:
                parts += [_of_file(file, format) for file in find(source.name)]
            except (VocabtoolError, OSError):
                parts.append(Extent())
        else:
            held = source.source
            parts.append(Extent(len(held)) if is_indexable(held) else Extent())
    return Extent(total(part.rows for part in parts), total(part.bytes for part in parts))


def row_counts(name: str, wanted: Format | None) -> list[int] | None:
    """How many rows each part of a file has that a reader can start at; ``None``: not known."""
    kind = kind_of(name, wanted)
    if kind.format == "parquet":
        return parquet_file.row_counts(name)
    return arrow_ipc.row_counts(name) if kind == ("arrow", None) else None


def total(counts: Iterable[int | None]) -> int | None:
    """The sum; ``None`` where one of them is not known."""
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)


def _of_file(name: str, wanted: Format | None) -> Extent:
    if name == STDIN or not Path(name).is_file():
        return Extent()
    counts = row_counts(name, wanted)
    return Extent(None if counts is None else sum(counts), Path(name).stat().st_size)
