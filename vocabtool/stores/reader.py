"""Read an index in PostgreSQL.

A search sees the newest commit, in two round trips to the server. The first reads the statistics
for BM25, such as the number of documents that have a term. The second runs both legs, and reads the
best documents of each. Long or many hits are read by a third.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.batch import Document, Kind
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import NotFound
from vocabtool.index.contents import DocumentsChanged
from vocabtool.index.database import text_hash
from vocabtool.index.folder import Manifest
from vocabtool.index.model import CANDIDATES, Canaries, IndexModel, spread
from vocabtool.index.raw_vectors import prepare
from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.tantivy_index import TERMS_COMPARED, nearest
from vocabtool.search.conditions import Where
from vocabtool.search.fusion import Candidates
from vocabtool.search.store import (
    Asked,
    Combination,
    FieldColumn,
    FieldValue,
    JoinedWord,
    KnownWords,
    LegQuery,
    ValueCount,
    ValueCounts,
)
from vocabtool.stores.conditions import sql_of, storable, value_of_column
from vocabtool.stores.database import (
    WAIT_SECONDS,
    Connections,
    Tables,
    key_of,
    one_commit,
)
from vocabtool.stores.keywords import (
    TRUE,
    Part,
    Statistics,
    best_of_parts,
    find_terms,
    query_terms,
    select_part,
    totals,
    weigh,
)
from vocabtool.stores.vectors import FACTS, VectorFacts, VectorSql, as_text, from_bytes
from vocabtool.system.ranking import Near, RankedRows, Rows

if TYPE_CHECKING:
    from typing import LiteralString

    from psycopg import Connection

AHEAD: Final = 100  # documents of each leg; no hit of a first page of ten was beyond
MAX_AHEAD_BYTES: Final = 1 << 15  # of a document as it is stored, which may be compressed
KEPT_IDS: Final = 1 << 16  # ids of documents that are kept
SPELLING: Final = 2  # letters by which the length of a similar word may differ


Answers = list[tuple[Any, ...]]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class State:
    """The facts read from one commit.

    ``frequencies``: for each term that was asked for, its number and its document frequency.
    """

    manifest: Manifest
    facts: VectorFacts | None
    frequencies: dict[Term, tuple[int, int]]

    @property
    def statistics(self) -> Statistics:
        return Statistics(self.manifest.rows, self.manifest.words, self.frequencies)


@dataclass(frozen=True, slots=True)
class DocumentColumns:
    """The columns that have the text and the fields of a document.

    - ``names``: the columns in SQL, the text first.
    - ``fields``: the names of the fields, in the same order.
    """

    names: Sequence[str]
    fields: Sequence[str]

    @classmethod
    def of(cls, fields: Mapping[str, Kind]) -> DocumentColumns:
        kept = {f"d.field_{at}": name for at, name in enumerate(fields) if fields[name] != "null"}
        return cls(["d.text", *kept], [*kept.values()])

    def document(self, id_: str, text: str, *values: Any) -> Document:
        """Make a document from its id, its text and the values of its other columns."""
        named = zip(self.fields, map(value_of_column, values), strict=True)
        return Document(id_, text, {name: value for name, value in named if value is not None})


class PostgresStore:
    """The newest commit of an index, to search it and to read its documents.

    It has the methods of :class:`~vocabtool.index.generation.Snapshot`, but each call may read a
    newer commit. Threads may share an object. ``connection``: runs all statements. Its transaction
    must see only one commit. Default: the connections of the pool run the statements.
    """

    number = 0  # there are no generations
    live = TRUE

    def __init__(
        self,
        connections: Connections,
        tables: Tables,
        model: IndexModel,
        cutter: Cutter,
        *,
        connection: Connection | None = None,
    ) -> None:
        self.connections, self.tables, self._connection = connections, tables, connection
        self.model, self.cutter = model, cutter
        self._ids: dict[int, str] = {}
        self._settings: WeakKeyDictionary[Any, Sequence[str]] = WeakKeyDictionary()
        self._thread = threading.local()
        self.refresh()
        held = self._state.manifest.configuration
        self.vector_sql = self._read(lambda given: VectorSql.of(given, tables, held))

    @property
    def keywords(self) -> PostgresStore:
        return self  # no reference to itself, which would keep its connections for long

    vectors = documents = keywords

    def _ask(self, *parts: Part, settings: Sequence[str] = ()) -> list[Answers]:
        """Run statements in one round trip; return the rows of each statement.

        ``settings``: the settings for SET, such as ``name = value``. They are skipped if the
        connection has them already.
        """

        def work(connection: Any) -> list[Answers]:
            if settings and self._settings.get(connection) != settings:
                for each in settings:
                    connection.execute(f"SET {each}".encode())
                self._settings[connection] = settings
            if len(parts) == 1:
                (only,) = parts
                found = connection.execute(only.text, only.values, binary=True)
                return [found.fetchall()]
            with connection.pipeline(), connection.transaction():
                cursors = [
                    connection.execute(each.text, each.values or None, binary=bool(each.values))
                    for each in parts
                ]
            return [each.fetchall() if each.description else [] for each in cursors]

        return self._read(work)

    def _read(self, work: Callable[[Connection], Result]) -> Result:
        held = self._connection
        return self.connections.read(work) if held is None else work(held)

    @contextmanager
    def at_one_commit(self) -> Iterator[PostgresStore]:
        connections = self.connections
        with connections.connected(WAIT_SECONDS) as connection, one_commit(connection):
            own = (connections, self.tables, self.model, self.cutter)
            yield PostgresStore(*own, connection=connection)

    def canaries(self) -> Canaries:
        return self._read(lambda given: canaries_of(given, self.tables, self.manifest))

    # What is known of the commit

    @property
    def manifest(self) -> Manifest:
        return self._state.manifest

    @property
    def version(self) -> tuple[str, int]:
        return self.manifest.index, self.manifest.commit

    @property
    def rows(self) -> int:
        return self.manifest.rows

    @property
    def fields(self) -> Mapping[str, Kind]:
        return self.manifest.fields

    @property
    def searched_fields(self) -> tuple[str, ...]:
        return self.manifest.searched_fields

    @property
    def known_words(self) -> KnownWords | None:
        return self.model.known_words

    @property
    def mean_lengths(self) -> tuple[float, float]:
        rows = max(self.rows, 1)
        return self.manifest.words / rows, self.manifest.surfaces / rows

    @property
    def vector_facts(self) -> VectorFacts | None:
        return self._state.facts

    def refresh(self) -> None:
        """Read the facts of the newest commit."""
        self._read_state((), ())

    def document_frequencies(self, terms: Iterable[Term]) -> dict[Term, int]:
        return self.statistics(terms, ())[0]

    def statistics(
        self, terms: Iterable[Term], joined: Sequence[JoinedWord]
    ) -> tuple[dict[Term, int], Mapping[JoinedWord, float]]:
        state, bests = self._read_state([*dict.fromkeys(terms)], joined)
        self._thread.state = state  # for the legs of the same search
        frequencies = {term: count for term, (_, count) in state.frequencies.items()}
        return frequencies, dict(zip(joined, bests, strict=True))

    def _read_state(
        self, terms: Sequence[Term], joined: Sequence[JoinedWord]
    ) -> tuple[State, list[float]]:
        """Read the manifest and the statistics of ``terms`` in one statement.

        The second result has the score of each of ``joined``.
        """
        n = self.tables.number
        statement = Part(
            f"WITH t AS (SELECT record, documents, words FROM indexes WHERE number = {n:d}),"
            " b AS MATERIALIZED (SELECT ARRAY["
        )
        among = self._inside(TRUE, "p.doc")
        for at, each in enumerate(joined):
            statement = statement.then(", " * (at > 0), best_of_parts(self.tables, each, among))
        rest = (
            "]::float8[] AS scores FROM t)"
            f" SELECT t.record, (SELECT value FROM facts_{n} WHERE name = %s), b.scores,"
            " w.place, w.term, w.documents FROM b, t LEFT JOIN ("
        )
        statement = statement.then(Part(rest, (FACTS,)), find_terms(self.tables, terms))
        (found,) = self._ask(statement.then(") w ON TRUE"))
        if not found:
            raise NotFound(f"{self.connections.where}: the index was removed: open it again")
        record, facts, scores, *_ = found[0]
        manifest = Manifest.decode(bytes(record))
        frequencies = dict.fromkeys(terms, (0, 0))
        for *_, place, number, count in found:
            if place is not None:
                frequencies[terms[place - 1]] = (number, count)
        kept = VectorFacts.decode(bytes(facts)) if facts is not None else None
        self._state = State(manifest, kept, frequencies)
        return self._state, scores

    # What may be found

    def select(self, asked: Sequence[Asked], without: int | None = None) -> Part:
        selected = TRUE
        for each in asked:
            where = {condition: self._compile(condition) for condition in _conditions(each)}
            selected &= select_part(self.tables, each, where)
        return selected if without is None else selected & Part("d.doc <> %s", (without,))

    def _compile(self, condition: Where) -> Part:
        def fetch(statement: str, values: Sequence[object]) -> Answers:
            return self._ask(Part(statement, tuple(values)))[0]

        text, values = sql_of(condition, self.fields, f"documents_{self.tables.number:d}", fetch)
        return Part(text, tuple(values))

    def is_empty(self, selection: Part) -> bool:
        (((found,),),) = self._ask(Part("SELECT EXISTS (").then(self._docs(selection), ")"))
        return not found

    def in_order(self, selection: Part) -> Rows:
        (found,) = self._ask(self._docs(selection).then(" ORDER BY d.id"))
        return np.array([doc for (doc,) in found], np.int64)

    def _docs(self, selection: Part) -> Part:
        start = f"SELECT d.doc FROM documents_{self.tables.number:d} d WHERE "
        return Part(start).then(selection)

    def _inside(self, selection: Part, name: str = "doc") -> Part:
        if selection == TRUE:
            return TRUE
        return Part(f"{name} IN (").then(self._docs(selection), ")")

    # The legs

    def legs(
        self, query: LegQuery, vector: Vectors | None, limit: int, among: Part
    ) -> tuple[Candidates, NDArray[np.int8]]:
        """Return candidates and tiers, in one round trip; see :meth:`MaskStore.legs`.

        The best documents of each leg are fetched, too, unless they are long.
        """
        terms, state = query_terms(query), vars(self._thread).pop("state", None)
        if state is None or not state.frequencies.keys() >= {*terms}:
            state, _ = self._read_state(terms, ())
        statistics = state.statistics
        clauses = weigh(statistics, query.should, codes=query.codes, unstemmed=query.unstemmed)
        if not query.should:
            clauses = []
        columns = DocumentColumns.of(state.manifest.fields)
        statement = self._legs_statement(statistics, clauses, vector, limit, among, columns)
        settings = self.vector_sql.settings(self._facts(), limit) if vector is not None else []
        (found,) = self._ask(statement, settings=settings)
        documents = {
            each[0]: columns.document(each[1], *each[9:]) for each in found if each[9] is not None
        }
        docs = np.array([each[0] for each in found], np.int64)
        self._keep_ids(docs.tolist(), [each[1] for each in found])
        scores, similarities, codes, exact, ranks, near, held = (
            [each[at] for each in found] for at in range(2, 9)
        )
        keyword = np.array([rank is not None for rank in ranks], np.bool_)
        bm25 = np.array([score or 0.0 for score in scores], np.float32)
        similar = np.array([np.nan if s is None else s for s in similarities], np.float32)
        if self.manifest.configuration.metric == "cosine":
            similar = np.clip(similar, -1, 1)
        is_near = np.array(near, np.bool_)
        nearest_ones = RankedRows.of(docs[is_near], similar[is_near], limit)
        listed = np.array([bool(rank) for rank in ranks], np.bool_)
        by_score = RankedRows.of(docs[listed], bm25[listed], limit)
        more = RankedRows.of(docs[keyword & ~listed], bm25[keyword & ~listed], len(docs))
        words = RankedRows(
            np.concatenate((by_score.rows, more.rows)),
            np.concatenate((by_score.scores, more.scores)),
        )
        ascending = docs.argsort()
        at = ascending[docs[ascending].searchsorted(words.rows)] if len(docs) else words.rows
        candidates = Candidates.union(Near(nearest_ones, similar[at]), words, len(by_score.rows))
        candidates = replace(candidates, documents=documents)
        tiers = np.zeros(len(docs), np.int8)
        if found and held[0]:
            tiers += np.array([code is not None for code in codes], np.int8)
            if query.unstemmed:
                tiers += np.array([bool(each) for each in exact], np.int8)
        order = ascending[docs[ascending].searchsorted(candidates.rows)] if len(docs) else ascending
        return candidates, tiers[order]

    def _legs_statement(
        self,
        statistics: Statistics,
        clauses: Sequence[Any],
        vector: Vectors | None,
        limit: int,
        among: Part,
        columns: DocumentColumns,
    ) -> Part:
        """Return a statement that selects a row for each candidate.

        Its columns: ``doc``, ``id``, ``score``, ``similarity``, ``code``,
        ``exact``, and then:

        - true if the candidate is among the best of the keyword leg; false if it is in this leg
          only because it contains an identifier; null if it is not in this leg
        - whether the candidate is in the vector leg
        - whether any document has a code
        - ``columns``; null except for the best documents of each leg
        """
        n = self.tables.number
        none = "SELECT NULL::bigint AS doc, NULL::float4 AS score, NULL::float4 AS code, FALSE"
        scored = (
            totals(self.tables, statistics, clauses)
            if clauses
            else Part(f"{none} AS exact WHERE FALSE")
        )
        every = Part("SELECT * FROM (").then(scored, ") s WHERE ", self._inside(among))
        near = Part("SELECT NULL::bigint AS doc, NULL::float4 AS similarity WHERE FALSE")
        similarity = Part("NULL::float4")
        if vector is not None:
            text = as_text(prepare(vector, self.manifest.configuration.metric))
            near = self.vector_sql.near(text, limit, among, self._facts(), self.rows)
            similarity = Part("coalesce(n.similarity, CASE WHEN d.vector IS NOT NULL THEN ")
            similarity = similarity.then(self.vector_sql.similarity(text), "::float4 END)")
        best = "FROM every WHERE {0} IS NOT NULL ORDER BY {0} DESC, doc LIMIT %s"
        ranked = Part(f"SELECT doc, TRUE AS listed, score {best.format('score')}", (limit,))
        words = Part("SELECT doc, listed FROM ranked")
        if any(each.code is not None for each in clauses):
            more = (
                " UNION ALL SELECT doc, FALSE FROM every WHERE score IS NOT NULL"
                f" AND doc IN (SELECT doc {best.format('code')})"
                " AND doc NOT IN (SELECT doc FROM ranked)"
            )
            words = words.then(Part(more, (limit,)))
        fetched = "".join(f", CASE WHEN f.doc IS NOT NULL THEN {e} END" for e in columns.names)
        return (
            Part("WITH every AS MATERIALIZED (")
            .then(every, "), ranked AS MATERIALIZED (", ranked, ")")
            .then(", words AS (", words, ")")
            .then(", near AS MATERIALIZED (", near, ")")
            .then(", first AS MATERIALIZED (", self._first(columns), ")")
            .then(", candidates AS (SELECT doc FROM words UNION SELECT doc FROM near)")
            .then(" SELECT d.doc, d.id, e.score, ", similarity)
            .then(", e.code, e.exact, w.listed, n.doc IS NOT NULL,")
            .then(" EXISTS (SELECT FROM every WHERE code IS NOT NULL)", fetched)
            .then(f" FROM candidates c JOIN documents_{n} d ON d.doc = c.doc")
            .then(" LEFT JOIN words w ON w.doc = c.doc LEFT JOIN near n ON n.doc = c.doc")
            .then(" LEFT JOIN first f ON f.doc = c.doc LEFT JOIN every e ON e.doc = c.doc")
        )

    def _first(self, columns: DocumentColumns) -> Part:
        """Return a statement that selects the best documents of each leg and tier.

        Documents with long texts or fields are left out.
        """
        n = self.tables.number
        size = " + ".join(f"coalesce(pg_column_size({name}), 0)" for name in columns.names)
        return Part(
            "SELECT f.doc FROM ((SELECT doc FROM ranked ORDER BY score DESC, doc LIMIT %s)"
            " UNION (SELECT doc FROM near ORDER BY similarity DESC, doc LIMIT %s)"
            " UNION (SELECT doc FROM every WHERE code IS NOT NULL"
            " ORDER BY exact DESC, score DESC NULLS LAST, doc LIMIT %s)"
            f") f JOIN documents_{n} d ON d.doc = f.doc WHERE {size} <= {MAX_AHEAD_BYTES:d}",
            (AHEAD, AHEAD, AHEAD),
        )

    def search(self, query: KeywordQuery, limit: int, among: Part) -> RankedRows:
        return self.search_each([query], limit, among)[0]

    def search_each(
        self, queries: Sequence[KeywordQuery], limit: int, among: Part
    ) -> list[RankedRows]:
        terms, state = [term for each in queries for term in query_terms(each)], self._state
        if not state.frequencies.keys() >= {*terms}:
            state, _ = self._read_state([*dict.fromkeys(terms)], ())
        statistics = state.statistics
        found, statements = [RankedRows.none()] * len(queries), dict[int, Part]()
        for place, each in enumerate(queries):
            clauses = weigh(statistics, each.should, must=each.must)
            must = len({clause.terms for clause in each.must})
            if limit < 1 or not clauses or sum(clause.is_must for clause in clauses) < must:
                continue  # it finds nothing
            scored = totals(self.tables, statistics, clauses, must)
            start = Part("SELECT doc, score FROM (").then(scored, ") s WHERE ")
            end = Part(" ORDER BY score DESC, doc LIMIT %s", (limit,))
            statements[place] = start.then(self._inside(among), end)
        answers = self._ask(*statements.values()) if statements else []
        for place, answer in zip(statements, answers, strict=True):
            found[place] = _rank(answer, limit)
        return found

    def near_spellings(self, word: str, limit: int) -> list[str]:
        """Return stems with a similar spelling, most similar first. ``word``: a folded stem."""
        n = self.tables.number
        statement = (
            f"SELECT text, documents FROM terms_{n} WHERE field = 'w' AND documents > 0"
            " AND text ^@ %s AND char_length(text) BETWEEN %s AND %s ORDER BY 2 DESC, 1 LIMIT %s"
        )
        lengths = len(word) - SPELLING, len(word) + SPELLING
        initials = [each for each in dict.fromkeys(word[:2]) if each != "\0"]
        asked = [Part(statement, (each, *lengths, TERMS_COMPARED)) for each in initials]
        found = self._ask(*asked) if asked else []
        return nearest(word, dict(pair for answer in found for pair in answer), limit)

    def near(self, vector: Vectors, rows: Rows, limit: int, among: Part) -> Near:
        query = prepare(vector, self.manifest.configuration.metric)
        if not np.count_nonzero(query):
            return Near(RankedRows.none(), np.full(len(rows), np.nan, np.float32))
        text, n = as_text(query), self.tables.number
        nearest_ones = self.vector_sql.near(text, max(limit, 0), among, self._facts(), self.rows)
        of_rows = Part("SELECT d.doc, ").then(
            self.vector_sql.similarity(text),
            f"::float4 FROM documents_{n} d WHERE d.vector IS NOT NULL AND ",
            self.only(rows),
        )
        settings = self.vector_sql.settings(self._facts(), limit)
        best, others = self._ask(nearest_ones, of_rows, settings=settings)
        held: dict[int, float] = dict(others)
        similar = np.array([held.get(row, np.nan) for row in rows.tolist()], np.float32)
        ranked = _rank(best, limit)
        if self.manifest.configuration.metric == "cosine":
            ranked = RankedRows(ranked.rows, np.clip(ranked.scores, -1, 1))
            similar = np.clip(similar, -1, 1)
        return Near(ranked, similar)

    def take(self, rows: Rows) -> Vectors:
        n = self.tables.number
        statement = f"SELECT doc, vector_send(vector::vector) FROM documents_{n} d WHERE "
        (found,) = self._ask(Part(statement).then(self.only(rows)))
        held: dict[int, bytes] = dict(found)  # ``None`` for a document without a vector
        if gone := [row for row in rows.tolist() if row not in held]:
            raise self._change_error(gone[0])
        return from_bytes([held[row] for row in rows.tolist()], self.vector_sql.dim)

    def _facts(self) -> VectorFacts | None:
        held = self._state
        is_small = held.manifest.rows <= held.manifest.configuration.exact_below
        return None if is_small else held.facts

    # Documents

    def rows_in_order(self, where: str | None = None) -> Rows:
        selection = TRUE if where is None else self.select([Where.of(where)])
        (found,) = self._ask(self._docs(selection).then(" ORDER BY d.doc"))
        return np.array([doc for (doc,) in found], np.int64)

    def only(self, rows: Rows) -> Part:
        return Part("d.doc = ANY(%s)", (rows.tolist(),))

    def ids(self, rows: Rows) -> list[str]:
        """Return the ids of rows. The ids of a search's candidates are read from memory."""
        wanted = rows.tolist()
        kept = self._ids
        if any(row not in kept for row in wanted):
            statement = f"SELECT doc, id FROM documents_{self.tables.number:d} d WHERE "
            (found,) = self._ask(Part(statement).then(self.only(rows)))
            kept = dict(found)
            self._keep_ids([*kept], [*kept.values()])
        try:
            return [kept[row] for row in wanted]
        except KeyError as error:
            raise self._change_error(error.args[0]) from None

    def _keep_ids(self, docs: Sequence[int], ids: Sequence[str]) -> None:
        # Another thread may still read the old dictionary, so it is replaced, never cleared.
        if len(self._ids) + len(docs) > KEPT_IDS:
            self._ids = {}
        self._ids.update(zip(docs, ids, strict=True))

    def fetch_documents(self, rows: Rows) -> list[Document]:
        """Return documents. Fields that are null are left out.

        Raises :class:`DocumentsChanged` if a document was deleted meanwhile.
        """
        columns, n = DocumentColumns.of(self.fields), self.tables.number
        names = ", ".join(columns.names)
        statement = f"SELECT d.doc, d.id, {names} FROM documents_{n} d WHERE "
        (found,) = self._ask(Part(statement).then(self.only(rows)))
        held = {row: columns.document(*each) for row, *each in found}
        try:
            return [held[row] for row in rows.tolist()]
        except KeyError as error:
            raise self._change_error(error.args[0]) from None

    def _change_error(self, row: int) -> DocumentsChanged:
        where = self.connections.where
        return DocumentsChanged(f"{where}: document {row:,} was deleted meanwhile: search again")

    def row_of(self, id_: str) -> int | None:
        return self.rows_of([id_]).get(id_)

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        by_key = {key_of(id_): id_ for id_ in ids}
        statement = f"SELECT key, doc FROM documents_{self.tables.number:d} WHERE key = ANY(%s)"
        (found,) = self._ask(Part(statement, ([*by_key],)))
        return {by_key[key]: doc for key, doc in found}

    def fetch_stored(self, ids: Sequence[str]) -> dict[str, tuple[int, list[Any]]]:
        by_key = {key_of(id_): id_ for id_ in ids}
        kinds = enumerate(self.fields.values())
        columns = "".join(", NULL" if kind == "null" else f", field_{at}" for at, kind in kinds)
        statement = f"SELECT key, doc, text{columns} FROM documents_{self.tables.number:d}"
        (found,) = self._ask(Part(f"{statement} WHERE key = ANY(%s)", ([*by_key],)))
        return {
            by_key[key]: (row, [text, *map(value_of_column, values)])
            for key, row, text, *values in found
        }

    def rows_of_texts(self, texts: Sequence[bytes]) -> Rows:
        n = self.tables.number
        statement = (
            "SELECT given.place, max(d.doc) FROM unnest(%s::bigint[], %s::text[]) WITH ORDINALITY"
            f" AS given(hash, text, place) JOIN documents_{n} d ON d.text_hash = given.hash"
            " AND d.text = given.text AND d.source > 0 GROUP BY given.place"
        )
        held = [*map(storable, texts)]
        hashes = [text_hash(text.encode()) for text in held]
        (found,) = self._ask(Part(statement, (hashes, held)))
        rows = np.full(len(texts), -1, np.int64)
        for place, doc in found:
            rows[place - 1] = doc
        return rows

    # Values of fields

    def value_ranks(self, name: str, rows: Rows) -> NDArray[np.int64]:
        """Return the rank of each row's value among the values of all ``rows``, or -1 for null."""
        found = np.full(len(rows), -1, np.int64)
        if self.fields[name] == "null":
            return found
        column = f"field_{[*self.fields].index(name)}"
        statement = (
            f"SELECT doc, dense_rank() OVER (ORDER BY {column}) - 1"
            f" FROM documents_{self.tables.number:d} d WHERE {column} IS NOT NULL AND "
        )
        (ranks,) = self._ask(Part(statement).then(self.only(rows)))
        held: dict[int, int] = dict(ranks)
        return np.array([held.get(row, -1) for row in rows.tolist()], np.int64)

    def count_values(
        self, names: Sequence[str], terms: Sequence[Term], among: Part, limit: int
    ) -> dict[str, ValueCounts]:
        """Count the values of fields in one round trip. List elements are counted in Python."""
        if terms:
            holding = tuple(Clause((term,)) for term in terms)
            among = among & select_part(self.tables, Combination("any", holding), {})
        n, places = self.tables.number, [*self.fields]
        counted = [name for name in names if self.fields[name] != "null"]
        statements = []
        for name in counted:
            column = f"field_{places.index(name)}"
            grouped = Part(
                f"WITH g AS MATERIALIZED (SELECT {column} AS v, count(*) AS c"
                f" FROM documents_{n} d WHERE {column} IS NOT NULL AND "
            ).then(among, " GROUP BY 1)")
            is_list = "EXISTS (SELECT FROM g WHERE v ^@ '[')"
            fewer = (
                "%s" if self.fields[name] != "string" else f"CASE WHEN NOT {is_list} THEN %s END"
            )
            best = f" SELECT v, c, (SELECT count(*) FROM g) FROM g ORDER BY c DESC, v LIMIT {fewer}"
            statements.append(grouped.then(Part(best, (limit,))))
        answers = self._ask(*statements) if statements else []
        found = dict.fromkeys(names, ValueCounts((), 0))
        for name, answer in zip(counted, answers, strict=True):
            values: list[Any] = [value_of_column(value) for value, *_ in answer]
            counts = [count for _, count, _ in answer]
            if not any(isinstance(value, str) and value.startswith("[") for value in values):
                best_values = map(ValueCount, values[:limit], counts[:limit])
                found[name] = ValueCounts((*best_values,), answer[0][2] if answer else 0)
                continue
            order = sorted(range(len(values)), key=values.__getitem__)
            codes, ordered = np.arange(len(values)), [values[at] for at in order]
            parts = FieldColumn.of(codes.astype(np.int32), ordered, self.fields[name])
            found[name] = parts.count(np.repeat(codes, [counts[at] for at in order]), limit)
        return found

    def value_facts(self, name: str, limit: int) -> tuple[int, ValueCounts]:
        kind = self.fields[name]
        if kind == "null":
            return 0, ValueCounts((), 0)
        at = [*self.fields].index(name)
        counts = (
            f"SELECT field_{at} AS value, count(*) AS n FROM documents_{self.tables.number}"
            f" WHERE field_{at} IS NOT NULL GROUP BY 1"
        )
        totals, frequent = self._ask(
            Part(f"SELECT coalesce(sum(n), 0)::bigint, count(*) FROM ({counts}) c"),
            Part(
                f"SELECT value, n FROM ({counts}) c WHERE n > 1 ORDER BY n DESC, value LIMIT %s",
                (limit,),
            ),
        )
        ((documents, distinct),) = totals
        values = [ValueCount(cast(FieldValue, value_of_column(value)), n) for value, n in frequent]
        return documents, ValueCounts((*values,), distinct)


def canaries_of(connection: Connection, tables: Tables, manifest: Manifest) -> Canaries:
    """Return some documents with their vectors, spread over the index.

    If the index has a model, documents whose vectors the user gave in Python are left out.
    """
    of_model: LiteralString = "true"
    if manifest.configuration.encoder is not None:
        of_model = "source <> 0"
    (ends,) = connection.execute(tables.sql("SELECT min(doc), max(doc) FROM {documents}"))
    wanted = [] if ends[0] is None else spread(ends[1] - ends[0] + 1, CANDIDATES) + ends[0]
    statement: LiteralString = (
        "SELECT DISTINCT doc, id, text, vector_send(vector::vector)"
        " FROM unnest(%s::bigint[]) AS wanted, LATERAL"
        " (SELECT * FROM {documents} WHERE doc >= wanted AND " + of_model + " ORDER BY doc LIMIT 1)"
        " AS held ORDER BY doc"
    )
    found = connection.execute(tables.sql(statement), [[*map(int, wanted)]]).fetchall()
    vectors = from_bytes([sent for *_, sent in found], manifest.configuration.dim)
    return Canaries([id_ for _, id_, *_ in found], [text for *_, text, _ in found], vectors)


def _conditions(asked: Asked) -> Iterable[Where]:
    match asked:
        case Where():
            yield asked
        case Combination(_, parts):
            for part in parts:
                yield from _conditions(part)


def _rank(found: Answers, limit: int) -> RankedRows:
    rows = np.array([row for row, _ in found], np.int64)
    # A document with none but terms that add nothing.
    scores = np.array([score or 0.0 for _, score in found], np.float32)
    return RankedRows.of(rows, scores, limit)
