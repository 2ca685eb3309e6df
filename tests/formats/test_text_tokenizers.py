"""TensorFlow Text's tokenizers, in buffers written here: what they hold, and lies refused.

Their words are the keys of tries in the layout of darts-clone, written here unit by unit.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import vocabtool
from tests.builders import saved_model_bytes as b
from vocabtool import Vocabulary

WORDPIECE_OP = b"FastWordpieceTokenizeWithOffsets"
SENTENCEPIECE_OP = b"TFText>FastSentencepieceTokenize"

Units = NDArray[np.uint32]
Vector = bytes | list[int] | list[bytes] | Units
Value = int | Vector | dict[int, Any]  # of a field; a dict is a table


def buffer_of(fields: dict[int, Value]) -> bytes:
    """A flatbuffer, written by the library that owns the format."""
    builder = flatbuffers.Builder()
    builder.ForceDefaults(True)
    builder.Finish(table(builder, fields))
    return bytes(builder.Output())


def table(builder: Any, fields: dict[int, Value]) -> int:
    held = {at: made(builder, v) for at, v in fields.items() if not isinstance(v, int)}
    builder.StartObject(max(fields) + 1)
    for at, value in fields.items():
        if at in held:
            builder.PrependUOffsetTRelativeSlot(at, held[at], 0)
        else:
            builder.PrependInt32Slot(at, value, 0)
    return int(builder.EndObject())


def made(builder: Any, value: Vector | dict[int, Any]) -> int:
    """A table, a string, a vector of numbers or a vector of strings."""
    if isinstance(value, dict):
        return table(builder, value)
    if isinstance(value, bytes):
        return int(builder.CreateString(value))
    if isinstance(value, np.ndarray):
        return int(builder.CreateNumpyVector(value))
    items = [builder.CreateString(item) if isinstance(item, bytes) else item for item in value]
    prepend = builder.PrependUint32
    if any(isinstance(item, bytes) for item in value):
        prepend = builder.PrependUOffsetTRelative
    builder.StartVector(4, len(items), 4)
    for item in reversed(items):
        prepend(item)
    return int(builder.EndVector())


HAS_VALUE, FAR, VALUE = 1 << 8, 1 << 9, 1 << 31


def trie(keys: dict[bytes, int]) -> Units:
    """A double array in which each prefix has 256 units of its own: wasteful, and plainly right.

    The children of the prefix with base ``b`` are the units ``b ^ label``, its value is ``b``.
    """
    prefixes = sorted({key[:length] for key in keys for length in range(len(key) + 1)})
    bases = {prefix: 256 * (1 + at) for at, prefix in enumerate(prefixes)}
    units = np.zeros(256 * (1 + len(prefixes)), np.uint32)
    for prefix, base in bases.items():
        node = bases[prefix[:-1]] ^ prefix[-1] if prefix else 0
        units[node] = (node ^ base) << 10 | (prefix[-1] if prefix else 0)
        if prefix in keys:
            units[node] |= HAS_VALUE
            units[base] = VALUE | keys[prefix]
    return units


def root_of(prefix: bytes, keys: dict[bytes, int]) -> int:
    """The unit of one prefix in the array above."""
    prefixes = sorted({key[:length] for key in keys for length in range(len(key) + 1)})
    return 256 * (1 + prefixes.index(prefix[:-1])) ^ prefix[-1]


def wordpiece_value(id_: int, length: int, suffix: bool = False) -> int:
    return suffix << 30 | id_ << 8 | length - 1


WORDPIECES = {
    b"un": wordpiece_value(0, 2),
    b"!": wordpiece_value(1, 1),  # a mark that the vocabulary lacks: the unknown id
    b"##do": wordpiece_value(4, 2, suffix=True),
    b"##\x11": wordpiece_value(1, 1, suffix=True),  # TensorFlow Text's own dummy
}
WORDPIECE: dict[int, Value] = {
    0: trie(WORDPIECES),
    3: root_of(b"##", WORDPIECES),
    4: 100,
    5: b"##",
    6: b"[UNK]",
    7: 1,
    10: 1,
}
SENTENCEPIECE: dict[int, Value] = {6: {0: trie({b"a": 1, b"b": 2})}, 7: [0, 0, 0], 3: 0}


def inspected(op: bytes, fields: dict[int, Value] | bytes) -> vocabtool.Model:
    buffer = fields if isinstance(fields, bytes) else buffer_of(fields)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "saved_model.pb").write_bytes(b.tokenizer(op, buffer))
        return vocabtool.inspect(folder)


def read(op: bytes, fields: dict[int, Value] | bytes) -> Vocabulary:
    model = inspected(op, fields)
    assert model.warnings == ()
    (vocabulary,) = model.vocabularies
    assert vocabulary.name == "cutter"
    return vocabulary


def unknown_id(vocabulary: Vocabulary) -> int | None:
    return vocabulary.unknown.id if vocabulary.unknown else None


# "a" is 3, "ab" is 1 and "\xff" is 2^31 - 1: the units of a trie with blocks 1 to 4.
SMALL = np.zeros(1280, np.uint32)
SMALL[0] = (0 ^ 256) << 10  # the root's children begin at unit 256
SMALL[256 ^ 0x61] = (256 ^ 0x61 ^ 512) << 10 | HAS_VALUE | 0x61
SMALL[512] = VALUE | 3
SMALL[512 ^ 0x62] = (512 ^ 0x62 ^ 768) << 10 | HAS_VALUE | 0x62
SMALL[768] = VALUE | 1
SMALL[256 ^ 0xFF] = (256 ^ 0xFF ^ 1024) << 10 | HAS_VALUE | 0xFF
SMALL[1024] = VALUE | (2**31 - 1)


def changed(array: Units, units: dict[int, int]) -> Units:
    """An array with some units replaced, made longer where they lie behind it."""
    longer = np.zeros(max(len(array), 256 * (max(units) // 256 + 1)), np.uint32)
    longer[: len(array)] = array
    longer[list(units)] = list(units.values())
    return longer


def children(base: int, next_base: int, flags: int = 0) -> dict[int, int]:
    """255 children of the node with this base, which share their own children."""
    return {
        base ^ label: (base ^ label ^ next_base) << 10 | flags | label for label in range(1, 256)
    }


def overlong() -> Units:
    """65,025 keys of 4,002 bytes in 1 MB: all share their beginnings, and their endings."""
    units = trie({b"\xfe" * 4000: 1})
    last = len(units) - 256
    shared = children(last, last + 256) | children(last + 256, last + 512, HAS_VALUE)
    return changed(units, {**shared, last + 512: VALUE | 1})


CIRCLE = changed(SMALL[:0], {0: 256 << 10, 256 ^ 0x61: (256 ^ 0x61 ^ 256) << 10 | 0x61})
EXPLOSION = changed(  # each of 255 nodes has the same 255 children, four times
    SMALL[:0],
    {0: 256 << 10, 1535: 0}
    | children(256, 512)
    | children(512, 768)
    | children(768, 1024)
    | children(1024, 1280),
)


def test_phrases_are_refused_by_name() -> None:
    """The words of a PhraseTokenizer are not read, and the model is incomplete."""
    model = inspected(b"TFText>PhraseTokenize", {2: 0, 5: {0: SMALL}})
    (warning,) = model.warnings
    assert (model.vocabularies, "a PhraseTokenizer, whose words" in warning) == ((), True)


MALFORMED: dict[str, tuple[bytes, dict[int, Value], str]] = {
    "two pieces, one id": (
        WORDPIECE_OP,
        {**WORDPIECE, 0: trie({b"a": wordpiece_value(7, 1), b"b": wordpiece_value(7, 1)}), 3: 0},
        r"two pieces have id 7: b'a' and b'b'",
    ),
    "suffix root outside": (WORDPIECE_OP, {**WORDPIECE, 3: 1 << 20}, r"a trie of 2,560 units has"),
    "no trie": (WORDPIECE_OP, {**WORDPIECE, 0: []}, r"a trie has 0 units; wanted 1 to 67,108,864"),
    "long indicator": (WORDPIECE_OP, {**WORDPIECE, 5: b"#" * 257}, r"the suffix indicator has 257"),
    "no indicator": (
        WORDPIECE_OP,
        {key: value for key, value in WORDPIECE.items() if key != 5},
        r"field 5 is missing, wanted a string \(at byte \d+\)",
    ),
    "negative unknown id": (WORDPIECE_OP, {**WORDPIECE, 7: -1}, r"the unknown piece has id -1,"),
    "unknown word outside": (
        WORDPIECE_OP,
        {**WORDPIECE, 7: 2, 12: [b"a", b"b"], 13: b"\0\0"},
        r"the unknown piece has id 2, wanted 0 to 1",
    ),
    "too few marks": (
        WORDPIECE_OP,
        {**WORDPIECE, 12: [b"a", b"b"], 13: b"\0"},
        r"2 words, but 1 suffix flags",
    ),
    "long suffixes": (
        WORDPIECE_OP,
        {**WORDPIECE, 0: [0], 5: b"#" * 256, 12: [b""] * 100, 13: b"\1" * 100},
        r"the words take 25,600 bytes, wanted at most",
    ),
    "no score for a piece": (SENTENCEPIECE_OP, {**SENTENCEPIECE, 7: [0, 0]}, r"a piece has id 2,"),
    "value outside": (
        SENTENCEPIECE_OP,
        {**SENTENCEPIECE, 6: {0: SMALL[:1024]}},
        r"unit 511 of a trie .* unit 1,024",
    ),
    "circle": (
        SENTENCEPIECE_OP,
        {**SENTENCEPIECE, 6: {0: CIRCLE}},
        r"a key of a trie is longer than 8,192 bytes:",
    ),
    "explosion": (
        SENTENCEPIECE_OP,
        {**SENTENCEPIECE, 6: {0: EXPLOSION}},
        r"a trie of 1,536 units has more than",
    ),
    "keys too long": (
        SENTENCEPIECE_OP,
        {**SENTENCEPIECE, 6: {0: overlong()}},
        r"the keys of a trie take",
    ),
    "other version": (
        SENTENCEPIECE_OP,
        {**SENTENCEPIECE, 0: 1},
        r".*has version 1, wanted 0; pass the",
    ),
}


@pytest.mark.parametrize(("op", "fields", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed(op: bytes, fields: dict[int, Value], message: str) -> None:
    """A buffer that contradicts itself is refused, and the warning says how."""
    model = inspected(op, fields)
    assert model.vocabularies == ()
    (warning,) = model.warnings
    assert re.match(rf"tokenizer graph/cutter/op: {message}", warning)


@pytest.mark.parametrize(
    ("op", "fields"),
    [
        (WORDPIECE_OP, WORDPIECE),
        (WORDPIECE_OP, {**WORDPIECE, 12: [b"un", b"[UNK]", b"do"], 13: b"\0\0\1"}),
        (SENTENCEPIECE_OP, SENTENCEPIECE),
    ],
    ids=["wordpiece", "listed wordpiece", "sentencepiece"],
)
def test_damaged(op: bytes, fields: dict[int, Value]) -> None:
    """Each bit that is set, once cleared, gives other pieces or a warning; so does any end."""
    buffer = buffer_of(fields)
    for length in range(0, len(buffer), 97):
        model = inspected(op, buffer[:length])
        assert len(model.vocabularies) + len(model.warnings) == 1
    for position in (at for at, byte in enumerate(buffer) if byte):
        for bit in range(8):
            damaged = bytearray(buffer)
            damaged[position] &= ~(1 << bit)
            model = inspected(op, bytes(damaged))
            assert len(model.vocabularies) + len(model.warnings) == 1


# Keys of a trie come back from its units.


def keys_of(units: Units) -> dict[bytes, int]:
    """The keys of a trie with their values: pieces and their ids."""
    found = read(SENTENCEPIECE_OP, {**SENTENCEPIECE, 6: {0: units}, 7: [0] * 1000})
    return dict(zip(found.stored, found.id_array().tolist(), strict=True))


def test_far_offset() -> None:
    """With bit 9 set an offset counts in steps of 256 units."""
    node = 256 ^ 0x61
    base = 256 * 9000 + 0x61  # the offset cannot change the last 8 bits
    units = {
        0: 256 << 10,
        node: (node ^ base) >> 8 << 10 | FAR | HAS_VALUE | 0x61,
        base: VALUE | 5,
        base ^ 0x62: (base ^ 0x62 ^ base + 256) << 10 | 0x62,
    }
    assert keys_of(changed(SMALL[:0], units)) == {b"a": 5}


@given(st.sets(st.binary(min_size=1, max_size=6).filter(lambda key: 0 not in key), min_size=1))
def test_any_keys_come_back(keys: set[bytes]) -> None:
    """Whatever is put in comes out."""
    numbered = {key: 7 * number + 3 for number, key in enumerate(keys)}
    assert keys_of(trie(numbered)) == numbered
