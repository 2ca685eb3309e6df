"""What ``embed`` shows: progress while it runs, and what was done at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vocabtool.reports.model import percent
from vocabtool.system.messages import plural

if TYPE_CHECKING:
    from vocabtool.embedding.report import EmbedReport, Progress

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
