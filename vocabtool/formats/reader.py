"""What every reader of a format is, what it takes and gives, and what is made of it: a model.

``registry.py`` lists the readers and asks each in turn; a reader knows one format only. A model
holds each content once, as a vocabulary or as what was not taken for one.
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

MIN_ENTRIES: Final = 10  # fewer strings are more often something else than a vocabulary
TOO_FEW: Final = f"fewer than {MIN_ENTRIES} strings that no table uses"

# What says most about a vocabulary is kept when several places hold the same entries.
PRECEDENCE: Final[tuple[Kind, ...]] = (
    "table",
    "sentencepiece",
    "wordpiece",
    "bpe",
    "unigram",
    "phrase",
    "vectors",
    "config",
    "variable",
    "asset",
    "constant",
    "list",
    "stop words",
)


class PassedOver(NamedTuple):
    """A list of strings that is not reported as a vocabulary, and why."""

    name: str
    size: int
    place: Place
    why: str


Finding = Vocabulary | PassedOver


class Model(NamedTuple):
    """``format``: for people, "SavedModel". ``warnings``: what could not be read, and why."""

    path: str
    format: str
    vocabularies: tuple[Vocabulary, ...]
    passed_over: tuple[PassedOver, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every place was read in which the format is known to keep words.

        Not that there are no others: what is passed over, folders inside a folder, and what code
        or a custom op holds do not count.
        """
        return not self.warnings


def constant(name: str, entries: ByteStrings, place: Place, notes: tuple[str, ...] = ()) -> Finding:
    """Strings of which nothing says what they are for."""
    if len(entries) < MIN_ENTRIES:
        return PassedOver(name, len(entries), place, TOO_FEW)
    return Vocabulary(name, "constant", entries, places=(place,), notes=notes)


def _is_small(vocabulary: Vocabulary) -> bool:
    return vocabulary.kind == "constant" and len(vocabulary) < MIN_ENTRIES


def _join_equal(a: Vocabulary, b: Vocabulary) -> Vocabulary:
    notes = a.notes
    if b.linked:  # what is said of a mere list is of no use beside what looks words up
        notes += tuple(note for note in b.notes if note not in a.notes)
    if a.unknown and b.unknown and a.unknown != b.unknown:
        notes += (
            f"elsewhere unknown words get id {b.unknown.id} ({b.unknown.count} ids): "
            + ", ".join(place.place for place in b.places),
        )
    return replace(
        a,
        unknown=a.unknown or b.unknown,
        specials=a.specials or b.specials,
        marker=a.marker or b.marker,
        places=a.places + tuple(place for place in b.places if place not in a.places),
        notes=notes,
    )


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


@dataclass(slots=True)
class Findings:
    """What is found in one model while its parts are read in turn.

    ``warnings``: what could not be read, and why. ``format``: what the file is for people, where
    the reader knows several formats.
    """

    found: list[Finding] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    format: str | None = None

    def model(self, path: Path, *, small: bool) -> Model:
        """The whole of a model. ``small``: with constants of few strings as vocabularies.

        Vocabularies of equal content are joined, and each has a name of its own; those that words
        are looked up in come first, then the largest.
        """
        passed_over, vocabularies = [], []
        for found in self.found:
            if isinstance(found, PassedOver):
                passed_over.append(found)
            elif _is_small(found) and not small:
                passed_over.append(PassedOver(found.name, len(found), found.places[0], TOO_FEW))
            else:
                vocabularies.append(found)
        # Quick to compare, and equal where the content is.
        outlines = [
            (len(v), v.entry_type, *(v.stored[i] for i in (0, -1) if len(v))) for v in vocabularies
        ]
        counts = Counter(outlines)
        alike: dict[tuple[object, ...], list[Vocabulary]] = {}
        for kind in PRECEDENCE:
            for outline, vocabulary in zip(outlines, vocabularies, strict=True):
                if vocabulary.kind != kind:
                    continue
                key = (*outline, vocabulary.sha256) if counts[outline] > 1 else outline
                group = alike.setdefault(key, [])
                for i, other in enumerate(group):
                    # a mere list has no ids but its positions
                    same_ids = not vocabulary.linked or np.array_equal(
                        other.id_array(), vocabulary.id_array()
                    )
                    if same_ids and other.stored == vocabulary.stored:
                        group[i] = _join_equal(other, vocabulary)
                        break
                else:
                    group.append(vocabulary)
        joined = [vocabulary for group in alike.values() for vocabulary in group]
        joined.sort(key=len, reverse=True)
        joined = [v for linked in (True, False) for v in joined if v.linked == linked]
        taken = dict.fromkeys((vocabulary.name for vocabulary in joined), 0)
        # the first of a name keeps it; small constants, which are rarely shown, come last
        few = [_is_small(vocabulary) for vocabulary in joined]
        for i in sorted(range(len(joined)), key=few.__getitem__):
            name = joined[i].name
            taken[name] += 1
            if taken[name] > 1:
                while (numbered := f"{name}_{taken[name]}") in taken:
                    taken[name] += 1
                taken[numbered] = 1
                joined[i] = replace(joined[i], name=numbered)
        return Model(
            str(path),
            self.format or "",
            tuple(joined),
            tuple(dict.fromkeys(passed_over)),
            tuple(dict.fromkeys(self.warnings)),
        )

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
    read: Callable[[Source], Findings]


@dataclass(frozen=True, slots=True)
class JsonReader:
    """One format that is JSON: the file is parsed once, then shown to each such reader."""

    format: str
    recognise: Callable[[object], str | None]
    read: Callable[[object, Source], Findings]
