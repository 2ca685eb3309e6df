"""What a report says in words and numbers: the same on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from vocabtool.oov.lookalikes import Kind
from vocabtool.oov.report import Estimate, Figure, Header, OovReport
from vocabtool.oov.word_examples import clipped

KINDS: Final[dict[Kind, str]] = {
    "form": "known in another case or Unicode form",
    "number": "number",
    "code": "identifier or code",
    "script": "another script",
    "misspelling": "one edit from a known word",
    "name": "capitalised",
    "symbol": "punctuation or symbol",
    "other": "other",
}
FIGURES: Final[dict[Figure, str]] = {
    "distinct": "distinct words",
    "distinct_unknown": "distinct unknown words",
    "count": "counts of words that came late",
    "documents": "document counts of words that came late",
    "curve": "the coverage curve",
}
MOST_SHOWN: Final = 200  # bytes of a word that a person is shown; a word may be a whole file


class Rate(NamedTuple):
    """A line of the summary: so many of so many. ``about``: at least one is an estimate."""

    what: str
    unknown: int
    of: int
    share: float
    about: bool = False


def rates(report: OovReport) -> tuple[Rate, ...]:
    """How much is unknown, counted in three ways."""
    about = report.estimate("distinct") is not None
    return (
        Rate("tokens", report.tokens_unknown, report.tokens, report.token_rate),
        Rate("distinct words", *_distinct(report), about),
        Rate("documents", report.documents_unknown, report.documents, report.document_rate),
    )


def _distinct(report: OovReport) -> tuple[int, int, float]:
    return report.distinct_unknown, report.distinct, report.distinct_rate


def percent(share: float) -> str:
    """A share of 1 as percent; never 0 or 100 where it is not."""
    shown = f"{100 * share:.2f}%"
    if shown == "0.00%" and share > 0:
        return "<0.01%"
    return ">99.99%" if shown == "100.00%" and share < 1 else shown


def beginning(word: bytes) -> bytes:
    """A word or an example as far as it is shown, with a sign where it goes on."""
    return clipped(word, 0, len(word), 0, MOST_SHOWN)


def described(header: Header) -> Iterator[tuple[str, str]]:
    """What the report is on; the rule a step a line."""
    yield "model", header.model
    entries = "entry" if header.vocabulary_size == 1 else "entries"
    yield "vocabulary", f"{header.vocabulary}: {header.vocabulary_size:,} {entries}"
    for number, step in enumerate(header.rule):
        yield "rule" if number == 0 else "", step
    if header.fingerprint:
        yield "rule's fingerprint", header.fingerprint
    for number, source in enumerate(header.sources):
        yield "documents" if number == 0 else "", source


def remarks(report: OovReport) -> Iterator[str]:
    """Entries never used, error bounds and notes, a sentence each."""
    if report.used is not None:
        never = report.header.vocabulary_size - report.used
        were = "was" if never == 1 else "were"
        yield f"{never:,} of {report.header.vocabulary_size:,} entries {were} never used"
    yield from map(_bound, report.estimated)
    yield from report.notes


def _bound(estimate: Estimate) -> str:
    off = estimate.off_by
    by = percent(off) if estimate.figure == "curve" else f"{off:,.0f}"
    sure = "at most" if estimate.certain else "at most (99.7 of 100 times)"
    return f"estimated: {FIGURES[estimate.figure]}, off by {by} {sure}"
