"""What is found in one model while its parts are read, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from vocabtool.errors import VocabtoolError
from vocabtool.formats.model import Finding


@dataclass(slots=True)
class Findings:
    """Filled by the readers of a model's parts, in turn."""

    found: list[Finding] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        """Take in a vocabulary, or a list that is none."""
        self.found.append(finding)

    @contextmanager
    def warning(self, part: str = "") -> Iterator[None]:
        """Turn an error into a warning that names the part, so that it does not hide the rest."""
        try:
            yield
        except VocabtoolError as error:
            self.warnings.append(f"{part}: {error}" if part else str(error))
