"""Queries made of the corpus itself, each with the one document it was taken from.

So that finding it proves something, the query's words are taken out of the copy of the document
that is searched. Queries are made of what reads like language, where a document holds any: people
ask in sentences, also for code, and a model may know the one well and the other badly. What comes
of it is in ``calibrating.py``; how a copy takes the place of its document is in ``altered.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple

import numpy as np

from vocabtool.evaluation.sentences import (
    FEWEST_SENTENCES,
    MOST_CHARACTERS,
    RUNS,
    reads_like_language,
    sentences,
)
from vocabtool.keywords.cutting import Cutter, QueryWord
from vocabtool.search.corpus import Stored

Kind = Literal["title", "hard"]

FEWEST_WORDS: Final = 15
DROPPED: Final = 0.5


class PseudoQuery(NamedTuple):
    """``row``: the document that is looked for; ``copy``: its text without what was asked."""

    kind: Kind
    row: int
    text: str
    copy: str


def pseudo_queries(
    row: int, document: Stored, cutter: Cutter, generator: np.random.Generator
) -> list[PseudoQuery]:
    """A query of each kind, or none of a document that is too short to do without a part."""
    parts = sentences(document.text)
    if len(parts) < FEWEST_SENTENCES or _too_few_words(document.text):
        return []
    language = [at for at, part in enumerate(parts) if reads_like_language(part[:MOST_CHARACTERS])]
    first, *later = language or range(len(parts))
    title, left = _title(document, parts, first, cutter)
    order = [*generator.permutation(np.array(later, int)).tolist(), first, *range(len(parts))]
    hard = _hard(parts, order, cutter, generator)
    if hard is None or not title or not left:
        return []
    return [PseudoQuery("title", row, title, left), PseudoQuery("hard", row, *hard)]


def _too_few_words(text: str) -> bool:
    return sum(1 for _ in islice(RUNS.finditer(text), FEWEST_WORDS)) < FEWEST_WORDS


def _title(document: Stored, parts: Sequence[str], first: int, cutter: Cutter) -> tuple[str, str]:
    """The title and the text without it, also where it is said again; else the first sentence."""
    title = document.fields.get("title")
    if not isinstance(title, str) or not title.strip():
        return _plain(parts[first][:MOST_CHARACTERS], cutter), _without(parts, first)
    asked, left = title.strip(), document.text.strip()
    for _ in range(2):
        if left.casefold().startswith(asked.casefold()):
            left = left[len(asked) :].lstrip(" .:-\n\t")
    return asked, left


def _hard(
    parts: Sequence[str], order: Sequence[int], cutter: Cutter, generator: np.random.Generator
) -> tuple[str, str] | None:
    """Content words of the first sentence in order that has any, and the text without it."""
    for at in order:
        words = _content_words(parts[at][:MOST_CHARACTERS], cutter)
        if words:
            left = _without(parts, at)
            return _thinned(words, left, cutter, generator), left
    return None


def _without(parts: Sequence[str], place: int) -> str:
    return "".join((*parts[:place], *parts[place + 1 :])).strip()


def _thinned(
    words: Sequence[QueryWord], left: str, cutter: Cutter, generator: np.random.Generator
) -> str:
    """The words, each that the rest of the document repeats dropped by the toss of a coin."""
    repeated = set(cutter.terms([left])[0].words.split(" "))
    tossed = generator.random(len(words)) < DROPPED
    kept = [
        word.surface
        for word, drop in zip(words, tossed.tolist(), strict=True)
        if not (drop and repeated.issuperset(word.words))
    ]
    return " ".join(kept or [words[int(generator.integers(len(words)))].surface])


def _content_words(text: str, cutter: Cutter) -> list[QueryWord]:
    return [word for word in cutter.spans(_plain(text, cutter)) if not word.stop]


def _plain(text: str, cutter: Cutter) -> str:
    """Nothing but words, of compounds the parts: as people ask for what they do not quote."""
    return " ".join(
        " ".join(RUNS.findall(word.surface)) if word.surfaces else word.surface
        for word in cutter.spans(text)
    )
