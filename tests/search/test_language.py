"""The query language: what is an operator, what it asks of a document, and that nothing fails."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.judged_collection import printed_json
from tests.builders.small_corpus import Doc, index_of
from tests.builders.small_indexes import temporary_folder
from vocabtool import Document, Hits, Index
from vocabtool.cli.main import cli

DOCS = (
    Doc("a", "a red kettle", (1, 0), {"lang": "en", "year": 2020, "open": True, "t": "Red Pot"}),
    Doc("b", "a blue kettle", (1, 1), {"lang": "de", "year": 2021, "open": False}),
    Doc("c", "an electric teapot for tea", (0, 1), {"lang": "en", "price": 2.5, "t": "Tea"}),
    Doc("d", "foo:bar std::vector red SKU-48007-H", (1, -1), {"lang": ["fr", "de"], "none": None}),
)
KNOWN = ("red", "blue", "kettle", "teapot", "tea")
VECTOR = [1.0, 0.5]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """Four documents with fields; the model knows their common words."""
    return index_of(tmp_path_factory.mktemp("asked"), DOCS, KNOWN, "english")


def ids(hits: Hits) -> str:
    return "".join(sorted(hit.id for hit in hits))


@pytest.mark.parametrize(
    ("query", "found", "words", "restrictions"),
    [
        ("red kettle", "abcd", "red kettle", ("", "", "")),
        # Words and phrases that are left out, in all their forms.
        ("kettle -red", "bc", "kettle", ("red", "", "")),
        ("kettle -kettles", "cd", "kettle", ("kettles", "", "")),
        ('kettle -"a red"', "bcd", "kettle", ('"a red"', "", "")),
        # Signs that are none: no letter behind it, one letter, a joined word, a stop word.
        ("kettle -5 - red", "abcd", "kettle 5 red", ("", "", "")),
        ("kettle -r --red", "abcd", "kettle r red", ("", "", "")),
        ("kettle -the -(red)", "abcd", "kettle the red", ("", "", "")),
        ("-red -kettle", "abcd", "red kettle", ("", "", "")),  # nothing would be searched
        ("−red kettle –red", "abcd", "red kettle red", ("", "", "")),  # noqa: RUF001 - other dashes
        # Fields: a word of a string, an element of a list, a number, true and false.
        ("red lang:en", "ac", "red", ("", "lang:en", "")),
        ('red t:"red pot"', "a", "red", ("", 't:"red pot"', "")),
        ("red year:2021", "b", "red", ("", "year:2021", "")),
        ("red open:TRUE", "a", "red", ("", "open:TRUE", "")),
        ("red -lang:en", "bd", "red", ("lang:en", "", "")),
        # Texts with a colon that ask for no field, or for no value of its kind.
        ("red foo:bar", "abcd", "red foo:bar", ("", "", "")),
        ("red t::tea", "abcd", "red t::tea", ("", "", "")),
        ('red t:""', "abcd", "red t", ("", "", "")),
        ("red year:new open:yes", "abcd", "red year:new open:yes", ("", "", "")),
        # Alternatives: one of them must be there.
        ("kettle OR teapot", "abc", "kettle teapot", ("", "", "kettle OR teapot")),
        ("red blue OR teapot", "bc", "red blue teapot", ("", "", "blue OR teapot")),
        ('"red kettle" OR "blue kettle"', "ab", "red kettle blue kettle", None),
        ("red OR -lang:en", "abd", "red", ("", "", "red OR -lang:en")),
        # What is none: in lower case, between stop words, at an end, in quotes.
        ("kettle or teapot", "abcd", "kettle or teapot", ("", "", "")),
        ("red to be OR not", "abcd", "red to be OR not", ("", "", "")),
        ("kettle OR OR teapot", "abcd", "kettle OR OR teapot", ("", "", "")),
        ('"kettle OR teapot"', "", "kettle OR teapot", ("", "", "")),
        # Brackets have no meaning.
        ("kettle OR teapot)", "abc", "kettle teapot", ("", "", "kettle OR teapot")),
        ("kettle (-red)", "bc", "kettle", ("red", "", "")),
        ("kettle lang:xx", "", "kettle", ("", "lang:xx", "")),
        ("kettle" + " -red" * 101, "abcd", "kettle" + " red" * 101, ("", "", "")),
        # Only fields: what fulfils them is listed.
        ("lang:de", "bd", "", ("", "lang:de", "")),
        ("lang:en -tea", "a", "", ("tea", "lang:en", "")),
    ],
)
def test_what_is_an_operator(
    index: Index, query: str, found: str, words: str, restrictions: tuple[str, str, str] | None
) -> None:
    """Which documents are found, by either leg, and how the query is understood."""
    vector = VECTOR if words else [0, 0]
    hits = index.search(query, vector=vector, explain=True)
    asked = hits.query
    assert ids(hits) == found
    assert " ".join(word.surface for word in asked.words) == words
    assert all(query[word.start : word.end] == word.surface for word in asked.words)
    parts = [",".join(each) for each in (asked.excluded, asked.fields, asked.alternatives)]
    if restrictions is not None:
        assert tuple(parts) == restrictions
    assert any("read as operators" in note for note in hits.notes) == any(parts)
    is_nothing = any("fulfils all that the query asks for" in note for note in hits.notes)
    assert is_nothing == (any(parts) and not found)
    assert not (hits.suggestions and any(parts))  # no spelling for words of operators
    for fusion in ("keyword", "convex", "rrf"):
        assert set(ids(index.search(query, vector=vector, fusion=fusion))) <= set(found)
    literal = index.search(query, vector=VECTOR, literal=True)
    assert not (literal.query.excluded or literal.query.fields or literal.query.alternatives)
    assert [word.surface for word in literal.query.words] == [
        word.surface for word in index.snapshot().cutter.query(query)
    ]


WORDS = ("red", "blue", "tea", "pot", "kettle")
LANGS = ("en", "de", "fr")
Check = Callable[[Doc], bool]
Part = tuple[str, Check]
documents = st.lists(
    st.tuples(st.lists(st.sampled_from(WORDS), max_size=4), st.sampled_from(LANGS)), max_size=8
).map(
    lambda made: [
        Doc(str(n), " ".join(text), (1, n / 9), {"lang": lang})
        for n, (text, lang) in enumerate([*made, ([*WORDS], "en")])
    ]
)


def has(*words: str) -> Check:
    return lambda doc: f" {' '.join(words)} " in f" {doc.text} "


def no(check: Check) -> Check:
    return lambda doc: not check(doc)


words = st.sampled_from(WORDS)
phrases = st.lists(words, min_size=1, max_size=2)
plain: st.SearchStrategy[Part] = words.map(lambda word: (word, has(word)))
quoted: st.SearchStrategy[Part] = phrases.map(lambda each: (f'"{" ".join(each)}"', has(*each)))
langs: st.SearchStrategy[Part] = st.sampled_from(LANGS).map(
    lambda lang: (f"lang:{lang}", lambda doc: doc.fields["lang"] == lang)
)
operators = quoted | langs | (plain | quoted | langs).map(lambda each: ("-" + each[0], no(each[1])))


def either(parts: list[Part]) -> Part:
    return " OR ".join(text for text, _ in parts), lambda doc: any(c(doc) for _, c in parts)


alternatives = st.lists(plain | operators, min_size=2, max_size=3).map(either)
loose: st.SearchStrategy[Part] = words.map(lambda word: (word, lambda doc: True))
queries = st.lists(loose | operators | alternatives, min_size=1, max_size=4)


@given(documents, queries, words)
@settings(max_examples=60, deadline=None)
def test_found_is_what_fulfils_every_operator(
    docs: list[Doc], parts: list[Part], word: str
) -> None:
    """As a person would compute it from the texts and fields: nothing less, and nothing more."""
    query = " ".join([word, *(text for text, _ in parts)])
    with temporary_folder() as folder:
        hits = index_of(Path(folder), docs, WORDS).search(query, vector=VECTOR, k=99)
    assert ids(hits) == "".join(doc.id for doc in docs if all(check(doc) for _, check in parts))


SIGNS = (
    "-", "(", ")", '"', "„", ":", " OR ", "OR", " ", "lang:", "year:", "open:", "t:", "red", "-tea",
    "the", "'", "\n", "\ud800", "\0", "é", "路", "5", "\\", ".", "-lang:en", '-"', "--", "¼",
)  # fmt: skip  # a list
SOUP = st.lists(st.sampled_from(SIGNS), max_size=14).map("".join)


@given(st.lists(SOUP | st.text(max_size=20), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_no_text_fails(index: Index, texts: list[str]) -> None:
    """Whatever its signs; one without an operator is answered as its words are."""
    for text in texts:
        hits = index.search(text, vector=VECTOR, explain=True)
        literal = index.search(text, vector=VECTOR, explain=True, literal=True)
        asked = hits.query
        if not (asked.excluded or asked.fields or asked.alternatives):
            assert hits == literal
        if not re.search(r"OR|[-:]", text):
            assert hits == literal
        assert not any("read as operators" in note for note in literal.notes)


def test_a_long_text_is_read_in_one_go(index: Index) -> None:
    """No sign is so frequent that reading takes more than linear time."""
    signs = ("(", ")", "-", '"', "-a ", "a:", "a OR b ", "lang:en ", '"a" ', ")x", "- ", "(-a:")
    for sign in signs:
        assert index.search(sign * 20_000, vector=VECTOR, fusion="dense").query.excluded == ()


def test_the_rank_is_that_of_the_words(index: Index) -> None:
    """Operators do not count in the fusion, the share of unknown words and the guarantee."""
    alone = index.search(
        "SKU-48007-H kettle", vector=VECTOR, where="lang = 'de' or lang contains 'de'"
    )
    asked = index.search("SKU-48007-H kettle lang:de -tea", vector=VECTOR)
    assert [(hit.id, hit.score, hit.tier) for hit in asked] == [
        (hit.id, hit.score, hit.tier) for hit in alone
    ]
    assert [hit.tier for hit in asked] == [1, 0]
    assert (asked.query.m, asked.query.weight) == (alone.query.m, alone.query.weight)
    assert index.search('kettle -"SKU-48007-H"', vector=VECTOR).query.m == 0


@pytest.fixture(scope="module")
def with_model(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """An index whose model makes the vectors."""
    folder = tmp_path_factory.mktemp("model")
    lines = ('{"id": "a", "text": "love life", "lang": "en"}', '{"id": "b", "text": "the world"}')
    (folder / "texts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = Path(__file__).parents[2] / "data" / "small_glove.txt"
    given = ["--model", str(model), "--id-field", "id", "--keep", "lang", "--quiet"]
    command = ["index", str(folder / "texts.jsonl"), *given, "-o", str(folder / "index")]
    cli.main(command, standalone_mode=False)
    return Index.open(folder / "index")


def test_the_command_explains_what_it_understood(
    with_model: Index, capfd: pytest.CaptureFixture[str]
) -> None:
    """Excluded words, fields and alternatives; with ``--literal`` there are none."""
    query = 'love OR life lang:en -world -"the end"'
    command = ["search", str(with_model.path), query, "--explain"]
    cli.main(command, standalone_mode=False)
    told = capfd.readouterr().out.splitlines()
    assert told[0] == f"query: {query}"
    assert '  left out: world, "the end"' in told
    assert "  only with: lang:en" in told
    assert "  one of: love OR life" in told
    cli.main([*command, "--literal", "--phrases", "preferred"], standalone_mode=False)
    told = capfd.readouterr().out.splitlines()
    assert not any(line.startswith(("  left out", "  only with", "  one of")) for line in told)
    assert " 2. b" in "\n".join(told)


def test_judged_queries_are_words(
    with_model: Index, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Measures stay those of the texts of a collection, whatever signs are in them."""
    query = "love -life lang:de"
    (tmp_path / "queries").write_text(f"1\t{query}\n")
    (tmp_path / "qrels").write_text("1\ta\t1\n")
    judged = ("--queries", tmp_path / "queries", "--qrels", tmp_path / "qrels")
    rows = printed_json(capsysbinary, "eval", with_model.path, *judged)["rows"]
    scores = {row["fusion"]: row["measures"]["ndcg@10"] for row in rows}
    assert scores["coverage"] == 1.0
    assert ids(with_model.search(query)) == ""


def test_many_words_that_are_asked_for(index: Index) -> None:
    """Beyond a thousand terms, alternatives and exclusions are words."""
    for query in (f'"{"tea " * 1_001}" OR blue', f'red -"{"tea " * 1_001}"'):
        summary = index.search(query, vector=VECTOR).query
        assert (summary.alternatives, summary.excluded) == ((), ())


def test_nothing_but_fields_is_not_encoded(tmp_path: Path) -> None:
    """The model sees no operator and no OR; an empty list of queries stays one."""
    seen: list[list[str]] = []

    def encode(texts: list[str]) -> np.ndarray:
        seen.append(list(texts))
        return np.ones((len(texts), 2), np.float32)

    index = Index.create(tmp_path / "index", encode, fingerprint="1")
    with index.writer() as writer:
        writer.add([Document("a", "tea", {"lang": "de"}), Document("b", "tea", {"lang": "en"})])
    seen.clear()
    queries = ["lang:de", "lang:en.", "tea lang:de", "tea -pot", "pot OR tea"]
    found = index.search_many(queries, fusion="coverage")
    assert [ids(hits) for hits in found] == ["a", "b", "a", "ab", "ab"]
    assert seen == [["tea", "tea", "pot tea"]]
    assert index.search("lang:de", fusion="dense")[0].score == 0
    assert index.search_many([]) == []
