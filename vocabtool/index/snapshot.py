"""A commit of an index in either store, and what is read of it while a writer changes the index.

``generation.py`` reads a commit in a folder, and ``postgres/snapshot.py`` one in PostgreSQL.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from vocabtool.documents.batch import Batch, Document, Kind
from vocabtool.documents.options import ID, TEXT, VECTOR, weights_of
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.index.database import union, values_of
from vocabtool.index.folder import Load, Manifest
from vocabtool.index.measures import Agreement
from vocabtool.index.model import IndexModel
from vocabtool.index.vectors import as_stored, prepare
from vocabtool.keywords.cutter import places_of, text_in_utf8
from vocabtool.search import store
from vocabtool.search.hits import TYPES, Hits
from vocabtool.search.query import understand
from vocabtool.search.search import search
from vocabtool.search.settings import Calibration, Settings
from vocabtool.search.store import ValueCount, ValueCounts
from vocabtool.system.messages import Progress
from vocabtool.system.own_files import whole_file
from vocabtool.system.parallel import parallel_map
from vocabtool.system.ranking import Rows
from vocabtool.tokenization.words import KnownWords

if TYPE_CHECKING:
    from vocabtool.oov.report import OovReport

BLOCK_BYTES: Final = 4 << 20  # target size of the texts that are in memory at once
FIRST_ROWS: Final = 16  # of the first block, before the length of the texts is known
BLOCK_ROWS: Final = 8192  # of any block at most
MOST_FREQUENT: Final = 5  # values of a field
EXPORT_ENDINGS: Final = (".jsonl", ".parquet", ".arrow")

Fetched = TypeVar("Fetched")


class DocumentsChanged(VocabtoolError):
    """A document was deleted between two steps of a search: search again."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What :meth:`Index.verify` reports on an undamaged index.

    - ``recall``: recall@10 as measured now; 1 for exact search.
    - ``loading``: whether a load is unfinished.
    - ``others``: files in the folder that do not belong to the commit.
    - ``encoded``: the comparison of new vectors with stored ones; ``None`` if nothing was encoded.
    """

    documents: int
    deleted: int
    commit: int
    recall: float
    approximate: bool
    loading: bool
    others: tuple[str, ...]
    encoded: Agreement | None = None

    @classmethod
    def of(cls, manifest: Manifest, recall: float, others: tuple[str, ...] = ()) -> VerifyReport:
        """Return the report on a commit."""
        load = manifest.load
        return cls(
            documents=manifest.live,
            deleted=manifest.deleted,
            commit=manifest.commit,
            recall=recall,
            approximate=manifest.codes is not None,
            loading=load is not None and not load.finished,
            others=others,
        )


class IndexSnapshot(store.Snapshot, Protocol):
    """A commit that can be searched, and whose documents can be listed and compared.

    A snapshot of a folder never changes. A snapshot of an engine always is the last commit: a
    method raises :class:`DocumentsChanged` if a document that it reads was deleted meanwhile.

    - ``number``: the number of the generation; 0 in an engine.
    """

    manifest: Manifest
    model: IndexModel

    @property
    def number(self) -> int: ...

    @property
    def version(self) -> tuple[str, int]:
        """The id of the index, and the number of the commit."""
        return self.manifest.index, self.manifest.commit

    @property
    def known_words(self) -> KnownWords | None:
        return self.model.known_words

    def by_chance(self, vector: Vectors) -> float | None:
        if self.manifest.chance is None:
            return None
        metric = self.manifest.configuration.metric
        scale = np.linalg.norm(vector) if metric == "inner-product" else 1.0
        return self.manifest.chance.similarity * float(scale)

    def at_one_commit(self) -> AbstractContextManager[IndexSnapshot]:
        """Return a snapshot that never changes, for a ``with`` block."""

    def rows_in_order(self, where: str | None = None) -> Rows:
        """Return the rows of the documents that satisfy ``where`` (default: all), ascending."""

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the row of each id that exists. Ids must be valid UTF-8."""

    def rows_of_texts(self, texts: Sequence[bytes]) -> Rows:
        """For each text, return a row that has this text and comes from a file, or -1."""

    def fetch_stored(self, ids: Sequence[str]) -> dict[str, tuple[int, list[Any]]]:
        """Return (row, [text, value of each kept field]) for each id that exists."""

    def value_facts(self, name: str, limit: int) -> tuple[int, ValueCounts]:
        """Return how many documents have the kept field ``name``, and its most frequent values.

        A list counts as one value: its JSON text. Each returned value is in at least two documents.
        """


def ids(snapshot: IndexSnapshot, where: str | None = None) -> Iterator[str]:
    rows = snapshot.rows_in_order(where)
    for start in range(0, len(rows), BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        yield from _fetch(snapshot, snapshot.ids, block)


def blocks(snapshot: IndexSnapshot, rows: Rows) -> Iterator[tuple[Rows, list[Document]]]:
    """Yield (rows, documents) in blocks of about 4 MB of text."""
    start, step = 0, FIRST_ROWS
    while start < len(rows):
        block = rows[start : start + step]
        documents = _fetch(snapshot, snapshot.fetch_documents, block)
        for at, document in enumerate(documents):
            corrected = {
                name: text_in_utf8(value)
                for name, value in document.fields.items()
                if isinstance(value, str) and not value.isascii()
            }
            if corrected:
                documents[at] = replace(document, fields={**document.fields, **corrected})
        yield block, documents
        start += len(block)
        size = sum(len(document.text) for document in documents)
        step = max(1, min(BLOCK_ROWS, len(block) * BLOCK_BYTES // max(size, 1)))


def _fetch(
    snapshot: IndexSnapshot, fetch: Callable[[Rows], list[Fetched]], rows: Rows
) -> list[Fetched]:
    """Call ``fetch`` with the ``rows`` that were not deleted meanwhile."""
    try:
        return fetch(rows)
    except DocumentsChanged:
        return _fetch(snapshot, fetch, np.sort(snapshot.in_order(snapshot.only(rows))))


def find_unchanged(snapshot: IndexSnapshot, batch: Batch) -> tuple[Rows, NDArray[np.bool_]]:
    """Return, for each document, its row in ``snapshot`` (or -1), and whether it is unchanged."""
    kinds, vectors = snapshot.manifest.fields, batch.vectors
    ids: list[str] = batch.id_array().to_pylist()
    stored_by_id = snapshot.fetch_stored(ids)
    new_names = [name for name in batch.columns if name not in kinds]
    columns: list[list[object]] = [batch.texts.to_pylist()]
    for name in [*kinds, *new_names]:
        values: list[object] = [None] * len(batch)
        if name in batch.columns:
            kind = union(kinds.get(name, "null"), batch.kinds[name])
            values = [
                value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
                for value in values_of(batch.columns[name], kind)
            ]
        columns.append(values)
    existing, is_same = np.full(len(batch), -1), np.zeros(len(batch), np.bool_)
    for place, (id_, *values) in enumerate(zip(ids, *columns, strict=True)):
        if id_ in stored_by_id:
            existing[place], stored_values = stored_by_id[id_]
            is_same[place] = [*stored_values, *[None] * len(new_names)] == values
    if vectors is not None:
        rows, configuration = np.flatnonzero(existing >= 0), snapshot.manifest.configuration
        stored = as_stored(prepare(vectors[rows], configuration.metric), configuration.dtype)
        try:
            is_same[rows] &= (snapshot.take(existing[rows]) == stored).all(axis=1)
        except DocumentsChanged:  # a commit of the same load has deleted some of them
            is_same[rows] = False
    return existing, is_same


def as_row(document: Document) -> dict[str, object]:
    return {ID: document.id, TEXT: document.text, **document.fields}


def export(
    snapshot: IndexSnapshot,
    file: str | Path,
    *,
    where: str | None = None,
    vectors: bool = False,
    progress: Progress | None = None,
) -> int:
    """Write documents to a file; return their number: see :meth:`Index.export`."""
    path, rows = Path(file), snapshot.rows_in_order(where)
    ending = path.suffix.lower()
    if ending not in EXPORT_ENDINGS:
        raise ValueError(f"{path}: expected a file that ends in {', '.join(EXPORT_ENDINGS)}")
    kinds, dim = snapshot.manifest.fields, snapshot.manifest.configuration.dim
    searched = snapshot.searched_fields
    is_joined = TEXT in weights_of(searched) and texts_are_joined(snapshot, where)
    with ExitStack() as opened:
        out = opened.enter_context(whole_file(path))  # closed last, so that it appears last
        if ending == ".jsonl":
            if vectors:
                beside = whole_file(path.with_suffix(".vectors.npy"))
                matrix = opened.enter_context(beside)
                head = {"descr": "<f4", "fortran_order": False, "shape": (len(rows), dim)}
                np.lib.format.write_array_header_1_0(matrix, head)
        else:
            schema = _schema(kinds, dim if vectors else None)
            table_file = parquet.ParquetWriter if ending == ".parquet" else pa.ipc.new_file
            table = opened.enter_context(table_file(out, schema))
        done = 0
        for block, documents in blocks(snapshot, rows):
            if is_joined:  # only the part that is from the field ``text`` is the text of a row
                for at, document in enumerate(documents):
                    places = places_of(document.text, document.fields, searched)
                    own = (document.text[start:end] for name, start, end in places if name == TEXT)
                    documents[at] = replace(document, text="".join(own))
            stored = snapshot.take(block) if vectors else None
            if ending == ".jsonl":
                out.writelines(orjson.dumps(as_row(document)) + b"\n" for document in documents)
                if stored is not None:
                    matrix.write(stored.astype("<f4", copy=False).tobytes())
            else:
                table.write_table(_table(documents, stored, schema, kinds))
            done += len(block)
            if progress is not None:
                progress("documents written", done / len(rows))
    return done


def texts_are_joined(snapshot: IndexSnapshot, where: str | None = None) -> bool:
    """Return whether all texts are joined fields, not single ones or others added in Python."""
    searched = snapshot.searched_fields
    if not searched:
        return False
    names = weights_of(searched)
    for _, documents in blocks(snapshot, snapshot.rows_in_order(where)):
        for document in documents:
            is_empty = not document.text and not any(document.fields.get(name) for name in names)
            if not is_empty and not places_of(document.text, document.fields, searched):
                return False
    return True


def _schema(kinds: Mapping[str, Kind], dim: int | None) -> pa.Schema:
    """Return the columns of an export. ``dim``: the length of its vectors, if they are exported."""
    types = {ID: pa.string(), TEXT: pa.string(), **{name: TYPES[kinds[name]] for name in kinds}}
    if dim is not None:
        if VECTOR in kinds:
            raise ValueError(
                f"the documents have a field {VECTOR!r}, and the vectors need a column of this "
                "name: export to .jsonl, or without vectors"
            )
        types[VECTOR] = pa.list_(pa.float32(), dim)
    return pa.schema([*types.items()])


def _table(
    documents: list[Document],
    vectors: Vectors | None,
    schema: pa.Schema,
    kinds: Mapping[str, Kind],
) -> pa.Table:
    columns: list[Any] = [
        [document.id for document in documents],
        [document.text for document in documents],
    ]
    for name, kind in kinds.items():
        values = [document.fields.get(name) for document in documents]
        if kind == "number":
            values = [None if value is None else float(str(value)) for value in values]
        columns.append(values)
    arrays = [pa.array(values, schema.types[at]) for at, values in enumerate(columns)]
    if vectors is not None:
        flat = pa.array(vectors.reshape(-1), pa.float32())
        arrays.append(pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]))
    return pa.table(arrays, schema=schema)


@dataclass(frozen=True, slots=True)
class FieldStats:
    """A field of the documents.

    - ``kind``: the type of its values.
    - ``documents``: number of documents that have a value.
    - ``distinct``: number of different values.
    - ``frequent``: the most frequent values, at most five. Each occurs at least twice.
    """

    name: str
    kind: Kind
    documents: int
    distinct: int
    frequent: tuple[ValueCount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStats:
    """What :meth:`Index.stats` returns.

    - ``documents``: number of documents.
    - ``deleted``: number of deleted rows that are still on disk.
    - ``commit``: number of the commit.
    - ``generation``: number of the folder that contains the commit.
    - ``loading``: the load that is running or was interrupted; its ``documents`` are 0 if it is an
      update. ``replacement``: the same of a new index that will replace this one.
    - ``model``: path or name of the model; ``None`` if the vectors are your own.
    - ``recall``: recall@10 of approximate search when it was built; ``None`` for exact search.
    - ``calibration``: the calibrated weight of keyword search; ``None`` for the default weight.
    - ``searched_fields``: the fields that are joined into one text, with weights, such as
      ``title^2``; empty if a text is a single field.
    - ``files``: bytes on disk by purpose, such as ``vectors``.
    - ``tokens``: number of words in all texts, with repetitions; ``None`` if not counted.
    - ``tokens_unknown``: number of these words that the model does not know.
    - ``unknown_words``: the five most frequent unknown words.
    """

    documents: int
    deleted: int
    commit: int
    generation: int
    loading: Load | None
    replacement: Load | None
    fields: tuple[FieldStats, ...]
    model: str | None
    kind: str | None
    dim: int
    metric: str
    dtype: str
    language: str
    recall: float | None
    calibration: Calibration | None
    files: Mapping[str, int]
    sources: tuple[str, ...]
    tokens: int | None = None
    tokens_unknown: int | None = None
    unknown_words: tuple[ValueCount, ...] = ()
    searched_fields: tuple[str, ...] = ()


def stats(
    snapshot: IndexSnapshot,
    files: Mapping[str, int],
    replacement: Load | None,
    *,
    unknown: bool = False,
    progress: Progress | None = None,
) -> IndexStats:
    """See :meth:`Index.stats`. ``replacement``: the load of an index that will replace this one."""
    manifest = snapshot.manifest
    configuration, codes, load = manifest.configuration, manifest.codes, manifest.load
    counted = count_unknown(snapshot, progress) if unknown else None
    fields = []
    for name, kind in manifest.fields.items():
        documents, counts = snapshot.value_facts(name, MOST_FREQUENT)
        fields.append(FieldStats(name, kind, documents, counts.distinct, counts.frequent))
    return IndexStats(
        documents=manifest.live,
        deleted=manifest.deleted,
        commit=manifest.commit,
        generation=snapshot.number,
        loading=None if load is None or load.finished else load,
        replacement=replacement,
        fields=tuple(fields),
        model=configuration.model,
        kind=configuration.kind,
        dim=configuration.dim,
        metric=configuration.metric,
        dtype=configuration.dtype,
        language=configuration.language,
        recall=None if codes is None else codes.recall,
        calibration=manifest.calibration,
        files=files,
        sources=tuple(  # "." says nothing in another working directory
            source.name if source.name.strip("./") else source.path for source in manifest.sources
        ),
        searched_fields=manifest.searched_fields,
        tokens=None if counted is None else counted.tokens,
        tokens_unknown=None if counted is None else counted.tokens_unknown,
        unknown_words=tuple(
            ValueCount(word.word_bytes.decode("utf-8", "backslashreplace"), word.count)
            for word in (counted.commonest(MOST_FREQUENT) if counted is not None else ())
        ),
    )


def count_unknown(
    snapshot: IndexSnapshot, progress: Progress | None = None, *, model: str = ""
) -> OovReport | None:
    """Count the words that the model does not know; ``None`` if the index has no vocabulary."""
    from vocabtool.oov.counter import OovCounter

    known = snapshot.known_words
    if known is None:
        return None
    counter, rows = OovCounter(known.words), snapshot.rows_in_order()

    def texts() -> Iterator[pa.StringArray]:
        done = 0
        for block, documents in blocks(snapshot, rows):
            yield pa.array([document.text for document in documents], pa.string())
            done += len(block)
            if progress is not None:
                progress("words counted", done / len(rows))

    counter.count(texts())
    return counter.report(model=model)


def search_texts(
    snapshot: IndexSnapshot,
    texts: Sequence[str | None],
    given: NDArray[Any] | Sequence[Any] | None,
    threads: int | None,
    settings: Settings,
) -> list[Hits]:
    """Search several queries: see :meth:`Index.search` and :meth:`Index.search_many`.

    ``texts``: ``None`` without one. ``given``: vectors of shape (n, dim); ``None`` to encode texts.
    """
    began = perf_counter()
    model, dim = snapshot.model, snapshot.manifest.configuration.dim
    vectors: Vectors | list[Vectors | None] = [None] * len(texts)
    if given is not None:
        with np.errstate(over="ignore"):  # infinity is refused by the vector leg
            vectors = np.asarray(given, np.float32)
        if vectors.shape != (len(texts), dim):
            wanted = f"shape ({len(texts)}, {dim})"
            raise ValueError(f"vectors must have {wanted}, got {vectors.shape}")
    elif texts != [None] and settings.fusion != "keyword" and model.encoder is not None:
        to_encode: dict[int, str] = {}  # by the place in ``texts``
        for place, text in enumerate(texts):
            _, operators, for_vector = understand(snapshot, text or "", settings.literal)
            if for_vector or not operators:
                to_encode[place] = for_vector
        if to_encode:
            encoded = model.encoder.encode_queries([*to_encode.values()])
            for place, vector in zip(to_encode, encoded, strict=True):
                vectors[place] = vector
    answer = partial(
        search,
        snapshot,
        settings=settings,
        is_own=given is not None,
        encoding=perf_counter() - began,
    )
    if len(texts) == 1:
        return [answer(texts[0], vectors[0])]
    queries, workers = zip(texts, vectors, strict=True), threads or os.cpu_count() or 1
    return [*parallel_map(lambda query: answer(*query), queries, workers=workers)]
