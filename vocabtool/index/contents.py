"""Export, count or copy the documents of one commit, while a writer may change the index."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import google_crc32c
import numpy as np
import orjson
import pyarrow as pa
from pyarrow import parquet

from vocabtool.documents.batch import Document, Kind
from vocabtool.documents.options import weights_of
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import FolderNotEmpty, InvalidFile, reading
from vocabtool.index.commit_store import CommitStore, DocumentsChanged
from vocabtool.index.database import JOURNALS, NAME
from vocabtool.index.documents import ID, TEXT
from vocabtool.index.folder import (
    CODE_FILE,
    KEYWORDS,
    MODEL_FILE,
    VECTORS,
    Commit,
    read_commit,
    read_manifest,
    refuse_others,
)
from vocabtool.index.generation import Progress, open_snapshot, read_version
from vocabtool.index.maintenance import Verification, read_verification
from vocabtool.keywords.fields import places_of, text_in_utf8
from vocabtool.keywords.tantivy_index import MANAGED, META, file_names
from vocabtool.search.hits_table import TYPES
from vocabtool.search.settings import Calibration
from vocabtool.search.store import ValueCount
from vocabtool.system.own_files import LOCK, lock_folder, sync_folder, whole_file
from vocabtool.system.ranking import Rows

if TYPE_CHECKING:
    from vocabtool.oov.report import OovReport

BLOCK_BYTES: Final = 4 << 20  # target size of the texts that are in memory at once
BLOCK_ROWS: Final = (16, 8192)  # of the first block, and of any block at most
VECTOR: Final = "vector"  # the column of an exported vector
COPIED_BYTES: Final = 4 << 20
MOST_FREQUENT: Final = 5  # values of a field
EXPORT_ENDINGS: Final = (".jsonl", ".parquet", ".arrow")

Fetched = TypeVar("Fetched")


def ids(snapshot: CommitStore, where: str | None = None) -> Iterator[str]:
    rows = snapshot.rows_in_order(where)
    for start in range(0, len(rows), BLOCK_ROWS[1]):
        part = rows[start : start + BLOCK_ROWS[1]]
        yield from _fetch(snapshot, snapshot.documents.ids, part)


def blocks(snapshot: CommitStore, rows: Rows) -> Iterator[tuple[Rows, list[Document]]]:
    """Yield (rows, documents) in blocks of about 4 MB of text."""
    start, step = 0, BLOCK_ROWS[0]
    while start < len(rows):
        part = rows[start : start + step]
        held = _fetch(snapshot, snapshot.documents.fetch_documents, part)
        found = [*map(_document_in_utf8, held)]
        yield part, found
        start += len(part)
        size = sum(len(each.text) for each in found)
        step = max(1, min(BLOCK_ROWS[1], len(part) * BLOCK_BYTES // max(size, 1)))


def _fetch(
    snapshot: CommitStore, fetch: Callable[[Rows], list[Fetched]], rows: Rows
) -> list[Fetched]:
    """Call ``fetch`` with the ``rows`` that were not deleted meanwhile."""
    try:
        return fetch(rows)
    except DocumentsChanged:
        return _fetch(snapshot, fetch, np.sort(snapshot.in_order(snapshot.only(rows))))


def _document_in_utf8(document: Document) -> Document:
    fields = {
        name: text_in_utf8(value) if isinstance(value, str) and not value.isascii() else value
        for name, value in document.fields.items()
    }
    return Document(document.id, document.text, fields)


def as_row(document: Document) -> dict[str, object]:
    return {ID: document.id, TEXT: document.text, **document.fields}


# Exports.


def export(
    snapshot: CommitStore,
    file: str | Path,
    *,
    where: str | None = None,
    vectors: bool = False,
    progress: Progress | None = None,
) -> int:
    path, rows = Path(file), snapshot.rows_in_order(where)
    ending = path.suffix.lower()
    if ending not in EXPORT_ENDINGS:
        raise ValueError(f"{path}: expected a file that ends in {', '.join(EXPORT_ENDINGS)}")
    dim, done = snapshot.manifest.configuration.dim, 0
    parted = snapshot.searched_fields
    if TEXT not in weights_of(parted) or not is_of_fields(snapshot, where):
        parted = ()
    with ExitStack() as opened:
        out = opened.enter_context(whole_file(path))  # closed last, so that it appears last
        if ending == ".jsonl":
            write = _json_lines(out)
            if vectors:
                matrix = opened.enter_context(whole_file(vectors_beside(path)))
                head = {"descr": "<f4", "fortran_order": False, "shape": (len(rows), dim)}
                np.lib.format.write_array_header_1_0(matrix, head)
        else:
            write = opened.enter_context(_table(snapshot, out, ending, dim if vectors else 0))
        for part, documents in blocks(snapshot, rows):
            found = snapshot.vectors.take(part) if vectors else None
            write([_as_read(each, parted) for each in documents], found)
            if found is not None and ending == ".jsonl":
                matrix.write(found.astype("<f4", copy=False).tobytes())
            done += len(part)
            if progress is not None:
                progress("documents written", done / len(rows))
    return done


def _as_read(document: Document, searched: tuple[str, ...]) -> Document:
    """If the text was joined from fields, keep only the part from the field ``text``."""
    if not searched:
        return document
    places = places_of(document.text, document.fields, searched)
    own = "".join(document.text[start:end] for name, start, end in places if name == TEXT)
    return replace(document, text=own)


def is_of_fields(snapshot: CommitStore, where: str | None = None) -> bool:
    """Return whether every text is the joined values of its fields.

    ``False`` if the texts are single fields, or if a document with another text was added in
    Python.
    """
    searched = snapshot.searched_fields
    return bool(searched) and all(
        places_of(each.text, each.fields, searched)
        or not (each.text or any(map(each.fields.get, weights_of(searched))))
        for _, documents in blocks(snapshot, snapshot.rows_in_order(where))
        for each in documents
    )


def vectors_beside(file: Path) -> Path:
    return file.with_suffix(".vectors.npy")


Write = Callable[[list[Document], Vectors | None], None]


def _json_lines(out: BinaryIO) -> Write:
    def write(documents: list[Document], vectors: Vectors | None) -> None:
        for each in documents:
            out.write(orjson.dumps(as_row(each)) + b"\n")

    return write


@contextmanager
def _table(snapshot: CommitStore, out: BinaryIO, ending: str, dim: int) -> Iterator[Write]:
    kinds = snapshot.manifest.fields
    if dim and VECTOR in kinds:
        raise ValueError(
            f"the documents have a field {VECTOR!r}, and the vectors need a column of this name: "
            "export to .jsonl, or without vectors"
        )
    types = {ID: pa.string(), TEXT: pa.string(), **{name: TYPES[kinds[name]] for name in kinds}}
    if dim:
        types[VECTOR] = pa.list_(pa.float32(), dim)
    schema = pa.schema([*types.items()])
    made = parquet.ParquetWriter if ending == ".parquet" else pa.ipc.new_file
    with made(out, schema) as writer:

        def write(documents: list[Document], vectors: Vectors | None) -> None:
            columns: list[Any] = [
                [each.id for each in documents],
                [each.text for each in documents],
            ]
            for name, kind in kinds.items():
                values = [each.fields.get(name) for each in documents]
                if kind == "number":
                    values = [None if each is None else float(str(each)) for each in values]
                columns.append(values)
            arrays = [
                pa.array(each, types[name]) for each, name in zip(columns, types, strict=False)
            ]
            if vectors is not None:
                flat = pa.array(vectors.reshape(-1), pa.float32())
                arrays.append(pa.FixedSizeListArray.from_arrays(flat, dim))
            writer.write_table(pa.table(arrays, schema=schema))

        yield write


# Statistics.


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
    - ``loading``: whether a load is unfinished.
    - ``model``: path or name of the model; ``None`` if the vectors are your own.
    - ``recall``: recall@10 of approximate search when it was built; ``None`` for exact search.
    - ``calibration``: the calibrated weight of keyword search; ``None`` for the default weight.
    - ``searched_fields``: the fields that are joined into one text, with weights, such as
      ``title^2``; empty if a text is a single field.
    - ``files``: bytes on disk by purpose, such as ``vectors``.
    - ``tokens``: number of words in all texts, with repetitions; ``None`` if not counted.
    - ``tokens_unknown``: number of these words that the model does not know.
    - ``unknown_words``: the five most frequent unknown words.
    - ``verified``: the result of the last :meth:`Index.verify`.
    - ``table``: name of the user's table whose rows are the documents; ``None`` without a table.
    - ``waiting``: number of changes of ``table`` that wait for an update; ``None`` if the triggers
      of the table are missing or disabled.
    """

    documents: int
    deleted: int
    commit: int
    generation: int
    loading: bool
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
    verified: Verification | None = None
    table: str | None = None
    waiting: int | None = None


def stats(
    path: Path,
    snapshot: CommitStore,
    files: Mapping[str, int],
    *,
    unknown: bool = False,
    progress: Progress | None = None,
) -> IndexStats:
    manifest = snapshot.manifest
    held, codes, load = manifest.configuration, manifest.codes, manifest.load
    counted = count_unknown(snapshot, progress) if unknown else None
    fields = []
    for name, kind in manifest.fields.items():
        documents, found = snapshot.value_facts(name, MOST_FREQUENT)
        fields.append(FieldStats(name, kind, documents, found.distinct, found.frequent))
    return IndexStats(
        documents=manifest.live,
        deleted=manifest.deleted,
        commit=manifest.commit,
        generation=snapshot.number,
        loading=load is not None and not load.finished,
        fields=tuple(fields),
        model=held.model,
        kind=held.kind,
        dim=held.dim,
        metric=held.metric,
        dtype=held.dtype,
        language=held.language,
        recall=None if codes is None else codes.recall,
        calibration=manifest.calibration,
        files=files,
        sources=tuple(each.name for each in manifest.sources),
        searched_fields=manifest.searched_fields,
        verified=read_verification(path, manifest.index),
        tokens=None if counted is None else counted.tokens,
        tokens_unknown=None if counted is None else counted.tokens_unknown,
        unknown_words=tuple(
            ValueCount(each.word.decode("utf-8", "backslashreplace"), each.count)
            for each in (counted.commonest(MOST_FREQUENT) if counted is not None else ())
        ),
    )


def sizes(path: Path, generation: Path) -> dict[str, int]:
    sizes: Counter[str] = Counter(dict.fromkeys(("documents", "vectors", "keywords"), 0))
    for file in path.rglob("*"):
        with suppress(OSError):
            size = 0 if file.is_dir() or file.name == JOURNALS[1] else file.stat().st_size
            sizes[_purpose(file, path, generation)] += size
    return {purpose: size for purpose, size in sizes.items() if size or purpose != "other"}


def _purpose(file: Path, path: Path, generation: Path) -> str:
    if file.parent == generation / KEYWORDS:
        return "keywords"
    if file.parent == generation:
        if file.name in (NAME, *JOURNALS):
            return "documents"
        return {VECTORS: "vectors"}.get(
            file.name, "codes" if CODE_FILE.fullmatch(file.name) else "other"
        )
    return "model" if file.parent == path and MODEL_FILE.fullmatch(file.name) else "other"


def count_unknown(
    snapshot: CommitStore, progress: Progress | None = None, *, model: str = ""
) -> OovReport | None:
    """Count the words that the model does not know, in all documents.

    Returns ``None`` if the index has no vocabulary.
    """
    from vocabtool.oov.counter import OovCounter

    known = snapshot.known_words
    if known is None:
        return None
    counter, rows = OovCounter(known.words), snapshot.rows_in_order()

    def texts() -> Iterator[pa.StringArray]:
        done = 0
        for part, documents in blocks(snapshot, rows):
            yield pa.array([each.text for each in documents], pa.string())
            done += len(part)
            if progress is not None:
                progress("words counted", done / len(rows))

    counter.count(texts())
    return counter.report(model=model)


# Copies.


def copy(path: Path, new: Path, progress: Progress | None = None) -> None:
    new = Path(os.path.abspath(new))  # noqa: PTH100 - links stay
    read_manifest(path)  # raises if there is no index, before a folder is made
    part = part_of(new)
    if new.resolve().is_relative_to(path.resolve()):
        raise ValueError(f"{new}: is inside the index; name a folder outside")
    with reading(str(part)):
        part.mkdir(exist_ok=True)
    with lock_folder(part):
        remove_leftovers(part)
        try:
            with ExitStack() as opened:
                _copy_files(path, part, *_open_commit(path, opened), progress)
            check = open_snapshot(part)  # compares what opening an index compares
            check.commit.database.close()
            with reading(str(new)):
                part.rename(new)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        sync_folder(new.parent)


def part_of(new: Path) -> Path:
    """Return the path of the temporary folder in which the copy ``new`` is made.

    Raises :class:`FolderNotEmpty` if ``new`` exists and is not an empty folder.
    """
    if new.exists() and (not new.is_dir() or any(new.iterdir())):
        raise FolderNotEmpty(f"{new}: already exists and is not an empty folder; name a new folder")
    return new.with_name(f".{new.name}.part")


def remove_leftovers(part: Path) -> None:
    """Remove the files of an interrupted copy. The caller must have locked ``part``."""
    refuse_others(part, allow_index=True)
    for each in part.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        elif each.name != LOCK:
            each.unlink()


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """An open file of a commit.

    ``size``: number of committed bytes; ``None`` for the whole file. ``crc32c``: the checksum in
    the manifest; ``None`` for a file that has none.
    """

    file: BinaryIO
    size: int | None = None
    crc32c: int | None = None


def _open_commit(path: Path, opened: ExitStack) -> tuple[Commit, dict[Path, OpenedFile]]:
    """Open all files of the last commit, and register them with ``opened``.

    If a writer removes a file meanwhile, the next commit is tried.
    """
    while True:
        first = read_commit(path)
        first.database.fetch("BEGIN")
        commit = read_commit(path, first)  # the transaction begins to read
        try:
            with ExitStack() as tried:
                tried.callback(first.database.close)  # of an older generation, or the same
                tried.callback(commit.database.close)
                meta = tried.enter_context((commit.folder / KEYWORDS / META).open("rb"))
                files = {
                    file: OpenedFile(tried.enter_context(file.open("rb")), *facts)
                    for file, facts in _files_of(path, commit).items()
                }
                # tantivy replaces its list of segments. If it is the same, all of them are open.
                is_same = os.fstat(meta.fileno()).st_ino == Path(meta.name).stat().st_ino
                if is_same and commit.database is first.database:
                    opened.enter_context(tried.pop_all())
                    return commit, {**files, Path(meta.name): OpenedFile(meta)}
        except OSError:
            if read_version(read_commit(path)) == read_version(commit):
                raise


def _files_of(path: Path, commit: Commit) -> dict[Path, tuple[int | None, int | None]]:
    manifest, keywords = commit.manifest, commit.folder / KEYWORDS
    written = {VECTORS: manifest.vectors, **manifest.code_files}
    return {
        **{commit.folder / name: (each.size, each.crc32c) for name, each in written.items()},
        **{path / name: (None, crc) for name, crc in manifest.model_files.items()},
        **{keywords / name: (None, manifest.keywords.get(name)) for name in file_names(keywords)},
    }


def _copy_files(
    path: Path,
    part: Path,
    commit: Commit,
    files: Mapping[Path, OpenedFile],
    progress: Progress | None,
) -> None:
    folder = part / commit.folder.name
    (folder / KEYWORDS).mkdir(parents=True)
    with (
        commit.database.statements() as connection,
        closing(sqlite3.connect(folder / NAME)) as copied,
    ):
        connection.backup(copied)
    commit.database.fetch("ROLLBACK")  # writers can empty their journal again
    for done, (file, opened) in enumerate(files.items(), 1):
        found = _copy_file(opened, part / file.relative_to(path))
        if opened.crc32c not in (None, found):
            what = f"damaged: CRC-32C {found:08x}, expected {opened.crc32c:08x}"
            raise InvalidFile(what, file=str(file))
        if progress is not None:
            progress("files copied", done / len(files))
    names = sorted(file.name for file in files if file.parent.name == KEYWORDS)
    with whole_file(folder / KEYWORDS / MANAGED) as out:  # as tantivy writes it
        out.write(json.dumps(names, separators=(",", ":")).encode() + b"\n")
    for each in (folder / KEYWORDS, folder, part):
        sync_folder(each)


def _copy_file(opened: OpenedFile, target: Path) -> int:
    """Copy the committed bytes; return the CRC-32C of the copy."""
    found, left = 0, opened.size
    with target.open("xb") as out:
        while block := opened.file.read(COPIED_BYTES if left is None else min(COPIED_BYTES, left)):
            out.write(block)
            found = google_crc32c.extend(found, block)
            left = None if left is None else left - len(block)
        out.flush()
        os.fsync(out.fileno())
    if left:
        raise InvalidFile(f"truncated: {left:,} bytes are missing", file=opened.file.name)
    return found
