"""The query language: which parts of a query are operators, and which rows they allow.

    query     = { item }
    item      = part { "OR" part }
    part      = words | "-" word | "-" phrase | [ "-" ] FIELD ":" value
    value     = phrase | the characters up to the next white space

An operator stands at the start of the query or after white space. All other text is searched as
words, so every query is valid:

- ``-`` is an operator only before a phrase, a field, or a plain word. ``-5``, ``-r`` and
  ``-foo-bar`` are searched as words.
- FIELD is a field of the index whose name is a plain word. The value of a numeric field is a
  number, and the value of a boolean field is ``true`` or ``false``. A value is a phrase, or begins
  with a letter, a digit or the sign of a number. ``std::vector`` and ``http://x`` are words.
- ``OR`` is in capitals. Each of its parts must have a word that is not a stop word.
- Brackets are no operators.
- A query that contains nothing but exclusions is searched as words.

Operators restrict the documents of vector search and of keyword search. A document must satisfy all
exclusions and fields, and at least one of the parts that an ``OR`` joins. Other words are not
required.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from vocabtool.documents.batch import Kind
from vocabtool.keywords.bm25 import Clause, Term
from vocabtool.keywords.cutter import QUOTED, Cutter
from vocabtool.search.conditions import Where
from vocabtool.search.store import Asked, Combination, Exclusion, Store

MAX_OPERATORS: Final = 100  # a text with more is no query of this language: all are words
MAX_TERMS: Final = 1_000  # of an excluded phrase, and of all alternatives; then all are words
MAX_VALUE: Final = 1_000  # characters of a field's value
MIN_EXCLUDED: Final = 2  # characters: ``-r`` is more likely an option of a command

CHUNK: Final = re.compile(rf"(?:{QUOTED.pattern}|\S)+")
MAYBE: Final = re.compile(r'(?<!\S)(?:-["“”„«»\w]|OR(?!\S)|-?[^\W\d]\w*:\S)')  # quick to try
NAMED: Final = re.compile(r"(?P<no>-?)(?P<name>[^\W\d]\w*):")
VALUE: Final = re.compile(r"(?:[^\W_]|[-+][0-9]).*", re.DOTALL)
NUMBER: Final = re.compile(r"[-+]?[0-9]{1,18}(?:\.[0-9]{1,18})?")
AFTER: Final = ").,;:!?"  # punctuation of a sentence


@dataclass(frozen=True, slots=True)
class Operator:
    """A part of a query that restricts which documents are found. ``text``: the part as written."""

    kind: Literal["without", "with", "one of"]
    text: str
    start: int
    end: int
    asked: Asked


@dataclass(frozen=True, slots=True)
class Reading:
    """A query with its operators.

    ``text``: the query with white space in place of operators, so that words keep their offsets.
    ``for_vector``: the text to encode; empty if the query has only operators.
    """

    text: str
    operators: tuple[Operator, ...] = ()
    for_vector: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a query between white space. ``asked``: what an operator asks of a document."""

    kind: Literal["words", "without", "with", "OR"]
    start: int
    end: int
    asked: Asked | None = None


def understand(store: Store, text: str, literal: bool = False) -> Reading:
    """Find the operators of a query. ``literal``: whether to treat the whole text as words."""
    as_words = Reading(text, for_vector=text)
    if literal or MAYBE.search(text) is None:
        return as_words
    parts = [_part(store, text, *chunk.span()) for chunk in CHUNK.finditer(text)]
    if not 0 < sum(part.kind != "words" for part in parts) <= MAX_OPERATORS:
        return as_words
    operators: list[Operator] = []
    blanked: list[Part] = []
    terms = 0
    for run in _runs(parts):
        start, end = run[0].start, run[-1].end
        if len(run) > 1:
            clauses = [[] if part.asked else _clauses(store.cutter, text, part) for part in run]
            demands = [part.asked or _all_of(of) for part, of in zip(run, clauses, strict=True)]
            alternatives = tuple(demand for demand in demands if demand is not None)
            if len(alternatives) == len(run):
                one_of = Combination("any", alternatives)
                operators.append(Operator("one of", text[start:end], start, end, one_of))
                blanked += [part for part in parts if start <= part.start < end]
                terms += sum(len(clause.terms) for of_part in clauses for clause in of_part)
                continue
        for part in run:
            if part.asked is not None and part.kind in ("without", "with"):
                written = text[part.start : part.end]
                operators.append(Operator(part.kind, written, part.start, part.end, part.asked))
                blanked.append(part)
    if terms > MAX_TERMS:
        return as_words
    characters = list(text)
    for part in blanked:
        if part.kind != "words":
            characters[part.start : part.end] = " " * (part.end - part.start)
    searched = "".join(characters)
    has_words = bool(store.cutter.spans(searched))
    if not has_words and all(operator.kind == "without" for operator in operators):
        return as_words
    for_vector = " ".join(searched.split()) if operators else searched
    return Reading(searched, tuple(operators), for_vector if has_words else "")


def _runs(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield each part that is not an ``OR``, together with the parts that an ``OR`` joins to it."""
    run: list[Part] = []
    is_joined = False
    for part in parts:
        if part.kind == "OR":
            is_joined = not is_joined  # two of them join nothing
            continue
        if run and not is_joined:
            yield run
            run = []
        run.append(part)
        is_joined = False
    if run:
        yield run


def _part(store: Store, text: str, start: int, end: int) -> Part:
    end = start + (len(text[start:end].rstrip(AFTER)) or end - start)
    if text[start:end] == "OR":
        return Part("OR", start, end)
    if text[start] == "-":
        clause = _exclusion(store.cutter, text, start + 1, end)
        if clause is not None:
            return Part("without", start, end, Exclusion(clause))
    named = NAMED.match(text, start, end)
    if named is not None and (kind := store.fields.get(named["name"])) is not None:
        quoted = QUOTED.fullmatch(text, named.end(), end)
        value = quoted or VALUE.fullmatch(text, named.end(), end)
        span = value.span(1 if value is quoted else 0) if value is not None else (0, 0)
        condition = _condition(named["name"], kind, " ".join(text[slice(*span)].split()))
        if condition is not None and named["no"]:
            return Part("without", start, end, Exclusion(condition))
        if condition is not None:
            return Part("with", start, end, condition)
    return Part("words", start, end)


def _exclusion(cutter: Cutter, text: str, start: int, end: int) -> Clause | None:
    quoted = QUOTED.fullmatch(text, start, end)
    word = text[start:end] if quoted is None else quoted[1]
    spans = cutter.spans(word)
    if quoted is None and (len(word) < MIN_EXCLUDED or not word[0].isalpha() or len(spans) != 1):
        return None
    if quoted is None and (spans[0].surface != word or spans[0].surfaces or spans[0].stop):
        return None
    terms = tuple(Term("words", stem) for span in spans for stem in span.words)
    return Clause(terms) if 0 < len(terms) <= MAX_TERMS else None


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


def _clauses(cutter: Cutter, text: str, part: Part) -> list[Clause]:
    """Return a clause for each word and each phrase of a part, without stop words."""
    clauses, phrases = [], dict[int, tuple[Term, ...]]()
    for word in cutter.query(text[part.start : part.end]):
        terms = tuple(Term("words", stem) for stem in word.words)
        if word.phrase is not None:
            phrases[word.phrase] = phrases.get(word.phrase, ()) + terms
        elif word.surfaces:
            clauses.append(Clause((Term("surfaces", word.surfaces[0]),)))
        elif not word.stop:
            clauses.append(Clause(terms))
    return [*dict.fromkeys((*clauses, *map(Clause, phrases.values())))]


def _all_of(clauses: Sequence[Clause]) -> Asked | None:
    if len(clauses) > 1:
        return Combination("all", tuple(clauses))
    return clauses[0] if clauses else None
