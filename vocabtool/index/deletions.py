"""Which rows of an index are deleted: a bitmap beside each commit, one bit a row."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, reading
from vocabtool.system.checksums import checksum, compare
from vocabtool.system.whole_file import whole_file

NAME: Final = "deleted-{:06}.bits"  # by the number of the commit

Deleted = NDArray[np.bool_]  # shape (rows,)


class DeletedFile(NamedTuple):
    """A bitmap as the manifest tells of it: of which commit, and how many rows are deleted."""

    commit: int
    rows: int
    crc32c: int


def write(folder: Path, commit: int, deleted: Deleted) -> DeletedFile | None:
    """Keep a bitmap; ``None`` where nothing is deleted."""
    count = int(np.count_nonzero(deleted))
    if not count:
        return None
    path = folder / NAME.format(commit)
    with whole_file(path) as file:
        file.write(np.packbits(deleted).tobytes())
    return DeletedFile(commit, count, checksum(path))


def read(folder: Path, file: DeletedFile | None, rows: int) -> Deleted:
    """The bitmap of a commit. Raises :class:`InvalidFile` for another one than was written."""
    if file is None:
        return np.zeros(rows, np.bool_)
    path = folder / NAME.format(file.commit)
    with reading(str(path)):
        size, wanted = path.stat().st_size, -(-rows // 8)
        if size != wanted:
            raise InvalidFile(f"{size:,} bytes, wanted {wanted:,}")
        compare(path, file.crc32c)
        bits = np.unpackbits(np.frombuffer(path.read_bytes(), np.uint8), count=rows)
    deleted = bits.astype(np.bool_)
    if np.count_nonzero(deleted) != file.rows:
        raise InvalidFile(f"wanted {file.rows:,} deleted rows", file=str(path))
    return deleted
