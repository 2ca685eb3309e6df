"""What ``index`` tells at its end: what was added, and how the index will be searched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vocabtool.vocabulary import encode, printable

if TYPE_CHECKING:
    from vocabtool.index.index import Index
    from vocabtool.index.loading import LoadReport


def as_json(index: Index, report: LoadReport) -> dict[str, Any]:
    """Ready for JSON."""
    manifest = index.manifest
    return {
        "folder": str(index.path),
        "documents": len(index),
        **asdict(report),
        "commit": manifest.commit,
        "approximate": None if manifest.codes is None else asdict(manifest.codes),
        "calibration": None if manifest.calibration is None else asdict(manifest.calibration),
    }


def lines(index: Index, report: LoadReport) -> Iterator[str]:
    """For a person to read."""
    yield f"{printable(encode(str(index.path)))}: {len(index):,} documents"
    if report.read > report.resumed:
        rate = (report.read - report.resumed) / max(report.seconds, 1e-9)
        took = f"{report.seconds:,.1f} s, {rate:,.0f} a second"
        yield f"  done now    {report.added:,} added in {took}"
    else:
        yield "  done now    nothing: all of it was there"
    facts = (
        ("gone on", report.resumed, "documents were in already"),
        ("skipped", report.skipped, "rows that are no documents"),
        ("dropped", report.dropped, "documents of an id that was there"),
        ("zero", report.zero, "vectors: found by keywords alone"),
    )
    for name, count, what in facts:
        if count and (name != "gone on" or report.read > report.resumed):
            yield f"  {name:<11} {count:,} {what}"
    yield f"  vectors     {_vectors(index)}"
    yield f"  keywords    {index.configuration.language}, {index.manifest.words:,} words in all"
    yield f"  weight      {_weight(index)}"


def _vectors(index: Index) -> str:
    held, codes = index.configuration, index.manifest.codes
    what = f"{held.dim} numbers, {held.dtype}, {held.metric}"
    if codes is None:
        return f"{what}; every one is compared"
    cells = f", {codes.probes} of {codes.lists} lists" if codes.lists > 1 else ""
    return (
        f"{what}; 4-bit codes, {codes.candidates} candidates compared exactly{cells}: "
        f"recall@10 {codes.recall:.3f} on {codes.queries} queries (wanted {codes.recall_asked:g})"
    )


def _weight(index: Index) -> str:
    found = index.calibration
    if found is None:
        return "of the keyword leg: 0.5, or 0.4 for models of pieces: not calibrated"
    how = f"tuned on {found.judged:,} judged queries" if found.judged else "an estimate"
    return f"of the keyword leg: {found.a:.2f}, {how} from {found.sample:,} documents"
