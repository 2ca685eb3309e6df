"""Double-array tries: every key and its value, out of nothing but the array.

Layout: darts-clone (github.com/s-yata/darts-clone, include/darts.h). A unit of 32 bits is

    a node   bits 0-7 its label, the last byte of the key so far; bit 8: a key ends here;
             bit 9 and bits 10-30: the offset, 256 times larger when bit 9 is set
    a value  bit 31 set, the value in bits 0-30

Node ``n`` has base ``n ^ offset``: its child for byte ``c`` is unit ``base ^ c`` if that unit's
label is ``c``, its value is unit ``base``. A trie only answers "is this a key?"; here the
question is turned round: a child knows its label, hence its parent's base, so sorting all units
by that base once puts the children of every node side by side.

Looking one key up, and what the values mean, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.system.byte_strings import ByteStrings

VALUE: Final = 1 << 31
HAS_VALUE: Final = 1 << 8
FAR: Final = 1 << 9
LABEL: Final = VALUE | 0xFF  # so that a value never looks like a label

MAX_UNITS: Final = 1 << 26  # 16 for each of TensorFlow Text's at most 2^22 wordpieces
MAX_KEY: Final = 8192  # bytes; SentencePiece refuses pieces of 8,000
# darts-clone joins equal endings, so keys may be more than units: some 85,000 punctuation marks
# and Chinese characters lie in the trie of a tokenizer of nine words.
SHARED_NODES: Final = 1 << 18
KEY_BYTES_PER_UNIT: Final = 16
SHARED_KEY_BYTES: Final = 1 << 22

CHUNK: Final = 1 << 16  # nodes expanded at a time, so that temporary arrays stay small


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The nodes that lie equally deep: the index of each one's parent, and its label."""

    parents: NDArray[np.int32]
    labels: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """The values below a root, shortest keys first; keys are spelled only when asked for.

    ``values``, ``lengths`` (of the key, in bytes): int32, shape (n,). ``nodes``: the index of
    each one's node in its level. ``levels``: from depth 1 on.
    """

    values: NDArray[np.int32]
    lengths: NDArray[np.int32]
    nodes: NDArray[np.int32]
    levels: tuple[Level, ...]
    max_bytes: int

    def __len__(self) -> int:
        return len(self.values)

    def keys(self, chosen: NDArray[np.bool_] | None = None, prefix: bytes = b"") -> ByteStrings:
        """Spell the keys of the ``chosen`` leaves (a mask of shape (n,)), each behind ``prefix``.

        Raises :class:`InvalidFile` when they are longer together than an honest array's.
        """
        kept = np.flatnonzero(np.ones(len(self), np.bool_) if chosen is None else chosen)
        lengths = self.lengths[kept]
        total = int(lengths.sum(dtype=np.int64)) + len(prefix) * len(kept)
        if total > self.max_bytes:
            raise InvalidFile(
                f"the keys of a trie take {total:,} bytes, wanted at most {self.max_bytes:,}"
            )
        ends = np.cumsum(lengths + len(prefix), dtype=np.int32)
        starts, nodes = ends - lengths, self.nodes[kept]
        data = np.zeros(total, np.uint8)
        for at, byte in enumerate(prefix):
            data[starts - len(prefix) + at] = byte
        # All keys from their last bytes to their first, climbing from level to level.
        deepest = int(lengths[-1]) if len(lengths) else 0
        for depth in range(deepest, 0, -1):
            level = self.levels[depth - 1]
            deep = slice(int(np.searchsorted(lengths, depth)), None)
            data[starts[deep] + (depth - 1)] = level.labels[nodes[deep]]
            nodes[deep] = level.parents[nodes[deep]]
        return ByteStrings.contiguous(data.tobytes(), ends)


class DoubleArray:
    """A trie over ``units``: uint32, shape (n,). Raises :class:`InvalidFile` on 0 or too many."""

    def __init__(self, units: NDArray[np.uint32]) -> None:
        if not 0 < len(units) <= MAX_UNITS:
            raise InvalidFile(f"a trie of {len(units):,} units, wanted 1 to {MAX_UNITS:,}")
        self.units = units
        labels = units & np.uint32(LABEL)
        children = np.flatnonzero((labels > 0) & (labels < 256)).astype(np.uint32)
        labels = labels[children]
        edges = (children ^ labels).astype(np.uint64) << np.uint64(8) | labels
        edges.sort()
        self._bases = (edges >> np.uint64(8)).astype(np.uint32)  # of the parent, ascending
        self._labels = (edges & np.uint64(0xFF)).astype(np.uint8)

    def walk(self, root: int = 0) -> Leaves:
        """Find every value below unit ``root``, level by level, shortest keys first.

        Raises :class:`InvalidFile` when the array has no such unit, refers outside itself, runs
        in a circle, or joins endings beyond reason.
        """
        if not 0 <= root < len(self.units):
            raise InvalidFile(f"a trie of {len(self.units):,} units has no unit {root:,}")
        room = len(self.units) + SHARED_NODES
        levels: list[Level] = []
        leaves: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
        nodes = np.array([root], np.uint32)
        while len(nodes):
            bases = self._bases_of(nodes)
            leaves.append(self._leaves(nodes, bases))
            level = self._children(bases, room)
            nodes = bases[level.parents] ^ level.labels
            levels.append(level)
            room -= len(nodes)
            if len(levels) > MAX_KEY and len(nodes):
                raise InvalidFile(
                    f"a key of a trie is longer than {MAX_KEY:,} bytes: it may run in a circle"
                )
        counts = [len(nodes) for nodes, _ in leaves]
        return Leaves(
            np.concatenate([values for _, values in leaves]),
            np.repeat(np.arange(len(leaves), dtype=np.int32), counts),
            np.concatenate([nodes for nodes, _ in leaves]),
            tuple(levels),
            KEY_BYTES_PER_UNIT * len(self.units) + SHARED_KEY_BYTES,
        )

    def _bases_of(self, nodes: NDArray[np.uint32]) -> NDArray[np.uint32]:
        units = self.units[nodes]
        far = (units & np.uint32(FAR)) >> np.uint32(6)  # 8 or 0
        bases: NDArray[np.uint32] = nodes ^ ((units >> np.uint32(10)) << far)
        return bases

    def _leaves(
        self, nodes: NDArray[np.uint32], bases: NDArray[np.uint32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Which of ``nodes`` end a key (indices), and the values of those keys."""
        ending = np.flatnonzero(self.units[nodes] & np.uint32(HAS_VALUE))
        positions = bases[ending]
        outside = positions >= len(self.units)
        values = self.units[np.where(outside, 0, positions)]
        wrong = np.flatnonzero(outside | (values < VALUE))
        if len(wrong):
            raise InvalidFile(
                f"unit {nodes[ending[wrong[0]]]:,} of a trie has its value at unit "
                f"{positions[wrong[0]]:,}, where there is none"
            )
        return ending.astype(np.int32), (values & np.uint32(VALUE - 1)).astype(np.int32)

    def _children(self, bases: NDArray[np.uint32], room: int) -> Level:
        """All children of the nodes with these bases, at most ``room``."""
        parts: list[Level] = []
        for at in range(0, len(bases), CHUNK):
            chunk = bases[at : at + CHUNK]
            first = np.searchsorted(self._bases, chunk, "left")
            counts = np.searchsorted(self._bases, chunk, "right") - first
            total = int(counts.sum())
            room -= total
            if room < 0:
                raise InvalidFile(
                    f"a trie of {len(self.units):,} units has more than "
                    f"{len(self.units) + SHARED_NODES:,} nodes: it may run in a circle"
                )
            parents = np.repeat(np.arange(len(chunk), dtype=np.int32), counts)
            before = np.cumsum(counts) - counts
            edges = (first - before)[parents] + np.arange(total)
            parts.append(Level(parents + np.int32(at), self._labels[edges]))
        return Level(
            np.concatenate([part.parents for part in parts]),
            np.concatenate([part.labels for part in parts]),
        )
