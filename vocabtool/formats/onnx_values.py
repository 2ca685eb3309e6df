"""Strings and integers of ONNX attributes and tensors, found in the file without a schema.

Layout: onnx/onnx, onnx/onnx.proto (AttributeProto, TensorProto). Numbers that are not whole are
never read, and neither is data outside the file. Which node holds a list and what it is for is
``onnx.py``'s.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.formats import wire, wire_arrays
from vocabtool.formats.wire import FIXED32, LEN, VARINT, Buffer, Span
from vocabtool.system.byte_strings import ByteStrings

# The fields of AttributeProto ...
NAME: Final = 1
INTEGER: Final = 3
STRING: Final = 4
TENSOR: Final = 5
GRAPH: Final = 6
FLOATS: Final = 7
INTEGERS: Final = 8
STRINGS: Final = 9
GRAPHS: Final = 11

# ... and of TensorProto.
DATA_TYPE: Final = 2
INT32_DATA: Final = 5
STRING_DATA: Final = 6
INT64_DATA: Final = 7
TENSOR_NAME: Final = 8
RAW_DATA: Final = 9
EXTERNAL_DATA: Final = 13
DATA_LOCATION: Final = 14

TYPE_STRING: Final = 8
NUMBERS: Final = {6: (INT32_DATA, "<i4"), 7: (INT64_DATA, "<i8")}  # their types: int32, int64

NONE: Final = -1  # no field
HIGHEST_FIELD: Final = 32  # of the fields that we keep
MAX_NAME: Final = 256  # bytes of a name that we keep
FLOATS_TAG: Final = FLOATS << 3 | FIXED32
MAX_RUNS: Final = 1000  # every writer puts all values together; finding each run has its price
SMALL: Final = 512  # bytes that plain Python reads sooner than NumPy does
WINDOW: Final = 1 << 16  # bytes looked at together

Integers = NDArray[np.int64]
NO_INTEGERS: Final[Integers] = np.zeros(0, np.int64)
NO_STRINGS: Final = ByteStrings.of(())


class Attribute(NamedTuple):
    """What an attribute holds; what lies behind a span is not read yet."""

    name: bytes
    integer: int | None
    string: Span | None
    strings: ByteStrings
    integers: Integers
    tensor: Span | None
    has_graph: bool


class Tensor(NamedTuple):
    """Strings or whole numbers; a tensor of other numbers has neither."""

    name: bytes
    is_string: bool
    is_external: bool
    strings: ByteStrings
    integers: Integers


def attribute(buffer: Buffer, span: Span) -> Attribute:
    """Read one attribute. Raises :class:`InvalidFile` where its framing is broken."""
    found = _Message(buffer, span, STRINGS, INTEGERS)
    return Attribute(
        name=_name(buffer, found.spans.get(NAME)),
        integer=found.numbers.get(INTEGER),
        string=found.spans.get(STRING),
        strings=found.strings,
        integers=found.integers,
        tensor=found.spans.get(TENSOR),
        has_graph=GRAPH in found.spans or GRAPHS in found.spans,
    )


def tensor(buffer: Buffer, span: Span, *, integers: bool = False) -> Tensor:
    """Read one tensor; ``integers``: its whole numbers too, where it holds such.

    Raises :class:`InvalidFile` where its framing is broken.
    """
    found = _Message(buffer, span, STRING_DATA, NONE)
    data_type = found.numbers.get(DATA_TYPE, 0)
    return Tensor(
        name=_name(buffer, found.spans.get(TENSOR_NAME)),
        is_string=data_type == TYPE_STRING,
        is_external=found.numbers.get(DATA_LOCATION) == 1 or EXTERNAL_DATA in found.spans,
        strings=found.strings if data_type == TYPE_STRING else NO_STRINGS,
        integers=_integers(buffer, span, data_type) if integers else NO_INTEGERS,
    )


def _integers(buffer: Buffer, span: Span, data_type: int) -> Integers:
    if data_type not in NUMBERS:
        return NO_INTEGERS
    field, item = NUMBERS[data_type]
    found = _Message(buffer, span, NONE, field)
    start, end = found.spans.get(RAW_DATA, (0, 0))
    if start == end:
        return found.integers
    width = np.dtype(item).itemsize
    if (end - start) % width:
        raise InvalidFile(f"{end - start:,} bytes of numbers that take {width} each", offset=start)
    return np.frombuffer(buffer[start:end], item).astype(np.int64)


def _name(buffer: Buffer, span: Span | None) -> bytes:
    return b"" if span is None else buffer[span[0] : min(span[1], span[0] + MAX_NAME)]


class _Message:
    """A message whose repeated fields are one of strings and one of integers.

    ``numbers``, ``spans``: the last varint and the last bytes of each other field. Long runs of
    repeated fields are read by NumPy, whatever else there is one field at a time.
    """

    def __init__(self, buffer: Buffer, span: Span, strings_field: int, integers_field: int) -> None:
        self.numbers: dict[int, int] = {}
        self.spans: dict[int, Span] = {}
        self._strings: list[ByteStrings] = []
        self._integers: list[Integers] = []
        self._repeated = strings_field, integers_field
        if span[1] - span[0] <= SMALL:
            self._read_fields(buffer, span)
        else:
            self._read_runs(buffer, span)

    @property
    def strings(self) -> ByteStrings:
        """The values of the repeated strings."""
        if len(self._strings) > 1:
            return ByteStrings.of(value for run in self._strings for value in run)
        return self._strings[0] if self._strings else NO_STRINGS

    @property
    def integers(self) -> Integers:
        """The values of the repeated integers: shape (n,)."""
        if len(self._integers) > 1:
            return np.concatenate(self._integers)
        return self._integers[0] if self._integers else NO_INTEGERS

    def _read_fields(self, buffer: Buffer, span: Span) -> None:
        strings: list[bytes] = []
        integers: list[int] = []
        for field in wire.fields(buffer, *span):
            number, wire_type, start, end = field
            if number == self._repeated[0] and wire_type == LEN:
                strings.append(buffer[start:end])
            elif number == self._repeated[1] and wire_type in (LEN, VARINT):
                integers.extend(wire.integers(buffer, (start, end), wire_type))
            else:
                self._keep(buffer, field)
        self._strings = [ByteStrings.of(strings)] if strings else []
        self._integers = [np.array(integers, np.int64)] if integers else []

    def _read_runs(self, buffer: Buffer, span: Span) -> None:
        data: bytes | None = None  # from the first run on
        base, end = span
        pos = base
        string_tag, integer_tag = self._repeated[0] << 3 | LEN, self._repeated[1] << 3 | VARINT
        runs = 0
        while pos < end:
            tag = buffer[pos]
            if tag not in (string_tag, integer_tag, FLOATS_TAG):
                field = next(wire.fields(buffer, pos, end))
                self._keep(buffer, field)
                pos = field[3]
                continue
            if data is None:
                data, base = buffer[pos:end], pos
            if tag == string_tag:
                run, pos = wire_arrays.string_fields(data, pos - base, len(data), string_tag)
                self._strings.append(run)
            elif tag == integer_tag:
                integers, pos = _unpacked(data, pos - base, integer_tag)
                self._integers.append(integers)
            else:
                pos = _past_floats(data, pos - base)
            pos += base
            runs += 1
            if runs > MAX_RUNS:
                raise InvalidFile(f"values in more than {MAX_RUNS} places", offset=pos)

    def _keep(self, buffer: Buffer, field: tuple[int, int, int, int]) -> None:
        number, wire_type, start, end = field
        if number == self._repeated[1] and wire_type == LEN:
            packed = buffer[start:end]
            count = int((np.frombuffer(packed, np.uint8) < 128).sum())
            self._integers.append(wire_arrays.varint_run(packed, count)[0])
        elif number < HIGHEST_FIELD and wire_type == LEN:
            self.spans[number] = (start, end)
        elif number < HIGHEST_FIELD and wire_type == VARINT:
            self.numbers[number] = wire.signed(wire.varint(buffer, start, end)[0])


def _unpacked(data: bytes, pos: int, tag: int) -> tuple[Integers, int]:
    """The run of varint fields ``tag`` that begins at ``pos``, and the position behind it.

    Tag and value are both varints, so every second varint must be the tag.
    """
    found: list[Integers] = []
    while pos < len(data) and data[pos] == tag:
        window = np.frombuffer(data, np.uint8)[pos : pos + WINDOW]
        ends = np.flatnonzero(window < 128) + 1
        starts = np.concatenate(([0], ends[:-1]))[::2][: len(ends) // 2]
        others = np.flatnonzero(window[starts] != tag)
        count = int(others[0]) if len(others) else len(starts)
        if not count:
            raise InvalidFile("a number is cut off or longer than 10 bytes", offset=pos)
        numbers, taken = wire_arrays.varint_run(data[pos : pos + WINDOW], 2 * count)
        found.append(numbers[1::2])
        pos += taken
    return np.concatenate(found), pos


def _past_floats(data: bytes, pos: int) -> int:
    """The position behind the run of floats, not packed, that begins at ``pos``."""
    array = np.frombuffer(data, np.uint8)
    while pos < len(data):
        others = np.flatnonzero(array[pos : pos + 5 * WINDOW : 5] != FLOATS_TAG)
        if len(others):
            return pos + 5 * int(others[0])
        pos += 5 * WINDOW
    return len(data)
