"""What every reader of a file with words in it is: two verbs, and what they work on.

``detect.py`` holds the table of readers and asks each in turn; a reader knows one format only.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from vocabtool.formats.model import PassedOver
from vocabtool.vocabulary import Vocabulary

HEAD: Final = 1 << 16  # bytes that recognition may look at


class Source(NamedTuple):
    """One file. ``name``: what places call it; ``head``: its first ``HEAD`` bytes."""

    file: Path
    name: str
    head: bytes
    size: int


class Found(NamedTuple):
    """What a reader found; ``warnings``: what could not be read, and why.

    ``format``: what the file is for people, where the reader knows several formats.
    """

    vocabularies: tuple[Vocabulary, ...]
    passed_over: tuple[PassedOver, ...] = ()
    warnings: tuple[str, ...] = ()
    format: str | None = None


class Reader(NamedTuple):
    """One format, told by content.

    ``format``: its name for people. ``recognise``: ``None`` where a file is of this format, else
    why not, in a few words; looks at ``head`` and never raises. ``read``: raises
    :class:`~vocabtool.errors.InvalidFile` for a damaged file,
    :class:`~vocabtool.errors.UnsupportedFormat` for one that is deliberately not read.
    """

    format: str
    recognise: Callable[[Source], str | None]
    read: Callable[[Source], Found]


class JsonReader(NamedTuple):
    """One format that is JSON: parsed once by ``json_text.py``, then shown to each such reader."""

    format: str
    recognise: Callable[[object], str | None]
    read: Callable[[object, Source], Found]
