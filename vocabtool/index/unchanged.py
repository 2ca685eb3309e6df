"""Which of the documents that a load brings are in the index already, with the same content.

They are compared by the hashes of ``row_hashes.py``, with the commit that the load began with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.index.document_columns import ID, DocumentRows
from vocabtool.index.row_hashes import Hashes, hashes_of
from vocabtool.index.snapshot import Snapshot
from vocabtool.index.vectors.metric import as_stored, prepared
from vocabtool.system.ranked import Rows

if TYPE_CHECKING:
    import pyarrow as pa

NONE = -1


class Compared(NamedTuple):
    """Some documents beside the index: each an array of shape (n,).

    ``there``: the row that has the id, -1: none. ``same``: whether it has the same content.
    ``twin``: a row of the same text, whose vector is that of the document too; -1: none.
    """

    there: Rows
    same: NDArray[np.bool_]
    twin: Rows


class Held:
    """The documents of one commit. Several threads may ask.

    ``encoded_rows``: shape (rows,), whose vectors the encoder made for sure: of documents of FILEs,
    not of those that came in Python, perhaps with vectors. Held in memory are the ids and 32 bytes
    a document.
    """

    def __init__(self, snapshot: Snapshot, encoded_rows: NDArray[np.bool_]) -> None:
        import pyarrow as pa

        self._snapshot = snapshot
        self._hashes: Hashes = snapshot.hashes
        ids: pa.ChunkedArray = snapshot.documents.column(ID)
        self._ids = ids.cast(pa.large_string()).combine_chunks()
        rows = snapshot.live_rows()
        keys = [_keys(block) for block in snapshot.documents.all_ids()]
        self._by_id = _Lookup(np.concatenate([np.zeros(0, np.int64), *keys])[rows], rows)
        encoded = rows[encoded_rows[rows]]
        self._by_text = _Lookup(self._hashes[encoded, 0], encoded)

    def compared(self, documents: DocumentRows, vectors: Vectors | None = None) -> Compared:
        """Compare documents: in UTF-8. ``vectors``: those that they come with, shape (n, dim)."""
        import pyarrow as pa
        import pyarrow.compute as pc

        there = self._by_id.rows(_keys(documents.ids))
        ids = documents.ids.cast(pa.large_string())
        held = self._ids.take(pa.array(np.maximum(there, 0))) if len(self._ids) else ids
        there[~np.asarray(pc.equal(held, ids))] = NONE  # two ids of one hash
        hashes = hashes_of(documents)
        twin = self._by_text.rows(hashes[:, 0])
        twin[~self._equal(twin, hashes, slice(0, 2))] = NONE
        same = self._equal(there, hashes, slice(0, 4))
        if vectors is not None:
            same &= self._have(there, vectors)
        return Compared(there, same, twin)

    def vectors(self, rows: Rows) -> Vectors:
        """The vectors of some rows, prepared: float32, shape (n, dim)."""
        return self._snapshot.vectors.raw.take(rows)

    def _equal(self, rows: Rows, hashes: Hashes, columns: slice) -> NDArray[np.bool_]:
        equal = rows >= 0
        found = self._hashes[rows[equal], columns] == hashes[equal, columns]
        equal[equal] = found.all(axis=1)
        return equal

    def _have(self, rows: Rows, vectors: Vectors) -> NDArray[np.bool_]:
        """Whether rows are stored with these vectors."""
        held = self._snapshot.manifest.configuration
        equal = rows >= 0
        new = as_stored(prepared(vectors[equal], held.metric), held.dtype)
        equal[equal] = (self.vectors(rows[equal]) == new).all(axis=1)
        return equal


class _Lookup:
    """Rows by keys of 64 bits; of several rows of one key any."""

    def __init__(self, keys: NDArray[np.int64] | NDArray[np.uint64], rows: Rows) -> None:
        order = np.argsort(keys)
        self._keys, self._rows = keys[order], rows[order]

    def rows(self, keys: NDArray[np.int64] | NDArray[np.uint64]) -> Rows:
        """The row of each key, -1 where there is none."""
        if not len(self._keys):
            return np.full(len(keys), NONE, np.int64)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[places] == keys, self._rows[places], NONE)


def _keys(ids: pa.StringArray) -> NDArray[np.int64]:
    """Python's own hash of each id (SipHash, keyed anew in each process)."""
    import pyarrow as pa

    return np.fromiter(map(hash, ids.view(pa.binary()).to_pylist()), np.int64, len(ids))
