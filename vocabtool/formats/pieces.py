"""Pieces: what the file of a subword tokenizer holds, whichever library wrote it.

Filled by ``sentencepiece.py`` and ``saved_model/tokenizers.py``; how a text is cut is not
asked here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.system.byte_strings import ByteStrings


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The pieces of one tokenizer, in id order.

    ``ids``: int64, shape (n,), ascending, or ``None`` when they are ``0 .. n-1``.
    ``unknown_id``: the id of text that no piece covers; ``None`` when nothing says.
    ``notes``: facts for a person to read.
    """

    entries: ByteStrings
    ids: NDArray[np.int64] | None
    unknown_id: int | None
    notes: tuple[str, ...] = ()

    @classmethod
    def by_id(
        cls,
        entries: ByteStrings,
        ids: NDArray[np.integer[Any]],
        unknown_id: int | None,
        notes: tuple[str, ...] = (),
    ) -> Pieces:
        """Sort entries by ``ids``, shape (n,). Raises :class:`InvalidFile` where two share one."""
        order = np.argsort(ids, kind="stable")
        ascending = ids[order].astype(np.int64)
        same = np.flatnonzero(ascending[1:] == ascending[:-1])
        if len(same):
            first, second = entries[int(order[same[0]])], entries[int(order[same[0] + 1])]
            raise InvalidFile(f"two pieces have id {ascending[same[0]]}: {first!r} and {second!r}")
        contiguous = len(ids) == 0 or (ascending[0] == 0 and ascending[-1] == len(ids) - 1)
        return cls(entries.take(order), None if contiguous else ascending, unknown_id, notes)
