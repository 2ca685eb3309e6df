"""The changes of one commit, and the statements that write them in a transaction.

Every transaction locks rows in the same order, so that deadlocks are rare:

1. the documents to delete, sorted by key
2. the new documents, sorted by key
3. the statistics of the writer's own slot
4. answers, shards and loads
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import OnExisting
from vocabtool.documents.batch import Kind
from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.index.database import MAX_ANSWERS
from vocabtool.index.documents import value_of
from vocabtool.index.folder import Load
from vocabtool.keywords.bm25 import Field, stored_length
from vocabtool.keywords.cutter import Terms
from vocabtool.stores.postgres.condition_sql import (
    OWN_COLUMNS,
    columns_of,
    columns_of_text,
    columns_of_value,
)
from vocabtool.stores.postgres.schema import (
    FIELD_CODES,
    LOCK,
    SLOTS,
    Tables,
    lock,
    lock_of,
    stored_term,
    stored_text,
)
from vocabtool.stores.postgres.vectors import as_text

if TYPE_CHECKING:
    from psycopg import Connection

MAX_TERMS_KEPT: Final = 1 << 20
DELETED_ROWS: Final = 1_000  # documents that one statement deletes
BETWEEN: Final = "|"  # in a sequence: no phrase is found across
COPY_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END: Final = b"\xff\xff"
# A row of COPY in binary: the number of columns; for each its length in bytes, and the value.
POSTING: Final = np.dtype(
    [
        *(("columns", ">i2"), ("of_term", ">i4"), ("term", ">i4"), ("of_doc", ">i4")),
        *(("doc", ">i8"), ("of_frequency", ">i4"), ("frequency", ">i4")),
        *(("of_length", ">i4"), ("length", ">i4")),
    ]
)
LENGTHS: Final = {"columns": 4, "of_term": 4, "of_doc": 8, "of_frequency": 4, "of_length": 4}

Ints = NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class NewDocument:
    """A document to add.

    - ``doc``: its number in the tables.
    - ``text``: the text, without U+0000.
    - ``vector``: the vector, or ``None`` if all its numbers are zero.
    - ``values``: the values of the fields, as texts.
    - ``on_existing``: what to do if another writer has added a document with the same id.
    """

    doc: int
    key: UUID
    id: str
    text: str
    source: int
    text_hash: int
    terms: Terms
    vector: NDArray[Any] | None
    values: Mapping[str, str | None]
    on_existing: OnExisting = "update"

    @property
    def size(self) -> int:
        """The approximate number of bytes in memory."""
        texts = 2 * len(self.text) + sum(len(each or "") for each in self.values.values())
        return 1000 + texts + (0 if self.vector is None else self.vector.nbytes)


@dataclass(slots=True)
class Changes:
    """The changes that a transaction will write.

    - ``documents``: new documents by their keys.
    - ``deleted``: the numbers of documents to delete.
    - ``sources``: maps the number of a document to the number of the file that now contains it.
    - ``answers``: a list of (key of a request, hash of the request, answer).
    - ``shards``: a list of (load, shard number, number of documents), one for each loaded shard.
    """

    documents: dict[UUID, NewDocument] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    sources: dict[int, int] = field(default_factory=dict)
    answers: list[tuple[str, bytes, bytes]] = field(default_factory=list)
    shards: list[tuple[str, int, int]] = field(default_factory=list)

    def __bool__(self) -> bool:
        groups = (self.documents, self.deleted, self.sources, self.answers, self.shards)
        return any(groups)


class TermNumbers:
    """A cache of the numbers that identify terms in the tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._kept: dict[Field, dict[str, int]] = {"words": {}, "surfaces": {}}

    def clear(self) -> None:
        """Forget all numbers. After a lost transaction, the server may give them to other terms."""
        for kept in self._kept.values():
            kept.clear()

    def of(self, connection: Connection, name: Field, terms: Iterable[str]) -> dict[str, int]:
        """Add missing terms to the index; return a dictionary from terms to their numbers."""
        kept = self._kept[name]
        wanted = set(terms)
        new = sorted(wanted - kept.keys())
        if new and len(kept) + len(new) > MAX_TERMS_KEPT:
            kept.clear()
            new = sorted(wanted)
        stored = {stored_term(term): term for term in new}
        self._find(connection, name, stored)
        missing = sorted(text for text, term in stored.items() if term not in kept)
        if missing:
            add = (
                "INSERT INTO {terms} (field, text) SELECT %s, t FROM unnest(%s::text[])"
                " WITH ORDINALITY AS given(t, place) ORDER BY place ON CONFLICT DO NOTHING"
            )
            connection.execute(self._tables.sql(add), [FIELD_CODES[name], missing])
            self._find(connection, name, {text: stored[text] for text in missing})
        return kept

    def add(self, connection: Connection, documents: Iterable[NewDocument]) -> None:
        """Add the terms of documents to the index.

        Call this in a separate transaction, so that other writers need not wait.
        """
        words, surfaces = set[str](), set[str]()
        for document in documents:
            for part in (document.terms.words, *document.terms.repeated):
                words.update(part.split())
            surfaces.update(document.terms.surfaces.split())
        self.of(connection, "words", words)
        self.of(connection, "surfaces", surfaces)

    def _find(self, connection: Connection, name: Field, stored: Mapping[str, str]) -> None:
        if stored:
            statement = self._tables.sql(
                "SELECT text, term FROM {terms} WHERE field = %s AND text = ANY(%s)"
            )
            kept = self._kept[name]
            for text, number in connection.execute(statement, [FIELD_CODES[name], [*stored]]):
                kept[stored[text]] = number


@dataclass(frozen=True, slots=True)
class Postings:
    """Postings, sorted by term and document. Each attribute is an int64 array of shape (n,)."""

    term: Ints
    doc: Ints
    frequency: Ints
    length: Ints

    @classmethod
    def of(cls, docs: Sequence[int], lengths: Sequence[int], terms: Sequence[Ints]) -> Postings:
        """Make postings. ``terms``: the term numbers of each document, with repetitions."""
        counts = [len(each) for each in terms]
        places = np.repeat(np.arange(len(docs)), counts)
        flat = np.concatenate([np.zeros(0, np.int64), *terms])
        order = np.lexsort((places, flat))
        flat, places = flat[order], places[order]
        first = np.ones(len(flat), np.bool_)
        first[1:] = (flat[1:] != flat[:-1]) | (places[1:] != places[:-1])
        starts = np.flatnonzero(first)
        frequency = np.diff(np.append(starts, len(flat)))
        at = places[starts]
        return cls(
            flat[starts],
            np.array(docs, np.int64)[at],
            frequency,
            np.array(lengths, np.int64)[at],
        )


def take_slot(connection: Connection, tables: Tables, chosen: int) -> int:
    """Lock a slot of the statistics until the end of the transaction; return its number.

    If no slot is free, this waits for the slot ``chosen``.
    """
    first = lock_of(tables.number, 0)
    found = connection.execute(
        "SELECT slot FROM generate_series(0, %s) AS slot"
        " WHERE pg_try_advisory_xact_lock(%s, %s + slot) LIMIT 1",
        [SLOTS - 1, LOCK, first],
    ).fetchone()
    if found is not None:
        return int(found[0])
    lock(connection, lock_of(tables.number, chosen))
    return chosen


def write_changes(
    connection: Connection,
    tables: Tables,
    changes: Changes,
    numbers: TermNumbers,
    fields: Mapping[str, Kind],
    slot: int,
) -> None:
    """Write changes in the open transaction. ``fields``: the fields, in the order of their columns.

    Raises :class:`VocabtoolError` if a new document has ``on_existing="error"``, and another
    writer has added a document with its id.
    """
    kept = _keep(connection, tables, changes)
    documents = {key: each for key, each in changes.documents.items() if key not in kept}
    new = [documents[key] for key in sorted(documents)]
    # Others are never replaced: if one comes meanwhile, its unique key refuses this transaction.
    replaced = [key for key, each in documents.items() if each.on_existing == "update"]
    gone = _delete(connection, tables, changes.deleted, replaced)
    added = _insert(connection, tables, new, numbers, fields)
    terms = np.concatenate([added.term, *(each.term for each in gone)])
    terms, inverse = np.unique(terms, return_inverse=True)
    change = np.concatenate([np.ones(len(added.term)), *(-each.count for each in gone)])
    change = np.bincount(inverse, change, len(terms)).astype(np.int64)
    changed = change != 0
    connection.execute(
        tables.sql(
            "INSERT INTO {counts} AS held SELECT term, %s, change FROM unnest(%s::int[], %s::int[])"
            " AS given(term, change) ON CONFLICT (term, slot)"
            " DO UPDATE SET documents = held.documents + excluded.documents"
        ),
        [slot, terms[changed].tolist(), change[changed].tolist()],
    )
    totals = (
        len(new) - sum(each.documents for each in gone),
        sum(each.terms.count for each in new) - sum(each.words for each in gone),
        sum(each.terms.surface_count for each in new) - sum(each.surfaces for each in gone),
    )
    connection.execute(
        tables.sql(
            "INSERT INTO {totals} AS held VALUES (%s, %s, %s, %s, 0) ON CONFLICT (slot) DO UPDATE"
            " SET documents = held.documents + excluded.documents,"
            " words = held.words + excluded.words, surfaces = held.surfaces + excluded.surfaces"
        ),
        [slot, *totals],
    )
    if changes.sources:
        connection.execute(
            tables.sql(
                "UPDATE {documents} held SET source = given.source"
                " FROM unnest(%s::bigint[], %s::int[]) AS given(doc, source)"
                " WHERE held.doc = given.doc"
            ),
            [[*changes.sources], [*changes.sources.values()]],
        )
    _record(connection, tables, changes)


def count_commit(connection: Connection, tables: Tables, slot: int) -> None:
    connection.execute(
        tables.sql(
            "INSERT INTO {totals} AS held VALUES (%s, 0, 0, 0, 1) ON CONFLICT (slot)"
            " DO UPDATE SET commits = held.commits + 1"
        ),
        [slot],
    )


@dataclass(frozen=True, slots=True)
class Removal:
    """Statistics of deleted documents. ``count``: how many of them contain each ``term``."""

    term: Ints
    count: Ints
    documents: int
    words: int
    surfaces: int


def _keep(connection: Connection, tables: Tables, changes: Changes) -> set[UUID]:
    """Return the keys of the new documents to leave out: another writer added them already."""
    strict = [key for key, each in changes.documents.items() if each.on_existing != "update"]
    if not strict:
        return set()
    held = connection.execute(
        tables.sql("SELECT key FROM {documents} WHERE key = ANY(%s) AND doc <> ALL(%s::bigint[])"),
        [strict, [*changes.deleted]],
    )
    kept = {key for (key,) in held}
    for document in map(changes.documents.__getitem__, sorted(kept)):
        if document.on_existing == "error":
            raise VocabtoolError(
                f"document {document.id!r} is in the index already: another writer added it "
                "meanwhile. To replace it, use --existing update (in Python on_existing='update'); "
                "to keep it, use 'skip'"
            )
    return kept


def _delete(
    connection: Connection, tables: Tables, deleted: Iterable[int], keys: Iterable[UUID]
) -> list[Removal]:
    """Delete the documents with the numbers ``deleted`` or with one of the ``keys``."""
    found = connection.execute(
        tables.sql(
            "SELECT doc FROM {documents} WHERE doc = ANY(%s::bigint[]) OR key = ANY(%s::uuid[])"
            " ORDER BY key FOR UPDATE"
        ),
        [[*deleted], [*keys]],
    ).fetchall()
    docs = [doc for (doc,) in found]
    return [
        _delete_locked(connection, tables, docs[start : start + DELETED_ROWS])
        for start in range(0, len(docs), DELETED_ROWS)
    ]


def _delete_locked(connection: Connection, tables: Tables, docs: list[int]) -> Removal:
    docs.sort()
    statement = "SELECT words, surfaces, sequence, identifiers FROM {documents} WHERE doc = ANY(%s)"
    found = connection.execute(tables.sql(statement + " ORDER BY doc"), [docs]).fetchall()
    terms = [
        np.array([*(part for part in sequence.split() if part != BETWEEN), *identifiers], np.int64)
        for *_, sequence, identifiers in found
    ]
    held = Postings.of(docs, docs, terms)
    removed = connection.execute(
        tables.sql(
            "DELETE FROM {postings} held USING unnest(%s::int[], %s::bigint[]) AS gone(term, doc)"
            " WHERE held.term = gone.term AND held.doc = gone.doc"
        ),
        [held.term.tolist(), held.doc.tolist()],
    ).rowcount
    if removed != len(held.term):
        what = f"{len(docs):,} documents should have {len(held.term):,} postings, got {removed:,}"
        raise InvalidFile(f"damaged: {what}; run `vocabtool verify`")
    connection.execute(tables.sql("DELETE FROM {documents} WHERE doc = ANY(%s)"), [docs])
    words, surfaces = (sum(each[at] for each in found) for at in (0, 1))
    return Removal(*np.unique(held.term, return_counts=True), len(docs), words, surfaces)


def _insert(
    connection: Connection,
    tables: Tables,
    new: Sequence[NewDocument],
    numbers: TermNumbers,
    fields: Mapping[str, Kind],
) -> Postings:
    from psycopg.sql import SQL

    if not new:
        return Postings.of([], [], [])
    parts = [[each.terms.words, *each.terms.repeated] for each in new]
    cut = [[part.split() for part in each if part] for each in parts]
    identifiers = [each.terms.surfaces.split() for each in new]
    word = numbers.of(connection, "words", chain.from_iterable(chain.from_iterable(cut)))
    surface = numbers.of(connection, "surfaces", chain.from_iterable(identifiers))
    columns = {name: columns_of(f"field_{at}", fields[name]) for at, name in enumerate(fields)}
    names = "".join(f", {own}" for own, _ in chain(OWN_COLUMNS, *columns.values()))
    own_id = ", own_id" if tables.of_user else ""  # of the type that the user's table has
    statement = tables.sql(
        "COPY {documents} (doc, key, id, text, source, text_hash, words, surfaces, sequence,"
        " identifiers, vector"
    ) + SQL(names + own_id + ") FROM STDIN")
    terms = []
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for document, words, own in zip(new, cut, identifiers, strict=True):
            told = [[word[term] for term in part] for part in words]
            others = [surface[term] for term in own]
            terms.append(np.array([*chain.from_iterable(told), *others], np.int64))
            between = f" {BETWEEN} "
            sequence = between.join(" ".join(map(str, part)) for part in told)
            vector = document.vector
            copy.write_row(
                (
                    document.doc,
                    document.key,
                    stored_text(document.id),
                    document.text,
                    document.source,
                    document.text_hash,
                    document.terms.count,
                    document.terms.surface_count,
                    f" {sequence} ",
                    sorted(set(others)),
                    None if vector is None else as_text(vector),
                    *columns_of_text(stored_text(document.id)),
                    *columns_of_text(document.text),
                    *chain.from_iterable(
                        _column_value(document.values.get(name), fields[name]) for name in columns
                    ),
                    *([document.id] if tables.of_user else ()),
                )
            )
    docs = [each.doc for each in new]
    lengths = [stored_length(each.terms.count) for each in new]
    postings = Postings.of(docs, lengths, terms)
    rows = np.zeros(len(postings.term), POSTING)
    for name, length in LENGTHS.items():
        rows[name] = length
    for name in ("term", "doc", "frequency", "length"):
        rows[name] = getattr(postings, name)
    into = "COPY {postings} (term, doc, frequency, length) FROM STDIN (FORMAT binary)"
    with connection.cursor() as cursor, cursor.copy(tables.sql(into)) as copy:
        copy.write(COPY_HEAD + rows.tobytes() + COPY_END)
    return postings


def _record(connection: Connection, tables: Tables, changes: Changes) -> None:
    for key, digest, answer in changes.answers:
        made = connection.execute(
            tables.sql(
                "INSERT INTO {answers} (key, digest, answer) VALUES (%s, %s, %s)"
                " ON CONFLICT (key) DO NOTHING"
            ),
            [key, digest, answer],
        )
        if not made.rowcount:
            raise VocabtoolError(
                f"the key {key!r} was used meanwhile: send the request again to get the answer"
            )
    if changes.answers:
        connection.execute(
            tables.sql(
                "DELETE FROM {answers} WHERE number <= (SELECT max(number) FROM {answers}) - %s"
            ),
            [MAX_ANSWERS],
        )
    for plan, number, documents in changes.shards:
        made = connection.execute(
            tables.sql("INSERT INTO {shards} VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"),
            [plan, number, documents],
        )
        if not made.rowcount:
            raise VocabtoolError(f"another process loaded shard {number:,} meanwhile")


def write_load(
    connection: Connection, tables: Tables, before: Load | None, load: Load, opened: datetime
) -> None:
    """Record the state of a load. ``opened``: when the writer of this load was opened.

    Other loads that were finished before ``opened`` are removed.

    If the only change since ``before`` is that :attr:`Load.synced` became false, this sets
    ``synced`` to false for all loads of the index, and removes no load.
    """
    if before is not None and before.synced and load == replace(before, synced=False):
        connection.execute(tables.sql("UPDATE {loads} SET synced = false WHERE synced"))
        return
    connection.execute(
        tables.sql("DELETE FROM {loads} WHERE plan <> %s AND finished AND time < %s"),
        [load.plan, opened],
    )
    connection.execute(
        tables.sql(
            "INSERT INTO {loads} VALUES (%s, %s, %s, %s) ON CONFLICT (plan) DO UPDATE SET"
            " documents = excluded.documents, finished = excluded.finished,"
            " synced = excluded.synced, time = clock_timestamp()"
        ),
        [load.plan, load.documents, load.finished, load.synced],
    )


def _column_value(text: str | None, kind: Kind) -> tuple[object, ...]:
    """Convert the text of a field's value to values for COPY, one for each column of the field."""
    if text is None or kind in ("string", "null"):
        return columns_of_value(None if text is None else text.encode(), kind)
    return columns_of_value(value_of(text, kind), kind)
