"""Index a table of the user: texts and vectors stay in it, and the terms are in other tables.

    rows_N       like documents_N in schema.py, but without text and vector. The column own_id is
                 added. It contains the id, in the same type as in the user's table
    changes_N    number, own_id      rows that changed since their terms were written. If own_id is
                                     null, all rows may have changed
    source_N     a view of the user's table: own_id, id, text, vector, fields (a JSON array)
    documents_N  a view for searches: rows_N and source_N, without deleted rows

Three triggers on the user's table insert the ids of changed rows into ``changes_N``, in the user's
own transaction and with the rights of the role that created the index. Because triggers only insert
rows, transactions of the user wait neither for each other nor for vocabtool.

An update first reads numbers from ``changes_N``, then the changed rows. The transaction that writes
the terms also deletes these numbers. Later changes have new numbers, so none is missed. Only one
update of an index runs at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from random import randrange
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple

import orjson

from vocabtool.choices import Metric, StoredType
from vocabtool.documents.batch import Kind
from vocabtool.documents.objects import as_string
from vocabtool.errors import NotFound, VocabtoolError
from vocabtool.index.database import ENCODED, text_hash
from vocabtool.index.documents import (
    MAX_FIELDS,
    MAX_ID_BYTES,
    MAX_TEXT_BYTES,
    check_column_name,
)
from vocabtool.index.engines import UserTable
from vocabtool.index.model import Canaries
from vocabtool.index.raw_vectors import prepare
from vocabtool.keywords.cutter import Cutter
from vocabtool.stores.postgres.changes import (
    Changes,
    NewDocument,
    TermNumbers,
    count_commit,
    take_slot,
    write_changes,
)
from vocabtool.stores.postgres.condition_sql import storable
from vocabtool.stores.postgres.schema import (
    SLOTS,
    Tables,
    key_of,
    limit_waits,
    lock,
    lock_of,
)
from vocabtool.stores.postgres.vectors import from_bytes

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composable, Composed

TABLE: Final = "table"  # its name in the table of facts
NOTING: Final = ("rows", "updates", "truncate")  # our triggers
NOTED_BYTES: Final = 64 << 20  # of the rows that one transaction reads
SAMPLE: Final = 64  # rows that are compared with a model
INTEGERS: Final = ("int2", "int4", "int8")
NUMBERS: Final = ("numeric", "float4", "float8")
VECTORS: Final = ("vector", "halfvec")
STORED: Final[Mapping[str, StoredType]] = {"vector": "float32", "halfvec": "float16"}

COLUMNS: Final = """
SELECT a.attname::text, t.typname::text, t.typcategory::text, a.atttypmod, a.attnotnull,
    EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid
        AND i.indimmediate AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
CREATE_SOURCE: Final = """
CREATE VIEW {source} AS SELECT u.{id} AS own_id, u.{id}::text AS id,
    coalesce(u.{text}::text, '') AS text, u.{vector} AS vector,
    jsonb_build_array({kept}) AS fields FROM ONLY {table} u;
CREATE VIEW {searched} AS SELECT r.doc, r.key, r.id, s.text::text COLLATE "C" AS text, r.source,
    r.text_hash, r.words, r.surfaces, r.sequence, r.identifiers, s.vector {columns}
    FROM {documents} r JOIN {source} s ON s.own_id = r.own_id;
"""
NOTE: Final = """
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        INSERT INTO {changes} (own_id) VALUES (NULL);
    ELSE
        IF TG_OP = 'DELETE' OR TG_OP = 'UPDATE' AND OLD.{id}::text <> NEW.{id}::text THEN
            INSERT INTO {changes} (own_id) VALUES (OLD.{id});
        END IF;
        IF TG_OP <> 'DELETE' THEN
            INSERT INTO {changes} (own_id) VALUES (NEW.{id});
        END IF;
    END IF;
    RETURN NULL;
END
"""
# The lock on the user's table comes before the list of its rows, so no change is between both.
CREATE_TRIGGERS: Final = """
CREATE FUNCTION {note}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS {body};
REVOKE ALL ON FUNCTION {note}() FROM PUBLIC;
CREATE TRIGGER {rows} AFTER INSERT OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {note}();
CREATE TRIGGER {updates} AFTER UPDATE ON {table} FOR EACH ROW WHEN ({differs})
    EXECUTE FUNCTION {note}();
CREATE TRIGGER {truncate} AFTER TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {note}();
CREATE TABLE {changes} AS SELECT u.{id} AS own_id FROM ONLY {table} u;
ALTER TABLE {changes} ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY;
"""
TYPE_OF_ID: Final = """
SELECT format_type(a.atttypid, a.atttypmod), n.nspname::text, c.collname::text
FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = a.attcollation
LEFT JOIN pg_namespace n ON n.oid = c.collnamespace WHERE a.attrelid = %s::regclass
AND a.attname = 'own_id'
"""
# The first changes; not more texts and values than these bytes, but at least one change.
NOTED: Final = """
SELECT number, own_id IS NULL FROM (SELECT c.*, row_number() OVER earlier AS place,
        sum(octet_length(s.text) + octet_length(s.fields::text)) OVER earlier AS size
    FROM (SELECT * FROM {changes} ORDER BY number LIMIT %s) c LEFT JOIN {source} s USING (own_id)
    WINDOW earlier AS (ORDER BY c.number)) n
WHERE place = 1 OR coalesce(size, 0) <= %s ORDER BY number
"""
TRIGGERS: Final = """
SELECT count(*) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = %s AND p.proname = %s AND t.tgenabled <> 'D'
"""


class UpdateCounts(NamedTuple):
    """Counts of the documents that were changed. ``noted``: number of changes that were read."""

    noted: int
    added: int
    updated: int
    removed: int


class FoundTable(NamedTuple):
    """A description of the user's table, read from the database."""

    oid: int
    name: Composed
    dim: int
    dtype: StoredType
    fields: dict[str, Kind]


def find_table(connection: Connection, table: UserTable, where: str) -> FoundTable:
    """Find a table. Raises :class:`VocabtoolError` if an index cannot be made from it."""
    from psycopg.sql import SQL, Identifier

    name = f"{where}: table {table.name}"
    with connection.transaction(force_rollback=True):  # names are found as the user finds them
        connection.execute("SET LOCAL search_path TO DEFAULT")
        found = connection.execute(
            "SELECT c.oid, n.nspname::text, c.relname::text,"
            " c.relkind = 'r' AND c.relpersistence = 'p', current_user::text,"
            " has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')"
            " AND has_table_privilege(c.oid, 'TRIGGER')"
            " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.oid = to_regclass(%s)",
            [table.name],
        ).fetchone()
    if found is None:
        raise NotFound(f'{name}: not found; write the name as in SQL: docs, sales.docs, "My Docs"')
    oid, *parts, is_table, role, may = found
    if not is_table:
        what = "wanted an ordinary table, not a view or a partitioned, temporary or unlogged table"
        raise VocabtoolError(f"{name}: {what}")
    sql = Identifier(*parts)
    if not may:
        told = sql.as_string(connection)
        raise VocabtoolError(
            f"{name}: the role {role} may not read it or create triggers on it: run GRANT SELECT, "
            f'TRIGGER ON {told} TO "{role}"'
        )
    columns = {each[0]: each[1:] for each in connection.execute(COLUMNS, [oid]).fetchall()}
    named = {"id": table.id, "text": table.text, "vector": table.vector}
    for purpose, column in (*named.items(), *(("kept", each) for each in table.keep)):
        if column not in columns:
            there = ", ".join(columns)
            raise NotFound(f"{name}: no column {column!r} ({purpose}); the columns are {there}")
    *_, is_never_null, is_unique = columns[table.id]
    if not (is_unique and is_never_null):
        raise VocabtoolError(
            f"{name}: the ids in the column {table.id!r} must be unique and never null: make it "
            "the primary key, or add NOT NULL and a UNIQUE constraint of this column alone"
        )
    type_, _, dim, *_ = columns[table.vector]
    if type_ not in VECTORS or dim < 1:
        raise VocabtoolError(
            f"{name}: the column {table.vector!r} must have the type vector(N) or halfvec(N) with "
            f"the number of dimensions, got {type_}"
        )
    fields: dict[str, Kind] = {}
    for column in table.keep:
        check_column_name(column, name)
        if columns[column][0] in VECTORS:
            raise VocabtoolError(f"{name}: the column {column!r} has vectors, so it cannot be kept")
        fields[column] = kind_of(*columns[column][:2])
    if len(fields) > MAX_FIELDS:
        kept = f"{len(fields):,}"
        raise VocabtoolError(f"{name}: you keep {kept} columns, but the limit is {MAX_FIELDS}")
    return FoundTable(oid, SQL("{}").format(sql), dim, STORED[type_], fields)


def kind_of(type_: str, category: str) -> Kind:
    """Return the kind of a field. ``type_``, ``category``: the column's type, from ``pg_type``."""
    if type_ in INTEGERS:
        return "integer"
    if type_ in NUMBERS:
        return "number"
    return "boolean" if category == "B" else "string"


def sample_of(
    connection: Connection, table: UserTable, found: FoundTable, metric: Metric
) -> Canaries:
    """Return some rows with their vectors, for a comparison with the vectors of a model."""
    from psycopg.sql import SQL, Identifier

    names = {each: Identifier(getattr(table, each)) for each in ("id", "text", "vector")}
    statement = SQL(
        "SELECT {id}::text, coalesce({text}::text, ''), vector_send({vector}::vector)"
        " FROM ONLY {table} WHERE {vector} IS NOT NULL LIMIT {limit}"
    ).format(**names, table=found.name, limit=SAMPLE)
    rows = connection.execute(statement, binary=True).fetchall()
    ids, texts, sent = ([*column] for column in zip(*rows, strict=True)) if rows else ([], [], [])
    vectors = prepare(from_bytes(sent, found.dim), metric)
    return Canaries(ids, texts, vectors)


def attach(connection: Connection, tables: Tables, table: UserTable, found: FoundTable) -> None:
    """Create the triggers, the views and the table of changes. All rows count as changed."""
    from psycopg.sql import SQL, Identifier, Literal

    n, own = tables.number, Identifier(table.id)
    watched = dict.fromkeys([table.id, table.text, *table.keep])
    same = SQL('(OLD.{0}::text COLLATE "C") IS DISTINCT FROM (NEW.{0}::text COLLATE "C")')
    names: dict[str, Composable] = {
        "table": found.name,
        "id": own,
        "text": Identifier(table.text),
        "vector": Identifier(table.vector),
        "kept": SQL(", ").join(SQL("to_jsonb(u.{})").format(Identifier(e)) for e in table.keep),
        "differs": SQL(" OR ").join(same.format(Identifier(each)) for each in watched),
        "body": Literal(tables.sql(NOTE, id=own).as_string(connection)),
    }
    ours = blake2b(tables.schema.encode(), digest_size=4).hexdigest()
    names |= {each: Identifier(f"vocabtool_{ours}_{n}_{each}") for each in NOTING}
    limit_waits(connection)
    connection.execute(tables.sql(CREATE_TRIGGERS, **names))
    name = tables.sql("{changes}").as_string(connection)
    type_, *collation = connection.execute(TYPE_OF_ID, [name]).fetchone() or ("", None, None)
    collated = SQL(" COLLATE {}").format(Identifier(*collation)) if collation[0] else SQL("")
    of_id = SQL(type_) + collated
    connection.execute(tables.sql("ALTER TABLE {documents} ADD COLUMN own_id {type}", type=of_id))
    connection.execute(tables.sql("CREATE UNIQUE INDEX ON {documents} (own_id)"))
    held = connection.execute(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
        " AND (attname ~ '^field_' OR attname ~ '_(folded|words|instant)$') ORDER BY attnum",
        [tables.sql("{documents}").as_string(connection)],
    )
    columns = SQL("").join(SQL(", r.{}").format(Identifier(each)) for (each,) in held)
    connection.execute(tables.sql(CREATE_SOURCE, columns=columns, **names))
    facts = tables.sql("INSERT INTO {facts} VALUES (%s, %s)")
    connection.execute(facts, [TABLE, orjson.dumps(asdict(table))])


def check_triggers(connection: Connection, tables: Tables, where: str) -> None:
    """Raise :class:`VocabtoolError` if a trigger on the user's table is missing or disabled."""
    asked = [tables.schema, f"note_{tables.number}"]
    (found,) = connection.execute(TRIGGERS, asked).fetchone() or (0,)
    if found != len(NOTING):
        raise VocabtoolError(
            f"{where}: only {found} of the {len(NOTING)} triggers on the table are enabled, so "
            "changes may be missing: build the index again with --force"
        )


def write_noted(
    connection: Connection,
    tables: Tables,
    cutter: Cutter,
    numbers: TermNumbers,
    fields: Mapping[str, Kind],
    limit: int,
    where: str,
) -> UpdateCounts | None:
    """Index up to ``limit`` changes in one transaction. Return ``None`` if no change is left."""
    from psycopg import IsolationLevel

    def ask(statement: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        return connection.execute(tables.sql(statement), values).fetchall()

    check_triggers(connection, tables, where)
    connection.isolation_level = IsolationLevel.READ_COMMITTED
    with connection.transaction():
        connection.execute(  # the texts of times are the same in every session
            "SELECT set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO, YMD', true)"
        )
        lock(connection, lock_of(tables.number))
        if not ask("SELECT 1 FROM {indexes} WHERE number = %s", tables.number):
            raise NotFound(f"{where}: the index was removed")
        slot = take_slot(connection, tables, randrange(SLOTS))  # noqa: S311
        noted = ask(NOTED, limit, NOTED_BYTES)
        if not noted:
            return None
        told = [number for number, _ in noted]
        if any(is_all for _, is_all in noted):
            connection.execute(
                tables.sql(
                    "INSERT INTO {changes} (own_id) SELECT own_id FROM {documents} r WHERE NOT"
                    " EXISTS (SELECT FROM {source} s WHERE s.own_id = r.own_id)"
                )
            )
        asked = "IN (SELECT own_id FROM {changes} WHERE number = ANY(%s))"
        rows = ask("SELECT id, text, fields FROM {source} WHERE own_id " + asked, told)
        before = dict(ask("SELECT id, doc FROM {documents} WHERE own_id " + asked, told))
        connection.execute(tables.sql("DELETE FROM {changes} WHERE number = ANY(%s)"), [told])
        docs = ask(
            "SELECT nextval(pg_get_serial_sequence(%s, 'doc')) FROM generate_series(1, %s)",
            *(tables.sql("{documents}").as_string(connection), len(rows)),
        )
        changes = Changes(deleted={*before.values()})
        new = _new_documents(cutter, [doc for (doc,) in docs], rows, fields, where)
        changes.documents = {each.key: each for each in new}
        write_changes(connection, tables, changes, numbers, fields, slot)
        count_commit(connection, tables, slot)
    updated = sum(each.id in before for each in new)
    return UpdateCounts(len(told), len(new) - updated, updated, len(before) - updated)


def _new_documents(
    cutter: Cutter,
    docs: Sequence[int],
    rows: Sequence[tuple[str, str, list[object]]],
    fields: Mapping[str, Kind],
    where: str,
) -> list[NewDocument]:
    for id_, text, _ in rows:
        for what, size, most in (
            ("the id", len(id_.encode()), MAX_ID_BYTES),
            ("the text", len(text.encode()), MAX_TEXT_BYTES),
        ):
            if size > most:
                told = f"{where}: row {id_[:50]!r}: {what} has {size:,} bytes, but the limit is"
                raise VocabtoolError(
                    f"{told} {most:,}: shorten it, then run `vocabtool update` again"
                )
    terms = cutter.terms([text for _, text, _ in rows])
    return [
        NewDocument(
            doc=doc,
            key=key_of(id_),
            id=id_,
            text="",  # it stays in the user's table
            source=ENCODED,
            text_hash=text_hash(text.encode()),
            terms=cut,
            vector=None,
            values={
                name: _text_of(value, name, kind)
                for (name, kind), value in zip(fields.items(), values, strict=True)
            },
        )
        for doc, (id_, text, values), cut in zip(docs, rows, terms, strict=True)
    ]


def _text_of(value: object, name: str, kind: Kind) -> str | None:
    """Return a JSON value as text for a field, or ``None`` for null, NaN and infinity."""
    if kind != "string" and isinstance(value, str):
        return None
    found = as_string(value, name)
    return None if found is None else storable(found)
