"""TensorFlow checkpoints ("tensor bundles"): the tensors they name, and the values of a few.

``PREFIX.index`` is a sorted table of LevelDB from tensor name to a ``BundleEntryProto``, which
points at a slice of ``PREFIX.data-SSSSS-of-NNNNN``. The table is read once, from its first key to
its last, and blocks compressed with Snappy are unpacked one at a time; of the data, only the slices
that are asked for. What a tensor is for, and joining the slices of partitioned variables, are left
out; so are weights: strings and integers are all that a vocabulary is made of.

Layouts: tensorflow/core/util/tensor_bundle/tensor_bundle.cc (``WriteStringTensor``),
tensorflow/core/protobuf/tensor_bundle.proto, xla/tsl/lib/io/format.cc and block_builder.cc,
xla/tsl/lib/hash/crc32c.h, and format_description.txt in Snappy's source tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
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
from vocabtool.formats.wire import (
    FIXED32,
    LEN,
    VARINT,
    Span,
    fields,
    last_integer,
    messages,
    to_signed,
    varint,
    varint_run,
)
from vocabtool.system.byte_strings import ByteStrings

# By number in tensorflow/core/framework/types.proto.
STRING_TYPES: Final[Mapping[int, str]] = {7: "string"}
INTEGER_TYPES: Final[Mapping[int, str]] = {3: "int32", 9: "int64"}

MAX_TENSORS: Final = 1 << 18  # which take 100 MB; real checkpoints have a few thousand
MAX_RANK: Final = 254  # TensorShape::MaxDimensions
MAX_ELEMENTS: Final = (1 << 63) - 1
MAX_TENSOR: Final = 256 << 20  # bytes, so that positions fit in int32

LENGTHS: Final = 1 << 16  # lengths of strings that are decoded at a time
MAX_VARINT: Final = 11  # bytes, one more than is valid
CHECKSUM: Final = 4
BUNDLE_VERSION: Final = 1

MAX_BLOCK: Final = 16 << 20  # bytes of a block, unpacked; TensorFlow's writer ends one at 256 KB
MAX_TABLE: Final = 32 << 20  # bytes of all entries, unpacked; a thousand variables need 50,000
MAX_KEYS: Final = 32 << 20  # bytes of all keys together: each may repeat the one before for free
CRC_BYTES: Final = 1 << 18  # whose checksum is made at a time, so that copies stay small

MAGIC: Final = (0xDB4775248B80FB57).to_bytes(8, "little")
FOOTER: Final = 48  # two block handles, padding, magic
TRAILER: Final = 5  # behind each block: compression, checksum
NOT_COMPRESSED: Final = 0
SNAPPY: Final = 1
ZSTD: Final = 2

Pair = tuple[bytes, bytes]  # a key and its value
Block = tuple[int, bytes]  # where a block begins, and its entries, unpacked


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
            values = _pairs(_data_blocks(_read(path, 0, size)))
            num_shards = _num_shards(values)
            entries: dict[bytes, TensorEntry] = {}
            for key, value in values:
                if len(entries) == MAX_TENSORS:
                    raise InvalidFile(f"more than {MAX_TENSORS:,} tensors")
                with _in_part(f"tensor {_quote(key)}", None):
                    entries[key] = _tensor_entry(value)
            # No two tensors share bytes, so that reading every tensor reads no byte twice.
            shard = behind = 0
            for entry in sorted(entries.values(), key=lambda e: (e.shard, e.offset, e.size)):
                if entry.shard != shard:
                    shard, behind = entry.shard, 0
                if entry.offset < behind or entry.size < 0:
                    raise InvalidFile(
                        f"a tensor of {entry.size:,} bytes at {entry.offset:,} of data file "
                        f"{shard}, where the one before ends at {behind:,}"
                    )
                behind = entry.offset + entry.size
            return cls(prefix, num_shards, entries)

    def strings(self, key: bytes) -> ByteStrings:
        """The elements of a string tensor, row by row.

        Raises ``NotFound`` when the key or its data file is missing, ``InvalidFile`` when the
        bytes do not agree with the index or their checksum, ``UnsupportedFormat`` when the tensor
        is partitioned or larger than ``MAX_TENSOR``.
        """
        entry, path = self._find(key, STRING_TYPES)
        with reading(str(path)):
            return _strings(_read(path, entry.offset, entry.size), entry)

    def integers(self, key: bytes) -> NDArray[np.int64]:
        """The elements of an integer tensor, row by row, widened: int64, shape (elements,).

        Reads each of ``INTEGER_TYPES``; raises as :meth:`strings` does.
        """
        entry, path = self._find(key, INTEGER_TYPES)
        with reading(str(path)):
            data = _read(path, entry.offset, entry.size)
            dtype = np.dtype(INTEGER_TYPES[entry.dtype]).newbyteorder("<")
            if entry.elements * dtype.itemsize != len(data):
                raise InvalidFile(
                    f"{entry.elements:,} integers of {dtype.itemsize} bytes "
                    f"in a tensor of {len(data):,}",
                    offset=entry.offset,
                )
            _check_crc("the tensor", _crc32c(data, 0, len(data)), entry.checksum, entry.offset)
            return np.frombuffer(data, dtype).astype(np.int64)

    def _find(self, key: bytes, types: Mapping[int, str]) -> tuple[TensorEntry, Path]:
        """A tensor of one of these types, and the data file that holds it."""
        index, name = f"{self.prefix}.index", _quote(key)
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
        if not 0 <= entry.shard < self.num_shards:
            raise InvalidFile(
                f"data file number {entry.shard} does not exist: there are {self.num_shards}",
                file=index,
            )
        return entry, Path(f"{self.prefix}.data-{entry.shard:05d}-of-{self.num_shards:05d}")


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
    with _in_part("the header", None):
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
            checksum = _uint32(value, start)
        elif wire_type == LEN and number == 7:
            partitioned = True
    if math.prod(shape) > MAX_ELEMENTS:
        raise InvalidFile("a shape of more than 2**63 - 1 elements")
    dtype, shard, offset, size = numbers.values()
    return TensorEntry(dtype, tuple(shape), shard, offset, size, checksum, partitioned)


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
        with _in_part("the string lengths", entry.offset + end):
            window = data[end : end + MAX_VARINT * (last - first)]
            lengths, size = varint_run(window, last - first)
            if not 0 <= lengths.min() <= lengths.max() <= len(data):
                raise InvalidFile(f"a string is longer than the {len(data):,} bytes of its tensor")
        total += int(lengths.sum())
        if total > len(data):
            raise InvalidFile("the strings are larger than their tensor", offset=entry.offset)
        words = lengths.astype("<u4").tobytes()
        crc = _crc32c(words, 0, len(words), crc)
        offsets[first + 1 : last + 1] = offsets[first] + np.cumsum(lengths)
        end += size
    offsets += end + CHECKSUM
    if offsets[-1] != len(data):
        raise InvalidFile(
            f"the strings end at byte {offsets[-1]:,} of a tensor of {len(data):,}",
            offset=entry.offset,
        )
    _check_crc("the string lengths", crc, _uint32(data, end), entry.offset + end)
    _check_crc("the tensor", _crc32c(data, end, len(data), crc), entry.checksum, entry.offset)
    return ByteStrings(data, offsets[:-1], offsets[1:])


# LevelDB's sorted table.


def _pairs(blocks: Iterable[Block]) -> Iterator[Pair]:
    """Each key, ascending, with its value; a key is told by how it differs from the one before."""
    last, spelled = None, 0
    for offset, entries in blocks:
        key, pos, end = b"", 0, len(entries)
        with _in_part("a block", offset):
            while pos < end:
                shared, at = varint(entries, pos, end)
                unshared, at = varint(entries, at, end)
                size, at = varint(entries, at, end)
                if shared > len(key):
                    raise InvalidFile(f"a key shares {shared:,} bytes with one of {len(key):,}")
                if unshared + size > end - at:
                    raise InvalidFile("an entry runs past its end")
                key = key[:shared] + entries[at : at + unshared]
                pos = at + unshared + size
                spelled += len(key)
                if last is not None and key <= last:
                    raise InvalidFile(f"key {_quote(key)} is not behind {_quote(last)}")
                if spelled > MAX_KEYS:
                    raise InvalidFile(f"the keys have more than {MAX_KEYS:,} bytes")
                yield key, entries[at + unshared : pos]
                last = key


def _data_blocks(table: bytes) -> Iterator[Block]:
    """The blocks that the index block lists, which the footer's second handle names."""
    start = len(table) - FOOTER
    if start < 0 or not table.endswith(MAGIC):
        raise InvalidFile(f"not a checkpoint's index: wanted {MAGIC.hex()} as its last 8 bytes")
    with _in_part("the footer", start):
        footer = table[start : -len(MAGIC)]
        _, pos = varint(footer, 0, len(footer))
        _, pos = varint(footer, pos, len(footer))
        index = _handle(table, footer, pos)
    behind = total = 0
    for _, value in _pairs([_block(table, *index)]):
        with _in_part("the place of a block", index[0]):
            start, end = _handle(table, value, 0)
            if start < behind:
                raise InvalidFile("a block begins inside the one before")
        block = _block(table, start, end)
        behind, total = end + TRAILER, total + len(block[1])
        if total > MAX_TABLE:
            raise InvalidFile(f"the blocks have more than {MAX_TABLE:,} bytes", offset=start)
        yield block


def _handle(table: bytes, data: bytes, pos: int) -> Span:
    """Read offset and size of a block from ``data`` and check them against the table."""
    start, pos = varint(data, pos, len(data))
    size, _ = varint(data, pos, len(data))
    if start + size + TRAILER > len(table) - FOOTER:
        raise InvalidFile(f"a block of {size:,} bytes at {start:,} lies outside the file")
    return start, start + size


def _block(table: bytes, start: int, end: int) -> Block:
    """Check and unpack a block; leave out its restart points, which only serve binary search."""
    _check_crc("a block", _crc32c(table, start, end + 1), _uint32(table, end + 1), start)
    content, compression = table[start:end], table[end]
    if compression == SNAPPY:
        import pyarrow

        with _in_part("a compressed block", start):
            size, _ = varint(content, 0, len(content))  # unpacked
            if size > MAX_BLOCK:
                raise InvalidFile(f"{size:,} bytes unpacked; a block has up to {MAX_BLOCK:,}")
            try:
                content = pyarrow.Codec("snappy").decompress(content, size, asbytes=True)
            except (OSError, ValueError) as error:
                raise InvalidFile(f"not {size:,} bytes packed by Snappy ({error})") from error
    elif compression != NOT_COMPRESSED:
        name = "zstd" if compression == ZSTD else f"type {compression}"
        raise UnsupportedFormat(
            f"the checkpoint's index is compressed ({name}), which is not read; "
            "save the model again with TensorFlow, which does not compress it"
        )
    size = len(content) - 4
    size -= 4 * _uint32(content, size) if size >= 0 else 0
    if size < 0:
        raise InvalidFile("a block is too small for its restart points", offset=start)
    return start, content[:size]


@contextmanager
def _in_part(what: str, offset: int | None) -> Iterator[None]:
    """Name the part of a file that is wrong, and where it begins instead of an offset inside it."""
    try:
        yield
    except InvalidFile as error:
        raise InvalidFile(f"{what}: {error.what}", offset=offset) from error


def _quote(key: bytes) -> str:
    """A key in a message: safe on a terminal, cut to 80 bytes."""
    return repr(key[:80])[1:]


def _uint32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _crc32c(data: bytes, start: int, end: int, crc: int = 0) -> int:
    """Extend a CRC-32C by ``data[start:end]``."""
    import google_crc32c

    for at in range(start, end, CRC_BYTES):
        crc = google_crc32c.extend(crc, data[at : min(at + CRC_BYTES, end)])
    return crc


def _check_crc(what: str, crc: int, stored: int, offset: int) -> None:
    """Compare a checksum with a stored one, which LevelDB masks; raise ``InvalidFile``."""
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF
    if masked != stored:
        raise InvalidFile(
            f"the checksum of {what} does not match: wanted {stored:08x}, got {masked:08x}",
            offset=offset,
        )
