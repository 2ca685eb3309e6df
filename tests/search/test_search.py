"""A search over documents that a person can compute: what is found, in which order, and why."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.builders.small_corpus import FUSED, Doc, bm25, idf, index_of
from vocabtool import Hit, Hits, Index, Settings

ORDINARY = ["love", "to", "use", "search", "engines", "cats", "dogs", "for", "the"]
Vector = NDArray[np.float32]
EAST = np.array([1, 0], np.float32)
NOWHERE = np.zeros(2, np.float32)
FOLDERS: list[Path] = []

# To the vector EAST the first is nearest, then love, then cats; xapian is last.
DOCS = (
    Doc("dogs", "the dogs use search engines", (0.9, 0.1)),
    Doc("love", "love to use engines", (0.8, 0.2)),
    Doc("cats", "the cats love cats", (0.5, 0.5)),
    Doc("xapian", "xapian for search", (0.1, 0.9)),
)


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    FOLDERS.append(tmp_path_factory.mktemp("indexes"))
    yield
    FOLDERS.clear()


def made(
    docs: Sequence[Doc], known: Collection[str] | None = None, language: str = "none"
) -> Index:
    return index_of(FOLDERS[0], docs, known, language)


def found(hits: Hits) -> list[str]:
    return [hit.id for hit in hits]


def ask(
    text: str, vector: Vector | None = EAST, index: Index | None = None, **settings: Any
) -> Hits:
    return (index or made(DOCS, ORDINARY)).search(text, vector=vector, **settings)


def test_an_unknown_word() -> None:
    """The query's vector is that of its other words; without one words are searched alone."""
    assert found(ask("love xapian", fusion="dense")) == ["dogs", "love", "cats", "xapian"]
    assert found(ask("love xapian"))[0] == "xapian"
    asked = ask("love xapian").query
    assert [asked.a, asked.m, asked.weight] == pytest.approx([0.5, M, 0.5 + 0.5 * M])
    hits = ask("love xapian", None, a=0)
    assert found(hits) == ["xapian", "cats", "love"]
    assert hits.query.weight == 1
    assert any("no vector" in note for note in hits.notes)
    hits = ask("xapian search", NOWHERE)
    assert found(hits) == ["xapian", "dogs"]
    assert any("vector is zero" in note for note in hits.notes)
    dense = ask("xapian search", NOWHERE, fusion="dense")
    assert found(dense) == []
    assert not any("keywords are searched" in note for note in dense.notes)


M = idf(1) / (idf(1) + idf(2))  # of "love xapian"


CODES = (
    Doc("manual", "love to use search engines love to use search engines", (1, 0)),
    Doc("part", "a box", (0, 1)),
    Doc("right", "one SKU-48007-H there", (-1, 0)),
    Doc("wrong", "one SKU-48008-H there", (0.5, 0.5)),
)


def test_lists_and_the_guarantee() -> None:
    """Found by a query of its own, however short lists are; unless it is known, or by choice."""
    index = made(CODES, ORDINARY)
    hits = ask("love engines SKU-48007-H", index=index, k=1, depth=1, fusion="convex")
    assert found(hits) == ["right"]
    settings: dict[str, Any] = {"depth": 1, "fusion": "convex", "guarantee": False}
    assert found(ask("love engines SKU-48007-H", index=index, k=1, **settings)) == ["manual"]
    known = ["sku-48007-h", "love", "engines"]
    hits = ask("love engines SKU-48007-H", index=made(CODES, known), fusion="convex")
    assert {hit.tier for hit in hits} == {0}
    hits = ask("love engines SKU-48007-H", index=index, fusion="convex", guarantee=False)
    assert (hits[0].id, {hit.tier for hit in hits}) == ("manual", {0})


def test_what_is_a_code() -> None:
    """A regular expression of the caller; without knowledge all are unknown."""
    index = made([*DOCS, Doc("far", "boxx", (-1, 0))], ORDINARY)
    hits = ask("love boxx boxxy", index=index, identifier="[a-z]{3,4}x", fusion="convex", a=0)
    assert (hits[0].id, hits[0].tier, hits[1].tier) == ("far", 1, 0)
    assert [word.identifier for word in hits.query.words] == [False, True, False]
    hits = ask("love xapian SKU-48007-H", index=made(CODES), explain=True)
    assert hits[0].id == "right"
    assert hits.query.m == 0
    assert [word.known for word in hits.query.words] == [None, None, None]
    assert any("it is unknown" in note for note in hits.notes)


@pytest.mark.parametrize("fusion", FUSED)
def test_a_code_of_several_terms_is_held_by_what_holds_them_in_a_row(fusion: str) -> None:
    """Of a script without blanks every pair of characters, not only the first."""
    docs = [Doc("part", "東京 東京 東京", (1, 0)), Doc("whole", "in 東京都庁 they say", (0, 1))]
    hits = ask("東京都庁", index=made(docs), identifier="東京都庁", fusion=fusion)
    assert [(hit.id, hit.tier) for hit in hits] == [("whole", 1), ("part", 0)]


ENDINGS = (
    Doc("more", "DataFrames, DataFrames and DataFrames", (1, 0)),
    Doc("one", "a DataFrame among many other things that are said", (0, 1)),
    Doc("lower", "dataframe", (0.5, 0.5)),
    Doc("parts", "data frame data frame", (1, 0)),
)


@pytest.mark.parametrize("vector", [EAST, None])
def test_a_name_in_mixed_case_comes_first_where_it_ends_so(vector: Vector | None) -> None:
    """Then what has its stem, in any case; its parts last."""
    index = made([*ENDINGS, Doc("js", "javascript", (0, 1))], language="english")
    hits = ask("DataFrame", vector, index)[:4]
    assert (hits[0].id, [hit.tier for hit in hits]) == ("one", [2, 1, 1, 0])
    assert hits[3].id == "parts"
    assert (ask("JavaScript", vector, index)[0]).id == "js"


@pytest.mark.parametrize("query", ["input/output", "IL-6", "src/io/main.py", "C#"])
@pytest.mark.parametrize("knowledge", [None, ["input", "output", "input/output"]])
def test_a_joined_word_that_is_all_of_a_query_is_meant_whole(
    query: str, knowledge: list[str] | None
) -> None:
    """Whatever joins it, and though vectors prefer its parts."""
    parts = re.sub(r"\W", " ", query)
    docs = [Doc("part", f"{parts} {parts} {parts}", (1, 0)), Doc("whole", f"an {query} of", (0, 1))]
    hits = ask(query, index=made(docs, knowledge))
    assert [(hit.id, hit.tier) for hit in hits] == [("whole", 1), ("part", 0)]
    beside = ask(f"{query} box", index=made(docs, knowledge))
    assert {hit.tier for hit in beside} == ({0, 1} if ".py" in query else {0})
    chosen = ask(query, index=made(docs, knowledge), identifier="box")
    assert {hit.tier for hit in chosen} == {0}


def test_phrases_conditions_and_stop_words() -> None:
    """Phrases and conditions hold in both legs, unless preferred; stop words count if alone."""
    assert found(ask('"love to use"')) == ["love"]
    assert found(ask('"use engines" cats')) == ["love"]
    hits = ask('"engines search"')
    assert found(hits) == []
    assert any("quoted phrase" in note for note in hits.notes)
    assert found(ask('"use engines"', None, phrases="preferred")) == ["love", "dogs"]
    index = made(DOCS, ORDINARY, "english")
    words = ask("the xapian", index=index).query.words
    assert [word.counts for word in words] == [False, True]
    assert {hit.id for hit in ask("the", None, index)} == {"dogs", "cats"}
    docs = [Doc(doc.id, doc.text, doc.vector, {"lang": doc.id[:1]}) for doc in DOCS]
    index = made([*docs, Doc("lone", "love alone", (0.2, 0.2), {"lang": "l"})], ORDINARY)
    assert set(found(ask("cats love", index=index, where="lang = 'l'"))) == {"love", "lone"}
    assert found(ask('"love alone"', index=index, where="lang = 'l'")) == ["lone"]
    assert found(ask('"love alone"', index=index, where="lang = 'd'")) == []
    none = "no document satisfies the condition"
    assert ask("birch", index=index, where="lang = 'L'").notes == (none,)
    assert none not in ask("birch", index=index, where="lang = 'l'").notes
    quoted = ask('"birch"', index=index, where="lang = 'L'").notes
    assert "quoted phrase" in quoted[0]


def test_empty_hands() -> None:
    """Unknown everywhere: no hits, a note, a spelling; with a vector of one's own the nearest."""
    hits = ask("xapain", None)
    assert found(hits) == []
    assert hits.notes[-1].startswith("the model knows no word of the query")
    assert [(each.word, each.spellings) for each in hits.suggestions] == [("xapain", ("xapian",))]
    assert found(ask("xapain")) == ["dogs", "love", "cats", "xapian"]
    assert found(ask("xapain love"))[:1] == ["love"]
    hits = ask("!?")
    assert found(hits) == ["dogs", "love", "cats", "xapian"]
    assert any("no word" in note for note in hits.notes)
    assert found(ask("", None)) == []


def why(hits: Hits, at: int = 0) -> Any:
    """The explanation of a hit."""
    told = hits[at].explanation
    assert told is not None
    return told


def test_an_explanation_tells_of_words_and_legs() -> None:
    """Figures of words, ranks and scores of hits by leg, where there are any and who asks."""
    index = made(DOCS, ORDINARY)
    hits = ask("love Xapian", index=index, explain=True)
    love, xapian = hits.query.words
    assert (love.known, love.document_frequency, love.weight) == (True, 2, 1)
    assert (xapian.known, xapian.document_frequency, xapian.weight) == (False, 1, 1.5)
    assert xapian.idf == pytest.approx(idf(1))
    assert (xapian.surface, xapian.start, xapian.end) == ("Xapian", 5, 11)
    told = why(hits)
    score = 1.5 * bm25(DOCS, "xapian", 3)
    assert (told.keyword.rank, told.dense.rank, told.rank_without_keywords) == (1, 4, 4)
    assert (told.keyword.score, told.dense.score) == pytest.approx((score, 0.1), rel=1e-4)
    (matched,) = told.words
    assert (matched.surface, matched.whole) == ("Xapian", True)
    assert matched.score == pytest.approx(score, rel=1e-4)
    hits = ask("love xapian", depth=3, k=3)
    assert (hits[0].explanation, hits.query.words[0].document_frequency) == (None, None)
    hits = ask("xapian", index=made([*DOCS, Doc("bare", "xapian")], ORDINARY), explain=True)
    assert found(hits)[0] == "bare"
    bare = why(hits)
    assert (bare.dense.rank, bare.dense.score, bare.rank_without_keywords) == (None, None, None)


def test_an_explanation_tells_a_whole_identifier_from_its_parts() -> None:
    """In how many documents either is, and which of them a hit holds."""
    docs = [
        Doc("whole", "calls insert_one here", (1.0, 0.0)),
        Doc("parts", "one may insert it", (1.0, 0.0)),
        Doc("part", "insert insert", (1.0, 0.0)),
    ]
    hits = ask("insert_one plain", index=made(docs, ORDINARY), explain=True)
    compound, plain = hits.query.words
    assert (compound.document_frequency, compound.part_frequency) == (1, 2)
    assert (plain.document_frequency, plain.part_frequency) == (0, None)
    wholes = {
        hit.id: [(word.surface, word.whole) for word in why(hits, at).words]
        for at, hit in enumerate(hits)
    }
    assert wholes == {id_: [("insert_one", id_ == "whole")] for id_ in ("whole", "parts", "part")}
    without_blanks = [Doc("run", "東京都", (1.0, 0.0)), Doc("pair", "京都 の 話", (1.0, 0.0))]
    runs = ask("東京都", index=made(without_blanks, ORDINARY), explain=True)
    assert [[word.whole for word in why(runs, at).words] for at in (0, 1)] == [[True], [False]]


def test_depths_and_ranks() -> None:
    """The rank without keywords beyond the depth; small corpora whole; all weight on one leg."""
    hits = ask("love xapian", depth=1, k=1, explain=True)
    assert found(hits) == ["xapian"]
    assert (why(hits).dense.rank, why(hits).rank_without_keywords) == (None, 4)
    docs = [Doc("a", "cats", (1, 0)), *(Doc(name, "xapian", (0.5, 0)) for name in "bc")]
    for depth in (2, 200):
        hits = ask("xapian", index=made(docs, ORDINARY), depth=depth, k=2, explain=True)
        assert found(hits) == ["b", "c"]
        assert [why(hits, at).rank_without_keywords for at in (0, 1)] == [2, 2]
    limits = [Settings().limit(rows) for rows in (2_000, 2_001, 0)]
    assert [*limits, Settings(depth=5).limit(10)] == [2_000, 100, 1, 5]
    docs = [Doc(f"{at:03}", "xapian" if at == 299 else "cats", (300 - at, 0)) for at in range(300)]
    for given, rank in ((None, 300), (200, None)):
        hits = ask("xapian", index=made(docs, ORDINARY), depth=given, explain=True, a=1.0)
        assert (hits[0].id, why(hits).dense.rank) == ("299", rank)
    every = ["dogs", "love", "cats", "xapian"]
    for fusion, wanted in (("coverage", every[3:]), ("keyword", every[3:]), ("convex", every)):
        assert sorted(found(ask("xapian", fusion=fusion))) == sorted(wanted)
    assert found(ask("love xapian", fusion="convex", a=1.0)) == ["xapian", "cats", "love"]


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("love engines", "[love] to use [engines]"),
        ("running", "He [runs], she ran: [Running] [RUN]-time [run]"),
        ("the cat", "the [cat] and the [Cats]"),
        # stop words where there is nothing else, and in a phrase
        ("the for", "xapian [for] search"),
        ('"for search"', "xapian [for] [search]"),
        # of a code the whole; without it its longer parts: single letters are not searched
        ("SKU-48007-H", "vitamin H in [SKU-48007-H], and 48007 H, or SKU-48008"),
        ("SKU-48007-H", "vitamin H, and [48007] H"),
        ("sku 48007", "see [SKU]-[48007]-H, or [SKU]-48008"),
        ("std::vector", "[std::vector]<int>, vector"),
        ("京都", "東[京都]と京阪"),
        ("東京都", "[東京都]庁"),
    ],
)
def test_highlights_are_places_in_the_text(query: str, marked: str) -> None:
    """Where the words of the query stand that are searched; identifiers whole where they are."""
    text = re.sub(r"[\[\]]", "", marked)
    index = made([Doc("a", text, (0.9, 0.1))], ORDINARY, "english")
    told, shown = why(ask(query, None, index, explain=True, k=1)), text
    for start, end in reversed(told.highlights):
        shown = f"{shown[:start]}[{shown[start:end]}]{shown[end:]}"
    assert shown == marked


def test_hits() -> None:
    """Dates, what JSON has no number for, suggestions; a sequence; a query is cut."""
    docs = [Doc("a", "xapian", (1, 0), {"day": date(2024, 1, 2), "share": float("nan")})]
    told = ask("xapian", index=made(docs, ORDINARY), explain=True).to_json()
    read = json.loads(json.dumps(told, allow_nan=False))
    assert read["hits"][0]["fields"]["day"] == "2024-01-02"
    assert read["query"]["words"][0]["surface"] == "xapian"
    assert read["hits"][0]["explanation"]["highlights"] == [[0, 6]]
    assert read["hits"][0]["explanation"]["dense"] == {"rank": 1, "score": 1.0, "part": 0.0}
    values = ("x", 1, None, float("nan"), float("-inf"))
    tags = Hit(id="a", text="", fields={"tags": values}, score=1.0, tier=0).to_json()
    assert tags["fields"] == {"tags": ["x", 1, None, None, None]}
    assert json.loads(json.dumps(ask("xapain", None).to_json()))["suggestions"] == [
        {"word": "xapain", "spellings": ["xapian"]}
    ]
    hits = ask("love xapian", k=3)
    assert (len(hits), hits[-1], list(hits[:2])) == (3, hits[2], [hits[0], hits[1]])
    hits = ask(" ".join(f"w{n}" for n in range(1_100)) + " love", None)
    assert hits.notes[0] == "only the first 1,000 words of the query were searched"
    assert len(hits.query.words) == 1_000


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"k": 0}, "k must be at least 1, got 0"),
        ({"identifier": "["}, "not a valid regular expression"),
        ({"vector": None, "fusion": "dense"}, "fusion='dense' needs the query's vector"),
        ({"vector": np.array([np.nan, 0], np.float32)}, "vector must contain finite numbers"),
        ({"fusion": "best"}, "fusion must be one of coverage, convex, .*, got 'best'"),
        ({"a": 1.5}, r"^a must be from 0 to 1, got 1\.5"),
        ({"a": "1"}, "a must be a number or None, got '1'"),
        ({"identifier": len}, "identifier must be a string or None"),
        ({"depth": 0}, "depth must be from 1 to 1000000, got 0"),
        ({"rerank_depth": 0}, "rerank_depth must be at least 1, got 0"),
        *(({"depth": each}, "depth must be a whole number") for each in (np.inf, 1.5, "5")),
    ],
)
def test_what_cannot_be_asked_is_refused(given: dict[str, Any], told: str) -> None:
    """With what was wanted, and what was got."""
    with pytest.raises(ValueError, match=told):
        ask("love", **given)


FILLER: Final = ("alpha beta, gamma " * 60_000, "東西南北" * 30_000, "Gänsefüßchen " * 90_000)


@pytest.mark.parametrize("filler", FILLER, ids=["ascii", "han", "accents"])
@pytest.mark.parametrize("query", ["zebra Crossing", "os.path", "Überfall alpha"])
def test_highlights_of_a_long_text(filler: str, query: str) -> None:
    """They are in the parts with the rarest words of the query, soon, wherever these are."""
    planted = " zebras at CROSSINGS use os.path; überfall Überfall. "
    text = filler[: len(filler) // 2] + planted + filler[len(filler) // 2 :]
    start = text.index(planted)
    wanted = {"zebra Crossing": ["zebras", "CROSSINGS"], "os.path": ["os.path"]}
    index = made([Doc("long", text), Doc("short", "zebra")], language="english")
    index.search("zebra", fusion="keyword", explain=True)  # opens everything
    before = time.process_time()
    hit = index.search(query, where="id = 'long'", fusion="keyword", explain=True)[0]
    assert time.process_time() - before < 0.5  # 26 microseconds a word were more than 4 seconds
    assert hit.explanation is not None
    there = [
        text[first:last]
        for first, last in hit.explanation.highlights
        if start <= first < start + len(planted)
    ]
    assert there == wanted.get(query, ["überfall", "Überfall"])
