"""The writer of an index in PostgreSQL: it keeps changes in memory and writes one transaction.

An index has one writer at a time: see :meth:`Connections.lock`. If the connection is lost, so is
the transaction, and the error says what was written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import UUID

import numpy as np
import psycopg
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from vocabtool.documents.batch import Batch, Kind
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.index.database import text_hash, union
from vocabtool.index.folder import Chance, Manifest
from vocabtool.index.generation import OUTGROWN
from vocabtool.index.measures import EASIER, NEAREST, QUERIES, measure_recall, similarity_by_chance
from vocabtool.index.postgres import conditions, database, legs
from vocabtool.index.postgres.database import Connections, run
from vocabtool.index.postgres.legs import VectorSql
from vocabtool.index.vectors import CodeFacts, RawVectors, as_stored
from vocabtool.keywords.cutter import Cutter, Field, Terms, stored_length, weighted_terms
from vocabtool.system.messages import Progress
from vocabtool.system.ranking import Rows

BUFFER_BYTES: Final = 256 << 20  # of documents that wait for the commit; more are written before
VACUUM_SHARE: Final = 0.05  # of the documents changed: then vacuum at the end of a load
VACUUM_ROWS: Final = 1000
BLOCK: Final = 10_000  # vectors fetched at a time
BETWEEN: Final = "|"  # in a sequence: no phrase is found across
NOTHING: Final = "Nothing of this commit was written; earlier commits are complete. Run it again"
UNKNOWN: Final = (
    "Whether the last commit was written is unknown, because its answer was lost; earlier commits "
    "are complete. Look whether its documents are there before you run it again"
)
DELETE: Final = """
WITH gone AS (DELETE FROM documents_{n} WHERE doc = ANY(%s)
        RETURNING doc, words, sequence, identifiers),
    pairs AS (SELECT doc, part::int AS term FROM gone,
        unnest(string_to_array(btrim(replace(sequence, '|', '')), ' ')) part WHERE part <> ''
        UNION SELECT doc, unnest(identifiers) FROM gone),
    removed AS (DELETE FROM postings_{n} p USING pairs
        WHERE p.term = pairs.term AND p.doc = pairs.doc RETURNING p.term),
    counted AS (SELECT term, count(*) AS n FROM removed GROUP BY term),
    changed AS (UPDATE terms_{n} t SET documents = t.documents - counted.n
        FROM counted WHERE t.term = counted.term)
SELECT count(*), coalesce(sum(words), 0)::bigint,
    (SELECT count(*) FROM pairs), (SELECT count(*) FROM removed) FROM gone
"""


@dataclass(slots=True, kw_only=True)
class NewDocument:
    """A document to add.

    - ``vector``: the vector, or ``None`` if all its numbers are zero.
    - ``values``: the values of the fields, as texts. Neither they nor the text have U+0000.
    """

    doc: int
    id: str
    text: str
    source: int
    terms: Terms
    vector: NDArray[Any] | None
    values: dict[str, str]


class PostgresTransaction:
    """Collects changes of an index, and commits them. Only one thread at a time may use a writer.

    ``rows``: the number of documents at the beginning, plus all appended documents.

    Methods raise :class:`VocabtoolError`. After an error of :meth:`commit` or
    :meth:`flush`, close the writer; the message says which changes were written.
    """

    def __init__(self, connections: Connections, n: int, cutter: Cutter) -> None:
        """``n``: the number of the index."""
        self._connections, self._n, self._cutter = connections, n, cutter
        # The changes that are not written yet: documents by their keys; the numbers of documents
        # to delete; numbers of documents, and of the FILE that now contains each.
        self._new: dict[UUID, NewDocument] = {}
        self._deleted: set[int] = set()
        self._sources: dict[int, int] = {}
        self._size = 0  # bytes of the new documents
        self._added = np.zeros(2, np.int64)  # documents and words: by the transaction
        self._flushed = 0  # documents in the open transaction
        self._is_open = False  # the transaction
        self._changed = 0  # documents since the last VACUUM
        self._connection = connections.connect()
        try:
            # Models are slow: the session may be idle for long between two commits.
            self._run("SET idle_session_timeout = 0")
            with connections.translate_errors():
                connections.lock(self._connection, n)
                self.manifest = connections.read_manifest(self._connection, n)
            # With a lock of the row, which a role that may only read cannot get.
            statement = "SELECT last FROM indexes WHERE number = %s FOR UPDATE"
            ((self._last,),) = self._run(statement, n).fetchall()
        except BaseException:
            self._connection.close()
            raise
        self._opened = self._last
        self.rows = self.manifest.rows
        self.searched_fields = self.manifest.searched_fields
        self.kinds: dict[str, Kind] = dict(self.manifest.fields)

    def find_existing(self, ids: Sequence[str]) -> dict[str, int]:
        keys, docs = {id_: database.key_of(id_) for id_ in ids}, dict[UUID, int]()
        if others := [*{key for key in keys.values() if key not in self._new}]:
            statement = f"SELECT key, doc FROM documents_{self._n} WHERE key = ANY(%s)"
            stored = self._run(statement, others)
            docs = {key: doc for key, doc in stored if doc not in self._deleted}
        docs |= {key: self._new[key].doc for key in keys.values() if key in self._new}
        return {id_: docs[key] for id_, key in keys.items() if key in docs}

    def append(self, batch: Batch, vectors: Vectors, source: int) -> None:
        for name in batch.columns:
            self.kinds[name] = union(self.kinds.get(name, "null"), batch.kinds[name])
        values: list[dict[str, str]] = [{} for _ in range(len(batch))]
        for name, column in batch.columns.items():
            for row, value in zip(values, column.view(pa.binary()).to_pylist(), strict=True):
                if value is not None:
                    row[name] = conditions.storable(value.decode("utf-8", "replace"))
        texts: list[str] = [*map(conditions.storable, batch.texts.to_pylist())]
        terms = weighted_terms(self._cutter, texts, values, self.searched_fields)
        stored = as_stored(vectors, self.manifest.configuration.dtype)
        has_vector = np.asarray(vectors.any(axis=1))
        for at, id_ in enumerate(batch.id_array().to_pylist()):
            self._new[database.key_of(id_)] = NewDocument(
                doc=self._last + 1 + at,
                id=conditions.storable(id_),
                text=texts[at],
                source=source,
                terms=terms[at],
                vector=stored[at] if has_vector[at] else None,
                values=values[at],
            )
            others = sum(map(len, values[at].values()))
            self._size += 1000 + 2 * len(texts[at]) + others + stored[at].nbytes
        self.rows += len(batch)
        self._last += len(batch)
        if self._size > BUFFER_BYTES:
            self.flush()

    def delete(self, rows: Rows) -> None:
        docs = set(rows.tolist())
        new = {key: document.doc for key, document in self._new.items() if document.doc in docs}
        for key in new:
            del self._new[key]
        self._deleted |= docs.difference(new.values())  # only the others are in the database

    def set_source(self, rows: Rows, source: int) -> bool:
        statement = f"SELECT doc FROM documents_{self._n} WHERE doc = ANY(%s) AND source <> %s"
        others = self._run(statement, rows.tolist(), source).fetchall()
        self._sources |= dict.fromkeys([doc for (doc,) in others], source)
        return bool(others)

    def rows_of_sources(self, numbers: Sequence[int]) -> Rows:
        stored = self._run(
            f"SELECT doc, source FROM documents_{self._n} WHERE doc <= %s AND"
            " (source = ANY(%s) OR doc = ANY(%s::bigint[])) ORDER BY doc",
            *(self._opened, [*numbers], [*self._sources]),
        )
        docs = [doc for doc, source in stored if self._sources.get(doc, source) in numbers]
        return np.array(docs, np.int64)

    def flush(self) -> None:
        """Write the changes so far without a commit."""
        try:
            with self._connections.translate_errors():
                self._write()
        except VocabtoolError as error:
            raise VocabtoolError(f"{error}. {NOTHING}") from error

    def commit(
        self, manifest: Manifest, *, codes: bool = True, progress: Progress | None = None
    ) -> None:
        """Commit all changes so far. ``codes``: whether to call :meth:`tidy` then."""
        is_sent = False
        try:
            with self._connections.translate_errors():
                self._write()
                before, (documents, words) = self.manifest, self._added.tolist()
                manifest = replace(
                    manifest,
                    rows=before.rows + documents,
                    words=before.words + words,
                    fields=before.fields,
                    searched_fields=self.searched_fields,
                )
                update = "UPDATE indexes SET record = %s, last = %s, documents = %s, words = %s"
                values = (manifest.encode(), self._last, manifest.rows, manifest.words, self._n)
                run(self._connection, f"{update} WHERE number = %s", *values)
                is_sent = True
                run(self._connection, "COMMIT")
        except VocabtoolError as error:
            is_unknown = is_sent and isinstance(error.__cause__, psycopg.OperationalError)
            raise VocabtoolError(f"{error}. {UNKNOWN if is_unknown else NOTHING}") from error
        self._is_open, self._flushed = False, 0
        self._added[:] = 0
        self.manifest, self.kinds = manifest, dict(manifest.fields)
        if codes:
            self.tidy(progress)

    def tidy(self, progress: Progress | None, *, again: bool = False) -> None:
        """Vacuum the tables and index the vectors. If this fails, all documents stay committed.

        ``again``: do so even if few documents are new.
        """
        report = progress or (lambda what, share: None)
        try:
            with self._connections.translate_errors():
                if again or self._changed > max(VACUUM_ROWS, VACUUM_SHARE * self.rows):
                    report("tables vacuumed", 0.0)
                    n, vacuum = self._n, "VACUUM (ANALYZE)"
                    with suppress(psycopg.Error):  # it only frees space
                        run(self._connection, f"{vacuum} documents_{n}, postings_{n}, terms_{n}")
                    self._changed = 0
                self._index_vectors(report, again=again)
        except VocabtoolError as error:
            what = "All documents are committed; `vocabtool compact` indexes their vectors"
            raise VocabtoolError(f"{error}. {what}") from error

    def close(self) -> None:
        """Close the connection. Uncommitted changes are lost."""
        self._connection.close()

    def _index_vectors(self, report: Progress, *, again: bool) -> None:
        """Index the vectors and measure the recall, if there are many documents, and many are new.

        Also measure the similarity that unrelated vectors reach by chance.
        """
        manifest, configuration = self.manifest, self.manifest.configuration
        rows, chance, facts = manifest.rows, manifest.chance, manifest.codes
        sql = VectorSql.of(self._connection, self._n, configuration)
        if rows and (chance is None or rows >= 2 * chance.rows):
            with self._all_vectors(sql) as (_, vectors):
                similarity = similarity_by_chance(vectors, configuration.metric)
            if similarity is not None:
                self._store(replace(manifest, chance=Chance(similarity=similarity, rows=rows)))
        if rows <= configuration.exact_below or not sql.can_index:
            return
        if again or facts is None or rows >= OUTGROWN * facts.coded:
            report("building the index of vectors", 0.0)
            self._build_vectors(sql)

    def _build_vectors(self, sql: VectorSql) -> None:
        """Index the vectors, and record the least number of lists that a search must visit.

        Synthetic queries are easier than real queries, so their recall@10 must be at least
        ``1 - (1 - recall) / EASIER``. If no number reaches it, the one with the best recall is
        recorded.
        """
        connection, wanted = self._connection, self.manifest.configuration.recall
        lists = min(max(1, math.isqrt(self.manifest.rows)), legs.MAX_LISTS)
        name, own = f"vectors_{self._n}", self._connections.quoted

        def build() -> None:
            run(connection, f"DROP INDEX IF EXISTS {own}.{name}_new")  # of a killed process
            connection.execute(sql.create(lists).encode())
            self._store(replace(self.manifest, codes=None))  # searches are exact meanwhile

        def put_in_place() -> None:
            run(connection, f"DROP INDEX IF EXISTS {own}.{name}")
            run(connection, f"ALTER INDEX {own}.{name}_new RENAME TO {name}")

        database.change_tables(connection, build)
        database.change_tables(connection, put_in_place)
        with self._all_vectors(sql) as (docs, vectors):
            facts = CodeFacts(
                lists=lists,
                probes=1,
                candidates=0,
                recall_asked=wanted,
                recall=-1.0,
                queries=3 * QUERIES,
                coded=len(docs),
            )

            def search(codes: CodeFacts, vector: Vectors, limit: int) -> Rows:
                near = sql.near(legs.as_text(vector), limit, legs.TRUE, codes)
                rows = run(connection, near.text, *near.values).fetchall()
                return np.asarray(docs.searchsorted([doc for doc, _ in rows]), np.int64)

            for probes in sorted({min(probes, lists) for probes in legs.PROBES}):
                codes = replace(facts, probes=probes)
                for setting in sql.settings(codes, NEAREST + 1):
                    run(connection, f"SET LOCAL {setting}")
                recall = measure_recall(vectors, partial(search, codes), sql.metric)
                if recall > facts.recall:
                    facts = replace(codes, recall=recall)
                if recall >= 1 - (1 - wanted) / EASIER:
                    break
        self._store(replace(self.manifest, codes=facts))

    @contextmanager
    def _all_vectors(self, sql: VectorSql) -> Iterator[tuple[Rows, RawVectors]]:
        """Copy the vectors of one commit to a file. First come the numbers of their documents."""
        with TemporaryDirectory() as folder, database.one_commit(self._connection):
            docs: list[int] = []
            file = Path(folder, "vectors.bin")
            with file.open("wb") as out, self._connection.cursor("vectors", binary=True) as cursor:
                cursor.itersize = BLOCK
                cursor.execute(
                    f"SELECT doc, vector_send(vector::vector) FROM documents_{self._n}"
                    " WHERE vector IS NOT NULL ORDER BY doc".encode()
                )
                for doc, sent in cursor:
                    docs.append(doc)
                    out.write(legs.from_bytes([sent], sql.dim).tobytes())
            vectors = RawVectors(file, dim=sql.dim, dtype="float32", count=len(docs))
            yield np.array(docs, np.int64), vectors

    def _add_columns(self) -> None:
        """Add columns for new fields, in a transaction of its own: searches wait only for it."""
        before = self.manifest.fields
        fields = dict(before) | {
            name: union(before.get(name, "null"), kind) for name, kind in self.kinds.items()
        }
        if fields == before:
            return
        if self._is_open:
            raise VocabtoolError(
                f"{self._connections.where}: a field is new, but {self._flushed:,} documents of "
                "the same commit came before it: use a smaller --commit-rows (commit_rows=), or "
                "commit before you add the field"
            )
        stored = self._connections.read_manifest(self._connection, self._n)

        def change() -> None:
            for at, (name, kind) in enumerate(fields.items()):
                if before.get(name, "null") != "null":
                    continue
                table, column = f"documents_{self._n}", f"field_{at}"
                for own, type_ in conditions.columns_of(column, kind):
                    run(self._connection, f"ALTER TABLE {table} ADD COLUMN {own} {type_}")
                for index in conditions.indexes_of(column, kind):
                    run(self._connection, f"CREATE INDEX ON {table} {index}")
            self._store(replace(stored, fields=fields))

        current = self.manifest  # with FILEs that no commit has yet
        database.change_tables(self._connection, change)
        self.manifest = replace(current, fields=fields)

    def _store(self, manifest: Manifest) -> None:
        """Write the manifest without a commit."""
        statement = "UPDATE indexes SET record = %s WHERE number = %s"
        run(self._connection, statement, manifest.encode(), self._n)
        self.manifest = manifest

    def _run(self, statement: str, *values: object) -> psycopg.Cursor[Any]:
        with self._connections.translate_errors():
            return run(self._connection, statement, *values)

    # The statements of a transaction

    def _write(self) -> None:
        """Write the collected changes in the open transaction, and forget them."""
        self._add_columns()
        connection, n = self._connection, self._n
        if not self._is_open:
            run(connection, "BEGIN ISOLATION LEVEL READ COMMITTED")
            self._is_open = True
            run(connection, "SET LOCAL idle_in_transaction_session_timeout = 0")
            # A commit that was answered is on disk, whatever is set for the database or the user.
            run(
                connection,
                "SELECT set_config('synchronous_commit', 'on', true)"
                " WHERE current_setting('synchronous_commit') = 'off'",
            )
        if self._deleted:
            ((*counts, wanted, removed),) = run(
                connection, DELETE.format(n=n), [*self._deleted]
            ).fetchall()
            if removed != wanted:
                what = f"{counts[0]:,} documents should have {wanted:,} postings"
                raise InvalidFile(f"damaged: {what}, got {removed:,}; run `vocabtool verify`")
            self._added -= counts
        if self._new:
            self._insert()
        run(
            connection,
            f"UPDATE documents_{n} d SET source = given.source"
            " FROM unnest(%s::bigint[], %s::int[]) AS given(doc, source) WHERE d.doc = given.doc",
            *([*self._sources], [*self._sources.values()]),
        )
        self._flushed += len(self._new)
        self._changed += len(self._new) + len(self._deleted)
        self._new, self._deleted, self._sources, self._size = {}, set(), {}, 0

    def _insert(self) -> None:
        """Insert documents with their postings, and correct the frequencies of their terms."""
        documents, n = [*self._new.values()], self._n
        cut = [
            [text.split() for text in (new.terms.words, *new.terms.repeated) if text]
            for new in documents
        ]
        identifiers = [new.terms.surfaces.split() for new in documents]
        word = self._term_numbers("words", chain.from_iterable(chain.from_iterable(cut)))
        surface = self._term_numbers("surfaces", chain.from_iterable(identifiers))
        names, kinds = [*self.manifest.fields], [*self.manifest.fields.values()]
        columns = [conditions.columns_of(f"field_{at}", kind) for at, kind in enumerate(kinds)]
        more = "".join(f", {own}" for own, _ in chain(conditions.OWN_COLUMNS, *columns))
        statement = (
            f"COPY documents_{n} (doc, key, id, text, source, text_hash, words, sequence,"
            f" identifiers, vector{more}) FROM STDIN"
        )
        terms = []
        with self._connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for (key, document), words, own in zip(
                self._new.items(), cut, identifiers, strict=True
            ):
                phrases = [[word[term] for term in phrase] for phrase in words]
                others = [surface[term] for term in own]
                terms.append(np.array([*chain.from_iterable(phrases), *others], np.int64))
                values = map(document.values.get, names)
                sequence = f" {BETWEEN} ".join(" ".join(map(str, phrase)) for phrase in phrases)
                copy.write_row(
                    (
                        *(document.doc, key, document.id, document.text, document.source),
                        *(text_hash(document.text.encode()), document.terms.count),
                        *(f" {sequence} ", sorted(set(others))),
                        None if document.vector is None else legs.as_text(document.vector),
                        *conditions.columns_of_text(document.id),
                        *conditions.columns_of_text(document.text),
                        *chain.from_iterable(map(conditions.columns_of_value, values, kinds)),
                    )
                )
        counts = np.array([(1, new.terms.count) for new in documents])
        docs = np.array([new.doc for new in documents], np.int64)
        lengths = np.array([stored_length(words) for words in counts[:, 1].tolist()])
        of_document = np.repeat(np.arange(len(terms)), [*map(len, terms)])
        # by term, then by document
        pairs, frequency = np.unique(np.concatenate(terms) << 32 | of_document, return_counts=True)
        places, rows = pairs & 0xFFFFFFFF, pa.BufferOutputStream()
        postings = {"term": pairs >> 32, "doc": docs[places], "frequency": frequency}
        table = pa.table(postings | {"length": lengths[places]})
        csv.write_csv(table, rows, csv.WriteOptions(include_header=False))
        into = f"COPY postings_{n} (term, doc, frequency, length) FROM STDIN (FORMAT csv)"
        with self._connection.cursor() as cursor, cursor.copy(into.encode()) as copy:
            copy.write(memoryview(rows.getvalue()))
        self._added += counts.sum(axis=0)
        numbers, frequencies = np.unique(pairs >> 32, return_counts=True)
        run(
            self._connection,
            f"UPDATE terms_{n} t SET documents = t.documents + given.n"
            " FROM unnest(%s::int[], %s::int[]) AS given(term, n) WHERE t.term = given.term",
            *(numbers.tolist(), frequencies.tolist()),
        )

    def _term_numbers(self, name: Field, terms: Iterable[str]) -> dict[str, int]:
        """Add missing terms to the index; return a dictionary from terms to their numbers."""
        stored = {database.stored_text(term): term for term in sorted(set(terms))}
        table, code, numbers = f"terms_{self._n}", database.FIELD_CODES[name], dict[str, int]()
        find = f"SELECT text, term FROM {table} WHERE field = %s AND text = ANY(%s)"
        add = (
            f"INSERT INTO {table} (field, text) SELECT %s, unnest(%s::text[]) RETURNING text, term"
        )
        for statement in (find, add):
            for text, number in run(self._connection, statement, code, [*stored]).fetchall():
                numbers[stored.pop(text)] = number
        return numbers
