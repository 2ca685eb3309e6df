"""What a model does not know of a stream of documents: counted while they pass.

Which words are known is in ``WordLookup``; how words are counted in bounded memory is in
``word_tally.py``; what a report makes of the counts is in ``figures.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.oov import figures
from vocabtool.oov.batch_counts import BatchCounts, batch_counts, joined
from vocabtool.oov.figures import NEVER_USED, Totals
from vocabtool.oov.report import MOST_PIECES, Header, KindShare, OovReport, Pieces
from vocabtool.oov.word_examples import WIDTH, examples
from vocabtool.oov.word_tally import NEVER, Tallied, WordTally
from vocabtool.tokenization.lookup import WordLookup

if TYPE_CHECKING:
    import pyarrow as pa

    from vocabtool.vocabulary import Vocabulary

BUDGET: Final = 64 << 20  # bytes: about 350,000 words
EXAMPLES_SHARE: Final = 4  # examples may take one part in so many of the budget, beside it
EXAMPLE_COST: Final = WIDTH + 136  # bytes that an example takes
TOGETHER: Final = 24 << 20  # bytes of batches that are counted together


class _Waiting(NamedTuple):
    """A batch that is not counted yet."""

    judged: WordLookup
    texts: pa.StringArray
    start: int


class OovCounts:
    """Counts what a model does not know, batch by batch.

    ``vocabulary_size``: the number of stored entries. ``budget``: bytes of memory that distinct
    words may take, about; examples may take a quarter as much beside it. Past it, words not
    held yet are estimated, and the report says so.

    ``tally``: the words counted so far, to be read only.

    Counters of parts of a stream are put together by :meth:`merge`; they can be pickled.
    """

    def __init__(self, vocabulary_size: int, *, budget: int = BUDGET) -> None:
        self._totals = Totals()
        self._used = np.zeros(vocabulary_size, np.bool_)
        self.tally = WordTally(budget)
        self._examples: dict[int, bytes] = {}
        self._examples_left = budget // EXAMPLES_SHARE
        self._histogram: NDArray[np.int64] | None = None
        self._documents = 0
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = 0

    def add(self, judged: WordLookup, texts: pa.StringArray, *, start: int | None = None) -> None:
        """Count a batch; ``texts`` are what its words were made of: examples come from there.

        ``start``: the number of its first text in the stream. To be given where batches come in
        another order than in the stream, or to several counters; gaps do not matter.

        Raises ``ValueError`` where there are not as many texts as ``judged`` has.
        """
        if len(texts) != len(judged.offsets) - 1:
            raise ValueError(f"wanted {len(judged.offsets) - 1:,} texts, got {len(texts):,}")
        start = self._documents if start is None else start
        self._documents += len(texts)
        self._waiting.append(_Waiting(judged, texts, start))
        self._waiting_bytes += _size(judged, texts)
        if self._waiting_bytes >= TOGETHER:
            self._count()

    @property
    def totals(self) -> Totals:
        """The figures that are always exact; to ask after each small batch costs time."""
        self._count()
        return self._totals

    def _count(self) -> None:
        """Count the batches that wait: many together hold fewer words than each by itself."""
        if not self._waiting:
            return
        import pyarrow as pa

        waiting = sorted(self._waiting, key=lambda one: one.start)  # the first example is first
        self._waiting, self._waiting_bytes = [], 0
        judged = joined([one.judged for one in waiting])
        texts = pa.concat_arrays([one.texts for one in waiting])
        numbers = [np.arange(len(one.texts)) + one.start for one in waiting]
        self._count_batch(judged, texts, np.concatenate(numbers))

    def _count_batch(
        self, judged: WordLookup, texts: pa.StringArray, numbers: NDArray[np.int64]
    ) -> None:
        """``numbers``: those of the texts in the stream, shape (n,)."""
        self._count_counted(batch_counts(judged), texts, numbers)

    def add_counted(self, batch: BatchCounts, texts: pa.StringArray) -> NDArray[np.int64]:
        """:meth:`add` for the next batch of the stream, which is counted already.

        Returns the slot in :attr:`tally` of each of its words, -1 where it is not held.
        """
        self._count()
        numbers = np.arange(self._documents, self._documents + len(texts))
        self._documents += len(texts)
        return self._count_counted(batch, texts, numbers)

    def _count_counted(
        self,
        batch: BatchCounts,
        texts: pa.StringArray,
        numbers: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        tallied = _figures(batch, numbers)
        self._totals = _sum(self._totals, _totals(batch, len(texts)))
        self._used[batch.positions[batch.positions >= 0]] = True
        if batch.subwords:
            self._note_pieces(_histogram(batch))
        slots = self.tally.add(batch.words, tallied, batch.held)
        self._note_batch_examples(batch, texts, slots, tallied.first)
        return slots

    def __getstate__(self) -> dict[str, Any]:
        self._count()
        return vars(self).copy()

    def _note_pieces(self, histogram: NDArray[np.int64]) -> None:
        self._histogram = histogram if self._histogram is None else self._histogram + histogram

    def _note_batch_examples(
        self,
        batch: BatchCounts,
        texts: pa.StringArray,
        slots: NDArray[np.int64],
        first: NDArray[np.int64],
    ) -> None:
        """Examples for the unknown words whose first document is in this batch.

        ``slots`` and ``first``: of all the words. One that the batch knew by its slot was met in
        an earlier document.
        """
        unknown, before = batch.unknown, len(batch.held)
        rows = unknown.rows
        wanted = np.flatnonzero((rows >= before) & (slots[rows] >= 0))
        rows = rows[wanted]
        met_first = self.tally.held.first[slots[rows]] == first[rows]
        room = max(self._examples_left // EXAMPLE_COST, 0)
        wanted, rows = wanted[met_first][:room], rows[met_first][:room]
        words = [batch.words[row - before] for row in rows.tolist()]
        found = examples(texts, words, unknown.first[wanted], unknown.shares[wanted])
        self._keep_examples(dict(zip(slots[rows].tolist(), found, strict=True)))

    def _keep_examples(self, examples: dict[int, bytes]) -> None:
        """Examples by slot, in place of others."""
        more = len(examples.keys() - self._examples.keys())
        self._examples.update(examples)
        self._examples_left -= more * EXAMPLE_COST

    def merge(self, other: OovCounts) -> None:
        """Add what another counter, of other documents and the same model, has counted.

        Examples come from the document with the lowest number. Raises ``ValueError`` where the
        two were made for vocabularies of different sizes.
        """
        if len(self._used) != len(other._used):
            raise ValueError(
                f"wanted a counter for a vocabulary of {len(self._used):,} entries, "
                f"got one for {len(other._used):,}"
            )
        self._totals = _sum(self.totals, other.totals)
        self._documents += other._documents
        self._used |= other._used
        if other._histogram is not None:
            self._note_pieces(other._histogram)
        self._merge_words(other)

    def _merge_words(self, other: OovCounts) -> None:
        before = self.tally.held.first.copy()
        slots = self.tally.merge(other.tally)
        earlier = np.full(len(slots), NEVER)
        both = (slots >= 0) & (slots < len(before))
        earlier[both] = before[slots[both]]
        better = (slots >= 0) & (other.tally.held.first < earlier)
        kept = {int(slots[at]): example for at, example in other._examples.items() if better[at]}
        room = max(self._examples_left // EXAMPLE_COST, 0)
        self._keep_examples(dict(islice(kept.items(), room)))

    def report(
        self,
        header: Header,
        vocabulary: Vocabulary | None = None,
        *,
        notes: tuple[str, ...] = (),
        others: tuple[OovReport, ...] = (),
    ) -> OovReport:
        """What was counted so far.

        ``vocabulary``: to tell what unknown words look like, and to name entries never used.
        ``notes``: further facts for a person; ``others``: reports on further tables.
        """
        totals, tally = self.totals, self.tally
        words = figures.word_table(tally)
        unknown = figures.unknown_table(words, self._examples)
        kinds: tuple[KindShare, ...] = ()
        if vocabulary is not None:
            unknown, kinds = figures.with_kinds(unknown, vocabulary)
        number = figures.distinct(tally)
        estimated = number.estimated
        if tally.sketches is not None:
            estimated += figures.count_errors(tally, tally.sketches, totals.tokens)
        return OovReport(
            header,
            *totals[:4],
            number.words,
            number.unknown,
            unknown,
            kinds=kinds,
            curve=figures.coverage(words, totals, number.words),
            used=None if self._histogram is not None else int(self._used.sum()),
            never_used=self._never_used(vocabulary),
            pieces=self._pieces(words),
            estimated=estimated,
            notes=(*notes, *self._notes(number.unknown, len(unknown))),
            others=others,
        )

    def _never_used(self, vocabulary: Vocabulary | None) -> tuple[bytes, ...]:
        """The first entries that no word was; of a subword model nothing tells."""
        if vocabulary is None or self._histogram is not None:
            return ()
        positions = np.flatnonzero(~self._used)[:NEVER_USED].tolist()
        return tuple(vocabulary.stored[position] for position in positions)

    def _pieces(self, words: pa.Table) -> Pieces | None:
        if self._histogram is None:
            return None
        return figures.pieces_of(words, self._histogram, self.totals)

    def _notes(self, unknown: int, listed: int) -> Iterator[str]:
        """What a reader of the report must know of its limits."""
        if self.tally.sketches is not None:
            yield (
                f"more distinct words than fit the budget: of about {unknown:,} unknown ones "
                f"{listed:,} are listed"
            )
        if self._examples_left < EXAMPLE_COST:
            yield "examples are kept for the words that came first only: there were too many"


def _size(judged: WordLookup, texts: pa.StringArray) -> int:
    """Bytes, about."""
    return int(judged.codes.nbytes + judged.offsets.nbytes + judged.distinct.nbytes + texts.nbytes)


def _figures(batch: BatchCounts, numbers: NDArray[np.int64]) -> Tallied:
    """The figures of all the words of a batch, whose texts have such ``numbers``."""
    unknown = batch.unknown
    documents = np.zeros(len(batch.counts), np.int64)
    documents[unknown.rows] = unknown.documents
    first = np.full(len(batch.counts), NEVER)
    first[unknown.rows] = numbers[unknown.first]
    return Tallied(batch.known, batch.pieces, batch.counts, documents, first)


def _totals(batch: BatchCounts, texts: int) -> Totals:
    return Totals(
        texts,
        batch.unknown.texts,
        int(batch.counts.sum()),
        int(batch.counts[batch.unknown.rows].sum()),
        int(batch.counts @ batch.pieces),
    )


def _sum(one: Totals, other: Totals) -> Totals:
    return Totals._make(a + b for a, b in zip(one, other, strict=True))


def _histogram(batch: BatchCounts) -> NDArray[np.int64]:
    """Tokens by number of pieces, the last of those with as many or more."""
    histogram = np.zeros(MOST_PIECES + 1, np.int64)
    np.add.at(histogram, np.minimum(batch.pieces, MOST_PIECES), batch.counts)
    return histogram
