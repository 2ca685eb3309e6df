"""What may be added to an index, lazily as columns: what Python holds, and the pipeline's batches.

Each kind of source has its file: ``document_items.py`` and ``document_tables.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from vocabtool.documents.batch import Batch
from vocabtool.errors import InvalidFile
from vocabtool.index.document_columns import DocumentRows, check_name, checked, decoded
from vocabtool.index.document_fields import of_texts
from vocabtool.index.document_items import Item, rows_of_items
from vocabtool.index.document_tables import rows_of_table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DocumentRows", "Item", "Items", "decoded", "document_rows", "of_batch"]

Items: TypeAlias = "Iterable[Item] | pa.Table | pa.RecordBatch | pa.RecordBatchReader"


def of_batch(batch: Batch) -> DocumentRows:
    """A batch of the pipeline; the spelling of the kept fields' strings tells their kinds."""
    for name in batch.columns:
        check_name(name, batch.source)
    fields = {name: of_texts(column) for name, column in batch.columns.items()}
    return out_of_file(
        DocumentRows(batch.id_array(), batch.texts, fields, batch.place), batch.place
    )


def out_of_file(rows: DocumentRows, place: Callable[[int], str]) -> DocumentRows:
    """The rows, checked. Raises :class:`InvalidFile`: they are not what a caller made up."""
    try:
        return checked(rows, place)
    except ValueError as error:
        raise InvalidFile(str(error)) from error


def document_rows(items: Items, first_row: int = 0) -> Iterator[DocumentRows]:
    """What Python holds in batches of about 4 MB of text; takes no item more than it gives out.

    ``items``: an iterable of documents, of mappings with ``id`` and ``text``, or of texts; or a
    table with such columns (Arrow, and what hands itself over as Arrow: pandas, Polars). What else
    a mapping or table has are fields. A text is called by its row, counted on from ``first_row``.

    Raises ``ValueError`` with the place of the element that is no document.
    """
    import pyarrow as pa

    if isinstance(items, pa.RecordBatch):
        return rows_of_table([items])
    if hasattr(items, "__arrow_c_stream__"):
        return rows_of_table(pa.RecordBatchReader.from_stream(items))
    if isinstance(items, Iterable) and not isinstance(items, str | bytes | Mapping):
        return rows_of_items(items, first_row)
    wanted = "documents: wanted an iterable of documents, mappings or texts, or a table"
    raise ValueError(f"{wanted}, got {type(items).__name__}")
