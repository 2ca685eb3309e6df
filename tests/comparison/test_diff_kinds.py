"""Kinds of entries: each by example, and all of them by the definitions, written once more."""

from __future__ import annotations

import re
import unicodedata
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.some_reports import vocabulary
from vocabtool import diff


def kinds_of(entries: list[bytes], marker: Any = None) -> list[str]:
    """The kind of each entry; entries are different ones."""
    table = diff(vocabulary(entries, marker=marker), vocabulary([])).to_arrow()
    return [str(kind) for kind in table["kind_a"].to_pylist()]


def kind_of(entry: str | bytes, marker: Any = None) -> str:
    data = entry if isinstance(entry, bytes) else entry.encode()
    return kinds_of([data], marker)[0]


EXAMPLES: dict[str, list[str | bytes]] = {
    "word": [
        *("the", "naïve", "don't", "mother-in-law", "new york", "e\u0301tude", "iv", "\u2019tis")
    ],
    "capitalised": ["Paris", "NASA", "Éclair", "'Tis", "O'Neill", "\uff21", "U.S.", "ǅ"],
    "number": ["287.9", "1,000", "-3", "50%", "½", "٣", "Ⅷ", "10:30", "²"],
    "punctuation": ["...", "€", "😀", "_", "--", "]", "<>", "[]", "<!>", "[]]"],
    "identifier": [
        *("b2b", "iPhone", "McDonald", "New_York", "os.path", "std::map", "C++", "C#", "a/b"),
        *("1st", "a@b", "c+", "ж2", "H2O", "__init__", "[1a]"),
    ],
    "other script": ["москва", "Москва", "中国", "한국", "ж_", "हिन्दी"],
    "special": [
        *("[CLS]", "[UNK]", "<s>", "</s>", "<unk>", "<|endoftext|>", "<0x0A>", "[unused1]"),
        "<\uff5cbegin▁of▁sentence\uff5c>",
    ],
    "other": ["", " ", "\n", "\u2028", "\u200d", b"caf\xe9", b"\xff"],
}


@pytest.mark.parametrize(
    ("entry", "kind"), [(entry, kind) for kind, some in EXAMPLES.items() for entry in some]
)
def test_by_example(entry: str | bytes, kind: str) -> None:
    """Without a marker, there are no pieces."""
    assert kind_of(entry) == kind


def test_most_letters_tell_the_script() -> None:
    """The script of most letters; of the first among as many."""
    kinds = kinds_of([e.encode() for e in ("\u03b1-helix", "\u03b1\u03b2c", "a\u03b1", "\u03b1a")])
    assert kinds == ["word", "other script"] * 2


@pytest.mark.parametrize(
    ("marker", "pieces", "others"),
    [
        ("▁", ["ing", "s", "7", "ж"], {"▁the": "word", "▁The": "capitalised", ",": "punctuation"}),
        ("Ġ", ["ing", "Ã"], {"Ġthe": "word", "Ġ7": "number", "Ġ": "other", "<s>": "special"}),
        (" ", ["ing"], {" the": "word", ".": "punctuation", " Ж": "other script"}),
        ("##", ["##ing", "##7", "##!"], {"the": "word", "!": "punctuation", "[CLS]": "special"}),
        ("@@", ["th@@", "7@@"], {"the": "word", "7": "number"}),
        ("</w>", ["th", "7"], {"the</w>": "word", "!": "punctuation", "7</w>": "number"}),
    ],
)
def test_pieces_by_example(marker: str, pieces: list[str], others: dict[str, str]) -> None:
    """What goes on with a word is a piece; the rest is told without its mark."""
    assert {piece: kind_of(piece, marker) for piece in pieces} == dict.fromkeys(
        pieces, "subword piece"
    )
    assert {entry: kind_of(entry, marker) for entry in others} == others


def defined(entry: bytes) -> str:
    """The definitions, one character after the other."""
    special = rb"<[^<>\s]*[A-Za-z/][^<>\s]*>|\[[^\[\]\s]*[A-Za-z]{2}[^\[\]\s]*\]"
    if re.fullmatch(special, entry):
        return "special"
    try:
        text = entry.decode()
    except UnicodeDecodeError:
        return "other"
    categories = [unicodedata.category(c) for c in text]
    letters = [c for c, category in zip(text, categories, strict=True) if category[0] == "L"]
    numbers = any(category[0] == "N" for category in categories)
    if not letters:
        signs = any(category[0] in "PS" for category in categories)
        return "number" if numbers else "punctuation" if signs else "other"
    w = r"[^\W_]"  # letters and numbers, as far as these tests go
    joined = rf"(?:{w}|_)[_/\\@](?:{w}|_)|(?:{w}|_)::(?:{w}|_)|(?:{w}|_){{2}}\.(?:{w}|_){{2}}"
    if numbers or re.search(rf"[a-z][A-Z]|{joined}|(?:{w}|_)(?:\+\+?|#)\Z", text):
        return "identifier"
    plain = [c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c)[0] == "L"]
    scripts = [unicodedata.name(letter).split()[0] for letter in plain]
    if max(scripts, key=scripts.count) != "LATIN":  # of equals the first
        return "other script"
    return "capitalised" if unicodedata.category(letters[0]) in ("Lu", "Lt") else "word"


parts = st.sampled_from([*"aBzé1½٣_/\\@:.+#-' <>[]жЖ中한ａＡ€😀", "e\u0301", "\u200d", "ǅ", "º"])
entries = st.one_of(st.lists(parts, max_size=6).map("".join).map(str.encode), st.binary(max_size=4))


@given(st.lists(entries, max_size=30, unique=True), st.sampled_from([3, 1 << 14]))
def test_by_definition(some: list[bytes], together: int) -> None:
    """All at once, whatever stands beside them, and in parts."""
    with mock.patch("vocabtool.comparison.entries.CHUNK", together):
        assert kinds_of(some) == [defined(entry) for entry in some]
