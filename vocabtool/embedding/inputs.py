"""What a run reads, as facts that tell whether it is still the same."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from vocabtool.documents.files import STDIN, find
from vocabtool.documents.reading import Sources, names_of
from vocabtool.errors import VocabtoolError, reading

Check = Literal["stat", "content"]


class Input(NamedTuple):
    """A file, by the name it was given. ``changed``: modification time in nanoseconds.

    ``sha256``: of its content, hexadecimal, instead of the time where the content is checked.
    """

    name: str
    size: int
    changed: int | None = None
    sha256: str | None = None

    def is_of_its_types(self) -> bool:
        """Whether the values, which may come out of a file, are what their types promise."""
        return (
            type(self.name) is str
            and is_count(self.size)
            and (self.changed is None or type(self.changed) is int)
            and (self.sha256 is None or type(self.sha256) is str)
        )


def is_count(value: object) -> bool:
    """Whether a value out of a file counts something: a whole number, not below 0, of 64 bits."""
    return type(value) is int and 0 <= value < 1 << 63


def files_of(sources: Sources) -> list[str] | None:
    """The files that are meant, in their order; ``None``: the sources hold documents themselves."""
    names = names_of(sources)
    if names is None:
        return None
    files = []
    for name in names:
        with reading(name):
            files += find(name)
    return files


def files_outside(sources: Sources, folder: Path) -> list[str] | None:
    """The files that are meant, without those that a folder or glob finds in ``folder``.

    What is written there is never read. Raises :class:`VocabtoolError` where a source lies there.
    """
    files = files_of(sources)
    if files is None:
        return None
    own = folder.resolve()
    resolved = cache(os.path.realpath)
    for name in names_of(sources) or []:
        if name != STDIN and Path(name).resolve().is_relative_to(own):
            raise VocabtoolError(f"{name}: lies in {folder}, which is written to: name another")
    return [
        name
        for name in files
        if name == STDIN or not Path(resolved(os.path.dirname(name))).is_relative_to(own)  # noqa: PTH120 - quicker, for many files
    ]


def can_be_read_again(files: Iterable[str] | None) -> bool:
    """Whether a second reading gives the same: not of documents held, standard input or a pipe."""
    return files is not None and not any(map(_is_stream, files))


def facts_of(files: Iterable[str], check: Check) -> tuple[Input, ...]:
    """The facts of files in their order; standard input and pipes have none, and are left out."""
    return tuple(_facts(name, check) for name in files if not _is_stream(name))


def _is_stream(name: str) -> bool:
    return name == STDIN or (Path(name).exists() and not Path(name).is_file())


def _facts(name: str, check: Check) -> Input:
    with reading(name):
        found = Path(name).stat()
        if check == "stat":
            return Input(name, found.st_size, found.st_mtime_ns)
        with Path(name).open("rb") as file:
            return Input(name, found.st_size, None, hashlib.file_digest(file, "sha256").hexdigest())


def changes(
    before: tuple[Input, ...], now: tuple[Input, ...], of_time: str = ""
) -> tuple[str, ...]:
    """What is different, a line for each file; ``of_time``: said where that is the time alone."""
    old, new = ({each.name: each for each in facts} for facts in (before, now))
    told = [f"{name}: was read, and is not among the inputs now" for name in old if name not in new]
    told += [f"{name}: is new among the inputs" for name in new if name not in old]
    told += [
        f"{name}: {_difference(old[name], new[name], of_time)}"
        for name in new
        if name in old and old[name] != new[name]
    ]
    if not told and [each.name for each in before] != [each.name for each in now]:
        told.append("the order of the inputs")
    return tuple(told)


def _difference(old: Input, new: Input, of_time: str) -> str:
    if old.size != new.size:
        return f"had {old.size:,} bytes, has {new.size:,}"
    if old.sha256 != new.sha256:
        return "its content changed"
    return f"it was written to since: its time changed{of_time}"
