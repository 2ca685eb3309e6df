"""An identifier by its exact surface: whole, and the compound segments in it.

``/usr/lib/python3.11/os.py`` is itself, ``python3.11`` and ``os.py``; ``john.doe@example.com`` is
itself, ``john.doe`` and ``example.com``. First what stands before and after comes off (``#``,
``_``), then it is cut ever finer: at ``: @ # & + $`` (``file.py:12``), at ``/ \\ :: ->`` too, then
at hyphens (``foo.bar-like``) or full stops. Of the segments those stay that are still compound; a
plain word is found by the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from vocabtool.keywords.folding import case_folded, without_marks
from vocabtool.keywords.shapes import shape_of

LONGEST: Final = 1_000  # characters of a term; longer ones are found by their beginning
_AT_EDGES: Final = "./\\-"
_AROUND: Final = _AT_EDGES + "_#@$+"

# Over shapes (``shapes.py``), so that every kind of hyphen and every width is meant.
_CUTS: Final = tuple(
    map(
        re.compile,
        (
            r"(?:[^:@#&+$]|(?<!:)::(?!:))+",
            r"(?:[^:@#&+$/\\\->]|-(?!>))+",
            r"[^:@#&+$/\\\->]+",
            r"(?:[^:@#&+$/\\\->.]|-(?!>))+",
        ),
    )
)
_ONE_KIND: Final = re.compile(r"[a0f]++([.\-_/\\@#&$])[a0f]++(?:\1[a0f]++)*+")  # holds no other
_JOINS: Final = re.compile(r"[.\-_/\\@:#&+$]")  # an arrow holds a hyphen
_HYPHEN: Final = "\u2010"


def surfaces_of(token: str) -> tuple[str, ...]:
    """The surfaces of a compound token, folded, whole first, each once."""
    shape = shape_of(token)
    if _ONE_KIND.fullmatch(shape):
        return (_folded(token),)
    inner = (
        token[start:end] for start, end in _segments(shape) if _JOINS.search(shape, start, end)
    )
    return tuple(dict.fromkeys(map(_folded, (token, *inner))))


def _segments(shape: str) -> Iterator[tuple[int, int]]:
    """What is inside, then pieces of the whole, by their places."""
    yield _stripped(shape, 0, len(shape), _AROUND)
    for cut in _CUTS:
        for found in cut.finditer(shape):
            yield _stripped(shape, *found.span(), _AT_EDGES)  # ``__init__`` keeps what is its own


def _stripped(shape: str, start: int, end: int, characters: str) -> tuple[int, int]:
    inner = shape[start:end]
    return end - len(inner.lstrip(characters)), start + len(inner.rstrip(characters))


def _folded(segment: str) -> str:
    """Case-folded and without accents, blanks that folding made left out."""
    folded = without_marks(case_folded(segment[:LONGEST])).replace(_HYPHEN, "-")
    return (folded if folded.isascii() else "".join(folded.split()))[:LONGEST]
