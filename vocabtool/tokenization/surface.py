"""A line cut into surface words: the stretches of it that are printed or masked as one.

The cut says nothing of what a model knows, nor which words the model makes: that is its own rule's
business, and ``alignment.py`` sets the two beside each other. As the rule may make one word of what
looks like several (``quick-brown``), each stretch can be cut in three ways, from coarse to fine.

Words are what stands between the word boundaries of Unicode (UAX #29, default rules, as the
``regex`` package finds them: ``re`` and Arrow have none, PyICU needs a compiler and ICU itself).
These boundaries keep ``didn't``, ``3.14``, ``foo_bar.baz`` and ``0x80070005`` whole. Codes that
they would cut stay whole by one predicate, :func:`is_code`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import regex

# ASCII whitespace: what it parts are chunks. A split by it gives chunks and white space in turn.
SPACE: Final = re.compile(r"([ \t-\r]+)")
WINDOW: Final = 2048  # characters whose boundaries are searched at once
KEPT_BACK: Final = 3  # boundaries at a window's end that more text may undo


class Span(NamedTuple):
    """A stretch of a text: characters ``start`` to ``end``, the latter not included."""

    start: int
    end: int


def cuts(chunk: str) -> list[tuple[Span, ...]]:
    """Ways to cut a text without ASCII whitespace, not empty, each once, from coarse to fine.

    Whole; then with the punctuation at both ends taken off, mark by mark; then into words.
    """
    whole = (Span(0, len(chunk)),)
    if chunk.isascii() and chunk.isalnum():
        return [whole]
    words = tuple(_words(chunk))
    wordy = [i for i, span in enumerate(words) if _wordy(chunk[slice(*span)])]
    ways = [whole, words]
    if wordy:
        first, last = wordy[0], wordy[-1]
        core = Span(words[first].start, words[last].end)
        ways.insert(1, (*words[:first], core, *words[last + 1 :]))
    return list(dict.fromkeys(ways))


def _wordy(text: str) -> bool:
    """Whether it holds a letter or a digit of any script, or a byte that is not UTF-8."""
    return any(c.isalnum() or "\ud800" <= c <= "\udfff" for c in text)


def is_code(run: str) -> bool:
    """Whether a run of letters, digits and joiners is a code, and thus one surface word.

    It is where it begins with a dot (``.NET``), ends in ``#`` or ``++`` (``C#``, ``C++``), or
    holds a digit (``CVE-2024-1234``, ``IL-6``), ``@`` or ``://`` or ``::``. Plain words joined by
    hyphens, slashes or dots are none: how far they are cut is left to the model's rule.
    """
    return (
        run.startswith(".")
        or run.endswith(("#", "++"))
        or any(sign in run for sign in ("@", "://", "::"))
        or any(c.isdigit() for c in run)
    )


def _words(chunk: str) -> Iterator[Span]:
    """What stands between word boundaries, less white space, codes not cut."""
    codes = [Span(*m.span()) for m in _runs().finditer(chunk) if is_code(m[0])]
    codes.reverse()
    start, reach = 0, 0
    for a, b in pairwise(_bounds(chunk)):
        while codes and codes[-1].end <= a:
            codes.pop()
        if a >= reach:
            start = a
        reach = max(b, codes[-1].end) if codes and codes[-1].start < b else max(reach, b)
        if reach <= b and not chunk[start:b].isspace():
            yield Span(start, b)


def _bounds(chunk: str) -> list[int]:
    """All word boundaries, both ends among them.

    Found window by window, each from a boundary on: the search looks back over a run of flags.
    """
    find, found, width = _boundaries().finditer, [0], WINDOW
    while found[-1] < len(chunk):
        start = found[-1]
        bounds = [start + m.start() for m in find(chunk[start : start + width])]
        if start + width >= len(chunk):
            return found + bounds[1:]
        # What follows a window may join its last words, or make one of the last two.
        width = WINDOW if len(bounds) > KEPT_BACK + 1 else 2 * width
        found += bounds[1:-KEPT_BACK]
    return found


@cache
def _boundaries() -> regex.Pattern[str]:
    """The default word boundaries of Unicode."""
    import regex

    return regex.compile(r"(?w)\b")


@cache
def _runs() -> regex.Pattern[str]:
    """What may be a code: runs of letters and digits of scripts that put spaces between words.

    Joined by up to three joiners, perhaps with a dot before or with ``#`` or ``++`` behind.
    """
    import regex

    letter = r"[\p{Latin}\p{Greek}\p{Cyrillic}\p{Nd}_]\p{M}*"
    joiner = r"[\-.:@#+/&=%?~\\]"
    return regex.compile(
        rf"(?<![\p{{L}}\p{{N}}\p{{M}}_.])\.(?:{letter})++"
        rf"|(?:{letter})++(?:{joiner}{{1,3}}(?:{letter})++)*+(?:\#|\+\+)?"
    )
