"""Reports into files: which format, and a file that appears when it is complete."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Final, Literal

from vocabtool.reports.model import Report
from vocabtool.system.whole_file import whole_file

Format = Literal["text", "json", "csv", "parquet", "html"]
ENDINGS: Final[dict[str, Format]] = {
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".html": "html",
    ".htm": "html",
}
FILE_WIDTH: Final = 100  # columns of text in a file


def format_of(path: str | Path) -> Format:
    """What the ending of a file means; any other ending than those of ``ENDINGS`` is text."""
    return ENDINGS.get(Path(path).suffix.lower(), "text")


def write(
    report: Report,
    file: BinaryIO,
    format: Format,  # noqa: A002 - as the option is called
    width: int | None = None,
) -> None:
    """Write a report to an open file. The same report always gives the same bytes.

    ``text`` is for a terminal of ``width`` columns, or, without one, tab-separated complete lists.
    """
    if format == "json":
        from vocabtool.reports import json_file

        json_file.write(report, file)
    elif format == "csv":
        from vocabtool.reports import csv_file

        csv_file.write(report, file)
    elif format == "parquet":
        from vocabtool.reports import parquet_file

        parquet_file.write(report, file)
    elif format == "html":
        from vocabtool.reports import page

        file.write(page.render(report).encode("utf-8", "backslashreplace"))
    else:
        from vocabtool.reports import terminal

        lines = terminal.tabs(report) if width is None else [terminal.render(report, width)]
        file.writelines(line.encode("utf-8", "backslashreplace") for line in lines)


def save(
    report: Report,
    path: str | Path,
    format: Format | None = None,  # noqa: A002 - as the option is called
    width: int | None = FILE_WIDTH,
) -> None:
    """Write a file wholly or not at all. Raises :class:`NotFound` without a folder to write in."""
    with whole_file(path) as file:
        write(report, file, format or format_of(path), width)
