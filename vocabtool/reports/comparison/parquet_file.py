"""A Parquet file with a row an entry: those that both hold, then those of A only, of B only.

Columns: ``token`` (string, null where it is not UTF-8), ``bytes`` (binary, null where it is), and
the others of ``Diff.to_arrow``. The comparison's other figures are JSON, as in ``json_file.py`` but
without entries, in its metadata under the key ``vocabtool``. The same version of pyarrow gives the
same bytes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from vocabtool.comparison.diff import Diff
from vocabtool.reports.comparison.json_file import facts
from vocabtool.reports.comparison.rows import Only, chunks, parts
from vocabtool.vocabulary import is_utf8

if TYPE_CHECKING:
    import pyarrow as pa

KEY: Final = b"vocabtool"


def write(found: Diff, file: BinaryIO, most: int | None = None, only: Only | None = None) -> None:
    """Write every entry, or the first ``most`` of each part; ``only``: of one part."""
    import pyarrow.parquet as pq

    schema = _schema(found)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for part in parts(only):
            for columns in chunks(found, part, most):
                writer.write_batch(_batch(columns, schema))


def _schema(found: Diff) -> pa.Schema:
    import pyarrow as pa

    columns = {"token": pa.string(), "bytes": pa.binary()}
    columns |= dict.fromkeys(("in_a", "in_b"), pa.bool_())
    columns |= dict.fromkeys(("id_a", "id_b"), pa.int64())
    columns |= dict.fromkeys(("kind_a", "kind_b"), pa.string())
    columns |= {"rank_a": pa.int64(), "rank_b": pa.int64(), "shift": pa.float64()}
    return pa.schema(columns, {KEY: json.dumps(facts(found)).encode()})


def _batch(columns: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    tokens, *others = columns
    texts = [token if is_utf8(token) else None for token in tokens]
    data = [token if text is None else None for token, text in zip(tokens, texts, strict=True)]
    every = zip((texts, data, *others), schema.types, strict=True)
    return pa.record_batch([pa.array(column, kind) for column, kind in every], schema=schema)
