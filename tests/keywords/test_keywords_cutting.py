"""Texts are cut into words and identifiers by a rule that a person can follow."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.choices import Language
from vocabtool.keywords import cutter as cutting
from vocabtool.keywords.cutter import (
    Cutter,
    Terms,
    places_of,
)
from vocabtool.keywords.tokens import MAX_TERM, Span, is_code_like, is_identifier, is_name

ENGLISH = Cutter()
UNSTEMMED = Cutter("none")

# What stands in a text, its words (unstemmed) and its surfaces.
IDENTIFIERS = [
    ("SKU-48007-H", "sku 48007 h", "sku-48007-h"),
    ("C++", "c", "c++"),
    (".NET", "net", ".net"),
    ("std::vector", "std vector", "std::vector"),
    ("0x80070005", "0x80070005", ""),
    ("v1.2.3", "v1 2 3", "v1.2.3"),
    ("john.doe@example.com", "john doe example com", "john.doe@example.com john.doe example.com"),
    ("/usr/lib/python3.11/os.py", "usr lib python3 11 os py",
     "/usr/lib/python3.11/os.py usr/lib/python3.11/os.py python3.11 os.py"),
    (r"C:\Windows\system32", "c windows system32", r"c:\windows\system32 windows\system32"),
    ("__init__", "init", "__init__"),
    ("#SKU-48007-H", "sku 48007 h", "#sku-48007-h sku-48007-h"),
    ("SKU-48007-H/SKU-48008-A", "sku 48007 h sku 48008 a", "sku-48007-h/sku-48008-a sku-48007-h"
     " sku-48008-a"),
    ("a-b.c-d", "a b c d", "a-b.c-d b.c a-b c-d"),
    ("foo.__init__", "foo init", "foo.__init__ foo.__init __init__"),
    ("https://example.com/a/b#c", "https example com a b c",
     "https://example.com/a/b#c example.com/a/b example.com"),
    ("ＳＫＵ－４８", "sku 48", "sku-48"),  # noqa: RUF001  # full width is what is tested
    ("non\u2011breaking", "non breaking", "non-breaking nonbreaking"),
]  # fmt: skip  # a table

AROUND = ["{}", "({})", '"{}"', "'{}',", "see {}; and", "<{}>", "is {}!", "[{}]?", "a, {}…", "{}."]


@pytest.mark.parametrize(("written", "words", "surfaces"), IDENTIFIERS)
def test_identifiers_are_cut_whole_and_in_parts(written: str, words: str, surfaces: str) -> None:
    """An identifier gives its runs as words, and itself with its compound segments as surfaces.

    If it has no digit, and one kind of ``. - / &``, it also gives the word that its runs make.

    Brackets, quotes, commas and the ends of sentences are no part of it.
    """
    assert UNSTEMMED.terms([written]) == [Terms(words, surfaces, len(words.split()))]
    for around in AROUND:
        spans = UNSTEMMED.spans(around.format(written))
        found = [(word.words, word.surfaces) for word in spans if word.surface == written]
        assert found == [(tuple(words.split()), tuple(surfaces.split()))]


def test_joiners_that_join_nothing_are_no_identifier() -> None:
    """Dashes, dots and slashes between blanks, and ends of sentences, give no surface."""
    assert UNSTEMMED.terms(["foo.bar() vec<int>[0]"])[0].surfaces == "foo.bar foobar"
    assert UNSTEMMED.terms(["\u2764\ufe0f \ud800 \u0301 \0 + =="]) == [Terms("", "", 0)]
    text = "one -- two ... three / four. Five: six - seven...eight a--b price $5 .5 $ # @ ."
    assert UNSTEMMED.terms([text])[0].surfaces == ""


@pytest.mark.parametrize(
    ("written", "words"),
    [
        *(
            (name, f"{name.lower()} parse http header")
            for name in ("parseHttpHeader", "parseHTTPHeader")
        ),
        *((name, name.lower()) for name in ("mRNA", "SNPs", "iPhone", "Title")),
        *(("HTTPServer", "httpserver http server"), ("getIDs", "getids get ids")),
        ("LinearRegression", "linearregression linear regression"),
        *(("QMainWindow", "qmainwindow main window"), ("utf8Decode", "utf8decode utf8 decode")),
        ("an http.parseHeader call", "an http parseheader call parse header"),
        ("कुल कल", "कुल कल"),  # marks that are letters of their script stay
        ("東京タワー2020年Tokyo", "東 京 タ ワ ー 2020 年 tokyo 東京 京タ タワ ワー"),
        ("서울은 iPhone을 2대", "서 울 은 iphone 을 2 대 서울 울은"),
        ("ไทย", "ไท ทย"),
    ],
)
def test_humps_and_other_scripts(written: str, words: str) -> None:
    """Han, kana and Hangul are cut into characters, Thai into overlapping pairs.

    Humps, and overlapping pairs of Han, kana and Hangul, stand behind all other words.
    """
    assert UNSTEMMED.terms([written])[0].words == words


# The rule of the measured setting, written anew; words in mixed case add their humps.
def _measured(text: str) -> list[str]:
    stemmer = Stemmer.Stemmer("english")
    words = re.findall("[a-z0-9]+", text.lower())
    return [word if re.search("[0-9]", word) else stemmer.stemWord(word) for word in words]


@given(st.text(st.characters(max_codepoint=127), max_size=200))
def test_ascii_words_are_those_of_the_measured_rule(text: str) -> None:
    """Words of ASCII text are [a-z0-9]+ in lower case, stemmed unless with a digit."""
    measured = _measured(text)
    assert ENGLISH.terms([text])[0].words.split()[: len(measured)] == measured
    found = ENGLISH.terms([text.lower()])[0]
    assert found.words.split() == measured
    assert found.count == len(measured)


@given(
    st.lists(st.sampled_from(list("aZcD9._->#@+/\\:$&'\"( \u00e9\u6771\u0301\u00ad")), max_size=30)
)
def test_chunks_are_cut_as_in_the_whole_text(characters: list[str]) -> None:
    """What is remembered of chunks between blanks is what the whole text gives."""
    text = "".join(characters)
    words = ENGLISH.spans(text)
    found = ENGLISH.terms([text])[0]
    in_order = [term for word in words for term in word.in_a_row]
    assert found.words.split()[: len(in_order)] == in_order
    assert found.surfaces.split() == [term for word in words for term in word.surfaces]
    assert [text[word.start : word.end] for word in words] == [word.surface for word in words]
    assert sorted(term for term, _ in ENGLISH.places(text)) == sorted(found.words.split())


@given(st.text(max_size=60))
def test_terms_hold_nothing_that_the_engine_would_cut(text: str) -> None:
    """Terms are joined by single blanks, hold no other white space, and are counted."""
    for cutter in (ENGLISH, UNSTEMMED):
        found = cutter.terms([text])[0]
        assert len(found.words.split()) == found.count
        for joined in (found.words, found.surfaces):
            assert joined == " ".join(joined.split())
            joined.encode()  # no lone surrogates


def test_letters_that_unicode_does_not_decompose() -> None:
    """They are folded to the ASCII letters that people write for them."""
    for one, other in (
        ("Łódź Øresund Đorđe Ðorðe", "Lodz ORESUND Dorde dorde"),
        ("\u0131s\u0131 Ħal Æsir œuvre Þór", "isi hal aesir oeuvre thor"),
    ):
        words, others = ([word.words for word in UNSTEMMED.spans(text)] for text in (one, other))
        assert words == others


def test_words_of_a_query() -> None:
    """Phrases are numbered, stop words flagged, and places count characters."""
    words = ENGLISH.query('see "dark matter" or “the Higgs boson”, 6" of "it')
    assert {word.surface: word.phrase for word in words if word.phrase is not None} == {
        "dark": 0, "matter": 0, "the": 1, "Higgs": 1, "boson": 1,
    }  # fmt: skip  # a table
    assert [word.phrase for word in ENGLISH.spans('"dark matter"')] == [None, None]
    words = ENGLISH.query("What didn't be-in Berlin")
    assert [(word.surface, word.stop) for word in words] == [
        ("What", True), ("didn", True), ("t", True), ("be-in", False), ("Berlin", False),
    ]  # fmt: skip  # a table
    assert Cutter("german").query("und and")[0].stop
    assert not Cutter("german").query("und and")[1].stop
    assert not Cutter("tamil").query("the")[0].stop  # there is no list for it
    text = "\U0001f600 Straße: ﬁn"
    assert [(word.surface, word.start, word.end) for word in ENGLISH.spans(text)] == [
        ("Straße", 2, 8), ("ﬁn", 10, 12),
    ]  # fmt: skip  # a table
    assert list(UNSTEMMED.places("a-bc 東京都")) == [
        ("a", Span(0, 1)), ("bc", Span(2, 4)), ("東京", Span(5, 7)), ("京都", Span(6, 8)),
        ("東", Span(5, 6)), ("京", Span(6, 7)), ("都", Span(7, 8)),
    ]  # fmt: skip  # a table


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "unit", ["東", "a", "a-", "-", "a.b/", ".", "_", "\u0301", "a_", "\u00e9", '"']
)
def test_a_million_characters_without_a_blank_are_cut(unit: str) -> None:
    """Hostile texts take time in proportion to their length, and their terms are bounded."""
    text = unit * (1_000_000 // len(unit))
    found = ENGLISH.terms([text])[0]
    for term in (found.words + " " + found.surfaces).split():
        assert len(term) <= MAX_TERM
    ENGLISH.query(text[:100_000])


def test_every_language_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cutter for each language, told apart; few chunks are remembered, and no long ones."""
    cutters = [Cutter(language) for language in get_args(Language)]
    assert len({cutter.fingerprint for cutter in cutters}) == len(cutters)
    assert {*get_args(Language)} == {*Stemmer.algorithms(), "none"}
    assert Cutter("german").terms(["Häuser"])[0].words == "haus häuser"
    assert re.fullmatch(r"words \d+, Unicode [\d.]+, PyStemmer [\d.]+ english", ENGLISH.fingerprint)
    with_list = {"danish", "dutch", "dutch_porter", "english", "finnish", "french", "german"}
    with_list |= {"hungarian", "italian", "norwegian", "porter", "portuguese", "russian"}
    with_list |= {"spanish", "swedish", "none"}  # without stems, none is missed
    assert {cutter.language for cutter in cutters if not cutter.lacks_stop_words} == with_list
    with pytest.raises(ValueError, match="unknown language 'klingon'; the languages are arabic, "):
        Cutter("klingon")  # type: ignore[arg-type]  # the mistake under test
    monkeypatch.setattr(cutting, "MAX_REMEMBERED", 3)
    cutter = Cutter()
    texts = [f"word{number} word{number} {'x' * 65}" for number in range(10)]
    assert [terms.count for terms in cutter.terms(texts)] == [3] * 10
    assert len(cutter._remembered) <= 3


CODES = """
SKU-48007-H CVE-2024-1234 0x80070005 KB5034441 RFC2616 b3f2a A1B2C ISO-8859-1 E0308-x v1.2.30
ORA-00942 2N2222A JIRA-10423 3f2504e0-4f89 mm10239 marco12 123e4567 jan12345 0x1920 100kmx 1080pq
12-34567-M 0815-4711-K 48007-H 123-456-ST 10-20-30km 12345L AU12345
"""
NAMES = """
snake_case_helper os.path.join std::vector node->next __init__ _private_name np._core.Array
foo.__init__ a.bc end.Start x_train Node.js __class_getitem__ größe.länge camelCase LinearRegression
parseHttpHeader aaBb /usr/lib src/main.py vocabtool/search/legs a_b/cc-d.e/ff
"""
# Too few digits or characters; numbers, dates, times, prices, decades, ordinals and measures;
# abbreviations, addresses, and words with hyphens, slashes or mixed capitals.
NEITHER = """
IL-6 p53 H2O C++ B12 hello A1bcd 12345 1,000.5 287.9 10-20 1.5e-10 2E+10 2024-01-02 02/01/2024
02-Jan-2024 Jan-02-2024 12may2021 2024-01-02T10:30:00Z 20240102T103000Z May-2024 Sept2023 2024-Oct
12:30:59 10:30pm 12:30h 9am-5pm 10am-11pm 10.30h $1,000 100usd EUR100 US$500 $1500k $100-200k 1990s
1990's mid-1990s 1024th 101st 100km 100-km 10-20km 1.5km 256MB 250mg 3000rpm 1920x1080 100mbit
100MiB/s 500ml 240v 100km/h 15min 10days -- é e.g U.S U.S.A Ph.D i.e http://example.com/a_b a_1
2024/jan/02 foo_1 _private init__ .NET john.doe@example.com quick-brown and/or a:bc /usr P/CAF
km/h example.com/page a/b/c //a mRNA HTTPServer parseHTTPHeader iPhone aB word Word WORD utf8Decode
foo_bar-baz __ _ -> input/output
"""


@pytest.mark.parametrize(
    ("word", "is_code", "named"),
    [
        *((word, True, False) for word in CODES.split()),
        *((word, False, True) for word in NAMES.split()),
        *((word, False, False) for word in ("", *NEITHER.split())),
        ("std::map.at_x1", False, True),
        ("1.5.x", True, False),
    ],
)
def test_what_a_word_looks_like(word: str, is_code: bool, named: bool) -> None:
    """Codes have a letter, two digits and five characters; parts of names begin with a letter."""
    assert is_code_like(word) == is_code
    assert is_name(word) == named
    assert is_identifier(word) == (is_code or named)


def test_a_hostile_word_is_judged_at_once() -> None:
    """What is longer than any code or name is none, however it is written."""
    for word in ("1" * 100_000 + "a", "1." * 100 + "x", "ab_" * 100_000, "Ab" * 100_000):
        assert not is_identifier(word)


@pytest.mark.parametrize(
    ("text", "values", "searched", "wanted"),
    [
        ("A\n\nB\n\nC", {"t": "A"}, ("t^2", "text"), [("t", 0, 1), ("text", 3, 7)]),
        ("\ufffd\n\nB", {"t": "\udcff", "b": "B"}, ("t", "b"), [("t", 0, 1), ("b", 3, 4)]),
        ("other", {"t": "A", "b": "B"}, ("t", "b"), []),
        ("A. B", {"t": "A"}, ("t", "text"), []),
        ("A", {"t": 1}, ("t",), []),
    ],
)
def test_places(
    text: str, values: dict[str, object], searched: tuple[str, ...], wanted: list[Any]
) -> None:
    """Where the fields of a text are; nowhere if the text is not made of them."""
    assert places_of(text, values, searched) == wanted


@given(
    st.permutations(["text", "title", "path"]),
    st.fixed_dictionaries(
        dict.fromkeys(("text", "title", "path"), st.sampled_from([None, "", "a", "fox\n\nowl"]))
    ),
)
def test_places_in_any_order(names: list[str], row: dict[str, str | None]) -> None:
    """The places of what the fields of a row contain, whichever of them it lacks."""
    there = [(name, value) for name in names if (value := row[name])]
    text = "\n\n".join(value for _, value in there)
    values = {name: row[name] for name in ("title", "path")}
    found = places_of(text, values, (*names,))
    assert [(name, text[start:end]) for name, start, end in found] == there
