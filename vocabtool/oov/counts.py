"""What a model does not know of a stream of documents: counted while they pass.

How the words of a batch are counted is in ``batch_counts.py``, how they are held in bounded memory
in ``word_table.py``; what a report makes of the counts is in ``figures.py``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.oov import figures
from vocabtool.oov.batch_counts import BatchCounts, batch_counts
from vocabtool.oov.figures import NEVER_USED, Totals
from vocabtool.oov.report import MOST_PIECES, Header, KindShare, OovReport, Pieces
from vocabtool.oov.word_examples import WIDTH, examples
from vocabtool.oov.word_table import WordTable
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.vocabulary import Vocabulary

BUDGET: Final = 64 << 20  # bytes: about 350,000 words
EXAMPLES_SHARE: Final = 4  # examples may take one part in so many of the budget, beside it
EXAMPLE_COST: Final = WIDTH + 136  # bytes that an example takes


class OovCounts:
    """Counts what a model does not know, batch by batch.

    ``vocabulary_size``: the number of stored entries. ``budget``: bytes of memory that distinct
    words may take, about; examples may take a quarter as much beside it. Past it, the rarest words
    are dropped, and the report says so.
    """

    def __init__(self, vocabulary_size: int, *, budget: int = BUDGET) -> None:
        self.totals = Totals()
        self._table = WordTable(budget)
        self._used = np.zeros(vocabulary_size, np.bool_)
        self._max_examples = budget // EXAMPLES_SHARE // EXAMPLE_COST
        self._too_many_examples = False
        self._histogram: NDArray[np.int64] | None = None

    def add(self, found: WordLookup, texts: pa.StringArray) -> None:
        """Count a batch; ``texts`` are what its words were made of: examples come from there.

        Raises ``ValueError`` where there are not as many texts as ``found`` has.
        """
        if len(texts) != len(found.offsets) - 1:
            raise ValueError(f"wanted {len(found.offsets) - 1:,} texts, got {len(texts):,}")
        self.add_counts(batch_counts(found), texts)

    def add_counts(self, batch: BatchCounts, texts: pa.StringArray) -> None:
        """:meth:`add` for a batch that is counted already."""
        self.totals = self.totals.plus(batch, len(texts))
        self._used[batch.positions[batch.positions >= 0]] = True
        if batch.subwords:
            if self._histogram is None:
                self._histogram = np.zeros(MOST_PIECES + 1, np.int64)
            np.add.at(self._histogram, np.minimum(batch.pieces, MOST_PIECES), batch.counts)
        new = self._table.add(batch)
        self._add_examples(batch, texts, new)
        self._table.prune()

    def _add_examples(
        self, batch: BatchCounts, texts: pa.StringArray, new: NDArray[np.bool_]
    ) -> None:
        """Examples for the unknown words that are met for the first time."""
        wanted = np.flatnonzero(new[batch.unknown])
        room = self._max_examples - len(self._table.examples)
        self._too_many_examples |= len(wanted) > room
        wanted = wanted[: max(room, 0)]
        words = [batch.words[row] for row in batch.unknown[wanted].tolist()]
        found = examples(texts, words, batch.first[wanted], batch.shares[wanted])
        self._table.examples.update(zip(words, found, strict=True))

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
        table = self._table
        words = figures.word_table(table)
        unknown = figures.unknown_table(words, table.examples)
        kinds: tuple[KindShare, ...] = ()
        if vocabulary is not None:
            unknown, kinds = figures.with_kinds(unknown, vocabulary)
        (distinct, _), (distinct_unknown, _) = table.distinct()
        if table.bound:
            notes += (
                "more distinct words than fit the budget, so the rarest were dropped: of about "
                f"{distinct_unknown:,} unknown ones {len(unknown):,} are listed",
            )
        if self._too_many_examples:
            notes += ("examples are kept for the words that came first only: there were too many",)
        return OovReport(
            header,
            *self.totals[:4],
            distinct,
            distinct_unknown,
            unknown,
            kinds=kinds,
            curve=figures.coverage(words, self.totals, distinct),
            used=None if self._histogram is not None else int(self._used.sum()),
            never_used=self._never_used(vocabulary),
            pieces=self._pieces(words),
            estimated=figures.estimates(table, self.totals.tokens),
            notes=notes,
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
