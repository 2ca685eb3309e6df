"""A stranger's files: read up to a limit, mapped, and found by a bare name but never by a link.

A model may name ``../../etc/passwd`` as its vocabulary, or hold a link to it: neither is opened.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from vocabtool.errors import InvalidFile, UnsupportedFormat, refuse_pointer
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
