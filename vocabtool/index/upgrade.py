"""Folders of version 0.1.0 made into what an index is now. Nothing else reads their format.

    manifest.json               JSON with a checksum: the commit, and all files below by number
    generation-000000/
        documents-….arrow       Arrow IPC: id, text and fields, all of them strings
        vectors.bin             as now
        deleted-000007.bits     one bit a row
        sources-000007.bin      4 bytes a row: the number of its FILE, 0: of none
        keywords/, codes, hashes.bin    are made anew

Documents, ids, fields, FILEs, vectors, calibration and the facts of the model are taken over
without the encoder; deleted rows are left out. The new generation is written beside the old one,
and its renaming makes it the index.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import google_crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.documents.files import arrow_errors
from vocabtool.documents.options import ReadOptions
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError, reading
from vocabtool.index.documents import ID, TEXT, DocumentRows, FieldColumn, Kind, union
from vocabtool.index.folder import (
    AS_IT_WAS,
    OLD_MANIFEST,
    VECTORS,
    Chance,
    Configuration,
    Load,
    Manifest,
    make_current,
    new_generation,
    read_commit,
    recover,
)
from vocabtool.index.generation import GenerationWriter, Progress
from vocabtool.index.maintenance import CompactReport
from vocabtool.index.raw_vectors import RawVectors
from vocabtool.index.sources import Source
from vocabtool.keywords.cutter import Cutter
from vocabtool.search.settings import Calibration
from vocabtool.system.own_files import checksum, compare, from_json, lock_folder, whole_file

OLD_FORMAT: Final = 3
COPIED_ROWS: Final = 4096
OPTIONS: Final = ("field", "format", "id_field", "keep", "on_error", "on_duplicate")


def upgrade(path: str | Path, progress: Progress | None = None) -> CompactReport:
    """Make the index of version 0.1.0 in a folder one that is read now; what was left out and in.

    Its deleted rows are left out. Raises :class:`VocabtoolError` where the folder needs no upgrade,
    :class:`NotFound` where it is no index, :class:`InvalidFile` with the file that is damaged,
    :class:`FolderInUse` where another process writes.
    """
    path = Path(path)
    if not (path / OLD_MANIFEST).is_file():
        read_commit(path)  # raises where it is no index
        raise VocabtoolError(f"{path}: is of this version: there is nothing to upgrade")
    with lock_folder(path):
        try:
            recover(path, read_commit(path))  # of an upgrade that was killed when it was done
        except InvalidFile:
            pass
        else:
            raise VocabtoolError(f"{path}: is of this version: there is nothing to upgrade")
        old = _read_manifest(path / OLD_MANIFEST)
        generation = path / f"generation-{old['generation']:06}"
        if not generation.is_dir():
            raise NotFound(f"{generation}: no such folder")
        manifest = _manifest(path, old)
        part, final = new_generation(path)
        files = GenerationWriter.create(part, manifest, Cutter(manifest.configuration.language))
        try:
            for rows, vectors, sources in _blocks(generation, old, files.manifest, progress):
                files.append(rows, vectors, sources)
            files.index_fields()
            files.commit(files.manifest, np.zeros(files.rows, np.bool_), progress=progress)
        finally:
            files.close()
        for name, new_name in _model_files(path, old).items():
            if name != new_name:
                with (path / name).open("rb") as source, whole_file(path / new_name) as copy:
                    shutil.copyfileobj(source, copy)
        make_current(part, final)
        recover(path, read_commit(path))
        return CompactReport(old["rows"] - files.rows, files.rows)


def _read_manifest(file: Path) -> dict[str, Any]:
    with reading(str(file)):
        try:
            old: dict[str, Any] = json.loads(file.read_bytes())
            crc, version = old.pop("crc32c"), old["vocabtool_index"]
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise InvalidFile(f"not a manifest of `vocabtool index`: {error}") from error
        if version != OLD_FORMAT:
            raise InvalidFile(
                f"of format {version!r}, wanted {OLD_FORMAT}: it cannot be upgraded: {AS_IT_WAS}"
            )
        if int(google_crc32c.value(json.dumps(old).encode())) != crc:
            raise InvalidFile("damaged: its checksum does not fit")
        return old


def _manifest(path: Path, old: dict[str, Any]) -> Manifest:
    """What is carried over of the manifest."""
    held = dict(old["configuration"])
    is_static = held["encoder"] is not None and held["rule"] is not None
    held |= {
        "cutter": Cutter(held["language"]).fingerprint,
        "kind": "static" if is_static else None,
    }
    calibration, load = old["calibration"], old["load"]
    names = Calibration.__dataclass_fields__
    with reading(str(path / OLD_MANIFEST)):
        return Manifest(
            index=old["index"],
            configuration=from_json(Configuration, held, "configuration"),
            commit=old["commit"] + 1,
            fields=_kinds(old),
            model_files={
                new: old["model_files"][name] for name, new in _model_files(path, old).items()
            },
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


def _model_files(path: Path, old: Mapping[str, Any]) -> dict[str, str]:
    """The files of the model, whole, and what each is called now: its checksum is in the name."""
    found = {}
    for name, crc in old["model_files"].items():
        if checksum(path / name) != crc:
            raise InvalidFile("damaged: its checksum does not fit", file=str(path / name))
        stem, dot, suffix = name.partition(".")
        found[name] = f"{stem}-{crc:08x}.{suffix}" if dot else name
    return found


def _kinds(old: Mapping[str, Any]) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for *_, fields in old["documents"]:
        for name, kind in fields.items():
            kinds[name] = union(kinds.get(name, "null"), kind)
    return kinds


def _blocks(
    generation: Path, old: Mapping[str, Any], manifest: Manifest, progress: Progress | None
) -> Iterator[tuple[DocumentRows, NDArray[np.float32], list[int]]]:
    """The documents that are not deleted, their vectors and the numbers of their FILEs."""
    rows, held = old["rows"], manifest.configuration
    live = ~_read_deleted(generation, old)
    sources = _sources(generation, old)
    size, crc = old["vectors"]
    compare(generation / VECTORS, crc, size)
    vectors = RawVectors(generation / VECTORS, dim=held.dim, dtype=held.dtype, count=rows)
    first = 0
    for part in _documents(generation, old, manifest.fields):
        end = first + len(part)
        chosen = live[first:end]
        if chosen.any():
            found = np.concatenate([block for _, block in vectors.blocks(first, end)])
            yield part.only(chosen), found[chosen], sources[first:end][chosen].tolist()
        first = end
        if progress is not None:
            progress("documents copied", end / rows)
    if first != rows:
        raise InvalidFile(f"{first:,} documents, wanted {rows:,}", file=str(generation))


def _documents(
    generation: Path, old: Mapping[str, Any], kinds: Mapping[str, Kind]
) -> Iterator[DocumentRows]:
    for first, rows, size, crc, fields in old["documents"]:
        file = generation / f"documents-{first:012}-{rows}.arrow"
        compare(file, crc, size)
        with reading(str(file)), arrow_errors("no file of documents, or damaged"):
            table = pa.ipc.open_file(pa.memory_map(str(file)))
            for at in range(table.num_record_batches):
                whole = table.get_batch(at)
                for start in range(0, len(whole), COPIED_ROWS):
                    part = whole.slice(start, COPIED_ROWS)
                    columns = {name: FieldColumn(part.column(name), kinds[name]) for name in fields}
                    yield DocumentRows(part.column(ID), part.column(TEXT), columns)


def _read_deleted(generation: Path, old: Mapping[str, Any]) -> NDArray[np.bool_]:
    if old["deleted"] is None:
        return np.zeros(old["rows"], np.bool_)
    commit, _, crc = old["deleted"]
    file = generation / f"deleted-{commit:06}.bits"
    compare(file, crc)
    return np.unpackbits(np.fromfile(file, np.uint8), count=old["rows"]).astype(np.bool_)


def _sources(generation: Path, old: Mapping[str, Any]) -> NDArray[np.uint32]:
    if old["row_sources"] is None:
        return np.zeros(old["rows"], np.uint32)
    commit, crc = old["row_sources"]
    file = generation / f"sources-{commit:06}.bin"
    compare(file, crc)
    return np.fromfile(file, "<u4").astype(np.uint32)
