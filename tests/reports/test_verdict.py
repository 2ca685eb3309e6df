"""The verdict on a model: the same figures always name the same next step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.some_reports import text_of, unknown_words
from vocabtool import OovReport, TokenLimit
from vocabtool.oov.report import CutOff
from vocabtool.reports.oov import oov_report

KNOWN = (b"the", b"cat", b"numpy")
ONE = dict.fromkeys(KNOWN, 1)


def whole(known: int, *unknown: bytes) -> OovReport:
    return unknown_words([[b"the"] * known, [*unknown]], KNOWN)


def pieces(known: int, *split: bytes, each: int = 2, cut: int = 0) -> OovReport:
    """``split`` words have ``each`` pieces; ``cut``: pieces past the limit."""
    report = unknown_words(
        [[b"the"] * known, [*split]], KNOWN, pieces=ONE | dict.fromkeys(split, each)
    )
    assert report.split is not None
    limit = CutOff(TokenLimit(8, source="config.json"), 1, cut, report.split.pieces)
    return replace(report, cut=limit) if cut else report


def coded(report: OovReport) -> OovReport:
    """The only split word is a code."""
    assert report.split is not None
    (kind,) = report.split.kinds
    return replace(report, split=replace(report.split, kinds=(kind._replace(kind="code"),)))


CASES = {
    "whole words, fine": (whole(2000, b"dog"), "none", "1 of 2,001 words (0.05%)"),
    "whole words": (whole(90, b"SKU-12", *[b"dog"] * 9), "hybrid search", "10 of 100 words"),
    "symbols do not count": (whole(2000, *[b"===="] * 900), "none", "0 of 2,000 words (0.00%)"),
    "mostly unknown": (whole(70, *[b"dog"] * 30), "another model", "30 of 100 words (30.00%)"),
    "nothing": (whole(0), "none", "no words"),
    "pieces, fine": (pieces(1000, b"cat"), "none", "0.10% of the words into pieces: 1,001 words"),
    "codes": (coded(pieces(95, *[b"numpy"] * 5)), "hybrid search", "100 words become 105 pieces"),
    "domain words": (pieces(80, *[b"numpy"] * 20), "words to add", "1.20 per word"),
    "too many pieces": (pieces(10, *[b"numpy"] * 90, each=3), "another model", "2.80 per word"),
    "symbols in pieces": (pieces(95, *[b"===="] * 5, each=9), "none", "no word is unknown"),
    "too long": (pieces(900, b"cat", cut=90), "shorter texts", "0.11% of the words"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_next_step(name: str) -> None:
    """Three sentences name the figures; the terminal, the page and JSON have them."""
    report, step, figures = CASES[name]
    found = report.verdict
    assert found.next_step == step
    assert figures in found.how_much
    sentences = [sentence for sentence in found[:3] if sentence]
    assert len(sentences) == (1 if name == "nothing" else 3)
    assert "unseen" not in " ".join(sentences).replace("a split word is not unseen", "")
    assert oov_report(report).data()["verdict"] == found._asdict()
    assert text_of(report, 1000).splitlines()[: len(sentences)] == sentences
    assert not any(sentence in text_of(report) for sentence in sentences)  # tabs are for programs


def test_words_that_matter() -> None:
    """The first list and the verdict leave symbols out, and their number is among the kinds."""
    report = whole(10, *[b"====="] * 9, b"SKU-12", b"xapian")
    shown = text_of(report, 100)
    rows = [line.split()[:1] for line in shown.splitlines()]
    words = rows[rows.index(["unknown"]) :]
    assert ["SKU-12"] in words
    assert ["====="] not in rows
    assert "punctuation or symbol              1        9" in shown
    assert "SKU-12" in report.verdict.where
    assert "; the words are in up to 1 of 2 documents" in report.verdict.how_much
    assert shown.index("SKU-12") < shown.index("fingerprint")
    assert "=====" in text_of(report)
