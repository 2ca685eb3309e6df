"""The words behind pieces, for an op that takes whole texts and cuts them into words itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.tokenization.op_traces import Integers, OpTrace, Pieces
from vocabtool.tokenization.text_arrays import Cut, as_strings

if TYPE_CHECKING:
    import pyarrow as pa

FAST: Final = "FastWordpieceTokenizeWithOffsets"
SUFFIX: Final = b"##"


def by_word(tapped: OpTrace, suffix: bytes = SUFFIX) -> OpTrace:
    """The same answer with one string for each word, where the op tells where its pieces stand.

    A piece goes on with a word where it begins with ``suffix`` and where the piece before it ends.
    A word is what stands there in the op's string, which is the text normalised. Strings without
    pieces are gone. What another op told is given back as it is.
    """
    import pyarrow as pa

    pieces = tapped.pieces
    if tapped.op.op != FAST or pieces is None or pieces.values is None:
        return tapped
    if pieces.starts is None or pieces.ends is None:
        return tapped
    string_of = np.repeat(np.arange(len(tapped.cut.values)), np.diff(pieces.offsets))
    first = _first(pieces.values, pieces.starts, pieces.ends, string_of, suffix)
    starts = np.append(np.flatnonzero(first), len(first)).astype(np.int64)
    words = _between(
        tapped.cut.values,
        string_of[starts[:-1]],
        pieces.starts[starts[:-1]],
        pieces.ends[starts[1:] - 1],
    )
    before = np.concatenate([[0], np.cumsum(first)]).astype(np.int64)
    offsets = before[pieces.offsets][tapped.cut.offsets]
    inside = pieces.starts[starts[:-1]].repeat(np.diff(starts))
    moved = Pieces(starts, pieces.values, pieces.starts - inside, pieces.ends - inside)
    return tapped._replace(cut=Cut(as_strings(pa.array(words, pa.binary())), offsets), pieces=moved)


def _first(
    pieces: pa.StringArray, starts: Integers, ends: Integers, string_of: Integers, suffix: bytes
) -> NDArray[np.bool_]:
    """For each piece, whether a word begins with it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    marked = pc.starts_with(pieces.view(pa.binary()), suffix)
    goes_on = np.array(marked, np.bool_)
    goes_on[:1] = False
    goes_on[1:] &= (starts[1:] == ends[:-1]) & (string_of[1:] == string_of[:-1])
    return ~goes_on


def _between(
    strings: pa.StringArray, which: Integers, starts: Integers, ends: Integers
) -> list[bytes]:
    """Parts of strings, by bytes."""
    import pyarrow as pa

    texts = strings.view(pa.binary()).to_pylist()
    found = zip(which.tolist(), starts.tolist(), ends.tolist(), strict=True)
    return [texts[i][start:end] for i, start, end in found]
