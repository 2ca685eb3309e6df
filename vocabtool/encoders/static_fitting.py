"""Weights and component from a sample of a corpus, in one pass over its texts.

The rows of the sample's words are kept (4 bytes a word), because the component is that of vectors
which are weighted already. The formulas of weights are in ``static_weights.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.encoders.static_lookup import RowLookup, Rows
from vocabtool.encoders.static_means import Means
from vocabtool.encoders.static_weights import FittedWeights, Weighting
from vocabtool.errors import VocabtoolError
from vocabtool.tokenization.text_arrays import texts_array

MOST_TEXTS: Final = 100_000  # of a sample; more change weights and component by next to nothing
MOST_WORDS: Final = 1 << 26  # 256 MB
BATCH: Final = 1_024


class Fit(NamedTuple):
    """What is fitted, with what. ``vectors``, ``rule``: fingerprints."""

    matrix: Vectors
    lookup: RowLookup
    weights: Weighting
    remove_component: bool
    vectors: str
    rule: str

    def on(self, texts: Iterable[str | bytes], most: int = MOST_TEXTS) -> FittedWeights:
        """Fit on the first ``most`` texts, or on fewer where they hold :data:`MOST_WORDS` words.

        Raises :class:`VocabtoolError` where no text holds a known word.
        """
        sample = list(_sampled(islice(texts, most), self.lookup))
        rows = np.concatenate([np.zeros(0, np.int32), *(part.numbers for part in sample)])
        if not len(rows):
            raise VocabtoolError(
                "no text of the sample holds a word that the vectors have, so there is nothing "
                "to fit: look at the rule by which texts become words, or give other texts"
            )
        counts = np.bincount(rows, minlength=len(self.matrix)).astype(np.int64)
        if self.weights == "idf":
            counts = sum((_documents(part, len(counts)) for part in sample), np.zeros_like(counts))
        positions = np.flatnonzero(counts)
        documents = sum(len(part.offsets) - 1 for part in sample)
        fitted = FittedWeights(
            self.weights,
            documents,
            len(rows),
            positions,
            counts[positions],
            None,
            self.vectors,
            self.rule,
        )
        return self._with_component(fitted, sample) if self.remove_component else fitted

    def _with_component(self, fitted: FittedWeights, sample: list[Rows]) -> FittedWeights:
        from dataclasses import replace

        means = Means(self.matrix, fitted.of_rows(len(self.matrix)))
        return replace(fitted, component=first_component(map(means.means, sample)))


def _sampled(texts: Iterator[str | bytes], lookup: RowLookup) -> Iterator[Rows]:
    words = 0
    while words < MOST_WORDS and (batch := list(islice(texts, BATCH))):
        rows = lookup.rows(texts_array(batch))
        words += len(rows.numbers)
        yield rows


def _documents(rows: Rows, count: int) -> NDArray[np.int64]:
    """In how many of some texts each row is."""
    texts = np.repeat(np.arange(len(rows.offsets) - 1), np.diff(rows.offsets))
    distinct = np.unique(texts * count + rows.numbers)
    return np.bincount(distinct % count, minlength=count).astype(np.int64)


def first_component(blocks: Iterable[NDArray[np.float64]]) -> NDArray[np.float32]:
    """The first right singular vector of all rows, not centred: float32, shape (dim,).

    Of its two signs the one whose entry of largest size, the first where several are, is positive.
    Raises :class:`VocabtoolError` where the rows are not finite, or all zero.
    """
    gram: NDArray[np.float64] = sum((block.T @ block for block in blocks), np.zeros(()))
    if not np.isfinite(gram).all() or not gram.any():
        raise VocabtoolError(
            "the mean vectors of the sample are zero, infinite or NaN: they have no component"
        )
    component = np.linalg.eigh(gram)[1][:, -1]
    largest = component[np.argmax(np.abs(component))]
    found: NDArray[np.float32] = (component * np.sign(largest)).astype(np.float32)
    return found
