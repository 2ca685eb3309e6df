r"""Text lines, one document each, and blocks of lines for formats that are made of them.

A line ends at ``\n`` or ``\r\n``; a lone CR, NUL, U+0085 and U+2028 are content. An empty line is a
document; a last line without an end is one, and behind a last ``\n`` there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.opening import HEAD, Readable, refuse_utf16
from vocabtool.documents.rows import Batch, Request, in_size, no_columns
from vocabtool.errors import InvalidFile

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST: Final = 64 << 20  # bytes in a line with its end; a longer one is a bad row
NEWLINE: Final = 10
RETURN: Final = 13


class Block(NamedTuple):
    r"""Whole lines that follow each other, good until the next block is asked for.

    ``first``: the number of the first line. ``data``: the lines, and perhaps more behind them.
    ``newlines``: int64, shape (n,), where in ``data`` each line's ``\n`` stands, or would stand.
    ``ends``: int64, shape (n,), where each line's content ends; differs behind a CR only.
    """

    first: int
    data: bytes | bytearray
    newlines: NDArray[np.int64]
    ends: NDArray[np.int64]

    def numbers(self) -> NDArray[np.int64]:
        """The number of each line: int64, shape (n,)."""
        return np.arange(self.first, self.first + len(self.ends), dtype=np.int64)

    def starts(self) -> NDArray[np.int64]:
        """Where each line starts: int64, shape (n,)."""
        return np.append(0, self.newlines[:-1] + 1)

    def line(self, row: int) -> bytes:
        """The content of one line."""
        start = int(self.newlines[row - 1]) + 1 if row else 0
        return bytes(self.data[start : int(self.ends[row])])


def read(file: Readable, request: Request) -> Iterator[Batch]:
    """Each line as a document. Raises :class:`InvalidFile` where a text or id field is asked for.

    Fields to be kept are null, as they are in rows of other formats that lack them.
    """
    for name in (request.field, request.id_field):
        if name is not None:
            hint = "Say the format if it is not text lines."
            raise InvalidFile(f"text lines have no field {name!r}. {hint}")
    found = blocks(file, request)
    for block in dropwhile(lambda each: request.ahead.pass_over(len(each.ends)), found):
        texts, numbers = texts_of(block), block.numbers()
        batch = Batch(request.source, texts, numbers, columns=no_columns(request, len(texts)))
        yield from in_size(batch, request.size)


def texts_of(block: Block) -> pa.StringArray:
    """The lines as an Arrow ``string`` array; copies the block once, without its line ends."""
    import pyarrow as pa

    count, end = len(block.ends), int(block.newlines[-1])
    offsets = np.zeros(count + 1, np.int32)
    left_out = block.newlines - block.ends + 1
    offsets[1:] = block.ends - np.cumsum(left_out) + left_out
    if block.ends is block.newlines:
        data = block.data if 2 * end > len(block.data) else block.data[:end]
        content = pa.py_buffer(data.replace(b"\n", b""))
    else:
        keep = np.ones(end, np.bool_)
        keep[block.ends[block.ends < end]] = False
        keep[block.newlines[:-1]] = False
        content = pa.py_buffer(np.frombuffer(block.data, np.uint8, end)[keep])
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), content)


def blocks(file: Readable, request: Request) -> Iterator[Block]:
    """The lines of a file, in blocks of about ``request.size`` bytes.

    Raises :class:`InvalidFile` for UTF-16.
    """
    buffer, have, first = bytearray(request.size), 0, 1
    while got := _fill(file, buffer, have):
        if first == 1 and not have:
            refuse_utf16(bytes(buffer[:got][:HEAD]))
        have += got
        end = buffer.rfind(b"\n", 0, have) + 1
        if end:
            yield (block := _block(first, buffer, end))
            first += len(block.ends)
            have = _move(buffer, end, have)
        elif have == LONGEST:
            request.refuse(first, f"a line of more than {LONGEST:,} bytes")
            have, first = _drop_line(file, buffer), first + 1
        if have == len(buffer):
            buffer = buffer + bytes(min(have, LONGEST - have))
        elif have < request.size < len(buffer):
            buffer = buffer[: request.size]
    if have:
        yield _block(first, buffer, have)


def _fill(file: Readable, buffer: bytearray, have: int) -> int:
    """Read behind the first ``have`` bytes until the buffer is full; how many bytes came."""
    start = have
    with memoryview(buffer) as room:
        while have < len(buffer) and (got := file.readinto(room[have:])):
            have += got
    return have - start


def _move(buffer: bytearray, start: int, end: int) -> int:
    """Move what stands from ``start`` to ``end`` to the front; how many bytes that are."""
    buffer[: end - start] = buffer[start:end]
    return end - start


def _drop_line(file: Readable, buffer: bytearray) -> int:
    """Read on to the end of a line; how many bytes behind it now stand in the buffer."""
    while got := _fill(file, buffer, 0):
        end = buffer.find(b"\n", 0, got) + 1
        if end:
            return _move(buffer, end, got)
    return 0


def _block(first: int, data: bytearray, end: int) -> Block:
    letters = np.frombuffer(data, np.uint8, end)
    newlines = np.flatnonzero(letters == NEWLINE)
    if letters[-1] != NEWLINE:
        newlines = np.append(newlines, end)
    if data.find(b"\r", 0, end) < 0:
        return Block(first, data, newlines, newlines)
    before = letters[np.maximum(newlines - 1, 0)] == RETURN
    before &= newlines < end  # a CR at the end of the file is content
    return Block(first, data, newlines, newlines - before)
