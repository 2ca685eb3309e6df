"""Pages of ``eval`` and ``calibrate``: an HTML parser finds in them what the JSON says."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from tests.builders.judged_collection import printed_json, write_judgements
from tests.html_page import check_inert
from vocabtool import Index

Output = pytest.CaptureFixture[bytes]


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


def test_the_self_check_has_a_page(index: Index, tmp_path: Path, capsysbinary: Output) -> None:
    """Its rates, as in the JSON."""
    file = tmp_path / "page.html"
    sample = ("--sample", 12, "--html", file)
    found = printed_json(capsysbinary, "eval", index.path, "--self-check", *sample)
    (table,) = tables_of(file)
    names = ("queries", "first", "first_ten")
    assert numbers(table) == [each[name] for each in found["rates"] for name in names]
