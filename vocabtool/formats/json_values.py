"""Values of parsed JSON as a vocabulary's arrays: strings as bytes, ids as int64.

Each check names what is wrong and where. Which value holds what is for the reader of a format;
the text is parsed in ``json_parsing.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import encode, printable

MAX_ID: Final = (1 << 32) - 1  # the tokenizers library holds an id in 32 bits
SHOWN: Final = 40  # characters of a value in a message

_SEPARATOR: Final = "\n"
_NAMES: Final[dict[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def kind(value: object) -> str:
    """What a parsed value is called in a message."""
    return _NAMES.get(type(value), type(value).__name__)


def shown(text: str) -> str:
    """A text as a message shows it: its beginning, safe to print."""
    return printable(text[:SHOWN].encode("utf-8", "backslashreplace"))


def strings(values: Collection[Any], what: str) -> ByteStrings:
    """Texts as bytes, as :func:`~vocabtool.vocabulary.encode` makes them.

    Raises :class:`InvalidFile` for what is no text, and for half a surrogate pair, which JSON can
    spell, unless it is one that bytes are shown as. ``what``: names a value in messages.
    """
    try:
        joined = encode(_SEPARATOR.join(values))
    except (TypeError, UnicodeEncodeError):
        raise _no_text(values, what) from None
    ends = np.flatnonzero(np.frombuffer(joined, np.uint8) == ord(_SEPARATOR))
    if len(ends) + 1 != len(values):  # none, or the separator is in one of them
        return ByteStrings.of(map(encode, values))
    ends = np.append(ends, len(joined))
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1] + 1
    return ByteStrings(joined, starts, ends)


def _no_text(values: Collection[Any], what: str) -> InvalidFile:
    for number, value in enumerate(values):
        if not isinstance(value, str):
            return InvalidFile(f"{what} {number:,} is {kind(value)}, wanted a text")
        if encoded(value) is None:
            return InvalidFile(
                f"{what} {number:,} is {shown(value)!r}: half of a surrogate pair is no character"
            )
    raise AssertionError("every value is a text")


def encoded(text: str) -> bytes | None:
    """The bytes of one text; ``None`` for half a surrogate pair that no bytes are shown as."""
    try:
        return encode(text)
    except UnicodeEncodeError:
        return None


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
    for entry, value in vocabulary.items():
        if not is_id(value):
            got = f"{value:,}" if type(value) is int and abs(value) < 1 << 99 else kind(value)
            return InvalidFile(
                f"{what} of {shown(entry)!r} is {got}, wanted a whole number from 0 to {MAX_ID:,}"
            )
    raise AssertionError("every value is an id")
