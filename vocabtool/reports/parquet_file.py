"""Complete lists as Parquet; the same version of pyarrow gives the same bytes.

An entry is a string, null where it is not UTF-8, and ``bytes``, null where it is. The report's
other figures are JSON, without the lists, in the metadata under the key ``vocabtool``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from vocabtool.reports.model import Report, Rows, as_text
from vocabtool.vocabulary import is_utf8

if TYPE_CHECKING:
    import pyarrow as pa

KEY: Final = b"vocabtool"


def write(report: Report, file: BinaryIO) -> None:
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
