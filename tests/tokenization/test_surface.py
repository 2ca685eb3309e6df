"""A line cut into surface words: the boundaries of Unicode, and codes kept whole."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.tokenization.mask import SPACE, Span, cuts, is_code

LINES = st.text(
    st.sampled_from("aZé9 .,-_'+#@/:\t\u00a0日カ\u0301\u200d👩🚀🇫🇷”ก\ud800\0") | st.characters(),
    max_size=30,
)


def surface_words(line: str) -> list[Span]:
    """The finest cut of a line: words, codes, and each punctuation mark or symbol by itself.

    Together they hold every character that is not white space.
    """
    found: list[Span] = []
    start = 0
    for piece in SPACE.split(line):
        if piece and not piece.isspace():
            found += (Span(start + a, start + b) for a, b in cuts(piece)[-1])
        start += len(piece)
    return found


def shown(line: str) -> list[str]:
    return [line[start:end] for start, end in surface_words(line)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        (" \t ", []),
        ("didn't don\u2019t can:t", ["didn't", "don\u2019t", "can:t"]),
        ("quick-brown, fox", ["quick", "-", "brown", ",", "fox"]),
        ("3.14 1,234.5 10%", ["3.14", "1,234.5", "10", "%"]),
        ("nai\u0308ve e\u0301", ["nai\u0308ve", "e\u0301"]),
        ("日本語テキスト", ["日", "本", "語", "テキスト"]),
        ("한국어 हिन्दी", ["한국어", "हिन्दी"]),
        ('שנ"ב', ['שנ"ב']),
        ("👩\u200d🚀🇫🇷🇩🇪", ["👩\u200d🚀", "🇫🇷", "🇩🇪"]),
        ("a\u00a0b\u2028c", ["a", "b", "c"]),
        ("“So”…", ["“", "So", "”", "…"]),
        ("x\ud800\udcff", ["x", "\ud800", "\udcff"]),
    ],
)
def test_words_are_what_stands_between_unicode_boundaries(line: str, words: list[str]) -> None:
    """The examples of UAX #29, and white space belongs to no word."""
    assert shown(line) == words


@pytest.mark.parametrize(
    "code",
    [
        *("C++", "C#", ".NET", "CVE-2024-1234", "SKU-48007-H", "0x80070005", "foo_bar.baz"),
        *("user@example.com", "3.14", "IL-6", "x86-64", "2024-01-31", "10:30", "std::vector"),
        *("https://a.b/c?d=e", "\u0422-34", "v1.2.3-rc1", "16GB", "a=b&c=1"),
    ],
)
def test_a_code_is_one_surface_word(code: str) -> None:
    """Codes stay whole, also in brackets and before a full stop."""
    assert shown(f"({code}).") == ["(", code, ")", "."]


@pytest.mark.parametrize("plain", ["quick-brown", "GOOD-bye", "e-mail", "and/or", "R&D", "a.b"])
def test_joined_words_are_no_codes(plain: str) -> None:
    """Where they are cut, the model's rule decides, not the look of them."""
    assert not is_code(plain)


def test_a_chunk_can_be_cut_in_up_to_three_ways() -> None:
    """Whole, without the marks around it, into words: each way once."""
    assert [[chunk[slice(*s)] for s in way] for chunk in ['"it-is".'] for way in cuts(chunk)] == [
        ['"it-is".'],
        ['"', "it-is", '"', "."],
        ['"', "it", "-", "is", '"', "."],
    ]
    assert cuts("word") == [((0, 4),)]
    assert cuts("don't") == [((0, 5),)]
    assert cuts("--") == [((0, 2),), ((0, 1), (1, 2))]


@given(LINES)
def test_surface_words_cover_all_that_is_not_white_space(line: str) -> None:
    """They stand in order, apart, not empty, and what they leave out is white space."""
    spans = surface_words(line)
    assert all(span.start < span.end for span in spans)
    assert all(one.end <= two.start for one, two in pairwise(spans))
    covered = {i for start, end in spans for i in range(start, end)}
    assert all(c.isspace() for i, c in enumerate(line) if i not in covered)
    assert not any(line[start:end].isspace() for start, end in spans)


@given(LINES)
def test_finer_cuts_cut_coarser_ones(line: str) -> None:
    """Each way cuts the one before it further, up to white space."""
    for chunk in filter(None, SPACE.split(line)[::2]):
        for coarse, fine in pairwise(cuts(chunk)):
            within = [any(a <= start and end <= b for a, b in coarse) for start, end in fine]
            assert all(within)


@pytest.mark.parametrize("unit", ["🇫🇷", "日", "a-", "ab", "a\u0301", "x1-", "a:", "\u200d"])
def test_a_long_chunk_is_cut_like_a_short_one(unit: str) -> None:
    """Windows of the search leave no trace: 6,000 repeats are cut as 60 are, only longer."""

    def widths(count: int) -> list[int]:
        return [end - start for start, end in cuts(unit * count)[-1]]

    short, long = widths(60), widths(6000)
    if len(short) < 60:
        assert len(long) == len(short)
    else:
        assert long == short[: len(short) // 60] * 6000
