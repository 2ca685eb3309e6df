"""The words of a query, their weights, and whether the model knows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from vocabtool.keywords.bm25 import Clause, Term, idf
from vocabtool.keywords.cutter import QueryWord
from vocabtool.keywords.tokens import is_name
from vocabtool.search.language import Operator, understand
from vocabtool.search.settings import Predicate, Settings
from vocabtool.search.store import JoinedWord, KnownWords, Store, WordStatus

MAX_WORDS: Final = 1_000  # of a query; pasted texts may have more
MAX_JOINED_WORDS: Final = (
    50  # joined words of a query whose parts are searched; each costs a search
)
MANY_PIECES: Final = 3  # a code-like word with so many pieces counts as unknown to a subword model
MIN_TELLING: Final = 2  # characters; single characters carry no meaning

# Minimum score of a whole word, relative to the idf sum of its parts: about their score in a text
# of mean length that contains each part two or three times.
WHOLE_OVER_PARTS: Final = 1.5
NO_TIE: Final = 1e-3  # margin of a whole word over the best document without it


class WeighedWord(NamedTuple):
    """A word of a query.

    - ``counts``: whether the word is searched. Stop words are searched only if the query has no
      other word.
    - ``identifier``: whether the word is a name, or a code that the model does not know.
    - ``unknown``: whether the model does not know the word. False for single characters and
      numbers.
    - ``exact``: the term of the whole word.
    - ``in_a_row``: a document that has these terms one after another contains the whole word.
    - ``parts``: the stems of the word's parts, such as ``foo`` and ``bar`` for ``foo_bar``. Those
      of an identifier have at least two characters.
    - ``terms``: all terms that are searched for the word.
    - ``telling``: the terms whose idf :func:`unknown_share` adds up: ``exact`` for an identifier,
      otherwise the stems of the word.
    """

    word: QueryWord
    counts: bool
    status: WordStatus | None
    identifier: bool
    unknown: bool
    exact: Term
    in_a_row: tuple[Term, ...]
    parts: tuple[str, ...]
    terms: tuple[Term, ...]
    telling: tuple[Term, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """A parsed query.

    - ``searched``: the text without operators.
    - ``m``: the result of :func:`unknown_share`.
    - ``counted``: the clause of each term, with its weight.
    - ``should``: the clauses of ``counted``, and clauses for phrases that are not required.
    - ``codes``: a clause for each identifier. Documents that match any of these clauses rank first.
    - ``unstemmed``: the clauses of ``codes``, but names in mixed case are not stemmed:
      ``DataFrames`` does not match ``DataFrame``. Empty if stemming changes no such name.
    - ``required``: phrases that a document must contain.
    - ``is_unknown``: whether the query has words, but the model knows none of them.
    """

    text: str
    searched: str
    words: list[WeighedWord]
    frequencies: Mapping[Term, int]
    m: float
    counted: dict[Term, Clause]
    should: tuple[Clause, ...]
    codes: tuple[Clause, ...]
    unstemmed: tuple[Clause, ...]
    required: tuple[Clause, ...]
    operators: tuple[Operator, ...]
    is_cut: bool
    is_unknown: bool


def parse_query(store: Store, text: str, settings: Settings) -> Query:
    understood = understand(store, text, settings.literal)
    every_word = store.cutter.query(understood.text)
    cut = every_word[:MAX_WORDS]
    words = weigh_words(cut, store.known_words, settings.is_identifier())
    counting = [word for word in words if word.counts]
    terms = dict.fromkeys(term for word in counting for term in word.terms + word.telling)
    quoted: dict[int, tuple[Term, ...]] = {}
    either = set[int]()  # a document needs only one of these phrases
    alternatives = [each for each in understood.operators if each.kind == "one of"]
    for each in cut:
        if each.phrase is not None:
            in_phrase = tuple(Term("words", stem) for stem in each.words)
            quoted[each.phrase] = quoted.get(each.phrase, ()) + in_phrase
            terms |= dict.fromkeys(in_phrase)
            if any(one.start <= each.start < one.end for one in alternatives):
                either.add(each.phrase)
    boost = code_boost = 0.0
    asking = counting
    match settings.fusion:
        case "coverage":  # the only fusion that boosts words
            boost, code_boost = settings.boost, settings.code_boost
        case "unknown-only":
            asking = [word for word in counting if word.unknown]
        case "dense":
            asking = []
    counted, frequencies = term_clauses(asking, store, terms, boost, code_boost)
    should = tuple(counted.values())
    required: tuple[Clause, ...] = ()
    if settings.phrases == "required":
        required = tuple(Clause(quoted[phrase]) for phrase in quoted if phrase not in either)
    if should:
        should += tuple(each for each in map(Clause, quoted.values()) if each not in required)
    codes: dict[tuple[Term, ...], None] = {}
    unstemmed: dict[tuple[Term, ...], None] = {}
    if settings.guarantee and settings.fusion not in ("dense", "keyword"):  # rank by one leg only
        named = [word for word in words if word.identifier]
        codes = dict.fromkeys(word.in_a_row for word in named)
        if any(word.word.unstemmed for word in named):
            unstemmed = dict.fromkeys(
                tuple(Term("words", whole) for whole in word.word.unstemmed) or word.in_a_row
                for word in named
            )
        is_alone = len(counting) == 1 and counting[0].word.surfaces
        if not codes and settings.identifier is None and is_alone:  # search for the joined word
            codes = {(counting[0].exact,): None}
    return Query(
        text=text,
        searched=understood.for_vector,
        words=words,
        frequencies=frequencies,
        m=unknown_share(counting, store, frequencies),
        counted=counted,
        should=should,
        codes=tuple(map(Clause, codes)),
        unstemmed=tuple(map(Clause, unstemmed)),
        required=required,
        operators=understood.operators,
        is_cut=len(cut) < len(every_word),
        is_unknown=bool(counting)
        and all(each.unknown or (each.status and not each.status.known) for each in counting),
    )


def weigh_words(
    words: Sequence[QueryWord], known_words: KnownWords | None, is_identifier: Predicate
) -> list[WeighedWord]:
    """Look up the words of a query in the model, and choose their terms.

    Without ``known_words``, only identifiers count as unknown.
    """
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
        stems = tuple([Term("words", stem) for stem in word.words])
        exact, parts, terms = stems[0], word.words, stems
        if word.surfaces or word.humps:
            parts += word.humps
            terms = tuple([Term("words", stem) for stem in parts + word.unstemmed])
        if word.surfaces or identifier:
            if word.surfaces:
                exact = Term("surfaces", word.surfaces[0])
            # Single characters are in too many documents to be useful, so only the whole of
            # ``e.g.`` is searched, like any other word.
            longer = tuple(part for part in parts if len(part) >= MIN_TELLING)
            if word.surfaces and len(parts) > 1 and not longer and "".join(parts).isalpha():
                parts = ()
            elif identifier:
                parts = longer or parts
            terms = (*(Term("words", stem) for stem in parts + word.unstemmed), exact)
        weighed.append(
            WeighedWord(
                word=word,
                counts=counts,
                status=status,
                identifier=identifier,
                unknown=unknown,
                exact=exact,
                in_a_row=(exact,) if word.surfaces else stems,
                parts=parts,
                terms=tuple(dict.fromkeys(terms)) if len(terms) > 1 else terms,
                telling=(exact,) if identifier else stems,
            )
        )
    return weighed


def is_word(text: str) -> bool:
    """Return whether a text has more than one character and is not a number."""
    return len(text) >= MIN_TELLING and any(map(str.isalpha, text))


def term_clauses(
    words: Iterable[WeighedWord],
    store: Store,
    terms: Iterable[Term],
    boost: float = 0.0,
    code_boost: float = 0.0,
) -> tuple[dict[Term, Clause], Mapping[Term, int]]:
    """Return a weighted clause for each term of ``words``, and the frequency of each of ``terms``.

    ``terms``: must include the terms of ``words``.

    A whole word scores at least as much as all its parts together. The score of an identifier
    (``foo_bar``) is added to the scores of its parts. The score of any other joined word
    (``input/output``) replaces the scores of its parts.
    """
    asking = list({word.word.surface: word for word in words}.values())
    made: dict[Term, Clause] = {}
    for word in asking:
        weight = 1 + boost if word.unknown else 1.0
        for term in word.terms:
            if term not in made or made[term].boost < weight:
                made[term] = Clause((term,), weight)
    joined = list[tuple[WeighedWord, JoinedWord, bool]]()
    for word in asking:
        if not (word.identifier or word.word.surfaces or word.word.humps) or not word.parts:
            continue
        others = [term for term in word.terms if term != word.exact]
        parts = [made[term] for term in others if term.text not in word.word.unstemmed]
        replaces = not word.identifier and len(word.word.words) > 1
        if replaces:
            askers = Counter(term for each in asking for term in each.terms)
            parts = [part for part in parts if askers[part.terms[0]] == 1]
        joined.append((word, JoinedWord(word.exact, tuple(parts)), replaces))
    asked = [each for _, each, replaces in joined if replaces and each.parts]
    frequencies, bests = store.statistics(terms, asked[:MAX_JOINED_WORDS])
    for word, each, replaces in joined:
        of_parts = tuple(part.terms[0] for part in each.parts)
        mass = sum(made[term].boost * idf(store.rows, frequencies[term]) for term in of_parts)
        score = max(WHOLE_OVER_PARTS * mass, bests.get(each, 0.0) * (1 + NO_TIE))
        least = max(made[each.whole].boost, 1 + code_boost if word.identifier else 0.0)
        weight = max(0.0 if replaces else least, score / idf(store.rows, frequencies[each.whole]))
        made[each.whole] = Clause((each.whole,), weight, of_parts if replaces else ())
    return made, frequencies


def unknown_share(
    words: Sequence[WeighedWord], store: Store, frequencies: Mapping[Term, int]
) -> float:
    """Return m, 0 to 1: the share of a query's idf that comes from unknown words.

    Words that are not in the corpus do not count. m is 0 for models with
    subword pieces, and if the vocabulary is not available.
    """
    known_words = store.known_words
    if known_words is None or known_words.subword or not any(word.unknown for word in words):
        return 0.0
    masses: dict[Term, float] = {}
    unknown: set[Term] = set()
    for word in words:
        for term in word.telling:
            masses[term] = idf(store.rows, frequencies[term])
            if frequencies[term] and word.unknown and (word.identifier or is_word(term.text)):
                unknown.add(term)
    total = sum(masses.values())
    return sum(mass for term, mass in masses.items() if term in unknown) / total if total else 0.0
