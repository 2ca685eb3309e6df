"""Compact, verify or upgrade an index in a folder.

Only this module reads the folders of version 0.1.0:

    manifest.json               JSON with a checksum: the commit, and facts of the files below
    generation-000000/
        documents-….arrow       Arrow IPC: id, text and fields, all of them strings
        vectors.bin             the same as today
        deleted-000007.bits     one bit per row
        sources-000007.bin      4 bytes per row: the number of its FILE, 0 for none
        keywords/, codes, hashes.bin    not read

An upgrade does not need the encoder. It drops deleted rows and rebuilds keywords and codes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.documents.batch import Batch, Kind
from vocabtool.documents.files import arrow_errors
from vocabtool.documents.options import ReadOptions
from vocabtool.encoders.encoder import Encoder
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError, reading
from vocabtool.index.canaries import Agreement, compare_canaries
from vocabtool.index.commit_store import CommitStore
from vocabtool.index.database import JOURNALS, NAME, Database
from vocabtool.index.documents import ID, TEXT, union
from vocabtool.index.folder import (
    AS_IT_WAS,
    KEYWORDS,
    OLD_MANIFEST,
    VECTORS,
    VERIFIED,
    Chance,
    Configuration,
    Load,
    Manifest,
    make_current,
    new_generation,
    read_commit,
    read_manifest,
    recover,
)
from vocabtool.index.generation import (
    GenerationWriter,
    Progress,
    Snapshot,
    cutter_of,
    raw_vectors,
)
from vocabtool.index.raw_vectors import RawVectors, measure_recall
from vocabtool.index.sources import Source
from vocabtool.index.writer import after_other_change
from vocabtool.keywords import tantivy_index
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.tantivy_index import LOCKS, MANAGED, META
from vocabtool.search.settings import Calibration
from vocabtool.system.own_files import (
    LOCK,
    checksum,
    compare,
    decode_record,
    encode_record,
    from_json,
    lock_folder,
    whole_file,
)

OLD_FORMAT: Final = 3
VERIFY: Final = "verify"
VERIFY_FORMAT: Final = 1
COPIED_ROWS: Final = 4096
OPTIONS: Final = ("field", "format", "id_field", "keep", "on_error", "on_duplicate")
SHARES: Final = {"vectors": 0.0, "documents": 0.3, "keywords": 0.5, "recall": 0.8, "model": 0.95}


class CompactReport(NamedTuple):
    """Number of deleted rows that were removed, and number of documents that are left."""

    removed: int
    left: int


def compact(path: Path, progress: Progress | None = None) -> CompactReport:
    """Copy the documents of the last commit to a new generation, which replaces the old one.

    Raises :class:`FolderInUse` and :class:`InvalidFile`.
    """
    read_manifest(path)  # raises before a lock file is created in a folder without an index
    with lock_folder(path):
        before = read_commit(path)
        held, live = before.manifest, ~before.is_deleted
        cutter = cutter_of(path, before)
        recover(path, before)
        compare(before.folder / VECTORS, held.vectors.crc32c, held.vectors.size)
        vectors = raw_vectors(before.folder, held)
        columns = [f"field_{at}" for at in range(len(held.fields))]
        part, final = new_generation(path)
        files = GenerationWriter.create(part, held, cutter)
        try:
            for rows in before.database.checked_rows(held.rows):
                first, end = rows[0][0], rows[-1][0] + 1
                left = [row for row in rows if live[row[0]]]
                if left:
                    ids, texts = ([row[at] for row in left] for at in (1, 2))
                    facts = [
                        [
                            each.encode("utf-8", "surrogateescape") if type(each) is str else each
                            for each in row[3:]
                        ]
                        for row in left
                    ]
                    block = vectors.read(first, end)[live[first:end]]
                    files.append_values(ids, texts, facts, columns, block)
                if progress is not None:
                    progress("documents copied", end / held.rows)
            files.index_fields()
            if answers := before.database.answers():
                files.database.remember(answers)
            done = replace(
                files.manifest, commit=held.commit + 1, load=after_other_change(held.load)
            )
            files.commit(done, np.zeros(files.rows, np.bool_), progress=progress)
        finally:
            files.close()
        before.database.close()
        make_current(part, final)
        recover(path, read_commit(path))
        return CompactReport(held.deleted, held.live)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of the last verification of an index, as stored in the file ``verified.json``.

    - ``index``: the id of the index. ``index --force`` gives the index a new id.
    - ``time``: when the verification ended, in UTC (ISO 8601).
    - ``recall``: as in :class:`VerifyReport`; ``None`` if there is a ``problem``.
    - ``problem``: the message of the error; ``None`` if there was no error.
    """

    index: str
    time: str
    commit: int
    generation: int
    documents: int
    recall: float | None = None
    problem: str | None = None


def keep_verification(
    path: Path, snapshot: CommitStore, *, recall: float | None = None, problem: str | None = None
) -> None:
    """Write the result of a verification to the file ``verified.json`` in ``path``."""
    manifest = snapshot.manifest
    kept = Verification(
        index=manifest.index,
        time=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        commit=manifest.commit,
        generation=snapshot.number,
        documents=manifest.live,
        recall=recall,
        problem=problem,
    )
    # An index on a disk that cannot be written is verified all the same.
    with suppress(OSError, NotFound), whole_file(path / VERIFIED) as file:
        file.write(encode_record(kept, kind=VERIFY, version=VERIFY_FORMAT))


def read_verification(path: Path, index: str) -> Verification | None:
    """Return the last verification of the index with this id; ``None`` if none is stored."""
    with suppress(OSError, InvalidFile):
        data = (path / VERIFIED).read_bytes()
        kept = decode_record(data, Verification, kind=VERIFY, version=VERIFY_FORMAT)
        return kept if kept.index == index else None
    return None


def verify(
    path: Path,
    snapshot: Snapshot,
    progress: Progress | None = None,
    encoder: Encoder | None = None,
) -> VerifyReport:
    """Check all files of an index, and that keywords and database contain the same documents.

    ``encoder``: encodes some documents again, to compare the vectors; ``None`` to omit this check.
    Raises :class:`InvalidFile`, :class:`NotFound` and :class:`ChangedModel`.
    """
    manifest, folder = snapshot.manifest, snapshot.commit.folder
    report = progress or (lambda what, share: None)
    report("vectors", SHARES["vectors"])
    compare(folder / VECTORS, manifest.vectors.crc32c, manifest.vectors.size)
    codes = {folder / name: written.crc32c for name, written in manifest.code_files.items()}
    model = {path / name: crc32c for name, crc32c in manifest.model_files.items()}
    for file, crc32c in {**codes, **model}.items():
        compare(file, crc32c)
    report("documents", SHARES["documents"])
    database = Database(folder)  # its own connection: other threads may search meanwhile
    try:
        ids = [id_ for part in database.checked_rows(manifest.rows) for _, id_, *_ in part]
    finally:
        database.close()
    report("keywords", SHARES["keywords"])
    keywords = folder / KEYWORDS
    tantivy_index.check_files(keywords, manifest.keywords)
    _compare_legs(keywords, snapshot, ids)
    in_keywords = {META, MANAGED, *tantivy_index.file_names(keywords)}
    wanted = {folder / NAME, folder / VECTORS, *codes, *model}
    wanted |= {keywords / name for name in in_keywords}
    found = {each for each in path.rglob("*") if not each.is_dir()}
    if missing := sorted(wanted - found):
        raise InvalidFile("missing", file=str(missing[0]))
    passing = (LOCK, VERIFIED, *LOCKS, *JOURNALS)
    others = sorted(each for each in found - wanted if each.name not in passing)
    report("recall", SHARES["recall"])
    recall = 1.0
    if manifest.codes is not None:
        leg, metric = snapshot.vectors, manifest.configuration.metric
        recall = measure_recall(leg.raw, lambda vector, k: leg.search(vector, k).rows, metric)
    encoded = None
    if encoder is not None:
        report("model", SHARES["model"])
        encoded = compare_canaries(
            str(path), snapshot.canaries(), encoder, manifest.configuration.metric
        )
    return VerifyReport(
        documents=manifest.live,
        deleted=manifest.deleted,
        commit=manifest.commit,
        recall=recall,
        approximate=manifest.codes is not None,
        loading=manifest.load is not None and not manifest.load.finished,
        others=tuple(str(each.relative_to(path)) for each in others),
        encoded=encoded,
    )


def _compare_legs(keywords: Path, snapshot: Snapshot, ids: list[str]) -> None:
    met = np.zeros(len(ids), np.bool_)
    for row, id_ in snapshot.keywords.rows_and_ids(len(ids)):
        if met[row]:
            raise InvalidFile(f"contains row {row:,} twice", file=str(keywords))
        met[row] = True
        if ids[row] != id_:
            raise InvalidFile(
                f"row {row:,} is document {id_!r} here, but {ids[row]!r} in the database",
                file=str(keywords),
            )
    if not met.all():
        raise InvalidFile(f"row {int(np.argmin(met)):,} is missing", file=str(keywords))


def upgrade(path: Path, progress: Progress | None = None) -> CompactReport:
    """Convert an index of version 0.1.0 to the format of this version.

    Raises :class:`VocabtoolError` if no upgrade is needed, :class:`NotFound`, :class:`InvalidFile`
    and :class:`FolderInUse`.
    """
    if not (path / OLD_MANIFEST).is_file():
        read_commit(path)  # raises if there is no index
        raise VocabtoolError(f"{path}: already has the format of this version; nothing to upgrade")
    with lock_folder(path):
        try:
            recover(path, read_commit(path))  # if an upgrade was killed after it was done
        except InvalidFile:
            pass
        else:
            raise VocabtoolError(
                f"{path}: already has the format of this version; nothing to upgrade"
            )
        old = _read_old_manifest(path / OLD_MANIFEST)
        generation = path / f"generation-{old['generation']:06}"
        if not generation.is_dir():
            raise NotFound(f"{generation}: no such folder")
        model_files = {}  # new name of each: contains its checksum
        for name, crc in old["model_files"].items():
            if checksum(path / name) != crc:
                raise InvalidFile("damaged: wrong checksum", file=str(path / name))
            stem, dot, suffix = name.partition(".")
            model_files[name] = f"{stem}-{crc:08x}.{suffix}" if dot else name
        manifest = _new_manifest(path, old, model_files)
        part, final = new_generation(path)
        files = GenerationWriter.create(part, manifest, Cutter(manifest.configuration.language))
        try:
            for batch, vectors, sources in _old_rows(generation, old, manifest, progress):
                files.append(batch, vectors, sources)
            files.index_fields()
            files.commit(files.manifest, np.zeros(files.rows, np.bool_), progress=progress)
        finally:
            files.close()
        for name, new_name in model_files.items():
            if name != new_name:
                with (path / name).open("rb") as source, whole_file(path / new_name) as copy:
                    shutil.copyfileobj(source, copy)
        make_current(part, final)
        recover(path, read_commit(path))
        return CompactReport(old["rows"] - files.rows, files.rows)


def _read_old_manifest(file: Path) -> dict[str, Any]:
    with reading(str(file)):
        try:
            old: dict[str, Any] = json.loads(file.read_bytes())
            crc, version = old.pop("crc32c"), old["vocabtool_index"]
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise InvalidFile(f"not a manifest of `vocabtool index`: {error}") from error
        if version != OLD_FORMAT:
            raise InvalidFile(
                f"has format {version!r}, but only format {OLD_FORMAT} can be upgraded: {AS_IT_WAS}"
            )
        if int(google_crc32c.value(json.dumps(old).encode())) != crc:
            raise InvalidFile("damaged: wrong checksum")
        return old


def _new_manifest(path: Path, old: dict[str, Any], model_files: Mapping[str, str]) -> Manifest:
    held = dict(old["configuration"])
    is_static = held["encoder"] is not None and held["rule"] is not None
    held |= {
        "cutter": Cutter(held["language"]).fingerprint,
        "kind": "static" if is_static else None,
    }
    kinds: dict[str, Kind] = {}
    for *_, fields in old["documents"]:
        for name, kind in fields.items():
            kinds[name] = union(kinds.get(name, "null"), kind)
    calibration, load = old["calibration"], old["load"]
    names = Calibration.__dataclass_fields__
    with reading(str(path / OLD_MANIFEST)):
        return Manifest(
            index=old["index"],
            configuration=from_json(Configuration, held, "configuration"),
            commit=old["commit"] + 1,
            fields=kinds,
            model_files={new: old["model_files"][name] for name, new in model_files.items()},
            calibration=calibration
            and Calibration(**{name: calibration[name] for name in names if name in calibration}),
            load=load
            and Load(
                plan=load[0], documents=load[1], finished=load[2], alone=False, synced=load[4]
            ),
            chance=old["chance"] and Chance(similarity=old["chance"][0], rows=old["chance"][1]),
            sources=tuple(
                Source(name, at, beside, ReadOptions(**dict(zip(OPTIONS, options, strict=True))))
                for name, at, beside, options in old["sources"]
            ),
        )


def _old_rows(
    generation: Path, old: Mapping[str, Any], manifest: Manifest, progress: Progress | None
) -> Iterator[tuple[Batch, NDArray[np.float32], list[int]]]:
    rows, held = old["rows"], manifest.configuration
    live, sources = np.ones(rows, np.bool_), np.zeros(rows, np.uint32)
    if old["deleted"] is not None:
        commit, _, crc = old["deleted"]
        file = generation / f"deleted-{commit:06}.bits"
        compare(file, crc)
        live = np.unpackbits(np.fromfile(file, np.uint8), count=rows) == 0
    if old["row_sources"] is not None:
        commit, crc = old["row_sources"]
        file = generation / f"sources-{commit:06}.bin"
        compare(file, crc)
        sources = np.fromfile(file, "<u4").astype(np.uint32)
    size, crc = old["vectors"]
    compare(generation / VECTORS, crc, size)
    vectors = RawVectors(generation / VECTORS, dim=held.dim, dtype=held.dtype, count=rows)
    first = 0
    for batch in _old_documents(generation, old, manifest.fields):
        end = first + len(batch)
        chosen = live[first:end]
        if chosen.any():
            found = vectors.read(first, end)[chosen]
            yield batch.only(chosen), found, sources[first:end][chosen].tolist()
        first = end
        if progress is not None:
            progress("documents copied", end / rows)
    if first != rows:
        raise InvalidFile(f"contains {first:,} documents, expected {rows:,}", file=str(generation))


def _old_documents(
    generation: Path, old: Mapping[str, Any], kinds: Mapping[str, Kind]
) -> Iterator[Batch]:
    for first, rows, size, crc, fields in old["documents"]:
        file = generation / f"documents-{first:012}-{rows}.arrow"
        compare(file, crc, size)
        with reading(str(file)), arrow_errors("not a file of documents, or damaged"):
            table = pa.ipc.open_file(pa.memory_map(str(file)))
            for at in range(table.num_record_batches):
                whole = table.get_batch(at)
                for start in range(0, len(whole), COPIED_ROWS):
                    part = whole.slice(start, COPIED_ROWS)
                    columns = {name: part.column(name) for name in fields}
                    numbers = np.arange(len(part))
                    ids, texts = part.column(ID), part.column(TEXT)
                    yield Batch("", texts, numbers, ids, columns, kinds=kinds)
