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


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that is there. Raises :class:`FolderInUse` where another does."""
    with reading(str(folder)):
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderInUse(f"{folder}: another process writes here; wait for it") from error
        except OSError as error:
            what = f"nothing can be locked there: {error.strerror}"
            raise NotFound(f"{folder}: {what}") from error
        try:
            yield
        finally:  # closing alone would leave it to a process that was forked meanwhile
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)
