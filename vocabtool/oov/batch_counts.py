"""How often each word stands in a batch of texts, and in how many of them, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.text_arrays import as_bytes, as_strings

CODE_BITS: Final = np.int64(32)
CODE: Final = np.int64((1 << 32) - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchCounts:
    """The u words that stand in a batch of n texts, in the order in which they come first.

    ``words``: no two are equal, none stands nowhere. ``positions``: int64, in the vocabulary, or
    -1. ``known``: bool; ``pieces``: int32, 1 each for a model of whole words; ``counts``: int64.
    All of shape (u,). ``subwords``: whether words are made of pieces.
    ``unknown``: int64, ascending, which of the u words the v unknown ones are. ``documents``:
    int64, how many texts hold each of these; ``first``: int64, the first of them; ``shares``:
    float64, how far into it the word stands first, from 0 to 1. All of shape (v,).
    ``texts_unknown``: how many texts hold an unknown word. ``blanks``: how many pieces of nothing
    but blanks were left out.
    """

    words: list[bytes]
    positions: NDArray[np.int64]
    known: NDArray[np.bool_]
    pieces: NDArray[np.int32]
    counts: NDArray[np.int64]
    subwords: bool
    unknown: NDArray[np.int64]
    documents: NDArray[np.int64]
    first: NDArray[np.int64]
    shares: NDArray[np.float64]
    texts_unknown: int
    blanks: int = 0


def batch_counts(found: WordLookup, blanks: int = 0) -> BatchCounts:
    """Count words; equal ones that ``found`` tells apart are one."""
    codes, distinct = _unify(found)
    counts = np.bincount(codes, minlength=len(found.distinct))
    kept = np.flatnonzero(counts)
    first_token = np.zeros(len(counts), np.int64)
    first_token[codes[::-1]] = np.arange(len(codes))[::-1]  # of equal indices the last one stays
    kept = kept[np.argsort(first_token[kept])]
    known = found.known[kept]
    unknown = np.flatnonzero(~known)

    missing = ~found.known.take(codes)
    per_text = np.diff(np.append(0, np.cumsum(missing))[found.offsets])
    among = np.zeros(len(counts), np.int64)
    among[kept[unknown]] = np.arange(len(unknown))
    texts = np.repeat(np.arange(len(per_text)), per_text)
    pairs = np.sort(texts << CODE_BITS | among.take(codes[missing]))
    pairs = pairs[np.diff(pairs, prepend=-1) != 0]

    tokens = first_token[kept[unknown]]
    first, shares = places_of(tokens, found.offsets)
    words = distinct.take(pa.array(kept))
    pieces = found.pieces
    return BatchCounts(
        words=as_bytes(words),
        positions=found.positions[kept],
        known=known,
        pieces=np.ones(len(kept), np.int32) if pieces is None else pieces[kept],
        counts=counts[kept],
        subwords=pieces is not None,
        unknown=unknown,
        documents=np.bincount(pairs & CODE, minlength=len(unknown)),
        first=first,
        shares=shares,
        texts_unknown=int(np.count_nonzero(per_text)),
        blanks=blanks,
    )


def places_of(
    tokens: NDArray[np.int64], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """In which text each token stands, and how far into it; ``offsets``: as in a WordLookup."""
    texts = np.searchsorted(offsets, tokens, "right") - 1
    starts, ends = offsets[texts], offsets[texts + 1]
    return texts, (tokens - starts) / (ends - starts)


def _unify(found: WordLookup) -> tuple[NDArray[np.intp], pa.StringArray]:
    """A code for each token, equal words under one; and the words by code."""
    codes = found.codes.astype(np.intp, copy=False)  # what indexing wants: once, not each time
    if found.unique:
        return codes, found.distinct
    encoded = found.distinct.view(pa.binary()).dictionary_encode()
    same = encoded.indices.to_numpy(zero_copy_only=False)
    one = np.zeros(len(encoded.dictionary), np.intp)
    one[same] = np.arange(len(same))
    return one[same][codes], as_strings(found.distinct)
