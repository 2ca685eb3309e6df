"""What a run reads, as facts that tell whether it is still the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from vocabtool.document_files.opening import STDIN, find
from vocabtool.documents import Sources, names_of
from vocabtool.errors import reading

Check = Literal["stat", "content"]


class Input(NamedTuple):
    """A file, by the name it was given. ``changed``: modification time in nanoseconds.

    ``sha256``: of its content, hexadecimal, instead of the time where the content is checked.
    """

    name: str
    size: int
    changed: int | None = None
    sha256: str | None = None


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


def can_be_read_again(sources: Sources) -> bool:
    """Whether these are files, and none of them standard input."""
    files = files_of(sources)
    return files is not None and STDIN not in files


def facts_of(files: Iterable[str], check: Check) -> tuple[Input, ...]:
    """The facts of files in their order; standard input has none, and is left out."""
    return tuple(_facts(name, check) for name in files if name != STDIN)


def _facts(name: str, check: Check) -> Input:
    with reading(name):
        found = Path(name).stat()
        if check == "stat":
            return Input(name, found.st_size, found.st_mtime_ns)
        with Path(name).open("rb") as file:
            return Input(name, found.st_size, None, hashlib.file_digest(file, "sha256").hexdigest())


def changes(before: tuple[Input, ...], now: tuple[Input, ...]) -> tuple[str, ...]:
    """What is different, a line for each file."""
    old, new = ({each.name: each for each in facts} for facts in (before, now))
    told = [f"{name}: was read, and is not among the inputs now" for name in old if name not in new]
    told += [f"{name}: is new among the inputs" for name in new if name not in old]
    told += [
        f"{name}: {_difference(old[name], new[name])}"
        for name in new
        if name in old and old[name] != new[name]
    ]
    if not told and [each.name for each in before] != [each.name for each in now]:
        told.append("the order of the inputs")
    return tuple(told)


def _difference(old: Input, new: Input) -> str:
    if old.size != new.size:
        return f"had {old.size:,} bytes, has {new.size:,}"
    if old.sha256 != new.sha256:
        return "its content changed"
    return "it was written to since (its time changed; --check content compares the content)"
