"""Read TensorProto, the value of a constant: strings, integers or raw bytes.

Layout: tensorflow/core/framework/tensor.proto. The values are in a typed field (``string_val``,
``int_val``, ``int64_val``) or packed in ``tensor_content``. If there are fewer values than
elements, the last value repeats. Floats are never read.
"""

from __future__ import annotations

from array import array
from math import prod
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.formats import wire
from vocabtool.formats.wire import LEN, Buffer, Span
from vocabtool.system.byte_strings import ByteStrings

DT_INT32: Final = 3
DT_UINT8: Final = 4
DT_INT8: Final = 6
DT_STRING: Final = 7
DT_INT64: Final = 9
DT_BOOL: Final = 10
INTEGERS: Final = {DT_INT32: "<i4", DT_INT64: "<i8"}

# Limits for a repeated last value: no vocabulary needs more, but a tensor of 60 bytes can declare
# 2^26 elements, for which TensorFlow needs 1.6 GB.
MAX_REPEATED: Final = 1 << 16
MAX_GROWTH: Final = 64
MAX_REPEATED_BYTES: Final = 64 << 20
MAX_RANK: Final = 254  # TensorFlow's own limit
MAX_ELEMENTS: Final = (1 << 63) - 1

STRING_VAL_TAG: Final = 8 << 3 | LEN


class Tensor(NamedTuple):
    """The dtype and shape of a TensorProto; the values are read on request.

    ``span``: position of the TensorProto in ``buffer``. ``shape``: () for a scalar.
    """

    buffer: Buffer
    span: Span
    dtype: int
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        elements = prod(self.shape)
        if any(size < 0 for size in self.shape) or elements > MAX_ELEMENTS:
            shape = ", ".join(map(str, self.shape[:8])) + ", ..." * (len(self.shape) > 8)
            raise InvalidFile(f"invalid shape of a tensor: [{shape}]", offset=self.span[0])
        return elements


def header(buffer: Buffer, span: Span) -> Tensor:
    """Read dtype and shape, but no values."""
    dtype = 0
    shape: list[int] | None = None
    for number, wire_type, start, end in wire.fields(buffer, *span):
        if number == 1 and wire_type == wire.VARINT:
            dtype, _ = wire.varint(buffer, start, end)
        elif number == 2 and wire_type == LEN:
            shape = []
            for dim in wire.messages(buffer, (start, end), 2):
                shape.append(wire.last_integer(buffer, dim, 1))
                if len(shape) > MAX_RANK:
                    what = f"a tensor has more than {MAX_RANK} dimensions"
                    raise InvalidFile(what, offset=dim[0])
        elif dtype and shape is not None:
            break
    return Tensor(buffer, span, dtype, tuple(shape or ()))


def strings(tensor: Tensor) -> ByteStrings:
    """Return the elements of a string tensor in row-major order."""
    start, end = tensor.span
    data = bytes(tensor.buffer[start:end])
    pos = 0
    content: Span | None = None
    found = ByteStrings.of(())
    while pos < len(data):
        if data[pos] == STRING_VAL_TAG:
            if len(found):
                raise InvalidFile("the strings of a tensor are not together", offset=start + pos)
            found, pos = wire.string_fields(data, pos, len(data), STRING_VAL_TAG)
            continue
        number, wire_type, first, pos = next(wire.fields(data, pos, len(data)))
        if number == 4 and wire_type == LEN and pos > first:
            content = (first, pos)
    if content is not None:
        return wire.length_list(data[slice(*content)], tensor.elements)
    repeated = _positions(tensor, len(found))
    if repeated is None:
        return found
    if not len(found):
        return ByteStrings.of([b""] * len(repeated))
    if len(found[-1]) * (len(repeated) - len(found)) > MAX_REPEATED_BYTES:
        raise InvalidFile(
            "the last string is too long to be repeated in the rest of the tensor",
            offset=tensor.span[0],
        )
    return found.take(repeated)


def integers(tensor: Tensor) -> NDArray[np.int64]:
    """Return the elements of an int32 or int64 tensor, row-major: int64, shape (elements,)."""
    values_field = 7 if tensor.dtype == DT_INT32 else 10
    packed: list[NDArray[np.int64]] = []
    single = array("q")
    for number, wire_type, start, end in wire.fields(tensor.buffer, *tensor.span):
        if number == 4 and wire_type == LEN and end > start:
            dtype = np.dtype(INTEGERS[tensor.dtype])
            if end - start != tensor.elements * dtype.itemsize:
                raise InvalidFile(
                    f"wanted {tensor.elements:,} integers of {dtype.itemsize} bytes, "
                    f"got {end - start:,} bytes",
                    offset=tensor.span[0],
                )
            return np.frombuffer(bytes(tensor.buffer[start:end]), dtype).astype(np.int64)
        if number == values_field and wire_type == LEN:
            values = bytes(tensor.buffer[start:end])
            count = int((np.frombuffer(values, np.uint8) < 128).sum())
            if count > tensor.elements:
                raise _too_many(tensor, count)
            packed.append(wire.varint_run(values, count)[0])
        elif number == values_field and wire_type == wire.VARINT:
            single.append(wire.to_signed(wire.varint(tensor.buffer, start, end)[0]))
        if len(packed) > 1 or (packed and single):
            raise InvalidFile("the integers of a tensor are not together", offset=tensor.span[0])
    found = packed[0] if packed else np.array(single, np.int64)
    repeated = _positions(tensor, len(found))
    if repeated is None:
        return found
    return found[repeated] if len(found) else np.zeros(len(repeated), np.int64)


def boolean(tensor: Tensor) -> bool:
    """Return the value of a bool tensor of one element; ``False`` if it is not stored."""
    for number, wire_type, start, end in wire.fields(tensor.buffer, *tensor.span):
        if number == 4 and wire_type == LEN and end > start:
            return bool(tensor.buffer[start])
        if number == 11 and wire_type in (LEN, wire.VARINT):
            return any(wire.integers(tensor.buffer, (start, end), wire_type))
    return False


def raw_bytes(tensor: Tensor) -> bytes:
    """Return the bytes of a uint8 or int8 tensor."""
    return bytes(wire.last_bytes(tensor.buffer, tensor.span, 4))


def _positions(tensor: Tensor, present: int) -> NDArray[np.int64] | None:
    wanted = tensor.elements
    if present == wanted:
        return None
    if present > wanted:
        raise _too_many(tensor, present)
    if wanted > max(MAX_REPEATED, MAX_GROWTH * present):
        raise InvalidFile(
            f"the tensor's shape has {wanted:,} elements, but the file stores only {present:,}; "
            "the last element would be repeated too often",
            offset=tensor.span[0],
        )
    return np.minimum(np.arange(wanted), max(present - 1, 0))


def _too_many(tensor: Tensor, present: int) -> InvalidFile:
    what = f"the tensor's shape has {tensor.elements:,} elements, but the file stores {present:,}"
    return InvalidFile(what, offset=tensor.span[0])
