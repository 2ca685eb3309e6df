"""Marks of pieces: what an entry is without its mark, one by one and all at once."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from vocabtool import ByteStrings
from vocabtool.vocabulary import (
    ALPHABET,
    ONE_IN,
    Marker,
    bear_marker,
    guess_marker,
    plain,
    plain_strings,
)


def shown_as(data: bytes) -> bytes:
    """Bytes as a byte-level vocabulary shows them."""
    return "".join(ALPHABET[byte] for byte in data).encode()


def test_the_byte_level_alphabet() -> None:
    """256 characters, those of the library that owns them, and the byte each one stands for."""
    assert len(set(ALPHABET)) == 256
    assert set(ALPHABET) == set(pre_tokenizers.ByteLevel.alphabet())
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ("\0\t\n !~\x7f", "\x80\xa0\xadé", "日本 🙂"):
        ((piece, _),) = split.pre_tokenize_str(text)
        assert piece.encode() == shown_as(text.encode())


@pytest.mark.parametrize(
    ("entry", "marker", "wanted"),
    [
        ("▁the", "▁", b"the"),
        ("▁▁the", "▁", "▁the".encode()),
        ("▁", "▁", b""),
        ("the", "▁", b"the"),
        (" the", " ", b"the"),
        ("##ing", "##", b"ing"),
        ("#", "##", b"#"),
        ("ing@@", "@@", b"ing"),
        ("@@ing", "@@", b"@@ing"),
        ("ing</w>", "</w>", b"ing"),
        ("Ġthe", "Ġ", b"the"),
        ("ĠĠthe", "Ġ", b" the"),
        ("Ã©", "Ġ", "é".encode()),
        ("Ċ", "Ġ", b"\n"),
        ("ĠæĹ¥", "Ġ", "日".encode()),
        ("<|endoftext|>", "Ġ", b"<|endoftext|>"),
        ("Ġ日本", "Ġ", "Ġ日本".encode()),  # 日 stands for no byte: an added token
        ("two words", "Ġ", b"two words"),
        ("the", None, b"the"),
    ],
)
def test_plain(entry: str, marker: Marker | None, wanted: bytes) -> None:
    """One mark is taken off where it stands; a byte-level entry becomes its bytes."""
    assert plain(entry.encode(), marker) == wanted


ENTRIES = st.lists(
    st.one_of(
        st.binary(max_size=4),
        st.binary(max_size=6).map(shown_as),
        st.text(alphabet="▁Ġ #@</w>x日", max_size=6).map(str.encode),
    ),
    max_size=30,
)


@given(ENTRIES, st.sampled_from(get_args(Marker)))
def test_all_at_once(entries: list[bytes], marker: Marker) -> None:
    """Of any entries, all at once gives what one by one gives."""
    stored = ByteStrings.of(entries)
    assert list(plain_strings(stored, marker)) == [plain(entry, marker) for entry in entries]
    behind = marker in ("@@", "</w>")
    mark = marker.encode()
    bearing = [e.endswith(mark) if behind else e.startswith(mark) for e in entries]
    assert bear_marker(stored, marker).tolist() == bearing


@given(st.lists(st.binary(max_size=8), max_size=30))
def test_byte_level_comes_back(entries: list[bytes]) -> None:
    """Whatever bytes are shown byte-level come back, less the blank that begins a word."""
    stored = ByteStrings.of(map(shown_as, entries))
    assert list(plain_strings(stored, "Ġ")) == [entry.removeprefix(b" ") for entry in entries]


@pytest.mark.parametrize("marker", get_args(Marker))
def test_guess(marker: Marker) -> None:
    """One entry in so many is enough, one in one more is not."""
    borne = f"x{marker}" if marker in ("@@", "</w>") else f"{marker}x"
    plenty = [b"word"] * (ONE_IN[marker] - 1) + [borne.encode()]
    assert guess_marker(ByteStrings.of(plenty)) == marker
    assert guess_marker(ByteStrings.of([b"word", *plenty])) is None
