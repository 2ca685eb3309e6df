"""The entries of a comparison in rows: for lists that are complete, or cut off at a number each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from vocabtool.comparison.diff import Diff, Part
from vocabtool.comparison.entries import take
from vocabtool.comparison.kinds import KINDS

Only = Literal["a", "b", "both"]  # a list of one part alone: who holds its entries
CHUNK: Final = 1 << 14
PARTS: Final[tuple[Part, ...]] = get_args(Part)
HELD_BY: Final[Mapping[Only, Part]] = MappingProxyType(
    {"a": "only_a", "b": "only_b", "both": "common"}
)


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


def parts(only: Only | None) -> tuple[Part, ...]:
    """The parts of a complete list, or the one that is asked for."""
    return PARTS if only is None else (HELD_BY[only],)


def rows(found: Diff, part: Part, most: int | None = None) -> Iterator[Row]:
    """The entries of a part by id, the lowest first; made as they are asked for."""
    for batch in chunks(found, part, most):
        yield from map(Row, *batch)


def chunks(found: Diff, part: Part, most: int | None = None) -> Iterator[list[list[Any]]]:
    """The same by columns, as many rows at a time as are worked on together."""
    names = np.array([*KINDS, ""], object)
    rank_a, rank_b, shift = found.rank_columns
    places = found.places(part, most)
    for at in range(0, len(places), CHUNK):
        some = places[at : at + CHUNK]
        in_a, in_b = found.in_a[some], found.in_b[some]
        yield [
            take(found.tokens, some).to_pylist(),
            in_a.tolist(),
            in_b.tolist(),
            _where(in_a, found.ids_a[some]),
            _where(in_b, found.ids_b[some]),
            _where(in_a, names[np.minimum(found.kinds_a[some], len(KINDS))]),
            _where(in_b, names[np.minimum(found.kinds_b[some], len(KINDS))]),
            *(_where(in_a & in_b, column[some]) for column in (rank_a, rank_b, shift)),
        ]


def _where(held: NDArray[np.bool_], values: NDArray[Any]) -> list[Any]:
    """The values, ``None`` where there are none."""
    shown = values.astype(object)
    shown[~held] = None
    found: list[Any] = shown.tolist()
    return found
