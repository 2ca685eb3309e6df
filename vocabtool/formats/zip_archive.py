"""A zip archive of somebody else's, read member by member, in memory and within bounds.

Python's ``zipfile`` knows the layout (PKWARE's APPNOTE.TXT); here is what it does not mind: an
archive of a million members or of one name twice, names that are paths out of a folder, and a
member that grows a thousandfold.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.vocabulary import printable

MAGIC: Final = b"PK\x03\x04"  # of the first member
MAX_MEMBERS: Final = 10_000
MAX_DIRECTORY: Final = 1 << 21  # bytes; Python needs fifteen times as many
MAX_FREE: Final = 1 << 23  # bytes that any archive may unpack to ...
MAX_GROWTH: Final = 3  # ... and this many times its own size
CHUNK: Final = 1 << 16
ENCRYPTED: Final = 1  # of a member's flags
METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of LZMA, a member sets the memory

DAMAGES: Final = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error),
    *(EOFError, OSError, RuntimeError, ValueError, OverflowError, NotImplementedError),
)


class _BoundedFile(io.FileIO):
    """A file that no single read takes much of: the directory's length is anybody's claim."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_DIRECTORY:
            raise InvalidFile(
                f"a zip directory of {size:,} bytes, wanted {MAX_DIRECTORY:,} at most"
            )
        return super().read(size) or b""


class ZipArchive:
    """An open archive; ``names``: its files, with ``/`` between folders, in their own order."""

    def __init__(self, path: Path) -> None:
        """Raises :class:`InvalidFile` for a damaged directory, and names that are no bare paths."""
        self._file = _BoundedFile(path, "rb")
        try:
            with _damage("its directory"):
                self._zip = zipfile.ZipFile(self._file)
            self._members = _check_names(self._zip.filelist)
        except BaseException:
            self._file.close()
            raise
        self.names = tuple(name for name in self._members if not name.endswith("/"))
        self._limit = self._left = MAX_FREE + MAX_GROWTH * path.stat().st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def read(self, name: str) -> bytes:
        """The content of a member, whose checksum is right.

        Raises :class:`InvalidFile` for a damaged member and one that grows too much,
        :class:`UnsupportedFormat` for an encrypted one and a rare compression.
        """
        member = self._members[name]
        shown = printable(name.encode("utf-8", "surrogateescape"))
        if member.flag_bits & ENCRYPTED:
            raise UnsupportedFormat(f"{shown} is encrypted: save the archive without a password")
        if member.compress_type not in METHODS:
            raise UnsupportedFormat(
                f"{shown} is compressed by method {member.compress_type}, wanted 0 (stored) or "
                "8 (deflated): pack the archive anew"
            )
        data = bytearray()
        with _damage(shown), self._zip.open(member) as opened:
            while piece := opened.read(min(CHUNK, self._left + 1)):
                data += piece
                self._left -= len(piece)
                if self._left < 0:
                    raise InvalidFile(
                        f"with {shown}, what is read of the archive unpacks to more than "
                        f"{self._limit:,} bytes: far more than it has"
                    )
        return bytes(data)


def _check_names(members: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    if len(members) > MAX_MEMBERS:
        raise InvalidFile(f"{len(members):,} members, wanted {MAX_MEMBERS:,} at most")
    checked: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        name = member.orig_filename.replace("\\", "/")
        shown = printable(name.encode("utf-8", "surrogateescape"))
        parts = name.removesuffix("/").split("/")
        if any(part in ("", ".", "..") for part in parts) or set(name) & {"\0", ":"}:
            raise InvalidFile(f"the member {shown!r} is a path out of the archive")
        if name in checked and not name.endswith("/"):
            raise InvalidFile(f"two members are named {shown!r}")
        checked[name] = member
    return checked


@contextmanager
def _damage(part: str) -> Iterator[None]:
    try:
        yield
    except (InvalidFile, UnsupportedFormat):
        raise
    except DAMAGES as error:
        raise InvalidFile(f"the zip archive is damaged at {part}: {error}") from error
