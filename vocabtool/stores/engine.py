"""What an engine must offer, and how an address finds it.

    postgresql://user@host/database?index=NAME

An address is a URL whose scheme is the name of an entry point of the group ``vocabtool.stores``,
which is a class that fulfils :class:`Engine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from vocabtool.index.commit_store import CommitStore
from vocabtool.index.folder import Manifest
from vocabtool.index.generation import Progress
from vocabtool.index.maintenance import VerifyReport
from vocabtool.index.model import IndexModel
from vocabtool.index.writer import StoreWriter
from vocabtool.keywords.cutter import Cutter

GROUP: Final = "vocabtool.stores"


class Engine(Protocol):
    """One index in an engine. ``name``: its address without secrets, for messages."""

    name: str

    @classmethod
    def create(cls, address: str, manifest: Manifest, files: Mapping[str, bytes]) -> Engine:
        """Create an empty index. ``files``: the files of its model by name.

        Raises :class:`FolderNotEmpty` if there is an index with this name.
        """

    @classmethod
    def open(cls, address: str) -> Engine:
        """Open an index; writes nothing. Raises :class:`NotFound`."""

    def manifest(self) -> Manifest:
        """Return the manifest of the newest commit."""

    def model_file(self, name: str) -> bytes: ...

    def snapshot(self, manifest: Manifest, model: IndexModel, cutter: Cutter) -> CommitStore:
        """Return what searches read."""

    def writer(self, cutter: Cutter, memory: int | None) -> StoreWriter: ...

    def compact(self, progress: Progress | None) -> int:
        """Give back the space of deleted documents, measure again; return how many there were."""

    def verify(self, progress: Progress | None) -> VerifyReport:
        """Compare statistics, postings and documents. Raises :class:`InvalidFile`."""

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes on disk by purpose."""

    def remove(self) -> None:
        """Remove the index and everything that belongs to it."""
