"""The public ``OovReport``: figures about unknown words, and their error bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.oov.lookalikes import COMMONEST, Kind, classify, is_random, spelling
from vocabtool.oov.split_words import SplitWords
from vocabtool.oov.suggest import Suggestions
from vocabtool.tokenization.token_limit import TokenLimit
from vocabtool.vocabulary import Vocabulary

MOST_FRAGMENTED: Final = 20

Figure = Literal["distinct", "distinct_unknown", "distinct_split", "count", "documents", "curve"]

MOST_PIECES: Final = 32  # the last bin of the histogram: words of 32 or more pieces


class Header(NamedTuple):
    """The model and texts of a report. ``rule``: how texts are split, a line for each step."""

    model: str
    vocabulary: str
    vocabulary_size: int
    rule: tuple[str, ...] = ()
    fingerprint: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnknownWord:
    """A word that the model does not know.

    - ``count``: Number of occurrences, too high by at most ``error``.
    - ``documents``: Number of documents with the word. Exact if ``error`` is 0.
    - ``kind``: The class of the word; ``None`` if it was not classified.
    - ``like``: An entry of the vocabulary with a similar spelling, or ``None``.
    - ``example``: A part of the first document with the word; empty if no example was kept.
    - ``cut``: Whether the word occurs only in cut-off text, which the model does not read.
    """

    word: bytes
    count: int
    documents: int
    error: int = 0
    kind: Kind | None = None
    like: bytes | None = None
    example: bytes = b""
    cut: bool = False


COLUMNS: Final = tuple(field.name for field in fields(UnknownWord))


class KindShare(NamedTuple):
    """Counts of one kind of word: the number of distinct words, and of their occurrences."""

    kind: Kind
    words: int
    tokens: int


class CurvePoint(NamedTuple):
    """A point of the coverage curve. Shares are from 0 to 1.

    - ``words``: A number n. The point describes the n most frequent words.
    - ``covered``: The share of all tokens that are among these n words.
    - ``known``: The share of all tokens that are among these n words and that the model knows.
    """

    words: int
    covered: float
    known: float


@dataclass(frozen=True, slots=True)
class FragmentedWord:
    """A word that a subword model splits. ``pieces``: number of its pieces."""

    word: bytes
    pieces: int
    count: int


class Pieces(NamedTuple):
    """Statistics of the number of pieces into which a subword model splits words.

    - ``mean``: Pieces per token.
    - ``histogram``: Number of tokens with 0, 1, 2, ... pieces. The last of ``MOST_PIECES + 1`` bins
      counts the tokens with ``MOST_PIECES`` or more pieces.
    - ``most``: The words with the most pieces.
    """

    mean: float
    histogram: tuple[int, ...]
    most: tuple[FragmentedWord, ...]


class Estimate(NamedTuple):
    """The error bound of a figure that is not exact.

    - ``off_by``: The bound in words, tokens or documents. For ``curve``, a share of tokens.
    - ``certain``: Whether the bound always holds, or only in 99.7 % of cases (3 sigma).
    """

    figure: Figure
    off_by: float
    certain: bool


@dataclass(frozen=True, slots=True)
class CutWord:
    """An unknown or split word that the model never reads: it occurs only in cut-off text.

    - ``known``: Whether the model knows all pieces of the word.
    - ``kind``, ``example``: As in :class:`UnknownWord`.
    """

    word: bytes
    count: int
    documents: int
    known: bool
    kind: Kind | None
    example: bytes


class CutOff(NamedTuple):
    """The parts of the documents that a model does not read.

    A token is a piece for a subword model, and a word for a model of whole words.

    - ``limit``: How many tokens of a text the model reads.
    - ``documents``: Number of documents with more tokens than the model reads.
    - ``tokens``: Number of tokens that are cut off.
    - ``all_tokens``: Number of tokens of all documents.
    - ``words``: Number of words in :meth:`OovReport.cut_words`.
    """

    limit: TokenLimit
    documents: int
    tokens: int
    all_tokens: int
    words: int


@dataclass(frozen=True, slots=True)
class OovReport:
    """Counts of the words in a corpus that a model does not know.

    Every figure that is not named in ``estimated`` is exact.

    - ``documents_unknown``: Number of documents with an unknown word.
    - ``unknown``: Arrow table of the unknown words, sorted by descending count, then by bytes. The
      columns are the fields of :class:`UnknownWord`: ``word`` (large_binary), ``count``,
      ``documents``, ``error`` (int64), ``kind`` (string), ``like``, ``example`` (large_binary),
      ``cut`` (bool).
    - ``kinds``: For each kind, the number of classified unknown words and of their tokens.
    - ``pieces``: Statistics of pieces; ``None`` for a model of whole words.
    - ``split``: The words that are split; ``None`` for a model of whole words.
    - ``suggested``: Words to add to the model; ``None`` if suggestions were not asked for.
    - ``used``: Number of vocabulary entries that occurred; ``None`` for a subword model.
    - ``never_used``: The first few entries that did not occur, in id order.
    - ``others``: Reports on the model's other lookups, for example of n-grams.
    - ``cut``: What is cut off of long documents; ``None`` without a limit.
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
    split: SplitWords | None = None
    suggested: Suggestions | None = None
    estimated: tuple[Estimate, ...] = ()
    notes: tuple[str, ...] = ()
    others: tuple[OovReport, ...] = ()
    cut: CutOff | None = None

    def __repr__(self) -> str:
        return (
            f"<OovReport: {self.tokens_unknown:,} of {self.tokens:,} words unknown, "
            f"in {self.documents_unknown:,} of {self.documents:,} documents>"
        )

    def _repr_html_(self) -> str:
        from vocabtool.reports.oov import oov_html

        return oov_html(self)

    @property
    def classified(self) -> int:
        """Number of classified words. Only the most frequent unknown words are classified."""
        return sum(kind.words for kind in self.kinds)

    @property
    def token_rate(self) -> float:
        """Share of the tokens that are unknown, from 0 to 1; 0 if there are no tokens."""
        return _share(self.tokens_unknown, self.tokens)

    @property
    def distinct_rate(self) -> float:
        """Share of the distinct words that are unknown, from 0 to 1."""
        return _share(self.distinct_unknown, self.distinct)

    @property
    def document_rate(self) -> float:
        """Share of the documents that contain an unknown word, from 0 to 1."""
        return _share(self.documents_unknown, self.documents)

    @property
    def fertility(self) -> float:
        """Pieces per token; 1 for a model of whole words."""
        return 1.0 if self.pieces is None else self.pieces.mean

    @property
    def document_rate_split3(self) -> float:
        """Share of documents with a word of three or more pieces; 0 for a model of words."""
        return _share(self.split.documents_split3 if self.split else 0, self.documents)

    def split_rate(self, pieces: int = 3) -> float:
        """Return the share of the tokens that are split into many pieces, from 0 to 1.

        ``pieces``: minimum number of pieces, up to 32. For a model of whole words, the share is 0.
        """
        return _share(sum(self.pieces.histogram[pieces:]) if self.pieces else 0, self.tokens)

    @property
    def cut_rate(self) -> float:
        """Share of the model's tokens that are cut off; 0 without a limit."""
        return 0.0 if self.cut is None else _share(self.cut.tokens, self.cut.all_tokens)

    @property
    def cut_document_rate(self) -> float:
        """Share of the documents that have more tokens than the model reads; 0 without a limit."""
        return 0.0 if self.cut is None else _share(self.cut.documents, self.documents)

    def estimate(self, figure: Figure) -> Estimate | None:
        """Return the error bound of a figure; ``None`` if it is exact."""
        return next((one for one in self.estimated if one.figure == figure), None)

    def commonest(self, most: int | None = None) -> Iterator[UnknownWord]:
        """Yield the unknown words. Frequent words come first.

        ``most``: the maximum number of words, by default all.
        """
        table = self.unknown.select(COLUMNS).slice(0, most)
        for batch in table.to_batches(max_chunksize=4096):
            columns = [column.to_pylist() for column in batch.columns]
            yield from map(UnknownWord, *columns)

    def cut_words(self, most: int | None = None) -> Iterator[CutWord]:
        """Yield the unknown and split words that occur only in text that the model does not read.

        ``most``: the maximum number of words, by default all. Frequent words come first, and random
        strings last. Words whose counts are not exact are left out.
        """
        table = self.unknown if self.split is None else self.split.table
        table = table.filter(table["cut"])
        if self.split is None:
            table = table.append_column("known", pa.array([False] * len(table)))
        table = table.append_column(
            "random", pc.fill_null(pc.equal(table["kind"], "random"), False)
        )
        keys = [("random", "ascending"), ("count", "descending"), ("documents", "descending")]
        rows = pc.sort_indices(table, [*keys, ("word", "ascending")])[:most]
        columns = table.take(rows).select([each.name for each in fields(CutWord)]).columns
        yield from map(CutWord, *(column.to_pylist() for column in columns))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


# ---- figures of a report, from counted words


def unknown_table(words: pa.Table, examples: Mapping[bytes, bytes]) -> pa.Table:
    """Return a table of the unknown words, sorted by descending count, then by bytes.

    The columns ``kind`` and ``like`` are null.
    """
    keys = [("known", "ascending"), ("count", "descending"), ("word", "ascending")]
    rows = pc.sort_indices(words, keys)[: pc.sum(pc.invert(words["known"])).as_py() or 0]
    unknown = words.take(rows)
    shown = [examples.get(word, b"") for word in unknown["word"].to_pylist()]
    unknown = unknown.append_column("example", pa.array(shown, pa.large_binary()))
    for name, kind in (("kind", pa.string()), ("like", pa.large_binary())):
        unknown = unknown.append_column(name, pa.nulls(len(unknown), kind))
    return unknown.select(COLUMNS).combine_chunks()


def with_kinds(
    unknown: pa.Table, vocabulary: Vocabulary, *, random: bool = False
) -> tuple[pa.Table, tuple[KindShare, ...]]:
    """Classify the most frequent unknown words.

    Return the table with ``kind`` and ``like`` of these words, and the totals of each kind.
    ``random``: whether random strings get the kind ``random``.
    """
    some = unknown.slice(0, COMMONEST)
    found = classify(some["word"].to_pylist(), vocabulary.stored, some["example"].to_pylist())
    kinds = [one.kind for one in found]
    if random:
        pairs = zip(some["word"].to_pylist(), some["example"].to_pylist(), strict=True)
        are_random = (is_random(spelling(*pair).strip()) for pair in pairs)
        kinds = ["random" if is_so else kind for is_so, kind in zip(are_random, kinds, strict=True)]
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
    """Return the coverage of the 1, 2, 5, 10, ... most frequent words, and of all words."""
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
    """Return statistics of pieces. ``histogram[i]`` is the number of tokens with i pieces."""
    last = np.flatnonzero(histogram)
    shown = histogram[: last[-1] + 1] if len(last) else histogram[:0]
    keys = [("pieces", "descending"), ("count", "descending"), ("word", "ascending")]
    table = words.filter(pc.greater(words["pieces"], 1)).select(["word", "pieces", "count"])
    columns = table.take(pc.select_k_unstable(table, MOST_FRAGMENTED, keys)).columns
    most = tuple(map(FragmentedWord, *(column.to_pylist() for column in columns)))
    return Pieces(mean, tuple(shown.tolist()), most)
