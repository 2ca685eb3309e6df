"""Where in a text the words of a query stand, by the same cut that indexed it.

Words meet by their terms, so every form of a word is found. An identifier is marked as a whole
where it stands whole, and by its words elsewhere. Which words are worth a mark, the caller decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from vocabtool.keywords.cutter import Cutter, QueryWord
from vocabtool.keywords.tokens import Span

__all__ = ["Span", "highlights"]

_CHUNK: Final = re.compile(r"\S+")


def highlights(text: str, words: Sequence[QueryWord], cutter: Cutter) -> list[Span]:
    """The places (start, end in characters) of a query's words, ascending, none overlapping."""
    terms = {term for word in words for term in word.words}
    surfaces = {surface for word in words for surface in word.surfaces[:1]}
    return _merge_overlaps(sorted(_places(text, terms, surfaces, cutter)))


def _places(text: str, terms: set[str], surfaces: set[str], cutter: Cutter) -> Iterator[Span]:
    either = terms | surfaces
    for chunk in _CHUNK.finditer(text):
        if either.isdisjoint(cutter.chunk_terms(chunk.group())):
            continue
        for place in _in_chunk(chunk.group(), terms, surfaces, cutter):
            yield Span(chunk.start() + place.start, chunk.start() + place.end)


def _in_chunk(chunk: str, terms: set[str], surfaces: set[str], cutter: Cutter) -> Iterator[Span]:
    for word in cutter.spans(chunk):
        if not surfaces.isdisjoint(word.surfaces[:1]):
            yield Span(word.start, word.end)
    for term, place in cutter.places(chunk):
        if term in terms:
            yield place


def _merge_overlaps(places: Sequence[Span]) -> list[Span]:
    """Places that overlap become one; those that only touch stay apart."""
    united: list[Span] = []
    for place in places:
        if united and place.start < united[-1].end:
            united[-1] = Span(united[-1].start, max(place.end, united[-1].end))
        else:
            united.append(place)
    return united
