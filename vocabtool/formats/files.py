"""A stranger's files: read up to a limit, found by a bare name but never by a link, unzipped.

A model may name ``../../etc/passwd`` as its vocabulary, or hold a link to it: neither is opened.

Zip archives are read member by member, in memory and within bounds. Python's ``zipfile`` knows the
layout (PKWARE's APPNOTE.TXT); here is what it does not mind: an archive of a million members or of
one name twice, names that are paths out of a folder, and a member that grows a thousandfold.

Where tensorflow_hub keeps a module that it has downloaded: ``tfhub_cache_dir`` in
tensorflow_hub/resolver.py and ``_module_dir`` in tensorflow_hub/compressed_module_resolver.py
(0.16.1). The folder's name is the SHA-1 of the handle exactly as it was spelled there: no slash,
query or host is evened out, and addresses of kaggle.com are treated like any other. Nothing is
downloaded here.
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import os
import re
import shlex
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from vocabtool.errors import InvalidFile, NotFound, UnsupportedFormat, refuse_pointer
from vocabtool.formats.wire import Buffer
from vocabtool.vocabulary import printable


def map_file(file: Path) -> Buffer:
    """The content of a file, of which nothing is read yet; an empty file is ``b""``."""
    with file.open("rb") as opened:
        if not opened.seek(0, 2):
            return b""
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)


def read_file(file: Path, limit: int, what: str = "larger than {:,} bytes") -> bytes:
    """The content of a file.

    Raises :class:`UnsupportedFormat` where it has more bytes than ``limit``, which ``what`` says,
    and :class:`InvalidFile` for a pointer of Git LFS.
    """
    with file.open("rb") as opened:
        data = opened.read(limit + 1)
    if len(data) > limit:
        raise UnsupportedFormat(what.format(limit))
    refuse_pointer(data[:64])
    return data


def named_file(folder: Path, name: bytes) -> Path:
    """The file of that name in ``folder``, whether it is there or not.

    Raises :class:`InvalidFile` where the name is a path, on any system, or no text.
    """
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = ""
    if text in ("", ".", "..") or any(c in text for c in "/\\:\0"):
        raise InvalidFile(f"the model names the file {printable(name)!r}, a path: it is not opened")
    return folder / text


def refuse_link(path: Path) -> None:
    """Raise :class:`InvalidFile` where ``path`` is a symbolic link."""
    if path.is_symlink():
        raise InvalidFile("a symbolic link: it is not opened; put what it points to in its place")


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


CACHE_DIR: Final = "TFHUB_CACHE_DIR"
DESCRIPTOR: Final = ".descriptor.txt"  # beside a module's folder; its first line names the handle
HANDLE: Final = re.compile(r"https?://[^/\s]")
MODULE: Final = b"Module: "
MAX_DESCRIPTOR: Final = 4096  # bytes of a descriptor that are read
MAX_NAMED: Final = 5  # handles that an error message names


def is_handle(text: str) -> bool:
    """Whether ``text`` is the address of a module: ``http://`` or ``https://``, any host."""
    return HANDLE.match(text) is not None


def find(handle: str) -> Path:
    """The folder that tensorflow_hub has downloaded the module ``handle`` into.

    Raises :class:`NotFound`, which says how to get it, where there is none or an empty one.
    """
    import tempfile  # it takes as long to import as all else here

    told = os.environ.get(CACHE_DIR)
    cache = Path(told or Path(tempfile.gettempdir(), "tfhub_modules"))
    encoded = handle.encode("utf-8", "surrogateescape")
    name = hashlib.sha1(encoded, usedforsecurity=False).hexdigest()
    folder = cache / name
    if folder.is_dir() and any(folder.iterdir()):
        return folder
    resolve = f"import tensorflow_hub; tensorflow_hub.resolve({json.dumps(handle)})"
    archive = handle + ("&" if "?" in handle else "?") + "tf-hub-format=compressed"
    handles = []  # of the modules in the cache, as far as their descriptors tell
    for descriptor in sorted(cache.glob("*" + DESCRIPTOR)):
        if descriptor.is_file() and Path(str(descriptor).removesuffix(DESCRIPTOR)).is_dir():
            with descriptor.open("rb") as file:
                line = file.read(MAX_DESCRIPTOR).partition(b"\n")[0]
            if line.startswith(MODULE):
                handles.append(line.removeprefix(MODULE).decode("utf-8", "replace"))
    named = ", ".join(handles[:MAX_NAMED])
    raise NotFound(
        f"{handle} is not in the local cache of TensorFlow Hub.\n"
        f"Looked for the folder {name} in {cache} "
        f"({CACHE_DIR if told else f'{CACHE_DIR} is not set'}).\n"
        + (f"That cache holds: {named}\n" if named else "")
        + "To download it into the cache:\n"
        f"  python -c {shlex.quote(resolve)}\n"
        "Or, without TensorFlow, into a folder to give instead of the address:\n"
        f"  mkdir model && curl -L {shlex.quote(archive)} | tar xz -C model"
    )
