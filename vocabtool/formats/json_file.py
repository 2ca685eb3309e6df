"""Files of JSON: parsed within bounds, and the parsed values as a vocabulary's arrays.

The text is UTF-8, with a byte order mark or without (RFC 8259). Of keys that repeat in an object
the last counts, as for the libraries that own these formats: no entry is lost by it, only an
earlier id. Reading stops before Python's objects take much more memory than the text. A file may
hold one text in quotes that is JSON itself: so many write what Keras' ``Tokenizer.to_json()``
returns. What the values mean is for the readers of formats, which ``registry.py`` lists.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.formats.files import read_file
from vocabtool.formats.reader import Source
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import encode, printable

MAX_FILE: Final = 1 << 28  # ten times the largest tokenizer that we know of
TOO_LARGE: Final = "JSON of more than {:,} bytes: write the words as lines of text instead"
MORE_THAN_ONE: Final = ", more than one value: JSON lines are documents, no model"

# A list of words may begin with the line "[PAD]" or "{": what follows must be JSON too.
BEGINS: Final = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*(?:\{\s*"|\[\s*["\[{]|(?:\{\s*\}|\[\s*\])\s*\Z|"\s*\{(?:\s|\\[nrt])*\\")'
)

# What Python needs for each, at most, in bytes: an object or a list with one value, a value more.
CONTAINER_COST: Final = 200
VALUE_COST: Final = 100
# Memory for a byte of text. Scored pieces of two characters need 36; a bomb of "[]," 100.
MAX_GROWTH: Final = 40
FREE: Final = 1 << 20  # bytes of memory that nobody counts

MAX_ID: Final = (1 << 32) - 1  # the tokenizers library holds an id in 32 bits
MAX_SHOWN: Final = 40  # characters of a value in a message

_NAMES: Final[dict[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def recognise(source: Source) -> str | None:
    """Whether a file begins as an object or a list of JSON does."""
    return None if BEGINS.match(source.head) else "does not begin as an object or a list of JSON"


def read(file: Path) -> Any:
    """What a file of JSON holds.

    Raises what :func:`parse` raises, and :class:`UnsupportedFormat` for more than ``MAX_FILE``
    bytes.
    """
    document = parse(read_file(file, MAX_FILE, TOO_LARGE))
    return parse_text(document) if isinstance(document, str) else document


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
    collected = gc.isenabled()
    gc.disable()  # JSON has no cycles, and looking for them takes a third of the time
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        offset = len(data) - len(text[error.pos :].encode())
        hint = MORE_THAN_ONE if error.msg == "Extra data" else ""
        raise InvalidFile(f"not JSON: {error.msg}{hint}", offset=offset) from error
    except ValueError as error:  # a number of thousands of digits
        raise InvalidFile(f"JSON that is not read: {error}") from error
    except RecursionError as error:
        raise InvalidFile("JSON that is nested too deeply to be read") from error
    finally:
        if collected:
            gc.enable()


def parse_text(text: str) -> Any:
    """:func:`parse` of a JSON text that another JSON text holds as a string."""
    return parse(text.encode("utf-8", "surrogatepass"))


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


def kind(value: object) -> str:
    """What a parsed value is called in a message."""
    return _NAMES.get(type(value), type(value).__name__)


def show(text: str) -> str:
    """A text as a message shows it: its beginning, safe to print."""
    return printable(text[:MAX_SHOWN].encode("utf-8", "backslashreplace"))


def strings(values: Collection[Any], what: str) -> ByteStrings:
    """Texts as bytes, as :func:`~vocabtool.vocabulary.encode` makes them.

    Raises :class:`InvalidFile` for what is no text, and for half a surrogate pair, which JSON can
    spell, unless it is one that bytes are shown as. ``what``: names a value in messages.
    """
    try:
        return ByteStrings.of(map(encode, values))
    except (AttributeError, UnicodeEncodeError):
        raise _no_text(values, what) from None


def _no_text(values: Collection[Any], what: str) -> InvalidFile:
    for number, value in enumerate(values):
        if not isinstance(value, str):
            return InvalidFile(f"{what} {number:,} is {kind(value)}, wanted a text")
        try:
            encode(value)
        except UnicodeEncodeError:
            half = "half of a surrogate pair is no character"
            return InvalidFile(f"{what} {number:,} is {show(value)!r}: {half}")
    raise AssertionError("every value is a text")


def ids(vocabulary: Mapping[str, Any], what: str) -> NDArray[np.int64]:
    """The values of an object of ids: int64, shape (n,).

    Raises :class:`InvalidFile` where one is not a whole number from 0 to ``MAX_ID``.
    """
    values = vocabulary.values()
    if set(map(type, values)) <= {int}:  # true and false are no ids
        try:
            found = np.fromiter(values, np.int64, len(vocabulary))
        except OverflowError:
            raise _no_id(vocabulary, what) from None
        if not len(found) or (found.min() >= 0 and found.max() <= MAX_ID):
            return found
    raise _no_id(vocabulary, what)


def is_id(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number from 0 to ``MAX_ID``."""
    return type(value) is int and 0 <= value <= MAX_ID


def _no_id(vocabulary: Mapping[str, Any], what: str) -> InvalidFile:
    entry, value = next(pair for pair in vocabulary.items() if not is_id(pair[1]))
    got = f"{value:,}" if type(value) is int and abs(value) < 1 << 99 else kind(value)
    return InvalidFile(
        f"{what} of {show(entry)!r} is {got}, wanted a whole number from 0 to {MAX_ID:,}"
    )
