"""CRC-32C of files, which tells whether they are still what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from vocabtool.errors import InvalidFile, reading

READ: Final = 4 << 20


def checksum(path: Path, size: int | None = None) -> int:
    """The CRC-32C of a file, or of its first ``size`` bytes.

    Raises :class:`NotFound` where it cannot be read, :class:`InvalidFile` where it is shorter.
    """
    import google_crc32c

    found, left = 0, size
    with reading(str(path)), path.open("rb") as file:
        while block := file.read(READ if left is None else min(READ, left)):
            found = google_crc32c.extend(found, block)
            left = None if left is None else left - len(block)
        if left:
            raise InvalidFile(f"cut off: {left:,} of {size:,} bytes are missing")
    return found


def compare(path: Path, wanted: int, size: int | None = None) -> None:
    """Compare the checksum. Raises :class:`InvalidFile`, which names the file."""
    _compare(checksum(path, size), wanted, path)


def compare_bytes(content: bytes, wanted: int, path: Path) -> None:
    """The same of a file that was read."""
    import google_crc32c

    _compare(int(google_crc32c.value(content)), wanted, path)


def _compare(found: int, wanted: int, path: Path) -> None:
    if found != wanted:
        raise InvalidFile(f"damaged: CRC-32C {found:08x}, wanted {wanted:08x}", file=str(path))
