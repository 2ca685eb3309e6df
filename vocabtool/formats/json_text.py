"""JSON files: read once, parsed once, then shown to each reader of a format that is JSON.

The text is UTF-8, with a byte order mark or without (RFC 8259). Of keys that repeat in an object
the last counts, as for the libraries that own these formats: no entry is lost by it, only an
earlier id. Reading stops before Python's objects take much more memory than the text.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from vocabtool.errors import InvalidFile, UnknownFormat, UnsupportedFormat, refuse_pointer
from vocabtool.formats import hf_tokenizer, hf_vocab_json, scored_pieces, spacy_strings, tfjs
from vocabtool.formats.reader import Found, JsonReader, Reader, Source

MAX_FILE: Final = 1 << 28  # ten times the largest tokenizer that we know of
READERS: Final[tuple[JsonReader, ...]] = (
    hf_tokenizer.READER,
    tfjs.READER,
    hf_vocab_json.READER,
    scored_pieces.READER,
    spacy_strings.READER,
)

MORE_THAN_ONE: Final = ", more than one value: JSON lines are documents, no model"

# What Python needs for each, at most, in bytes: an object or a list with one value, a value more.
CONTAINER_COST: Final = 200
VALUE_COST: Final = 100
# Memory for a byte of text. Scored pieces of two characters need 36; a bomb of "[]," 100.
MAX_GROWTH: Final = 40
FREE: Final = 1 << 20  # bytes of memory that nobody counts

# A list of words may begin with the line "[PAD]" or "{": what follows must be JSON too.
BEGINS: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\{\s*"|\[\s*["\[{]|(?:\{\s*\}|\[\s*\])\s*\Z)')


def recognise(source: Source) -> str | None:
    """Whether a file begins as an object or a list of JSON does."""
    return None if BEGINS.match(source.head) else "does not begin as an object or a list of JSON"


def read(source: Source) -> Found:
    """Read the first format that fits.

    Raises :class:`InvalidFile` for what is not JSON in UTF-8, or takes too much memory,
    :class:`UnsupportedFormat` for more than ``MAX_FILE`` bytes, and :class:`UnknownFormat` with
    the reasons of all formats where none fits; besides these, what the reader raises.
    """
    document = parse(_content(source))
    reasons = []
    for reader in READERS:
        reason = reader.recognise(document)
        if reason is None:
            return reader.read(document, source)._replace(format=reader.format)
        reasons.append(f"{reader.format}: {reason}")
    raise UnknownFormat(f"{source.name}: JSON, but of no format that vocabtool reads", reasons)


READER: Final = Reader("JSON", recognise, read)


def _content(source: Source) -> bytes:
    with source.file.open("rb") as file:
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise UnsupportedFormat(
            f"JSON of more than {MAX_FILE:,} bytes: write the words as lines of text instead"
        )
    refuse_pointer(data)
    return data


def parse(data: bytes) -> Any:
    """The value that a JSON text holds.

    Raises :class:`InvalidFile` where the text is not JSON in UTF-8, is nested too deeply, or has
    so many values that they take more than ``MAX_GROWTH`` times its own size.
    """
    _refuse_bomb(data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidFile(
            "JSON that is not UTF-8: write it as UTF-8", offset=error.start
        ) from error
    try:
        with _no_collection():
            return json.loads(text)
    except json.JSONDecodeError as error:
        offset = len(data) - len(text[error.pos :].encode())
        hint = MORE_THAN_ONE if error.msg == "Extra data" else ""
        raise InvalidFile(f"not JSON: {error.msg}{hint}", offset=offset) from error
    except ValueError as error:  # a number of thousands of digits
        raise InvalidFile(f"JSON that is not read: {error}") from error
    except RecursionError as error:
        raise InvalidFile("JSON that is nested too deeply to be read") from error


@contextmanager
def _no_collection() -> Iterator[None]:
    """No search for cycles: JSON has none, and looking for them takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _refuse_bomb(data: bytes) -> None:
    room = FREE + MAX_GROWTH * len(data)
    both = len(data) - len(data.translate(None, b"{[,"))
    if both * CONTAINER_COST <= room:  # nearly always, and quicker than to count each
        return
    containers = data.count(b"{") + data.count(b"[")
    cost = containers * CONTAINER_COST + data.count(b",") * VALUE_COST
    if cost > room:
        raise InvalidFile(
            f"JSON that takes some {cost >> 20:,} MB of memory, {cost // len(data)} times its "
            f"size, wanted at most {MAX_GROWTH} times: no vocabulary looks like that"
        )
