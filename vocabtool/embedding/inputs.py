"""What a run reads: the files, facts that tell whether they are still the same, and a sample."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

from vocabtool.documents.files import STDIN, find
from vocabtool.documents.options import ReadOptions
from vocabtool.documents.reading import ReadLog, Sources, batches, names_of
from vocabtool.embedding.options import Check
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError, reading
from vocabtool.tokenization.text_arrays import as_bytes

SAMPLE_ROWS: Final = 20_000  # documents that weights of word vectors are fitted on
SAMPLE_BYTES: Final = 1 << 20  # read at a time for it


@dataclass(frozen=True, slots=True)
class Input:
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
        stat = Path(name).stat()
        if check == "stat":
            return Input(name, stat.st_size, stat.st_mtime_ns)
        with Path(name).open("rb") as file:
            return Input(name, stat.st_size, None, hashlib.file_digest(file, "sha256").hexdigest())


def changes(
    before: tuple[Input, ...], now: tuple[Input, ...], of_time: str = ""
) -> tuple[str, ...]:
    """What is different, a line for each file; ``of_time``: added where that is the time alone."""
    old, new = ({each.name: each for each in facts} for facts in (before, now))
    lines = [
        f"{name}: was read, and is not among the inputs now" for name in old if name not in new
    ]
    lines += [f"{name}: is new among the inputs" for name in new if name not in old]
    lines += [
        f"{name}: {_difference(old[name], new[name], of_time)}"
        for name in new
        if name in old and old[name] != new[name]
    ]
    if not lines and [each.name for each in before] != [each.name for each in now]:
        lines.append("the order of the inputs")
    return tuple(lines)


def _difference(old: Input, new: Input, of_time: str) -> str:
    if old.size != new.size:
        return f"had {old.size:,} bytes, has {new.size:,}"
    if old.sha256 != new.sha256:
        return "its content changed"
    return f"it was written to since: its time changed{of_time}"


def sample(files: Sequence[str], options: ReadOptions) -> Iterator[bytes]:
    """The first texts of each file, as many of each, that weights of word vectors are fitted on.

    Bad rows are left out; but where all are bad, what is wrong with the first is what is raised.
    Raises :class:`NotFound` at the end where there was no document.
    """
    options = ReadOptions(field=options.field, format=options.format, on_error="skip")
    is_empty = True
    for file in files:
        log, is_bad = ReadLog(), True
        found = batches(file, options, log=log, size=SAMPLE_BYTES)
        texts = (text for batch in found for text in as_bytes(batch.texts))
        for text in islice(texts, -(-SAMPLE_ROWS // len(files))):
            is_empty = is_bad = False
            yield text
        if log.skipped.first and is_bad:
            first = log.skipped.first[0]
            raise InvalidFile(first.reason, file=first.place)
    if is_empty:
        raise NotFound(f"{', '.join(files)}: no document in it")
