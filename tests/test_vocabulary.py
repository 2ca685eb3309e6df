"""A vocabulary compared with what it stands for: a list of pairs of id and ``bytes``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vocabtool import ByteStrings, Place, Unknown, Vocabulary
from vocabtool.vocabulary import Special

INT64 = st.one_of(st.integers(-3, 30), st.integers(-(1 << 63), (1 << 63) - 1))
ENTRY = st.one_of(st.binary(max_size=3), st.sampled_from((b"", b"a", b"[UNK]", b"\xff", b"\n")))
Pairs = list[tuple[int, bytes]]


def decode(entry: bytes) -> str:
    return entry.decode("utf-8", "surrogateescape")


def encode(token: str) -> bytes:
    return token.encode("utf-8", "surrogateescape")


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
    held = Vocabulary("words", "table", stored, ids=np.array(ids, np.int64))
    return list(zip(ids, entries, strict=True)), held


CASES = cases()


@given(CASES)
def test_entries_and_ids(case: tuple[Pairs, Vocabulary]) -> None:
    """Ids, tokens, size and the Arrow table are those of the pairs, in their order."""
    pairs, held = case
    assert held.id_array().tolist() == [id_ for id_, _ in pairs]
    assert held.id_array().dtype == np.int64
    assert [encode(token) for token in held] == [entry for _, entry in pairs]
    assert held.tokens == list(held)
    assert len(held) == held.size == len(pairs)
    assert held.duplicates == len(pairs) - len({entry for _, entry in pairs})
    pairs, held = case
    table = held.to_arrow()
    assert [str(kind) for kind in table.schema.types] == ["int64", "large_binary"]
    assert table.column("id").to_pylist() == [id_ for id_, _ in pairs]
    assert table.column("token").to_pylist() == [entry for _, entry in pairs]
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
    pairs, held = case
    expected = next((id_ for id_, other in pairs if other == entry), None)
    assert (entry in held) == (decode(entry) in held) == (expected is not None)
    assert found(held.id_of, entry) == found(held.id_of, decode(entry)) == expected
    for asked in {id_, *(used for used, _ in pairs)}:
        token = next((decode(entry) for used, entry in pairs if used == asked), None)
        assert found(held.entry_of, asked) == token


@given(CASES, CASES)
def test_equality_is_that_of_pairs(
    left: tuple[Pairs, Vocabulary], right: tuple[Pairs, Vocabulary]
) -> None:
    """Two vocabularies without special entries are equal exactly if entries and ids are."""
    assert (left[1] == right[1]) == (left[0] == right[0])


def test_what_equality_compares() -> None:
    """Ids, special entries, type and entries; not name, kind, places, notes, how ids are held."""
    one = vocabulary(b"a")
    others = [vocabulary(b"a", b""), vocabulary(b"A"), vocabulary(b"a", first_id=1)]
    others += [replace(one, unknown=Unknown(0)), replace(one, entry_type="integer")]
    for other in (*others, replace(one, specials=(Special(1, "", "mask"),))):
        assert one != other
        assert one.fingerprint != other.fingerprint
    stored = ByteStrings.of([b"a", b"b"])
    places, notes = (Place("saved_model.pb", "Const"),), ("a note",)
    held = Vocabulary("words", "table", stored, 2)
    assert held == Vocabulary("b", "asset", stored, 2, places=places, notes=notes)
    array = Vocabulary("x", "asset", stored, ids=np.array([2, 3]))
    assert (array, hash(array)) == (held, hash(held))
    assert held != "a"


def test_special_entries_are_found_but_not_counted() -> None:
    """Specials have ids but are not stored; odd things are no entries; the fingerprint is fixed."""
    specials = (Special(0, "", "mask"), Special(1, "[UNK]", "unknown"))
    held = Vocabulary("words", "table", ByteStrings.of([b"the", b"of"]), 2, specials=specials)
    assert held.entries() == ["", "[UNK]", "the", "of"]
    assert (len(held), held.tokens) == (2, ["the", "of"])
    assert "[UNK]" not in held
    assert (held.id_of("[UNK]"), held.id_of(b""), held.id_of("of")) == (1, 0, 3)
    assert [held.entry_of(id_) for id_ in range(4)] == ["", "[UNK]", "the", "of"]
    # one that is stored as well is the stored one
    specials = (Special(9, "a", "unknown"), Special(3, "b", "mask"))
    held = Vocabulary("words", "table", ByteStrings.of([b"a"]), 3, specials=specials)
    assert (held.id_of("a"), held.entry_of(3), held.entry_of(9)) == (3, "a", "a")
    # and they sort in between stored entries, in front of one with the same id
    specials = (Special(-1, "<pad>", "mask"), Special(5, "<unk>", "unknown"))
    ids, stored = np.array([-2, 5, 7]), ByteStrings.of([b"a", b"b", b"c"])
    held = Vocabulary("w", "table", stored, ids=ids, specials=specials)
    assert held.entries() == ["a", "<pad>", "<unk>", "b", "c"]
    held = vocabulary(b"a", b"\xed\xa0\x80")
    for odd in ("\ud800", "\udfff", "a\udc00", 1, None, ["a"], bytearray(b"a")):
        assert odd not in held
        assert not isinstance(odd, str) or found(held.id_of, odd) is None
    mark = Special(1, "[UNK]", "unknown")
    held = vocabulary(b"the", b"\xff", first_id=2)
    held = replace(held, unknown=Unknown(1), specials=(mark,))
    assert held.fingerprint == "39e6078696bcf971bdf9761e34c84a9bae70db9639c840a6562bbdc412f4768b"
