"""Kinds of unknown words, compared with the edit distance of nltk; example texts."""

from __future__ import annotations

import base64
import hashlib
import random
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool import ByteStrings
from vocabtool.oov.counter import CUT, SEARCHED, WIDTH, clip, find_examples, find_word
from vocabtool.oov.kinds import LONGEST, classify, fold, is_random, spelling
from vocabtool.oov.report import Kind
from vocabtool.tokenization.text_arrays import string_array

ENTRIES = ["the", "café", "receive", "Straße", "▁piece", "cat", "recede", "c", "\u212bngström"]
ENTRIES += ["task", "talks", "class", "clash", "fire", "recent", "colour"]
VOCABULARY = ByteStrings.of(entry.encode() for entry in ENTRIES)
# How often words occur in the texts; others occur once if they are unknown, never if known.
COUNTS = {"receive": 10, "recede": 25, "recent": 19, "recant": 2, "colour": 10}


def kind_of(word: str | bytes, example: str = "") -> tuple[Kind, str | None]:
    data = word if isinstance(word, bytes) else word.encode()
    written = spelling(data, example.encode())
    ((kind, entry),) = classify([data], [written], VOCABULARY, COUNTS)
    return kind, ENTRIES[entry] if entry >= 0 else None


def classified(words: list[bytes], entries: list[bytes]) -> list[tuple[Kind, int]]:
    """Each entry occurs ten times as often as each word."""
    spellings = [spelling(word, b"") for word in words]
    counts = dict.fromkeys(map(fold, entries), 10)
    return [*classify(words, spellings, ByteStrings.of(entries), counts)]


LIKE: list[tuple[str, Kind, str]] = [
    *(("THE", "form", "the"), ("cafe\u0301", "form", "café"), ("strasse", "form", "Straße")),
    *(("piece", "form", "▁piece"), ("\uff43\uff41\uff54", "form", "cat")),
    *(("ångström", "form", "\u212bngström"), ("recide", "misspelling", "recede")),
    *(("recieve", "misspelling", "receive"), ("receives", "misspelling", "receive")),
    *(("receve", "misspelling", "receive"), ("reseive", "misspelling", "receive")),
    *(("RECIEVE", "misspelling", "receive"), ("tasks", "misspelling", "task")),
    *(("fires", "misspelling", "fire"), ("talk", "misspelling", "talks")),
    *(("colours", "misspelling", "colour"), ("cat,", "misspelling", "cat")),
]
UNLIKE: dict[Kind, list[str | bytes]] = {
    "number": ["3,141.59", "-17%", "٤٢", "½"],
    "code": [
        *("CVE-2024-1234", "snake_case", "camelCase", "C++", "0x80070005", "std::map", "me@home"),
        "2nd",
    ],
    "script": ["привет", "漢字", "\uff76\uff85"],  # halfwidth Katakana
    "name": ["London", "O'Neill"],
    "symbol": ["...", "=====", "~~~", ""],
    "emoji": ["😀", "!🎉"],
    # "clas": in "class" the s is no plural; "recant": "recent" is not ten times as frequent;
    # "clashed": two edits; "file", "tasty", "came": short words have neighbours by chance
    "other": [*("e.g.", "cut", "xapian", b"caf\xe9", "clas", "recant", "clashed", "file", "taska")],
}
CASES: list[tuple[str | bytes, Kind, str | None]] = [
    *LIKE,
    *((word, kind, None) for kind, words in UNLIKE.items() for word in words),
]


@pytest.mark.parametrize(("word", "kind", "like"), CASES)
def test_kinds(word: str | bytes, kind: Kind, like: str | None) -> None:
    """The first definition that fits, and the similar entry."""
    assert kind_of(word) == (kind, like)


def test_the_example_tells_the_capitals() -> None:
    """Examples show capitals that a rule hides; scripts of under 1 in 100 entries are foreign."""
    assert kind_of("london", "in London town") == ("name", None)
    assert kind_of("getelement", "x.getElement()") == ("code", None)
    assert kind_of("london", "Londoners") == ("other", None)
    assert kind_of("xapian", "no such word") == ("other", None)
    assert spelling(b"abc", b"xABC abC") == "abC"
    assert spelling(b"", b"text") == ""
    assert spelling("i̇x".encode(), "İx".encode()) == "i̇x"  # lower-casing changes its length
    for cyrillic, kind in ((0, "script"), (1, "script"), (2, "other")):
        entries = [*[b"latin"] * 99, *["да".encode()] * cyrillic, b"1", b"2"]
        expected = kind if cyrillic != 1 else "other"  # 1 of 100 is enough
        assert classified(["привет".encode()], entries)[0][0] == expected
    few = [*[b"latin"] * 100, "да".encode()]
    assert classified(["привет".encode()], few)[0][0] == "script"
    assert classified(["привет".encode()], [b"1"])[0][0] == "other"


SHORT = st.text("abcé", max_size=8)


@given(st.lists(SHORT.filter(bool), max_size=8), st.lists(SHORT, max_size=8))
def test_misspellings_are_those_of_brute_force(words: list[str], entries: list[str]) -> None:
    """The index of words without one character finds all similar entries, the first one wins."""
    distance = pytest.importorskip("nltk", reason="the oracle of distances").edit_distance
    answers = classified([word.encode() for word in words], [entry.encode() for entry in entries])
    for word, likeness in zip(words, answers, strict=True):
        if word in entries:
            assert likeness == ("form", entries.index(word))
            continue
        near = [
            i for i, entry in enumerate(entries) if distance(word, entry, transpositions=True) == 1
        ]
        if len(word) >= 6 and near:
            assert likeness == ("misspelling", near[0])
        else:
            assert likeness == ("other", -1)


def test_long_words_take_no_time() -> None:
    """A word of a megabyte is classified at once; neighbours are searched up to LONGEST."""
    words = [b"a" * 1_000_000, b"a." * 500_000, "ж".encode() * 500_000, b"1" * 1_000_000]
    kinds = [kind for kind, _ in classified(words, [*VOCABULARY])]
    assert kinds == ["other", "other", "script", "number"]
    entry = b"x" * LONGEST
    assert classified([entry[1:] + b"y"], [entry])[0][0] == "misspelling"
    assert classified([entry + b"y"], [entry])[0][0] == "other"
    several = [b"wards", b"words", b"Sword", b"sword", b"word", b"WORD"]
    found = classified([b"wOrd", b"swords", b"wordz"], several)
    assert found == [("form", 4), ("misspelling", 1), ("other", -1)]


def example_of(text: bytes, word: bytes, share: float = 0.0) -> bytes:
    found = find_examples(string_array([b"before", text]), [word], np.array([1]), np.array([share]))
    return found[0]


def test_examples() -> None:
    """Any ASCII case, near the middle or the expected position; short texts are kept whole."""
    text = b"a" * 500 + b" Word " + b"b" * 500
    found = example_of(text, b"word", 0.4)
    assert len(found) == WIDTH + 2 * len(CUT)
    assert found.startswith(CUT)
    assert found.endswith(CUT)
    assert abs(found.index(b"Word") - len(found) // 2) < 4
    assert example_of(b"Word " + text, b"word") == b"Word " + text[: WIDTH - 5] + CUT
    assert example_of(text + b" end", b"end", 1.0) == CUT + (text + b" end")[-WIDTH:]
    giant = b"word " + b"x" * (4 * SEARCHED)
    assert example_of(giant, b"word", 0.9) == CUT + b"x" * WIDTH + CUT
    assert b"word" in example_of(giant, b"word", 0.1)
    assert example_of(b"\xff word", b"word") == b"\xff word"
    texts = string_array([b"zero", b"one", b"2" * 200, b"three"])[1:]
    several = find_examples(texts, [b"one", b"2", b"three"], np.array([0, 1, 2]), np.zeros(3))
    assert several == [b"one", b"2" * WIDTH + CUT, b"three"]
    cut = b"a" * 3 * SEARCHED + b"p" + b"a" * (SEARCHED - 1) + b" " + b"b" * 500 + b" p b"
    share = (4 * SEARCHED) / len(cut)
    guess = int(share * len(cut))
    assert cut[guess - SEARCHED : guess - SEARCHED + 1] == b"p"
    assert b"b p b" in example_of(cut, b"p", share)


FOUND = [
    *((b"was applied to p", b"p", 15), (b"US us", b"us", 3), ("ép p".encode(), b"p", 4)),
    (b"applied (P) up", b"p", 9),  # a whole word in another case, not a part
    *((b"cats concat", b"cat", 0), (b"CONCAT", b"cat", 3)),  # only parts
    *((b"it's 's", b"'s", 5), (b"dog", b"cat", -1), (b"", b"cat", -1), (b"dog", b"", 0)),
]


@pytest.mark.parametrize(("text", "word", "at"), FOUND)
def test_a_word_by_itself_comes_first(text: bytes, word: bytes, at: int) -> None:
    """Then as a part, in any case. Bytes from 0x80 count as letters."""
    assert find_word(text, word) == at


@given(st.text(min_size=1, max_size=400), st.floats(0, 1))
def test_no_character_is_cut(text: str, share: float) -> None:
    """A part of UTF-8 is UTF-8, is in the text, and has about the requested length."""
    data = text.encode()
    part = clip(data, 0, len(data), int(share * len(data)))
    assert part.decode().strip("…") in text
    assert len(part) <= WIDTH + 2 * len(CUT) + 3


# Random strings


def drawn_strings() -> list[str]:
    bytes_of = random.Random(7).randbytes
    return [
        *(hashlib.new(name, b"x").hexdigest() for name in ("md5", "sha1", "sha256")),
        *(base64.b64encode(bytes_of(number)).decode().rstrip("=") for number in (24, 48, 96)),
        base64.urlsafe_b64encode(bytes_of(30)).decode(),
        uuid.UUID(int=7 << 90 | 0x1234ABCD, version=4).hex.upper(),
        *("a2176e82", "0x7fdd2b129cc0", "3178372451957822447", "eyJhbGciOiJIUzI1NiIsInR5cCI6"),
    ]


@pytest.mark.parametrize("text", drawn_strings())
def test_random_strings(text: str) -> None:
    """Base64, hashes, addresses and long numbers are random strings."""
    assert is_random(text)


@pytest.mark.parametrize(
    "text",
    [
        *("datetime64", "NetworkXNotImplemented", "OneHotMeanIoU", "effaced1", "20231231", ""),
        *("szczegółowych", "Donaudampfschifffahrtsgesellschaft", "3.14159", "utf8mb4", "漢字"),
        *("x86_64", "conv2d_transpose", "sha256", "ISO8601Date", "test_case_12345678"),
    ],
)
def test_names_are_not_random(text: str) -> None:
    """Neither long words of languages, nor names of programs, nor dates."""
    assert not is_random(text)
