"""Re-ranking: the contract of every reranker; documents like one of an index."""

# own process: PyTorch

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.builders.small_corpus import Doc, bm25, index_of
from vocabtool import Hits, Index
from vocabtool.cli.main import cli
from vocabtool.errors import NotFound, OperatorFailed, UnsupportedFormat, VocabtoolError

QUERY = "I love to use Xapian"
TEXTS = (
    *("love to use engines", "xapian", "", " ", "use " * 700, "I love xapian, to use", "zzz"),
    *("naïve 日本語 😀 xapian", "love\0love", "to use", "to use", "xapian for SKU-48007-H"),
)
EAST = np.array([1, 0], np.float32)
Scores = Callable[[str, Sequence[str]], Sequence[float]]


class Case(NamedTuple):
    """``rerank``: what is passed; ``oracle``: the scores, one pair after the other."""

    rerank: Any
    oracle: Scores


def lengths(query: str, texts: list[str]) -> list[float]:
    """A reranker that a person can compute: the more of the query's letters, the better."""
    return [len({*query} & {*text}) - len(text) / 1e4 for text in texts]


class Lengths:
    """The same, as an object that a class without arguments makes."""

    def __call__(self, query: str, texts: list[str]) -> Any:
        return np.array(lengths(query, texts), np.float32)


def cross_encoder(folder: Path) -> tuple[Path, Scores]:
    library: Any = pytest.importorskip(
        "sentence_transformers", reason="the extra sentence-transformers is missing"
    )
    from torch.nn import Identity

    from tests.builders.tiny_sentence_transformer import build_cross_encoder as build

    source = build(folder / "source")
    bare = library.CrossEncoder(str(source), local_files_only=True, device="cpu")

    def oracle(query: str, texts: Sequence[str]) -> list[float]:
        plain = Identity()
        return [float(bare.predict([(query, text)], activation_fn=plain)[0]) for text in texts]

    return source, oracle


def function(folder: Path) -> Case:
    return Case(lengths, lambda query, texts: lengths(query, [*texts]))


def named(folder: Path) -> Case:
    """A class of a module, which is called without arguments."""
    return Case(f"python:{__name__}:Lengths", lambda query, texts: lengths(query, [*texts]))


def transformers(folder: Path) -> Case:
    """As transformers saves it."""
    return Case(*cross_encoder(folder))


def saved(folder: Path) -> Case:
    """As sentence-transformers saves it, with settings that name another activation."""
    source, oracle = cross_encoder(folder)
    import sentence_transformers
    from torch.nn import Tanh

    library: Any = sentence_transformers
    opened = library.CrossEncoder(str(source), local_files_only=True, activation_fn=Tanh())
    opened.save_pretrained(str(folder / "saved"))
    return Case(folder / "saved", oracle)


CASES = (function, named, transformers, saved)


@pytest.fixture(scope="module", params=CASES, ids=lambda builder: builder.__name__)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    found: Case = request.param(tmp_path_factory.mktemp(request.param.__name__))
    return found


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """Each text is farther from EAST than the one before."""
    docs = [Doc(f"d{n:02}", text, (1 - n / 100, n / 100), {"n": n}) for n, text in enumerate(TEXTS)]
    return index_of(tmp_path_factory.mktemp("index"), docs, ["i", "love", "to", "use"])


def ids(hits: Hits) -> list[str]:
    return [hit.id for hit in hits]


# The contract of a reranker.


def test_scores_are_those_of_the_oracle(case: Case, index: Index) -> None:
    """Of every text, long, blank or repeated; they make the order, equal ones by id."""
    # Of an empty query, a long one, and one with half of a character, too.
    queries = ("", ""), ("use " * 400, "use " * 400), ("love \udcff", "love \ufffd"), (QUERY, QUERY)
    for query, same in queries:
        wanted = case.oracle(same, TEXTS)
        hits = index.search(query, vector=EAST, fusion="dense", rerank=case.rerank, k=99)
        found = {hit.id: hit.rerank for hit in hits}
        assert [found[f"d{n:02}"] for n in range(len(TEXTS))] == pytest.approx(wanted, abs=2e-5)
    ranked = sorted(range(len(TEXTS)), key=lambda n: (-round(wanted[n], 4), n))
    assert ids(hits) == [f"d{n:02}" for n in ranked]
    assert len({round(score, 4) for score in wanted}) >= 7  # the oracle tells texts apart
    plain = index.search(QUERY, vector=EAST, fusion="dense", k=99)
    assert {hit.id: hit.score for hit in hits} == {hit.id: hit.score for hit in plain}


def test_a_score_depends_on_its_text_alone(case: Case, index: Index) -> None:
    """Whatever else is ranked, and in several threads."""
    asked: dict[str, Any] = {"vector": EAST, "fusion": "dense", "rerank": case.rerank, "k": 99}
    wanted = {hit.id: hit.rerank for hit in index.search(QUERY, **asked)}
    for n in range(len(TEXTS)):
        (alone,) = index.search(QUERY, where=f"n = {n}", **asked)
        assert alone.rerank == pytest.approx(wanted[alone.id], abs=2e-5)
    with ThreadPoolExecutor(4) as pool:
        many = [*pool.map(lambda _: index.search(QUERY, **asked), range(12))]
    assert all([hit.rerank for hit in hits] == [hit.rerank for hit in many[0]] for hits in many)


# The order.


def test_only_the_first_are_ranked_again(index: Index) -> None:
    """Those behind them follow in their order; an explanation tells the rank before."""
    asked: dict[str, Any] = {"vector": EAST, "fusion": "dense", "explain": True}
    hits = index.search(QUERY, k=5, rerank=lengths, rerank_depth=3, **asked)
    assert ids(hits) == ["d00", "d01", "d02", "d03", "d04"]
    assert [hit.rerank for hit in hits] == [*lengths(QUERY, [*TEXTS[:3]]), None, None]
    hits = index.search(QUERY, k=2, rerank=lambda _, texts: range(len(texts)), **asked)
    assert ids(hits) == ["d11", "d10"]
    why = [hit.explanation for hit in hits]
    assert [each.fused_rank for each in why if each] == [12, 11]
    assert hits[0].to_json()["rerank"] == 11.0
    plain = index.search(QUERY, k=1, **asked)
    assert plain[0].explanation is not None
    assert plain[0].explanation.fused_rank is None
    assert "rerank" not in plain[0].to_json()


def test_the_guarantee_stays(index: Index) -> None:
    """A document with the code is first, though the reranker speaks against it; then nothing."""
    hits = index.search("SKU-48007-H love", vector=EAST, k=3, rerank=lengths)
    assert [hit.tier for hit in hits] == [1, 0, 0]
    assert hits[0].id == "d11"
    assert len(index.search("love", vector=EAST, where="n > 99", rerank=lengths)) == 0
    with pytest.raises(ValueError, match="rerank needs the text of the query"):
        index.search(vector=EAST, rerank=lengths)


def fails(query: str, texts: list[str]) -> list[float]:
    raise RuntimeError("no memory on the device")


@pytest.mark.parametrize(
    ("function", "error", "told"),
    [
        (fails, OperatorFailed, "fails.*12 texts, it raised RuntimeError: no memory on the device"),
        (lambda q, t: [1.0], VocabtoolError, r"an array of shape \(1,\), wanted \(12,\)"),
        (lambda q, t: [0.0, float("nan")] * 6, VocabtoolError, "returned nan for text 1, wanted"),
        (lambda q, t: ["good"] * 12, OperatorFailed, "ValueError: could not convert"),
    ],
)
def test_a_function_that_does_not_fit(
    function: Any, error: type[Exception], told: str, index: Index
) -> None:
    with pytest.raises(error, match=told):
        index.search("love", vector=EAST, fusion="dense", rerank=function)


def test_a_name_that_leads_nowhere(index: Index, tmp_path: Path) -> None:
    """Each message says what there is instead, or what is wanted."""
    cases: list[tuple[Any, type[Exception], str]] = [
        (17, ValueError, "rerank: wanted a folder or name of a cross-encoder.*got 17"),
        (tmp_path / "none", NotFound, "no such folder, and no model"),
        (tmp_path, UnsupportedFormat, "not a cross-encoder"),
        (f"python:{__name__}:nothing", NotFound, "no such attribute"),
        (f"python:{__name__}:TEXTS", VocabtoolError, r"wanted a function f\(query, texts\)"),
    ]
    for model, error, told in cases:
        with pytest.raises(error, match=told):
            index.search("love", vector=EAST, rerank=model)


def test_a_model_that_is_no_cross_encoder(index: Index, tmp_path: Path) -> None:
    """Several labels, a head that is missing, code or a pickle: refused, nothing is run."""
    pytest.importorskip("sentence_transformers", reason="the extra is missing")
    import torch
    from safetensors.torch import load_file

    from tests.builders.tiny_sentence_transformer import build_cross_encoder as build

    three = build(tmp_path / "three", labels=3)
    bare = build(tmp_path / "bare", kind="BertModel")
    code = Path(shutil.copytree(three, tmp_path / "code"))
    (code / "modules.json").write_text(json.dumps([{"type": "mine.Module", "path": ""}]))
    pickled = Path(shutil.copytree(three, tmp_path / "pickled"))
    torch.save(load_file(three / "model.safetensors"), pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "config.json").write_text('{"architectures": 17}')
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"\0" * 9)
    for folder, told in (
        (three, "it returns 3 numbers"),
        (bare, r"its architectures are \['BertModel'\], not \*ForSequenceClassification"),
        (code, r"'mine\.Module'; to allow it, load it in a function of your own"),
        (pickled, "pickled weights.*python:MODULE:NAME"),
        (tmp_path / "damaged", "its architectures are 17"),
    ):
        with pytest.raises(UnsupportedFormat, match=told) as caught:
            index.search("love", vector=EAST, rerank=folder)
        assert str(folder) in str(caught.value)
    (tmp_path / "damaged" / "config.json").write_text('{"architectures": ["XForCausalLM"]}')
    with pytest.raises(VocabtoolError, match="damaged: sentence-transformers cannot load it"):
        index.search("love", vector=EAST, rerank=tmp_path / "damaged")


# Documents like one of the index.

LIKE = (
    Doc("one", "a b b c d the", (1, 0), {"lang": "en"}),
    Doc("two", "b b e f g h", (0, 1), {"lang": "en"}),
    Doc("three", "a i j k", (0.9, 0.1), {"lang": "de"}),
    Doc("four", "l m n the", (0.5, 0.5), {"lang": "de"}),
    Doc("five", "o p c c c", (), {"lang": "de"}),
)


@pytest.mark.parametrize("known", [None, ["a", "b", "c"]])
def test_similar(known: list[str] | None, tmp_path: Path) -> None:
    """By the words with the highest BM25 weights that other documents have, and the vector."""
    index = index_of(tmp_path, LIKE, known)
    hits = index.similar("one", explain=True)
    weights = {word: bm25(LIKE, word, 0) for word in ("a", "b", "c", "the")}
    wanted = sorted(weights, key=lambda word: -weights[word])
    assert hits.query.text == " ".join(wanted) == "b a c the"
    same = index.search("b a c the", vector=LIKE[0].vector, guarantee=False)
    assert ids(same)[0] == "one"
    assert {hit.id: hit.bm25 for hit in hits} == {hit.id: hit.bm25 for hit in same[1:]}
    assert {hit.id: hit.similarity for hit in hits} == {hit.id: hit.similarity for hit in same[1:]}
    assert {*ids(hits)} == {"two", "three", "four", "five"}
    assert ids(index.similar("one", 2, where="lang = 'de'"))[0] == "three"
    assert len(index.similar("one", 2)) == 2


def test_similar_says_that_the_nearest_document_is_near_by_chance(tmp_path: Path) -> None:
    """If no other document that meets the condition has a word of the document."""
    far = [Doc(f"far{n}", f"c{n}", (0, (-1) ** n), {"lang": "de"}) for n in range(12)]
    index = index_of(tmp_path, [Doc("one", "a b", (1, 0)), Doc("two", "a b", (1, 0)), *far], None)
    assert index.similar("one").notes == ()
    (note,) = index.similar("one", where="lang = 'de'").notes
    assert "no nearer than chance: similarity 0.000" in note


def test_similar_takes_a_code_as_a_word(tmp_path: Path) -> None:
    """A document that shares it does not come before all others; at most 25 words count."""
    docs = [
        Doc("one", "SKU-48007-H " + " ".join(f"w{n}" for n in range(40)), (1, 0)),
        Doc("two", "SKU-48007-H", (-1, 0)),
        Doc("three", " ".join(f"w{n}" for n in range(40)), (1, 0)),
    ]
    hits = index_of(tmp_path, docs, None).similar("one")
    assert [(hit.id, hit.tier) for hit in hits] == [("three", 0), ("two", 0)]
    words = hits.query.text.split()
    assert (len(words), words[0]) == (25, "SKU-48007-H")


# The command line.


def test_commands(
    index: Index, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The options have the same names, and the report tells what they did."""
    folder = str(index.path)
    options = [*("--fusion", "keyword", "--rerank", f"python:{__name__}:lengths")]
    options += ["--explain", "-k", "2"]
    cli.main(["search", folder, "love xapian", *options], standalone_mode=False)
    shown = capsys.readouterr().out
    hits = index.search("love xapian", fusion="keyword", rerank=lengths, k=2, explain=True)
    scores = [f"{hit.rerank:.3f}" for hit in hits]
    ranks = [str(hit.explanation.fused_rank) for hit in hits if hit.explanation]
    assert re.findall(r"rerank (\S+)\)", shown) == scores
    assert re.findall(r"; rank (\d+) by the fusion alone", shown) == ranks
    command = ["similar", folder, "d05", "-k", "2", "--where", "n < 5", "--format", "json"]
    cli.main(command, standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    assert [hit["id"] for hit in found["hits"]] == ids(index.similar("d05", 2, where="n < 5"))
    cli.main(["similar", folder, "d05"], standalone_mode=False)
    assert capsys.readouterr().out.startswith(f"query: {found['query']['text']}\n")
    with pytest.raises(NotFound, match="'d99'"):
        cli.main(["similar", folder, "d99"], standalone_mode=False)
