"""The files of a generation: a snapshot reads one commit, a transaction appends rows.

If enough rows are new, a commit also builds codes (compressed vectors) for approximate search.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext, suppress
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, Final, TypeVar, assert_never

import google_crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.documents.batch import Batch, Document, Kind
from vocabtool.documents.options import weights_of
from vocabtool.encoders.encoder import Vectors
from vocabtool.encoders.open_encoder import Model
from vocabtool.errors import InvalidFile, OtherModel, VocabtoolError, reading
from vocabtool.index.condition_sql import rows_where
from vocabtool.index.database import Database, DatabaseWriter, column, text_hash, union, values_of
from vocabtool.index.folder import (
    KEYWORDS,
    VECTORS,
    Chance,
    Commit,
    Configuration,
    FileFacts,
    Manifest,
    open_codes,
    raw_vectors,
    read_again,
    refuse_another,
    remove_old_codes,
)
from vocabtool.index.measures import CANDIDATES, Canaries, build_codes, similarity_by_chance, spread
from vocabtool.index.model import IndexModel
from vocabtool.index.snapshot import IndexSnapshot
from vocabtool.index.vectors import VectorCodes, VectorLeg, as_stored
from vocabtool.keywords import tantivy_index
from vocabtool.keywords.cutter import Clause, Cutter, KeywordQuery, Term, Terms, weighted_terms
from vocabtool.keywords.tantivy_index import TantivyReader, TantivyWriter
from vocabtool.search.conditions import Where
from vocabtool.search.fusion import Candidates
from vocabtool.search.store import (
    MAX_COMPARED,
    Combination,
    Demand,
    FieldColumn,
    ValueCount,
    ValueCounts,
)
from vocabtool.system.messages import Progress
from vocabtool.system.own_files import checksum, compare, sync_folder
from vocabtool.system.ranking import Mask, RankedRows, Rows, are_among

KEPT_MASKS: Final = 32  # cached results of conditions per commit; fewer if it has many rows
KEPT_BYTES: Final = 64 << 20  # of them, and again of cached columns
# Rows without codes are searched exactly. Codes are added once there are this many of them:
TAIL: Final = 0.01  # as a share of all rows
MIN_TAIL: Final = 4096
OUTGROWN: Final = 4  # codes are rebuilt when the rows are this many times those they were built on
# Enough that a commit of a million documents becomes one segment of tantivy, which is faster to
# write and to search than three.
KEYWORD_MEMORY: Final = 512 << 20
# For each value of a column its first row, and the numbers of all rows if there are several. One
# result for each value takes a fifth of the time of one for each row.
ROWS_OF_VALUES: Final = (
    "SELECT {0}, min(row), CASE WHEN count(*) > 1 THEN group_concat(row) END FROM fields"
    " WHERE {0} IS NOT NULL AND +row < ? GROUP BY {0} ORDER BY {0}"
)

Result = TypeVar("Result")


class FolderSnapshot(IndexSnapshot):
    """One commit, open for reading. Writers do not change it; several threads may use it.

    ``rows``: number of rows, including deleted rows. A selection is a mask: bool, shape (rows,), or
    shorter. ``live``: a mask of the rows that are not deleted.
    """

    _all_rows: Mask | None = None  # ``live``, if no row is deleted

    def __init__(
        self,
        path: Path,
        commit: Commit,
        model: IndexModel,
        cutter: Cutter,
        earlier: FolderSnapshot | None = None,
    ) -> None:
        self.commit = commit
        manifest = commit.manifest
        self.manifest, self.rows, self.fields = manifest, manifest.rows, manifest.fields
        self.searched_fields = manifest.searched_fields
        self.mean_length = manifest.words / max(manifest.rows, 1)
        self.calibrated = None if manifest.calibration is None else manifest.calibration.a
        self.model = model
        self.cutter = cutter
        self.live = ~commit.is_deleted
        if not manifest.deleted:
            self._all_rows = self.live
        if earlier is not None and earlier.commit.folder != commit.folder:
            earlier = None  # of another generation, which shares no files with this one
        for name, crc32c in manifest.model_files.items() if earlier is None else ():
            compare(path / name, crc32c)
        raw, metric = raw_vectors(commit.folder, manifest), manifest.configuration.metric
        codes: VectorCodes | None = None
        if earlier is not None and earlier.manifest.code_files == manifest.code_files:
            codes = earlier.vectors.codes
        elif manifest.codes is not None:
            codes = open_codes(commit.folder, manifest)
        self.vectors: VectorLeg = VectorLeg(raw, metric, codes, manifest.codes)
        keywords = commit.folder / KEYWORDS
        self.whole_keywords: frozenset[str] = tantivy_index.check_files(
            keywords, manifest.keywords, earlier.whole_keywords if earlier else frozenset()
        )
        self.keywords = TantivyReader(keywords)
        if self.keywords.documents < manifest.rows:
            what = f"contains {self.keywords.documents:,} of {manifest.rows:,} rows"
            raise InvalidFile(what, file=str(keywords))
        conditions = min(KEPT_MASKS, 1 + KEPT_BYTES // max(manifest.rows, 1))
        rows_of_condition = partial(rows_where, commit.database, manifest.rows, manifest.fields)
        self._rows_where = lru_cache(conditions)(rows_of_condition)
        self._columns: dict[str, FieldColumn] = {}
        columns = "".join(f", field_{at}" for at in range(len(manifest.fields)))
        tables = "documents JOIN fields USING (row)" if columns else "documents"
        self._documents_read = f"row, id, text{columns}", tables

    @cached_property
    def _rows_by_id(self) -> Rows:
        rows = self.commit.database.fetch_rows("SELECT row FROM documents ORDER BY id")
        return rows[rows < self.rows]

    def in_order(self, selection: Mask) -> Rows:
        rows = self._rows_by_id
        return rows[selection[rows]]

    def where(self, condition: Where) -> Mask:
        satisfied: Mask = self._rows_where(condition) & self.live
        return satisfied

    def at_one_commit(self) -> AbstractContextManager[FolderSnapshot]:
        return nullcontext(self)

    def take(self, rows: Rows) -> Vectors:
        return self.vectors.raw.take(rows)

    def ids(self, rows: Rows) -> list[str]:
        return [id_ for _, id_ in self.commit.database.fetch_each("row, id", "documents", rows)]

    def fetch_documents(self, rows: Rows) -> list[Document]:
        database, kinds, documents = self.commit.database, self.manifest.fields, list[Document]()
        for _, id_, text, *values in database.fetch_each(*self._documents_read, rows):
            fields: dict[str, Any] = {}
            for (name, kind), value in zip(kinds.items(), values, strict=True):
                if value is not None:
                    fields[name] = bool(value) if kind == "boolean" else value
            documents.append(Document(id_, text, fields))
        return documents

    def only(self, rows: Rows) -> Mask:
        mask = np.zeros(int(rows.max(initial=-1)) + 1, np.bool_)
        mask[rows] = True
        return mask

    def near_spellings(self, term: Term, limit: int) -> list[Term]:
        return self.keywords.near_spellings(term, limit)

    def search_each(
        self, queries: Sequence[KeywordQuery], limit: int, among: Mask
    ) -> list[RankedRows]:
        return [self.keywords.search(query, limit, among) for query in queries]

    def statistics(
        self, terms: Iterable[Term], joined: Mapping[Term, Sequence[Clause]] | None = None
    ) -> tuple[Mapping[Term, int], Mapping[Term, float]]:
        frequencies = self.keywords.document_frequencies(terms)
        bests = {}
        for whole, clauses in (joined or {}).items():
            if frequencies[whole]:
                all_parts = KeywordQuery((), tuple(clauses))
                candidates = self.keywords.search(all_parts, MAX_COMPARED, self.live)
                alone, among = KeywordQuery((Clause((whole,)),)), self.only(candidates.rows)
                holders = self.keywords.search(alone, MAX_COMPARED, among).rows
                scores = candidates.scores[~are_among(candidates.rows, holders)]
                bests[whole] = float(scores.max(initial=0.0))
        return frequencies, bests

    def legs(
        self, query: KeywordQuery, vector: Vectors | None, limit: int, among: Mask
    ) -> tuple[Candidates, NDArray[np.int8]]:
        by_words, listed, holders = self._ask_keywords(query, limit, among)
        if vector is None:
            nearest = RankedRows.none()
            similar = np.full(len(by_words.rows), np.nan, np.float32)
        else:
            allowed = None if among is self._all_rows else among
            nearest, similar = self.vectors.near(vector, by_words.rows, limit, allowed)
        candidates = Candidates.union(nearest, by_words, similar, listed)
        rows = candidates.rows
        if not len(holders):
            return candidates, np.zeros(len(rows), np.int8)
        if len(holders) >= limit:  # there may be more of them
            holding = KeywordQuery(query.codes)
            holders = self.keywords.search(holding, len(rows), self.only(rows)).rows
        tiers = are_among(rows, holders).astype(np.int8)
        if query.unstemmed:
            exact = KeywordQuery(query.unstemmed)
            tiers += are_among(rows, self.keywords.search(exact, len(rows), self.only(rows)).rows)
        return candidates, tiers

    def _ask_keywords(
        self, query: KeywordQuery, limit: int, among: Mask
    ) -> tuple[RankedRows, int, Rows]:
        """Return the best documents, how many have a rank, and the rows with an identifier.

        Documents with a rank come first. Documents with an identifier are searched separately, so
        that other documents do not displace them.
        """
        search, none = self.keywords.search, RankedRows.none()
        if not query.should:
            return none, 0, none.rows
        if not query.codes:
            best = search(query, limit, among)
            return best, len(best.rows), none.rows
        code = query.codes[0].terms if len(query.codes) == 1 else ()
        own = tuple(clause for clause in query.should if clause.terms == code and not clause.parts)
        if own:  # a single code: rank its documents by all words, the others without it
            others = tuple(clause for clause in query.should if clause.terms != code)
            holders = search(KeywordQuery(others, own), limit, among)
            if len(holders.rows) < limit:
                rest = search(KeywordQuery(others), limit, among) if others else none
                new = ~are_among(rest.rows, holders.rows)
                rows = np.concatenate((holders.rows, rest.rows[new]))
                scores = np.concatenate((holders.scores, rest.scores[new]))
                best = RankedRows.of(rows, scores, limit + len(holders.rows))
                is_candidate = are_among(best.rows, holders.rows)
                is_candidate[:limit] = True
                listed = min(limit, len(best.rows))
                ranked = RankedRows(best.rows[is_candidate], best.scores[is_candidate])
                return ranked, listed, holders.rows
        best = search(query, limit, among)
        listed = len(best.rows)
        holders = search(KeywordQuery(query.codes), limit, among)
        missed = holders.rows[~are_among(holders.rows, best.rows)]
        if len(missed):
            more = search(query, len(missed), self.only(missed))
            rows = np.concatenate((best.rows, more.rows))
            best = RankedRows(rows, np.concatenate((best.scores, more.scores)))
        return best, listed, holders.rows

    def select(self, demands: Sequence[Demand], without: int | None = None) -> Mask:
        allowed: Mask = self.live
        for demand in demands:
            allowed = allowed & self._rows_of(demand)
        if without is not None:
            allowed = allowed.copy()
            allowed[without] = False
        return allowed

    def is_empty(self, selection: Mask) -> bool:
        return not np.count_nonzero(selection)

    def _rows_of(self, demand: Demand) -> Mask:
        match demand:
            case Clause():
                return self._rows_with((demand,))
            case Where():
                return self.where(demand)
            case Combination("none", parts):
                return ~self._rows_of(Combination("any", parts))
            case Combination(word, parts):
                clauses = tuple(member for member in parts if isinstance(member, Clause))
                if word == "all" and len(clauses) == len(parts):
                    return self._rows_with(clauses)
                masks = [self._rows_of(member) for member in parts]
                mask: Mask = np.all(masks, axis=0) if word == "all" else np.any(masks, axis=0)
                return mask
            case _:
                assert_never(demand)

    def _rows_with(self, clauses: tuple[Clause, ...]) -> Mask:
        mask = np.zeros(self.rows, np.bool_)
        rows = self.keywords.rows_with_all(clauses)
        mask[rows[rows < self.rows]] = True  # a later commit may have added rows
        return mask

    def rows_in_order(self, where: str | None = None) -> Rows:
        return np.flatnonzero(self.live if where is None else self.where(Where.of(where)))

    @property
    def number(self) -> int:
        return int(self.commit.folder.name.rpartition("-")[2])

    def value_facts(self, name: str, limit: int) -> tuple[int, ValueCounts]:
        kind, value = self.fields[name], column(self.fields, name)
        gone = json.dumps(np.flatnonzero(~self.live).tolist())
        counts = (
            f"SELECT {value} AS value, count(*) AS n FROM fields WHERE {value} IS NOT NULL AND"
            f" row < ? AND row NOT IN (SELECT value FROM json_each(?)) GROUP BY {value}"
        )
        statement = f"SELECT value, n FROM ({counts}) WHERE n > 1 ORDER BY n DESC, value LIMIT ?"
        values = (self.rows, gone)
        with ExitStack() as opened:
            database = self.commit.database
            if database.is_there:  # otherwise another process has compacted the index
                # A connection of its own: other threads may search meanwhile.
                database = opened.enter_context(closing(Database(self.commit.folder)))
            totals = f"SELECT total(n), count(*) FROM ({counts})"
            ((documents, distinct),) = database.fetch(totals, values)
            most = database.fetch(statement, (*values, limit))
        frequent = (ValueCount(bool(value) if kind == "boolean" else value, n) for value, n in most)
        return int(documents), ValueCounts(tuple(frequent), distinct)

    def column(self, name: str) -> FieldColumn:
        columns = self._columns
        if name not in columns:
            statement = ROWS_OF_VALUES.format(column(self.fields, name))
            groups = self.commit.database.fetch(statement, (self.rows,))
            codes = np.full(self.rows, -1, np.int32)
            codes[[first for _, first, _ in groups]] = np.arange(len(groups))
            for place, (_, _, numbers) in enumerate(groups):
                if numbers is not None:
                    codes[np.fromstring(numbers, np.int64, sep=",")] = place
            values = FieldColumn.of(codes, [value for value, *_ in groups], self.fields[name])
            # Another thread may still read the old dictionary, so it is replaced, never changed.
            if values.size + sum(other.size for other in columns.values()) > KEPT_BYTES:
                columns = {}
            columns = {**columns, name: values}
            self._columns = columns
        return columns[name]

    def value_ranks(self, name: str, rows: Rows) -> NDArray[np.int64]:
        return self.column(name).codes[rows].astype(np.int64)

    def count_values(
        self, names: Sequence[str], terms: Sequence[Term], among: Mask, limit: int
    ) -> dict[str, ValueCounts]:
        rows = self.keywords.rows_with_any(terms, among) if terms else np.flatnonzero(among)
        return {name: self.column(name).count(rows, limit) for name in names}

    def fetch_stored(self, ids: Sequence[str]) -> dict[str, tuple[int, list[Any]]]:
        columns = "".join(f", field_{at}" for at in range(len(self.manifest.fields)))
        statement = f"SELECT row, id, text{columns} FROM documents JOIN fields USING (row)"
        stored = self.commit.database.select(f"{statement} WHERE id IN (?...)", ids)
        return {
            id_: (row, values) for row, id_, *values in stored if row < self.rows and self.live[row]
        }

    def rows_of_texts(self, texts: Sequence[bytes]) -> Rows:
        hashes, database = [*map(text_hash, texts)], self.commit.database
        statement = (
            "SELECT text_hash, max(row) FROM fields WHERE text_hash IN (?...)"
            f" AND source > 0 AND row < {self.rows} GROUP BY text_hash"
        )
        rows_by_hash = dict(database.select(statement, [*dict.fromkeys(hashes)]))
        rows = np.array([rows_by_hash.get(text_hash, -1) for text_hash in hashes], np.int64)
        places = np.flatnonzero(rows >= 0)
        stored = database.fetch_each("row, id, text", "documents", rows[places])
        for place, (_, _, text) in zip(places.tolist(), stored, strict=True):
            if text.encode() != texts[place]:  # another text with the same hash
                rows[place] = -1
        return rows

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        by_id = self.commit.database.rows_of(ids)
        return {
            id_: row
            for id_, rows in by_id.items()
            for row in rows
            if row < self.rows and self.live[row]
        }


def open_snapshot(
    path: Path,
    earlier: FolderSnapshot | None = None,
    given: Model | None = None,
    options: Mapping[str, Any] | None = None,
) -> FolderSnapshot:
    """Open the last commit; share unchanged parts with the ``earlier`` snapshot.

    Raises :class:`NotFound`, :class:`InvalidFile`, and :class:`VocabtoolError` if the ``earlier``
    snapshot is of another index.
    """

    def open_commit(commit: Commit) -> FolderSnapshot:
        if earlier is not None:
            refuse_another(commit, earlier.commit)
            if commit.manifest.commit == earlier.manifest.commit:
                return earlier
        cutter = earlier.cutter if earlier is not None else None
        if cutter is None or cutter.fingerprint != commit.manifest.configuration.cutter:
            cutter = cutter_of(str(path), commit.manifest.configuration)
        if earlier is not None:
            model = earlier.model
        else:
            canaries = partial(read_again, path, canaries_of)
            model = IndexModel(path, commit.manifest, canaries, given, options)
        return FolderSnapshot(path, commit, model, cutter, earlier)

    return read_again(path, open_commit, None if earlier is None else earlier.commit)


def cutter_of(name: str, configuration: Configuration) -> Cutter:
    """Return the keyword tokenizer. Raises :class:`OtherModel` if the index used another one."""
    cutter = Cutter(configuration.language)
    if configuration.cutter != cutter.fingerprint:
        advice = "Index the texts again"
        raise OtherModel(
            name, "keyword rule", configuration.cutter, cutter.fingerprint, advice=advice
        )
    return cutter


def canaries_of(commit: Commit) -> Canaries:
    """Return some documents from evenly spaced rows of a commit, with their vectors.

    If the index has a model, documents that were added in Python with vectors are left out.
    """
    live = np.flatnonzero(~commit.is_deleted)
    by_model = "" if commit.manifest.configuration.encoder is None else "source <> 0 AND "
    documents = commit.database.select(
        "SELECT row, id, text FROM documents JOIN fields USING (row)"
        f" WHERE {by_model}row IN (?...) ORDER BY row",
        live[spread(len(live), CANDIDATES)].tolist(),
    )
    rows = np.array([row for row, _, _ in documents], np.int64)
    return Canaries(
        [id_ for _, id_, _ in documents],
        [text for _, _, text in documents],
        raw_vectors(commit.folder, commit.manifest).take(rows),
    )


def _with_codes(folder: Path, manifest: Manifest, progress: Progress | None) -> Manifest:
    """If enough rows are new, write codes of all rows to the folder. Return the new manifest."""
    configuration, rows = manifest.configuration, manifest.rows
    raw = raw_vectors(folder, manifest)
    if rows and (manifest.chance is None or rows >= 2 * manifest.chance.rows):
        similarity = similarity_by_chance(raw, configuration.metric)
        if similarity is not None:
            manifest = replace(manifest, chance=Chance(similarity=similarity, rows=rows))
    if rows <= configuration.exact_below:
        return manifest

    step = "building codes"

    def tell(done: int, count: int) -> None:
        if progress is not None:
            progress(step, done / max(count, 1))

    facts = manifest.codes
    if facts is None or rows >= OUTGROWN * facts.coded:
        metric, recall = configuration.metric, configuration.recall
        codes, facts = build_codes(raw, metric=metric, recall=recall, progress=tell)
    elif rows - manifest.coded >= max(MIN_TAIL, int(TAIL * rows)):
        codes = open_codes(folder, manifest)
    else:
        return manifest  # the few new rows are compared exactly
    if codes.rows < rows:
        step = "adding codes"
        codes.add_rows(raw, tell)
    manifest = replace(manifest, codes=facts, code_commit=manifest.commit, coded=rows)
    file = folder / manifest.code_name
    codes.write(file)
    written = FileFacts(size=file.stat().st_size, crc32c=checksum(file))
    return replace(manifest, code_files={file.name: written})


class FolderTransaction:
    """Appends rows to a generation, and marks deleted rows in a bitmap.

    It first removes the uncommitted rows of an earlier writer. A folder has one writer at a time.
    Readers see changes only after a commit. ``PostgresTransaction`` has the same methods.

    - ``manifest``: the manifest of the last commit; a load sets its ``sources``, the FILEs of the
      documents. A source is the number of its FILE, counted from 1.
    - ``rows``: number of rows, committed or not.
    - ``searched_fields``: as in the manifest; may be set while there are no rows.
    - ``kinds``: the kind of each field after the next commit.
    """

    def __init__(self, folder: Path, manifest: Manifest, is_deleted: Mask, cutter: Cutter) -> None:
        self.folder = folder
        self.manifest = manifest
        self.rows = manifest.rows
        self._is_deleted = is_deleted  # may be shorter than the rows; never changed in place
        self.searched_fields = manifest.searched_fields
        self._cutter = cutter
        self._words = manifest.words
        self.kinds: dict[str, Kind] = dict(manifest.fields)
        self._written = written = manifest.vectors
        with ExitStack() as opened:
            self.database = DatabaseWriter(folder)
            opened.callback(self.database.close)
            file = folder / VECTORS
            with reading(str(file)):
                if written.size and (size := file.stat().st_size) < written.size:
                    raise InvalidFile(f"truncated: {size:,} bytes, expected {written.size:,}")
                self._vectors = opened.enter_context(file.open("r+b" if file.exists() else "x+b"))
                self._vectors.truncate(written.size)
                self._vectors.seek(written.size)
            self._keywords = TantivyWriter(folder / KEYWORDS, memory=KEYWORD_MEMORY)
            opened.callback(self._keywords.close)
            self._keywords.remove_from(manifest.rows)
            self.database.add_columns(len(self.kinds))
            self._before = Commit(folder, self.database, manifest, is_deleted)
            self._opened = opened.pop_all()

    @classmethod
    def create(cls, folder: Path, manifest: Manifest, cutter: Cutter) -> FolderTransaction:
        """Create the files of a new generation, with the settings of ``manifest``, without rows."""
        empty = replace(manifest, rows=0, deleted=0, words=0, vectors=FileFacts())
        empty = replace(empty, codes=None, coded=0, code_files={}, keywords={}, chance=None)
        DatabaseWriter.create(folder)
        return cls(folder, empty, np.zeros(0, np.bool_), cutter)

    def find_existing(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the row of each id that exists. Uncommitted changes count too."""
        known = len(self._is_deleted)
        return {
            id_: row
            for id_, rows in self.database.rows_of(ids).items()
            for row in rows
            if row >= known or not self._is_deleted[row]
        }

    def append(self, batch: Batch, vectors: Vectors, source: int) -> None:
        """Add documents with their vectors.

        ``batch``: ids and texts in UTF-8. ``vectors``: from :func:`prepare`, shape (n, dim).
        ``source``: the number of their FILE. Raises ``ValueError`` for vectors that cannot be
        stored; after this error, do not add more rows.
        """
        count = len(self.kinds)
        columns = []
        for name, values in batch.columns.items():
            before, kind = self.manifest.fields.get(name, "null"), batch.kinds[name]
            # The kind of a new field is known at the commit; until then its values are text.
            columns.append(values_of(values, "null" if before == "null" else union(before, kind)))
            self.kinds[name] = union(self.kinds.get(name, "null"), kind)
        if len(self.kinds) > count:
            self.database.add_columns(len(self.kinds))
        hashes = map(text_hash, batch.texts.view(pa.binary()).to_pylist())
        self.append_values(
            batch.id_array().to_pylist(),
            batch.texts.to_pylist(),
            [(source, *facts) for facts in zip(hashes, *columns, strict=True)],
            [column(self.kinds, name) for name in batch.columns],
            vectors,
        )

    def append_values(
        self,
        ids: list[str],
        texts: list[str],
        facts: Sequence[Sequence[object]],
        columns: Sequence[str],
        vectors: Vectors,
    ) -> None:
        """Add rows. ``facts``: as in :meth:`DatabaseWriter.append`. ``vectors``: shape (n, dim)."""
        stored = as_stored(vectors, self.manifest.configuration.dtype).tobytes()
        self.database.append(self.rows, ids, texts, facts, columns)
        self._vectors.write(stored)
        crc32c = google_crc32c.extend(self._written.crc32c, stored)
        self._written = FileFacts(size=self._written.size + len(stored), crc32c=crc32c)
        terms = self._terms(texts, facts, columns)
        rows = range(self.rows, self.rows + len(ids))
        self._keywords.add(rows, ids, terms)
        self.rows = rows.stop
        self._words += sum(document.count for document in terms)

    def _terms(
        self, texts: list[str], facts: Sequence[Sequence[object]], columns: Sequence[str]
    ) -> list[Terms]:
        """Return the terms of each text, weighted by field if texts consist of several fields."""
        if not self.searched_fields:
            return self._cutter.terms(texts)
        names = weights_of(self.searched_fields)
        by_column = {column(self.kinds, name): name for name in names if name in self.kinds}
        # The facts of a row begin with two others: the source and the hash of the text.
        searched = [
            (at, by_column[name]) for at, name in enumerate(columns, 2) if name in by_column
        ]

        def values() -> Iterator[dict[str, str]]:
            for row in facts:
                fields = {}
                for at, name in searched:
                    value = row[at]
                    if isinstance(value, bytes):
                        fields[name] = value.decode("utf-8", "surrogateescape")
                yield fields

        return weighted_terms(self._cutter, texts, values(), self.searched_fields)

    def delete(self, rows: Rows) -> None:
        self._is_deleted = np.pad(self._is_deleted, (0, self.rows - len(self._is_deleted)))
        self._is_deleted[rows] = True

    def set_source(self, rows: Rows, source: int) -> bool:
        """Record that rows are from the FILE number ``source``; return whether a row changed."""
        statement = f"SELECT row FROM fields WHERE row IN (?...) AND source <> {source:d}"
        others = self.database.select(statement, rows.tolist())
        with self.database.statements() as connection:
            connection.executemany(f"UPDATE fields SET source = {source:d} WHERE row = ?", others)
        return bool(others)

    def rows_of_sources(self, numbers: Sequence[int]) -> Rows:
        """Return the committed rows of the FILEs with these ``numbers``, ascending."""
        statement = "SELECT row FROM fields WHERE source = ?"
        of_sources = [self.database.fetch_rows(statement, (number,)) for number in numbers]
        rows: Rows = np.sort(np.concatenate([np.zeros(0, np.int64), *of_sources]))
        rows = rows[rows < self._before.manifest.rows]
        live: Rows = rows[~self._before.is_deleted[rows]]
        return live

    def commit(
        self, manifest: Manifest, *, codes: bool = True, progress: Progress | None = None
    ) -> None:
        """Commit all changes so far; the numbers and checksums of ``manifest`` are updated.

        ``codes``: whether approximate search may be built, which may take long.
        """
        self._is_deleted = np.pad(self._is_deleted, (0, self.rows - len(self._is_deleted)))
        self._vectors.flush()
        os.fsync(self._vectors.fileno())
        keywords = manifest.keywords
        if self.rows > self.manifest.rows or not keywords:
            # Each commit of tantivy must add a segment: by these the last commit is recognised.
            self._keywords.commit()
            keywords = tantivy_index.checksums(self.folder / KEYWORDS, keywords)
        for name, kind in self.kinds.items():
            has_kind = self.manifest.fields.get(name, "null") != "null"
            if kind != "null" and not has_kind:
                self.database.set_kind(column(self.kinds, name), kind, self.manifest.rows)
        done = replace(
            manifest,
            rows=self.rows,
            deleted=int(np.count_nonzero(self._is_deleted)),
            words=self._words,
            fields=dict(self.kinds),
            vectors=self._written,
            keywords=keywords,
            searched_fields=self.searched_fields,
        )
        if codes:
            done = _with_codes(self.folder, done, progress)
        sync_folder(self.folder)
        self.database.commit(done.encode(), np.packbits(self._is_deleted).tobytes())
        self.manifest = done
        remove_old_codes(self.folder, done)

    def close(self) -> None:
        """Close the files; uncommitted rows are lost, and take no space any more."""
        try:
            self._opened.close()
        finally:
            if self.rows > self.manifest.rows:
                # Cut files to the last commit, as the database has it: it may just have been made.
                # If this fails, the next writer does it.
                with suppress(VocabtoolError, OSError), closing(Database(self.folder)) as database:
                    for (data,) in database.fetch("SELECT data FROM record"):
                        manifest = Manifest.decode(data)
                        os.truncate(self.folder / VECTORS, manifest.vectors.size)
                        remove_old_codes(self.folder, manifest)
