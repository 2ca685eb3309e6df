"""Queries made of the corpus itself, each with the one document it was taken from.

So that finding it proves something, the query's words are taken out of the copy of the document
that is searched. What comes of it is in ``calibration.py``; how a copy takes the place of its
document is in ``altered.py``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple

import numpy as np

from vocabtool.keywords.cutting import Cutter, QueryWord
from vocabtool.search.corpus import Stored

Kind = Literal["title", "hard"]

SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")  # noqa: RUF001 - full-width
RUNS: Final = re.compile(r"[^\W_]+")  # letters and digits
WINDOW: Final = 12  # words that count as a sentence where a text has none
FEWEST_SENTENCES: Final = 3
FEWEST_WORDS: Final = 15
MOST_CHARACTERS: Final = 20_000  # of a text that is looked at; the rest stays in the copy
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
    title, left = _title(document, parts, cutter)
    hard = _hard(parts, cutter, generator)
    if hard is None or not title or not left:
        return []
    return [PseudoQuery("title", row, title, left), PseudoQuery("hard", row, *hard)]


def sentences(text: str) -> list[str]:
    """The sentences of a text; windows of twelve words where it has fewer than three.

    What follows the first 20,000 characters belongs to the last one.
    """
    head, rest = text[:MOST_CHARACTERS], text[MOST_CHARACTERS:]
    parts = [part.strip() for part in SENTENCE_ENDS.split(head) if part.strip()]
    if len(parts) < FEWEST_SENTENCES:
        parts = _windows(head)
    return [*parts[:-1], parts[-1] + rest] if parts else []


def _windows(text: str) -> list[str]:
    """Parts of twelve words each, with all that stands between these; the last may have fewer."""
    starts = [word.start() for word in RUNS.finditer(text)][::WINDOW]
    ends = [*starts[1:], len(text)][: len(starts)]
    return [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def _too_few_words(text: str) -> bool:
    return sum(1 for _ in islice(RUNS.finditer(text), FEWEST_WORDS)) < FEWEST_WORDS


def _title(document: Stored, parts: Sequence[str], cutter: Cutter) -> tuple[str, str]:
    """The title and the text without it, also where it is said again; else the first sentence."""
    title = document.fields.get("title")
    if not isinstance(title, str) or not title.strip():
        return _plain(parts[0][:MOST_CHARACTERS], cutter), " ".join(parts[1:])
    asked, left = title.strip(), document.text.strip()
    for _ in range(2):
        if left.casefold().startswith(asked.casefold()):
            left = left[len(asked) :].lstrip(" .:-\n\t")
    return asked, left


def _hard(
    parts: Sequence[str], cutter: Cutter, generator: np.random.Generator
) -> tuple[str, str] | None:
    """Content words of a sentence that is not the first, and the text without that sentence."""
    for at in (generator.permutation(len(parts) - 1) + 1).tolist():
        left = " ".join((*parts[:at], *parts[at + 1 :]))
        words = _content_words(parts[at][:MOST_CHARACTERS], cutter)
        if words:
            return _thinned(words, left, cutter, generator), left
    return None


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
