"""Addresses of indexes in a database: ``postgresql://user@host/database?index=NAME``."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Any, Final

from vocabtool.errors import UnsupportedFormat

ADDRESS: Final = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` is the address of an index; false if a file or folder has this name."""
    return (
        isinstance(path, str) and ADDRESS.match(path) is not None and not os.path.exists(path)  # noqa: PTH110 - accepts any length
    )


def index_class(address: str) -> Any:
    """Import and return :class:`PostgresIndex`; raise :class:`UnsupportedFormat` if it cannot help.

    By its name, because ``vocabtool.stores`` imports this package.
    """
    scheme = address.partition("://")[0].lower()
    if scheme not in ("postgresql", "postgres"):
        raise UnsupportedFormat(
            f"an address begins with postgresql://, got {scheme[:50]!r}; a folder needs its path"
        )
    return import_module("vocabtool.stores.index").PostgresIndex
