"""``strings.json``: a JSON list of texts, as spaCy keeps all strings of a pipeline.

Layout: ``StringStore.to_disk`` in explosion/spaCy, spacy/strings.pyx. spaCy's own ids are hashes
of the strings and are not stored: here an id is a position. A list of words that anybody else
wrote as JSON is the same to us.
"""

from __future__ import annotations

from typing import Any, Final

from vocabtool.formats import json_values
from vocabtool.formats.reader import JsonReader, ReadResult, Source
from vocabtool.vocabulary import Place, Vocabulary

NOTE: Final = "ids are positions in the list (in spaCy, hashes of the strings)"


def recognise(document: object) -> str | None:
    """Whether a document is a list of nothing but texts."""
    if not isinstance(document, list):
        return f"{json_values.kind(document)}, wanted a list of texts"
    if not document:
        return "an empty list"
    for number, value in enumerate(document):
        if not isinstance(value, str):
            return f"item {number:,} is {json_values.kind(value)}, wanted a text"
    return None


def read(document: Any, source: Source) -> ReadResult:
    """Read a list of texts. Raises :class:`InvalidFile` for half a surrogate pair in one."""
    place = Place(source.name, "whole list")
    stored = json_values.strings(document, "text")
    return ReadResult((Vocabulary(source.name, "list", stored, places=(place,), notes=(NOTE,)),))


READER: Final = JsonReader("JSON list of texts (spaCy strings.json)", recognise, read)
