"""Complete lists as CSV by RFC 4180.

Only an entry that is not UTF-8 has a ``base64``, and is empty itself; flags are 0 or 1; what there
is not is empty; other bytes are escaped where they are not UTF-8.
"""

from __future__ import annotations

import csv
import io
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from vocabtool.reports.model import Report, Type, as_text


def write(report: Report, file: BinaryIO) -> None:
    """Write the first complete list of a report."""
    rows = report.rows[0]
    first, *others = rows.names
    has_entries = rows.types[0] == "entry"
    file.write(_lines([[first, *["base64"] * has_entries, *others]]))
    for chunk in rows.chunks():
        file.write(_lines(_cells(row, rows.types) for row in chunk))


def _cells(row: Iterable[Any], types: tuple[Type, ...]) -> Iterator[object]:
    for value, kind in zip(row, types, strict=True):
        if kind == "entry":
            try:
                yield value.decode()
                yield ""
            except UnicodeDecodeError:
                yield ""
                yield b64encode(value).decode()
        elif isinstance(value, bytes):
            yield as_text(value)
        else:
            yield int(value) if kind == "flag" else value


def _lines(rows: Iterable[Iterable[object]]) -> bytes:
    """Line ends as RFC 4180 has them: with others, Python 3.11 would not quote a lone CR."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode("utf-8", "backslashreplace")
