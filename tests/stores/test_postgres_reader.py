"""The store in PostgreSQL answers as brute force does, by values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.builders.postgres_server import PostgresServer
from tests.builders.small_corpus import Doc, SmallCorpus
from tests.stores.samples import DIM, documents
from vocabtool import Document
from vocabtool.errors import NotFound
from vocabtool.index.contents import DocumentsChanged
from vocabtool.index.documents import batches_of
from vocabtool.index.folder import Configuration, Manifest
from vocabtool.index.raw_vectors import prepare
from vocabtool.keywords.bm25 import Term
from vocabtool.keywords.cutter import Cutter
from vocabtool.search.conditions import Where
from vocabtool.search.query import parse_query
from vocabtool.search.search import search
from vocabtool.search.settings import Settings
from vocabtool.stores.database import Connections, create_index, drop_index
from vocabtool.stores.reader import PostgresStore
from vocabtool.stores.vectors import build_vectors
from vocabtool.stores.writer import PostgresWriter

NO_MODEL: Final[Any] = SimpleNamespace(known_words=None)
QUERIES: Final = (
    "bala kerb lomd",
    "bala SKU-10007-B",
    "SKU-10007-B",
    "bala SKU-10007-B SKU-10013-B kero",
    '"kera bala" niru',
    "bala -kerb",
    "parseHttpHeader bala",
    "quick-brown bala",
    "SKU-10007",
    "absent nothere",
    "",
    "'); DROP TABLE documents_1; -- % %s \\ \0",
)


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
        (batch,) = batches_of([Document(doc.id, doc.text, doc.fields) for doc in docs])
        given = np.array([doc.vector or (0.0,) * DIM for doc in docs], np.float32)
        self.writer.append(batch, prepare(given, held.metric), [0] * len(batch))
        self.writer.commit_changes(self.writer.manifest, codes=False)
        self.store = PostgresStore(self.connections, self.tables, NO_MODEL, cutter)
        self.small = SmallCorpus(docs, dim=DIM)
        rows = self.store.rows_of([doc.id for doc in docs])
        self.row_of = [rows[doc.id] for doc in docs]

    def close(self) -> None:
        self.writer.close()
        self.connections.close()


@pytest.fixture(scope="module")
def both(postgres_server: PostgresServer) -> Iterator[Both]:
    made = Both(postgres_server.new_database(), documents(300))
    yield made
    made.close()


def query_of(store: Any, text: str, **settings: Any) -> Any:
    return parse_query(store, text, Settings(identifier=is_code, **settings))


def is_code(word: str) -> bool:
    return bool(re.search("[0-9]", word)) or word[1:] != word[1:].lower()


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


@pytest.mark.parametrize("method", ["hnsw", "ivfflat"])
def test_an_approximate_index_measures_its_recall(
    postgres_server: PostgresServer, method: Any
) -> None:
    docs = documents(600)
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
    for condition in (None, "year = 2003", "year > 1992"):
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


def test_commits_and_deletions_are_noticed(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = documents(40)
    made = Both(postgres_server.new_database(), docs)
    store, term = made.store, Term("words", "bala")
    before = store.document_frequencies([term])[term]
    gone = [place for place, doc in enumerate(docs) if "bala" in doc.text.split()][:3]
    made.writer.delete(np.array([made.row_of[place] for place in gone]))
    made.writer.commit_changes(made.writer.manifest, codes=False)
    reads = note_reads(made.connections, monkeypatch)  # one frequency is of the commit before
    search(store, "bala kera quick-brown", None, settings=Settings(identifier=is_code))
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
