"""What unknown words look like. The oracle for one edit is Damerau and Levenshtein's matrix."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool import ByteStrings
from vocabtool.oov import lookalikes
from vocabtool.oov.lookalikes import Kind, Likeness, classify, fold, one_edit, spelling

ENTRIES = ["the", "café", "receive", "Straße", "▁piece", "cat", "recede", "c", "\u212bngström"]
VOCABULARY = ByteStrings.of(entry.encode() for entry in ENTRIES)


def kind_of(word: str | bytes, example: str = "") -> tuple[Kind, str | None]:
    data = word if isinstance(word, bytes) else word.encode()
    ((kind, entry),) = classify([data], VOCABULARY, [example.encode()])
    return kind, ENTRIES[entry] if entry >= 0 else None


LIKE: list[tuple[str, Kind, str]] = [
    *(("THE", "form", "the"), ("cafe\u0301", "form", "café"), ("strasse", "form", "Straße")),
    *(("piece", "form", "▁piece"), ("\uff43\uff41\uff54", "form", "cat")),
    *(("ångström", "form", "\u212bngström"), ("recide", "misspelling", "recede")),
    *(("recieve", "misspelling", "receive"), ("receives", "misspelling", "receive")),
    *(("receve", "misspelling", "receive"), ("reseive", "misspelling", "receive")),
    *(("RECIEVE", "misspelling", "receive"), ("them", "misspelling", "the")),
]
UNLIKE: dict[Kind, list[str | bytes]] = {
    "number": ["3,141.59", "-17%", "٤٢", "½"],
    "code": [
        *("CVE-2024-1234", "snake_case", "camelCase", "C++", "0x80070005", "std::map", "me@home"),
        "2nd",
    ],
    "script": ["привет", "漢字"],
    "name": ["London", "O'Neill"],
    "symbol": ["...", "😀", ""],
    "other": ["e.g.", "cut", "xapian", b"caf\xe9"],  # of "cut", three characters are not enough
}
CASES: list[tuple[str | bytes, Kind, str | None]] = [
    *LIKE,
    *((word, kind, None) for kind, words in UNLIKE.items() for word in words),
]


@pytest.mark.parametrize(("word", "kind", "like"), CASES)
def test_kinds(word: str | bytes, kind: Kind, like: str | None) -> None:
    """The first definition that fits, and the entry it is like."""
    assert kind_of(word) == (kind, like)


def test_the_example_tells_the_capitals() -> None:
    """A rule that lower-cases hides names and camelCase; the text does not."""
    assert kind_of("london", "in London town") == ("name", None)
    assert kind_of("getelement", "x.getElement()") == ("code", None)
    assert kind_of("london", "Londoners") == ("other", None)
    assert kind_of("xapian", "no such word") == ("other", None)
    assert spelling(b"abc", b"xABC abC") == "abC"
    assert spelling(b"", b"text") == ""
    assert spelling("i̇x".encode(), "İx".encode()) == "i̇x"  # lower-casing changes its length


def test_scripts_of_the_vocabulary() -> None:
    """A script is another one where fewer than 1 in 100 of the worded entries are in it."""
    for cyrillic, kind in ((0, "script"), (1, "script"), (2, "other")):
        entries = ByteStrings.of([*[b"latin"] * 99, *["да".encode()] * cyrillic, b"1", b"2"])
        expected = kind if cyrillic != 1 else "other"  # 1 of 100 is enough
        assert classify(["привет".encode()], entries)[0].kind == expected
    few = ByteStrings.of([*[b"latin"] * 100, "да".encode()])
    assert classify(["привет".encode()], few)[0].kind == "script"
    assert classify(["привет".encode()], ByteStrings.of([b"1"]))[0].kind == "other"


def distance(one: str, other: str) -> int:
    """Optimal string alignment: insert, delete, substitute, swap neighbours; the full matrix."""
    rows = [
        [i + j if not i or not j else 0 for j in range(len(other) + 1)] for i in range(len(one) + 1)
    ]
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            best = min(rows[i - 1][j], rows[i][j - 1]) + 1
            best = min(best, rows[i - 1][j - 1] + (one[i - 1] != other[j - 1]))
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                best = min(best, rows[i - 2][j - 2] + 1)
            rows[i][j] = best
    return rows[-1][-1]


SHORT = st.text("abcé", max_size=6)


@given(SHORT, SHORT)
def test_one_edit_is_a_distance_of_one(one: str, other: str) -> None:
    """Both ways round."""
    assert one_edit(one, other) == (distance(one, other) == 1)
    assert one_edit(other, one) == one_edit(one, other)


@given(st.lists(SHORT.filter(bool), max_size=8), st.lists(SHORT, max_size=8))
def test_misspellings_are_those_of_brute_force(words: list[str], entries: list[str]) -> None:
    """The index over what is left without a character finds all, and the first of them."""
    found = classify([word.encode() for word in words], ByteStrings.of(e.encode() for e in entries))
    for word, likeness in zip(words, found, strict=True):
        if word in entries:
            assert likeness == Likeness("form", entries.index(word))
            continue
        near = [
            i for i, entry in enumerate(entries) if len(entry) > 2 and distance(word, entry) == 1
        ]
        if len(word) >= 4 and near:
            assert likeness == Likeness("misspelling", near[0])
        else:
            assert likeness == Likeness("other")


@given(st.text(max_size=8))
def test_folding_twice_changes_nothing(text: str) -> None:
    """Folded words are equal however often they are folded."""
    once = fold(text.encode())
    assert once is not None
    assert fold(once.encode()) == once


def test_long_words_take_no_time() -> None:
    """A megabyte has a kind, at once; up to LONGEST there are neighbours, the first of several."""
    words = [b"a" * 1_000_000, b"a." * 500_000, "ж".encode() * 500_000, b"1" * 1_000_000]
    kinds = [one.kind for one in classify(words, VOCABULARY, [b"a" * 120] * 4)]
    assert kinds == ["other", "other", "script", "number"]
    entry = b"x" * lookalikes.LONGEST
    entries = ByteStrings.of([entry])
    assert classify([entry[1:] + b"y"], entries)[0].kind == "misspelling"
    assert classify([entry + b"y"], entries)[0].kind == "other"
    several = ByteStrings.of([b"wards", b"words", b"Sword", b"sword", b"word", b"WORD"])
    found = classify([b"wOrd", b"swords", b"wordz"], several)
    assert found == [Likeness("form", 4), Likeness("misspelling", 1), Likeness("misspelling", 1)]
