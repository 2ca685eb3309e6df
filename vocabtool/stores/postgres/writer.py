"""The writer of an index in PostgreSQL: it keeps changes in memory and writes one transaction.

After a conflict or a lost connection, the transaction is written again. It is not committed twice,
because every try inserts the same token. If the answer to COMMIT was lost, the next try's insertion
waits until the earlier transaction ends. If that transaction was committed, the insertion fails.

Several writers may change an index. If two writers add documents with the same id, the document of
the later commit remains. The columns and the record of the index are changed in short transactions
of their own, one at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from random import randrange
from typing import TYPE_CHECKING, Any, Final, LiteralString, TypeVar
from uuid import UUID, uuid4

import numpy as np
import pyarrow as pa

from vocabtool.choices import OnExisting
from vocabtool.documents.batch import Batch, Kind
from vocabtool.documents.options import PATH_FIRST, weights_of
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.index.database import text_hash
from vocabtool.index.documents import MAX_FIELDS, PLAIN, union
from vocabtool.index.folder import Load, Manifest
from vocabtool.index.generation import Progress
from vocabtool.index.model import CANDIDATES, Canaries, spread
from vocabtool.index.raw_vectors import as_stored, prepare
from vocabtool.index.sources import Source
from vocabtool.keywords.cutter import Cutter, weighted_terms
from vocabtool.stores.postgres.changes import (
    Changes,
    NewDocument,
    TermNumbers,
    count_commit,
    take_slot,
    write_changes,
    write_load,
)
from vocabtool.stores.postgres.connection import (
    WAIT_SECONDS,
    Connections,
    is_conflict,
    is_lost,
)
from vocabtool.stores.postgres.record import MERGED, change_record, merge
from vocabtool.stores.postgres.schema import (
    SLOTS,
    TABLE_TRIES,
    Tables,
    key_of,
    lock,
    lock_of,
    pauses,
    read_manifest,
    stored_text,
    vacuum,
)
from vocabtool.stores.postgres.user_table import UpdateCounts, write_noted
from vocabtool.stores.postgres.vectors import from_bytes
from vocabtool.system.ranking import Rows

if TYPE_CHECKING:
    import psycopg
    from psycopg import Connection

BUFFER_BYTES: Final = 256 << 20
MAX_TRIES: Final = 20  # of a transaction that others are in the way of
SHARED_TRIES: Final = 2  # then this writer writes alone
LOCKED: Final = "55P03"  # a lock was not to be had in time
TOKEN_WAIT: Final = 60_000  # milliseconds for a transaction whose connection was lost
KEPT_TOKENS: Final = "1 day"
VACUUM_SHARE: Final = 0.05  # of the documents changed: then vacuum at the end of a load
VACUUM_ROWS: Final = 1000
NOTHING: Final = (
    "Nothing of this commit was written ({0}); earlier commits are complete. Run it again"
)
UNKNOWN: Final = (
    "Whether the last commit was written ({0}) is unknown, because its answer was lost; earlier "
    "commits are complete. Look whether its documents are there before you run it again"
)
HALF_DONE: Final = "What was written before is complete, and the other changes wait: run it again"

Result = TypeVar("Result")


class PostgresWriter:
    """Collects changes of an index, and commits them. Only one thread at a time may use a writer.

    - ``manifest``: the manifest of the newest commit that this writer knows.
    - ``rows``: the number of documents when the writer was opened, plus all appended documents.
    - ``searched_fields``: the fields that are searched; may be set while there are no rows.
    - ``is_shared``: whether several writers may change an index at the same time.

    Methods raise :class:`VocabtoolError`. After an error of :meth:`commit_changes` or
    :meth:`flush`, close the writer; the message says which changes were written.
    """

    is_shared = True

    def __init__(
        self,
        connections: Connections,
        tables: Tables,
        cutter: Cutter,
        *,
        buffer_bytes: int = BUFFER_BYTES,
        index_vectors: Callable[[Progress | None], None] | None = None,
    ) -> None:
        """``index_vectors``: a function that is called at the end of each load."""
        self._connections = connections
        self._tables = tables
        self._cutter = cutter
        self._limit, self._index_vectors = buffer_bytes, index_vectors
        self._numbers = TermNumbers(tables)
        self._changes = Changes()
        self._size = 0  # bytes of the new documents in the buffer
        self._flushed = 0  # documents in the open transaction, which cannot be written again
        self._slot: int | None = None  # of the open transaction
        self._token = uuid4()
        self._taken: dict[tuple[str, int], int] = {}  # shards that this writer reserved: locks
        self._connection = connections.connect(WAIT_SECONDS)
        try:
            self._open()
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> None:
        self.manifest = self._newest()
        self.rows = self.manifest.rows
        self.searched_fields = self.manifest.searched_fields
        self._kinds: dict[str, Kind] = dict(self.manifest.fields)
        ((self._last, self._opened),) = self._ask(
            "SELECT coalesce(max(doc), 0), clock_timestamp() FROM {documents}"
        )
        self._changed = 0  # documents since the last VACUUM
        self._ask(
            "DELETE FROM {commits} WHERE token IN (SELECT token FROM {commits}"
            " WHERE time < now() - %s::interval FOR UPDATE SKIP LOCKED) RETURNING 1",
            KEPT_TOKENS,
        )

    def find_existing(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the row of each id. Unknown ids are left out.

        Uncommitted changes are included.
        """
        keys = {id_: key_of(id_) for id_ in ids}
        found: dict[UUID, int] = {}
        asked = [*{key for key in keys.values() if key not in self._changes.documents}]
        if asked:
            held = self._ask("SELECT key, doc FROM {documents} WHERE key = ANY(%s)", asked)
            found = {key: doc for key, doc in held if doc not in self._changes.deleted}
        new = self._changes.documents
        found |= {key: new[key].doc for key in keys.values() if key in new}
        return {id_: found[key] for id_, key in keys.items() if key in found}

    def append(
        self,
        batch: Batch,
        vectors: Vectors,
        sources: Sequence[int],
        on_existing: OnExisting = "update",
    ) -> None:
        """Add documents with their vectors. ``sources``: the number of each document's file."""
        for name in batch.columns:
            self._kinds[name] = union(self._kinds.get(name, "null"), batch.kinds[name])
        if len(self._kinds) > MAX_FIELDS:
            found = f"{len(self._kinds):,}"
            raise VocabtoolError(
                f"the index would have {found} fields, but the limit is {MAX_FIELDS}"
            )
        columns = {name: _texts(values) for name, values in batch.columns.items()}
        values = [
            dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)
        ] or [{}] * len(batch)
        texts: list[str] = [*map(stored_text, batch.texts.to_pylist())]
        names = weights_of(self.searched_fields)
        searched = ({name: each[name] for name in names if name in each} for each in values)
        terms = weighted_terms(self._cutter, texts, searched, self.searched_fields)
        held = as_stored(vectors, self.manifest.configuration.dtype)
        has_vector = np.asarray(vectors.any(axis=1))
        numbers = self._take_numbers(len(batch))
        for at, id_ in enumerate(batch.id_array().to_pylist()):
            document = NewDocument(
                doc=numbers[at],
                key=key_of(id_),
                id=id_,
                text=texts[at],
                source=sources[at],
                text_hash=text_hash(texts[at].encode()),
                terms=terms[at],
                vector=held[at] if has_vector[at] else None,
                values=values[at],
                on_existing=on_existing,
            )
            before = self._changes.documents.get(document.key)
            self._size += document.size - (before.size if before else 0)
            self._changes.documents[document.key] = document
        self.rows += len(batch)
        if self._size > self._limit:
            self.flush()

    def delete(self, rows: Rows) -> None:
        """Delete documents. Documents that another writer deleted meanwhile are ignored."""
        gone = set(rows.tolist())
        new = self._changes.documents
        for key in [key for key, each in new.items() if each.doc in gone] if new else ():
            each = new.pop(key)
            self._size -= each.size
            gone.remove(each.doc)
        self._changes.deleted |= gone

    def update_part(self, limit: int) -> UpdateCounts | None:
        """Index and commit up to ``limit`` changes of the user's table.

        Returns ``None`` if there are no changes.
        """
        held = (self._tables, self._cutter, self._numbers, self.manifest.fields)
        more = limit, self._connections.where
        found = self._repeat(lambda connection: write_noted(connection, *held, *more), HALF_DONE)
        self._changed += found.noted if found is not None else 0
        return found

    def set_source(self, rows: Rows, source: int) -> bool:
        """Record the file number ``source`` for rows. Returns whether any row changed."""
        others = self._ask(
            "SELECT doc FROM {documents} WHERE doc = ANY(%s) AND source <> %s",
            rows.tolist(),
            source,
        )
        self._changes.sources |= dict.fromkeys([doc for (doc,) in others], source)
        return bool(others)

    def rows_of_sources(self, numbers: Sequence[int]) -> Rows:
        """Return the sorted rows of these files; ignore rows added since the writer was opened."""
        held = self._ask(
            "SELECT doc, source FROM {documents} WHERE doc <= %s AND"
            " (source = ANY(%s) OR doc = ANY(%s::bigint[])) ORDER BY doc",
            self._last,
            [*numbers],
            [*self._changes.sources],
        )
        sources = self._changes.sources
        found = [doc for doc, source in held if sources.get(doc, source) in numbers]
        return np.array(found, np.int64)

    def remember(self, key: str, digest: bytes, answer: bytes) -> None:
        self._changes.answers.append((key, digest, answer))

    def answer_for(self, key: str) -> tuple[bytes, bytes] | None:
        held = self._ask("SELECT digest, answer FROM {answers} WHERE key = %s", key)
        found = [(bytes(digest), bytes(answer)) for digest, answer in held]
        found += [(digest, told) for name, digest, told in self._changes.answers if name == key]
        return found[0] if found else None

    def load_of(self, plan: str | None) -> Load | None:
        """Return the state of a load, or ``None`` if there is no such load."""
        asked: LiteralString = (
            "SELECT greatest(documents, (SELECT coalesce(sum(documents), 0)::bigint FROM {shards} s"
            " WHERE s.plan = l.plan)), finished, synced FROM {loads} l WHERE plan = %s"
        )
        for documents, finished, synced in self._ask(asked, plan):
            return Load(
                plan=str(plan), documents=documents, finished=finished, alone=False, synced=synced
            )
        return None

    def canaries(self) -> Canaries:
        return self._repeat(lambda connection: canaries_of(connection, self._tables, self.manifest))

    def take_shard(self, plan: str, count: int) -> int | None:
        """Reserve a shard that is not loaded, and that no other process is loading.

        Returns the number of the shard, 0 to ``count`` - 1, or ``None`` when all shards are loaded.
        The shard is reserved until this writer is closed or its process dies. While other processes
        load the last shards, this method waits. If one of these processes dies, its shard becomes
        free.
        """
        asked: LiteralString = "SELECT shard FROM {shards} WHERE plan = %s"
        for pause in pauses():
            done = {shard for (shard,) in self._ask(asked, plan)}
            done |= {shard for name, shard, _ in self._changes.shards if name == plan}
            for shard in range(count):
                if shard in done or (plan, shard) in self._taken:
                    continue
                told = f"{self._tables.schema}\0{self._tables.number}\0{plan}\0{shard}"
                digest = blake2b(told.encode(), digest_size=8).digest()
                key = int.from_bytes(digest, "little", signed=True)
                if self._ask("SELECT 1 WHERE pg_try_advisory_lock(%s)", key):
                    self._taken[plan, shard] = key
                    # Another process may have loaded it since the first question.
                    if not self._ask(f"{asked} AND shard = %s", plan, shard):
                        return shard
            if len(done) >= count:
                return None
            time.sleep(pause)
        raise AssertionError  # the pauses never end

    def add_shard(self, plan: str, shard: int, documents: int) -> None:
        """Record, in the next commit, that a shard is loaded."""
        self._changes.shards.append((plan, shard, documents))

    def register_sources(
        self, known: Sequence[Source], sources: Sequence[Source]
    ) -> tuple[Source, ...]:
        """Record ``sources`` as the files of the index; return the files that are recorded now.

        ``known``: the files that were recorded before. If another writer has changed them
        meanwhile, nothing is recorded.
        """

        def change(held: Manifest) -> Manifest:
            return replace(held, sources=(*sources,)) if held.sources == (*known,) else held

        self._change_record(change)
        held: tuple[Source, ...] = self.manifest.sources
        return held

    def flush(self) -> None:
        """Write the changes so far without a commit.

        After a conflict or a lost connection, these changes cannot be written again, and the commit
        fails.
        """
        count = len(self._changes.documents)
        try:
            self._check_fields()
            with self._connections.translate_errors():
                if self._slot is None:  # else the record would be locked until the commit
                    self._change_record(self._with_fields)
                    self._numbers.add(self._connection, self._changes.documents.values())
                    self._begin(alone=False)
                self._write()
        except VocabtoolError as error:
            self._roll_back()
            raise VocabtoolError(f"{error}. {self._tell(NOTHING, count)}") from error
        self._flushed += count
        self._changes, self._size = Changes(), 0

    def commit_changes(
        self, manifest: Manifest, *, codes: bool, progress: Progress | None = None
    ) -> None:
        """Commit all changes so far, and a changed manifest.

        - ``manifest``: :attr:`PostgresWriter.manifest` with the changes to commit.
        - ``codes``: whether to call :meth:`tidy` at the end, which takes time.
        """
        before = self.manifest
        try:
            self._check_fields()
            self._change_record(lambda held: self._with_fields(merge(held, before, manifest)))
        except VocabtoolError as error:
            told = self._tell(NOTHING, len(self._changes.documents))
            raise VocabtoolError(f"{error}. {told}") from error
        load = manifest.load if manifest.load != before.load else None
        if self._changes or self._flushed or load is not None:
            self._changed += len(self._changes.documents) + len(self._changes.deleted)
            self._changed += self._flushed
            self._commit_changes(before.load, load)
            self._changes, self._size, self._flushed = Changes(), 0, 0
            self._token = uuid4()
        self.manifest = self._newest()
        self._kinds = dict(self.manifest.fields)
        if codes:
            self.tidy(progress)

    def tidy(self, progress: Progress | None) -> None:
        """Vacuum the tables and index the vectors. If this fails, all documents stay committed."""
        import psycopg

        if self._changed > max(VACUUM_ROWS, VACUUM_SHARE * self.rows):
            with suppress(psycopg.Error):
                vacuum(self._connection, self._tables, progress)
                self._changed = 0
        if self._index_vectors is not None:
            try:
                self._index_vectors(progress)
            except VocabtoolError as error:
                told = "All documents are committed; `vocabtool compact` indexes their vectors"
                raise VocabtoolError(f"{error}. {told}") from error

    def _check_fields(self) -> None:
        """Raise an error if the fields changed after the open transaction began."""
        fields = self._with_fields(self.manifest).fields
        if self._slot is not None and fields != self.manifest.fields:
            raise VocabtoolError(
                f"{self._connections.where}: a field is new, but {self._flushed:,} documents of "
                "the same commit came before it: use a smaller --commit-rows (commit_rows=), or "
                "commit before you add the field"
            )

    def close(self) -> None:
        """Close the connection. Uncommitted changes are lost."""
        self._roll_back()
        self._connection.close()

    def _commit_changes(self, before: Load | None, load: Load | None) -> None:
        """Write and commit the transaction. Repeat this after a conflict."""
        import psycopg

        count, sent = len(self._changes.documents), False
        for tried, pause in enumerate(pauses(), 1):
            try:
                if self._connection.closed:
                    self._slot = None
                    self._reconnect()
                if self._slot is None:
                    self._numbers.add(self._connection, self._changes.documents.values())
                    self._begin(alone=tried > SHARED_TRIES, again=tried > 1)
                    sent = False  # the token was not there
                    if self._flushed:
                        raise VocabtoolError(f"{self._connections.where}: the connection was lost")
                if self._changes:
                    self._write()
                if load is not None:
                    write_load(self._connection, self._tables, before, load, self._opened)
                assert self._slot is not None  # noqa: S101 - begun above
                count_commit(self._connection, self._tables, self._slot)
                sent = True
                self._connection.execute("COMMIT")
                self._slot = None
                return
            except psycopg.Error as error:
                is_committed = tried > 1 and _table_of(error).startswith("commits_")
                lost = is_lost(error, self._connection)
                again = lost or is_conflict(error) or _is_same_key(error)
                self._roll_back()
                if is_committed:
                    return
                sent = sent and (lost or error.sqlstate == LOCKED)  # the token could not be tried
                if not again or tried == MAX_TRIES or (self._flushed and not sent):
                    told = self._tell(UNKNOWN if sent else NOTHING, count)
                    raise self._connections.explain(error, told) from error
            except VocabtoolError as error:
                self._roll_back()
                told = self._tell(UNKNOWN if sent else NOTHING, count)
                raise VocabtoolError(f"{error}. {told}") from error
            time.sleep(pause)

    def _begin(self, *, alone: bool, again: bool = False) -> None:
        """Begin a transaction: insert the token, and lock a slot of the statistics."""
        connection = self._connection
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # models are slow
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', true)"
            " WHERE current_setting('synchronous_commit') = 'off'"
        )
        if again:
            connection.execute("SELECT set_config('lock_timeout', %s, true)", [str(TOKEN_WAIT)])
        self._run("INSERT INTO {commits} (token) VALUES (%s)", self._token)
        if again:
            connection.execute("SET LOCAL lock_timeout TO DEFAULT")
        lock(connection, lock_of(self._tables.number), shared=not alone)
        self._searched_with(read_manifest(connection, self._tables, self._connections.where))
        self._slot = take_slot(connection, self._tables, randrange(SLOTS))  # noqa: S311

    def _write(self) -> None:
        slot = self._slot
        assert slot is not None  # noqa: S101
        write_changes(
            self._connection,
            self._tables,
            self._changes,
            self._numbers,
            self.manifest.fields,
            slot,
        )

    def _change_record(self, change: Callable[[Manifest], Manifest]) -> None:
        """Change the record of the index in a transaction, unless ``change`` changes nothing."""
        if change(self.manifest) == self.manifest:
            return

        where = self._connections.where
        made = self._repeat(lambda held: change_record(held, self._tables, where, change))
        self.manifest = replace(
            self.manifest,
            **{
                name: getattr(made, name)
                for name in (*MERGED, "fields", "sources", "searched_fields")
            },
        )

    def _with_fields(self, held: Manifest) -> Manifest:
        """Add this writer's fields to ``held``. Raises an error if a field has another kind."""
        fields = dict(held.fields)
        for name, kind in self._kinds.items():
            known = fields.get(name, "null")
            fields[name] = union(known, kind)
            if known not in ("null", "string") and fields[name] == "string":
                what = f"the values of field {name!r} are {PLAIN[kind]} here, but another writer "
                what += f"added this field with {PLAIN[known]}"
                raise VocabtoolError(f"{self._connections.where}: {what} meanwhile")
        if len(fields) > MAX_FIELDS:
            found = f"{len(fields):,}"
            raise VocabtoolError(
                f"the index would have {found} fields, but the limit is {MAX_FIELDS}"
            )
        return replace(held, fields=fields, searched_fields=self._searched_with(held))

    def _searched_with(self, held: Manifest) -> tuple[str, ...]:
        """Return the searched fields. Raises an error if another writer chose different fields."""
        ours, theirs = self.searched_fields, held.searched_fields
        if {ours, theirs} == {(), PATH_FIRST}:
            return PATH_FIRST
        if ours != theirs and (held.rows or theirs != self.manifest.searched_fields):
            told, mine = (" and ".join(each) or "one field" for each in (theirs, ours))
            what = f"another writer chose other searched fields: {told}; this writer chose {mine}"
            raise VocabtoolError(f"{self._connections.where}: {what}")
        return ours

    def _newest(self) -> Manifest:
        where = self._connections.where
        return self._repeat(lambda connection: read_manifest(connection, self._tables, where))

    def _take_numbers(self, count: int) -> list[int]:
        name = self._tables.sql("{documents}").as_string(None)
        found = self._ask(
            "SELECT nextval(pg_get_serial_sequence(%s, 'doc')) FROM generate_series(1, %s)",
            name,
            count,
        )
        return [number for (number,) in found]

    def _ask(self, statement: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
        return self._repeat(lambda _: self._run(statement, *parameters).fetchall())

    def _run(self, statement: LiteralString, *parameters: object) -> psycopg.Cursor[Any]:
        return self._connection.execute(self._tables.sql(statement), parameters)

    def _repeat(self, work: Callable[[Connection], Result], written: str = "") -> Result:
        """Call ``work``, and call it again after a lost connection or a conflict.

        ``written``: a sentence that says which changes were written, for error messages.
        """
        import psycopg

        for tried, pause in enumerate(pauses(), 1):
            try:
                if self._connection.closed and self._slot is None:
                    self._reconnect()
                return work(self._connection)
            except psycopg.Error as error:
                self._numbers.clear()
                is_locked = error.sqlstate == LOCKED  # a table: others went on meanwhile
                again = is_locked or is_lost(error, self._connection) or is_conflict(error)
                tries = TABLE_TRIES if is_locked else MAX_TRIES
                if self._slot is not None or not again or tried >= tries:
                    raise self._connections.explain(error, written) from error
            time.sleep(pause)
        raise AssertionError  # the pauses never end

    def _reconnect(self) -> None:
        self._numbers.clear()
        self._connection = self._connections.connect(WAIT_SECONDS)
        for key in self._taken.values():  # lost with the connection
            self._run("SELECT pg_try_advisory_lock(%s)", key)

    def _roll_back(self) -> None:
        import psycopg

        self._slot = None
        with suppress(psycopg.Error):
            if not self._connection.closed:
                self._connection.execute("ROLLBACK")
        self._numbers.clear()  # some may have been added in the transaction

    def _tell(self, sentence: str, count: int) -> str:
        gone = len(self._changes.deleted)
        return sentence.format(f"{count + self._flushed:,} documents to add, {gone:,} to delete")


def canaries_of(connection: Connection, tables: Tables, manifest: Manifest) -> Canaries:
    """Return some documents with their vectors, spread over the index.

    If the index has a model, documents whose vectors the user gave in Python are left out.
    """
    of_model: LiteralString = "true"
    if manifest.configuration.encoder is not None:
        of_model = "source <> 0"
    (ends,) = connection.execute(tables.sql("SELECT min(doc), max(doc) FROM {searched}"))
    wanted = [] if ends[0] is None else spread(ends[1] - ends[0] + 1, CANDIDATES) + ends[0]
    statement: LiteralString = (
        "SELECT DISTINCT doc, id, text, vector_send(vector::vector)"
        " FROM unnest(%s::bigint[]) AS wanted, LATERAL"
        " (SELECT * FROM {searched} WHERE doc >= wanted AND " + of_model + " ORDER BY doc LIMIT 1)"
        " AS held ORDER BY doc"
    )
    found = connection.execute(tables.sql(statement), [[*map(int, wanted)]]).fetchall()
    vectors = from_bytes([sent for *_, sent in found], manifest.configuration.dim)
    if tables.of_user:
        vectors = prepare(vectors, manifest.configuration.metric)
    ids, texts = ([each[at] for each in found] for at in (1, 2))
    return Canaries(ids, texts, vectors)


def _texts(values: pa.StringArray) -> list[str | None]:
    held: list[bytes | None] = values.view(pa.binary()).to_pylist()
    return [None if each is None else each.decode("utf-8", "replace") for each in held]


def _table_of(error: psycopg.Error) -> str:
    """Return the table whose unique key was violated, or an empty text for another error."""
    from psycopg.errors import UniqueViolation

    return (error.diag.table_name or "") if isinstance(error, UniqueViolation) else ""


def _is_same_key(error: psycopg.Error) -> bool:
    """Return whether another writer added a document with the same id meanwhile."""
    is_ours = _table_of(error).startswith("documents_")
    return is_ours and (error.diag.constraint_name or "").endswith("_key_key")
