"""Read documents from files, folders, globs, standard input and objects.

Each format has a module of its own. Begin with ``reading.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vocabtool.documents.options import Format, OnDuplicate, OnError, ReadArguments, ReadOptions

if TYPE_CHECKING:
    from vocabtool.documents.reading import (
        Batch,
        Document,
        Extent,
        ReadLog,
        Skip,
        SkipCounter,
        Sources,
        batches,
        documents,
        extent,
        left_out,
        names_of,
    )

__all__ = [
    "Batch", "Document", "Extent", "Format", "OnDuplicate", "OnError", "ReadArguments",
    "ReadLog", "ReadOptions", "Skip", "SkipCounter", "Sources", "batches", "documents", "extent",
    "left_out", "names_of",
]  # fmt: skip  # one name a line would be twenty lines


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vocabtool.documents import reading

    return getattr(reading, name)
