"""Keyword search as SQL: BM25 of all matching documents, over the table of postings.

No text of a user becomes part of a statement: terms are numbers or parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from vocabtool.keywords.bm25 import K1, B, Clause, KeywordQuery, Term, idf
from vocabtool.search.conditions import Where
from vocabtool.search.store import (
    MAX_COMPARED,
    Asked,
    Combination,
    JoinedWord,
    LegQuery,
)
from vocabtool.stores.database import FIELD_CODES, Tables, stored_term, stored_text

JOINED: Final = 4  # terms of a phrase that are joined; the rest is seen in the sequence


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an SQL statement. ``values``: the parameters for its placeholders ``%s``."""

    text: str
    values: tuple[object, ...] = ()

    def __and__(self, other: Part) -> Part:
        if TRUE in (self, other):
            return other if self == TRUE else self
        return Part(f"({self.text} AND {other.text})", self.values + other.values)

    def then(self, *others: Part | str) -> Part:
        parts = [Part(each) if isinstance(each, str) else each for each in others]
        text = "".join([self.text, *(each.text for each in parts)])
        return Part(text, self.values + tuple(chain.from_iterable(p.values for p in parts)))


TRUE: Final = Part("TRUE")


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of one commit that BM25 needs.

    ``frequencies``: for each term, its number in the tables and its document frequency. The number
    is 0 if the index does not have the term.
    """

    documents: int
    words: int
    frequencies: Mapping[Term, tuple[int, int]]

    def idf(self, clause: Clause) -> float:
        """The idf of a term, or the sum of the idfs of the terms in a phrase."""
        return sum(idf(self.documents, self.frequencies[term][1]) for term in clause.terms)

    @property
    def norms(self) -> tuple[float, float]:
        """The constants ``a`` and ``b`` in BM25's saturation f / (f + a + b length).

        f is the frequency of the term in the document.
        """
        mean = self.words / max(self.documents, 1)
        return K1 * (1 - B), K1 * B / mean if mean else 0.0


def select_part(tables: Tables, asked: Asked, where: Mapping[Where, Part]) -> Part:
    """Return a condition on a row ``d`` of the table of documents, as SQL.

    ``where``: the SQL of each condition on fields.
    """
    match asked:
        case Clause():
            return _holds(tables, asked)
        case Where():
            return Part("(").then(where[asked], ")")  # or null, as false
        case Combination("none", parts):
            any_of = select_part(tables, Combination("any", parts), where)
            return Part("NOT coalesce(").then(any_of, ", FALSE)")
        case Combination(word, parts):
            joined = Part("TRUE" if word == "all" else "FALSE")
            sign = " AND " if word == "all" else " OR "
            for part in parts:
                joined = joined.then(sign, select_part(tables, part, where))
            return Part("(").then(joined, ")")


def _holds(tables: Tables, clause: Clause) -> Part:
    """Return a condition, as SQL, that is true for documents that match a clause."""
    number = f"(SELECT term FROM terms_{tables.number} WHERE field = %s AND text = %s)"
    terms = [
        (FIELD_CODES[term.field], stored_term(stored_text(term.text))) for term in clause.terms
    ]
    postings = f"SELECT doc FROM postings_{tables.number} WHERE term = {number}"
    held = Part("")
    for at, term in enumerate(dict.fromkeys(terms)):
        held = held.then(" AND " if at else "", Part(f"d.doc IN ({postings})", term))
    if len(terms) > 1:
        numbers = " || ' ' || ".join([number] * len(terms))
        pattern = f"d.sequence LIKE '%% ' || {numbers} || ' %%'"
        held = held.then(Part(f" AND coalesce({pattern}, FALSE)", tuple(chain(*terms))))
    return Part("(").then(held, ")")


@dataclass(frozen=True, slots=True)
class WeightedClause:
    """A clause and its weights.

    - ``score``: the weight in the BM25 score, or ``None`` if the clause does not add to it.
    - ``code``: the weight in the score of identifiers, or ``None`` if the clause is no identifier.
    - ``is_unstemmed``: whether documents that match the clause get a higher tier.
    - ``is_must``: whether a document must match the clause.
    """

    clause: Clause
    score: float | None = None
    code: float | None = None
    is_unstemmed: bool = False
    is_must: bool = False


def weigh(
    statistics: Statistics,
    should: Sequence[Clause],
    *,
    must: Sequence[Clause] = (),
    codes: Sequence[Clause] = (),
    unstemmed: Sequence[Clause] = (),
) -> list[WeightedClause]:
    """Weight each distinct clause; omit clauses with a term that the index does not have."""
    made: dict[tuple[Term, ...], WeightedClause] = {}
    known = statistics.frequencies

    def weight(clause: Clause) -> float:
        saturated = K1 + 1 if clause.terms[0].field == "words" else 1.0
        return clause.boost * statistics.idf(clause) * saturated

    score = {each.terms: weight(each) for each in should}
    for each in must:
        score[each.terms] = score.get(each.terms, 0.0) + weight(each)
    code = {each.terms: weight(each) for each in codes}
    exact, musts = {each.terms for each in unstemmed}, {each.terms for each in must}
    for clause in (*should, *must, *codes, *unstemmed):
        terms = clause.terms
        if terms not in made and all(known[term][0] for term in terms):
            made[terms] = WeightedClause(
                clause, score.get(terms), code.get(terms), terms in exact, terms in musts
            )
    return list(made.values())


def find_terms(tables: Tables, terms: Sequence[Term]) -> Part:
    """Return a statement that selects ``place``, ``term`` and ``documents`` of the stored terms.

    ``place``: the place in ``terms``, from 1. ``documents``: the document frequency.
    """
    n = tables.number
    return Part(
        "SELECT a.place, e.term, e.documents::bigint AS documents"
        " FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY a(field, text, place)"
        f' JOIN terms_{n} e ON e.field = a.field::"char" AND e.text = a.text',
        (
            [FIELD_CODES[term.field] for term in terms],
            [stored_term(stored_text(term.text)) for term in terms],
        ),
    )


def best_of_parts(tables: Tables, joined: JoinedWord, among: Part) -> Part:
    """Return SQL for the score that :meth:`Store.statistics` returns for a joined word.

    The statement around it has the totals of the index as ``t``. ``among``: a condition on
    ``p.doc``.
    """
    terms = [part.terms[0] for part in joined.parts]  # all of the field "words"
    boosts = [part.boost * (K1 + 1) for part in joined.parts]
    idf = "ln(1 + (t.documents - s.documents + 0.5::float8) / (s.documents + 0.5::float8))"
    norm = f"{K1 * (1 - B)}::float8 + {K1 * B}::float8 * p.length * t.documents / t.words"
    n = tables.number
    return (
        Part("(SELECT coalesce(max(b.score), 0)::float8 FROM (")
        .then(find_terms(tables, [joined.whole]), ") whole, LATERAL (SELECT p.doc,")
        .then(f" sum(f.weight * p.frequency / (p.frequency + {norm}))::float4 AS score")
        # OFFSET keeps the planner from computing a weight for each posting.
        .then(Part(f" FROM (SELECT s.term, (%s::float8[])[s.place] * {idf} AS weight", (boosts,)))
        .then(" FROM (", find_terms(tables, terms), f") s OFFSET 0) f JOIN postings_{n} p")
        .then(" USING (term) WHERE whole.documents > 0 AND ", among)
        .then(Part(" GROUP BY p.doc HAVING count(*) = %s", (len(terms),)))
        .then(f" ORDER BY score DESC, p.doc LIMIT {MAX_COMPARED}) b WHERE NOT EXISTS")
        .then(f" (SELECT FROM postings_{n} h WHERE h.doc = b.doc AND h.term = whole.term))")
    )


def totals(
    tables: Tables, statistics: Statistics, clauses: Sequence[WeightedClause], must: int = 0
) -> Part:
    """Return a statement that selects a row for each document that matches a clause.

    Its columns:

    - ``doc``: the number of the document.
    - ``score``, ``code``: the scores, or null if no matching clause adds to this score.
    - ``exact``: whether the document matches an unstemmed clause.

    ``must``: how many ``is_must`` clauses a document must match to be selected. Default: this is
    not checked.
    """
    of = statistics.frequencies
    single = [(n, each) for n, each in enumerate(clauses) if len(each.clause.terms) == 1]
    a, b = statistics.norms
    saturation = "{0} / ({0} + %s::float8 + %s::float8 * {1})"
    of_words = saturation.format("p.frequency::float8", "p.length")
    hits = Part(
        "SELECT p.doc, w.n, w.score, w.code, w.exact, w.must,"
        f" CASE WHEN w.word THEN {of_words} ELSE 1::float8 END AS x"
        " FROM unnest(%s::int[], %s::int[], %s::bool[], %s::float8[], %s::float8[], %s::bool[],"
        " %s::bool[]) w(n, term, word, score, code, exact, must)"
        f" JOIN postings_{tables.number} p ON p.term = w.term",
        (
            *(a, b),
            [n for n, _ in single],
            [of[each.clause.terms[0]][0] for _, each in single],
            [each.clause.terms[0].field == "words" for _, each in single],
            [each.score for _, each in single],
            [each.code for _, each in single],
            [each.is_unstemmed for _, each in single],
            [each.is_must for _, each in single],
        ),
    )
    for n, each in enumerate(clauses):
        if len(each.clause.terms) > 1:
            hits = hits.then(" UNION ALL ", _phrase(tables, statistics, n, each))
    wanted = Part(" HAVING count(*) FILTER (WHERE must) = %s", (must,)) if must else Part("")
    code, exact = "NULL::float4", "FALSE"  # each aggregate takes time
    if any(each.code is not None for each in clauses):
        code = "sum(code * x)::float4"
    if any(each.is_unstemmed for each in clauses):
        exact = "bool_or(exact)"
    columns = Part("SELECT doc, ").then(_score(clauses))
    columns = columns.then(f"::float4 AS score, {code} AS code, {exact} AS exact")
    return columns.then(" FROM (", hits, ") hits GROUP BY doc", wanted)


def _phrase(tables: Tables, statistics: Statistics, n: int, each: WeightedClause) -> Part:
    a, b = statistics.norms
    terms = [statistics.frequencies[term] for term in each.clause.terms]
    rarest = sorted(dict.fromkeys(terms), key=lambda term: term[1])[:JOINED]
    joined = "".join(
        f" JOIN postings_{tables.number} p{at} ON p{at}.doc = d.doc AND p{at}.term = {number:d}"
        for at, (number, _) in enumerate(rarest)
    )
    in_a_row = f" {' '.join(str(number) for number, _ in terms)} "
    # A look-ahead finds occurrences that share a term.
    count = "(SELECT count(*)::float8 FROM regexp_matches(d.sequence, %s, 'g'))"
    return Part(
        "SELECT d.doc, %s::int, %s::float8, %s::float8, %s::bool, %s::bool,"
        f" {count} / ({count} + %s::float8 + %s::float8 * p0.length)"
        f" FROM documents_{tables.number} d{joined} WHERE d.sequence LIKE %s",
        (
            *(n, each.score, each.code, each.is_unstemmed, each.is_must),
            *(f"(?={in_a_row})", f"(?={in_a_row})", a, b, f"%{in_a_row}%"),
        ),
    )


def _score(clauses: Sequence[WeightedClause]) -> Part:
    """Return the sum of scores as SQL.

    A clause with parts adds max(0, its score - the sum of its parts' scores).
    """
    at = {each.clause.terms: n for n, each in enumerate(clauses)}
    owners = {
        n: [at[term,] for term in each.clause.parts if (term,) in at]
        for n, each in enumerate(clauses)
        if each.clause.parts
    }
    if not owners:
        return Part("sum(score * x)")
    score = Part("CASE WHEN count(score) > 0 THEN coalesce(sum(score * x)").then(
        Part(" FILTER (WHERE n <> ALL(%s)), 0)", ([*owners],))
    )
    for n, parts in owners.items():
        above = (
            " + greatest(coalesce(sum(score * x) FILTER (WHERE n = %s), 0)"
            " - coalesce(sum(score * x) FILTER (WHERE n = ANY(%s)), 0), 0)"
        )
        score = score.then(Part(above, (n, parts)))
    return score.then(" END")


def query_terms(query: LegQuery | KeywordQuery) -> list[Term]:
    """Return the terms of all clauses of a query."""
    if isinstance(query, KeywordQuery):
        clauses = (*query.should, *query.must)
    else:
        clauses = (*query.should, *query.codes, *query.unstemmed)
    return [term for clause in clauses for term in clause.terms]
