"""A JSON list of pieces, each with its score: ``vocab.json`` of TensorFlow.js' sentence encoder.

Layout: tensorflow/tfjs-models, universal-sentence-encoder/src/tokenizer: a list of [piece, score],
a piece's id is its position, and the first stands for what no piece covers. Some scores are null
there. Scores are left out, as they are of every format.
"""

from __future__ import annotations

from typing import Any, Final

from vocabtool.formats import json_values
from vocabtool.formats.markers import guess_marker
from vocabtool.formats.reader import JsonReader, ReadResult, Source
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Unknown, Vocabulary

SCORES: Final = (int, float, type(None))
UNKNOWNS: Final = ("\N{REPLACEMENT CHARACTER}".encode(), b"<unk>")


def recognise(document: object) -> str | None:
    """Whether a document is a list of nothing but pairs of a text and a number or null."""
    if not isinstance(document, list):
        return f"{json_values.kind(document)}, wanted a list of pieces and scores"
    if not document:
        return "an empty list"
    for number, pair in enumerate(document):
        if not isinstance(pair, list) or len(pair) != 2:
            return f"item {number:,} is {json_values.kind(pair)}, wanted a piece and its score"
        if not isinstance(pair[0], str) or type(pair[1]) not in SCORES:
            got = f"{json_values.kind(pair[0])} and {json_values.kind(pair[1])}"
            return f"item {number:,} holds {got}, wanted a text and a number"
    return None


def read(document: Any, source: Source) -> ReadResult:
    """Read a list of pieces. Raises :class:`InvalidFile` for half a surrogate pair in one."""
    stored = json_values.strings([piece for piece, _ in document], "piece")
    scores = [score for _, score in document if score is not None]
    vocabulary = Vocabulary(
        source.name,
        "unigram",
        stored,
        unknown=_unknown(stored),
        places=(Place(source.name, "whole list"),),
        notes=(f"{len(scores):,} pieces have a score",),
        marker=guess_marker(stored),
    )
    return ReadResult((vocabulary,))


def _unknown(stored: ByteStrings) -> Unknown | None:
    """The first piece, where it is named like one."""
    return Unknown(0) if stored[0] in UNKNOWNS else None


READER: Final = JsonReader("JSON list of pieces and scores (TensorFlow.js)", recognise, read)
