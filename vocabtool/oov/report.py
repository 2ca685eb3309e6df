"""What a model does not know of some documents: the figures, and what they were counted with.

The counting is in ``counter.py``; how a report is shown and written is in ``reports/oov.py``.
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
from vocabtool.vocabulary import Vocabulary

MOST_FRAGMENTED: Final = 20

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


# ---- the figures of a report, from words counted


def unknown_table(words: pa.Table, examples: Mapping[bytes, bytes]) -> pa.Table:
    """The unknown ones, commonest first, ties by bytes; ``kind`` and ``like`` are null.

    ``words``: every word that is held, with the columns ``word``, ``known``, ``pieces``, ``count``
    (never too low), ``documents``, ``error`` (by how much ``count`` is too high at most).
    """
    keys = [("known", "ascending"), ("count", "descending"), ("word", "ascending")]
    rows = pc.sort_indices(words, keys)[: pc.sum(pc.invert(words["known"])).as_py() or 0]
    unknown = words.take(rows)
    shown = [examples.get(word, b"") for word in unknown["word"].to_pylist()]
    unknown = unknown.append_column("example", pa.array(shown, pa.large_binary()))
    for name, kind in (("kind", pa.string()), ("like", pa.large_binary())):
        unknown = unknown.append_column(name, pa.nulls(len(unknown), kind))
    return unknown.select(COLUMNS).combine_chunks()


def with_kinds(unknown: pa.Table, vocabulary: Vocabulary) -> tuple[pa.Table, tuple[KindShare, ...]]:
    """With the kind of the commonest words and what they are like; and a sum of that.

    The kind with most tokens comes first.
    """
    some = unknown.slice(0, COMMONEST)
    found = classify(some["word"].to_pylist(), vocabulary.stored, some["example"].to_pylist())
    kinds = [one.kind for one in found]
    like = [vocabulary.stored[one.entry] if one.entry >= 0 else None for one in found]
    rest = [None] * (len(unknown) - len(some))
    for name, values in (("kind", kinds), ("like", like)):
        at = unknown.schema.get_field_index(name)
        array = pa.array([*values, *rest], unknown.schema.field(name).type)
        unknown = unknown.set_column(at, name, array)
    words: Counter[Kind] = Counter(kinds)
    tokens: Counter[Kind] = Counter()
    for kind, count in zip(kinds, some["count"].to_pylist(), strict=True):
        tokens[kind] += count
    shares = (KindShare(kind, words[kind], tokens[kind]) for kind in words)
    return unknown, tuple(sorted(shares, key=lambda share: (-share.tokens, share.kind)))


def coverage(words: pa.Table, tokens: int, known: int, distinct: int) -> tuple[CurvePoint, ...]:
    """The share of tokens that the commonest words make up: 1, 2, 5, 10, 20, ... of them, and all.

    Counts that may be too high are taken at their lowest. ``known``: tokens that are known.
    """
    if not tokens:
        return ()
    low = np.subtract(words["count"].to_numpy(), words["error"].to_numpy())
    keys = words.select(["word"]).append_column("low", [low])
    order = pc.sort_indices(keys, [("low", "descending"), ("word", "ascending")]).to_numpy()
    counts = low[order]
    covered = np.cumsum(counts)
    covered_known = np.cumsum(np.where(words["known"].to_numpy()[order], counts, 0))
    last = min(len(counts), distinct - 1)
    steps = (step * 10**power for power in range(len(str(max(last, 0)))) for step in (1, 2, 5))
    points = [
        CurvePoint(k, int(covered[k - 1]) / tokens, int(covered_known[k - 1]) / tokens)
        for k in steps
        if k <= last
    ]
    return (*points, CurvePoint(distinct, 1.0, known / tokens))


def pieces_of(words: pa.Table, histogram: NDArray[np.int64], mean: float) -> Pieces:
    """Into how many pieces words are cut; ``histogram``: tokens by number of pieces.

    Named are the words in most pieces, the commonest first among equals, then by bytes.
    """
    last = np.flatnonzero(histogram)
    shown = histogram[: last[-1] + 1] if len(last) else histogram[:0]
    keys = [("pieces", "descending"), ("count", "descending"), ("word", "ascending")]
    table = words.filter(pc.greater(words["pieces"], 1)).select(["word", "pieces", "count"])
    columns = table.take(pc.select_k_unstable(table, MOST_FRAGMENTED, keys)).columns
    most = tuple(map(FragmentedWord, *(column.to_pylist() for column in columns)))
    return Pieces(mean, tuple(shown.tolist()), most)
