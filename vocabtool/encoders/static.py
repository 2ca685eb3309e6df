"""Static encoders: a text's vector is the weighted mean of the word vectors of its words.

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
import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import Weighting
from vocabtool.encoders.encoder import Encoder, EncoderOptions, FittedWeights, Texts, Vectors
from vocabtool.errors import NotFound, VocabtoolError, reading
from vocabtool.formats.word_vectors import WordVectors
from vocabtool.system.own_files import CACHE, user_cache
from vocabtool.tokenization.rule import guess_rule
from vocabtool.tokenization.text_arrays import texts_array
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_BATCH: Final = 1_024
# idf retrieves better than none on each collection measured (benchmarks/word_weights.py).
DEFAULT_WEIGHTS: Final[Weighting] = "idf"

CACHED: Final = "vectors"  # folder of matrices in the user's cache
HASHED_BYTES: Final = 1 << 24  # bytes of the matrix hashed at a time

MAX_TEXTS: Final = 100_000  # in a sample; more texts hardly change the weights
MAX_WORDS: Final = 1 << 26  # in a sample, 4 bytes each
BATCH_ROWS: Final = 1_024
SEGMENT_WORDS: Final = 64  # summed in float32; the sums of a longer text are added in float64

# The k known words of n texts, as row numbers in a matrix of word vectors: int32, shape (k,), and
# offsets: int64, shape (n + 1,). Text ``i`` has the rows ``rows[offsets[i]:offsets[i + 1]]``.
KnownRows = tuple[NDArray[np.int32], NDArray[np.int64]]


def mean_vectors(
    known: KnownRows, matrix: Vectors, weights: NDArray[np.float32] | None = None
) -> Vectors:
    """Return the vector of each of n texts: float32, shape (n, dim), of unit length or zero.

    ``matrix``: float32, shape (words, dim). ``weights``: float32, shape (words,), or ``None`` for
    equal weights. Words are summed in float32, and the sums of a text of more than
    :data:`SEGMENT_WORDS` words are added in float64.
    """
    rows, offsets = known
    starts = offsets
    segments = np.maximum(-(-np.diff(offsets) // SEGMENT_WORDS), 1)  # of each text
    is_long = segments.max(initial=1) > 1
    if is_long:
        first = np.cumsum(segments) - segments
        within = np.arange(int(segments.sum())) - np.repeat(first, segments)
        starts = np.append(np.repeat(offsets[:-1], segments) + SEGMENT_WORDS * within, offsets[-1])
    values = np.ones(len(rows), np.float32) if weights is None else weights[rows]
    sums: NDArray[np.floating]
    if len(starts) == 2:  # a query: to import scipy would take longer than the whole search
        sums = np.add.reduce(values[:, None] * matrix[rows], axis=0, keepdims=True)
    else:  # a sparse matrix with one row per segment, multiplied by the matrix of word vectors
        from scipy.sparse import csr_array

        shape = (len(starts) - 1, len(matrix))
        sums = csr_array((values, rows, starts.astype(np.int32)), shape) @ matrix
    if is_long:
        sums = np.add.reduceat(sums, first, axis=0, dtype=np.float64)
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


class StaticEncoder(Encoder):
    """Computes weighted means of word vectors, scaled to unit length.

    A text without known words has the zero vector.
    """

    kind = "static"
    threads = 2
    words: Words

    def __init__(
        self, model: str | Path | VectorFile, options: EncoderOptions, words: Words | None = None
    ) -> None:
        """Open word vectors. If ``options`` has no fitted weights, call :meth:`fit` to encode.

        ``words``: the vocabulary of the vectors, with the rule in ``options``. Default: created.
        """
        self.vectors = vectors = model if isinstance(model, VectorFile) else VectorFile(model)
        fitted, rule = options.fitted, options.rule
        if isinstance(fitted, str | Path):
            fitted = FittedWeights.read(fitted)
        if rule is None:
            rule = vectors.words.rule
        if rule is None:
            rule, reason = guess_rule(vectors.words)
            self._notes += (f"no --rule given: using {rule}, because {reason}",)
        self._notes += vectors.notes
        self.fitted, weights = fitted, options.weights or DEFAULT_WEIGHTS
        self.max_batch = options.max_batch or DEFAULT_BATCH
        self.options = replace(
            options, rule=rule, fitted=fitted, weights=weights, max_batch=self.max_batch
        )
        self.dim = int(vectors.matrix.shape[1])
        self.words = words or Words.of(vectors.words, rule=rule)
        self._weights: NDArray[np.float32] | None = None
        self.needs_fit = fitted is None and weights != "none"
        if fitted is None:
            return
        if weights == "none":
            raise VocabtoolError("weights='none' cannot be combined with fitted weights")
        if fitted.vectors != vectors.fingerprint:
            raise VocabtoolError(
                f"{vectors.file}: the weights were fitted with other word vectors: wanted "
                f"fingerprint {vectors.fingerprint[:12]}, got {fitted.vectors[:12]}. Use the model "
                "they were fitted with (for shards, the --model of embed), or fit them again"
            )
        if fitted.rule != self.words.tokenizer.fingerprint:
            raise VocabtoolError(
                f"the weights were not fitted with the rule {rule!r}: fit them again, "
                "or use the rule that they were fitted with (--rule, rule=)"
            )
        self._weights = fitted.weights(len(vectors.matrix))

    @cached_property
    def fingerprint(self) -> str:
        options = self.options
        fitted = self.fitted.fingerprint if self.fitted is not None else "not fitted"
        rule = self.words.tokenizer.fingerprint
        facts = f"{self.vectors.fingerprint}\n{rule}\n{options.weights} {fitted}"
        return hashlib.sha256(f"vocabtool static 2\n{facts}".encode()).hexdigest()

    def encode(self, texts: Texts) -> Vectors:
        """Return the vector of each text: float32, shape (n, dim), unit length or zero."""
        if self.needs_fit:
            raise VocabtoolError(
                f"{self.vectors.file}: the weights of words must first be fitted on a sample of "
                "the corpus: use the encoder that encoder.fit(texts) returns"
            )
        array = texts_array(texts)
        starts = range(0, max(len(array), 1), self.max_batch)
        batches = (self._known_rows(array.slice(start, self.max_batch)) for start in starts)
        means = [mean_vectors(known, self.vectors.matrix, self._weights) for known in batches]
        return means[0] if len(means) == 1 else np.concatenate(means)

    def fit(self, texts: Iterable[str | bytes], *, most: int = MAX_TEXTS) -> StaticEncoder:
        """Return an encoder whose word weights are fitted on a sample of texts.

        ``most``: maximum number of texts in the sample. The first texts are taken, with at most
        about :data:`MAX_WORDS` known words.
        Equal texts give bit-identical weights. Needs 4 bytes of memory per word of the texts.
        """
        if self.options.weights == "none":
            return self
        sample, words = islice(texts, most), len(self.vectors.matrix)
        counts = np.zeros(words, np.int64)
        documents = tokens = 0
        while tokens < MAX_WORDS and (batch := list(islice(sample, BATCH_ROWS))):
            rows, offsets = self._known_rows(texts_array(batch))
            tokens += len(rows)
            documents += len(batch)
            # A text counts once for each row that it contains.
            text = np.repeat(np.arange(len(batch)), np.diff(offsets))
            distinct = np.unique(text * words + rows)
            counts += np.bincount(distinct % words, minlength=words)
        positions = np.flatnonzero(counts)
        if not len(positions):
            raise VocabtoolError(
                "no text of the sample contains a word of the word vectors, so nothing can be "
                "fitted: check how texts are split (--rule, rule=), or use other texts"
            )
        vectors, rule = self.vectors.fingerprint, self.words.fingerprint
        return self.with_weights(
            FittedWeights(documents, positions, counts[positions], vectors, rule)
        )

    def with_weights(self, fitted: FittedWeights) -> StaticEncoder:
        """Return a copy of this encoder that uses the weights ``fitted``.

        Raises :class:`VocabtoolError` if other word vectors or options were used to fit them.
        """
        encoder = StaticEncoder(self.vectors, replace(self.options, fitted=fitted), self.words)
        encoder._notes = self._notes
        return encoder

    def __reduce__(self) -> tuple[Any, ...]:
        return StaticEncoder, (self.vectors, self.options)

    def _known_rows(self, texts: pa.StringArray) -> KnownRows:
        judged = self.words.tokenizer.look_up(texts)
        if judged.spelled is None:
            rows, offsets = judged.positions[judged.codes], judged.offsets
        else:
            pieces, known, starts = judged.spelled
            positions = self.words.vocabulary.stored.find(pieces)
            positions[~known] = -1
            counts = np.diff(starts)[judged.codes]
            ends = np.cumsum(counts)
            first = np.repeat(starts[judged.codes] - (ends - counts), counts)
            rows = positions[first + np.arange(len(first))]
            offsets = np.append(0, ends)[judged.offsets]
        kept = rows >= 0
        before = np.append(0, np.cumsum(kept)).astype(np.int64)
        return rows[kept].astype(np.int32), before[offsets]


class VectorFile:
    """A file of words and their vectors, memory-mapped. Unpickling opens the file again.

    ``matrix``: float32, shape (words, dim), read-only. ``converted``: the ``.npy`` file that
    contains it, if ``file`` has no plain float32 matrix.

    If :meth:`WordVectors.matrix` wrote such a file beside ``file``, it is used. Otherwise, the
    matrix is converted once, and stored in the user's cache.
    """

    def __init__(self, file: str | Path) -> None:
        self.file = Path(file)
        with reading(str(self.file)):
            facts = self.file.stat()
        vectors = WordVectors.open(self.file)
        self.words = vectors.words
        # An earlier fingerprint is valid as long as this is unchanged.
        self.state = (facts.st_size, facts.st_mtime_ns, self.words.fingerprint)
        folder, self.notes = None, tuple[str, ...]()
        self.converted = vectors.matrix_file()
        if self.converted is not None and not self.converted.exists():
            # Another file, or one that replaced this one, may have the same name, size and time.
            key = f"{os.fspath(self.file.resolve())} {facts.st_ino} {facts.st_ctime_ns}"
            folder = cached_vectors() / hashlib.sha256(os.fsencode(key)).hexdigest()[:16]
            folder.mkdir(exist_ok=True)
            self.converted = vectors.matrix_file(folder)
            if self.converted is not None and not self.converted.exists():
                self.notes = (
                    f"the word vectors were converted to {self.converted}; this cached file can be "
                    "deleted",
                )
        self.matrix: Vectors = np.asarray(vectors.matrix(folder))

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 of the words and vectors. The format of the file has no effect."""
        return vectors_fingerprint(self.words, self.matrix)

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_again, (self.file, self.state, vars(self).get("fingerprint"))


def _open_again(file: Path, state: tuple[int, int, str], fingerprint: str | None) -> VectorFile:
    vectors = VectorFile(file)
    if fingerprint is not None and vectors.state == state:
        vectors.fingerprint = fingerprint
    return vectors


def vectors_fingerprint(words: Vocabulary, matrix: Vectors) -> str:
    """Return the hexadecimal SHA-256 of words and vectors; reads the whole matrix."""
    digest = hashlib.sha256(f"vocabtool vectors 1 {matrix.shape}\n".encode())
    digest.update(words.fingerprint.encode())
    step = max(HASHED_BYTES // (4 * matrix.shape[1]), 1)
    for start in range(0, len(matrix), step):
        digest.update(matrix[start : start + step].astype("<f4", copy=False).data)
    return digest.hexdigest()


def cached_vectors() -> Path:
    """Return the folder of matrices in the user's cache; it is created.

    Raises :class:`NotFound` if it cannot be created.
    """
    folder = user_cache() / CACHED
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"cannot be created ({error.strerror or error}), but word vectors must be stored"
        raise NotFound(f"{folder}: {what}; set ${CACHE} to a folder for them") from error
    return folder
