"""Checkpoints written byte by byte by a small writer in this file; no TensorFlow."""

from __future__ import annotations

import itertools
import random
import struct
import sys
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path
from unittest import mock

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vocabtool.errors import InvalidFile, NotFound, UnsupportedFormat, VocabtoolError
from vocabtool.formats.saved_model import checkpoint, leveldb_table
from vocabtool.formats.saved_model.checkpoint import Checkpoint, TensorEntry

MAGIC = bytes.fromhex("57fb808b247547db")
INT32, STRING, INT64 = 3, 7, 9

# What TensorFlow 2.21 wrote for ids = int32 [3, -1] and words = ["the", "", "\xff\n\0"].
GOLDEN_INDEX = bytes.fromhex(
    "000006 0801 1a020801"  # shared 0, unshared 0, value 6: num_shards 1, version.producer 1
    "00030f 696473 0803 120412020802 2808 35c1ac3aa6"  # ids
    "000511 776f726473 0807 120412020803 2008 280d 353e289a12"  # words
    "00000000 01000000 00 2f0b2cbf"  # one restart point, no compression, checksum
    "00000000 01000000 00 c0f2a1b0"  # the metaindex block, empty
    "000102 78 003f 00000000 01000000 00 f84d77f5"  # the index block: "x" is not below any key
    "4408 510e" + 36 * "00" + "57fb808b247547db"
)
GOLDEN_DATA = bytes.fromhex("03000000 ffffffff 030003 7820eb22 746865 ff0a00")


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    return varint(number << 3 | 2) + varint(len(value)) + value


def masked(data: bytes, crc: int = 0) -> int:
    crc = google_crc32c.extend(crc, data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def uint32(value: int) -> bytes:
    return struct.pack("<I", value)


def packed(strings: Sequence[bytes]) -> tuple[bytes, int]:
    """The bytes of a string tensor and their checksum."""
    words = b"".join(uint32(len(string)) for string in strings)
    rest = uint32(masked(words)) + b"".join(strings)
    lengths = b"".join(varint(len(string)) for string in strings)
    return lengths + rest, masked(rest, google_crc32c.value(words))


def entry(
    dtype: int, shape: Iterable[int], offset: int, size: int, checksum: int, *, shard: int = 0
) -> bytes:
    dimensions = b"".join(field(2, field(1, dimension)) for dimension in shape)
    numbers = field(1, dtype) + field(2, dimensions) + field(3, shard)
    return numbers + field(4, offset) + field(5, size) + b"\x35" + uint32(checksum)


def pair(key: bytes, value: bytes, shared: int = 0) -> bytes:
    return varint(shared) + varint(len(key)) + varint(len(value)) + key + value


def message_only(value: object) -> str:
    """Name a parametrised test by its message instead of its bytes."""
    return value if isinstance(value, str) else ""


HEADER = pair(b"", field(1, 1))
ONE_RESTART = uint32(0) + uint32(1)


def sealed(block: bytes, compression: int = 0) -> bytes:
    block += bytes([compression])
    return block + uint32(masked(block))


def handle(offset: int, size: int) -> bytes:
    return varint(offset) + varint(size)


def compressed(block: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(block, asbytes=True)
    return sealed(packed, 1)


def table_of(blocks: Sequence[bytes], listing: bytes) -> bytes:
    """An index file of these blocks, the last of which lists the others, trailers included."""
    written = b"".join(blocks)
    footer = handle(0, 0) + handle(len(written), len(listing) - 5)
    return written + listing + footer.ljust(40, b"\0") + MAGIC


def listing_of(handles: Iterable[bytes]) -> bytes:
    return b"".join(pair(b"%09d" % i, place) for i, place in enumerate(handles)) + ONE_RESTART


def handles_of(blocks: Sequence[bytes]) -> list[bytes]:
    ends = np.cumsum([len(block) for block in blocks]).tolist()
    return [
        handle(end - len(block), len(block) - 5) for block, end in zip(blocks, ends, strict=True)
    ]


def table(blocks: Sequence[bytes], handles: Sequence[bytes] | None = None) -> bytes:
    """An index file of these data blocks (each with restart points, without its trailer)."""
    written = list(map(sealed, blocks))
    return table_of(
        written, sealed(listing_of(handles_of(written) if handles is None else handles))
    )


def compressed_table(blocks: Sequence[bytes]) -> bytes:
    """An index file of these data blocks, each compressed, as is the one that lists them."""
    written = list(map(compressed, blocks))
    return table_of(written, compressed(listing_of(handles_of(written))))


def index_of(*pairs: bytes, header: bytes = HEADER) -> bytes:
    return table([header + b"".join(pairs) + ONE_RESTART])


def write(folder: Path, index: bytes, *shards: bytes) -> Path:
    prefix = folder / "variables"
    Path(f"{prefix}.index").write_bytes(index)
    for number, shard in enumerate(shards):
        Path(f"{prefix}.data-{number:05d}-of-{len(shards):05d}").write_bytes(shard)
    return prefix


def write_strings(folder: Path, strings: Sequence[bytes], shape: Sequence[int]) -> Path:
    data, checksum = packed(strings)
    return write(
        folder, index_of(pair(b"words", entry(STRING, shape, 0, len(data), checksum))), data
    )


def opened(folder: Path, index: bytes, *shards: bytes) -> Checkpoint:
    return Checkpoint.open(write(folder, index, *shards))


def test_golden(tmp_path: Path) -> None:
    """A checkpoint that TensorFlow wrote reads as what was put into it."""
    found = opened(tmp_path, GOLDEN_INDEX, GOLDEN_DATA)
    assert list(found.strings(b"words")) == [b"the", b"", b"\xff\n\0"]
    assert found.integers(b"ids").tolist() == [3, -1]
    assert found.integers(b"ids").dtype == np.int64
    assert found.num_shards == 1
    assert dict(found.entries) == {
        b"ids": TensorEntry(INT32, (2,), 0, 0, 8, 0xA63AACC1, False),
        b"words": TensorEntry(STRING, (3,), 0, 8, 13, 0x129A283E, False),
    }


def test_writer_agrees_with_golden() -> None:
    """The writer of these tests makes the string tensor that TensorFlow made."""
    data, checksum = packed([b"the", b"", b"\xff\n\0"])
    assert (data, checksum) == (GOLDEN_DATA[8:], 0x129A283E)


@given(
    strings=st.lists(
        st.binary(max_size=9) | st.integers(120, 300).map(bytes) | st.just(bytes(16400))
    ),
    piece=st.integers(1, 40),
)
@settings(max_examples=60, deadline=None)
def test_strings_round_trip(
    tmp_path_factory: pytest.TempPathFactory, strings: list[bytes], piece: int
) -> None:
    """Any strings come back as they were written, however many lengths are decoded at a time."""
    prefix = write_strings(tmp_path_factory.mktemp("strings"), strings, [len(strings)])
    with mock.patch.object(checkpoint, "BATCH_LENGTHS", piece):
        assert list(Checkpoint.open(prefix).strings(b"words")) == strings


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16383, 16384, 2097152])
def test_string_lengths(tmp_path: Path, length: int) -> None:
    """A string's length takes as many bytes as it needs."""
    strings = [b"a", b"b" * length, b"c"]
    found = Checkpoint.open(write_strings(tmp_path, strings, [3]))
    assert list(found.strings(b"words")) == strings


@pytest.mark.parametrize(
    ("dtype", "code", "values"),
    [
        (INT32, "<i4", [-(2**31), 2**31 - 1]),
        (INT64, "<i8", [-(2**63), 2**63 - 1]),
        (INT32, "<i4", []),
    ],
)
def test_integer_types(tmp_path: Path, dtype: int, code: str, values: list[int]) -> None:
    """Each integer type is widened to int64 with its extremes intact."""
    data = np.array(values, code).tobytes()
    index = index_of(pair(b"ids", entry(dtype, [len(values)], 0, len(data), masked(data))))
    ids = opened(tmp_path, index, data).integers(b"ids")
    assert ids.dtype == np.int64
    assert ids.tolist() == values


@pytest.mark.parametrize(
    ("shape", "elements"),
    [((), 1), ((0,), 0), ((2, 3), 6), ((4, 0), 0), ((1 << 62, 1 << 62, 0), 0)],
)
def test_shapes(tmp_path: Path, shape: tuple[int, ...], elements: int) -> None:
    """A tensor of any rank is flattened row by row; a scalar is one element."""
    strings = [b"%d" % i for i in range(elements)]
    found = Checkpoint.open(write_strings(tmp_path, strings, shape))
    assert found.entries[b"words"].shape == shape
    assert found.entries[b"words"].elements == elements
    assert list(found.strings(b"words")) == strings


def test_several_blocks(tmp_path: Path) -> None:
    """Keys are gathered from every block, in file order, and may share prefixes inside one."""
    nothing = entry(INT32, [0], 0, 0, masked(b""))
    first = HEADER + pair(b"layer/a", nothing) + pair(b"b", nothing, shared=6) + ONE_RESTART
    second = pair(b"layer/c", nothing) + pair(b"other", nothing) + ONE_RESTART
    found = opened(tmp_path, table([first, second]))
    assert list(found.entries) == [b"layer/a", b"layer/b", b"layer/c", b"other"]


def test_shards(tmp_path: Path) -> None:
    """Each tensor is read from its own data file, named by number and by how many there are."""
    (one, one_crc), (two, two_crc) = packed([b"one"]), packed([b"two"])
    index = index_of(
        pair(b"first", entry(STRING, [], 0, len(one), one_crc)),
        pair(b"second", entry(STRING, [], 0, len(two), two_crc, shard=1)),
        header=pair(b"", field(1, 2)),
    )
    found = opened(tmp_path, index, one, two)
    (tmp_path / "variables.data-00000-of-00001").write_bytes(b"of an older save")
    assert list(found.strings(b"first")) == [b"one"]
    assert list(found.strings(b"second")) == [b"two"]


def test_unknown_fields_are_skipped(tmp_path: Path) -> None:
    """Fields that a later TensorFlow may add do not matter."""
    added = field(90, 7) + field(91, b"later") + b"\xe5\x05" + uint32(9)
    value = entry(INT32, [1], 0, 4, masked(b"\5\0\0\0"))
    index = index_of(pair(b"ids", added + value + added), header=pair(b"", field(1, 1) + added))
    assert opened(tmp_path, index, b"\5\0\0\0").integers(b"ids").tolist() == [5]


def test_only_the_slice_is_read(tmp_path: Path) -> None:
    """A small tensor at the end of a data file of 3 GB costs less than 1 MB of memory."""
    data, checksum = packed([b"far", b"away"])
    offset = 3 << 30
    index = index_of(pair(b"words", entry(STRING, [2], offset, len(data), checksum)))
    prefix = write(tmp_path, index, b"")
    with Path(f"{prefix}.data-00000-of-00001").open("r+b") as file:
        file.seek(offset)  # leaves a hole, which takes no disk
        file.write(data)
    tracemalloc.start()
    strings = list(Checkpoint.open(prefix).strings(b"words"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert strings == [b"far", b"away"]
    assert peak < 1 << 20


def test_ten_million_lengths(tmp_path: Path) -> None:
    """10 MB of one-byte lengths, the most strings that so many bytes can hold, take 60 MB."""
    count = 10_000_000
    checksum = google_crc32c.value(bytes(4 * count))
    rest = uint32(masked(b"", checksum))
    index = index_of(pair(b"words", entry(STRING, [count], 0, count + 4, masked(rest, checksum))))
    found = opened(tmp_path, index, bytes(count) + rest)
    tracemalloc.start()
    strings = found.strings(b"words")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(strings), strings[0], strings[-1]) == (count, b"", b"")
    assert peak < 60_000_000


def test_missing_index(tmp_path: Path) -> None:
    """Without an index there is no checkpoint."""
    with pytest.raises(NotFound, match=r"variables\.index: no such file; is the checkpoint"):
        Checkpoint.open(tmp_path / "variables")


def test_folder_instead_of_index(tmp_path: Path) -> None:
    """A folder that is called like an index is not read."""
    (tmp_path / "variables.index").mkdir()
    with pytest.raises(NotFound, match=r"variables\.index: no such file"):
        Checkpoint.open(tmp_path / "variables")


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n"


def test_pointers_of_git_lfs(tmp_path: Path) -> None:
    """An index or a data file that was not fetched is said to be just that."""
    with pytest.raises(InvalidFile, match=r"variables\.index: a pointer of Git LFS.*git lfs pull"):
        opened(tmp_path, POINTER)
    found = opened(tmp_path, GOLDEN_INDEX, POINTER)
    with pytest.raises(InvalidFile, match=r"data-00000-of-00001: a pointer of Git LFS"):
        found.strings(b"words")


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Neither an index, nor a data file, nor the folder of both may be a symbolic link."""
    real = tmp_path / "real"
    real.mkdir()
    write(real, GOLDEN_INDEX, GOLDEN_DATA)
    (tmp_path / "folder").symlink_to(real)
    with pytest.raises(InvalidFile, match="a symbolic link: it is not opened"):
        Checkpoint.open(tmp_path / "folder" / "variables")
    (tmp_path / "variables.index").symlink_to(real / "variables.index")
    with pytest.raises(InvalidFile, match=r"variables\.index: a symbolic link: it is not opened"):
        Checkpoint.open(tmp_path / "variables")
    (tmp_path / "variables.index").unlink()
    found = opened(tmp_path, GOLDEN_INDEX)
    data = "variables.data-00000-of-00001"
    (tmp_path / data).symlink_to(real / data)
    with pytest.raises(InvalidFile, match=r"00001: a symbolic link: it is not opened"):
        found.strings(b"words")


def test_what_the_system_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that may not be read is not found, with the system's reason."""
    prefix = write(tmp_path, GOLDEN_INDEX)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(NotFound, match=r"variables\.index: Permission denied"):
        Checkpoint.open(prefix)
    with pytest.raises(NotFound, match="File name too long"):
        Checkpoint.open(tmp_path / ("a" * 300))


def test_missing_shard(tmp_path: Path) -> None:
    """A checkpoint opens without its data files; reading a tensor names the one that is missing."""
    found = opened(tmp_path, GOLDEN_INDEX)
    with pytest.raises(NotFound, match=r"variables\.data-00000-of-00001: no such file"):
        found.strings(b"words")


def test_missing_key(tmp_path: Path) -> None:
    """A tensor that is not there is not found, and the message quotes its name safely."""
    found = opened(tmp_path, GOLDEN_INDEX)
    with pytest.raises(NotFound, match=r"variables\.index: no tensor 'w\\x1b' among its 2$"):
        found.strings(b"w\x1b")


def test_wrong_type(tmp_path: Path) -> None:
    """Strings are not read as integers, nor the other way round, and weights as neither."""
    found = opened(tmp_path, GOLDEN_INDEX, GOLDEN_DATA)
    with pytest.raises(InvalidFile, match=r"'ids' has data type 3; wanted 7 \(string\)"):
        found.strings(b"ids")
    with pytest.raises(InvalidFile, match=r"'words' has data type 7; wanted 3 \(int32\), 9"):
        found.integers(b"words")


def test_partitioned(tmp_path: Path) -> None:
    """A checkpoint with a partitioned tensor opens; only that tensor is refused."""
    whole = entry(INT32, [1], 0, 4, masked(b"\5\0\0\0"))
    parts = field(1, INT32) + field(2, field(2, field(1, 4))) + field(7, b"")
    index = index_of(pair(b"ids", whole), pair(b"parts", parts))
    found = opened(tmp_path, index, b"\5\0\0\0")
    assert found.integers(b"ids").tolist() == [5]
    assert found.entries[b"parts"].partitioned
    with pytest.raises(UnsupportedFormat, match=r"variables\.index: tensor 'parts' is partitioned"):
        found.integers(b"parts")


@pytest.mark.parametrize(("compression", "name"), [(2, "zstd"), (9, "type 9")])
def test_other_compressions(tmp_path: Path, compression: int, name: str) -> None:
    """An index compressed with other than Snappy is recognised and refused."""
    blocks = [sealed(HEADER + ONE_RESTART, compression)]
    index = table_of(blocks, sealed(listing_of(handles_of(blocks))))
    message = rf"variables\.index: the checkpoint's index is compressed \({name}\), which is not"
    with pytest.raises(UnsupportedFormat, match=message):
        opened(tmp_path, index)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (field(1, 1) + field(2, 1), "the checkpoint was written on a big-endian machine"),
        (
            field(1, 1) + field(3, field(2, 2)),
            "the checkpoint is for readers of version 2 or later",
        ),
    ],
    ids=message_only,
)
def test_unsupported_headers(tmp_path: Path, header: bytes, message: str) -> None:
    """Other byte orders and later versions are refused when the checkpoint is opened."""
    with pytest.raises(UnsupportedFormat, match=rf"variables\.index: {message}"):
        opened(tmp_path, index_of(header=pair(b"", header)))


def test_shard_number_outside(tmp_path: Path) -> None:
    """A data file number that the header rules out is not made into a file name."""
    found = opened(tmp_path, index_of(pair(b"ids", entry(INT32, [1], 0, 4, 0, shard=1))))
    with pytest.raises(InvalidFile, match="number 1 does not exist: there are 1"):
        found.integers(b"ids")


EMPTY = entry(INT32, [0], 0, 0, masked(b""))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (b"", "not a checkpoint's index: wanted 57fb808b247547db as its last 8 bytes"),
        (index_of()[:-1] + b"\0", "not a checkpoint's index"),
        (b"\xff" * 40 + MAGIC, r"the footer: a number is cut off .*\(at byte 0\)"),
        (handle(0, 0) + handle(0, 1) + bytes(36) + MAGIC, "block of 1 bytes at 0 lies outside"),
        (table([], [handle(1 << 63, 4)]), "block of 4 bytes at 9,223,372,036,854,775,808 lies"),
        (table([b"\0\0\0"]), "a block is too small for its restart points"),
        (table([HEADER + uint32(0) + uint32(99)]), "a block is too small for its restart points"),
        (table([HEADER + uint32(0) + uint32(0)]), r"key '' is not behind ''"),
        (table([], [b"\x80"]), r"the place of a block: a number is cut off .*\(at byte 0\)"),
        (table([]), "the index does not begin with a header"),
        (index_of(header=pair(b"", b"\x08")), "the header: a number is cut off or longer than"),
        (index_of(header=pair(b"ids", EMPTY)), "the index does not begin with a header"),
        (index_of(pair(b"b", EMPTY), pair(b"a", EMPTY)), "key 'a' is not behind 'b'"),
        (index_of(pair(b"b", EMPTY), pair(b"b", EMPTY)), "key 'b' is not behind 'b'"),
        (index_of(pair(b"b", EMPTY, shared=1)), "a key shares 1 bytes with one of 0"),
        (index_of(b"\0\1\x7fa"), r"a block: an entry runs past its end \(at byte 0\)"),
        (index_of(b"\0\x7f\0a"), "a block: an entry runs past its end"),
        (index_of(pair(b"a", b"\x12\x7f")), "tensor 'a': field 2 runs 127 bytes past the end"),
        (index_of(pair(b"a", entry(3, [-1], 0, 0, 0))), "dimension 0 is -1; wanted 0 or more"),
        (index_of(pair(b"a", entry(3, [1] * 255, 0, 0, 0))), "dimension 254 is 1; .*in 254 dim"),
        (index_of(pair(b"a", entry(3, [1 << 62, 2], 0, 0, 0))), r"more than 2\*\*63 - 1 elements"),
        (
            index_of(pair(b"a", entry(3, [(1 << 63) - 1] * 254, 0, 0, 0))),
            r"more than 2\*\*63 - 1 elements",
        ),
        (index_of(pair(b"a", entry(3, [], -1, 4, 0))), "a tensor of 4 bytes at -1 of data file 0"),
        (index_of(pair(b"a", entry(3, [], 0, -4, 0))), "a tensor of -4 bytes at 0 of data file 0"),
        (
            index_of(
                pair(b"a", entry(3, [2], 0, 8, 0)),
                pair(b"b", entry(3, [2], 0, 8, 0, shard=1)),
                pair(b"c", entry(3, [2], 4, 8, 0)),
            ),
            "a tensor of 8 bytes at 4 of data file 0, where the one before ends at 8",
        ),
    ],
    ids=message_only,
)
def test_damaged_index(tmp_path: Path, index: bytes, message: str) -> None:
    """An index that breaks a rule of its format is refused, and the message names the file."""
    with pytest.raises(InvalidFile, match=rf"variables\.index: .*{message}"):
        opened(tmp_path, index)


def test_index_checksums(tmp_path: Path) -> None:
    """A flipped bit in a block is found by the block's checksum."""
    damaged = bytearray(GOLDEN_INDEX)
    damaged[20] ^= 1
    with pytest.raises(InvalidFile, match=r"checksum of a block does not match.*at byte 0\)"):
        opened(tmp_path, bytes(damaged))


def test_a_block_is_listed_once(tmp_path: Path) -> None:
    """Listing one block many times, to make a small file take long, is refused."""
    block = HEADER + ONE_RESTART
    index = table([block], [handle(0, len(block)), handle(0, len(block))])
    with pytest.raises(InvalidFile, match="a block begins inside the one before"):
        opened(tmp_path, index)


def test_compressed_index(tmp_path: Path) -> None:
    """An index compressed with Snappy reads as the same index without compression."""
    first = HEADER + pair(b"ids", entry(INT32, [2], 0, 8, 0xA63AACC1)) + ONE_RESTART
    second = pair(b"words", entry(STRING, [3], 8, 13, 0x129A283E)) + ONE_RESTART
    plain = opened(tmp_path, table([first, second]), GOLDEN_DATA)
    found = opened(tmp_path, compressed_table([first, second]), GOLDEN_DATA)
    assert dict(found.entries) == dict(plain.entries)
    assert list(found.entries) == [b"ids", b"words"]
    assert list(found.strings(b"words")) == [b"the", b"", b"\xff\n\0"]


@given(
    pairs=st.dictionaries(st.binary(max_size=9), st.binary(max_size=300)),
    cuts=st.lists(st.integers(0, 99)),
    pack=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_table_round_trip(pairs: dict[bytes, bytes], cuts: list[int], *, pack: bool) -> None:
    """Any keys and values come back in order, however they are spread over blocks."""
    listed = sorted(pairs.items())
    places = [0, *sorted(min(cut, len(listed)) for cut in cuts), len(listed)]
    blocks = [
        b"".join(pair(key, value) for key, value in listed[start:stop]) + ONE_RESTART
        for start, stop in itertools.pairwise(places)
    ]
    written = compressed_table(blocks) if pack else table(blocks)
    assert list(leveldb_table.pairs(written)) == listed


def test_pyarrow_is_for_compressed_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a compressed index needs pyarrow."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert len(opened(tmp_path, GOLDEN_INDEX).entries) == 2
    with pytest.raises(ImportError, match="pyarrow"):
        opened(tmp_path, compressed_table([HEADER + ONE_RESTART]))


BLOCK = HEADER + pair(b"a", field(90, bytes(100))) + ONE_RESTART  # 120 bytes
PACKED: bytes = pa.Codec("snappy").compress(BLOCK, asbytes=True)


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"", "a compressed block: a number is cut off"),
        (
            varint(1 << 40) + PACKED[1:],
            "1,099,511,627,776 bytes unpacked; a block has up to 16,777",
        ),
        (
            varint((16 << 20) + 1) + PACKED[1:],
            "16,777,217 bytes unpacked; a block has up to 16,777",
        ),
        (varint(16 << 20) + PACKED[1:], "not 16,777,216 bytes packed by Snappy"),
        (varint(121) + PACKED[1:], "not 121 bytes packed by Snappy"),
        (varint(119) + PACKED[1:], "not 119 bytes packed by Snappy"),
        (varint(0) + PACKED[1:], "not 0 bytes packed by Snappy"),
        (b"\xf8" + bytes([128] * 8) + b"\0" + PACKED[1:], "not 120 bytes packed by Snappy"),
        (PACKED[:-1], "not 120 bytes packed by Snappy"),
        (PACKED + b"\0", "not 120 bytes packed by Snappy"),
        (PACKED[:1] + b"\xff" + PACKED[2:], "not 120 bytes packed by Snappy"),
        (b"\0", "a block is too small for its restart points"),
    ],
    ids=message_only,
)
def test_damaged_compression(tmp_path: Path, packed: bytes, message: str) -> None:
    """A compressed block must unpack to just the size that stands at its head."""
    assert (len(BLOCK), PACKED[0]) == (120, 120)
    blocks = [sealed(packed, 1)]
    with pytest.raises(InvalidFile, match=rf"variables\.index: .*{message}.*\(at byte 0\)"):
        opened(tmp_path, table_of(blocks, sealed(listing_of(handles_of(blocks)))))


def test_compression_bomb(tmp_path: Path) -> None:
    """A small index that unpacks to very much is refused before it takes 100 MB."""
    large = field(90, bytes((16 << 20) - 100))
    blocks = [HEADER + ONE_RESTART]
    blocks += [pair(b"%d" % number, large) + ONE_RESTART for number in range(9)]
    prefix = write(tmp_path, compressed_table(blocks))
    assert Path(f"{prefix}.index").stat().st_size < 8_000_000
    tracemalloc.start()
    with pytest.raises(InvalidFile, match="the blocks have more than 33,554,432 bytes"):
        Checkpoint.open(prefix)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000_000


@pytest.mark.parametrize(
    ("cap", "value", "error", "message"),
    [
        ("MAX_TABLE", 147, UnsupportedFormat, "148 bytes; an index is read up to 147"),
        ("MAX_TENSORS", 1, InvalidFile, "more than 1 tensors"),
    ],
)
def test_caps_of_the_index(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    cap: str,
    value: int,
    error: type[VocabtoolError],
    message: str,
) -> None:
    """The size of the index and the number of tensors are limited."""
    monkeypatch.setattr(checkpoint, cap, value + 1)
    assert len(opened(tmp_path, GOLDEN_INDEX).entries) == 2
    monkeypatch.setattr(checkpoint, cap, value)
    with pytest.raises(error, match=rf"variables\.index: {message}"):
        opened(tmp_path, GOLDEN_INDEX)


@pytest.mark.parametrize(
    ("cap", "value", "message"),
    [
        ("MAX_KEYS", 8, "a block: the keys have more than 7 bytes"),
        ("MAX_TABLE", 55, r"the blocks have more than 54 bytes \(at byte 0\)"),
    ],
)
def test_caps_of_a_table(
    monkeypatch: pytest.MonkeyPatch, cap: str, value: int, message: str
) -> None:
    """The bytes of all keys, and those of all blocks, are limited."""
    monkeypatch.setattr(leveldb_table, cap, value)
    assert len(list(leveldb_table.pairs(GOLDEN_INDEX))) == 3
    monkeypatch.setattr(leveldb_table, cap, value - 1)
    with pytest.raises(InvalidFile, match=message):
        list(leveldb_table.pairs(GOLDEN_INDEX))


def test_cap_of_a_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor larger than any vocabulary is not read."""
    found = opened(tmp_path, GOLDEN_INDEX, GOLDEN_DATA)
    monkeypatch.setattr(checkpoint, "MAX_TENSOR", 12)
    assert found.integers(b"ids").tolist() == [3, -1]
    with pytest.raises(UnsupportedFormat, match=r"variables\.index: tensor 'words' has 13 bytes"):
        found.strings(b"words")


@pytest.mark.parametrize(
    ("count", "data", "message"),
    [
        (1 << 62, b"\0\0\0\0\0", "4,611,686,018,427,387,904 strings in a tensor of 5 bytes"),
        (2, b"\0\0\0\0\0", "2 strings in a tensor of 5 bytes"),
        (1, b"\xff\xff\xff\xff\xff", r"the string lengths: wanted 1 .*, found 0 \(at byte 0\)"),
        (2, b"\0\x80\x80\x80\x80\x80", "the string lengths: wanted 2 numbers, found 1"),
        (1, b"\xff" * 9 + b"\1----", "a string is longer than the 14 bytes of its tensor"),
        (1, b"\xff" * 10 + b"\1----", "the string lengths: wanted 1 numbers, found 0"),
        (1, b"\x06----", "a string is longer than the 5 bytes of its tensor"),
        (1, b"\xff\xff\xff\xff\x0f----", "a string is longer than the 9 bytes of its tensor"),
        (2, b"\x05\x05----", r"the strings are larger than their tensor \(at byte 0\)"),
        (1, b"\x80\x80\x80\x80\x80\0----", "the checksum of the string lengths does not match"),
        (1, b"\1----", "the strings end at byte 6 of a tensor of 5"),
        (1, b"\1----ab", "the strings end at byte 6 of a tensor of 7"),
        (1, b"\1----a", r"checksum of the string lengths does not match.*\(at byte 1\)"),
        (1, packed([b"a"])[0][:-1] + b"b", r"checksum of the tensor does not match.*byte 0\)"),
    ],
    ids=message_only,
)
def test_damaged_strings(tmp_path: Path, count: int, data: bytes, message: str) -> None:
    """A string tensor must hold its lengths, their checksum and its strings, and nothing more."""
    index = index_of(pair(b"words", entry(STRING, [count], 0, len(data), packed([b"a"])[1])))
    found = opened(tmp_path, index, data)
    with pytest.raises(InvalidFile, match=rf"variables\.data-00000-of-00001: .*{message}"):
        found.strings(b"words")


@pytest.mark.parametrize(
    ("count", "size", "message"),
    [
        (1, 8, "1 integers of 4 bytes in a tensor of 8"),
        (1 << 62, 8, "4,611,686,018,427,387,904 integers of 4 bytes in a tensor of 8"),
        (3, 12, r"12 bytes wanted, but the file ends at 8 \(at byte 0\)"),
        (2, 8, r"checksum of the tensor does not match: wanted 00000007, got [0-9a-f]{8}"),
    ],
    ids=message_only,
)
def test_damaged_integers(tmp_path: Path, count: int, size: int, message: str) -> None:
    """An integer tensor must have the size that its shape asks for, and lie in its file."""
    index = index_of(pair(b"ids", entry(INT32, [count], 0, size, 7)))
    found = opened(tmp_path, index, bytes(8))
    with pytest.raises(InvalidFile, match=rf"variables\.data-00000-of-00001: .*{message}"):
        found.integers(b"ids")


def test_file_that_shrinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another program cuts off while it is read is noticed."""
    prefix = write(tmp_path, GOLDEN_INDEX[:-9])
    monkeypatch.setattr(checkpoint, "_file_size", lambda path: len(GOLDEN_INDEX))
    with pytest.raises(InvalidFile, match=r"the file shrank while it was read \(at byte 139\)"):
        Checkpoint.open(prefix)


def read_all(prefix: Path) -> None:
    found = Checkpoint.open(prefix)
    for key, tensor in found.entries.items():
        if tensor.dtype == STRING:
            list(found.strings(key))
        else:
            found.integers(key)


def test_every_truncation(tmp_path: Path) -> None:
    """An index or a data file that was cut off anywhere is refused."""
    for length in range(len(GOLDEN_INDEX)):
        with pytest.raises(InvalidFile):
            opened(tmp_path, GOLDEN_INDEX[:length], GOLDEN_DATA)
    for length in range(len(GOLDEN_DATA)):
        with pytest.raises(InvalidFile):
            read_all(write(tmp_path, GOLDEN_INDEX, GOLDEN_DATA[:length]))


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def survives(prefix: Path) -> None:
    """Reading either works or says what is wrong; nothing else escapes."""
    try:
        read_all(prefix)
    except VocabtoolError as error:
        assert str(error)


def test_bit_flips(tmp_path: Path) -> None:
    """One flipped bit in an index never causes an error that is not ours."""
    chance = random.Random(1)
    for _ in range(300):
        index = flipped(GOLDEN_INDEX, chance.randrange(8 * len(GOLDEN_INDEX)))
        survives(write(tmp_path, index, GOLDEN_DATA))


def test_bit_flips_with_right_checksums(tmp_path: Path) -> None:
    """Nor does one that was made on purpose, so that every block's checksum is right."""
    chance = random.Random(2)
    block = GOLDEN_INDEX[:63]
    assert GOLDEN_INDEX.startswith(sealed(block))
    for _ in range(300):
        index = table([flipped(block, chance.randrange(8 * len(block)))])
        survives(write(tmp_path, index, GOLDEN_DATA))


def test_bit_flips_in_compressed_blocks(tmp_path: Path) -> None:
    """Nor does one inside compressed bytes, behind a right checksum."""
    chance = random.Random(3)
    packed = compressed(GOLDEN_INDEX[:63])[:-5]
    for _ in range(300):
        blocks = [sealed(flipped(packed, chance.randrange(8 * len(packed))), 1)]
        index = table_of(blocks, compressed(listing_of(handles_of(blocks))))
        survives(write(tmp_path, index, GOLDEN_DATA))


@given(value=st.binary(max_size=40), tail=st.binary(max_size=40), data=st.binary(max_size=40))
@settings(max_examples=100, deadline=None)
def test_arbitrary_bytes(
    tmp_path_factory: pytest.TempPathFactory, value: bytes, tail: bytes, data: bytes
) -> None:
    """Arbitrary bytes for an entry, for the rest of its block and for the data are survived."""
    words = pair(b"words", entry(STRING, [3], 0, len(data), 0))
    folder = tmp_path_factory.mktemp("bytes")
    for body in (HEADER + pair(b"a", value), HEADER + tail, HEADER + words):
        survives(write(folder, table([body + ONE_RESTART]), data))
