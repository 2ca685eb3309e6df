"""The figures of a report, from words counted: order, coverage, kinds, pieces, error bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.oov.batch_counts import BatchCounts
from vocabtool.oov.lookalikes import COMMONEST, Kind, classify
from vocabtool.oov.report import COLUMNS, CurvePoint, Estimate, FragmentedWord, KindShare, Pieces
from vocabtool.oov.word_table import WordTable
from vocabtool.vocabulary import Vocabulary

MOST_FRAGMENTED: Final = 20
NEVER_USED: Final = 20  # entries named in a report


class Totals(NamedTuple):
    """What is always exact. ``documents_unknown``: those that hold an unknown word."""

    documents: int = 0
    documents_unknown: int = 0
    tokens: int = 0
    tokens_unknown: int = 0
    pieces: int = 0

    def plus(self, batch: BatchCounts, texts: int) -> Totals:
        """With those of a batch of so many texts."""
        return Totals(
            self.documents + texts,
            self.documents_unknown + batch.texts_unknown,
            self.tokens + int(batch.counts.sum()),
            self.tokens_unknown + int(batch.counts[batch.unknown].sum()),
            self.pieces + int(batch.counts @ batch.pieces),
        )


def word_table(table: WordTable) -> pa.Table:
    """Every word that is held, and its figures.

    Columns: ``word``, ``known``, ``pieces``, ``count`` (never too low), ``documents``, ``error``
    (by how much ``count`` is too high at most).
    """
    held = table.figures
    missed_unknown = np.where(held.known, 0, held.missed)
    return pa.table(
        {
            "word": pa.array(list(table.slots), pa.large_binary()),
            "known": held.known,
            "pieces": held.pieces,
            "count": held.counts + held.missed,
            "documents": held.documents + missed_unknown,
            "error": held.missed,
        }
    )


def unknown_table(words: pa.Table, examples: Mapping[bytes, bytes]) -> pa.Table:
    """The unknown ones, commonest first, ties by bytes; ``kind`` and ``like`` are null."""
    keys = [("known", "ascending"), ("count", "descending"), ("word", "ascending")]
    rows = pc.sort_indices(words, keys)[: pc.sum(pc.invert(words["known"])).as_py() or 0]
    unknown = words.take(rows)
    shown = [examples.get(word, b"") for word in unknown["word"].to_pylist()]
    unknown = unknown.append_column("example", pa.array(shown, pa.large_binary()))
    for name, kind in (("kind", pa.string()), ("like", pa.large_binary())):
        unknown = unknown.append_column(name, pa.nulls(len(unknown), kind))
    return unknown.select(COLUMNS).combine_chunks()


def with_kinds(unknown: pa.Table, vocabulary: Vocabulary) -> tuple[pa.Table, tuple[KindShare, ...]]:
    """With the kind of the commonest words and what they are like; and a sum of that."""
    some = unknown.slice(0, COMMONEST)
    words, examples = some["word"].to_pylist(), some["example"].to_pylist()
    found = classify(words, vocabulary.stored, examples)
    rest = [None] * (len(unknown) - len(some))
    like = [vocabulary.stored[one.entry] if one.entry >= 0 else None for one in found]
    for name, values in (("kind", [one.kind for one in found]), ("like", like)):
        at = unknown.schema.get_field_index(name)
        array = pa.array([*values, *rest], unknown.schema.field(name).type)
        unknown = unknown.set_column(at, name, array)
    kinds: list[Kind] = [one.kind for one in found]
    return unknown, _kind_shares(kinds, some["count"].to_pylist())


def _kind_shares(kinds: list[Kind], counts: list[int]) -> tuple[KindShare, ...]:
    """The kind with most tokens first."""
    words: Counter[Kind] = Counter(kinds)
    tokens: Counter[Kind] = Counter()
    for kind, count in zip(kinds, counts, strict=True):
        tokens[kind] += count
    shares = (KindShare(kind, words[kind], tokens[kind]) for kind in words)
    return tuple(sorted(shares, key=lambda share: (-share.tokens, share.kind)))


def coverage(words: pa.Table, totals: Totals, distinct_words: int) -> tuple[CurvePoint, ...]:
    """The share of tokens that the commonest words make up: 1, 2, 5, 10, 20, ... of them, and all.

    Counts that may be too high are taken at their lowest.
    """
    tokens, tokens_known = totals.tokens, totals.tokens - totals.tokens_unknown
    if not tokens:
        return ()
    low = np.subtract(words["count"].to_numpy(), words["error"].to_numpy())
    keys = words.select(["word"]).append_column("low", [low])
    order = pc.sort_indices(keys, [("low", "descending"), ("word", "ascending")]).to_numpy()
    counts = low[order]
    covered = np.cumsum(counts)
    known = np.cumsum(np.where(words["known"].to_numpy()[order], counts, 0))
    points = [
        CurvePoint(k, int(covered[k - 1]) / tokens, int(known[k - 1]) / tokens)
        for k in _one_two_five(min(len(counts), distinct_words - 1))
    ]
    return (*points, CurvePoint(distinct_words, 1.0, tokens_known / tokens))


def _one_two_five(last: int) -> list[int]:
    """1, 2, 5, 10, 20, 50 and so on, none above ``last``."""
    steps = (step * 10**power for power in range(len(str(max(last, 0)))) for step in (1, 2, 5))
    return [step for step in steps if step <= last]


def estimates(table: WordTable, tokens: int) -> tuple[Estimate, ...]:
    """How far figures may be off; nothing where all words are held.

    Of L tokens that are not counted for a word held, at most all stand for other words than
    estimated; they cover at most so much, and push at most as much out of the commonest.
    """
    if not table.bound:
        return ()
    (_, off_by), (_, unknown_off_by) = table.distinct()
    late = tokens - int(table.figures.counts.sum())
    return (
        Estimate("distinct", off_by, certain=False),
        Estimate("distinct_unknown", unknown_off_by, certain=False),
        Estimate("count", table.bound, certain=True),
        Estimate("documents", table.bound, certain=True),
        Estimate("curve", min(2 * late / tokens, 1.0), certain=True),
    )


def pieces_of(words: pa.Table, histogram: NDArray[np.int64], totals: Totals) -> Pieces:
    """Into how many pieces words are cut; ``histogram``: tokens by number of pieces."""
    last = np.flatnonzero(histogram)
    shown = histogram[: last[-1] + 1] if len(last) else histogram[:0]
    mean = totals.pieces / totals.tokens if totals.tokens else 0.0
    return Pieces(mean, tuple(shown.tolist()), _most_pieces(words))


def _most_pieces(words: pa.Table) -> tuple[FragmentedWord, ...]:
    """The words in most pieces, the commonest first among equals, then by bytes."""
    pieces = words["pieces"].to_numpy()
    last = max(len(pieces) - MOST_FRAGMENTED, 0)
    least = max(int(np.partition(pieces, last)[last]), 2) if len(pieces) else 2
    table = words.filter(pieces >= least).select(["word", "pieces", "count"])
    keys = [("pieces", "descending"), ("count", "descending"), ("word", "ascending")]
    columns = table.sort_by(keys).slice(0, MOST_FRAGMENTED).columns
    return tuple(map(FragmentedWord, *(column.to_pylist() for column in columns)))
