"""What each row of an index holds, as hashes: a document that comes again is known to be unchanged.

    hashes.bin    32 bytes a row: BLAKE2b of 16 bytes of the text, and another of the kept fields

Rows are appended, and never changed. The id is no part of them.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, reading
from vocabtool.index.document_columns import DocumentRows
from vocabtool.vocabulary import encode

if TYPE_CHECKING:
    import pyarrow as pa

NAME: Final = "hashes.bin"
DIGEST: Final = 16  # bytes
ROW_BYTES: Final = 2 * DIGEST
NO_FIELDS: Final = bytes(DIGEST)

Hashes = NDArray[np.uint64]  # shape (n, 4): two numbers of the text, two of the fields


def hashes_of(rows: DocumentRows) -> Hashes:
    """The hashes of some documents. A field that is null counts as one that is not there."""
    held = sorted((encode(name), _bytes(column.texts)) for name, column in rows.fields.items())
    names, columns = [name for name, _ in held], [column for _, column in held]
    fields = zip(*columns, strict=True) if columns else [()] * rows.rows
    data = bytearray()
    for text, values in zip(_bytes(rows.texts), fields, strict=True):
        there = [pair for pair in zip(names, values, strict=True) if pair[1] is not None]
        data += blake2b(text, digest_size=DIGEST).digest()
        data += blake2b(repr(there).encode(), digest_size=DIGEST).digest() if there else NO_FIELDS
    return np.frombuffer(data, "<u8").reshape(-1, 4)


def opened(folder: Path, rows: int) -> Hashes:
    """Those of a commit, mapped. Raises :class:`InvalidFile` where the file is shorter."""
    path = folder / NAME
    if not rows:
        return np.zeros((0, 4), np.uint64)
    with reading(str(path)):
        size = path.stat().st_size
        if size < rows * ROW_BYTES:
            raise InvalidFile(f"cut off: {size:,} bytes, wanted {rows * ROW_BYTES:,}")
        return np.asarray(np.memmap(path, "<u8", "r", shape=(rows, 4)))


def _bytes(column: pa.StringArray) -> list[bytes]:
    import pyarrow as pa

    found: list[bytes] = column.view(pa.binary()).to_pylist()
    return found
