"""What is found in one model while its parts are read, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from vocabtool.errors import VocabtoolError
from vocabtool.formats.model import LEAST, TOO_FEW, Model, PassedOver, distinct
from vocabtool.formats.saved_model.graph_files import Opened
from vocabtool.vocabulary import Vocabulary


@dataclass(slots=True)
class Findings:
    """Filled by the readers of a model's parts, in turn."""

    vocabularies: list[Vocabulary] = field(default_factory=list)
    passed_over: list[PassedOver] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, *found: Vocabulary | PassedOver) -> None:
        """Take in vocabularies, and lists that are none."""
        for item in found:
            if isinstance(item, Vocabulary):
                self.vocabularies.append(item)
            else:
                self.passed_over.append(item)

    @contextmanager
    def warning(self, part: str = "") -> Iterator[None]:
        """Turn an error into a warning that names the part, so that it does not hide the rest."""
        try:
            yield
        except VocabtoolError as error:
            self.warnings.append(f"{part}: {error}" if part else str(error))

    def model(self, opened: Opened, *, small: bool) -> Model:
        """All of it as one model; without ``small``, small constants are passed over."""
        kept = []
        for found in self.vocabularies:
            if not small and found.kind == "constant" and len(found) < LEAST:
                self.add(PassedOver(found.name, len(found), found.places[0], TOO_FEW))
            else:
                kept.append(found)
        return Model(
            str(opened.path),
            opened.format,
            distinct(kept),
            tuple(dict.fromkeys(self.passed_over)),
            tuple(dict.fromkeys(self.warnings)),
        )
