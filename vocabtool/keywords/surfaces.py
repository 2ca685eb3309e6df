"""An identifier by its exact surface: whole, and the compound segments in it.

``/usr/lib/python3.11/os.py`` is itself, ``python3.11`` and ``os.py``; ``john.doe@example.com`` is
itself, ``john.doe`` and ``example.com``. First what stands before and after comes off (``#``,
``_``), then it is cut at ``/ \\ @ : # & + $``, then at full stops. Of the segments those stay that
are still compound; a plain word is found by the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from vocabtool.keywords.folding import case_folded, without_marks
from vocabtool.keywords.shapes import shape_of

LONGEST: Final = 1_000  # characters of a term; longer ones are found by their beginning
_AROUND: Final = r"._#@/\$+"

# Over shapes (``shapes.py``), so that every kind of hyphen and every width is meant.
_STRONG: Final = re.compile(r"[^/\\@:#&+$]+")
_WEAK: Final = re.compile(r"[^/\\@:#&+$.]+")
_JOINS: Final = re.compile(r"[.\-_/\\@:#&+$]")
_HYPHEN: Final = "\u2010"


def surfaces_of(token: str) -> tuple[str, ...]:
    """The surfaces of a compound token, folded, whole first, each once."""
    shape = shape_of(token)
    inner = (
        token[start:end] for start, end in _segments(shape) if _JOINS.search(shape, start, end)
    )
    return tuple(dict.fromkeys(map(_folded, (token, *inner))))


def _segments(shape: str) -> Iterator[tuple[int, int]]:
    """What is inside, then pieces of it, by their places."""
    start = len(shape) - len(shape.lstrip(_AROUND))
    end = len(shape.rstrip(_AROUND))
    yield start, end
    for kind in (_STRONG, _WEAK):
        yield from (found.span() for found in kind.finditer(shape, start, end))


def _folded(segment: str) -> str:
    """Case-folded and without accents, blanks that folding made left out."""
    folded = without_marks(case_folded(segment[:LONGEST])).replace(_HYPHEN, "-")
    return (folded if folded.isascii() else "".join(folded.split()))[:LONGEST]
