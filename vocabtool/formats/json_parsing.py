"""JSON text as Python's values: parsed once, and not where that would take too much memory.

The text is UTF-8, with a byte order mark or without (RFC 8259). Of keys that repeat in an object
the last counts, as for the libraries that own these formats: no entry is lost by it, only an
earlier id. Reading stops before Python's objects take much more memory than the text. What the
values mean is for ``json_text.py`` and the readers that it lists.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from vocabtool.errors import InvalidFile

MAX_FILE: Final = 1 << 28  # ten times the largest tokenizer that we know of
MORE_THAN_ONE: Final = ", more than one value: JSON lines are documents, no model"

# What Python needs for each, at most, in bytes: an object or a list with one value, a value more.
CONTAINER_COST: Final = 200
VALUE_COST: Final = 100
# Memory for a byte of text. Scored pieces of two characters need 36; a bomb of "[]," 100.
MAX_GROWTH: Final = 40
FREE: Final = 1 << 20  # bytes of memory that nobody counts


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


def parse_text(text: str) -> Any:
    """:func:`parse` of a JSON text that another JSON text holds as a string."""
    return parse(text.encode("utf-8", "surrogatepass"))


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
