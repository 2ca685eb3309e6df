"""Lines of small text files, bounded, and the bytes where they begin; no meaning is known here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from vocabtool.errors import InvalidFile, reading

LONGEST: Final = 1 << 20  # bytes of a line


class Line(NamedTuple):
    """``text``: without its end; ``offset``: the byte of the file where it begins."""

    text: str
    offset: int


def lines(path: str | Path) -> Iterator[Line]:
    """The lines of a file that are not blank.

    Raises :class:`InvalidFile` for what is not UTF-8 and for a line of more than a megabyte,
    :class:`NotFound` where nothing can be read.
    """
    with reading(str(path)), Path(path).open("rb") as file:
        offset = 0
        while raw := file.readline(LONGEST + 1):
            if len(raw) > LONGEST:
                raise InvalidFile(f"a line of more than {LONGEST:,} bytes", offset=offset)
            if raw.strip():
                yield Line(_decoded(raw, offset), offset)
            offset += len(raw)


def _decoded(raw: bytes, offset: int) -> str:
    try:
        return raw.decode("utf-8-sig" if offset == 0 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidFile("not UTF-8", offset=offset + error.start) from error
