"""The keyword leg of an index by tantivy: one writer, any number of readers beside it.

Documents are numbered by the caller (``row``); which of them count is the caller's too, by a mask
over the rows. Texts are cut by us (``cutter.py``), tantivy only splits at blanks.

Words are scored by tantivy's BM25. A surface counts by its idf alone, whatever the text's length
(``bm25.py`` says why), so it is a constant. Constants keep tantivy from passing over what cannot be
among the best (block-max WAND), so a query of both is asked in two: the words alone, and those few
documents that hold a surface.

A commit is on disk when it returns: tantivy flushes each file and renames ``meta.json`` over the
old one; the folder, which tantivy does not flush after that, is flushed here. A writer that was
killed leaves the last commit as it was, and its lock is the system's (``flock``): it ends with it.

The files of a tantivy index: their checksums at a commit, compared when it is opened.

``meta.json`` names the segments of the last commit. A segment is some files named by its id, which
never change. ``.managed.json`` lists what tantivy may remove; a writer that was killed leaves such
files, and the next one removes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vocabtool.errors import FolderInUse, InvalidFile, NotFound, UnsupportedFormat, VocabtoolError
from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term, idf
from vocabtool.keywords.cutter import Terms
from vocabtool.keywords.spellings import nearest
from vocabtool.system.own_files import checksum, compare, compare_bytes, sync_folder
from vocabtool.system.ranking import Mask, RankedRows, Rows

if TYPE_CHECKING:
    import tantivy

META: Final = "meta.json"
MANAGED: Final = ".managed.json"
MANAGED_NAME: Final = re.compile(r"meta\.json|[0-9a-f]{32}\.[a-z0-9.]{1,32}")
LOCKS: Final = (".tantivy-meta.lock", ".tantivy-writer.lock")  # empty


def description(folder: Path) -> bytes:
    """``meta.json`` as it is now. Raises :class:`NotFound` where there is none."""
    try:
        return (folder / META).read_bytes()
    except OSError as error:
        raise NotFound(f"{folder / META}: {error.strerror}: no keyword index there") from error


def file_names(folder: Path) -> frozenset[str]:
    """The files of the last commit's segments. Raises :class:`InvalidFile`, :class:`NotFound`."""
    ids = _segment_ids(folder, description(folder))
    return frozenset(file.name for file in folder.iterdir() if _id_of(file.name) in ids)


def checksums(folder: Path, before: Mapping[str, int]) -> dict[str, int]:
    """The CRC-32C of ``meta.json`` and of each file of the last commit's segments, by name.

    ``before``: those of an earlier commit; the segments' files that it has are not read again.
    """
    found = {META: checksum(folder / META)}
    for name in sorted(file_names(folder)):
        found[name] = before[name] if name in before else checksum(folder / name)
    return found


def check_files(
    folder: Path, noted: Mapping[str, int], whole: Set[str] = frozenset()
) -> frozenset[str]:
    """Compare a commit's files with their checksums; the names of those that are whole.

    ``noted``: what :func:`checksums` gave. Where tantivy is ahead of it, by a writer that was
    killed or is at work, the segments that are left of it are compared: new ones hold no row of the
    commit. ``whole``: files that need no other look. Raises :class:`InvalidFile`, which names the
    file that is not what was written, and :class:`NotFound`.
    """
    content = description(folder)  # read once: a writer may put another in its place
    ids = _segment_ids(folder, content)
    if ids == {_id_of(name) for name in noted} - {_id_of(META)}:  # each commit adds a segment
        compare_bytes(content, noted[META], folder / META)
    left = {name for name in noted if _id_of(name) in ids}
    for name in sorted(left - whole):
        if not (folder / name).exists():
            raise InvalidFile(f"missing, though {META} names it", file=str(folder / name))
        compare(folder / name, noted[name])
    _check_managed(folder / MANAGED, left)
    return frozenset(left)


def _check_managed(file: Path, left: Set[str]) -> None:
    """It has no checksum: any writer writes it anew, in any order. Nothing but names is in it."""
    if not file.exists():  # to tantivy an empty list
        return
    content = file.read_bytes()
    try:
        names = json.loads(content)
        is_whole = json.dumps(names, separators=(",", ":")).encode() + b"\n" == content
        if is_whole and all(map(MANAGED_NAME.fullmatch, names)) and left <= {*names}:
            return
    except (ValueError, TypeError, RecursionError):
        pass
    raise InvalidFile("damaged: no list of the files of this keyword index", file=str(file))


def _id_of(name: str) -> str:
    return name.partition(".")[0]


def _segment_ids(folder: Path, content: bytes) -> set[str]:
    """The ids of the segments, by the content of ``meta.json``."""
    try:
        return {each["segment_id"].replace("-", "") for each in json.loads(content)["segments"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = "no description of a keyword index by tantivy"
        raise InvalidFile(what, file=str(folder / META)) from error


MIN_THREAD_MEMORY: Final = 15_000_000  # bytes for each thread that tantivy asks for
SPARE_HITS: Final = 16  # fetched beyond the limit, for rows that are masked
ROW_IN_HITS: Final = 25  # what looking up one row costs, in hits that could be fetched instead
BATCH_ROWS: Final = 50_000  # ids read at once
MAX_TERMS_COMPARED: Final = 50_000  # of one initial for spellings, the most frequent
MAX_CLAUSES_KEPT: Final = 32  # a search asks for the same clause more than once

# tantivy adds float32 in an order that varies, so equal documents may differ in the last 8 bits.
_HALF: Final = np.uint32(1 << 7)
_KEPT: Final = np.uint32(0xFFFF_FF00)


class TantivyWriter:
    """Adds documents and removes the last ones. One at a time for a folder, of all processes.

    ``memory``: bytes for what is not yet written, of all threads. Raises :class:`FolderInUse`
    where another one writes, :class:`InvalidFile` where the folder holds a damaged index.
    """

    def __init__(self, folder: Path, *, memory: int = 128 << 20, threads: int = 1) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / META).exists():
            file_names(folder)  # which refuses a damaged description
        self._folder = folder
        self._memory, self._threads = max(memory, threads * MIN_THREAD_MEMORY), threads
        with _damage_named(folder):
            self._index = _index_in(folder)
        self._writer: tantivy.IndexWriter | None = self._open()

    def add(self, rows: Iterable[int], ids: Sequence[str], terms: Sequence[Terms]) -> None:
        """Add documents. Which rows and ids are there already is not looked at."""
        import tantivy

        writer = self._opened_writer()
        for row, name, cut in zip(rows, ids, terms, strict=True):
            document = tantivy.Document()
            document.add_unsigned("row", row)
            document.add_text("id", name)
            document.add_text("words", cut.words)
            if cut.surfaces:
                document.add_text("surfaces", cut.surfaces)
            writer.add_document(document)

    def remove_from(self, row: int) -> None:
        """Remove every document at this row or past it."""
        import tantivy

        last_ones = tantivy.Query.range_query(
            self._index.schema, "row", tantivy.FieldType.Unsigned, lower_bound=row
        )
        self._opened_writer().delete_documents_by_query(last_ones)

    def commit(self) -> None:
        """Bring all to disk and finish merging: files stay as they are until the next commit."""
        writer = self._opened_writer()
        with _damage_named(self._folder):
            writer.commit()
            writer.wait_merging_threads()
        self._writer = None  # it has ended with its threads
        sync_folder(self._folder)

    def close(self) -> None:
        """Forget what was not committed and let another one write."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with _damage_named(self._folder):
                writer.rollback()
                writer.wait_merging_threads()

    def _opened_writer(self) -> tantivy.IndexWriter:
        if self._writer is None:
            self._writer = self._open()
        return self._writer

    def _open(self) -> tantivy.IndexWriter:
        with _damage_named(self._folder):
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
        self._folder = folder
        description(folder)  # which says whether there is one
        with _damage_named(folder):
            self._index = _index_in(folder)
            self._index.config_reader("manual")  # or a thread of its own would watch the folder
        self.refresh()

    def refresh(self) -> None:
        """See the last commit."""
        from tantivy import Occur, Query

        while True:
            before = description(self._folder)
            try:
                with _damage_named(self._folder):
                    self._index.reload()
                    self._searcher = self._index.searcher()
                break
            except InvalidFile:  # unless a writer put another commit in its place meanwhile
                if description(self._folder) == before:
                    raise
        self._schema, self._query = self._index.schema, Query
        self._must, self._should = Occur.Must, Occur.Should
        self._clause = lru_cache(MAX_CLAUSES_KEPT)(self._clause_query)  # idfs are of one commit

    @property
    def documents(self) -> int:
        """How many documents there are, also at rows that no mask lets through."""
        return int(self._searcher.num_docs)

    def search(self, query: KeywordQuery, limit: int, among: Mask) -> RankedRows:
        """The best documents of the rows that the mask of shape (rows,) lets through.

        Scores are rounded to 16 significant bits. Of equal scores at the limit any may be left
        out, unless the index is one segment (compacted): then the highest rows are.
        """
        if limit < 1:
            return RankedRows.none()
        found = [self._best(one, query, limit, among) for one in self._queries(query)]
        if len(found) == 1:
            return found[0]
        if not found:
            return RankedRows.none()
        rows = np.concatenate([each.rows for each in found])
        scores = np.concatenate([each.scores for each in found])
        best = np.lexsort((-scores, rows))  # each row once, with its highest score
        first = best[np.unique(rows[best], return_index=True)[1]]
        return RankedRows.of(rows[first], scores[first], limit)

    def matching_rows(self, clauses: Sequence[Clause], among: Mask) -> Rows:
        """Every row that holds all of these clauses and passes the mask, ascending."""
        most = min(map(self._frequency, clauses), default=0)
        if not most:
            return RankedRows.none().rows
        rows = self._fetch(self._all_of(clauses, ()), most).rows
        return np.sort(rows[_pass_mask(rows, among)])

    def document_frequency(self, term: Term) -> int:
        """How many documents hold a term; deleted ones count until their segment is merged."""
        return int(self._searcher.doc_freq(term.field, term.text))

    def rows_and_ids(self) -> Iterator[tuple[int, str]]:
        """Row and id of every document, in no order that means something."""
        import tantivy

        searcher, start = self._searcher, 0
        if not self.documents:
            return
        ((last, _),) = searcher.search(
            self._query.all_query(),
            1,
            count=False,
            order_by_field="row",
            order=tantivy.Order.Desc,
        ).hits
        while start <= int(last):
            query = self._query.range_query(
                self._schema,
                "row",
                tantivy.FieldType.Unsigned,
                lower_bound=start,
                upper_bound=start + BATCH_ROWS,
                include_upper=False,
            )
            hits: list[Any] = searcher.search(query, self.documents, False).hits
            addresses = [address for _, address in hits]
            ids = [searcher.doc(address)["id"][0] for address in addresses]
            yield from zip(searcher.fast_field_values("row", addresses), ids, strict=True)
            start += BATCH_ROWS

    def near_spellings(self, word: str, limit: int) -> list[str]:
        """Stems spelled nearly like a folded and stemmed word, nearest and most frequent first.

        They are looked for among those that begin with one of its first two characters.
        ``spellings.as_written`` finds how texts write a stem.
        """
        frequencies: dict[str, int] = {}
        for initial in set(word[:2]):
            near = self._searcher.terms_with_prefix("words", initial, limit=MAX_TERMS_COMPARED)
            frequencies.update(near)
        return nearest(word, frequencies, limit)

    def _queries(self, query: KeywordQuery) -> list[tantivy.Query]:
        """Queries that find the best together; a document's score is the highest it gets."""
        if query.must:
            return [self._all_of(query.must, query.should)]
        words = [clause for clause in query.should if clause.terms[0].field == "words"]
        surfaces = [clause for clause in query.should if clause.terms[0].field == "surfaces"]
        found = [self._any_of(words)] if words else []
        if surfaces:
            unscored = self._query.const_score_query(self._any_of(surfaces), 0.0)
            holding = [(self._must, unscored), *self._score_clauses(query.should)]
            found.append(self._query.boolean_query(holding))
        return found

    def _any_of(self, clauses: Sequence[Clause]) -> tantivy.Query:
        return self._query.boolean_query([(self._should, self._clause(each)) for each in clauses])

    def _all_of(self, must: Sequence[Clause], should: Sequence[Clause]) -> tantivy.Query:
        required = [(self._must, self._clause(clause)) for clause in must]
        return self._query.boolean_query([*required, *self._score_clauses(should)])

    def _score_clauses(
        self, clauses: Sequence[Clause]
    ) -> list[tuple[tantivy.Occur, tantivy.Query]]:
        """What each is worth; of a whole and the parts that it outdoes, which are more."""
        by_term = {clause.terms: clause for clause in clauses}
        outdone = {(term,) for clause in clauses for term in clause.parts}
        scored = []
        for clause in clauses:
            if clause.parts:
                parts = self._any_of([by_term[term,] for term in clause.parts])
                most = self._query.disjunction_max_query([self._clause(clause), parts])
                scored.append((self._should, most))
            elif clause.terms not in outdone:
                scored.append((self._should, self._clause(clause)))
        return scored

    def _clause_query(self, clause: Clause) -> tantivy.Query:
        terms, boost, _ = clause
        first = terms[0]
        if first.field == "surfaces":
            surface = self._query.term_query(self._schema, "surfaces", first.text, "basic")
            rarity = idf(self.documents, self.document_frequency(first))
            return self._query.const_score_query(surface, boost * rarity)
        if len(terms) == 1:
            words = self._query.term_query(self._schema, "words", first.text, "freq")
        else:
            texts: list[Any] = [term.text for term in terms]
            words = self._query.phrase_query(self._schema, "words", texts)
        return words if boost == 1.0 else self._query.boost_query(words, boost)

    def _best(
        self, query: tantivy.Query, asks: KeywordQuery, limit: int, among: Mask
    ) -> RankedRows:
        """Ask for more until the limit is reached or there is no more."""
        asked = limit + SPARE_HITS
        while True:
            rows, scores = self._fetch(query, asked)
            passed = _pass_mask(rows, among)
            left = np.count_nonzero(passed)
            if len(rows) < asked or left >= limit:
                if left < len(rows):
                    rows, scores = rows[passed], scores[passed]
                return RankedRows.of_falling(rows, scores, limit)
            allowed = max(int(np.count_nonzero(among)), 1)
            asked = max(4 * asked, limit * len(among) // allowed)
            if asks.must:
                findable = min(map(self._frequency, asks.must))
            else:
                findable = sum(map(self._frequency, asks.should))
            if allowed * ROW_IN_HITS < min(asked, findable):
                return self._best_of_rows(query, limit, np.flatnonzero(among).tolist())

    def _best_of_rows(self, query: tantivy.Query, limit: int, allowed: list[int]) -> RankedRows:
        if not allowed:
            return RankedRows.none()
        one_of = self._query.term_set_query(self._schema, "row", allowed)
        unscored = self._query.const_score_query(one_of, 0.0)
        both = self._query.boolean_query([(self._must, unscored), (self._must, query)])
        return RankedRows.of(*self._fetch(both, len(allowed)), limit)

    def _fetch(self, query: tantivy.Query, limit: int) -> RankedRows:
        searcher = self._searcher
        limit = min(limit, max(searcher.num_docs, 1))
        hits: list[Any] = searcher.search(query, limit, count=False).hits
        if not hits:
            return RankedRows.none()
        scores, addresses = zip(*hits, strict=True)
        rows = searcher.fast_field_values("row", list(addresses))
        bits = np.array(scores, np.float32).view(np.uint32) + _HALF
        bits &= _KEPT
        return RankedRows(np.array(rows, np.int64), bits.view(np.float32))

    def _frequency(self, clause: Clause) -> int:
        """How many documents a clause can find."""
        return min(self.document_frequency(term) for term in clause.terms)


def _index_in(folder: Path) -> tantivy.Index:
    """The index of a folder, begun where there is none; refused where its fields are others."""
    try:
        import tantivy
    except ImportError as error:
        what = "keyword search needs tantivy; pip install tantivy"
        raise UnsupportedFormat(what) from error
    schema = (
        tantivy.SchemaBuilder()
        .add_unsigned_field("row", indexed=True, fast=True)
        .add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
        .add_text_field("words", tokenizer_name="whitespace", index_option="position")
        .add_text_field("surfaces", tokenizer_name="whitespace", index_option="basic")
        .build()
    )
    return tantivy.Index(schema, path=str(folder))


@contextmanager
def _damage_named(folder: Path) -> Iterator[None]:
    """Raise :class:`InvalidFile` for the folder where tantivy refuses its files, or panics.

    A panic in Rust is of pyo3's PanicException, derived from BaseException, which can only be told
    by its name, since every extension module has a class of its own.
    """
    try:
        yield
    except VocabtoolError:
        raise
    except BaseException as error:
        if not isinstance(error, ValueError | OSError) and type(error).__name__ != "PanicException":
            raise
        said = str(error).partition("\n")[0][:300]
        what = f"keyword index is damaged, tantivy says: {said}. `vocabtool verify` names the file"
        raise InvalidFile(what, file=str(folder)) from error


def _pass_mask(rows: Rows, among: Mask) -> Mask:
    """Which of these rows the mask lets through; none that it does not know."""
    known = rows < len(among)
    if np.count_nonzero(known) == len(known):
        return among[rows]
    known[known] = among[rows[known]]
    return known
