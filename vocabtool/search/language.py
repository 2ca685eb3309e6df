"""The query language: which parts of a query are operators, and which rows they allow.

    query     = { item }
    item      = part { "OR" part }
    part      = words | "-" word | "-" phrase | [ "-" ] FIELD ":" value | "(" query ")"
    value     = phrase | the characters up to the next white space

An operator stands at the start of the query, or after white space or an opening bracket. All other
text is searched as words, so every query is valid:

- ``-`` is an operator only before a phrase, a field, or a plain word. ``-5``, ``-r`` and
  ``-foo-bar`` are searched as words.
- FIELD is a field of the index whose name is a plain word. The value of a numeric field is a
  number, and the value of a boolean field is ``true`` or ``false``. A value is a phrase, or begins
  with a letter, a digit or the sign of a number. ``std::vector`` and ``http://x`` are words.
- ``OR`` is in capitals. Both of its parts must have a word that is not a stop word.
- A pair of brackets is an operator if it opens where a part begins and closes where a part ends.
  ``foo()`` is a word.
- A query that contains nothing but exclusions is searched as words.

Operators restrict the documents of vector search and of keyword search. A document must satisfy all
exclusions and fields, and at least one of the parts that an ``OR`` joins. A part in brackets
requires all of its words except stop words. Other words are not required.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from vocabtool.documents.batch import Kind
from vocabtool.keywords.bm25 import Clause, Term
from vocabtool.keywords.cutter import QUOTED, Cutter
from vocabtool.search.conditions import Where
from vocabtool.search.store import Asked, Combination, Exclusion, Store

MAX_OPERATORS: Final = 100  # a text with more is no query of this language: all are words
MAX_TERMS: Final = 1_000  # of an excluded phrase, and of all alternatives; then all are words
MAX_DEPTH: Final = 20  # nested brackets; also in such a text all are words
MAX_VALUE: Final = 1_000  # characters of a field's value
MIN_EXCLUDED: Final = 2  # characters: ``-r`` is more likely an option of a command

CHUNK: Final = re.compile(rf"(?:{QUOTED.pattern}|\S)+")
MAYBE: Final = re.compile(r'(?<![^\s(])(?:-["“”„«»\w]|OR(?!\S)|-?[^\W\d]\w*:\S)')  # quick to try
NAMED: Final = re.compile(r"(?P<no>-?)(?P<name>[^\W\d]\w*):")
VALUE: Final = re.compile(r"(?:[^\W_]|[-+][0-9]).*", re.DOTALL)
NUMBER: Final = re.compile(r"[-+]?[0-9]{1,18}(?:\.[0-9]{1,18})?")
AFTER: Final = ".,;:!?"  # punctuation of a sentence


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
    kind: Literal["words", "without", "with", "OR", "(", ")"]
    start: int
    end: int
    asked: Asked | None = None


@dataclass(slots=True)
class Group:
    start: int
    end: int = 0
    parts: list[Part | Group] = field(default_factory=list)


def understand(store: Store, text: str, literal: bool = False) -> Reading:
    """Find the operators of a query. ``literal``: whether to treat the whole text as words."""
    if literal or MAYBE.search(text) is None:
        return Reading(text, for_vector=text)
    parts = list(_parts(store, text))
    if not 0 < sum(part.kind in ("without", "with", "OR") for part in parts) <= MAX_OPERATORS:
        return Reading(text, for_vector=text)
    whole = _tree_of(parts)
    found = _Reader(store.cutter, text)
    if whole is not None:
        found.read(whole)
    if whole is None or found.terms > MAX_TERMS:
        return Reading(text, for_vector=text)
    searched = list(text)
    for start, end in found.signs:
        searched[start:end] = " " * (end - start)
    blanked = "".join(searched)
    excludes = all(each.kind == "without" for each in found.operators)  # or there are none
    has_words = bool(store.cutter.spans(blanked))
    if excludes and not has_words:
        return Reading(text, for_vector=text)
    for_vector = " ".join(blanked.split()) if found.operators else blanked
    return Reading(blanked, tuple(found.operators), for_vector * has_words)


def _parts(store: Store, text: str) -> Iterator[Part]:
    for chunk in CHUNK.finditer(text):
        start, end = chunk.span()
        while start < end and text[start] == "(":
            yield Part("(", start, start + 1)
            start += 1
        core = text[start:end].rstrip(f"){AFTER}")
        tail = text[start + len(core) : end]
        if core:
            yield _part(store, text, start, start + len(core))
        unopened = tail.count(")") + core.count(")") - core.count("(")
        for _ in range(min(unopened, tail.count(")"))):
            yield Part(")", end - 1, end)


def _part(store: Store, text: str, start: int, end: int) -> Part:
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
    found = cutter.spans(word)
    if quoted is None and (len(word) < MIN_EXCLUDED or not word[0].isalpha() or len(found) != 1):
        return None
    if quoted is None and (found[0].surface != word or found[0].surfaces or found[0].stop):
        return None
    terms = tuple(Term("words", stem) for each in found for stem in each.words)
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


def _tree_of(parts: Sequence[Part]) -> Group | None:
    opened, pairs = list[int](), dict[int, int]()
    for at, part in enumerate(parts):
        if part.kind == "(":
            opened.append(at)
        elif part.kind == ")" and opened:
            if len(opened) > MAX_DEPTH:
                return None
            pairs[opened.pop()] = at
    closing = set(pairs.values())
    inner = [Group(0)]
    for at, part in enumerate(parts):
        if at in pairs:
            group = Group(part.start, parts[pairs[at]].end)
            inner[-1].parts.append(group)
            inner.append(group)
        elif at in closing:
            inner.pop()
        elif part.kind not in ("(", ")"):
            inner[-1].parts.append(part)
    return inner[0]


class _Reader:
    """Collects the operators of a query."""

    def __init__(self, cutter: Cutter, text: str) -> None:
        self._cutter, self._text, self.terms = cutter, text, 0
        self.operators: list[Operator] = []
        self.signs: list[tuple[int, int]] = []

    def read(self, group: Group) -> None:
        for run in _runs(group.parts):
            alternatives = run if len(run) > 1 else []
            asked = [each for each in map(self._demand, alternatives) if each is not None]
            if 1 < len(run) == len(asked):
                self._add("one of", run[0].start, run[-1].end, Combination("any", tuple(asked)))
                self._blank(group.parts, run[0].start, run[-1].end)
                continue
            for part in run:
                if isinstance(part, Group):
                    self.read(part)
                elif part.asked is not None and part.kind in ("without", "with"):
                    self._add(part.kind, part.start, part.end, part.asked)
                    self._blank([part], part.start, part.end)

    def _add(
        self, kind: Literal["without", "with", "one of"], start: int, end: int, asked: Asked
    ) -> None:
        self.operators.append(Operator(kind, self._text[start:end], start, end, asked))

    def _blank(self, parts: Sequence[Part | Group], start: int, end: int) -> None:
        for part in parts:
            if part.start < start or part.end > end:
                continue
            if isinstance(part, Group):
                self._blank(part.parts, start, end)
            elif part.kind != "words":
                self.signs.append((part.start, part.end))

    def _demand(self, part: Part | Group) -> Asked | None:
        if isinstance(part, Part):
            if part.kind == "words":
                return _all_of(self._clauses(self._text[part.start : part.end]))
            return part.asked
        every = list[Asked]()
        for run in _runs(part.parts):
            asked = [each for each in map(self._demand, run) if each is not None]
            if 1 < len(run) == len(asked):
                every.append(Combination("any", tuple(asked)))
            else:
                every += asked
        return _all_of(every)

    def _clauses(self, text: str) -> list[Clause]:
        clauses, phrases = [], dict[int, tuple[Term, ...]]()
        for word in self._cutter.query(text):
            terms = tuple(Term("words", stem) for stem in word.words)
            if word.phrase is not None:
                phrases[word.phrase] = phrases.get(word.phrase, ()) + terms
            elif word.surfaces:
                clauses.append(Clause((Term("surfaces", word.surfaces[0]),)))
            elif not word.stop:
                clauses.append(Clause(terms))
        self.terms += len(clauses) + sum(map(len, phrases.values()))
        return [*dict.fromkeys((*clauses, *map(Clause, phrases.values())))]


def _all_of(parts: Sequence[Asked]) -> Asked | None:
    if len(parts) > 1:
        return Combination("all", tuple(parts))
    return parts[0] if parts else None


def _runs(parts: Sequence[Part | Group]) -> Iterator[list[Part | Group]]:
    def is_or(at: int) -> bool:
        part = parts[at] if at < len(parts) else None
        return isinstance(part, Part) and part.kind == "OR"

    at = 0
    while at < len(parts):
        run = [parts[at]]
        while not is_or(at) and is_or(at + 1) and at + 2 < len(parts) and not is_or(at + 2):
            at += 2
            run.append(parts[at])
        yield run
        at += 1
