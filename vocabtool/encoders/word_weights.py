"""Weighted means of word vectors, and the weight of each word.

The vector of a text is the sum of weight(w) v(w) over the known words w of the text, with
repetitions, scaled to unit length. v(w) is the vector of w. The weights are fitted on a sample of
the corpus and saved as JSON. Equal samples give identical files.

The weight of a word w is one of:

``idf``  ln((1 + N) / (1 + n(w))) + 1, where N is the number of documents, and n(w) the number of
         documents that contain w. Source: smoothed idf of scikit-learn's TfidfTransformer;
         Manning, Raghavan, Schütze: Introduction to Information Retrieval, 6.2.1.
``none`` 1. Needs no sample.

The weights of Arora, Liang and Ma (ICLR 2017) and the removal of their common component were
measured too: the first are worse than idf, the second is as good (docs/explanation/benchmarks.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, VocabtoolError, reading
from vocabtool.formats import json_file
from vocabtool.system.own_files import whole_file
from vocabtool.tokenization.text_arrays import texts_array

if TYPE_CHECKING:
    import pyarrow as pa

Vectors = NDArray[np.float32]

FORMAT: Final = "vocabtool fitted weights 2"
MAX_TEXTS: Final = 100_000  # in a sample; more texts hardly change the weights
MAX_WORDS: Final = 1 << 26  # in a sample, 4 bytes each
BATCH_ROWS: Final = 1_024
SEGMENT_WORDS: Final = 64  # summed in float32; the sums of a longer text are added in float64


class KnownRows(NamedTuple):
    """The k known words of n texts, as row numbers in a matrix of word vectors.

    ``rows``: int32, shape (k,). ``offsets``: int64, shape (n + 1,). Text ``i`` has the rows
    ``rows[offsets[i]:offsets[i + 1]]``.
    """

    rows: NDArray[np.int32]
    offsets: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Means:
    """Computes the vectors of texts from their known words.

    ``matrix``: float32, shape (words, dim). ``weights``: float32, shape (words,), or ``None`` for
    equal weights.
    """

    matrix: Vectors
    weights: NDArray[np.float32] | None = None

    def unit(self, known: KnownRows) -> Vectors:
        """Return the vector of each text: float32, shape (n, dim), of unit length or zero."""
        sums = self.sums(known)
        norms: NDArray[np.float64] = np.sqrt(
            np.einsum("ij,ij->i", sums, sums, dtype=np.float64, casting="same_kind")
        )
        if not np.isfinite(norms).all():
            raise VocabtoolError(
                "the mean of a text's word vectors is not finite: a vector in the file contains "
                "infinity or NaN, or numbers whose sum is too large for float32"
            )
        scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        return (sums * scale[:, None]).astype(np.float32, copy=False)

    def sums(self, known: KnownRows) -> NDArray[np.floating]:
        """Return the weighted sum of each text's word vectors, shape (n, dim).

        The sums are float64 if any text has more than :data:`SEGMENT_WORDS` words, otherwise
        float32.
        """
        from scipy.sparse import csr_array

        rows, offsets = known
        starts = offsets
        parts = -(-np.diff(offsets) // SEGMENT_WORDS)
        is_long = parts.max(initial=0) > 1
        if is_long:
            parts = np.maximum(parts, 1)
            first = np.cumsum(parts) - parts
            within = np.arange(int(parts.sum())) - np.repeat(first, parts)
            starts = np.append(np.repeat(offsets[:-1], parts) + SEGMENT_WORDS * within, offsets[-1])
        # A sparse matrix with one row per segment, multiplied by the matrix of word vectors.
        weights = np.ones(len(rows), np.float32) if self.weights is None else self.weights[rows]
        shape = (len(starts) - 1, len(self.matrix))
        sparse = csr_array((weights, rows, starts.astype(np.int32)), shape=shape)
        sums: NDArray[np.floating] = sparse @ self.matrix
        return np.add.reduceat(sums, first, axis=0, dtype=np.float64) if is_long else sums


@dataclass(frozen=True, eq=False)
class FittedWeights:
    """The numbers of documents that contain each word, from which the weights ``idf`` follow.

    ``documents``: number of documents in the sample.
    ``positions``: int64, shape (k,), ascending: the matrix rows of the words in the sample.
    ``counts``: int64, shape (k,): the number of documents that contain each word.
    ``vectors``: fingerprint of the word vectors.
    ``rule``: fingerprint of the rule that split the texts.
    """

    documents: int
    positions: NDArray[np.int64]
    counts: NDArray[np.int64]
    vectors: str
    rule: str

    def means(self, matrix: Vectors) -> Means:
        if self.positions[-1] >= len(matrix):
            raise InvalidFile(
                f"fitted weights do not match a matrix of {len(matrix):,} rows: their last row "
                f"number is {self.positions[-1]:,}"
            )
        counts = np.zeros(len(matrix), np.int64)
        counts[self.positions] = self.counts
        weights = np.log((1 + self.documents) / (1 + counts)) + 1
        return Means(matrix, weights.astype(np.float32))

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self._to_json()).hexdigest()

    def write(self, path: str | Path) -> None:
        with reading(str(path)), whole_file(path) as file:
            file.write(self._to_json())

    @classmethod
    def read(cls, path: str | Path) -> FittedWeights:
        with reading(str(path)):
            record: Any = json_file.parse(Path(path).read_bytes())
            if not isinstance(record, dict) or record.pop("format", None) != FORMAT:
                raise InvalidFile(
                    f"not a file of fitted weights: wanted an object of format {FORMAT!r}"
                )
            try:
                record["positions"] = np.array(record["positions"], np.int64)
                record["counts"] = np.array(record["counts"], np.int64)
                fitted = cls(**record)
            except (TypeError, ValueError, KeyError, OverflowError) as error:
                raise InvalidFile(f"fitted weights: {error}") from error
            positions, counts = fitted.positions, fitted.counts
            if type(fitted.documents) is not int or not 1 <= fitted.documents < 1 << 62:
                raise InvalidFile("'documents' must be a positive integer")
            if not all(type(text) is str for text in (fitted.vectors, fitted.rule)):
                raise InvalidFile("'vectors' and 'rule' must be strings (fingerprints)")
            if not positions.ndim == counts.ndim == 1 or not len(positions) == len(counts) > 0:
                raise InvalidFile(
                    "positions and counts must be equally long and not empty, got "
                    f"{positions.size:,} and {counts.size:,} values"
                )
            if positions[0] < 0 or (np.diff(positions) <= 0).any():
                raise InvalidFile("positions must be ascending and not negative")
            if counts.min() < 1 or counts.max() > fitted.documents:
                raise InvalidFile(
                    f"counts must be from 1 to {fitted.documents:,}, got {counts.min():,} to "
                    f"{counts.max():,}"
                )
            return fitted

    def _to_json(self) -> bytes:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        record = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in {"format": FORMAT, **values}.items()
        }
        return json.dumps(record, indent=None, separators=(",", ":")).encode() + b"\n"


def fit_weights(
    texts: Iterable[str | bytes],
    look_up: Callable[[pa.StringArray], KnownRows],
    words: int,
    *,
    vectors: str,
    rule: str,
    most: int = MAX_TEXTS,
) -> FittedWeights:
    """Fit weights on a sample: the first texts, with at most about :data:`MAX_WORDS` known words.

    ``words``: number of rows of the matrix of word vectors.
    ``most``: maximum number of texts in the sample.
    ``vectors``, ``rule``: the fingerprints to store in the result.
    """
    chosen = islice(texts, most)
    counts = np.zeros(words, np.int64)
    documents = tokens = 0
    while tokens < MAX_WORDS and (batch := list(islice(chosen, BATCH_ROWS))):
        known = look_up(texts_array(batch))
        tokens += len(known.rows)
        documents += len(batch)
        # A text counts once for each row that it contains.
        text = np.repeat(np.arange(len(batch)), np.diff(known.offsets))
        distinct = np.unique(text * words + known.rows)
        counts += np.bincount(distinct % words, minlength=words)
    positions = np.flatnonzero(counts)
    if not len(positions):
        raise VocabtoolError(
            "no text of the sample contains a word of the word vectors, so nothing can be fitted: "
            "check how texts are split (--rule, rule=), or use other texts"
        )
    return FittedWeights(documents, positions, counts[positions], vectors, rule)
