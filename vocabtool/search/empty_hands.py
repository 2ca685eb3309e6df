"""When a query has no word that the model knows, and none that a document holds.

Then the nearest vectors are guesses. What else there is: how its words may be spelled.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from vocabtool.keywords.queries import Clause, KeywordQuery, Term
from vocabtool.keywords.spellings import as_written
from vocabtool.search.corpus import Corpus
from vocabtool.search.hits import Suggestion
from vocabtool.search.query import Query

MOST_WORDS: Final = 8  # that spellings are looked for
MOST_SPELLINGS: Final = 5
DOCUMENTS_READ: Final = 5


def suggestions(corpus: Corpus, query: Query) -> tuple[Suggestion, ...]:
    """Near spellings of the words that the corpus does not hold, where it has such."""
    stems: dict[str, str] = {}
    for word in query.words:
        if word.counts and len(word.word.words) == 1:  # a compound is not spelled out of words
            stems.setdefault(word.word.surface, word.word.words[0])
    found = (
        Suggestion(surface, _spellings(corpus, stem))
        for surface, stem in islice(stems.items(), MOST_WORDS)
    )
    return tuple(suggestion for suggestion in found if suggestion.spellings)


def _spellings(corpus: Corpus, stem: str) -> tuple[str, ...]:
    if corpus.document_frequency(Term("words", stem)):
        return ()
    near = corpus.near_spellings(stem, MOST_SPELLINGS)
    return tuple(dict.fromkeys(_written(corpus, other) for other in near))


def _written(corpus: Corpus, stem: str) -> str:
    """A stem as some documents write it: stems are what is indexed, not what people read."""
    query = KeywordQuery((Clause((Term("words", stem),)),))
    rows = corpus.keyword_search(query, DOCUMENTS_READ).rows
    texts = [document.text for document in corpus.stored(rows)]
    return as_written(stem, texts, corpus.cutter) or stem


def respelled(query: Query, suggested: tuple[Suggestion, ...]) -> str:
    """The query with the best spelling of each word."""
    best = {each.word: each.spellings[0] for each in suggested}
    parts, end = [], 0
    for word in (word.word for word in query.words if word.word.surface in best):
        parts += [query.text[end : word.start], best[word.surface]]
        end = word.end
    return "".join([*parts, query.text[end:]])
