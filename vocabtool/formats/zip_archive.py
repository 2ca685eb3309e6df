"""Read members of an untrusted zip archive in memory, with limits on their number and size.

Python's ``zipfile`` parses the layout (PKWARE's APPNOTE.TXT).
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Self

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats.files import MAX_FILES
from vocabtool.vocabulary import printable

ZIP: Final = b"PK\x03\x04"  # at the beginning of a member
MAX_DIRECTORY: Final = 1 << 21  # bytes; Python needs fifteen times as many
MAX_FREE: Final = 1 << 23  # bytes that any archive may unpack to ...
MAX_GROWTH: Final = 3  # ... and this many times its own size
CHUNK: Final = 1 << 16
ENCRYPTED: Final = 1  # bit of a member's flags
METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # in LZMA, a member sets the memory

DAMAGES: Final = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error),
    *(EOFError, OSError, RuntimeError, ValueError, OverflowError, NotImplementedError),
)


class _BoundedFile(io.FileIO):
    """A file that refuses large reads, because a damaged archive may state any size."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_DIRECTORY:
            raise InvalidFile(f"a zip directory of {size:,} bytes, more than {MAX_DIRECTORY:,}")
        return super().read(size) or b""


class ZipArchive:
    """An open zip archive.

    ``names``: with ``/``, in the order of the archive. ``most``: how many bytes to unpack in total;
    by default, ``MAX_FREE`` plus ``MAX_GROWTH`` times the size of the archive.
    """

    def __init__(self, path: Path, most: int | None = None) -> None:
        self._file = _BoundedFile(path, "rb")
        try:
            with _zip_damage("its directory"):
                self._zip = zipfile.ZipFile(self._file)
            self._members = _check_members(self._zip.filelist)
        except BaseException:
            self._file.close()
            raise
        self.names = tuple(name for name in self._members if not name.endswith("/"))
        self._limit = MAX_FREE + MAX_GROWTH * path.stat().st_size if most is None else most
        self._left = self._limit

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def read(self, name: str) -> bytes:
        data = io.BytesIO()
        self.copy(name, data)
        return data.getvalue()

    def copy(self, name: str, target: BinaryIO) -> None:
        """Write the content of a member to ``target``, and check its checksum."""
        member = self._members[name]
        shown = printable(name.encode("utf-8", "surrogateescape"))
        if member.flag_bits & ENCRYPTED:
            raise UnsupportedFormat(f"{shown} is encrypted: save the archive without a password")
        if member.compress_type not in METHODS:
            what = (
                f"is compressed by method {member.compress_type}, wanted 0 (stored) or 8 (deflated)"
            )
            raise UnsupportedFormat(f"{shown} {what}")
        with _zip_damage(shown), self._zip.open(member) as opened:
            while piece := opened.read(min(CHUNK, self._left + 1)):
                self._left -= len(piece)
                if self._left < 0:
                    what = f"the archive unpacks to more than {self._limit:,} bytes"
                    raise InvalidFile(f"{shown}: {what}, far more than its size")
                target.write(piece)


def _check_members(members: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Return the members by path. Raises :class:`InvalidFile` for bad or repeated paths."""
    if len(members) > MAX_FILES:
        raise InvalidFile(f"an archive of {len(members):,} members, wanted at most {MAX_FILES:,}")
    checked: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        name = member.orig_filename.replace("\\", "/")
        shown = printable(name.encode("utf-8", "surrogateescape"))
        steps = name.removesuffix("/").split("/")
        if any(step in ("", ".", "..") for step in steps) or set(name) & {"\0", ":"}:
            raise InvalidFile(f"the path of the member {shown!r} leads out of the archive")
        if name in checked and not name.endswith("/"):
            raise InvalidFile(f"two members are named {shown!r}")
        checked[name] = member
    return checked


@contextmanager
def _zip_damage(part: str) -> Iterator[None]:
    """Turn the errors of ``zipfile`` into :class:`InvalidFile`. ``part``: what is read."""
    try:
        yield
    except (InvalidFile, UnsupportedFormat):
        raise
    except DAMAGES as error:
        raise InvalidFile(f"the zip archive is damaged at {part}: {error}") from error
