"""The weight of the keyword leg out of the corpus itself, each step against arithmetic by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import text as drawn
from numpy.typing import NDArray

from tests.builders.small_corpus import Doc, KnownWords, SmallCorpus
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.evaluation.altered import Altered, Copy
from vocabtool.evaluation.calibrating import (
    ESTIMATE,
    TOO_FEW,
    WORDS_ALONE,
    Calibrated,
    Point,
    calibrate,
    nearly_best,
    rank_of,
    sampled,
)
from vocabtool.evaluation.pseudo_queries import pseudo_queries
from vocabtool.evaluation.queries import Query
from vocabtool.evaluation.reweighing import WEIGHTS, legs_of
from vocabtool.evaluation.sentences import RUNS, reads_like_language, sentences
from vocabtool.evaluation.tuning import tune
from vocabtool.index.index import Index
from vocabtool.index.vectors.metric import Metric
from vocabtool.keywords.cutting import Cutter
from vocabtool.keywords.plain_bm25 import idf
from vocabtool.keywords.queries import Clause, KeywordQuery, Term
from vocabtool.reports.evaluation_report import of_calibration
from vocabtool.search.corpus import Among, Stored
from vocabtool.search.searching import search
from vocabtool.search.settings import Settings
from vocabtool.system.ranked import Near, Ranked, Rows

LONG = "one two three four five. six seven eight nine ten. eleven twelve thirteen fourteen fifteen."


class Corpus(SmallCorpus):
    """One that can be sampled."""

    @property
    def mean_lengths(self) -> tuple[float, float]:
        terms = self.cutter.terms([doc.text for doc in self.docs])
        words, surfaces = (
            sum(each.count for each in terms),
            sum(each.surface_count for each in terms),
        )
        return words / self.documents, surfaces / self.documents

    def live_rows(self) -> Rows:
        return np.arange(self.documents)


class LetterCounts:
    """Encodes a text as how often each letter stands in it."""

    def __init__(self, letters: str) -> None:
        self.letters = letters
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.encoded += texts
        rows = [[text.count(letter) for letter in self.letters] for text in texts]
        return np.array(rows, np.float32).reshape(len(texts), len(self.letters))


def index_of(
    corpus: Corpus, encoder: LetterCounts | None, metric: Metric = "inner-product"
) -> Index:
    """As much of an index as is asked for."""
    made = SimpleNamespace(
        path=Path("here"),
        encoder=encoder,
        snapshot=lambda: corpus,
        configuration=SimpleNamespace(metric=metric),
    )
    return cast("Index", made)


# Making queries.


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
    made = pseudo_queries(7, Stored("d", text, fields), Cutter(), np.random.default_rng(seed))
    assert all(query.row == 7 for query in made)
    return {query.kind: (query.text, query.copy) for query in made}


def test_a_title_is_asked_and_taken_out_also_where_it_is_said_again() -> None:
    """The field's title, in the text once or twice, is in no copy; another one stays as it is."""
    for before in ("", "About Wings ", "about wings. ABOUT WINGS: "):
        assert of(before + LONG, title=" About wings ")["title"] == ("About wings", LONG)


def test_without_a_title_the_first_sentence_is_asked() -> None:
    """And is not in the copy."""
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
    """A later sentence of stop words alone loses no document."""
    nothing = "    And so it is that.\n"
    made = of(SIGNATURE + SAID + nothing + BODY)
    assert made["title"] == ("Wraps the wings in paper", SIGNATURE + nothing + BODY)
    assert made["hard"][1] == SIGNATURE + nothing + BODY
    assert "wings" in made["hard"][0]
    nothing_at_all = "And so it is that.\nIt is not so, is it?\n"
    assert of(nothing_at_all + BODY)["hard"][1] == nothing_at_all + BODY.partition("\n")[2]


def test_of_writing_without_blanks_what_it_says_is_asked_not_its_small_print() -> None:
    """The line of English is no more language than the rest."""
    text = "Copyright by Some Company Limited\n東京は日本の首都です。大阪は西にある。" * 4
    assert {of(text, seed)["hard"][0] for seed in range(20)} >= {"東京は日本の首都です"}


def test_a_copy_joins_no_words_that_were_apart() -> None:
    """White space goes with the sentence before."""
    text = "Wings lift.\nBirds fly over it. Rocks fall down to earth\nStones sink in it here, too."
    copies = {of(text, seed)["hard"][1] for seed in range(20)}
    assert copies == {
        text.replace("Rocks fall down to earth\n", ""),
        text.replace("Stones sink in it here, too.", "").strip(),
    }


@pytest.mark.parametrize("seed", range(20))
def test_a_hard_query_is_the_content_words_of_a_later_sentence(seed: int) -> None:
    """Never of the first; stop words are left out; the copy is the text without that sentence."""
    text = "Zero one two three four. The wing is of an aircraft. The jet was in the air (v1.2/x-y)."
    asked, copy = of(text, seed)["hard"]
    expected = {
        "wing aircraft": "Zero one two three four. The jet was in the air (v1.2/x-y).",
        "jet air v1 2 x y": "Zero one two three four. The wing is of an aircraft.",
    }
    assert copy == expected[asked]


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


@pytest.mark.parametrize(
    "text", ["", "too short. to be. asked.", "one two three four five six seven eight nine ten"]
)
def test_short_documents_are_not_asked(text: str) -> None:
    """Three sentences, or windows, and 15 words are the least."""
    assert of(text) == {}


def test_documents_of_nothing_but_stop_words_are_not_asked() -> None:
    """There would be nothing to search for."""
    assert of("the of and to in. the of and to in. the of and to in the of.") == {}


def test_drawing_repeats_and_passes_over_short_documents() -> None:
    """The same seed draws the same; as many documents as are wanted, as far as there are."""
    docs = [Doc(str(number), LONG if number % 2 else "short") for number in range(60)]
    corpus = Corpus(docs)
    made = sampled(corpus, 10, 3)
    assert made == sampled(corpus, 10, 3)
    assert [query.kind for query in made] == ["title", "hard"] * 10
    assert len({query.row for query in made}) == 10
    assert all(query.row % 2 for query in made)
    assert [query.row for query in made] != [query.row for query in sampled(corpus, 10, 4)]
    assert len(sampled(corpus, 100, 3)) == 60


# Altered copies.

DOCS = (
    Doc("a", "red red blue", (1, 0)),
    Doc("b", "red green X-100", (0, 1)),
    Doc("c", "green", (0.5, 0.5)),
    Doc("d", "blue", ()),
)


def altered(text: str, vector: Sequence[float], row: int = 0) -> tuple[Corpus, Altered]:
    corpus = Corpus(DOCS)
    terms = corpus.cutter.terms([text])[0]
    copy = Copy(row, text, np.array(vector, np.float32), terms)
    return corpus, Altered(corpus, copy, "inner-product")


def should(*terms: str) -> KeywordQuery:
    return KeywordQuery(tuple(Clause((Term("words", term),), 2.0) for term in terms))


def test_a_copy_is_scored_with_its_own_frequencies_and_the_collections_idf() -> None:
    """The textbook's arithmetic: N = 4, red in 2 documents, a mean of 2.5 words."""
    _, corpus = altered("red green", (0, 0))
    found = corpus.keyword_search(should("red"), 10)
    idf = math.log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    mean = (3 + 4 + 1 + 1) / 4
    own = 2 * idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / mean))
    scores = dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))
    assert set(scores) == {0, 1}
    assert scores[0] == pytest.approx(own)
    assert list(scores) == [0, 1]  # the shorter text comes first


def test_a_word_of_more_rows_than_documents_is_worth_little_but_never_less_than_nothing() -> None:
    """Deleted rows are counted until an index is compacted: N = 1, red in 2 rows."""
    corpus, copied = altered("red", (0, 0))
    corpus.documents = 1
    assert (copied.keyword_search(should("red"), 10).scores >= 0).all()
    assert idf(1, 2) == idf(1, 1) > 0


def test_a_copy_without_the_word_is_not_found() -> None:
    """Although its document is."""
    plain, corpus = altered("nothing", (0, 0))
    assert plain.keyword_search(should("red"), 10).rows.tolist() == [0, 1]
    assert corpus.keyword_search(should("red"), 10).rows.tolist() == [1]
    assert corpus.matching([Clause((Term("words", "red"),))]).tolist() == [1]


def test_an_identifier_in_a_copy_counts_its_idf() -> None:
    """Where surfaces are there or not, frequencies and lengths say nothing."""
    clause = Clause((Term("surfaces", "x-100"),), 3.0)
    _, corpus = altered("X-100 or X-100", (0, 0))
    found = corpus.keyword_search(KeywordQuery((clause,)), 1)
    assert found.rows.tolist() == [0]
    assert found.scores[0] == pytest.approx(3 * math.log(1 + (4 - 1 + 0.5) / 1.5))
    assert corpus.matching([clause]).tolist() == [0, 1]
    assert corpus.matching([clause], np.array([False, True])).tolist() == [1]


def test_a_limit_counts_without_the_document_itself() -> None:
    """The document that is replaced takes nobody's place in a list."""
    _, corpus = altered("nothing", (0, 0))
    assert corpus.keyword_search(should("red", "green"), 2).rows.tolist() == [1, 2]
    near = corpus.vector_search(np.array([1, 0.1], np.float32), 2)
    assert near.rows.tolist() == [2, 1]


def test_a_copys_vector_takes_the_place_of_its_documents() -> None:
    """In the list, and where similarities are asked for rows."""
    _, corpus = altered("x", (0.25, 0))
    asked = np.array([1, 0], np.float32)
    near = corpus.vector_search(asked, 10)
    assert (near.rows.tolist(), near.scores.tolist()) == ([2, 0, 1], [0.5, 0.25, 0])
    nearest, similar = corpus.near(asked, np.array([1, 0]), 2)
    assert (nearest.rows.tolist(), similar.tolist()) == ([2, 0], [0, 0.25])
    mask = np.array([False, True, True])
    assert corpus.vector_search(asked, 10, mask).rows.tolist() == [2, 1]


def test_a_copy_without_a_vector_is_not_near() -> None:
    """NaN, as of any document without one."""
    _, corpus = altered("x", (0, 0))
    asked = np.array([1, 0], np.float32)
    assert corpus.vector_search(asked, 10).rows.tolist() == [2, 1]
    assert np.isnan(corpus.near(asked, np.array([0]), 1).similarities).all()


def test_a_copy_is_shown_with_its_own_text() -> None:
    """And the id of its document."""
    _, corpus = altered("x", (0, 0))
    shown = corpus.stored(np.array([1, 0]))
    assert [(each.id, each.text) for each in shown] == [("b", "red green X-100"), ("a", "x")]


def test_a_corpus_altered_into_itself_is_the_corpus() -> None:
    """Every search finds what it found, whatever the weight."""
    for row, doc in enumerate(DOCS[:3]):
        plain, same = altered(doc.text, doc.vector, row)
        asked = np.array([0.7, 0.3], np.float32)
        for a in WEIGHTS:
            settings = Settings(a=a)
            before = search(plain, "red green", asked, settings=settings)
            after = search(same, "red green", asked, settings=settings)
            assert [hit.id for hit in after] == [hit.id for hit in before]
            assert [hit.score for hit in after] == pytest.approx([hit.score for hit in before])


# The weight.


@pytest.mark.parametrize("words", ["red", "green x-100", "blue unheard", "X-100", "green here"])
@pytest.mark.parametrize("vector", [(1, 0), (0.3, 0.7), (0, 0)])
def test_reweighing_is_searching_with_that_weight(words: str, vector: tuple[float, ...]) -> None:
    """For each weight the same documents in the same order as the search that ships."""
    corpus = Corpus(DOCS, KnownWords(("red", "green")))
    asked: NDArray[np.float32] = np.array(vector, np.float32)
    legs = legs_of(corpus, words, asked, Settings())
    for a in WEIGHTS:
        hits = search(corpus, words, asked, settings=Settings(a=a), k=10)
        assert corpus.ids(legs.ranking(a)) == [hit.id for hit in hits]


def test_the_estimate_is_the_mean_of_the_nearly_best_weights() -> None:
    """All that are at most 0.02 above the lowest, wherever they lie."""
    curve = [
        Point(0.0, 1.0),
        Point(0.25, 0.519),
        Point(0.5, 0.5),
        Point(0.75, 0.521),
        Point(1, 0.52),
    ]
    assert nearly_best(curve) == pytest.approx((0.25 + 0.5 + 1) / 3)


def test_the_rank_of_a_document() -> None:
    """From 1; 1,000 where it is absent."""
    assert (rank_of(5, [5, 6]), rank_of(6, [5, 6]), rank_of(7, [5, 6])) == (1, 2, 1000)


WORDS = [f"{first}{second}{third}" for first in "bdf" for second in "aeiou" for third in "kmnprst"]


def corpus_of_words(count: int) -> Corpus:
    """Documents that share few words; letters say little of them."""
    generator = np.random.default_rng(5)
    docs = []
    for number in range(count):
        parts = [" ".join(generator.choice(WORDS, 6)) for _ in range(4)]
        text = f"{'. '.join(parts)}."
        vector = LetterCounts("abdefiou").encode([text])[0]
        docs.append(Doc(str(number), text, tuple(vector.tolist())))
    return Corpus(docs, KnownWords(WORDS[::2]), dim=8)


def calibrated(queries: Sequence[str] = (), seed: int = 0) -> Calibrated:
    found = calibrate(
        index_of(corpus_of_words(40), LetterCounts("abdefiou")), queries, sample=12, seed=seed
    )
    assert found is not None
    return found


def test_a_calibration_repeats_with_its_seed() -> None:
    """To the last bit; another seed draws other documents."""
    assert calibrated() == calibrated()
    assert calibrated().curve != calibrated(seed=1).curve


def test_the_curve_is_the_mean_logarithm_of_ranks() -> None:
    """Recomputed here by searches that ship, in corpora that are rebuilt with the copy in them."""
    corpus, encoder = corpus_of_words(40), LetterCounts("abdefiou")
    found = calibrated()
    made = sampled(corpus, 12, 0)
    for at in (0, 7, 20):
        logs = []
        for query in made:
            copy = Copy(
                query.row,
                query.copy,
                encoder.encode([query.copy])[0],
                corpus.cutter.terms([query.copy])[0],
            )
            hits = search(
                Altered(corpus, copy, "inner-product"),
                query.text,
                encoder.encode([query.text])[0],
                k=200,
                settings=Settings(a=WEIGHTS[at]),
            )
            ids = [hit.id for hit in hits]
            name = str(query.row)
            logs.append(math.log(ids.index(name) + 1 if name in ids else 1000))
        assert found.curve[at].a == WEIGHTS[at]
        assert found.curve[at].loss == pytest.approx(sum(logs) / len(logs))
    assert found.a == found.a0 == nearly_best(found.curve)
    assert found.notes == (ESTIMATE,)


class Large(Corpus):
    """Says that it is large, and remembers how many documents each leg was to give."""

    def __init__(self, docs: Sequence[Doc], dim: int) -> None:
        super().__init__(docs, dim=dim)
        self.limits: set[int] = set()

    def live_rows(self) -> Rows:
        return np.arange(len(self.docs))

    def _allowed(self, among: Among | None) -> list[int]:
        return [row for row in super()._allowed(among) if row < len(self.docs)]

    def near(self, vector: Vectors, rows: Rows, limit: int, among: Among | None = None) -> Near:
        self.limits.add(limit)
        return super().near(vector, rows, limit, among)

    def keyword_search(self, query: KeywordQuery, limit: int, among: Among | None = None) -> Ranked:
        self.limits.add(limit)
        return super().keyword_search(query, limit, among)


def test_lists_are_as_deep_as_ranks_count_in_a_large_corpus_too() -> None:
    """A thousand, ten where a leg is asked alone, and one more for the copy."""
    corpus = Large(corpus_of_words(40).docs, dim=8)
    corpus.documents = 5_000
    calibrate(index_of(corpus, LetterCounts("abdefiou")), sample=12)
    assert corpus.limits == {11, 1_001}


def test_everything_is_encoded_once() -> None:
    """Two queries and two copies for each document, nothing for a weight."""
    encoder = LetterCounts("abdefiou")
    calibrate(index_of(corpus_of_words(40), encoder), sample=12)
    assert len(encoder.encoded) == 4 * 12


def test_unjudged_queries_shift_the_weight_by_how_much_their_best_document_holds() -> None:
    """Queries that are wholly in a document raise it, fewer than ten do nothing."""
    easy = [" ".join(doc.text.split(".")[0].split()[:2]) for doc in corpus_of_words(40).docs[:10]]
    plain, shifted = calibrated(), calibrated(easy)
    assert shifted.a0 == plain.a0
    assert shifted.queries == 10
    assert 0 < shifted.shift < 0.5
    assert shifted.a == min(1.0, shifted.a0 + shifted.shift)
    few = calibrated(easy[:9])
    assert (few.a, few.queries, few.notes) == (plain.a, 0, (ESTIMATE, TOO_FEW))


def test_under_cosine_the_shift_is_also_by_how_near_documents_are() -> None:
    """Recomputed here from cosines with all documents, and with the copy of the one asked for."""
    letters = LetterCounts("abdefiou")
    plain = corpus_of_words(40)
    unit = [np.array(doc.vector) / np.linalg.norm(doc.vector) for doc in plain.docs]
    docs = [
        doc._replace(vector=tuple(each.tolist()))
        for doc, each in zip(plain.docs, unit, strict=True)
    ]
    corpus = Corpus(docs, plain.knowledge, dim=8)
    people = [*(doc.text for doc in docs[:10]), "xyz"]  # of which no vector tells
    found = calibrate(index_of(corpus, letters, "cosine"), people, sample=12)
    assert found is not None
    assert found.queries == 11
    made = []
    for query in sampled(corpus, 12, 0):
        others = [each for row, each in enumerate(unit) if row != query.row]
        asked, copied = letters.encode([query.text, query.copy])
        cosines = [asked @ each / np.linalg.norm(asked) for each in others]
        cosines.append(asked @ copied / np.linalg.norm(asked) / np.linalg.norm(copied))
        made.append(max(cosines))
    # People ask for what ten documents say, word for word: their cosines are 1.
    assert found.vector_shift == pytest.approx(1.5 * (sum(made) / len(made) - 1), abs=1e-6)
    assert found.vector_shift is not None and found.vector_shift < 0
    assert found.shift == found.keyword_shift + found.vector_shift
    assert found.a == min(1.0, max(0.0, found.a0 + found.shift))


@pytest.mark.parametrize("metric", ["inner-product", "l2"])
def test_other_metrics_do_not_tell_how_near_is_near(metric: Metric) -> None:
    """Which is said; nor are queries encoded for it."""
    encoder = LetterCounts("abdefiou")
    people = [doc.text for doc in corpus_of_words(40).docs[:10]]
    found = calibrate(index_of(corpus_of_words(40), encoder, metric), people, sample=12)
    assert found is not None
    assert (found.queries, found.vector_shift) == (10, None)
    assert found.shift == found.keyword_shift != 0
    assert found.notes == (ESTIMATE, WORDS_ALONE)
    assert not set(people) & set(encoder.encoded)


class Marked(LetterCounts):
    """Gives every text a vector, also one without a word."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        return super().encode(texts) + 1


def test_queries_without_a_word_tell_nothing() -> None:
    """Nor are they encoded, whatever vector they would get."""
    encoder = Marked("abdefiou")
    people = [doc.text for doc in corpus_of_words(40).docs[:10]]
    index = index_of(corpus_of_words(40), encoder, "cosine")
    blank = calibrate(index, [*people, *["", "?!"] * 20], sample=12)
    assert not {"", "?!"} & set(encoder.encoded)
    assert blank == calibrate(index, people, sample=12)


def test_a_report_tells_both_parts_of_a_shift() -> None:
    """With their signs; the second only where there is one."""
    plain = calibrated()
    assert not [line for line in of_calibration(plain) if "compared" in line]
    shifted = replace(plain, queries=12, keyword_shift=0.05, vector_shift=-0.17, shift=-0.12)
    assert list(of_calibration(shifted))[1:3] == [
        "  +0.050 by how much of a query a document holds, compared with queries made of documents",
        "  -0.170 by how near a document is to a query, compared with queries made of documents",
    ]
    by_words = list(of_calibration(replace(shifted, vector_shift=None)))
    assert sum("compared" in line for line in by_words) == 1
    assert {"keyword_shift": 0.05, "vector_shift": -0.17}.items() <= shifted.to_dict().items()


def test_what_each_leg_finds_is_told() -> None:
    """Of each kind of query, by itself; shares, the first ten at least as often as the first."""
    found = calibrated().found
    assert [(each.kind, each.leg) for each in found] == [
        ("title", "dense"), ("title", "keyword"), ("hard", "dense"), ("hard", "keyword"),
    ]  # fmt: skip
    assert all(0 <= each.first <= each.first_ten <= 1 for each in found)


def test_an_index_keeps_what_was_found() -> None:
    """As the facts of a calibration, which are ready for JSON too."""
    found = calibrated()
    kept = found.calibration
    assert (kept.a, kept.a0, kept.shift) == (found.a, found.a0, found.shift)
    assert (kept.judged, kept.sample, kept.seed) == (0, 12, 0)
    assert found.to_dict()["curve"][3] == {"a": 0.15, "loss": found.curve[3].loss}


def test_without_long_documents_there_is_no_estimate() -> None:
    """Not an error: an index of short texts keeps the weight that ships."""
    corpus = Corpus([Doc(str(number), "short text") for number in range(50)])
    assert calibrate(index_of(corpus, LetterCounts("ab"))) is None


def test_a_sample_too_small_to_tell_anything_is_refused() -> None:
    """It is the caller's doing, not that of the documents."""
    index = index_of(corpus_of_words(40), LetterCounts("ab"))
    with pytest.raises(ValueError, match="sample: wanted 10 documents or more, got 9"):
        calibrate(index, sample=9)


def test_without_an_encoder_calibrating_is_refused() -> None:
    """It needs more than vectors: the error says what to do."""
    with pytest.raises(
        VocabtoolError, match=r"here: calibrating encodes .* judged queries instead"
    ):
        calibrate(index_of(corpus_of_words(20), None))


# Judged queries.


def judged(count: int) -> tuple[list[Query], dict[str, dict[str, int]]]:
    """Queries whose words their document holds; vectors point to another one."""
    docs = corpus_of_words(40).docs[:count]
    queries = [Query(doc.id, " ".join(doc.text.replace(".", "").split()[:3])) for doc in docs]
    return queries, {doc.id: {doc.id: 1} for doc in docs}


def test_judged_queries_choose_the_weight_that_finds_most() -> None:
    """With vectors that say nothing the keyword leg gets all the weight that it needs."""
    queries, qrels = judged(20)
    index = index_of(corpus_of_words(40), None)
    vectors = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    found = tune(index, queries, qrels, vectors=vectors)
    best = max(point.ndcg for point in found.curve)
    assert found.a > 0.5
    assert dict(found.curve)[found.a] == pytest.approx(best)
    assert found.fixed == dict(found.curve)[0.5]
    assert found.held_out <= best + 1e-12
    assert (found.queries, found.calibration.judged, found.calibration.a) == (20, 20, found.a)
    assert found == tune(index, queries, qrels, vectors=vectors)


def test_tuning_wants_ten_judged_queries_and_vectors() -> None:
    """Too few, none in common, vectors of another number, and no vector at all."""
    queries, qrels = judged(20)
    index = index_of(corpus_of_words(40), None)
    with pytest.raises(VocabtoolError, match=r"wants 10 queries .* got 9"):
        tune(index, queries[:9], qrels, vectors=np.ones((9, 8), np.float32))
    with pytest.raises(VocabtoolError, match="none of 1 queries"):
        tune(index, [Query("other", "x")], qrels)
    with pytest.raises(ValueError, match="3 vectors for 20 queries"):
        tune(index, queries, qrels, vectors=np.ones((3, 8), np.float32))
    with pytest.raises(VocabtoolError, match="give the vectors"):
        tune(index, queries, qrels)
