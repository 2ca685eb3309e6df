"""A report as one page with plots, for a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vocabtool.oov.report import MOST_PIECES, OovReport, UnknownWord
from vocabtool.reports.oov import figures
from vocabtool.reports.oov.plain_words import (
    KINDS,
    Rate,
    beginning,
    described,
    percent,
    rates,
    remarks,
)
from vocabtool.reports.pages import data, facts, figure, page, short_name, small, table, text, word
from vocabtool.reports.pages import remarks as sentences

SHOWN: Final = 40  # unknown words
NUMBERS: Final = frozenset(("count", "documents", "pieces"))  # columns


def to_html(report: OovReport) -> str:
    """The page."""
    model = report.header.model
    title = f"What {text(short_name(model))} does not know"
    return page(title, (small(text(model)), *_sections(report), *map(_other, report.others)))


def _sections(report: OovReport) -> Iterator[str]:
    yield f'<div class="rates">{"".join(map(_rate, rates(report)))}</div>'
    if report.curve:
        yield "<h2>How much the commonest words cover</h2>"
        yield figure(figures.coverage(report.curve))
        if figures.is_one_line(report.curve):
            unknown = percent(report.token_rate)
            yield small(f"One line for both: the model does not know {unknown} of the tokens.")
        else:
            yield small("Between the lines: what the model does not know.")
    if len(report.unknown):
        yield "<h2>The commonest unknown words</h2>"
        yield _words(report)
    if report.kinds:
        yield from _kinds(report)
    if report.pieces is not None:
        yield from _pieces(report)
    yield from _remarks(report)


def _rate(rate: Rate) -> str:
    mark = "~" * rate.about
    share = data(rate.share, percent(rate.share), f"{rate.what} rate")
    unknown = data(rate.unknown, f"{mark}{rate.unknown:,}", f"{rate.what} unknown")
    of = data(rate.of, f"{mark}{rate.of:,}", f"{rate.what} all")
    return (
        f'<div>unknown {rate.what}<b>{share}</b><span class="small">{unknown} of {of}</span></div>'
    )


def _words(report: OovReport) -> str:
    words = list(report.commonest(SHOWN))
    most = max(unknown.count for unknown in words)
    rows = (_word_row(unknown, unknown.count / most) for unknown in words)
    return table(("word", "count", "documents", "looks like"), rows, NUMBERS)


def _word_row(unknown: UnknownWord, share: float) -> tuple[str, ...]:
    mark = "~" * (unknown.error > 0)
    bar = f'<span class="bar" style="width:{100 * share:.1f}%"></span>'
    example = f'<span class="example"><bdi>{text(beginning(unknown.example))}</bdi></span>'
    count = data(unknown.count, f"{mark}{unknown.count:,}", "count")
    return (
        f"<b>{_shown(unknown.word)}</b>{bar}{example * bool(unknown.example)}",
        count,
        f"{mark}{unknown.documents:,}",
        _likeness(unknown),
    )


def _shown(entry: bytes) -> str:
    return word(beginning(entry))


def _likeness(unknown: UnknownWord) -> str:
    if unknown.like is not None:
        return f"{'a form of' if unknown.kind == 'form' else 'near'} {_shown(unknown.like)}"
    return KINDS[unknown.kind] if unknown.kind else ""


def _kinds(report: OovReport) -> Iterator[str]:
    tokens = sum(share.tokens for share in report.kinds)
    yield "<h2>What they look like</h2>"
    yield figure(figures.kinds(report.kinds))
    one = report.classified == 1
    words = "unknown word" if one else f"{report.classified:,} commonest unknown words"
    yield small(
        f"Tokens, of the {words} ({tokens:,} token{'' if tokens == 1 else 's'}). A word counts "
        f"once, as the first that fits of: {', '.join(KINDS.values())}."
    )


def _pieces(report: OovReport) -> Iterator[str]:
    pieces = report.pieces
    if pieces is None:
        return
    yield "<h2>Words in pieces</h2>"
    yield f"<p>{data(pieces.mean, f'{pieces.mean:.2f}', 'pieces per token')} pieces per token.</p>"
    yield figure(figures.pieces(pieces))
    if len(pieces.histogram) > MOST_PIECES:
        yield small(f"The last bar: words in {MOST_PIECES} pieces or more.")
    rows = ((_shown(cut.word), f"{cut.pieces:,}", f"{cut.count:,}") for cut in pieces.most)
    yield table(("most fragmented", "pieces", "count"), rows, NUMBERS)


def _remarks(report: OovReport) -> Iterator[str]:
    yield "<h2>What was counted, and how</h2>"
    yield facts(described(report.header))
    yield from sentences(remarks(report))
    if report.never_used:
        entries = ", ".join(map(_shown, report.never_used))
        yield f"<p>The first entries never used: {entries}.</p>"


def _other(report: OovReport) -> str:
    """A further table, counted by itself: the figures, without plots."""
    title = f"<h2>By itself: {text(report.header.vocabulary)}</h2>"
    figures_ = f'<div class="rates">{"".join(map(_rate, rates(report)))}</div>'
    words = _words(report) if len(report.unknown) else ""
    return "\n".join((title, figures_, words))
