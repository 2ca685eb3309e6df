"""A query as it is asked: its words, which the model does not know, and what each weighs.

The weights were measured on public collections. Here is no ranking: that is in ``fusion.py`` and
``search.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term, idf
from vocabtool.keywords.cutter import QueryWord
from vocabtool.keywords.identifiers import is_name
from vocabtool.search.settings import Predicate, Settings
from vocabtool.search.store import KnownWords, Store, WordStatus
from vocabtool.system.ranking import are_among, mask_of

MAX_WORDS: Final = 1_000  # of a query; a text that is pasted in may hold more
MANY_PIECES: Final = 3  # a model of pieces does not know a code-like word cut into so many
MIN_TELLING: Final = 2  # characters: single ones say nothing, known or not

# What a whole scores at least, in sums of the idf of its parts: what these give in a text of mean
# length that holds each two or three times.
WHOLE_OVER_PARTS: Final = 1.5
NO_TIE: Final = 1e-3  # the share by which a whole is better than the best without it
MAX_COMPARED: Final = 100  # documents that hold all parts of a joined word, with and without it


@dataclass(frozen=True)
class WeighedWord:
    """A word of a query.

    ``counts``: whether it is searched for: stop words are not, unless there is nothing else.
    ``status``: what the model knows of it; ``None`` where nothing tells.
    ``identifier``: a name, or code-like and unknown. ``unknown``: whether the model does not know
    it, be it an identifier or an ordinary word: no single character, and no number.
    """

    word: QueryWord
    counts: bool
    status: WordStatus | None
    identifier: bool
    unknown: bool

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The stems that are searched: of an identifier those of two characters and more.

        Single ones, of which many documents hold some, say nothing: of ``e.g.`` only the whole is
        searched, as one word like others.
        """
        words = self.word.words + self.word.humps
        longer = tuple(word for word in words if len(word) >= MIN_TELLING)
        if self.word.surfaces and len(words) > 1 and not longer and "".join(words).isalpha():
            return ()
        return (longer or words) if self.identifier else words

    @cached_property
    def terms(self) -> list[Term]:
        """All that finds it: its stems, and of a joined word the exact surface."""
        terms = [Term("words", text) for text in self.parts + self.word.unstemmed]
        if self.identifier or self.word.surfaces:
            terms.append(self.word.exact)
        return list(dict.fromkeys(terms)) if len(terms) > 1 else terms

    @property
    def telling_terms(self) -> list[Term]:
        """The terms whose inverse document frequency is the word's weight in the query."""
        if self.identifier:
            return [self.word.exact]
        return [Term("words", text) for text in self.word.words]

    @property
    def in_a_row(self) -> tuple[Term, ...]:
        """The exact term; of a run without blanks, which has none, every pair of characters."""
        if self.word.surfaces:
            return (self.word.exact,)
        return tuple(Term("words", text) for text in self.word.words)


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """``counted``: how often the fusion counts each term. ``should``: what is asked, phrases too.

    ``codes``: what the identifier guarantee is for; ``unstemmed``: the same with names in mixed
    case to the last letter, where that tells more. ``required``: phrases that a document holds.
    ``is_cut``: whether words past the first thousand were left out. ``is_unknown``: whether it has
    words, and the model knows none of them.
    """

    text: str
    words: list[WeighedWord]
    counted: dict[Term, Clause]
    should: tuple[Clause, ...]
    codes: tuple[Clause, ...]
    unstemmed: tuple[Clause, ...]
    required: tuple[Clause, ...]
    is_cut: bool
    is_unknown: bool


def parse_query(store: Store, text: str, settings: Settings) -> Query:
    """What a text asks of an index."""
    every_word = store.cutter.query(text)
    cut = every_word[:MAX_WORDS]
    words = weigh_words(cut, store.known_words, settings.is_identifier())
    match settings.fusion:  # `coverage` alone counts some of the words more
        case "coverage":
            counted = term_clauses(words, store, settings.boost, settings.code_boost)
        case "unknown-only":
            counted = term_clauses([word for word in words if word.unknown], store)
        case "dense":
            counted = {}
        case _:
            counted = term_clauses(words, store)
    should = tuple(counted.values())
    phrases = phrase_clauses(cut)
    required = phrases if settings.phrases == "required" else ()
    if should and not required:
        should += phrases
    counting = [word for word in words if word.counts]
    codes: tuple[Clause, ...] = ()
    if settings.guarantee and settings.fusion not in ("dense", "keyword"):  # a leg stays as it is
        codes = identifier_clauses(words)
        is_alone = len(counting) == 1 and counting[0].word.surfaces
        if not codes and settings.identifier is None and is_alone:  # the joined word is meant
            codes = (Clause((counting[0].word.exact,)),)
    return Query(
        text=text,
        words=words,
        counted=counted,
        should=should,
        codes=codes,
        unstemmed=_unstemmed_clauses(words) if codes else (),
        required=required,
        is_cut=len(cut) < len(every_word),
        is_unknown=bool(counting)
        and all(each.unknown or (each.status and not each.status.known) for each in counting),
    )


def weigh_words(
    words: Sequence[QueryWord], known_words: KnownWords | None, is_identifier: Predicate
) -> list[WeighedWord]:
    """What the words of a query are to the model; without one, only identifiers are unknown."""
    only_stop_words = all(word.stop for word in words)
    statuses: Sequence[WordStatus | None] = [None] * len(words)
    if known_words is not None:
        statuses = known_words.statuses([word.surface for word in words])
    weighed = []
    for word, status in zip(words, statuses, strict=True):
        counts = only_stop_words or not word.stop
        identifier = unknown = False
        if counts:
            known = status is not None and status.known
            unseen = not known or (status is not None and (status.pieces or 0) >= MANY_PIECES)
            looks_like_one = is_identifier(word.surface)
            identifier = looks_like_one and (unseen or is_name(word.surface))
            is_unknown_word = status is not None and not known and is_word(word.surface)
            unknown = (identifier and unseen) or is_unknown_word
        weighed.append(WeighedWord(word, counts, status, identifier, unknown))
    return weighed


def is_word(text: str) -> bool:
    """Whether a text is more than one character, and no number."""
    return len(text) >= MIN_TELLING and any(map(str.isalpha, text))


def term_clauses(
    words: Iterable[WeighedWord], store: Store, boost: float = 0.0, code_boost: float = 0.0
) -> dict[Term, Clause]:
    """A clause for each term, with how often it counts: as the heaviest word that it is of does.

    A whole scores no less than all of its parts together: that of an identifier beside them, that
    of any other joined word instead of those that no other word asks for. The parts of an
    identifier weigh as ordinary words do, only the whole as a code.
    """
    asking = list({word.word.surface: word for word in words if word.counts}.values())
    made: dict[Term, Clause] = {}
    for word in asking:
        weight = 1 + boost if word.unknown else 1.0
        for term in word.terms:
            if term not in made or made[term].boost < weight:
                made[term] = Clause((term,), weight)
    for word in asking:
        if not (word.identifier or word.word.surfaces or word.word.humps) or not word.parts:
            continue
        whole = word.word.exact
        parts = [each for each in word.terms if each != whole]
        parts = [term for term in parts if term.text not in word.word.unstemmed]
        outdone: tuple[Term, ...] = ()
        least = max(made[whole].boost, 1 + code_boost if word.identifier else 0.0)
        if not word.identifier and len(word.word.words) > 1:
            askers = Counter(term for each in asking for term in each.terms)
            parts = [term for term in parts if askers[term] == 1]
            outdone, least = tuple(parts), 0.0
        sum_of_parts = sum(made[part].boost * _idf(part, store) for part in parts)
        score = WHOLE_OVER_PARTS * sum_of_parts
        if outdone:
            score = max(score, _best_without(whole, [made[part] for part in parts], store))
        made[whole] = Clause((whole,), max(least, score / _idf(whole, store)), outdone)
    return made


def _best_without(whole: Term, parts: Sequence[Clause], store: Store) -> float:
    """What all parts together score at most where the whole is not, of the best that hold them."""
    if not store.keywords.document_frequency(whole):
        return 0.0
    keywords = store.keywords
    found = keywords.search(KeywordQuery((), tuple(parts)), MAX_COMPARED, store.live)
    holding = KeywordQuery((Clause((whole,)),))
    holders = keywords.search(holding, MAX_COMPARED, mask_of(found.rows)).rows
    best = found.scores[~are_among(found.rows, holders)].max(initial=0.0)
    return float(best) * (1 + NO_TIE)


def _idf(term: Term, store: Store) -> float:
    return idf(store.rows, store.keywords.document_frequency(term))


def identifier_clauses(words: Iterable[WeighedWord]) -> tuple[Clause, ...]:
    """What finds the documents that hold an identifier exactly, each once."""
    return tuple(map(Clause, dict.fromkeys(word.in_a_row for word in words if word.identifier)))


def _unstemmed_clauses(words: Sequence[WeighedWord]) -> tuple[Clause, ...]:
    """Identifiers, those in mixed case with their own endings; none where that is no other."""
    identifiers = [word for word in words if word.identifier]
    if not any(word.word.unstemmed for word in identifiers):
        return ()
    exact = dict.fromkeys(
        tuple(Term("words", text) for text in word.word.unstemmed) or word.in_a_row
        for word in identifiers
    )
    return tuple(map(Clause, exact))


def phrase_clauses(words: Iterable[QueryWord]) -> tuple[Clause, ...]:
    """The quoted phrases; those without a word are none."""
    quoted: dict[int, list[Term]] = {}
    for word in words:
        if word.phrase is not None:
            terms = quoted.setdefault(word.phrase, [])
            terms.extend(Term("words", text) for text in word.words)
    return tuple(Clause(tuple(terms)) for terms in quoted.values() if terms)


def unknown_share(words: Sequence[WeighedWord], store: Store) -> float:
    """m: the share of the query's idf mass that lies in unknown words which the corpus holds.

    0 for models of pieces and where nothing tells what is known: there it has no use.
    """
    known_words = store.known_words
    if known_words is None or known_words.subword or not any(word.unknown for word in words):
        return 0.0
    masses: dict[Term, float] = {}
    unknown: set[Term] = set()
    for word in words:
        for term in word.telling_terms if word.counts else ():
            frequency = store.keywords.document_frequency(term)
            masses[term] = idf(store.rows, frequency)
            if frequency > 0 and word.unknown and (word.identifier or is_word(term.text)):
                unknown.add(term)
    total = sum(masses.values())
    return sum(mass for term, mass in masses.items() if term in unknown) / total if total else 0.0
