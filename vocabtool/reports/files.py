"""Reports into files: CSV (RFC 4180), JSON and Parquet; each appears when it is complete.

Only an entry that is not UTF-8 has a ``base64``, and is empty itself; flags are 0 or 1; what there
is not is empty; other bytes are escaped where they are not UTF-8.

Lists that may be long come last, an entry a line, and are written as they are made.

An entry is a string, null where it is not UTF-8, and ``bytes``, null where it is. The report's
other figures are JSON, without the lists, in the metadata under the key ``vocabtool``.
"""

from __future__ import annotations

import csv
import io
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

from vocabtool.reports.model import Report, Rows, Type, as_text
from vocabtool.system.own_files import whole_file
from vocabtool.vocabulary import is_utf8

if TYPE_CHECKING:
    import pyarrow as pa


def write_csv(report: Report, file: BinaryIO) -> None:
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


def write_json(report: Report, file: BinaryIO) -> None:
    """Write all that a report knows."""
    text = json.dumps(report.data(), ensure_ascii=False, indent=2)
    if not report.lists:
        file.write(_bytes(text) + b"\n")
        return
    file.write(_bytes(text.removesuffix("\n}")) + b',\n  "entries": {')
    for number, (name, rows) in enumerate(report.lists.items()):
        file.write(b"," * (number > 0) + f'\n    "{name}": ['.encode())
        between = b"\n"
        for row in rows():
            file.write(between + b"      " + _bytes(json.dumps(row, ensure_ascii=False)))
            between = b",\n"
        file.write(b"\n    ]")
    file.write(b"\n  }\n}\n")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


KEY: Final = b"vocabtool"


def write_parquet(report: Report, file: BinaryIO) -> None:
    """Write the first complete list of a report, a row group for each chunk of it."""
    import pyarrow.parquet as pq

    rows = report.rows[0]
    schema = _schema(report, rows)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for chunk in rows.chunks():
            writer.write_batch(_batch(chunk, rows, schema))


def _schema(report: Report, rows: Rows) -> pa.Schema:
    import pyarrow as pa

    kinds = {
        **dict.fromkeys(("entry", "escaped", "text"), pa.string()),
        **{"flag": pa.bool_(), "integer": pa.int64(), "number": pa.float64()},
    }
    columns = [(name, kinds[kind]) for name, kind in zip(rows.names, rows.types, strict=True)]
    if rows.types[0] != "entry":
        return pa.schema(columns)
    data = {name: value for name, value in report.data().items() if name not in LISTED}
    return pa.schema(
        [columns[0], ("bytes", pa.binary()), *columns[1:]], {KEY: json.dumps(data).encode()}
    )


# Of what JSON holds, what the rows hold.
LISTED: Final = ("unknown_words", "unknown_words_listed", "unknown_words_in_all")


def _batch(chunk: Any, rows: Rows, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns: list[list[Any]] = []
    for values, kind in zip(zip(*chunk, strict=True), rows.types, strict=True):
        if kind == "entry":
            columns.append([value if is_utf8(value) else None for value in values])
            columns.append([None if is_utf8(value) else value for value in values])
        elif kind == "escaped":
            columns.append([None if value is None else as_text(value) for value in values])
        else:
            columns.append(list(values))
    arrays = [pa.array(each, kind) for each, kind in zip(columns, schema.types, strict=True)]
    return pa.record_batch(arrays, schema=schema)


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
        write_json(report, file)
    elif format == "csv":
        write_csv(report, file)
    elif format == "parquet":
        write_parquet(report, file)
    elif format == "html":
        from vocabtool.reports import page

        file.write(page.render(report).encode("utf-8", "backslashreplace"))
    else:
        from vocabtool.reports import model

        lines = model.tabs(report) if width is None else [model.render_text(report, width)]
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
