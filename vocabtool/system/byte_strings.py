"""Many byte strings in one buffer: the storage of a vocabulary's entries.

Entry ``i`` is ``data[starts[i]:ends[i]]``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = NDArray[np.signedinteger[Any]]

CHUNK = 1 << 14  # entries processed at a time: larger arrays would need new memory pages each time
LONG = 64  # bytes; entries of this length or more are few, so they are compared in plain Python
HASH_BYTES = 8
MANY = 1_000  # entries of a call for which it pays to make a dictionary
PIECE = 1 << 20  # bytes copied at a time by an index array, which has 8 bytes for each of them


@dataclass(eq=False, repr=False)
class ByteStrings:
    """An immutable sequence of byte strings over one buffer.

    ``starts`` and ``ends``: integer arrays of shape (n,), positions in ``data``. The entries may
    be in any order in ``data``, with other bytes between them.
    """

    data: bytes
    starts: Offsets
    ends: Offsets

    @classmethod
    def of(cls, strings: Iterable[bytes]) -> ByteStrings:
        """Copy byte strings into one buffer; the iterable is consumed in chunks."""
        data, lengths = bytearray(), array("i")
        remaining = iter(strings)
        while chunk := list(islice(remaining, CHUNK)):
            data += b"".join(chunk)
            lengths.extend(map(len, chunk))
        dtype = np.dtype(np.int32 if len(data) < 1 << 31 else np.int64)
        ends = np.cumsum(np.frombuffer(lengths, np.int32), dtype=dtype)
        return cls(bytes(data), np.append(dtype.type(0), ends[:-1])[: len(ends)], ends)

    @classmethod
    def contiguous(cls, data: bytes, ends: Offsets) -> ByteStrings:
        """Create entries without gaps: entry ``i`` begins where entry ``i - 1`` ends."""
        starts = np.zeros_like(ends)
        starts[1:] = ends[:-1]
        return cls(data, starts, ends)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> bytes:
        return bytes(self.data[int(self.starts[index]) : int(self.ends[index])])

    def __iter__(self) -> Iterator[bytes]:
        data = self.data
        for at in range(0, len(self), CHUNK):
            starts, ends = self.starts[at : at + CHUNK], self.ends[at : at + CHUNK]
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                yield bytes(data[start:end])  # the data may be memory-mapped

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ByteStrings):
            return NotImplemented
        return (
            len(self) == len(other)
            and bool(np.array_equal(self.lengths, other.lengths))
            and self.sha256 == other.sha256
        )

    def __hash__(self) -> int:
        return hash(self.sha256)

    @property
    def lengths(self) -> Offsets:
        """The length of each entry in bytes, shape (n,)."""
        lengths: Offsets = self.ends - self.starts
        return lengths

    @cached_property
    def positions(self) -> dict[bytes, int]:
        """The position of each entry; the first position if the entry is repeated."""
        positions: dict[bytes, int] = {}
        for position, entry in enumerate(self):
            positions.setdefault(entry, position)
        return positions

    def find(self, entries: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the first position of each of n entries, or -1: int64, shape (n,)."""
        positions = map(self.positions.get, entries, repeat(-1))
        return np.fromiter(positions, np.int64, len(entries))

    def take(self, indices: NDArray[np.integer[Any]] | slice) -> ByteStrings:
        """Return the entries at ``indices``, in the order of ``indices``, without copying bytes."""
        return ByteStrings(self.data, self.starts[indices], self.ends[indices])

    def pieces(self, terminator: bytes = b"\n") -> Iterator[bytes]:
        """Yield the entries as large blocks. ``terminator``, one byte or empty, follows each."""
        for at in range(0, len(self), CHUNK):
            chunk = ByteStrings(self.data, self.starts[at : at + CHUNK], self.ends[at : at + CHUNK])
            # Between entries there is 1 byte in a file of lines, 2 in a protobuf of short strings.
            gaps = chunk.starts[1:] - chunk.ends[:-1]
            gap = int(gaps[0]) if len(gaps) and gaps.min() == gaps.max() else 0
            if int(chunk.lengths.sum()) > PIECE:
                yield b"".join(entry + terminator for entry in chunk)
            elif len(terminator) == 1 and gap in (1, 2):  # copy the buffer and fill the gaps
                first, last = int(chunk.starts[0]), int(chunk.ends[-1])
                piece = np.empty(last - first + 1, np.uint8)
                piece[:-1] = np.frombuffer(self.data, np.uint8)[first:last]
                ends = chunk.ends - first
                piece[ends] = terminator[0]
                if gap == 2:
                    kept = np.ones(len(piece), np.bool_)
                    kept[ends[:-1] + 1] = False
                    piece = piece.compress(kept)
                yield piece.tobytes()
            elif not self.data:
                yield terminator * len(chunk)
            else:  # gather scattered entries through an index of every byte
                starts, extra = chunk.starts.astype(np.int64), len(terminator)
                lengths = chunk.ends - starts
                stops = np.cumsum(lengths + extra)
                source = np.repeat(starts - (stops - lengths - extra), lengths + extra)
                source += np.arange(len(source))
                piece = np.frombuffer(self.data, np.uint8).take(source, mode="clip")
                if extra:
                    piece[stops - 1] = terminator[0]
                yield piece.tobytes()

    def to_arrow(self) -> pa.LargeBinaryArray:
        """Return the entries as an Arrow array of ``large_binary``."""
        import pyarrow as pa

        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        # `pa.array` loads pandas, which takes a third of a second.
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(self.pieces(b"")))]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self), buffers)

    @cached_property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the entries joined by ``\\n``."""
        import hashlib

        digest = hashlib.sha256()
        last = b""
        for piece in self.pieces():
            digest.update(last)
            last = piece
        digest.update(last[:-1])
        return digest.hexdigest()

    def equal_to(self, entry: bytes) -> NDArray[np.bool_]:
        """Compare each entry with ``entry``: bool, shape (n,), true where they are equal."""
        equal = self.lengths == len(entry)
        same_length = np.flatnonzero(equal)
        if len(entry) and len(same_length):
            rows = _rows(self.data, self.starts[same_length], len(entry))
            equal[same_length] = (rows == np.frombuffer(entry, np.uint8)).all(axis=1)
        return np.asarray(equal, np.bool_)

    @cached_property
    def distinct(self) -> int:
        """Number of distinct entries."""
        lengths = self.lengths
        count = 0
        short = lengths < LONG
        # np.unique would load numpy.ma
        for length in np.flatnonzero(np.bincount(lengths[short])).tolist():
            count += 1
            if length:
                rows = _rows(self.data, self.starts[lengths == length], length)
                rows = np.sort(rows.view(f"S{length}").ravel())
                count += int((rows[1:] != rows[:-1]).sum())
        return count + len({self[int(i)] for i in np.flatnonzero(~short)})

    @cached_property
    def not_utf8(self) -> NDArray[np.int64]:
        """Indices of the entries that are not valid UTF-8: int64, ascending."""
        indices = array("q")
        for number, piece in enumerate(self.pieces()):
            if not _is_utf8(piece):
                at = number * CHUNK
                stop = min(at + CHUNK, len(self))
                entries = piece.split(b"\n")[:-1]
                if len(entries) != stop - at:  # some entries contain newlines
                    entries = [self[i] for i in range(at, stop)]
                indices.extend(i for i, entry in enumerate(entries, at) if not _is_utf8(entry))
        return np.frombuffer(indices, np.int64)


def _rows(data: bytes, starts: Offsets, length: int) -> NDArray[np.uint8]:
    """Return the ``length`` bytes that begin at each start: uint8, shape (n, length)."""
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), length)
    rows: NDArray[np.uint8] = windows[starts]
    return rows


def _is_utf8(entry: bytes) -> bool:
    try:
        entry.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(eq=False, repr=False)
class MappedStrings(ByteStrings):
    """Byte strings in a memory-mapped file. A few are found without a dictionary of all of them.

    ``hashes``: uint64, shape (n,), ascending. ``order``: int32, shape (n,): their entries.
    """

    hashes: NDArray[np.uint64]
    order: NDArray[np.int32]

    def __reduce__(self) -> tuple[Any, ...]:
        return ByteStrings.of, ([*self],)  # a mapping cannot be pickled

    def find(self, entries: Sequence[bytes]) -> NDArray[np.int64]:
        if len(entries) > MANY:
            return super().find(entries)
        hashes = hashes_of(entries)
        first = self.hashes.searchsorted(hashes).tolist()
        last = self.hashes.searchsorted(hashes, "right").tolist()
        positions = [-1] * len(entries)
        for number, (entry, start, end) in enumerate(zip(entries, first, last, strict=True)):
            for position in self.order[start:end].tolist():  # equal entries, or equal hashes
                if self[position] == entry:
                    positions[number] = position
                    break
        return np.array(positions, np.int64)


def hashes_of(entries: Iterable[bytes]) -> NDArray[np.uint64]:
    """Return a hash of each entry: uint64, shape (n,). Nobody can make many entries share one."""
    from hashlib import blake2b  # takes 4 MB, and only an index of word vectors needs it

    digests = [blake2b(entry, digest_size=HASH_BYTES).digest() for entry in entries]
    return np.frombuffer(b"".join(digests), "<u8")
