"""Pages of ``eval`` and ``calibrate``: an HTML parser finds in them what the JSON says."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from tests.builders.judged_collection import printed_json, write_judgements
from tests.html_page import check_inert
from vocabtool import Index

Output = pytest.CaptureFixture[bytes]


@pytest.fixture
def judged(tmp_path: Path) -> tuple[str | Path, ...]:
    write_judgements(tmp_path)
    return "--queries", tmp_path / "queries", "--qrels", tmp_path / "qrels"


def root_of(file: Path) -> Element:
    return ElementTree.fromstring(file.read_text().removeprefix("<!DOCTYPE html>\n"))


def numbers(element: Element) -> list[float]:
    return [float(each.attrib["value"]) for each in element.iter("data")]


def test_the_page_has_the_figures_of_the_json(
    index: Index, judged: Any, tmp_path: Path, capsysbinary: Output
) -> None:
    """Every mean with bars."""
    file = tmp_path / "eval.html"
    found = printed_json(capsysbinary, "eval", index.path, *judged, "--html", file)
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
