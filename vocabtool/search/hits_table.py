"""The hits of a search as an Arrow table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa

from vocabtool.documents.batch import Kind
from vocabtool.keywords.cutter import text_in_utf8

TYPES: Final[dict[Kind, pa.DataType]] = {
    **{"null": pa.string(), "integer": pa.int64(), "number": pa.float64()},
    **{"boolean": pa.bool_(), "string": pa.string()},
}
PLACE: Final = pa.struct({"rank": pa.int64(), "score": pa.float64(), "part": pa.float64()})
WORD: Final = pa.struct({"surface": pa.string(), "score": pa.float64(), "whole": pa.bool_()})
EXPLANATION: Final = pa.struct(
    {
        "dense": PLACE,
        "keyword": PLACE,
        "words": pa.list_(WORD),
        "rank_without_keywords": pa.int64(),
        "highlights": pa.list_(pa.struct({"start": pa.int64(), "end": pa.int64()})),
        "fused_rank": pa.int64(),
        "highlight_fields": pa.list_(pa.string()),
    }
)
COLUMNS: Final = {
    "id": pa.string(),
    "score": pa.float64(),
    "tier": pa.int64(),
    "similarity": pa.float64(),
    "bm25": pa.float64(),
    "text": pa.string(),
}
IF_KNOWN: Final = {"rerank": pa.float64(), "further": pa.int64(), "explanation": EXPLANATION}


def table_of(hits: Sequence[Any], fields: Mapping[str, Kind]) -> pa.Table:
    """Make the table that :meth:`Hits.to_arrow` returns. ``fields``: all fields of the index."""
    columns = {
        name: _column([getattr(hit, name) for hit in hits], COLUMNS[name]) for name in COLUMNS
    }
    for name, kind in fields.items():
        own = name
        while own in columns or own in IF_KNOWN:
            own = f"fields.{own}"
        columns[own] = _column([hit.fields.get(name) for hit in hits], TYPES[kind])
    for name, type_ in IF_KNOWN.items():
        values = [getattr(hit, name) for hit in hits]
        if any(each is not None for each in values):
            columns[name] = _column(values, type_)
    return pa.table(columns)


def _column(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    if type_ == pa.float64():  # Arrow refuses integers that are not exactly a float
        return pa.array([None if each is None else float(each) for each in values], type_)
    return pa.array([*map(_plain, values)], type_)


def _plain(value: Any) -> object:
    if isinstance(value, str):
        return value if value.isascii() else text_in_utf8(value)
    if hasattr(value, "highlights"):  # an explanation
        return asdict(value) | {"highlights": [each._asdict() for each in value.highlights]}
    return value
