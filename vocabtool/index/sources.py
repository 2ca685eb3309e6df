"""Record the FILE arguments from which an index was made, find them again, and group them.

A FILE keeps the name that the user passed, because ids may contain it (``docs/a.txt:1``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape, has_magic
from itertools import product
from pathlib import Path
from typing import Final

from vocabtool.documents.files import find
from vocabtool.documents.options import ReadOptions
from vocabtool.documents.reading import Sources, left_out, names_of
from vocabtool.documents.vectors import Given
from vocabtool.embedding.plan import can_be_read_again, files_outside
from vocabtool.embedding.shards import RUN
from vocabtool.errors import NotFound, VocabtoolError

AS_SHIPPED: Final = ReadOptions(path_first=True)
WAS_READ: Final = ", but {0} was made from it; restore it, or name the FILEs to read"


@dataclass(frozen=True, slots=True)
class Source:
    """A recorded FILE: a file, a folder or a glob, with the ``name`` that the user passed.

    - ``at``: the working directory when the FILE was recorded, absolute.
    - ``beside``: the path from the index to this directory, in case both are moved together.
    - ``vectors``: path of the file with the vectors, relative to ``at`` or absolute.
    """

    name: str
    at: str
    beside: str
    options: ReadOptions
    vectors: str | None = None

    @property
    def path(self) -> str:
        """The normalized absolute path; equal for two names of the same FILE."""
        return os.path.normpath(self.from_anywhere)

    @property
    def from_anywhere(self) -> str:
        """The absolute path. In a glob, special characters of the working directory are escaped."""
        path = os.path.join(self.at, self.name)  # noqa: PTH118 - globs too
        if has_magic(self.name) and not os.path.exists(path):  # noqa: PTH110 - accepts any text
            return os.path.join(escape(self.at), self.name)  # noqa: PTH118 - a glob
        return path

    def with_vectors(self, given: Given | None) -> Source:
        """Return the source with ``given`` as its vectors. An array in memory is not recorded."""
        if not isinstance(given, str | os.PathLike):
            return self if given is None else replace(self, vectors=None)
        is_absolute = Path(given).is_absolute()
        path = os.fspath(given) if is_absolute else os.path.relpath(given, self.at)
        return replace(self, vectors=path)

    @property
    def vectors_path(self) -> str | None:
        return self.vectors and os.path.normpath(os.path.join(self.at, self.vectors))  # noqa: PTH118 - as name

    @classmethod
    def from_name(cls, name: str, index: Path, options: ReadOptions) -> Source:
        at = os.getcwd()  # noqa: PTH109 - a string, for names of any bytes
        return cls(name, at, os.path.relpath(at, index), options)

    def is_there(self) -> bool:
        """Whether the name matches a file."""
        try:
            return any(map(os.path.exists, find(self.path, self.options)[:1]))
        except NotFound:
            return False

    def locate(self, index: Path) -> Source:
        """Return the source, with a new directory if it was moved together with the index."""
        moved = os.path.normpath(os.path.join(index.absolute(), self.beside))  # noqa: PTH118 - "..", too
        other = replace(self, at=moved)
        return other if not self.is_there() and other.is_there() else self


@dataclass(frozen=True, slots=True)
class Part:
    """FILE arguments that are read with the same options.

    - ``sources``: the inputs. If several inputs contain the same id, the last document is used.
    - ``files``: for each path, a pair: the file's name, as in ids and messages, and the number of
      the FILE argument.
    - ``notes``: messages about files that are not read.
    """

    sources: tuple[Sources, ...]
    options: ReadOptions
    files: Mapping[str, tuple[str, int]]
    is_stream: bool = False
    notes: tuple[str, ...] = ()
    vectors: Given | None = None

    @property
    def numbers(self) -> set[int]:
        return {number for _, number in self.files.values()}

    @property
    def shards(self) -> Path | None:
        return shards_in(self.sources[0])


def parts_of_names(
    sources: Sources,
    options: ReadOptions,
    known: Sequence[Source],
    index: Path,
    vectors: Given | None = None,
) -> tuple[list[Part], tuple[Source, ...]]:
    """Return a list of one part, which reads ``sources``, and all FILEs to record."""
    names = names_of(sources)
    options = replace(options, path_first=vectors is None)
    files = files_outside(sources, index, options)
    if files is None or names is None or not can_be_read_again(files):
        read = sources if files is None else files
        return [Part((read,), options, {}, is_stream=True, vectors=vectors)], (*known,)
    given = [Source.from_name(name, index, options).with_vectors(vectors) for name in names]
    all_known, numbers = _remember(known, given)
    labels: dict[str, tuple[str, int]] = {}
    for source in given:
        found = files_outside([source.name], index, options) or []
        for file in found:
            labels.setdefault(file, (file, numbers[source.path]))
    if shards_in(sources) is not None:
        return [Part((sources,), options, labels, vectors=vectors)], all_known
    notes = left_out(sources, options, index)
    return [Part((files,), options, labels, notes=notes, vectors=vectors)], all_known


def parts_of_index(
    sources: Sources | None,
    known: Sequence[Source],
    index: Path,
    *,
    sync: bool,
    vectors: Given | None = None,
) -> tuple[list[Part], tuple[Source, ...]]:
    """Return two values: the parts that an update reads, and all FILEs to record.

    ``sources``: the FILEs to read; ``None`` for all ``known`` FILEs. ``vectors``: vectors to use
    instead of the recorded vectors. Raises :class:`NotFound` and :class:`VocabtoolError`.
    """
    known = [source.locate(index) for source in known]
    chosen, options = known, known[-1].options if known else AS_SHIPPED
    if sources is not None:
        names, given_files = names_of(sources), files_outside(sources, index, options)
        if names is None or not can_be_read_again(given_files):
            if sync:
                raise VocabtoolError("a stream cannot be synced: pass the names of files")
            stream = sources if given_files is None else given_files
            return [Part((stream,), options, {}, is_stream=True, vectors=vectors)], (*known,)
        by_path = {source.path: source for source in known}
        given = [Source.from_name(name, index, options) for name in names]
        chosen = [by_path.get(source.path, source) for source in given]
        others = [source for source in known if source not in chosen]
        for source, other in product(chosen, others) if sync else ():
            if source in known:
                continue
            # Documents of this new FILE are recorded under the known folder or glob it is in.
            globbed = has_magic(other.path) and other.is_there()
            if Path(source.path).is_relative_to(other.path) or (
                globbed and source.path in find(other.path, other.options)
            ):
                raise VocabtoolError(
                    f"{source.name} is a part of {other.name} and cannot be synced alone: sync "
                    f"{other.name}, or omit FILE to sync all"
                )
    elif not chosen:
        raise VocabtoolError(f"{index}: the index has recorded no FILE; name the FILEs to read")
    chosen = [source.with_vectors(vectors) for source in chosen]
    all_known, numbers = _remember(known, chosen)
    parts: list[Part] = []
    taken: set[str] = set()
    for source in dict.fromkeys(chosen):
        if not source.is_there():
            is_known = any(source.path == other.path for other in known)
            raise NotFound(f"{source.path}: does not exist{WAS_READ.format(index) * is_known}")
        name = source.from_anywhere
        files = files_outside([name], index, source.options) or []
        found = {os.path.realpath(file): file for file in files}
        if not can_be_read_again(found.values()):
            raise VocabtoolError(f"{name}: is now a stream; name the FILEs to read")
        files = [file for real, file in found.items() if real not in taken]
        taken.update(found)
        start = "" if name == source.name else os.path.join(source.at, "")  # noqa: PTH118 - globs
        labels = {file: (file.removeprefix(start), numbers[source.path]) for file in files}
        own = source.vectors_path if vectors is None else vectors
        if shards_in(name) is not None:
            parts.append(Part((name,), source.options, labels, vectors=own))
            continue
        notes = left_out(name, source.options, index)
        read: tuple[Sources, ...] = (files,)
        last = parts[-1] if parts else None
        like = (source.options, None, last.vectors if vectors is not None and last else own)
        if last is not None and (last.options, last.shards, last.vectors) == like:
            parts.pop()
            labels, notes = {**last.files, **labels}, (*last.notes, *notes)
            is_apart = source.options.on_duplicate == "error" and own is None
            read = (*last.sources, files) if is_apart else ([*labels],)
        parts.append(Part(read, source.options, labels, notes=notes, vectors=own))
    return parts, all_known


def in_scope(known: Sequence[Source], parts: Sequence[Part]) -> list[int]:
    """Return the numbers of the FILEs whose documents a sync of ``parts`` may remove."""
    numbers = {number for part in parts for number in part.numbers}
    read = {os.path.abspath(file) for part in parts for file in part.files}  # noqa: PTH100 - links stay
    folders = [Path(known[number - 1].path) for number in numbers]

    def is_seen(path: Path) -> bool:
        inside = [path.relative_to(each) for each in folders if path.is_relative_to(each)]
        shown = any(not any(part.startswith(".") for part in each.parts) for each in inside)
        return shown and (str(path) in read or path.is_dir() or not path.exists())

    return [
        number
        for number, source in enumerate(known, 1)
        if number in numbers or is_seen(Path(source.path))
    ]


def shards_in(sources: Sources) -> Path | None:
    """Return the path of ``sources`` if it is one folder of shards, else ``None``."""
    names = names_of(sources)
    if names is not None and len(names) == 1 and (Path(names[0]) / RUN).is_file():
        return Path(names[0])
    return None


def _remember(
    known: Sequence[Source], now: Iterable[Source]
) -> tuple[tuple[Source, ...], dict[str, int]]:
    held = {source.path: source for source in known} | {source.path: source for source in now}
    return (*held.values(),), {path: number for number, path in enumerate(held, 1)}
