"""Double-array tries, written here unit by unit: every key and value comes out again."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.formats.saved_model import double_array
from vocabtool.formats.saved_model.double_array import DoubleArray

HAS_VALUE = 1 << 8
FAR = 1 << 9
VALUE = 1 << 31


def units(given_units: dict[int, int], size: int) -> NDArray[np.uint32]:
    """An array of mostly empty units."""
    array = np.zeros(size, np.uint32)
    array[list(given_units)] = list(given_units.values())
    return array


def double_array_of(keys: dict[bytes, int]) -> NDArray[np.uint32]:
    """Write a trie in which each prefix has 256 units of its own: wasteful, and plainly right.

    The children of the prefix with base ``b`` are the units ``b ^ label``, its value is ``b``.
    """
    prefixes = sorted({key[:length] for key in keys for length in range(len(key) + 1)})
    bases = {prefix: 256 * (1 + at) for at, prefix in enumerate(prefixes)}
    array = np.zeros(256 * (1 + len(prefixes)), np.uint32)
    for prefix, base in bases.items():
        node = bases[prefix[:-1]] ^ prefix[-1] if prefix else 0
        array[node] = (node ^ base) << 10 | (prefix[-1] if prefix else 0)
        if prefix in keys:
            array[node] |= HAS_VALUE
            array[base] = VALUE | keys[prefix]
    return array


def items(array: NDArray[np.uint32], root: int = 0) -> dict[bytes, int]:
    """All keys below a root with their values; a repeated key would be lost, so none may be."""
    leaves = DoubleArray(array).walk(root)
    found = dict(zip(leaves.keys(), leaves.values.tolist(), strict=True))
    assert len(found) == len(leaves)
    return found


# "a" is 3, "ab" is 1 and "\xff" is 2^31 - 1: the units of a trie with blocks 1 to 4.
SMALL = units(
    {
        0: (0 ^ 256) << 10,  # the root's children begin at unit 256
        256 ^ 0x61: (256 ^ 0x61 ^ 512) << 10 | HAS_VALUE | 0x61,
        512: VALUE | 3,
        512 ^ 0x62: (512 ^ 0x62 ^ 768) << 10 | HAS_VALUE | 0x62,
        768: VALUE | 1,
        256 ^ 0xFF: (256 ^ 0xFF ^ 1024) << 10 | HAS_VALUE | 0xFF,
        1024: VALUE | (2**31 - 1),
    },
    1280,
)


def test_small() -> None:
    """Keys come with their values, those that are prefixes of others too, shortest first."""
    leaves = DoubleArray(SMALL).walk()
    assert list(leaves.keys()) == [b"a", b"\xff", b"ab"]
    assert leaves.values.tolist() == [3, 2**31 - 1, 1]
    assert leaves.lengths.tolist() == [1, 1, 2]


def test_other_root() -> None:
    """Below an inner unit the keys are what follows it; its own value is an empty key."""
    assert items(SMALL, root=256 ^ 0x61) == {b"": 3, b"b": 1}


def test_chosen_keys_behind_a_prefix() -> None:
    """Only the chosen keys are spelled, each behind the prefix."""
    leaves = DoubleArray(SMALL).walk()
    assert list(leaves.keys(leaves.values < 4, b"##")) == [b"##a", b"##ab"]
    assert list(leaves.keys(leaves.values > 3, b"")) == [b"\xff"]
    assert list(leaves.keys(leaves.values < 0, b"##")) == []


def test_far_offset() -> None:
    """With bit 9 set an offset counts in steps of 256 units."""
    node = 256 ^ 0x61
    base = 256 * 9000 + 0x61  # the offset cannot change the last 8 bits
    array = units(
        {
            0: 256 << 10,
            node: (node ^ base) >> 8 << 10 | FAR | HAS_VALUE | 0x61,
            base: VALUE | 5,
            base ^ 0x62: (base ^ 0x62 ^ base + 256) << 10 | 0x62,
        },
        256 * 9001,
    )
    assert items(array) == {b"a": 5}


def test_broken_links() -> None:
    """A unit whose label was erased is no child, as TensorFlow Text hides nodes; its own are."""
    array = SMALL.copy()
    array[256 ^ 0x61] &= 0xFFFFFF00
    assert items(array) == {b"\xff": 2**31 - 1}
    assert items(array, root=256 ^ 0x61) == {b"": 3, b"b": 1}


def test_shared_endings() -> None:
    """Nodes may share their children, as in a DAWG: each way to a value is a key of its own."""
    array = SMALL.copy()
    array[256 ^ 0x63] = (256 ^ 0x63 ^ 512) << 10 | HAS_VALUE | 0x63
    assert items(array) == {b"a": 3, b"ab": 1, b"c": 3, b"cb": 1, b"\xff": 2**31 - 1}


@given(
    st.dictionaries(
        st.binary(min_size=1, max_size=6).filter(lambda key: 0 not in key),
        st.integers(0, 2**31 - 1),
        min_size=1,
        max_size=40,
    )
)
def test_keys_come_back(keys: dict[bytes, int]) -> None:
    """Whatever is put in comes out."""
    assert items(double_array_of(keys)) == keys


def test_long_key() -> None:
    """A key of 8,000 bytes, SentencePiece's limit, is read."""
    keys = {b"\xfe" * 8000: 1, b"\xfe" * 4000: 0}
    assert items(double_array_of(keys)) == keys


CIRCLE = units({0: 256 << 10, 256 ^ 0x61: (256 ^ 0x61 ^ 256) << 10 | 0x61}, 512)
EXPLOSION = units(  # each of 255 nodes has the same 255 children, four times
    {0: 256 << 10}
    | {
        (base ^ label): (base ^ label ^ base + 256) << 10 | label
        for base in (256, 512, 768, 1024)
        for label in range(1, 256)
    },
    1536,
)
MALFORMED = {
    "empty": (units({}, 0), 0, r"a trie of 0 units, wanted 1 to 67,108,864"),
    "root outside": (SMALL, 1280, r"a trie of 1,280 units has no unit 1,280"),
    "negative root": (SMALL, -1, r"a trie of 1,280 units has no unit -1"),
    "value outside": (
        SMALL[:1024],
        0,
        r"unit 511 of a trie has its value at unit 1,024, where there is none",
    ),
    "value that is a node": (
        SMALL & np.uint32(VALUE - 1),
        0,
        r"unit 353 of a trie has its value at unit 512, where there is none",
    ),
    "circle": (
        CIRCLE,
        0,
        r"a key of a trie is longer than 8,192 bytes: it may run in a circle",
    ),
    "explosion": (
        EXPLOSION,
        0,
        r"a trie of 1,536 units has more than 263,680 nodes: it may run in a circle",
    ),
}


@pytest.mark.parametrize(
    ("array", "root", "message"), MALFORMED.values(), ids=list(MALFORMED.keys())
)
def test_malformed(array: NDArray[np.uint32], root: int, message: str) -> None:
    """A trie that refers outside itself, runs in a circle or explodes is refused."""
    with pytest.raises(InvalidFile, match=f"^{message}$"):
        DoubleArray(array).walk(root)


def test_keys_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that take more bytes together than an honest array's are not spelled."""
    monkeypatch.setattr(double_array, "SHARED_KEY_BYTES", 0)
    monkeypatch.setattr(double_array, "KEY_BYTES_PER_UNIT", 0)
    with pytest.raises(InvalidFile, match=r"^the keys of a trie take 4 bytes, wanted at most 0$"):
        DoubleArray(SMALL).walk().keys()


@pytest.mark.parametrize("seed", range(20))
def test_damaged(seed: int) -> None:
    """Flipped bits give other keys or an error of ours, never another error."""
    dice = random.Random(seed)
    damaged = bytearray(SMALL.tobytes())
    used = np.flatnonzero(SMALL).tolist()
    for _ in range(3):
        damaged[4 * dice.choice(used) + dice.randrange(4)] ^= 1 << dice.randrange(8)
    try:
        DoubleArray(np.frombuffer(bytes(damaged), "<u4")).walk().keys()
    except VocabtoolError as error:
        assert str(error)
