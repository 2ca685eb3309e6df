"""The exceptions of vocabtool. Each exception has its data as attributes.

::

    VocabtoolError
    ├── NotFound          a path, or a handle in the cache, does not exist     (FileNotFoundError)
    ├── InvalidFile       damaged or malicious file: name, byte offset, problem (ValueError)
    ├── UnknownFormat     not a model: each format tried, and why it did not fit (ValueError)
    ├── UnsupportedFormat recognised, but not supported                        (ValueError)
    ├── NoVocabulary      the model contains no vocabulary (of this name)      (LookupError)
    ├── OperatorFailed    a function passed to a stream operator failed
    ├── NoSpace           the disk is full: what was to be written was taken back
    ├── FolderInUse       another process, or this one, already writes to the folder
    ├── FolderNotEmpty    the folder has other files than expected             (FileExistsError)
    ├── DuplicateId       a document with the id of another one
    ├── InvalidCondition  invalid condition on the fields of documents         (ValueError)
    └── OtherModel        the index was made with another model                (ValueError)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

# A pointer that Git LFS leaves in place of a file: its first bytes, a description, advice.
GIT_LFS: Final = (
    b"version https://git-lfs.github.com/spec/",
    "a pointer of Git LFS, not the file itself",
    "Fetch the file with `git lfs pull`.",
)
PANIC: Final = "PanicException"  # raised by pyo3; not a subclass of Exception, not importable


class VocabtoolError(Exception):
    """Base class of all vocabtool errors."""


class NotFound(VocabtoolError, FileNotFoundError):
    """A missing or unreadable file, or a TensorFlow Hub handle that is not in the local cache."""


class _FileError(VocabtoolError, ValueError):
    def __init__(self, what: str, *, file: str | None = None, offset: int | None = None) -> None:
        self.what = what
        self.file = file
        self.offset = offset
        super().__init__(what)

    def __str__(self) -> str:
        where = f"{self.file}: " if self.file else ""
        at = f" (at byte {self.offset:,})" if self.offset is not None else ""
        return f"{where}{self.what}{at}"


class InvalidFile(_FileError):
    """A file that violates its own format.

    ``file``: the name of the file. ``offset``: the position of the error, in bytes from the start
    of the file. Both are ``None`` if unknown.
    """


class UnsupportedFormat(_FileError):
    """A file whose format is recognised but not supported. It has the attribute ``file``, too."""


class UnknownFormat(VocabtoolError, ValueError):
    """A file of an unknown format.

    ``tried``: for each supported format, why the file does not fit.
    """

    def __init__(self, what: str, tried: Sequence[str] = ()) -> None:
        self.what = what
        self.tried = tuple(tried)
        super().__init__("\n".join([what, *(f"  - {reason}" for reason in tried)]))


class NoVocabulary(VocabtoolError, LookupError):
    """A model without any vocabulary, or without a vocabulary of the requested name."""


class OperatorFailed(VocabtoolError):
    """An error in a function that was passed to a stream operator.

    ``place``: where the function failed, for example the id of a document, the number of an element
    or the name of an encoder. ``__cause__`` is the original error. If the function ran in another
    process, ``__cause__`` contains the function's traceback as text.
    """

    def __init__(self, place: str, what: str) -> None:
        self.place = place
        self.what = what
        super().__init__(place, what)  # both, so that it can be pickled

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


class NoSpace(VocabtoolError):
    """A full disk or quota. What was committed before stays; what was being written is removed."""


class FolderInUse(VocabtoolError):
    """A folder that another process, or this one, already writes to."""


class FolderNotEmpty(VocabtoolError, FileExistsError):
    """A folder that has other files than expected, for example an index, or a run with other
    settings. ``changes``: the differences of the settings, as text.
    """

    def __init__(self, what: str, changes: Sequence[str] = ()) -> None:
        self.changes = tuple(changes)
        if changes:
            listed = "".join(f"\n  - {change}" for change in changes)
            what += f": contains a run with other settings; nothing was changed:{listed}\n"
            what += "Undo the change, write to another folder, or start over with --force"
        super().__init__(what)


class DuplicateId(VocabtoolError):
    """A document with the id of another document, which must not be replaced.

    ``id``: this id. ``where``: where the other document is, as text.
    """

    def __init__(self, id: str, where: str) -> None:  # noqa: A002 - the standard term
        self.id = id
        self.where = where
        super().__init__(id, where)  # both, so that it can be pickled

    def __str__(self) -> str:
        return (
            f"document {self.id!r} is {self.where}: to replace the earlier one, use --existing "
            "update (in Python on_existing='update'); to keep it, use 'skip'"
        )


class InvalidCondition(VocabtoolError, ValueError):
    """An invalid condition on the fields of documents.

    ``position``: the position of the error in ``condition``, in characters from 0.
    """

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
    """An index that was made with another model.

    - ``part``: the part of the model that differs, for example ``"encoder"``.
    - ``wanted``: the fingerprint of this part in the index; empty if the model makes other vectors
      than those in the index.
    - ``found``: the fingerprint of this part in the model in use.
    - ``model``: the name of the model with which the index was made. ``None`` if the name is
      unknown, or equal to that of the model in use.
    - ``advice``: what the user can do. If ``wanted`` is empty, ``advice`` says how the vectors
      differ.
    """

    def __init__(
        self,
        index: str,
        part: str,
        wanted: str,
        found: str,
        model: str | None = None,
        advice: str = "",
    ) -> None:
        self.index = index
        self.part = part
        self.wanted = wanted
        self.found = found
        self.model = model
        self.advice = advice
        super().__init__(index, part, wanted, found, model, advice)

    def __str__(self) -> str:
        if not self.wanted:
            return f"{self.index}: made with another {self.part}: {self.advice}"
        named = f", {self.model!r}" if self.model else ""
        original = f"Use the original model{named} with the same options"
        usual = f"Perhaps its files or its code changed. {original}, or build a new index"
        return (
            f"{self.index}: made with another {self.part}: expected fingerprint "
            f"{self.wanted[:16]}, got {self.found[:16]}. {self.advice or usual}"
        )


@contextmanager
def reading(file: str) -> Iterator[None]:
    """Add the name ``file`` to errors of the ``with`` block.

    An :class:`InvalidFile` or :class:`UnsupportedFormat` without a file name gets the attribute
    ``file``. An ``OSError``, for example a missing permission, becomes :class:`NotFound`.
    """
    try:
        yield
    except _FileError as error:
        error.file = error.file or file
        raise
    except VocabtoolError:
        raise
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror or error}") from error


@contextmanager
def library_errors(what: str) -> Iterator[None]:
    """Turn errors of a library, including panics of its Rust code, into :class:`InvalidFile`."""
    try:
        yield
    except BaseException as error:
        is_of_library = isinstance(error, Exception) or type(error).__name__ == PANIC
        if isinstance(error, VocabtoolError) or not is_of_library:
            raise
        raise InvalidFile(f"{what}: {error}") from error


def refuse_pointer(head: bytes) -> None:
    """Raise :class:`InvalidFile` if a file begins like a Git LFS pointer."""
    magic, what, instead = GIT_LFS
    if head.startswith(magic):
        raise InvalidFile(f"{what}. {instead}")


def no_documents(
    names: Iterable[str], skipped: Sequence[tuple[str, str]], what: str = "document"
) -> NotFound:
    """Make the error for sources without documents.

    ``names``: the names of the sources. ``skipped``: each skipped row, as (place, reason).
    ``what``: the name of a document in the message.
    """
    first = "".join(f"; first skipped row: {place}: {reason}" for place, reason in skipped[:1])
    return NotFound(f"{', '.join(names)}: no {what} in it{first}")
