"""Weighted means of word vectors: the weight of each word, and the removal of a component.

    mean   = 1/|s| sum of weight(w) v(w) over the known words w in s
    vector = (mean - c (c . mean)), scaled to unit length

s is a text, |s| is the number of its known words, with repetitions, and v(w) is the vector of w.
The weights and the component c are fitted on a sample of the corpus and saved as JSON. Equal
samples give identical files.

The weight of a word w is one of:

``idf``  ln((1 + N) / (1 + n(w))) + 1, where N is the number of documents, and n(w) the number of
         documents that contain w. Source: smoothed idf of scikit-learn's TfidfTransformer;
         Manning, Raghavan, Schütze: Introduction to Information Retrieval, 6.2.1.
``sif``  a / (a + p(w)), where a = 0.001, and p(w) is the share of w among all known words. Source
         of this weight and of the mean: Arora, Liang, Ma: A Simple but Tough-to-Beat Baseline for
         Sentence Embeddings, ICLR 2017.
``none`` 1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import WEIGHTINGS, Weighting
from vocabtool.errors import InvalidFile, VocabtoolError, reading
from vocabtool.formats import json_file
from vocabtool.system.own_files import whole_file
from vocabtool.tokenization.text_arrays import texts_array

if TYPE_CHECKING:
    import pyarrow as pa

Vectors = NDArray[np.float32]

SIF_A: Final = 1e-3
FORMAT: Final = "vocabtool fitted weights 1"
UNIT_TOLERANCE: Final = 1e-3  # for the squared length of a component in a file
MAX_TEXTS: Final = 100_000  # in a sample; more texts hardly change weights and component
MAX_WORDS: Final = 1 << 26  # in a sample, 4 bytes each
BATCH_ROWS: Final = 1_024
SEGMENT_WORDS: Final = 64  # summed in float32; the sums of a longer text are added in float64
NOTHING_LEFT: Final = 1e-5  # share of a mean; a smaller rest without the component is rounding


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
    equal weights. ``component``: float32, shape (dim,), unit length, or ``None``.
    """

    matrix: Vectors
    weights: NDArray[np.float32] | None = None
    component: NDArray[np.float32] | None = None

    def unit(self, known: KnownRows) -> Vectors:
        """Return the vector of each text: float32, shape (n, dim), of unit length or zero."""
        sums = self.sums(known)
        least: NDArray[np.float64] | float = 0.0
        if self.component is not None:
            least = NOTHING_LEFT * _norms(sums)
            component = self.component.astype(np.float64)
            along = (sums * component).sum(axis=1)
            sums = sums - along[:, None] * component
        norms = _norms(sums)
        if not np.isfinite(norms).all():
            raise VocabtoolError(
                "the mean of a text's word vectors is not finite: a vector in the file contains "
                "infinity or NaN, or numbers whose sum is too large for float32"
            )
        scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > least)
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
    """Weights of words, and optionally a component, fitted on a sample.

    ``documents``: number of documents in the sample.
    ``words``: number of known words in the sample, with repetitions.
    ``positions``: int64, shape (k,), ascending: the matrix rows of the words in the sample.
    ``counts``: int64, shape (k,): the number of occurrences of each word; for ``idf``, the number
    of documents that contain the word.
    ``component``: float32, shape (dim,), unit length, or ``None``.
    ``vectors``: fingerprint of the word vectors.
    ``rule``: fingerprint of the rule that split the texts.
    """

    weights: Weighting
    documents: int
    words: int
    positions: NDArray[np.int64]
    counts: NDArray[np.int64]
    component: NDArray[np.float32] | None
    vectors: str
    rule: str

    def means(self, matrix: Vectors) -> Means:
        count, dim = matrix.shape
        last = int(self.positions[-1])
        if last >= count or (self.component is not None and self.component.shape != (dim,)):
            raise InvalidFile(
                f"fitted weights do not match a matrix of shape ({count:,}, {dim:,}): their last "
                f"row number is {last:,}, and their component has the length "
                f"{0 if self.component is None else len(self.component):,}"
            )
        if self.weights == "none":
            return Means(matrix, None, self.component)
        counts = np.zeros(count, np.int64)
        counts[self.positions] = self.counts
        if self.weights == "idf":
            weights = np.log((1 + self.documents) / (1 + counts)) + 1
        else:
            weights = SIF_A / (SIF_A + counts / self.words)
        return Means(matrix, weights.astype(np.float32), self.component)

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
            component = record.get("component")
            try:
                record["positions"] = np.array(record["positions"], np.int64)
                record["counts"] = np.array(record["counts"], np.int64)
                if component is not None:
                    record["component"] = np.array(component, np.float32)
                fitted = cls(**record)
            except (TypeError, ValueError, KeyError, OverflowError) as error:
                raise InvalidFile(f"fitted weights: {error}") from error
            positions, counts, held = fitted.positions, fitted.counts, fitted.component
            if fitted.weights not in WEIGHTINGS:
                raise InvalidFile(
                    f"weights must be one of {', '.join(WEIGHTINGS)}, got {fitted.weights!r}"
                )
            sizes = (fitted.documents, fitted.words)
            if not all(type(size) is int and 1 <= size < 1 << 62 for size in sizes):
                raise InvalidFile("'documents' and 'words' must be positive integers")
            if not all(type(text) is str for text in (fitted.vectors, fitted.rule)):
                raise InvalidFile("'vectors' and 'rule' must be strings (fingerprints)")
            if not positions.ndim == counts.ndim == 1 or not len(positions) == len(counts) > 0:
                raise InvalidFile(
                    "positions and counts must be equally long and not empty, got "
                    f"{positions.size:,} and {counts.size:,} values"
                )
            if positions[0] < 0 or (np.diff(positions) <= 0).any():
                raise InvalidFile("positions must be ascending and not negative")
            most = fitted.documents if fitted.weights == "idf" else fitted.words
            if counts.min() < 1 or counts.max() > most:
                raise InvalidFile(
                    f"counts must be from 1 to {most:,}, got {counts.min():,} to {counts.max():,}"
                )
            if held is not None and (
                held.ndim != 1 or not abs(float(held @ held) - 1) <= UNIT_TOLERANCE
            ):
                raise InvalidFile("component must be a vector of unit length")
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
    matrix: Vectors,
    *,
    weights: Weighting,
    remove_component: bool,
    vectors: str,
    rule: str,
    most: int = MAX_TEXTS,
) -> FittedWeights:
    """Fit weights on a sample: the first texts, with at most about :data:`MAX_WORDS` known words.

    ``most``: maximum number of texts in the sample.
    ``vectors``, ``rule``: the fingerprints to store in the result.
    """
    chosen = islice(texts, most)
    sample: list[KnownRows] = []
    words = 0
    while words < MAX_WORDS and (batch := list(islice(chosen, BATCH_ROWS))):
        sample.append(look_up(texts_array(batch)))
        words += len(sample[-1].rows)
    rows = np.concatenate([np.zeros(0, np.int32), *(part.rows for part in sample)])
    if not len(rows):
        raise VocabtoolError(
            "no text of the sample contains a word of the word vectors, so nothing can be fitted: "
            "check how texts are split (--rule, rule=), or use other texts"
        )
    if weights == "idf":
        counts = np.zeros(len(matrix), np.int64)
        for part in sample:  # count the texts that contain each row
            text = np.repeat(np.arange(len(part.offsets) - 1), np.diff(part.offsets))
            distinct = np.unique(text * len(matrix) + part.rows)
            counts += np.bincount(distinct % len(matrix), minlength=len(matrix))
    else:
        counts = np.bincount(rows, minlength=len(matrix)).astype(np.int64)
    positions = np.flatnonzero(counts)
    documents = sum(len(part.offsets) - 1 for part in sample)
    fitted = FittedWeights(
        weights, documents, len(rows), positions, counts[positions], None, vectors, rule
    )
    if not remove_component:
        return fitted
    means = fitted.means(matrix)
    blocks = (
        means.sums(part) / np.maximum(np.diff(part.offsets), 1)[:, None].astype(np.float64)
        for part in sample
    )
    return replace(fitted, component=_first_component(blocks))


def _first_component(blocks: Iterable[NDArray[np.float64]]) -> NDArray[np.float32]:
    """Return the first right singular vector of the rows, not centred: float32, shape (dim,)."""
    gram: NDArray[np.float64] = sum((block.T @ block for block in blocks), np.zeros(()))
    if not np.isfinite(gram).all() or not gram.any():
        raise VocabtoolError(
            "no component can be computed: the mean vectors of the sample are zero, infinite or NaN"
        )
    component = np.linalg.eigh(gram)[1][:, -1]
    largest = component[np.argmax(np.abs(component))]
    signed: NDArray[np.float32] = (component * np.sign(largest)).astype(np.float32)
    return signed


def _norms(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    norms: NDArray[np.float64] = np.sqrt(
        np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64, casting="same_kind")
    )
    return norms
