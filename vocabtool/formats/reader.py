"""What every reader of a format is: two functions, and what they take and give.

``registry.py`` lists the readers and asks each in turn; a reader knows one format only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vocabtool.errors import VocabtoolError
from vocabtool.formats.model import Finding, Model, PassedOver, distinct, without_small
from vocabtool.vocabulary import Vocabulary, printable

HEAD: Final = 1 << 16  # bytes that recognition may look at


@dataclass(frozen=True, slots=True)
class Source:
    """A file. ``name``: what places call it; ``head``: its first ``HEAD`` bytes.

    A folder is one too, without a head.
    """

    file: Path
    name: str
    head: bytes
    size: int

    @classmethod
    def open(cls, file: Path) -> Source:
        """A file or folder, called by its bare name."""
        name = printable(os.fsencode(file.name))
        if file.is_dir():
            return cls(file, name, b"", 0)
        with file.open("rb") as opened:
            return cls(file, name, opened.read(HEAD), file.stat().st_size)


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What a reader found; ``warnings``: what could not be read, and why.

    ``format``: what the file is for people, where the reader knows several formats.
    """

    findings: tuple[Finding, ...]
    warnings: tuple[str, ...] = ()
    format: str | None = None

    def model(self, path: Path, *, small: bool) -> Model:
        """The whole of a model. ``small``: with constants of few strings as vocabularies."""
        findings = self.findings if small else tuple(without_small(self.findings))
        vocabularies = (found for found in findings if isinstance(found, Vocabulary))
        passed_over = (found for found in findings if isinstance(found, PassedOver))
        return Model(
            str(path),
            self.format or "",
            distinct(vocabularies),
            tuple(dict.fromkeys(passed_over)),
            tuple(dict.fromkeys(self.warnings)),
        )


@dataclass(slots=True)
class Findings:
    """What is found in one model while its parts are read in turn, and what could not be read."""

    found: list[Finding] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        """Take in a vocabulary, or a list that is none."""
        self.found.append(finding)

    @contextmanager
    def warning(
        self, part: str = "", effect: str = "", *, kind: type[VocabtoolError] = VocabtoolError
    ) -> Iterator[None]:
        """Turn an error into a warning that names the part, so that it does not hide the rest.

        ``effect``: what comes of it. ``kind``: which errors; others go on.
        """
        try:
            yield
        except kind as error:
            self.warnings.append(": ".join(filter(None, (part, str(error), effect))))
            # Its frames hold what was read, and from Python 3.13 on each other.
            error.__traceback__ = None


@dataclass(frozen=True, slots=True)
class Reader:
    """One format, told by content.

    ``format``: its name for people. ``recognise``: ``None`` where a file is of this format, else
    why not, in a few words; looks at ``head`` and never raises. ``read``: raises
    :class:`~vocabtool.errors.InvalidFile` for a damaged file,
    :class:`~vocabtool.errors.UnsupportedFormat` for one that is deliberately not read.
    """

    format: str
    recognise: Callable[[Source], str | None]
    read: Callable[[Source], ReadResult]


@dataclass(frozen=True, slots=True)
class JsonReader:
    """One format that is JSON: the file is parsed once, then shown to each such reader."""

    format: str
    recognise: Callable[[object], str | None]
    read: Callable[[object, Source], ReadResult]
