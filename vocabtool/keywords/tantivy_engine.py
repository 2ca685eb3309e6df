"""The keyword leg of an index by tantivy: one writer, any number of readers beside it.

Documents are numbered by the caller (``row``); which of them count is the caller's too, by a mask
over the rows. What is in the folder, and whether it is whole, is in ``tantivy_files.py``.

A commit is on disk when it returns: tantivy flushes each file and renames ``meta.json`` over the
old one; the folder, which tantivy does not flush after that, is flushed here. A writer that was
killed leaves the last commit as it was, and its lock is the system's (``flock``): it ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import FolderInUse, InvalidFile
from vocabtool.keywords.cutting import Terms
from vocabtool.keywords.damage import naming_damage
from vocabtool.keywords.noted_lengths import padded
from vocabtool.keywords.plain_bm25 import idf
from vocabtool.keywords.queries import Clause, KeywordQuery, Term
from vocabtool.keywords.spellings import nearest
from vocabtool.keywords.tantivy_files import META, check_structure, description
from vocabtool.keywords.tantivy_queries import Fields, require_tantivy, schema
from vocabtool.system.ranked import Ranked, Rows, Scores
from vocabtool.system.whole_file import sync_folder

if TYPE_CHECKING:
    import tantivy

Among = NDArray[np.bool_]
T = TypeVar("T")

LEAST_MEMORY: Final = 15_000_000  # bytes for each thread that tantivy asks for
SPARE: Final = 16  # hits fetched beyond the limit, for rows that are masked

# What looking up one row costs, in hits that could be fetched instead (measured).
ROW_IN_HITS: Final = 25

ROWS_AT_ONCE: Final = 50_000  # ids read at once
SPELLINGS: Final = 50_000  # terms of one initial that are compared, the most frequent

# tantivy adds float32 in an order that varies, so equal documents may differ in the last 8 bits.
_HALF: Final = np.uint32(1 << 7)
_KEPT: Final = np.uint32(0xFFFF_FF00)


class TantivyWriter:
    """Adds documents and removes the last ones. One at a time for a folder, of all processes.

    ``memory``: bytes for what is not yet written, of all threads. Raises :class:`FolderInUse`
    where another one writes, :class:`InvalidFile` where the folder holds a damaged index.
    """

    def __init__(self, folder: Path, *, memory: int = 128 << 20, threads: int = 1) -> None:
        require_tantivy()
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / META).exists():
            check_structure(folder)
        self._folder = folder
        self._memory, self._threads = max(memory, threads * LEAST_MEMORY), threads
        with naming_damage(folder):
            self._index = _index(folder)
        self._writer: tantivy.IndexWriter | None = self._open()

    def add(self, rows: Iterable[int], ids: Sequence[str], terms: Sequence[Terms]) -> None:
        """Add documents. Which rows and ids are there already is not looked at."""
        writer = self._opened()
        with naming_damage(self._folder):
            for row, name, cut in zip(rows, ids, terms, strict=True):
                writer.add_document(_document(row, name, cut))

    def remove_from(self, row: int) -> None:
        """Remove every document at this row or past it."""
        import tantivy

        with naming_damage(self._folder):
            last_ones = tantivy.Query.range_query(
                self._index.schema, "row", tantivy.FieldType.Unsigned, lower_bound=row
            )
            self._opened().delete_documents_by_query(last_ones)

    def commit(self) -> None:
        """Bring all to disk and finish merging: files stay as they are until the next commit."""
        writer = self._opened()
        with naming_damage(self._folder):
            writer.commit()
            writer.wait_merging_threads()
        self._writer = None  # it has ended with its threads
        sync_folder(self._folder)

    def close(self) -> None:
        """Forget what was not committed and let another one write."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with naming_damage(self._folder):
                writer.rollback()
                writer.wait_merging_threads()

    def _opened(self) -> tantivy.IndexWriter:
        if self._writer is None:
            self._writer = self._open()
        return self._writer

    def _open(self) -> tantivy.IndexWriter:
        with naming_damage(self._folder):
            try:
                return self._index.writer(self._memory, self._threads)
            except ValueError as error:
                if "LockBusy" not in str(error):
                    raise
                raise FolderInUse(f"{self._folder}: another process writes there") from error


class TantivyReader:
    """Searches the last commit, or the one that :meth:`refresh` finds. Threads may share it.

    Raises :class:`NotFound` where there is no index, :class:`InvalidFile` for a damaged one.
    """

    def __init__(self, folder: Path) -> None:
        require_tantivy()
        self._folder = folder
        self._index, self._searcher = _at_rest(folder, lambda: _opened(folder))
        self._fields = Fields(self._index.schema, self._idf)

    def refresh(self) -> None:
        """See the last commit."""
        self._searcher = _at_rest(self._folder, lambda: _reloaded(self._folder, self._index))
        self._fields = Fields(self._index.schema, self._idf)  # the clauses kept are of the last one

    @property
    def documents(self) -> int:
        """How many documents there are, also at rows that no mask lets through."""
        return int(self._searcher.num_docs)

    def search(self, query: KeywordQuery, limit: int, among: Among) -> Ranked:
        """The best documents of the rows that the mask of shape (rows,) lets through.

        Scores are rounded to 16 significant bits. Of equal scores at the limit any may be left
        out, unless the index is one segment (compacted): then the highest rows are.
        """
        if limit < 1:
            return Ranked.none()
        with naming_damage(self._folder):
            found = [self._best(one, query, limit, among) for one in self._fields.of(query)]
        return _best_of(found, limit)

    def matching(self, clauses: Sequence[Clause], among: Among) -> Rows:
        """Every row that holds all of these clauses and passes the mask, ascending."""
        most = min(map(self._most, clauses), default=0)
        if not most:
            return Ranked.none().rows
        with naming_damage(self._folder):
            rows, _ = self._fetch(self._fields.holding_all(clauses), most)
        return np.sort(rows[_pass(rows, among)])

    def document_frequency(self, term: Term) -> int:
        """How many documents hold a term; deleted ones count until their segment is merged."""
        with naming_damage(self._folder):
            return int(self._searcher.doc_freq(term.field, term.text))

    def rows_of(self, ids: Sequence[str]) -> dict[str, list[int]]:
        """The rows of each id that is there, ascending."""
        with naming_damage(self._folder):
            found = {name: self._rows_of(name) for name in ids}
        return {name: rows for name, rows in found.items() if rows}

    def rows_and_ids(self) -> Iterator[tuple[int, str]]:
        """Row and id of every document, in no order that means something."""
        start, past = 0, self._last_row() + 1
        while start < past:
            yield from self._ids(start, start + ROWS_AT_ONCE)
            start += ROWS_AT_ONCE

    def near_spellings(self, word: str, limit: int) -> list[str]:
        """Stems spelled nearly like a folded and stemmed word, nearest and most frequent first.

        They are looked for among those that begin with one of its first two characters.
        ``spellings.as_written`` finds how texts write a stem.
        """
        with naming_damage(self._folder):
            frequencies = dict(self._beginning_with(set(word[:2])))
        return nearest(word, frequencies, limit)

    def _best(self, query: tantivy.Query, asks: KeywordQuery, limit: int, among: Among) -> Ranked:
        """Ask for more until the limit is reached or there is no more."""
        asked = limit + SPARE
        while True:
            rows, scores = self._fetch(query, asked)
            passed = _pass(rows, among)
            left = np.count_nonzero(passed)
            if len(rows) < asked or left >= limit:
                if left < len(rows):
                    rows, scores = rows[passed], scores[passed]
                return Ranked.of_falling(rows, scores, limit)
            allowed = max(int(np.count_nonzero(among)), 1)
            asked = max(4 * asked, limit * len(among) // allowed)
            if allowed * ROW_IN_HITS < min(asked, self._at_most(asks)):
                return self._best_of_rows(query, limit, among)

    def _best_of_rows(self, query: tantivy.Query, limit: int, among: Among) -> Ranked:
        allowed = np.flatnonzero(among).tolist()
        if not allowed:
            return Ranked.none()
        rows, scores = self._fetch(self._fields.among(query, allowed), len(allowed))
        return Ranked.of(rows, scores, limit)

    def _fetch(self, query: tantivy.Query, limit: int) -> Ranked:
        searcher = self._searcher
        limit = min(limit, max(searcher.num_docs, 1))
        hits: list[Any] = searcher.search(query, limit, count=False).hits
        if not hits:
            return Ranked.none()
        scores, addresses = zip(*hits, strict=True)
        rows = searcher.fast_field_values("row", list(addresses))
        return Ranked(np.array(rows, np.int64), _rounded(np.array(scores, np.float32)))

    def _at_most(self, query: KeywordQuery) -> int:
        """How many documents a query can find."""
        return (
            min(map(self._most, query.must)) if query.must else sum(map(self._most, query.should))
        )

    def _most(self, clause: Clause) -> int:
        return min(self.document_frequency(term) for term in clause.terms)

    def _idf(self, term: Term) -> float:
        return idf(self.documents, self.document_frequency(term))

    def _rows_of(self, name: str) -> list[int]:
        import tantivy

        query = tantivy.Query.term_query(self._index.schema, "id", name, "basic")
        most = self._searcher.doc_freq("id", name)
        return sorted(self._fetch(query, most)[0].tolist()) if most else []

    def _last_row(self) -> int:
        if not self.documents:
            return -1
        import tantivy

        last = self._searcher.search(
            tantivy.Query.all_query(),
            1,
            count=False,
            order_by_field="row",
            order=tantivy.Order.Desc,
        )
        return int(last.hits[0][0])

    def _ids(self, start: int, stop: int) -> Iterator[tuple[int, str]]:
        import tantivy

        query = tantivy.Query.range_query(
            self._index.schema,
            "row",
            tantivy.FieldType.Unsigned,
            lower_bound=start,
            upper_bound=stop,
            include_upper=False,
        )
        with naming_damage(self._folder):
            hits: list[Any] = self._searcher.search(query, max(self.documents, 1), False).hits
            addresses = [address for _, address in hits]
            rows = self._searcher.fast_field_values("row", addresses)
            ids = [self._searcher.doc(address)["id"][0] for address in addresses]
        yield from zip(rows, ids, strict=True)

    def _beginning_with(self, initials: set[str]) -> Iterator[tuple[str, int]]:
        for initial in initials:
            yield from self._searcher.terms_with_prefix("words", initial, limit=SPELLINGS)


def _index(folder: Path) -> tantivy.Index:
    """The index of a folder, begun where there is none; refused where its fields are others."""
    import tantivy

    return tantivy.Index(schema(), path=str(folder))


def _opened(folder: Path) -> tuple[tantivy.Index, tantivy.Searcher]:
    check_structure(folder)
    with naming_damage(folder):
        index = _index(folder)
        index.config_reader("manual")  # or a thread of its own would watch the folder
    return index, _reloaded(folder, index)


def _reloaded(folder: Path, index: tantivy.Index) -> tantivy.Searcher:
    with naming_damage(folder):
        index.reload()
        return index.searcher()


def _at_rest(folder: Path, read: Callable[[], T]) -> T:
    """What is read of a commit; read again where a writer put another in its place meanwhile."""
    while True:
        before = description(folder)
        try:
            return read()
        except InvalidFile:
            if description(folder) == before:
                raise


def _document(row: int, name: str, terms: Terms) -> tantivy.Document:
    import tantivy

    document = tantivy.Document()
    document.add_unsigned("row", row)
    document.add_text("id", name)
    document.add_text("words", padded(terms.words, terms.count))
    if terms.surfaces:
        document.add_text("surfaces", terms.surfaces)
    return document


def _pass(rows: Rows, among: Among) -> Among:
    """Which of these rows the mask lets through; none that it does not know."""
    known = rows < len(among)
    if np.count_nonzero(known) == len(known):
        return among[rows]
    known[known] = among[rows[known]]
    return known


def _rounded(scores: Scores) -> Scores:
    bits = scores.view(np.uint32) + _HALF
    bits &= _KEPT
    return bits.view(np.float32)


def _best_of(found: Sequence[Ranked], limit: int) -> Ranked:
    """Each row once, with its highest score."""
    if len(found) == 1:
        return found[0]
    if not found:
        return Ranked.none()
    rows = np.concatenate([each.rows for each in found])
    scores = np.concatenate([each.scores for each in found])
    best = np.lexsort((-scores, rows))
    first = best[np.unique(rows[best], return_index=True)[1]]
    return Ranked.of(rows[first], scores[first], limit)
