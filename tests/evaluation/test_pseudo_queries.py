"""Queries made of a corpus, and the copies of documents that they are asked of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import text as drawn

from tests.builders.small_corpus import Doc, SmallCorpus, Whole
from vocabtool import Document, Settings
from vocabtool.evaluation.calibrate import RUNS, pseudo_queries, reads_like_language, sentences
from vocabtool.evaluation.tune import WEIGHTS, CopyStore, score_legs
from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term
from vocabtool.keywords.cutter import Cutter
from vocabtool.search.search import search
from vocabtool.search.store import Store

LONG = "one two three four five. six seven eight nine ten. eleven twelve thirteen fourteen fifteen."


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("A b. C d! E f? G", ["A b. ", "C d! ", "E f? ", "G"]),
        ("version 1.2.3 is. e.g.this. end", ["version 1.2.3 is. ", "e.g.this. ", "end"]),
        ("一。二。三。", ["一。", "二。", "三。"]),
        ("def a(b):\n  \"\"\"\n  Give b.\n  \"\"\"\n  return b\n",
         ["def a(b):\n  \"\"\"\n", "  Give b.\n  \"\"\"\n", "  return b\n"]),
        ("A b.\r\nC d\r\n\r\nE f.  G", ["A b.\r\n", "C d\r\n\r\n", "E f. ", " G"]),
        ("... a. b. c", ["... a. ", "b. ", "c"]),
        (" ".join("abcdefghijklmnopqrstuvwxyz"), ["a b c d e f g h i j k l ",
         "m n o p q r s t u v w x ", "y z"]),
        ("- a_b(c); d", ["- a_b(c); d"]),
        ("...", []),
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
        ("Длина строки в байтах", True),
        ("कितना बड़ा है यह", True),  # its vowel signs are no letters to Python
        ("about 250 of them were seen", True),  # four of five and more are words
        ("in 1999 only 250 were seen", False),
        ("return the length", False),  # three
        ("def size(self, path, *, follow=True):", False),
        ("os.path.join(a, b) + c.d + e", False),
        ("x = a + b - c", False),
        ("if x is None:", False),
        ("private final String name;", False),
        ("import numpy as np", True),  # nothing tells it from language
        ("name | type | default | description", False),
        ("x | y | z | 1 | 2", False),
        ("— — — —", False),  # dashes are no words
        ("Birds — a kind — fly", True),
        ("« Bonjour le monde entier »", True),
        ("これは日本語の文章です。", True),
        ("ข้อความภาษาไทย", True),
        ("日本", False),
        ("numpy で計算します", True),  # most of its letters
        ("calls numpy.linalg.norm(x) で計算する", False),
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
    return {query.kind: (query.text, query.copy) for query in made}


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


def test_where_language_says_nothing_what_else_there_is_is_asked() -> None:
    """Stop words alone lose no document; a line of English is no more language than the rest."""
    nothing = "    And so it is that.\n"
    made = of(SIGNATURE + SAID + nothing + BODY)
    assert made["title"] == ("Wraps the wings in paper", SIGNATURE + nothing + BODY)
    assert made["hard"][1] == SIGNATURE + nothing + BODY
    assert "wings" in made["hard"][0]
    nothing_at_all = "And so it is that.\nIt is not so, is it?\n"
    assert of(nothing_at_all + BODY)["hard"][1] == nothing_at_all + BODY.partition("\n")[2]
    text = "Copyright by Some Company Limited\n東京は日本の首都です。大阪は西にある。" * 4
    assert {of(text, seed)["hard"][0] for seed in range(20)} >= {"東京は日本の首都です"}


def test_a_hard_query_is_the_content_words_of_a_later_sentence() -> None:
    """Never of the first; stop words are left out; the copy is the text without that sentence.

    White space goes with the sentence before, so that a copy joins no words that were apart.
    """
    text = "Zero one two three four. The wing is of an aircraft.\nThe jet was in air (v1.2/x-y)."
    assert {of(text, seed)["hard"] for seed in range(20)} == {
        ("wing aircraft", "Zero one two three four. The jet was in air (v1.2/x-y)."),
        ("jet air v1 2 x y", "Zero one two three four. The wing is of an aircraft."),
    }


def test_repeated_words_are_dropped_half_of_the_time_but_one_is_kept() -> None:
    """By their stems, over many draws; words that stand once are never dropped."""
    text = (
        "Wings lift aircraft well, as ever. Lifting wings rarely, as they say. So the wing lifts."
    )
    asked = [of(text, seed)["hard"][0] for seed in range(400)]
    of_last = {query for query in asked if "say" not in query}
    assert of_last == {"wing", "lifts", "wing lifts"}
    of_middle = [query.split() for query in asked if "say" in query]
    assert all(words[-2:] == ["rarely", "say"] for words in of_middle)
    kept = sum(len(words) - 2 for words in of_middle) / (2 * len(of_middle))
    assert kept == pytest.approx(0.5, abs=0.06)


def test_short_documents_are_not_asked() -> None:
    """Three sentences, or windows, and 15 words are the least; nor any of stop words alone."""
    ten = "one two three four five six seven eight nine ten"
    stops = "the of and to in. the of and to in. the of and to in the of."
    assert [of(text) for text in ("", "too short. to be. asked.", ten, stops)] == [{}] * 4


DOCS = (
    Doc("a", "red red blue", (1, 0)),
    Doc("b", "red green X-100", (0, 1)),
    Doc("c", "green", (0.5, 0.5)),
    Doc("d", "blue", ()),
)
CORPUS = SmallCorpus(DOCS, Whole(("red", "green")))


def copy_of(text: str, vector: tuple[float, ...], row: int = 0) -> CopyStore:
    terms = CORPUS.cutter.terms([text])[0]
    made, mean_length = np.array(vector or (0, 0), np.float32), (3 + 4 + 1 + 1) / 4
    return CopyStore(CORPUS, row, terms, made, "inner-product", mean_length)


def test_a_copy_is_scored_with_its_own_frequencies_and_the_collections_idf() -> None:
    """The textbook's arithmetic: N = 4, red in 2 documents, a mean of 2.25 words."""

    def score(text: str, term: Term, boost: float) -> float:
        query = KeywordQuery((Clause((term,), boost),))
        found = copy_of(text, ()).search(query, 9, CORPUS.live)
        return float(found.scores[found.rows == 0].sum())

    red, code = Term("words", "red"), Term("surfaces", "x-100")
    idf = math.log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    own = 2 * idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 2.25))
    assert score("red green", red, 2.0) == pytest.approx(own)
    assert score("nothing", red, 2.0) == 0
    wanted = 3 * math.log(1 + (4 - 1 + 0.5) / 1.5)
    assert score("X-100 or X-100", code, 3.0) == pytest.approx(wanted)


@pytest.mark.parametrize("words", ["red", "green x-100", "blue unheard", "X-100", "green here"])
@pytest.mark.parametrize("vector", [(1, 0), (0.3, 0.7), (0, 0)])
def test_a_ranking_is_that_of_a_search_with_its_weight(
    words: str, vector: tuple[float, ...]
) -> None:
    """For each weight, also where a document is replaced by itself."""
    asked = np.array(vector, np.float32)
    stores: list[Store] = [CORPUS]
    stores += [copy_of(doc.text, doc.vector, row) for row, doc in enumerate(DOCS)]
    legs = [score_legs(store, words, asked) for store in stores]
    for a in WEIGHTS:
        hits = search(CORPUS, words, asked, settings=Settings(a=a), k=10)
        for each in legs:
            assert CORPUS.ids(each.ranking(a)) == [hit.id for hit in hits]


def test_a_copy_takes_the_place_of_its_document_in_both_legs() -> None:
    """The document that is replaced takes nobody's place in a list."""
    asked, two = np.array([1, 0.1], np.float32), Settings(depth=2)
    legs = score_legs(copy_of("nothing", (0, 0)), "red green", asked, two)
    assert legs.nearest.tolist() == [2, 1]
    assert legs.keyword_rows.tolist() == [1, 2]
    legs = score_legs(copy_of("red", (0.6, 0)), "red", asked, two)
    assert legs.nearest.tolist() == [0, 2]
    assert legs.keyword_rows.tolist() == [0, 1]
