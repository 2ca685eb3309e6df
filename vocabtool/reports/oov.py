"""Reports on unknown words, which ``oov`` prints and :func:`save_report` writes.

``docs/reference/formats.md`` lists the keys of JSON and the columns of CSV and Parquet.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from vocabtool.oov.lookalikes import COMMONEST, Kind, clip, find_word
from vocabtool.oov.report import MOST_PIECES, CutOff, CutWord, OovReport, UnknownWord
from vocabtool.oov.report import Figure as FigureName
from vocabtool.oov.split_words import SplitWord, SplitWords
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
from vocabtool.reports.suggestions import suggestion_data, suggestion_section
from vocabtool.system.messages import plural
from vocabtool.vocabulary import is_utf8, printable

KINDS: Final[dict[Kind, str]] = {
    "random": "base64, hash or other random string",
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
    "distinct_split": "distinct split words",
    "count": "counts of words first seen late",
    "documents": "document counts of words first seen late",
    "curve": "the coverage curve",
}
JSON_WORDS: Final = 1_000  # unknown words
TERMINAL_WORDS: Final = 25
PAGE_WORDS: Final = 40
SPLIT_WORDS: Final = 50  # of a page; half as many on a terminal
RANDOM_WORDS: Final = 5
LANGUAGES: Final = 25
TERMINAL_POINTS: Final = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
NEVER_USED: Final = 5  # entries
EXAMPLE_BYTES: Final = 50
SPLIT_EXAMPLE_BYTES: Final = 24
CHUNK: Final = 1 << 14
CUT_NAMES: Final = [field.name for field in fields(CutWord)]
NAMES: Final = ("word", "count", "documents", "error", "kind", "like", "example")
TYPES: Final[tuple[Type, ...]] = (
    *("entry", "integer", "integer", "integer", "text", "escaped", "escaped"),
)
SPLIT_NAMES: Final = (
    *("word", "pieces", "count", "documents", "error", "cost", "known", "kind", "parts", "example"),
    "cut",
)
SPLIT_TYPES: Final[tuple[Type, ...]] = (
    *("entry", "integer", "integer", "integer", "integer", "integer", "flag", "text"),
    *("escaped", "escaped", "flag"),
)
CUT_WORDS: Final = 20  # of a terminal; twice as many on a page


def save_report(
    report: OovReport,
    path: str | Path,
    format: ReportFormat | None = None,  # noqa: A002 - as the option is called
) -> None:
    """Write the report to a file, atomically.

    ``format``: by default, the format of the file's ending, or ``table`` for other endings.
    ``json`` and ``html`` contain all figures and the most frequent unknown words. ``csv`` and
    ``parquet`` contain a row for each unknown word, and for a subword model also a row for each
    split word. Raises :class:`NotFound` if the file's folder does not exist.
    """
    renderers.save(oov_report(report), path, format)


def oov_report(report: OovReport) -> Report:
    return Report(
        title=f"What {short_name(report.header.model) or 'the model'} does not know",
        subtitle=report.header.model,
        sections=partial(_sections, report),
        data=partial(_data, report),
        rows=[_rows(report)],
    )


def _rows(report: OovReport) -> Rows:
    names: tuple[str, ...] = (*NAMES, "cut") if report.split is None else SPLIT_NAMES
    types: tuple[Type, ...] = (*TYPES, "flag") if report.split is None else SPLIT_TYPES
    if report.cut is None:
        names, types = names[:-1], types[:-1]
    return Rows(names, partial(_chunks, report, names), types)


def oov_html(report: OovReport) -> str:
    """Return a short report for notebooks: the rates, and the most frequent unknown words."""
    return renderers.render_summary(oov_report(report))


def _chunks(report: OovReport, names: tuple[str, ...]) -> Iterator[list[tuple[Any, ...]]]:
    rows: Iterator[tuple[Any, ...]]
    if report.split is None:
        rows = map(attrgetter(*names), report.commonest())
    else:
        rows = (
            tuple(
                b" ".join(word.parts) if name == "parts" else getattr(word, name) for name in names
            )
            for word in report.split.words()
        )
    while some := list(islice(rows, CHUNK)):
        yield some


def _data(report: OovReport) -> dict[str, Any]:
    header, pieces = report.header, report.pieces
    words = [_word_data(word, NAMES) for word in report.commonest(JSON_WORDS)]

    def rate(every: int, unknown: int, share: float) -> dict[str, Any]:
        return {"all": every, "unknown": unknown, "unknown_rate": share}

    data = {
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
    if report.suggested is not None:
        data["suggested"] = suggestion_data(report.suggested)
    if report.split is not None:
        data |= _split_data(report, report.split)
    return data if report.cut is None else data | {"cut": _cut_data(report, report.cut)}


def _word_data(word: UnknownWord | SplitWord | CutWord, names: Iterable[str]) -> dict[str, Any]:
    values = {name: getattr(word, name) for name in names}
    for name, value in values.items():
        if isinstance(value, bytes):
            values[name] = as_text(value)
        elif name == "parts":
            values[name] = [as_text(part) for part in value]
    return values if is_utf8(word.word) else values | {"base64": b64encode(word.word).decode()}


def _cut_data(report: OovReport, cut: CutOff) -> dict[str, Any]:
    return {
        "limit": {
            "tokens": cut.limit.places,
            "special": cut.limit.special,
            "cuts_start": cut.limit.cuts_start,
            "source": cut.limit.source,
        },
        "documents": {
            "cut": cut.documents,
            "all": report.documents,
            "cut_rate": report.cut_document_rate,
        },
        "tokens": {"cut": cut.tokens, "all": cut.all_tokens, "cut_rate": report.cut_rate},
        "words": [_word_data(word, CUT_NAMES) for word in report.cut_words(JSON_WORDS)],
        "words_in_all": cut.words,
    }


def _split_data(report: OovReport, split: SplitWords) -> dict[str, Any]:
    names = _rows(report).names

    def word_list(start: int, number: int) -> list[dict[str, Any]]:
        words = split.words(start, min(number, JSON_WORDS))
        return [_word_data(word, names) for word in words]

    words = word_list(0, split.listed)
    return {
        "split_words": words,
        "split_words_listed": len(words),
        "split_words_in_all": split.distinct,
        "random_words": word_list(split.listed, split.random),
        "split": {
            "rates": dict(_split_rates(report)),
            "documents": {
                "all": report.documents,
                "split3": split.documents_split3,
                "split3_rate": report.document_rate_split3,
            },
            "kinds": [kind._asdict() for kind in split.kinds],
            "languages": [
                language._asdict() | {"pieces_per_token": language.fertility}
                for language in split.languages
            ],
        },
    }


def _split_rates(report: OovReport) -> Iterator[tuple[str, float]]:
    """Yield four shares of tokens: with 2 pieces, with 3, with 4 or more, and with 3 or more."""
    two, three, four = (report.split_rate(pieces) for pieces in (2, 3, 4))
    yield from (("2", two - three), ("3", three - four), ("4+", four), ("3+", three))


# For people.


def _sections(report: OovReport, page: bool) -> Iterator[Section]:
    facts = Section("What was counted, and how", [Facts(_facts(report))])
    coverage = Section("How much the commonest words cover", _coverage(report, page))
    words = Section("The commonest unknown words", [_words(report, page)])
    rates = Section("", [_rates(report, page)])
    split = [] if report.split is None else [*_split_sections(report, report.split, page)]
    if report.cut is not None:
        split += [Section("Longer than the model reads", _cut_off(report, report.cut, page))]
    if report.suggested is not None:
        split.append(suggestion_section(report.suggested, page))
    yield from (rates, *split, coverage, words) if page else (facts, rates, *split, words)
    if report.kinds:
        yield Section("What they look like", _kinds(report, page))
    yield facts if page else coverage
    yield Section("", [Notes(_notes(report, page))])
    for other in report.others:  # counted separately; without plots
        if page:
            blocks = [_rates(other, page), _words(other, page)]
            yield Section(f"Separate table: {other.header.vocabulary}", blocks)
        else:
            yield from _sections(other, page)


def _facts(report: OovReport) -> Iterator[tuple[str, str]]:
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
        if not page:
            example = _around(word.example, word.word, EXAMPLE_BYTES)
        rows.append((word.word, count(word.count), count(word.documents), like, example))
    return Table(columns, rows, bars="count", small=["example"])


def _around(example: bytes, word: bytes, width: int) -> str:
    line = example.strip()
    middle = max(find_word(line, word), 0) + len(word) // 2
    return printable(clip(line, 0, len(line), middle, width))


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
    shown = [KINDS[kind] for kind in KINDS if kind != "random" or report.split is not None]
    words = "unknown word" if count == 1 else f"{count:,} commonest unknown words"
    yield Paragraph(
        f"The bars count the tokens of the {words} ({tokens}). A word counts as the first kind "
        f"that fits: {', '.join(shown)}.",
        small=True,
    )


def _split_sections(report: OovReport, split: SplitWords, page: bool) -> Iterator[Section]:
    """Yield the sections about a subword model: figures, split words, kinds, and languages."""
    yield Section("Words in pieces", _pieces(report, split, page))
    number = SPLIT_WORDS if page else SPLIT_WORDS // 2
    title = "The split words, by the pieces that they cost"
    blocks: list[Block] = [_split_words(split.words(0, min(number, split.listed)), page)]
    if split.listed > number:
        told = f"These are {number:,} of {split.listed:,} split words. cost: count x (pieces - 1)."
        blocks.append(Paragraph(told, small=True))
    yield Section(title, blocks)
    mean = Column("pieces per token", "mean")
    if split.kinds:
        first = Column("kind" if page else "what split words look like")
        kinds = [(KINDS[each.kind], *each[1:3], each.pieces / each.tokens) for each in split.kinds]
        table = Table((first, *map(_count, ("words", "tokens")), mean), kinds)
        blocks = [table]
        if split.listed > COMMONEST:
            told = f"Only the first {COMMONEST:,} split words are classified."
            blocks.append(Paragraph(told, small=True))
        yield Section("What split words look like", blocks)
    if split.random:
        some = split.words(split.listed, min(split.random, RANDOM_WORDS))
        yield Section("Random strings", [_split_words(some, page, "random string")])
    columns = (
        *(Column("language or script"), _count("documents"), _count("tokens")),
        *(mean, Column("in 3 or more pieces", "percent")),
    )
    languages = [
        (each.name, *each[1:3], each.fertility, each.tokens_split3 / max(each.tokens, 1))
        for each in split.languages[:LANGUAGES]
    ]
    yield Section("What texts cost", [Table(columns, languages)])


def _pieces(report: OovReport, split: SplitWords, page: bool) -> Iterator[Block]:
    rates = [
        ("distinct words that are split", split.distinct / max(report.distinct, 1)),
        *((f"tokens in words of {name} pieces", rate) for name, rate in _split_rates(report)),
        ("documents with a word of 3+ pieces", report.document_rate_split3),
    ]
    shown = [("pieces per token", report.fertility, f"{report.fertility:.2f}")]
    shown += [(name, rate, percent(rate)) for name, rate in rates]
    if not page:
        yield Facts([(name, text) for name, _, text in shown])
        return
    yield Figures([Figure(name, Exact(name, value, text), ()) for name, value, text in shown])
    if report.pieces is not None:
        pieces = report.pieces
        yield Plot(lambda: plots.pieces(pieces))
        if len(pieces.histogram) > MOST_PIECES:
            text = f"The last bar counts words of {MOST_PIECES} pieces or more."
            yield Paragraph(text, small=True)


def _split_words(words: Iterable[SplitWord], page: bool, name: str = "split word") -> Table:
    rows = []
    for word in words:
        count = Estimate if word.error > 0 else int
        cost = count(word.cost)
        row = (word.word, count(word.count), count(word.documents), word.pieces, cost)
        parts = b" ".join(word.parts)
        kind = KINDS[word.kind] if word.kind not in (None, "other") else ""
        example = word.example if page else _around(word.example, word.word, SPLIT_EXAMPLE_BYTES)
        rows.append((*row, parts, *[kind] * page, example))
    columns = (
        Column(name),
        *map(_count, ("count", "documents", "pieces", "cost")),
        Column("split into"),
    )
    columns += (*[Column("looks like")] * page, Column("example"))
    small = [column.name for column in columns[5:]]
    return Table(columns, rows, bars="cost", small=small)


def _cut_off(report: OovReport, cut: CutOff, page: bool) -> Iterator[Block]:
    limit = cut.limit
    side = ", the start of a longer text is cut off" if limit.cuts_start else ""
    special = f" and {plural(limit.special, 'special one', 'special ones')}" * (limit.special > 0)
    unit = "token" if report.split is None else "piece"
    stated = f"{plural(limit.tokens, unit, f'{unit}s')}{special}{side} ({limit.source})"
    rows = (
        ("documents", cut.documents, report.documents, report.cut_document_rate),
        (f"{unit}s", cut.tokens, cut.all_tokens, report.cut_rate),
    )
    yield Facts([("the model reads", stated)])
    counted = (Column(), _count("cut off"), _count("of"), Column("rate", "percent"))
    yield Table(counted, rows)
    if not cut.words:
        return
    columns = (
        *(Column("only in the cut-off part"), _count("count"), _count("documents")),
        *(Column("looks like"), Column("example")),
    )
    words = []
    for word in report.cut_words(CUT_WORDS * (1 + page)):
        example = word.example if page else _around(word.example, word.word, EXAMPLE_BYTES)
        kind = KINDS[word.kind] if word.kind else ""
        words.append((word.word, word.count, word.documents, kind, example))
    yield Table(columns, words, bars="count", small=["example"])
    if cut.words > len(words):
        yield Paragraph(f"These are {len(words):,} of {cut.words:,} such words.", small=True)


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
        sure = "at most" if bound.certain else "at most (99.7% of the time)"
        yield f"estimated: {FIGURES[bound.figure]}, off by {by} {sure}"
    yield from report.notes
