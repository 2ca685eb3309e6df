"""Reports on unknown words, which ``oov`` prints and :func:`save_report` writes.

JSON: ``model``, ``vocabulary`` (``name``, ``size``, ``used``, ``never_used``), ``rule`` (``steps``,
``fingerprint``), ``sources``; ``documents``, ``tokens``, ``distinct_words`` (each ``all``,
``unknown``, ``unknown_rate``); ``unknown_words`` (``word``, ``count``, ``documents``, ``error``,
``kind``, ``like``, ``example``, and ``base64`` if the word is not UTF-8) with
``unknown_words_listed`` and ``unknown_words_in_all``; ``kinds``, ``coverage``, ``pieces``;
``estimated`` (``figure``, ``off_by``, ``certain``), ``notes``, ``others`` (reports like this one).
Rates and shares are from 0 to 1. CSV and Parquet have a row for each unknown word.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from vocabtool.oov.lookalikes import Kind, clip, find_word
from vocabtool.oov.report import MOST_PIECES, OovReport, Pieces
from vocabtool.oov.report import Figure as FigureName
from vocabtool.reports import plots, renderers
from vocabtool.reports.model import (
    Block,
    Cell,
    Column,
    Estimate,
    Exact,
    Facts,
    Figure,
    Figures,
    Notes,
    Paragraph,
    Plot,
    Report,
    Rows,
    Section,
    Table,
    Type,
    as_text,
    clip_entry,
    number,
    percent,
    short,
    short_name,
)
from vocabtool.reports.renderers import Format as ReportFormat
from vocabtool.system.messages import plural
from vocabtool.vocabulary import is_utf8, printable

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
FIGURES: Final[dict[FigureName, str]] = {
    "distinct": "distinct words",
    "distinct_unknown": "distinct unknown words",
    "count": "counts of words first seen late",
    "documents": "document counts of words first seen late",
    "curve": "the coverage curve",
}
JSON_WORDS: Final = 1_000  # unknown words
TERMINAL_WORDS: Final = 25
PAGE_WORDS: Final = 40
TERMINAL_POINTS: Final = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
NEVER_USED: Final = 5  # entries
EXAMPLE_BYTES: Final = 50
CHUNK: Final = 1 << 14
NAMES: Final = ("word", "count", "documents", "error", "kind", "like", "example")
TYPES: Final[tuple[Type, ...]] = (
    *("entry", "integer", "integer", "integer", "text", "escaped", "escaped"),
)


def save_report(
    report: OovReport,
    path: str | Path,
    format: ReportFormat | None = None,  # noqa: A002 - as the option is called
) -> None:
    """Write the report to a file, atomically.

    ``format``: by default, the ending of the file decides, else it is ``table``. ``json`` and
    ``html`` contain all figures and the most frequent unknown words. ``csv`` and ``parquet``
    contain a row for each unknown word. Raises :class:`NotFound` if the file's folder does not
    exist.
    """
    renderers.save(oov_report(report), path, format)


def oov_report(report: OovReport) -> Report:
    """Build the report: sections, figures and lists."""
    return Report(
        title=f"What {short_name(report.header.model) or 'the model'} does not know",
        subtitle=report.header.model,
        sections=partial(_sections, report),
        data=partial(_data, report),
        rows=[Rows(NAMES, partial(_chunks, report), TYPES)],
    )


def oov_html(report: OovReport) -> str:
    """Return a short report for notebooks: the rates, and the most frequent unknown words."""
    return renderers.render_summary(oov_report(report))


def _chunks(report: OovReport) -> Iterator[list[tuple[Any, ...]]]:
    words = report.commonest()
    while some := list(islice(words, CHUNK)):
        yield [(w.word, w.count, w.documents, w.error, w.kind, w.like, w.example) for w in some]


def _data(report: OovReport) -> dict[str, Any]:
    header, pieces = report.header, report.pieces
    words: list[dict[str, Any]] = []
    for word in report.commonest(JSON_WORDS):
        like = None if word.like is None else as_text(word.like)
        values = (word.count, word.documents, word.error, word.kind, like, as_text(word.example))
        words.append(dict(zip(NAMES, (as_text(word.word), *values), strict=True)))
        if not is_utf8(word.word):
            words[-1]["base64"] = b64encode(word.word).decode()

    def rate(every: int, unknown: int, share: float) -> dict[str, Any]:
        return {"all": every, "unknown": unknown, "unknown_rate": share}

    return {
        "model": header.model,
        "vocabulary": {
            "name": header.vocabulary,
            "size": header.vocabulary_size,
            "used": report.used,
            "never_used": [printable(entry) for entry in report.never_used],
        },
        "rule": {"steps": list(header.rule), "fingerprint": header.fingerprint},
        "sources": list(header.sources),
        "documents": rate(report.documents, report.documents_unknown, report.document_rate),
        "tokens": rate(report.tokens, report.tokens_unknown, report.token_rate),
        "distinct_words": rate(report.distinct, report.distinct_unknown, report.distinct_rate),
        "unknown_words": words,
        "unknown_words_listed": len(words),
        "unknown_words_in_all": report.distinct_unknown,
        "kinds": [kind._asdict() for kind in report.kinds],
        "coverage": [point._asdict() for point in report.curve],
        "pieces": None
        if pieces is None
        else {
            "per_token": pieces.mean,
            "histogram": list(pieces.histogram),
            "most": [
                {"word": printable(each.word), "pieces": each.pieces, "count": each.count}
                for each in pieces.most
            ],
        },
        "estimated": [bound._asdict() for bound in report.estimated],
        "notes": list(report.notes),
        "others": [_data(other) for other in report.others],
    }


# For people.


def _sections(report: OovReport, page: bool) -> Iterator[Section]:
    facts = Section("What was counted, and how", [Facts(_facts(report))])
    coverage = Section("How much the commonest words cover", _coverage(report, page))
    words = Section("The commonest unknown words", [_words(report, page)])
    rates = Section("", [_rates(report, page)])
    yield from (rates, coverage, words) if page else (facts, rates, words)
    if report.kinds:
        yield Section("What they look like", _kinds(report, page))
    if report.pieces is not None:
        yield Section("Words in pieces", _pieces(report.pieces, page))
    yield facts if page else coverage
    yield Section("", [Notes(_notes(report, page))])
    for other in report.others:  # counted separately; without plots
        if page:
            blocks = [_rates(other, page), _words(other, page)]
            yield Section(f"Separate table: {other.header.vocabulary}", blocks)
        else:
            yield from _sections(other, page)


def _facts(report: OovReport) -> Iterator[tuple[str, str]]:
    """Yield the model, the vocabulary and the corpus of a report, and each step of the rule."""
    header = report.header
    yield "model", header.model
    entries = plural(header.vocabulary_size, "entry", "entries")
    yield "vocabulary", f"{header.vocabulary}: {entries}"
    for place, step in enumerate(header.rule):
        yield "rule" if place == 0 else "", step
    if header.fingerprint:
        yield "rule's fingerprint", header.fingerprint
    for place, source in enumerate(header.sources):
        yield "documents" if place == 0 else "", source


def _rates(report: OovReport, page: bool) -> Block:
    """Show how many tokens, distinct words and documents are unknown, or contain unknown words."""
    about = Estimate if report.estimate("distinct") is not None else int
    unknown, distinct = about(report.distinct_unknown), about(report.distinct)
    rows = (
        ("tokens", report.tokens_unknown, report.tokens, report.token_rate),
        ("distinct words", unknown, distinct, report.distinct_rate),
        ("documents", report.documents_unknown, report.documents, report.document_rate),
    )
    if not page:
        columns = (Column(), _count("unknown"), _count("of"), Column("rate", "percent"))
        return Table(columns, rows)
    figures = []
    for name, missed, every, share in rows:
        some = Exact(f"{name} unknown", missed, number(missed, "count"))
        below = (some, " of ", Exact(f"{name} all", every, number(every, "count")))
        rate = Exact(f"{name} rate", share, percent(share))
        figures.append(Figure(f"unknown {name}", rate, below))
    return Figures(figures)


def _count(name: str) -> Column:
    return Column(name, "count")


def _words(report: OovReport, page: bool) -> Table:
    columns = (
        Column("unknown word"),
        *(_count("count"), _count("documents")),
        *(Column("looks like"), Column("example")),
    )
    rows = []
    for word in report.commonest(PAGE_WORDS if page else TERMINAL_WORDS):
        count = Estimate if word.error > 0 else int
        like: Cell = KINDS[word.kind] if word.kind else ""
        if word.like is not None:
            like = ("form of " if word.kind == "form" else "near ", word.like)
        example: Cell = word.example
        if not page:  # the part of the example around the word
            line = word.example.strip()
            middle = max(find_word(line, word.word), 0) + len(word.word) // 2
            example = printable(clip(line, 0, len(line), middle, EXAMPLE_BYTES))
        rows.append((word.word, count(word.count), count(word.documents), like, example))
    return Table(columns, rows, bars="count", small="example")


def _kinds(report: OovReport, page: bool) -> Iterator[Block]:
    if not page:
        columns = (Column("what unknown words look like"), _count("words"), _count("tokens"))
        yield Table(columns, [(KINDS[kind], *counts) for kind, *counts in report.kinds])
        return
    yield Plot(
        lambda: plots.bars("kinds", [(KINDS[each.kind], each.tokens) for each in report.kinds])
    )
    tokens = plural(sum(share.tokens for share in report.kinds), "token", "tokens")
    count = report.classified
    words = "unknown word" if count == 1 else f"{count:,} commonest unknown words"
    yield Paragraph(
        f"Tokens, of the {words} ({tokens}). Each word is counted once, as the first kind that "
        "fits: "
        f"{', '.join(KINDS.values())}.",
        small=True,
    )


def _pieces(pieces: Pieces, page: bool) -> Iterator[Block]:
    yield Paragraph(f"{pieces.mean:.2f} pieces per token{'.' * page}")
    if page:
        yield Plot(lambda: plots.pieces(pieces))
        if len(pieces.histogram) > MOST_PIECES:
            yield Paragraph(
                f"The last bar counts words of {MOST_PIECES} pieces or more.", small=True
            )
    columns = (Column("split most"), _count("pieces"), _count("count"))
    yield Table(columns, [(each.word, each.pieces, each.count) for each in pieces.most])


def _coverage(report: OovReport, page: bool) -> Iterator[Block]:
    curve = report.curve
    if not curve:
        return
    if not page:
        some = [point for point in curve[:-1] if point.words in TERMINAL_POINTS] + [curve[-1]]
        percents = (Column("covered", "percent"), Column("known", "percent"))
        yield Table((Column("commonest"), *percents), [(f"{p.words:,}", *p[1:]) for p in some])
        return
    yield Plot(lambda: plots.coverage(curve))
    remark = "The gap between the lines is what the model does not know."
    if plots.is_one_line(curve):
        unknown = percent(report.token_rate)
        remark = f"The lines coincide: the model does not know {unknown} of the tokens."
    yield Paragraph(remark, small=True)


def _notes(report: OovReport, page: bool) -> Iterator[str]:
    """Yield sentences about unused entries and error bounds, and the notes of the report."""
    if report.used is not None:
        size = report.header.vocabulary_size
        never = size - report.used
        sentence = f"{never:,} of {size:,} entries {'was' if never == 1 else 'were'} never used"
        entries = report.never_used if page else report.never_used[:NEVER_USED]
        if entries:
            shown = [short(clip_entry(entry), 200 if page else 24) for entry in entries]
            more = ["…"] * (len(report.never_used) > len(entries))
            sentence += f": {' '.join((*shown, *more))}"
        yield sentence
    for bound in report.estimated:
        by = percent(bound.off_by) if bound.figure == "curve" else f"{bound.off_by:,.0f}"
        sure = "at most" if bound.certain else "at most (99.7 % of the time)"
        yield f"estimated: {FIGURES[bound.figure]}, off by {by} {sure}"
    yield from report.notes
