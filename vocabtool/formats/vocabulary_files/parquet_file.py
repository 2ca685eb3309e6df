"""Everything, as a Parquet file: columns ``id``, ``token`` and ``bytes``, facts in its metadata.

Each entry is in one of ``token`` and ``bytes``: in the latter where it is not UTF-8. The facts are
JSON under the key ``vocabtool``. The same version of pyarrow gives the same bytes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from vocabtool.errors import InvalidFile
from vocabtool.formats.vocabulary_files.facts import facts_of, vocabulary_of
from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa

KEY: Final = b"vocabtool"
COLUMNS: Final = {"id": "int64", "token": "string", "bytes": "binary"}


def write(vocabulary: Vocabulary, file: BinaryIO) -> None:
    """Write a vocabulary in row groups of ``CHUNK`` entries."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    facts = json.dumps(facts_of(vocabulary)).encode()
    columns = {"id": pa.int64(), "token": pa.string(), "bytes": pa.binary()}
    schema = pa.schema(columns, {KEY: facts})
    strange = set(vocabulary.stored.not_utf8.tolist())
    ids, stored = vocabulary.id_array(), vocabulary.stored
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for at in range(0, len(stored), CHUNK):
            some = range(at, min(at + CHUNK, len(stored)))
            tokens = [None if i in strange else stored[i].decode() for i in some]
            raw = [stored[i] if i in strange else None for i in some]
            arrays = [pa.array(ids[at : at + CHUNK]), pa.array(tokens, pa.string())]
            batch = pa.record_batch([*arrays, pa.array(raw, pa.binary())], schema=schema)
            writer.write_batch(batch)


def read(data: bytes) -> Vocabulary:
    """Read what :func:`write` wrote. Raises :class:`InvalidFile` for anything else."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:  # read_table imports more of Arrow
            table = file.read()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidFile(f"not Parquet, or damaged: {error}") from error
    found = [(field.name, str(field.type)) for field in table.schema]
    if sorted(found) != sorted(COLUMNS.items()):  # one may be there twice
        raise InvalidFile(f"wanted the columns {list(COLUMNS.items())}, got {found}")
    return vocabulary_of(_facts(table.schema), _entries(table), _ids(table))


def _facts(schema: pa.Schema) -> dict[str, Any]:
    try:
        facts = json.loads((schema.metadata or {}).get(KEY, b""))
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"no facts in its metadata: {error}") from error
    if not isinstance(facts, dict):
        raise InvalidFile("the facts in its metadata are no object")
    return facts


def _entries(table: pa.Table) -> ByteStrings:
    entries = []
    for token, raw in zip(
        table.column("token").to_pylist(), table.column("bytes").to_pylist(), strict=True
    ):
        if (token is None) == (raw is None):
            raise InvalidFile("wanted either token or bytes in every row")
        entries.append(raw if token is None else token.encode())
    return ByteStrings.of(entries)


def _ids(table: pa.Table) -> Any:
    ids = table.column("id")
    if ids.null_count:
        raise InvalidFile("wanted an id in every row")
    return np.asarray(ids.to_numpy(), np.int64)
