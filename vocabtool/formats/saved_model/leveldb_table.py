"""LevelDB's sorted tables, as TensorFlow writes the index of a checkpoint: keys with their values.

A table is read once, from its first key to its last. Blocks compressed with Snappy are unpacked one
at a time. Checksums are here too: what TensorFlow adds to a table, it masks as LevelDB does.

Layouts: xla/tsl/lib/io/format.cc and block_builder.cc, xla/tsl/lib/hash/crc32c.h in TensorFlow's
source tree, and format_description.txt in Snappy's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats.wire import Span, varint

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


@contextmanager
def in_part(what: str, offset: int | None) -> Iterator[None]:
    """Name the part of a file that is wrong, and where it begins instead of an offset inside it."""
    try:
        yield
    except InvalidFile as error:
        raise InvalidFile(f"{what}: {error.what}", offset=offset) from error


def quote_key(key: bytes) -> str:
    """Quote a key for a message: safe on a terminal, cut to 80 bytes."""
    return repr(key[:80])[1:]


def uint32(data: bytes, at: int) -> int:
    """Read four bytes, little-endian."""
    return int.from_bytes(data[at : at + 4], "little")


def crc32c(data: bytes, start: int, end: int, crc: int = 0) -> int:
    """Extend a CRC-32C by ``data[start:end]``."""
    import google_crc32c

    for at in range(start, end, CRC_BYTES):
        crc = google_crc32c.extend(crc, data[at : min(at + CRC_BYTES, end)])
    return crc


def check_crc(what: str, crc: int, stored: int, offset: int) -> None:
    """Compare a checksum with a stored one, which is masked; raise ``InvalidFile``."""
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF
    if masked != stored:
        raise InvalidFile(
            f"the checksum of {what} does not match: wanted {stored:08x}, got {masked:08x}",
            offset=offset,
        )


def pairs(table: bytes) -> Iterator[Pair]:
    """Yield each key, ascending, with its value.

    Raises, when it gets there, ``InvalidFile`` where the table is damaged and
    ``UnsupportedFormat`` for a compression other than Snappy.
    """
    return _pairs(_data_blocks(table))


def _pairs(blocks: Iterable[Block]) -> Iterator[Pair]:
    last, spelled = None, 0
    for offset, entries in blocks:
        with in_part("a block", offset):
            for key, value in _entries(entries):
                spelled += len(key)
                if last is not None and key <= last:
                    raise InvalidFile(f"key {quote_key(key)} is not behind {quote_key(last)}")
                if spelled > MAX_KEYS:
                    raise InvalidFile(f"the keys have more than {MAX_KEYS:,} bytes")
                yield key, value
                last = key


def _entries(entries: bytes) -> Iterator[Pair]:
    """Split a block: each key is told by how it differs from the one before."""
    key, pos, end = b"", 0, len(entries)
    while pos < end:
        shared, at = varint(entries, pos, end)
        unshared, at = varint(entries, at, end)
        size, at = varint(entries, at, end)
        if shared > len(key):
            raise InvalidFile(f"a key shares {shared:,} bytes with one of {len(key):,}")
        if unshared + size > end - at:
            raise InvalidFile("an entry runs past its end")
        value = at + unshared
        pos = value + size
        key = key[:shared] + entries[at:value]
        yield key, entries[value:pos]


def _data_blocks(table: bytes) -> Iterator[Block]:
    """Yield the blocks that the index block lists; they may not overlap."""
    index = _block(table, *_index_handle(table))
    behind = total = 0
    for _, value in _pairs([index]):
        with in_part("the place of a block", index[0]):
            start, end = _handle(table, value, 0)
            if start < behind:
                raise InvalidFile("a block begins inside the one before")
        block = _block(table, start, end)
        behind, total = end + TRAILER, total + len(block[1])
        if total > MAX_TABLE:
            raise InvalidFile(f"the blocks have more than {MAX_TABLE:,} bytes", offset=start)
        yield block


def _index_handle(table: bytes) -> Span:
    """Find the block that lists the data blocks: the second handle in the footer."""
    start = len(table) - FOOTER
    if start < 0 or not table.endswith(MAGIC):
        raise InvalidFile(f"not a checkpoint's index: wanted {MAGIC.hex()} as its last 8 bytes")
    with in_part("the footer", start):
        footer = table[start : -len(MAGIC)]
        _, pos = varint(footer, 0, len(footer))
        _, pos = varint(footer, pos, len(footer))
        return _handle(table, footer, pos)


def _handle(table: bytes, data: bytes, pos: int) -> Span:
    """Read offset and size of a block from ``data`` and check them against the table."""
    start, pos = varint(data, pos, len(data))
    size, _ = varint(data, pos, len(data))
    if start + size + TRAILER > len(table) - FOOTER:
        raise InvalidFile(f"a block of {size:,} bytes at {start:,} lies outside the file")
    return start, start + size


def _block(table: bytes, start: int, end: int) -> Block:
    """Check and unpack a block; leave out its restart points, which only serve binary search."""
    check_crc("a block", crc32c(table, start, end + 1), uint32(table, end + 1), start)
    content, compression = table[start:end], table[end]
    if compression == SNAPPY:
        with in_part("a compressed block", start):
            content = _snappy(content)
    elif compression != NOT_COMPRESSED:
        name = "zstd" if compression == ZSTD else f"type {compression}"
        raise UnsupportedFormat(
            f"the checkpoint's index is compressed ({name}), which is not read; "
            "save the model again with TensorFlow, which does not compress it"
        )
    size = len(content) - 4
    size -= 4 * uint32(content, size) if size >= 0 else 0
    if size < 0:
        raise InvalidFile("a block is too small for its restart points", offset=start)
    return start, content[:size]


def _snappy(packed: bytes) -> bytes:
    """Unpack Snappy's raw format, whose head is the size unpacked."""
    import pyarrow

    size, _ = varint(packed, 0, len(packed))
    if size > MAX_BLOCK:
        raise InvalidFile(f"{size:,} bytes unpacked; a block has up to {MAX_BLOCK:,}")
    try:
        unpacked: bytes = pyarrow.Codec("snappy").decompress(packed, size, asbytes=True)
    except (OSError, ValueError) as error:
        raise InvalidFile(f"not {size:,} bytes packed by Snappy ({error})") from error
    return unpacked
