"""What a caller gives as sources, told apart: names of files, and what holds documents itself.

A list or tuple may mix them. How either is read is in the other files here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from os import PathLike, fspath
from pathlib import Path
from typing import Final, NamedTuple

from vocabtool.documents import files
from vocabtool.documents.batch import Document
from vocabtool.documents.files import STDIN
from vocabtool.documents.objects import Indexable, Item, Queue, is_indexable, is_queue

Name = str | PathLike[str]
Source = Name | Iterable[Item] | Indexable | Queue
Sources = Source | Iterable[Name] | Sequence[Source]

ITERABLE: Final = "texts"  # what sources without a name are called in ids and messages


class Files(NamedTuple):
    """The name of a file, a folder or several files."""

    name: str


class Container(NamedTuple):
    """What holds documents itself; ``name``: what it is called, no two alike."""

    name: str
    source: object


def each_source(sources: Sources) -> Iterator[Files | Container]:
    """The sources one by one: ``texts``, ``texts2`` and so on are those without a name.

    Raises ``ValueError`` where documents stand among sources.
    """
    numbers = count(1)
    for source in _flat(sources):
        if isinstance(source, str | PathLike):
            yield Files(fspath(source))
        else:
            number = next(numbers)
            yield Container(ITERABLE if number == 1 else f"{ITERABLE}{number}", source)


def names_of(sources: Sources) -> list[str] | None:
    """The names in ``sources``; ``None`` where it holds documents itself."""
    if isinstance(sources, str | PathLike):
        return [fspath(sources)]
    if isinstance(sources, list | tuple) and all(isinstance(s, str | PathLike) for s in sources):
        return [fspath(name) for name in sources]
    return None


def left_out(sources: Sources, own: Path | None = None) -> tuple[str, ...]:
    """A sentence for each folder among ``sources`` of which some files are not read.

    ``own``: a folder that what is read is written to, of which nothing counts.
    """
    folders = [name for name in dict.fromkeys(names_of(sources) or []) if Path(name).is_dir()]
    own = None if own is None else own.resolve()
    return tuple(note for name in folders if (note := files.left_out(name, own)) is not None)


def can_be_read_again(source: Files | Container) -> bool:
    """Whether a second reading gives the same: not of a pipe, an iterator or a queue."""
    if isinstance(source, Container):
        return not isinstance(source.source, Iterator) and not is_queue(source.source)
    path = Path(source.name)
    return source.name != STDIN and (path.is_file() or path.is_dir() or not path.exists())


def _flat(sources: object) -> Iterator[object]:
    if not isinstance(sources, list | tuple) or not _are_sources(sources):
        yield sources
        return
    for source in sources:
        if isinstance(source, bytes | Document | Mapping):
            wanted = "wanted sources only, or documents only, in one list"
            raise ValueError(f"{wanted}; got {type(source).__name__} among sources")
        yield from _flat(source)


def _are_sources(given: Sequence[object]) -> bool:
    """Whether a list is one of sources, not of documents.

    That is one of names only, or one that begins with a source that is no name, or with a name and
    has such a source behind it.
    """
    if not given or isinstance(given[0], bytes | Document | Mapping):
        return False
    return all(isinstance(one, str | PathLike) for one in given) or any(map(_is_source, given))


def _is_source(one: object) -> bool:
    if isinstance(one, str | bytes | Document | Mapping):
        return False
    return is_queue(one) or is_indexable(one) or isinstance(one, Iterable)
