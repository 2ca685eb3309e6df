"""What an engine is asked, in tantivy's own queries, and the fields that they are asked of.

Words are scored by tantivy's BM25. A surface counts by its idf alone, whatever the text's length
(``plain_bm25.py`` says why), so it is a constant. Constants keep tantivy from passing over what
cannot be among the best (block-max WAND), so a query of both is asked in two: the words alone, and
those few documents that hold a surface.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from vocabtool.errors import UnsupportedFormat
from vocabtool.keywords.queries import Clause, KeywordQuery, Term

if TYPE_CHECKING:
    import tantivy

Idf = Callable[[Term], float]

KEPT: Final = 32  # clauses


class Fields:
    """Makes queries of one commit; ``idf`` of surfaces is the index's business.

    A search asks for the same clause more than once, so the last ones are kept, with their idf.
    """

    def __init__(self, schema: tantivy.Schema, idf: Idf) -> None:
        from tantivy import Occur, Query

        self._schema, self._idf = schema, idf
        self._queries = Query
        self._must, self._should = Occur.Must, Occur.Should
        self._clause = lru_cache(KEPT)(self._made)

    def of(self, query: KeywordQuery) -> list[tantivy.Query]:
        """Queries that find the best together; a document's score is the highest it gets."""
        if query.must:
            return [self._all_of(query.must, query.should)]
        words = [clause for clause in query.should if clause.terms[0].field == "words"]
        surfaces = [clause for clause in query.should if clause.terms[0].field == "surfaces"]
        found = [self._any_of(words)] if words else []
        return [*found, self._holding(surfaces, query.should)] if surfaces else found

    def holding_all(self, clauses: Sequence[Clause]) -> tantivy.Query:
        """Documents that hold every clause, whatever they score."""
        return self._all_of(clauses, ())

    def among(self, query: tantivy.Query, rows: Sequence[int]) -> tantivy.Query:
        """The same, of these rows only."""
        one_of = self._queries.term_set_query(self._schema, "row", rows)
        unscored = self._queries.const_score_query(one_of, 0.0)
        return self._queries.boolean_query([(self._must, unscored), (self._must, query)])

    def _any_of(self, clauses: Sequence[Clause]) -> tantivy.Query:
        return self._queries.boolean_query([(self._should, self._clause(each)) for each in clauses])

    def _all_of(self, must: Sequence[Clause], should: Sequence[Clause]) -> tantivy.Query:
        required = [(self._must, self._clause(clause)) for clause in must]
        return self._queries.boolean_query([*required, *self._scored(should)])

    def _holding(self, surfaces: Sequence[Clause], should: Sequence[Clause]) -> tantivy.Query:
        unscored = self._queries.const_score_query(self._any_of(surfaces), 0.0)
        return self._queries.boolean_query([(self._must, unscored), *self._scored(should)])

    def _scored(self, clauses: Sequence[Clause]) -> list[tuple[tantivy.Occur, tantivy.Query]]:
        """What each is worth; of a whole and the parts that it outdoes, which are more."""
        by_term = {clause.terms: clause for clause in clauses}
        outdone = {(term,) for clause in clauses for term in clause.parts}
        scored = []
        for clause in clauses:
            if clause.parts:
                parts = self._any_of([by_term[term,] for term in clause.parts])
                most = self._queries.disjunction_max_query([self._clause(clause), parts])
                scored.append((self._should, most))
            elif clause.terms not in outdone:
                scored.append((self._should, self._clause(clause)))
        return scored

    def _made(self, clause: Clause) -> tantivy.Query:
        terms, boost, _ = clause
        first = terms[0]
        if first.field == "surfaces":
            surface = self._queries.term_query(self._schema, "surfaces", first.text, "basic")
            return self._queries.const_score_query(surface, boost * self._idf(first))
        words = self._words(terms)
        return words if boost == 1.0 else self._queries.boost_query(words, boost)

    def _words(self, terms: Sequence[Term]) -> tantivy.Query:
        if len(terms) == 1:
            return self._queries.term_query(self._schema, "words", terms[0].text, "freq")
        return self._queries.phrase_query(self._schema, "words", [term.text for term in terms])


def schema() -> tantivy.Schema:
    """The fields of a document. Texts are cut by us, tantivy only splits at blanks."""
    import tantivy

    return (
        tantivy.SchemaBuilder()
        .add_unsigned_field("row", indexed=True, fast=True)
        .add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
        .add_text_field("words", tokenizer_name="whitespace", index_option="position")
        .add_text_field("surfaces", tokenizer_name="whitespace", index_option="basic")
        .build()
    )


def require_tantivy() -> None:
    """Raise :class:`UnsupportedFormat` where tantivy is not installed."""
    try:
        import tantivy
    except ImportError as error:
        what = "keyword search needs tantivy; pip install tantivy"
        raise UnsupportedFormat(what) from error
    del tantivy
