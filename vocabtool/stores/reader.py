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
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.batch import Document, Kind
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import NotFound
from vocabtool.index.contents import DocumentsChanged
from vocabtool.index.database import text_hash
from vocabtool.index.folder import Manifest
from vocabtool.index.model import CANDIDATES, Canaries, CommitFacts, IndexModel, spread
from vocabtool.index.raw_vectors import prepare
from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.tantivy_index import TERMS_COMPARED, nearest
from vocabtool.search import store
from vocabtool.search.conditions import Where
from vocabtool.search.fusion import Candidates
from vocabtool.stores import legs
from vocabtool.stores.conditions import sql_of, storable, value_of_column
from vocabtool.stores.database import GONE, Connections, key_of, one_commit, run
from vocabtool.stores.legs import TRUE, Part, Statistics, VectorSql, join
from vocabtool.system.ranking import Near, RankedRows, Rows

if TYPE_CHECKING:
    from psycopg import Connection

SPELLING: Final = 2  # letters by which the length of a similar word may differ

Answers = list[tuple[Any, ...]]
Result = TypeVar("Result")


class PostgresStore(CommitFacts):
    """The newest commit of an index, to search it and to read its documents.

    It has the methods of :class:`~vocabtool.index.generation.Snapshot`, but each call may read a
    newer commit. Threads may share an object.

    - ``n``: the number of the index.
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
        asked = self.manifest.configuration
        self.vector_sql = self._read(lambda given: VectorSql.of(given, n, asked))

    @property
    def keywords(self) -> PostgresStore:
        return self  # no reference to itself, which would keep its connections for long

    vectors = documents = keywords

    def _ask(self, *parts: Part, settings: Sequence[str] = ()) -> list[Answers]:
        """Run statements in one round trip; return the rows of each statement.

        ``settings``: for SET LOCAL, such as ``name = value``.
        """

        def work(connection: Connection) -> list[Answers]:
            if len(parts) == 1 and not settings:
                (only,) = parts
                return [run(connection, only.text, *only.values, binary=True).fetchall()]
            with connection.pipeline(), connection.transaction():
                for setting in settings:
                    run(connection, f"SET LOCAL {setting}")
                cursors = [run(connection, part.text, *part.values, binary=True) for part in parts]
            return [cursor.fetchall() for cursor in cursors]

        return self._read(work)

    def _read(self, work: Callable[[Connection], Result]) -> Result:
        own = self._connection
        return self.connections.read(work) if own is None else work(own)

    def refresh(self) -> None:
        """Read the manifest of the newest commit. Raises :class:`NotFound` if it was removed."""
        self.manifest = self._read(lambda given: self.connections.read_manifest(given, self.n))

    @contextmanager
    def at_one_commit(self) -> Iterator[PostgresStore]:
        with self.connections.connected() as connection, one_commit(connection):
            own = (self.connections, self.n, self.model, self.cutter)
            yield PostgresStore(*own, connection=connection)

    def canaries(self) -> Canaries:
        return self._read(lambda given: canaries_of(given, self.n, self.manifest))

    # What is known of the commit

    @property
    def rows(self) -> int:
        return self.manifest.rows

    def document_frequencies(self, terms: Iterable[Term]) -> dict[Term, int]:
        return self.statistics(terms, ())[0]

    def statistics(
        self, terms: Iterable[Term], joined: Sequence[store.JoinedWord]
    ) -> tuple[dict[Term, int], Mapping[store.JoinedWord, float]]:
        statistics, bests = self._read_statistics([*dict.fromkeys(terms)], joined)
        frequencies = {term: count for term, (_, count) in statistics.frequencies.items()}
        return frequencies, dict(zip(joined, bests, strict=True))

    def _read_statistics(
        self, terms: Sequence[Term], joined: Sequence[store.JoinedWord]
    ) -> tuple[Statistics, list[float]]:
        """Read the manifest and the statistics of ``terms`` in one statement.

        The second result has the score of each of ``joined``.
        """
        bests = [part for word in joined for part in (", ", legs.best_of_parts(self.n, word))]
        (found,) = self._ask(
            join(
                f"WITH t AS (SELECT record, documents, words FROM indexes WHERE number = {self.n}),"
                " b AS MATERIALIZED (SELECT ARRAY[NULL",
                *bests,
                "]::float8[] AS scores FROM t) SELECT t.record, b.scores,"
                " w.place, w.term, w.documents FROM b, t LEFT JOIN (",
                *(legs.find_terms(self.n, terms), ") w ON TRUE"),
            )
        )
        if not found:
            raise NotFound(f"{self.connections.where}: {GONE}")
        frequencies = dict.fromkeys(terms, (0, 0))
        for *_, place, number, count in found:
            if place is not None:
                frequencies[terms[place - 1]] = (number, count)
        record, (_, *scores), *_ = found[0]
        statistics = Statistics(Manifest.decode(bytes(record)), frequencies)
        self.manifest = statistics.manifest
        self._thread.statistics = statistics  # for the legs of the same search
        return statistics, scores

    def _statistics_of(self, clauses: Iterable[Clause]) -> Statistics:
        terms = dict.fromkeys(term for clause in clauses for term in clause.terms)
        held: Statistics | None = getattr(self._thread, "statistics", None)
        if held is not None and held.frequencies.keys() >= terms.keys():
            return held
        return self._read_statistics([*terms], ())[0]

    # What may be found

    def select(self, asked: Sequence[store.Asked], without: int | None = None) -> Part:
        selected = TRUE
        for each in asked:
            selected &= legs.select_part(self.n, each, self._compile)
        return selected if without is None else selected & Part("d.doc <> %s", (without,))

    def _compile(self, condition: Where) -> Part:
        def fetch(statement: str, values: Sequence[object]) -> Answers:
            return self._ask(Part(statement, tuple(values)))[0]

        text, values = sql_of(condition, self.fields, f"documents_{self.n:d}", fetch)
        return Part(text, tuple(values))

    def is_empty(self, selection: Part) -> bool:
        (((is_there,),),) = self._ask(join("SELECT EXISTS (", self._docs(selection), ")"))
        return not is_there

    def in_order(self, selection: Part, column: str = "d.id") -> Rows:
        (found,) = self._ask(join(self._docs(selection), f" ORDER BY {column}"))
        return np.array([doc for (doc,) in found], np.int64)

    def only(self, rows: Rows) -> Part:
        return Part("d.doc = ANY(%s)", (rows.tolist(),))

    def _docs(self, selection: Part, columns: str = "") -> Part:
        return join(f"SELECT d.doc{columns} FROM documents_{self.n} d WHERE ", selection)

    def _inside(self, selection: Part) -> Part:
        return TRUE if selection == TRUE else join("doc IN (", self._docs(selection), ")")

    # The legs

    def legs(
        self, query: store.LegQuery, vector: Vectors | None, limit: int, among: Part
    ) -> tuple[Candidates, NDArray[np.int8]]:
        """Return candidates and tiers, in one round trip; see :meth:`MaskStore.legs`."""
        asked = (query.should, query.codes, query.unstemmed)
        statistics, effort = self._statistics_of(chain(*asked)), self._effort()
        clauses = legs.weigh(statistics, *asked) if query.should else []
        every = join("SELECT * FROM (", legs.totals(self.n, statistics, clauses), ") s WHERE ")
        near = Part("SELECT NULL::bigint AS doc, NULL::float4 AS similarity WHERE FALSE")
        similarity = Part("NULL")
        if vector is not None:
            text = legs.as_text(prepare(vector, self.vector_sql.metric))
            near = self.vector_sql.near(text, limit, among, effort, self.rows)
            similarity = self.vector_sql.similarity(text)
        statement = legs.both_legs(
            self.n,
            join(every, self._inside(among)),
            near,
            similarity,
            limit,
            has_codes=any(clause.code is not None for clause in clauses),
        )
        settings = self.vector_sql.settings(effort, limit) if vector is not None else []
        (found,) = self._ask(statement, settings=settings)
        columns: list[tuple[Any, ...]] = [*zip(*found, strict=True)] or [()] * 8
        docs = np.array(columns[0], np.int64)
        self._thread.ids = dict(zip(columns[0], columns[1], strict=True))
        bm25 = np.array([score or 0.0 for score in columns[2]], np.float32)
        similar = self._in_range(np.array(columns[3], np.float32))  # NaN for null
        is_near = np.array(columns[7], np.bool_)
        is_keyword = np.array([listed is not None for listed in columns[6]], np.bool_)
        is_listed = np.array([bool(listed) for listed in columns[6]], np.bool_)
        nearest_ones = RankedRows.of(docs[is_near], similar[is_near], limit)
        order = np.lexsort((docs, -bm25, ~is_listed))
        order = order[is_keyword[order]]
        words = RankedRows(docs[order], bm25[order])
        listed = int(np.count_nonzero(is_listed))
        candidates = Candidates.union(Near(nearest_ones, similar[order]), words, listed)
        tiers = np.array([code is not None for code in columns[4]], np.int8)
        if query.unstemmed and tiers.any():
            tiers += np.array([bool(exact) for exact in columns[5]], np.int8)
        return candidates, tiers[docs.searchsorted(candidates.rows)]

    def _in_range(self, similar: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.clip(similar, -1, 1) if self.vector_sql.metric == "cosine" else similar

    def search_each(
        self, queries: Sequence[KeywordQuery], limit: int, among: Part
    ) -> list[RankedRows]:
        statistics = self._statistics_of(clause for query in queries for clause in query.should)
        statements = []
        for query in queries:
            totals = legs.totals(self.n, statistics, legs.weigh(statistics, query.should))
            best = f" ORDER BY score DESC, doc LIMIT {limit:d}"
            inside = self._inside(among)
            statements.append(join("SELECT doc, score FROM (", totals, ") s WHERE ", inside, best))
        return [_rank(answer, limit) for answer in (self._ask(*statements) if statements else ())]

    def near_spellings(self, word: str, limit: int) -> list[str]:
        """Return stems with a similar spelling, most similar first. ``word``: a folded stem."""
        statement = (
            f"SELECT text, documents FROM terms_{self.n} WHERE field = 'w' AND documents > 0"
            " AND text ^@ %s AND char_length(text) BETWEEN %s AND %s ORDER BY 2 DESC, 1 LIMIT %s"
        )
        lengths = len(word) - SPELLING, len(word) + SPELLING
        initials = [initial for initial in dict.fromkeys(word[:2]) if initial != "\0"]
        asked = [Part(statement, (initial, *lengths, TERMS_COMPARED)) for initial in initials]
        found = self._ask(*asked) if asked else []
        return nearest(word, dict(pair for answer in found for pair in answer), limit)

    def near(self, vector: Vectors, rows: Rows, limit: int, among: Part) -> Near:
        """Return the nearest documents. Similarities of ``rows`` are unknown: see :meth:`legs`."""
        query, effort = prepare(vector, self.vector_sql.metric), self._effort()
        unknown = np.full(len(rows), np.nan, np.float32)
        if limit < 1 or not np.count_nonzero(query):
            return Near(RankedRows.none(), unknown)
        (found,) = self._ask(
            self.vector_sql.near(legs.as_text(query), limit, among, effort, self.rows),
            settings=self.vector_sql.settings(effort, limit),
        )
        ranked = _rank(found, limit)
        return Near(RankedRows(ranked.rows, self._in_range(ranked.scores)), unknown)

    def take(self, rows: Rows) -> Vectors:
        # ``None`` for a document without a vector
        sent = self._by_row(rows, ", vector_send(vector::vector)")
        return legs.from_bytes([vector for (vector,) in sent], self.vector_sql.dim)

    def _effort(self) -> int | None:
        """The ``hnsw.ef_search`` of searches; ``None`` if they compare all documents."""
        codes, most = self.manifest.codes, self.manifest.configuration.exact_below
        return None if codes is None or self.rows <= most else codes.candidates

    # Documents

    def _by_row(self, rows: Rows, columns: str) -> list[tuple[Any, ...]]:
        """Return the values of columns of each row.

        Raises :class:`DocumentsChanged` if a document was deleted meanwhile.
        """
        (found,) = self._ask(self._docs(self.only(rows), columns))
        values = {row: tuple(rest) for row, *rest in found}
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
        kept: dict[int, str] = getattr(self._thread, "ids", {})
        if all(row in kept for row in rows.tolist()):
            return [kept[row] for row in rows.tolist()]
        return [id_ for (id_,) in self._by_row(rows, ", d.id")]

    def fetch_documents(self, rows: Rows) -> list[Document]:
        """Return documents. Fields that are null are left out.

        Raises :class:`DocumentsChanged` if a document was deleted meanwhile.
        """
        fields = columns_of_fields(self.fields)
        columns = ", ".join(("d.id", "d.text", *fields.values()))
        documents = []
        for id_, text, *values in self._by_row(rows, f", {columns}"):
            named = zip(fields, map(value_of_column, values), strict=True)
            held = {name: value for name, value in named if value is not None}
            documents.append(Document(id_, text, held))
        return documents

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the row of each id that exists. Ids must be valid UTF-8."""
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
        key = Part("d.key = ANY(%s)", ([*by_key],))
        (found,) = self._ask(self._docs(key, f", d.key{columns}"))
        return {by_key[key]: (row, values) for row, key, *values in found}

    def rows_of_texts(self, texts: Sequence[bytes]) -> Rows:
        statement = (
            "SELECT given.place, max(d.doc) FROM unnest(%s::bigint[], %s::text[]) WITH ORDINALITY"
            f" AS given(hash, text, place) JOIN documents_{self.n} d ON d.text_hash = given.hash"
            " AND d.text = given.text AND d.source > 0 GROUP BY given.place"
        )
        stored = [storable(text.decode("utf-8", "replace")) for text in texts]
        hashes = [text_hash(text.encode()) for text in stored]
        (found,) = self._ask(Part(statement, (hashes, stored)))
        rows = np.full(len(texts), -1, np.int64)
        for place, doc in found:
            rows[place - 1] = doc
        return rows

    # Values of fields

    def value_ranks(self, name: str, rows: Rows) -> NDArray[np.int64]:
        """Return the rank of each row's value among the values of all ``rows``, or -1 for null."""
        column = columns_of_fields(self.fields).get(name)
        if column is None:
            return np.full(len(rows), -1, np.int64)
        ranked = f", dense_rank() OVER (ORDER BY {column}) - 1"
        there = join(f"{column} IS NOT NULL AND ", self.only(rows))
        (found,) = self._ask(self._docs(there, ranked))
        ranks: dict[int, int] = dict(found)
        return np.array([ranks.get(row, -1) for row in rows.tolist()], np.int64)

    def count_values(
        self, names: Sequence[str], terms: Sequence[Term], among: Part, limit: int
    ) -> dict[str, store.ValueCounts]:
        """Count the values of fields in one round trip. List elements are counted in Python."""
        if terms:
            holding = tuple(Clause((term,)) for term in terms)
            among = among & legs.select_part(
                self.n, store.Combination("any", holding), self._compile
            )
        columns = columns_of_fields(self.fields)
        counted = [name for name in dict.fromkeys(names) if name in columns]
        statements = []
        for name in counted:
            fewer = f"{limit:d}"
            if self.fields[name] == "string":  # a list has several values
                fewer = f"CASE WHEN NOT EXISTS (SELECT FROM g WHERE v ^@ '[') THEN {fewer} END"
            statements.append(
                join(
                    f"WITH g AS MATERIALIZED (SELECT {columns[name]} AS v, count(*) AS c"
                    f" FROM documents_{self.n} d WHERE {columns[name]} IS NOT NULL AND ",
                    *(among, " GROUP BY 1) SELECT v, c, (SELECT count(*) FROM g) FROM g"),
                    f" ORDER BY c DESC, v LIMIT {fewer}",
                )
            )
        answers = self._ask(*statements) if statements else []
        found = dict.fromkeys(names, store.ValueCounts((), 0))
        for name, answer in zip(counted, answers, strict=True):
            values: list[Any] = [value_of_column(value) for value, *_ in answer]
            counts = [count for _, count, _ in answer]
            if not any(isinstance(value, str) and value.startswith("[") for value in values):
                best = map(store.ValueCount, values, counts)
                found[name] = store.ValueCounts((*best,)[:limit], answer[0][2] if answer else 0)
                continue
            order = sorted(range(len(values)), key=values.__getitem__)
            codes, ordered = np.arange(len(values)), [values[at] for at in order]
            elements = store.FieldColumn.of(codes.astype(np.int32), ordered, self.fields[name])
            found[name] = elements.count(np.repeat(codes, [counts[at] for at in order]), limit)
        return found

    def value_facts(self, name: str, limit: int) -> tuple[int, store.ValueCounts]:
        column = columns_of_fields(self.fields).get(name)
        if column is None:
            return 0, store.ValueCounts((), 0)
        counts = f"{column}, count(*) AS n, sum(count(*)) OVER ()::bigint, count(*) OVER ()"
        of_documents = f"FROM documents_{self.n} d WHERE {column} IS NOT NULL"
        order = f"GROUP BY 1 ORDER BY n DESC, 1 LIMIT {limit:d}"
        (found,) = self._ask(Part(f"SELECT {counts} {of_documents} {order}"))
        documents, distinct = found[0][2:] if found else (0, 0)
        values: Any = [(value_of_column(value), count) for value, count, *_ in found if count > 1]
        return documents, store.ValueCounts((*starmap(store.ValueCount, values),), distinct)


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
        f" doc >= wanted AND {of_model} ORDER BY doc LIMIT 1) AS held ORDER BY doc"
    )
    found = run(connection, statement, wanted, binary=True).fetchall()
    vectors = legs.from_bytes([sent for *_, sent in found], manifest.configuration.dim)
    return Canaries([id_ for _, id_, *_ in found], [text for *_, text, _ in found], vectors)


def _rank(found: Answers, limit: int) -> RankedRows:
    rows = np.array([row for row, _ in found], np.int64)
    # A document with none but terms that add nothing.
    scores = np.array([score or 0.0 for _, score in found], np.float32)
    return RankedRows.of(rows, scores, limit)
