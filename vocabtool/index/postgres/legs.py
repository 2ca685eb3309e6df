"""Both legs of a search as SQL: BM25 of all matching documents, and the nearest vectors.

No text of a user becomes part of a statement: terms are numbers or parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray
from psycopg import Connection

from vocabtool.choices import Metric
from vocabtool.encoders.encoder import Vectors
from vocabtool.index.folder import Configuration, Manifest
from vocabtool.index.postgres import database
from vocabtool.index.vectors import CodeFacts
from vocabtool.keywords.cutter import K1, B, Clause, KeywordQuery, Term, idf
from vocabtool.search import store

LISTED: Final = 2  # of a candidate that is among the best of the keyword leg
JOINED: Final = 4  # terms of a phrase that are joined; the rest is seen in the sequence
MAX_INDEXED: Final = {"vector": 2_000, "halfvec": 4_000}  # dimensions of an index of pgvector
ITERATIVE: Final = (0, 8)  # the version of pgvector that goes on where a filter leaves too few
MAX_LISTS: Final = 2_000  # of an index of pgvector; building it takes 0.9 GB of memory
PROBES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
# How many documents must be expected in the visited lists for a hit.
EXPECTED: Final = 5


@dataclass(frozen=True, slots=True)
class Sql:
    """A part of an SQL statement. ``values``: the parameters for its placeholders ``%s``."""

    text: str
    values: tuple[object, ...] = ()

    def __and__(self, other: Sql) -> Sql:
        if TRUE in (self, other):
            return other if self == TRUE else self
        return join("(", self, " AND ", other, ")")


TRUE: Final = Sql("TRUE")


def join(*texts: Sql | str, between: str = "") -> Sql:
    fragments = [Sql(text) if isinstance(text, str) else text for text in texts]
    values = chain.from_iterable(fragment.values for fragment in fragments)
    return Sql(between.join(fragment.text for fragment in fragments), tuple(values))


@dataclass(frozen=True, slots=True)
class Statistics:
    """``frequencies``: for each term its number, 0 if there is none, and document frequency."""

    manifest: Manifest
    frequencies: Mapping[Term, tuple[int, int]]

    @property
    def norms(self) -> tuple[float, float]:
        """``a`` and ``b`` in BM25's saturation f / (f + a + b length) of a term's frequency f."""
        mean = self.manifest.words / max(self.manifest.rows, 1)
        return K1 * (1 - B), K1 * B / mean if mean else 0.0

    def weight(self, clause: Clause) -> float:
        """Return the factor of the saturation in a clause's score: no score is higher."""
        saturated = K1 + 1 if clause.terms[0].field == "words" else 1.0
        frequencies = (self.frequencies[term][1] for term in clause.terms)
        return clause.boost * saturated * sum(idf(self.manifest.rows, n) for n in frequencies)


def find_terms(n: int, terms: Sequence[Term]) -> Sql:
    """Return a statement that selects ``place``, ``term`` and ``documents`` of the stored terms.

    ``place``: the place in ``terms``, from 1. ``documents``: the document frequency.
    """
    codes = [database.FIELD_CODES[term.field] for term in terms]
    return Sql(
        "SELECT a.place, e.term, e.documents::bigint AS documents"
        " FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY a(field, text, place)"
        f' JOIN terms_{n} e ON e.field = a.field::"char" AND e.text = a.text',
        (codes, [database.stored_text(term.text) for term in terms]),
    )


def best_of_parts(n: int, whole: Term, clauses: Sequence[Clause]) -> Sql:
    """Return SQL for the best BM25 score of a document with all parts, but without the joined word.

    See :meth:`Snapshot.statistics`. The statement around it has the totals of the index as ``t``.
    """
    terms = [clause.terms[0] for clause in clauses]  # all of the field "words"
    boosts = [clause.boost * (K1 + 1) for clause in clauses]
    idf = "ln(1 + (t.documents - e.documents + 0.5::float8) / (e.documents + 0.5::float8))"
    norm = f"{K1 * (1 - B)}::float8 + {K1 * B}::float8 * p.length * t.documents / t.words"
    # OFFSET keeps the planner from computing a weight for each posting.
    weights = join(
        Sql(f"SELECT e.term, (%s::float8[])[e.place] * {idf} AS weight FROM (", (boosts,)),
        find_terms(n, terms),
        ") e OFFSET 0",
    )
    return join(
        "(SELECT coalesce(max(score), 0)::float8 FROM (",
        find_terms(n, [whole]),
        f") whole, LATERAL (SELECT doc, sum(weight * frequency / (frequency + {norm}))::float4",
        " AS score FROM (",
        weights,
        f") parts JOIN postings_{n} p USING (term) WHERE whole.documents > 0 GROUP BY doc",
        f" HAVING count(*) = {len(terms)} ORDER BY score DESC, doc LIMIT {store.MAX_COMPARED})",
        f" best WHERE NOT EXISTS (SELECT FROM postings_{n} p",
        " WHERE p.doc = best.doc AND p.term = whole.term))",
    )


def totals(
    n: int,
    statistics: Statistics,
    should: Sequence[Clause],
    codes: Sequence[Clause] = (),
    unstemmed: Sequence[Clause] = (),
) -> Sql:
    """Return a statement that selects a row for each document that matches a clause.

    The clauses are as in :class:`~vocabtool.keywords.cutter.KeywordQuery`. The columns:

    - ``doc``: the number of the document.
    - ``score``: float8, ``code``: float4; null if no matching clause adds to this score.
    - ``exact``: whether the document matches an unstemmed clause.
    """
    scores = {clause.terms: statistics.weight(clause) for clause in should}
    code_scores = {clause.terms: statistics.weight(clause) for clause in codes}
    exact_terms = {clause.terms for clause in unstemmed}
    clauses: dict[tuple[Term, ...], Clause] = {}
    for clause in (*should, *codes, *unstemmed):
        if all(statistics.frequencies[term][0] for term in clause.terms):  # the index has them
            clauses.setdefault(clause.terms, clause)
    single, phrases = list[tuple[object, ...]](), list[Sql]()
    for at, terms in enumerate(clauses):
        weights = (at, scores.get(terms), code_scores.get(terms), terms in exact_terms)
        if len(terms) > 1:
            phrases.append(_phrase(n, statistics, terms, weights))
        else:
            number, _ = statistics.frequencies[terms[0]]
            single.append((*weights, number, terms[0].field == "words"))
    code = "sum(code * x)::float4" if codes else "NULL::float4"  # each aggregate takes time
    exact = "bool_or(exact)" if unstemmed else "FALSE"
    return join(
        "SELECT doc, ",
        _score([*clauses.values()]),
        f" AS score, {code} AS code, {exact} AS exact FROM (",
        join(_hits(n, statistics, single), *phrases, between=" UNION ALL "),
        ") hits GROUP BY doc",
    )


def best(n: int, statistics: Statistics, query: KeywordQuery, among: Sql, limit: int) -> Sql:
    """Return tables for WITH. The last one, ``every``, has the columns of :func:`totals`.

    Its rows are the best ``limit`` documents, all that match an identifier, and some others, whose
    scores may lack postings. ``among``: a condition on ``doc``.

    Most postings are those of frequent words, which add little to a score. So the scores by the
    other clauses are computed first. The ``limit``-th best of them is the ``least`` score that a
    document needs. A posting of a frequent word is used only if its document can reach this score
    (MaxScore: Turtle, Flood: Query Evaluation: Strategies and Optimizations, 1995).
    """
    frequent = frequent_terms(statistics, query, limit)
    single: list[tuple[object, ...]] = [
        (0, weight, None, False, statistics.frequencies[term][0], term.field == "words")
        for (term,), weight in frequent.items()
    ]
    others = [clause for clause in query.should if clause.terms not in frequent]
    highest = sum(frequent.values())
    least = "(SELECT score FROM least)"
    needed = f"p.code IS NOT NULL OR p.exact OR p.score >= {least}"
    return join(
        "partial AS MATERIALIZED (SELECT * FROM (",
        totals(n, statistics, others, query.codes, query.unstemmed),
        *(") s WHERE ", among),
        # A little less, because sums in another order differ in their last digits.
        "), least AS MATERIALIZED (SELECT coalesce((SELECT score * (1 - 1e-6::float8) FROM partial",
        " WHERE score IS NOT NULL ORDER BY score DESC",
        Sql(" OFFSET %s LIMIT 1), 0) AS score)", (limit - 1,)),
        ", frequent AS MATERIALIZED (SELECT doc, sum(score * x) AS score FROM (",
        _hits(n, statistics, single),
        # The planner expects few elements of an array, so it always hashes them.
        f") h WHERE (doc IN (SELECT unnest(ARRAY(SELECT p.doc FROM partial p WHERE {needed}",
        Sql(f" - %s::float8))) OR score * x >= {least} - %s::float8 + score)", (highest,) * 2),
        *(" AND ", among, " GROUP BY doc), every AS MATERIALIZED (SELECT doc,"),
        " coalesce(p.score + f.score, p.score, f.score)::float4 AS score, code, exact"
        f" FROM partial p FULL JOIN frequent f USING (doc) WHERE f.doc IS NOT NULL OR {needed})",
    )


def frequent_terms(
    statistics: Statistics, query: KeywordQuery, limit: int
) -> dict[tuple[Term, ...], float]:
    """Return the terms that :func:`best` reads last, and their weights.

    The choice changes only the time. It pays if these terms have most of the postings, and if
    another term has ``limit`` documents with higher scores than these terms reach together.
    """
    first = {clause.terms for clause in (*query.codes, *query.unstemmed)}
    first |= {(term,) for clause in query.should for term in clause.parts}
    weights = {clause.terms: statistics.weight(clause) for clause in query.should}
    documents = {terms: statistics.frequencies[terms[0]][1] for terms in weights}
    plain = [
        clause.terms
        for clause in query.should
        if len(clause.terms) == 1 and not clause.parts and clause.terms not in first
    ]
    plain.sort(key=documents.__getitem__, reverse=True)
    strongest = max((weights[terms] for terms in plain if documents[terms] >= limit), default=0.0)
    frequent, typical = dict[tuple[Term, ...], float](), 1 / (1 + K1)  # once, in a mean text
    for terms in plain:
        longer = frequent | {terms: weights[terms]}
        # One posting with a typical score, and the highest scores of the other terms.
        reached = sum(longer.values()) - (1 - typical) * min(longer.values())
        if weights[terms] < strongest and reached <= typical * strongest:
            frequent = longer
    postings = sum(documents[terms] for terms in frequent)
    return frequent if 2 * postings >= sum(documents.values()) else {}


def _hits(n: int, statistics: Statistics, single: Sequence[tuple[object, ...]]) -> Sql:
    """Return a statement that selects the postings of terms, with their saturations ``x``.

    ``single``: for each term, the place of its clause, the two weights of the clause, whether it is
    unstemmed, the number of the term, and whether it is of the field "words".
    """
    columns: list[list[Any]] = [*map(list, zip(*single, strict=True))] or [[]] * 6
    saturation = "p.frequency::float8 / (p.frequency::float8 + %s::float8 + %s::float8 * p.length)"
    return Sql(
        "SELECT p.doc, w.n, w.score, w.code, w.exact,"
        f" CASE WHEN w.word THEN {saturation} ELSE 1::float8 END AS x"
        " FROM unnest(%s::int[], %s::float8[], %s::float8[], %s::bool[], %s::int[], %s::bool[])"
        " w(n, score, code, exact, term, word)"
        f" JOIN postings_{n} p ON p.term = w.term",
        (*statistics.norms, *columns),
    )


def _phrase(
    n: int,
    statistics: Statistics,
    terms: Sequence[Term],
    weights: tuple[int, float | None, float | None, bool],
) -> Sql:
    """``weights``: the place of the phrase among the clauses, its two weights, if it is exact."""
    numbered = [statistics.frequencies[term] for term in terms]
    rarest = sorted(dict.fromkeys(numbered), key=lambda term: term[1])[:JOINED]
    joined = "".join(
        f" JOIN postings_{n} p{at} ON p{at}.doc = d.doc AND p{at}.term = {number:d}"
        for at, (number, _) in enumerate(rarest)
    )
    in_a_row = f" {' '.join(str(number) for number, _ in numbered)} "
    occurrences = f"(?={in_a_row})"
    # A look-ahead finds occurrences that share a term.
    count = "(SELECT count(*)::float8 FROM regexp_matches(d.sequence, %s, 'g'))"
    return Sql(
        "SELECT d.doc, %s::int, %s::float8, %s::float8, %s::bool,"
        f" {count} / ({count} + %s::float8 + %s::float8 * p0.length)"
        f" FROM documents_{n} d{joined} WHERE d.sequence LIKE %s",
        (*weights, occurrences, occurrences, *statistics.norms, f"%{in_a_row}%"),
    )


def _score(clauses: Sequence[Clause]) -> Sql:
    """Return the sum of scores as SQL.

    A clause with parts adds max(0, its score - the sum of its parts' scores).
    """
    places = {clause.terms: at for at, clause in enumerate(clauses)}
    owners = {
        at: [places[term,] for term in clause.parts if (term,) in places]
        for at, clause in enumerate(clauses)
        if clause.parts
    }
    if not owners:
        return Sql("sum(score * x)")
    above = (
        " + greatest(coalesce(sum(score * x) FILTER (WHERE n = %s), 0)"
        " - coalesce(sum(score * x) FILTER (WHERE n = ANY(%s)), 0), 0)"
    )
    return join(
        "CASE WHEN count(score) > 0 THEN coalesce(sum(score * x)",
        Sql(" FILTER (WHERE n <> ALL(%s)), 0)", ([*owners],)),
        *(Sql(above, owner) for owner in owners.items()),
        " END",
    )


@dataclass(frozen=True, slots=True)
class VectorSql:
    """Makes SQL for the vectors of the index with the number ``n``.

    ``type``: vector or halfvec. ``is_iterative``: a search goes on if a filter leaves too few.
    """

    n: int
    metric: Metric
    dim: int
    type: str
    is_iterative: bool

    @classmethod
    def of(cls, connection: Connection, n: int, configuration: Configuration) -> VectorSql:
        statement = (
            f"SELECT ({database.PGVECTOR}), (SELECT typname::text FROM pg_attribute JOIN pg_type t"
            " ON t.oid = atttypid WHERE attrelid = %s::regclass AND attname = 'vector')"
        )
        ((version, type_),) = database.run(connection, statement, f"documents_{n:d}").fetchall()
        is_iterative = database.version_numbers(version) >= ITERATIVE
        return cls(n, configuration.metric, configuration.dim, type_, is_iterative)

    @property
    def can_index(self) -> bool:
        """Whether pgvector can index vectors of this type and dimension."""
        return self.dim <= MAX_INDEXED[self.type]

    def create(self, lists: int) -> str:
        """Return statements that build an index, in a transaction."""
        kind = "l2" if self.metric == "l2" else "ip"
        # What ElkanKmeans in pgvector's ivfkmeans.c checks: its sample, and the distance of each
        # vector of the sample, and of each centroid, to each centroid.
        sample = max(50 * lists, 10_000)
        needed = (sample + 2 * lists) * (4 * self.dim + 16) + 4 * (sample + lists) * (lists + 2)
        return (
            "SELECT set_config('maintenance_work_mem', greatest(pg_size_bytes("
            f"current_setting('maintenance_work_mem')) / 1024, {needed // 1000:d})::text, true);"
            f" CREATE INDEX vectors_{self.n:d}_new ON documents_{self.n:d} USING ivfflat"
            f" (vector {self.type}_{kind}_ops) WITH (lists = {lists:d})"
        )

    def similarity(self, vector: str) -> Sql:
        """Return SQL for the exact similarity of ``d.vector`` to a float32 vector."""
        if self.metric == "l2":
            return Sql("(-vector_l2_squared_distance(d.vector::vector, %s::vector))", (vector,))
        return Sql("inner_product(d.vector::vector, %s::vector)", (vector,))

    def near(self, vector: str, limit: int, among: Sql, codes: CodeFacts | None) -> Sql:
        """Return a statement that selects ``doc`` and ``similarity`` of the nearest documents.

        - ``codes``: the lists of the index, or ``None`` to compare all documents.
        """
        documents = f"documents_{self.n} d WHERE d.vector IS NOT NULL AND "
        best = Sql(" ORDER BY similarity DESC, doc LIMIT %s", (limit,))
        compared = join("SELECT d.doc, ", self.similarity(vector), "::float4 AS similarity FROM ")
        if codes is None:
            return join(compared, documents, among, best)
        distance = "<->" if self.metric == "l2" else "<#>"
        # Twice as many as needed, because halfvec is rounded: its order differs a little.
        order = f" ORDER BY vector {distance} %s::{self.type}({self.dim:d}) LIMIT %s) d"
        nearest = Sql(order, (vector, 2 * limit))
        indexed = join(compared, "(SELECT doc, vector FROM ", documents)
        if among == TRUE:
            return join(indexed, among, nearest, best)
        # Up to this number of allowed documents they are compared exactly: that costs less, or the
        # visited lists may have too few of them. The server runs one of the two searches below.
        probed = self._probes(codes, limit) / codes.lists
        most = round(max(codes.coded * probed, EXPECTED * limit / probed))
        rows = f"SELECT d.doc FROM documents_{self.n} d WHERE "
        allowed = join("allowed AS MATERIALIZED (", rows, among, f" LIMIT {most + 1:d})")
        few = f"few AS MATERIALIZED (SELECT count(*) <= {most:d} AS is_true FROM allowed)"
        are_few = "(SELECT is_true FROM few)"
        exact = join(compared, documents, are_few, " AND d.doc IN (SELECT doc FROM allowed)")
        by_index = join(indexed, f"NOT {are_few} AND ", among, nearest)
        both = join("((", exact, ") UNION ALL (", by_index, ")) n")
        return join("WITH ", allowed, f", {few} SELECT * FROM ", both, best)

    def _probes(self, codes: CodeFacts, limit: int) -> int:
        """Return how many lists to visit: for many hits, more than the recall needs."""
        needed = math.ceil(EXPECTED * limit * codes.lists / codes.coded)
        return min(max(codes.probes, needed), codes.lists)

    def settings(self, codes: CodeFacts | None, limit: int) -> list[str]:
        """Return settings for a search of the index, as ``name = value`` for SET LOCAL."""
        if codes is None:
            return []
        settings = [f"ivfflat.probes = {self._probes(codes, limit):d}"]
        if self.is_iterative:
            settings.append("ivfflat.iterative_scan = relaxed_order")
        return settings


def as_text(vector: NDArray[Any]) -> str:
    """Return a float32 vector in the syntax of pgvector, without rounding."""
    single = np.ascontiguousarray(vector, np.float32)
    return orjson.dumps(single, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def from_bytes(sent: Sequence[bytes | None], dim: int) -> Vectors:
    """Make vectors, shape (n, dim), from the results of ``vector_send``. ``None`` becomes zeros."""
    vectors = np.zeros((len(sent), dim), np.float32)
    for place, data in enumerate(sent):
        if data is not None:
            vectors[place] = np.frombuffer(data, ">f4", dim, offset=4)
    return vectors


def both_legs(
    n: int, words: Sql, near: Sql, similarity: Sql, limit: int, *, has_codes: bool
) -> Sql:
    """Return a statement that selects a row for each candidate, by ``doc``.

    - ``words``: from :func:`best`. A ``score`` may be too low outside the keyword leg.
    - ``near``: selects the nearest documents. ``similarity``: that of any other document ``d``.
    - ``has_codes``: whether a clause of the query is for a code.

    Its columns: ``doc``, ``id``, ``score``, ``similarity``, the tier, and then:

    - LISTED if the candidate is among the best of the keyword leg; 1 if it is in this leg only
      because it contains an identifier; 0 if it is not in this leg
    - whether the candidate is in the vector leg
    """
    best = "FROM every WHERE {0} IS NOT NULL ORDER BY {0} DESC, doc LIMIT %s"
    ranked = Sql(f"SELECT doc, {LISTED} AS listed, score {best.format('score')}", (limit,))
    more = Sql("")
    if has_codes:
        more = Sql(
            " UNION ALL SELECT doc, 1 FROM every WHERE score IS NOT NULL"
            f" AND doc IN (SELECT doc {best.format('code')})"
            " AND doc NOT IN (SELECT doc FROM ranked)",
            (limit,),
        )
    return join(
        "WITH ",
        words,
        ", ranked AS MATERIALIZED (",
        ranked,
        "), words AS (SELECT doc, listed FROM ranked",
        more,
        "), near AS MATERIALIZED (",
        near,
        "), candidates AS (SELECT doc FROM words UNION SELECT doc FROM near)"
        " SELECT d.doc, d.id, e.score, coalesce(n.similarity, CASE WHEN d.vector IS NOT NULL THEN ",
        similarity,
        "::float4 END), (e.code IS NOT NULL)::int + coalesce(e.exact, FALSE)::int,"
        f" coalesce(w.listed, 0), n.doc IS NOT NULL FROM candidates c JOIN documents_{n} d"
        " ON d.doc = c.doc LEFT JOIN words w ON w.doc = c.doc LEFT JOIN near n ON n.doc = c.doc"
        " LEFT JOIN every e ON e.doc = c.doc ORDER BY d.doc",
    )
