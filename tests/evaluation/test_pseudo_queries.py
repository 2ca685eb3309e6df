"""Queries that are made of documents, and searches in which a shortened copy takes a place."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import text as drawn

from tests import counted_letters
from tests.builders.small_corpus import Doc, SmallCorpus, Whole
from vocabtool import Document, Index, Settings
from vocabtool.evaluation.calibrate import (
    RUNS,
    WEIGHTS,
    PseudoQuery,
    ShortenedCopy,
    pseudo_queries,
    reads_like_language,
    score_legs,
    sentences,
    terms_of_copies,
)
from vocabtool.keywords.cutter import Cutter
from vocabtool.search.search import search

LONG = "one two three four five. six seven eight nine ten. eleven twelve thirteen fourteen fifteen."


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("A b. C d! E f? G", ["A b. ", "C d! ", "E f? ", "G"]),
        ("一。二。三。", ["一。", "二。", "三。"]),
        ("def a(b):\n  \"\"\"\n  Give b.\n  \"\"\"\n  return b\n",
         ["def a(b):\n  \"\"\"\n", "  Give b.\n  \"\"\"\n", "  return b\n"]),
        ("A b.\r\nC d\r\n\r\nE f.  G", ["A b.\r\n", "C d\r\n\r\n", "E f. ", " G"]),
        (" ".join("abcdefghijklmnopqrstuvwxyz"), ["a b c d e f g h i j k l ",
         "m n o p q r s t u v w x ", "y z"]),
        ("- a_b(c); d", ["- a_b(c); d"]),
        ("", []),
    ],
)  # fmt: skip
def test_sentences_or_windows_of_twelve_words(text: str, parts: list[str]) -> None:
    """A mark and white space, or a line break, end one; each holds a word; with fewer, windows."""
    assert sentences(text) == parts


@given(drawn(max_size=60) | drawn("a .!?\n。-", max_size=60))
def test_sentences_are_the_text(text: str) -> None:
    """Nothing is lost between them, unless no word is there at all."""
    parts = sentences(text)
    assert "".join(parts) == (text if RUNS.search(text) else "")
    assert all(RUNS.search(part) for part in parts)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Returns the (first) channel's data, well-known.", True),
        ('  """Pads an image to a square.\n', True),
        ("कितना बड़ा है यह", True),  # its vowel signs are no letters to Python
        ("about 250 of them were seen", True),  # four of five and more are words
        ("def size(self, path, *, follow=True):", False),
        ("これは日本語の文章です。", True),
        ("日本", False),
        ("numpy で計算します", True),  # most of its letters
        ("", False),
    ],
)
def test_what_reads_like_language(sentence: str, expected: bool) -> None:
    """Words between blanks, four or more, in any script; not code, nor a row of a table."""
    assert reads_like_language(sentence) is expected


def of(text: str, seed: int = 0, **fields: Any) -> dict[str, tuple[str, str]]:
    """Query and copy by kind."""
    made = pseudo_queries(7, Document("d", text, fields), Cutter(), np.random.default_rng(seed))
    assert all(query.row == 7 for query in made)
    for query in made:
        first, last = query.removed
        assert (text[:first] + text[last:]).strip() == query.copy
    return {query.kind: (query.text, query.copy) for query in made}


IN_TITLE, IN_BODY = ("title^3", "body"), ("title", "body^3")


@pytest.mark.parametrize(
    ("fields", "text", "removed", "words"),
    [
        (IN_BODY, "fox\n\nred cat. owl dog.", "red cat. ", "fox owl dog owl dog owl dog"),
        (IN_BODY, "fox\n\nred cat. owl dog.", "owl dog.", "fox red cat red cat red cat"),
        (IN_TITLE, "fox\n\nfox owl", "fox\n\n", "fox owl"),
        (IN_TITLE, "fox\n\nfox owl", "fox owl", "fox fox fox"),
        (IN_TITLE, "fox. cat.\n\nowl", "fox. ", "cat owl cat cat"),
        (IN_TITLE, "fox cat\n\nred. owl", "cat\n\nred. ", "fox owl fox fox"),
    ],
)
def test_what_is_left_of_a_field_has_its_weight(
    tmp_path: Path, fields: tuple[str, ...], text: str, removed: str, words: str
) -> None:
    """A query that is removed counts no longer, even if its words are elsewhere."""
    row = dict(zip(("title", "body"), text.split("\n\n"), strict=True))
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    index = Index.create(tmp_path / "index", counted_letters.encode, language="none")
    index.load(str(tmp_path / "rows.jsonl"), field=fields)
    start = text.index(removed)
    span = start, start + len(removed)
    query = PseudoQuery("hard", 0, removed, text.replace(removed, ""), span)
    (terms,) = terms_of_copies(index.snapshot(), [query])
    assert " ".join((terms.words, *terms.repeated)) == words
    assert terms.count == len(words.split())


def test_a_title_is_asked_and_taken_out_also_where_it_is_said_again() -> None:
    """The field's title, in the text once or twice, is in no copy; else the first sentence."""
    for before in ("", "About Wings ", "about wings. ABOUT WINGS: "):
        assert of(before + LONG, title=" About wings ")["title"] == ("About wings", LONG)
    asked, copy = of(LONG)["title"]
    assert asked == "one two three four five"
    assert copy == LONG.removeprefix(f"{asked}.").strip()


SIGNATURE = "def wrapped(self, size):\n"
SAID = '    """Wraps the wings in paper.\n'
PARAMETER = '    :param size: how far they reach\n    """\n'
BODY = "    x = self.lift(size)\n    return x.paper(self, x, size=size, key=self.key)"


@pytest.mark.parametrize("seed", range(20))
def test_people_ask_in_language_also_for_code(seed: int) -> None:
    """Of two sentences that read like it each is asked; of one in both ways; else what there is."""
    both = of(SIGNATURE + SAID + PARAMETER + BODY, seed)
    assert both["title"] == ("Wraps the wings in paper", SIGNATURE + PARAMETER + BODY)
    assert both["hard"][0] in ("param size far reach", "param far reach")
    assert both["hard"][1] == SIGNATURE + SAID + BODY
    one = of(SIGNATURE + SAID + BODY, seed)
    assert one["title"] == ("Wraps the wings in paper", SIGNATURE + BODY)
    assert {"wings"} <= {*one["hard"][0].split()} <= {"Wraps", "wings", "paper"}
    assert one["hard"][1] == SIGNATURE + BODY
    none = of(SIGNATURE + "    y = x\n" + BODY, seed)
    assert none["title"] == ("def wrapped self size", f"y = x\n{BODY}")
    assert none["hard"][1] != none["title"][1]


def test_a_hard_query_is_the_content_words_of_a_later_sentence() -> None:
    """Without stop words, never of the first; the copy lacks it; short documents are not asked."""
    text = "Zero one two three four. The wing is of an aircraft.\nThe jet was in air (v1.2/x-y)."
    assert {of(text, seed)["hard"] for seed in range(20)} == {
        ("wing aircraft", "Zero one two three four. The jet was in air (v1.2/x-y)."),
        ("jet air v1 2 x y", "Zero one two three four. The wing is of an aircraft."),
    }
    ten = "one two three four five six seven eight nine ten"
    stops = "the of and to in. the of and to in. the of and to in the of."
    assert [of(short) for short in ("", "too short. to be. asked.", ten, stops)] == [{}] * 4


DOCS = (
    Doc("a", "red red blue", (1, 0)),
    Doc("b", "red green X-100", (0, 1)),
    Doc("c", "green", (0.5, 0.5)),
    Doc("d", "blue", ()),
)
CORPUS = SmallCorpus(DOCS, Whole(("red", "green")))


def copy_of(text: str, vector: tuple[float, ...], row: int = 0) -> ShortenedCopy:
    return ShortenedCopy(
        row=row,
        terms=CORPUS.cutter.terms([text])[0],
        vector=np.array(vector or (0, 0), np.float32),
        metric="inner-product",
        mean_length=(3 + 4 + 1 + 1) / 4,
    )


@pytest.mark.parametrize(
    ("text", "query", "wanted"),
    [
        ("red green", "red", math.log(2) * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 2.25))),
        ("nothing", "red", 0.0),
    ],
)
def test_a_copy_is_scored_with_its_own_frequencies_and_the_collections_idf(
    text: str, query: str, wanted: float
) -> None:
    """The textbook's arithmetic: N = 4, red in 2 documents, a mean of 2.25 words."""
    candidates = score_legs(CORPUS, query, None, copy=copy_of(text, ())).candidates
    assert float(candidates.bm25[candidates.rows == 0].sum()) == pytest.approx(wanted)


@pytest.mark.parametrize("words", ["red", "green x-100", "blue unheard", "X-100", "green here"])
@pytest.mark.parametrize("vector", [(1, 0), (0.3, 0.7), (0, 0)])
@pytest.mark.parametrize("row", [None, *range(len(DOCS))])
def test_a_ranking_is_that_of_a_search_with_its_weight(
    words: str, vector: tuple[float, ...], row: int | None
) -> None:
    """For each weight, also where a document is replaced by itself."""
    query = np.array(vector, np.float32)
    copy = None if row is None else copy_of(DOCS[row].text, DOCS[row].vector, row)
    legs = score_legs(CORPUS, words, query, copy=copy)
    for a in WEIGHTS:
        hits = search(CORPUS, words, query, settings=Settings(a=a, k=10))
        assert CORPUS.ids(legs.ranking(a)) == [hit.id for hit in hits]


def test_a_copy_takes_the_place_of_its_document_in_both_legs() -> None:
    """The document that is replaced takes nobody's place in a list."""
    query, two = np.array([1, 0.1], np.float32), Settings(depth=2)
    legs = score_legs(CORPUS, "red green", query, two, copy_of("nothing", (0, 0)))
    assert legs.nearest.tolist() == [2, 1]
    assert legs.candidates.rows[legs.candidates.keyword].tolist() == [1, 2]
    legs = score_legs(CORPUS, "red", query, two, copy_of("red", (0.6, 0)))
    assert legs.nearest.tolist() == [0, 2]
    assert legs.candidates.rows[legs.candidates.keyword].tolist() == [0, 1]
