"""Static encoders: a text's vector is the mean of the vectors of its words, or of its tokens.

With word vectors, the vector of a text is the sum of weight(w) v(w) over the known words w of the
text, with repetitions, scaled to unit length. v(w) is the vector of w. The weights are fitted on a
sample of the corpus and saved as JSON. Equal samples give identical files.

The weight of a word w is one of:

``idf``  ln((1 + N) / (1 + n(w))) + 1, where N is the number of documents, and n(w) the number of
         documents that contain w. Source: smoothed idf of scikit-learn's TfidfTransformer;
         Manning, Raghavan, Schütze: Introduction to Information Retrieval, 6.2.1.
``none`` 1. Needs no sample.

The weights of Arora, Liang and Ma (ICLR 2017) and the removal of their common component were
measured too: the first are worse than idf, the second is as good (docs/explanation/benchmarks.md).

Static embeddings of tokens are models of model2vec and ``StaticEmbedding`` of
sentence-transformers, read without their libraries. For a text of n tokens,

    vector = 1/n sum over each token t of weight(t) matrix[mapping(t)]

is computed in float32, or in float64 if the matrix is float64. ``mapping(t)`` is the row of the
token t in the matrix; in a model without a mapping, it is t. In a model without weights,
``weight(t)`` is 1. The settings of a model decide whether the vector is scaled to length 1. The
library of the model decides which tokens are used:

``model2vec``              the text is first cut to ``max_length * m`` characters, where m is the
                           median length of an entry; then its first ``max_length`` tokens are used,
                           without unknown tokens
``sentence-transformers``  all tokens, or as many as the limit in the tokenizer.json allows

Sources: ``StaticModel.encode`` in model2vec/model.py; ``StaticEmbedding`` in
sentence_transformers/.../static_embedding.py.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import Weighting
from vocabtool.encoders.encoder import (
    EncodedTexts,
    Encoder,
    EncoderOptions,
    FittedWeights,
    Texts,
    Vectors,
    check_vectors,
    decode_texts,
    hash_files,
    unit_length,
)
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError, library_errors, reading
from vocabtool.formats import encoder_files
from vocabtool.formats.encoder_files import EMBEDDINGS, MAPPING, TOKEN_WEIGHTS
from vocabtool.formats.files import find_folder
from vocabtool.system.own_files import CACHE, user_cache
from vocabtool.system.parallel import in_batches
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.rule import guess_rule
from vocabtool.tokenization.text_arrays import TokenCodes, starts_of, texts_array
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


class StaticEncoder(Encoder):
    """Computes weighted means of word vectors, of unit length; zero without known words."""

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
        array, look_up = texts_array(texts), self.words.tokenizer.look_up
        starts = range(0, max(len(array), 1), self.max_batch)
        batches = (array.slice(start, self.max_batch) for start in starts)
        means = [self._means(self._known_rows(look_up(batch))) for batch in batches]
        return means[0] if len(means) == 1 else np.concatenate(means)

    def encode_batches(
        self, texts: pa.StringArray, size: int, lookup: WordLookup | None = None
    ) -> list[Vectors]:
        rows, offsets = self._known_rows(lookup or self.words.tokenizer.look_up(texts))
        vectors = []
        for start in range(0, len(texts), size):
            bounds = offsets[start : start + size + 1]
            known = rows[bounds[0] : bounds[-1]], bounds - bounds[0]
            vectors.append(self._means(known))
        return vectors

    def fit(self, texts: Iterable[str | bytes], *, most: int = MAX_TEXTS) -> StaticEncoder:
        """Return an encoder whose word weights are fitted on a sample of texts.

        The first ``most`` texts are taken, with at most about :data:`MAX_WORDS` known words. Equal
        texts give bit-identical weights. Needs 4 bytes of memory per word of the texts.
        """
        if self.options.weights == "none":
            return self
        words = len(self.vectors.matrix)
        counts = np.zeros(words, np.int64)
        documents = tokens = 0
        for batch in in_batches(islice(texts, most), BATCH_ROWS):
            rows, offsets = self._known_rows(self.words.tokenizer.look_up(texts_array(batch)))
            tokens += len(rows)
            documents += len(batch)
            # A text counts once for each row that it contains.
            text = np.repeat(np.arange(len(batch)), np.diff(offsets))
            distinct = np.unique(text * words + rows)
            counts += np.bincount(distinct % words, minlength=words)
            if tokens >= MAX_WORDS:
                break
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
        """Return a copy with the weights ``fitted``; refuse those of other vectors or options."""
        encoder = StaticEncoder(self.vectors, replace(self.options, fitted=fitted), self.words)
        encoder._notes = self._notes
        return encoder

    def __reduce__(self) -> tuple[Any, ...]:
        return StaticEncoder, (self.vectors, self.options), {"_notes": self._notes}

    def _means(self, known: KnownRows) -> Vectors:
        """Return the vector of each of n texts: float32, shape (n, dim), of unit length or zero.

        Words are summed in float32, and the sums of a text of more than :data:`SEGMENT_WORDS` words
        are added in float64.
        """
        if self.needs_fit:
            raise VocabtoolError(
                f"{self.vectors.file}: the weights of words must first be fitted on a sample of "
                "the corpus: use the encoder that encoder.fit(texts) returns"
            )
        matrix, (rows, offsets) = self.vectors.matrix, known
        starts = offsets  # of the segments; a short text is one segment
        segments = np.maximum(-(-np.diff(offsets) // SEGMENT_WORDS), 1)  # the number in each text
        has_long_texts = segments.max(initial=1) > 1
        if has_long_texts:
            first_segment = np.cumsum(segments) - segments
            number_in_text = np.arange(int(segments.sum())) - np.repeat(first_segment, segments)
            starts = np.repeat(offsets[:-1], segments) + SEGMENT_WORDS * number_in_text
            starts = np.append(starts, offsets[-1])
        weights = self._weights
        values = np.ones(len(rows), np.float32) if weights is None else weights[rows]
        sums: NDArray[np.floating]
        if len(starts) == 2:  # a query: to import scipy would take longer than the whole search
            sums = np.add.reduce(values[:, None] * matrix[rows], axis=0, keepdims=True)
        else:  # a sparse matrix with one row per segment, multiplied by the matrix of word vectors
            from scipy.sparse import csr_array

            shape = (len(starts) - 1, len(matrix))
            sums = csr_array((values, rows, starts.astype(np.int32)), shape) @ matrix
        if has_long_texts:
            sums = np.add.reduceat(sums, first_segment, axis=0, dtype=np.float64)
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

    def _known_rows(self, lookup: WordLookup) -> KnownRows:
        """Return the rows of the known words of each text, or of the known pieces of its words."""
        rows: NDArray[np.integer]
        if lookup.spelled is None:
            rows, offsets = lookup.positions[lookup.codes], lookup.offsets
        else:  # the rows of the pieces of each word, then of each text
            pieces, known, starts = lookup.spelled
            positions = self.words.vocabulary.stored.find(pieces).astype(np.int32)
            positions[~known] = -1  # the entry for unknown pieces has a vector, too
            of_words = TokenCodes(positions, starts, lookup.distinct)
            rows, offsets, _ = of_words.of_texts(lookup.codes, lookup.offsets)
        is_known = rows >= 0
        return rows[is_known].astype(np.int32), starts_of(is_known)[offsets]


class Model2VecEncoder(Encoder):
    """Computes means of token vectors. A text without tokens has the zero vector."""

    kind = "model2vec"
    threads = 2  # one batch is tokenized while another is added up
    words: Words

    def __init__(self, model: str | Path, options: EncoderOptions) -> None:
        """Open a folder, a safetensors file, or a model in the local Hugging Face cache."""
        path = Path(model)
        self._path = path if path.exists() else find_folder(model)
        self.folder = self._path if self._path.is_dir() else self._path.parent
        self._files = files = encoder_files.find_static(self._path)
        self.words = Words.of(files.tokenizer)  # this checks the tokenizer, too
        self.options = options
        self.max_batch = options.max_batch or DEFAULT_BATCH
        self._normalize, self.max_tokens = files.normalize, None
        if files.config is not None:
            self._normalize, self.max_tokens = encoder_files.read_model2vec(files.config)
        with reading(str(files.tokenizer)), library_errors("the tokenizers library rejects it"):
            self._open_tokenizer()
        with reading(str(files.tensors)):
            self._open_tensors()
        self.dim = int(self._matrix.shape[1])
        if self.max_tokens is not None:
            self._notes += (f"of a text, the first {self.max_tokens:,} tokens count",)

    def _open_tokenizer(self) -> None:
        """Open the tokenizer, and set what limits it.

        - ``_characters``: how many characters of a text it reads; ``None`` for all.
        - ``_unknown``: the id that does not count in a mean; ``None`` if each token counts.
        - ``max_tokens``: for sentence-transformers, the limit in the tokenizer.json.
        """
        from tokenizers import Tokenizer

        self._tokenizer: Any = Tokenizer.from_file(str(self._files.tokenizer))
        self._tokenizer.no_padding()
        entries: dict[str, int] = self._tokenizer.get_vocab()
        if not entries:
            raise InvalidFile("the tokenizer has no entries")
        self._entries = max(entries.values()) + 1
        self._characters: int | None = None
        self._unknown: int | None = None
        if self._files.style == "sentence-transformers":
            truncation = self._tokenizer.truncation
            self.max_tokens = None if truncation is None else truncation["max_length"]
            return
        self._tokenizer.no_truncation()
        if self.max_tokens is not None:
            self._characters = self.max_tokens * int(np.median(list(map(len, entries))))
            self._tokenizer.enable_truncation(self.max_tokens)
        token = getattr(self._tokenizer.model, "unk_token", None)  # Unigram has none, but an id
        unknown = self.words.vocabulary.unknown
        if token is not None:
            self._unknown = self._tokenizer.token_to_id(token)
        elif unknown is not None:
            self._unknown = unknown.id

    def _open_tensors(self) -> None:
        """Open the matrix, and the mapping and the weights if there are any. Check their shapes."""
        tensors = encoder_files.open_tensors(self._files.tensors)
        matrix = next((tensors[name] for name in EMBEDDINGS if name in tensors), None)
        if matrix is None or matrix.ndim != 2 or not matrix.size or matrix.dtype.kind not in "fi":
            got = "none" if matrix is None else f"{matrix.dtype} of shape {matrix.shape}"
            raise InvalidFile(f"wanted a matrix of numbers ({' or '.join(EMBEDDINGS)}), got {got}")
        self._matrix = matrix
        self._mapping, self._weights = tensors.get(MAPPING), tensors.get(TOKEN_WEIGHTS)
        for name, array, kinds in (
            (MAPPING, self._mapping, "iu"),
            (TOKEN_WEIGHTS, self._weights, "f"),
        ):
            if array is None:
                continue
            if array.ndim != 1 or len(array) < self._entries or array.dtype.kind not in kinds:
                raise InvalidFile(
                    f"tensor {name!r} is {array.dtype} of shape {array.shape}, but must have one "
                    f"number for each of the {self._entries:,} entries of "
                    f"{self._files.tokenizer.name}"
                )
        rows = self._entries
        if self._mapping is not None:
            rows = int(self._mapping.max()) + 1
            if int(self._mapping.min()) < 0:
                raise InvalidFile(f"tensor {MAPPING!r} contains a row number below 0")
        if rows > len(matrix):
            raise InvalidFile(
                f"{self._files.tokenizer.name} and {MAPPING!r} need {rows:,} rows, but the "
                f"matrix has {len(matrix):,}: they belong to different models"
            )

    @cached_property
    def fingerprint(self) -> str:
        files = self._files
        facts = f"{files.style} {self._normalize} {self.max_tokens}"
        start = f"vocabtool model2vec 2\n{facts}\n".encode()
        return hash_files(start, (files.tensors, files.tokenizer))

    def encode(self, texts: Texts) -> Vectors:
        return self.encode_counting(texts).vectors

    def encode_counting(self, texts: Texts) -> EncodedTexts:
        decoded = decode_texts(texts)
        vectors = [np.zeros((0, self.dim), np.float32)]
        too_long = tokens_cut = estimated = 0
        for start in range(0, len(decoded), self.max_batch):
            batch = decoded[start : start + self.max_batch]
            starts = [text[: self._characters] for text in batch]
            with library_errors(f"{self._path}: the tokenizers library fails on a text"):
                encoded = self._tokenizer.encode_batch_fast(starts, add_special_tokens=False)
            for text, encoding in zip(batch, encoded, strict=True):
                unread = 0 if self._characters is None else max(len(text) - self._characters, 0)
                if unread == 0 and len(encoding) != self.max_tokens:
                    continue  # the usual case: nothing is cut off
                tokens = sum(map(len, encoding.overflowing))
                if unread and self._characters:  # as many tokens in a character as before the cut
                    tokens += round((len(encoding) + tokens) / self._characters * unread)
                    estimated += 1
                too_long, tokens_cut = too_long + (tokens > 0), tokens_cut + tokens
            means = check_vectors(self._means(encoded), len(batch), self.dim, str(self._path))
            vectors.append(unit_length(means) if self._normalize else means)
        return EncodedTexts(np.concatenate(vectors), too_long, tokens_cut, estimated)

    def _means(self, encoded: list[Any]) -> NDArray[np.floating]:
        """Return the mean of the token vectors of each text: shape (texts, dim)."""
        from scipy.sparse import csr_array

        lists = [encoding.ids for encoding in encoded]
        offsets = starts_of(list(map(len, lists)))
        ids = np.fromiter(chain.from_iterable(lists), np.int64, int(offsets[-1]))
        if self._unknown is not None:
            counts_in_mean = ids != self._unknown
            ids, offsets = ids[counts_in_mean], starts_of(counts_in_mean)[offsets]
        table, rows, weights = self._matrix, ids, self._weights
        dtype = np.float64 if table.dtype == np.float64 else np.float32
        if table.dtype != dtype or weights is not None or self._mapping is not None:
            # Copy the vectors of these tokens, converted and weighted, to a smaller table.
            row_of = np.zeros(self._entries, np.int64)
            row_of[ids] = 1
            distinct = np.flatnonzero(row_of)
            row_of[distinct] = np.arange(len(distinct))
            rows = row_of[ids]
            matrix_rows = distinct if self._mapping is None else self._mapping[distinct]
            table = self._matrix[matrix_rows].astype(dtype)
            if weights is not None:
                table *= weights[distinct].astype(dtype)[:, None]
        # A sparse matrix of ones adds the rows one after the other, as the libraries do.
        shape = (len(encoded), len(table))
        ones = np.ones(len(rows), dtype)
        sparse = csr_array(
            (ones, rows.astype(np.int32, copy=False), offsets.astype(np.int32)), shape=shape
        )
        counts = np.maximum(np.diff(offsets), 1).astype(dtype)
        means: NDArray[np.floating] = (sparse @ table) / counts[:, None]
        return means

    def __reduce__(self) -> tuple[Any, ...]:
        return Model2VecEncoder, (self._path, self.options)


class VectorFile:
    """A file of words and their vectors, memory-mapped. Unpickling opens the file again.

    ``matrix``: float32, shape (words, dim), read-only. ``converted``: the ``.npy`` file that
    contains it, if ``file`` has no plain float32 matrix: the one that :meth:`WordVectors.matrix`
    wrote beside ``file``, otherwise one in the user's cache.
    """

    def __init__(self, file: str | Path) -> None:
        from vocabtool.formats.word_vectors import WordVectors  # an index has a copy of them

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
            # Convert the matrix into the cache, once. Another file, or one that replaced this one,
            # may have the same name, size and time.
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
    """Open a pickled file. Take its earlier fingerprint if the file has not changed since."""
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
    """Create and return the user's cache of matrices. Raises :class:`NotFound` if that fails."""
    folder = user_cache() / CACHED
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"cannot be created ({error.strerror or error}), but word vectors must be stored"
        raise NotFound(f"{folder}: {what}; set ${CACHE} to a folder for them") from error
    return folder
