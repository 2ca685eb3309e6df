"""Parts of a report, such as sections, tables, plots and complete lists.

The other files of this package build a :class:`Report`. ``renderers.py`` writes it, and escapes
untrusted text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from vocabtool.vocabulary import encode, printable

MAX_ENTRY_BYTES: Final = 200  # of an entry for people; an entry can be very long
MAX_ENTRY_WIDTH: Final = 24  # characters of an entry in a table

# Format of a column. All but ``text`` are right-aligned numbers.
Kind = Literal["text", "count", "percent", "ratio", "doublings", "score", "share", "mean"]
FORMATS: Final[dict[Kind, str]] = {
    **{"count": ",", "ratio": ".4f", "doublings": "+.1f", "score": ".3f", "share": ".1%"},
    "mean": ".2f",
}
# How a page marks a part of a text: a match, or the kind of a word of a query.
Mark = Literal["match", "known", "unknown", "absent", "code", "stop"]


@dataclass(frozen=True, slots=True)
class Link:
    """A link to an entry of the same page. ``to``: the name of the entry."""

    text: str
    to: str


# A text, an entry (untrusted bytes), a sequence of both, a number, or a link.
Cell = str | bytes | tuple[str | bytes, ...] | float | Link | None
Row = Sequence[Cell]
# Type of a column in a complete list: the entry of the row, other bytes (escaped if they are not
# UTF-8), or a plain value.
Type = Literal["entry", "escaped", "flag", "integer", "number", "text"]


class Estimate(int):
    """A count that is estimated, not exact."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table for people.

    ``width``: the width in characters. By default, the contents decide.
    """

    name: str = ""
    kind: Kind = "text"
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people.

    - ``bars``: name of a column that an HTML page also draws as bars.
    - ``longest``: the number with the longest bar; by default, the largest number of the column.
    - ``small``: names of columns that an HTML page leaves out. It prints their texts small, in the
      first cell of the row.
    - ``plain``: whether the table has no lines in text. On a terminal, its columns are aligned; in
      files and pipes, tabs separate its cells.
    """

    columns: Sequence[Column]
    rows: Iterable[Row]
    bars: str | None = None
    longest: float | None = None
    small: Sequence[str] = ()
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Pairs of a name and a text. A text without a name continues the previous text.

    ``width``: the width of all names, in characters. If given, the names are also indented. By
    default, the longest name decides.
    """

    pairs: Iterable[tuple[str, str]]
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Notes:
    """Notes to the reader, one sentence each."""

    sentences: Iterable[str]


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str
    small: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """A line, followed by lines that are indented by ``indent`` characters."""

    head: str
    lines: Iterable[str]
    indent: int = 2


@dataclass(frozen=True, slots=True)
class Exact:
    """A number. People see ``shown``; programs read ``name`` and ``value``."""

    name: str
    value: float
    shown: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A large number, with a title above it and a note below it."""

    title: str
    value: Exact
    note: tuple[str | Exact, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """The main figures of a report. A page shows them in large type, side by side."""

    figures: Sequence[Figure]


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot. ``draw`` returns an ``svg`` element; it is called when a page is written."""

    draw: Callable[[], str]


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text with marked parts, for HTML pages only.

    ``spans``: the start, end and mark of each marked part, in order.
    """

    text: str
    spans: Sequence[tuple[int, int, Mark]]


@dataclass(frozen=True, slots=True)
class Entry:
    """Blocks under a heading. Only HTML pages show entries.

    ``name``: the name by which links refer to the entry. It is unique on the page, and consists of
    ASCII letters, digits and ``-``.
    ``stands_out``: whether the entry has a coloured edge.
    """

    name: str
    title: str
    blocks: Sequence[Block]
    stands_out: bool = False


@dataclass(frozen=True, slots=True)
class Beside:
    """Two sections side by side, or stacked on a phone. Only HTML pages show them."""

    left: Section
    right: Section


Block = (
    Table | Facts | Notes | Paragraph | Item | Figures | Plot | Link | MarkedText | Entry | Beside
)


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under a title. Only HTML pages show the title."""

    title: str
    blocks: Iterable[Block]


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

    - ``sections``: a function that returns the sections. Its argument says whether the sections
      are for an HTML page.
    - ``data``: a function that returns the JSON object.
    - ``lists``: long lists of the JSON object, by name.
    - ``rows``: tables for programs. CSV and Parquet contain only the first table.
    """

    title: str = ""
    subtitle: str = ""
    sections: Callable[[bool], Iterable[Section]] = lambda page: ()
    data: Callable[[], Mapping[str, Any]] = dict
    lists: Mapping[str, Callable[[], Iterable[Mapping[str, Any]]]] = field(default_factory=dict)
    rows: Sequence[Rows] = ()


def report_of(data: Callable[[], Mapping[str, Any]], *sections: Iterable[Block]) -> Report:
    """Return a report whose sections have no titles."""
    return Report(sections=lambda page: [Section("", blocks) for blocks in sections], data=data)


def notes_of(notes: Iterable[str]) -> Notes:
    """Return a block in which each note begins with ``note:``."""
    return Notes(f"note: {note}" for note in notes)


def clip_entry(entry: bytes) -> bytes:
    from vocabtool.oov.lookalikes import clip

    return clip(entry, 0, len(entry), 0, MAX_ENTRY_BYTES)


def percent(share: float) -> str:
    """Format a share as percent. Only exactly 0 gives 0 %, and only exactly 1 gives 100 %."""
    shown = f"{100 * share:.2f}%"
    if shown == "0.00%" and share > 0:
        return "<0.01%"
    return ">99.99%" if shown == "100.00%" and share < 1 else shown


def number(value: float, kind: Kind) -> str:
    if kind == "percent":
        return percent(value)
    return f"{'~' * isinstance(value, Estimate)}{value:{FORMATS[kind]}}"


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


def short_name(path: str) -> str:
    """Return the last part of a path or URL; the last two parts if the last is a number."""
    *before, last = path.rstrip("/").split("/")
    return f"{before[-1]}/{last}" if before and last.isdigit() else last or path


def short_names(a: str, b: str) -> tuple[str, str]:
    """Return the ends of two paths, long enough to differ, such as ``x/m`` and ``y/m``."""
    short = short_name(a), short_name(b)
    parts_a, parts_b = (path.rstrip("/").split("/") for path in (a, b))
    count = 2
    while short[0] == short[1] and count <= max(len(parts_a), len(parts_b)):
        short = "/".join(parts_a[-count:]), "/".join(parts_b[-count:])
        count += 1
    return short
