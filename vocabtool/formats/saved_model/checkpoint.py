"""Read TensorFlow checkpoints ("tensor bundles"): list all tensors, load strings and integers.

``PREFIX.index`` is a LevelDB sorted table. It maps each tensor name to a ``BundleEntryProto``:
dtype, shape, and position in a data shard, ``PREFIX.data-SSSSS-of-NNNNN``. From the data shards,
only requested tensors are read. Floats and partitioned variables are not supported.

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
from vocabtool.formats import wire
from vocabtool.formats.files import MAX_FILE, refuse_link
from vocabtool.formats.saved_model.graph import INTEGERS
from vocabtool.formats.wire import MAX_ELEMENTS, MAX_RANK, Cursor, Message
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.system.own_files import checksum_of

MAX_TENSORS: Final = 1 << 18  # use 100 MB of memory; real checkpoints have a few thousand

CHECKSUM: Final = 4  # bytes
BUNDLE_VERSION: Final = 1

# Bytes of all decompressed entries, and of all keys with their shared prefixes, which a file omits.
MAX_TABLE: Final = 32 << 20  # 1,000 variables need 50,000
CRC_BYTES: Final = 1 << 18  # bytes per checksum call, because a call copies them

MAGIC: Final = (0xDB4775248B80FB57).to_bytes(8, "little")
FOOTER: Final = 48  # two block handles, padding, magic
TRAILER: Final = 5  # bytes after each block: compression type, checksum
NOT_COMPRESSED: Final = 0
SNAPPY: Final = 1
ZSTD: Final = 2

Pair = tuple[bytes, bytes]  # a key and its value
Block = tuple[int, bytes]  # offset of a block, and its decompressed entries


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """The entry of one tensor in the index.

    ``dtype``: of TensorFlow's ``DataType``. ``offset``, ``size``: in bytes, in the data shard
    ``shard``. ``checksum``: masked CRC-32C. ``partitioned``: stored in slices, which have their own
    keys.
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
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """An open checkpoint.

    ``entries``: sorted by key; the key of a slice of a partitioned tensor begins with a zero byte.
    """

    prefix: Path
    num_shards: int
    entries: Mapping[bytes, TensorEntry]

    @classmethod
    def open(cls, prefix: Path) -> Checkpoint:
        """Open a checkpoint by reading its index, ``PREFIX.index``.

        Raises ``NotFound`` if it is missing, ``InvalidFile`` if it is damaged, a link or a Git LFS
        pointer, and ``UnsupportedFormat`` if it is too large or of an unsupported kind.
        """
        path = Path(f"{prefix}.index")
        with reading(str(path)):
            size = _file_size(path)
            if size > MAX_TABLE:
                what = f"the index has {size:,} bytes, wanted at most {MAX_TABLE:,}"
                raise UnsupportedFormat(what)
            values = _pairs(_data_blocks(_read(path, 0, size)))
            num_shards = _num_shards(values)
            entries: dict[bytes, TensorEntry] = {}
            for key, value in values:
                if len(entries) == MAX_TENSORS:
                    raise InvalidFile(f"more than {MAX_TENSORS:,} tensors")
                with _in_part(f"tensor {_quote(key)}", None):
                    entries[key] = _tensor_entry(value)
            # Reject tensors that overlap: reading all tensors must not read any byte twice.
            shard = behind = 0
            for entry in sorted(entries.values(), key=lambda e: (e.shard, e.offset, e.size)):
                if entry.shard != shard:
                    shard, behind = entry.shard, 0
                if entry.offset < behind or entry.size < 0:
                    what = f"a tensor of {entry.size:,} bytes begins at byte {entry.offset:,}"
                    what += f", but the previous one ends at {behind:,}"
                    raise InvalidFile(f"data shard {shard}: {what}")
                behind = entry.offset + entry.size
            return cls(prefix, num_shards, entries)

    def strings(self, key: bytes) -> ByteStrings:
        """Return the elements of a string tensor in row-major order.

        Raises ``NotFound`` if its data shard is missing, ``InvalidFile`` for damaged data, and
        ``UnsupportedFormat`` if the tensor is partitioned or too large.
        """
        entry, path = self._find(key)
        with reading(str(path)):
            return _strings(_read(path, entry.offset, entry.size), entry)

    def integers(self, key: bytes) -> NDArray[np.int64]:
        """Return the elements, row-major: int64, shape (elements,). Raises as :meth:`strings`."""
        entry, path = self._find(key)
        with reading(str(path)):
            data = _read(path, entry.offset, entry.size)
            dtype = np.dtype(INTEGERS[entry.dtype])
            if entry.elements * dtype.itemsize != len(data):
                what = f"{entry.elements:,} integers of {dtype.itemsize} bytes do not match the"
                what += f" tensor's size of {len(data):,} bytes"
                raise InvalidFile(what, offset=entry.offset)
            _check_crc("the tensor", _crc32c(data, 0, len(data)), entry.checksum, entry.offset)
            return np.frombuffer(data, dtype).astype(np.int64)

    def _find(self, key: bytes) -> tuple[TensorEntry, Path]:
        index, name, entry = f"{self.prefix}.index", _quote(key), self.entries[key]
        if entry.partitioned:
            what = f"tensor {name} is partitioned: save the model with this variable in one piece"
            raise UnsupportedFormat(what, file=index)
        if entry.size > MAX_FILE:
            what = f"tensor {name} has {entry.size:,} bytes, wanted at most {MAX_FILE:,}"
            raise UnsupportedFormat(what, file=index)
        if not 0 <= entry.shard < self.num_shards:
            what = f"tensor {name} is in data shard {entry.shard}, but there are {self.num_shards}"
            raise InvalidFile(what, file=index)
        return entry, Path(f"{self.prefix}.data-{entry.shard:05d}-of-{self.num_shards:05d}")


def _file_size(path: Path) -> int:
    refuse_link(path.parent)
    refuse_link(path)
    if not path.is_file():
        raise NotFound(f"{path}: no such file; is the checkpoint complete?")
    return path.stat().st_size


def _read(path: Path, offset: int, size: int) -> bytes:
    """Return ``size`` bytes of a file from ``offset`` on; refuse links and Git LFS pointers."""
    total = _file_size(path)
    with path.open("rb") as file:
        refuse_pointer(file.read(len(GIT_LFS[0])))
        if offset + size > total:
            what = f"wanted {size:,} bytes, but the file ends at byte {total:,}"
            raise InvalidFile(what, offset=offset)
        file.seek(offset)
        data = file.read(size)
    if len(data) < size:
        raise InvalidFile("the file shrank while it was read", offset=offset + len(data))
    return data


def _num_shards(values: Iterator[Pair]) -> int:
    """Check the header, which is the first pair of an index; return the number of data shards."""
    key, value = next(values, (None, b""))
    if key != b"":
        raise InvalidFile("the index does not begin with a header")
    with _in_part("the header", None):
        header = Message(value, (0, len(value)))
        if header.integer(2) != 0:  # the endianness
            what = "the checkpoint is big-endian: save the model again on a little-endian machine"
            raise UnsupportedFormat(what)
        for version in header.messages(3):
            min_consumer = version.integer(2)
            if min_consumer > BUNDLE_VERSION:
                what = f"the checkpoint needs a reader of version {min_consumer} or later"
                raise UnsupportedFormat(f"{what}; vocabtool reads version {BUNDLE_VERSION}")
        return header.integer(1)


def _tensor_entry(value: bytes) -> TensorEntry:
    entry = Message(value, (0, len(value)))
    sizes = [size.integer(1) for size in entry.message(2).messages(2)]
    if len(sizes) > MAX_RANK or min(sizes, default=0) < 0:
        what = f"a shape of {len(sizes):,} dimensions, the smallest of size {min(sizes)}"
        raise InvalidFile(f"{what}; wanted at most {MAX_RANK}, each of size 0 or more")
    if math.prod(sizes) > MAX_ELEMENTS:
        raise InvalidFile("the shape has more than 2**63 - 1 elements")
    return TensorEntry(
        dtype=entry.integer(1),
        shape=tuple(sizes),
        shard=entry.integer(3),
        offset=entry.integer(4),
        size=entry.integer(5),
        checksum=entry.integer(6),
        partitioned=bool(entry.spans(7)),
    )


def _strings(data: bytes, entry: TensorEntry) -> ByteStrings:
    """Parse the bytes of a string tensor: all lengths, their checksum, and the strings."""
    if entry.elements + CHECKSUM > len(data):
        what = f"{entry.elements:,} strings do not fit in a tensor of {len(data):,} bytes"
        raise InvalidFile(what, offset=entry.offset)
    with _in_part("the tensor", entry.offset):
        strings = wire.length_list(data, entry.elements, CHECKSUM)
    # Lengths are stored as varints, but their checksum is that of the lengths as 32-bit integers.
    words = strings.lengths.astype("<u4").tobytes()
    crc = _crc32c(words, 0, len(words))
    end = (int(strings.starts[0]) if len(strings) else len(data)) - CHECKSUM
    _check_crc("the string lengths", crc, _uint32(data, end), entry.offset + end)
    _check_crc("the tensor", _crc32c(data, end, len(data), crc), entry.checksum, entry.offset)
    return strings


# LevelDB's sorted table.


def _pairs(blocks: Iterable[Block]) -> Iterator[Pair]:
    """Yield the keys and values in the entries of blocks; the keys ascend."""
    last, key_bytes = None, 0
    for offset, entries in blocks:
        key, cursor = b"", Cursor(entries, 0, "an entry")
        with _in_part("a block", offset):
            while cursor.rest:
                shared, unshared, size = cursor.varint(), cursor.varint(), cursor.varint()
                # a key omits the prefix that it shares with the previous one
                if shared > len(key):
                    what = f"a key shares {shared:,} bytes with the previous key"
                    raise InvalidFile(f"{what}, which has only {len(key):,}")
                key = key[:shared] + cursor.take(unshared)
                value = cursor.take(size)
                key_bytes += len(key)
                if last is not None and key <= last:
                    raise InvalidFile(f"keys out of order: {_quote(key)} follows {_quote(last)}")
                if key_bytes > MAX_TABLE:
                    raise InvalidFile(f"the keys have more than {MAX_TABLE:,} bytes")
                yield key, value
                last = key


def _data_blocks(table: bytes) -> Iterator[Block]:
    """Yield the data blocks of an index file, which its index block lists."""
    start = len(table) - FOOTER
    if start < 0 or not table.endswith(MAGIC):
        raise InvalidFile(f"not a checkpoint index: wanted {MAGIC.hex()} as the last 8 bytes")
    with _in_part("the footer", start):  # after the handle of a block that is not needed ...
        footer = Cursor(table, start, "a handle")
        for _ in range(2):
            footer.varint()
        index = _handle(table, footer)  # ... that of the block which lists the data blocks
    behind = total = 0
    for _, value in _pairs([_block(table, *index)]):
        with _in_part("the handle of a block", index[0]):
            start, end = _handle(table, Cursor(value, 0, "a handle"))
            if start < behind:
                raise InvalidFile("a block overlaps the previous one")
        block = _block(table, start, end)
        behind, total = end + TRAILER, total + len(block[1])
        if total > MAX_TABLE:
            raise InvalidFile(f"the blocks have more than {MAX_TABLE:,} bytes", offset=start)
        yield block


def _handle(table: bytes, cursor: Cursor) -> wire.Span:
    """Read the handle of a block: return where the block starts and ends in the table."""
    start, size = cursor.varint(), cursor.varint()
    if start + size + TRAILER > len(table) - FOOTER:
        raise InvalidFile(f"a block of {size:,} bytes at {start:,} extends outside the table")
    return start, start + size


def _block(table: bytes, start: int, end: int) -> Block:
    _check_crc("a block", _crc32c(table, start, end + 1), _uint32(table, end + 1), start)
    content, compression = table[start:end], table[end]
    if compression == SNAPPY:
        import pyarrow

        with _in_part("a compressed block", start):
            size = Cursor(content, 0, "the size").varint()  # after decompression
            if size > MAX_TABLE:
                raise InvalidFile(f"{size:,} bytes decompressed, wanted at most {MAX_TABLE:,}")
            try:
                content = pyarrow.Codec("snappy").decompress(content, size, asbytes=True)
            except (OSError, ValueError) as error:
                what = f"Snappy cannot decompress the block, wanted {size:,} bytes ({error})"
                raise InvalidFile(what) from error
    elif compression != NOT_COMPRESSED:
        name = "zstd" if compression == ZSTD else f"type {compression}"
        what = f"the checkpoint index is compressed with {name}, wanted Snappy or no compression"
        raise UnsupportedFormat(f"{what}: save the model again with TensorFlow")
    # restart points, for binary search, follow the entries
    size = len(content) - 4
    size -= 4 * _uint32(content, size) if size >= 0 else 0
    if size < 0:
        raise InvalidFile("a block is too small for its restart points", offset=start)
    return start, content[:size]


@contextmanager
def _in_part(what: str, offset: int | None) -> Iterator[None]:
    """Name the damaged part (``what``) and its offset in errors of the ``with`` block."""
    try:
        yield
    except InvalidFile as error:
        raise InvalidFile(f"{what}: {error.what}", offset=offset) from error


def _quote(key: bytes) -> str:
    return repr(key[:80]).removeprefix("b")


def _uint32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _crc32c(data: bytes, start: int, end: int, crc: int = 0) -> int:
    for at in range(start, end, CRC_BYTES):
        crc = checksum_of(data[at : min(at + CRC_BYTES, end)], crc)
    return crc


def _check_crc(what: str, crc: int, stored: int, offset: int) -> None:
    """Raise :class:`InvalidFile` if a CRC-32C does not match the stored one, which is masked."""
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF
    if masked != stored:
        what = f"the checksum of {what} does not match: wanted {stored:08x}, got {masked:08x}"
        raise InvalidFile(what, offset=offset)
