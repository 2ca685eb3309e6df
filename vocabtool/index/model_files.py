"""The files of a model that an index keeps, memory-mapped, so that no search reads a whole model.

    vocabulary-….arrow   the vocabulary, with sorted hashes of its entries
    weights-….arrow      word weights of a word-vector model, fitted on the corpus
    matrix-….npy         the word vectors; those of a large model are in the user's cache
    tokenizer-SHA256     copy of the FILE in a rule ``tokenizer:FILE``, named by its hash

The folder ``vectors`` in the user's cache has a file ``FINGERPRINT.npy`` for each large model. Such
a file may be missing; then it is made again from the model.

Files in the index are compared with their checksums when the index is opened, so their content is
not checked again. Of a file in the cache, only the header and the size are compared.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.encoders.encoder import FittedWeights, Vectors
from vocabtool.encoders.static import CACHED, VectorFile, cached_vectors, vectors_fingerprint
from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError, reading
from vocabtool.formats.binary_vectors import open_array
from vocabtool.formats.vocabulary_files import facts_of, with_facts
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.system.own_files import from_json, user_cache, whole_file
from vocabtool.vocabulary import Marker, Vocabulary

MAX_MATRIX: Final = 32 << 20  # bytes of a matrix in an index; a larger one is in the user's cache
FACTS: Final = b"vocabtool"  # key in the metadata of an Arrow file
HASH_BYTES: Final = 8
MANY: Final = 1_000  # entries of a call for which it pays to make a dictionary
DELETE_IT: Final = "delete this file: it is made again from the model"


@dataclass(eq=False, repr=False)
class MappedStrings(ByteStrings):
    """Byte strings in a memory-mapped file. A few are found without a dictionary of all of them.

    - ``data``: a ``memoryview`` of the file.
    - ``hashes``: uint64, shape (n,), ascending. ``order``: int32, shape (n,): their entries.
    """

    hashes: NDArray[np.uint64]
    order: NDArray[np.int32]

    def __reduce__(self) -> tuple[Any, ...]:
        return ByteStrings.of, ([*self],)  # a mapping cannot be pickled

    def find(self, entries: Sequence[bytes]) -> NDArray[np.int64]:
        if len(entries) > MANY:
            return super().find(entries)
        hashes = hashes_of(entries)
        first = np.searchsorted(self.hashes, hashes).tolist()
        last = np.searchsorted(self.hashes, hashes, "right").tolist()
        positions = np.full(len(entries), -1, np.int64)
        for number, (entry, start, end) in enumerate(zip(entries, first, last, strict=True)):
            for position in self.order[start:end].tolist():  # equal entries, or equal hashes
                if self[position] == entry:
                    positions[number] = position
                    break
        return positions


def hashes_of(entries: Iterable[bytes]) -> NDArray[np.uint64]:
    """Return a hash of each entry: uint64, shape (n,). Nobody can make many entries share one."""
    digests = (blake2b(entry, digest_size=HASH_BYTES).digest() for entry in entries)
    return np.frombuffer(b"".join(digests), "<u8")


def write_arrow(path: Path, columns: Mapping[str, pa.Array], facts: Mapping[str, Any]) -> None:
    batch = pa.record_batch(dict(columns)).replace_schema_metadata({FACTS: json.dumps(facts)})
    with whole_file(path) as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


def read_arrow(
    path: Path, types: Mapping[str, pa.DataType]
) -> tuple[pa.RecordBatch, dict[str, Any]]:
    """Return the columns, memory-mapped, and the facts. ``types``: those that a column may have."""
    try:
        with reading(str(path)):
            file = pa.ipc.open_file(pa.memory_map(str(path)))
            batch = file.get_batch(0)
            wanted = pa.schema({name: types[name] for name in batch.schema.names})
            if not batch.schema.equals(wanted):
                raise TypeError(f"wanted the columns {wanted}, got {batch.schema}")
            batch.validate()
            return batch, json.loads(batch.schema.metadata[FACTS])
    except (pa.ArrowException, ValueError, TypeError, LookupError) as error:
        raise InvalidFile(f"invalid or damaged: {error}", file=str(path)) from error


def numbers(column: pa.Array, dtype: Any, count: int | None = None) -> NDArray[Any]:
    """Return the first ``count`` numbers of a column, or all; ``to_numpy`` would load pandas."""
    count = len(column) if count is None else count
    values = column.buffers()[1]
    return np.frombuffer(values, dtype, count) if count else np.zeros(0, dtype)


VOCABULARY: Final = {
    "token": pa.large_binary(),
    "hash": pa.uint64(),
    "position": pa.int32(),
    "id": pa.int64(),
}
WEIGHTS: Final = {"position": pa.int64(), "count": pa.int64()}


def write_vocabulary(vocabulary: Vocabulary, path: Path) -> None:
    hashes = hashes_of(vocabulary.stored)
    order = np.argsort(hashes, kind="stable")  # equal entries: the first one first
    columns = {
        "token": vocabulary.stored.to_arrow(),
        "hash": pa.array(hashes[order]),
        "position": pa.array(order.astype(np.int32)),
    }
    if vocabulary.ids is not None:
        columns["id"] = pa.array(vocabulary.ids)
    others = {"first_id": vocabulary.first_id, "likely_marker": vocabulary.likely_marker}
    write_arrow(path, columns, {**facts_of(vocabulary), **others})


def read_vocabulary(path: Path) -> Vocabulary:
    """Open a vocabulary that :func:`write_vocabulary` wrote. Raises :class:`InvalidFile`."""
    columns, facts = read_arrow(path, VOCABULARY)
    tokens = columns["token"]
    bounds = numbers(tokens, np.int64, len(tokens) + 1)
    order = numbers(columns["position"], np.int32)
    hashes = numbers(columns["hash"], np.uint64)
    data = memoryview(tokens.buffers()[2] or b"")
    stored = MappedStrings(cast(bytes, data), bounds[:-1], bounds[1:], hashes, order)
    ids = numbers(columns["id"], np.int64) if "id" in columns.schema.names else None
    with reading(str(path)):
        if not 0 <= int(order.min(initial=0)) <= int(order.max(initial=0)) < max(len(stored), 1):
            raise InvalidFile("a position is out of range")
        first = from_json(int, facts.get("first_id"), "first_id")
        # To compute these again, all entries must be read.
        known = {
            "fingerprint": from_json(str, facts.get("fingerprint"), "fingerprint"),
            "likely_marker": from_json(Marker | None, facts.get("likely_marker"), "likely_marker"),
        }
        vocabulary = with_facts(Vocabulary("", "asset", stored, first, ids), facts)
    vars(vocabulary).update(known)
    return vocabulary


def write_weights(fitted: FittedWeights, path: Path) -> None:
    columns = {"position": pa.array(fitted.positions), "count": pa.array(fitted.counts)}
    names = ("documents", "vectors", "rule", "fingerprint")
    write_arrow(path, columns, {name: getattr(fitted, name) for name in names})


def read_weights(path: Path) -> FittedWeights:
    """Open weights that :func:`write_weights` wrote. Raises :class:`InvalidFile`."""
    columns, facts = read_arrow(path, WEIGHTS)
    with reading(str(path)):
        fitted = FittedWeights(
            documents=from_json(int, facts.get("documents"), "documents"),
            positions=numbers(columns["position"], np.int64),
            counts=numbers(columns["count"], np.int64),
            vectors=from_json(str, facts.get("vectors"), "vectors"),
            rule=from_json(str, facts.get("rule"), "rule"),
        )
        vars(fitted)["fingerprint"] = from_json(str, facts.get("fingerprint"), "fingerprint")
        return fitted


class VectorCopy(VectorFile):
    """A copy of the words and vectors of a model.

    ``file``: the ``.npy`` file with the matrix. ``vocabulary``: the file with the words.
    ``fingerprint``: that of the model. Raises :class:`InvalidFile` if the matrix has another type
    or size.
    """

    def __init__(self, file: Path, vocabulary: Path, fingerprint: str) -> None:
        self.file, self._vocabulary, self.fingerprint = file, vocabulary, fingerprint
        self.words, self.notes, self.converted = read_vocabulary(vocabulary), (), None
        with reading(str(file)):
            self.matrix: Vectors = np.asarray(open_array(file))
            rows, dtype = len(self.matrix), self.matrix.dtype
            if rows != len(self.words) or dtype != np.float32:
                what = f"{rows:,} rows of {dtype}, wanted {len(self.words):,} of float32"
                raise InvalidFile(f"damaged: {what}")

    def verify(self) -> None:
        """Read all vectors. Raises :class:`InvalidFile` if they are not those of the model."""
        fingerprint = vectors_fingerprint(self.words, self.matrix)
        if fingerprint != self.fingerprint:
            what = f"damaged: fingerprint {fingerprint[:12]}, expected {self.fingerprint[:12]}"
            raise InvalidFile(f"{what}; {DELETE_IT}", file=str(self.file))

    def __reduce__(self) -> tuple[Any, ...]:
        return VectorCopy, (self.file, self._vocabulary, self.fingerprint)


def write_matrix(vectors: VectorFile, path: Path) -> None:
    with whole_file(path) as file:
        np.save(file, vectors.matrix)


def keep_in_cache(vectors: VectorFile) -> None:
    """Store a matrix in the user's cache, unless it is there, or the cache cannot be written."""
    with suppress(OSError, VocabtoolError):  # a search then opens the model
        path = cached_vectors() / f"{vectors.fingerprint}.npy"
        if path.exists():
            return
        if vectors.converted is not None:
            with suppress(OSError):  # a file on another disk
                os.link(vectors.converted, path)
                return
        write_matrix(vectors, path)


def open_from_cache(vocabulary: Path, fingerprint: str) -> VectorCopy | None:
    """Open a copy of a model with its matrix in the user's cache; ``None`` if it is not there.

    Raises :class:`InvalidFile` if the matrix is damaged.
    """
    if re.fullmatch("[0-9a-f]{64}", fingerprint) is None:  # the manifest may be another's
        raise InvalidFile(f"damaged: {fingerprint[:70]!r} is no fingerprint", file=str(vocabulary))
    file = user_cache() / CACHED / f"{fingerprint}.npy"
    if not file.exists():
        return None
    try:
        return VectorCopy(file, vocabulary, fingerprint)
    except (InvalidFile, UnsupportedFormat) as error:
        if error.file != str(file):
            raise
        raise InvalidFile(f"{error.what}; {DELETE_IT}", file=str(file)) from error
