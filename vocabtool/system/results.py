"""What results have in common: tables for data frames, and how notebooks show them.

Reports show results, and results do not import reports: ``vocabtool/__init__.py`` registers the
functions in :data:`VIEWS`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

# By the name of a class: the module and the name of the function that makes HTML of a result.
VIEWS: Final[dict[str, tuple[str, str]]] = {}


class TableResult:
    """A result that is a table, for Arrow, pandas, Polars and notebooks."""

    __slots__ = ()

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """Return the table of :meth:`to_arrow` as a data frame of pandas."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return the table of :meth:`to_arrow` as a data frame of Polars."""
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def _repr_html_(self) -> str:
        module, function = VIEWS[type(self).__name__]
        html: str = getattr(importlib.import_module(module), function)(self)
        return html


def as_texts(table: pa.Table, entry: str) -> pa.Table:
    """Return a table with strings in the place of bytes (``large_binary``).

    ``entry``: a column whose strings are null where they are not UTF-8; a new column ``bytes`` has
    the bytes of these. In other columns, bytes that are not UTF-8 are escaped.
    """
    import pyarrow as pa

    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not pa.types.is_large_binary(column.type):
            columns[name] = column
            continue
        texts: list[str | None] = []
        others: list[bytes | None] = []
        for value in column.to_pylist():
            text, other = value, None
            if value is not None:
                try:
                    text = value.decode()
                except UnicodeDecodeError:
                    text = None if name == entry else value.decode("utf-8", "backslashreplace")
                    other = value
            texts.append(text)
            others.append(other)
        columns[name] = pa.array(texts, pa.large_string())
        if name == entry:
            columns["bytes"] = pa.array(others, pa.large_binary())
    return pa.table(columns)
