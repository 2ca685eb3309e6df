"""Find documents that are similar to a given document, by its vector and some of its words.

The words are those with the highest BM25 weights, at most 25, as in Lucene's MoreLikeThis.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from vocabtool.keywords.bm25 import Term, idf, term_score
from vocabtool.search.hits import Hits
from vocabtool.search.search import search
from vocabtool.search.settings import Settings
from vocabtool.search.store import IndexStore

MAX_TELLING: Final = 25  # words; the default of Lucene's MoreLikeThis
MAX_CHARACTERS: Final = 100_000  # of a document; the rest is not read


def find_similar(
    store: IndexStore,
    row: int,
    mean_length: float,
    *,
    k: int,
    a: float | None,
    where: str | None,
    explain: bool,
) -> Hits:
    """Search by the vector of the document in ``row``, and by its words of highest BM25 weight.

    ``mean_length``: mean number of terms per document. ``a``: weight of keyword search, or ``None``
    for its default.
    """
    rows = np.array([row])
    text = store.documents.fetch_documents(rows)[0].text[:MAX_CHARACTERS]
    words = telling_words(store, text, mean_length)
    return search(
        store,
        " ".join(words) or None,
        store.vectors.take(rows)[0],
        k=k,
        settings=Settings(a=a, guarantee=False, literal=True),
        where=where,
        explain=explain,
        without=row,
        is_own=True,
    )


def telling_words(store: IndexStore, text: str, mean_length: float) -> list[str]:
    """Return the words of a text that have the highest BM25 weights, best first, as written."""
    (terms,) = store.cutter.terms([text])
    counts, spellings = Counter(terms.words.split()), dict[Term, str]()
    for word in store.cutter.spans(text):
        if word.surfaces:
            spellings.setdefault(Term("surfaces", word.surfaces[0]), word.surface)
        elif not word.stop:
            for stem, place in store.cutter.places(word.surface):
                if stem in word.words:
                    spelling = word.surface[place.start : place.end]
                    spellings.setdefault(Term("words", stem), spelling)
    frequencies = store.keywords.document_frequencies(spellings)
    weights = dict[Term, float]()
    for term, frequency in frequencies.items():
        if frequency > 1:
            weight = idf(store.rows, frequency)
            if term.field == "words":
                weight = term_score(weight, counts[term.text], terms.count, mean_length)
            weights[term] = weight
    best = sorted(weights, key=weights.__getitem__, reverse=True)[:MAX_TELLING]
    return [spellings[term] for term in best]
