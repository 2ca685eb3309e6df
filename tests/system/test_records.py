"""Our own small files: what is written is read, and nothing else is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.errors import InvalidFile
from vocabtool.system.own_files import decode_record, encode_record


@dataclass(frozen=True, kw_only=True)
class Part:
    name: str
    size: int = 0


@dataclass(frozen=True, kw_only=True)
class Whole:
    parts: tuple[Part, ...] = ()
    first: Part | None = None
    pair: tuple[int, str] = (0, "")
    share: float = 0.5
    done: bool = False
    mode: Literal["a", "b"] = "a"
    by_name: Mapping[str, int] = field(default_factory=dict)


PARTS = st.builds(Part, name=st.text(), size=st.integers())
WHOLES = st.builds(
    Whole,
    parts=st.lists(PARTS).map(tuple),
    first=st.none() | PARTS,
    pair=st.tuples(st.integers(), st.text()),
    share=st.floats(allow_nan=False, allow_infinity=False),
    done=st.booleans(),
    mode=st.sampled_from(("a", "b")),
    by_name=st.dictionaries(st.text(), st.integers()),
)


def decode(data: bytes) -> Whole:
    return decode_record(data, Whole, kind="test", version=3)


@given(WHOLES)
def test_what_is_written_is_read(whole: Whole) -> None:
    assert decode(encode_record(whole, kind="test", version=3)) == whole


def test_another_version_is_refused() -> None:
    data = encode_record(Whole(share=1), kind="test", version=3)
    with pytest.raises(InvalidFile, match=r"version 3 .* expected 4; rebuild it"):
        decode_record(data, Whole, kind="test", version=4, advice="rebuild it")


@given(st.data())
def test_every_changed_digit_is_found(data: st.DataObject) -> None:
    """A checksum over the record: whatever of it changes, it is refused."""
    written = encode_record(Whole(pair=(12345, "abc")), kind="test", version=3)
    start = written.index(b'"record"') + len(b'"record": {')
    at = data.draw(st.integers(start, len(written) - 4).filter(lambda i: written[i] > ord(" ")))
    flipped = written[:at] + bytes([written[at] ^ 1]) + written[at + 1 :]
    with pytest.raises(InvalidFile):
        decode(flipped)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"first": {}}, r"test\.first\.name is missing"),
        ({"more": 1}, r"test\.more: unknown entry"),
        ({"parts": [{"name": 1}]}, r"test\.parts\[0\]\.name must be str, got '1'"),
        ({"pair": [1]}, r"test\.pair must be tuple"),
        ({"mode": "c"}, r"test\.mode must be .*Literal"),
        ({"by_name": {"a": 1.5}}, r"test\.by_name\.a must be int"),
    ],
)
def test_other_types_are_refused(record: dict[str, object], problem: str) -> None:
    """Written by nobody: the checksum is right, the entries are not."""
    with pytest.raises(InvalidFile, match=problem):
        decode(encode_record(record, kind="test", version=3))
    for data in (b"", b"[]", b"{", b'{"vocabtool": "another"}'):
        with pytest.raises(InvalidFile, match="not a file of `vocabtool test`"):
            decode(data)
