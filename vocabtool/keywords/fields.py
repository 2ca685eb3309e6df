"""Several searched fields of a document: their places in its text, and BM25F.

Robertson, Zaragoza and Taylor, Simple BM25 Extension to Multiple Weighted Fields (2004): a weight
multiplies the frequencies of a field's terms before their saturation. So the terms of a field of
weight W are put into the keyword index W times: once with the text, and W - 1 times more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """Return the places of the ``searched`` fields in a text that joins them.

    ``values``: of the other fields than ``text``, which is what these leave. The result is empty
    if the text does not consist of the fields; this can be so for documents that are added in
    Python.
    """
    names, held = [*weights_of(searched)], dict[str, str]()
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and name != TEXT:
            held[name] = value if value.isascii() else in_utf8(value)
    if TEXT in names:
        at = names.index(TEXT)
        before, after = (
            sum(len(held[name]) + len(BETWEEN) for name in some if held.get(name))
            for some in (names[:at], names[at + 1 :])
        )
        held[TEXT] = text[before : len(text) - after]
    found, start = list[FieldPlace](), 0
    for name in names:
        if value := held.get(name):
            found.append(FieldPlace(name, start, start + len(value)))
            start += len(value) + len(BETWEEN)
    joined = BETWEEN.join(held[each.field] for each in found)
    return found if joined == text else []


def in_utf8(value: str) -> str:
    """Replace bytes that are not UTF-8 by U+FFFD, as in the texts of an index."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def weighted_parts(
    text: str, values: Mapping[str, object], searched: tuple[str, ...]
) -> list[tuple[str, int]]:
    """Return the parts of a text that are fields with a weight above 1, and these weights."""
    weights = weights_of(searched)
    if max(weights.values(), default=1) == 1:
        return []
    places = places_of(text, values, searched)
    return [(text[start:end], weights[name]) for name, start, end in places if weights[name] > 1]


def add_weights(
    terms: Sequence[Terms], parts: Sequence[Sequence[tuple[str, int]]], cutter: Cutter
) -> list[Terms]:
    """Return the ``terms`` of texts, in which the terms of each part occur as often as it weighs.

    ``parts``: as :func:`weighted_parts` returns them for each text. Each repetition is a text of
    its own, so that no phrase is found across its edges.
    """
    found = []
    for each, weighted in zip(terms, parts, strict=True):
        more: list[str] = []
        for cut, (_, weight) in zip(
            cutter.terms([text for text, _ in weighted]), weighted, strict=True
        ):
            more += [cut.words] * (weight - 1) if cut.words else []
        count = each.count + sum(words.count(" ") + 1 for words in more)
        found.append(replace(each, repeated=tuple(more), count=count) if more else each)
    return found
