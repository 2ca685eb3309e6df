"""Queries made of the corpus itself, each with the one document it was taken from.

So that finding it proves something, the query's words are taken out of the copy of the document
that is searched. Queries are made of what reads like language, where a document holds any: people
ask in sentences, also for code, and a model may know the one well and the other badly. What comes
of it is in ``calibrate.py``; how a copy takes the place of its document is in ``weights.py``.

Sentences, and whether they read like language, are told by marks, line breaks and letters alone: a
line of code that is made of words, as ``import numpy as np``, passes for language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final, Literal

import numpy as np

from vocabtool.documents.batch import Document
from vocabtool.keywords.cutter import Cutter, QueryWord
from vocabtool.keywords.tokens import shape_of

Kind = Literal["title", "hard"]

MIN_WORDS: Final = 15
DROP_RATE: Final = 0.5

ENDS: Final = re.compile(r"(?<=[.!?]\s)|(?<=[。！？\n])")  # noqa: RUF001 - full-width
RUNS: Final = re.compile(r"[^\W_]+")  # letters and digits
WINDOW: Final = 12  # words that count as a sentence where a text has none
MIN_SENTENCES: Final = 3
MAX_CHARACTERS: Final = 20_000  # of a text that is looked at

# What ASCII has besides letters is what code, tables and formulas are full of.
_LETTERS: Final = r"[^\x00-@\[-`{-\x7f]+"
WORD: Final = re.compile(rf"{_LETTERS}(?:['-]{_LETTERS})*")
AROUND: Final = "\"'(),.:;!?"
MIN_SENTENCE_WORDS: Final = 4  # words of one that reads like language; letters, without blanks
WORD_SHARE: Final = 0.8  # of what stands between blanks that is words
CODE_ENDS: Final = (":", ";", "{")  # lines of code end so; sentences only to announce others


@dataclass(frozen=True, slots=True)
class PseudoQuery:
    """``row``: the document that is looked for; ``copy``: its text without what was asked."""

    kind: Kind
    row: int
    text: str
    copy: str


def pseudo_queries(
    row: int, document: Document, cutter: Cutter, generator: np.random.Generator
) -> list[PseudoQuery]:
    """A query of each kind, or none of a document that is too short to do without a part."""
    parts = sentences(document.text)
    words = sum(1 for _ in islice(RUNS.finditer(document.text), MIN_WORDS))
    if len(parts) < MIN_SENTENCES or words < MIN_WORDS:
        return []
    language = [at for at, part in enumerate(parts) if reads_like_language(part[:MAX_CHARACTERS])]
    first, *later = language or range(len(parts))
    title, left = _title(document, parts, first, cutter)
    order = [*generator.permutation(np.array(later, int)).tolist(), first, *range(len(parts))]
    hard = _hard(parts, order, cutter, generator)
    if hard is None or not title or not left:
        return []
    return [PseudoQuery("title", row, title, left), PseudoQuery("hard", row, *hard)]


def _title(document: Document, parts: Sequence[str], first: int, cutter: Cutter) -> tuple[str, str]:
    """The title and the text without it, also where it is said again; else the first sentence."""
    title = document.fields.get("title")
    if not isinstance(title, str) or not title.strip():
        return _words_of(parts[first][:MAX_CHARACTERS], cutter), _without(parts, first)
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
        words = _content_words(parts[at][:MAX_CHARACTERS], cutter)
        if words:
            left = _without(parts, at)
            return _drop_words(words, left, cutter, generator), left
    return None


def _without(parts: Sequence[str], place: int) -> str:
    return "".join((*parts[:place], *parts[place + 1 :])).strip()


def _drop_words(
    words: Sequence[QueryWord], left: str, cutter: Cutter, generator: np.random.Generator
) -> str:
    """The words, each that the rest of the document repeats dropped by the toss of a coin."""
    repeated = set(cutter.terms([left])[0].words.split(" "))
    tossed = generator.random(len(words)) < DROP_RATE
    kept = [
        word.surface
        for word, drop in zip(words, tossed.tolist(), strict=True)
        if not (drop and repeated.issuperset(word.words))
    ]
    return " ".join(kept or [words[int(generator.integers(len(words)))].surface])


def _content_words(text: str, cutter: Cutter) -> list[QueryWord]:
    return [word for word in cutter.spans(_words_of(text, cutter)) if not word.stop]


def _words_of(text: str, cutter: Cutter) -> str:
    """Nothing but words, of compounds the parts: as people ask for what they do not quote."""
    return " ".join(
        " ".join(RUNS.findall(word.surface)) if word.surfaces else word.surface
        for word in cutter.spans(text)
    )


def sentences(text: str) -> list[str]:
    """Parts of a text that each hold a word; windows of twelve words where there are under three.

    A line break ends a sentence, too: it stands between lines of code, and between items. What
    follows the first 20,000 characters belongs to the last one. Put together again they are the
    text; there are none where those characters hold no word.
    """
    head, rest = text[:MAX_CHARACTERS], text[MAX_CHARACTERS:]
    parts = _join_wordless(ENDS.split(head))
    if len(parts) < MIN_SENTENCES:
        parts = _windows(head)
    return [*parts[:-1], parts[-1] + rest] if parts else []


def reads_like_language(sentence: str) -> bool:
    """Whether it is words between blanks, four or more, little else, and ends as language does.

    In scripts without blanks: whether most of its letters and digits are of them, four or more.
    """
    shape = shape_of(sentence)
    without_blanks = shape.count("c")
    if without_blanks > shape.count("a") + shape.count("0"):
        return without_blanks >= MIN_SENTENCE_WORDS
    pieces = [piece for each in sentence.split() if (piece := each.strip(AROUND))]
    between = [piece for piece in pieces if piece.isascii() or RUNS.search(piece)]
    words = sum(1 for piece in between if WORD.fullmatch(piece))
    enough = words >= MIN_SENTENCE_WORDS and words >= WORD_SHARE * len(between)
    return enough and not sentence.rstrip().endswith(CODE_ENDS)


def _join_wordless(parts: list[str]) -> list[str]:
    """Parts that each hold a word: one that holds none belongs to the one before."""
    whole: list[str] = []
    for part in parts:
        if whole and not (RUNS.search(part) and RUNS.search(whole[-1])):
            whole[-1] += part
        else:
            whole.append(part)
    return whole if whole and RUNS.search(whole[0]) else []


def _windows(text: str) -> list[str]:
    """Parts of twelve words each, with all that stands between these; the last may have fewer."""
    starts = [word.start() for word in RUNS.finditer(text)][::WINDOW]
    places = [0, *starts[1:], len(text)]
    return [text[start:end] for start, end in pairwise(places)] if starts else []
