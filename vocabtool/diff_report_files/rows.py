"""The entries of a comparison in rows: for lists that are complete, or cut off at a number each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, get_args

from vocabtool.diff.comparison import Diff, Part

CHUNK: Final = 1 << 14
PARTS: Final[tuple[Part, ...]] = get_args(Part)


class Row(NamedTuple):
    """An entry. What a side does not have is ``None``."""

    token: bytes
    in_a: bool
    in_b: bool
    id_a: int | None
    id_b: int | None
    kind_a: str | None
    kind_b: str | None
    rank_a: int | None
    rank_b: int | None
    shift: float | None


def rows(found: Diff, part: Part, most: int | None = None) -> Iterator[Row]:
    """The entries of a part by id, the lowest first; made as they are asked for."""
    for batch in chunks(found, part, most):
        yield from map(Row, *batch)


def chunks(found: Diff, part: Part, most: int | None = None) -> Iterator[list[list[Any]]]:
    """The same by columns, as many rows at a time as are worked on together."""
    places = found.places(part, most)
    for at in range(0, len(places), CHUNK):
        table = found.to_arrow(places[at : at + CHUNK])
        yield [column.to_pylist() for column in table.columns]
