"""Pages of ``eval`` and ``calibrate``: an HTML parser finds in them what the JSON says."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import click
import pytest

from tests.builders.judged_collection import STRANGE, printed_json, write_judgements
from tests.html_page import check_inert
from vocabtool import Index, NotFound
from vocabtool.choices import FUSIONS
from vocabtool.cli.main import cli
from vocabtool.evaluation.compare import evaluate
from vocabtool.evaluation.judgements import read_qrels, read_queries

Output = pytest.CaptureFixture[bytes]
CHANGED = {"a": 0.0, "boost": 3.0}
OPTIONS = ("--beside", "a=0", "--beside", "boost=3")


@pytest.fixture
def judged(tmp_path: Path) -> tuple[str | Path, ...]:
    write_judgements(tmp_path)
    return "--queries", tmp_path / "queries", "--qrels", tmp_path / "qrels"


def root_of(file: Path) -> Element:
    return ElementTree.fromstring(file.read_text().removeprefix("<!DOCTYPE html>\n"))


def shown(element: Element) -> str:
    return "".join(element.itertext())


def numbers(element: Element) -> list[float]:
    return [float(each.attrib["value"]) for each in element.iter("data")]


@pytest.mark.parametrize("options", [(), OPTIONS])
def test_queries_that_differ_most_are_those_of_ir_measures(
    options: tuple[str, ...], index: Index, judged: Any, tmp_path: Path, capsysbinary: Output
) -> None:
    """By nDCG@10 of a search of each setting, and where each relevant document is in it."""
    from ir_measures import iter_calc, nDCG

    queries, qrels = write_judgements(tmp_path)
    found = printed_json(capsysbinary, "eval", index.path, *judged, *options)["beside"]
    asked = [name for name in queries if max(qrels.get(name, {"": 0}).values()) > 0]
    scores, ranks = [], []
    for more in ({}, CHANGED if options else {"fusion": "dense"}):
        hits = {name: index.search(queries[name], k=100, **more) for name in asked}
        ranks.append({q: [hit.id for hit in each] for q, each in hits.items()})
        run = {q: {i: -float(at) for at, i in enumerate(each)} for q, each in ranks[-1].items()}
        part = {name: qrels[name] for name in asked}
        scores.append({each.query_id: each.value for each in iter_calc([nDCG @ 10], part, run)})
    apart = {name: scores[1][name] - scores[0][name] for name in asked}
    assert found["names"] == ["fusion=coverage", "a=0, boost=3" if options else "fusion=dense"]
    assert found["ndcg"] == pytest.approx([sum(e.values()) / len(e) for e in scores])
    assert found["differing"] == sum(abs(each) > 1e-9 for each in apart.values()) > 10
    most = sorted((abs(each) for each in apart.values()), reverse=True)[:10]
    assert [abs(apart[each["id"]]) for each in found["queries"]] == pytest.approx(most)
    for each in found["queries"]:
        name = each["id"]
        assert each["query"]["text"] == queries[name]
        assert each["ndcg"] == pytest.approx([scores[0][name], scores[1][name]])
        assert {i: gain for i, gain in qrels[name].items() if gain > 0} == {
            document["id"]: document["gain"] for document in each["relevant"]
        }
        for document in each["relevant"]:
            places = [
                each[name].index(document["id"]) + 1 if document["id"] in each[name] else None
                for each in ranks
            ]
            assert document["ranks"] == places


def test_the_page_has_the_figures_of_the_json(
    index: Index, judged: Any, tmp_path: Path, capsysbinary: Output
) -> None:
    """Every mean with bars, links to the queries, their words by kind, and their documents."""
    file = tmp_path / "eval.html"
    found = printed_json(capsysbinary, "eval", index.path, *judged, *OPTIONS, "--html", file)
    root = root_of(file)
    check_inert(file.read_text(), plots=False)
    first, *_ = root.iter("table")
    tables = [*root.iter("table")]
    for table, split in zip(tables, ("all", "unknown", "known"), strict=False):
        rows = [row for row in found["rows"] if row["split"] == split]
        assert numbers(table) == [each for row in rows for each in row["measures"].values()]
    bars = [each.attrib["style"] for each in first.iter("span") if "style" in each.attrib][1:]
    means = [row["measures"]["ndcg@10"] for row in found["rows"] if row["split"] == "all"]
    assert bars == [f"width:{100 * mean:.1f}%" for mean in means]
    beside = found["beside"]
    links = {each.attrib["href"]: shown(each) for each in tables[3].iter("a")}
    assert [*links] == [f"#query-{n}" for n in range(1, 11)]
    entries = {f"#{each.attrib['id']}": each for each in root.iter("article")}
    assert [*entries] == [*links]
    for (to, text), query in zip(links.items(), beside["queries"], strict=True):
        assert text == f"{query['id']}: {query['query']['text']}"
        marks = {shown(each): each.attrib["class"] for each in entries[to].iter("mark")}
        words = query["query"]["text"].split()
        assert marks == {word: "unknown" if word in STRANGE else "known" for word in words}
        *_, last = entries[to].iter("table")
        heads = [shown(cell) for cell in last.iter("th")]
        assert heads[2:] == ["rank, fusion=coverage", "rank, a=0, boost=3"]
        documents = [[shown(cell) for cell in row.iter("td")] for row in last.iter("tr")][1:]
        assert documents == [
            [each["id"], str(each["gain"]), *(str(r) if r else "past 100" for r in each["ranks"])]
            for each in query["relevant"]
        ]


@pytest.mark.parametrize(("boost", "weight"), [(0.5, 1.5), (9, 10.0)])
def test_words_weigh_as_in_the_search(
    boost: float, weight: float, index: Index, tmp_path: Path
) -> None:
    """As ``boost`` says; ``rerank`` and ``threads`` do not matter for it."""
    write_judgements(tmp_path)
    judged = read_queries(tmp_path / "queries"), read_qrels(tmp_path / "qrels")
    more: Any = {"boost": boost, "threads": 1, "rerank": lambda query, texts: [0] * len(texts)}
    found = evaluate(index, *judged, beside={"fusion": "keyword", "rerank": None}, **more).beside
    assert found is not None
    words = [word for each in found.queries for word in each.query.words]
    assert {(word.known, word.weight) for word in words} == {(True, 1.0), (False, weight)}
    assert found.names == ("fusion=coverage", "fusion=keyword, rerank=None")
    same = evaluate(index, *judged, beside={"boost": 0.5}).beside
    assert same is not None and (same.queries, same.differing) == ((), 0)


def test_queries_are_compared_only_for_a_page_or_json(
    index: Index, own: Index, judged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other setting is searched first, so that its errors come at once."""
    asked: list[dict[str, Any]] = []
    search_many = Index.search_many

    def spy(index: Index, texts: Any, **more: Any) -> Any:
        asked.append(more)
        return search_many(index, texts, **more)

    monkeypatch.setattr(Index, "search_many", spy)
    arguments = ["eval", str(index.path), *map(str, judged)]
    cli.main(arguments, standalone_mode=False)
    assert [more["fusion"] for more in asked] == [*FUSIONS]
    asked.clear()
    beside = [*arguments, "--format", "json", "--beside"]
    with pytest.raises(NotFound, match="typo"):
        cli.main([*beside, "rerank=typo"], standalone_mode=False)
    assert len(asked) == 1
    with pytest.raises(click.UsageError, match=r"--beside identifier=\(: .* regular expression"):
        cli.main([*beside, "identifier=("], standalone_mode=False)
    assert len(asked) == 1


def test_other_modes_have_pages(index: Index, tmp_path: Path, capsysbinary: Output) -> None:
    """The self-check, an estimated weight and a tuned one, with curves as plots."""
    file = tmp_path / "page.html"
    sample = ("--sample", 12, "--html", file)
    found = printed_json(capsysbinary, "eval", index.path, "--self-check", *sample)
    (table,) = root_of(file).iter("table")
    rates = [[each["queries"], each["first"], each["first_ten"]] for each in found["rates"]]
    assert numbers(table) == [number for each in rates for number in each]
    write_judgements(tmp_path)
    judged = ("--queries", tmp_path / "queries", "--qrels", tmp_path / "qrels")
    for more, value in ((sample, "loss"), ((*judged, "--html", file), "ndcg")):
        found = printed_json(capsysbinary, "calibrate", index.path, "--dry-run", *more)
        root = root_of(file)
        check_inert(file.read_text())
        curve = next(root.iter("table"))
        assert numbers(curve) == [point[value] for point in found["curve"]]
        assert [each.tag.endswith("svg") for each in root.iter("figure") for each in each] == [True]


def test_an_index_without_vectors_of_queries_has_nothing_beside(
    own: Index, judged: Any, tmp_path: Path, capsysbinary: Output
) -> None:
    """Only keywords are searched; the page has their figures."""
    file = tmp_path / "page.html"
    found = printed_json(capsysbinary, "eval", own.path, *judged, "--html", file)
    assert found["beside"] is None
    assert "differ most" not in file.read_text()


def test_beside_wants_judgements_and_a_page(index: Index, judged: Any) -> None:
    """The text has no room for queries."""
    for more in (("--self-check", "--html", "f.html"), judged):
        with pytest.raises(click.UsageError, match=r"--beside needs judged queries"):
            cli.main(
                ["eval", str(index.path), *map(str, more), "--beside", "a=0"],
                standalone_mode=False,
            )
