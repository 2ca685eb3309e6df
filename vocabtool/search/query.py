"""The words of a query, their weights, and whether the model knows them; the query language.

    query     = { item }
    item      = part { "OR" part }
    part      = words | "-" word | "-" phrase | [ "-" ] FIELD ":" value
    value     = phrase | the characters up to the next white space

An operator stands at the start of the query, or after white space or an opening bracket. All other
text is searched as words, so every query is valid:

- ``-`` is an operator only before a phrase, a field, or a plain word. ``-5``, ``-r`` and
  ``-foo-bar`` are searched as words.
- FIELD is a field of the index whose name is a plain word. The value of a numeric field is a
  number, and the value of a boolean field is ``true`` or ``false``. A value is a phrase, or begins
  with a letter, a digit or the sign of a number. ``std::vector`` and ``http://x`` are words.
- ``OR`` is in capitals. Each of its parts must have a word that is not a stop word.
- Brackets have no meaning.
- A query that contains nothing but exclusions is searched as words.

Operators restrict the documents of vector search and of keyword search. A document must satisfy all
exclusions and fields, and at least one of the parts that an ``OR`` joins. Other words are not
required.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, Literal, NamedTuple

from vocabtool.choices import ONE_LEG
from vocabtool.documents.batch import Kind
from vocabtool.keywords.cutter import QUOTED, Clause, Cutter, KeywordQuery, QueryWord, Term, idf
from vocabtool.keywords.tokens import is_identifier, is_name
from vocabtool.search.conditions import Where
from vocabtool.search.settings import Settings
from vocabtool.search.store import Combination, Demand, Snapshot
from vocabtool.tokenization.words import KnownWords, WordStatus

MAX_OPERATORS: Final = 100  # a text with more is no query of this language: all are words
MAX_TERMS: Final = 1_000  # of an excluded phrase, and of all alternatives; then all are words
MAX_VALUE: Final = 1_000  # characters of a field's value
MIN_EXCLUDED: Final = 2  # characters: ``-r`` is more likely an option of a command

CHUNK: Final = re.compile(rf"(?:{QUOTED.pattern}|\S)+")
# Quick to try.
MAYBE: Final = re.compile(r'(?<![^\s(])(?:-["\uff02“”„«»\w]|OR(?!\S)|-?[^\W\d]\w*:\S)')
NAMED: Final = re.compile(r"(?P<no>-?)(?P<name>[^\W\d]\w*):")
VALUE: Final = re.compile(r"(?:[^\W_]|[-+][0-9]).*", re.DOTALL)
NUMBER: Final = re.compile(r"[-+]?[0-9]{1,18}(?:\.[0-9]{1,18})?")
AFTER: Final = ").,;:!?"  # punctuation of a sentence


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a query between white space, or several that an ``OR`` joins (``one of``).

    ``text``: the part as written. ``demand``: what an operator demands of a document.
    """

    kind: Literal["words", "OR", "without", "with", "one of"]
    text: str
    start: int
    end: int
    demand: Demand | None = None


def understand(
    snapshot: Snapshot, text: str, literal: bool = False
) -> tuple[str, tuple[Part, ...], str]:
    """Find the operators of a query. ``literal``: whether to treat the whole text as words.

    Returns the query with white space in place of operators, so that words keep their offsets; the
    operators; and the text to encode, which is empty if the query has only operators.
    """
    as_words = text, (), text
    if literal or MAYBE.search(text) is None:
        return as_words
    parts = [_part(snapshot, text, *chunk.span()) for chunk in CHUNK.finditer(text)]
    if not 0 < sum(part.kind != "words" for part in parts) <= MAX_OPERATORS:
        return as_words
    operators: list[Part] = []
    blanked: list[Part] = []
    terms = 0
    for run in _runs(parts):
        start, end = run[0].start, run[-1].end
        if len(run) > 1:
            demands = [part.demand or _demand(snapshot.cutter, part.text) for part in run]
            alternatives = tuple(demand for demand in demands if demand is not None)
            if len(alternatives) == len(run):
                one_of = Combination("any", alternatives)
                operators.append(Part("one of", text[start:end], start, end, one_of))
                blanked += [part for part in parts if start <= part.start < end]
                terms += sum(map(_size, alternatives))
                continue
        operators += [part for part in run if part.demand is not None]
    blanked += operators
    if terms > MAX_TERMS:
        return as_words
    characters = list(text)
    for part in blanked:
        if part.kind not in ("words", "one of"):
            characters[part.start : part.end] = " " * (part.end - part.start)
    searched = "".join(characters)
    has_words = bool(snapshot.cutter.spans(searched))
    if not has_words and all(operator.kind == "without" for operator in operators):
        return as_words
    for_vector = " ".join(searched.split()) if operators else searched
    return searched, tuple(operators), for_vector if has_words else ""


def _runs(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield each part that is not an ``OR``, together with the parts that an ``OR`` joins to it."""
    run: list[Part] = []
    ors = 0  # before a part; two and more of them join nothing
    for part in parts:
        if part.kind == "OR":
            ors += 1
            continue
        if run and ors != 1:
            yield run
            run = []
        run.append(part)
        ors = 0
    if run:
        yield run


def _part(snapshot: Snapshot, text: str, start: int, end: int) -> Part:
    bare = text[start:end].lstrip("(")  # brackets, and punctuation at the end, are no part of it
    if bare.rstrip(AFTER):
        start, end = end - len(bare), end - len(bare) + len(bare.rstrip(AFTER))
    written = text[start:end]
    if written == "OR":
        return Part("OR", written, start, end)
    if text[start] == "-":
        clauses = _exclusion(snapshot.cutter, text, start + 1, end)
        if clauses:
            return Part("without", written, start, end, Combination("none", clauses))
    named = NAMED.match(text, start, end)
    kind = snapshot.fields.get(named["name"]) if named is not None else None
    if named is not None and kind is not None:
        quoted = QUOTED.fullmatch(text, named.end(), end)
        plain = VALUE.fullmatch(text, named.end(), end)
        value = quoted[1] if quoted is not None else plain[0] if plain is not None else ""
        condition = _condition(named["name"], kind, " ".join(value.split()))
        if condition is not None and named["no"]:
            return Part("without", written, start, end, Combination("none", (condition,)))
        if condition is not None:
            return Part("with", written, start, end, condition)
    return Part("words", written, start, end)


def _exclusion(cutter: Cutter, text: str, start: int, end: int) -> tuple[Clause, ...]:
    quoted = QUOTED.fullmatch(text, start, end)
    word = text[start:end] if quoted is None else quoted[1]
    spans = cutter.spans(word)
    if quoted is None:
        if len(word) < MIN_EXCLUDED or not word[0].isalpha() or len(spans) != 1:
            return ()
        is_plain = spans[0].surface == word and not spans[0].surfaces and not spans[0].stop
        return _of_word(spans[0]) if is_plain else ()
    terms = tuple(Term("words", stem) for span in spans for stem in span.in_a_row)
    return (Clause(terms),) if 0 < len(terms) <= MAX_TERMS else ()


def _of_word(word: QueryWord) -> tuple[Clause, ...]:
    """Return a clause for the terms of a word in a row, and one for each accented spelling."""
    in_a_row = Clause(tuple(Term("words", stem) for stem in word.in_a_row))
    return (in_a_row, *(Clause((Term("words", term),)) for term in word.accented))


def _condition(name: str, kind: Kind, value: str) -> Where | None:
    match kind:
        case "string" if value.isprintable() and 0 < len(value) <= MAX_VALUE:
            quote = value.replace("'", "''")
            return Where.of(f"\"{name}\" has word '{quote}'")
        case "integer" | "number" if NUMBER.fullmatch(value):
            return Where.of(f'"{name}" = {value}')
        case "boolean" if value.lower() in ("true", "false"):
            return Where.of(f'"{name}" = {value.lower()}')
    return None


def _demand(cutter: Cutter, text: str) -> Demand | None:
    """Return what the words and phrases of a text demand; ``None`` if it has only stop words."""
    demands, phrases = list[Demand](), dict[int, tuple[Term, ...]]()
    for word in cutter.query(text):
        first, *others = clauses = _of_word(word)
        if word.phrase is not None:
            phrases[word.phrase] = phrases.get(word.phrase, ()) + first.terms
        elif word.surfaces:
            demands.append(Clause((Term("surfaces", word.surfaces[0]),)))
        elif not word.stop:
            demands.append(Combination("any", clauses) if others else first)
    distinct = (*dict.fromkeys((*demands, *map(Clause, phrases.values()))),)
    if len(distinct) > 1:
        return Combination("all", distinct)
    return distinct[0] if distinct else None


def _size(demand: Demand) -> int:
    """Return the number of terms and conditions in a demand."""
    match demand:
        case Clause():
            return len(demand.terms)
        case Combination():
            return sum(map(_size, demand.parts))
    return 1


MAX_WORDS: Final = 1_000  # of a query; pasted texts may have more
MAX_JOINED_WORDS: Final = 50  # of a query, whose parts are searched; each costs a search
MANY_PIECES: Final = 3  # a code-like word with so many pieces counts as unknown to a subword model
MIN_TELLING: Final = 2  # characters; single characters carry no meaning
# Weights in the keyword search of the fusion "coverage": measured on public collections.
UNKNOWN_WEIGHT: Final = 1.5  # of a word that the model does not know
CODE_WEIGHT: Final = 3.0  # of a whole identifier, at least

# Minimum score of a whole word, relative to the idf sum of its parts: about their score in a text
# of mean length that contains each part two or three times.
WHOLE_OVER_PARTS: Final = 1.5
# Weight of another spelling of a word, relative to the spelling in the query.
OTHER_SPELLING: Final = 0.25
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

    - ``for_vector``: the text without operators; empty if it has no other words.
    - ``keywords``: what the keyword leg searches for: the clauses of all terms, with their weights,
      and clauses for phrases that are not required.
    - ``clauses``: the clause of each term, with its weight.
    - ``required``: phrases that a document must contain.
    - ``is_unknown``: whether the query has words, but the model knows none of them.
    """

    text: str
    for_vector: str
    keywords: KeywordQuery
    words: list[WeighedWord]
    frequencies: Mapping[Term, int]
    m: float
    clauses: dict[Term, Clause]
    required: tuple[Clause, ...]
    operators: tuple[Part, ...]
    is_cut: bool
    is_unknown: bool


def parse_query(snapshot: Snapshot, text: str, settings: Settings) -> Query:
    """Find the operators, words and phrases of a query, and choose what keyword search asks."""
    without_operators, operators, for_vector = understand(snapshot, text, settings.literal)
    all_words = snapshot.cutter.query(without_operators)
    cut = all_words[:MAX_WORDS]
    words = weigh_words(cut, snapshot.known_words, settings.identifier)
    counting = [word for word in words if word.counts]
    searched = counting
    match settings.fusion:
        case "unknown-only":
            searched = [word for word in counting if word.unknown]
        case "dense":
            searched = []
    phrases: dict[int, tuple[Term, ...]] = {}
    optional = set[int]()  # phrases in an OR: a document may have another part of it instead
    alternatives = [part for part in operators if part.kind == "one of"]
    for span in cut:
        if span.phrase is not None:
            stems = tuple(Term("words", stem) for stem in span.in_a_row)
            phrases[span.phrase] = phrases.get(span.phrase, ()) + stems
            if any(one_of.start <= span.start < one_of.end for one_of in alternatives):
                optional.add(span.phrase)
    terms = set(chain.from_iterable(phrases.values()))  # whose frequencies are needed
    for word in counting:
        terms.update(word.terms, word.telling)
    for word in searched:
        terms.update(*word.word.spellings)
    is_weighted = settings.fusion == "coverage"
    clauses, frequencies = term_clauses(searched, snapshot, terms, is_weighted=is_weighted)
    should = (*clauses.values(), *_spelling_clauses(searched, snapshot, clauses, frequencies))
    required: tuple[Clause, ...] = ()
    if settings.phrases == "required":
        required = tuple(Clause(phrases[number]) for number in phrases if number not in optional)
    if should and phrases:
        should += tuple(
            phrase for phrase in map(Clause, phrases.values()) if phrase not in required
        )
    codes = unstemmed = tuple[Clause, ...]()
    if settings.guarantee and settings.fusion not in ONE_LEG:
        identifiers = [word for word in words if word.identifier]
        is_alone = len(counting) == 1 and counting[0].word.surfaces
        if identifiers:
            codes = tuple(map(Clause, dict.fromkeys(word.in_a_row for word in identifiers)))
            if any(word.word.unstemmed for word in identifiers):
                whole = (
                    tuple(Term("words", form) for form in word.word.unstemmed) or word.in_a_row
                    for word in identifiers
                )
                unstemmed = tuple(map(Clause, dict.fromkeys(whole)))
        elif settings.identifier is None and is_alone:  # search for the joined word
            codes = (Clause((counting[0].exact,)),)
    is_known = [w for w in counting if not w.unknown and (w.status is None or w.status.known)]
    return Query(
        text=text,
        for_vector=for_vector,
        words=words,
        frequencies=frequencies,
        m=unknown_share(counting, snapshot, frequencies),
        clauses=clauses,
        keywords=KeywordQuery(should, codes=codes, unstemmed=unstemmed),
        required=required,
        operators=operators,
        is_cut=len(cut) < len(all_words),
        is_unknown=bool(counting) and not is_known,
    )


def _spelling_clauses(
    words: Sequence[WeighedWord],
    snapshot: Snapshot,
    clauses: Mapping[Term, Clause],
    frequencies: Mapping[Term, int],
) -> Iterable[Clause]:
    """Return clauses for other spellings of ``words`` that the corpus has, without duplicates.

    The weight of a spelling is at most ``OTHER_SPELLING``. It is less if the spelling is rarer than
    the word, so that it does not score more than this share of the word. ``clauses``: of all terms
    of the words; spellings among them are left out.
    """
    of_spellings: dict[tuple[Term, ...], Clause] = {}
    for word in words:
        for spelling in word.word.spellings:
            is_term = len(spelling) == 1 and spelling[0] in clauses
            if not is_term and all(map(frequencies.__getitem__, spelling)):
                own = sum(idf(snapshot.rows, frequencies[term]) for term in word.telling)
                other = sum(idf(snapshot.rows, frequencies[term]) for term in spelling)
                boost = OTHER_SPELLING * min(1.0, own / other)
                of_spellings[spelling] = Clause(spelling, boost)
    return of_spellings.values()


def weigh_words(
    words: Sequence[QueryWord], known_words: KnownWords | None, identifier: str | None = None
) -> list[WeighedWord]:
    """Choose the terms of words. Without ``known_words``, only identifiers count as unknown."""
    looks_like_one = is_identifier if identifier is None else re.compile(identifier).fullmatch
    only_stop_words = all(word.stop for word in words)
    statuses: Sequence[WordStatus | None] = [None] * len(words)
    if known_words is not None:
        statuses = known_words.statuses([word.surface for word in words])
    weighed = []
    for word, status in zip(words, statuses, strict=True):
        counts = only_stop_words or not word.stop
        is_code = unknown = False
        if counts:
            known = status is not None and status.known
            unseen = not known or (status is not None and (status.pieces or 0) >= MANY_PIECES)
            is_code = bool(looks_like_one(word.surface)) and (unseen or is_name(word.surface))
            is_unknown_word = status is not None and not known and is_word(word.surface)
            unknown = (is_code and unseen) or is_unknown_word
        stems = tuple([Term("words", stem) for stem in word.words])
        exact, in_a_row, terms = stems[0], stems, stems
        if word.in_a_row != word.words:
            in_a_row = tuple([Term("words", term) for term in word.in_a_row])
        parts, more = word.words + word.humps, word.unstemmed + word.accented
        if len(parts) > len(stems) or more:
            terms = tuple([Term("words", stem) for stem in parts + more])
        if word.surfaces or is_code:
            if word.surfaces:
                exact = Term("surfaces", word.surfaces[0])
                in_a_row = (exact,)
            # Single characters are in too many documents to be useful, so only the whole of
            # ``e.g.`` is searched, like any other word.
            longer = tuple(part for part in parts if len(part) >= MIN_TELLING)
            if word.surfaces and len(parts) > 1 and not longer and "".join(parts).isalpha():
                parts = ()
            elif is_code:
                parts = longer or parts
            terms = (*(Term("words", stem) for stem in parts + more), exact)
        weighed.append(
            WeighedWord(
                word=word,
                counts=counts,
                status=status,
                identifier=is_code,
                unknown=unknown,
                exact=exact,
                in_a_row=in_a_row,
                parts=parts,
                terms=tuple(dict.fromkeys(terms)) if len(terms) > 1 else terms,
                telling=(exact,) if is_code else stems,
            )
        )
    return weighed


def is_word(text: str) -> bool:
    """Return whether a text has more than one character and is not a number."""
    return len(text) >= MIN_TELLING and any(map(str.isalpha, text))


def term_clauses(
    words: Iterable[WeighedWord],
    snapshot: Snapshot,
    terms: Iterable[Term],
    *,
    is_weighted: bool = False,
) -> tuple[dict[Term, Clause], Mapping[Term, int]]:
    """Return a weighted clause for each term of ``words``, and the frequency of each of ``terms``.

    ``terms``: must include the terms of ``words``. ``is_weighted``: whether unknown words and
    identifiers have more weight.

    A whole word scores at least as much as all its parts together. The score of an identifier
    (``foo_bar``) is added to the scores of its parts. The score of any other joined word
    (``input/output``) replaces the scores of its parts.
    """
    distinct = list({word.word.surface: word for word in words}.values())
    clauses: dict[Term, Clause] = {}
    for word in distinct:
        weight = UNKNOWN_WEIGHT if is_weighted and word.unknown else 1.0
        shares = dict(word.word.shares)
        for term in word.terms:
            share = weight * shares.get(term.text, 1.0) if shares else weight
            if term not in clauses or clauses[term].boost < share:
                clauses[term] = Clause((term,), share)
    wholes = list[tuple[WeighedWord, tuple[Term, ...], bool]]()
    joined = dict[Term, list[Clause]]()
    # How many words have a term: "Input/Output" and "input/output" are one.
    terms_of_wholes = {(word.exact, term) for word in distinct for term in word.terms}
    uses = Counter(term for _, term in terms_of_wholes)
    for word in distinct:
        if not (word.identifier or word.word.surfaces or word.word.humps) or not word.parts:
            continue
        others = [term for term in word.terms if term != word.exact]
        more = word.word.unstemmed + word.word.accented
        parts = [clauses[term] for term in others if term.text not in more]
        replaces = not word.identifier and len(word.word.words) > 1
        if replaces:
            # A part that another word of the query has, too, keeps its own score.
            parts = [part for part in parts if uses[part.terms[0]] == 1]
            if parts:
                joined[word.exact] = parts
        wholes.append((word, tuple([clause.terms[0] for clause in parts]), replaces))
    compared = dict(islice(joined.items(), MAX_JOINED_WORDS))
    frequencies, bests = snapshot.statistics(terms, compared)
    rows = snapshot.rows
    for word, of_parts, replaces in wholes:
        whole = word.exact
        mass = sum([clauses[term].boost * idf(rows, frequencies[term]) for term in of_parts])
        score = max(WHOLE_OVER_PARTS * mass, bests.get(whole, 0.0) * (1 + NO_TIE))
        weight = score / idf(rows, frequencies[whole])
        if not replaces:
            least = CODE_WEIGHT if is_weighted and word.identifier else 0.0
            weight = max(weight, least, clauses[whole].boost)
        clauses[whole] = Clause((whole,), weight, of_parts if replaces else ())
    return clauses, frequencies


def unknown_share(
    words: Sequence[WeighedWord], snapshot: Snapshot, frequencies: Mapping[Term, int]
) -> float:
    """Return m, 0 to 1: the share of a query's idf that comes from unknown words.

    Words outside the corpus do not count. m is 0 for subword models, and without a vocabulary.
    """
    known_words = snapshot.known_words
    if known_words is None or known_words.subword or not [w for w in words if w.unknown]:
        return 0.0
    masses: dict[Term, float] = {}
    unknown: set[Term] = set()
    for word in words:
        for term in word.telling:
            masses[term] = idf(snapshot.rows, frequencies[term])
            if frequencies[term] and word.unknown and (word.identifier or is_word(term.text)):
                unknown.add(term)
    total = sum(masses.values())
    return sum(mass for term, mass in masses.items() if term in unknown) / total if total else 0.0
