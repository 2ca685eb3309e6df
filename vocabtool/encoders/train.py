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

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.linalg import svds

from vocabtool.choices import DIM, MAX_WORDS, MIN_COUNT, WINDOW
from vocabtool.documents.options import ReadOptions
from vocabtool.documents.reading import ReadLog, Sources, batches, extent, names_of
from vocabtool.errors import VocabtoolError, no_documents, reading
from vocabtool.formats.binary_vectors import RULES, may_state
from vocabtool.system.messages import plural
from vocabtool.system.own_files import whole_file
from vocabtool.tokenization.rule import Rule, parse_rule
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.vocabulary import decode

Progress = Callable[[str, float], None]  # gets the name of a step and the share that is done

RULE: Final = "words"
MAX_WORD: Final = 100  # bytes; a longer word gets no vector, as in word2vec
MAX_TOKENS: Final = 1 << 29  # words of all texts
READ_BYTES: Final = 1 << 20  # bytes of text in a batch
BLOCK: Final = 1 << 18  # words whose pairs are counted at a time
TOLERANCE: Final = 0.01  # of singular values; 0 takes three times as long for the same vectors


@dataclass(frozen=True, eq=False)
class TrainedVectors:
    """Words with their vectors, the most frequent first.

    ``words``: the n words; bytes that are not UTF-8 are decoded with ``surrogateescape``.
    ``vectors``: float32, shape (n, dim), unit length, or zero for a word without any neighbour.
    ``rule``: the rule that split the texts. ``documents``: number of texts.
    ``tokens``: number of words in the texts, with repetitions. ``notes``: remarks for the user.
    """

    words: list[str]
    vectors: NDArray[np.float32]
    rule: str
    documents: int
    tokens: int
    notes: tuple[str, ...] = ()

    def save(self, file: str | Path) -> None:
        """Write a ``.npz`` file with words, vectors and rule, atomically."""
        with reading(str(file)), whole_file(file) as opened:
            words, rule = np.array(self.words), np.array([self.rule])
            np.savez(opened, words=words, vectors=self.vectors, rule=rule)


def train(
    sources: Sources,
    options: ReadOptions | None = None,
    *,
    dim: int = DIM,
    window: int = WINDOW,
    min_count: int = MIN_COUNT,
    max_words: int = MAX_WORDS,
    rule: str = RULE,
    log: ReadLog | None = None,
    progress: Progress | None = None,
) -> TrainedVectors:
    """Train word vectors on the texts of ``sources``, which are read once.

    ``sources``, ``options``, ``log``: as for ``vocabtool.documents.batches``. A list of strings is
    taken as names of files, so pass texts as ``iter(texts)``.
    ``dim``: length of a vector, less than the number of words.
    ``window``: the number of words on each side of a word that count as near.
    ``min_count``, ``max_words``: words that occur less often get no vector; of the others, only the
    most frequent get one.
    ``rule``: splits texts into words, see ``Words.of``. Rules for subword pieces are refused.

    Equal texts and options give equal vectors on the same machine. Raises :class:`VocabtoolError`,
    for example for texts with too few or too many words, and ``ValueError`` for a number below 1.
    """
    numbers = {"dim": dim, "window": window, "min_count": min_count, "max_words": max_words}
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")
    if not may_state(rule):
        raise VocabtoolError(
            f"the rule {rule[:80]!r} cannot be used. A rule must find whole words, and its name is "
            f"stored in the file. Use {RULES}"
        )
    show, log, options = progress or (lambda *_: None), log or ReadLog(), options or ReadOptions()
    options.refuse_weights()
    size, split = extent(sources, options=options).bytes, Rule(parse_rule(rule)).token_codes
    known: dict[bytes, int] = {}  # the number of each word
    texts: list[NDArray[np.int32]] = []  # the words of all texts
    documents = tokens = 0
    for batch in batches(sources, options, log=log, size=READ_BYTES):
        found = split(batch.texts)
        lengths, count = np.diff(found.offsets), len(found.codes)
        documents, tokens = documents + len(lengths), tokens + count
        if tokens > MAX_TOKENS:
            raise VocabtoolError(f"the texts have more than {MAX_TOKENS:,} words: train on a part")
        distinct = [
            known.setdefault(word, len(known))
            if 0 < len(word) <= MAX_WORD and b"\0" not in word
            else -1
            for word in as_bytes(found.distinct)  # an .npz file keeps no NUL
        ]
        # -1 is no word. It stands ``window`` times after each text: no window reaches the next.
        words = np.full(count + window * len(lengths), -1, np.int32)
        before = np.repeat(np.arange(len(lengths)) * window, lengths)
        words[np.arange(count) + before] = np.array(distinct, np.int32)[found.codes]
        texts.append(words)
        show("texts read", log.bytes / size if size else 0.0)
    if not documents:
        raise no_documents(names_of(sources) or ["the texts"], log.skipped.first)
    corpus, spellings = np.concatenate(texts), [*known]
    del texts  # as large as the corpus
    counts = np.bincount(corpus[corpus >= 0], minlength=len(known))
    frequent = np.flatnonzero(counts >= min_count).tolist()
    order = sorted(frequent, key=lambda at: (-counts[at], spellings[at]))[:max_words]
    if len(order) < 2:
        raise VocabtoolError(
            "wanted 2 or more different words that occur at least "
            f"{plural(min_count, 'time', 'times')}, got {len(order)} among {tokens:,} words: train "
            "on more texts, or lower --min-count"
        )
    rows = np.full(len(known) + 1, -1, np.int32)  # the last one is the row of no word
    rows[order] = np.arange(len(order))
    matrix = _associations(_near(rows[corpus], window, len(order), show))
    shorter = min(dim, len(order) - 1)
    vectors = _decompose(matrix, shorter)
    show("vectors computed", 1.0)
    note = f"only {len(order):,} words are frequent enough, so vectors have {shorter:,} dimensions"
    notes = (note,) if shorter < dim else ()
    chosen = [decode(spellings[at]) for at in order]
    return TrainedVectors(chosen, vectors, rule, documents, tokens, notes)


def _near(corpus: NDArray[np.int32], window: int, size: int, show: Progress) -> csr_array:
    """Return n(w, c): int64, shape (size, size). ``corpus``: the row of each word, or -1."""
    near = csr_array((size, size), dtype=np.int64)
    for start in range(0, len(corpus), BLOCK):
        left, pairs = corpus[start : start + BLOCK], []
        for distance in range(1, window + 1):
            right = corpus[start + distance : start + distance + BLOCK]
            both = np.stack((left[: len(right)], right))
            pairs.append(both[:, (both >= 0).all(axis=0)])
        weights = np.repeat(np.arange(window, 0, -1), [both.shape[1] for both in pairs])
        places = np.concatenate(pairs, axis=1)
        near = near + coo_array((weights, (places[0], places[1])), (size, size)).tocsr()
        show("neighbours counted", min(start + BLOCK, len(corpus)) / len(corpus))
    return near + near.T


def _associations(near: csr_array) -> csr_array:
    """Return M, see the top of the file; float32: half the time and memory."""
    totals = np.asarray(near.sum(axis=1), np.float64)
    smooth = totals**0.75
    words, contexts = near.nonzero()
    values = np.log(near.data / (totals[words] * smooth[contexts] / smooth.sum()))
    matrix = csr_array((np.maximum(values, 0).astype(np.float32), (words, contexts)), near.shape)
    matrix.eliminate_zeros()
    if not matrix.nnz:
        raise VocabtoolError(
            "no two words are near each other more often than by chance, so there is nothing to "
            "learn: train on more texts, or lower --min-count"
        )
    return matrix


def _decompose(matrix: csr_array, dim: int) -> NDArray[np.float32]:
    start = np.random.default_rng(0).standard_normal(matrix.shape[0], np.float32)
    left, strength, _ = svds(matrix, dim, tol=TOLERANCE, v0=start)
    strongest = np.argsort(-strength)  # first, so that --dim keeps them
    vectors = (left * np.sqrt(strength))[:, strongest]
    vectors[np.diff(matrix.indptr) == 0] = 0  # without any neighbour
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    # in rows, so that the file can be memory-mapped
    return np.ascontiguousarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny))
