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
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from itertools import chain, islice
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

from vocabtool.system.messages import percent
from vocabtool.system.own_files import whole_file
from vocabtool.vocabulary import encode, is_utf8, printable, safe, short

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ENTRY_BYTES: Final = 200  # of an entry for people; an entry can be very long

# Format of a column. All but ``text`` are right-aligned numbers.
Shown = Literal["text", "count", "percent", "score", "share", "mean"]
# In a complete list also: the entry of the row, other bytes (escaped if they are not UTF-8), or a
# plain value.
Listed = Literal["entry", "escaped", "flag", "integer"]
Kind = Shown | Listed
FORMATS: Final[dict[Kind, str]] = {
    "count": ",",
    "score": ".3f",
    "share": ".1%",
    "mean": ".2f",
    "integer": "d",
}
# A text, an entry (untrusted bytes), a sequence of both, or a number.
Cell = str | bytes | tuple[str | bytes, ...] | float | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. ``width``: minimum number of characters of its texts."""

    name: str = ""
    kind: Kind = "text"
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table; no lines if no column has a name. ``bars``: a column that HTML draws, too."""

    columns: Sequence[Column]
    rows: Iterable[Sequence[Cell]]
    bars: str | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A table, with lines of text above and below it.

    ``title``: of an HTML page; on a terminal, the name of the first column says what a table
    contains. ``prose``: whether ``text`` is sentences, which a terminal wraps between words.
    ``detail``: whether an HTML page shows the section only on request, at the end.
    """

    title: str = ""
    table: Table | None = None
    text: Sequence[str] = ()
    notes: Iterable[str] = ()
    prose: bool = False
    detail: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report for people and programs. Its content is computed when it is written.

    ``title``, ``subtitle``: of an HTML page. ``data``: returns the JSON object, whose last value
    may be a mapping ``entries`` of long lists, written with one row per line. ``lists``: returns
    complete lists, for programs; CSV and Parquet contain only the first one.
    """

    title: str = ""
    subtitle: str = ""
    sections: Callable[[], Iterable[Section]] = tuple
    data: Callable[[], Mapping[str, Any]] = dict
    lists: Callable[[], Sequence[Table]] = tuple

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


def arrow_rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches(max_chunksize=CHUNK):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def clip_entry(entry: bytes) -> bytes:
    """Return the beginning of a long entry, with an ellipsis. UTF-8 characters are not split."""
    if len(entry) <= MAX_ENTRY_BYTES:
        return entry
    start = entry[:MAX_ENTRY_BYTES]
    if is_utf8(entry):
        start = encode(start.decode("utf-8", "ignore"))
    return start + "…".encode()


def number(value: float, kind: Kind) -> str:
    if kind == "percent":
        return percent(value)
    return f"{value:{FORMATS[kind]}}"


def as_text(data: bytes) -> str:
    """Decode UTF-8, and escape invalid bytes."""
    return data.decode("utf-8", "backslashreplace")


def short_names(*paths: str) -> list[str]:
    """Return ends of paths, long enough to differ; a number also gets the part before it."""
    steps = [path.rstrip("/").split("/") for path in paths]
    names: list[str] = []
    for count in range(1, max(map(len, steps)) + 1):
        names = ["/".join(path[-count:]) for path in steps]
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
UNLIMITED: Final = 1 << 30
METADATA_KEY: Final = b"vocabtool"
CHUNK: Final = 1 << 14  # rows written at a time
# Types of Arrow, by the format of a column in a complete list.
ARROW_TYPES: Final[dict[Kind, str]] = {
    "entry": "string",
    "escaped": "string",
    "text": "string",
    "flag": "bool",
    "integer": "int64",
}
# JSON keys that the rows of Parquet contain.
LISTED: Final = (
    *("entries", "unknown_words", "unknown_words_listed", "unknown_words_in_all"),
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
    """Write a report, always as the same bytes. ``width``: in characters; ``None``: with tabs."""
    match format:
        case "json":
            _write_json(report.data(), file)
        case "csv":
            _write_csv(report.lists()[0], file)
        case "parquet":
            _write_parquet(report, file)
        case "html":
            file.writelines(map(_bytes, _page(report)))
        case "text" | "table":
            file.writelines(map(_bytes, render_text(report, width)))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _write_json(data: Mapping[str, Any], file: BinaryIO) -> None:
    """Write the figures, then the long lists with one row per line."""
    figures = {name: value for name, value in data.items() if name != "entries"}
    text = json.dumps(figures, ensure_ascii=False, indent=2)
    if "entries" not in data:
        file.write(_bytes(text) + b"\n")
        return
    file.write(_bytes(text.removesuffix("\n}")) + b',\n  "entries": {')
    before_list = "\n"
    for name, rows in data["entries"].items():
        file.write(_bytes(f'{before_list}    "{name}": ['))
        before_row = b"\n"
        for row in rows:
            file.write(before_row + b"      " + _bytes(json.dumps(row, ensure_ascii=False)))
            before_row = b",\n"
        file.write(b"\n    ]")
        before_list = ",\n"
    file.write(b"\n  }\n}\n")


def _file_rows(table: Table) -> Iterator[list[list[Any]]]:
    """Yield rows in chunks. An entry has two cells, text and bytes; one of them is ``None``."""
    rows = iter(table.rows)
    while chunk := list(islice(rows, CHUNK)):
        lines = []
        for row in chunk:
            cells: list[Any] = []
            for cell, column in zip(row, table.columns, strict=True):
                if not isinstance(cell, bytes):
                    cells.append(cell)
                elif column.kind != "entry":
                    cells.append(as_text(cell))
                else:
                    cells += (cell.decode(), None) if is_utf8(cell) else (None, cell)
            lines.append(cells)
        yield lines


def _write_csv(table: Table, file: BinaryIO) -> None:
    def write_lines(lines: Iterable[Iterable[object]]) -> None:
        # Line ends of RFC 4180. With others, Python 3.11 does not quote a lone CR.
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\r\n").writerows(lines)
        file.write(_bytes(text.getvalue()))

    names = []
    for column in table.columns:
        names.append(column.name)
        if column.kind == "entry":
            names.append("base64")
    write_lines([names])
    for lines in _file_rows(table):
        write_lines(map(_csv_cell, line) for line in lines)


def _csv_cell(cell: Any) -> Any:
    if isinstance(cell, bytes):
        return b64encode(cell).decode()
    return int(cell) if isinstance(cell, bool) else cell


def _write_parquet(report: Report, file: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = report.lists()[0]
    fields = []
    for column in table.columns:
        fields.append((column.name, pa.type_for_alias(ARROW_TYPES[column.kind])))
        if column.kind == "entry":
            fields.append(("bytes", pa.binary()))
    others = {name: value for name, value in report.data().items() if name not in LISTED}
    schema = pa.schema(fields, {METADATA_KEY: json.dumps(others).encode()})
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for lines in _file_rows(table):
            arrays = map(pa.array, zip(*lines, strict=True), schema.types)
            writer.write_batch(pa.record_batch(list(arrays), schema=schema))


# Text.


def render_text(report: Report, width: int | None) -> Iterator[str]:
    """Yield the lines of the sections, with an empty line between sections that have lines.

    ``width``: in characters. ``None``: the complete lists, or the sections of a report that has no
    lists, with tabs.
    """
    lists = [Section(table=table) for table in report.lists()] if width is None else []
    table_lines = _tab_separated_table if width is None else partial(_drawn_table, width=width)
    before, has_lines = "", False
    for section in lists or report.sections():
        text = list(section.text)
        if section.prose:
            text = [line for sentence in text for line in wrap(safe(sentence), width or UNLIMITED)]
        for line in chain(_lines(text), table_lines(section), _lines(section.notes)):
            yield before + line
            before, has_lines = "", True
        if has_lines:
            before = "\n"


def _lines(texts: Iterable[str]) -> Iterator[str]:
    return (f"{safe(text)}\n" for text in texts)


def _tab_separated_table(section: Section) -> Iterator[str]:
    if section.table is None:
        return
    # A flag is not shown: an empty cell of another column says the same.
    columns = [
        (place, column)
        for place, column in enumerate(section.table.columns)
        if column.kind != "flag"
    ]
    if any(column.name for _, column in columns):
        yield "\t".join(column.name for _, column in columns) + "\n"
    for row in section.table.rows:
        yield "\t".join(_cell_text(row[place], column) for place, column in columns) + "\n"


def _drawn_table(section: Section, width: int) -> Iterator[str]:
    """Yield the lines of a table for a terminal of ``width`` characters."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    columns = section.table.columns if section.table is not None else ()
    has_names = any(column.name for column in columns)
    drawing = RichTable(
        box=SIMPLE_HEAD if has_names else None, show_header=has_names, pad_edge=False
    )
    for column in columns:
        justify = "left" if column.kind == "text" else "right"
        drawing.add_column(
            column.name,
            justify=justify,  # type: ignore[arg-type] # "left" or "right"
            overflow="fold",
            min_width=column.width,
        )
    for row in section.table.rows if section.table is not None else ():
        cells = zip(row, columns, strict=True)
        drawing.add_row(*(Text(_cell_text(cell, column)) for cell, column in cells))
    if not drawing.rows:
        return
    # Without names, each row is one line, and belongs to the text above it.
    console = Console(width=width if has_names else UNLIMITED, color_system=None)
    indent = "  " if section.text and not has_names else ""
    with console.capture() as capture:
        console.print(drawing)
    for line in capture.get().split("\n"):
        if line.strip():
            yield f"{indent}{line.rstrip()}\n"


def _cell_text(cell: Cell, column: Column) -> str:
    match cell:
        case None:
            return ""
        case str():
            return safe(cell)
        case bytes() if column.kind in ("entry", "escaped"):
            return printable(cell)  # complete lists are for programs
        case bytes():
            return short(clip_entry(cell))
        case tuple():
            return "".join(_cell_text(item, column) for item in cell)
    return number(cell, column.kind)


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
summary { margin-top: 2.2rem; cursor: pointer; font-weight: 600; }
.small { font-size: .85rem; opacity: .75; }
.wide { overflow-x: auto; overflow-wrap: normal; margin: 1rem 0; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .3rem .9rem .3rem 0; }
th { font-weight: 600; }
th, td { border-bottom: 1px solid var(--line); }
td bdi { display: inline-block; max-width: min(14rem, 30vw); overflow-wrap: anywhere; }
td:first-child > bdi, td > bdi:only-child { min-width: min(9rem, 30vw); }
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
    folded = False
    for section in report.sections():
        shown = _section_element(section)
        if shown and section.detail and not folded:
            yield "<details><summary>Details: all figures, the rule, what was counted</summary>\n"
            folded = True
        if shown and section.title:
            yield f"<h2>{_inert(section.title)}</h2>\n"
        yield f"{shown}\n"
    yield f"{'</details>' if folded else ''}</body></html>\n"


def render_fragment(title: str, sections: Iterable[Section]) -> str:
    """Return sections as HTML for a notebook. MathJax ignores this HTML."""
    shown = "".join(map(_section_element, sections))
    for cell in ("th", "td"):  # notebooks align cells to the right
        shown = shown.replace(f"<{cell}>", f'<{cell} style="text-align:left">')
    head = f"<p><b>{_inert(title)}</b></p>"
    return f'<div class="tex2jax_ignore mathjax_ignore">{head}{shown}</div>'


def _section_element(section: Section) -> str:
    table = "" if section.table is None else _table_element(section.table)
    text = "".join(_paragraph([line]) for line in section.text)
    return text + table + _paragraph(section.notes)


def _paragraph(lines: Iterable[str]) -> str:
    text = "\n".join(map(_inert, lines))
    return f"<p>{text}</p>" if text else ""


def _inert(text: str) -> str:
    return escape(safe(text))


def _table_element(table: Table) -> str:
    """Return a table as HTML; an empty text for a table without rows."""
    rows = list(table.rows)
    if not rows:
        return ""
    names = [column.name for column in table.columns]
    attributes = ["" if column.kind == "text" else ' class="number"' for column in table.columns]
    bars = names.index(table.bars) if table.bars else None
    lengths: list[float] = [0.0] * len(rows)
    if bars is not None:
        lengths = [max(row[bars] or 0, 0) for row in rows]  # type: ignore[misc] # numbers
    longest = max(lengths) or 1
    head = "".join(f"<th{attributes[at]}>{_inert(name)}</th>" for at, name in enumerate(names))
    body = ""
    for row, length in zip(rows, lengths, strict=True):
        cells = [
            _cell_element(cell, column, row[0])
            for cell, column in zip(row, table.columns, strict=True)
        ]
        if bars is not None:
            cells[bars] += f'<span class="bar" style="width:{100 * length / longest:.1f}%"></span>'
        line = "".join(f"<td{attributes[at]}>{cell}</td>" for at, cell in enumerate(cells))
        body += f"<tr>{line}</tr>"
    head = f"<thead><tr>{head}</tr></thead>" if any(names) else ""
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def _cell_element(cell: Cell, column: Column, first: Cell) -> str:
    """Return a cell as HTML. The title of a number names its row, by the ``first`` cell."""
    match cell:
        case None:
            return ""
        case str():
            return _inert(cell)
        case bytes():
            return f"<bdi>{escape(printable(clip_entry(cell)))}</bdi>" if cell else ""
        case tuple():
            return "".join(_cell_element(item, column, first) for item in cell)
    row = first if isinstance(first, str) else ""
    name = _inert(" ".join(filter(None, (row, column.name))))
    value = int(cell) if isinstance(cell, int) else cell  # not True or False
    return f'<data value="{value!r}" title="{name}">{escape(number(cell, column.kind))}</data>'
