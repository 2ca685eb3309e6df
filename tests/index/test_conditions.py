"""Conditions on fields, compared with what SQLite says of the same rows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.small_indexes import add, temporary_folder
from vocabtool import Document, Index, InvalidCondition

SAFE: int = 1 << 53  # whole numbers that floating point holds exactly
DEEPEST, LONGEST = 20, 10_000


def index_of(folder: Path, *commits: Sequence[Document]) -> Index:
    """An index after some commits."""
    index = Index.create(folder / "index", dim=1)
    for documents in commits:
        add(index, documents, np.ones((len(documents), 1)), on_existing="update")
    return index


def fulfilled(index: Index, condition: str) -> str:
    """The ids of the documents that fulfil a condition, in their order."""
    rows = index.snapshot().rows_in_order(condition)
    return "".join(index.snapshot().ids(rows))


SHORT = st.text("ab%_\\'\"é\n.", max_size=4)
VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "year": st.integers(-3, 3) | st.integers(-SAFE, SAFE),
    "price": st.sampled_from([0.0, -0.0, 0.5, 1.0, -2.5]) | st.floats(-1e300, 1e300),
    "name": SHORT,
    "open": st.booleans(),
    "a field": SHORT,
    "id": SHORT,
    "text": SHORT,
}
WORDS = ("and", "or", "AND")
FIELDS = ("year", "price", "name", "open", "a field")
ROWS = st.lists(
    st.tuples(
        VALUES["id"],
        VALUES["text"],
        st.fixed_dictionaries({name: st.none() | VALUES[name] for name in FIELDS}),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda row: row[0],
)


def literal(value: Any) -> str:
    """A value as it is written in SQL and in a condition."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower() if isinstance(value, bool) else repr(value)


@st.composite
def one_test(draw: st.DrawFn) -> tuple[str, str]:
    """A test of one field: the condition, and the same in SQLite's dialect."""
    name = draw(st.sampled_from(sorted(VALUES)))
    values = VALUES["year"] | VALUES["price"] if name in ("year", "price") else VALUES[name]
    value, other = literal(draw(values)), literal(draw(values))
    field = f'"{name}"' if " " in name or draw(st.booleans()) else name
    no = draw(st.sampled_from(["", "not ", "NOT "]))
    column = f'"{name}"'
    shapes = [
        (f"{field} {sign} {value}", f"{column} {sign} {value}")
        for sign in ("=", "==", "!=", "<>", "<", "<=", ">", ">=")
    ]
    shapes += [
        (f"{field} {no}in ({value}, {other})", f"{column} {no}in ({value}, {other})"),
        (f"{field} {no}between {value} and {other}",) * 2,
        (f"{field} is {no}null", f"{column} is {no}null"),
    ]
    if name == "open":
        shapes.append((field, column))
    if value.startswith("'"):
        shapes += [
            (f"{field} {no}like {value}", f"{column} {no}like {value}"),
            (f"{field} {no}contains {value}", f"{no}instr({column}, {value}) > 0"),
        ]
    ours, theirs = draw(st.sampled_from(shapes))
    return (ours, theirs) if draw(st.booleans()) else (f"not {ours}", f"not {theirs}")


def _joined(parts: Sequence[tuple[str, str]], word: str) -> tuple[str, str]:
    ours, theirs = zip(*parts, strict=True)
    return f" {word} ".join(ours), f" {word} ".join(theirs)


CONDITIONS = st.recursive(
    one_test(),
    lambda inner: (
        inner.map(lambda pair: (f"not ({pair[0]})", f"not ({pair[1]})"))
        | inner.map(lambda pair: (f"( {pair[0]} )", f"({pair[1]})"))
        | st.builds(_joined, st.lists(inner, min_size=2, max_size=3), st.sampled_from(WORDS))
    ),
    max_leaves=5,
)


def says_sqlite(rows: Sequence[Any], conditions: Sequence[str]) -> list[list[int]]:
    """Which rows fulfil each condition."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("pragma case_sensitive_like = on")
        types = "year integer, price real, name text, open integer, 'a field' text"
        database.execute(f"create table rows (number integer, id text, text text, {types})")
        for number, (id_, text, fields) in enumerate(rows):
            values = (number, id_, text, *(fields[name] for name in FIELDS))
            database.execute("insert into rows values (?, ?, ?, ?, ?, ?, ?, ?)", values)
        return [
            [row for (row,) in database.execute(f"select number from rows where {condition}")]
            for condition in conditions
        ]


@given(rows=ROWS, conditions=st.lists(CONDITIONS, min_size=9, max_size=25), cut=st.integers(0, 12))
@settings(max_examples=30, deadline=None)
def test_against_sqlite(rows: list[Any], conditions: list[tuple[str, str]], cut: int) -> None:
    """Conditions say what SQL says: nulls, precedence, patterns, quotes, over several files too."""
    documents = [Document(*row) for row in rows]
    with temporary_folder() as folder:
        snapshot = index_of(Path(folder), documents[:cut], documents[cut:]).snapshot()
        found = [snapshot.rows_in_order(ours).tolist() for ours, _ in conditions]
    assert found == says_sqlite(rows, [theirs for _, theirs in conditions])


DOCUMENTS = (
    Document("a", "one", {"year": 2019, "lang": "en", "open": True, "none": None, "in": 1}),
    Document("b", "two", {"year": 2020, "lang": "de", "open": False, "price": 2.5}),
    Document("c", "three", {"year": 2021, "lang": "en", "tags": ["x"]}),
)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """An index of three documents."""
    return index_of(tmp_path_factory.mktemp("three"), DOCUMENTS)


LISTS = (
    Document("a", "[1]", {"tags": ["cab", "b"], "numbers": [1, 2.5], "mixed": ["cab"]}),
    Document("b", "2", {"tags": ["a", "cab"], "numbers": [True, None], "mixed": "a cab"}),
    Document("c", "3", {"tags": [], "numbers": [[1]], "mixed": "[cab"}),
    Document("d", "4", {"tags": None, "numbers": None}),
)
DAYS = ("2024-01-31T10:00:00,25+02:00", "2024-01-01 00:00Z", "2023", "2024-02", None)
TITLES = ("A Red kettle.", "CAFÉ, C++ and fish", ["paths", "x"], "打开路径 2024-01-31, 10:00")
NAMES = ("has", "any", "word", "ilike", "startswith", "date")  # of fields, and of operators

# Documents, and conditions with the ids of those that fulfil them.
FULFILLED = [
    (
        DOCUMENTS,
        {
            "open = true or price > 2": "ab",
            "not (none = 3)": "",
            '"in" = 1': "a",
            "tags contains 'x'": "c",
            "year between 2019.5 and 2020.5": "b",
            "year < 9223372036854775808": "abc",
            "year > 1e999": "",
            f"year = 2019 or year = {'9' * 5000}": "a",
            "(" * DEEPEST + "open" + ")" * DEEPEST: "a",
            "not " * DEEPEST + "open": "a",
            "(open and " * DEEPEST + "open" + ")" * DEEPEST: "a",
            " or ".join(["id = 'b'"] * 500): "b",
            "lang not like '" + "_%" * 4900 + "'": "abc",
        },
    ),
    (
        LISTS,  # whole elements, and no part of the JSON text; texts contain their parts
        {
            "tags contains 'a'": "b",
            "not tags contains 'a'": "ac",
            "numbers contains 1": "a",
            "numbers contains true": "b",
            "mixed contains 'a'": "bc",
            "tags has 'a'": "b",
            "tags not has 'a'": "ac",
            "tags has any ('a', 'b', 'z')": "ab",
            "tags has any (1, true)": "",
            "numbers has any (true, 2.5, 'x')": "ab",
            "mixed has 'cab'": "a",
            "tags has any (" + ", ".join(["'a'"] * 1900) + ")": "b",
        },
    ),
    (
        # In fields a year alone is its first moment; in quotes a date is a string.
        [Document(id_, "x", {"day": day}) for id_, day in zip("abcde", DAYS, strict=True)],
        {
            "day = 2024-01": "ab",
            "day >= 2024-02": "d",
            "day < 2024-01-31t08:00:00.5Z": "abc",
            "day = 2024-01-31T09:00+01": "a",
            "day = 2024-01-31T03:00:00-0500": "a",
            "day = '2024-01'": "",
            "day < '2024'": "c",
        },
    ),
    (
        [Document("2024", "2023-05"), Document("b", "no date")],  # as a missing value
        {
            "text < 2024-01": "2024",
            "id >= 2024-01": "2024",
            "not text < 2024-01 or not id in (2023-01)": "2024",
            "not text < 2024-01": "",
        },
    ),
    (
        # Case, accents and ligatures do not matter; in scripts without spaces, words may touch.
        [Document(id_, "x", {"t": each}) for id_, each in zip("abcd", TITLES, strict=True)],
        {
            "t has word 'red'": "a",
            "not t has word 'red'": "bcd",
            "t has word 'kettle red'": "",
            "t has word 'kett'": "",
            "t has word 'cafe'": "b",
            "t has word 'paths'": "c",
            "t has word '路径'": "d",
            "not t has word '路径'": "abc",
            "t has word '\ufb01sh'": "b",
        },
    ),
    (
        [Document("a", "x", {**{name: ["x"] for name in NAMES}, "bad": "\udcff É"})],  # no UTF-8
        {
            **{f"{name} has any ('x') and {name} startswith '['": "a" for name in NAMES},
            "bad ilike '% é' and bad has word 'e'": "a",
            "bad >= 2024-01 or bad startswith 'É'": "",
        },
    ),
]


@pytest.mark.parametrize(("documents", "conditions"), FULFILLED)
def test_conditions(
    tmp_path: Path, documents: Sequence[Document], conditions: Mapping[str, str]
) -> None:
    """What SQLite does not know, and conditions at a limit."""
    index = index_of(tmp_path, documents)
    assert {each: fulfilled(index, each) for each in conditions} == conditions


def test_an_empty_index_has_no_fields(tmp_path: Path) -> None:
    empty = index_of(tmp_path)
    assert empty.search("a", where="id = 'a'").hits == ()
    with pytest.raises(InvalidCondition, match="no field 'year'; the fields are 'id', 'text'"):
        empty.search("a", where="year = 3")


@pytest.mark.parametrize(
    ("condition", "what", "position"),
    [
        ("year contains '2'", "whole numbers: 'contains' works only on strings and lists", 0),
        ("", "the name of a field, got the end", 0),
        ("yaer = 3", "no field 'yaer'; the fields are 'year', 'lang', 'open', 'none', 'in'", 0),
        ("year = '2019'", "contains whole numbers: write the value without quotes", 7),
        ("lang > 3", "the field 'lang' contains text and not only numbers: write", 7),
        ("open = 1", "contains true and false", 7),
        ("lang = en", "expected a value; write strings in single quotes, got 'en'", 7),
        ("lang = null", "equals null: write 'is null' or 'is not null'", 7),
        ("lang = 'en", "missing closing '", 7),
        ("year = 2019a", "unexpected character '2'", 7),
        ("year = 3 lang = 'x'", "'and', 'or' or the end, got 'lang'", 9),
        ("(open", "expected ')', got the end", 5),
        ("year in 3", "expected '(', got '3'", 8),
        ("year is 3", "expected 'null', got '3'", 8),
        ("year not 3", "'like', 'ilike', 'startswith', 'contains' or 'has', got '3'", 9),
        ("year has 3", "whole numbers: 'has' works only on lists", 0),
        ("lang has any 'x'", "expected '(', got \"'x'\"", 13),
        ("lang has word 3", "a string in single quotes, got '3'", 14),
        ("lang = 2024-02-30", "a date or time of ISO 8601 (day is out of range", 7),
        ("lang has 2024-01-31", "'has' compares texts: write the date in single quotes", 9),
        ("lang ilike '" + "\u0390" * 9000 + "'", "the pattern has more than 50,000 bytes", 0),
        ("not " * (DEEPEST + 2) + "open", "more than 20 nested conditions", 4 * DEEPEST + 4),
        ("x" * (LONGEST + 1), "10,001 characters, but the limit is 10,000", LONGEST),
        ("lang = '\udcff'", "not valid UTF-8", 8),
    ],
)
def test_what_is_no_condition(three: Index, condition: str, what: str, position: int) -> None:
    """What is wrong is said, and where."""
    with pytest.raises(InvalidCondition) as raised:
        three.search("one", where=condition)
    assert what in str(raised.value)
    assert raised.value.position == position
    if len(condition) < 60:  # the message shows it, and a mark below the place that is meant
        assert str(raised.value).endswith(f"\n  {condition}\n  {' ' * position}^")


WRITTEN = st.text("abAB%_ßİ\u0131\u017fK'é \n", max_size=5)  # others fold to i and s
OTHERS = ("none", "2024", "2024-01", "2024-02-31", "12:30", "2024-01-31T24:00", "20240131", "now")
TIMES = st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 28)) | st.datetimes(
    min_value=datetime(2024, 1, 30), max_value=datetime(2024, 2, 2)
)
ZONES = st.none() | st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(
    lambda apart: timezone(timedelta(minutes=apart // timedelta(minutes=1)))
)


@st.composite
def date_texts(draw: st.DrawFn) -> str:
    """A date, or a date and time, as Python writes it."""
    when = draw(TIMES)
    form = draw(st.sampled_from(["%Y-%m-%d", "auto", "minutes", "seconds", "milliseconds"]))
    if form == "%Y-%m-%d":
        return when.date().isoformat()
    text = when.replace(tzinfo=draw(ZONES)).isoformat("T", form)
    return text.replace("+00:00", draw(st.sampled_from(["+00:00", "Z", "z"])))


def period(text: str) -> tuple[datetime, datetime]:
    """The first moment that a date or time stands for, and the first after it, read by Python."""
    first = datetime.fromisoformat(text.replace("z", "Z"))
    first = first if first.tzinfo else first.replace(tzinfo=UTC)
    clock = re.sub(r"([+-]..:..|[zZ])$", "", text.partition("T")[2])
    widths = {0: timedelta(days=1), 5: timedelta(minutes=1), 8: timedelta(seconds=1)}
    widths |= {12: timedelta(milliseconds=1), 15: timedelta(microseconds=1)}
    return first, first + widths[len(clock)]


COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda at, of: of[0] <= at < of[1],
    "!=": lambda at, of: not of[0] <= at < of[1],
    "<": lambda at, of: at < of[0],
    "<=": lambda at, of: at < of[1],
    ">": lambda at, of: at >= of[1],
    ">=": lambda at, of: at >= of[0],
}


@given(
    stored=st.lists(st.none() | date_texts() | st.sampled_from(OTHERS[3:]), min_size=1, max_size=9),
    asked=st.lists(date_texts(), min_size=2, max_size=5),
    blank=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_dates_are_compared_as_python_compares_them(
    stored: list[str | None], asked: list[str], blank: bool
) -> None:
    """A date stands for its whole day; a string that is no date is neither before nor after."""
    written = [each and (each.replace("T", " ") if blank else each) for each in stored]
    documents = [Document(str(at), "x", {"day": each}) for at, each in enumerate(["-", *written])]
    times = [None if each in (None, *OTHERS) else period(each)[0] for each in stored]
    with temporary_folder() as folder:
        snapshot = index_of(Path(folder), documents).snapshot()
        for date in asked:
            for sign, holds in COMPARED.items():
                for no in ("", "not "):
                    found = snapshot.rows_in_order(f"{no}day {sign} {date}") - 1
                    wanted = [
                        at
                        for at, time in enumerate(times)
                        if time is not None and holds(time, period(date)) != bool(no)
                    ]
                    assert found.tolist() == wanted
        one, other = (period(date) for date in asked[:2])
        either = [at is not None and max(o[0] <= at < o[1] for o in (one, other)) for at in times]
        between = [at is not None and one[0] <= at < other[1] for at in times]
        for condition, wanted_rows in (
            (f"day in ({asked[0]}, {asked[1]})", either),
            (f"day between {asked[0]} and {asked[1]}", between),
        ):
            found = snapshot.rows_in_order(condition) - 1
            assert found.tolist() == np.flatnonzero(wanted_rows).tolist()


def like(text: str, pattern: str) -> bool:
    """What LIKE means, in a regular expression."""
    signs = {"%": ".*", "_": "."}
    whole = "".join(signs.get(each, re.escape(each)) for each in pattern)
    return re.fullmatch(whole, text, re.DOTALL) is not None


@given(st.lists(st.none() | WRITTEN, min_size=1, max_size=12), st.lists(WRITTEN, max_size=9))
@settings(max_examples=60, deadline=None)
def test_texts_are_compared_as_python_compares_them(
    stored: list[str | None], asked: list[str]
) -> None:
    """``ilike`` after Python's own folding of case, ``startswith`` as it is."""
    documents = [Document(str(at), "x", {"name": each}) for at, each in enumerate(["-", *stored])]
    with temporary_folder() as folder:
        snapshot = index_of(Path(folder), documents).snapshot()
        for text in asked:
            for operator, holds in (
                ("startswith", str.startswith),
                ("ilike", lambda each, text: like(each.casefold(), text.casefold())),
            ):
                for no in ("", "not "):
                    found = snapshot.rows_in_order(f"name {no}{operator} {literal(text)}")
                    wanted = [
                        at
                        for at, each in enumerate(["-", *stored])
                        if each is not None and holds(each, text) != bool(no)
                    ]
                    assert found.tolist() == wanted
