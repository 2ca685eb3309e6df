"""TensorFlow checkpoints ("tensor bundles"): the tensors they name, and the values of a few.

``PREFIX.index`` is a sorted table from tensor name to a ``BundleEntryProto``, which points at a
slice of ``PREFIX.data-SSSSS-of-NNNNN``. Only that slice is ever read. What a tensor is for, and
joining the slices of partitioned variables, are left out; so are weights: strings and integers
are all that a vocabulary is made of.

Layouts: tensorflow/core/util/tensor_bundle/tensor_bundle.cc (``WriteStringTensor``) and
tensorflow/core/protobuf/tensor_bundle.proto; the table is LevelDB's, see ``leveldb_table.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import (
    GIT_LFS,
    InvalidFile,
    NotFound,
    UnsupportedFormat,
    reading,
    refuse_pointer,
)
from vocabtool.formats.files import refuse_link
from vocabtool.formats.saved_model.leveldb_table import (
    MAX_TABLE,
    Pair,
    check_crc,
    crc32c,
    in_part,
    pairs,
    quote_key,
    uint32,
)
from vocabtool.formats.wire import (
    FIXED32,
    LEN,
    VARINT,
    fields,
    last_integer,
    messages,
    to_signed,
    varint,
    varint_run,
)
from vocabtool.system.byte_strings import ByteStrings

LENGTHS: Final = 1 << 16  # lengths of strings that are decoded at a time
MAX_VARINT: Final = 11  # bytes, one more than is valid

# By number in tensorflow/core/framework/types.proto.
STRING_TYPES: Final[Mapping[int, str]] = {7: "string"}
INTEGER_TYPES: Final[Mapping[int, str]] = {3: "int32", 9: "int64"}

MAX_TENSORS: Final = 1 << 18  # which take 100 MB; real checkpoints have a few thousand
MAX_RANK: Final = 254  # TensorShape::MaxDimensions
MAX_ELEMENTS: Final = (1 << 63) - 1
MAX_TENSOR: Final = 256 << 20  # bytes, so that positions fit in int32

CHECKSUM: Final = 4
BUNDLE_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor as the index describes it.

    ``dtype``: number of TensorFlow's ``DataType``. ``offset`` and ``size``: bytes in data file
    number ``shard``. ``checksum``: masked CRC-32C. ``partitioned``: the values lie elsewhere,
    under the keys of its slices.
    """

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    partitioned: bool

    @property
    def elements(self) -> int:
        """Number of elements: 1 for a scalar."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """An open checkpoint: its index in memory, its data files untouched.

    ``entries``: every tensor by its key, in file order (ascending bytes). The slices of a
    partitioned tensor are entries too, under keys that begin with a zero byte.
    """

    prefix: Path
    num_shards: int
    entries: Mapping[bytes, TensorEntry]

    @classmethod
    def open(cls, prefix: Path) -> Checkpoint:
        """Read ``PREFIX.index``, where ``prefix`` is what TensorFlow calls the checkpoint.

        Raises ``NotFound`` without that file, ``InvalidFile`` where it is damaged, a symbolic link
        or a pointer of Git LFS, and ``UnsupportedFormat`` for a huge index, one compressed with
        other than Snappy, big-endian data or a later version.
        """
        path = Path(f"{prefix}.index")
        with reading(str(path)):
            size = _file_size(path)
            if size > MAX_TABLE:
                raise UnsupportedFormat(f"{size:,} bytes; an index is read up to {MAX_TABLE:,}")
            values = pairs(_read(path, 0, size))
            return cls(prefix, _num_shards(values), _entries(values))

    def strings(self, key: bytes) -> ByteStrings:
        """The elements of a string tensor, row by row.

        Raises ``NotFound`` when the key or its data file is missing, ``InvalidFile`` when the
        bytes do not agree with the index or their checksum, ``UnsupportedFormat`` when the tensor
        is partitioned or larger than ``MAX_TENSOR``.
        """
        entry = self._entry(key, STRING_TYPES)
        path = self._data_path(entry)
        with reading(str(path)):
            return _strings(_read(path, entry.offset, entry.size), entry)

    def integers(self, key: bytes) -> NDArray[np.int64]:
        """The elements of an integer tensor, row by row, widened: int64, shape (elements,).

        Reads each of ``INTEGER_TYPES``; raises as :meth:`strings` does.
        """
        entry = self._entry(key, INTEGER_TYPES)
        path = self._data_path(entry)
        with reading(str(path)):
            return _integers(_read(path, entry.offset, entry.size), entry)

    def _entry(self, key: bytes, types: Mapping[int, str]) -> TensorEntry:
        index, name = f"{self.prefix}.index", quote_key(key)
        entry = self.entries.get(key)
        if entry is None:
            raise NotFound(f"{index}: no tensor {name} among its {len(self.entries):,}")
        if entry.dtype not in types:
            wanted = ", ".join(f"{number} ({type_})" for number, type_ in types.items())
            raise InvalidFile(
                f"tensor {name} has data type {entry.dtype}; wanted {wanted}", file=index
            )
        if entry.partitioned:
            raise UnsupportedFormat(
                f"tensor {name} is partitioned, which is not read; "
                "save the model with this variable in one piece",
                file=index,
            )
        if entry.size > MAX_TENSOR:
            raise UnsupportedFormat(
                f"tensor {name} has {entry.size:,} bytes; "
                f"vocabularies are read up to {MAX_TENSOR:,}",
                file=index,
            )
        return entry

    def _data_path(self, entry: TensorEntry) -> Path:
        if not 0 <= entry.shard < self.num_shards:
            raise InvalidFile(
                f"data file number {entry.shard} does not exist: there are {self.num_shards}",
                file=f"{self.prefix}.index",
            )
        return Path(f"{self.prefix}.data-{entry.shard:05d}-of-{self.num_shards:05d}")


def _file_size(path: Path) -> int:
    refuse_link(path.parent)
    refuse_link(path)
    if not path.is_file():
        raise NotFound(f"{path}: no such file; is the checkpoint complete?")
    return path.stat().st_size


def _read(path: Path, offset: int, size: int) -> bytes:
    """Return ``size`` bytes from ``offset`` on; of the others only the first few are looked at."""
    total = _file_size(path)
    with path.open("rb") as file:
        refuse_pointer(file.read(len(GIT_LFS[0])))
        if offset + size > total:
            what = f"{size:,} bytes wanted, but the file ends at {total:,}"
            raise InvalidFile(what, offset=offset)
        file.seek(offset)
        data = file.read(size)
    if len(data) < size:
        raise InvalidFile("the file shrank while it was read", offset=offset + len(data))
    return data


def _num_shards(values: Iterator[Pair]) -> int:
    """Take the first value, a ``BundleHeaderProto``, and the number of data files in it."""
    key, value = next(values, (None, b""))
    if key != b"":
        raise InvalidFile("the index does not begin with a header")
    with in_part("the header", None):
        message = (0, len(value))
        if last_integer(value, message, 2) != 0:  # the endianness
            raise UnsupportedFormat(
                "the checkpoint was written on a big-endian machine, which is not read; "
                "save the model again on a little-endian one"
            )
        for version in messages(value, message, 3):
            min_consumer = last_integer(value, version, 2)
            if min_consumer > BUNDLE_VERSION:
                raise UnsupportedFormat(
                    f"the checkpoint is for readers of version {min_consumer} or later; "
                    f"vocabtool reads version {BUNDLE_VERSION}"
                )
        return last_integer(value, message, 1)


def _entries(values: Iterable[Pair]) -> dict[bytes, TensorEntry]:
    entries: dict[bytes, TensorEntry] = {}
    for key, value in values:
        if len(entries) == MAX_TENSORS:
            raise InvalidFile(f"more than {MAX_TENSORS:,} tensors")
        try:
            entries[key] = _tensor_entry(value)
        except InvalidFile as error:
            raise InvalidFile(f"tensor {quote_key(key)}: {error.what}") from error
    _check_apart(entries.values())
    return entries


def _tensor_entry(value: bytes) -> TensorEntry:
    """Read one ``BundleEntryProto``."""
    numbers = {1: 0, 3: 0, 4: 0, 5: 0}  # data type, data file, offset, size
    shape: list[int] = []
    checksum, partitioned = 0, False
    for number, wire_type, start, end in fields(value, 0, len(value)):
        if wire_type == VARINT and number in numbers:
            numbers[number] = to_signed(varint(value, start, end)[0])
        elif wire_type == LEN and number == 2:
            for dimension in messages(value, (start, end), 2):
                size = last_integer(value, dimension, 1)
                if size < 0 or len(shape) == MAX_RANK:
                    place, most = f"dimension {len(shape)}", f"{MAX_RANK} dimensions"
                    raise InvalidFile(f"{place} is {size}; wanted 0 or more, in {most}")
                shape.append(size)
        elif wire_type == FIXED32 and number == 6:
            checksum = uint32(value, start)
        elif wire_type == LEN and number == 7:
            partitioned = True
    if math.prod(shape) > MAX_ELEMENTS:
        raise InvalidFile("a shape of more than 2**63 - 1 elements")
    dtype, shard, offset, size = numbers.values()
    return TensorEntry(dtype, tuple(shape), shard, offset, size, checksum, partitioned)


def _check_apart(entries: Iterable[TensorEntry]) -> None:
    """No two tensors share bytes, so that reading every tensor reads no byte twice."""
    shard = behind = 0
    for entry in sorted(entries, key=lambda entry: (entry.shard, entry.offset, entry.size)):
        if entry.shard != shard:
            shard, behind = entry.shard, 0
        if entry.offset < behind or entry.size < 0:
            raise InvalidFile(
                f"a tensor of {entry.size:,} bytes at {entry.offset:,} of data file {shard}, "
                f"where the one before ends at {behind:,}"
            )
        behind = entry.offset + entry.size


def _integers(data: bytes, entry: TensorEntry) -> NDArray[np.int64]:
    dtype = np.dtype(INTEGER_TYPES[entry.dtype]).newbyteorder("<")
    if entry.elements * dtype.itemsize != len(data):
        raise InvalidFile(
            f"{entry.elements:,} integers of {dtype.itemsize} bytes in a tensor of {len(data):,}",
            offset=entry.offset,
        )
    check_crc("the tensor", crc32c(data, 0, len(data)), entry.checksum, entry.offset)
    return np.frombuffer(data, dtype).astype(np.int64)


def _strings(data: bytes, entry: TensorEntry) -> ByteStrings:
    """Split n varint lengths, their checksum and n strings, with nothing between or behind.

    That checksum covers each length as four bytes, not as the varint that is stored.
    """
    if entry.elements + CHECKSUM > len(data):
        raise InvalidFile(
            f"{entry.elements:,} strings in a tensor of {len(data):,} bytes", offset=entry.offset
        )
    offsets = np.zeros(entry.elements + 1, np.int32)
    end = total = crc = 0
    for first in range(0, entry.elements, LENGTHS):
        last = min(first + LENGTHS, entry.elements)
        with in_part("the string lengths", entry.offset + end):
            window = data[end : end + MAX_VARINT * (last - first)]
            lengths, size = varint_run(window, last - first)
            if not 0 <= lengths.min() <= lengths.max() <= len(data):
                raise InvalidFile(f"a string is longer than the {len(data):,} bytes of its tensor")
        total += int(lengths.sum())
        if total > len(data):
            raise InvalidFile("the strings are larger than their tensor", offset=entry.offset)
        words = lengths.astype("<u4").tobytes()
        crc = crc32c(words, 0, len(words), crc)
        offsets[first + 1 : last + 1] = offsets[first] + np.cumsum(lengths)
        end += size
    offsets += end + CHECKSUM
    if offsets[-1] != len(data):
        raise InvalidFile(
            f"the strings end at byte {offsets[-1]:,} of a tensor of {len(data):,}",
            offset=entry.offset,
        )
    check_crc("the string lengths", crc, uint32(data, end), entry.offset + end)
    check_crc("the tensor", crc32c(data, end, len(data), crc), entry.checksum, entry.offset)
    return ByteStrings(data, offsets[:-1], offsets[1:])
