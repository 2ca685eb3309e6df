"""How often each word stands in a batch of texts, and in how many of them, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.words.cut import as_bytes, as_strings
from vocabtool.words.judged import Judged


class BatchCounts(NamedTuple):
    """The u words that stand in a batch; no two are equal, none stands nowhere.

    ``known``: bool; ``pieces``: int32, 1 each for a model of whole words; ``counts``: int64;
    ``positions``: int64, in the vocabulary, or -1. All of shape (u,).

    The rest is told of the k ``unknown`` ones, by index, ascending:
    ``documents``: int64, how many texts hold the word. ``rows``: int64, the first of them.
    ``shares``: float64, how far into it the word stands first, from 0 to 1. All of shape (k,).
    ``texts_unknown``: how many texts hold an unknown word.
    """

    words: list[bytes]
    known: NDArray[np.bool_]
    pieces: NDArray[np.int32]
    counts: NDArray[np.int64]
    positions: NDArray[np.int64]
    unknown: NDArray[np.int64]
    documents: NDArray[np.int64]
    rows: NDArray[np.int64]
    shares: NDArray[np.float64]
    texts_unknown: int


def batch_counts(judged: Judged) -> BatchCounts:
    """Count; equal words that ``judged`` tells apart are one."""
    judged, counts = _occurring(_unified(judged))
    unknown = np.flatnonzero(~judged.known)
    tokens = np.flatnonzero(~judged.known[judged.codes])
    texts = np.repeat(np.arange(len(judged.offsets) - 1), np.diff(judged.offsets))[tokens]
    documents, rows, shares = _in_texts(judged, unknown, tokens, texts)
    pieces = judged.pieces
    return BatchCounts(
        as_bytes(judged.distinct),
        judged.known,
        np.ones(len(counts), np.int32) if pieces is None else pieces,
        counts,
        judged.positions,
        unknown,
        documents,
        rows,
        shares,
        texts_unknown=int(np.count_nonzero(np.diff(texts))) + bool(len(texts)),
    )


def joined(batches: Sequence[Judged]) -> Judged:
    """Several batches as one, their texts one behind the other."""
    import pyarrow as pa

    sizes = [len(batch.distinct) for batch in batches]
    tokens = [len(batch.codes) for batch in batches]
    codes = [batch.codes + base for batch, base in zip(batches, _starts(sizes), strict=True)]
    ends = [batch.offsets[1:] + base for batch, base in zip(batches, _starts(tokens), strict=True)]
    pieces = [batch.pieces for batch in batches if batch.pieces is not None]
    return Judged(
        np.concatenate(codes).astype(np.int32, copy=False),
        np.concatenate([np.zeros(1, np.int64), *ends]),
        pa.concat_arrays([batch.distinct for batch in batches]),
        np.concatenate([batch.known for batch in batches]),
        np.concatenate([batch.ids for batch in batches]),
        np.concatenate([batch.positions for batch in batches]),
        np.concatenate(pieces) if pieces else None,
    )


def _starts(sizes: Sequence[int]) -> Iterator[int]:
    return accumulate(sizes[:-1], initial=0)


def _unified(judged: Judged) -> Judged:
    """Equal words under one code."""
    if judged.unique:
        return judged
    import pyarrow as pa

    encoded = judged.distinct.view(pa.binary()).dictionary_encode()
    if len(encoded.dictionary) == len(judged.distinct):
        return judged
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    one = np.zeros(len(encoded.dictionary), np.int64)
    one[codes] = np.arange(len(codes))
    return _recoded(judged, codes, one)._replace(distinct=as_strings(encoded.dictionary))


def _occurring(judged: Judged) -> tuple[Judged, NDArray[np.int64]]:
    """Without words that stand nowhere; how often the others do."""
    counts = np.bincount(judged.codes, minlength=len(judged.distinct))
    if counts.all():
        return judged, counts
    kept = np.flatnonzero(counts)
    codes = np.cumsum(counts > 0) - 1
    return _recoded(judged, codes.astype(np.int32), kept), counts[kept]


def _recoded(judged: Judged, codes: NDArray[np.int32], kept: NDArray[np.int64]) -> Judged:
    """With ``codes[code]`` for each code, and the words at ``kept``."""
    return judged._replace(
        codes=codes[judged.codes],
        distinct=judged.distinct.take(kept),
        known=judged.known[kept],
        ids=judged.ids[kept],
        positions=judged.positions[kept],
        pieces=None if judged.pieces is None else judged.pieces[kept],
    )


def _in_texts(
    judged: Judged,
    unknown: NDArray[np.int64],
    tokens: NDArray[np.int64],
    texts: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """``documents``, ``rows`` and ``shares``; ``tokens``: where unknown words stand, ``texts``:
    in which text, both of shape (t,)."""
    among = np.zeros(len(judged.known), np.int64)
    among[unknown] = np.arange(len(unknown))
    codes = among[judged.codes[tokens]]
    pairs = np.sort(texts * len(unknown) + codes)
    pairs = pairs[np.diff(pairs, prepend=-1) != 0]
    documents = np.bincount(pairs % max(len(unknown), 1), minlength=len(unknown))
    first = np.zeros(len(unknown), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # of equal indices the last one stays
    rows = texts[first]
    starts, ends = judged.offsets[rows], judged.offsets[rows + 1]
    return documents, rows, (tokens[first] - starts) / (ends - starts)
