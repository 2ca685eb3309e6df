"""A Parquet file with a row per unknown word, the commonest first.

Columns: ``word`` (string, null where it is not UTF-8), ``bytes`` (binary, null where it is),
``count``, ``documents``, ``error`` (int64), ``kind``, ``like``, ``example`` (string). The report's
other figures are JSON, as in ``json_file.py`` but without unknown words, in its metadata under
the key ``vocabtool``. The same version of pyarrow gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, Final

from vocabtool.oov.report import OovReport, UnknownWord
from vocabtool.reports.oov.json_file import facts
from vocabtool.vocabulary import is_utf8

if TYPE_CHECKING:
    import pyarrow as pa

KEY: Final = b"vocabtool"
CHUNK: Final = 1 << 14


def write(report: OovReport, file: BinaryIO) -> None:
    """Write all unknown words in row groups of ``CHUNK``."""
    import pyarrow.parquet as pq

    schema = _schema(report)
    words = report.commonest()
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while some := list(islice(words, CHUNK)):
            writer.write_batch(_batch(some, schema))


def _schema(report: OovReport) -> pa.Schema:
    import pyarrow as pa

    without = {k: v for k, v in facts(report).items() if not k.startswith("unknown_words")}
    text, number = pa.string(), pa.int64()
    columns = {"word": text, "bytes": pa.binary()}
    columns |= dict.fromkeys(("count", "documents", "error"), number)
    columns |= dict.fromkeys(("kind", "like", "example"), text)
    return pa.schema(columns, {KEY: json.dumps(without).encode()})


def _batch(words: Sequence[UnknownWord], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    utf8 = [is_utf8(word.word) for word in words]
    columns = (
        [word.word if good else None for word, good in zip(words, utf8, strict=True)],
        [None if good else word.word for word, good in zip(words, utf8, strict=True)],
        [word.count for word in words],
        [word.documents for word in words],
        [word.error for word in words],
        [word.kind for word in words],
        [None if word.like is None else _text(word.like) for word in words],
        [_text(word.example) for word in words],
    )
    arrays = [pa.array(c, kind) for c, kind in zip(columns, schema.types, strict=True)]
    return pa.record_batch(arrays, schema=schema)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
