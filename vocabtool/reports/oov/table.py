"""A report as text: for a terminal, or tab-separated for a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from vocabtool.oov.report import OovReport, UnknownWord
from vocabtool.oov.word_examples import clipped, find_word
from vocabtool.reports.oov.plain_words import (
    KINDS,
    beginning,
    described,
    percent,
    rates,
    remarks,
)
from vocabtool.reports.text_tables import Row, drawn, listed
from vocabtool.reports.text_tables import short as shortened
from vocabtool.vocabulary import printable

SHOWN: Final = 25  # unknown words on a terminal
SHOWN_POINTS: Final = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
SHOWN_ENTRIES: Final = 5
EXAMPLE_WIDTH: Final = 50  # bytes
WORD_COLUMNS: Final = ("unknown word", "count", "documents", "looks like", "example")
COLUMNS: Final = ("word", "count", "documents", "error", "kind", "like", "example")
NUMBERS: Final = frozenset(
    ("count", "documents", "unknown", "of", "rate", "words", "tokens", "covered", "known", "pieces")
)


def to_text(report: OovReport, width: int | None = None) -> str:
    """Tables ``width`` columns wide for a person; ``None``: a tab-separated row per unknown word.

    The latter has the columns of ``COLUMNS``; words are whole, and escaped where they are not
    printable.
    """
    if width is None:
        return "".join(
            "\t".join(row) + "\n" for row in (COLUMNS, *map(_tabbed, report.commonest()))
        )
    parts = ["".join(listed(described(report.header))), _rates(report, width)]
    parts += [_words(report, width), _kinds(report, width), _pieces(report, width)]
    parts += [_coverage(report, width), "".join(f"{remark}\n" for remark in _remarks(report))]
    parts += [to_text(other, width) for other in report.others]
    return "\n".join(part for part in parts if part)


def _tabbed(word: UnknownWord) -> Row:
    numbers = map(str, (word.count, word.documents, word.error))
    like = printable(word.like) if word.like is not None else ""
    return (printable(word.word), *numbers, word.kind or "", like, printable(word.example))


def _short(entry: bytes) -> str:
    """An entry for a column; of one of many MB the end is not even looked at."""
    return shortened(beginning(entry))


def _rates(report: OovReport, width: int) -> str:
    rows = (
        (
            rate.what,
            _number(rate.unknown, about=rate.about),
            _number(rate.of, about=rate.about),
            percent(rate.share),
        )
        for rate in rates(report)
    )
    return drawn(("", "unknown", "of", "rate"), rows, width, NUMBERS)


def _words(report: OovReport, width: int) -> str:
    rows = [
        (
            _short(word.word),
            _number(word.count, about=word.error > 0),
            _number(word.documents, about=word.error > 0),
            _likeness(word),
            _example(word),
        )
        for word in report.commonest(SHOWN)
    ]
    return drawn(WORD_COLUMNS, rows, width, NUMBERS) if rows else ""


def _number(number: int, *, about: bool = False) -> str:
    return f"{'~' * about}{number:,}"


def _likeness(word: UnknownWord) -> str:
    if word.like is not None:
        how = "form of" if word.kind == "form" else "near"
        return f"{how} {_short(word.like)}"
    return KINDS[word.kind] if word.kind else ""


def _example(word: UnknownWord) -> str:
    """A part of the example that the word stands in."""
    line = word.example.strip()
    at = max(find_word(line, word.word), 0)
    return printable(clipped(line, 0, len(line), at + len(word.word) // 2, EXAMPLE_WIDTH))


def _kinds(report: OovReport, width: int) -> str:
    if not report.kinds:
        return ""
    rows = ((KINDS[kind], _number(words), _number(tokens)) for kind, words, tokens in report.kinds)
    return drawn(("what unknown words look like", "words", "tokens"), rows, width, NUMBERS)


def _pieces(report: OovReport, width: int) -> str:
    if report.pieces is None:
        return ""
    rows = (
        (_short(word.word), f"{word.pieces:,}", f"{word.count:,}") for word in report.pieces.most
    )
    mean = f"{report.pieces.mean:.2f} pieces per token\n"
    return mean + drawn(("split most", "pieces", "count"), rows, width, NUMBERS)


def _coverage(report: OovReport, width: int) -> str:
    curve = report.curve
    points = [point for point in curve[:-1] if point.words in SHOWN_POINTS] + [*curve[-1:]]
    rows = ((f"{words:,}", percent(covered), percent(known)) for words, covered, known in points)
    return drawn(("commonest", "covered", "known"), rows, width, NUMBERS) if points else ""


def _remarks(report: OovReport) -> Iterator[str]:
    for number, remark in enumerate(remarks(report)):
        if number == 0 and report.never_used:
            yield f"{remark}: {_entries(report.never_used)}"
        else:
            yield remark


def _entries(entries: Sequence[bytes]) -> str:
    shown = [_short(entry) for entry in entries[:SHOWN_ENTRIES]]
    return " ".join([*shown, *["…"] * (len(entries) > SHOWN_ENTRIES)])
