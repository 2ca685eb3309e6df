"""The demo told to a person: what each step did, and the answers side by side.

Lines of plain text, whoever prints them. What is told comes from ``running.py``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from vocabtool.demo.asking import DEEP, FOUND, FUSIONS, Answer, Found, Fusion
from vocabtool.demo.questions import RULE
from vocabtool.demo.running import Demo, Step

if TYPE_CHECKING:
    from vocabtool.search.hits import Hit, Hits, WordSummary

WIDTH: Final = 96
NAMES: Final[dict[Fusion, str]] = {
    "dense": "vectors alone",
    "keyword": "keywords alone",
    "rrf": "reciprocal rank fusion",
    "coverage": "hybrid by coverage (the default)",
}


def of_step(step: Step) -> Iterator[str]:
    """A step that is done, and the command that does the same."""
    yield f"{step.title} ({step.seconds:.1f} s)"
    for told in step.told:
        yield from _indented(told)
    if step.command is not None:
        yield f"  $ {step.command}"
    yield ""


def of_answers(demo: Demo) -> Iterator[str]:
    """The first queries with vectors alone and hybrid, how all of them went, and what to try."""
    for number, answer in enumerate(demo.shown, 1):
        yield f"Query {number}: {answer.question.text}"
        yield from _of_answer(answer)
        yield f"  $ vocabtool search {_index(demo)} {shlex.quote(answer.question.text)} --explain"
        yield ""
    yield from _counted(demo)
    yield ""
    yield f"All of it is in {demo.folder}, to play with; it took {demo.seconds:.0f} s."


def _of_answer(answer: Answer) -> Iterator[str]:
    question = answer.question
    yield f"  made of {question.document}"
    for word in answer.hybrid.query.words:
        yield f"    {_of_word(word)}"
    yield from _of_weight(answer.hybrid)
    if answer.blind:
        yield from _indented("the vector is the same with any other unknown word in its place")
    yield from _of_hits("vectors alone", answer.dense, answer.places["dense"], answer)
    yield from _of_hits("hybrid", answer.hybrid, answer.places["coverage"], answer)


def _of_word(word: WordSummary) -> str:
    known = "known" if word.known else "unknown to the model"
    if word.document_frequency is None:
        return f"{word.surface}: {known}"
    documents = "document" if word.document_frequency == 1 else "documents"
    return f"{word.surface}: {known}, in {word.document_frequency:,} {documents}"


def _of_weight(hits: Hits) -> Iterator[str]:
    """How much keywords count for this query, and why."""
    asked = hits.query
    if asked.m is not None and asked.weight is not None:
        yield from _indented(
            f"the unknown is {asked.m:.0%} of what the query says (by idf), "
            f"so keywords count {asked.weight:.0%} of the score"
        )


def _of_hits(name: str, hits: Hits, place: int | None, answer: Answer) -> Iterator[str]:
    where = f"at place {place}" if place is not None else f"not among the first {DEEP}"
    yield f"  {name}: {where}"
    for rank, hit in enumerate(hits, 1):
        mark = ">" if hit.id == answer.question.document else " "
        told = f"{rank}. {hit.id}{_why(hit)}"
        yield from _indented(told, f"   {mark}", "       ")


def _why(hit: Hit) -> str:
    why = hit.explanation
    if why is None or not why.words:
        return ""
    return f"  (holds {', '.join(word.surface for word in why.words)})"


def _counted(demo: Demo) -> Iterator[str]:
    drawn, missed = len(demo.answers), len(demo.missed)
    yield from _indented(f"A rule drew {drawn} queries: {RULE}.", "")
    yield from _indented(
        f"Shown are the first {len(demo.shown)} whose document is not among the first {FOUND} by "
        "vectors alone, whatever hybrid makes of them.",
        "",
    )
    hybrid = Found.of(demo.missed, "coverage").ten
    yield f"Of the {missed} that vectors alone miss, hybrid finds {hybrid}."
    yield f"Of all {drawn}, the document that the query was made of comes"
    yield f"  {'':34}first   among the first ten"
    for fusion in FUSIONS:
        found = demo.found(fusion)
        yield f"  {NAMES[fusion]:34}{found.first:5}   {found.ten:5}"


def _index(demo: Demo) -> str:
    return shlex.quote(str(demo.folder / "index"))


def _indented(text: str, first: str = "  ", other: str | None = None) -> list[str]:
    """Lines of text, with ``other`` (if not the same) before all but the first."""
    other = first if other is None else other
    return wrap(text, WIDTH, initial_indent=first, subsequent_indent=other, break_on_hyphens=False)
