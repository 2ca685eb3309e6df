"""Pages that need no network and no script, on a phone as on a desk: what all of them share.

What comes from strangers goes through :func:`text`, which makes it printable and escapes it; the
page's own policy forbids scripts and whatever would be loaded. Pages are well-formed XML, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from html import escape
from typing import Final

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


def page(title: str, body: Iterable[str]) -> str:
    """A whole page; ``title`` and ``body`` are HTML already."""
    head = (
        '<head><meta charset="utf-8"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{title}</title><style>{STYLE}</style></head>"
    )
    parts = "\n".join((f"<h1>{title}</h1>", *body))
    return f'<!DOCTYPE html>\n<html lang="en">{head}\n<body>\n{parts}\n</body></html>\n'


def short_name(path: str) -> str:
    """The last part of a path or an address; where that is a number, with the part before it."""
    *before, last = path.rstrip("/").split("/")
    return f"{before[-1]}/{last}" if before and last.isdigit() else last


def text(shown: str | bytes) -> str:
    """What strangers wrote, inert."""
    return escape(printable(shown if isinstance(shown, bytes) else encode(shown)))


def word(entry: bytes) -> str:
    """A word, in its own direction of writing."""
    return f"<bdi>{text(entry)}</bdi>"


def data(value: float, shown: str, what: str) -> str:
    """A number for people, with its full precision beside it for programs."""
    return f'<data value="{value!r}" title="{what}">{escape(shown)}</data>'


def figure(svg: str) -> str:
    """A plot."""
    return f"<figure>{svg}</figure>"


def small(remark: str) -> str:
    """A remark, which is HTML already."""
    return f'<p class="small">{remark}</p>'


def table(
    columns: Iterable[str], rows: Iterable[Iterable[str]], numbers: Collection[str] = frozenset()
) -> str:
    """A table; cells are HTML already, and those of the columns in ``numbers`` end right."""
    names = list(columns)
    classes = [' class="number"' if name in numbers else "" for name in names]
    head = "".join(f"<th{c}>{name}</th>" for name, c in zip(names, classes, strict=True))
    shown = "".join(
        f"<tr>{''.join(f'<td{c}>{cell}</td>' for cell, c in zip(row, classes, strict=True))}</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{shown}</tbody></table>"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and what they mean; what has no name belongs to the one before."""
    shown = (f"{f'<dt>{n}</dt>' if n else ''}<dd>{text(what)}</dd>" for n, what in pairs)
    return f"<dl>{''.join(shown)}</dl>"


def remarks(sentences: Iterable[str]) -> Iterator[str]:
    """A list, where there are any."""
    items = "".join(f"<li>{text(sentence)}</li>" for sentence in sentences)
    if items:
        yield f"<ul>{items}</ul>"
