"""Reading with options as keywords, and what was read as Python shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack, cast

import pyarrow as pa

from vocabtool import Document
from vocabtool.documents import (
    Batch,
    ReadArguments,
    ReadLog,
    ReadOptions,
    SkipCounter,
    Sources,
)
from vocabtool.documents import batches as read_batches
from vocabtool.documents import documents as read_documents


def write(path: Path, content: str | bytes) -> str:
    """Write a file, and its folder; return its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


class Indexed:
    """Rows behind an index only; remembers which were read."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = rows
        self.read: list[int] = []

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> Any:
        self.read.append(place)
        return self.rows[place]


def batches(
    sources: Sources,
    *,
    log: ReadLog | None = None,
    skipped: SkipCounter | None = None,
    size: int = 4 << 20,
    rows: int = 1 << 18,
    start: int = 0,
    **read: Unpack[ReadArguments],
) -> Iterator[Batch]:
    if log is None and skipped is not None:
        log = ReadLog(skipped)
    options = ReadOptions(**read)
    return read_batches(sources, options, log=log, size=size, rows=rows, start=start)


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
    return read_documents(sources, ReadOptions(**read), log=log, size=size, start=start)


def parts(path: str | Path, **read: Unpack[ReadArguments]) -> list[tuple[str, str]]:
    """The id of each piece of a file without the file's name, and the text."""
    return [(d.id.removeprefix(str(path)), d.text) for d in documents(str(path), **read)]


def binary(column: pa.Array) -> list[bytes]:
    return cast(list[bytes], column.view(pa.binary()).to_pylist())


def texts_of(found: Iterable[Batch]) -> list[bytes]:
    return [text for batch in found for text in binary(batch.texts)]


def ids_of(found: Iterable[Batch]) -> list[str]:
    return [id_ for batch in found for id_ in batch.id_array().to_pylist()]


def numbered(found: Iterable[Batch]) -> list[tuple[int, bytes]]:
    return [
        pair
        for batch in found
        for pair in zip(batch.numbers.tolist(), binary(batch.texts), strict=True)
    ]


def skipping(
    sources: Sources, *, size: int = 4 << 20, start: int = 0, **read: Unpack[ReadArguments]
) -> tuple[list[tuple[int, bytes]], SkipCounter]:
    """What is left, numbered, where bad rows are passed over, and what these are."""
    skipped = SkipCounter()
    read["on_error"] = "skip"
    return numbered(batches(sources, skipped=skipped, size=size, start=start, **read)), skipped
