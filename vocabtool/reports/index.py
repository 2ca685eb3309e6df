"""What ``index`` and ``update`` tell at their end: what was done, and how it will be searched.

What ``embed`` shows: progress while it runs, and what was done at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vocabtool.errors import VocabtoolError
from vocabtool.reports.model import percent
from vocabtool.search.settings import A_OF_PIECES, A_OF_WORDS, Settings
from vocabtool.system.messages import plural
from vocabtool.vocabulary import encode, printable

if TYPE_CHECKING:
    from vocabtool.embedding.embed import EmbedReport, Progress
    from vocabtool.index.index import Index
    from vocabtool.index.load import LoadReport

CHANGES: Final = ("added", "updated", "unchanged", "removed")
RATED: Final = 100  # documents; the speed of fewer is that of starting


class Took(NamedTuple):
    """Seconds: of the whole command, and of these of calibrating."""

    seconds: float
    calibrating: float


def as_json(index: Index, report: LoadReport, took: Took) -> dict[str, Any]:
    """Ready for JSON."""
    manifest = index.manifest
    return {
        "folder": str(index.path),
        "documents": len(index),
        **asdict(report),
        "seconds": took.seconds,
        "seconds_loading": report.seconds,
        "seconds_calibrating": took.calibrating,
        "commit": manifest.commit,
        "approximate": None if manifest.codes is None else asdict(manifest.codes),
        "calibration": None if manifest.calibration is None else asdict(manifest.calibration),
    }


def lines(index: Index, report: LoadReport, took: Took) -> Iterator[str]:
    """For a person to read."""
    documents = plural(len(index), "document", "documents")
    yield f"{printable(encode(str(index.path)))}: {documents}"
    yield f"  done now    {_work_done(report, took)}"
    if report.read > report.resumed > 0:
        were = plural(report.resumed, "document was", "documents were")
        yield f"  gone on     {were} in already"
    if report.skipped:
        rows = plural(report.skipped, "row that is no document", "rows that are no documents")
        yield f"  skipped     {rows}"
    if report.left_out:
        values = plural(report.left_out, "value that is", "values that are")
        yield f"  left out    {values} not of the field's kind; their documents were added"
    if report.dropped:
        dropped = plural(report.dropped, "document", "documents")
        yield f"  dropped     {dropped} of an id that was there"
    if report.zero:
        vectors = plural(report.zero, "vector", "vectors")
        yield f"  zero        {vectors}: found by keywords alone"
    if report.not_utf8:
        texts = plural(report.not_utf8, "document", "documents")
        yield f"  not UTF-8   {texts}, kept with U+FFFD: perhaps another encoding, or no text"
    yield f"  vectors     {_vectors(index)}"
    words = plural(index.manifest.words, "running word", "running words")
    yield f"  keywords    {index.configuration.language}, {words}"
    yield f"  weight      of the keyword leg: {_weight(index)}"


def _work_done(report: LoadReport, took: Took) -> str:
    if report.read > report.resumed or report.removed:
        counts = {name: getattr(report, name) for name in CHANGES}
        some = [f"{count:,} {name}" for name, count in counts.items() if count] or ["0 added"]
        told = f"{', '.join(some)} in {took.seconds:,.1f} s"
        if took.calibrating:
            told += f", {took.calibrating:,.1f} s of them calibrating"
        if (new := report.added + report.updated) < RATED:
            return told
        return f"{told}; {new / max(report.seconds, 1e-9):,.0f} a second"
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


def _weight(index: Index) -> str:
    found = index.calibration
    if found is None:
        return f"{_fixed_weight(index)}, not calibrated"
    if found.judged:
        return f"{found.a:.2f}, tuned on {found.judged:,} judged queries"
    return f"{found.a:.2f}, an estimate from {found.sample:,} documents"


def _fixed_weight(index: Index) -> str:
    """What it is unless told; may open the model, which may be elsewhere."""
    try:
        knowledge = index.snapshot().known_words
    except VocabtoolError:
        return f"{A_OF_WORDS}, or {A_OF_PIECES} for models of pieces"
    return str(Settings().weight(knowledge is not None and knowledge.subword))


# What the report says of one, and of several.
RESUMED = ("shard was there already", "shards were there already")
REDONE = ("shard that was begun and lost", "shards that were begun and lost")
SKIPPED = ("row that is no document", "rows that are no documents")
DROPPED = ("document of an id that was there", "documents of an id that was there")
EMPTY = ("text of nothing but blanks", "texts of nothing but blanks")
ZERO = (
    "vector: the model knows no word of the text",
    "vectors: the model knows no word of the text",
)
NOT_UTF8 = (
    "document, stored with U+FFFD for such bytes",
    "documents, stored with U+FFFD for such bytes",
)
CACHED = ("vector that was not made again", "vectors that were not made again")


def progress_line(progress: Progress) -> str:
    """``12,288 documents, 3,100/s, 2 min left, 4.1% of words unknown, 17% from the cache``."""
    counts = progress.counts
    parts = [plural(counts.documents, "document", "documents"), f"{progress.rate:,.0f}/s"]
    if progress.remaining is not None:
        parts.append(f"{_duration(progress.remaining)} left")
    if counts.tokens:
        parts.append(f"{counts.tokens_unknown / counts.tokens:.1%} of words unknown")
    if progress.hits:
        parts.append(f"{progress.hits / counts.documents:.0%} from the cache")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def embed_lines(report: EmbedReport) -> Iterator[str]:
    """What was done, what was left out, and what the vectors do not show."""
    counts = report.counts
    documents = plural(counts.documents, "document", "documents")
    shards = plural(report.shards, "shard", "shards")
    yield f"{Path(report.folder)}: {documents} in {shards}"
    yield f"  done now    {_done_now(report)}"
    for name, count, (one, more) in (
        ("gone on", report.resumed, RESUMED),
        ("redone", report.redone, REDONE),
        ("skipped", report.skipped, SKIPPED),
        ("dropped", report.dropped, DROPPED),
        ("empty", counts.empty, EMPTY),
        ("zero", counts.zero, ZERO),
        ("not UTF-8", counts.not_utf8, NOT_UTF8),
        ("cached", report.hits, CACHED),
    ):
        if count:
            yield f"  {name:<11} {plural(count, one, more)}"
    if counts.tokens:
        share = percent(counts.tokens_unknown / counts.tokens)
        words = plural(counts.tokens, "word", "words")
        yield f"  unknown     {counts.tokens_unknown:,} of {words} ({share})"


def _done_now(report: EmbedReport) -> str:
    if report.encoded:
        documents = plural(report.encoded, "document", "documents")
        return f"{documents} in {report.seconds:,.1f} s, {report.rate:,.0f} a second"
    return "nothing: all of it was there"
