r"""Text lines and JSON lines, one document each, and the blocks of lines that both are read in.

A line ends at ``\n`` or ``\r\n``; a lone CR, NUL, U+0085 and U+2028 are content. An empty line is a
document; a last line without an end is one, and behind a last ``\n`` there is none.

Of JSON lines each is an object of which one field is the text, or a string that is the text. Lines
of nothing but blanks hold no row, but are counted. A lone surrogate (``\ud83d``) has no UTF-8; the
text then holds its three bytes, which are not UTF-8. The last of equal keys counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from vocabtool.documents.batch import BadRow, Batch, Request, in_size, null_columns, strings
from vocabtool.documents.files import Readable, refuse_utf16
from vocabtool.documents.objects import TEXT, Row, batch_of, row_of
from vocabtool.errors import InvalidFile

MAX_LINE_BYTES: Final = 64 << 20  # with its end; a longer line is a bad row


def read_lines(file: Readable, request: Request) -> Iterator[Batch]:
    """Each line as a document. Raises :class:`InvalidFile` where a text or id field is asked for.

    Fields to be kept are null, as they are in rows of other formats that lack them.
    """
    for name in (request.options.field, request.options.id_field):
        if name is not None:
            hint = "Say the format if it is not text lines."
            raise InvalidFile(f"text lines have no field {name!r}. {hint}")
    for first, data in blocks(file, request):
        count = data.count(b"\n") + (not data.endswith(b"\n"))
        if request.ahead.pass_over(count):
            continue
        content = pa.array([data.replace(b"\r\n", b"\n")], pa.binary())
        texts = pc.split_pattern(content, "\n").values.slice(0, count)
        numbers = np.arange(first, first + count, dtype=np.int64)
        columns = null_columns(request, count)
        batch = Batch(request.source, texts.view(pa.string()), numbers, columns=columns)
        yield from in_size(batch, request.size)


def blocks(file: Readable, request: Request) -> Iterator[tuple[int, bytes]]:
    """Whole lines in blocks of about ``request.size`` bytes, with the number of the first line.

    Raises :class:`InvalidFile` for UTF-16.
    """
    first, rest = 1, b""
    while more := file.read(min(max(request.size, len(rest)), MAX_LINE_BYTES - len(rest))):
        data = rest + more
        if first == 1 and not rest:
            refuse_utf16(data)
        end = data.rfind(b"\n") + 1
        if end:
            yield first, data[:end]
            first += data.count(b"\n")
            rest = data[end:]
        elif len(data) == MAX_LINE_BYTES:
            request.refuse(first, f"a line of more than {MAX_LINE_BYTES:,} bytes")
            rest, first = b"", first + 1
            while data := file.read(request.size):
                if end := data.find(b"\n") + 1:
                    rest = data[end:]
                    break
        else:
            rest = data
    if rest:
        yield first, rest


BOM: Final = b"\xef\xbb\xbf"
BLANK: Final = b" \t\r\n"
PLAIN: Final[dict[type, Callable[[Any], bytes]]] = {
    str: str.encode,
    int: lambda value: b"%d" % value,
}
MAX_INTEGER_DIGITS: Final = 4300  # that Python makes an int of


def read_jsonl(file: Readable, request: Request) -> Iterator[Batch]:
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


DECODER: Final = json.JSONDecoder(
    parse_int=lambda digits: int(digits) if len(digits) <= MAX_INTEGER_DIGITS else float(digits)
)
