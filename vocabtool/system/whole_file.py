"""Files that appear wholly or not at all: written beside, flushed to the disk, renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from vocabtool.errors import NotFound


@contextmanager
def whole_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to write that takes the place of ``path`` when the block ends without an error.

    A link is followed, an older file's permissions stay; what is no regular file (a pipe, a
    device) is written to as it is. Raises :class:`NotFound` where there is no folder to write in.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise NotFound(f"{path.parent}: no such folder to write in")
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            yield device
        return
    beside = path.with_name(f".vocabtool-{os.urandom(6).hex()}.tmp")
    file = beside.open("xb")
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            beside.chmod(path.stat().st_mode & 0o7777)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, so that what was renamed stays renamed."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
