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
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from vocabtool.document_files.lines import Block, blocks
from vocabtool.document_files.opening import Readable
from vocabtool.document_files.rows import BadRow, Batch, Request, in_size, names_of, strings
from vocabtool.vocabulary import is_utf8

if TYPE_CHECKING:
    import pyarrow as pa

BOM: Final = b"\xef\xbb\xbf"
BLANK: Final = b" \t\r\n"
TEXT: Final = "text"
LONGEST_INTEGER: Final = 4300  # digits that Python makes an int of


class Row(NamedTuple):
    """The text of a line and the other fields."""

    text: bytes
    fields: dict[str, object]


def read(file: Readable, request: Request) -> Iterator[Batch]:
    """Each line as a document; bad rows: not JSON, no such field, not a string."""
    for block in blocks(file, request):
        lines = _without_mark(block)
        texts = None if request.whole else _at_once(lines, request.field or TEXT)
        batch = _one_by_one(lines, request) if texts is None else _filled(lines, texts, request)
        yield from in_size(batch, request.size)


def _without_mark(block: Block) -> Block:
    """The block without a byte order mark at the start of the file."""
    if block.first > 1 or not block.data.startswith(BOM):
        return block
    size = len(BOM)
    return Block(1, block.data[size:], block.newlines - size, block.ends - size)


def _at_once(block: Block, field: str) -> pa.StringArray | None:
    """The texts of a block's lines, null where a line has none; ``None``: look at each line."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    data = bytes(memoryview(block.data)[: int(block.newlines[-1])])
    if not _is_plain(block, data):
        return None
    try:
        table = arrow_json.read_json(
            pa.BufferReader(data),
            arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            arrow_json.ParseOptions(
                explicit_schema=pa.schema([(field, pa.string())]),
                unexpected_field_behavior="ignore",
            ),
        )
    except pa.ArrowInvalid:
        return None
    # each line starts an object, so as many rows as lines are one row a line
    return pa.concat_arrays(table[0].chunks) if table.num_rows == len(block.ends) else None


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


def _filled(block: Block, texts: pa.StringArray, request: Request) -> Batch:
    """The texts that Arrow found; lines without one are asked why."""
    numbers = block.numbers()
    if texts.null_count:
        there = np.asarray(texts.is_valid())
        for row in np.flatnonzero(~there).tolist():
            _try(block.line(row), block.first + row, request)
        texts, numbers = texts.drop_null(), numbers[there]
    return Batch(request.source, texts, numbers)


def _one_by_one(block: Block, request: Request) -> Batch:
    spans = zip(block.starts().tolist(), block.ends.tolist(), strict=True)
    found = [
        _try(bytes(block.data[start:end]), number, request)
        for number, (start, end) in enumerate(spans, block.first)
    ]
    numbers = block.numbers()[[row is not None for row in found]]
    rows = [row for row in found if row is not None]
    fields = [row.fields for row in rows] if request.whole else None
    return Batch(request.source, strings([row.text for row in rows]), numbers, fields=fields)


def _try(line: bytes, number: int, request: Request) -> Row | None:
    """The row in a line; ``None`` where there is none, and refused where it is bad."""
    if not line.strip(BLANK):
        return None
    try:
        return row_of(_parsed(line), request.field)
    except BadRow as bad:
        request.refuse(number, str(bad))
        return None


def row_of(value: object, wanted: str | None) -> Row:
    """The text in an object or string, and the other fields. Raises :class:`BadRow`."""
    if isinstance(value, str):
        return Row(_bytes_of(value), {})
    if not isinstance(value, Mapping):
        raise BadRow(f"wanted an object or a string, got {_what(value)}")
    field = wanted or TEXT
    if field not in value:
        raise BadRow(f"no field {field!r}; the fields are {names_of(value)}")
    text = value[field]
    if not isinstance(text, str):
        raise BadRow(f"field {field!r}: wanted a string, got {_what(text)}")
    return Row(_bytes_of(text), {name: value[name] for name in value if name != field})


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _what(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")


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
