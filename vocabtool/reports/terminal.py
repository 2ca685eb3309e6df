"""Reports as text: tables for a terminal, tab-separated lines for a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from vocabtool.reports.model import (
    Block,
    Cell,
    Column,
    Facts,
    Notes,
    Paragraph,
    Report,
    Rows,
    Table,
    clip_entry,
    number,
)
from vocabtool.vocabulary import encode, printable

MAX_ENTRY_WIDTH: Final = 24  # characters of an entry


def render(report: Report, width: int) -> str:
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
