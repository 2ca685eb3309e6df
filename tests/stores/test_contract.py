"""What every store fulfils: a folder, and PostgreSQL. Their answers equal those of brute force."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from tests import counted_letters
from tests.builders.small_corpus import Doc, SmallCorpus, Whole
from tests.conftest import ROOT
from tests.stores.samples import (
    CONDITIONS,
    DIM,
    FIELDS,
    HOSTILE,
    KNOWN,
    QUERIES,
    WORDS,
    documents,
    vector_of,
)
from vocabtool.choices import FUSIONS, Metric, StoredType
from vocabtool.documents.batch import Document
from vocabtool.errors import FolderNotEmpty, NotFound, VocabtoolError
from vocabtool.index.index import Index
from vocabtool.keywords.cutter import stored_length
from vocabtool.search.hits import Explanation, Hit, Hits
from vocabtool.search.search import BY_CHANCE, find_similar, search
from vocabtool.search.settings import Settings

NUMBERS: Final = count()
CLOSE: Final = 2e-5  # scores are 32-bit numbers, added in any order
HOSTILE_TEXTS: Final = (
    *("'; DROP TABLE documents; --", "\" OR ''='", "%s %(x)s", "{0} $1 ?", "a\0b", "\x01\x1f\x7f"),
    *("../../etc/passwd", "\\", "é", "e\u0301", "😀 \u202e", "  two  blanks ", "tab\tline\nend"),
    *("*", "[1, 2]", '{"a": 1}', "null", "NaN", "d1", "D1", "x" * 2_000),
)


@dataclass(frozen=True)
class Library:
    """The sample documents, in the tested store (``index``) and in memory (``small``)."""

    index: Index
    small: SmallCorpus


@pytest.fixture(scope="module", params=["folder", "postgres"])
def new_address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], str]:
    """Returns a folder, or an address in a database of a real server, that has no index yet."""
    if request.param == "folder":
        folder = tmp_path_factory.mktemp("contract")
        return lambda: str(folder / f"index{next(NUMBERS)}")
    database = request.getfixturevalue("postgres_server").new_database()
    return lambda: f"{database}&index=index{next(NUMBERS)}"


@pytest.fixture
def address(new_address: Callable[[], str]) -> str:
    return new_address()


@pytest.fixture(scope="module")
def library(new_address: Callable[[], str]) -> Library:
    """The sample documents in a new index. Tests that use this fixture never change it."""
    index = _create(new_address())
    docs = documents()
    _put(index, docs)
    return Library(index, _small(docs))


@pytest.mark.parametrize("fusion", FUSIONS)
def test_queries(library: Library, fusion: Any) -> None:
    """Words, phrases, identifiers and operators give the right hits and explanations."""
    for at, text in enumerate(QUERIES):
        _agree(library, text, vector_of(at), fusion=fusion)
        if fusion != "dense":
            _agree(library, text, None, fusion=fusion)


def test_settings(library: Library) -> None:
    for at, text in enumerate(QUERIES):
        for settings in (
            {"phrases": "preferred", "literal": True},
            {"guarantee": False, "a": 0.2},
            {"identifier": "bal[ab]"},
        ):
            _agree(library, text, vector_of(at), **settings)


def test_short_lists(library: Library) -> None:
    """A short list has the best hits. Hits with an identifier of the query come first."""
    small = library.small
    for at, text in enumerate(QUERIES[:-3]):
        wanted = _expect(small, text, vector_of(at), k=500)
        first = sum(hit.tier > 0 for hit in wanted)
        for k in (1, 3, 10):
            found = library.index.search(text, vector=vector_of(at), k=k, depth=k)
            assert sum(hit.tier > 0 for hit in found) == min(first, k), text
            for fusion in ("keyword", "dense"):
                asked: Any = {"k": k, "fusion": fusion, "depth": k}
                hits = library.index.search(text, vector=vector_of(at), **asked)
                best = _expect(small, text, vector_of(at), k=500, fusion=fusion)
                scores = {hit.id: hit.score for hit in best}
                assert _scores(hits) == pytest.approx(_scores(best)[:k], rel=CLOSE), text
                assert _scores(hits) == pytest.approx([scores[hit.id] for hit in hits], rel=CLOSE)


def test_conditions(library: Library) -> None:
    """Conditions select the right documents, alone and in searches by words and vectors."""
    docs = library.small.docs
    for at, (text, holds) in enumerate(CONDITIONS.items()):
        wanted = sorted(doc.id for doc in docs if holds(doc))
        assert sorted(library.index.ids(text)) == wanted, text
        listed = library.index.search(where=text, k=1_000)
        assert [hit.id for hit in listed] == wanted, text
        _agree(library, "bala SKU-10007-B", vector_of(at), where=text)
        _agree(library, None, vector_of(at), where=text)
        _agree(library, '"bala kera"', None, where=text)


@pytest.mark.parametrize("name", ["year", "score", "lang", "day", "ok"])
def test_sorted_and_grouped(library: Library, name: str) -> None:
    for text in ("bala kerb", None):
        for sort in (name, f"{name}:desc"):
            _agree(library, text, None, sort=sort, where="year > 1992")
        _agree(library, text, None, group_by=name, where="year > 1992")
    _agree(library, "kerb", vector_of(1), sort=["lang:desc", name])
    _agree(library, "bala", vector_of(5), group_by=name, sort="score")


def test_facets(library: Library) -> None:
    """Facets are right for a condition, for a query, and for a query with a condition."""
    docs = library.small.docs
    found = library.index.search(where="year is not null", facets="tags,ok,score").facets
    held = [doc.fields for doc in docs if "year" in doc.fields]
    tags = Counter(tag for fields in held for tag in {*fields.get("tags", [])})
    assert {each.value: each.count for each in found["tags"]} == tags
    yes = sum(fields.get("ok") is True for fields in held)
    assert {each.value: each.count for each in found["ok"]}[True] == yes
    names = [*FIELDS]
    for text in ("bala", "SKU-10007-B kerb", '"bala kera"', "nothere"):
        _agree(library, text, None, facets=names)
        _agree(library, text, vector_of(3), facets=names, where="lang = 'de'")


def test_similar(library: Library) -> None:
    small = library.small
    for row in range(0, 500, 29):
        asked: Any = {"k": 10, "where": "year > 1992" if row % 2 else None, "explain": True}
        found = library.index.similar(small.docs[row].id, **asked)
        _same(found, find_similar(small, row, **asked))
    with pytest.raises(NotFound):
        library.index.similar("no such id")


def test_many(library: Library) -> None:
    """Searching many queries in several threads gives the same hits as searching one by one."""
    vectors = np.stack([vector_of(at) for at in range(len(QUERIES))])
    asked: Any = {"where": "year > 1992", "facets": "lang"}
    many = library.index.search_many(QUERIES, vectors=vectors, threads=4, **asked)
    for text, vector, hits in zip(QUERIES, vectors, many, strict=True):
        assert hits == library.index.search(text, vector=vector, **asked)


def test_suggestions(address: str) -> None:
    """Each word that is in no document has one, also if others are found: plain, joined, a part.

    They are written as in the documents.
    """
    index = Index.create(address, dim=DIM)
    with index.writer() as writer:
        texts = "Call Prefetch_Related() or select_for_update().", "The migrations of Databases."
        writer.add([Document(text[:4], text) for text in texts], np.eye(2, DIM, dtype=np.float32))
    expected = {
        **{"prefetch_relatd": "Prefetch_Related", "selct_for_update": "select_for_update"},
        **{"databse": "Databases", "migratians": "migrations", "updaet": "update"},
    }
    text = (
        "call prefetch_relatd selct_for_update databse migratians updaet_migrations for-call 4711"
    )
    for fusion in FUSIONS:
        hits = index.search(text, vector=np.eye(1, DIM)[0], fusion=fusion)
        assert {each.word: each.spellings for each in hits.suggestions} == {
            word: (spelling,) for word, spelling in expected.items()
        }


def test_hostile_queries(library: Library) -> None:
    """Hostile queries raise no error, and find the same documents as brute force."""
    thousand = " ".join(f"{WORDS[at % 50]}{at // 50 or ''}" for at in range(1_100))
    for text in (*HOSTILE, thousand):
        _agree(library, text, vector_of(7), k=5)
        _agree(library, text, None, k=5, literal=True, explain=False)
    assert library.index.get_many(HOSTILE_TEXTS) == {}
    assert len(library.index) == len(library.small.docs)


def test_documents(library: Library) -> None:
    """Documents are returned as they were added, and in the order in which they were added."""
    wanted = [Document(doc.id, doc.text, doc.fields) for doc in library.small.docs]
    assert [_plain(each) for each in library.index.documents()] == [*map(_plain, wanted)]
    assert [*library.index.ids()] == [doc.id for doc in library.small.docs]
    some = [each for each in wanted if each.fields.get("lang") == "de"]
    found = library.index.documents("lang = 'de'")
    assert [_plain(each) for each in found] == [*map(_plain, some)]
    found_one = library.index.get(wanted[7].id)
    assert found_one is not None
    assert _plain(found_one) == _plain(wanted[7])
    assert wanted[7].id in library.index
    for other in ("no such id", "", wanted[7].id.upper(), f"{wanted[7].id}\0"):
        assert library.index.get(other) is None
        assert other not in library.index


@pytest.mark.parametrize("metric", ["cosine", "inner-product", "l2"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_similarities(address: str, metric: Metric, dtype: StoredType) -> None:
    """Similarities follow the definition of the metric. Without a vector, they are ``None``."""
    index = Index.create(address, dim=DIM, metric=metric, dtype=dtype, language="none")
    docs = documents(60)
    _put(index, docs)
    vector = vector_of(3)
    held = np.array([doc.vector for doc in docs if doc.vector])
    inner = held @ vector
    similarities: NDArray[Any] = {
        "inner-product": inner,
        "cosine": inner / np.linalg.norm(held, axis=1) / np.linalg.norm(vector),
        "l2": -((held - vector) ** 2).sum(axis=1),
    }[metric]
    ids = [doc.id for doc in docs if doc.vector]
    wanted = dict(zip(ids, similarities.tolist(), strict=True))
    hits = index.search(vector=vector, k=60)
    near = 2e-3 if dtype == "float16" and metric == "cosine" else 1e-5
    assert {hit.id: hit.similarity for hit in hits} == pytest.approx(wanted, rel=near, abs=near)
    assert _scores(hits) == sorted(_scores(hits), reverse=True)
    by_words = {hit.id: hit.similarity for hit in index.search("bala", vector=vector, k=60)}
    without = [doc.id for doc in docs if not doc.vector and "bala" in doc.text.split()]
    assert without
    assert [by_words[id_] for id_ in without] == [None] * len(without)


def test_long_texts(address: str) -> None:
    """Scores are those of lengths that are rounded as tantivy rounds them."""
    index = _create(address)
    draw = np.random.default_rng(3)
    docs = [Doc(f"l{n:02}", " ".join(draw.choice(WORDS, 30 + 37 * n).tolist())) for n in range(30)]
    _put(index, docs)
    small = _small(docs, length_of=stored_length)
    for text in QUERIES[:5]:
        wanted = _expect(small, text, None, fusion="keyword", k=30)
        scores = {hit.id: hit.score for hit in wanted}
        hits = index.search(text, fusion="keyword", k=30)
        assert {hit.id: hit.score for hit in hits} == pytest.approx(scores, rel=CLOSE)


def test_changes(address: str) -> None:
    """After additions, updates and deletions, answers equal those of brute force."""
    docs = documents(200)
    index = _create(address)
    _put(index, docs[:120])
    _put(index, docs[120:])
    assert index.delete([doc.id for doc in docs[::7]] + ["no such id", docs[0].id]) == 29
    changed = [
        Doc(doc.id, f"{WORDS[-1]} {doc.text[:40]}", _tuple_of(at), {"year": 1999})
        for at, doc in enumerate(docs[1::7])
    ]
    with index.writer() as writer:
        assert writer.update(*_parts(changed)) == len(changed)
    with pytest.raises(VocabtoolError, match=changed[0].id), index.writer() as writer:
        writer.add([Document(changed[0].id, "again")], [[1.0] * DIM])
    with index.writer() as writer:
        assert writer.add(*_parts(changed[:1]), on_existing="skip") == 0
    gone = {doc.id for doc in (*docs[::7], *changed)}
    left = [doc for doc in docs if doc.id not in gone] + changed
    index.compact()
    for library in (
        Library(index, _small(left)),
        Library(Index.open(address), _small(left)),
    ):
        assert len(library.index) == len(left)
        assert library.index.manifest == index.manifest
        assert sorted(library.index.ids()) == sorted(doc.id for doc in left)
        assert docs[0].id not in library.index
        for at, text in enumerate(QUERIES[:30]):
            _agree(library, text, vector_of(at))
        _agree(library, WORDS[-1], None, where="year = 2003", facets="year")
    assert index.verify().documents == len(left)
    assert index.delete(where="year is not null", force=True) > 100
    assert not [*index.search(where="year is not null")]
    assert index.delete([*index.ids()]) + 0 <= 30
    assert len(index) == 0
    assert [*index.search("bala", vector=vector_of(1))] == []
    _put(index, docs[:20])
    assert len(index) == len(index.search(vector=vector_of(1), k=99)) + 1
    assert index.verify().documents == 20


def test_failed_changes_are_rolled_back(address: str) -> None:
    docs = documents(20)
    index = _create(address)
    _put(index, docs)
    with pytest.raises(InterruptedError), index.writer() as writer:
        writer.delete([docs[1].id])
        writer.commit()
        writer.commit()  # nothing to commit
        writer.add([Document("new", "zebra")], [[1.0] * DIM])
        writer.delete([docs[0].id])
        raise InterruptedError
    index.refresh()
    assert (len(index), "new" in index, docs[0].id in index) == (19, False, True)
    assert (index.manifest.commit, docs[1].id in index) == (2, False)
    assert not index.search("zebra", fusion="keyword").hits
    with pytest.raises(VocabtoolError, match="year"), index.writer() as writer:
        writer.add([Document("new", "zebra", {"year": "no year"})], [[1.0] * DIM])
    with pytest.raises(ValueError, match="vector"), index.writer() as writer:
        writer.add([Document("new", "zebra")], [[1.0] * (DIM + 1)])
    assert (len(index), "new" in index) == (19, False)
    with index.writer() as writer:  # what was dropped leaves nothing behind
        writer.add([Document("new", "yak")], [[1.0] * DIM])
    assert [hit.id for hit in index.search("zebra yak", fusion="keyword")] == ["new"]
    assert index.verify().documents == 20


def test_two_handles(address: str) -> None:
    """A second handle sees no change before the commit, and every change after a refresh."""
    docs = documents(30)
    one = _create(address)
    other = Index.open(address)
    with one.writer() as writer:
        writer.add(*_parts(docs[:20]))
        assert len(other) == 0
        assert other.search("bala").hits == ()
        writer.commit()
        writer.add(*_parts(docs[20:]))
    other.refresh()
    for index in (one, other):
        _agree(Library(index, _small(docs)), "bala kerb", vector_of(1))
    one.delete(docs[0].id)
    other.refresh()
    assert (len(other), docs[0].id in other) == (29, False)
    other.delete(docs[1].id)
    one.refresh()
    assert (len(one), docs[1].id in one) == (28, False)
    with other:
        assert other.get(docs[2].id) is not None
    with pytest.raises(VocabtoolError, match="closed"):
        other.get(docs[2].id)
    assert docs[2].id in one


def test_hostile_documents(address: str) -> None:
    """Hostile ids, texts, field names and values are stored and returned unchanged."""
    texts = HOSTILE_TEXTS
    names = [text[:60] for text in texts if text.isprintable() and text == text.strip()]
    docs = [
        Doc(text, f"{text} word{at}", _tuple_of(at), dict.fromkeys(names, text))
        for at, text in enumerate(texts)
    ]
    index = _create(address)
    _put(index, docs)
    shown = [*texts]
    if "://" in address:  # PostgreSQL cannot store U+0000
        shown = [text.replace("\0", "\ufffd") for text in texts]
    assert sorted(index.ids()) == sorted(shown)
    for at, doc in enumerate(docs):
        found = index.get(doc.id)
        assert found is not None
        assert (found.id, found.text) == (shown[at], f"{shown[at]} word{at}")
        assert dict(found.fields) == dict.fromkeys(names, shown[at])
        assert index.search(f"word{at}")[0].id == shown[at]
    for name in names:
        quoted = '"' + name.replace('"', '""') + '"'
        literal = "'" + texts[1].replace("'", "''") + "'"
        assert [*index.ids(f"{quoted} = {literal}")] == [texts[1]]
        assert [hit.id for hit in index.search(where="id = 'd1'", sort=name)] == ["d1"]
        assert len(index.search(facets=[name], where="id > ''").facets[name]) == 20
    for left in range(len(texts) - 1, -1, -1):
        assert index.delete(texts[left]) == 1
        assert len(index) == left


def test_loads(address: str, tmp_path: Path) -> None:
    """An interrupted load resumes. ``update`` and ``sync`` follow changes of the files."""
    docs = documents(300)
    file, vectors = tmp_path / "docs.jsonl", tmp_path / "vectors.npy"

    def write(some: Sequence[Doc]) -> None:
        rows = [{"id": doc.id, "text": doc.text, **doc.fields} for doc in some]
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        np.save(vectors, np.array([doc.vector or (0,) * DIM for doc in some], np.float32))

    def stop(_: str, share: float) -> None:
        raise InterruptedError

    write(docs)
    index = _create(address)
    asked: Any = {"id_field": "id", "keep": [*FIELDS], "vectors": vectors, "commit_rows": 1}
    with pytest.raises(InterruptedError):
        index.load(file, **asked, progress=stop)
    index = Index.open(address)
    before = len(index)
    report = index.load(file, **asked)
    assert (report.resumed, report.added) == (before, 300 - before)
    assert index.load(file, **asked).added == 0
    library = Library(index, _small(docs))
    for text in QUERIES[:10]:
        _agree(library, text, vector_of(4))
    changed = docs[5]._replace(text="zebra bala")
    write(kept := [changed, *docs[6:250]])
    assert index.update(vectors=vectors).updated == 1
    assert len(index) == 300
    assert index.update(sync=True, vectors=vectors).removed == 55
    assert len(index) == len(kept)
    assert index.search("zebra")[0].id == changed.id
    assert sorted(index.ids()) == sorted(doc.id for doc in kept)
    assert index.verify().documents == len(kept)


def test_created_once(address: str) -> None:
    """Only ``force`` replaces an index, at once or (``in_place=False``) by ``put_in_place``."""
    with pytest.raises(NotFound):
        Index.open(address)
    index = _create(address)
    for each in (index, Index.open(address)):
        assert (len(each), each.manifest.commit, each.get("d1")) == (0, 0, None)
        assert each.search("bala", vector=vector_of(1)).hits == ()
        assert (each.configuration, each.encoder) == (index.configuration, None)
        assert (each.verify().documents, each.compact(), each.calibration) == (0, 0, None)
    _put(index, documents(5))
    with pytest.raises(FolderNotEmpty):
        _create(address)
    assert len(Index.open(address)) == 5
    later = Index.create(address, dim=3, force=True, in_place=False)
    with later.writer() as writer:
        writer.add(["later"], [[1, 2, 3]])
    assert later.is_build
    assert len(Index.open(address)) == 5
    assert not later.put_in_place().is_build
    assert [each.text for each in Index.open(address).documents()] == ["later"]
    with pytest.raises(VocabtoolError, match="open it again"):
        index.refresh()
    at_once = Index.create(address, dim=2, force=True)
    assert (at_once.is_build, len(Index.open(address))) == (False, 0)
    assert Index.open(address).configuration.dim == 2


# Loads the file of the second argument into the index at the first one, with commits by time.
LOADER: Final = """
import sys, vocabtool
from vocabtool.encoders import encoder
encoder.FIRST_ROWS, encoder.MOST_SECONDS = 16, 0.2  # 16 texts take 0.1 s
index = vocabtool.Index.open(sys.argv[1], "python:tests.counted_letters:logged")
index.load(sys.argv[2], id_field="id", commit_seconds=0.3)
"""


def test_a_kill_loses_less_than_the_time_between_commits(address: str, tmp_path: Path) -> None:
    """Whatever ``commit_rows`` says; what is committed is neither lost nor encoded again."""
    file, log = tmp_path / "docs.jsonl", tmp_path / "log"
    texts = counted_letters.write_corpus(file, 2000)
    environment = {**os.environ, counted_letters.SECONDS: "0.1", counted_letters.LOG: str(log)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(counted_letters.LOG, str(log))
        index = Index.create(address, "python:tests.counted_letters:logged")
    command = [sys.executable, "-c", LOADER, address, str(file)]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        until = time.monotonic() + 120
        while len(index) < 48:
            assert (process.poll(), time.monotonic() < until) == (None, True)
            time.sleep(0.02)
            index.refresh()
        process.kill()
    index.refresh()
    committed, load = len(index), index.stats().loading
    assert load is not None
    assert load.documents == committed
    encoded = log.read_text().splitlines()
    names = {counted_letters.noted_as(text) for text in texts}
    assert sum(line.split()[1] in names for line in encoded) - committed <= 16 * 10
    log.unlink()
    os.utime(file, (1, 1))  # another time, but the same content
    subprocess.run(command, cwd=ROOT, env=environment | {counted_letters.SECONDS: "0"}, check=True)
    index.refresh()
    assert {doc.id: doc.text for doc in index.documents()} == {
        f"d{number}": text for number, text in enumerate(texts)
    }
    again = [line.split()[1] for line in log.read_text().splitlines()]
    done = {counted_letters.noted_as(text) for text in texts[:committed]}
    assert sum(name in done for name in again) <= 8  # to compare the model
    assert index.stats().loading is None


def test_a_writer_commits_by_time_if_it_is_told_to(address: str) -> None:
    """Then an error rolls back only what came after the last commit."""
    index = _create(address)
    for seconds, left in ((None, 0), (0.0, 40)):
        with pytest.raises(ZeroDivisionError), index.writer(commit_seconds=seconds) as writer:
            for number in range(40):
                writer.add([Document(f"d{number}", "bala")], [vector_of(1)])
            raise ZeroDivisionError
        assert len(Index.open(address)) == left


def test_a_replacement_is_gone_on_with(address: str, tmp_path: Path) -> None:
    """By its name; under another name, it begins anew."""
    file, vectors = tmp_path / "docs.jsonl", np.ones((40, DIM), np.float32)
    counted_letters.write_corpus(file, 40)
    load: Any = {"id_field": "id", "vectors": vectors}
    _put(_create(address), documents(5))
    asked: Any = {"dim": DIM, "force": True, "in_place": False}

    def stop(*_: object) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Index.create(address, **asked, build="new").load(file, **load, commit_rows=1, progress=stop)
    stats = Index.open(address).stats()
    assert (stats.documents, stats.loading) == (5, None)
    assert stats.replacement is not None
    assert stats.replacement.documents == 40
    index = Index.create(address, **asked, build="new")
    assert (index.is_build, len(index)) == (True, 40)
    assert index.load(file, **load).resumed == 40
    index.close()
    other = Index.create(address, **asked, build="other")
    assert (other.is_build, len(other)) == (True, 0)
    other.load(file, **load)
    other.put_in_place()
    assert len(Index.open(address)) == 40
    assert Index.open(address).stats().replacement is None


def _create(address: str) -> Index:
    asked: Any = {"metric": "inner-product", "dtype": "float32", "language": "none"}
    return Index.create(address, dim=DIM, vocabulary=[*KNOWN], rule="lower", **asked)


def _small(docs: Sequence[Doc], **more: Any) -> SmallCorpus:
    options: Any = {"dim": DIM, "fields": FIELDS, "meanings": CONDITIONS, **more}
    return SmallCorpus(docs, Whole(KNOWN), **options)


def _parts(docs: Sequence[Doc]) -> tuple[list[Document], NDArray[np.float32]]:
    vectors = np.array([doc.vector or (0,) * DIM for doc in docs], np.float32)
    return [Document(doc.id, doc.text, doc.fields) for doc in docs], vectors


def _put(index: Index, docs: Sequence[Doc]) -> None:
    with index.writer() as writer:
        assert writer.add(*_parts(docs)) == len(docs)


def _tuple_of(number: int) -> tuple[float, ...]:
    return tuple(map(float, vector_of(number)))


def _plain(document: Document | Hit) -> tuple[str, str, dict[str, Any]]:
    """Return id, text and fields for comparison: without nulls, and with tags as a list."""
    fields: dict[str, Any] = {
        name: value for name, value in document.fields.items() if value is not None
    }
    if isinstance(fields.get("tags"), str):
        fields["tags"] = json.loads(fields["tags"])
    return document.id, document.text, fields


def _scores(hits: Hits) -> list[float]:
    return [hit.score for hit in hits]


def _expect(
    small: SmallCorpus,
    text: str | None,
    vector: NDArray[np.float32] | None,
    **asked: Any,
) -> Hits:
    settings = Settings(**{"k": 30, **asked})
    return search(small, text, vector, settings=settings, is_own=vector is not None)


def _agree(
    library: Library,
    text: str | None,
    vector: NDArray[np.float32] | None,
    *,
    explain: bool = True,
    **asked: Any,
) -> None:
    """Check that the store gives the same hits, explanations, notes and facets as brute force."""
    asked |= {"explain": explain}
    found = library.index.search(text, vector=vector, **{"k": 30, **asked})
    _same(found, _expect(library.small, text, vector, **asked))


def _same(found: Hits, wanted: Hits) -> None:
    query = wanted.query.text
    assert [hit.id for hit in found] == [hit.id for hit in wanted], query
    for one, other in zip(found, wanted, strict=True):
        assert (one.tier, one.further) == (other.tier, other.further), query
        _near((one.score, one.similarity, one.bm25), (other.score, other.similarity, other.bm25))
        assert _plain(one) == _plain(other)
        _same_explanation(one.explanation, other.explanation)
    notes = tuple(note for note in found.notes if BY_CHANCE not in note)  # measured by the index
    assert notes == wanted.notes, query
    assert found.facets == wanted.facets, query
    _near((found.query.m, found.query.weight), (wanted.query.m, wanted.query.weight))
    for word, right in zip(found.query.words, wanted.query.words, strict=True):
        assert replace(word, idf=None, weight=None) == replace(right, idf=None, weight=None)
        _near((word.idf, word.weight), (right.idf, right.weight))


def _same_explanation(found: Explanation | None, wanted: Explanation | None) -> None:
    if found is None or wanted is None:
        assert found is wanted
        return
    assert found.highlights == wanted.highlights
    assert found.rank_without_keywords == wanted.rank_without_keywords
    for place, right in ((found.dense, wanted.dense), (found.keyword, wanted.keyword)):
        assert place.rank == right.rank
        _near((place.score, place.part), (right.score, right.part))
    words, right_words = (
        {(word.surface, word.whole): word.score for word in each.words} for each in (found, wanted)
    )
    assert words.keys() == right_words.keys()
    _near([*words.values()], [right_words[word] for word in words])


def _near(found: Sequence[float | None], wanted: Sequence[float | None]) -> None:
    one, other = (np.array(each, np.float64) for each in (found, wanted))  # None becomes NaN
    np.testing.assert_allclose(one, other, rtol=CLOSE, atol=CLOSE)
