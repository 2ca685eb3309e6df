"""Documents of files and other sources, as the start of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vocabtool.documents.reading import Document, ReadLog, ReadOptions, documents
from vocabtool.documents.sources import Sources, can_be_read_again, told


@dataclass(frozen=True, slots=True)
class Reading:
    """Sources and how they are read; see :func:`vocabtool.documents.reading.documents`."""

    sources: Sources
    options: ReadOptions
    log: ReadLog | None

    def __call__(self, first: int) -> Iterator[Document]:
        return self.read(self.sources, first)

    def read(self, sources: Sources, first: int) -> Iterator[Document]:
        """Some of the sources, read like all of them."""
        return documents(sources, self.options, log=self.log, start=first)

    def only_once(self) -> bool:
        """Whether a second pass would find nothing."""
        return not all(map(can_be_read_again, told(self.sources)))
