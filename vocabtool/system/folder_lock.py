"""One writer in a folder: a lock that ends with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from vocabtool.errors import FolderInUse, NotFound, reading

LOCK: Final = ".lock"
_HELD: Final[set[tuple[int, int, int]]] = set()  # locks of this process: its id, device and inode
_ANOTHER: Final = "another process writes here; wait for it"
_OURS: Final = (
    "this process writes here already: let the first `with index.writer()`, load or embed end "
    "before the next begins"
)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that is there. Raises :class:`FolderInUse` where another does."""
    with reading(str(folder)):
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    file = os.fstat(handle)
    held = (os.getpid(), file.st_dev, file.st_ino)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderInUse(f"{folder}: {_OURS if held in _HELD else _ANOTHER}") from error
        except OSError as error:
            what = f"nothing can be locked there: {error.strerror}"
            raise NotFound(f"{folder}: {what}") from error
        _HELD.add(held)
        try:
            yield
        finally:  # closing alone would leave it to a process that was forked meanwhile
            _HELD.discard(held)
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)
