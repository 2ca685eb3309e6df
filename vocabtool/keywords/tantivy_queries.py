"""What an engine is asked, in tantivy's own queries, and the fields that they are asked of.

Words are scored by tantivy's BM25. A surface counts by its idf alone, whatever the text's length
(``plain_bm25.py`` says why), so it is a constant. Constants keep tantivy from passing over what
cannot be among the best (block-max WAND), so a query of both is asked in two: the words alone, and
those few documents that hold a surface.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from vocabtool.errors import UnsupportedFormat
from vocabtool.keywords.queries import Clause, KeywordQuery, Term

if TYPE_CHECKING:
    import tantivy

Idf = Callable[[Term], float]


class Fields(NamedTuple):
    """Makes queries for one schema; ``idf`` of surfaces is the index's business."""

    schema: tantivy.Schema
    idf: Idf

    def of(self, query: KeywordQuery) -> list[tantivy.Query]:
        """Queries that find the best together; a document's score is the highest it gets."""
        if query.must:
            return [self._all_of(query.must, query.should)]
        words = [clause for clause in query.should if clause.terms[0].field == "words"]
        surfaces = [clause for clause in query.should if clause.terms[0].field == "surfaces"]
        found = [self._any_of(words)] if words else []
        return [*found, self._holding(surfaces, words)] if surfaces else found

    def holding_all(self, clauses: Sequence[Clause]) -> tantivy.Query:
        """Documents that hold every clause, whatever they score."""
        return self._all_of(clauses, ())

    def among(self, query: tantivy.Query, rows: Sequence[int]) -> tantivy.Query:
        """The same, of these rows only."""
        import tantivy

        one_of = tantivy.Query.term_set_query(self.schema, "row", rows)
        unscored = tantivy.Query.const_score_query(one_of, 0.0)
        must = tantivy.Occur.Must
        return tantivy.Query.boolean_query([(must, unscored), (must, query)])

    def _any_of(self, clauses: Sequence[Clause]) -> tantivy.Query:
        import tantivy

        should = tantivy.Occur.Should
        return tantivy.Query.boolean_query([(should, self._clause(clause)) for clause in clauses])

    def _all_of(self, must: Sequence[Clause], should: Sequence[Clause]) -> tantivy.Query:
        import tantivy

        required = [(tantivy.Occur.Must, self._clause(clause)) for clause in must]
        wanted = [(tantivy.Occur.Should, self._clause(clause)) for clause in should]
        return tantivy.Query.boolean_query(required + wanted)

    def _holding(self, surfaces: Sequence[Clause], words: Sequence[Clause]) -> tantivy.Query:
        import tantivy

        wanted = [(tantivy.Occur.Should, self._clause(clause)) for clause in words]
        required = (tantivy.Occur.Must, self._any_of(surfaces))
        return tantivy.Query.boolean_query([required, *wanted])

    def _clause(self, clause: Clause) -> tantivy.Query:
        from tantivy import Query

        first = clause.terms[0]
        if first.field == "surfaces":
            surface = Query.term_query(self.schema, "surfaces", first.text, "basic")
            return Query.const_score_query(surface, clause.boost * self.idf(first))
        return _boosted(self._words(clause.terms), clause.boost)

    def _words(self, terms: Sequence[Term]) -> tantivy.Query:
        from tantivy import Query

        if len(terms) == 1:
            return Query.term_query(self.schema, "words", terms[0].text, "freq")
        return Query.phrase_query(self.schema, "words", [term.text for term in terms])


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


def _boosted(query: tantivy.Query, boost: float) -> tantivy.Query:
    import tantivy

    return query if boost == 1.0 else tantivy.Query.boost_query(query, boost)
