"""How often each word stands in a batch of texts, and in how many of them, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.text_arrays import as_bytes, as_strings

NO_SLOTS: Final = np.zeros(0, np.int64)
CODE_BITS: Final = np.int64(32)
CODE: Final = np.int64((1 << 32) - 1)


class BatchCounts(NamedTuple):
    """The u words that stand in a batch; no two are equal, none stands nowhere.

    Some may be known by their slot in the tally already; those come first. ``held``: their slots,
    int64, shape (h,), ascending. ``words``: the other k. u = h + k.
    ``positions``: int64, shape (k,), in the vocabulary, or -1.
    ``known``: bool; ``pieces``: int32, 1 each for a model of whole words; ``counts``: int64. All
    of shape (u,).
    ``unknown``: where the unknown ones stand, and what is told of them.
    ``subwords``: whether words are made of pieces.
    """

    held: NDArray[np.int64]
    words: list[bytes]
    positions: NDArray[np.int64]
    known: NDArray[np.bool_]
    pieces: NDArray[np.int32]
    counts: NDArray[np.int64]
    unknown: Unknowns
    subwords: bool


class Unknowns(NamedTuple):
    """The v unknown words of a batch. All of shape (v,), but for ``texts``.

    ``rows``: int64, ascending, which of the u words they are. ``documents``: int64, how many texts
    hold the word. ``first``: int64, the first of them. ``shares``: float64, how far into it the
    word stands first, from 0 to 1. ``texts``: how many texts hold an unknown word.
    """

    rows: NDArray[np.int64]
    documents: NDArray[np.int64]
    first: NDArray[np.int64]
    shares: NDArray[np.float64]
    texts: int


class Occurring(NamedTuple):
    """Which of d words stand in a batch: ``codes``, int64, shape (u,), ascending.

    A code is a word's place among the d. The rest as above.
    """

    codes: NDArray[np.int64]
    counts: NDArray[np.int64]
    unknown: Unknowns


def batch_counts(judged: WordLookup) -> BatchCounts:
    """Count; equal words that ``judged`` tells apart are one."""
    judged = _unified(judged)
    found = occurring(judged.codes, judged.offsets, judged.known)
    kept = found.codes
    whole = len(kept) == len(judged.distinct)
    pieces = judged.pieces
    return BatchCounts(
        NO_SLOTS,
        as_bytes(judged.distinct if whole else judged.distinct.take(kept)),
        judged.positions[kept],
        judged.known[kept],
        np.ones(len(kept), np.int32) if pieces is None else pieces[kept],
        found.counts,
        found.unknown,
        subwords=pieces is not None,
    )


def occurring(
    codes: NDArray[np.integer[Any]], offsets: NDArray[np.int64], known: NDArray[np.bool_]
) -> Occurring:
    """Count m words of n texts: ``codes`` of shape (m,), ``offsets`` of shape (n + 1,).

    ``known``: shape (d,), of each code.
    """
    codes = codes.astype(np.intp, copy=False)  # what indexing wants: once, not each time
    counts = np.bincount(codes, minlength=len(known))
    kept = np.flatnonzero(counts)
    rows = np.flatnonzero(~known[kept])
    missing = ~known.take(codes)
    tokens = np.flatnonzero(missing)
    per_text = np.diff(np.append(0, np.cumsum(missing))[offsets])
    among = np.zeros(len(known), np.int64)
    among[kept[rows]] = np.arange(len(rows))
    unknown = _unknowns(rows, tokens, among.take(codes.take(tokens)), per_text, offsets)
    return Occurring(kept, counts[kept], unknown)


def _unknowns(
    rows: NDArray[np.int64],
    tokens: NDArray[np.int64],
    which: NDArray[np.int64],
    per_text: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> Unknowns:
    """``tokens``: where unknown words stand, ``which`` of ``rows`` each is: of shape (t,).

    ``per_text``: how many of them each text has, shape (n,).
    """
    texts = np.repeat(np.arange(len(per_text)), per_text)
    pairs = np.sort(texts << CODE_BITS | which)
    pairs = pairs[np.diff(pairs, prepend=-1) != 0]
    documents = np.bincount(pairs & CODE, minlength=len(rows))
    first = np.zeros(len(rows), np.int64)
    first[which[::-1]] = np.arange(len(which))[::-1]  # of equal indices the last one stays
    where = texts[first]
    starts, ends = offsets[where], offsets[where + 1]
    shares = (tokens[first] - starts) / (ends - starts)
    return Unknowns(rows, documents, where, shares, int(np.count_nonzero(per_text)))


def joined(batches: Sequence[WordLookup]) -> WordLookup:
    """Several batches as one, their texts one behind the other."""
    import pyarrow as pa

    sizes = [len(batch.distinct) for batch in batches]
    tokens = [len(batch.codes) for batch in batches]
    codes = [batch.codes + base for batch, base in zip(batches, _starts(sizes), strict=True)]
    ends = [batch.offsets[1:] + base for batch, base in zip(batches, _starts(tokens), strict=True)]
    pieces = [batch.pieces for batch in batches if batch.pieces is not None]
    return WordLookup(
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


def _unified(judged: WordLookup) -> WordLookup:
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
    return judged._replace(
        codes=codes[judged.codes],
        distinct=as_strings(encoded.dictionary),
        known=judged.known[one],
        ids=judged.ids[one],
        positions=judged.positions[one],
        pieces=None if judged.pieces is None else judged.pieces[one],
        spelled=None,
    )
