"""A finished folder of shards, read: the public ``Shards``. Opening it verifies it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vocabtool.documents.files import arrow_errors
from vocabtool.documents.reading import Document
from vocabtool.embedding.encoding import UNKNOWN, VECTOR, Counts, schema_of
from vocabtool.embedding.folder import RUN, Manifest, read_manifest, read_plan
from vocabtool.embedding.plan import Plan
from vocabtool.embedding.shard_files import read_shard
from vocabtool.embedding.slabs import ID, TEXT
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, NotFound, reading
from vocabtool.system.checksums import compare

if TYPE_CHECKING:
    import pyarrow as pa


class Shards:
    """The documents of a finished run and their vectors. Made by :meth:`open`.

    ``plan``: what the run was; ``manifest``: its shards, and what they hold.
    """

    def __init__(self, path: Path, plan: Plan, manifest: Manifest) -> None:
        self.path = path
        self.plan = plan
        self.manifest = manifest

    @classmethod
    def open(cls, path: str | Path) -> Shards:
        """Open a folder and check that every shard is there, whole, and of this run.

        The content itself is checked by Parquet's page checksums when it is read, and all of it by
        :meth:`verify`. Raises :class:`NotFound` where a run is not finished, :class:`InvalidFile`,
        which names the file, where something was changed since.
        """
        folder = Path(path)
        manifest = read_manifest(folder)
        if manifest is None:
            begun = (folder / RUN).exists()
            what = "a run that is not finished: run the same command again" if begun else "no run"
            raise NotFound(f"{folder}: {what}")
        plan = read_plan(folder)
        if plan is None or plan.fingerprint != manifest.run:
            what = "another run than that of the manifest" if plan else "missing"
            raise InvalidFile(what, file=str(folder / RUN))
        for shard in manifest.shards:
            found = read_shard(folder / shard.file)
            if found != shard:
                what = f"a shard of another run ({found.run[:16]})"
                raise InvalidFile(
                    what if found.run != shard.run else "not the shard that was written here",
                    file=str(folder / shard.file),
                )
        return cls(folder, plan, manifest)

    def __len__(self) -> int:
        return self.counts.documents

    @property
    def counts(self) -> Counts:
        """What the run counted."""
        return self.manifest.counts

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return self.plan.dim

    def verify(self) -> None:
        """Compare the checksum of every byte. Raises :class:`InvalidFile`, which names the file."""
        for shard, wanted in zip(self.manifest.shards, self.manifest.checksums, strict=True):
            compare(self.path / shard.file, wanted)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows in order, a row group at a time; ``columns``: which, without: all.

        Columns: ``id`` (string), ``vector`` (fixed-size list of float32 or float16), ``unknown``
        (list of string; where the model's words are known), ``text`` (string; unless left out),
        and the kept fields (string, null where missing). Raises :class:`InvalidFile`.
        """
        from pyarrow import parquet

        names = list(columns) if columns is not None else None
        for shard in self.manifest.shards:
            file = self.path / shard.file
            with reading(str(file)), arrow_errors("damaged"), file.open("rb") as opened:
                rows = parquet.ParquetFile(opened, page_checksum_verification=True)
                held = rows.schema_arrow
                if held != schema_of(self.plan, with_words=UNKNOWN in held.names):
                    raise InvalidFile("damaged: other columns than those of its run")
                for group in range(rows.num_row_groups):
                    yield from rows.read_row_group(group, names).to_batches()

    def vectors(self) -> Iterator[Vectors]:
        """The vectors in order, a row group at a time: float32, shape (n, dim)."""
        for batch in self.batches([VECTOR]):
            yield vectors_of(batch)

    def documents(self) -> Iterator[Document]:
        """The documents in order; ``fields`` holds all but id and text, the vector as an array."""
        for batch in self.batches():
            others = [name for name in batch.schema.names if name not in (ID, VECTOR, TEXT)]
            columns = [batch.column(name).to_pylist() for name in others]
            texts = batch.column(TEXT).to_pylist() if self.plan.text else [""] * len(batch)
            ids = batch.column(ID).to_pylist()
            for row, vector in enumerate(vectors_of(batch)):
                fields = {name: column[row] for name, column in zip(others, columns, strict=True)}
                yield Document(ids[row], texts[row], {VECTOR: vector, **fields})


def vectors_of(batch: pa.RecordBatch) -> Vectors:
    """The vectors of a batch of rows: float32, shape (n, dim)."""
    column = batch.column(VECTOR)
    vectors: Vectors = column.flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)
    return vectors.astype(np.float32, copy=False)
