"""``eval`` against ir-measures."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import pytest

from tests.builders.judged_collection import documents, printed_json, write_judgements
from tests.builders.small_indexes import FUSIONS
from tests.html_page import check_inert
from vocabtool import Index, errors

MEASURES = ("ndcg@10", "recall@100", "mrr@10")
Output = pytest.CaptureFixture[bytes]


def evaluation(output: Output, index: Index, folder: Path, *more: object) -> Any:
    judged = ("--queries", folder / "queries", "--qrels", folder / "qrels")
    return printed_json(output, "eval", index.path, *judged, *more)


def test_means_are_those_of_ir_measures(index: Index, tmp_path: Path, capsysbinary: Output) -> None:
    """For all queries and for both parts, from what a search of the same fusion gives."""
    import ir_measures
    from ir_measures import RR, R, nDCG

    queries, qrels = write_judgements(tmp_path)
    found = evaluation(capsysbinary, index, tmp_path)
    rows = {(row["fusion"], row["split"]): row for row in found["rows"]}
    assert set(rows) == {(each, split) for each in FUSIONS for split in ("all", "unknown", "known")}
    chosen = [name for name in queries if max(qrels.get(name, {"": 0}).values()) > 0]
    unknown = {name for name in chosen if "q" in queries[name]}
    splits = {"all": {*chosen}, "unknown": unknown, "known": {*chosen} - unknown}
    for fusion in FUSIONS:
        run = {
            name: {
                hit.id: float(-rank)
                for rank, hit in enumerate(index.search(queries[name], k=100, fusion=fusion))
            }
            for name in chosen
        }
        for split, names in splits.items():
            part = {name: qrels[name] for name in names}
            measures = (nDCG @ 10, R @ 100, RR @ 10)
            wanted = ir_measures.calc_aggregate(measures, part, {name: run[name] for name in names})
            row = rows[fusion, split]
            assert row["queries"] == len(names)
            assert [row["measures"][each] for each in MEASURES] == pytest.approx(
                [wanted[each] for each in measures]
            )
            for name, apart in row["differences"].items():
                reference = rows["coverage", split]["measures"][name]
                assert apart["mean"] == pytest.approx(row["measures"][name] - reference)
                assert apart["low"] <= apart["mean"] <= apart["high"]
    assert rows["coverage", "all"]["differences"] == {}
    assert rows["dense", "unknown"]["differences"]["ndcg@10"]["high"] < 0
    assert (found["queries"], found["unknown"]) == (38, 19)
    assert found["notes"] == [
        "2 queries without a relevant document are skipped",
        "1 judged queries have no text",
    ]
    assert evaluation(capsysbinary, index, tmp_path) == found


def test_without_vectors_only_keywords_are_judged(
    own: Index, tmp_path: Path, capsysbinary: Output
) -> None:
    """Said in a note; with vectors of all queries, in their order, every fusion is judged."""
    queries, _ = write_judgements(tmp_path)
    alone = evaluation(capsysbinary, own, tmp_path)
    rows = [(row["fusion"], row["split"], row["differences"]) for row in alone["rows"]]
    assert rows == [("keyword", each, {}) for each in ("all", "known")]  # nothing tells what is
    assert "vectors" in alone["notes"][-1]
    vectors = np.random.default_rng(0).normal(size=(len(queries), 2)).astype(np.float32)
    np.save(tmp_path / "v.npy", vectors)
    given = evaluation(capsysbinary, own, tmp_path, "--vectors", tmp_path / "v.npy")
    found = {row["fusion"]: row["measures"] for row in given["rows"] if row["split"] == "all"}
    assert set(found) == set(FUSIONS)
    assert found["keyword"] == alone["rows"][0]["measures"]
    np.save(tmp_path / "c.npy", vectors[:-1])
    with pytest.raises(Exception, match="39 vectors for 40 queries"):
        evaluation(capsysbinary, own, tmp_path, "--vectors", tmp_path / "c.npy")


BEIR = '{"_id": "1", "text": "%s"}\n{"_id": "x", "text": "%s", "metadata": {}}\n'


@pytest.mark.parametrize(
    ("layout", "names"),
    [
        (BEIR, "1 x"),
        ('{"id": 7, "text": "%s"}\r\n\n{"id": 8, "text": "%s"}', "7 8"),
        ("7\t%s\n8\t%s\n", "7 8"),
        ("%s\n\n%s\n", "1 2"),
        ("\ufeff%s\n%s", "1 2"),
    ],
)
@pytest.mark.parametrize(
    "judgements",
    [
        "query-id\tcorpus-id\tscore\n{0}\td0\t2\n{0}\td3\t0\n{1}\td1\t1\n{1}\td 2\t-1\n",
        "{0}\td0\t2.0\n{0}\td3\t0\n{1}\td1\t1\n{1}\td 2\t-1",
        "{0} 0 d0 2\n{0}\tQ0\td3\t0\n{1} 0 d1 1\n",
    ],
)
def test_every_layout_of_test_collections_is_read(
    layout: str, names: str, judgements: str, own: Index, tmp_path: Path, capsysbinary: Output
) -> None:
    """The content tells which; each query is all words of the document that is relevant."""
    texts = [each.text.replace(". ", " ") for each in documents()[:2]]
    (tmp_path / "queries").write_text(layout % tuple(texts), "utf-8", newline="")
    (tmp_path / "qrels").write_text(judgements.format(*names.split()))
    found = evaluation(capsysbinary, own, tmp_path)
    assert (found["queries"], found["rows"][0]["measures"]["mrr@10"]) == (2, 1.0)


QUERY = '{"_id": "1", "text": "a"}'
HUGE = b"{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999, 999)}\n"


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        *(("queries", "", "no query"), ("queries", '{"_id": "1"}', 'expected {"_id"')),
        ("queries", f"{QUERY}\nnot", r"not a JSON object.*at byte 26"),
        ("queries", '{"a":' * 100_000, "not a JSON object"),
        ("queries", f"{QUERY}\n{QUERY}", "'1'.*byte 26"),
        ("queries", "<top>\n<num> 1\n<title> a", "TREC topics: write the id, a tab and"),
        ("queries", "a" * ((1 << 20) + 1), "1,048,576 bytes"),
        ("queries", b"a\nb\xff", r"not UTF-8 \(at byte 3\)"),
        *(("qrels", each, "no judgement") for each in ("", "query-id\tcorpus-id\tscore\n")),
        ("qrels", "1\td1\t1\n1\td2\tgood\n", "at byte 7"),
        *(("qrels", f"1\td1\t{n}\n2\td1\t{n}\n", "integer") for n in ("0.5", "inf", "nan")),
        *(
            ("qrels", "1 0 d1 1 extra\n", "integer"),
            ("qrels", "1\td1\t1\n1\td1\t0\n", "judged twice"),
        ),
        ("v.npy", np.arange(3.0), "a matrix"),
        ("v.npy", np.array([["a", None]], object), "an array of Python objects"),
        ("v.npy", b"\x93NUMPY\1\0" + bytes((len(HUGE), 0)) + HUGE, "truncated: expected"),
        *(
            ("v.npy", each, "not a NumPy array")
            for each in (b"", b"PK\x03\x04 zip", b"\x93NUMPY\x01")
        ),
    ],
)
def test_other_files_are_refused(
    name: str, content: Any, what: str, own: Index, tmp_path: Path, capsysbinary: Output
) -> None:
    """The error names the file, what is wrong and the byte where; nothing is unpickled."""
    (tmp_path / "queries").write_text("a b")
    (tmp_path / "qrels").write_text("1\td1\t1\n")
    np.save(tmp_path / "v.npy", np.ones((1, 2)))
    if isinstance(content, np.ndarray):
        np.save(tmp_path / name, content)
    else:
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(data)
    refused = (errors.InvalidFile, errors.UnsupportedFormat)
    with pytest.raises(refused, match=rf"^{tmp_path / name}: .*{what}"):
        evaluation(capsysbinary, own, tmp_path, "--vectors", tmp_path / "v.npy")


def test_what_does_not_belong_together_is_refused(
    own: Index, tmp_path: Path, capsysbinary: Output
) -> None:
    """Files of two collections, one without the other, and a file that is not there."""
    (tmp_path / "queries").write_text("a b")
    with pytest.raises(errors.NotFound, match="qrels"):
        evaluation(capsysbinary, own, tmp_path)
    (tmp_path / "qrels").write_text("other\td1\t1\n")
    with pytest.raises(errors.VocabtoolError, match="Do both files belong to one collection"):
        evaluation(capsysbinary, own, tmp_path)
    with pytest.raises(Exception, match="--queries and --qrels"):
        printed_json(capsysbinary, "eval", own.path, "--qrels", tmp_path / "qrels")


def test_the_self_check_finds_known_items(index: Index, capsysbinary: Output) -> None:
    """Queries of words of a document; the same seed draws the same."""
    check = ("eval", index.path, "--self-check", "--sample", 30)
    found = printed_json(capsysbinary, *check)
    assert found == printed_json(capsysbinary, *check)
    rates = {(rate["kind"], rate["fusion"]): rate for rate in found["rates"]}
    assert set(rates) == {(kind, each) for kind in ("ordinary", "unknown") for each in FUSIONS}
    assert {rate["queries"] for rate in found["rates"]} == {30}
    assert all(0 <= rate["first"] <= rate["first_ten"] <= 1 for rate in found["rates"])
    assert rates["unknown", "coverage"]["first"] > rates["unknown", "dense"]["first"]
    assert rates["ordinary", "keyword"]["first_ten"] > 0.9
    assert (found["notes"], found["sample"]) == ([], 30)


def test_the_self_check_without_an_encoder(
    own: Index, tmp_path: Path, capsysbinary: Output
) -> None:
    """Keywords only, and said."""
    found = printed_json(capsysbinary, "eval", own.path, "--self-check", "--sample", 20)
    assert [(rate["kind"], rate["fusion"]) for rate in found["rates"]] == [("ordinary", "keyword")]
    assert len(found["notes"]) == 2
    assert all("no encoder" in note or "unknown" in note for note in found["notes"])
    empty = Index.create(tmp_path / "index", dim=2)
    with pytest.raises(errors.VocabtoolError, match="its documents have no words"):
        printed_json(capsysbinary, "eval", empty.path, "--self-check")


# Pages.


def tables_of(file: Path) -> list[Element]:
    text = file.read_text().removeprefix("<!DOCTYPE html>\n")
    return [*ElementTree.fromstring(text).iter("table")]


def numbers(element: Element) -> list[float]:
    return [float(each.attrib["value"]) for each in element.iter("data")]


def test_the_page_has_the_figures_of_the_json(
    index: Index, tmp_path: Path, capsysbinary: Output
) -> None:
    """Every mean with bars."""
    write_judgements(tmp_path)
    file = tmp_path / "eval.html"
    judged = ("--queries", tmp_path / "queries", "--qrels", tmp_path / "qrels")
    found = printed_json(capsysbinary, "eval", index.path, *judged, "--html", file)
    check_inert(file.read_text())
    for table, split in zip(tables_of(file), ("all", "unknown", "known"), strict=True):
        rows = [row for row in found["rows"] if row["split"] == split]
        assert numbers(table) == [each for row in rows for each in row["measures"].values()]
        bars = [each.attrib["style"] for each in table.iter("span")]
        means = [row["measures"]["ndcg@10"] for row in rows]
        assert bars == [f"width:{100 * mean / max(means):.1f}%" for mean in means]
