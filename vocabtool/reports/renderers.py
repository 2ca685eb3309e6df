"""Write reports as text, CSV (RFC 4180), JSON, Parquet or HTML; files are written atomically.

- CSV: if an entry is not UTF-8, its cell is empty, and the column ``base64`` contains its bytes. In
  other columns, bytes that are not UTF-8 are escaped.
- JSON: long lists come last, with one entry per line.
- Parquet: if an entry is not UTF-8, its string is null, and the column ``bytes`` contains the
  entry. The metadata contains the report's other figures as JSON, under the key ``vocabtool``.
- HTML: a page is well-formed XML. Its content security policy forbids scripts and external
  resources.

In text and HTML, control characters of untrusted text are escaped. In HTML, markup in
untrusted text is escaped, too.
"""

from __future__ import annotations

import csv
import io
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from vocabtool.reports.model import (
    Beside,
    Block,
    Cell,
    Column,
    Entry,
    Exact,
    Facts,
    Figures,
    Item,
    Link,
    MarkedText,
    Notes,
    Paragraph,
    Plot,
    Report,
    Table,
    as_text,
    clip_entry,
    number,
    safe,
    short,
)
from vocabtool.reports.plots import BLUE, GREY, ORANGE
from vocabtool.system.own_files import whole_file
from vocabtool.vocabulary import is_utf8, printable

Format = Literal["text", "table", "json", "csv", "parquet", "html"]  # a table is text
ENDINGS: Final[dict[str, Format]] = {
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".html": "html",
    ".htm": "html",
}
NOTEBOOK_ROWS: Final = 10
FILE_WIDTH: Final = 100  # columns of text in a file
METADATA_KEY: Final = b"vocabtool"
# JSON keys that the rows of Parquet contain.
LISTED: Final = (
    *("unknown_words", "unknown_words_listed", "unknown_words_in_all"),
    *("split_words", "split_words_listed", "split_words_in_all", "random_words"),
)


def format_of(path: str | Path) -> Format:
    """Return the format for the ending of a file name; ``text`` for an unknown ending."""
    return ENDINGS.get(Path(path).suffix.lower(), "text")


def save(
    report: Report,
    path: str | Path,
    format: Format | None = None,  # noqa: A002 - as the option is called
    width: int | None = FILE_WIDTH,
) -> None:
    """Write a report to a file, atomically. Raise :class:`NotFound` if its folder is missing."""
    with whole_file(path) as file:
        write(report, file, format or format_of(path), width)


def write(
    report: Report,
    file: BinaryIO,
    format: Format,  # noqa: A002 - as the option is called
    width: int | None = None,
) -> None:
    """Write a report to an open file. The same report always gives the same bytes.

    ``width``: the width of text in characters. If ``None``, text is tab-separated, for programs.
    """
    if format == "json":
        _write_json(report, file)
    elif format == "csv":
        _write_csv(report, file)
    elif format == "parquet":
        _write_parquet(report, file)
    else:
        parts = render_page(report) if format == "html" else render_text(report, width)
        file.writelines(part.encode("utf-8", "backslashreplace") for part in parts)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _write_json(report: Report, file: BinaryIO) -> None:
    text = json.dumps(report.data(), ensure_ascii=False, indent=2)
    if not report.lists:
        file.write(_bytes(text) + b"\n")
        return
    file.write(_bytes(text.removesuffix("\n}")) + b',\n  "entries": {')
    for place, (name, rows) in enumerate(report.lists.items()):
        file.write(b"," * (place > 0) + f'\n    "{name}": ['.encode())
        between = b"\n"
        for row in rows():
            file.write(between + b"      " + _bytes(json.dumps(row, ensure_ascii=False)))
            between = b",\n"
        file.write(b"\n    ]")
    file.write(b"\n  }\n}\n")


def _write_csv(report: Report, file: BinaryIO) -> None:
    rows = report.rows[0]
    first, *others = rows.names

    def write_lines(lines: Iterable[Iterable[object]]) -> None:
        # Line ends of RFC 4180. With others, Python 3.11 does not quote a lone CR.
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\r\n").writerows(lines)
        file.write(_bytes(text.getvalue()))

    write_lines([[first, *["base64"] * (rows.types[0] == "entry"), *others]])
    for chunk in rows.chunks():
        lines = []
        for row in chunk:
            cells: list[object] = []
            for value, kind in zip(row, rows.types, strict=True):
                if kind == "entry":
                    try:
                        cells += (value.decode(), "")
                    except UnicodeDecodeError:
                        cells += ("", b64encode(value).decode())
                elif isinstance(value, bytes):
                    cells.append(as_text(value))
                else:
                    cells.append(int(value) if kind == "flag" else value)
            lines.append(cells)
        write_lines(lines)


def _write_parquet(report: Report, file: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = report.rows[0]
    types = {
        **dict.fromkeys(("entry", "escaped", "text"), pa.string()),
        **{"flag": pa.bool_(), "integer": pa.int64(), "number": pa.float64()},
    }
    fields = [(name, types[kind]) for name, kind in zip(rows.names, rows.types, strict=True)]
    metadata = None
    if rows.types[0] == "entry":
        fields.insert(1, ("bytes", pa.binary()))
        others = {name: value for name, value in report.data().items() if name not in LISTED}
        metadata = {METADATA_KEY: json.dumps(others).encode()}
    schema = pa.schema(fields, metadata)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for chunk in rows.chunks():
            columns: list[list[Any]] = []
            for values, kind in zip(zip(*chunk, strict=True), rows.types, strict=True):
                if kind == "entry":
                    columns.append([value if is_utf8(value) else None for value in values])
                    columns.append([None if is_utf8(value) else value for value in values])
                elif kind == "escaped":
                    columns.append([None if value is None else as_text(value) for value in values])
                else:
                    columns.append(list(values))
            arrays = map(pa.array, columns, schema.types)
            writer.write_batch(pa.record_batch(list(arrays), schema=schema))


# Text.


def render_text(report: Report, width: int | None) -> Iterator[str]:
    """Yield the sections as text, ``width`` characters wide.

    If ``width`` is ``None`` and the report has complete lists, yield these lists instead, with tabs
    between cells.
    """
    if width is None and report.rows:
        yield from _tab_separated(report)
        return
    between = ""
    for section in report.sections(False):
        lines: list[str] = []
        for block in section.blocks:
            match block:
                case Table():
                    rows = [
                        [_cell_text(*pair) for pair in zip(row, block.columns, strict=True)]
                        for row in block.rows
                    ]
                    if rows and block.plain:
                        lines += _plain_table(block.columns, rows, tabs=width is None)
                    elif rows:
                        lines.append(_drawn_table(block.columns, rows, width or FILE_WIDTH))
                case Facts():
                    pairs = list(block.pairs)
                    longest = max((len(name) for name, _ in pairs), default=0)
                    indent = "" if block.width is None else "  "
                    for name, text in pairs:
                        lines.append(f"{indent}{name:<{block.width or longest}}  {safe(text)}\n")
                case Notes():
                    lines += [f"{safe(sentence)}\n" for sentence in block.sentences]
                case Paragraph():
                    lines.append(f"{safe(block.text)}\n")
                case Item():
                    lines.append(f"{safe(block.head)}\n")
                    lines += [f"{' ' * block.indent}{safe(line)}\n" for line in block.lines]
        if lines:
            yield between + "".join(lines)
            between = "\n"


def _tab_separated(report: Report) -> Iterator[str]:
    def plain(value: Any) -> str:
        if isinstance(value, bytes | str):
            return printable(value) if isinstance(value, bytes) else safe(value)
        return "" if value is None else str(value)

    for place, rows in enumerate(report.rows):
        types = rows.types or ("text",) * len(rows.names)
        # An empty cell of another column shows the same as a flag.
        kept = [at for at, kind in enumerate(types) if kind != "flag"]
        yield "\n" * (place > 0) + "\t".join(rows.names[at] for at in kept) + "\n"
        for chunk in rows.chunks():
            yield from ("\t".join(plain(row[at]) for at in kept) + "\n" for row in chunk)


def _cell_text(cell: Cell, column: Column) -> str:
    match cell:
        case None:
            return ""
        case str():
            return safe(cell)
        case bytes():
            return short(clip_entry(cell))
        case tuple():
            return "".join(_cell_text(part, column) for part in cell)
        case Link():
            return safe(cell.text)
    return number(cell, column.kind)


def _drawn_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        justify = "left" if column.kind == "text" else "right"
        table.add_column(column.name, justify=justify, overflow="fold")  # type: ignore[arg-type] # "left" or "right"
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    lines = [line.rstrip() for line in capture.get().split("\n")]
    return "".join(f"{line}\n" for line in lines if line)


def _plain_table(columns: Sequence[Column], rows: list[list[str]], *, tabs: bool) -> Iterator[str]:
    if any(column.name for column in columns):
        rows = [[column.name for column in columns], *rows]
    if tabs:
        yield from ("\t".join(row) + "\n" for row in rows)
        return
    from rich.cells import cell_len

    widths = [
        column.width or max(map(cell_len, cells)) + 2
        for column, cells in zip(columns, zip(*rows, strict=True), strict=True)
    ]
    for row in rows:
        line = "  "
        for cell, column, width in zip(row, columns, widths, strict=True):
            blanks = " " * (width - cell_len(cell))
            line += cell + blanks if column.kind == "text" else blanks + cell
        yield line.rstrip() + "\n"


# Pages.

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
STYLE: Final = (
    f":root {{ color-scheme: light dark; --line: #8884; --bar: {ORANGE};"
    f" --known: {BLUE}; --absent: {GREY}; }}"
    """
html { background: Canvas; color: CanvasText; -webkit-text-size-adjust: 100%; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 0 auto; padding: 1rem; }
body { overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1.15rem; margin-top: 2.2rem; }
h3 { font-size: 1rem; margin: 0 0 .5rem; }
.rates { display: flex; flex-wrap: wrap; gap: .75rem; margin-bottom: .75rem; }
.rates div { flex: 1 1 9rem; border: 1px solid var(--line); border-radius: .5rem; padding: .7rem; }
.rates b { display: block; font-size: 1.7rem; line-height: 1.2; }
.wide { overflow-x: auto; overflow-wrap: normal; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .9rem .3rem 0; }
th:last-child, td:last-child { padding-right: 0; }
th { font-weight: 600; border-bottom: 1px solid var(--line); }
td { border-bottom: 1px solid var(--line); }
td bdi { display: inline-block; max-width: min(14rem, 30vw); overflow-wrap: break-word; }
td:first-child bdi { max-width: none; overflow-wrap: anywhere; }
td:first-child:has(bdi) { min-width: 8rem; }
.list { min-width: 14rem; }
.list bdi { display: inline; overflow-wrap: anywhere; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
.bar { display: block; height: .3rem; background: var(--bar); opacity: .6; border-radius: .15rem; }
.example, .small { font-size: .85rem; opacity: .75; }
.example { display: block; font-weight: 400; }
dt { font-weight: 600; }
dd { margin: 0 0 .5rem; }
ul { padding-left: 1.25rem; }
figure { margin: 0 auto; max-width: 36rem; }
svg { width: 100%; height: auto; }
a { color: inherit; }
.lines { white-space: pre-wrap; }
article { border: 1px solid var(--line); border-radius: .5rem; padding: .7rem; margin: 1rem 0; }
article p, article .wide { margin: .5rem 0; }
article.apart { border-left: .35rem solid var(--bar); }
article:target { outline: 2px solid var(--known); }
article dl { display: grid; grid-template-columns: fit-content(40%) 1fr; gap: 0 .75rem; }
article dd { margin: 0; }
mark { background: none; color: inherit; padding: 0 .15em; border-radius: .2em; }
.match { background: color-mix(in srgb, var(--bar) 25%, transparent); font-weight: 600; }
.known { background: color-mix(in srgb, var(--known) 25%, transparent); }
.known { border-bottom: 2px solid var(--known); }
.unknown { background: color-mix(in srgb, var(--bar) 25%, transparent); }
.unknown { border-bottom: 2px dashed var(--bar); }
.absent { background: color-mix(in srgb, var(--absent) 25%, transparent); }
.absent { text-decoration: line-through; }
.code { border: 1px solid; font-family: ui-monospace, monospace; }
.stop { font-style: italic; }
body:has(.beside) { max-width: 92rem; }
body:has(.beside) > :not(.beside) { max-width: 46rem; }
@media (min-width: 60rem) {
  .beside { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 2rem; }
}
@media (max-width: 30rem) {
  body { padding: .75rem; }
  table { font-size: .875rem; }
  th { font-size: .8rem; }
  th, td { padding-right: .45rem; }
  .list { min-width: 9rem; }
}
"""
)


def render_page(report: Report) -> Iterator[str]:
    title = _inert(report.title)
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"
    )
    if report.subtitle:
        yield f'<p class="small">{_inert(report.subtitle)}</p>\n'
    for section in report.sections(True):
        blocks = [f"{shown}\n" for block in section.blocks if (shown := _block_element(block))]
        if section.title and blocks:
            yield f"<h2>{_inert(section.title)}</h2>\n"
        yield from blocks
    yield "</body></html>\n"


def render_fragment(title: str, blocks: Iterable[Block]) -> str:
    """Return a title and blocks as HTML for a notebook. MathJax ignores this HTML."""
    shown = _elements(blocks)
    for cell in ("th", "td"):  # notebooks align cells to the right
        shown = re.sub(rf'<{cell}(?: class="list")?>', f'<{cell} style="text-align:left">', shown)
    head = f"<p><b>{_inert(title)}</b></p>"
    return f'<div class="tex2jax_ignore mathjax_ignore">{head}{shown}</div>'


def render_summary(report: Report) -> str:
    """Return a report's first two tables as HTML for a notebook, with a few rows each."""
    blocks: Iterable[Block] = (block for each in report.sections(False) for block in each.blocks)
    tables = islice((block for block in blocks if isinstance(block, Table)), 2)
    rows = NOTEBOOK_ROWS
    short = [replace(each, rows=islice(each.rows, rows), bars=None, small=()) for each in tables]
    return render_fragment(report.title, short)


def _inert(shown: str) -> str:
    return escape(safe(shown))


def _block_element(block: Block) -> str:
    match block:
        case Table():
            return _table_element(block)
        case Facts():
            pairs = [(_inert(name), _inert(text)) for name, text in block.pairs]
            shown = (f"{f'<dt>{name}</dt>' if name else ''}<dd>{text}</dd>" for name, text in pairs)
            return f"<dl>{''.join(shown)}</dl>"
        case Notes():
            return _list_element(block.sentences)
        case Paragraph():
            look = ' class="small"' if block.small else ""
            return f"<p{look}>{_inert(block.text)}</p>"
        case Item():
            return f"<p>{_inert(block.head)}</p>{_list_element(block.lines)}"
        case Figures():
            shown = (
                f"<div>{_inert(figure.title)}<b>{_part(figure.value)}</b>"
                f'<span class="small">{"".join(map(_part, figure.note))}</span></div>'
                for figure in block.figures
            )
            return f'<div class="rates">{"".join(shown)}</div>'
        case Plot():
            return f"<figure>{block.draw()}</figure>"
        case Link():
            return f"<p>{_link(block)}</p>"
        case MarkedText():
            return f'<p class="lines">{_marked_text(block)}</p>'
        case Entry():
            look = ' class="apart"' if block.stands_out else ""
            inside = f"<h3>{_inert(block.title)}</h3>{_elements(block.blocks)}"
            return f'<article id="{block.name}"{look}>{inside}</article>'
        case Beside():
            sides = (block.left, block.right)
            heads = [f"<h3>{_inert(side.title)}</h3>" for side in sides]
            left, right = map("{}{}".format, heads, [_elements(side.blocks) for side in sides])
            return f'<div class="beside"><div>{left}</div><div>{right}</div></div>'


def _elements(blocks: Iterable[Block]) -> str:
    return "".join(map(_block_element, blocks))


def _link(link: Link) -> str:
    return f'<a href="#{link.to}">{_inert(link.text)}</a>'


def _marked_text(block: MarkedText) -> str:
    """Return a text as HTML, with its line breaks and marks."""
    shown, at = "", 0
    for start, end, mark in block.spans:
        word = _lines(block.text[start:end])
        shown += f'{_lines(block.text[at:start])}<mark class="{mark}">{word}</mark>'
        at = end
    return shown + _lines(block.text[at:])


def _lines(text: str) -> str:
    """Return a text as HTML. Several blank lines in a row become one blank line."""
    lines = re.sub(r"\n(?:[^\S\n]*\n)+", "\n\n", text).split("\n")
    return "\n".join(_inert(re.sub(r"[^\S\n]", " ", line)) for line in lines)


def _list_element(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{_inert(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _table_element(table: Table) -> str:
    rows = list(table.rows)
    if not rows:
        return ""
    names = [column.name for column in table.columns]
    small = [names.index(name) for name in table.small]
    bars = names.index(table.bars) if table.bars else None
    longest = table.longest
    if bars is not None and longest is None:
        longest = max(row[bars] for row in rows)  # type: ignore[type-var, assignment] # numbers
    kept = [at for at in range(len(names)) if at not in small]
    look = ["" if column.kind == "text" else ' class="number"' for column in table.columns]
    bar = '<span class="bar" style="width:{:.1f}%"></span>'
    titles = [_inert(name) + (bar.format(100) if name == table.bars else "") for name in names]
    titles[0] += "".join(f'<span class="example">{_inert(name)}</span>' for name in table.small)
    head = "".join(f"<th{look[at]}>{titles[at]}</th>" for at in kept)
    body = ""
    for row in rows:
        cells = {at: _cell_element(row[at], table.columns[at], row[0]) for at in range(len(row))}
        if bars is not None:
            share = 100 * max(row[bars], 0) / (longest or 1)  # type: ignore[type-var, operator] # the same
            cells[0] = f"<b>{cells[0]}</b>{bar.format(share)}"
        below = (cells[at] for at in small)
        cells[0] += "".join(map('<span class="example">{}</span>'.format, filter(None, below)))
        looks = [' class="list"' if _is_list(row[at]) else look[at] for at in range(len(row))]
        line = "".join(f"<td{looks[at]}>{cells[at]}</td>" for at in kept)
        body += f"<tr>{line}</tr>"
    table_element = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table_element}</div>'


def _is_list(cell: Cell) -> bool:
    return isinstance(cell, tuple) and len(cell) > 2  # such a cell must not become narrow


def _cell_element(cell: Cell, column: Column, first: Cell) -> str:
    match cell:
        case None:
            return ""
        case str():
            return _inert(cell)
        case bytes():
            return f"<bdi>{escape(printable(clip_entry(cell)))}</bdi>" if cell else ""
        case tuple():
            return "".join(_cell_element(part, column, first) for part in cell)
        case Link():
            return _link(cell)
    name = first if isinstance(first, str) and first else column.name
    return _part(Exact(name, cell, number(cell, column.kind)))


def _part(part: str | Exact) -> str:
    if isinstance(part, str):
        return _inert(part)
    value = int(part.value) if isinstance(part.value, int) else part.value
    return f'<data value="{value!r}" title="{_inert(part.name)}">{escape(part.shown)}</data>'
