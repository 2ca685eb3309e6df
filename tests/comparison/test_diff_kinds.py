"""Kinds of entries: each by example, and all of them by the definitions, written once more."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.comparison import characters
from vocabtool.comparison.entries import arrow
from vocabtool.comparison.kinds import KINDS, Kind, kinds
from vocabtool.oov.lookalikes import main_script
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Marker, encode, is_utf8


def kind_of(entry: str | bytes, marker: Marker | None = None) -> Kind:
    data = entry if isinstance(entry, bytes) else encode(entry)
    return KINDS[int(kinds(arrow(ByteStrings.of([data])), marker)[0])]


EXAMPLES: dict[Kind, list[str | bytes]] = {
    "word": [
        "the",
        "naïve",
        "don't",
        "mother-in-law",
        "new york",
        "e\u0301tude",
        "iv",
        "\u2019tis",
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
def test_by_example(entry: str | bytes, kind: Kind) -> None:
    """Without a marker, there are no pieces."""
    assert kind_of(entry) == kind


def test_most_letters_tell_the_script() -> None:
    """The script of most letters; of the first among as many."""
    assert [
        kind_of(entry) for entry in ("\u03b1-helix", "\u03b1\u03b2c", "a\u03b1", "\u03b1a")
    ] == [
        *("word", "other script"),
        *("word", "other script"),
    ]


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
def test_pieces_by_example(marker: Marker, pieces: list[str], others: dict[str, Kind]) -> None:
    """What goes on with a word is a piece; the rest is told without its mark."""
    assert {piece: kind_of(piece, marker) for piece in pieces} == dict.fromkeys(
        pieces, "subword piece"
    )
    assert {entry: kind_of(entry, marker) for entry in others} == others


def defined(entry: bytes) -> Kind:
    """The definitions, one character after the other."""
    special = rb"<[^<>\s]*[A-Za-z/][^<>\s]*>|\[[^\[\]\s]*[A-Za-z]{2}[^\[\]\s]*\]"
    if re.fullmatch(special, entry):
        return "special"
    if not is_utf8(entry):
        return "other"
    text = entry.decode()
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
    if main_script(text) != "LATIN":
        return "other script"
    return "capitalised" if unicodedata.category(letters[0]) in ("Lu", "Lt") else "word"


parts = st.sampled_from([*"aBzé1½٣_/\\@:.+#-' <>[]жЖ中한ａＡ€😀", "e\u0301", "\u200d", "ǅ", "º"])
entries = st.one_of(st.lists(parts, max_size=6).map("".join).map(encode), st.binary(max_size=4))


@given(st.lists(entries, max_size=30))
def test_by_definition(some: list[bytes]) -> None:
    """All at once, and whatever stands beside them."""
    found = kinds(arrow(ByteStrings.of(some)))
    assert [KINDS[i] for i in found.tolist()] == [defined(entry) for entry in some]


@given(st.lists(st.text(max_size=3), max_size=10))
def test_any_character_has_bits(some: list[str]) -> None:
    """What may change under folding is marked; what is marked ASCII is."""
    stored = [text.encode("utf-8", "replace") for text in some]
    bits = characters.characters(arrow(ByteStrings.of(stored)))
    for entry, found in zip(stored, bits.tolist(), strict=True):
        text = entry.decode()
        assert bool(found & characters.WIDE) == (not text.isascii())
        assert bool(found & characters.CASED) == (text.casefold() != text)
        if not found & characters.COMPOSED:
            assert unicodedata.is_normalized("NFKC", text)
            assert unicodedata.is_normalized("NFKC", text.casefold())


def test_entries_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where entries are worked on in parts, and some of a part are not UTF-8."""
    some = [b"", b"a", b"\xc3", b"\xa9", b"7", "é".encode(), b"", b"\xe4\xb8", b"Z", b""]
    whole = kinds(arrow(ByteStrings.of(some))).tolist()
    monkeypatch.setattr(characters, "CHUNK", 3)
    assert kinds(arrow(ByteStrings.of(some))).tolist() == whole
    assert [KINDS[i] for i in whole] == [
        *("other", "word", "other", "other", "number", "word", "other", "other", "capitalised"),
        "other",
    ]
