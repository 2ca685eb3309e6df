"""Sort and group the candidates of a search, cut pages from them, and count facets.

A cursor is a text that says where the next page begins. It encodes these values in base64 (RFC
4648, section 5):

- the version of the format
- a hash of the id of the index
- the number of the commit
- the position at which the next page begins
- the limit of candidates of vector search and of keyword search
- a hash of the query and its options
- a checksum
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple

import numpy as np

from vocabtool.documents.batch import names_of
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidCursor
from vocabtool.search.fusion import Fused, Places
from vocabtool.search.query import Query
from vocabtool.search.settings import Settings
from vocabtool.search.store import IndexStore, Selection, ValueCount
from vocabtool.system.ranking import Rows

MAX_VALUES: Final = 20  # of a field in a facet
VERSION: Final = 1
CURSOR: Final = Struct(">B6sQII4s")
CHECKSUM: Final = 3  # bytes
CURSOR_LENGTH: Final = 4 * (CURSOR.size + CHECKSUM) // 3  # 40 characters, without padding
MAX_LIMIT: Final = (1 << 32) - 1
AGAIN: Final = "search again without a cursor"


class SortKey(NamedTuple):
    field: str
    falling: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrangement:
    """The arguments of ``Index.search`` for sorting, facets, pages and groups, parsed.

    ``sort``: the keys, the most important one first. ``vector``: the bytes of the vector that the
    caller passed; empty without a vector.
    """

    sort: tuple[SortKey, ...] = ()
    facets: tuple[str, ...] = ()
    cursor: str | None = None
    group_by: str | None = None
    vector: bytes = b""

    @classmethod
    def of(
        cls,
        sort: str | Sequence[str],
        facets: str | Sequence[str],
        cursor: str | None,
        group_by: str | None,
    ) -> Arrangement:
        """Parse arguments of ``Index.search``.

        ``sort``: one key or a list of keys: ``FIELD``, ``FIELD:asc`` or ``FIELD:desc``. ``facets``:
        a list of field names, or one string such as ``"A,B"``.
        """
        keys = []
        for each in [sort] if isinstance(sort, str) else sort:
            name = each.removesuffix(":desc")
            falling = name != each
            keys.append(SortKey(name if falling else each.removesuffix(":asc"), falling))
        names = facets.split(",") if isinstance(facets, str) else facets
        counted = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
        return cls(sort=tuple(keys), facets=counted, cursor=cursor, group_by=group_by)

    @property
    def fields(self) -> Iterator[tuple[str, str]]:
        yield from (("sort", key.field) for key in self.sort)
        yield from (("facets", name) for name in self.facets)
        if self.group_by is not None:
            yield "group_by", self.group_by


BY_SCORE: Final = Arrangement()


class Page(NamedTuple):
    """A page of hits, in order.

    - ``places``: the place of each hit among the candidates.
    - ``further``: for each hit, the number of other candidates in its group; ``None`` without
      groups.
    - ``total``: number of all candidates; with groups, the number of all groups.
    """

    places: Places
    scores: Fused
    further: list[int] | list[None]
    cursor: str | None
    total: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Pager:
    """Cuts pages from the ordered candidates of a search.

    - ``search``: a hash of the query and its options.
    - ``start``: the position of the first hit of the page.
    - ``limit``: maximum number of candidates of vector search and of keyword search.
    """

    store: IndexStore
    arrangement: Arrangement
    search: bytes
    start: int
    limit: int

    @classmethod
    def of(
        cls,
        store: IndexStore,
        arrangement: Arrangement,
        asked: tuple[str | None, Vectors | None, str | None, Settings],
        limit: int,
    ) -> Pager:
        """Make a pager that starts where the cursor says; without a cursor, at the first page.

        ``asked``: the query's text, its vector, the condition on fields, and the settings.

        Raises :class:`InvalidCursor` if the cursor is damaged or belongs to another search. Raises
        ``ValueError`` if the arrangement names an unknown field.
        """
        for option, name in arrangement.fields:
            if name not in store.fields:
                there = f"the kept fields are {names_of([*store.fields])}"
                raise ValueError(f"{option}: no field {name!r}; {there}")
        text, vector, where, settings = asked
        # Names of functions differ from process to process.
        if callable(settings.identifier):
            settings = replace(settings, identifier=None)
        if callable(settings.rerank):
            settings = replace(settings, rerank=None)
        # The vector that a model makes of a text may differ in its last digits the next time.
        arranged = arrangement.sort, arrangement.group_by, arrangement.vector
        searched = repr((text, where, settings, *arranged, vector is None))
        search = _hash(searched.encode(), 4)
        start = 0
        if arrangement.cursor is not None:
            start, first_limit = _read_cursor(store, arrangement.cursor, search)
            limit = min(first_limit, max(limit, store.rows))
        return cls(store=store, arrangement=arrangement, search=search, start=start, limit=limit)

    def candidates_for(self, k: int, candidates: int) -> int:
        return candidates if self._rearranges else self.start + k

    def page(self, rows: Rows, scores: Fused, k: int, total: int) -> Page:
        """Return a page of at most ``k`` candidates or groups.

        ``rows``, ``scores``: the best candidates, best first. ``total``: the number of all
        candidates.
        """
        if not self._rearranges:
            return self._cut(np.arange(len(rows)), scores, None, total, k)
        order, further = self._arrange(rows)
        return self._cut(order, scores[order], further, len(order), k)

    @property
    def _rearranges(self) -> bool:
        return bool(self.arrangement.sort) or self.arrangement.group_by is not None

    def page_of_all(self, allowed: Selection, k: int) -> tuple[Rows, Page]:
        """Return all rows of ``allowed`` in the order of their ids, and a page of these rows."""
        rows = self.store.in_order(allowed)
        order, further = self._arrange(rows)
        return rows, self._cut(order, np.zeros(len(order)), further, len(order), k)

    def _arrange(self, rows: Rows) -> tuple[Places, Places | None]:
        order = np.arange(len(rows))
        for key in reversed(self.arrangement.sort):
            codes = self.store.value_ranks(key.field, rows[order])
            ranks = -codes if key.falling else codes.view(np.uint64)  # -1, a missing value, is last
            order = order[ranks.argsort(kind="stable")]
        if self.arrangement.group_by is None:
            return order, None
        groups = self.store.value_ranks(self.arrangement.group_by, rows[order])
        alone = np.flatnonzero(groups < 0)  # a document without the field is a group of its own
        groups[alone] -= alone
        _, first, counts = np.unique(groups, return_index=True, return_counts=True)
        by_place = first.argsort()
        return order[first[by_place]], counts[by_place] - 1

    def _cut(
        self, places: Places, scores: Fused, further: Places | None, total: int, k: int
    ) -> Page:
        end = self.start + k
        page = slice(self.start, end)
        more: list[int] | list[None] = [None] * len(places[page])
        if further is not None:
            more = further[page].tolist()
        cursor = None
        if end < total:
            index, commit = self.store.version
            limit = min(self.limit, MAX_LIMIT)
            packed = CURSOR.pack(VERSION, _hash(index.encode(), 6), commit, end, limit, self.search)
            cursor = base64.urlsafe_b64encode(packed + _hash(packed, CHECKSUM)).decode()
        return Page(places[page], scores[page], more, cursor, total)

    def last_note(self, page: Page, found: int = 0) -> list[str]:
        """Return a list with a note if this is the last of several pages, otherwise ``[]``."""
        if self.arrangement.cursor is None or page.cursor is not None:
            return []
        what = "hits" if self.arrangement.group_by is None else "groups"
        note = f"the last page: there are {page.total:,} {what}"
        more = f" among {self.limit:,} candidates of each leg; a larger depth finds more"
        return [note + more if self.limit <= found < self.store.rows else note]


def _read_cursor(store: IndexStore, cursor: str, search: bytes) -> tuple[int, int]:
    data = b""
    if isinstance(cursor, str) and len(cursor) == CURSOR_LENGTH:
        with suppress(ValueError):  # a character that is not ASCII, or not of base64
            data = base64.b64decode(cursor, b"-_", validate=True)
    packed, check = data[: CURSOR.size], data[CURSOR.size :]
    if check != _hash(packed, CHECKSUM) or packed[0] != VERSION:
        what = f"cursor: {cursor!r:.60} is not a cursor of vocabtool, or it was cut or changed"
        raise InvalidCursor(f"{what}: copy the whole cursor of a result, or {AGAIN}")
    _, of_index, of_commit, position, limit, of_search = CURSOR.unpack(packed)
    index, commit = store.version
    if of_index != _hash(index.encode(), 6):
        raise InvalidCursor(f"cursor: made by another index. Search that index, or {AGAIN}")
    if of_commit > commit:
        newer = f"made at commit {of_commit:,}, but the index was opened at commit {commit:,}"
        raise InvalidCursor(f"cursor: {newer}. Refresh the index or open it again, or {AGAIN}")
    if of_commit < commit:
        older = f"made at commit {of_commit:,}, but the index has changed to commit {commit:,}"
        raise InvalidCursor(f"cursor: {older}; {AGAIN}")
    if of_search != search:
        same = "Repeat the query, condition, order, groups and settings of that search"
        raise InvalidCursor(f"cursor: made by another search. {same}, or {AGAIN}")
    return position, max(limit, 1)


def _hash(text: bytes, size: int) -> bytes:
    return blake2b(text, digest_size=size).digest()


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
    asked = [] if query.required else [*terms]
    counted = store.count_values(fields, asked, allowed, MAX_VALUES)
    notes = [
        f"{name} has {found.distinct:,} values; the {MAX_VALUES} most frequent are shown"
        for name, found in counted.items()
        if found.distinct > MAX_VALUES
    ]
    return {name: found.frequent for name, found in counted.items()}, notes
