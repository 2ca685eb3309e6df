"""A stream that is read once and kept: in memory, or in a folder that later runs find again.

Only a pass that came to its end is kept; one that was abandoned leaves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from vocabtool.documents.opening import arrow_errors
from vocabtool.documents.reading import Document
from vocabtool.errors import InvalidFile, VocabtoolError, reading
from vocabtool.streams.arrow_out import Layout, documents_of
from vocabtool.streams.starting import Start, rest
from vocabtool.system.parallel import closed_after
from vocabtool.system.whole_file import whole_file

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

FILE: Final = "documents.arrow"
ROWS: Final = 1024
KEY: Final = b"vocabtool.key"


@dataclass(slots=True)
class InMemory(Generic[T]):
    """The elements of the first whole pass, given again by every later one."""

    source: Start[T]
    held: list[T] | None = None

    def __call__(self, first: int) -> Iterator[T]:
        held = self.held
        if held is None:
            yield from rest(self._filling(), first)
        else:
            yield from (held[index] for index in range(first, len(held)))

    def _filling(self) -> Iterator[T]:
        held = []
        with closed_after(self.source(0)) as remaining:
            for item in remaining:
                held.append(item)
                yield item
        self.held = held


@dataclass(frozen=True, slots=True)
class InFolder:
    """Documents in an Arrow IPC file that appears in ``folder`` when a pass came to its end.

    Its schema holds ``key``. Fields are kept as JSON.
    """

    source: Start[Document]
    folder: Path
    key: str

    def __call__(self, first: int) -> Iterator[Document]:
        if (self.folder / FILE).exists():
            yield from self._kept(first)
        else:
            yield from rest(self._filling(), first)

    def _filling(self) -> Iterator[Document]:
        import pyarrow as pa

        layout = Layout.of()
        schema = layout.schema.with_metadata({KEY: self.key.encode()})
        self.folder.mkdir(parents=True, exist_ok=True)
        with (
            whole_file(self.folder / FILE) as file,
            pa.ipc.new_file(file, schema) as writer,
            closed_after(self.source(0)) as documents,
        ):
            held: list[Document] = []
            for document in documents:
                held.append(document)
                yield document
                if len(held) == ROWS:
                    writer.write_batch(layout.batch(held))
                    held = []
            writer.write_batch(layout.batch(held))

    def _kept(self, first: int) -> Iterator[Document]:
        import pyarrow as pa

        path = self.folder / FILE
        with (
            reading(str(path)),
            arrow_errors("not Arrow IPC, or damaged"),
            pa.memory_map(str(path)) as file,
            pa.ipc.open_file(file) as reader,
        ):
            self._check(reader.schema)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                if first < batch.num_rows:
                    yield from documents_of(batch.slice(first))
                first = max(first - batch.num_rows, 0)

    def _check(self, schema: pa.Schema) -> None:
        if schema.names != ["id", "text", "fields"]:
            raise InvalidFile(f"wanted the columns id, text, fields, got {schema.names}")
        found = (schema.metadata or {}).get(KEY, b"").decode("utf-8", "replace")
        if found != self.key:
            raise VocabtoolError(
                f"{self.folder}: cached under the key {found!r}, wanted {self.key!r}: it may hold "
                "other documents. Take another folder, or delete this one"
            )
