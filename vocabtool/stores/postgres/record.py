"""Change the record of an index, such as its fields, while there are several writers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from vocabtool.index.folder import Manifest
from vocabtool.stores.postgres.schema import (
    Tables,
    add_fields,
    limit_waits,
    lock,
    lock_of,
    read_manifest,
    record_of,
)

if TYPE_CHECKING:
    from psycopg import Connection

MERGED: Final = (
    "configuration",
    "codes",
    "model_files",
    "calibration",
    "chance",
)


def change_record(
    connection: Connection, tables: Tables, where: str, change: Callable[[Manifest], Manifest]
) -> Manifest:
    """Change the record of an index in one transaction, and return the changed record.

    New fields get columns. ``change``: a function that takes the newest record and returns the
    changed record.
    """
    with connection.transaction():
        lock(connection, lock_of(tables.number))
        held = read_manifest(connection, tables, where)
        made = change(held)
        if made != held:
            limit_waits(connection)
            add_fields(connection, tables, made.fields, held.fields)
            statement = tables.sql("UPDATE {indexes} SET record = %s WHERE number = %s")
            connection.execute(statement, [record_of(made), tables.number])
    return made


def merge(held: Manifest, before: Manifest, given: Manifest) -> Manifest:
    """Apply the differences between ``before`` and ``given`` to ``held``; return the result.

    Differences of fields, files and searched fields are ignored.
    """
    changed = {
        name: getattr(given, name)
        for name in MERGED
        if getattr(given, name) != getattr(before, name)
    }
    return replace(held, **changed) if changed else held
