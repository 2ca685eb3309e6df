"""A vocabulary compared with what it stands for: a list of pairs of id and ``bytes``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from vocabtool import ByteStrings, Place, Unknown, Vocabulary
from vocabtool.vocabulary import (
    ALPHABET,
    ONE_IN,
    Marker,
    Special,
    bear_marker,
    decode,
    encode,
    guess_marker,
    plain,
    plain_strings,
)

INT64 = st.one_of(st.integers(-3, 30), st.integers(-(1 << 63), (1 << 63) - 1))
ENTRY = st.one_of(st.binary(max_size=3), st.sampled_from((b"", b"a", b"[UNK]", b"\xff", b"\n")))
Pairs = list[tuple[int, bytes]]


def vocabulary(*entries: bytes, first_id: int = 0) -> Vocabulary:
    return Vocabulary("words", "table", ByteStrings.of(entries), first_id)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Pairs, Vocabulary]:
    """Entries with ids, which count on from the first or ascend in some other way."""
    entries = draw(st.lists(ENTRY, max_size=12))
    stored = ByteStrings.of(entries)
    if draw(st.booleans()):
        first = draw(st.integers(-(1 << 63), (1 << 63) - 1 - len(entries)))
        pairs = list(zip(range(first, first + len(entries)), entries, strict=True))
        return pairs, Vocabulary("words", "table", stored, first)
    ids = sorted(draw(st.lists(INT64, min_size=len(entries), max_size=len(entries))))
    words = Vocabulary("words", "table", stored, ids=np.array(ids, np.int64))
    return list(zip(ids, entries, strict=True)), words


CASES = cases()


@given(CASES)
def test_entries_and_ids(case: tuple[Pairs, Vocabulary]) -> None:
    """Ids, tokens, size and the Arrow table are those of the pairs, in their order."""
    pairs, words = case
    assert words.id_array().tolist() == [id_ for id_, _ in pairs]
    assert words.id_array().dtype == np.int64
    assert [encode(token) for token in words] == [entry for _, entry in pairs]
    assert words.tokens == list(words)
    assert len(words) == words.size == len(pairs)
    assert words.duplicates == len(pairs) - len({entry for _, entry in pairs})
    table = words.to_arrow()
    types = [str(kind) for kind in table.schema.types]
    assert types == ["int64", "large_string", "large_binary"]
    assert table.column("id").to_pylist() == [id_ for id_, _ in pairs]
    tokens, others = (table.column(name).to_pylist() for name in ("token", "bytes"))
    shown = [
        other if token is None else token.encode()
        for token, other in zip(tokens, others, strict=True)
    ]
    assert shown == [entry for _, entry in pairs]
    table.validate(full=True)


def found(look_up: Callable[[Any], object], asked: object) -> object:
    """What is found, ``None`` for a ``KeyError``."""
    try:
        return look_up(asked)
    except KeyError:
        return None


@given(CASES, ENTRY, st.one_of(INT64, st.integers()))
def test_id_of_and_entry_of(case: tuple[Pairs, Vocabulary], entry: bytes, id_: int) -> None:
    """Those of the first pair, asked for as text or bytes; none for another, however large."""
    pairs, words = case
    expected = next((id_ for id_, other in pairs if other == entry), None)
    assert (entry in words) == (decode(entry) in words) == (expected is not None)
    assert found(words.id_of, entry) == found(words.id_of, decode(entry)) == expected
    for asked in {id_, *(used for used, _ in pairs)}:
        token = next((decode(entry) for used, entry in pairs if used == asked), None)
        assert found(words.entry_of, asked) == token


@given(CASES, CASES)
def test_equality_is_that_of_pairs(
    left: tuple[Pairs, Vocabulary], right: tuple[Pairs, Vocabulary]
) -> None:
    """Two vocabularies without special entries are equal exactly if entries and ids are."""
    assert (left[1] == right[1]) == (left[0] == right[0])


def test_what_equality_compares() -> None:
    """Ids, special entries, type and entries; not name, kind, places, notes, how ids are stored."""
    one = vocabulary(b"a")
    others = [vocabulary(b"a", b""), vocabulary(b"A"), vocabulary(b"a", first_id=1)]
    others += [replace(one, unknown=Unknown(0)), replace(one, entry_type="integer")]
    for other in (*others, replace(one, specials=(Special(1, "", "mask"),))):
        assert one != other
        assert one.fingerprint != other.fingerprint
    pair = vocabulary(b"a", b"b", first_id=2)
    places, notes = (Place("saved_model.pb", "Const"),), ("a note",)
    assert pair == replace(pair, name="b", kind="asset", places=places, notes=notes)
    array = Vocabulary("x", "asset", pair.stored, ids=np.array([2, 3]))
    assert (array, hash(array)) == (pair, hash(pair))
    assert pair != "a"


def test_special_entries_are_found_but_not_counted() -> None:
    """Specials have ids but are not stored; odd things are no entries; the fingerprint is fixed."""
    words = replace(
        vocabulary(b"the", b"of", first_id=2),
        specials=(Special(0, "", "mask"), Special(1, "[UNK]", "unknown")),
    )
    assert words.entries() == ["", "[UNK]", "the", "of"]
    assert (len(words), words.tokens) == (2, ["the", "of"])
    assert "[UNK]" not in words
    assert (words.id_of("[UNK]"), words.id_of(b""), words.id_of("of")) == (1, 0, 3)
    assert [words.entry_of(id_) for id_ in range(4)] == ["", "[UNK]", "the", "of"]
    # one that is stored as well is the stored one
    specials = (Special(9, "a", "unknown"), Special(3, "b", "mask"))
    words = replace(vocabulary(b"a", first_id=3), specials=specials)
    assert (words.id_of("a"), words.entry_of(3), words.entry_of(9)) == (3, "a", "a")
    # and they sort in between stored entries, in front of one with the same id
    specials = (Special(-1, "<pad>", "mask"), Special(5, "<unk>", "unknown"))
    words = replace(vocabulary(b"a", b"b", b"c"), ids=np.array([-2, 5, 7]), specials=specials)
    assert words.entries() == ["a", "<pad>", "<unk>", "b", "c"]
    words = vocabulary(b"a", b"\xed\xa0\x80")
    for odd in ("\ud800", "\udfff", "a\udc00", 1, None, ["a"], bytearray(b"a")):
        assert odd not in words
        assert not isinstance(odd, str) or found(words.id_of, odd) is None
    mark = Special(1, "[UNK]", "unknown")
    words = replace(vocabulary(b"the", b"\xff", first_id=2), unknown=Unknown(1), specials=(mark,))
    assert words.fingerprint == "39e6078696bcf971bdf9761e34c84a9bae70db9639c840a6562bbdc412f4768b"


# Marks of pieces: what an entry is without its mark, one by one and all at once.


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
        *(("▁the", "▁", "the"), ("▁▁the", "▁", "▁the"), ("▁", "▁", ""), ("the", "▁", "the")),
        *((" the", " ", "the"), ("##ing", "##", "ing"), ("#", "##", "#")),
        *(("ing@@", "@@", "ing"), ("@@ing", "@@", "@@ing"), ("ing</w>", "</w>", "ing")),
        *(("Ġthe", "Ġ", "the"), ("ĠĠthe", "Ġ", " the"), ("Ã©", "Ġ", "é"), ("Ċ", "Ġ", "\n")),
        *(("ĠæĹ¥", "Ġ", "日"), ("<|endoftext|>", "Ġ", "<|endoftext|>")),
        ("Ġ日本", "Ġ", "Ġ日本"),  # 日 stands for no byte: an added token
        *(("two words", "Ġ", "two words"), ("the", None, "the")),
    ],
)
def test_plain(entry: str, marker: Marker | None, wanted: str) -> None:
    """One mark is taken off where it stands; a byte-level entry becomes its bytes."""
    assert plain(entry.encode(), marker) == wanted.encode()


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


@pytest.mark.parametrize("marker", get_args(Marker))
def test_guess(marker: Marker) -> None:
    """One entry in so many is enough, one in one more is not."""
    borne = f"x{marker}" if marker in ("@@", "</w>") else f"{marker}x"
    plenty = [b"word"] * (ONE_IN[marker] - 1) + [borne.encode()]
    assert guess_marker(ByteStrings.of(plenty)) == marker
    assert guess_marker(ByteStrings.of([b"word", *plenty])) is None
