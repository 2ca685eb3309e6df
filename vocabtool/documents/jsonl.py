r"""JSON lines: each line an object of which one field is the text, or a string that is the text.

Lines of nothing but blanks hold no row, but are counted. A lone surrogate (``\ud83d``) has no
UTF-8; the text then holds its three bytes, which are not UTF-8. The last of equal keys counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import orjson

from vocabtool.documents.batch import BadRow, Batch, Request, in_size, strings
from vocabtool.documents.files import Readable
from vocabtool.documents.lines import blocks
from vocabtool.documents.objects import TEXT, Row, batch_of, row_of

BOM: Final = b"\xef\xbb\xbf"
BLANK: Final = b" \t\r\n"
PLAIN: Final[dict[type, Callable[[Any], bytes]]] = {
    str: str.encode,
    int: lambda value: b"%d" % value,
}
MAX_INTEGER_DIGITS: Final = 4300  # that Python makes an int of


def read(file: Readable, request: Request) -> Iterator[Batch]:
    """Each line as a document; bad rows: not JSON, no such field, not a string."""
    for first, data in blocks(file, request):
        lines = data.removesuffix(b"\n").split(b"\n")
        if first == 1:
            lines[0] = lines[0].removeprefix(BOM)
        if request.ahead.left:
            count = sum(bool(line.strip(BLANK)) for line in lines)
            if request.ahead.pass_over(count):
                continue
        batch = None if request.whole else _all_at_once(lines, first, request)
        if batch is None:
            rows = (_row(line, number, request) for number, line in enumerate(lines, first))
            batch = batch_of([row for row in rows if row is not None], request)
        yield from in_size(batch, request.size)


def _all_at_once(lines: list[bytes], first: int, request: Request) -> Batch | None:
    """The rows of objects that all have what is asked for; ``None``: look at each line."""
    options = request.options
    text, id_field = options.field or TEXT, options.id_field
    try:
        values = [orjson.loads(line) for line in lines]
        ids = (
            None
            if id_field is None
            else strings([PLAIN[type(v[id_field])](v[id_field]) for v in values])
        )
        return Batch(
            request.source,
            strings([value[text].encode() for value in values]),
            np.arange(first, first + len(lines), dtype=np.int64),
            ids,
            {name: strings([_plain(v.get(name)) for v in values]) for name in options.keep},
        )
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return None


def _plain(value: str | int | None) -> bytes | None:
    """A value that is written one way only; ``LookupError`` for others."""
    return None if value is None else PLAIN[type(value)](value)


def _row(line: bytes, number: int, request: Request) -> Row | None:
    """The row in a line; ``None`` where there is none, and refused where it is bad."""
    if not line.strip(BLANK):
        return None
    try:
        return row_of(_parse(line), number, request, _spell)
    except BadRow as bad:
        request.refuse(number, str(bad))
        return None


def _spell(text: str | bytes) -> bytes:
    """A string of JSON as bytes: its surrogates stand for themselves, never for bytes."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _parse(line: bytes) -> object:
    try:
        return DECODER.decode(line.decode())
    except UnicodeDecodeError as error:
        raise BadRow(f"not UTF-8 (at byte {error.start:,} of the line)") from error
    except json.JSONDecodeError as error:
        raise BadRow(f"not JSON: {error.msg} (at character {error.pos:,} of the line)") from error
    except RecursionError as error:
        raise BadRow("arrays or objects nested too deeply") from error


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= MAX_INTEGER_DIGITS else float(digits)


DECODER: Final = json.JSONDecoder(parse_int=_integer)
