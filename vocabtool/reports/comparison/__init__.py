"""Comparisons, written: text, JSON, CSV, Parquet, and a page for a browser."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final, Literal, assert_never

from vocabtool.comparison.diff import Diff
from vocabtool.reports.comparison.rows import Only
from vocabtool.system.whole_file import whole_file

DiffFormat = Literal["text", "json", "csv", "parquet", "html"]
ENDINGS: Final[dict[str, DiffFormat]] = {
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".html": "html",
    ".htm": "html",
}
PAGE: Final = 100  # columns of text in a file


def write(
    found: Diff,
    file: BinaryIO,
    format: DiffFormat,  # noqa: A002 - as the option is called
    *,
    width: int | None = None,
    most: int | None = None,
    only: Only | None = None,
) -> None:
    """Write a comparison to an open file. The same one always gives the same bytes.

    ``most``: how many entries of each list. Without it, ``json``, ``csv`` and ``parquet`` hold all
    of them, and so does ``text`` without a ``width``, tab-separated; ``text`` of ``width`` columns
    and ``html`` a few. ``only``: a complete list (``text`` too, whatever its ``width``) of the
    entries that only A holds (``a``), only B (``b``), or ``both``. Raises ``ValueError`` for it
    with ``json`` or ``html``, which hold the whole comparison.
    """
    if only is not None and format in ("json", "html"):
        raise ValueError(f"only: {format} holds the whole comparison")
    match format:
        case "text":
            from vocabtool.reports.comparison import text

            if width and only is None:
                lines: Iterable[str] = [text.to_text(found, width, most)]
            else:
                lines = text.to_rows(found, most, only)
            file.writelines(line.encode("utf-8", "backslashreplace") for line in lines)
        case "json":
            from vocabtool.reports.comparison import json_file

            json_file.write(found, file, most)
        case "csv":
            from vocabtool.reports.comparison import csv_file

            csv_file.write(found, file, most, only)
        case "parquet":
            from vocabtool.reports.comparison import parquet_file

            parquet_file.write(found, file, most, only)
        case "html":
            from vocabtool.reports.comparison import html

            file.write(html.to_html(found, most).encode("utf-8", "backslashreplace"))
        case _:
            assert_never(format)


def save_diff(
    found: Diff,
    path: str | Path,
    format: DiffFormat | None = None,  # noqa: A002 - as the option is called
    *,
    most: int | None = None,
    only: Only | None = None,
) -> None:
    """Write a file wholly or not at all. Raises :class:`NotFound` without a folder to write in.

    Without ``format`` the ending of the file tells, and any other ending means ``text``.
    """
    known = format or ENDINGS.get(Path(path).suffix.lower(), "text")
    with whole_file(path) as file:
        write(found, file, known, width=PAGE, most=most, only=only)
