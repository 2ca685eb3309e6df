"""The writer of an index in PostgreSQL: it keeps changes in memory and writes one transaction.

An index has one writer at a time: see :meth:`Tables.lock`. If the connection is lost, the writer
connects again, waits for its lock, and writes the transaction again. If the answer to COMMIT was
lost, the index has the token of this commit, or it has not: whoever holds the lock sees the end of
the earlier transaction, because the server held the lock until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, LiteralString, TypeVar
from uuid import UUID, uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.documents.batch import Batch, Kind
from vocabtool.documents.options import weights_of
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.index.database import text_hash
from vocabtool.index.documents import MAX_FIELDS, union, value_of
from vocabtool.index.folder import Chance, Manifest, Source
from vocabtool.index.generation import Progress
from vocabtool.index.model import Canaries
from vocabtool.index.raw_vectors import as_stored, similarity_by_chance
from vocabtool.keywords.bm25 import Field, stored_length
from vocabtool.keywords.cutter import Cutter, Terms, weighted_terms
from vocabtool.stores.conditions import (
    OWN_COLUMNS,
    columns_of,
    columns_of_text,
    columns_of_value,
)
from vocabtool.stores.database import (
    FIELD_CODES,
    WAIT_SECONDS,
    Connections,
    Tables,
    add_fields,
    change_tables,
    is_lost,
    key_of,
    one_commit,
    pauses,
    read_manifest,
    stored_term,
    stored_text,
)
from vocabtool.stores.reader import canaries_of
from vocabtool.stores.vectors import AllVectors, VectorFacts, VectorSql, as_text, build_vectors
from vocabtool.system.ranking import Rows

if TYPE_CHECKING:
    import psycopg

BUFFER_BYTES: Final = 256 << 20
TRIES: Final = 5  # of a transaction whose connection is lost
KEPT_TERMS: Final = 1 << 20  # whose numbers are known
DELETED_ROWS: Final = 1_000  # documents that one statement deletes
VACUUM_SHARE: Final = 0.05  # of the documents changed: then vacuum at the end of a load
VACUUM_ROWS: Final = 1000
OUTGROWN: Final = 4  # vectors are indexed again when there are this many times the documents
BETWEEN: Final = "|"  # in a sequence: no phrase is found across
NOTHING: Final = "Nothing of this commit was written; earlier commits are complete. Run it again"
UNKNOWN: Final = (
    "Whether the last commit was written is unknown, because its answer was lost; earlier commits "
    "are complete. Look whether its documents are there before you run it again"
)
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
Result = TypeVar("Result")


@dataclass(slots=True, kw_only=True)
class NewDocument:
    """A document to add.

    - ``doc``: its number in the tables.
    - ``text``: the text, without U+0000.
    - ``vector``: the vector, or ``None`` if all its numbers are zero.
    - ``values``: the values of the fields, as texts.
    """

    doc: int
    key: UUID
    id: str
    text: str
    source: int
    text_hash: int
    terms: Terms
    vector: NDArray[Any] | None
    values: dict[str, str | None]

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
    """

    documents: dict[UUID, NewDocument] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    sources: dict[int, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any((self.documents, self.deleted, self.sources))


class PostgresWriter:
    """Collects changes of an index, and commits them. Only one thread at a time may use a writer.

    It has the methods of :class:`FolderWriter`. ``rows``: the number of documents when the writer
    was opened, plus all appended documents.

    Methods raise :class:`VocabtoolError`. After an error of :meth:`commit_changes` or
    :meth:`flush`, close the writer; the message says which changes were written.
    """

    def __init__(
        self,
        connections: Connections,
        tables: Tables,
        cutter: Cutter,
        *,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._connections, self._tables, self._cutter = connections, tables, cutter
        self._limit = buffer_bytes
        self._numbers: dict[Field, dict[str, int]] = {"words": {}, "surfaces": {}}
        self._changes = Changes()
        self._added = np.zeros(3, np.int64)  # documents, words, surfaces: by the transaction
        self._size = 0  # bytes of the new documents in the buffer
        self._flushed = 0  # documents in the open transaction, which cannot be written again
        self._is_open = False  # the transaction
        self._changed = 0  # documents since the last VACUUM
        self._token = uuid4()
        self._connect()
        try:
            self.manifest = self._newest()
            self._commit = self.manifest.commit
            # With a lock of the row, which a role that may only read cannot get.
            asked: LiteralString = "SELECT last FROM {indexes} WHERE number = %s FOR UPDATE"
            ((self._last,),) = self._ask(asked, self._n)
        except BaseException:
            self._connection.close()
            raise
        self._opened = self._last
        self.rows = self.manifest.rows
        self.searched_fields = self.manifest.searched_fields
        self._kinds: dict[str, Kind] = dict(self.manifest.fields)

    @property
    def _n(self) -> int:
        return self._tables.number

    def _connect(self) -> None:
        """Connect, and become the only writer."""
        self._connection, self._is_open = self._connections.connect(WAIT_SECONDS), False
        try:
            # Models are slow: the session may be idle for long between two commits.
            self._connection.execute("SET idle_session_timeout = 0")
            self._tables.lock(self._connection, self._connections.where, of_session=True)
        except BaseException:
            self._connection.close()
            raise

    def find_existing(self, ids: Sequence[str]) -> dict[str, int]:
        """As :meth:`FolderWriter.find_existing`, and so are the next methods."""
        keys = {id_: key_of(id_) for id_ in ids}
        found: dict[UUID, int] = {}
        new = self._changes.documents
        if asked := [*{key for key in keys.values() if key not in new}]:
            held = self._ask("SELECT key, doc FROM {documents} WHERE key = ANY(%s)", asked)
            found = {key: doc for key, doc in held if doc not in self._changes.deleted}
        found |= {key: new[key].doc for key in keys.values() if key in new}
        return {id_: found[key] for id_, key in keys.items() if key in found}

    def append(self, batch: Batch, vectors: Vectors, sources: Sequence[int]) -> None:
        for name in batch.columns:
            self._kinds[name] = union(self._kinds.get(name, "null"), batch.kinds[name])
        if len(self._kinds) > MAX_FIELDS:
            what = f"would have {len(self._kinds):,} fields, but the limit is {MAX_FIELDS}"
            raise VocabtoolError(f"the index {what}")
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
        for at, id_ in enumerate(batch.id_array().to_pylist()):
            document = NewDocument(
                doc=self._last + 1 + at,
                key=key_of(id_),
                id=stored_text(id_),
                text=texts[at],
                source=sources[at],
                text_hash=text_hash(texts[at].encode()),
                terms=terms[at],
                vector=held[at] if has_vector[at] else None,
                values=values[at],
            )
            before = self._changes.documents.get(document.key)
            self._size += document.size - (before.size if before else 0)
            self._changes.documents[document.key] = document
        self.rows += len(batch)
        self._last += len(batch)
        if self._size > self._limit:
            self.flush()

    def delete(self, rows: Rows) -> None:
        gone = set(rows.tolist())
        new = self._changes.documents
        for key in [key for key, each in new.items() if each.doc in gone] if new else ():
            each = new.pop(key)
            self._size -= each.size
            gone.remove(each.doc)
        self._changes.deleted |= gone

    def set_source(self, rows: Rows, source: int) -> bool:
        others = self._ask(
            "SELECT doc FROM {documents} WHERE doc = ANY(%s) AND source <> %s",
            rows.tolist(),
            source,
        )
        self._changes.sources |= dict.fromkeys([doc for (doc,) in others], source)
        return bool(others)

    def rows_of_sources(self, numbers: Sequence[int]) -> Rows:
        sources = self._changes.sources
        held = self._ask(
            "SELECT doc, source FROM {documents} WHERE doc <= %s AND"
            " (source = ANY(%s) OR doc = ANY(%s::bigint[])) ORDER BY doc",
            self._opened,
            [*numbers],
            [*sources],
        )
        found = [doc for doc, source in held if sources.get(doc, source) in numbers]
        return np.array(found, np.int64)

    def register_sources(self, sources: Sequence[Source]) -> None:
        self.manifest = replace(self.manifest, sources=(*sources,))

    def canaries(self) -> Canaries:
        return self._read(lambda: canaries_of(self._connection, self._tables, self.manifest))

    def flush(self) -> None:
        """Write the changes so far without a commit.

        If the connection is lost, these changes cannot be written again, and the commit fails.
        """
        try:
            self._add_columns()
            with self._connections.translate_errors():
                if not self._is_open:
                    self._begin()
                self._write()
        except VocabtoolError as error:
            self._roll_back()
            raise VocabtoolError(f"{error}. {NOTHING}") from error
        self._flushed += len(self._changes.documents)
        self._changes, self._size = Changes(), 0

    def commit_changes(
        self, manifest: Manifest, *, codes: bool, progress: Progress | None = None
    ) -> None:
        """As :meth:`FolderWriter.commit_changes`. ``codes``: whether to call :meth:`tidy` then."""
        import psycopg

        self._changed += len(self._changes.documents) + len(self._changes.deleted) + self._flushed
        was_sent = False
        for tried, pause in enumerate(pauses(), 1):
            try:
                if self._connection.closed:
                    self._connect()
                    if self._is_committed():
                        break
                    was_sent = False
                self._add_columns()
                if not self._is_open:
                    if self._flushed:
                        raise VocabtoolError(f"{self._connections.where}: the connection was lost")
                    self._begin()
                self._write()
                self._write_record(manifest)
                was_sent = True
                self._connection.execute("COMMIT")
                break
            except psycopg.Error as error:
                lost = is_lost(error, self._connection)
                self._roll_back()
                if not lost or tried == TRIES or (self._flushed and not was_sent):
                    told = UNKNOWN if was_sent and lost else NOTHING
                    raise VocabtoolError(f"{self._connections.explain(error)}. {told}") from error
            except VocabtoolError as error:
                self._roll_back()
                raise VocabtoolError(f"{error}. {UNKNOWN if was_sent else NOTHING}") from error
            self._connection.close()
            time.sleep(pause)
        self._is_open, self._token = False, uuid4()
        self._commit += 1
        self._changes, self._size, self._flushed = Changes(), 0, 0
        self._added[:] = 0
        self.manifest = self._newest()
        self._kinds = dict(self.manifest.fields)
        if codes:
            self.tidy(progress)

    def tidy(self, progress: Progress | None, *, again: bool = False) -> None:
        """Vacuum the tables and index the vectors. If this fails, all documents stay committed.

        ``again``: do so even if few documents are new.
        """
        import psycopg

        try:
            with self._connections.translate_errors():
                if self._connection.closed:
                    self._connect()
                if again or self._changed > max(VACUUM_ROWS, VACUUM_SHARE * self.rows):
                    tables: tuple[LiteralString, ...] = ("{documents}", "{postings}", "{terms}")
                    for place, name in enumerate(tables):
                        if progress is not None:
                            progress("tables vacuumed", place / len(tables))
                        with suppress(psycopg.Error):  # it only frees space
                            self._run("VACUUM (ANALYZE) " + name)
                    self._changed = 0
                self._index_vectors(progress, again=again)
        except VocabtoolError as error:
            told = "All documents are committed; `vocabtool compact` indexes their vectors"
            raise VocabtoolError(f"{error}. {told}") from error

    def close(self) -> None:
        """Close the connection. Uncommitted changes are lost."""
        self._roll_back()
        self._connection.close()

    def _index_vectors(self, progress: Progress | None, *, again: bool) -> None:
        """Index the vectors and measure the recall, if there are many documents, and many are new.

        Also measure the similarity that unrelated vectors reach by chance.
        """
        manifest, configuration = self.manifest, self.manifest.configuration
        rows, chance = manifest.rows, manifest.chance
        if not rows:
            return
        sql = VectorSql.of(self._connection, self._tables, configuration)
        facts = VectorFacts.read(self._connection, self._tables)
        if chance is None or rows >= 2 * chance.rows:
            with one_commit(self._connection):
                vectors: Any = AllVectors.of(self._connection, sql)
                found = similarity_by_chance(vectors, configuration.metric)
            if found is not None:
                self.manifest = replace(manifest, chance=Chance(similarity=found, rows=rows))
                self._store(self.manifest)
        if rows <= configuration.exact_below:
            return
        if again or facts is None or rows >= OUTGROWN * facts.documents:
            if progress is not None:
                progress("building the index of vectors", 0.0)
            # On hard queries HNSW misses documents whatever its setting; then IVFFlat may reach
            # them.
            recall = configuration.recall
            made = build_vectors(self._connection, sql, recall=recall)
            if made.note is not None:
                other = build_vectors(self._connection, sql, recall=recall, method="ivfflat")
                if other.recall < made.recall:
                    build_vectors(self._connection, sql, recall=recall)

    def _add_columns(self) -> None:
        """Add columns for new fields, in a transaction of its own: searches wait only for it."""
        held = self.manifest
        fields = dict(held.fields) | {
            name: union(held.fields.get(name, "null"), kind) for name, kind in self._kinds.items()
        }
        if fields == held.fields:
            return
        if self._is_open:
            raise VocabtoolError(
                f"{self._connections.where}: a field is new, but {self._flushed:,} documents of "
                "the same commit came before it: use a smaller --commit-rows (commit_rows=), or "
                "commit before you add the field"
            )
        newest = self._newest()
        made = replace(newest, fields=fields)

        def change() -> None:
            add_fields(self._connection, self._tables, fields, newest.fields)
            self._store(made)

        change_tables(self._connection, change)
        self.manifest = replace(self.manifest, fields=fields)

    def _begin(self) -> None:
        self._connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        self._is_open = True
        self._connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        self._connection.execute(
            "SELECT set_config('synchronous_commit', 'on', true)"
            " WHERE current_setting('synchronous_commit') = 'off'"
        )

    def _is_committed(self) -> bool:
        """Return whether the last transaction was committed. Forget what it would have changed.

        Raises :class:`VocabtoolError` if another process has written meanwhile.
        """
        self._added[:] = 0
        asked: LiteralString = "SELECT commits, token FROM {indexes} WHERE number = %s"
        found = self._run(asked, self._n).fetchall()
        if found and found[0] == (self._commit + 1, self._token):
            return True
        if not found or found[0][0] != self._commit:
            raise VocabtoolError(
                f"{self._connections.where}: the connection was lost, and another process changed "
                "the index meanwhile"
            )
        return False

    def _write_record(self, manifest: Manifest) -> None:
        """Write the manifest of this commit, with the statistics of the index."""
        held, (documents, words, surfaces) = self.manifest, self._added.tolist()
        manifest = replace(
            manifest,
            commit=self._commit + 1,
            rows=held.rows + documents,
            words=held.words + words,
            surfaces=held.surfaces + surfaces,
            fields=held.fields,
            searched_fields=self.searched_fields,
        )
        statement: LiteralString = (
            "UPDATE {indexes} SET record = %s, commits = %s, token = %s, last = %s, documents = %s,"
            " words = %s WHERE number = %s"
        )
        counts = (manifest.commit, self._token, self._last, manifest.rows, manifest.words)
        if not self._run(statement, manifest.encode(), *counts, self._n).rowcount:
            raise VocabtoolError(f"{self._connections.where}: the index was removed")

    def _store(self, manifest: Manifest) -> None:
        """Write the manifest without a commit."""
        statement: LiteralString = "UPDATE {indexes} SET record = %s WHERE number = %s"
        self._run(statement, manifest.encode(), self._n)

    def _newest(self) -> Manifest:
        where = self._connections.where
        return self._read(lambda: read_manifest(self._connection, self._tables, where))

    def _ask(self, statement: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
        return self._read(lambda: self._run(statement, *parameters).fetchall())

    def _read(self, work: Callable[[], Result]) -> Result:
        """Read by ``work``. If the connection is lost outside a transaction, connect again."""
        import psycopg

        for tried, pause in enumerate(pauses(), 1):
            try:
                if self._connection.closed and not self._is_open:
                    self._connect()
                    self._is_committed()  # raises if others wrote meanwhile
                return work()
            except psycopg.Error as error:
                again = not self._is_open and is_lost(error, self._connection)
                if not again or tried == TRIES:
                    raise self._connections.explain(error) from error
            self._connection.close()
            time.sleep(pause)
        raise AssertionError  # the pauses never end

    def _run(self, statement: LiteralString, *parameters: object) -> psycopg.Cursor[Any]:
        return self._connection.execute(self._tables.sql(statement), parameters or None)

    def _roll_back(self) -> None:
        import psycopg

        self._is_open = False
        with suppress(psycopg.Error):
            if not self._connection.closed:
                self._connection.execute("ROLLBACK")
        self._numbers = {"words": {}, "surfaces": {}}  # some may be of the transaction

    # The statements of a transaction

    def _write(self) -> None:
        """Write the collected changes in the open transaction."""
        changes = self._changes
        if not changes:
            return
        deleted = sorted(changes.deleted)
        gone = [
            self._delete(deleted[start : start + DELETED_ROWS])
            for start in range(0, len(deleted), DELETED_ROWS)
        ]
        added = self._insert([*changes.documents.values()])
        terms, inverse = np.unique(np.concatenate([added, *gone]), return_inverse=True)
        signs = np.repeat([1, -1], [len(added), sum(map(len, gone))])
        change = np.bincount(inverse, signs, len(terms)).astype(np.int64)
        changed = change != 0
        self._run(
            "UPDATE {terms} held SET documents = held.documents + given.change"
            " FROM unnest(%s::int[], %s::int[]) AS given(term, change)"
            " WHERE held.term = given.term",
            terms[changed].tolist(),
            change[changed].tolist(),
        )
        if changes.sources:
            self._run(
                "UPDATE {documents} held SET source = given.source"
                " FROM unnest(%s::bigint[], %s::int[]) AS given(doc, source)"
                " WHERE held.doc = given.doc",
                [*changes.sources],
                [*changes.sources.values()],
            )

    def _delete(self, docs: list[int]) -> Ints:
        """Delete documents; return the number of a term for each deleted posting."""
        found = self._run(
            "SELECT doc, words, surfaces, sequence, identifiers FROM {documents}"
            " WHERE doc = ANY(%s) ORDER BY doc",
            docs,
        ).fetchall()
        terms = [
            np.array([*(each for each in sequence.split() if each != BETWEEN), *others], np.int64)
            for *_, sequence, others in found
        ]
        there = [doc for doc, *_ in found]
        held = postings_of(there, there, terms)
        removed = self._run(
            "DELETE FROM {postings} held USING unnest(%s::int[], %s::bigint[]) AS gone(term, doc)"
            " WHERE held.term = gone.term AND held.doc = gone.doc",
            held["term"].tolist(),
            held["doc"].tolist(),
        ).rowcount
        if removed != len(held):
            what = f"{len(there):,} documents should have {len(held):,} postings"
            raise InvalidFile(f"damaged: {what}, got {removed:,}; run `vocabtool verify`")
        self._run("DELETE FROM {documents} WHERE doc = ANY(%s)", there)
        words, surfaces = (sum(row[at] for row in found) for at in (1, 2))
        self._added -= (len(there), words, surfaces)
        return held["term"].astype(np.int64)

    def _insert(self, new: Sequence[NewDocument]) -> Ints:
        """Insert documents; return the number of a term for each new posting."""
        from psycopg.sql import SQL

        if not new:
            return np.zeros(0, np.int64)
        cut = [
            [part.split() for part in (each.terms.words, *each.terms.repeated) if part]
            for each in new
        ]
        identifiers = [each.terms.surfaces.split() for each in new]
        word = self._term_numbers("words", chain.from_iterable(chain.from_iterable(cut)))
        surface = self._term_numbers("surfaces", chain.from_iterable(identifiers))
        fields = self.manifest.fields

        def in_column(text: str | None, kind: Kind) -> tuple[object, ...]:
            if text is None or kind in ("string", "null"):
                return columns_of_value(None if text is None else text.encode(), kind)
            return columns_of_value(value_of(text, kind), kind)

        columns = {name: columns_of(f"field_{at}", fields[name]) for at, name in enumerate(fields)}
        names = "".join(f", {own}" for own, _ in chain(OWN_COLUMNS, *columns.values()))
        statement = self._tables.sql(
            "COPY {documents} (doc, key, id, text, source, text_hash, words, surfaces, sequence,"
            " identifiers, vector"
        ) + SQL(names + ") FROM STDIN")
        terms = []
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for document, words, own in zip(new, cut, identifiers, strict=True):
                parts = [[word[term] for term in part] for part in words]
                others = [surface[term] for term in own]
                terms.append(np.array([*chain.from_iterable(parts), *others], np.int64))
                sequence = f" {BETWEEN} ".join(" ".join(map(str, part)) for part in parts)
                copy.write_row(
                    (
                        document.doc,
                        document.key,
                        document.id,
                        document.text,
                        document.source,
                        document.text_hash,
                        document.terms.count,
                        document.terms.surface_count,
                        f" {sequence} ",
                        sorted(set(others)),
                        None if document.vector is None else as_text(document.vector),
                        *columns_of_text(document.id),
                        *columns_of_text(document.text),
                        *chain.from_iterable(
                            in_column(document.values.get(name), fields[name]) for name in columns
                        ),
                    )
                )
        lengths = [stored_length(each.terms.count) for each in new]
        rows = postings_of([each.doc for each in new], lengths, terms)
        into = "COPY {postings} (term, doc, frequency, length) FROM STDIN (FORMAT binary)"
        with self._connection.cursor() as cursor, cursor.copy(self._tables.sql(into)) as copy:
            copy.write(COPY_HEAD + rows.tobytes() + COPY_END)
        counts = [(1, each.terms.count, each.terms.surface_count) for each in new]
        self._added += np.sum(counts, axis=0)
        return rows["term"].astype(np.int64)

    def _term_numbers(self, name: Field, terms: Iterable[str]) -> dict[str, int]:
        """Add missing terms to the index; return a dictionary from terms to their numbers."""
        kept, wanted = self._numbers[name], set(terms)
        new = sorted(wanted - kept.keys())
        if new and len(kept) + len(new) > KEPT_TERMS:
            kept.clear()
            new = sorted(wanted)
        stored, code = {stored_term(term): term for term in new}, FIELD_CODES[name]
        find: LiteralString = "SELECT text, term FROM {terms} WHERE field = %s AND text = ANY(%s)"
        for text, number in self._run(find, code, [*stored]) if stored else ():
            kept[stored.pop(text)] = number
        add: LiteralString = (
            "INSERT INTO {terms} (field, text) SELECT %s, unnest(%s::text[]) RETURNING text, term"
        )
        for text, number in self._run(add, code, [*stored]) if stored else ():
            kept[stored[text]] = number
        return kept


def postings_of(docs: Sequence[int], lengths: Sequence[int], terms: Sequence[Ints]) -> NDArray[Any]:
    """Return the postings of documents as rows for COPY, sorted by term and document.

    ``terms``: the term numbers of each document, with repetitions.
    """
    counts = np.array([len(each) for each in terms], np.int64)
    places = np.repeat(np.arange(len(docs)), counts)
    flat = np.concatenate([np.zeros(0, np.int64), *terms])
    pairs, frequency = np.unique(flat << 32 | places, return_counts=True)
    rows, at = np.zeros(len(pairs), POSTING), pairs & 0xFFFFFFFF
    for name, length in LENGTHS.items():
        rows[name] = length
    rows["term"], rows["frequency"] = pairs >> 32, frequency
    rows["doc"], rows["length"] = np.array(docs, np.int64)[at], np.array(lengths, np.int64)[at]
    return rows


def _texts(values: pa.StringArray) -> list[str | None]:
    held: list[bytes | None] = values.view(pa.binary()).to_pylist()
    return [None if each is None else each.decode("utf-8", "replace") for each in held]
