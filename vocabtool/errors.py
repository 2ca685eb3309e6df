"""What can go wrong, as types that carry their data.

    VocabtoolError
    ├── NotFound          nothing at that path, or no such handle in the cache   (FileNotFoundError)
    ├── InvalidFile       damaged or hostile: file, byte offset, what is wrong   (ValueError)
    ├── UnknownFormat     not a model: what was tried and why each said no       (ValueError)
    ├── UnsupportedFormat recognised, and deliberately not read                  (ValueError)
    ├── NoVocabulary      the model is readable and holds none (of that name)    (LookupError)
    ├── OperatorFailed    a function given to a stream's operator failed: on which element
    ├── FolderInUse       another process, or this one, writes in that folder
    ├── FolderNotEmpty    a new folder is wanted, and that one holds something   (FileExistsError)
    ├── InvalidCondition  a condition on fields, or a query, not understood: where (ValueError)
    ├── OtherModel        an index belongs to another model than the one given  (ValueError)
    └── ChangedRun        a folder holds another run than the one asked for: what differs

A message says what, where, what was wanted, what was found and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

# How a file begins that was cloned without its content, what it is, and what to do.
GIT_LFS: Final = (
    b"version https://git-lfs.github.com/spec/",
    "a pointer of Git LFS, not the file itself",
    "Fetch the file with `git lfs pull`.",
)


class VocabtoolError(Exception):
    """Root of every error that vocabtool raises on purpose."""


class NotFound(VocabtoolError, FileNotFoundError):
    """Nothing readable at a path, or a hub handle that is not in the local cache."""


class InvalidFile(VocabtoolError, ValueError):
    """A file breaks the rules of its own format.

    ``offset`` counts bytes from the start of ``file``; both are ``None`` until known.
    """

    def __init__(self, what: str, *, file: str | None = None, offset: int | None = None) -> None:
        self.what = what
        self.file = file
        self.offset = offset
        super().__init__(what)

    def __str__(self) -> str:
        where = f"{self.file}: " if self.file else ""
        at = f" (at byte {self.offset:,})" if self.offset is not None else ""
        return f"{where}{self.what}{at}"


class UnknownFormat(VocabtoolError, ValueError):
    """No reader recognises a file; ``tried`` holds one reason per reader."""

    def __init__(self, what: str, tried: Sequence[str] = ()) -> None:
        self.what = what
        self.tried = tuple(tried)
        super().__init__("\n".join([what, *(f"  - {reason}" for reason in tried)]))


class UnsupportedFormat(VocabtoolError, ValueError):
    """A format that is recognised and refused; the message says what to do instead."""

    def __init__(self, what: str, *, file: str | None = None) -> None:
        self.what = what
        self.file = file
        super().__init__(what)

    def __str__(self) -> str:
        return f"{self.file}: {self.what}" if self.file else self.what


class NoVocabulary(VocabtoolError, LookupError):
    """A readable model without a vocabulary, or without one of the name asked for."""


class OperatorFailed(VocabtoolError):
    """A function that an operator of a stream calls failed; it is raised from what was raised.

    ``place``: the id of the document it was called with, or which element that was. Out of another
    process its cause is the text of the traceback there.
    """

    def __init__(self, place: str, what: str) -> None:
        self.place = place
        self.what = what
        super().__init__(place, what)  # both, so that it can be pickled

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


class FolderInUse(VocabtoolError):
    """Another process writes in a folder, or this one does already."""


class FolderNotEmpty(VocabtoolError, FileExistsError):
    """A folder holds what nothing is to be written beside, an index perhaps."""


class InvalidCondition(VocabtoolError, ValueError):
    """A condition or query that cannot be understood. ``position``: which character, from 0 on."""

    def __init__(self, what: str, condition: str, position: int) -> None:
        self.what = what
        self.condition = condition
        self.position = position
        super().__init__(what, condition, position)

    def __str__(self) -> str:
        begin = max(self.position - 60, 0)
        shown = self.condition[begin : self.position + 60].replace("\n", " ").replace("\t", " ")
        return f"{self.what}\n  {shown}\n  {' ' * (self.position - begin)}^"


class OtherModel(VocabtoolError, ValueError):
    """An index belongs to another model: which part of it differs, and both fingerprints.

    ``model``: by which name it was made, where another one was named.
    """

    def __init__(
        self, index: str, part: str, wanted: str, found: str, model: str | None = None
    ) -> None:
        self.index = index
        self.part = part
        self.wanted = wanted
        self.found = found
        self.model = model
        super().__init__(index, part, wanted, found, model)

    def __str__(self) -> str:
        named = f", {self.model!r}" if self.model else ""
        return (
            f"{self.index}: belongs to another {self.part}: fingerprint {self.wanted[:16]}, got "
            f"{self.found[:16]}. Name the model that it was made with{named}, or index anew"
        )


class ChangedRun(VocabtoolError):
    """A folder holds another run than the one that is asked for; ``changes`` says what differs."""

    def __init__(self, folder: str, changes: Sequence[str]) -> None:
        self.folder = folder
        self.changes = tuple(changes)
        super().__init__(folder, self.changes)

    def __str__(self) -> str:
        listed = "".join(f"\n  - {change}" for change in self.changes)
        return (
            f"{self.folder}: holds a run that differs from this one, so nothing is done:{listed}\n"
            "Undo the change, write to another folder, or start over with --force"
        )


@contextmanager
def reading(file: str) -> Iterator[None]:
    """Name ``file`` in what the block raises about a file, where no name is given yet.

    That is :class:`InvalidFile` and :class:`UnsupportedFormat`. What the system says (a name too
    long, no permission) becomes :class:`NotFound`.
    """
    try:
        yield
    except (InvalidFile, UnsupportedFormat) as error:
        error.file = error.file or file
        raise
    except VocabtoolError:
        raise
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror or error}") from error


def refuse_pointer(head: bytes) -> None:
    """Raise :class:`InvalidFile` where a file, told by its first bytes, is a Git LFS pointer."""
    magic, what, instead = GIT_LFS
    if head.startswith(magic):
        raise InvalidFile(f"{what}. {instead}")
