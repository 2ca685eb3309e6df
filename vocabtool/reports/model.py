"""What a report is made of: sections of facts, tables, figures, plots, notes; and complete lists.

Builders (``oov.py``, ``comparison.py``, ``inspection.py``) make a :class:`Report` of what
was found; renderers (``terminal.py``, ``page.py``, ``json_file.py``, ``csv_file.py``,
``parquet_file.py``) show any of them; ``files.py`` chooses one.

Reports as text: tables for a terminal, tab-separated lines for a program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from vocabtool.vocabulary import encode, printable

MAX_ENTRY_BYTES: Final = 200  # of an entry that a person is shown; one may be a whole file

# How the cells of a column are shown. All but ``text`` are numbers, and end right.
Kind = Literal["text", "count", "percent", "ratio", "doublings"]
# A text of ours, an entry (strangers' bytes), both one behind the other, or a number.
Cell = str | bytes | tuple[str | bytes, ...] | float | None
Row = Sequence[Cell]
# What a column of a complete list holds: the entry that the row is about, other bytes (shown
# escaped where they are not UTF-8), or a plain value.
Type = Literal["entry", "escaped", "flag", "integer", "number", "text"]


class Estimate(int):
    """A count that is estimated."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table for people."""

    name: str
    kind: Kind = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people. ``bars``: a page draws the column of that name as bars, too.

    ``small``: a page shows the column of that name small, below the first one.
    """

    columns: tuple[Column, ...]
    rows: Iterable[Row]
    bars: str | None = None
    small: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what they mean; what has no name belongs to the one before."""

    pairs: Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Notes:
    """Sentences that a reader should know."""

    sentences: Iterable[str]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A sentence. ``small``: a remark on what stands above it."""

    text: str
    small: bool = False


@dataclass(frozen=True, slots=True)
class Exact:
    """A number as people read it, and, for programs, as it is and what it is called."""

    name: str
    value: float
    shown: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that stands out: what stands above it, and below it."""

    title: str
    value: Exact
    note: tuple[str | Exact, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """Numbers that stand out, side by side: for pages."""

    figures: Sequence[Figure]


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot, drawn when a page is made: it gives an ``svg`` element."""

    draw: Callable[[], str]


Block = Table | Facts | Notes | Paragraph | Figures | Plot


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks that belong together; pages show the title, terminals do not."""

    title: str
    blocks: Iterable[Block]


@dataclass(frozen=True, slots=True)
class Rows:
    """A complete list, for machines. ``chunks``: its rows, many at a time, read once.

    ``names``, ``types``: of its columns; without types, it is for text alone.
    """

    names: tuple[str, ...]
    chunks: Callable[[], Iterator[Sequence[Sequence[Any]]]]
    types: tuple[Type, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Something to tell people and machines. Everything is made when it is asked for.

    ``sections``: called with whether a page is made of them, which holds more than a terminal.
    ``data``: what JSON holds; ``lists``: behind it, by name, lists that may not fit into memory.
    ``rows``: complete lists, of which CSV and Parquet hold the first.
    """

    title: str = ""
    subtitle: str = ""
    sections: Callable[[bool], Iterable[Section]] = lambda page: ()
    data: Callable[[], Mapping[str, Any]] = dict
    lists: Mapping[str, Callable[[], Iterable[Mapping[str, Any]]]] = field(default_factory=dict)
    rows: Sequence[Rows] = ()


def clip_entry(entry: bytes) -> bytes:
    """An entry or an example as far as it is shown, with a sign where it goes on."""
    from vocabtool.oov.lookalikes import clip

    return clip(entry, 0, len(entry), 0, MAX_ENTRY_BYTES)


def percent(share: float) -> str:
    """A share of 1 as percent; never 0 or 100 where it is not."""
    shown = f"{100 * share:.2f}%"
    if shown == "0.00%" and share > 0:
        return "<0.01%"
    return ">99.99%" if shown == "100.00%" and share < 1 else shown


def number(value: float, kind: Kind) -> str:
    """A number as people read it."""
    match kind:
        case "percent":
            return percent(value)
        case "ratio":
            return f"{value:.4f}"
        case "doublings":
            return f"{value:+.1f}"
    return f"{'~' * isinstance(value, Estimate)}{value:,}"


def as_text(data: bytes) -> str:
    """Bytes as text that any encoding of Unicode can carry."""
    return data.decode("utf-8", "backslashreplace")


MAX_ENTRY_WIDTH: Final = 24  # characters of an entry


def render_text(report: Report, width: int) -> str:
    """The sections of a report, in ``width`` columns of text."""
    sections = (
        "".join(_block(block, width) for block in section.blocks)
        for section in report.sections(False)
    )
    return "\n".join(section for section in sections if section)


def tabs(report: Report) -> Iterator[str]:
    """The complete lists of a report: names of columns, then a line for each row.

    Entries are escaped where they are not printable.
    """
    for place, rows in enumerate(report.rows):
        yield "\n" * (place > 0) + "\t".join(_without_flags(rows, rows.names)) + "\n"
        for chunk in rows.chunks():
            yield from ("\t".join(map(_plain, _without_flags(rows, row))) + "\n" for row in chunk)


def _without_flags(rows: Rows, cells: Sequence[Any]) -> list[Any]:
    """Without flags, which say what empty cells say."""
    if "flag" not in rows.types:
        return [*cells]
    return [cell for cell, kind in zip(cells, rows.types, strict=True) if kind != "flag"]


def _plain(value: Any) -> str:
    if isinstance(value, bytes | str):
        return printable(value if isinstance(value, bytes) else encode(value))
    return "" if value is None else str(value)


def _block(block: Block, width: int) -> str:
    match block:
        case Table():
            rows = [
                tuple(_cell(cell, column) for cell, column in zip(row, block.columns, strict=True))
                for row in block.rows
            ]
            return draw(block.columns, rows, width) if rows else ""
        case Facts():
            return "".join(list_facts(block.pairs))
        case Notes():
            return "".join(f"{printable(encode(sentence))}\n" for sentence in block.sentences)
        case Paragraph():
            return f"{block.text}\n"
    return ""


def _cell(cell: Cell, column: Column) -> str:
    match cell:
        case None:
            return ""
        case str():
            return cell
        case bytes():
            return short(clip_entry(cell))
        case tuple():
            return "".join(_cell(part, column) for part in cell)
    return number(cell, column.kind)


def draw(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int) -> str:
    """A table in at most ``width`` columns of text; numbers end right."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        justify = "left" if column.kind == "text" else "right"
        table.add_column(column.name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    lines = [line.rstrip() for line in capture.get().split("\n")]
    return "".join(f"{line}\n" for line in lines if line)


def list_facts(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Names and what they mean, a line each; strangers' text is made printable."""
    rows = [(name, printable(encode(text))) for name, text in pairs]
    margin = max((len(name) for name, _ in rows), default=0)
    return (f"{name:<{margin}}  {text}\n" for name, text in rows)


def align(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of equally many cells as lines; a wide character (``日``) takes two columns of text."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        yield "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in cells).rstrip()


def short(entry: bytes, most: int = MAX_ENTRY_WIDTH) -> str:
    """An entry as a person may safely see it, cut where it is long."""
    text = printable(entry)
    return text if len(text) <= most else text[: most - 1] + "…"
