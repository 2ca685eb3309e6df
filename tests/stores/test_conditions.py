"""Conditions in PostgreSQL find what the embedded index finds, on a real server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.postgres_server import PostgresServer
from tests.builders.small_indexes import add, temporary_folder
from tests.index.test_conditions import (
    CONDITIONS,
    DOCUMENTS,
    LISTS,
    ROWS,
    WRITTEN,
    date_texts,
    index_of,
    literal,
)
from vocabtool import Document, Index, InvalidCondition


@pytest.fixture(scope="module", params=["C", "C.UTF-8"])
def database(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A connection to a database of each locale."""
    import psycopg

    address = postgres_server.new_database(request.param)
    with psycopg.connect(address, autocommit=True) as opened:
        yield opened


class Both(NamedTuple):
    """The same documents in a folder and in PostgreSQL."""

    folder: Index
    engine: Index

    def found(self, condition: str) -> list[str]:
        """The ids of the documents that PostgreSQL finds."""
        return [*self.engine.ids(condition)]

    def agrees(self, condition: str) -> None:
        """Both find the same documents, or refuse the condition with the same message."""
        try:
            wanted = [*self.folder.ids(condition)]
        except InvalidCondition as refused:
            with pytest.raises(InvalidCondition) as raised:
                self.found(condition)
            assert str(raised.value) == str(refused)
        else:
            assert self.found(condition) == wanted, condition


@contextmanager
def copied(documents: Sequence[Document], database: Any) -> Iterator[Both]:
    """Two indexes, removed at the end."""
    info = database.info
    address = f"postgresql://{info.user}@/{info.dbname}?host={info.host}&port={info.port}"
    with temporary_folder() as folder, Index.create(f"{address}&index=test", dim=1) as engine:
        add(engine, documents, np.ones((len(documents), 1)), on_existing="update")
        yield Both(index_of(Path(folder), documents), engine)
        engine.remove()


@given(rows=ROWS, conditions=st.lists(CONDITIONS, min_size=9, max_size=25))
@settings(max_examples=20, deadline=None)
def test_the_same_rows(database: Any, rows: list[Any], conditions: list[tuple[str, str]]) -> None:
    """Nulls, precedence, patterns, quotes."""
    with copied([Document(*row) for row in rows], database) as both:
        for ours, _ in conditions:
            both.agrees(ours)


SCRIPTS: Final = st.text(
    "aB_1é\u0301ßİ\u0131\u017fK中文\u0e01\u0e34\u0e32-—.'%\x01\x02\x03\x04ABCD \n\u0663ªΣς",
    max_size=6,
)
ELEMENTS: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([1.0, 0.5, 1e300, 2**63, 1e16])
    | st.sampled_from(["a", "1", "true", "'", "é", "\\", '"']),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("a"), inner, max_size=1),
    max_leaves=4,
)
HOSTILE_LISTS: Final = (
    *("[1", "[1,]", "[NaN]", "[01]", " [1] ", "[[1]]", '{"a": [1]}', "a[1]", '["\\ud800", "a"]'),
    *('["a\nb"]', "[1e999, 0.1]", "[9223372036854775808, 9007199254740993]", "[-0.0, 1E2]"),
    *('["\\u0000", 1]', "[" * 999 + "]" * 999, "[" * 1100 + "]" * 1100, "[" + "9" * 5000 + "]", ""),
)
STRINGS: Final = SCRIPTS | WRITTEN | date_texts() | st.sampled_from(HOSTILE_LISTS)
ASKED: Final = st.sampled_from(
    [
        *("1", "1.0", "0.1", "1e16", "true", "false", "0", "-0.0", "1e999", "100", "1e300"),
        *("9223372036854775808", "9007199254740993"),
    ]
) | (STRINGS | st.sampled_from(["a", "é", "true", "1", "'"])).map(literal)


@st.composite
def string_tests(draw: st.DrawFn) -> str:
    """A test of a string, an id or a text, with each operator."""
    field = draw(st.sampled_from(["name", "name", "name", "tags", "tags", "id", "text"]))
    text, value, no = literal(draw(STRINGS)), draw(ASKED), draw(st.sampled_from(["", "not "]))
    one, other = (draw(date_texts()) for _ in range(2))
    shape = draw(
        st.sampled_from(
            [
                *(f"{no}like {text}", f"{no}ilike {text}", f"{no}startswith {text}"),
                *(f"{no}has word {text}",) * 4,
                *(f"{no}contains {value}", f"{no}has {value}", f"{no}has any ({value}, 'a', 1)"),
                *(f"> {text}", f"<= {text}", f"!= {text}", f"{no}in ({text}, 'é', {one})"),
                *(f"< {one}", f"!= {one}", f"= {one}", f"{no}between {one} and {other}"),
            ]
        )
    )
    return f"{draw(st.sampled_from(['', 'not ', 'not not ']))}{field} {shape}"


@given(
    st.lists(st.tuples(st.none() | STRINGS, st.none() | st.lists(ELEMENTS, max_size=4), SCRIPTS)),
    st.lists(string_tests(), min_size=10, max_size=30),
)
@settings(max_examples=40, deadline=None)
def test_the_same_strings_lists_words_and_dates(
    database: Any, rows: list[Any], conditions: list[str]
) -> None:
    """In scripts with and without spaces, with signs that our own forms use, and broken lists."""
    documents = [
        Document(f"{text}{at}", text, {"name": name, "tags": tags})
        for at, (name, tags, text) in enumerate(rows)
    ]
    documents.append(Document("x", "2024-01-31", {"name": "x", "tags": "x"}))
    with copied(documents, database) as both:
        for each in conditions:
            both.agrees(each)


def test_edges_of_words_and_kinds_of_elements(database: Any) -> None:
    """Letters of other scripts are letters, signs of our own forms are signs, true is not 1."""
    names = ("жa", "ж a .", "aж", "a中ж", "é a\x03\x03b a", "ж\x04Ab é.", "[true]", "[1.0]", None)
    documents = [Document(str(at), "x", {"name": name}) for at, name in enumerate(names)]
    rows = {
        "name has word 'a'": "14",
        "name has word '中'": "3",
        "name has word '\x03'": "",
        "name has word ''": "14567",
        "name has 1": "7",
        "name has true": "6",
        "name has any ('1', false)": "",
        "not name has 1": "0123456",
        "not name contains 'a'": "567",
    }
    with copied(documents, database) as both:
        for condition, wanted in rows.items():
            assert "".join(both.found(condition)) == wanted
            both.agrees(condition)


NUMBERS: Final = (
    *(0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63 - 2, -(2**63)),
    *(0.0, -0.0, 0.1, 0.30000000000000004, 1.5, 2.0**53, 2.0**63, -(2.0**63), 5e-324, 1e300),
    *(-1e300, 1e16, float("inf"), 9223372036854774784.0, 4503599627370495.5, 9007199254740994.0),
)


def test_the_same_numbers(database: Any) -> None:
    """Whole numbers and fractions are compared exactly, and are read back as they were."""
    documents = [Document(str(at), "x", {"n": each}) for at, each in enumerate(NUMBERS)]
    documents += [Document(f"i{at}", "x", {"i": at}) for at in (2**53 + 1, -3, 2**63 - 1)]
    with copied(documents, database) as both:
        assert both.engine.manifest.fields == {"n": "number", "i": "integer"}
        for each in (*map(repr, NUMBERS[:-4]), *map(repr, NUMBERS[-3:]), "1e999", "-1e999"):
            for field in "ni":
                for sign in ("=", "!=", "<", "<=", ">", ">="):
                    both.agrees(f"{field} {sign} {each}")
                both.agrees(f"not {field} in ({each}, 3, 0.5)")
        found = [each.fields["n"] for each in both.engine.documents("n is not null")]
    assert found == [*NUMBERS]
    assert [*map(type, found)] == [*map(type, NUMBERS)]


REFUSED: Final = (
    *("lang > 3", "lang contains 3", "open = 1", "year like '2%'", "yaer = 1", "tags has 1"),
    *("none is null", "not none is null", "none = 3 or open", "not (none = 3)", "tags = '[1]'"),
    *("year has 1", "text has 'o'", "lang has 2024-01", "tags contains 3", "year", "lang in (3)"),
    *("(open and " * 20 + "open" + ")" * 20, "not " * 20 + "open"),
    *(" or ".join(["id = 'b'"] * 500), "lang not like '" + "_%" * 4900 + "'"),
    *("lang has word '" + "(*" * 4900 + "'", "lang ilike '" + "%_" * 4900 + "'"),
    *("lang in (" + ", ".join(["'x'"] * 1900) + ")", "year in (" + "1," * 4000 + "1)"),
)


def test_the_same_refusals_and_limits(database: Any) -> None:
    """And the same message where a condition does not fit a field."""
    with copied([*DOCUMENTS, *LISTS[3:]], database) as both:
        for condition in REFUSED:
            both.agrees(condition)


INJECTIONS: Final = (
    *("'; DROP TABLE {0}; --", '"; DROP TABLE {0}; --', "%s", "%(a)s", "%%", "{{}}", "$1", "\\'"),
    *("') OR TRUE --", '") OR TRUE --', "E'\\x27", "/*", "--", "$$", "?", ":a", "{0}", "\\"),
)


def test_no_text_becomes_sql(database: Any) -> None:
    """Names of fields, values, ids and conditions that try: they are found as they are."""
    hostile = [each.format("documents_0") for each in INJECTIONS]
    documents = [
        Document(each, each, dict.fromkeys(hostile, each) | {"list": [each]}) for each in hostile
    ]
    with copied(documents, database) as both:
        for each in hostile:
            for name in (*hostile, "id", "text"):
                field, value = '"' + name.replace('"', '""') + '"', literal(each)
                tests = [f"{field} {sign} {value}" for sign in ("=", "contains", "startswith")]
                tests += [f"{field} in ({value})", f"{field} > {value}", f"{field} like {value}"]
                for test in (*tests, f"{field} ilike {value}", f"{field} has word {value}"):
                    both.agrees(test)
                assert both.found(tests[0]) == [each]
            assert both.found(f"list has {literal(each)}") == [each]
            both.agrees(each)
        assert len(both.found("id is not null")) == len(hostile)


LONG: Final = "long " * 2000


def test_what_postgresql_cannot_store(database: Any) -> None:
    """U+0000 and invalid UTF-8 become U+FFFD; long texts fit into the indexes."""
    names = ("a\0b", "a", "ab", LONG, None)
    documents = [Document(i, "x\0", {"name": name}) for i, name in zip("abcde", names, strict=True)]
    with copied(documents, database) as both:
        assert both.found("name = 'a\ufffdb'") == ["a"]
        assert both.found(f"name > '{LONG[:9000]}'") == ["d"]
        assert both.found(f"name startswith '{LONG[:200]}' and name < '{LONG[:300]}z'") == ["d"]
        assert both.found(f"name = '{LONG[:9000]}'") == []
        both.agrees("name has word 'a' or text has word 'x'")
        with pytest.raises(InvalidCondition, match="U\\+0000"):
            both.found("name != 'a' and name in ('ab', 'a\0b')")
    bad = {"bad": "\udcff É", "b2": "\udcff [1]"}
    with copied([Document("a", "x", bad)], database) as both:  # and the rest is found
        assert both.found("bad ilike '% é' and bad has word 'e' and bad contains '\ufffd'") == ["a"]
        assert both.found("bad >= 2024-01 or bad startswith 'É' or b2 has 1") == []
