"""What looks like a code, and what does not."""

from __future__ import annotations

import pytest

from vocabtool.keywords.identifiers import is_code_like


@pytest.mark.parametrize(
    "word",
    [
        "SKU-48007-H", "CVE-2024-1234", "0x80070005", "KB5034441", "RFC2616", "b3f2a", "A1B2C",
        "ISO-8859-1", "E0308-x", "v1.2.30", "ORA-00942", "2N2222A", "JIRA-10423",
        "3f2504e0-4f89", "mm10239", "marco12",
    ],
)  # fmt: skip  # a list
def test_codes(word: str) -> None:
    """At least one letter, two digits and five characters."""
    assert is_code_like(word)


@pytest.mark.parametrize(
    "word",
    [
        "IL-6", "p53", "H2O", "C++", "B12", "hello", "A1bcd",  # too few digits or characters
        "12345", "1,000.5", "287.9", "10-20", "1.5e-10", "2E+10",  # numbers
        "2024-01-02", "02/01/2024", "02-Jan-2024", "Jan-02-2024", "12may2021",  # dates
        "2024-01-02T10:30:00Z",
        "12:30:59", "10:30pm", "12:30h",  # times
        "$1,000", "100usd", "EUR100", "US$500", "$1500k",  # prices
        "1990s", "1990's", "1024th", "101st",  # decades, ordinals
        "", "--", "é",
    ],
)  # fmt: skip  # a list
def test_ordinary_words_and_numbers_are_no_codes(word: str) -> None:
    """Numbers, dates, times, prices, decades and ordinals are none, nor are short names."""
    assert not is_code_like(word)


def test_a_hostile_word_is_judged_at_once() -> None:
    """What is longer than any code is none, however it is written."""
    assert not is_code_like("1" * 100_000 + "a")
    assert not is_code_like("1." * 100 + "x")
