"""Tables of text for a terminal: columns as wide as they need to be, and no wider than it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from vocabtool.vocabulary import encode, printable

Row = tuple[str, ...]


def drawn(
    columns: Row, rows: Iterable[Row], width: int, numbers: Collection[str] = frozenset()
) -> str:
    """A table in at most ``width`` columns of text; the columns in ``numbers`` end right."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        right = column in numbers
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    lines = [line.rstrip() for line in capture.get().split("\n")]
    return "".join(f"{line}\n" for line in lines if line)


def listed(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Names and what they mean, a line each; strangers' text is made printable."""
    rows = [(name, printable(encode(text))) for name, text in pairs]
    margin = max((len(name) for name, _ in rows), default=0)
    return (f"{name:<{margin}}  {text}\n" for name, text in rows)


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of equally many cells as lines; a wide character (``日``) takes two columns of text."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        yield "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in cells).rstrip()


def short(entry: bytes, most: int = 24) -> str:
    """An entry as a person may safely see it, cut where it is long."""
    text = printable(entry)
    return text if len(text) <= most else text[: most - 1] + "…"
