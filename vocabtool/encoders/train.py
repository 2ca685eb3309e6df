"""Train word vectors on texts: positive pointwise mutual information, then a truncated SVD.

    n(w, c)    how near c is to w: the sum of (window + 1 - d) over all pairs of an occurrence of w
               and an occurrence of c that are d <= window words apart in the same text
    n(w)       the sum of n(w, c) over all c
    s(c)       n(c)^0.75 / (the sum of n(c')^0.75 over all c')
    M(w, c)    max(0, ln(n(w, c) / (n(w) s(c))))
    U S V^T    the truncated SVD of M, with the ``dim`` largest singular values
    vector(w)  row w of U S^0.5, scaled to unit length

The exponents 0.75 and 0.5 are recommended by Levy, Goldberg, Dagan: Improving Distributional
Similarity with Lessons Learned from Word Embeddings, TACL 3, 2015. word2vec weights distances in
the same way ("dynamic context window").

The SVD is the randomized subspace iteration of Halko, Martinsson, Tropp: Finding Structure with
Randomness, SIAM Review 53(2), 2011, algorithms 4.4 and 5.1. This SVD is exact for up to ``EXACT``
words.

Texts are read and split once. Words are written to a temporary file as numbers, and pairs are
counted from this file. If memory is short, the rarest words or pairs are dropped, and a note says
so. Counts are integers and BLAS uses one thread, so the number of threads does not change the
result.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import compress, count, repeat
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from vocabtool.choices import DIM, MAX_WINDOW, MAX_WORDS, MIN_COUNT, WINDOW
from vocabtool.documents.options import ReadOptions
from vocabtool.documents.reading import ReadLog, Sources, batches, extent, names_of
from vocabtool.errors import VocabtoolError, no_documents, reading
from vocabtool.formats.binary_vectors import RULES, may_state
from vocabtool.system.messages import plural
from vocabtool.system.own_files import whole_file
from vocabtool.system.parallel import parallel_map
from vocabtool.tokenization.rule import Rule, parse_rule
from vocabtool.tokenization.text_arrays import TokenCodes, as_bytes, starts_of
from vocabtool.vocabulary import decode

Progress = Callable[[str, float], None]

MEMORY: Final = 1 << 30
THREADS: Final = 2
RULE: Final = "words"
SMOOTHING: Final = 0.75
WEIGHT_BITS: Final = 5
MAX_WORD: Final = 100  # bytes; a longer word gets no vector, as in word2vec

READ_BYTES: Final = 1 << 20  # bytes of text in a batch
WORD_COST: Final = 128  # bytes per distinct word, in addition to the word itself
WORDS_SHARE: Final = 4  # distinct words may take 1 / WORDS_SHARE of the memory
BLOCK_SHARE: Final = 512  # pairs counted at a time: bytes of memory / BLOCK_SHARE
COUNTERS: Final = 4  # threads that count pairs; each needs a tenth of the memory
PAIR_COST: Final = 48  # bytes per pair while counts become associations
ENTRY_COST: Final = 16  # bytes per pair during the SVD
MIN_PAIRS: Final = 1 << 16
MAX_PAIRS: Final = 1 << 30  # their positions are int32

EXACT: Final = 1_024  # words; the basis of so few has all directions
OVERSAMPLING: Final = 10  # directions in addition to ``dim``
POWERS: Final = 3  # iterations; each multiplies by M and its transpose
COLUMNS: Final = 64  # multiplied at a time by one thread
DENSE_COPIES: Final = 5  # of matrices with a row per word that the SVD holds at a time


@dataclass(frozen=True, eq=False)
class TrainedVectors:
    """Words with their vectors, the most frequent first.

    ``words``: the n words; bytes that are not UTF-8 are decoded with ``surrogateescape``.
    ``vectors``: float32, shape (n, dim), unit length, or zero for a word without any neighbour.
    ``counts``: int64, shape (n,), occurrences of each word.
    ``rule``: the rule that split the texts. ``documents``: number of texts.
    ``tokens``: number of words in the texts, with repetitions. ``notes``: remarks for the user, for
    example on dropped words.
    """

    words: list[str]
    vectors: NDArray[np.float32]
    counts: NDArray[np.int64]
    rule: str
    documents: int
    tokens: int
    notes: tuple[str, ...] = ()

    def save(self, file: str | Path) -> None:
        """Write a ``.npz`` file with words, vectors and rule, atomically.

        Raises :class:`NotFound` if the folder of ``file`` does not exist.
        """
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
    memory: int = MEMORY,
    threads: int = THREADS,
    seed: int = 0,
    folder: str | Path | None = None,
    log: ReadLog | None = None,
    progress: Progress | None = None,
) -> TrainedVectors:
    """Train word vectors on the texts of ``sources``, which are read once.

    ``sources``, ``options``, ``log``: as for ``vocabtool.documents.batches``. A list of strings is
    taken as names of files, so pass texts as ``iter(texts)``.
    ``dim``: length of a vector, at most the number of words.
    ``window``: the number of words on each side of a word that count as near.
    ``min_count``: the minimum number of occurrences of a word that gets a vector.
    ``max_words``: the maximum number of words that get a vector; the most frequent are chosen.
    ``rule``: splits texts into words, see ``Words.of``. Rules for subword pieces are refused.
    ``memory``: bytes for counts and vectors.
    ``seed``: seed of the random start of the SVD.
    ``folder``: folder of the temporary file. By default, ``tempfile`` chooses the folder. The file
    has 4 bytes for each word of the texts.
    ``progress``: a function that is called with the name of a step and the share of the step that
    is done, from 0 to 1.

    Equal texts and options give equal vectors on the same machine, with any number of threads.
    Raises :class:`VocabtoolError`, for example for texts with too few words, and ``ValueError`` if
    a number is out of range.
    """
    numbers = {"dim": dim, "min_count": min_count, "max_words": max_words, "threads": threads}
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")
    if not 1 <= window <= MAX_WINDOW:
        raise ValueError(f"window must be 1 to {MAX_WINDOW}, got {window}")
    if not may_state(rule):
        raise VocabtoolError(
            f"the rule {rule[:80]!r} cannot be used. A rule must find whole words, and its name is "
            f"stored in the file. Use {RULES}"
        )
    split = Rule(parse_rule(rule)).token_codes
    show = progress or (lambda step, share: None)
    options, log = options or ReadOptions(), log or ReadLog()
    options.refuse_weights()
    size = extent(sources, options=options).bytes
    with tempfile.TemporaryFile(dir=folder) as file:
        texts = _NumberedTexts(file, window, memory // WORDS_SHARE)
        found = batches(sources, options, log=log, size=READ_BYTES)
        for tokens in parallel_map(lambda batch: split(batch.texts), found, workers=threads):
            texts.add(tokens)
            show("texts read", log.bytes / size if size else 0.0)
        if not texts.documents:
            raise no_documents(names_of(sources) or ["the texts"], log.skipped.first)
        words, counts, rows = texts.choose(min_count, max_words)
        notes = texts.notes()
        most = _most_pairs(len(words), dim, memory)
        blocks = texts.blocks(rows, max(memory // BLOCK_SHARE // window, 1))
        near = _count_pairs(blocks, window, len(words), most, threads, show)
    above, below = _associations(near.pairs, near.totals)
    dropped = near.dropped
    del near  # frees memory for the sum
    matrix = above + below.T
    del above, below
    if not matrix.nnz:
        raise VocabtoolError(
            "no two words are near each other more often than by chance, so there is nothing to "
            "learn: train on more texts, or lower --min-count"
        )
    if dropped:
        notes += (
            "the pairs of near words exceeded the memory, so the rarest were dropped: those of at "
            f"most {dropped / window:,.1f} occurrences beside each other (--memory)",
        )
    if dim > len(words):
        notes += (f"only {len(words):,} words are frequent enough, so vectors have this length",)
    vectors = _decompose(matrix, min(dim, len(words)), seed, threads, show)
    return TrainedVectors(
        list(map(decode, words)), vectors, counts, rule, texts.documents, texts.tokens, notes
    )


class _NumberedTexts:
    """Writes the words of all texts to a temporary file, as int32 numbers. 0 means no word.

    Zeros are written after each text, so that no window reaches the next text. If the distinct
    words need more than ``budget`` bytes, the rarest words are dropped, and the remaining
    words get new numbers.
    """

    def __init__(self, file: BinaryIO, window: int, budget: int) -> None:
        self.documents = self.tokens = 0
        self._file, self._window, self._budget = file, window, budget
        self._numbers: dict[bytes, int] = {}
        self._counts = np.zeros(1, np.int64)  # by number, with spare rows at the end
        self._length = 0  # total bytes of the words
        self._dropped = 0  # maximum count of a dropped word
        self._spans: list[tuple[int, int, int]] = []  # begin, end, end of the new numbers
        self._begin = self._end = 0  # of the current span

    def add(self, tokens: TokenCodes) -> None:
        words, known = as_bytes(tokens.distinct), self._numbers
        numbers = np.fromiter(map(known.get, words, repeat(0)), np.int32, len(words))
        fits = [0 < len(word) <= MAX_WORD and b"\0" not in word for word in words]  # in an .npz
        new = (numbers == 0) & np.array(fits, np.bool_)
        added = list(compress(words, new.tolist()))
        numbers[new] = np.arange(len(known) + 1, len(known) + 1 + len(added))
        known.update(zip(added, count(len(known) + 1), strict=False))
        self._length += sum(map(len, added))
        if (short := len(known) + 1 - len(self._counts)) > 0:
            more = np.zeros(short + len(self._counts) // 2, np.int64)
            self._counts = np.concatenate([self._counts, more])
        self._counts[numbers] += np.bincount(tokens.codes, minlength=len(words))

        lengths = np.diff(tokens.offsets)
        self.documents += len(lengths)
        self.tokens += len(tokens.codes)
        places = np.zeros(len(tokens.codes) + self._window * len(lengths), np.int32)
        before = np.repeat(np.arange(len(lengths)) * self._window, lengths)
        places[np.arange(len(tokens.codes)) + before] = numbers[tokens.codes]
        self._end += self._write(places)
        if self._length + WORD_COST * len(known) > self._budget:
            self._drop_rare()

    def _write(self, numbers: NDArray[np.int32]) -> int:
        self._file.write(numbers.data)
        return len(numbers)

    def _drop_rare(self) -> None:
        words = list(self._numbers)
        counts = self._counts[1 : len(words) + 1]
        order = np.argsort(-counts, kind="stable")
        costs = np.fromiter(map(len, words), np.int64)[order] + WORD_COST
        kept = int(np.searchsorted(np.cumsum(costs), self._budget // 2, "right"))
        self._dropped = max(self._dropped, int(counts[order[kept]]))
        chosen = np.sort(order[:kept])
        renamed = np.zeros(len(words) + 1, np.int32)
        renamed[chosen + 1] = np.arange(1, kept + 1)
        begin, end = self._begin, self._end
        self._begin = self._end = end + self._write(renamed)
        self._spans.append((begin, end, self._end))
        self._counts = np.append(0, counts[chosen])
        self._numbers = {words[row]: number for number, row in enumerate(chosen.tolist(), 1)}
        self._length = sum(map(len, self._numbers))

    def notes(self) -> tuple[str, ...]:
        if not self._dropped:
            return ()
        return (
            "the distinct words exceeded the memory, so the rarest were dropped: those that had "
            f"occurred at most {plural(self._dropped, 'time', 'times')} until then (--memory)",
        )

    def choose(
        self, min_count: int, max_words: int
    ) -> tuple[list[bytes], NDArray[np.int64], NDArray[np.int32]]:
        """Return the most frequent words, their counts, and the positions of all words.

        Element n of the last array is the position of word number n among the chosen words, or -1
        if the word is not chosen.
        """
        words, counts = list(self._numbers), self._counts[1 : len(self._numbers) + 1].tolist()
        frequent = (at for at, times in enumerate(counts) if times >= min_count)
        order = sorted(frequent, key=lambda at: (-counts[at], words[at]))[:max_words]
        if len(order) < 2:
            raise VocabtoolError(
                "wanted 2 or more different words that occur at least "
                f"{plural(min_count, 'time', 'times')}, got {len(order)} among {self.tokens:,} "
                "words: train on more texts, or lower --min-count"
            )
        rows = np.full(len(words) + 1, -1, np.int32)
        rows[np.array(order, np.int64) + 1] = np.arange(len(order))
        chosen = [words[at] for at in order]
        self._numbers.clear()  # frees memory
        return chosen, np.array([counts[at] for at in order], np.int64), rows

    def blocks(
        self, rows: NDArray[np.int32], size: int
    ) -> Iterator[tuple[NDArray[np.int32], float]]:
        """Yield the texts in blocks: the row of each word, and the share of the texts that is done.

        ``rows``: the array that :meth:`choose` returns. ``size``: the number of words in a block.
        """
        # Each span but the last is followed by a table that converts its numbers to those of the
        # next span, so the last span is read first.
        spans, done = [*self._spans, (self._begin, self._end, 0)], 0
        whole = sum(end - begin for begin, end, _ in spans)
        for begin, end, renamed in reversed(spans):
            if renamed:
                rows = rows[self._read(end, renamed)]
            for start in range(begin, end, size):
                stop = min(start + size, end)
                done += stop - start
                places = self._read(start, min(stop + self._window, end))
                yield rows[places], done / whole

    def _read(self, begin: int, end: int) -> NDArray[np.int32]:
        self._file.seek(4 * begin)
        return np.frombuffer(self._file.read(4 * (end - begin)), np.int32)


class _NearWords(NamedTuple):
    """The pairs of near words.

    ``pairs``: int64, shape (n, n): how near two words are. A pair is stored once, in the row of the
    more frequent word.
    ``totals``: float64, shape (n,): n(w) of each word, as defined at the top of the file.
    ``dropped``: the highest count of a dropped pair, or 0 if no pair was dropped.
    """

    pairs: csr_array
    totals: NDArray[np.float64]
    dropped: int


def _most_pairs(words: int, dim: int, memory: int) -> int:
    dense = DENSE_COPIES * 4 * words * (min(dim, words) + OVERSAMPLING)
    most = min(memory // PAIR_COST, (memory - dense) // ENTRY_COST, MAX_PAIRS)
    if most < MIN_PAIRS:
        raise VocabtoolError(
            f"{words:,} words with {dim:,} dimensions need at least "
            f"{max(dense + ENTRY_COST * MIN_PAIRS, PAIR_COST * MIN_PAIRS) >> 20:,} MiB, got "
            f"{memory >> 20:,}: raise --memory, or lower --max-words or --dim"
        )
    return most


def _count_pairs(
    blocks: Iterator[tuple[NDArray[np.int32], float]],
    window: int,
    size: int,
    most: int,
    threads: int,
    show: Progress,
) -> _NearWords:
    pairs = csr_array((size, size), dtype=np.int64)
    totals, dropped = np.zeros(size), 0
    work = partial(_count_block, window=window, size=size)
    threads = min(threads, COUNTERS)
    for keys, counts, done in parallel_map(work, blocks, workers=threads, ahead=threads):
        rows, columns = np.divmod(keys, size)
        totals += np.bincount(rows, counts, size) + np.bincount(columns, counts, size)
        starts = np.searchsorted(keys, np.arange(size + 1) * size).astype(np.int32)
        pairs = pairs + csr_array((counts, columns.astype(np.int32), starts), (size, size))
        if pairs.nnz > most:
            middle = pairs.nnz // 2
            dropped = max(dropped, int(np.partition(pairs.data, middle)[middle]))
            pairs.data[pairs.data <= dropped] = 0
            pairs.eliminate_zeros()
        show("neighbours counted", done)
    return _NearWords(pairs, totals, dropped)


def _count_block(
    block: tuple[NDArray[np.int32], float], window: int, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
    """Return the distinct pairs of near words in a block, and the sum of each pair's weights.

    A pair is the number ``lower row * size + higher row``. Pairs are in ascending order.
    ``block[1]`` is also returned: the share of all texts that is done after this block.
    """
    rows, done = block
    left = rows[:-window].astype(np.int64)
    parts = []
    for distance in range(1, window + 1):
        right = rows[distance : len(left) + distance]
        near = (left >= 0) & (right >= 0)
        one, other = left[near], right[near]
        keys = np.minimum(one, other) * size + np.maximum(one, other)
        parts.append(keys << WEIGHT_BITS | window + 1 - distance)
    both = np.sort(np.concatenate(parts))
    keys = both >> WEIGHT_BITS
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    weights = starts_of(both & ((1 << WEIGHT_BITS) - 1))
    return keys[first], np.diff(weights[np.append(first, len(keys))]), done


def _associations(pairs: csr_array, totals: NDArray[np.float64]) -> tuple[csr_array, csr_array]:
    """Return the upper triangle of M (see the top of the file), and the transposed lower triangle.

    The diagonal is in the upper triangle.
    """
    kind = np.float64 if len(totals) <= EXACT else np.float32
    smooth = totals**SMOOTHING
    with np.errstate(divide="ignore", invalid="ignore"):  # a word without neighbours is in no pair
        of_word = np.log(totals).astype(kind)
        of_context = np.log(smooth / smooth.sum()).astype(kind)
    columns = pairs.indices
    rows = np.repeat(np.arange(len(totals), dtype=np.int32), np.diff(pairs.indptr))
    is_same = rows == columns
    logs = np.log(pairs.data, dtype=kind, casting="same_kind")
    logs[is_same] += np.log(2)  # each of its two places is near the other

    def half(word: NDArray[np.int32], context: NDArray[np.int32]) -> csr_array:
        values = np.maximum(logs - of_word[word] - of_context[context], 0)
        return csr_array((values, columns.copy(), pairs.indptr.copy()), pairs.shape)

    above, below = half(rows, columns), half(columns, rows)
    below.data[is_same] = 0
    above.eliminate_zeros()
    below.eliminate_zeros()
    return above, below


def _decompose(
    matrix: csr_array, dim: int, seed: int, threads: int, show: Progress
) -> NDArray[np.float32]:
    size = matrix.shape[0]
    width = size if size <= EXACT else min(dim + OVERSAMPLING, size)
    across = matrix.T
    starts = range(0, width, COLUMNS)
    done, parts = count(1), (2 * POWERS + 2) * len(starts)

    def times(factor: csr_array, dense: NDArray[Any]) -> NDArray[Any]:
        def multiply(start: int) -> NDArray[Any]:
            part: NDArray[Any] = factor @ np.ascontiguousarray(dense[:, start : start + COLUMNS])
            return part

        result = np.empty_like(dense)
        for start, part in zip(
            starts, parallel_map(multiply, starts, workers=threads), strict=True
        ):
            result[:, start : start + COLUMNS] = part
            show("vectors computed", next(done) / parts)
        return result

    with threadpool_limits(1, "blas"):  # sums of several threads differ in their last digits
        random = np.random.default_rng(seed).standard_normal((size, width), matrix.dtype)
        basis = np.linalg.qr(times(matrix, random))[0]
        for _ in range(POWERS):
            basis = np.linalg.qr(times(across, basis))[0]
            basis = np.linalg.qr(times(matrix, basis))[0]
        triangle = np.linalg.qr(times(across, basis), mode="r")
        _, strength, rotation = np.linalg.svd(triangle)
        vectors = basis @ (rotation[:dim].T * np.sqrt(strength[:dim]))
    vectors[np.diff(matrix.indptr) == 0] = 0
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.maximum(lengths, np.finfo(vectors.dtype).tiny)
    return np.asarray(vectors, np.float32)
