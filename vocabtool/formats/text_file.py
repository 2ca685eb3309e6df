"""Asset files with one entry a line, read as TensorFlow's ``TextFileInitializer`` reads them.

Rules: ``ReadLine`` in tensorflow/core/lib/io/inputbuffer.cc and ``TextFileLineIterator`` in
tensorflow/core/kernels/lookup_util.cc. A line ends at ``\\n`` only, and exactly one ``\\r`` at its
end is dropped; every other byte stays. TensorFlow refuses an empty line: here it is an empty
entry, and what to say about it is the caller's. Which file a table reads is not known here.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.system.byte_strings import CHUNK, ByteStrings, Offsets

Column = ByteStrings | range

WHOLE_LINE: Final = -2
LINE_NUMBER: Final = -1

NEWLINE: Final = b"\n"
RETURN: Final = b"\r"
INT64: Final = range(-(2**63), 2**63)

_PIECE: Final = 1 << 20  # bytes searched at a time: NumPy needs 8 bytes for each one found
_MAX_DIGITS: Final = 18  # any number of this many digits fits into int64
_INTEGER: Final = re.compile(rb"([+-]?)0*([0-9]{1,19})")


def read_lines(data: bytes) -> ByteStrings:
    """The lines of a file, over its own buffer; a file of no bytes has none."""
    ends = _positions(data, NEWLINE)
    starts = np.zeros_like(ends)
    np.add(ends[:-1], 1, out=starts[1:])
    if RETURN in data:
        _drop_returns(data, starts, ends)
    count = len(ends) - int(starts[-1] == ends[-1])  # nothing stands behind the last newline
    return ByteStrings(data, starts[:count], ends[:count])


def read_columns(
    data: bytes,
    key_index: int,
    value_index: int,
    delimiter: bytes = b"\t",
    *,
    vocab_size: int | None = None,
    offset: int = 0,
) -> tuple[Column, Column]:
    """The keys and the values of a table: the attributes of ``InitializeTableFromTextFileV2``.

    An index is a column, counted from 0, or ``WHOLE_LINE``, or ``LINE_NUMBER``; line numbers are
    a ``range`` from ``offset`` on (which nothing else is added to, and no line is skipped by).
    ``vocab_size``: how many lines are read; ``None`` or -1 for all.
    Columns stay text: :func:`integers` reads those of a table with int64 keys or values.

    Raises :class:`InvalidFile` for a line with too few columns, a file of fewer lines than
    ``vocab_size``, and attributes that TensorFlow does not allow.
    """
    lines = read_lines(data)
    if vocab_size is not None and vocab_size != -1:
        if not 0 <= vocab_size <= len(lines):
            raise InvalidFile(f"{len(lines):,} lines, but the table's vocab_size is {vocab_size:,}")
        lines = ByteStrings(lines.data, lines.starts[:vocab_size], lines.ends[:vocab_size])
    cuts = None
    if max(key_index, value_index) >= 0:
        if len(delimiter) != 1:
            raise InvalidFile(f"the table's delimiter is {delimiter[:20]!r}, wanted one byte")
        cuts = _positions(data, delimiter)
    keys, values = (_column(lines, index, cuts, offset) for index in (key_index, value_index))
    return keys, values


def integers(strings: ByteStrings) -> NDArray[np.int64]:
    """The decimal numbers that the lines hold: int64, shape (n,).

    As ``safe_strto64`` reads them: blanks around and a sign are allowed, a NUL ends the number.
    Raises :class:`InvalidFile` where there is none, or one that needs more than 64 bits.
    """
    numbers = (
        int(text) if len(text) <= _MAX_DIGITS and text.isdigit() else _integer(strings, line)
        for line, text in enumerate(strings)
    )
    return np.fromiter(numbers, np.int64, len(strings))


def _positions(data: bytes, byte: bytes) -> Offsets:
    """Where ``byte`` (one) stands in ``data``, then the length of ``data``."""
    dtype = np.dtype(np.int32 if len(data) < 2**31 else np.int64)
    found: Offsets = np.empty(data.count(byte) + 1, dtype)
    filled = 0
    for start in range(0, len(data), _PIECE):
        size = min(_PIECE, len(data) - start)
        piece = np.frombuffer(data, np.uint8, size, start)
        here = np.flatnonzero(piece == byte[0])
        found[filled : filled + len(here)] = here + start
        filled += len(here)
    found[filled] = len(data)
    return found


def _drop_returns(data: bytes, starts: Offsets, ends: Offsets) -> None:
    """Move each end (in place) before the one ``\\r`` that belongs to the line break."""
    buffer = np.frombuffer(data, np.uint8)
    for at in range(0, len(ends), CHUNK):
        stops = ends[at : at + CHUNK]
        returns = (buffer[stops - 1] == RETURN[0]) & (stops > starts[at : at + CHUNK])
        np.subtract(stops, returns, out=stops)


def _column(lines: ByteStrings, index: int, cuts: Offsets | None, offset: int) -> Column:
    if index == WHOLE_LINE:
        return lines
    if index == LINE_NUMBER:
        numbers = range(offset, offset + len(lines))
        if numbers and not (numbers[0] in INT64 and numbers[-1] in INT64):
            raise InvalidFile(f"the table's line numbers from {offset} on do not fit in 64 bits")
        return numbers
    if cuts is None or index < WHOLE_LINE:
        raise InvalidFile(f"the table reads column {index}, wanted -2 or more")
    return _cut(lines, index, cuts)


def _cut(lines: ByteStrings, index: int, cuts: Offsets) -> ByteStrings:
    """Column ``index`` (>= 0) of each line; ``cuts``: where the delimiters stand."""
    starts, ends = np.empty_like(lines.starts), np.empty_like(lines.ends)
    for at in range(0, len(lines), CHUNK):
        chunk = slice(at, at + CHUNK)
        first = np.searchsorted(cuts, lines.starts[chunk])
        columns = np.searchsorted(cuts, lines.ends[chunk]) - first + 1
        if columns.min() <= index:
            line = int((columns <= index).argmax())
            raise InvalidFile(
                f"line {at + line + 1:,} has {columns[line]:,} columns, wanted at least "
                f"{index + 1:,}",
                offset=int(lines.starts[at + line]),
            )
        begins = lines.starts[chunk] if index == 0 else cuts[first + (index - 1)] + 1
        starts[chunk] = begins
        ends[chunk] = np.minimum(cuts[first + index], lines.ends[chunk])
    return ByteStrings(lines.data, starts, ends)


def _integer(strings: ByteStrings, line: int) -> int:
    text = strings[line]
    match = _INTEGER.fullmatch(text.partition(b"\0")[0].strip())
    number = int(b"".join(match.groups())) if match else INT64.stop
    if number not in INT64:
        raise InvalidFile(
            f"line {line + 1:,} holds {text[:40]!r}, wanted a whole number of 64 bits",
            offset=int(strings.starts[line]),
        )
    return number
