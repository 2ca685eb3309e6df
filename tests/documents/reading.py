"""Reading with options as keywords."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from vocabtool import Document
from vocabtool import documents as room
from vocabtool.documents import (
    Batch,
    DuplicateCounter,
    ReadArguments,
    ReadLog,
    ReadOptions,
    SkipCounter,
    Sources,
)


def batches(
    sources: Sources,
    *,
    log: ReadLog | None = None,
    skipped: SkipCounter | None = None,
    repeated: DuplicateCounter | None = None,
    size: int = 4 << 20,
    rows: int = 1 << 18,
    start: int = 0,
    **read: Unpack[ReadArguments],
) -> Iterator[Batch]:
    """Batches, counted in what is given."""
    if log is None and (skipped is not None or repeated is not None):
        log = ReadLog(skipped or SkipCounter(), repeated or DuplicateCounter())
    options = ReadOptions(**read)
    return room.batches(sources, options, log=log, size=size, rows=rows, start=start)


def documents(
    sources: Sources,
    *,
    skipped: SkipCounter | None = None,
    size: int = 4 << 20,
    start: int = 0,
    **read: Unpack[ReadArguments],
) -> Iterator[Document]:
    """Documents, bad rows counted in what is given."""
    log = None if skipped is None else ReadLog(skipped)
    return room.documents(sources, ReadOptions(**read), log=log, size=size, start=start)
