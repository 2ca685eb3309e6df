"""What a report consists of: sections with a title, a table and lines of text.

The other files of this package build a :class:`Report`. ``render.py`` writes it, as text, JSON,
CSV, Parquet or HTML, and escapes untrusted text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from vocabtool.vocabulary import encode, is_utf8, printable

MAX_ENTRY_BYTES: Final = 200  # of an entry for people; an entry can be very long
MAX_ENTRY_WIDTH: Final = 24  # characters of an entry in a table

# Format of a column. All but ``text`` are right-aligned numbers.
Kind = Literal["text", "count", "percent", "ratio", "doublings", "score", "share", "mean"]
FORMATS: Final[dict[Kind, str]] = {
    **{"count": ",", "ratio": ".4f", "doublings": "+.1f", "score": ".3f", "share": ".1%"},
    "mean": ".2f",
}
# A text, an entry (untrusted bytes), a sequence of both, or a number.
Cell = str | bytes | tuple[str | bytes, ...] | float | None
# Type of a column in a complete list: the entry of the row, other bytes (escaped if they are not
# UTF-8), or a plain value.
Type = Literal["entry", "escaped", "flag", "integer", "number", "text"]


class Estimate(int):
    """A count that is estimated, not exact."""


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
    about = "~" if isinstance(value, Estimate) else ""
    return f"{about}{value:{FORMATS[kind]}}"


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
