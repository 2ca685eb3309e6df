"""What a report consists of, and how it is written: as text, CSV, JSON, Parquet or HTML.

A report is a list of sections with a title, a table and lines of text. The other files of this
package build a :class:`Report`. Files are written atomically.

- CSV (RFC 4180): if an entry is not UTF-8, its cell is empty, and the column ``base64`` contains
  its bytes. In other columns, bytes that are not UTF-8 are escaped.
- JSON: long lists come last, with one entry per line.
- Parquet: if an entry is not UTF-8, its string is null, and the column ``bytes`` contains the
  entry. The metadata contains the report's other figures as JSON, under the key ``vocabtool``.
- HTML: a page has the same sections as the text, and is well-formed XML. Its content security
  policy forbids scripts and external resources.

In text and HTML, control characters of untrusted text are escaped. In HTML, markup in
untrusted text is escaped, too.
"""

from __future__ import annotations

import csv
import io
import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from vocabtool.system.own_files import whole_file
from vocabtool.vocabulary import encode, is_utf8, printable

MAX_ENTRY_BYTES: Final = 200  # of an entry for people; an entry can be very long
MAX_ENTRY_WIDTH: Final = 24  # characters of an entry in a table

# Format of a column. All but ``text`` are right-aligned numbers.
Kind = Literal["text", "count", "percent", "score", "share", "mean"]
FORMATS: Final[dict[Kind, str]] = {"count": ",", "score": ".3f", "share": ".1%", "mean": ".2f"}
# A text, an entry (untrusted bytes), a sequence of both, or a number.
Cell = str | bytes | tuple[str | bytes, ...] | float | None
# Type of a column in a complete list: the entry of the row, other bytes (escaped if they are not
# UTF-8), or a plain value.
Type = Literal["entry", "escaped", "flag", "integer", "text"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. ``width``: characters of text; by default, the contents decide."""

    name: str = ""
    kind: Kind = "text"
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    If no column has a name, it is written without lines. ``bars``: name of a column of numbers
    that an HTML page also draws as bars.
    """

    columns: Sequence[Column]
    rows: Iterable[Sequence[Cell]]
    bars: str | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A table, with lines of text above and below it.

    ``title``: the heading of the section on an HTML page. On a terminal, the name of the first
    column says what a table contains.
    """

    title: str = ""
    table: Table | None = None
    text: Iterable[str] = ()
    notes: Iterable[str] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """A complete list, for output that programs read.

    ``chunks``: a function that yields lists of rows. ``types``: the types of the columns. A list
    without types can only be written as text.
    """

    names: tuple[str, ...]
    chunks: Callable[[], Iterator[Sequence[Sequence[Any]]]]
    types: tuple[Type, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report for people and programs. Its parts are computed when they are written.

    - ``title``, ``subtitle``: the head of an HTML page.
    - ``sections``: a function that returns the sections, for people.
    - ``data``: a function that returns the JSON object.
    - ``lists``: long lists of the JSON object, by name.
    - ``rows``: complete lists. CSV and Parquet contain only the first one.
    """

    title: str = ""
    subtitle: str = ""
    sections: Callable[[], Iterable[Section]] = tuple
    data: Callable[[], Mapping[str, Any]] = dict
    lists: Mapping[str, Callable[[], Iterable[Mapping[str, Any]]]] = field(default_factory=dict)
    rows: Sequence[Rows] = ()

    def summary(self) -> str:
        """Return HTML for a notebook: the first two tables with named columns, a few rows each."""
        tables = (
            section.table
            for section in self.sections()
            if section.table is not None and any(column.name for column in section.table.columns)
        )
        short_tables = [
            Section(table=replace(table, rows=islice(table.rows, NOTEBOOK_ROWS), bars=None))
            for table in islice(tables, 2)
        ]
        return render_fragment(self.title, short_tables)


def facts(pairs: Iterable[tuple[str, str]], width: int | None = None) -> Table:
    """Return a table of names and texts. A text without a name continues the previous one."""
    return Table((Column(width=width), Column()), list(pairs))


def counts(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, "count") for name in names)


def notes_of(notes: Iterable[str]) -> list[str]:
    """Return lines in which each note begins with ``note:``."""
    return [f"note: {note}" for note in notes]


def clip_entry(entry: bytes) -> bytes:
    """Return the beginning of a long entry, with an ellipsis. UTF-8 characters are not split."""
    if len(entry) <= MAX_ENTRY_BYTES:
        return entry
    start = entry[:MAX_ENTRY_BYTES]
    if is_utf8(entry):
        start = encode(start.decode("utf-8", "ignore"))
    return start + "…".encode()


def percent(share: float) -> str:
    """Format a share as percent. Only exactly 0 gives 0 %, and only exactly 1 gives 100 %."""
    shown = f"{100 * share:.2f}%"
    if shown == "0.00%" and share > 0:
        return "<0.01%"
    return ">99.99%" if shown == "100.00%" and share < 1 else shown


def number(value: float, kind: Kind) -> str:
    if kind == "percent":
        return percent(value)
    return f"{value:{FORMATS[kind]}}"


def as_text(data: bytes) -> str:
    """Decode UTF-8, and escape invalid bytes."""
    return data.decode("utf-8", "backslashreplace")


def safe(text: str) -> str:
    """Put an untrusted text on one line, and escape control characters."""
    return printable(encode(text))


def short(entry: bytes, most: int = MAX_ENTRY_WIDTH) -> str:
    """Make an entry printable, and cut it if it is long."""
    text = printable(entry)
    return text if len(text) <= most else text[: most - 1] + "…"


def short_names(*paths: str) -> list[str]:
    """Return the ends of paths, long enough to differ, such as ``x/m`` and ``y/m``.

    A name that is only a number, as in the address of a model, gets the part before it.
    """
    parts = [path.rstrip("/").split("/") for path in paths]
    names: list[str] = []
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len({*names}) == len({*paths}) and not any(map(str.isdigit, names)):
            break
    return names


# Files.

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
        parts = _page(report) if format == "html" else render_text(report, width)
        file.writelines(map(_bytes, parts))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _write_json(report: Report, file: BinaryIO) -> None:
    text = json.dumps(report.data(), ensure_ascii=False, indent=2)
    if not report.lists:
        file.write(_bytes(text) + b"\n")
        return
    file.write(_bytes(text.removesuffix("\n}")) + b',\n  "entries": {')
    for place, (name, rows) in enumerate(report.lists.items()):
        file.write(_bytes(f'{"," if place else ""}\n    "{name}": ['))
        between = b"\n"
        for row in rows():
            file.write(between + b"      " + _bytes(json.dumps(row, ensure_ascii=False)))
            between = b",\n"
        file.write(b"\n    ]")
    file.write(b"\n  }\n}\n")


def _write_csv(report: Report, file: BinaryIO) -> None:
    rows = report.rows[0]

    def write_lines(lines: Iterable[Iterable[object]]) -> None:
        # Line ends of RFC 4180. With others, Python 3.11 does not quote a lone CR.
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\r\n").writerows(lines)
        file.write(_bytes(text.getvalue()))

    names = [*rows.names]
    if rows.types[0] == "entry":
        names.insert(1, "base64")
    write_lines([names])
    for chunk in rows.chunks():
        lines = []
        for row in chunk:
            cells: list[object] = []
            for value, kind in zip(row, rows.types, strict=True):
                if kind == "entry":
                    is_text = is_utf8(value)
                    cells.append(value.decode() if is_text else "")
                    cells.append("" if is_text else b64encode(value).decode())
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
        **{"flag": pa.bool_(), "integer": pa.int64()},
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

    If ``width`` is ``None``, tabs separate the cells of tables, and complete lists are written
    instead of sections if there are any.
    """
    if width is None and report.rows:
        yield from _tab_separated(report)
        return
    is_first = True
    for section in report.sections():
        above = [f"{safe(line)}\n" for line in section.text]
        lines = [*above, *_table_lines(section.table, width, is_below=bool(above))]
        lines += [f"{safe(line)}\n" for line in section.notes]
        if lines:
            yield "".join(lines) if is_first else "\n" + "".join(lines)
            is_first = False


def _tab_separated(report: Report) -> Iterator[str]:
    def plain(value: Any) -> str:
        if isinstance(value, bytes):
            return printable(value)
        return "" if value is None else safe(str(value))

    between = ""
    for rows in report.rows:
        types = rows.types or ("text",) * len(rows.names)
        # An empty cell of another column shows the same as a flag.
        kept = [at for at, kind in enumerate(types) if kind != "flag"]
        yield between + "\t".join(rows.names[at] for at in kept) + "\n"
        for chunk in rows.chunks():
            yield from ("\t".join(plain(row[at]) for at in kept) + "\n" for row in chunk)
        between = "\n"


def _table_lines(table: Table | None, width: int | None, *, is_below: bool) -> Iterator[str]:
    """Yield the lines of a table. ``is_below``: whether it belongs to a line above it."""
    columns = [] if table is None else table.columns
    rows = [
        [_cell_text(cell, column) for cell, column in zip(row, columns, strict=True)]
        for row in ([] if table is None else table.rows)
    ]
    has_names = any(column.name for column in columns)
    if not rows:
        return
    if width is None:
        names = [[column.name for column in columns]] if has_names else []
        yield from ("\t".join(row) + "\n" for row in (*names, *rows))
    elif has_names:
        yield from _drawn_table(columns, rows, width)
    else:
        from rich.cells import cell_len

        widths = [
            column.width or max(map(cell_len, cells))
            for column, cells in zip(columns, zip(*rows, strict=True), strict=True)
        ]
        indent = "  " if is_below else ""
        for row in rows:
            cells = [
                cell + " " * (most - cell_len(cell)) for cell, most in zip(row, widths, strict=True)
            ]
            yield f"{indent}{'  '.join(cells)}".rstrip() + "\n"


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
    return number(cell, column.kind)


def _drawn_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> Iterator[str]:
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
    yield from (f"{line}\n" for line in lines if line)


# Pages.

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --bar: #d9722e; }
html { background: Canvas; color: CanvasText; -webkit-text-size-adjust: 100%; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
body { overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p { white-space: pre-wrap; }
.small { font-size: .85rem; opacity: .75; }
.wide { overflow-x: auto; overflow-wrap: normal; margin: 1rem 0; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .3rem .9rem .3rem 0; }
th { font-weight: 600; }
th, td { border-bottom: 1px solid var(--line); }
td bdi { display: inline-block; max-width: min(14rem, 30vw); overflow-wrap: anywhere; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.bar { display: block; height: .3rem; min-width: 1px; background: var(--bar); }
"""


def _page(report: Report) -> Iterator[str]:
    title = _inert(report.title)
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"
    )
    if report.subtitle:
        yield f'<p class="small">{_inert(report.subtitle)}</p>\n'
    for section in report.sections():
        shown = _section_element(section)
        if shown and section.title:
            yield f"<h2>{_inert(section.title)}</h2>\n"
        yield f"{shown}\n"
    yield "</body></html>\n"


def render_fragment(title: str, sections: Iterable[Section]) -> str:
    """Return sections as HTML for a notebook. MathJax ignores this HTML."""
    shown = "".join(map(_section_element, sections))
    for cell in ("th", "td"):  # notebooks align cells to the right
        shown = shown.replace(f"<{cell}>", f'<{cell} style="text-align:left">')
    head = f"<p><b>{_inert(title)}</b></p>"
    return f'<div class="tex2jax_ignore mathjax_ignore">{head}{shown}</div>'


def _section_element(section: Section) -> str:
    text, notes = (
        f"<p>{shown}</p>" if (shown := "\n".join(map(_inert, lines))) else ""
        for lines in (section.text, section.notes)
    )
    table = "" if section.table is None else _table_element(section.table)
    return text + table + notes


def _inert(shown: str) -> str:
    return escape(safe(shown))


def _table_element(table: Table) -> str:
    rows = list(table.rows)
    if not rows:
        return ""
    names = [column.name for column in table.columns]
    look = ["" if column.kind == "text" else ' class="number"' for column in table.columns]
    bars = names.index(table.bars) if table.bars else None
    lengths: list[float] = [0.0] * len(rows)
    if bars is not None:
        lengths = [max(row[bars] or 0, 0) for row in rows]  # type: ignore[misc] # numbers
    longest = max(lengths) or 1
    head = "".join(f"<th{look[at]}>{_inert(name)}</th>" for at, name in enumerate(names))
    body = ""
    for row, length in zip(rows, lengths, strict=True):
        cells = [
            _cell_element(cell, column, row[0])
            for cell, column in zip(row, table.columns, strict=True)
        ]
        if bars is not None:
            cells[bars] += f'<span class="bar" style="width:{100 * length / longest:.1f}%"></span>'
        line = "".join(f"<td{look[at]}>{cell}</td>" for at, cell in enumerate(cells))
        body += f"<tr>{line}</tr>"
    head = f"<thead><tr>{head}</tr></thead>" if any(names) else ""
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


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
    row = first if isinstance(first, str) else ""
    name = _inert(" ".join(filter(None, (row, column.name))))
    value = int(cell) if isinstance(cell, int) else cell
    return f'<data value="{value!r}" title="{name}">{escape(number(cell, column.kind))}</data>'
