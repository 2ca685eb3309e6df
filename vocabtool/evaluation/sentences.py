"""The sentences of a text, and which of them read like language: as people write, and ask.

Told by marks, line breaks and letters alone, without a grammar: a line of code that is made of
words, as ``import numpy as np``, passes for language.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from vocabtool.keywords.shapes import shape_of

ENDS: Final = re.compile(r"(?<=[.!?]\s)|(?<=[。！？\n])")  # noqa: RUF001 - full-width
RUNS: Final = re.compile(r"[^\W_]+")  # letters and digits
WINDOW: Final = 12  # words that count as a sentence where a text has none
FEWEST_SENTENCES: Final = 3
MOST_CHARACTERS: Final = 20_000  # of a text that is looked at

# What ASCII has besides letters is what code, tables and formulas are full of.
_LETTERS: Final = r"[^\x00-@\[-`{-\x7f]+"
WORD: Final = re.compile(rf"{_LETTERS}(?:['-]{_LETTERS})*")
AROUND: Final = "\"'(),.:;!?"
FEWEST_IN_SENTENCE: Final = 4  # words of one that reads like language; letters, without blanks
SHARE: Final = 0.8  # of what stands between blanks that is words
CODE_ENDS: Final = (":", ";", "{")  # lines of code end so; sentences only to announce others


def sentences(text: str) -> list[str]:
    """Parts of a text that each hold a word; windows of twelve words where there are under three.

    A line break ends a sentence, too: it stands between lines of code, and between items. What
    follows the first 20,000 characters belongs to the last one. Put together again they are the
    text; there are none where those characters hold no word.
    """
    head, rest = text[:MOST_CHARACTERS], text[MOST_CHARACTERS:]
    parts = _worded(ENDS.split(head))
    if len(parts) < FEWEST_SENTENCES:
        parts = _windows(head)
    return [*parts[:-1], parts[-1] + rest] if parts else []


def reads_like_language(sentence: str) -> bool:
    """Whether it is words between blanks, four or more, little else, and ends as language does.

    In scripts without blanks: whether most of its letters and digits are of them, four or more.
    """
    shape = shape_of(sentence)
    without_blanks = shape.count("c")
    if without_blanks > shape.count("a") + shape.count("0"):
        return without_blanks >= FEWEST_IN_SENTENCE
    pieces = [piece for each in sentence.split() if (piece := each.strip(AROUND))]
    between = [piece for piece in pieces if piece.isascii() or RUNS.search(piece)]
    words = sum(1 for piece in between if WORD.fullmatch(piece))
    enough = words >= FEWEST_IN_SENTENCE and words >= SHARE * len(between)
    return enough and not sentence.rstrip().endswith(CODE_ENDS)


def _worded(parts: list[str]) -> list[str]:
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
