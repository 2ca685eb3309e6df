"""The store in PostgreSQL answers as brute force does, by values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.builders.postgres_server import PostgresServer
from tests.builders.small_corpus import Doc, SmallCorpus
from vocabtool import Document
from vocabtool.errors import InvalidCondition, NotFound
from vocabtool.index.contents import DocumentsChanged
from vocabtool.index.documents import batches_of
from vocabtool.index.folder import Configuration, Manifest
from vocabtool.index.raw_vectors import prepare
from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term
from vocabtool.keywords.cutter import Cutter
from vocabtool.search.conditions import Where
from vocabtool.search.query import parse_query
from vocabtool.search.search import search
from vocabtool.search.settings import Settings
from vocabtool.search.store import Asked, Combination, Exclusion, JoinedWord, ValueCount
from vocabtool.stores.database import Connections, create_index, drop_index
from vocabtool.stores.reader import PostgresStore
from vocabtool.stores.vectors import build_vectors
from vocabtool.stores.writer import PostgresWriter

DIM: Final = 8
WORDS: Final = [f"{a}{b}" for a in ("bal", "ker", "lom", "nir", "sut") for b in "abdeiknoru"]
NO_MODEL: Final[Any] = SimpleNamespace(known_words=None)
QUERIES: Final = (
    "bala kerb lomd",
    "bala SKU-10007-B",
    "SKU-10007-B",
    "bala SKU-10007-B SKU-10013-B kero",
    '"kera bala" niru',
    "bala -kerb",
    "parseHttpHeader bala",
    "zoru/zeri bala",
    "SKU-10007",
    "absent nothere",
    "",
    "'); DROP TABLE documents_1; -- % %s \\ \0",
)


def corpus(count: int = 300) -> list[Doc]:
    draw = np.random.default_rng(5)
    share = 1 / np.arange(1, len(WORDS) + 1)
    made = []
    for n in range(count):
        words = draw.choice(WORDS, draw.integers(5, 30), p=share / share.sum()).tolist()
        if n % 6 == 1:
            words.insert(int(draw.integers(len(words))), f"SKU-{10000 + n}-{'AB'[n % 2]}")
        if n % 50 == 3:
            words.insert(0, "parseHttpHeader")
        if n % 50 == 7:
            words.insert(0, "zoru/zeri")
        if n % 40 == 9:
            words += ["zeri", "zoru"]
        if n % 60 == 2:
            words.append("SKU-10007-B")
        vector = tuple(draw.integers(-9, 10, DIM).tolist()) if n % 29 else ()
        fields: dict[str, Any] = {"n": n, "even": n % 2 == 0, "lang": ("en", "de", "fr")[n % 3]}
        fields |= {"tags": ["x", f"t{n % 4}"]} if n % 5 else {"tags": "plain"}
        fields |= {"half": n / 2} if n % 7 else {}
        made.append(Doc(f"d{n:03}", " ".join(words), vector, fields))
    return made


class Both:
    """The same documents in PostgreSQL and in memory."""

    def __init__(self, address: str, docs: Sequence[Doc], **options: Any) -> None:
        self.connections = Connections(address)
        cutter = Cutter("none")
        held = Configuration(
            dim=DIM,
            language="none",
            cutter=cutter.fingerprint,
            **{"metric": "inner-product", "dtype": "float32", "exact_below": 10**6, **options},
        )
        with self.connections.connect() as connection:
            connection.execute("CREATE EXTENSION vector")
            manifest = Manifest(index="0" * 32, configuration=held)
            self.tables = create_index(connection, "vocabtool", "own", manifest, "here", {})
        self.writer = PostgresWriter(self.connections, self.tables, cutter)
        self.add(docs)
        self.store = PostgresStore(self.connections, self.tables, NO_MODEL, cutter)
        self.small = SmallCorpus(docs, dim=DIM)
        rows = self.store.rows_of([doc.id for doc in docs])
        self.row_of = [rows[doc.id] for doc in docs]
        self.place_of = {row: place for place, row in enumerate(self.row_of)}

    def add(self, docs: Sequence[Doc]) -> None:
        start = 0
        held = [Document(doc.id, doc.text, doc.fields) for doc in docs]
        metric = self.writer.manifest.configuration.metric
        for batch in batches_of(held):
            part = docs[start : start + len(batch)]
            start += len(batch)
            given = np.array([doc.vector or (0.0,) * DIM for doc in part], np.float32)
            self.writer.append(batch, prepare(given, metric), [0] * len(batch))
        self.writer.commit_changes(self.writer.manifest, codes=False)

    def places(self, rows: Any) -> list[int]:
        return [self.place_of[row] for row in rows.tolist()]

    def close(self) -> None:
        self.writer.close()
        self.connections.close()


@pytest.fixture(scope="module")
def both(postgres_server: PostgresServer) -> Iterator[Both]:
    made = Both(postgres_server.new_database(), corpus())
    yield made
    made.close()


def query_of(store: Any, text: str, **settings: Any) -> Any:
    return parse_query(store, text, Settings(identifier=is_code, **settings))


def is_code(word: str) -> bool:
    return bool(re.search("[0-9]", word)) or word[1:] != word[1:].lower()


@pytest.mark.parametrize("limit", [1, 5, 20, 300])
@pytest.mark.parametrize("text", QUERIES)
def test_both_legs_are_those_of_brute_force(both: Both, text: str, limit: int) -> None:
    vector = np.random.default_rng(len(text)).standard_normal(DIM).astype(np.float32)
    asked, wanted = (query_of(each, text) for each in (both.store, both.small))
    assert asked.should == wanted.should
    for asks in (vector, None):
        found, tiers = both.store.legs(asked, asks, limit, both.store.live)
        right, right_tiers = both.small.legs(wanted, asks, limit, both.small.live)
        assert (found.dense, found.listed) == (right.dense, right.listed)
        assert both.places(found.rows) == right.rows.tolist()
        assert found.keyword.tolist() == right.keyword.tolist()
        assert tiers.tolist() == right_tiers.tolist()
        assert_allclose(found.bm25, right.bm25, rtol=1e-6)
        assert_allclose(found.similarities, right.similarities, rtol=1e-5, atol=1e-5)
        assert both.store.ids(found.rows) == both.small.ids(right.rows)


def note_reads(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets an element for each round trip from now on."""
    noted, read = list[object](), connections.read

    def counted(work: Any) -> Any:
        noted.append(work)
        return read(work)

    monkeypatch.setattr(connections, "read", counted)
    return noted


@pytest.mark.parametrize("text", QUERIES)
def test_a_whole_search_in_two_round_trips(
    both: Both, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vector = np.random.default_rng(len(text)).standard_normal(DIM).astype(np.float32)
    settings = Settings(identifier=is_code)
    asked = note_reads(both.connections, monkeypatch)
    both.store.refresh()  # no frequency is known now
    asked.clear()
    hits = search(both.store, text, vector, settings=settings)
    assert len(asked) <= 2  # the statistics of new words; then the legs, with hits
    asked.clear()
    search(both.store, text, vector, settings=settings)
    assert len(asked) <= 2
    right = search(both.small, text, vector, settings=settings)
    assert [(hit.id, hit.text, hit.tier) for hit in hits] == [
        (hit.id, hit.text, hit.tier) for hit in right
    ]
    assert_allclose([hit.score for hit in hits], [hit.score for hit in right], rtol=1e-5)


def test_what_may_be_found(both: Both) -> None:
    words = [Term("words", each) for each in ("bala", "kera", "nothere")]
    bala, kera, absent = (Clause((term,)) for term in words)
    phrase = Clause((words[1], words[0]))
    even = Where.of("even and n < 100")
    lists = {row: doc.text.split() for row, doc in zip(both.row_of, both.small.docs, strict=True)}
    in_order = {row: list(pairwise(held)) for row, held in lists.items()}
    n = {row: doc.fields["n"] for row, doc in zip(both.row_of, both.small.docs, strict=True)}
    cases: dict[tuple[Asked, ...], list[int]] = {
        (bala,): [row for row in lists if "bala" in lists[row]],
        (absent,): [],
        (Exclusion(absent),): [*lists],
        (phrase,): [row for row in lists if ("kera", "bala") in in_order[row]],
        (Exclusion(phrase),): [row for row in lists if ("kera", "bala") not in in_order[row]],
        (even, kera): [
            row for row in lists if "kera" in lists[row] and n[row] % 2 == 0 and n[row] < 100
        ],
        (Combination("any", (even, Exclusion(kera))),): [
            row for row in lists if "kera" not in lists[row] or (n[row] % 2 == 0 and n[row] < 100)
        ],
        (Combination("all", (bala, kera)),): [
            row for row in lists if {"bala", "kera"} <= {*lists[row]}
        ],
    }
    query = KeywordQuery((bala, kera))
    for asked, rows in cases.items():
        selected = both.store.select(asked)
        assert both.store.in_order(selected).tolist() == rows
        assert both.store.is_empty(selected) is not bool(rows)
        mask = both.small.only(np.array([both.place_of[row] for row in rows], np.int64))
        found, right = both.store.search(query, 7, selected), both.small.search(query, 7, mask)
        assert both.places(found.rows) == right.rows.tolist()
        assert_allclose(found.scores, right.scores, rtol=1e-6)
    first = both.row_of[0]
    assert both.store.in_order(both.store.select((), first)).tolist() == both.row_of[1:]
    assert both.store.in_order(both.store.only(np.array([first]))).tolist() == [first]


def test_required_clauses_parts_and_several_queries(both: Both) -> None:
    a, b, c = (Term("words", each) for each in ("bala", "balb", "kera"))
    queries = [
        KeywordQuery((Clause((a,)),), (Clause((c,)), Clause((b,)))),
        KeywordQuery((Clause((a,), 5.0, (b, c)), Clause((b,)), Clause((c,)))),
        KeywordQuery((Clause((Term("words", "nothere"),)),)),
        KeywordQuery((), (Clause((a,)), Clause((Term("words", "nothere"),)))),
    ]
    for limit in (3, 300):
        found = both.store.search_each(queries, limit, both.store.live)
        right = both.small.search_each(queries, limit, both.small.live)
        for one, other in zip(found, right, strict=True):
            assert both.places(one.rows) == other.rows.tolist()
            assert_allclose(one.scores, other.scores, rtol=1e-6)
    assert both.store.document_frequencies([a]) == both.small.document_frequencies([a])


@pytest.mark.parametrize("method", ["hnsw", "ivfflat"])
def test_an_approximate_index_measures_its_recall(
    postgres_server: PostgresServer, method: Any
) -> None:
    docs = corpus(600)
    made = Both(postgres_server.new_database(), docs, exact_below=10, metric="cosine")
    with made.connections.connect() as connection:
        facts = build_vectors(connection, made.store.vector_sql, recall=0.999, method=method)
    made.store.refresh()
    assert made.store.vector_facts == facts
    assert facts.recall >= 0.95
    assert facts.note is None
    assert facts.documents == sum(bool(doc.vector) for doc in docs)
    vector = np.random.default_rng(1).standard_normal(DIM).astype(np.float32)
    every = np.array(made.row_of)
    for condition in (None, "n = 31", "n < 400"):
        among = made.store.select([] if condition is None else [Where.of(condition)])
        near = made.store.near(vector, every, 10, among)
        allowed = made.store.in_order(among)
        similar = dict(zip(every.tolist(), near.similarities.tolist(), strict=True))
        right = sorted(
            (row for row in allowed.tolist() if not np.isnan(similar[row])),
            key=lambda row: (-similar[row], row),
        )[:10]
        assert len({*near.nearest.rows.tolist()} & {*right}) >= 0.8 * len(right)
        assert_allclose(near.nearest.scores, [similar[row] for row in near.nearest.rows.tolist()])
    made.close()


def test_documents_and_values(both: Both) -> None:
    store, docs = both.store, both.small.docs
    rows = np.array([both.row_of[7], both.row_of[2]])
    seven, two = store.fetch_documents(rows)
    assert (seven.id, seven.text) == ("d007", docs[7].text)
    assert seven.fields["even"] is False
    assert (seven.fields["n"], "half" in seven.fields) == (7, False)
    assert (two.fields["half"], two.fields["lang"]) == (1.0, "fr")
    assert store.rows_of(["d007", "none", "d002"]) == {"d007": rows[0], "d002": rows[1]}
    assert store.row_of("none") is None
    ranks = store.value_ranks("lang", np.array(both.row_of[:4]))
    assert ranks.tolist() == [1, 0, 2, 1]
    assert store.value_ranks("half", np.array(both.row_of[6:9])).tolist() == [0, -1, 1]
    counts = store.count_values(["lang", "tags", "even"], [], store.live, 2)
    assert counts["lang"].frequent == (ValueCount("de", 100), ValueCount("en", 100))
    assert counts["lang"].distinct == 3
    assert counts["tags"].frequent == (ValueCount("x", 240), ValueCount("plain", 60))
    assert counts["tags"].distinct == 6
    assert counts["even"].frequent == (ValueCount(False, 150), ValueCount(True, 150))
    terms = [Term("words", "kerb")]
    holding = sum("kerb" in doc.text.split() for doc in docs)
    found = store.count_values(["even"], terms, store.live, 2)["even"]
    assert sum(each.count for each in found.frequent) == holding
    assert store.near_spellings("balla", 3)[0] == "bala"


@pytest.mark.parametrize("evil", ["'; DROP TABLE documents_1; --", "%s", "\0", "' OR 1=1"])
def test_no_text_becomes_sql(both: Both, evil: str) -> None:
    store = both.store
    assert store.rows_of([evil]) == {}
    assert store.document_frequencies([Term("words", evil)]) == {Term("words", evil): 0}
    assert store.near_spellings(evil, 3) == []
    quoted = evil.replace("'", "''")
    if evil == "\0":
        with pytest.raises(InvalidCondition, match="U\\+0000"):
            store.select([Where.of("lang = '\0'")])
    else:
        assert store.is_empty(store.select([Where.of(f"lang = '{quoted}'")]))
    with pytest.raises(InvalidCondition):
        store.select([Where.of(f'"{evil.replace(chr(34), "")}" = 1')])
    clause = Clause((Term("words", evil), Term("words", "bala")))
    assert store.is_empty(store.select([clause]))
    assert len(store.in_order(store.live)) == len(both.small.docs)


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        ("zoru/zeri", {"zoru": 1.0, "zeri": 1.5}),
        ("zoru/zeri", {"bala": 1.0}),
        ("zoru/zeri", {"bala": 1.0, "zeri": 1.0, "zoru": 2.0}),
        ("zoru/zeri", {"zoru": 1.0, "absent": 1.0}),
        ("not/here", {"bala": 1.0, "kera": 1.0}),
    ],
)
def test_the_best_score_without_a_joined_word(
    both: Both, whole: str, parts: dict[str, float]
) -> None:
    joined = JoinedWord(
        Term("surfaces", whole), tuple(Clause((Term("words", p),), w) for p, w in parts.items())
    )
    terms = [joined.whole, *(part.terms[0] for part in joined.parts)]
    (found, bests), (wanted, right) = (
        each.statistics(terms, [joined]) for each in (both.store, both.small)
    )
    assert found == wanted
    assert bests.get(joined, 0.0) == pytest.approx(right.get(joined, 0.0), rel=1e-6)
    assert bool(right.get(joined)) is (whole == "zoru/zeri" and "absent" not in parts)


def test_commits_and_deletions_are_noticed(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = corpus(40)
    made = Both(postgres_server.new_database(), docs)
    store, term = made.store, Term("words", "bala")
    before = store.document_frequencies([term])[term]
    gone = [place for place, doc in enumerate(docs) if "bala" in doc.text.split()][:3]
    made.writer.delete(np.array([made.row_of[place] for place in gone]))
    made.writer.commit_changes(made.writer.manifest, codes=False)
    reads = note_reads(made.connections, monkeypatch)  # one frequency is of the commit before
    search(store, "bala kera zoru/zeri", None, settings=Settings(identifier=is_code))
    assert len(reads) == 2
    query = query_of(store, "bala")
    found, _ = store.legs(query, None, 40, store.live)
    assert not {*found.rows.tolist()} & {made.row_of[place] for place in gone}
    assert store.document_frequencies([term])[term] == before - 3
    assert store.rows == 37
    left = [doc for place, doc in enumerate(docs) if place not in gone]
    found, _ = store.legs(query_of(store, "bala"), None, 40, store.live)
    small = SmallCorpus(left, dim=DIM)
    right, _ = small.legs(query_of(small, "bala"), None, 40, small.live)
    assert store.ids(found.rows) == small.ids(right.rows)
    assert_allclose(found.bm25, right.bm25, rtol=1e-6)
    with pytest.raises(DocumentsChanged):
        store.fetch_documents(np.array([made.row_of[gone[0]]]))
    with made.connections.connect() as connection:
        made.writer.close()
        drop_index(connection, made.tables, "here", "own")
    with pytest.raises(NotFound):
        store.legs(query, None, 40, store.live)
    made.connections.close()
