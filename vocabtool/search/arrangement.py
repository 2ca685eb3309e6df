"""Sort and group the candidates of a search, cut pages from them, and count facets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from vocabtool.documents.batch import names_of
from vocabtool.search.fusion import Places
from vocabtool.search.query import Query
from vocabtool.search.store import IndexStore, Selection, ValueCount
from vocabtool.system.ranking import Rows

MAX_VALUES: Final = 20  # of a field in a facet


class SortKey(NamedTuple):
    field: str
    falling: bool


class Page(NamedTuple):
    """A page of hits, in order.

    - ``places``: the place of each hit among the candidates.
    - ``further``: for each hit, the number of other candidates in its group; ``None`` without
      groups.
    - ``total``: the number of hits on all pages.
    - ``is_last``: whether the page is a later one than the first, and no page follows.
    """

    places: Places
    further: list[int] | list[None]
    total: int
    is_last: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrangement:
    """The arguments of ``Index.search`` for sorting, facets, pages and groups, parsed.

    ``sort``: the keys, the most important one first. ``offset``: number of hits before the page.
    """

    sort: tuple[SortKey, ...] = ()
    facets: tuple[str, ...] = ()
    offset: int = 0
    group_by: str | None = None

    @classmethod
    def of(
        cls,
        sort: str | Sequence[str],
        facets: str | Sequence[str],
        offset: int,
        group_by: str | None,
    ) -> Arrangement:
        """Parse arguments of ``Index.search``.

        ``sort``: one key or a list of keys: ``FIELD``, ``FIELD:asc`` or ``FIELD:desc``. ``facets``:
        a list of field names, or one string such as ``"A,B"``. Raises ``ValueError`` for a negative
        offset.
        """
        if offset < 0:
            raise ValueError(f"offset must be at least 0, got {offset}")
        keys = []
        for text in [sort] if isinstance(sort, str) else sort:
            name = text.removesuffix(":desc")
            falling = name != text
            keys.append(SortKey(name if falling else text.removesuffix(":asc"), falling))
        names = facets.split(",") if isinstance(facets, str) else facets
        counted = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
        return cls(sort=tuple(keys), facets=counted, offset=offset, group_by=group_by)

    def check_fields(self, store: IndexStore) -> None:
        """Raise ``ValueError`` if the arrangement names a field that the index does not keep."""
        fields = [("sort", key.field) for key in self.sort]
        fields += [("facets", name) for name in self.facets]
        if self.group_by is not None:
            fields.append(("group_by", self.group_by))
        for option, name in fields:
            if name not in store.fields:
                kept = f"the kept fields are {names_of([*store.fields])}"
                raise ValueError(f"{option}: no field {name!r}; {kept}")

    def depth(self, k: int, candidates: int) -> int:
        """Return how many of the best candidates a page of ``k`` hits needs."""
        return candidates if self.sort or self.group_by is not None else self.offset + k

    def page(self, store: IndexStore, rows: Rows, k: int, total: int) -> Page:
        """Return a page of at most ``k`` candidates or groups.

        ``rows``: the best candidates, best first. ``total``: the number of all candidates.
        """
        order = np.arange(len(rows))
        for key in reversed(self.sort):
            codes = store.value_ranks(key.field, rows[order])
            ranks = -codes if key.falling else codes.view(np.uint64)  # -1, a missing value, is last
            order = order[ranks.argsort(kind="stable")]
        end = self.offset + k
        if self.group_by is None:
            places = order[self.offset : end]
            further: list[int] | list[None] = [None] * len(places)
        else:
            groups = store.value_ranks(self.group_by, rows[order])
            alone = np.flatnonzero(groups < 0)  # a document without the field is its own group
            groups[alone] -= alone
            _, first, counts = np.unique(groups, return_index=True, return_counts=True)
            by_place = first.argsort()
            total = len(by_place)
            places = order[first[by_place]][self.offset : end]
            further = (counts[by_place] - 1)[self.offset : end].tolist()
        return Page(places, further, total, self.offset > 0 and end >= total)


BY_SCORE: Final = Arrangement()


def count_facets(
    store: IndexStore, fields: Sequence[str], query: Query, allowed: Selection
) -> tuple[dict[str, tuple[ValueCount, ...]], list[str]]:
    """Count field values in the allowed documents that contain a word of the query.

    Returns the most frequent values of each field, and a note for each field with more values than
    ``MAX_VALUES``.
    """
    if not fields:
        return {}, []
    terms = dict.fromkeys(chain.from_iterable(w.terms for w in query.words if w.counts))
    counted = store.count_values(fields, [] if query.required else [*terms], allowed, MAX_VALUES)
    notes = [
        f"{name} has {counts.distinct:,} values; the {MAX_VALUES} most frequent are shown"
        for name, counts in counted.items()
        if counts.distinct > MAX_VALUES
    ]
    return {name: counts.frequent for name, counts in counted.items()}, notes
