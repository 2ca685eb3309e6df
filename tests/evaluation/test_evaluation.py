"""Every fusion on judged queries against ir-measures, known items, recall: on a real index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.encoder_cases import write_vectors
from vocabtool.documents.reading import Document
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError
from vocabtool.evaluation.compare import MEASURES, Evaluation, evaluate
from vocabtool.evaluation.judgements import (
    JudgedQuery,
    Qrels,
    read_query_vectors,
    with_judgements,
)
from vocabtool.evaluation.self_check import (
    NO_ENCODER,
    NO_VOCABULARY,
    KnownItem,
    known_items,
    measure_recall,
    self_check,
)
from vocabtool.index.index import Index
from vocabtool.search.settings import FUSIONS

KNOWN = [f"{first}{second}{third}" for first in "bdf" for second in "aeiou" for third in "kmnp"]
STRANGE = [f"q{word}x" for word in KNOWN]  # what the model does not know
DOCUMENTS = 150


def documents() -> list[Document]:
    """Twelve words each, two of them unknown to the model."""
    generator = np.random.default_rng(2)
    made = []
    for number in range(DOCUMENTS):
        words = [*generator.choice(KNOWN, 10), *generator.choice(STRANGE, 2)]
        made.append(Document(f"d{number}", " ".join(generator.permutation(words)), {}))
    return made


def judged_queries() -> tuple[list[JudgedQuery], Qrels]:
    """Half of them hold an unknown word; judgements are graded, negative, or not there."""
    generator = np.random.default_rng(3)
    queries, qrels = [], {}
    for number, document in enumerate(documents()[:40]):
        words = document.text.split()
        strange = [word for word in words if word in STRANGE]
        known = [word for word in words if word not in STRANGE][:2]
        text = " ".join(known + strange[: number % 2])
        queries.append(JudgedQuery(f"q{number}", text))
        others = generator.choice(DOCUMENTS, 5, replace=False)
        qrels[f"q{number}"] = {
            **{f"d{each}": int(generator.integers(-1, 3)) for each in others},
            document.id: 2,
        }
    qrels["q5"] = {"d5": 0}
    del qrels["q6"]
    qrels["nobody"] = {"d1": 1}
    return queries, qrels


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """Means of word vectors that were drawn by chance; the model knows half of the words."""
    folder = tmp_path_factory.mktemp("evaluation")
    matrix = np.random.default_rng(1).normal(size=(len(KNOWN), 16)).astype(np.float32)
    vectors = write_vectors(folder / "words.npz", KNOWN, matrix)
    made = Index.create(folder / "index", f"static:{vectors}", rule="keras", weights="none")
    with made.writer() as writer:
        writer.add(documents())
    return made


@pytest.fixture(scope="module")
def without_encoder(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """Vectors of one's own, two numbers each, and no vocabulary."""
    made = Index.create(tmp_path_factory.mktemp("own") / "index", dim=2)
    with made.writer() as writer:
        turned = np.arange(DOCUMENTS) / 10
        writer.add(documents(), vectors=np.stack([np.cos(turned), np.sin(turned)], axis=1))
    return made


@pytest.fixture(scope="module")
def evaluation(index: Index) -> Evaluation:
    return evaluate(index, *judged_queries())


# Fusions side by side.


@pytest.mark.parametrize("fusion", FUSIONS)
def test_means_are_those_of_ir_measures(fusion: Any, index: Index, evaluation: Evaluation) -> None:
    """For all queries and for both parts, from what a search of the same fusion gives."""
    import ir_measures
    from ir_measures import RR, R, nDCG

    queries, qrels = judged_queries()
    chosen = [query for query in queries if max(qrels.get(query.id, {"": 0}).values()) > 0]
    run: dict[str, dict[str, float]] = {}
    unknown = set()
    for query in chosen:
        hits = index.search(query.text, k=100, fusion=fusion)
        run[query.id] = {hit.id: float(-rank) for rank, hit in enumerate(hits)}
        if "q" in query.text:
            unknown.add(query.id)
    for split, names in (
        ("all", run.keys()),
        ("unknown", unknown),
        ("known", run.keys() - unknown),
    ):
        part = {name: qrels[name] for name in names}
        measures = (nDCG @ 10, R @ 100, RR @ 10)
        found = ir_measures.calc_aggregate(measures, part, {name: run[name] for name in names})
        row = evaluation.of(fusion, split)  # type: ignore[arg-type] # the loop's names are splits
        assert row.queries == len(names)
        assert [row.measures[each] for each in MEASURES] == pytest.approx(
            [found[each] for each in measures]
        )


def test_differences_are_to_coverage_with_intervals(evaluation: Evaluation) -> None:
    """The mean difference is the difference of means and lies within; coverage has none."""
    for split in ("all", "unknown", "known"):
        reference = evaluation.of("coverage", split)
        assert reference.differences == {}
        for fusion in FUSIONS:
            row = evaluation.of(fusion, split)
            for name, apart in row.differences.items():
                assert apart.mean == pytest.approx(row.measures[name] - reference.measures[name])
                assert apart.low <= apart.mean <= apart.high
    keyword, dense = (evaluation.of(each, "unknown") for each in ("coverage", "dense"))
    assert dense.differences["ndcg@10"].high < 0 < keyword.measures["ndcg@10"]


def test_what_is_left_out_is_told(evaluation: Evaluation) -> None:
    """A query without judgements, one without a relevant document, judgements without a query."""
    assert (evaluation.queries, evaluation.unknown) == (38, 19)
    assert evaluation.notes == (
        "2 queries without a relevant document are left out",
        "1 judged queries have no text",
    )


def test_an_evaluation_repeats_and_is_ready_for_json(index: Index, evaluation: Evaluation) -> None:
    """The same seed gives the same bounds; every row is there, with plain numbers."""
    assert evaluate(index, *judged_queries()) == evaluation
    told = json.loads(json.dumps(evaluation.to_dict()))
    assert len(told["rows"]) == 3 * len(FUSIONS)
    row = next(row for row in told["rows"] if row["fusion"] == "dense")
    assert row["measures"]["mrr@10"] == evaluation.of("dense").measures["mrr@10"]
    assert set(row["differences"]["ndcg@10"]) == {"mean", "low", "high"}


def test_without_vectors_only_keywords_are_judged(without_encoder: Index) -> None:
    """Said in a note; with vectors of the queries every fusion is judged."""
    queries, qrels = judged_queries()
    alone = evaluate(without_encoder, queries, qrels)
    assert {row.fusion for row in alone.rows} == {"keyword"}
    assert "give vectors" in alone.notes[-1]
    assert alone.of("keyword").differences == {}
    given = evaluate(without_encoder, queries, qrels, vectors=np.ones((40, 2)))
    assert {row.fusion for row in given.rows} == set(FUSIONS)
    assert given.of("keyword").measures == alone.of("keyword").measures
    with pytest.raises(KeyError):
        given.of("keyword", "unknown")  # nothing tells what is known


def test_vectors_are_those_of_all_queries(without_encoder: Index) -> None:
    """Rows of queries that are left out are passed over; another number of rows is refused."""
    queries, qrels = judged_queries()
    chosen = with_judgements(queries, qrels)
    rows = np.arange(80, dtype=np.float64).reshape(40, 2)
    found = chosen.vectors(without_encoder, rows)
    assert found is not None
    assert found[4:6].tolist() == [[8, 9], [14, 15]]
    with pytest.raises(ValueError, match="39 vectors for 40 queries"):
        evaluate(without_encoder, queries, qrels, vectors=rows[:39])


def test_queries_and_judgements_of_two_collections_are_refused(index: Index) -> None:
    """Nothing in common: the error asks whether they belong together."""
    with pytest.raises(VocabtoolError, match="Are both files of one collection"):
        evaluate(index, [JudgedQuery("a", "bak")], {"b": {"d1": 1}})


# Vectors of queries in files.


def test_vectors_come_as_npy_or_npz(tmp_path: Path) -> None:
    """The array called queries, the only one, or the file itself."""
    matrix = np.arange(6, dtype=np.float16).reshape(2, 3)
    np.save(tmp_path / "a.npy", matrix)
    np.savez(tmp_path / "b.npz", queries=matrix, documents=matrix + 1)
    np.savez(tmp_path / "c.npz", anything=matrix)
    for name in ("a.npy", "b.npz", "c.npz"):
        assert read_query_vectors(tmp_path / name).tolist() == matrix.tolist()


@pytest.mark.parametrize(
    ("arrays", "what"),
    [
        ({"queries": np.arange(3.0)}, "a matrix"),
        ({"queries": np.ones((2, 2), np.int64)}, "of floating point numbers, got int64"),
        ({"a": np.ones((2, 2)), "b": np.ones((2, 2))}, "wanted an array 'queries', got a, b"),
        ({"queries": np.array([["a", None]], object)}, "allow_pickle"),
    ],
)
def test_other_arrays_are_refused(
    arrays: dict[str, NDArray[Any]], what: str, tmp_path: Path
) -> None:
    """Also pickled objects: nothing is unpickled."""
    np.savez(tmp_path / "v.npz", **arrays)  # type: ignore[arg-type] # names are not allow_pickle
    with pytest.raises(InvalidFile, match=what):
        read_query_vectors(tmp_path / "v.npz")


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 cut", b"\x93NUMPY\x01\x00"])
def test_damaged_files_of_vectors_are_refused(content: bytes, tmp_path: Path) -> None:
    """Whatever numpy says of them."""
    (tmp_path / "v.npz").write_bytes(content)
    with pytest.raises(InvalidFile, match=r"not a \.npy or \.npz file"):
        read_query_vectors(tmp_path / "v.npz")
    with pytest.raises(NotFound):
        read_query_vectors(tmp_path / "nowhere.npz")


# Known items.


def test_known_items_are_words_of_their_documents(index: Index) -> None:
    """Four known words, or an unknown one with two known; the same seed draws the same."""
    texts = {document.id: document.text.split() for document in documents()}
    made = known_items(index.snapshot(), 60, 4)
    assert made == known_items(index.snapshot(), 60, 4)
    assert made != known_items(index.snapshot(), 60, 5)
    assert [item.kind for item in made] == ["ordinary", "unknown"] * 60
    for item in made:
        words = item.text.split()
        assert set(words) <= set(texts[item.id])
        strange = [word in STRANGE for word in words]
        assert strange == ([True, False, False] if item.kind == "unknown" else [False] * 4)


def test_the_self_check_counts_what_searches_find(index: Index) -> None:
    """Recounted here by searches one at a time, for each fusion and kind."""
    found = self_check(index, 30, seed=1)
    items: list[KnownItem] = known_items(index.snapshot(), 30, 1)
    assert len(found.rates) == 2 * len(FUSIONS)
    for rate in found.rates:
        asked = [item for item in items if item.kind == rate.kind]
        ranked = [
            [hit.id for hit in index.search(item.text, k=10, fusion=rate.fusion)] for item in asked
        ]
        firsts = [item.id == ids[0] for item, ids in zip(asked, ranked, strict=True) if ids]
        tens = [item.id in ids for item, ids in zip(asked, ranked, strict=True)]
        assert rate.queries == len(asked) == 30
        assert (rate.first, rate.first_ten) == (sum(firsts) / 30, sum(tens) / 30)
    rates = {(rate.kind, rate.fusion): rate.first for rate in found.rates}
    assert rates["unknown", "coverage"] > rates["unknown", "dense"]
    assert found.notes == ()
    assert json.loads(json.dumps(found.to_dict()))["recall"] == {"mean": 1.0, "queries": 60}


def test_the_self_check_without_an_encoder(without_encoder: Index) -> None:
    """Keywords only, recall by documents' vectors, and both said; nothing is unknown."""
    found = self_check(without_encoder, 20)
    assert [(rate.kind, rate.fusion) for rate in found.rates] == [("ordinary", "keyword")]
    assert found.notes == (NO_ENCODER, NO_VOCABULARY)
    assert found.recall is not None
    assert (found.recall.mean, found.recall.queries) == (1.0, 20)


def test_an_index_without_words_has_nothing_to_check(tmp_path: Path) -> None:
    """Neither without documents."""
    made = Index.create(tmp_path / "index", dim=2)
    with pytest.raises(VocabtoolError, match="no document holds a word"):
        self_check(made)


def test_recall_is_the_share_of_the_ten_nearest(
    without_encoder: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a search that finds nothing but every second row it is what brute force says."""
    snapshot = without_encoder.snapshot()
    asked = np.array([[1, 0], [0, 0], [0.6, 0.8]], np.float32)
    stored = snapshot.vectors.raw.take(np.arange(DOCUMENTS))
    shares = []
    for vector in asked[[0, 2]]:
        best = np.argsort(-(stored @ vector), kind="stable")[:10]
        shares.append(float((best % 2 == 0).mean()))
    even, search = np.arange(DOCUMENTS) % 2 == 0, type(snapshot.vectors).search
    monkeypatch.setattr(
        type(snapshot.vectors), "search", lambda leg, vector, k, _: search(leg, vector, k, even)
    )
    found = measure_recall(snapshot, asked, "cosine")
    assert found is not None
    assert found.mean == pytest.approx(np.mean(shares))
    assert found.queries == 2
    assert measure_recall(snapshot, asked[1:2], "cosine") is None
