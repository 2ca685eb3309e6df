"""Damage that tantivy meets in its files, as an error of ours that names them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from vocabtool.errors import InvalidFile

# Of pyo3, and derived from BaseException: what a panic in Rust becomes. It can only be told by
# name, since every extension module has a class of its own.
_PANIC: Final = "PanicException"


class naming_damage:  # noqa: N801 - it is called like a function; a generator takes longer
    """Raise :class:`InvalidFile` for the folder where tantivy panics on damaged files."""

    __slots__ = ("_folder",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        """Nothing: only what is raised is looked at."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if error is None or isinstance(error, InvalidFile):
            return
        if isinstance(error, ValueError | OSError) or type(error).__name__ == _PANIC:
            raise _damaged(self._folder, error) from error


def _damaged(folder: Path, error: BaseException) -> InvalidFile:
    said = str(error).partition("\n")[0][:300]
    what = f"keyword index is damaged, tantivy says: {said}. `vocabtool verify` names the file"
    return InvalidFile(what, file=str(folder))
