"""Reports on unknown words, written: a table, JSON, CSV, Parquet, and a page for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Final, Literal, assert_never

from vocabtool.oov.report import OovReport
from vocabtool.system.whole_file import whole_file

ReportFormat = Literal["table", "json", "csv", "parquet", "html"]
ENDINGS: Final[dict[str, ReportFormat]] = {
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".html": "html",
    ".htm": "html",
}


PAGE: Final = 100  # columns of a table in a file


def write(
    report: OovReport,
    file: BinaryIO,
    format: ReportFormat,  # noqa: A002 - as the option is called
    *,
    width: int | None = None,
) -> None:
    """Write a report to an open file. The same report always gives the same bytes.

    ``json`` and ``html`` hold all figures, and the commonest unknown words; ``csv`` and
    ``parquet`` a row for each unknown word. ``table`` is for a terminal of ``width`` columns, or,
    without one, tab-separated.
    """
    match format:
        case "table":
            from vocabtool.reports.oov import table

            file.write(table.to_text(report, width).encode("utf-8", "backslashreplace"))
        case "json":
            from vocabtool.reports.oov import json_file

            file.write(json_file.to_json(report).encode("utf-8", "backslashreplace"))
        case "csv":
            from vocabtool.reports.oov import csv_file

            csv_file.write(report, file)
        case "parquet":
            from vocabtool.reports.oov import parquet_file

            parquet_file.write(report, file)
        case "html":
            from vocabtool.reports.oov import html

            file.write(html.to_html(report).encode("utf-8", "backslashreplace"))
        case _:
            assert_never(format)


def save_report(
    report: OovReport,
    path: str | Path,
    format: ReportFormat | None = None,  # noqa: A002 - as the option is called
) -> None:
    """Write a file wholly or not at all. Raises :class:`NotFound` without a folder to write in.

    Without ``format`` the ending of the file tells, and any other ending means ``table``.
    """
    known = format or ENDINGS.get(Path(path).suffix.lower(), "table")
    with whole_file(path) as file:
        write(report, file, known, width=PAGE)
