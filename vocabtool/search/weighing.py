"""What the words of a query weigh: which are unknown, which code-like, and what follows from it.

The weights themselves were measured, see ../shared/retrieval.md, points 1 to 9. Here is no array
and no ranking: those are in ``fusion.py`` and ``searching.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from vocabtool.keywords.cutting import QueryWord
from vocabtool.keywords.plain_bm25 import idf
from vocabtool.keywords.queries import Clause, Term
from vocabtool.search.knowledge import Knowing, Knowledge
from vocabtool.search.settings import Predicate

if TYPE_CHECKING:
    from vocabtool.search.corpus import Corpus

MOST_WORDS: Final = 1_000  # of a query; a text that is pasted in may hold more
MANY_PIECES: Final = 3  # a model of pieces does not know a code-like word cut into so many
SHORTEST_TELLING: Final = 2  # characters: single ones say nothing, known or not


class WeighedWord(NamedTuple):
    """A word of a query.

    ``counts``: whether it is searched for: stop words are not, unless there is nothing else.
    ``knowing``: what the model knows of it; ``None`` where nothing tells.
    ``identifier``: code-like and unknown. ``unknown``: such a word, or an ordinary word that the
    model does not know: not a single character, and no number.
    """

    word: QueryWord
    counts: bool
    knowing: Knowing | None
    identifier: bool
    unknown: bool

    @property
    def is_unseen(self) -> bool:
        """Whether the model does not know it, be it a word or a number."""
        return self.identifier or (self.knowing is not None and not self.knowing.known)

    def parts(self) -> tuple[str, ...]:
        """The stems that are searched: of an identifier those of two characters and more.

        Single ones, of which many documents hold some, say nothing; alone they are all there is.
        """
        words = self.word.words
        if not self.identifier:
            return words
        return tuple(word for word in words if len(word) >= SHORTEST_TELLING) or words

    def searched(self) -> list[Term]:
        """All that finds it: its stems, and the exact surface where those do not tell it apart.

        That is for identifiers, and for ``C++``, of which only ``c`` is a stem. To count the whole
        of ``quick-brown`` beside its stems costs quality (0.003 on ../shared/ir/scifact).
        """
        terms = [Term("words", text) for text in self.parts()]
        if self.identifier or (self.word.surfaces and len(self.word.words) == 1):
            terms.append(self.word.exact())
        return terms

    def telling(self) -> list[Term]:
        """The terms whose inverse document frequency is the word's weight in the query."""
        if self.identifier:
            return [self.word.exact()]
        return [Term("words", text) for text in self.word.words]


def weigh(
    words: Sequence[QueryWord], knowledge: Knowledge | None, is_code_like: Predicate
) -> list[WeighedWord]:
    """What the words of a query are to the model; without ``knowledge`` only codes are unknown."""
    only_stop_words = all(word.stop for word in words)
    knowing: Sequence[Knowing | None] = [None] * len(words)
    if knowledge is not None:
        knowing = knowledge.of([word.surface for word in words])
    weighed = []
    for word, known in zip(words, knowing, strict=True):
        counts = only_stop_words or not word.stop
        identifier = counts and _is_unseen(known) and is_code_like(word.surface)
        unknown = identifier or (counts and _is_unknown(word, known))
        weighed.append(WeighedWord(word, counts, known, identifier, unknown))
    return weighed


def _is_unseen(known: Knowing | None) -> bool:
    """Whether the model does not know a word, should it be code-like."""
    return known is None or not known.known or (known.pieces or 0) >= MANY_PIECES


def _is_unknown(word: QueryWord, known: Knowing | None) -> bool:
    return known is not None and not known.known and is_word(word.surface)


def is_word(text: str) -> bool:
    """Whether a text is more than one character, and no number."""
    return len(text) >= SHORTEST_TELLING and any(map(str.isalpha, text))


def counted(words: Iterable[WeighedWord], boost: float, code_boost: float) -> dict[Term, float]:
    """How often each term counts; one that several words share counts as the heaviest does."""
    weights: dict[Term, float] = {}
    for word in words:
        if word.counts:
            for term, weight in _weights(word, boost, code_boost).items():
                weights[term] = max(weight, weights.get(term, 0.0))
    return weights


def _weights(word: WeighedWord, boost: float, code_boost: float) -> dict[Term, float]:
    """The parts of an identifier weigh as ordinary unknown words do, only the whole as a code."""
    weights = dict.fromkeys(word.searched(), 1 + boost if word.unknown else 1.0)
    if word.identifier:
        weights[word.word.exact()] = 1 + code_boost
    return weights


def clauses(weights: Mapping[Term, float]) -> tuple[Clause, ...]:
    """A clause for each term."""
    return tuple(Clause((term,), weight) for term, weight in weights.items())


def identifiers(words: Iterable[WeighedWord]) -> tuple[Clause, ...]:
    """What finds the documents that hold an identifier exactly, each once."""
    exact = dict.fromkeys(in_a_row(word.word) for word in words if word.identifier)
    return tuple(map(Clause, exact))


def in_a_row(word: QueryWord) -> tuple[Term, ...]:
    """The exact term; of a run without blanks, which has none, every pair of characters."""
    if word.surfaces:
        return (word.exact(),)
    return tuple(Term("words", text) for text in word.words)


def phrases(words: Iterable[QueryWord]) -> tuple[Clause, ...]:
    """The quoted phrases; those without a word are none."""
    quoted: dict[int, list[Term]] = {}
    for word in words:
        if word.phrase is not None:
            terms = quoted.setdefault(word.phrase, [])
            terms.extend(Term("words", text) for text in word.words)
    return tuple(Clause(tuple(terms)) for terms in quoted.values() if terms)


def unknown_share(words: Sequence[WeighedWord], corpus: Corpus) -> float:
    """m: the share of the query's idf mass that lies in unknown words which the corpus holds.

    0 for models of pieces and where nothing tells what is known: there it has no use.
    """
    knowledge = corpus.knowledge
    if knowledge is None or knowledge.subword or not any(word.unknown for word in words):
        return 0.0
    masses = _masses(words, corpus)
    total = sum(mass for mass, _ in masses.values())
    return sum(mass for mass, unknown in masses.values() if unknown) / total if total else 0.0


def _masses(words: Iterable[WeighedWord], corpus: Corpus) -> dict[Term, tuple[float, bool]]:
    """The inverse document frequency of each term, and whether it is one of an unknown word."""
    masses: dict[Term, tuple[float, bool]] = {}
    for word in words:
        for term in word.telling() if word.counts else ():
            frequency = corpus.document_frequency(term)
            unknown = frequency > 0 and (word.identifier or (word.unknown and is_word(term.text)))
            mass = idf(corpus.documents, frequency)
            masses[term] = (mass, unknown or masses.get(term, (0.0, False))[1])
    return masses
