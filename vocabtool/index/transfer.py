"""Copy an index between a folder and an engine, or between engines.

The stored vectors are copied; terms and statistics are computed again. After an interruption, the
same call resumes the copy, or begins again if the index has a later commit.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
import orjson

from vocabtool.errors import FolderNotEmpty, InvalidFile, NotFound, VocabtoolError, reading
from vocabtool.index.commit_store import Contents, StoredRows
from vocabtool.index.documents import batches_of
from vocabtool.index.engines import engine_class, is_address
from vocabtool.index.folder import Load, Manifest, is_index, make_current, new_generation
from vocabtool.index.generation import FolderWriter, Progress
from vocabtool.index.index import Index
from vocabtool.index.maintenance import part_of, remove_leftovers
from vocabtool.index.sources import Source
from vocabtool.index.store_index import StoreIndex
from vocabtool.index.writer import Writer, after_other_change
from vocabtool.keywords.cutter import Cutter
from vocabtool.system.own_files import lock_folder, sync_folder, whole_file

COPIED: Final = "copy"  # begins the plan of a copy
COMMIT_ROWS: Final = 20_000  # documents between commits; an interruption loses at most these


def transfer(
    source: Index,
    new: str | Path,
    progress: Progress | None = None,
    *,
    commit_rows: int = COMMIT_ROWS,
) -> Index:
    """Copy the newest commit of ``source``: documents, vectors, fields, FILEs, answers, settings.

    At the end, the copy is verified, and read again to compare its checksum with the source.
    ``new``: a new folder or an address of an engine. A folder appears when it is complete; in an
    engine, others can open the incomplete copy. An unfinished copy of ``source`` is continued or
    begun again. Raises :class:`FolderNotEmpty` if the folder ``new`` is not empty, or if ``new`` is
    the address of another index.
    """
    with source.snapshot().contents() as held:
        plan = f"{COPIED}-{held.manifest.index}-{held.manifest.commit}"
        folder = None if is_address(new) else Path(os.path.abspath(new))  # noqa: PTH100 - links stay
        if folder is None:
            target = _in_engine(source, held.manifest, str(new), plan)
        else:
            target = _in_folder(source, held.manifest, folder, plan)
        copied = _fill(target, held, plan, commit_rows, progress)
        _check(target, copied, progress)
        with target.writer() as writer:
            writer.commit(_state(plan, copied.rows, finished=True))
        if (last := after_other_change(held.manifest.load)) is not None:
            with target.writer() as writer:
                writer.commit(last)
    if folder is None:
        return target
    with reading(str(folder)):
        target.path.rename(folder)
    sync_folder(folder.parent)
    return Index.open(folder)


def _in_engine(source: Index, manifest: Manifest, address: str, plan: str) -> Index:
    """Return the index to fill: a new index, or the index of an interrupted copy."""
    sources = (known.locate(source.path) for known in manifest.sources)
    made = _empty(manifest, [replace(each, beside=each.at) for each in sources])
    if (found := _resume_or_remove(manifest, made, address, plan)) is not None:
        return found
    files = _model_files(source, manifest)
    create = partial(engine_class(address).create, address, made, files, replaces=False)
    try:
        return StoreIndex(create())
    except FolderNotEmpty:  # the server has just finished what a killed copy had asked for
        found = _resume_or_remove(manifest, made, address, plan)
        return found if found is not None else StoreIndex(create())


def _resume_or_remove(manifest: Manifest, made: Manifest, address: str, plan: str) -> Index | None:
    """Return the index of an interrupted copy, or ``None`` if there is no index.

    An unfinished copy of an earlier commit is removed. Raises :class:`FolderNotEmpty` for any other
    index.
    """
    with suppress(NotFound):
        found = Index.open(address)
        with found.writer() as writer:
            load = writer.load_of(plan) or writer.manifest.load
        if load is None:
            held = replace(found.manifest, commit=0, codes=None, index=made.index)
            is_this = held == made
        else:
            is_this = load.plan == plan
        if is_this:
            return found
        of_commit = load is not None and load.plan.startswith(f"{COPIED}-{manifest.index}-")
        is_alone = load is not None and not load.finished and load.documents == len(found)
        if not (of_commit and is_alone and isinstance(found, StoreIndex)):
            raise FolderNotEmpty(f"{found.name}: already contains another index; use a new name")
        found.remove()
    return None


def _in_folder(source: Index, manifest: Manifest, new: Path, plan: str) -> Index:
    """Return the index to fill, in a folder beside ``new``: see :func:`_in_engine`."""
    part = part_of(new)
    if is_index(part):
        with suppress(NotFound, InvalidFile):
            found = Index.open(part)
            if found.manifest.load is not None and found.manifest.load.plan == plan:
                return found
    with reading(str(part)):
        part.mkdir(exist_ok=True)
    with lock_folder(part):
        remove_leftovers(part)
        for name, content in _model_files(source, manifest).items():
            with whole_file(part / name) as out:
                out.write(content)
        sources = (known.locate(source.path) for known in manifest.sources)
        made = _empty(
            manifest, [replace(each, beside=os.path.relpath(each.at, new)) for each in sources]
        )
        generation, final = new_generation(part)
        files = FolderWriter.create(generation, made, Cutter(made.configuration.language))
        try:
            files.index_fields()
            files.commit_changes(made)
        finally:
            files.close()
        make_current(generation, final)
    return Index.open(part)


def _empty(manifest: Manifest, sources: Sequence[Source]) -> Manifest:
    """Return the manifest of an index without documents, with the same settings."""
    return Manifest(
        index=uuid.uuid4().hex,
        configuration=manifest.configuration,
        fields=manifest.fields,
        model_files=manifest.model_files,
        calibration=manifest.calibration,
        chance=manifest.chance,
        sources=(*sources,),
        searched_fields=manifest.searched_fields,
    )


def _model_files(source: Index, manifest: Manifest) -> dict[str, bytes]:
    return {name: (source.path / name).read_bytes() for name in manifest.model_files}


class _Checksum:
    """A checksum of documents, vectors and FILE numbers in row order; the same in every store."""

    def __init__(self) -> None:
        self.rows, self._hash = 0, blake2b(digest_size=16)

    def add(self, rows: StoredRows) -> None:
        for at, (document, source) in enumerate(zip(rows.documents, rows.sources, strict=True)):
            fields = {name: _storable(value) for name, value in document.fields.items()}
            told = [_storable(document.id), _storable(document.text), source, fields]
            self._hash.update(orjson.dumps(told, option=orjson.OPT_SORT_KEYS) + b"\n")
            vector = rows.vectors[at] + np.float32(0)  # -0 is 0
            self._hash.update(vector.tobytes())
        self.rows += len(rows.documents)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _storable(value: object) -> object:
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value  # as in PostgreSQL


def _fill(
    target: Index, held: Contents, plan: str, commit_rows: int, progress: Progress | None
) -> _Checksum:
    """Add the documents that are not in the copy yet; return the checksum of all documents."""
    copied = _Checksum()
    with target.writer(progress) as writer:
        load = writer.load_of(plan)
        done = load.documents if load is not None and load.plan == plan else 0
        if done != writer.manifest.live:
            what = f"it has {writer.manifest.live:,} documents, but {done:,} were copied"
            raise VocabtoolError(f"{target.name}: somebody changed the copy: {what}")
        committed = done
        for rows in held.rows:
            first = copied.rows
            copied.add(rows)
            if copied.rows > done:
                _add(writer, rows, max(0, done - first))
            if copied.rows - committed >= commit_rows:
                committed = copied.rows
                writer.commit(_state(plan, committed), codes=False)
            if progress is not None:
                progress("documents copied", copied.rows / max(held.manifest.live, 1))
        for answer in held.answers:
            if writer.answer_for(answer[0]) is None:
                writer.remember(*answer)
        if load is None or not load.finished:
            writer.commit(_state(plan, copied.rows))
    return copied


def _state(plan: str, documents: int, *, finished: bool = False) -> Load:
    return Load(plan=plan, documents=documents, finished=finished, alone=False, synced=False)


def _add(writer: Writer, rows: StoredRows, first: int) -> None:
    """Add rows from ``first`` on."""
    at = first
    for batch in batches_of(rows.documents[first:]):
        end = at + len(batch)
        writer.add_stored(batch, rows.vectors[at:end], rows.sources[at:end])
        at = end


def _check(target: Index, copied: _Checksum, progress: Progress | None) -> None:
    """Read the copy again. Raises :class:`InvalidFile` if it differs."""
    target.verify(progress)
    found = _Checksum()
    with target.snapshot().contents() as held:
        for rows in held.rows:
            found.add(rows)
    if (found.rows, found.digest) != (copied.rows, copied.digest):
        what = f"{found.rows:,} documents with the checksum {found.digest}"
        wanted = f"{copied.rows:,} with {copied.digest}"
        raise InvalidFile(
            f"the copy differs: {what}, expected {wanted}. Remove it, and copy again",
            file=target.name,
        )
