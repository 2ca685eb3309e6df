"""The weight of the keyword leg: by judgements, or by queries made of the index's documents."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import text as drawn
from numpy.typing import NDArray

from tests import counted_letters
from tests.builders.judged_collection import printed_json, write_judgements
from tests.builders.small_corpus import Doc, SmallCorpus, Whole
from vocabtool import Document, Index, Settings, calibrate, errors
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

Output = pytest.CaptureFixture[bytes]


def test_an_estimate_repeats_with_its_seed(index: Index, capsysbinary: Output) -> None:
    """To the last bit, the mean of the nearly best; a search takes it, but of no dry run."""
    found = calibrate(index, sample=12)
    assert found is not None and found == calibrate(index, sample=12)
    other = calibrate(index, sample=12, seed=1)
    assert other is not None and other.curve != found.curve
    assert [*found.curve] == [step / 20 for step in range(21)]
    lowest = min(found.curve.values())
    nearly_best = [a for a, loss in found.curve.items() if loss <= lowest + 0.02]
    assert found.a == pytest.approx(sum(nearly_best) / len(nearly_best))
    assert (found.sample, found.seed) == (12, 0)
    (note,) = found.notes
    assert note.startswith("an estimate")
    assert [(each.kind, each.fusion) for each in found.rates] == [
        ("title", "dense"), ("title", "keyword"), ("hard", "dense"), ("hard", "keyword"),
    ]  # fmt: skip
    assert all(0 <= each.first <= each.first_ten <= 1 for each in found.rates)
    kept = found.calibration
    assert (kept.a, kept.judged, kept.sample, kept.seed) == (found.a, 0, 12, 0)
    command = ("calibrate", index.path, "--sample", 12)
    dry = printed_json(capsysbinary, *command, "--dry-run")
    assert (len(dry["rates"]), dry["curve"]["0.15"]) == (4, found.curve[0.15])
    assert Index.open(index.path).calibration is None
    assert printed_json(capsysbinary, *command) == dry
    opened = Index.open(index.path)
    assert opened.search("bak").query.a == dry["a"]
    opened.store_calibration(None)


def numbers(folder: Path, texts: Sequence[str], encoded: list[str]) -> Index:
    """An index whose vectors count letters, and note what is encoded."""

    def letters(given: Sequence[str]) -> NDArray[np.float32]:
        encoded.extend(given)
        return np.array([[text.count(each) + 1 for each in "abde"] for text in given], np.float32)

    index = Index.create(folder / "index", letters, fingerprint="letters")
    with index.writer() as writer:
        writer.add(texts)
    encoded.clear()
    return index


def test_what_tells_nothing_is_no_estimate(
    own: Index, index: Index, tmp_path: Path, capsysbinary: Output
) -> None:
    """Short texts tell nothing, small samples are errors; all is encoded once, not for a weight."""
    assert calibrate(numbers(tmp_path, ["short text"] * 50, [])) is None
    with pytest.raises(ValueError, match="sample must be at least 10 documents, got 9"):
        calibrate(index, sample=9)
    with pytest.raises(errors.VocabtoolError, match=r"no encoder.*judged queries"):
        calibrate(own)
    (tmp_path / "queries").write_text("a b")
    with pytest.raises(Exception, match="--queries needs relevance judgements: pass --qrels"):
        printed_json(capsysbinary, "calibrate", index.path, "--queries", tmp_path / "queries")
    words, encoded = [f"w{number}" for number in range(40)], list[str]()
    texts = [
        ". ".join(" ".join(words[at % 37 : at % 37 + 6]) for at in range(n, n + 3))
        for n in range(30)
    ]
    assert calibrate(numbers(tmp_path / "once", texts, encoded), sample=12) is not None
    assert len(encoded) == 4 * 12


def test_judged_queries_choose_the_weight_that_finds_most(
    index: Index, tmp_path: Path, capsysbinary: Output
) -> None:
    """As searches with each weight find it."""
    import ir_measures
    from ir_measures import nDCG

    queries, qrels = write_judgements(tmp_path)
    judged = ("--queries", tmp_path / "queries", "--qrels", tmp_path / "qrels")
    tuned = printed_json(capsysbinary, "calibrate", index.path, *judged, "--dry-run")
    assert tuned == printed_json(capsysbinary, "calibrate", index.path, *judged, "--dry-run")
    curve = {float(a): gain for a, gain in tuned["curve"].items()}
    chosen = [name for name in queries if max(qrels.get(name, {"": 0}).values()) > 0]
    for a in (0.0, 0.35, tuned["a"], 1.0):
        run = {}
        for name in chosen:
            hits = index.search(queries[name], a=a)
            run[name] = {hit.id: float(-rank) for rank, hit in enumerate(hits)}
        part = {name: qrels[name] for name in chosen}
        wanted = ir_measures.calc_aggregate([nDCG @ 10], part, run)
        assert curve[a] == pytest.approx(wanted[nDCG @ 10])
    assert curve[tuned["a"]] == pytest.approx(max(curve.values()))
    assert tuned["fixed"] == curve[0.5]
    assert tuned["held_out"] <= max(curve.values()) + 1e-12
    assert (tuned["queries"], tuned["a"]) == (38, pytest.approx(tuned["a"]))


def test_tuning_wants_ten_judged_queries_and_vectors(
    own: Index, tmp_path: Path, capsysbinary: Output
) -> None:
    """Too few, and no vector at all; with vectors it is kept."""
    write_judgements(tmp_path)

    def tuned(*more: object) -> Any:
        judged = ("--queries", tmp_path / "queries", "--qrels", tmp_path / "qrels")
        return printed_json(capsysbinary, "calibrate", own.path, *judged, *more)

    with pytest.raises(errors.VocabtoolError, match="pass the vectors"):
        tuned()
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(40, 2)))
    found = tuned("--vectors", tmp_path / "v.npy")
    kept = Index.open(own.path).calibration
    assert kept is not None
    assert (kept.a, kept.judged) == (found["a"], 38)
    lines = (tmp_path / "queries").read_text().splitlines()
    (tmp_path / "queries").write_text("\n".join(lines[10:19]))
    with pytest.raises(errors.VocabtoolError, match=r"10 queries .* got 9"):
        tuned()
    with pytest.raises(Exception, match="--vectors needs relevance judgements"):
        printed_json(capsysbinary, "calibrate", own.path, "--vectors", tmp_path / "v.npy")


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
