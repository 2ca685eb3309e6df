"""An index in PostgreSQL, open for reading: both legs of a query in one round trip.

A search sees the latest commit. What BM25 needs of the whole index (how many documents have a
term) is kept until a commit is noticed, which each answer of the legs tells, or for ten seconds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.batch import Document, Kind
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidCondition, NotFound
from vocabtool.index.commit_store import DocumentsChanged
from vocabtool.index.folder import Manifest
from vocabtool.index.model import IndexModel
from vocabtool.index.raw_vectors import prepare
from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.tantivy_index import MAX_TERMS_COMPARED, nearest
from vocabtool.search.conditions import Where
from vocabtool.search.fusion import Candidates
from vocabtool.search.store import (
    Asked,
    Combination,
    Exactness,
    Exclusion,
    FieldColumn,
    KnownWords,
    LegQuery,
    ValueCount,
    ValueCounts,
)
from vocabtool.stores.postgres.condition_sql import sql_of, value_of_column
from vocabtool.stores.postgres.connection import Connections
from vocabtool.stores.postgres.keywords import (
    TRUE,
    Part,
    Statistics,
    query_terms,
    select_part,
    totals,
    weigh,
)
from vocabtool.stores.postgres.schema import (
    FIELD_CODES,
    Tables,
    key_of,
    stored_term,
    stored_text,
)
from vocabtool.stores.postgres.vectors import FACTS, VectorFacts, VectorSql, as_text, exact_below
from vocabtool.system.ranking import Near, RankedRows, Rows

if TYPE_CHECKING:
    from psycopg import Connection

MAX_AGE: Final = 10.0  # seconds that frequencies are used without asking
MAX_FREQUENCIES: Final = 1 << 16  # terms; then all are asked for again
MAX_IDS: Final = 1 << 16  # ids of documents that are kept
COMPANION: Final = re.compile(r"\btext_(folded|words|instant)\b")  # values are no part of the SQL
MAX_BYTES_AHEAD: Final = 1 << 14  # of a document that is fetched with the legs
SPELLING: Final = 2  # letters by which the length of a similar word may differ

Answers = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class State:
    """What was read of one commit. ``at``: when, by the monotonic clock."""

    manifest: Manifest
    facts: VectorFacts | None
    at: float
    frequencies: dict[Term, tuple[int, int]] = field(default_factory=dict)
    bests: dict[tuple[object, ...], float] = field(default_factory=dict)  # of best_without


class PostgresStore:
    """The latest commit of an index. Threads may share it."""

    exactness = Exactness(lengths=True, frequencies=True, similarities=True)
    live = TRUE

    def __init__(
        self,
        connections: Connections,
        tables: Tables,
        model: IndexModel | None,
        cutter: Cutter,
        *,
        connection: Connection | None = None,
    ) -> None:
        """``connection``: the only one to use, in a transaction that sees one commit."""
        self.connections, self.tables, self.model, self.cutter = connections, tables, model, cutter
        self._connection = connection
        self._ids: dict[int, str] = {}
        self._settings: WeakKeyDictionary[Any, Sequence[str]] = WeakKeyDictionary()
        self._stale = self._fetches_ahead = False
        self._ahead: Mapping[int, Document] = {}
        (found,) = self._ask(
            Part(
                "SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector'),"
                " (SELECT atttypid::regtype::text LIKE '%%halfvec' FROM pg_attribute"
                " WHERE attrelid = %s::regclass AND attname = 'vector')",
                (f"documents_{tables.number:d}",),
            )
        )
        version, is_half = found[0]
        self._state = self._read_state(())
        held = self._state.manifest.configuration
        numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
        self.vector_sql = VectorSql(tables, held.metric, held.dim, bool(is_half), numbers)

    @property
    def keywords(self) -> PostgresStore:
        return self  # no reference to itself, which would keep its connections for long

    vectors = documents = keywords

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
        return self.model.known_words if self.model is not None else None

    @property
    def mean_lengths(self) -> tuple[float, float]:
        """The mean number of terms per document in ``words`` and ``surfaces``."""
        rows = max(self.rows, 1)
        return self.manifest.words / rows, self.manifest.surfaces / rows

    @property
    def vector_facts(self) -> VectorFacts | None:
        return self._state.facts

    def refresh(self) -> None:
        """Read what the latest commit says."""
        self._state = self._read_state(())

    def document_frequencies(self, terms: Iterable[Term]) -> dict[Term, int]:
        asked = [*terms]
        known = self._statistics(asked).frequencies
        return {term: known[term][1] for term in asked}

    def _statistics(self, terms: Sequence[Term]) -> Statistics:
        """Return the numbers of one commit; ask for those that are not known, or are old."""
        state, wanted = self._state, [*dict.fromkeys(terms)]
        is_full = len(state.frequencies) > MAX_FREQUENCIES
        is_old = self._stale or is_full or time.monotonic() - state.at > MAX_AGE
        new = wanted if is_old else [term for term in wanted if term not in state.frequencies]
        if is_old or new:
            read = self._read_state(new)
            if read.manifest.commit == state.manifest.commit and not is_full:
                read.frequencies.update({**state.frequencies, **read.frequencies})
                read.bests.update(state.bests)
            elif len(new) < len(wanted):
                read = self._read_state(wanted)
            self._state, self._stale = read, False
            state = read
        manifest = state.manifest
        return Statistics(manifest.rows, manifest.words, state.frequencies)

    def _read_state(self, terms: Sequence[Term]) -> State:
        """Read the sums over all slots and the frequencies of terms, in one statement."""
        n = self.tables.number
        statement = (
            "SELECT i.record, t.documents, t.words, t.surfaces, t.commits,"
            f" (SELECT value FROM facts_{n} WHERE name = %s), w.place, w.term, w.documents"
            " FROM (SELECT coalesce(sum(documents), 0)::bigint AS documents,"
            " coalesce(sum(words), 0)::bigint AS words,"
            " coalesce(sum(surfaces), 0)::bigint AS surfaces,"
            f" coalesce(sum(commits), 0)::bigint AS commits FROM totals_{n}) t"
            " JOIN indexes i ON i.number = %s LEFT JOIN (SELECT a.place, e.term,"
            f" (SELECT coalesce(sum(documents), 0)::bigint FROM counts_{n} c"
            " WHERE c.term = e.term) AS documents"
            " FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY a(field, text, place)"
            f' JOIN terms_{n} e ON e.field = a.field::"char" AND e.text = a.text) w ON TRUE'
        )
        codes = [FIELD_CODES[term.field] for term in terms]
        texts = [stored_term(stored_text(term.text)) for term in terms]
        self._fetches_ahead = True
        (found,) = self._ask(Part(statement, (FACTS, n, codes, texts)))
        if not found:
            raise NotFound(f"{self.connections.where}: the index was removed: open it again")
        record, documents, words, surfaces, commits, facts, *_ = found[0]
        manifest = replace(
            Manifest.decode(bytes(record)),
            rows=documents,
            words=words,
            surfaces=surfaces,
            commit=commits,
        )
        frequencies = dict.fromkeys(terms, (0, 0))
        for *_, place, number, count in found:
            if place is not None:
                frequencies[terms[place - 1]] = (number, count)
        kept = VectorFacts.decode(bytes(facts)) if facts is not None else None
        return State(manifest, kept, time.monotonic(), frequencies)

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
        if self.tables.of_user and COMPANION.search(text):
            what = "ilike, has word and dates do not read the text of your table; like, contains do"
            raise InvalidCondition(what, condition.text, 0)
        return Part(text, tuple(values))

    def only(self, rows: Rows) -> Part:
        return Part("d.doc = ANY(%s)", (rows.tolist(),))

    def best_without(self, parts: tuple[Clause, ...], whole: Term, limit: int) -> float:
        """Return the best score of all parts in a document without ``whole``."""
        terms = [term for each in parts for term in each.terms]
        statistics = self._statistics([*terms, whole])
        bests, key = self._state.bests, (parts, whole)
        if key not in bests:
            statement = self._search_statement(statistics, KeywordQuery((), parts), limit, TRUE)
            bests[key] = 0.0
            if statement is not None:
                number, _ = statistics.frequencies[whole]
                without = Part(
                    f") s WHERE NOT EXISTS (SELECT FROM postings_{self.tables.number:d} p"
                    " WHERE p.term = %s AND p.doc = s.doc)",
                    (number,),
                )
                start = Part("SELECT coalesce(max(score), 0)::float8 FROM (")
                (((bests[key],),),) = self._ask(start.then(statement, without))
        return bests[key]

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
        if selection == TRUE and self.tables.of_user:  # rows that are deleted, with old terms
            n = self.tables.number
            gone = f"NOT EXISTS (SELECT FROM source_{n} s WHERE s.own_id = r.own_id)"
            return Part(
                f"{name} NOT IN (SELECT r.doc FROM changes_{n} c JOIN rows_{n} r USING (own_id)"
                f" WHERE {gone} UNION ALL SELECT r.doc FROM rows_{n} r WHERE {gone}"
                f" AND EXISTS (SELECT FROM changes_{n} WHERE own_id IS NULL))"
            )
        if selection == TRUE:
            return TRUE
        return Part(f"{name} IN (").then(self._docs(selection), ")")

    # The legs

    def legs(
        self, query: LegQuery, vector: Vectors | None, limit: int, among: Part
    ) -> tuple[Candidates, NDArray[np.int8]]:
        """Return candidates and tiers; see :meth:`MaskStore.legs`. One round trip.

        If this query has asked for frequencies, it returns the documents too, so that they need no
        third round trip.
        """
        statistics = self._statistics(query_terms(query))
        clauses = weigh(statistics, query.should, codes=query.codes, unstemmed=query.unstemmed)
        if not query.should:
            clauses = []
        ahead, self._fetches_ahead = self._fetches_ahead, False
        statement = self._legs_statement(statistics, clauses, vector, limit, among, ahead)
        settings = self.vector_sql.settings(self._facts(), limit) if vector is not None else []
        (found,) = self._ask(statement, settings=settings)
        if found and found[0][0] != self.manifest.commit:
            self._stale = True
        found = [each[1:] for each in found if each[1] is not None]
        if ahead:
            short = (each for each in found if each[9] is not None)
            self._ahead = dict(self._document(*each[:2], *each[9:]) for each in short)
        docs = np.array([each[0] for each in found], np.int64)
        self._keep_ids(docs.tolist(), [each[1] for each in found])
        scores, similarities, codes, exact, ranks, near, held = (
            (list(column) for column in zip(*(each[2:9] for each in found), strict=True))
            if found
            else ([], [], [], [], [], [], [])
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
        ahead: bool,
    ) -> Part:
        """Select the commit, then of each candidate: doc, id, score, similarity, code, exact.

        Then whether the keyword leg ranks it (null if that does not have it), whether it is in the
        vector leg, and whether any document has a code. ``ahead``: then its text, null if the
        document is long, and its fields.
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
            text = as_text(self._prepare(vector))
            near = self.vector_sql.near(text, limit, among, self._facts(), self.rows)
            similarity = Part(
                f"coalesce(n.similarity, CASE WHEN {self.vector_sql.has_vector} THEN "
            )
            similarity = similarity.then(self.vector_sql.similarity(text), "::float4 END)")
        best = "FROM every WHERE {0} IS NOT NULL ORDER BY {0} DESC, doc LIMIT %s"
        ranked = Part(f"SELECT doc, TRUE AS listed {best.format('score')}", (limit,))
        words = Part("SELECT * FROM ranked")
        if any(each.code is not None for each in clauses):
            more = (
                " UNION ALL SELECT doc, FALSE FROM every WHERE score IS NOT NULL"
                f" AND doc IN (SELECT doc {best.format('code')})"
                " AND doc NOT IN (SELECT doc FROM ranked)"
            )
            words = words.then(Part(more, (limit,)))
        more_columns = ""
        if ahead:
            kinds = enumerate(self.fields.values())
            texts = ["d.text", *(f"d.field_{at}" for at, kind in kinds if kind == "string")]
            size = " + ".join(f"coalesce(octet_length({each}), 0)" for each in texts)
            more_columns = "".join(
                f", CASE WHEN {size} <= {MAX_BYTES_AHEAD} THEN {each} END"
                for each in self._document_columns()
            )
        return (
            Part("WITH every AS MATERIALIZED (")
            .then(every, "), ranked AS MATERIALIZED (", ranked, ")")
            .then(", words AS (", words, ")")
            .then(", near AS MATERIALIZED (", near, ")")
            .then(", candidates AS (SELECT doc FROM words UNION SELECT doc FROM near)")
            .then(f" SELECT (SELECT sum(commits)::bigint FROM totals_{n}), x.*")
            .then(" FROM (SELECT 1) one LEFT JOIN (SELECT d.doc, d.id, e.score, ", similarity)
            .then(", e.code, e.exact, w.listed, n.doc IS NOT NULL,")
            .then(" EXISTS (SELECT FROM every WHERE code IS NOT NULL)", more_columns)
            .then(f" FROM candidates c JOIN documents_{n} d ON d.doc = c.doc")
            .then(" LEFT JOIN words w ON w.doc = c.doc LEFT JOIN near n ON n.doc = c.doc")
            .then(" LEFT JOIN every e ON e.doc = c.doc) x ON TRUE")
        )

    def search(self, query: KeywordQuery, limit: int, among: Part) -> RankedRows:
        return self.search_each([query], limit, among)[0]

    def search_each(
        self, queries: Sequence[KeywordQuery], limit: int, among: Part
    ) -> list[RankedRows]:
        statistics = self._statistics([term for each in queries for term in query_terms(each)])
        statements = [self._search_statement(statistics, each, limit, among) for each in queries]
        asked = [each for each in statements if each is not None]
        answers = iter(self._ask(*asked) if asked else [])
        return [
            RankedRows.none() if each is None else _rank(next(answers), limit)
            for each in statements
        ]

    def _search_statement(
        self, statistics: Statistics, query: KeywordQuery, limit: int, among: Part
    ) -> Part | None:
        clauses = weigh(statistics, query.should, must=query.must)
        must = len({each.terms for each in query.must})
        if limit < 1 or not clauses or sum(each.is_must for each in clauses) < must:
            return None
        scored = totals(self.tables, statistics, clauses, must)
        start = Part("SELECT doc, score FROM (").then(scored, ") s WHERE ", self._inside(among))
        return start.then(Part(" ORDER BY score DESC, doc LIMIT %s", (limit,)))

    def near_spellings(self, word: str, limit: int) -> list[str]:
        """Return stems that are spelled like a folded and stemmed word, nearest first."""
        n = self.tables.number
        statement = (
            "SELECT e.text, sum(c.documents)::bigint AS documents"
            f" FROM terms_{n} e JOIN counts_{n} c USING (term)"
            " WHERE e.field = 'w' AND e.text ^@ %s AND char_length(e.text) BETWEEN %s AND %s"
            " GROUP BY e.text HAVING sum(c.documents) > 0 ORDER BY 2 DESC, 1 LIMIT %s"
        )
        lengths = len(word) - SPELLING, len(word) + SPELLING
        initials = [each for each in dict.fromkeys(word[:2]) if each != "\0"]
        asked = [Part(statement, (each, *lengths, MAX_TERMS_COMPARED)) for each in initials]
        found = self._ask(*asked) if asked else []
        return nearest(word, dict(pair for answer in found for pair in answer), limit)

    def near(self, vector: Vectors, rows: Rows, limit: int, among: Part) -> Near:
        query = self._prepare(vector)
        if not np.count_nonzero(query):
            return Near(RankedRows.none(), np.full(len(rows), np.nan, np.float32))
        text, n = as_text(query), self.tables.number
        nearest_ones = self.vector_sql.near(text, max(limit, 0), among, self._facts(), self.rows)
        of_rows = Part("SELECT d.doc, ").then(
            self.vector_sql.similarity(text),
            f"::float4 FROM documents_{n} d WHERE {self.vector_sql.has_vector} AND ",
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
        return self.vector_sql.vectors([held[row] for row in rows.tolist()])

    def _facts(self) -> VectorFacts | None:
        held = self._state
        is_small = held.manifest.rows <= exact_below(held.manifest.configuration)
        return None if is_small else held.facts

    def _prepare(self, vector: Vectors) -> Vectors:
        held = self.manifest.configuration
        if np.shape(vector) != (held.dim,):
            raise ValueError(f"vector must have {held.dim:,} numbers, got shape {np.shape(vector)}")
        return prepare(vector, held.metric)

    # Documents

    def ids(self, rows: Rows) -> list[str]:
        """Return the ids. Those of a search's candidates are known already."""
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
        if len(self._ids) + len(docs) > MAX_IDS:
            self._ids = {}
        self._ids.update(zip(docs, ids, strict=True))

    def fetch_documents(self, rows: Rows) -> list[Document]:
        """Return documents without null fields. Raises :class:`DocumentsChanged`."""
        held, self._ahead = self._ahead, {}
        wanted = rows.tolist()
        if any(row not in held for row in wanted):
            columns = ", ".join(self._document_columns())
            statement = (
                f"SELECT d.doc, d.id, {columns} FROM documents_{self.tables.number:d} d WHERE "
            )
            (found,) = self._ask(Part(statement).then(self.only(rows)))
            held = dict(self._document(*each) for each in found)
        try:
            return [held[row] for row in wanted]
        except KeyError as error:
            raise self._change_error(error.args[0]) from None

    def _document_columns(self) -> list[str]:
        kept = (at for at, kind in enumerate(self.fields.values()) if kind != "null")
        return ["d.text", *(f"d.field_{at}" for at in kept)]

    def _document(self, row: int, id_: str, text: str, *values: Any) -> tuple[int, Document]:
        kept = (name for name, kind in self.fields.items() if kind != "null")
        named = zip(kept, values, strict=True)
        fields = {name: value_of_column(value) for name, value in named if value is not None}
        return row, Document(id_, text, fields)

    def _change_error(self, row: int) -> DocumentsChanged:
        where = self.connections.where
        return DocumentsChanged(f"{where}: document {row:,} was deleted meanwhile: search again")

    def row_of(self, id_: str) -> int | None:
        return self.rows_of([id_]).get(id_)

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the row of each id that exists."""
        by_key = {key_of(id_): id_ for id_ in ids}
        statement = f"SELECT key, doc FROM documents_{self.tables.number:d} WHERE key = ANY(%s)"
        (found,) = self._ask(Part(statement, ([*by_key],)))
        return {by_key[key]: doc for key, doc in found}

    # Values of fields

    def value_ranks(self, name: str, rows: Rows) -> NDArray[np.int64]:
        """Return the rank of each row's value among those of all ``rows``; -1 without a value."""
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
        """Count values in one round trip. Elements of lists are counted here."""
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
            found[name] = _count_parts(answer, self.fields[name], limit)
        return found

    def _ask(self, *parts: Part, settings: Sequence[str] = ()) -> list[Answers]:
        """Run statements in one round trip; return the rows of each.

        ``settings``: are set first, unless they are those that the connection was given last.
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

        held = self._connection
        return self.connections.read(work) if held is None else work(held)


def _conditions(asked: Asked) -> Iterable[Where]:
    match asked:
        case Where():
            yield asked
        case Exclusion(part):
            yield from _conditions(part)
        case Combination(_, parts):
            for part in parts:
                yield from _conditions(part)


def _rank(found: Answers, limit: int) -> RankedRows:
    rows = np.array([row for row, _ in found], np.int64)
    # A document with none but terms that add nothing.
    scores = np.array([score or 0.0 for _, score in found], np.float32)
    return RankedRows.of(rows, scores, limit)


def _count_parts(answer: Answers, kind: Kind, limit: int) -> ValueCounts:
    values: list[Any] = [value_of_column(value) for value, *_ in answer]
    counts = [count for _, count, _ in answer]
    if not any(isinstance(value, str) and value.startswith("[") for value in values):
        pairs = zip(values[:limit], counts[:limit], strict=True)
        distinct = answer[0][2] if answer else 0
        return ValueCounts(tuple(ValueCount(value, count) for value, count in pairs), distinct)
    order = sorted(range(len(values)), key=values.__getitem__)
    column = FieldColumn.of(
        np.arange(len(values), dtype=np.int32), [values[at] for at in order], kind
    )
    return column.count(np.repeat(np.arange(len(values)), [counts[at] for at in order]), limit)
