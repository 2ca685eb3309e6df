"""What the words of a query weigh: which are unknown, which identifiers, and what follows from it.

The weights themselves were measured, see ../shared/retrieval.md, points 1 to 9. Here is no
ranking: that is in ``fusion.py`` and ``searching.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from vocabtool.keywords.cutting import QueryWord
from vocabtool.keywords.identifiers import is_name
from vocabtool.keywords.plain_bm25 import idf
from vocabtool.keywords.queries import Clause, KeywordQuery, Term
from vocabtool.search.candidates import are_among, mask_of
from vocabtool.search.knowledge import Knowing, Knowledge
from vocabtool.search.settings import Predicate

if TYPE_CHECKING:
    from vocabtool.search.corpus import Corpus

MOST_WORDS: Final = 1_000  # of a query; a text that is pasted in may hold more
MANY_PIECES: Final = 3  # a model of pieces does not know a code-like word cut into so many
SHORTEST_TELLING: Final = 2  # characters: single ones say nothing, known or not

# What a whole scores at least, in sums of the idf of its parts: what these give in a text of mean
# length that holds each two or three times. 1.75 costs 0.0014 on ../shared/ir/scifact.
WHOLE_OVER_PARTS: Final = 1.5
NO_TIE: Final = 1e-3  # the share by which a whole is better than the best without it
MOST_COMPARED: Final = 100  # documents that hold all parts of a joined word, with and without it


class WeighedWord(NamedTuple):
    """A word of a query.

    ``counts``: whether it is searched for: stop words are not, unless there is nothing else.
    ``knowing``: what the model knows of it; ``None`` where nothing tells.
    ``identifier``: a name, or code-like and unknown. ``unknown``: whether the model does not know
    it, be it an identifier or an ordinary word: no single character, and no number.
    """

    word: QueryWord
    counts: bool
    knowing: Knowing | None
    identifier: bool
    unknown: bool

    @property
    def is_unseen(self) -> bool:
        """Whether the model does not know it, be it a word or a number."""
        return self.unknown or (self.knowing is not None and not self.knowing.known)

    def parts(self) -> tuple[str, ...]:
        """The stems that are searched: of an identifier those of two characters and more.

        Single ones, of which many documents hold some, say nothing: of ``e.g.`` only the whole is
        searched, as one word like others.
        """
        words = self.word.words + self.word.humps
        longer = tuple(word for word in words if len(word) >= SHORTEST_TELLING)
        if self.word.surfaces and len(words) > 1 and not longer and "".join(words).isalpha():
            return ()
        return (longer or words) if self.identifier else words

    def searched(self) -> list[Term]:
        """All that finds it: its stems, and of a joined word the exact surface."""
        terms = [Term("words", text) for text in self.parts() + self.word.unstemmed]
        if self.identifier or self.word.surfaces:
            terms.append(self.word.exact())
        return list(dict.fromkeys(terms)) if len(terms) > 1 else terms

    def telling(self) -> list[Term]:
        """The terms whose inverse document frequency is the word's weight in the query."""
        if self.identifier:
            return [self.word.exact()]
        return [Term("words", text) for text in self.word.words]


def weigh(
    words: Sequence[QueryWord], knowledge: Knowledge | None, is_identifier: Predicate
) -> list[WeighedWord]:
    """What the words of a query are to the model; without one, only identifiers are unknown."""
    only_stop_words = all(word.stop for word in words)
    knowing: Sequence[Knowing | None] = [None] * len(words)
    if knowledge is not None:
        knowing = knowledge.of([word.surface for word in words])
    weighed = []
    for word, known in zip(words, knowing, strict=True):
        counts = only_stop_words or not word.stop
        identifier = unknown = False
        if counts:
            unseen = _is_unseen(known)
            looks_like_one = is_identifier(word.surface)
            identifier = looks_like_one and (unseen or is_name(word.surface))
            unknown = (identifier and unseen) or _is_unknown(word, known)
        weighed.append(WeighedWord(word, counts, known, identifier, unknown))
    return weighed


def _is_unseen(known: Knowing | None) -> bool:
    """Whether the model does not know a word, should it be an identifier."""
    return known is None or not known.known or (known.pieces or 0) >= MANY_PIECES


def _is_unknown(word: QueryWord, known: Knowing | None) -> bool:
    return known is not None and not known.known and is_word(word.surface)


def is_word(text: str) -> bool:
    """Whether a text is more than one character, and no number."""
    return len(text) >= SHORTEST_TELLING and any(map(str.isalpha, text))


def counted(
    words: Iterable[WeighedWord], boost: float, code_boost: float, corpus: Corpus
) -> dict[Term, Clause]:
    """A clause for each term, with how often it counts: as the heaviest word that it is of does.

    A whole scores no less than all of its parts together: that of an identifier beside them, that
    of any other joined word instead of those that no other word asks for. The parts of an
    identifier weigh as ordinary words do, only the whole as a code.
    """
    asking = {word.word.surface: word for word in words if word.counts}.values()
    searched = [(word, word.searched()) for word in asking]
    made: dict[Term, Clause] = {}
    for word, terms in searched:
        weight = 1 + boost if word.unknown else 1.0
        for term in terms:
            if term not in made or made[term].boost < weight:
                made[term] = Clause((term,), weight)
    for word, terms in searched:
        if not (word.identifier or word.word.surfaces or word.word.humps) or not word.parts():
            continue
        whole = word.word.exact()
        parts = [term for term in terms if term != whole and term.text not in word.word.unstemmed]
        outdone: tuple[Term, ...] = ()
        least = max(made[whole].boost, 1 + code_boost if word.identifier else 0.0)
        if not word.identifier and len(word.word.words) > 1:
            askers = Counter(term for _, terms in searched for term in terms)
            parts = [term for term in parts if askers[term] == 1]
            outdone, least = tuple(parts), 0.0
        score = WHOLE_OVER_PARTS * sum(made[part].boost * _idf(part, corpus) for part in parts)
        if outdone:
            score = max(score, _best_without(whole, [made[part] for part in parts], corpus))
        made[whole] = Clause((whole,), max(least, score / _idf(whole, corpus)), outdone)
    return made


def _best_without(whole: Term, parts: Sequence[Clause], corpus: Corpus) -> float:
    """What all parts together score at most where the whole is not, of the best that hold them."""
    if not corpus.document_frequency(whole):
        return 0.0
    found = corpus.keyword_search(KeywordQuery((), tuple(parts)), MOST_COMPARED)
    holding = KeywordQuery((Clause((whole,)),))
    holders = corpus.keyword_search(holding, MOST_COMPARED, mask_of(found.rows)).rows
    best = found.scores[~are_among(found.rows, holders)].max(initial=0.0)
    return float(best) * (1 + NO_TIE)


def _idf(term: Term, corpus: Corpus) -> float:
    return idf(corpus.documents, corpus.document_frequency(term))


def joined_alone(words: Iterable[WeighedWord]) -> tuple[Clause, ...]:
    """What finds a joined word of any kind, where it is all that is searched for: it is meant."""
    asking = [word.word for word in words if word.counts]
    if len(asking) == 1 and asking[0].surfaces:
        return (Clause((asking[0].exact(),)),)
    return ()


def identifiers(words: Iterable[WeighedWord]) -> tuple[Clause, ...]:
    """What finds the documents that hold an identifier exactly, each once."""
    exact = dict.fromkeys(in_a_row(word.word) for word in words if word.identifier)
    return tuple(map(Clause, exact))


def unstemmed(words: Sequence[WeighedWord]) -> tuple[Clause, ...]:
    """The same, those in mixed case with their own endings; none where that is no other."""
    if not any(word.identifier and word.word.unstemmed for word in words):
        return ()
    exact = dict.fromkeys(
        tuple(Term("words", text) for text in word.word.unstemmed) or in_a_row(word.word)
        for word in words
        if word.identifier
    )
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
            unknown = frequency > 0 and word.unknown and (word.identifier or is_word(term.text))
            mass = idf(corpus.documents, frequency)
            masses[term] = (mass, unknown or masses.get(term, (0.0, False))[1])
    return masses
