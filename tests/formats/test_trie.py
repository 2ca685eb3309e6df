"""Keys of a trie come back from its units."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.formats.test_text_tokenizers import FAR, HAS_VALUE, SMALL, VALUE, Units, changed, trie
from vocabtool.formats.sentencepiece import DoubleArray


def keys_of(units: Units) -> dict[bytes, int]:
    """The keys of a trie with their values."""
    keys, values = DoubleArray(units).walk()
    return dict(zip(keys, values.tolist(), strict=True))


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
