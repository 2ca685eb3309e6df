"""What looks like an identifier, and what does not."""

from __future__ import annotations

import pytest

from vocabtool.keywords.identifiers import is_code_like, is_identifier, is_name


@pytest.mark.parametrize(
    "word",
    [
        "SKU-48007-H", "CVE-2024-1234", "0x80070005", "KB5034441", "RFC2616", "b3f2a", "A1B2C",
        "ISO-8859-1", "E0308-x", "v1.2.30", "ORA-00942", "2N2222A", "JIRA-10423",
        "3f2504e0-4f89", "mm10239", "marco12", "123e4567", "jan12345", "0x1920", "100kmx", "1080pq",
        "12-34567-M", "0815-4711-K", "48007-H", "123-456-ST", "10-20-30km",
        "12345L", "AU12345",
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
        "2024-01-02T10:30:00Z", "20240102T103000Z", "May-2024", "Sept2023", "2024-Oct",
        "12:30:59", "10:30pm", "12:30h", "9am-5pm", "10am-11pm", "10.30h",  # times
        "$1,000", "100usd", "EUR100", "US$500", "$1500k", "$100-200k",  # prices
        "1990s", "1990's", "mid-1990s", "1024th", "101st",  # decades, ordinals
        "100km", "100-km", "10-20km", "1.5km", "256MB", "250mg", "3000rpm", "1920x1080",  # measures
        "100mbit", "100MiB/s", "500ml", "240v", "100km/h", "15min", "10days",
        "", "--", "é",
    ],
)  # fmt: skip  # a list
def test_ordinary_words_and_numbers_are_no_codes(word: str) -> None:
    """Numbers, dates, times, prices, decades, ordinals and measures are none, nor short names."""
    assert not is_code_like(word)


@pytest.mark.parametrize(
    "word",
    [
        "snake_case_helper", "os.path.join", "std::vector", "node->next", "__init__",
        "_private_name", "np._core.Array", "foo.__init__",
        "a.bc", "end.Start", "x_train", "Node.js", "std::map.at_x1", "__class_getitem__",
        "größe.länge", "camelCase", "LinearRegression", "parseHttpHeader", "aaBb",
        "/usr/lib", "src/main.py", "vocabtool/search/legs", "a_b/cc-d.e/ff",
    ],
)  # fmt: skip  # a list
def test_names(word: str) -> None:
    """A letter and more characters, then parts of a letter and one more at least; camelCase."""
    assert is_name(word)
    assert is_identifier(word)


@pytest.mark.parametrize(
    "word",
    [
        "e.g", "U.S", "U.S.A", "Ph.D", "i.e", "http://example.com/a_b", "a_1", "1.5.x", "foo_1",
        "_private", "init__", ".NET", "john.doe@example.com", "quick-brown", "and/or", "a:bc",
        "/usr", "input/output", "P/CAF", "km/h", "2024/jan/02", "example.com/page", "a/b/c", "//a",
        "mRNA", "HTTPServer", "parseHTTPHeader", "iPhone", "aB", "IL-6", "word", "Word", "WORD",
        "utf8Decode", "foo_bar-baz", "", "__", "_", "->",
    ],
)  # fmt: skip  # a list
def test_ordinary_words_are_no_names(word: str) -> None:
    """Nor abbreviations, addresses, and words with hyphens, slashes or mixed capitals."""
    assert not is_name(word)


def test_a_hostile_word_is_judged_at_once() -> None:
    """What is longer than any code or name is none, however it is written."""
    for word in ("1" * 100_000 + "a", "1." * 100 + "x", "ab_" * 100_000, "Ab" * 100_000):
        assert not is_identifier(word)
