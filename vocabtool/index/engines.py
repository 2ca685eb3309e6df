"""Engines: databases, such as PostgreSQL, that store an index. The index then has an address:

    postgresql://user@host/database?index=NAME

The scheme of the address names the engine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

from vocabtool.choices import StoredType
from vocabtool.encoders.encoder import Encoder
from vocabtool.errors import UnsupportedFormat, VocabtoolError
from vocabtool.index.commit_store import CommitStore
from vocabtool.index.folder import Manifest
from vocabtool.index.generation import Progress
from vocabtool.index.maintenance import VerifyReport
from vocabtool.index.model import IndexModel
from vocabtool.index.writer import StoreWriter
from vocabtool.keywords.cutter import Cutter

ADDRESS: Final = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
OURS: Final = {
    "postgresql": "vocabtool.stores.postgres.engine:PostgresEngine",
    "postgres": "vocabtool.stores.postgres.engine:PostgresEngine",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTable:
    """A table in an engine's database; the rows of the table are the documents of an index.

    - ``name``: the name of the table as in SQL: ``docs``, ``sales.docs``, ``"My Docs"``.
    - ``id``, ``text``, ``vector``: names of columns. The ids must be unique and may have any type.
    - ``keep``: names of other columns. Their values are copied to the index, for conditions.
    """

    name: str
    id: str
    text: str
    vector: str
    keep: Sequence[str] = ()

    def __post_init__(self) -> None:
        for what in ("name", "id", "text", "vector"):
            if not isinstance(value := getattr(self, what), str) or not value or "\0" in value:
                raise ValueError(f"{what}: wanted a name, got {value!r}")
        if isinstance(self.keep, str):
            raise ValueError(f"keep must be a list of names, got a string; use [{self.keep!r}]")
        object.__setattr__(self, "keep", (*dict.fromkeys(self.keep),))


class Engine(Protocol):
    """One index in an engine.

    - ``name``: the address of the index without secrets, for messages.
    - ``is_build``: whether the index will replace another index.
    - ``notes``: messages to show whenever the index is opened, such as a recall that is too low.

    A class may have an attribute ``exact_below``. It is the default of the argument ``exact_below``
    of :meth:`Index.create`.
    """

    name: str
    is_build: bool

    @property
    def notes(self) -> tuple[str, ...]: ...

    @classmethod
    def create(
        cls, address: str, manifest: Manifest, files: Mapping[str, bytes], *, replaces: bool
    ) -> Engine:
        """Create an empty index.

        - ``files``: the content of each file of its model, by file name.
        - ``replaces``: whether :meth:`put_in_place` will replace an existing index by this one.

        Raises :class:`FolderNotEmpty` if ``replaces`` is false and an index of this name exists.
        """

    @classmethod
    def open(cls, address: str) -> Engine:
        """Open an index; writes nothing. Raises :class:`NotFound`."""

    @classmethod
    def open_to_remove(cls, address: str) -> Sequence[Engine]:
        """Open an index, even a damaged one, and its unfinished replacement, if any."""

    def manifest(self) -> Manifest:
        """Return the manifest of the newest commit."""

    def model_file(self, name: str) -> bytes: ...

    def snapshot(self, model: IndexModel, cutter: Cutter) -> CommitStore:
        """Return the store for searches.

        In some engines, each call of the store reads the newest commit; in others, all calls read
        the same commit.
        """

    def writer(self, cutter: Cutter, memory: int | None) -> StoreWriter: ...

    def close(self) -> None:
        """Close all connections."""

    def put_in_place(self) -> None: ...

    def compact(self, progress: Progress | None) -> int:
        """Free the space of deleted documents; return the number of these documents."""

    def verify(self, progress: Progress | None) -> VerifyReport:
        """Raise :class:`InvalidFile` if statistics or postings do not fit the documents."""

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes on disk by purpose, such as ``vectors``."""

    def remove(self, *, if_empty: bool = False) -> bool:
        """Remove the index with everything that belongs to it; return whether it was removed.

        ``if_empty``: remove the index only if it has no documents. Documents that another process
        commits meanwhile count too.
        """


class TableEngine(Engine, Protocol):
    """An engine that can also search a table of the user.

    ``table``: the table whose rows are the documents of this index; ``None`` if there is none.
    """

    table: UserTable | None

    @classmethod
    def shape_of(cls, address: str, table: UserTable) -> tuple[int, StoredType]:
        """Return the number of dimensions and the type of the vectors of a table."""

    @classmethod
    def create_for_table(
        cls,
        address: str,
        manifest: Manifest,
        files: Mapping[str, bytes],
        table: UserTable,
        encoder: Encoder | None,
        *,
        replaces: bool,
    ) -> TableEngine:
        """Create an empty index, which :meth:`update_table` fills.

        Raises :class:`OtherModel` if the encoder did not make the vectors of the table.
        """

    def update_table(
        self, cutter: Cutter, commit_rows: int, progress: Progress | None
    ) -> tuple[int, int, int, tuple[str, ...]]:
        """Apply the changes of the table to the index.

        Returns four values: the numbers of added, updated and removed documents, and the notes. A
        note is an error that occurred after the last commit.
        """

    def count_waiting(self) -> int | None:
        """Return how many changes of the table wait for an update.

        Returns ``None`` if the triggers that record the changes are missing or disabled.
        """


def table_engine(address: str) -> type[TableEngine]:
    """Return the engine class for an address.

    Raises :class:`VocabtoolError` if the engine cannot search a table of the user.
    """
    found: Any = engine_class(address) if ADDRESS.match(address) else None
    if not hasattr(found, "update_table"):
        what = "name an index in the table's database: postgresql://user@host/database?index=NAME"
        raise VocabtoolError(f"{what}; got {address.partition('://')[0][:50]!r}")
    checked: type[TableEngine] = found
    return checked


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` is the address of an engine; false if a file or folder has this name."""
    return (
        isinstance(path, str) and ADDRESS.match(path) is not None and not os.path.exists(path)  # noqa: PTH110 - accepts any length
    )


def store_index() -> Any:
    """Import and return the class ``StoreIndex``."""
    return import_module("vocabtool.index.store_index").StoreIndex


def engine_class(address: str) -> type[Engine]:
    """Return the engine class for an address. Raises :class:`UnsupportedFormat` if none exists."""
    match = ADDRESS.match(address)
    scheme = match[1].lower() if match is not None else ""
    if scheme in OURS:
        module, _, name = OURS[scheme].partition(":")
        ours: type[Engine] = getattr(import_module(module), name)
        return ours
    raise UnsupportedFormat(
        f"an address begins with postgresql://, got {scheme!r}; for a folder, give its path"
    )
