r"""Where the words of a text stand, and which belong together as one identifier.

A *run* is a maximal run of letters, digits and marks. A *token* is a run, or runs that joiners
hold together:

| where           | what                                          | so these stay whole      |
|-----------------|-----------------------------------------------|--------------------------|
| between runs    | one of ``. : / \ - @ # & $``; ``+``, ``++``;  | ``SKU-48007-H``          |
|                 | ``_`` any number, also after ``. :: ->``;     | ``std::vector``          |
|                 | ``::``, ``->``, ``://``;                      | ``ptr->next``            |
|                 | ``\\``, ``:\``, ``:\\``                       | ``C:\Windows\system32``  |
| before them     | ``_`` any number; ``#``, ``@``;               | ``#hashtag``, ``@name``  |
|                 | before a letter: ``.`` (one), ``/ \ $``       | ``.NET``, ``/usr/lib``   |
| after them      | ``_`` any number;                             | ``__init__``             |
|                 | after a letter: ``+``, ``++``, ``#``          | ``C++``, ``C#``          |

Everything else cuts: brackets, quotes and apostrophes, commas, semicolons, ``? ! = * < > |``, and
joiners that join nothing, such as the full stop of a sentence. So ``foo.bar()`` is ``foo.bar``, and
``didn't`` is ``didn`` and ``t``, as in the setting that was measured (``[a-z0-9]+``); both pieces
are stop words.

Of scripts without blanks a run is a token of its own, never joined to others.

The *humps* of a run in mixed case are the words that its capitals part: ``parse``, ``HTTP`` and
``Header`` of ``parseHTTPHeader``. Single characters are none, and one hump alone is no part
(``mRNA``, ``iPhone``, ``SNPs``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from vocabtool.keywords.shapes import shape_of

# Over shapes. A run begins with a visible character. No repetition is tried twice at one place, or
# from within, so matching is linear.
_RUN: Final = r"[a0][a0f]*+"
_JOINER: Final = r"(?:_++|://|(?:::|->|\.)_*+|:?\\{1,2}+|\+{1,2}+|[:/\-@#&$])"
_LEAD: Final = r"(?:(?<!_)_++(?=[a0])|(?<!\.)\.(?=a)|[/\\$](?=a)|[#@](?=[a0]))?+"
_TRAIL: Final = r"(?:(?<=[af])(?:\+{1,2}+|#)(?![a0])|_++)?+"
_TOKEN: Final = re.compile(rf"{_LEAD}{_RUN}(?:{_JOINER}{_RUN})*+{_TRAIL}|c[cf]*+")
_HUMP: Final = re.compile(r"[A-Z]+[0-9]*s?(?![a-z])|[A-Z]?[a-z]+[0-9]*")
_RUNS: Final = re.compile(rf"{_RUN}|c[cf]*+")


class Span(NamedTuple):
    """Of a text: from ``start`` to before ``end``, in characters."""

    start: int
    end: int


class Token(NamedTuple):
    """``whole``: with what joins; ``runs``: its words, at least one."""

    whole: Span
    runs: tuple[Span, ...]

    @property
    def is_compound(self) -> bool:
        """Whether there is more to it than one word."""
        return self.runs != (self.whole,)


def tokens(text: str) -> Iterator[Token]:
    """Every token of a text, in order."""
    shape = shape_of(text)
    for found in _TOKEN.finditer(shape):
        whole = _span(found)
        if found[0].isalnum():  # nothing joins: one run, and most are
            yield Token(whole, (whole,))
        else:
            yield Token(whole, tuple(map(_span, _RUNS.finditer(shape, *whole))))


def is_without_blanks(run: str) -> bool:
    """Whether a run is of a script without blanks."""
    return shape_of(run[0]) == "c"


def runs_of(text: str) -> list[str]:
    """Every run of a text, in order."""
    return [text[run.start : run.end] for run in map(_span, _RUNS.finditer(shape_of(text)))]


def humps(run: str) -> list[Span]:
    """The humps of a run, none where fewer than two have two characters or more; ASCII only."""
    if run[1:].islower() or run.isupper() or not run.isascii():
        return []
    found = [hump for hump in map(_span, _HUMP.finditer(run)) if hump.end - hump.start > 1]
    return found if len(found) > 1 else []


def _span(found: re.Match[str]) -> Span:
    return Span(*found.span())
