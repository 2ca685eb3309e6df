"""TensorFlow Text's tokenizers, in buffers written here: what they hold, and lies refused."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError
from vocabtool.formats.pieces import Pieces
from vocabtool.formats.saved_model.tokenizers import (
    read_fast_sentencepiece,
    read_phrase,
    read_wordpiece,
)

Read = Callable[[bytes], Pieces]
Vector = bytes | list[int] | list[bytes]
Value = int | Vector | dict[int, Any]  # of a field; a dict is a table

# A writer of flatbuffers: each field of four bytes, then what the fields refer to.


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def vector(value: Vector) -> bytes:
    """A string, a vector of uint32 or a vector of strings, with its length before it."""
    head = struct.pack("<I", len(value))
    if isinstance(value, bytes):
        return padded(head + value + b"\0")
    body = b""
    items: Sequence[int | bytes] = value
    for at, item in enumerate(items):
        if isinstance(item, int):
            head += struct.pack("<I", item)
        else:
            head += struct.pack("<I", 4 * (len(value) - at) + len(body))
            body += vector(item)
    return head + body


def table(fields: dict[int, Value]) -> tuple[bytes, int]:
    """A table behind its vtable, and where in these bytes the table begins."""
    slots = [0] * (max(fields) + 1)
    for at, field in enumerate(sorted(fields)):
        slots[field] = 4 + 4 * at
    sizes = 4 + 2 * len(slots), 4 + 4 * len(fields)
    vtable = padded(struct.pack(f"<HH{len(slots)}H", *sizes, *slots))
    data = bytearray(struct.pack("<i", len(vtable)) + bytes(4 * len(fields)))
    for field, value in fields.items():
        at = slots[field]
        if isinstance(value, int):
            struct.pack_into("<i", data, at, value)
            continue
        target, start = table(value) if isinstance(value, dict) else (vector(value), 0)
        struct.pack_into("<I", data, at, len(data) + start - at)
        data += target
    return vtable + bytes(data), len(vtable)


def buffer_of(fields: dict[int, Value]) -> bytes:
    data, start = table(fields)
    return struct.pack("<I", 4 + start) + data


def trie(keys: dict[bytes, int]) -> list[int]:
    """A double array in which each prefix has 256 units of its own."""
    prefixes = sorted({key[:length] for key in keys for length in range(len(key) + 1)})
    bases = {prefix: 256 * (1 + at) for at, prefix in enumerate(prefixes)}
    units = [0] * (256 * (1 + len(prefixes)))
    for prefix, base in bases.items():
        node = bases[prefix[:-1]] ^ prefix[-1] if prefix else 0
        units[node] = (node ^ base) << 10 | (prefix[-1] if prefix else 0)
        if prefix in keys:
            units[node] |= 1 << 8
            units[base] = 1 << 31 | keys[prefix]
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
PHRASE: dict[int, Value] = {1: b"<UNK>", 2: 0, 5: {0: trie({b"<UNK>": 0, b"a b": 1})}}


def ids_and_entries(pieces: Pieces) -> dict[int, bytes]:
    ids = range(len(pieces.entries)) if pieces.ids is None else pieces.ids.tolist()
    return dict(zip(ids, pieces.entries, strict=True))


def test_wordpieces_of_a_trie() -> None:
    """Words and suffixes come from two roots; what only stands for the unknown does not."""
    found = read_wordpiece(buffer_of(WORDPIECE))
    assert ids_and_entries(found) == {0: b"un", 1: b"[UNK]", 4: b"##do"}
    assert found.unknown_id == 1
    assert found.notes == (
        "## marks a continuation",
        "words of more than 100 bytes are unknown",
        "splits text at white space, punctuation and Chinese characters by itself",
        "ids not in the buffer: 2 (2, 3), "
        "pieces with punctuation or Chinese characters inside that can never be produced",
    )


def test_wordpieces_of_a_list() -> None:
    """A list of words, kept for detokenization, is believed, and suffixes get their mark back."""
    found = read_wordpiece(
        buffer_of(WORDPIECE | {10: 0, 12: [b"un", b"[UNK]", b"##", b"do", b""], 13: b"\0\0\0\1\1"})
    )
    assert list(found.entries) == [b"un", b"[UNK]", b"##", b"##do", b"##"]
    assert found.ids is None
    assert found.unknown_id == 1
    assert found.notes == ("## marks a continuation", "words of more than 100 bytes are unknown")


def test_an_indicator_cannot_drive_a_terminal() -> None:
    """Control characters in the indicator are escaped in the note on it."""
    notes = read_wordpiece(buffer_of({**WORDPIECE, 5: b"\x1b["})).notes
    assert notes[0] == r"\x1b[ marks a continuation"


def test_pieces_of_the_indicator() -> None:
    """Pieces that only cutting the indicator itself makes are found in its stored result."""
    as_two = [wordpiece_value(2, 1), wordpiece_value(7, 1, suffix=True)]
    found = read_wordpiece(buffer_of(WORDPIECE | {8: as_two}))
    assert ids_and_entries(found) == {0: b"un", 1: b"[UNK]", 2: b"#", 4: b"##do", 7: b"###"}
    found = read_wordpiece(buffer_of(WORDPIECE | {8: [wordpiece_value(2, 2)]}))
    assert ids_and_entries(found) == {0: b"un", 1: b"[UNK]", 2: b"##", 4: b"##do"}
    found = read_wordpiece(buffer_of(WORDPIECE | {8: [wordpiece_value(1, 5)]}))
    assert ids_and_entries(found) == {0: b"un", 1: b"[UNK]", 4: b"##do"}


def test_phrases_of_a_trie() -> None:
    """Phrases are the keys of the trie, the unknown token among them."""
    found = read_phrase(buffer_of(PHRASE))
    assert list(found.entries) == [b"<UNK>", b"a b"]
    assert found.ids is None
    assert found.unknown_id == 0


def test_sentencepieces_of_a_trie() -> None:
    """Ids are shifted by the offset, and the note counts what the buffer does not store."""
    found = read_fast_sentencepiece(buffer_of(SENTENCEPIECE | {5: 100}))
    assert ids_and_entries(found) == {101: b"a", 102: b"b"}
    assert found.unknown_id == 0
    assert found.notes == (
        "▁ stands for a space",
        "1 of 3 pieces are not stored in this buffer: unknown and control",
        "ids are shifted by 100",
    )
    without_unknown = {key: value for key, value in SENTENCEPIECE.items() if key != 3}
    assert read_fast_sentencepiece(buffer_of(without_unknown)).unknown_id is None


def test_many_missing_ids() -> None:
    """A note names the first five of the missing ids."""
    values = {b"a": wordpiece_value(1000, 1)}
    found = read_wordpiece(buffer_of(WORDPIECE | {0: trie(values), 3: 0, 5: b"", 10: 0}))
    assert found.notes[-1] == (
        "ids not in the buffer: 999 (0, 2, 3, 4, 5, ...), pieces that can never be produced"
    )


MALFORMED: dict[str, tuple[Read, dict[int, Value], str]] = {
    "two pieces, one id": (
        read_wordpiece,
        {**WORDPIECE, 0: trie({b"a": wordpiece_value(7, 1), b"b": wordpiece_value(7, 1)}), 3: 0},
        r"two pieces have id 7: b'a' and b'b'",
    ),
    "two phrases, one id": (
        read_phrase,
        {**PHRASE, 5: {0: trie({b"a": 3, b"b": 3})}},
        r"two pieces have id 3: b'a' and b'b'",
    ),
    "suffix root outside": (
        read_wordpiece,
        {**WORDPIECE, 3: 1 << 20},
        r"a trie of 2,560 units has no unit 1,048,576",
    ),
    "no trie": (
        read_wordpiece,
        {**WORDPIECE, 0: []},
        r"a trie of 0 units, wanted 1 to 67,108,864",
    ),
    "long indicator": (
        read_wordpiece,
        {**WORDPIECE, 5: b"#" * 257},
        r"a suffix indicator of 257 bytes, wanted at most 256",
    ),
    "no indicator": (
        read_wordpiece,
        {key: value for key, value in WORDPIECE.items() if key != 5},
        r"field 5 is missing, wanted a string \(at byte \d+\)",
    ),
    "negative unknown id": (
        read_wordpiece,
        {**WORDPIECE, 7: -1},
        r"the unknown piece has id -1, wanted 0 or more",
    ),
    "unknown word outside": (
        read_wordpiece,
        {**WORDPIECE, 7: 2, 12: [b"a", b"b"], 13: b"\0\0"},
        r"the unknown piece has id 2, wanted 0 to 1",
    ),
    "unknown phrase outside": (
        read_phrase,
        {**PHRASE, 2: -1, 4: [b"a", b"b"]},
        r"the unknown piece has id -1, wanted 0 to 1",
    ),
    "too few marks": (
        read_wordpiece,
        {**WORDPIECE, 12: [b"a", b"b"], 13: b"\0"},
        r"2 words, but 1 marks for suffixes",
    ),
    "long suffixes": (
        read_wordpiece,
        {**WORDPIECE, 0: [0], 5: b"#" * 256, 12: [b""] * 100, 13: b"\1" * 100},
        r"the words take 25,600 bytes, wanted at most 6,688",
    ),
    "no score for a piece": (
        read_fast_sentencepiece,
        {**SENTENCEPIECE, 7: [0, 0]},
        r"a piece has id 2, but there are 2 scores",
    ),
    "no table of pieces": (
        read_fast_sentencepiece,
        {7: [0]},
        r"field 6 is missing, wanted a table \(at byte \d+\)",
    ),
}


@pytest.mark.parametrize(("read", "fields", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed(read: Read, fields: dict[int, Value], message: str) -> None:
    """A buffer that contradicts itself is refused, and the error says how."""
    with pytest.raises(InvalidFile, match=f"^{message}$"):
        read(buffer_of(fields))


def test_other_version() -> None:
    """An encoder of another version is refused, with a way out."""
    with pytest.raises(UnsupportedFormat, match=r"^version 1 .* read the SentencePiece model"):
        read_fast_sentencepiece(buffer_of(SENTENCEPIECE | {0: 1}))


@pytest.mark.parametrize(
    ("read", "fields"),
    [
        (read_wordpiece, WORDPIECE),
        (read_wordpiece, {**WORDPIECE, 12: [b"un", b"[UNK]", b"do"], 13: b"\0\0\1"}),
        (read_phrase, PHRASE),
        (read_fast_sentencepiece, SENTENCEPIECE),
    ],
    ids=["wordpiece", "listed wordpiece", "phrase", "sentencepiece"],
)
def test_damaged(read: Read, fields: dict[int, Value]) -> None:
    """Each bit that is set, once cleared, gives other pieces or an error of ours."""
    buffer = buffer_of(fields)
    for position in (at for at, byte in enumerate(buffer) if byte):
        for bit in range(8):
            damaged = bytearray(buffer)
            damaged[position] &= ~(1 << bit)
            try:
                list(read(bytes(damaged)).entries)
            except VocabtoolError as error:
                assert str(error)
