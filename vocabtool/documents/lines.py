r"""Text lines, one document each, and blocks of lines for formats that are made of them.

A line ends at ``\n`` or ``\r\n``; a lone CR, NUL, U+0085 and U+2028 are content. An empty line is a
document; a last line without an end is one, and behind a last ``\n`` there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vocabtool.documents.batch import Batch, Request, in_size, null_columns
from vocabtool.documents.files import Readable, refuse_utf16
from vocabtool.errors import InvalidFile

MAX_LINE_BYTES: Final = 64 << 20  # with its end; a longer line is a bad row


def read(file: Readable, request: Request) -> Iterator[Batch]:
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
            rest, first = _behind_line(file, request.size), first + 1
        else:
            rest = data
    if rest:
        yield first, rest


def _behind_line(file: Readable, size: int) -> bytes:
    """Read on to the end of a line; what was read behind it."""
    while data := file.read(size):
        if (end := data.find(b"\n") + 1) > 0:
            return data[end:]
    return b""
