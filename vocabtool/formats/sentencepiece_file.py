"""A SentencePiece model as a file of its own: ``tokenizer.model``, ``spiece.model``, ``m.model``.

What the model holds is read by ``sentencepiece.py``.
"""

from __future__ import annotations

from typing import Final

from vocabtool.errors import UnsupportedFormat
from vocabtool.formats import sentencepiece
from vocabtool.formats.reader import Reader, ReadResult, Source
from vocabtool.formats.saved_model.tokenizers import vocabulary
from vocabtool.vocabulary import Place, Vocabulary

MAX_FILE: Final = 1 << 28  # bytes; a million pieces take 30 MB


def recognise(source: Source) -> str | None:
    """``None`` where the file begins with pieces, each with a text and a score or type."""
    if sentencepiece.recognise(source.head):
        return None
    return "does not begin with pieces of SentencePiece"


def read(source: Source) -> ReadResult:
    """The pieces, by id."""
    if source.size > MAX_FILE:
        raise UnsupportedFormat(
            f"a SentencePiece model of {source.size:,} bytes, wanted at most {MAX_FILE:,}"
        )
    name = source.name.rpartition("/")[2]
    place = Place(source.name, "whole file")
    return ReadResult((model(source.file.read_bytes(), name, place),))


def model(data: bytes, name: str, place: Place) -> Vocabulary:
    """The pieces of a whole model, wherever it lies."""
    return vocabulary(sentencepiece.read(data), name, "sentencepiece", place)


READER: Final = Reader("SentencePiece", recognise, read)
