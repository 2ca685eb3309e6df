"""A file as a buffer that the system reads page by page, as far as somebody looks.

What the bytes mean is the caller's.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from vocabtool.formats.wire import Buffer


def mapped(file: Path) -> Buffer:
    """The content of a file, of which nothing is read yet; an empty file is ``b""``."""
    with file.open("rb") as opened:
        if not opened.seek(0, 2):
            return b""
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
