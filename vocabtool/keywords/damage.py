"""Damage that tantivy meets in its files, as an error of ours that names them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from vocabtool.errors import InvalidFile

# Of pyo3, and derived from BaseException: what a panic in Rust becomes. It can only be told by
# name, since every extension module has a class of its own.
_PANIC: Final = "PanicException"


@contextmanager
def naming_damage(folder: Path) -> Iterator[None]:
    """Raise :class:`InvalidFile` for the folder where tantivy panics on damaged files."""
    try:
        yield
    except (ValueError, OSError) as error:
        if isinstance(error, InvalidFile):
            raise
        raise _damaged(folder, error) from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise _damaged(folder, error) from error


def _damaged(folder: Path, error: BaseException) -> InvalidFile:
    said = str(error).partition("\n")[0][:300]
    what = f"keyword index is damaged, tantivy says: {said}. `vocabtool verify` names the file"
    return InvalidFile(what, file=str(folder))
