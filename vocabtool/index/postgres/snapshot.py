"""Read an index in PostgreSQL.

A search sees the newest commit, in three round trips to the server. The first reads the statistics
for BM25, such as the number of documents that have a term. The second runs both legs, and the third
reads the best documents.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, starmap
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from psycopg import Connection

from vocabtool.documents.batch import Document, Kind
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import NotFound
from vocabtool.index.database import text_hash
from vocabtool.index.folder import Manifest
from vocabtool.index.measures import CANDIDATES, Canaries, spread
from vocabtool.index.model import IndexModel
from vocabtool.index.postgres import legs
from vocabtool.index.postgres.conditions import sql_of, storable, value_of_column
from vocabtool.index.postgres.database import (
    FIELD_CODES,
    GONE,
    Connections,
    key_of,
    one_commit,
    run,
    stored_text,
)
from vocabtool.index.postgres.legs import TRUE, Sql, Statistics, VectorSql, join
from vocabtool.index.snapshot import DocumentsChanged, IndexSnapshot
from vocabtool.index.vectors import prepare
from vocabtool.keywords.cutter import Clause, Cutter, KeywordQuery, Term
from vocabtool.keywords.tantivy_index import TERMS_COMPARED, nearest
from vocabtool.search import store
from vocabtool.search.conditions import Where
from vocabtool.search.fusion import Candidates
from vocabtool.system.ranking import RankedRows, Rows

SPELLING: Final = 2  # letters by which the length of a similar word may differ

Answers = list[tuple[Any, ...]]
Result = TypeVar("Result")


class PostgresSnapshot(IndexSnapshot):
    """The newest commit of an index, to search it and to read its documents.

    Each call may read a newer commit. Threads may share an object.

    - ``connection``: runs all statements. Its transaction must see only one commit. Default: the
      connections of the pool run the statements.
    """

    number = 0  # there are no generations
    live = TRUE

    def __init__(
        self,
        connections: Connections,
        n: int,
        model: IndexModel,
        cutter: Cutter,
        *,
        connection: Connection | None = None,
    ) -> None:
        self.connections, self.n, self._connection = connections, n, connection
        self.model, self.cutter = model, cutter
        self._thread = threading.local()
        self.refresh()
        configuration = self.manifest.configuration
        self.vector_sql = self._read(lambda opened: VectorSql.of(opened, n, configuration))

    def _ask(self, *statements: Sql, settings: Sequence[str] = ()) -> list[Answers]:
        """Run statements in one round trip, after SET LOCAL for ``settings`` (``name = value``)."""

        def work(connection: Connection) -> list[Answers]:
            if len(statements) == 1 and not settings:
                (only,) = statements
                return [run(connection, only.text, *only.values, binary=True).fetchall()]
            with connection.pipeline(), connection.transaction():
                for setting in settings:
                    run(connection, f"SET LOCAL {setting}")
                cursors = [
                    run(connection, sql.text, *sql.values, binary=True) for sql in statements
                ]
            return [cursor.fetchall() for cursor in cursors]

        return self._read(work)

    def _read(self, work: Callable[[Connection], Result]) -> Result:
        own = self._connection
        return self.connections.read(work) if own is None else work(own)

    def refresh(self) -> None:
        """Read the manifest of the newest commit. Raises :class:`NotFound` if it was removed."""
        self._describe(self._read(lambda opened: self.connections.read_manifest(opened, self.n)))

    def _describe(self, manifest: Manifest) -> None:
        self.manifest, self.rows, self.fields = manifest, manifest.rows, manifest.fields
        self.searched_fields = manifest.searched_fields
        self.mean_length = manifest.words / max(manifest.rows, 1)
        self.calibrated = None if manifest.calibration is None else manifest.calibration.a

    @contextmanager
    def at_one_commit(self) -> Iterator[PostgresSnapshot]:
        with self.connections.connected() as connection, one_commit(connection):
            own = (self.connections, self.n, self.model, self.cutter)
            yield PostgresSnapshot(*own, connection=connection)

    # What is known of the commit

    def statistics(
        self, terms: Iterable[Term], joined: Mapping[Term, Sequence[Clause]] | None = None
    ) -> tuple[dict[Term, int], Mapping[Term, float]]:
        """Read the statistics and the manifest in one statement, and keep them for the legs."""
        distinct = list(dict.fromkeys(terms))
        scores_of_parts = [legs.best_of_parts(self.n, *word) for word in (joined or {}).items()]
        (rows,) = self._ask(
            join(
                f"WITH t AS (SELECT record, documents, words FROM indexes WHERE number = {self.n}),"
                " b AS MATERIALIZED (SELECT ARRAY[",
                join("NULL", *scores_of_parts, between=", "),
                "]::float8[] AS scores FROM t) SELECT t.record, b.scores,"
                " w.place, w.term, w.documents FROM b, t LEFT JOIN (",
                legs.find_terms(self.n, distinct),
                ") w ON TRUE",
            )
        )
        if not rows:
            raise NotFound(f"{self.connections.where}: {GONE}")
        frequencies = dict.fromkeys(distinct, (0, 0))
        for *_, place, number, count in rows:
            if place is not None:
                frequencies[distinct[place - 1]] = (number, count)
        record, (_, *scores), *_ = rows[0]
        manifest = Manifest.decode(record)
        self._describe(manifest)
        self._thread.statistics = Statistics(manifest, frequencies)
        counts = {term: count for term, (_, count) in frequencies.items()}
        return counts, dict(zip(joined or (), scores, strict=True))

    def _statistics_of(self, clauses: Iterable[Clause]) -> Statistics:
        terms = dict.fromkeys(term for clause in clauses for term in clause.terms)
        last: Statistics | None = getattr(self._thread, "statistics", None)
        if last is None or not last.frequencies.keys() >= terms.keys():
            self.statistics(terms)
        statistics: Statistics = self._thread.statistics
        return statistics

    # What may be found

    def select(self, demands: Sequence[store.Demand], without: int | None = None) -> Sql:
        selected = TRUE
        for demand in demands:
            selected &= self._condition(demand)
        return selected if without is None else selected & Sql("d.doc <> %s", (without,))

    def _condition(self, demand: store.Demand) -> Sql:
        """Return a condition on a row ``d`` of the table of documents, as SQL."""
        match demand:
            case Clause():
                number = f"(SELECT term FROM terms_{self.n} WHERE field = %s AND text = %s)"
                terms = [(FIELD_CODES[term.field], stored_text(term.text)) for term in demand.terms]
                postings = f"d.doc IN (SELECT doc FROM postings_{self.n} WHERE term = {number})"
                tests = [Sql(postings, term) for term in dict.fromkeys(terms)]
                if len(terms) > 1:
                    numbers = " || ' ' || ".join([number] * len(terms))
                    in_a_row = f"coalesce(d.sequence LIKE '%% ' || {numbers} || ' %%', FALSE)"
                    tests.append(Sql(in_a_row, tuple(chain(*terms))))
                return join("(", join(*tests, between=" AND "), ")")
            case Where():
                text, values = sql_of(demand, self.fields, f"documents_{self.n:d}", self._fetch)
                return Sql(f"({text})", tuple(values))  # or null, as false
            case store.Combination("none", parts):
                any_of = self._condition(store.Combination("any", parts))
                return join("NOT coalesce(", any_of, ", FALSE)")
            case store.Combination(word, parts):
                first, sign = ("TRUE", " AND ") if word == "all" else ("FALSE", " OR ")
                tests = [self._condition(member) for member in parts]
                return join("(", join(first, *tests, between=sign), ")")

    def _fetch(self, statement: str) -> Answers:
        return self._ask(Sql(statement))[0]

    def is_empty(self, selection: Sql) -> bool:
        (((is_there,),),) = self._ask(join("SELECT EXISTS (", self._docs(selection), ")"))
        return not is_there

    def in_order(self, selection: Sql, column: str = "d.id") -> Rows:
        (rows,) = self._ask(join(self._docs(selection), f" ORDER BY {column}"))
        return np.array([doc for (doc,) in rows], np.int64)

    def only(self, rows: Rows) -> Sql:
        return Sql("d.doc = ANY(%s)", (rows.tolist(),))

    def _docs(self, selection: Sql, columns: str = "") -> Sql:
        return join(f"SELECT d.doc{columns} FROM documents_{self.n} d WHERE ", selection)

    def _inside(self, selection: Sql) -> Sql:
        return TRUE if selection == TRUE else join("doc IN (", self._docs(selection), ")")

    # The legs

    def legs(
        self, query: KeywordQuery, vector: Vectors | None, limit: int, among: Sql
    ) -> tuple[Candidates, NDArray[np.int8]]:
        """Return candidates and tiers, in one round trip; see :meth:`Snapshot.legs`."""
        statistics = self._statistics_of(chain(query.should, query.codes, query.unstemmed))
        codes = self.manifest.codes
        if self.rows <= self.manifest.configuration.exact_below:
            codes = None  # all documents are compared
        by_words = legs.best(self.n, statistics, query, self._inside(among), limit)
        near = Sql("SELECT NULL::bigint AS doc, NULL::float4 AS similarity WHERE FALSE")
        similarity, settings = Sql("NULL"), list[str]()
        if vector is not None:
            text = legs.as_text(prepare(vector, self.vector_sql.metric))
            near = self.vector_sql.near(text, limit, among, codes)
            similarity = self.vector_sql.similarity(text)
            settings = self.vector_sql.settings(codes, limit)
        has_codes = bool(query.codes)
        statement = legs.both_legs(self.n, by_words, near, similarity, limit, has_codes=has_codes)
        (rows,) = self._ask(statement, settings=settings)
        columns: list[tuple[Any, ...]] = [*zip(*rows, strict=True)] or [()] * 7
        self._thread.ids = dict(zip(columns[0], columns[1], strict=True))
        docs, listed = np.array(columns[0], np.int64), np.array(columns[5], np.int64)
        is_near = np.array(columns[6], np.bool_)
        bm25, similar = (np.array(columns[at], np.float32) for at in (2, 3))  # NaN for null
        if self.vector_sql.metric == "cosine":
            similar = np.clip(similar, -1, 1)
        order = np.lexsort((docs, -bm25, -listed))[: np.count_nonzero(listed)]
        words = RankedRows(docs[order], bm25[order])
        nearest = RankedRows.of(docs[is_near], similar[is_near], limit)
        ranked = int(np.count_nonzero(listed == legs.LISTED))
        candidates = Candidates.union(nearest, words, similar[order], ranked)
        return candidates, np.array(columns[4], np.int8)[docs.searchsorted(candidates.rows)]

    def search_each(
        self, queries: Sequence[KeywordQuery], limit: int, among: Sql
    ) -> list[RankedRows]:
        statistics = self._statistics_of(clause for query in queries for clause in query.should)
        best = f" ORDER BY score DESC, doc LIMIT {limit:d}"
        statements = []
        for query in queries:
            totals = legs.totals(self.n, statistics, query.should)
            inside = self._inside(among)
            scores = "SELECT doc, score::float4 AS score FROM ("
            statements.append(join(scores, totals, ") s WHERE ", inside, best))
        return [
            RankedRows(
                np.array([doc for doc, _ in rows], np.int64),
                np.array([score for _, score in rows], np.float32),
            )
            for rows in self._ask(*statements)
        ]

    def near_spellings(self, term: Term, limit: int) -> list[Term]:
        statement = (
            f"SELECT text, documents FROM terms_{self.n} WHERE field = %s AND documents > 0"
            " AND text ^@ %s AND char_length(text) BETWEEN %s AND %s ORDER BY 2 DESC, 1 LIMIT %s"
        )
        text, code = term.text, FIELD_CODES[term.field]
        lengths = len(text) - SPELLING, len(text) + SPELLING
        initials = dict.fromkeys(storable(text[:2]))
        answers = self._ask(
            *(Sql(statement, (code, i, *lengths, TERMS_COMPARED)) for i in initials)
        )
        near = nearest(text, dict(row for rows in answers for row in rows), limit)
        return [Term(term.field, other) for other in near]

    def take(self, rows: Rows) -> Vectors:
        # ``None`` for a document without a vector
        sent = self._by_row(rows, ", vector_send(vector::vector)")
        return legs.from_bytes([vector for (vector,) in sent], self.vector_sql.dim)

    # Documents

    def _by_row(self, rows: Rows, columns: str) -> list[tuple[Any, ...]]:
        """Raises :class:`DocumentsChanged` if a document was deleted meanwhile."""
        (answer,) = self._ask(self._docs(self.only(rows), columns))
        values = {row: tuple(rest) for row, *rest in answer}
        try:
            return [values[row] for row in rows.tolist()]
        except KeyError as error:
            what = f"document {error.args[0]:,} was deleted meanwhile: search again"
            raise DocumentsChanged(f"{self.connections.where}: {what}") from None

    def rows_in_order(self, where: str | None = None) -> Rows:
        selection = TRUE if where is None else self.select([Where.of(where)])
        return self.in_order(selection, "d.doc")

    def ids(self, rows: Rows) -> list[str]:
        """Return the ids of rows. The candidates of this thread's last search are remembered."""
        known: dict[int, str] = getattr(self._thread, "ids", {})
        if all(row in known for row in rows.tolist()):
            return [known[row] for row in rows.tolist()]
        return [id_ for (id_,) in self._by_row(rows, ", d.id")]

    def fetch_documents(self, rows: Rows) -> list[Document]:
        """Raises :class:`DocumentsChanged` if a document was deleted meanwhile."""
        fields = columns_of_fields(self.fields)
        columns = ", ".join(("d.id", "d.text", *fields.values()))
        documents = []
        for id_, text, *values in self._by_row(rows, f", {columns}"):
            named = zip(fields, map(value_of_column, values), strict=True)
            there = {name: value for name, value in named if value is not None}
            documents.append(Document(id_, text, there))
        return documents

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        return {id_: row for id_, (row, _) in self._by_id(ids, "").items()}

    def fetch_stored(self, ids: Sequence[str]) -> dict[str, tuple[int, list[Any]]]:
        fields = columns_of_fields(self.fields)
        columns = "".join(f", {fields.get(name, 'NULL')}" for name in self.fields)
        return {
            id_: (row, [text, *map(value_of_column, values)])
            for id_, (row, (text, *values)) in self._by_id(ids, f", d.text{columns}").items()
        }

    def _by_id(self, ids: Sequence[str], columns: str) -> dict[str, tuple[int, list[Any]]]:
        by_key = {key_of(id_): id_ for id_ in ids}
        key = Sql("d.key = ANY(%s)", ([*by_key],))
        (answer,) = self._ask(self._docs(key, f", d.key{columns}"))
        return {by_key[key]: (row, values) for row, key, *values in answer}

    def rows_of_texts(self, texts: Sequence[bytes]) -> Rows:
        statement = (
            "SELECT given.place, max(d.doc) FROM unnest(%s::bigint[], %s::text[]) WITH ORDINALITY"
            f" AS given(hash, text, place) JOIN documents_{self.n} d ON d.text_hash = given.hash"
            " AND d.text = given.text AND d.source > 0 GROUP BY given.place"
        )
        stored = [storable(text.decode("utf-8", "replace")) for text in texts]
        hashes = [text_hash(text.encode()) for text in stored]
        (answer,) = self._ask(Sql(statement, (hashes, stored)))
        rows = np.full(len(texts), -1, np.int64)
        for place, doc in answer:
            rows[place - 1] = doc
        return rows

    # Values of fields

    def value_ranks(self, name: str, rows: Rows) -> NDArray[np.int64]:
        column = columns_of_fields(self.fields).get(name)
        if column is None:
            return np.full(len(rows), -1, np.int64)
        ranked = f", dense_rank() OVER (ORDER BY {column}) - 1"
        there = join(f"{column} IS NOT NULL AND ", self.only(rows))
        (answer,) = self._ask(self._docs(there, ranked))
        ranks: dict[int, int] = dict(answer)
        return np.array([ranks.get(row, -1) for row in rows.tolist()], np.int64)

    def count_values(
        self, names: Sequence[str], terms: Sequence[Term], among: Sql, limit: int
    ) -> dict[str, store.ValueCounts]:
        """Count the values of fields in one round trip. List elements are counted in Python."""
        if terms:
            holding = store.Combination("any", tuple(Clause((term,)) for term in terms))
            among = among & self.select([holding])
        columns = columns_of_fields(self.fields)
        counted = [name for name in dict.fromkeys(names) if name in columns]
        # A list has several values: without a limit, they are counted here.
        fewer = f"CASE WHEN NOT EXISTS (SELECT FROM g WHERE v::text ^@ '[') THEN {limit:d} END"
        answers = self._ask(*(self._count(columns[name], among, fewer) for name in counted))
        counts = dict.fromkeys(names, store.ValueCounts((), 0))
        for name, answer in zip(counted, answers, strict=True):
            values: list[Any] = [value_of_column(value) for value, *_ in answer]
            totals = [total for _, total, *_ in answer]
            if not any(isinstance(value, str) and value.startswith("[") for value in values):
                best = tuple(map(store.ValueCount, values, totals))[:limit]
                counts[name] = store.ValueCounts(best, answer[0][2] if answer else 0)
                continue
            order = sorted(range(len(values)), key=values.__getitem__)
            codes, ordered = np.arange(len(values)), [values[at] for at in order]
            elements = store.FieldColumn.of(codes.astype(np.int32), ordered, self.fields[name])
            counts[name] = elements.count(np.repeat(codes, [totals[at] for at in order]), limit)
        return counts

    def value_facts(self, name: str, limit: int) -> tuple[int, store.ValueCounts]:
        column = columns_of_fields(self.fields).get(name)
        if column is None:
            return 0, store.ValueCounts((), 0)
        (answer,) = self._ask(self._count(column, TRUE, f"{limit:d}"))
        distinct, documents = answer[0][2:] if answer else (0, 0)
        values: Any = [(value_of_column(value), count) for value, count, *_ in answer if count > 1]
        return documents, store.ValueCounts((*starmap(store.ValueCount, values),), distinct)

    def _count(self, column: str, among: Sql, limit: str) -> Sql:
        """Return a statement that selects the most frequent values, and their counts.

        Two more columns: the number of different values, and of documents with a value.
        """
        return join(
            f"WITH g AS MATERIALIZED (SELECT {column} AS v, count(*) AS c FROM documents_{self.n} d"
            f" WHERE {column} IS NOT NULL AND ",
            *(among, " GROUP BY 1) SELECT v, c, (SELECT count(*) FROM g), (SELECT sum(c)::bigint"),
            f" FROM g) FROM g ORDER BY c DESC, v LIMIT {limit}",
        )


def columns_of_fields(fields: Mapping[str, Kind]) -> dict[str, str]:
    """Return the column of each field that has one. Fields with only nulls have none."""
    return {name: f"d.field_{at}" for at, name in enumerate(fields) if fields[name] != "null"}


def canaries_of(connection: Connection, n: int, manifest: Manifest) -> Canaries:
    """Return some documents with their vectors, spread over the index.

    If the index has a model, documents whose vectors the user gave in Python are left out.
    """
    of_model = "true" if manifest.configuration.encoder is None else "source <> 0"
    ((first, last),) = run(connection, f"SELECT min(doc), max(doc) FROM documents_{n}")
    wanted = [] if first is None else (spread(last - first + 1, CANDIDATES) + first).tolist()
    statement = (
        "SELECT DISTINCT doc, id, text, vector_send(vector::vector)"
        f" FROM unnest(%s::bigint[]) AS wanted, LATERAL (SELECT * FROM documents_{n} WHERE"
        f" doc >= wanted AND {of_model} ORDER BY doc LIMIT 1) AS nearest ORDER BY doc"
    )
    rows = run(connection, statement, wanted, binary=True).fetchall()
    vectors = legs.from_bytes([sent for *_, sent in rows], manifest.configuration.dim)
    return Canaries([id_ for _, id_, *_ in rows], [text for *_, text, _ in rows], vectors)
