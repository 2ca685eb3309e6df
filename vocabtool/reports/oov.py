"""Reports on unknown words, which ``oov`` prints and :func:`save_report` writes.

``docs/reference/formats.md`` lists the keys of JSON and the columns of CSV and Parquet.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from vocabtool.oov.counter import clip, find_word
from vocabtool.oov.report import (
    COMMONEST,
    UNKNOWN_COLUMNS,
    CountedWord,
    CutOff,
    OovReport,
    SplitWords,
    Suggestions,
    read_words,
)
from vocabtool.oov.report import Kind as WordKind
from vocabtool.reports.report import (
    Cell,
    Column,
    Kind,
    Report,
    Section,
    Table,
    arrow_rows,
    as_text,
    clip_entry,
    counts,
    facts,
    save,
    short_names,
)
from vocabtool.reports.report import Format as ReportFormat
from vocabtool.system.messages import percent, plural
from vocabtool.tokenization.token_limit import cut_note
from vocabtool.vocabulary import encode, is_utf8, printable, short

KINDS: Final[dict[WordKind, str]] = {
    "random": "base64, hash or other random string",
    "form": "known in another case or Unicode form",
    "number": "number",
    "code": "identifier or code",
    "script": "another script",
    "misspelling": "near a known word",
    "name": "capitalised",
    "emoji": "emoji",
    "symbol": "punctuation or symbol",
    "other": "other",
}
JSON_WORDS: Final = 1_000  # of each list
SHOWN_WORDS: Final = 25  # of each list
RANDOM_WORDS: Final = 5
LEAST_SHARE: Final = 0.01  # of the documents; for fewer, common words often name a wrong language
PER_TOKEN: Final = Column("pieces per token", "mean")
POINTS: Final = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
NEVER_USED: Final = 5  # entries
EXAMPLE_BYTES: Final = 50
SPLIT_EXAMPLE_BYTES: Final = 24
FORMATS: Final[dict[str, Kind]] = {
    **{"word": "entry", "pieces": "integer", "count": "integer", "documents": "integer"},
    **{"cost": "integer", "known": "flag", "kind": "text", "like": "escaped", "parts": "escaped"},
    **{"example": "escaped", "cut": "flag"},
}


def save_report(
    report: OovReport,
    path: str | Path,
    format: ReportFormat | None = None,  # noqa: A002 - as the option is called
) -> None:
    """Write the report to a file, atomically.

    ``format``: by default, the format of the file's ending, or ``table`` for other endings.
    ``json`` contains all figures and the most frequent unknown words, ``table`` and ``html`` fewer
    words. ``csv`` and ``parquet`` contain a row for each unknown word, and for a subword model also
    a row for each split word. Raises :class:`NotFound` if the file's folder does not exist.
    """
    save(oov_report(report), path, format)


def oov_report(report: OovReport) -> Report:
    columns = [Column(name, FORMATS[name]) for name in report.columns]
    return Report(
        title=f"What {short_names(report.header.model)[0] or 'the model'} does not know",
        subtitle=report.header.model,
        sections=partial(_sections, report),
        data=partial(_data, report),
        lists=lambda: [Table(columns, arrow_rows(report.table()))],
    )


def oov_html(report: OovReport) -> str:
    return oov_report(report).summary()


# For programs.


def _data(report: OovReport) -> dict[str, Any]:
    header = report.header
    words = _word_data(report.commonest(JSON_WORDS), UNKNOWN_COLUMNS)

    def rate(count: int, unknown: int, share: float) -> dict[str, Any]:
        return {"all": count, "unknown": unknown, "unknown_rate": share}

    data: dict[str, Any] = {
        "verdict": report.verdict._asdict(),
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
        "full": report.full,
        "unknown_words": words,
        "unknown_words_listed": len(words),
        "unknown_words_in_all": report.distinct_unknown,
        "kinds": [
            {"kind": kind.kind, "words": kind.words, "tokens": kind.tokens} for kind in report.kinds
        ],
        "coverage": [point._asdict() for point in report.curve],
        "pieces": None,
        "notes": list(report.notes),
        "others": [_data(other) for other in report.others],
    }
    if report.suggested is not None:
        data["suggested"] = asdict(report.suggested)
        del data["suggested"]["notes"]  # they are among the notes of the report
    if report.split is not None:
        data |= _split_data(report, report.split)
    if report.cut is not None:
        data["cut"] = _cut_data(report, report.cut)
    return data


def _split_data(report: OovReport, split: SplitWords) -> dict[str, Any]:
    """Return the members of the JSON object that only a report on a subword model has."""
    words = split.words(0, min(split.listed, JSON_WORDS))
    random = split.words(split.listed, min(split.random, JSON_WORDS))
    return {
        "pieces": {"per_token": report.fertility, "histogram": list(split.histogram)},
        "split_words": _word_data(words, report.columns),
        "split_words_listed": len(words),
        "split_words_in_all": split.listed + split.random,
        "random_words": _word_data(random, report.columns),
        "split": {
            "rates": dict(_split_rates(report)),
            "documents_split3": split.documents_split3,
            "kinds": [kind._asdict() for kind in split.kinds],
            "languages": [language._asdict() for language in split.languages],
        },
    }


def _cut_data(report: OovReport, cut: CutOff) -> dict[str, Any]:
    words, limit = report.cut_words(), cut.limit
    names = ["word", "count", "documents", "known", "kind", "example"]
    return {
        "limit": {
            "tokens": limit.places,
            "special": limit.special,
            "cuts_start": limit.cuts_start,
            "source": limit.source,
        },
        "documents": cut.documents,
        "tokens": cut.tokens,
        "all_tokens": cut.all_tokens,
        "cut_rate": report.cut_rate,
        "words": _word_data(words[:JSON_WORDS], names),
        "words_in_all": len(words),
    }


def _word_data(words: Iterable[CountedWord], names: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    for word in words:
        row = {name: getattr(word, name) for name in names}
        for name, value in row.items():
            if isinstance(value, str):
                row[name] = as_text(encode(value))
            elif name == "parts":
                row[name] = [as_text(encode(piece)) for piece in value]
        if not is_utf8(word.word_bytes):
            row["base64"] = b64encode(word.word_bytes).decode()
        rows.append(row)
    return rows


def _split_rates(report: OovReport) -> Iterator[tuple[str, float]]:
    """Yield four shares of tokens: with 2 pieces, with 3, with 4 or more, and with 3 or more."""
    two_or_more, three_or_more, four_or_more = map(report.split_rate, (2, 3, 4))
    yield "2", two_or_more - three_or_more
    yield "3", three_or_more - four_or_more
    yield "4+", four_or_more
    yield "3+", three_or_more


# For people.


def _sections(report: OovReport) -> Iterator[Section]:
    yield Section(text=[sentence for sentence in report.verdict[:3] if sentence], prose=True)
    if report.split is not None:
        yield from _split_sections(report.split)
    yield from _unknown_sections(report)
    if report.suggested is not None:
        yield _suggestions(report.suggested)
    yield Section("Notes", notes=report.notes)
    for section in _details(report):
        yield replace(section, detail=True)


def _unknown_sections(report: OovReport) -> Iterator[Section]:
    """Yield the commonest unknown words without symbols and random strings, and all kinds."""
    meaningless = pc.is_in(report.unknown["kind"], pa.array(["symbol", "random"]))
    table = report.unknown.filter(pc.invert(meaningless))
    words = _words("unknown word", read_words(table.slice(0, SHOWN_WORDS)))
    notes = []
    if report.distinct_unknown > SHOWN_WORDS:
        shown = f"These are {min(len(table), SHOWN_WORDS)} of {report.distinct_unknown:,} unknown"
        what = "words" if len(table) == report.distinct_unknown else "words, without symbols"
        notes.append(f"{shown} {what}. For all of them: -o words.csv")
    yield Section("The unknown words that matter", words, (), notes if len(table) else ())
    kinds = [(KINDS[kind.kind], kind.words, kind.tokens) for kind in report.kinds]
    columns = (Column("what unknown words look like"), *counts("words", "tokens"))
    notes = []
    if report.distinct_unknown > COMMONEST:
        notes.append(f"Only the commonest {COMMONEST:,} unknown words are classified.")
    yield Section("What unknown words look like", Table(columns, kinds, "tokens"), (), notes)


def _details(report: OovReport) -> Iterator[Section]:
    distinct = "distinct words, of those listed" if report.full else "distinct words"
    rates = (
        ("tokens", report.tokens_unknown, report.tokens, report.token_rate),
        (distinct, report.distinct_unknown, report.distinct, report.distinct_rate),
        ("documents", report.documents_unknown, report.documents, report.document_rate),
    )
    columns: tuple[Column, ...]
    columns = (Column(), *counts("unknown", "of"), Column("rate", "percent"))
    yield Section("How much is unknown", Table(columns, rates))
    if report.split is not None:
        yield from _split_details(report, report.split)
    if report.cut is not None:
        yield _cut_section(report, report.cut)
    points = [
        (f"{point.words:,}", point.covered, point.known)
        for point in report.curve
        if point.words in POINTS or point is report.curve[-1]
    ]
    columns = (Column("commonest"), Column("covered", "percent"), Column("known", "percent"))
    yield Section("How much the commonest words cover", Table(columns, points, "covered"))
    yield Section("What was counted, and how", facts(_facts(report)), notes=_never_used(report))
    for other in report.others:  # counted separately
        yield from _unknown_sections(other)
        yield from _details(other)


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


def _words(name: str, words: Iterable[CountedWord]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for word in words:
        like: Cell = KINDS[word.kind] if word.kind else ""
        if word.like is not None:
            like = ("form of " if word.kind == "form" else "near ", encode(word.like))
        example = _around(encode(word.example), word.word_bytes, EXAMPLE_BYTES)
        rows.append((word.word_bytes, word.count, word.documents, like, example))
    columns = (Column(name), *counts("count", "documents"), Column("looks like"), Column("example"))
    return Table(columns, rows, "count")


def _around(example: bytes, word: bytes, width: int) -> str:
    line = example.strip()
    middle = max(find_word(line, word), 0) + len(word) // 2
    return printable(clip(line, 0, len(line), middle, width))


def _split_sections(split: SplitWords) -> Iterator[Section]:
    """Yield the split words that cost most, and the kinds of all split words."""
    number = min(SHOWN_WORDS, split.listed)
    words = _split_words("split word", split.words(0, number))
    notes = ["cost: count x (pieces - 1)"]
    if split.listed > number:
        shown = f"These are {number:,} of {split.listed:,} split words."
        notes.append(f"{shown} For all of them: -o words.csv")
    yield Section("The split words that cost most", words, (), notes if number else ())
    kinds = [
        (KINDS[kind.kind], kind.words, kind.tokens, kind.pieces / kind.tokens)
        for kind in split.kinds
    ]
    columns = (Column("what split words look like"), *counts("words", "tokens"), PER_TOKEN)
    notes = []
    if split.listed > COMMONEST:
        notes.append(f"Only the first {COMMONEST:,} split words are classified.")
    yield Section("What split words look like", Table(columns, kinds, "tokens"), (), notes)


def _split_details(report: OovReport, split: SplitWords) -> Iterator[Section]:
    """Yield the figures of a subword model, random strings, and languages that are not rare."""
    shares = [
        ("distinct words that are split", (split.listed + split.random) / max(report.distinct, 1)),
        *((f"tokens in words of {name} pieces", rate) for name, rate in _split_rates(report)),
        ("documents with a word of 3+ pieces", split.documents_split3 / max(report.documents, 1)),
    ]
    figures = [("pieces per token", f"{report.fertility:.2f}")]
    figures += [(name, percent(share)) for name, share in shares]
    yield Section("Words in pieces", facts(figures))
    if split.random:
        words = split.words(split.listed, min(split.random, RANDOM_WORDS))
        yield Section("Random strings and symbols", _split_words("random string or symbol", words))
    columns = (
        *(Column("language or script"), *counts("documents", "tokens"), PER_TOKEN),
        Column("in 3 or more pieces", "percent"),
    )
    languages = []
    for language in split.languages[:SHOWN_WORDS]:
        if language.documents >= LEAST_SHARE * report.documents:
            tokens = max(language.tokens, 1)
            rates = (language.pieces / tokens, language.tokens_split3 / tokens)
            languages.append((language.name, language.documents, language.tokens, *rates))
    yield Section("What texts cost", Table(columns, languages, "pieces per token"))


def _split_words(name: str, words: Iterable[CountedWord]) -> Table:
    rows = []
    for word in words:
        example = _around(encode(word.example), word.word_bytes, SPLIT_EXAMPLE_BYTES)
        figures = (word.count, word.documents, word.pieces, word.cost)
        rows.append((word.word_bytes, *figures, encode(" ".join(word.parts)), example))
    columns = (*counts("count", "documents", "pieces", "cost"), Column("split into"))
    return Table((Column(name), *columns, Column("example")), rows, "cost")


def cut_line(report: OovReport, cut: CutOff) -> str:
    unit = "token" if report.split is None else "piece"  # words are counted as tokens, too
    share = f" ({percent(report.cut_rate)} of all {unit}s)" if cut.tokens else ""
    return f"{cut_note(cut.documents, cut.tokens, cut.limit.tokens, unit=unit)}{share}"


def _cut_section(report: OovReport, cut: CutOff) -> Section:
    cut_words = report.cut_words()
    special = plural(cut.limit.special, "special token")
    limit = f"limit: {cut.limit.places:,} tokens, with {special} ({cut.limit.source})"
    if cut.limit.cuts_start:
        limit += "; the start of a longer text is cut off"
    words = _words("only in the cut-off part", cut_words[:SHOWN_WORDS])
    notes = []
    if len(cut_words) > SHOWN_WORDS:
        notes.append(f"These are {SHOWN_WORDS:,} of {len(cut_words):,} such words.")
    return Section("Longer than the model reads", words, [cut_line(report, cut), limit], notes)


def _suggestions(suggested: Suggestions) -> Section:
    saved = percent(1 - suggested.after / max(suggested.before, 1))
    text = (
        f"{plural(suggested.documents, 'document')}: {suggested.before:,} pieces, "
        f"{suggested.after:,} with these words ({saved} fewer)"
    )
    rows = [
        (encode(word.word), word.count, len(word.parts), word.saved, " ".join(word.parts))
        for word in suggested.words[:SHOWN_WORDS]
    ]
    columns = (Column("word to add"), *counts("count", "pieces", "pieces saved"), Column("made of"))
    return Section("Words to add", Table(columns, rows, "pieces saved"), [text])


def _never_used(report: OovReport) -> Iterator[str]:
    """Yield a line on the entries that occurred in no text; nothing for a subword model."""
    if report.used is not None:
        size = report.header.vocabulary_size
        never = size - report.used
        sentence = f"{never:,} of {size:,} entries {'was' if never == 1 else 'were'} never used"
        shown = [short(clip_entry(entry)) for entry in report.never_used[:NEVER_USED]]
        if len(report.never_used) > NEVER_USED:
            shown.append("…")
        yield f"{sentence}: {' '.join(shown)}" if shown else sentence
