"""What a model does not know of some documents: the figures, and what they were counted with.

The counting is in ``counts.py``; how a report is shown and written is in ``oov_report_files/``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from vocabtool.oov.lookalikes import Kind

if TYPE_CHECKING:
    import pyarrow as pa

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
