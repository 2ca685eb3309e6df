"""The files that hold a fixed number of bytes a row: rows are added at the end, and never changed.

Bytes behind the committed length are left by a writer that was killed. Reading vectors is the
business of ``vectors/raw.py``, reading hashes that of ``row_hashes.py``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from vocabtool.errors import InvalidFile, reading

NAME: Final = "vectors.bin"


class Written(NamedTuple):
    """How much of the file is committed: bytes, and their CRC-32C."""

    size: int
    crc32c: int


class AppendedFile:
    """A file, to be appended to. ``written``: how much of it is there."""

    def __init__(self, path: Path, written: Written) -> None:
        """Open it where it was committed: what lies behind is cut off.

        Raises :class:`InvalidFile` where it is shorter.
        """
        with reading(str(path)):
            if written.size and (found := path.stat().st_size) < written.size:
                raise InvalidFile(f"cut off: {found:,} bytes, wanted {written.size:,}")
            self._file = path.open("r+b" if path.exists() else "x+b")
            self._file.truncate(written.size)
            self._file.seek(written.size)
        self.written = written

    def append(self, data: bytes) -> None:
        """Add rows."""
        import google_crc32c

        self._file.write(data)
        size, crc = self.written
        self.written = Written(size + len(data), google_crc32c.extend(crc, data))

    def flush(self) -> None:
        """Put everything onto the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
