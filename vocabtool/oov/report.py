"""What a model does not know of some documents: the figures, and what they were counted with.

The counting is in ``counts.py``; how a report is shown and written is in ``oov_report_files/``.

The figures of a report, from words counted: order, coverage, kinds, pieces, error bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.oov.lookalikes import COMMONEST, Kind, classify
from vocabtool.oov.word_table import BatchCounts, WordTable
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


Figure = Literal["distinct", "distinct_unknown", "count", "documents", "curve"]

MOST_PIECES: Final = 32  # words in so many pieces or more are counted together


class Header(NamedTuple):
    """What a report is about. ``rule``: the way from text to words, a step a line, for people."""

    model: str
    vocabulary: str
    vocabulary_size: int
    rule: tuple[str, ...] = ()
    fingerprint: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnknownWord:
    """A word that the model does not know.

    ``count`` and ``documents``: how often and in how many documents it stands; ``count`` is off
    by at most ``error``, and both are exact where that is 0. ``example``: a part of the first
    document that holds it, empty where none was kept. ``kind``: what it looks like, ``None``
    where nobody looked. ``like``: the entry that it resembles.
    """

    word: bytes
    count: int
    documents: int
    error: int = 0
    kind: Kind | None = None
    like: bytes | None = None
    example: bytes = b""


COLUMNS: Final = tuple(field.name for field in fields(UnknownWord))


class KindShare(NamedTuple):
    """How many of the words that were looked at are of a kind, and how often they stand."""

    kind: Kind
    words: int
    tokens: int


class CurvePoint(NamedTuple):
    """The ``words`` commonest words make up the share ``covered`` of all tokens.

    ``known``: the share of all tokens that are one of them and known. Both from 0 to 1.
    """

    words: int
    covered: float
    known: float


@dataclass(frozen=True, slots=True)
class FragmentedWord:
    """A word that a subword model cuts into ``pieces``."""

    word: bytes
    pieces: int
    count: int


class Pieces(NamedTuple):
    """Into how many pieces a subword model cuts words.

    ``mean``: pieces per token. ``histogram``: tokens with 0, 1, 2, ... pieces; the last of
    ``MOST_PIECES + 1`` counts those with as many or more. ``most``: words in most pieces.
    """

    mean: float
    histogram: tuple[int, ...]
    most: tuple[FragmentedWord, ...]


class Estimate(NamedTuple):
    """A figure that is not exact.

    ``off_by``: how much at most: in words, tokens or documents; for ``curve`` as a share.
    ``certain``: that bound cannot be broken; else it holds in 99.7 of 100 cases (3 sigma).
    """

    figure: Figure
    off_by: float
    certain: bool


@dataclass(frozen=True, slots=True)
class OovReport:
    """What was counted in ``documents``; every figure not named in ``estimated`` is exact.

    ``documents_unknown``: documents with an unknown word. ``unknown``: Arrow table, the commonest
    first, ties by bytes, with the columns ``word`` (large_binary), ``count``, ``documents``,
    ``error`` (int64), ``kind`` (string), ``like``, ``example`` (large_binary): the fields of
    :class:`UnknownWord`. ``kinds`` sums up those rows that have one.
    ``used``: entries of the vocabulary that stood for a word, ``None`` for a subword model;
    ``never_used``: the first few others. ``others``: reports on further tables (n-grams).
    """

    header: Header
    documents: int
    documents_unknown: int
    tokens: int
    tokens_unknown: int
    distinct: int
    distinct_unknown: int
    unknown: pa.Table
    kinds: tuple[KindShare, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    used: int | None = None
    never_used: tuple[bytes, ...] = ()
    pieces: Pieces | None = None
    estimated: tuple[Estimate, ...] = ()
    notes: tuple[str, ...] = ()
    others: tuple[OovReport, ...] = ()

    @property
    def classified(self) -> int:
        """How many unknown words somebody looked at: the commonest ones."""
        return sum(kind.words for kind in self.kinds)

    @property
    def token_rate(self) -> float:
        """The share of tokens that are unknown, from 0 to 1; 0 where there is none."""
        return _share(self.tokens_unknown, self.tokens)

    @property
    def distinct_rate(self) -> float:
        """The share of distinct words that are unknown."""
        return _share(self.distinct_unknown, self.distinct)

    @property
    def document_rate(self) -> float:
        """The share of documents with an unknown word."""
        return _share(self.documents_unknown, self.documents)

    def estimate(self, figure: Figure) -> Estimate | None:
        """How far a figure may be off; ``None`` where it is exact."""
        return next((one for one in self.estimated if one.figure == figure), None)

    def commonest(self, most: int | None = None) -> Iterator[UnknownWord]:
        """The unknown words, commonest first; made as they are asked for."""
        table = self.unknown.select(COLUMNS).slice(0, most)
        for batch in table.to_batches(max_chunksize=4096):
            columns = [column.to_pylist() for column in batch.columns]
            yield from map(UnknownWord, *columns)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
