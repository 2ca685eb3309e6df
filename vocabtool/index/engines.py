"""Engines that keep an index in the place of a folder, and how an address finds one.

    postgresql://user@host/database?index=NAME

The scheme of an address names the engine. Other packages add engines by entry points of the group
``vocabtool.stores``, which name a class that fulfils :class:`Engine`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
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

GROUP: Final = "vocabtool.stores"
ADDRESS: Final = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
OURS: Final = {
    "postgresql": "vocabtool.stores.postgres.engine:PostgresEngine",
    "postgres": "vocabtool.stores.postgres.engine:PostgresEngine",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTable:
    """A table of yours in the database of an engine, whose rows are the documents of an index.

    - ``name``: as in SQL: ``docs``, ``sales.docs``, ``"My Docs"``.
    - ``id``, ``text``, ``vector``: names of columns. The ids must be unique; they may have any
      type.
    - ``keep``: other columns, whose values are copied to the index, for conditions.
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

    - ``name``: its address without secrets, for messages.
    - ``is_build``: whether it will replace another index.
    - ``notes``: what to say at every opening, such as a recall that is not reached.

    A class may have its own default of ``exact_below`` of :meth:`Index.create`.
    """

    name: str
    is_build: bool

    @property
    def notes(self) -> tuple[str, ...]: ...

    @classmethod
    def create(
        cls, address: str, manifest: Manifest, files: Mapping[str, bytes], *, replaces: bool
    ) -> Engine:
        """Create an empty index. ``files``: those of its model, by name.

        ``replaces``: it takes the name of an existing index in :meth:`put_in_place`. Otherwise
        raises :class:`FolderNotEmpty` if there is one.
        """

    @classmethod
    def open(cls, address: str) -> Engine:
        """Open an index; writes nothing. Raises :class:`NotFound`."""

    @classmethod
    def open_to_remove(cls, address: str) -> Sequence[Engine]:
        """Open an index, maybe damaged, and a replacement of it that is not finished."""

    def manifest(self) -> Manifest:
        """Return the manifest of the newest commit."""

    def model_file(self, name: str) -> bytes: ...

    def snapshot(self, model: IndexModel, cutter: Cutter) -> CommitStore:
        """Return what searches read: always the newest commit, or one commit."""

    def writer(self, cutter: Cutter, memory: int | None) -> StoreWriter: ...

    def close(self) -> None:
        """Close all connections."""

    def put_in_place(self) -> None: ...

    def compact(self, progress: Progress | None) -> int:
        """Give back the space of deleted documents; return how many there were."""

    def verify(self, progress: Progress | None) -> VerifyReport:
        """Compare statistics, postings and documents. Raises :class:`InvalidFile`."""

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes on disk by purpose."""

    def remove(self, *, if_empty: bool = False) -> bool:
        """Remove the index with everything that belongs to it; return whether it was removed.

        ``if_empty``: only if it has no document, also none that is committed at this moment.
        """


class TableEngine(Engine, Protocol):
    """An engine that can also search a table of the user's.

    ``table``: of this index; ``None`` if its documents are its own.
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
        """Create an index for :meth:`update_table` to fill. Raises :class:`OtherModel` if the
        encoder did not make the vectors of the table.
        """

    def update_table(
        self, cutter: Cutter, commit_rows: int, progress: Progress | None
    ) -> tuple[int, int, int, tuple[str, ...]]:
        """Write what changed in the table; return how many documents were added, updated and
        removed, and notes: what failed when everything was committed.
        """

    def count_waiting(self) -> int | None:
        """Return how many changes of the table wait, ``None`` if not all changes are noted."""


def table_engine(address: str) -> type[TableEngine]:
    """Return the class for an address. Raises :class:`VocabtoolError` if it knows no tables."""
    found: Any = engine_class(address) if ADDRESS.match(address) else None
    if not hasattr(found, "update_table"):
        what = "a table needs an index in its database: postgresql://user@host/database?index=NAME"
        raise VocabtoolError(f"{what}; got {address.partition('://')[0][:50]!r}")
    checked: type[TableEngine] = found
    return checked


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether a text is the address of an engine. A folder of this name wins."""
    return (
        isinstance(path, str) and ADDRESS.match(path) is not None and not os.path.exists(path)  # noqa: PTH110 - accepts any length
    )


def store_index() -> Any:
    """Return the class ``StoreIndex``, which is made of :class:`Index`, by whom this is called."""
    return import_module("vocabtool.index.store_index").StoreIndex


def engine_class(address: str) -> type[Engine]:
    """Return the class for an address. Raises :class:`UnsupportedFormat`."""
    match = ADDRESS.match(address)
    scheme = match[1].lower() if match is not None else ""
    if scheme in OURS:
        module, _, name = OURS[scheme].partition(":")
        ours: type[Engine] = getattr(import_module(module), name)
        return ours
    others = {each.name: each for each in entry_points(group=GROUP)}
    if scheme not in others:
        there = ", ".join(sorted({*OURS, *others}))
        what = f"no engine for the scheme {scheme!r}; there are {there}. Is its package installed?"
        raise UnsupportedFormat(what)
    theirs: Any = others[scheme].load()
    checked: type[Engine] = theirs
    return checked
