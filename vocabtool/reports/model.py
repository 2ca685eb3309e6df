"""What a report is made of: sections of facts, tables, figures, plots, notes; and complete lists.

The other files of this package make a :class:`Report` of what was found; ``renderers.py`` shows
any of them. What comes from strangers is put into a report as it is: renderers make it harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from vocabtool.vocabulary import encode, printable

MAX_ENTRY_BYTES: Final = 200  # of an entry that a person is shown; one may be a whole file
MAX_ENTRY_WIDTH: Final = 24  # characters of an entry in a table

# How the cells of a column are shown. All but ``text`` are numbers, and end right.
Kind = Literal["text", "count", "percent", "ratio", "doublings", "score", "share"]
FORMATS: Final[dict[Kind, str]] = {
    **{"count": ",", "ratio": ".4f", "doublings": "+.1f", "score": ".3f", "share": ".1%"},
}
# A text, an entry (strangers' bytes), both one behind the other, or a number.
Cell = str | bytes | tuple[str | bytes, ...] | float | None
Row = Sequence[Cell]
# What a column of a complete list holds: the entry that the row is about, other bytes (shown
# escaped where they are not UTF-8), or a plain value.
Type = Literal["entry", "escaped", "flag", "integer", "number", "text"]


class Estimate(int):
    """A count that is estimated."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table for people. ``width``: in characters, else as wide as what it holds."""

    name: str = ""
    kind: Kind = "text"
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people. ``bars``: a page draws the column of that name as bars, too.

    ``small``: a page shows the column of that name small, below the first one. ``plain``: on a
    terminal it has no lines, and no head where no column has a name; between tabs for programs.
    """

    columns: Sequence[Column]
    rows: Iterable[Row]
    bars: str | None = None
    small: str | None = None
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what they mean; what has no name belongs to the one before.

    ``width``: of the names, which are indented then; else as wide as the longest.
    """

    pairs: Iterable[tuple[str, str]]
    width: int | None = None


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
class Item:
    """A line, and those that belong to it, ``indent`` characters further right."""

    head: str
    lines: Iterable[str]
    indent: int = 2


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


Block = Table | Facts | Notes | Paragraph | Item | Figures | Plot


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
    if kind == "percent":
        return percent(value)
    return f"{'~' * isinstance(value, Estimate)}{value:{FORMATS[kind]}}"


def as_text(data: bytes) -> str:
    """Bytes as text that any encoding of Unicode can carry."""
    return data.decode("utf-8", "backslashreplace")


def safe(text: str) -> str:
    """A text of strangers on one line, without anything that a terminal obeys."""
    return printable(encode(text))


def short(entry: bytes, most: int = MAX_ENTRY_WIDTH) -> str:
    """An entry as a person may safely see it, cut where it is long."""
    text = printable(entry)
    return text if len(text) <= most else text[: most - 1] + "…"


def short_name(path: str) -> str:
    """The last part of a path or an address; where that is a number, with the part before it."""
    *before, last = path.rstrip("/").split("/")
    return f"{before[-1]}/{last}" if before and last.isdigit() else last or path


def short_names(a: str, b: str) -> tuple[str, str]:
    """Return the last parts of two paths, as many as it takes to distinguish them."""
    short = short_name(a), short_name(b)
    parts_a, parts_b = (path.rstrip("/").split("/") for path in (a, b))
    count = 2
    while short[0] == short[1] and count <= max(len(parts_a), len(parts_b)):
        short = "/".join(parts_a[-count:]), "/".join(parts_b[-count:])
        count += 1
    return short
