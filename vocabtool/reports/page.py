"""Reports as a page for a browser: no network, no script, on a phone as on a desk.

What comes from strangers goes through :func:`_text`, which makes it printable and escapes it; the
page's own policy forbids scripts and whatever would be loaded. Pages are well-formed XML, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from vocabtool.reports.model import (
    Block,
    Cell,
    Column,
    Exact,
    Facts,
    Figure,
    Figures,
    Notes,
    Paragraph,
    Plot,
    Report,
    Table,
    clip_entry,
    number,
)
from vocabtool.vocabulary import encode, printable

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --bar: #d9722e55; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.rates { display: flex; flex-wrap: wrap; gap: .75rem; }
.rates div { flex: 1 1 9rem; border: 1px solid var(--line); border-radius: .5rem; padding: .7rem; }
.rates b { display: block; font-size: 1.7rem; line-height: 1.2; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .9rem .3rem 0; }
th:last-child, td:last-child { padding-right: 0; }
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


def render(report: Report) -> str:
    """A whole page."""
    title = _text(report.title)
    head = (
        '<head><meta charset="utf-8"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{title}</title><style>{STYLE}</style></head>"
    )
    body = "\n".join((f"<h1>{title}</h1>", *_body(report)))
    return f'<!DOCTYPE html>\n<html lang="en">{head}\n<body>\n{body}\n</body></html>\n'


def _body(report: Report) -> Iterator[str]:
    if report.subtitle:
        yield f'<p class="small">{_text(report.subtitle)}</p>'
    for section in report.sections(True):
        blocks = [shown for block in section.blocks if (shown := _block(block))]
        if section.title and blocks:
            yield f"<h2>{_text(section.title)}</h2>"
        yield from blocks


def _block(block: Block) -> str:
    match block:
        case Table():
            return _table(block)
        case Facts():
            shown = (f"{f'<dt>{n}</dt>' if n else ''}<dd>{_text(t)}</dd>" for n, t in block.pairs)
            return f"<dl>{''.join(shown)}</dl>"
        case Notes():
            items = "".join(f"<li>{_text(sentence)}</li>" for sentence in block.sentences)
            return f"<ul>{items}</ul>" if items else ""
        case Paragraph():
            look = ' class="small"' if block.small else ""
            return f"<p{look}>{_text(block.text)}</p>"
        case Figures():
            return f'<div class="rates">{"".join(map(_figure, block.figures))}</div>'
        case Plot():
            return f"<figure>{block.draw()}</figure>"


def _figure(figure: Figure) -> str:
    note = "".join(_text(part) if isinstance(part, str) else _exact(part) for part in figure.note)
    return (
        f"<div>{_text(figure.title)}<b>{_exact(figure.value)}</b>"
        f'<span class="small">{note}</span></div>'
    )


def _table(table: Table) -> str:
    """Numbers end right, and have their full precision beside them for programs."""
    rows = list(table.rows)
    if not rows:
        return ""
    names = [column.name for column in table.columns]
    small = names.index(table.small) if table.small else None
    bars = names.index(table.bars) if table.bars else None
    longest = 1 if bars is None else max(row[bars] for row in rows)  # type: ignore[type-var]
    kept = [at for at in range(len(names)) if at != small]
    head = "".join(f"<th{_class(table.columns[at])}>{_text(names[at])}</th>" for at in kept)
    lines = []
    for row in rows:
        cells = {at: _cell(row[at], table.columns[at], row[0]) for at in kept}
        if bars is not None:
            share = 100 * row[bars] / longest  # type: ignore[operator]
            bar = f'<span class="bar" style="width:{share:.1f}%"></span>'
            cells[0] = f"<b>{cells[0]}</b>{bar}"
        if small is not None and (shown := _cell(row[small], table.columns[small], row[0])):
            cells[0] += f'<span class="example">{shown}</span>'
        lines.append("".join(f"<td{_class(table.columns[at])}>{cells[at]}</td>" for at in kept))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _class(column: Column) -> str:
    return "" if column.kind == "text" else ' class="number"'


def _cell(cell: Cell, column: Column, first: Cell) -> str:
    """``first``: the row's first cell, which names its numbers where it is no entry."""
    match cell:
        case None:
            return ""
        case str():
            return _text(cell)
        case bytes():
            return f"<bdi>{_text(clip_entry(cell))}</bdi>" if cell else ""
        case tuple():
            return "".join(_cell(part, column, first) for part in cell)
    name = first if isinstance(first, str) and first else column.name
    return _exact(Exact(name, cell, number(cell, column.kind)))


def _exact(figure: Exact) -> str:
    value = int(figure.value) if isinstance(figure.value, int) else figure.value
    return f'<data value="{value!r}" title="{_text(figure.name)}">{escape(figure.shown)}</data>'


def _text(shown: str | bytes) -> str:
    """What strangers wrote, inert."""
    return escape(printable(shown if isinstance(shown, bytes) else encode(shown)))


def short_name(path: str) -> str:
    """The last part of a path or an address; where that is a number, with the part before it."""
    *before, last = path.rstrip("/").split("/")
    return f"{before[-1]}/{last}" if before and last.isdigit() else last
