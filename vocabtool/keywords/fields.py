"""Several searched fields of a document: their places in its text, and BM25F.

Robertson, Zaragoza and Taylor, Simple BM25 Extension to Multiple Weighted Fields (2004): a weight
multiplies the frequencies of a field's terms before the formula of BM25 dampens them. So if a field
has the weight W, the keyword index contains each of its terms W times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from vocabtool.documents.options import BETWEEN, TEXT, weights_of
from vocabtool.keywords.cutter import Cutter, Terms


class FieldPlace(NamedTuple):
    """The place of a field in the text of a document, in characters; ``end`` is exclusive."""

    field: str
    start: int
    end: int


def places_of(
    text: str, values: Mapping[str, object], searched: tuple[str, ...]
) -> list[FieldPlace]:
    """Return the places of the ``searched`` fields in the text of a document.

    ``text``: the text of the document, normally the joined values of its fields.
    ``values``: the values of the document's fields, by name.

    The part that no other field covers is the field named "text". Returns an empty list if the text
    is not the joined values. This is possible for documents that are added in Python.
    """
    names, held = [*weights_of(searched)], dict[str, str]()
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and name != TEXT:
            held[name] = value if value.isascii() else text_in_utf8(value)
    if TEXT in names:
        at = names.index(TEXT)
        before, after = (
            sum(len(held[name]) + len(BETWEEN) for name in some if held.get(name))
            for some in (names[:at], names[at + 1 :])
        )
        held[TEXT] = text[before : max(before, len(text) - after)]
    found, start = list[FieldPlace](), 0
    for name in names:
        if value := held.get(name):
            found.append(FieldPlace(name, start, start + len(value)))
            start += len(value) + len(BETWEEN)
    joined = BETWEEN.join(held[each.field] for each in found)
    return found if joined == text else []


def text_in_utf8(value: str) -> str:
    """Replace bytes that are not UTF-8 by U+FFFD."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def weighted_terms(
    cutter: Cutter,
    texts: Sequence[str],
    values: Iterable[Mapping[str, object]],
    searched: tuple[str, ...],
    removed: Sequence[tuple[int, int]] = (),
) -> list[Terms]:
    """Return the terms of texts. Each term of a field with weight W counts W times.

    ``values``, ``searched``: as in :func:`places_of`.
    ``removed``: for each text, the start and the exclusive end of a span that is left out.

    Each repetition is a separate string, so that no phrase matches across two repetitions.
    """
    gaps, weights = removed or [(0, 0)] * len(texts), weights_of(searched)
    left = [text[:first] + text[last:] for text, (first, last) in zip(texts, gaps, strict=True)]
    terms = cutter.terms(left)
    if max(weights.values(), default=1) == 1:
        return terms
    parts = [
        (at, weights[name], text[start : min(first, end)] + text[max(start, last) : end])
        for at, (text, held, (first, last)) in enumerate(zip(texts, values, gaps, strict=True))
        for name, start, end in places_of(text, held, searched)
        if weights[name] > 1
    ]
    cut = cutter.terms([part for _, _, part in parts])
    for (at, weight, _), more in zip(parts, cut, strict=True):
        if more.words:
            repeated = terms[at].repeated + (more.words,) * (weight - 1)
            count = terms[at].count + more.count * (weight - 1)
            terms[at] = replace(terms[at], repeated=repeated, count=count)
    return terms
