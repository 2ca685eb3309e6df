r"""JSON lines: each line an object of which one field is the text, or a string that is the text.

Arrow reads a block of lines at once (measured: 360 MB/s, Python's ``json`` 60 MB/s). Where it says
no, or where it might count rows otherwise than by lines, each line is read alone, and Python's
``json`` decides. Arrow's reader is no stricter: it alone lets pass some rows that are good but for
a number (``Inf``) or nesting deeper than Python goes.

Lines of nothing but blanks hold no row, but are counted. A lone surrogate (``\ud83d``) has no
UTF-8; the text then holds its three bytes, which are not UTF-8. The last of equal keys counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import dropwhile
from types import NoneType
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from vocabtool.documents.lines import Block, blocks
from vocabtool.documents.objects import TEXT, Row, batch_of, row_of
from vocabtool.documents.opening import Readable
from vocabtool.documents.rows import BadRow, Batch, Request, in_size, valid
from vocabtool.vocabulary import is_utf8

if TYPE_CHECKING:
    import pyarrow as pa

BOM: Final = b"\xef\xbb\xbf"
BLANK: Final = b" \t\r\n"
LONGEST_INTEGER: Final = 4300  # digits that Python makes an int of


class Found(NamedTuple):
    """What Arrow read from n lines: arrays of length n, null where a line has no such field.

    ``ids``: ``None`` where none are asked for. ``columns``: the fields that are to be kept.
    """

    texts: pa.StringArray
    ids: pa.StringArray | None
    columns: dict[str, pa.StringArray]


def read(file: Readable, request: Request) -> Iterator[Batch]:
    """Each line as a document; bad rows: not JSON, no such field, not a string."""
    lines = map(_without_mark, blocks(file, request))
    for block in dropwhile(lambda each: request.ahead.pass_over(_not_blank(each)), lines):
        found = None if request.whole else _at_once(block, request)
        batch = _one_by_one(block, request) if found is None else _filled(block, found, request)
        yield from in_size(batch, request.size)


def _not_blank(block: Block) -> int:
    """How many lines hold a row; only those that start with a blank are looked at."""
    starts = block.starts()
    letters = np.frombuffer(block.data, np.uint8)[np.minimum(starts, block.ends - 1)]
    doubtful = np.flatnonzero((letters <= ord(" ")) | (starts >= block.ends)).tolist()
    return len(starts) - sum(not block.line(row).strip(BLANK) for row in doubtful)


def _without_mark(block: Block) -> Block:
    """The block without a byte order mark at the start of the file."""
    if block.first > 1 or not block.data.startswith(BOM):
        return block
    size = len(BOM)
    return Block(1, block.data[size:], block.newlines - size, block.ends - size)


def _at_once(block: Block, request: Request) -> Found | None:
    """What is asked of a block's lines; ``None``: look at each line."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    data = bytes(memoryview(block.data)[: int(block.newlines[-1])])
    if not _is_plain(block, data) or (kinds := _kinds(block, request)) is None:
        return None
    try:
        table = arrow_json.read_json(
            pa.BufferReader(data),
            arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            arrow_json.ParseOptions(
                explicit_schema=pa.schema(kinds), unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid:
        return None
    # each line starts an object, so as many rows as lines are one row a line
    return _found(table, request) if table.num_rows == len(block.ends) else None


def _kinds(block: Block, request: Request) -> dict[str, pa.DataType] | None:
    """What each field that is asked for holds, as the first line has it.

    Strings, whole numbers and truths are written by Arrow as by Python. ``None``: others are not.
    Where another line holds something else, Arrow says no to all of them.
    """
    import pyarrow as pa

    names = _asked(request)
    kinds = {request.field or TEXT: pa.string()}
    if not names:
        return kinds
    try:
        first = _parsed(block.line(0))
    except BadRow:
        return None
    known = {str: pa.string(), NoneType: pa.string(), int: pa.int64(), bool: pa.bool_()}
    held = {name: first.get(name) if isinstance(first, dict) else None for name in names}
    if not all(type(value) in known for value in held.values()):
        return None
    if request.id_field is not None and type(held[request.id_field]) is bool:  # refused row by row
        return None
    return {name: known[type(value)] for name, value in held.items()} | kinds


def _asked(request: Request) -> tuple[str, ...]:
    """The fields other than the text that are asked for."""
    return request.keep if request.id_field is None else (request.id_field, *request.keep)


def _found(table: pa.Table, request: Request) -> Found:
    import pyarrow as pa

    held = {
        name: pa.concat_arrays(column.chunks).cast(pa.string())
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    ids = None if request.id_field is None else held[request.id_field]
    columns = {name: held[name] for name in request.keep}
    return Found(held[request.field or TEXT], ids, columns)


def _is_plain(block: Block, data: bytes) -> bool:
    """Whether each line begins with ``{`` and ends with ``}``, all of it UTF-8 without NUL.

    Then no object goes on in the next line: behind a ``}`` inside an object no ``{`` may follow.
    """
    if not data:
        return False
    letters = np.frombuffer(data, np.uint8)
    starts = np.minimum(block.starts(), len(data) - 1)  # an empty last line starts at the end
    return (
        bool(np.all(letters[block.ends - 1] == ord("}")) and np.all(letters[starts] == ord("{")))
        and b"\0" not in data
        and is_utf8(data)
    )


def _filled(block: Block, found: Found, request: Request) -> Batch:
    """What Arrow found; lines without a text or id are asked why."""
    batch = Batch(request.source, found.texts, block.numbers(), found.ids, found.columns)
    there = valid(batch)
    if there.all():
        return batch
    for row in np.flatnonzero(~there).tolist():
        _try(block.line(row), block.first + row, request)
    return batch.only(there)


def _one_by_one(block: Block, request: Request) -> Batch:
    spans = zip(block.starts().tolist(), block.ends.tolist(), strict=True)
    found = (
        _try(bytes(block.data[start:end]), number, request)
        for number, (start, end) in enumerate(spans, block.first)
    )
    return batch_of([row for row in found if row is not None], request)


def _try(line: bytes, number: int, request: Request) -> Row | None:
    """The row in a line; ``None`` where there is none, and refused where it is bad."""
    if not line.strip(BLANK):
        return None
    try:
        return row_of(_parsed(line), number, request, _spelled)
    except BadRow as bad:
        request.refuse(number, str(bad))
        return None


def _spelled(text: str | bytes) -> bytes:
    """A string of JSON as bytes: its surrogates stand for themselves, never for bytes."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _parsed(line: bytes) -> object:
    try:
        return DECODER.decode(line.decode())
    except UnicodeDecodeError as error:
        raise BadRow(f"not UTF-8 (at byte {error.start:,} of the line)") from error
    except json.JSONDecodeError as error:
        raise BadRow(f"not JSON: {error.msg} (at character {error.pos:,} of the line)") from error
    except RecursionError as error:
        raise BadRow("arrays or objects nested too deeply") from error


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= LONGEST_INTEGER else float(digits)


DECODER: Final = json.JSONDecoder(parse_int=_integer)
