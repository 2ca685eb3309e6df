"""A report as one page that needs no network and no script, on a phone as on a desk.

Words, names and examples come from strangers: each is made printable and escaped on its way in,
and the page's own policy forbids scripts and whatever would be loaded. It is well-formed XML, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from vocabtool.oov.report import MOST_PIECES, OovReport, UnknownWord
from vocabtool.oov_report_files import figures
from vocabtool.oov_report_files.plain_words import KINDS, Rate, described, percent, rates, remarks
from vocabtool.vocabulary import encode, printable

SHOWN: Final = 40  # unknown words
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
NUMBERS: Final = frozenset(("count", "documents", "pieces"))  # columns
STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --bar: #d9722e55; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.rates { display: flex; flex-wrap: wrap; gap: .75rem; }
.rates div { flex: 1 1 9rem; border: 1px solid var(--line); border-radius: .5rem; padding: .7rem; }
.rates b { display: block; font-size: 1.7rem; line-height: 1.2; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .5rem .3rem 0; }
th { font-weight: 600; border-bottom: 1px solid var(--line); }
td { border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.bar { display: block; height: .3rem; background: var(--bar); border-radius: .15rem; }
.example, .small { font-size: .85rem; opacity: .75; }
.example { display: block; }
dt { font-weight: 600; }
dd { margin: 0 0 .5rem; overflow-wrap: anywhere; }
figure { margin: 0 auto; max-width: 36rem; }
svg { width: 100%; height: auto; }
"""


def to_html(report: OovReport) -> str:
    """The page."""
    title = f"What {_text(report.header.model)} does not know"
    head = (
        '<head><meta charset="utf-8"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{title}</title><style>{STYLE}</style></head>"
    )
    body = "\n".join((f"<h1>{title}</h1>", *_sections(report), *map(_other, report.others)))
    return f'<!DOCTYPE html>\n<html lang="en">{head}\n<body>\n{body}\n</body></html>\n'


def _text(text: str | bytes) -> str:
    """What strangers wrote, inert."""
    return escape(printable(text if isinstance(text, bytes) else encode(text)))


def _word(word: bytes) -> str:
    """A word, in its own direction of writing."""
    return f"<bdi>{_text(word)}</bdi>"


def _sections(report: OovReport) -> Iterator[str]:
    yield f'<div class="rates">{"".join(map(_rate, rates(report)))}</div>'
    if report.curve:
        yield "<h2>How much the commonest words cover</h2>"
        yield _figure(figures.coverage(report.curve))
        yield _small("Between the lines: what the model does not know.")
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
    share = _data(rate.share, percent(rate.share), f"{rate.what} rate")
    unknown = _data(rate.unknown, f"{mark}{rate.unknown:,}", f"{rate.what} unknown")
    of = _data(rate.of, f"{mark}{rate.of:,}", f"{rate.what} all")
    return (
        f'<div>unknown {rate.what}<b>{share}</b><span class="small">{unknown} of {of}</span></div>'
    )


def _data(value: float, shown: str, what: str) -> str:
    """A number for people, with its full precision beside it for programs."""
    return f'<data value="{value!r}" title="{what}">{escape(shown)}</data>'


def _figure(svg: str) -> str:
    return f"<figure>{svg}</figure>"


def _small(text: str) -> str:
    return f'<p class="small">{text}</p>'


def _words(report: OovReport) -> str:
    words = list(report.commonest(SHOWN))
    most = max(word.count for word in words)
    rows = (_word_row(word, word.count / most) for word in words)
    return _table(("word", "count", "documents", "looks like"), rows)


def _word_row(word: UnknownWord, share: float) -> str:
    mark = "~" * (word.error > 0)
    bar = f'<span class="bar" style="width:{100 * share:.1f}%"></span>'
    example = f'<span class="example"><bdi>{_text(word.example)}</bdi></span>'
    count = _data(word.count, f"{mark}{word.count:,}", "count")
    return (
        f"<tr><td><b>{_word(word.word)}</b>{bar}{example * bool(word.example)}</td>"
        f'<td class="number">{count}</td><td class="number">{mark}{word.documents:,}</td>'
        f"<td>{_likeness(word)}</td></tr>"
    )


def _likeness(word: UnknownWord) -> str:
    if word.like is not None:
        return f"{'a form of' if word.kind == 'form' else 'near'} {_word(word.like)}"
    return KINDS[word.kind] if word.kind else ""


def _table(columns: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(
        f'<th class="number">{column}</th>' if column in NUMBERS else f"<th>{column}</th>"
        for column in columns
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _kinds(report: OovReport) -> Iterator[str]:
    tokens = sum(share.tokens for share in report.kinds)
    yield "<h2>What they look like</h2>"
    yield _figure(figures.kinds(report.kinds))
    yield _small(
        f"Tokens, of the {report.classified:,} commonest unknown words "
        f"({tokens:,} tokens). A word counts once, as the first that fits of: "
        f"{', '.join(KINDS.values())}."
    )


def _pieces(report: OovReport) -> Iterator[str]:
    pieces = report.pieces
    if pieces is None:
        return
    yield "<h2>Words in pieces</h2>"
    yield f"<p>{_data(pieces.mean, f'{pieces.mean:.2f}', 'pieces per token')} pieces per token.</p>"
    yield _figure(figures.pieces(pieces))
    if len(pieces.histogram) > MOST_PIECES:
        yield _small(f"The last bar: words in {MOST_PIECES} pieces or more.")
    rows = (
        f'<tr><td>{_word(word.word)}</td><td class="number">{word.pieces:,}</td>'
        f'<td class="number">{word.count:,}</td></tr>'
        for word in pieces.most
    )
    yield _table(("most fragmented", "pieces", "count"), rows)


def _remarks(report: OovReport) -> Iterator[str]:
    yield "<h2>What was counted, and how</h2>"
    yield f"<dl>{''.join(_facts(described(report.header)))}</dl>"
    notes = "".join(f"<li>{_text(remark)}</li>" for remark in remarks(report))
    if notes:
        yield f"<ul>{notes}</ul>"
    if report.never_used:
        entries = ", ".join(map(_word, report.never_used))
        yield f"<p>The first entries never used: {entries}.</p>"


def _facts(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """What has no name belongs to the one before."""
    for name, text in pairs:
        yield f"{f'<dt>{name}</dt>' if name else ''}<dd>{_text(text)}</dd>"


def _other(report: OovReport) -> str:
    """A further table, counted by itself: the figures, without plots."""
    title = f"<h2>By itself: {_text(report.header.vocabulary)}</h2>"
    shown = f'<div class="rates">{"".join(map(_rate, rates(report)))}</div>'
    words = _words(report) if len(report.unknown) else ""
    return "\n".join((title, shown, words))
