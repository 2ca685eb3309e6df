"""The interface of all readers, and the model that combines their results.

A model contains each list of strings once, either as a vocabulary or as a skipped list.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from vocabtool.errors import VocabtoolError
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Kind, Place, Vocabulary, printable

MAX_SPECIALS: Final = 1_000  # entries of a layer for unknown words that are listed
MIN_ENTRIES: Final = 10  # shorter lists are more often something else
TOO_FEW: Final = f"fewer than {MIN_ENTRIES} strings that no table uses"

# If several places contain the same entries, the kind that comes first here is kept.
PRECEDENCE: Final[tuple[Kind, ...]] = (
    "table",
    "sentencepiece",
    "wordpiece",
    "bpe",
    "unigram",
    "vectors",
    "variable",
    "asset",
    "constant",
    "list",
)


class PassedOver(NamedTuple):
    """A list of strings in a model, and the reason why it is not reported as a vocabulary."""

    name: str  #: Name of the list.
    size: int  #: Number of strings.
    place: Place  #: Location.
    why: str  #: Reason, as text.


Finding = Vocabulary | PassedOver


class Model(NamedTuple):
    """The vocabularies of a model, and what was not read."""

    path: str  #: Path of the model.
    format: str  #: Format, as text, for example ``"SavedModel"``.
    vocabularies: tuple[Vocabulary, ...]  #: Vocabularies; see :func:`~vocabtool.vocabularies`.
    passed_over: tuple[PassedOver, ...] = ()  #: Skipped lists of strings.
    warnings: tuple[str, ...] = ()  #: Parts that could not be read, with reasons.

    @property
    def complete(self) -> bool:
        """Whether every part that may contain words could be read.

        False if there are warnings. Skipped lists and subfolders, and words inside code or custom
        ops, cause no warning.
        """
        return not self.warnings


def constant(name: str, entries: ByteStrings, place: Place) -> Finding:
    """Return a list of strings whose purpose is unknown; it is skipped if it is short."""
    if len(entries) < MIN_ENTRIES:
        return PassedOver(name, len(entries), place, TOO_FEW)
    return Vocabulary(name, "constant", entries, places=(place,))


HEAD: Final = 1 << 16  # bytes available for format detection


@dataclass(frozen=True, slots=True)
class Source:
    """A file or folder; ``name``: in messages, ``head``: its first bytes. A folder has size 0."""

    file: Path
    name: str
    head: bytes
    size: int

    @classmethod
    def open(cls, file: Path) -> Source:
        name = printable(os.fsencode(file.name))
        if file.is_dir():
            return cls(file, name, b"", 0)
        with file.open("rb") as opened:
            return cls(file, name, opened.read(HEAD), file.stat().st_size)


@dataclass(slots=True)
class Findings:
    """What was read from one model.

    ``warnings``: parts that could not be read, with reasons. ``format``: ``None`` if the reader
    reads only one. ``main``: in a folder, the file whose vocabulary comes before all others.
    """

    lists: list[Finding] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    format: str | None = None
    main: str | None = None

    def is_main(self, vocabulary: Vocabulary) -> bool:
        return any(place.file == self.main for place in vocabulary.places)

    def model(self, path: Path, *, small: bool) -> Model:
        """Return the model that consists of these findings.

        Vocabularies with equal contents are merged; repeated names get numbers. For the order, see
        :func:`vocabtool.vocabularies`. ``small``: whether constants of fewer than ``MIN_ENTRIES``
        strings are vocabularies. If not, they are listed as skipped.
        """
        passed_over, vocabularies = [], []
        for finding in self.lists:
            if isinstance(finding, PassedOver):
                passed_over.append(finding)
            elif not small and finding.kind == "constant" and len(finding) < MIN_ENTRIES:
                skipped = PassedOver(finding.name, len(finding), finding.places[0], TOO_FEW)
                passed_over.append(skipped)
            else:
                vocabularies.append(finding)
        vocabularies.sort(key=lambda v: (not self.is_main(v), PRECEDENCE.index(v.kind)))
        vocabularies = _merge_equal(vocabularies)
        vocabularies.sort(key=lambda v: (not self.is_main(v), not v.linked, -len(v)))
        return Model(
            str(path),
            self.format or "",
            _number_names(vocabularies),
            tuple(dict.fromkeys(passed_over)),
            tuple(dict.fromkeys(self.warnings)),
        )

    @contextmanager
    def warning(
        self, part: str = "", effect: str = "", *, kind: type[VocabtoolError] = VocabtoolError
    ) -> Iterator[None]:
        """Turn an error in the ``with`` block into a warning: ``part``, message, ``effect``."""
        try:
            yield
        except kind as error:
            self.warnings.append(": ".join(filter(None, (part, str(error), effect))))
            # The frames keep the data alive, and, from Python 3.13 on, each other.
            error.__traceback__ = None


def _merge_equal(vocabularies: list[Vocabulary]) -> list[Vocabulary]:
    """Merge vocabularies with equal entries and ids. The ids of an unused list do not count."""
    # Equal entries have equal outlines. The hash of all entries is slow, so it is computed only
    # where outlines repeat.
    outlines = [
        (len(v), v.entry_type, *(v.stored[i] for i in (0, -1) if len(v))) for v in vocabularies
    ]
    counts = Counter(outlines)
    merged: dict[tuple[object, ...], list[Vocabulary]] = {}  # those of one key differ in their ids
    for outline, vocabulary in zip(outlines, vocabularies, strict=True):
        key = (*outline, vocabulary.sha256) if counts[outline] > 1 else outline
        others = merged.setdefault(key, [])
        for i, other in enumerate(others):
            same_ids = not vocabulary.linked or np.array_equal(
                other.id_array(), vocabulary.id_array()
            )
            if same_ids and other.stored == vocabulary.stored:
                others[i] = _merge(other, vocabulary)
                break
        else:
            others.append(vocabulary)
    return [vocabulary for others in merged.values() for vocabulary in others]


def _merge(first: Vocabulary, second: Vocabulary) -> Vocabulary:
    """Add the places of ``second`` to ``first``, and what only ``second`` knows of the entries."""
    notes = first.notes
    if second.linked:  # notes on an unused list add nothing
        notes += tuple(note for note in second.notes if note not in notes)
    if first.unknown and second.unknown and first.unknown != second.unknown:
        places = ", ".join(place.place for place in second.places)
        unknown = f"id {second.unknown.id} ({second.unknown.count} ids)"
        notes += (f"other places give unknown words {unknown}: {places}",)
    return replace(
        first,
        unknown=first.unknown or second.unknown,
        specials=first.specials or second.specials,
        marker=first.marker or second.marker,
        places=first.places + tuple(p for p in second.places if p not in first.places),
        notes=notes,
    )


def _number_names(vocabularies: list[Vocabulary]) -> tuple[Vocabulary, ...]:
    """Number repeated names: ``words``, ``words_2`` ...; small constants, rarely shown, last."""
    named = list(vocabularies)
    counts = dict.fromkeys((vocabulary.name for vocabulary in named), 0)
    is_small = [v.kind == "constant" and len(v) < MIN_ENTRIES for v in named]
    for i in sorted(range(len(named)), key=is_small.__getitem__):
        name = named[i].name
        counts[name] += 1
        if counts[name] > 1:
            while f"{name}_{counts[name]}" in counts:
                counts[name] += 1
            numbered = f"{name}_{counts[name]}"
            counts[numbered] = 1
            named[i] = replace(named[i], name=numbered)
    return tuple(named)


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of one format.

    ``recognise`` returns ``None`` for a file of this format, otherwise a short reason why not. It
    reads little more than the source's ``head``, and never raises. ``read`` raises
    :class:`~vocabtool.errors.InvalidFile` or :class:`~vocabtool.errors.UnsupportedFormat`.
    """

    format: str
    recognise: Callable[[Source], str | None]
    read: Callable[[Source], Findings]


@dataclass(frozen=True, slots=True)
class JsonReader:
    """A reader of one JSON format. Its functions get the parsed document."""

    format: str
    recognise: Callable[[object], str | None]
    read: Callable[[object, Source], Findings]
