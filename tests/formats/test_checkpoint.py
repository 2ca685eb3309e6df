"""Checkpoints read as part of a model: written byte by byte here, by TensorFlow, by strangers."""

# own process: TensorFlow

from __future__ import annotations

import itertools
import json
import random
import re
import shutil
import struct
import tempfile
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vocabtool
from tests.builders import saved_model_bytes as b

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


varint = b.varint


def field(number: int, value: int | bytes) -> bytes:
    return b.number(number, value) if isinstance(value, int) else b.field(number, value)


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


# A graph with a string variable and a table that grows, and so with words in its checkpoint.
GRAPH = b.graph(
    b.node(b"v", b"VarHandleOp", dtype=b.number(6, b.STRING)),
    b.node(b"table", b"MutableHashTableV2"),
)
OPENING = "words in variables or mutable tables are not read: "


def inspected(folder: Path, index: bytes | None, *shards: bytes) -> vocabtool.Model:
    """A model with such a checkpoint; without an index only what lies in ``folder`` already."""
    (folder / "variables").mkdir(exist_ok=True)
    (folder / "saved_model.pb").write_bytes(b.saved_model(GRAPH))
    prefix = folder / "variables" / "variables"
    if index is not None:
        Path(f"{prefix}.index").write_bytes(index)
    for number, shard in enumerate(shards):
        Path(f"{prefix}.data-{number:05d}-of-{len(shards):05d}").write_bytes(shard)
    return vocabtool.inspect(folder)


def words(folder: Path, index: bytes | None, *shards: bytes) -> dict[str, list[bytes]]:
    """The strings of each variable."""
    model = inspected(folder, index, *shards)
    assert model.warnings == ()
    return {vocabulary.name: list(vocabulary.stored) for vocabulary in model.vocabularies}


def warning(folder: Path, index: bytes | None, *shards: bytes) -> str:
    model = inspected(folder, index, *shards)
    assert model.vocabularies == ()
    (found,) = model.warnings
    return found


def of_strings(strings: Sequence[bytes], shape: Sequence[int]) -> tuple[bytes, bytes]:
    """An index and a data file with the variable ``words``."""
    data, checksum = packed(strings)
    return index_of(pair(b"words", entry(STRING, shape, 0, len(data), checksum))), data


def of_table(keys: Sequence[bytes], dtype: int, values: bytes) -> tuple[bytes, bytes]:
    """An index and a data file with the table ``table``."""
    data, checksum = packed(keys)
    shape = [len(keys)]
    index = index_of(
        pair(b"table-keys", entry(STRING, shape, 0, len(data), checksum)),
        pair(b"table-values", entry(dtype, shape, len(data), len(values), masked(values))),
    )
    return index, data + values


def scalar(offset: int = 0) -> bytes:
    """A string without dimensions: it is passed over by its name, unread."""
    return entry(STRING, [], offset, 0, 0)


def names(model: vocabtool.Model) -> list[str]:
    assert model.warnings == ()
    return [item.name for item in model.passed_over]


def test_golden(tmp_path: Path) -> None:
    """A checkpoint that TensorFlow wrote reads as what was put into it."""
    assert words(tmp_path, GOLDEN_INDEX, GOLDEN_DATA) == {"words": [b"the", b"", b"\xff\n\0"]}
    # The writer of these tests makes the string tensor that TensorFlow made.
    assert packed([b"the", b"", b"\xff\n\0"]) == (GOLDEN_DATA[8:], 0x129A283E)


@given(st.lists(st.binary(max_size=9) | st.integers(120, 300).map(bytes) | st.just(bytes(16400))))
def test_strings_round_trip(strings: list[bytes]) -> None:
    """Any strings come back as they were written."""
    with tempfile.TemporaryDirectory() as folder:
        found = words(Path(folder), *of_strings(strings, [len(strings)]))
    assert found == {"words": strings}


@pytest.mark.parametrize(
    ("dtype", "code", "values"),
    [(INT32, "<i4", [-(2**31), 2**31 - 1]), (INT64, "<i8", [-(2**63), 2**63 - 1])],
)
def test_integer_types(tmp_path: Path, dtype: int, code: str, values: list[int]) -> None:
    """Each integer type is widened to int64 with its extremes intact."""
    index, data = of_table([b"a", b"b"], dtype, np.array(values, code).tobytes())
    (table,) = inspected(tmp_path, index, data).vocabularies
    assert table.id_array().tolist() == values


def test_only_the_slice_is_read(tmp_path: Path) -> None:
    """A small tensor at the end of a data file of 3 GB costs less than 4 MB of memory."""
    data, checksum = packed([b"far", b"away"])
    offset = 3 << 30
    index = index_of(pair(b"words", entry(STRING, [2], offset, len(data), checksum)))
    inspected(tmp_path, index, b"")
    with (tmp_path / "variables" / "variables.data-00000-of-00001").open("r+b") as file:
        file.seek(offset)  # leaves a hole, which takes no disk
        file.write(data)
    tracemalloc.start()
    (found,) = inspected(tmp_path, None).vocabularies
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert list(found.stored) == [b"far", b"away"]
    assert peak < 4 << 20


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n"


def test_what_is_no_file(tmp_path: Path) -> None:
    """An index that is not there or a folder; pointers of Git LFS; symbolic links."""
    index = tmp_path / "variables" / "variables.index"
    missing = r"variables\.index: no such file; is the checkpoint complete"
    assert re.search(missing, warning(tmp_path, None))
    index.mkdir()
    assert re.search(missing, warning(tmp_path, None))
    index.rmdir()
    assert re.search(r"variables\.index: a pointer of Git LFS.*pull", warning(tmp_path, POINTER))
    found = warning(tmp_path, GOLDEN_INDEX, POINTER)
    assert "data-00000-of-00001: a pointer of Git LFS" in found
    inspected(tmp_path, GOLDEN_INDEX, GOLDEN_DATA)
    for path in (index, index.with_name("variables.data-00000-of-00001"), index.parent):
        path.rename(tmp_path / "moved")
        path.symlink_to(tmp_path / "moved")
        assert "a symbolic link: it is not opened" in str(vocabtool.inspect(tmp_path).warnings)
        path.unlink()
        (tmp_path / "moved").rename(path)


def of_compression(number: int) -> bytes:
    blocks = [sealed(HEADER + ONE_RESTART, number)]
    return table_of(blocks, sealed(listing_of(handles_of(blocks))))


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


BARE = HEADER + ONE_RESTART


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (GOLDEN_INDEX, r"^variable words: .*variables\.data-00000-of-00001: no such file"),
        (
            index_of(
                *(pair(b"table" + side, entry(1, [1], 0, 0, 0)) for side in (b"-keys", b"-values"))
            ),
            "^table table: the keys are neither strings nor integers: words not read",
        ),
        (
            of_compression(2),
            r"variables\.index: the .*index is compressed with zstd, wanted Snappy",
        ),
        (index_of(header=pair(b"", field(1, 1) + field(2, 1))), r"variables\.index: the"),
        (
            index_of(pair(b"words", entry(STRING, [1], 0, 5, 0, shard=1))),
            "'words' is in data shard 1,",
        ),
        (flipped(GOLDEN_INDEX, 160), r"checksum of a block does not match.*at byte 0\)"),
        (table([BARE], [handle(0, len(BARE))] * 2), "a block overlaps the previous one"),
    ],
    ids=message_only,
)
def test_what_is_not_read(tmp_path: Path, index: bytes, message: str) -> None:
    """What is missing, of another kind or version, or listed twice makes the result incomplete."""
    assert re.search(message, warning(tmp_path, index))


EMPTY = entry(INT32, [0], 0, 0, masked(b""))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (b"", "not a checkpoint index: wanted 57fb808b247547db as the last 8 bytes"),
        (handle(0, 0) + handle(0, 1) + bytes(36) + MAGIC, "block of 1 bytes at 0 extends outside"),
        (
            table([], [handle(1 << 63, 4)]),
            "block of 4 bytes at 9,223,372,036,854,775,808 extends outside",
        ),
        (table([b"\0\0\0"]), "a block is too small for its restart points"),
        (table([HEADER + uint32(0) + uint32(0)]), r"keys out of order: '' follows ''"),
        (index_of(pair(b"b", EMPTY), pair(b"a", EMPTY)), "keys out of order: 'a' follows 'b'"),
        (
            index_of(pair(b"b", EMPTY, shared=1)),
            "a key shares 1 bytes with the previous key, which has only 0",
        ),
        (
            index_of(b"\0\1\x7fa"),
            r"a block: an entry is truncated: wanted 127 bytes at .* \(at byte 0\)",
        ),
        (
            index_of(pair(b"a", entry(3, [-1], 0, 0, 0))),
            "a shape of 1 dimensions, .* size -1; wanted at most 254, each of size 0 or more",
        ),
        (
            index_of(pair(b"a", entry(3, [1] * 255, 0, 0, 0))),
            "a shape of 255 dimensions, .* wanted at most 254",
        ),
        (index_of(pair(b"a", entry(3, [1 << 62, 2], 0, 0, 0))), r"more than 2\*\*63 - 1 elements"),
        (
            index_of(pair(b"a", entry(3, [], -1, 4, 0))),
            "data shard 0: a tensor of 4 bytes begins at byte -1,",
        ),
        (
            index_of(
                pair(b"a", entry(3, [2], 0, 8, 0)),
                pair(b"b", entry(3, [2], 0, 8, 0, shard=1)),
                pair(b"c", entry(3, [2], 4, 8, 0)),
            ),
            "data shard 0: a tensor of 8 bytes begins at byte 4, but the previous one ends at 8",
        ),
    ],
    ids=message_only,
)
def test_damaged_index(tmp_path: Path, index: bytes, message: str) -> None:
    """An index that breaks a rule of its format is refused, and the message names the file."""
    found = warning(tmp_path, index)
    assert re.search(rf"^{OPENING}.*variables\.index: .*{message}", found)


@given(
    keys=st.sets(st.text("abc/", min_size=1, max_size=9)),
    cuts=st.lists(st.integers(0, 99)),
    pack=st.booleans(),
)
def test_any_keys_in_any_blocks(keys: set[str], cuts: list[int], *, pack: bool) -> None:
    """Any keys come back in order, however they are spread over blocks."""
    listed = sorted(keys)
    places = [0, *sorted(min(cut, len(listed)) for cut in cuts), len(listed)]
    blocks = [HEADER + ONE_RESTART] + [
        b"".join(pair(key.encode(), scalar()) for key in listed[start:stop]) + ONE_RESTART
        for start, stop in itertools.pairwise(places)
    ]
    with tempfile.TemporaryDirectory() as folder:
        written = compressed_table(blocks) if pack else table(blocks)
        assert names(inspected(Path(folder), written)) == listed


BLOCK = HEADER + pair(b"a", field(90, bytes(100))) + ONE_RESTART  # 120 bytes
PACKED: bytes = pa.Codec("snappy").compress(BLOCK, asbytes=True)


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (
            varint(1 << 40) + PACKED[1:],
            "1,099,511,627,776 bytes decompressed, wanted at most 33,554,432",
        ),
        (
            b"\xf8" + bytes([128] * 8) + b"\0" + PACKED[1:],
            "Snappy cannot decompress the block, wanted 120 bytes",
        ),
        (PACKED[:1] + b"\xff" + PACKED[2:], "Snappy cannot decompress the block, wanted 120 bytes"),
    ],
    ids=message_only,
)
def test_damaged_compression(tmp_path: Path, packed: bytes, message: str) -> None:
    """A compressed block must unpack to just the size that stands at its head."""
    assert (len(BLOCK), PACKED[0]) == (120, 120)
    blocks = [sealed(packed, 1)]
    found = warning(tmp_path, table_of(blocks, sealed(listing_of(handles_of(blocks)))))
    assert re.search(rf"variables\.index: .*{message}.*\(at byte 0\)", found)


def test_compression_bomb(tmp_path: Path) -> None:
    """A small index that unpacks to very much is refused before it takes 100 MB."""
    large = field(90, bytes((16 << 20) - 100))
    blocks = [HEADER + ONE_RESTART]
    blocks += [pair(b"%d" % number, large) + ONE_RESTART for number in range(9)]
    index = compressed_table(blocks)
    assert len(index) < 8_000_000
    tracemalloc.start()
    found = warning(tmp_path, index)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "the blocks have more than 33,554,432 bytes" in found
    assert peak < 100_000_000


def test_caps(tmp_path: Path) -> None:
    """The size of an index, the number of its tensors, their keys and their size are limited."""
    found = warning(tmp_path, bytes((32 << 20) + 1))
    assert "variables.index: the index has 33,554,433 bytes, wanted at most 33,554,432" in found
    index = index_of(*(pair(b"%06d" % number, scalar()) for number in range((1 << 18) + 1)))
    assert "variables.index: more than 262,144 tensors" in warning(tmp_path, index)
    keys = (pair(b"%06d" % number, scalar(), 8_000) for number in range(5_000))
    index = index_of(pair(b"0" * 8_000, scalar()), *keys)
    assert "a block: the keys have more than 33,554,432 bytes" in warning(tmp_path, index)
    index = index_of(pair(b"words", entry(STRING, [1], 0, (256 << 20) + 1, 0)))
    assert "tensor 'words' has 268,435,457 bytes, wanted at most 268,435,456" in warning(
        tmp_path, index
    )


@pytest.mark.parametrize(
    ("count", "data", "message"),
    [
        (2, b"\0\0\0\0\0", "2 strings do not fit in a tensor of 5 bytes"),
        (1, b"\xff\xff\xff\xff\xff", r"wanted 1 .*, got 0 \(at byte 0\)"),
        (1, b"\x06----", "a string is longer than the whole list, which has 5 bytes"),
        (2, b"\x05\x05----", r"the strings need 16 bytes, got 6 \(at byte 0\)"),
        (1, b"\1----", "the strings need 6 bytes, got 5"),
        (1, b"\1----a", r"checksum of the string lengths does not match.*\(at byte 1\)"),
        (1, packed([b"a"])[0][:-1] + b"b", r"checksum of the tensor does not match.*byte 0\)"),
    ],
    ids=message_only,
)
def test_damaged_strings(tmp_path: Path, count: int, data: bytes, message: str) -> None:
    """A string tensor must hold its lengths, their checksum and its strings, and nothing more."""
    index = index_of(pair(b"words", entry(STRING, [count], 0, len(data), packed([b"a"])[1])))
    found = warning(tmp_path, index, data)
    assert re.search(rf"^variable words: .*variables\.data-00000-of-00001: .*{message}", found)


@pytest.mark.parametrize(
    ("count", "size", "message"),
    [
        (1, 8, "1 integers of 4 bytes do not match the tensor's size of 8 bytes"),
        (3, 12, r"wanted 12 bytes, but the file ends at byte 13 \(at byte 5\)"),
        (2, 8, r"checksum of the tensor does not match: wanted 00000007, got [0-9a-f]{8}"),
    ],
    ids=message_only,
)
def test_damaged_integers(tmp_path: Path, count: int, size: int, message: str) -> None:
    """An integer tensor must have the size that its shape asks for, and lie in its file."""
    data, checksum = packed([b""])
    index = index_of(
        pair(b"table-keys", entry(STRING, [1], 0, len(data), checksum)),
        pair(b"table-values", entry(INT32, [count], len(data), size, 7)),
    )
    found = warning(tmp_path, index, data + bytes(8))
    assert re.search(rf"^table table: .*variables\.data-00000-of-00001: .*{message}", found)


def test_every_truncation(tmp_path: Path) -> None:
    """An index or a data file that was cut off anywhere is refused."""
    for length in range(len(GOLDEN_INDEX)):
        assert warning(tmp_path, GOLDEN_INDEX[:length], GOLDEN_DATA).startswith(OPENING)
    for length in range(len(GOLDEN_DATA)):
        found = warning(tmp_path, GOLDEN_INDEX, GOLDEN_DATA[:length])
        assert found.startswith("variable words: ")


def test_bit_flips(tmp_path: Path) -> None:
    """One flipped bit is survived: anywhere in an index; in a block whose checksum was made
    right, on purpose; and inside compressed bytes."""
    chance = random.Random(1)
    block = GOLDEN_INDEX[:63]
    assert GOLDEN_INDEX.startswith(sealed(block))
    packed_block = compressed(block)[:-5]
    for _ in range(300):
        inspected(tmp_path, flipped(GOLDEN_INDEX, chance.randrange(8 * len(GOLDEN_INDEX))))
        changed = flipped(block, chance.randrange(8 * len(block)))
        inspected(tmp_path, table([changed]), GOLDEN_DATA)
        blocks = [sealed(flipped(packed_block, chance.randrange(8 * len(packed_block))), 1)]
        inspected(tmp_path, table_of(blocks, compressed(listing_of(handles_of(blocks)))))
        assert len(vocabtool.inspect(tmp_path).warnings) <= 1


# TensorFlow's own writers.


def tensorflow() -> Any:
    return pytest.importorskip("tensorflow", reason="the oracle: pip install '.[dev]'")


def prefix_in(folder: Path) -> str:
    (folder / "variables").mkdir()
    return str(folder / "variables" / "variables")


def save(folder: Path, **tensors: Any) -> None:
    """Let TensorFlow's writer save tensors under their names."""
    tensorflow().raw_ops.SaveV2(
        prefix=prefix_in(folder),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def test_shared_models(shared: Path, tmp_path: Path) -> None:
    """Of strangers' checkpoints the same string tensors are found as TensorFlow lists; the indexes
    of two, written inside Google, are compressed."""
    tf = tensorflow()
    truth = json.loads((shared / "models" / "truth.json").read_bytes())
    for name in (model["short"] for model in truth):
        prefix = shared / "models" / name / "variables" / "variables"
        if not prefix.parent.is_dir():
            continue
        types = tf.train.load_checkpoint(str(prefix)).get_variable_to_dtype_map()
        (tmp_path / name / "variables").mkdir(parents=True)
        for file in prefix.parent.iterdir():
            if file.name.endswith(".index") or file.stat().st_size < 1 << 20:
                shutil.copy(file, tmp_path / name / "variables")
        model = inspected(tmp_path / name, None)
        assert model.warnings == ()
        places = [item.place for item in model.passed_over]
        places += [place for vocabulary in model.vocabularies for place in vocabulary.places]
        wanted = {key for key, dtype in types.items() if dtype == tf.string}
        assert {place.place for place in places} == wanted, name
    assert len([*tmp_path.iterdir()]) > 5


@pytest.mark.parametrize(
    "strings",
    [
        [],
        [b"\xff\xfe", "Äpfel".encode(), b"a\0b", b"line\nbreak", b" space "],
        [b"a" * 127, b"b" * 128, b"c" * 16383, b"d" * 16384, b"e" * 2097152],
        [b"x" * (i % 300) for i in range(20_000)],
    ],
    ids=["none", "bytes", "long", "many"],
)
def test_strings_of_tensorflow(tmp_path: Path, strings: list[bytes]) -> None:
    """String tensors of TensorFlow's writer come back byte for byte."""
    tf = tensorflow()
    save(tmp_path, words=tf.constant(strings, tf.string))
    assert words(tmp_path, None) == {"words": strings}


def test_shapes(tmp_path: Path) -> None:
    """Scalars and matrices are passed over with their size; numbers and weights are left out."""
    tf = tensorflow()
    save(
        tmp_path,
        scalar=tf.constant(b"one"),
        matrix=tf.constant([[b"a", b"b"], [b"c", b"d"]]),
        row=tf.constant([[b"a", b"b"]]),
        none=tf.zeros([0, 3], tf.string),
        int64=tf.constant([-(2**63), 2**63 - 1], tf.int64),
        weights=tf.constant([0.5, 1.5]),
    )
    assert words(tmp_path, None) == {"row": [b"a", b"b"], "none": []}
    sizes = {item.name: item.size for item in inspected(tmp_path, None).passed_over}
    assert sizes == {"scalar": 1, "matrix": 4}


def test_several_blocks(tmp_path: Path) -> None:
    """An index of many blocks, with shared prefixes and restart points, is read to its end."""
    names = [f"layer_{i:05d}/kernel_{'x' * (i % 97)}" for i in range(5000)]
    save(tmp_path, **{name: tensorflow().constant("a") for name in names})
    assert (tmp_path / "variables" / "variables.index").stat().st_size > 262_144  # one block
    assert [item.name for item in inspected(tmp_path, None).passed_over] == names


def test_merged_and_partitioned(tmp_path: Path) -> None:
    """Merged checkpoints have several data files; whole tensors are read, partitioned refused."""
    tf = tensorflow()
    for name, part in (("left", "4 0,2"), ("right", "4 2,2")):
        tf.raw_ops.SaveV2(
            prefix=str(tmp_path / name),
            tensor_names=["parts", name],
            shape_and_slices=[part, ""],
            tensors=[tf.constant([b"p", b"q"]), tf.constant([name.encode()])],
        )
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=[str(tmp_path / "left"), str(tmp_path / "right")],
        destination_prefix=prefix_in(tmp_path),
    )
    model = inspected(tmp_path, None)
    assert {v.name: v.tokens for v in model.vocabularies} == {"left": ["left"], "right": ["right"]}
    (warning,) = model.warnings
    assert "'parts' is partitioned" in warning
