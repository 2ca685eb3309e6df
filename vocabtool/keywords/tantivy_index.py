"""The keyword index, built with tantivy: one writer, and any number of concurrent readers.

An identifier has a constant score (``cutter.py``), which would prevent tantivy from skipping
documents (block-max WAND). So a query with words and identifiers runs as two queries.

``commit`` returns when the commit is on disk. Tantivy does not flush the folder after it renames
``meta.json``, so this module flushes it. ``meta.json`` lists the segments of the last commit. The
files of a segment are named by the segment's id and never change.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vocabtool.errors import (
    FolderInUse,
    InvalidFile,
    NotFound,
    UnsupportedFormat,
    VocabtoolError,
    reading,
)
from vocabtool.keywords.cutter import Clause, Field, KeywordQuery, Term, Terms, idf
from vocabtool.system.own_files import (
    checksum,
    checksum_of,
    compare,
    is_disk_full,
    no_space,
    sync_folder,
)
from vocabtool.system.ranking import Mask, RankedRows, Rows, Scores

if TYPE_CHECKING:
    import tantivy

META: Final = "meta.json"
MANAGED: Final = ".managed.json"
SEGMENT_FILE: Final = re.compile(r"[0-9a-f]{32}\.[a-z0-9.]{1,32}")
MANAGED_NAME: Final = re.compile(rf"meta\.json|{SEGMENT_FILE.pattern}")
LOCKS: Final = (".tantivy-meta.lock", ".tantivy-writer.lock")  # empty


def file_names(folder: Path) -> frozenset[str]:
    """Return the names of the last commit's segment files. Raises :class:`InvalidFile`."""
    _, ids = _description(folder)
    names = (file.name for file in folder.iterdir())
    return frozenset(name for name in names if name.partition(".")[0] in ids)


def checksums(folder: Path, before: Mapping[str, int]) -> dict[str, int]:
    """Return the CRC-32C of ``meta.json`` and the segment files by name; reuse those ``before``."""
    sums = {META: checksum(folder / META)}
    for name in sorted(file_names(folder)):
        sums[name] = before[name] if name in before else checksum(folder / name)
    return sums


def check_files(
    folder: Path, noted: Mapping[str, int], whole: Set[str] = frozenset()
) -> frozenset[str]:
    """Compare the files of a commit with their checksums. Return the segment files' names.

    ``noted``: the result of :func:`checksums`. ``whole``: undamaged files, which are not checked.
    Raises :class:`InvalidFile` for a damaged or missing file, :class:`NotFound` without an index.
    """
    content, ids = _description(folder)  # read once: a writer may replace the file
    is_last = ids == {name.partition(".")[0] for name in noted if name != META}  # commits add one
    if is_last and checksum_of(content) != noted[META]:
        what = f"damaged: CRC-32C {checksum_of(content):08x}, expected {noted[META]:08x}"
        raise InvalidFile(what, file=str(folder / META))
    lost = ids - {file.name.partition(".")[0] for file in folder.iterdir()}
    if lost:
        what = f"damaged: it lists the segment {min(lost)}, which has no files"
        raise InvalidFile(what, file=str(folder / META))
    left = frozenset(name for name in noted if name.partition(".")[0] in ids)
    for name in sorted(left - whole):
        if not (folder / name).exists():
            raise InvalidFile(f"missing, but {META} lists it", file=str(folder / name))
        compare(folder / name, noted[name])
    # No checksum: each writer rewrites this list of file names, in any order. Check its content.
    managed = folder / MANAGED
    if managed.exists():  # tantivy treats a missing file as an empty list
        content = managed.read_bytes()
        try:
            names = json.loads(content)
            is_whole = json.dumps(names, separators=(",", ":")).encode() + b"\n" == content
            is_whole = is_whole and all(map(MANAGED_NAME.fullmatch, names)) and left <= {*names}
        except (ValueError, TypeError, RecursionError):
            is_whole = False
        if not is_whole:
            what = "damaged: it does not list the files of this keyword index"
            raise InvalidFile(what, file=str(managed))
    return left


def _description(folder: Path) -> tuple[bytes, set[str]]:
    try:
        content = (folder / META).read_bytes()
    except OSError as error:
        raise NotFound(f"{folder / META}: no keyword index here: {error.strerror}") from error
    try:
        segments = json.loads(content)["segments"]
        return content, {segment["segment_id"].replace("-", "") for segment in segments}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = "damaged: not a description of a keyword index"
        raise InvalidFile(what, file=str(folder / META)) from error


SPARE_HITS: Final = 16  # hits fetched beyond the limit, because the mask may remove some
ROW_IN_HITS: Final = 25  # cost of looking up one row, measured in fetched hits
BATCH_ROWS: Final = 50_000  # ids read at a time
TERMS_COMPARED: Final = 50_000  # the most frequent terms per first letter, for spellings

# tantivy adds float32 values in varying order, so equal documents may differ in the last 8 bits.
_HALF: Final = np.uint32(1 << 7)
_KEPT: Final = np.uint32(0xFFFF_FF00)


class TantivyWriter:
    """Adds documents to a keyword index, and can remove those with the highest row numbers.

    ``memory``: the limit of unwritten data in bytes; tantivy requires 15,000,000.

    Raises :class:`FolderInUse` if the folder has another writer, and :class:`InvalidFile` if the
    index is damaged.
    """

    def __init__(self, folder: Path, *, memory: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / META).exists():
            _description(folder)  # raises an error for a damaged file
        self._folder, self._memory = folder, memory
        with _damage_named(folder):
            self._index = _index_in(folder)
        self._writer: tantivy.IndexWriter | None = None
        self._open_writer()

    def add(self, rows: Iterable[int], ids: Sequence[str], terms: Sequence[Terms]) -> None:
        """Add documents, without checking whether their rows or ids exist already."""
        import tantivy

        writer = self._open_writer()
        with _damage_named(self._folder):
            for row, name, cut in zip(rows, ids, terms, strict=True):
                document = tantivy.Document()
                document.add_unsigned("row", row)
                document.add_bytes("id", name.encode())
                for words in (cut.words, *cut.repeated):  # no phrase goes across two values
                    document.add_text("words", words)
                if cut.surfaces:
                    document.add_text("surfaces", cut.surfaces)
                writer.add_document(document)

    def remove_from(self, row: int) -> None:
        import tantivy

        last_ones = tantivy.Query.range_query(
            self._index.schema, "row", tantivy.FieldType.Unsigned, lower_bound=row
        )
        self._open_writer().delete_documents_by_query(last_ones)

    def commit(self) -> None:
        """Write everything and finish merging. The files stay unchanged until the next commit."""
        writer = self._open_writer()
        with _damage_named(self._folder):
            writer.commit()
            writer.wait_merging_threads()
        self._writer = None  # waiting for its threads has consumed it
        sync_folder(self._folder)

    def close(self) -> None:
        """Discard changes that were not committed, with their files, and release the lock."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            with _damage_named(self._folder):
                writer.rollback()
                writer.wait_merging_threads()
        finally:
            with suppress(VocabtoolError):  # there is no commit yet
                kept = file_names(self._folder)
                for file in self._folder.iterdir():
                    if SEGMENT_FILE.fullmatch(file.name) and file.name not in kept:
                        file.unlink(missing_ok=True)

    def _open_writer(self) -> tantivy.IndexWriter:
        if self._writer is None:
            with _damage_named(self._folder):
                try:
                    self._writer = self._index.writer(self._memory, 1)
                except ValueError as error:
                    if "LockBusy" not in str(error):
                        raise
                    raise FolderInUse(
                        f"{self._folder}: another process is writing to this folder"
                    ) from error
        return self._writer


class TantivyReader:
    """Searches the commit that is the newest when the reader is opened. Thread-safe.

    Raises :class:`NotFound` if there is no index, and :class:`InvalidFile` if it is damaged.
    """

    def __init__(self, folder: Path) -> None:
        from tantivy import FieldType, Occur, Query

        _description(folder)  # raises an error if there is no index
        with _lockable(folder) as lockable, _damage_named(folder):
            index = _index_in(lockable)
            index.config_reader("manual")  # otherwise a thread would watch the folder
            index.reload()
            self._searcher, self._schema = index.searcher(), index.schema
        self._query, self._must, self._should = Query, Occur.Must, Occur.Should
        self._must_not, self._unsigned = Occur.MustNot, FieldType.Unsigned
        self.documents = int(self._searcher.num_docs)
        # A search uses the same clause more than once.
        self._clause = lru_cache(32)(self._clause_query)

    def search(self, query: KeywordQuery, limit: int, among: Mask) -> RankedRows:
        """Return the best ``limit`` documents of the mask. Further ones may tie with the last."""
        if query.must:
            limit = min(limit, self._findable(query))
        if limit < 1 or not self.documents or not (query.must or query.should):
            return RankedRows.none()
        natives = self._queries(query)
        if len(natives) == 1:
            return self._best(natives[0], query, limit, among)
        lists = [self._best(native, query, limit, among) for native in natives]
        rows = np.concatenate([ranked.rows for ranked in lists])
        scores = np.concatenate([ranked.scores for ranked in lists])
        best = np.lexsort((-scores, rows))  # keep each row once, with its highest score
        first = best[np.unique(rows[best], return_index=True)[1]]
        return RankedRows.of(rows[first], scores[first], limit)

    def _queries(self, query: KeywordQuery) -> list[tantivy.Query]:
        """Return one or two queries; a document's score is the highest that it gets from any."""
        boolean, must, should = self._query.boolean_query, self._must, self._should
        fields: dict[Field, list[Any]] = {"words": [], "surfaces": []}
        clauses = {}
        for clause in query.should:
            clauses[clause.terms] = native = self._clause(clause)
            fields[clause.terms[0].field].append((should, native))
        if not (query.must or fields["surfaces"]):
            return [boolean(fields["words"])]
        part_terms = {(term,) for clause in query.should for term in clause.parts}
        scored = []
        for clause in query.should:
            if clause.parts:  # the larger one of the identifier's score and the parts' sum counts
                all_parts = boolean([(should, clauses[term,]) for term in clause.parts])
                larger = self._query.disjunction_max_query([clauses[clause.terms], all_parts])
                scored.append((should, larger))
            elif clause.terms not in part_terms:
                scored.append((should, clauses[clause.terms]))
        if query.must:
            musts = [(must, self._clause(clause)) for clause in query.must]
            return [boolean([*musts, *scored])]
        # Found by identifiers, scored by all clauses.
        unscored = self._query.const_score_query(boolean(fields["surfaces"]), 0.0)
        queries = [boolean(fields["words"])] if fields["words"] else []
        return [*queries, boolean([(must, unscored), *scored])]

    def rows_with_all(self, clauses: Iterable[Clause]) -> Rows:
        musts = [(self._must, self._clause(clause)) for clause in clauses]
        query = self._query.boolean_query(musts)
        unscored = self._query.const_score_query(query, 0.0)
        hits: list[Any] = self._searcher.search(unscored, max(self.documents, 1), False).hits
        addresses = [address for _, address in hits]
        return np.array(self._searcher.fast_field_values("row", addresses), np.int64)

    def document_frequencies(self, terms: Iterable[Term]) -> dict[Term, int]:
        frequency_of = self._searcher.doc_freq
        return {term: frequency_of(term.field, term.text) for term in terms}

    def rows_with_any(self, terms: Sequence[Term], among: Mask) -> Rows:
        holding = [self._query.term_query(self._schema, *term, "basic") for term in terms]
        query = self._query.boolean_query([(self._should, term) for term in holding])
        counted: Any = self._searcher.search(query, 1, True)  # its stub lacks the count
        count = int(counted.count)
        is_rare = 2 * count <= self.documents
        if not is_rare:
            without = [(self._must_not, term) for term in holding]
            query = self._query.boolean_query([(self._must, self._query.all_query()), *without])
            count = self.documents - count
        hits: list[Any] = self._searcher.search(query, max(count, 1), False, "row").hits
        rows = np.fromiter((row for row, _ in hits), np.int64, len(hits))
        passed = np.full(len(among), not is_rare)
        passed[rows[rows < len(among)]] = is_rare
        return np.flatnonzero(passed & among)

    def rows_and_ids(self, end: int) -> Iterator[tuple[int, str]]:
        """Yield the row and the id of documents with rows below ``end``, in no particular order."""
        for start in range(0, end, BATCH_ROWS):
            query = self._query.range_query(
                self._schema,
                "row",
                self._unsigned,
                lower_bound=start,
                upper_bound=min(start + BATCH_ROWS, end),
                include_upper=False,
            )
            hits: list[Any] = self._searcher.search(query, self.documents, False).hits
            addresses = [address for _, address in hits]
            stored = [self._searcher.doc(address)["id"][0] for address in addresses]
            ids = [id_.decode("utf-8", "replace") for id_ in stored]
            yield from zip(self._searcher.fast_field_values("row", addresses), ids, strict=True)

    def near_spellings(self, term: Term, limit: int) -> list[Term]:
        """The nearest come first. All begin with the first or second character of ``term``."""
        frequencies: dict[str, int] = {}
        for initial in set(term.text[:2]):
            near = self._searcher.terms_with_prefix(term.field, initial, limit=TERMS_COMPARED)
            frequencies.update(near)
        return [Term(term.field, text) for text in nearest(term.text, frequencies, limit)]

    def _clause_query(self, clause: Clause) -> tantivy.Query:
        terms, boost, _ = clause
        first = terms[0]
        if first.field == "surfaces":
            surface = self._query.term_query(self._schema, "surfaces", first.text, "basic")
            rarity = idf(self.documents, self._searcher.doc_freq("surfaces", first.text))
            return self._query.const_score_query(surface, boost * rarity)
        if len(terms) == 1:
            words = self._query.term_query(self._schema, "words", first.text, "freq")
        else:
            texts: list[Any] = [term.text for term in terms]
            words = self._query.phrase_query(self._schema, "words", texts)
        return words if boost == 1.0 else self._query.boost_query(words, boost)

    def _findable(self, query: KeywordQuery) -> int:
        frequency_of = self._searcher.doc_freq
        counts = [
            min(frequency_of(term.field, term.text) for term in clause.terms)
            for clause in query.must or query.should
        ]
        return min(counts) if query.must else sum(counts)

    def _best(
        self, query: tantivy.Query, keywords: KeywordQuery, limit: int, among: Mask
    ) -> RankedRows:
        count = limit + SPARE_HITS
        while True:
            rows, scores = self._fetch(query, count)
            passed = rows < len(among)
            passed[passed] = among[rows[passed]]
            left = passed.nonzero()[0]
            if len(rows) < count or len(left) >= limit:
                rows, scores = rows[left], scores[left]
                # The scores fall; rows with the same score may not be ascending.
                if np.count_nonzero((scores[1:] == scores[:-1]) & (rows[1:] < rows[:-1])):
                    return RankedRows.of(rows, scores, limit)
                return RankedRows(rows[:limit], scores[:limit])
            allowed = max(int(np.count_nonzero(among)), 1)
            count = max(4 * count, limit * len(among) // allowed)
            # If few rows pass the mask, look them up instead.
            if allowed * ROW_IN_HITS < min(count, self._findable(keywords)):
                looked_up = np.flatnonzero(among).tolist()
                if not looked_up:
                    return RankedRows.none()
                one_of = self._query.term_set_query(self._schema, "row", looked_up)
                unscored = self._query.const_score_query(one_of, 0.0)
                both = self._query.boolean_query([(self._must, unscored), (self._must, query)])
                return RankedRows.of(*self._fetch(both, len(looked_up)), limit)

    def _fetch(self, query: tantivy.Query, limit: int) -> tuple[Rows, Scores]:
        """Return the rows and scores of the best hits. The last 8 bits of scores are rounded."""
        hits: list[Any] = self._searcher.search(query, min(limit, self.documents), False).hits
        if not hits:
            return RankedRows.none()
        scores, addresses = zip(*hits, strict=True)
        rows = self._searcher.fast_field_values("row", list(addresses))
        bits = (np.array(scores, np.float32).view(np.uint32) + _HALF) & _KEPT
        return np.array(rows, np.int64), bits.view(np.float32)


def nearest(word: str, frequencies: Mapping[str, int], limit: int) -> list[str]:
    """Return the keys of ``frequencies`` that are spelled like ``word``, nearest first.

    At the same distance, the more frequent key comes first. The distance is the number of edits in
    the optimal string alignment, a Damerau-Levenshtein distance. It is at most 1 for words of three
    to five letters, and at most 2 for longer words. Words of one or two letters have no similar
    words.
    """
    max_edits = 0 if len(word) < 3 else 1 if len(word) < 6 else 2
    letters, near = frozenset(word), []
    for other, frequency in frequencies.items():
        # An edit changes the length by at most one, and the set of letters by at most two.
        too_long_or_short = abs(len(other) - len(word)) > max_edits
        if too_long_or_short or len(letters.symmetric_difference(other)) > 2 * max_edits:
            continue
        # Rows of the table of distances: of all beginnings of the word to those of the other.
        before: list[int] = []
        above = list(range(len(other) + 1))
        for i, letter in enumerate(word, 1):
            row = [i]
            for j, other_letter in enumerate(other, 1):
                best = min(above[j - 1] + (letter != other_letter), above[j] + 1, row[j - 1] + 1)
                if i > 1 and j > 1 and word[i - 2 : i] == other[j - 2 : j][::-1]:
                    best = min(best, before[j - 2] + 1)
                row.append(best)
            before, above = above, row
        if 0 < above[-1] <= max_edits:
            near.append((above[-1], -frequency, other))
    return [other for *_, other in sorted(near)[:limit]]


def _index_in(folder: Path) -> tantivy.Index:
    """Open or create an index. Tantivy raises an error if an existing index has other fields."""
    try:
        import tantivy
    except ImportError as error:
        what = "keyword search needs tantivy: pip install tantivy"
        raise UnsupportedFormat(what) from error
    schema = (
        tantivy.SchemaBuilder()
        .add_unsigned_field("row", indexed=True, fast=True)
        .add_bytes_field("id", stored=True)
        .add_text_field("words", tokenizer_name="whitespace", index_option="position")
        .add_text_field("surfaces", tokenizer_name="whitespace", index_option="basic")
        .build()
    )
    return tantivy.Index(schema, path=str(folder))


@contextmanager
def _lockable(folder: Path) -> Iterator[Path]:
    """Yield ``folder``; if this process may not write there, a folder with links to its files.

    Tantivy makes a lock where it opens an index. Later it needs only the files that it opened.
    """
    with ExitStack() as opened:
        try:
            (folder / LOCKS[0]).open("ab").close()
        except OSError as error:
            try:
                parent = gettempdir()
            except FileNotFoundError:
                parent = "/dev/shm"  # noqa: S108 - writable in a read-only container, too
            try:
                temporary = TemporaryDirectory(dir=parent, ignore_cleanup_errors=True)
                links = Path(opened.enter_context(temporary))
            except OSError as other:
                what = f"{error.strerror}, and there is no folder for temporary files: set TMPDIR"
                raise NotFound(f"{folder}: {what}") from other
            with reading(str(folder)):
                for file in folder.iterdir():
                    if file.name not in LOCKS:
                        (links / file.name).symlink_to(file.absolute())
            folder = links
        yield folder


@contextmanager
def _damage_named(folder: Path) -> Iterator[None]:
    """Raise :class:`InvalidFile` if tantivy rejects the files of the index, or panics."""
    try:
        yield
    except VocabtoolError:
        raise
    except BaseException as error:
        # Each extension module has its own class PanicException, so only the name identifies it.
        if not isinstance(error, ValueError | OSError) and type(error).__name__ != "PanicException":
            raise
        said = str(error).partition("\n")[0][:300]
        if is_disk_full(folder):  # tantivy may only say that its thread was killed
            raise no_space(folder) from error
        what = f"the keyword index is damaged: {said}. Run `vocabtool verify` to find the file"
        raise InvalidFile(what, file=str(folder)) from error


def _release_inherited_locks() -> None:
    """After a fork, close the lock on ``meta.json`` that a thread of tantivy held (Linux).

    The new process does not have this thread, so nothing else would release the lock.
    """
    with suppress(OSError):
        for link in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                if link.readlink().name == ".tantivy-meta.lock":
                    os.close(int(link.name))


os.register_at_fork(after_in_child=_release_inherited_locks)
