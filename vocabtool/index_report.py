"""What ``index`` tells at its end: what was added, and how the index will be searched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from vocabtool.errors import VocabtoolError
from vocabtool.search.settings import A_OF_PIECES, A_OF_WORDS, Settings
from vocabtool.telling import counted
from vocabtool.vocabulary import encode, printable

if TYPE_CHECKING:
    from vocabtool.index.index import Index
    from vocabtool.index.loading import LoadReport

RATED: Final = 100  # documents; the speed of fewer is that of starting


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
    documents = counted(len(index), "document", "documents")
    yield f"{printable(encode(str(index.path)))}: {documents}"
    yield f"  done now    {_done(report)}"
    if report.read > report.resumed > 0:
        were = counted(report.resumed, "document was", "documents were")
        yield f"  gone on     {were} in already"
    if report.skipped:
        rows = counted(report.skipped, "row that is no document", "rows that are no documents")
        yield f"  skipped     {rows}"
    if report.left_out:
        values = counted(report.left_out, "value that is", "values that are")
        yield f"  left out    {values} not of the field's kind; the documents are in"
    if report.dropped:
        dropped = counted(report.dropped, "document", "documents")
        yield f"  dropped     {dropped} of an id that was there"
    if report.zero:
        vectors = counted(report.zero, "vector", "vectors")
        yield f"  zero        {vectors}: found by keywords alone"
    if report.not_utf8:
        texts = counted(report.not_utf8, "document", "documents")
        yield f"  not UTF-8   {texts}, kept with U+FFFD: perhaps another encoding, or no text"
    yield f"  vectors     {_vectors(index)}"
    words = counted(index.manifest.words, "running word", "running words")
    yield f"  keywords    {index.configuration.language}, {words}"
    yield f"  weight      of the keyword leg: {_weight(index, report)}"


def _done(report: LoadReport) -> str:
    if report.read > report.resumed:
        told = f"{report.added:,} added in {report.seconds:,.1f} s"
        if report.added < RATED:
            return told
        return f"{told}, {report.added / max(report.seconds, 1e-9):,.0f} a second"
    if not report.resumed:
        return "nothing: there is no document"
    return "nothing: the same was indexed before, and is unchanged"


def _vectors(index: Index) -> str:
    held, codes = index.configuration, index.manifest.codes
    what = f"{held.dim} numbers, {held.dtype}, {held.metric}"
    if codes is None:
        return f"{what}; every one is compared"
    cells = f", {codes.probes} of {codes.lists} lists" if codes.lists > 1 else ""
    return (
        f"{what}; 4-bit codes, {codes.candidates} candidates compared exactly{cells}: "
        f"recall@10 {codes.recall:.3f} on {codes.queries} queries when they were built (wanted "
        f"{codes.recall_asked:g})"
    )


def _weight(index: Index, report: LoadReport) -> str:
    found = index.calibration
    if found is None:
        return f"{_fixed_weight(index)}, not calibrated" if report.added else "not calibrated"
    if found.judged:
        return f"{found.a:.2f}, tuned on {found.judged:,} judged queries"
    return f"{found.a:.2f}, an estimate from {found.sample:,} documents"


def _fixed_weight(index: Index) -> str:
    """What it is unless told; may open the model, which may be elsewhere."""
    try:
        knowledge = index.snapshot().knowledge
    except VocabtoolError:
        return f"{A_OF_WORDS}, or {A_OF_PIECES} for models of pieces"
    return str(Settings().weight(knowledge is not None and knowledge.subword))
