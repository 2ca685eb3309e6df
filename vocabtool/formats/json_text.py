"""JSON files: read once, parsed once, then shown to each reader of a format that is JSON.

How the text is parsed is in ``json_parsing.py``. A file may hold one text in quotes that is JSON
itself: so many write what Keras' ``Tokenizer.to_json()`` returns. It is parsed once more.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from vocabtool.errors import UnknownFormat, UnsupportedFormat, refuse_pointer
from vocabtool.formats import (
    hf_tokenizer,
    hf_vocab_json,
    keras_tokenizer,
    scored_pieces,
    spacy_strings,
    tekken,
    tfjs,
    tiktoken_ranks,
)
from vocabtool.formats.json_parsing import MAX_FILE, parse, parse_text
from vocabtool.formats.reader import JsonReader, Reader, ReadResult, Source

READERS: Final[tuple[JsonReader, ...]] = (
    hf_tokenizer.READER,
    tfjs.READER,
    keras_tokenizer.READER,
    tekken.READER,
    tiktoken_ranks.JSON_READER,
    hf_vocab_json.READER,
    scored_pieces.READER,
    spacy_strings.READER,
)

# A list of words may begin with the line "[PAD]" or "{": what follows must be JSON too.
BEGINS: Final = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*(?:\{\s*"|\[\s*["\[{]|(?:\{\s*\}|\[\s*\])\s*\Z|"\s*\{(?:\s|\\[nrt])*\\")'
)


def recognise(source: Source) -> str | None:
    """Whether a file begins as an object or a list of JSON does."""
    return None if BEGINS.match(source.head) else "does not begin as an object or a list of JSON"


def read(source: Source) -> ReadResult:
    """Read the first format that fits.

    Raises :class:`InvalidFile` for what is not JSON in UTF-8, or takes too much memory,
    :class:`UnsupportedFormat` for more than ``MAX_FILE`` bytes, and :class:`UnknownFormat` with
    the reasons of all formats where none fits; besides these, what the reader raises.
    """
    document = document_of(source.file)
    reasons = []
    for reader in READERS:
        reason = reader.recognise(document)
        if reason is None:
            return replace(reader.read(document, source), format=reader.format)
        reasons.append(f"{reader.format}: {reason}")
    raise UnknownFormat(f"{source.name}: JSON, but of no format that vocabtool reads", reasons)


def document_of(file: Path) -> Any:
    """What a file of JSON holds. Raises as :func:`read` does, but for ``UnknownFormat``."""
    document = parse(_content(file))
    return parse_text(document) if isinstance(document, str) else document


READER: Final = Reader("JSON", recognise, read)


def _content(file: Path) -> bytes:
    with file.open("rb") as opened:
        data = opened.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise UnsupportedFormat(
            f"JSON of more than {MAX_FILE:,} bytes: write the words as lines of text instead"
        )
    refuse_pointer(data)
    return data
