"""Train word vectors on texts: positive pointwise mutual information, then a truncated SVD.

    n(w, c)    how near c is to w: the sum of (window + 1 - d) over all pairs of an occurrence of w
               and an occurrence of c that are d <= window words apart in the same text
    n(w)       the sum of n(w, c) over all c
    s(c)       n(c)^0.75 / (the sum of n(c')^0.75 over all c')
    M(w, c)    max(0, ln(n(w, c) / (n(w) s(c))))
    vector(w)  row w of U S^0.5, scaled to unit length, where U S V^T is the truncated SVD of M

Source: Levy, Goldberg, Dagan: Improving Distributional Similarity with Lessons Learned from Word
Embeddings, TACL 3, 2015. Texts are read once and kept as numbers of words, 4 bytes each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import svds

from vocabtool.documents.options import ReadOptions
from vocabtool.documents.reading import ReadLog, Sources, batches, extent, names_of
from vocabtool.encoders.encoder import Training, unit_length
from vocabtool.errors import VocabtoolError, no_documents, reading
from vocabtool.formats.binary_vectors import RULES, may_state
from vocabtool.streams.stream import Stream
from vocabtool.system.arguments import takes
from vocabtool.system.messages import Progress
from vocabtool.system.own_files import whole_file
from vocabtool.tokenization.rule import Rule, parse_rule
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.vocabulary import decode

WORD: Final = re.compile(rb"[^\0]{1,100}")  # word2vec ignores longer ones; a .npz loses a NUL
MAX_TOKENS: Final = 1 << 29  # words of all texts
BLOCK: Final = 1 << 18  # words whose pairs are counted at a time
TOLERANCE: Final = 0.01  # of singular values; 0 takes three times as long for the same vectors


@dataclass(frozen=True, eq=False)
class TrainedVectors:
    """Words with their vectors, the most frequent first.

    ``words``: the n words; bytes that are not UTF-8 are decoded with ``surrogateescape``.
    ``vectors``: float32, shape (n, dim), unit length, or zero for a word without any neighbour.
    ``rule``: the rule that split the texts. ``documents``: number of texts.
    ``tokens``: number of words in the texts, with repetitions.
    """

    words: list[str]
    vectors: NDArray[np.float32]
    rule: str
    documents: int
    tokens: int

    def save(self, file: str | Path) -> None:
        """Write a ``.npz`` file with words, vectors and rule, atomically."""
        with reading(str(file)), whole_file(file) as opened:
            np.savez(opened, words=self.words, vectors=self.vectors, rule=[self.rule])


@takes(Training)
def train(sources: Sources, request: Training) -> TrainedVectors:
    """Train word vectors on the texts of ``sources``, which are read once.

    ``sources``: as for ``vocabtool.documents.batches``. A list of strings is taken as names of
    files, so pass texts as ``iter(texts)``. The other arguments are the fields of
    :class:`vocabtool.encoders.encoder.Training`.

    Equal texts and options give equal vectors on the same machine. Raises :class:`VocabtoolError`,
    for example for texts with too few or too many words, and ``ValueError`` for a number below 1.
    """
    dim, window, min_count, rule = request.dim, request.window, request.min_count, request.rule
    if not may_state(rule):
        what = "A rule must find whole words, and open no other file"
        raise VocabtoolError(f"the rule {rule[:80]!r} cannot be used. {what}. Use {RULES}")
    show, log = request.progress or (lambda *_: None), request.log or ReadLog()
    read = request.read or ReadOptions()
    read.refuse_weights()
    size, split = extent(sources, read=read).bytes, Rule(parse_rule(rule)).token_codes
    # Read the texts as numbers of words.
    number_of = {b"": 0}  # 0 stands for what gets no vector
    texts: list[NDArray[np.int32]] = []
    documents = tokens = 0
    stream = Stream.of(batches(sources, read, log=log))
    for batch in stream.map(lambda batch: batch.texts).map(split):
        ends = batch.offsets[1:]
        documents, tokens = documents + len(ends), tokens + len(batch.codes)
        if tokens > MAX_TOKENS:
            raise VocabtoolError(f"the texts have more than {MAX_TOKENS:,} words: train on a part")
        words = [word if WORD.fullmatch(word) else b"" for word in as_bytes(batch.distinct)]
        numbers = np.array([number_of.setdefault(w, len(number_of)) for w in words], np.int32)
        # 0 also stands ``window`` times after each text: no window reaches the next text.
        texts.append(np.insert(numbers[batch.codes], np.repeat(ends, window), 0))
        show("texts read", log.bytes / size if size else 0.0)
    if not documents:
        raise no_documents(names_of(sources) or ["the texts"], log.skipped.first)
    corpus, spellings = np.concatenate(texts), [*number_of]
    del texts  # as large as the corpus

    # Choose the words that get a vector.
    counts = np.bincount(corpus)
    frequent = (np.flatnonzero(counts[1:] >= min_count) + 1).tolist()  # 0 gets no vector
    order = sorted(frequent, key=lambda at: (-counts[at], spellings[at]))[: request.max_words]
    if len(order) <= dim:
        raise VocabtoolError(
            f"vectors of {dim:,} numbers need more than {dim:,} different words that occur "
            f"--min-count {min_count:,} times or more, got {len(order):,} among {tokens:,} words: "
            "train on more texts, or lower --dim or --min-count"
        )
    rows = np.full(len(spellings), -1, np.int32)
    rows[order] = np.arange(len(order))
    vectors = _decompose(_associations(corpus, rows, window, show), dim)
    show("vectors computed", 1.0)
    return TrainedVectors([decode(spellings[at]) for at in order], vectors, rule, documents, tokens)


def _associations(
    corpus: NDArray[np.int32], rows: NDArray[np.int32], window: int, show: Progress
) -> csr_array:
    """Return M. ``rows``: for each number in ``corpus`` the row of the word in M, or -1."""
    size, distances = int(rows.max()) + 1, np.arange(1, window + 1)
    near = csr_array((size, size), dtype=np.int64)  # n(w, c) of pairs whose w comes before c
    shape = BLOCK, BLOCK + window
    # For each word of a block: window + 1 - d for the word that is d words behind it.
    weights = diags_array(distances[::-1], offsets=distances, shape=shape, dtype=np.int64).tocsr()
    for start in range(0, len(corpus), BLOCK):
        block = rows[corpus[start : start + BLOCK + window]]
        places = np.flatnonzero(block >= 0).astype(np.int32)  # else all indices take 8 bytes
        ones = np.ones(len(places), np.int64)
        is_word = csr_array((ones, (places, block[places])), (BLOCK + window, size))
        near = near + is_word[:BLOCK].T @ (weights @ is_word)
        show("neighbours counted", min(start + BLOCK, len(corpus)) / len(corpus))
    near = near + near.T
    totals = near.sum(axis=1).astype(np.float64)  # n(w)
    smooth = totals**0.75
    w, c = np.repeat(np.arange(size, dtype=np.int32), np.diff(near.indptr)), near.indices
    values = np.log(near.data / (totals[w] * smooth[c] / smooth.sum()))
    positive = np.maximum(values, 0).astype(np.float32)  # half the time and memory of float64
    matrix = csr_array((positive, c, near.indptr), near.shape)
    matrix.eliminate_zeros()
    if not matrix.nnz:
        what = "no two words are near each other more often than by chance"
        raise VocabtoolError(f"{what}: train on more texts, or lower --min-count")
    return matrix


def _decompose(matrix: csr_array, dim: int) -> NDArray[np.float32]:
    """Return vector(w) of each row w of M: shape (words, dim)."""
    start = np.random.default_rng(0).standard_normal(matrix.shape[0], np.float32)
    left, strength, _ = svds(matrix, dim, tol=TOLERANCE, v0=start)
    strongest = np.argsort(-strength)  # first, so that --dim keeps them
    vectors = (left * np.sqrt(strength))[:, strongest]
    vectors[np.diff(matrix.indptr) == 0] = 0  # without any neighbour
    return np.ascontiguousarray(unit_length(vectors))  # in rows, so that it can be memory-mapped
