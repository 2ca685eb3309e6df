"""Files of queries and of judgements, in each layout, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from vocabtool.errors import InvalidFile, NotFound
from vocabtool.evaluation.judgements import MAX_LINE, JudgedQuery, read_qrels, read_queries

TOPICS = """<top>
<num> Number: 301
<title> International Organized Crime

<desc> Description:
Identify organizations.
</top>

<top><num>302<title>Poliomyelitis and
Post-Polio
</top>
"""

QUERIES = {
    "beir": ('{"_id": "1", "text": "a b"}\n{"_id": "x", "text": "c", "metadata": {}}\n', "1 x"),
    "id": ('{"id": 7, "text": "a b"}\r\n\n{"id": 8, "text": "c"}', "7 8"),
    "tabs": ("7\ta b\n8\tc\n", "7 8"),
    "lines": ("a b\n\nc\n", "1 2"),
    "mark": ("\ufeffa b\nc", "1 2"),
}


@pytest.mark.parametrize("layout", QUERIES)
def test_queries_are_read_in_every_layout(layout: str, tmp_path: Path) -> None:
    """The content tells the layout; ids and texts come as they stand."""
    text, names = QUERIES[layout]
    (tmp_path / "queries").write_text(text, "utf-8", newline="")
    first, second = names.split()
    assert read_queries(tmp_path / "queries") == [
        JudgedQuery(first, "a b"),
        JudgedQuery(second, "c"),
    ]


def test_the_title_of_a_trec_topic_is_the_query(tmp_path: Path) -> None:
    """Labels are dropped, lines joined, the description is not read."""
    (tmp_path / "topics").write_text(TOPICS)
    assert read_queries(tmp_path / "topics") == [
        JudgedQuery("301", "International Organized Crime"),
        JudgedQuery("302", "Poliomyelitis and Post-Polio"),
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no query"),
        ('{"_id": "1"}', "wanted"),
        ('{"_id": [], "text": ""}', "wanted"),
        ('{"_id": "1", "text": "a"}\n[]', r"wanted .*at byte 26"),
        ('{"_id": "1", "text": "a"}\nnot', r"not a JSON object.*at byte 26"),
        ('{"a":' * 100_000, "not a JSON object"),
        ('{"_id": "1", "text": "a"}\n{"_id": "1", "text": "b"}', r"'1' stands twice.*byte 26"),
        ("<top>\n<num> 1\n</top>", "without <num> or <title>"),
        ("<top>\n<num> 1\n<title> a", "without </top>"),
        ("a" * (MAX_LINE + 1), "a line of more than"),
    ],
)
def test_a_file_that_holds_no_queries_is_refused(text: str, what: str, tmp_path: Path) -> None:
    """The error names the file, what is wrong and the byte where."""
    (tmp_path / "queries").write_text(text)
    with pytest.raises(InvalidFile, match=what) as raised:
        read_queries(tmp_path / "queries")
    assert str(raised.value).startswith(str(tmp_path / "queries"))


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """The offset is that of the first byte that is wrong."""
    (tmp_path / "queries").write_bytes(b"a\nb\xff")
    with pytest.raises(InvalidFile, match="not UTF-8") as raised:
        read_queries(tmp_path / "queries")
    assert raised.value.offset == 3


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Of both kinds."""
    for read in (read_queries, read_qrels):
        with pytest.raises(NotFound, match="nowhere"):
            read(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "text",
    [
        "query-id\tcorpus-id\tscore\n1\td 1\t2\n1\td2\t0\n2\td 1\t-1\n",
        "1\td 1\t2\n1\td2\t0\n2\td 1\t-1.0",
    ],
)
def test_judgements_of_beir(text: str, tmp_path: Path) -> None:
    """With or without a header; ids may hold blanks, judgements may be negative."""
    (tmp_path / "qrels").write_text(text)
    assert read_qrels(tmp_path / "qrels") == {"1": {"d 1": 2, "d2": 0}, "2": {"d 1": -1}}


def test_judgements_of_trec(tmp_path: Path) -> None:
    """The second column, the iteration, says nothing; blanks or tabs stand between."""
    (tmp_path / "qrels").write_text("301 0 FBIS3-10082 1\n301\tQ0\tFT-2\t0\n")
    assert read_qrels(tmp_path / "qrels") == {"301": {"FBIS3-10082": 1, "FT-2": 0}}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no judgement"),
        ("query-id\tcorpus-id\tscore\n", "no judgement"),
        ("1\td1\t1\n1\td2\tgood\n", r"a whole number last \(at byte 7\)"),
        ("1\td1\t0.5\n2\td1\t0.5\n", "a whole number last"),
        ("1\td1\tinf\n2\td1\tnan\n", "a whole number last"),
        ("1 0 d1 1 extra\n", "wanted"),
        ("1\td1\t1\n1\td1\t0\n", "judged twice"),
    ],
)
def test_a_file_that_holds_no_judgements_is_refused(text: str, what: str, tmp_path: Path) -> None:
    """The error says what is wanted; the same judgement twice is none."""
    (tmp_path / "qrels").write_text(text)
    with pytest.raises(InvalidFile, match=what):
        read_qrels(tmp_path / "qrels")
