"""Count unknown words of a stream of documents in bounded memory.

All counts are exact while the distinct words fit the budget. After that:

- The rarest words are dropped, with their counts.
- A new word may have been counted and dropped before. So it gets an error bound: the highest count
  of a dropped word.
- The number of distinct words is estimated from a sample of hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import Final
from zlib import crc32

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.choices import SplitOrder
from vocabtool.oov.batch_counts import (
    BatchCounts,
    Document,
    count_batch,
    find_examples,
    take_batch,
    text_of,
)
from vocabtool.oov.lookalikes import WIDTH
from vocabtool.oov.report import (
    MOST_PIECES,
    CutOff,
    Estimate,
    Header,
    KindShare,
    OovReport,
    Pieces,
    coverage,
    pieces_of,
    unknown_table,
    with_kinds,
)
from vocabtool.oov.split_words import LanguageCount, SplitWords, split_table
from vocabtool.system.messages import plural
from vocabtool.system.parallel import parallel_map
from vocabtool.tokenization.text_arrays import not_utf8, string_array, texts_array
from vocabtool.tokenization.token_limit import TokenLimit
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary

BUDGET: Final = 64 << 20  # bytes: about 350,000 words
WORD_COST: Final = 176  # bytes per word while words are merged, in addition to the word itself
WAITING_WORDS: Final = 1 << 17
WAITING_BYTES: Final = 16 << 20  # of texts
EXAMPLES_SHARE: Final = 4  # examples may take an additional 1 / EXAMPLES_SHARE of the budget
EXAMPLE_COST: Final = WIDTH + 136  # bytes per example
NEVER_USED: Final = 20  # entries listed in a report
THREADS: Final = 2
FEW: Final = 100  # fewer tokens say nothing about the language
MOSTLY_UNKNOWN: Final = (
    "most tokens are unknown: the texts may be in another language, or the model may need a step "
    "outside its files, for example a stemmer"
)
NOT_UTF8: Final = "not UTF-8: they may have another encoding or not be text"
TOO_MANY_EXAMPLES: Final = (
    "examples are kept only for the words that occurred first, because of the memory budget"
)

# ``read``: whether the model reads the whole word at least once. ``documents`` is 0 for known words
# in one piece. ``missed``: the maximum number of occurrences that were not counted before the word
# was stored.
FIGURES: Final = np.dtype(
    [
        *(("known", "?"), ("read", "?"), ("pieces", "i4")),
        *(("counts", "i8"), ("documents", "i8"), ("missed", "i8")),
    ],
    align=True,
)


class OovCounter:
    """A counter of the words that one model does not know.

    - ``words``: The result of :meth:`Words.of`.
    - ``budget``: Number of bytes for distinct words. If the words need more, the rarest words are
      dropped.
    - ``limit``: How many tokens of a text the model reads (:meth:`TokenLimit.of`). If given, the
      report says what is cut off. ``None`` means that the model reads all tokens.
    """

    def __init__(
        self, words: Words, *, budget: int = BUDGET, limit: TokenLimit | None = None
    ) -> None:
        self.words = words
        self.limit = limit
        self._all = (words, *words.others)
        self._counts = [OovCounts(len(each.vocabulary), budget=budget) for each in self._all]
        self._not_utf8 = self._blanks = 0

    def count(self, batches: Iterable[pa.StringArray], *, threads: int = THREADS) -> None:
        """Count batches of texts in order. Up to ``threads`` batches are processed at once."""
        for counted in parallel_map(self._count, map(texts_array, batches), workers=threads):
            self._add(*counted)

    def watch(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Yield the documents unchanged, and count their words.

        A document is a text or an object with a ``text`` attribute. Documents are counted in
        batches; when the stream ends or is closed, all yielded documents are counted.
        """
        if isinstance(documents, str | bytes):
            raise TypeError("expected several documents, got one text; put it in a list")
        remaining = iter(documents)
        while batch := list(take_batch(remaining)):
            try:
                for passed, document in enumerate(batch, 1):  # noqa: B007 - read below
                    yield document
            finally:
                texts = string_array(text_of(document) for document in batch[:passed])
                self._add(*self._count(texts))

    def _count(self, texts: pa.StringArray) -> tuple[pa.StringArray, int, list[BatchCounts]]:
        limits = (self.limit, *[None] * len(self.words.others))
        ways = [
            count_batch(words.look_up(texts), limit)
            for words, limit in zip(self._all, limits, strict=True)
        ]
        return texts, not_utf8(texts), ways

    def _add(self, texts: pa.StringArray, broken: int, ways: list[BatchCounts]) -> None:
        self._not_utf8 += broken
        self._blanks += ways[0].blanks
        for counts, batch in zip(self._counts, ways, strict=True):
            counts.add(batch, texts)

    def report(
        self, *, model: str = "", sources: tuple[str, ...] = (), order: SplitOrder = "cost"
    ) -> OovReport:
        """Return a report on all texts that were counted so far.

        - ``model``, ``sources``: Names to show in the report.
        - ``order``: For a subword model, the figure by which split words are sorted, descending.
        """
        headers = [
            Header(
                model,
                words.vocabulary.name,
                len(words.vocabulary),
                words.describe(),
                words.fingerprint,
                sources,
            )
            for words in self._all
        ]
        rest = zip(self.words.others, self._counts[1:], headers[1:], strict=True)
        others = tuple(counts.report(header, words.vocabulary) for words, counts, header in rest)
        counts, notes = self._counts[0], self.words.notes
        if counts.tokens >= FEW and counts.tokens_unknown > counts.tokens // 2:
            notes += (MOSTLY_UNKNOWN,)
        if self._not_utf8:
            be = "is" if self._not_utf8 == 1 else "are"
            notes += (f"{self._not_utf8:,} of {counts.documents:,} documents {be} {NOT_UTF8}",)
        if self._blanks:
            blanks = plural(self._blanks, "token", "tokens")
            notes += (f"skipped {blanks} of spaces only: repeated spaces are not words",)
        return counts.report(
            headers[0],
            self.words.vocabulary,
            notes=notes,
            others=others,
            order=order,
            spell=self.words.tokenizer.pieces,
            limit=self.limit,
        )


class OovCounts:
    """Counts words, batch by batch, as known or unknown to one vocabulary.

    ``budget``: approximate number of bytes for distinct words. Examples may need another quarter of
    this number.
    """

    def __init__(self, vocabulary_size: int, *, budget: int = BUDGET) -> None:
        self.documents = self.documents_unknown = 0
        self.tokens = self.tokens_unknown = self._pieces = 0
        self._cut = np.zeros(3, np.int64)  # documents, tokens cut off, all tokens
        self._budget = budget
        self._words = pa.array([], pa.large_binary())  # distinct, in order of first occurrence
        self._figures = np.zeros(0, FIGURES)  # of each of these words
        self._waiting: list[tuple[BatchCounts, pa.StringArray]] = []  # not yet added to the words
        self._waiting_words = self._waiting_bytes = 0
        self._bound = 0  # maximum count of a dropped word; 0: no word was dropped
        self._samples = (Sample(), Sample(), Sample())  # of all, unknown and split words
        self._languages: dict[str, NDArray[np.int64]] = {}
        self._examples: dict[bytes, bytes] = {}
        self._too_many_examples = False
        self._used = np.zeros(vocabulary_size, np.bool_)
        self._histogram: NDArray[np.int64] | None = None

    def add(self, batch: BatchCounts, texts: pa.StringArray) -> None:
        self.documents += len(texts)
        self.documents_unknown += batch.texts_unknown
        self.tokens += int(batch.counts.sum())
        self.tokens_unknown += int(batch.counts[~batch.known].sum())
        self._used[batch.positions[batch.positions >= 0]] = True
        if batch.pieces is not None:
            self._pieces += int(batch.counts @ batch.pieces)
            if self._histogram is None:
                self._histogram = np.zeros(MOST_PIECES + 1, np.int64)
            np.add.at(self._histogram, np.minimum(batch.pieces, MOST_PIECES), batch.counts)
        if batch.cut is not None:
            self._cut += batch.cut[:3]
        for name, figures in batch.languages.items():
            self._languages[name] = np.add(figures, self._languages.get(name, 0))
        self._waiting.append((batch, texts))
        self._waiting_words += len(batch.words)
        self._waiting_bytes += texts.nbytes
        room = min(max(WAITING_WORDS, len(self._words)), self._budget // WORD_COST)
        if self._waiting_words > room or self._waiting_bytes > WAITING_BYTES:
            self._merge()

    def _merge(self) -> None:
        """Add all waiting batches to the counts."""
        batches = [batch for batch, _ in self._waiting]
        if not batches:
            return
        held = len(self._words)
        parts = [self._words, *(batch.words.cast(pa.large_binary()) for batch in batches)]
        encoded = pa.concat_arrays(parts).dictionary_encode()
        self._words = encoded.dictionary
        ends = held + np.cumsum([0, *(len(batch.words) for batch in batches)])
        rows_of = np.split(encoded.indices.to_numpy(), ends)[1:-1]
        figures = np.zeros(len(self._words), FIGURES)
        figures[:held] = self._figures
        figures["missed"][held:] = self._bound
        self._figures = figures
        for batch, rows in zip(batches, rows_of, strict=True):
            figures["known"][rows] = batch.known
            if batch.pieces is not None:
                figures["pieces"][rows] = batch.pieces
            if batch.cut is not None:
                figures["read"][rows] |= batch.cut.read
            figures["counts"][rows] += batch.counts
            figures["documents"][rows[batch.listed]] += batch.documents
        if self._bound:
            self._sample(self._words[held:], figures[held:])
        self._add_examples(held, rows_of)
        self._waiting, self._waiting_words, self._waiting_bytes = [], 0, 0
        if self._words.nbytes + WORD_COST * len(self._words) > self._budget:
            self._prune()

    def _add_examples(self, held: int, rows_of: Sequence[NDArray[np.int32]]) -> None:
        room = self._budget // EXAMPLES_SHARE // EXAMPLE_COST - len(self._examples)
        without = np.arange(len(self._words)) >= held
        for (batch, texts), rows in zip(self._waiting, rows_of, strict=True):
            wanted = np.flatnonzero(without[rows[batch.listed]])
            without[rows] = False
            self._too_many_examples |= len(wanted) > room
            wanted = wanted[: max(room, 0)]
            room -= len(wanted)
            words = batch.words.take(pa.array(batch.listed[wanted])).to_pylist()
            found = find_examples(texts, words, batch.first[wanted], batch.shares[wanted])
            self._examples.update(zip(words, found, strict=True))

    def _prune(self) -> None:
        words, figures = self._words, self._figures
        if not self._bound:
            self._sample(words, figures)
        highest = figures["counts"] + figures["missed"]
        order = np.argsort(-highest, kind="stable")
        lengths = pc.binary_length(words).to_numpy()
        costs = np.cumsum(lengths[order] + WORD_COST)
        number = int(np.searchsorted(costs, self._budget // 2, "right"))
        self._bound = max(self._bound, int(highest[order[number]]))
        kept = np.sort(order[:number])
        self._figures = figures[kept]
        self._words = words.take(pa.array(kept))
        have = pa.array(list(self._examples), pa.large_binary())
        stay = pc.is_in(have, self._words).to_pylist()
        self._examples = dict(compress(self._examples.items(), stay))

    def _sample(self, words: pa.LargeBinaryArray, figures: NDArray[np.void]) -> None:
        hashes = _hashes(words.to_pylist())
        self._samples[0].add(hashes)
        self._samples[1].add(hashes[~figures["known"]])
        self._samples[2].add(hashes[figures["pieces"] > 1])

    def report(
        self,
        header: Header,
        vocabulary: Vocabulary | None = None,
        *,
        notes: tuple[str, ...] = (),
        others: tuple[OovReport, ...] = (),
        order: SplitOrder = "cost",
        spell: Callable[[bytes], tuple[bytes, ...]] | None = None,
        limit: TokenLimit | None = None,
    ) -> OovReport:
        """Return a report on all batches that were added so far.

        ``vocabulary`` is used to classify words and to list unused entries. ``spell`` returns the
        pieces of a word.
        """
        self._merge()
        held = self._figures
        missed = held["missed"]
        words = pa.table(
            {
                "word": self._words,
                "known": held["known"],
                "pieces": held["pieces"],
                "count": held["counts"] + missed,
                "documents": held["documents"] + np.where(held["documents"], missed, 0),
                "error": missed,
                "cut": ~held["read"] & (missed == 0) & (limit is not None),
            }
        )
        unknown = unknown_table(words, self._examples)
        kinds: tuple[KindShare, ...] = ()
        if vocabulary is not None:
            unknown, kinds = with_kinds(unknown, vocabulary, random=self._histogram is not None)
        distinct, distinct_unknown = len(words), len(unknown)
        estimated: tuple[Estimate, ...] = ()
        if self._bound:
            every, some, split_in_all = (sample.estimate() for sample in self._samples)
            distinct, distinct_unknown = max(distinct, every[0]), max(distinct_unknown, some[0])
            # Up to L tokens are not counted for a held word. They may all belong to other words
            # than estimated. Then the covered share is off by at most L, and as many tokens may
            # displace others among the most frequent words.
            late = self.tokens - int(held["counts"].sum())
            estimated = (
                Estimate("distinct", every[1], certain=False),
                Estimate("distinct_unknown", some[1], certain=False),
                Estimate("count", self._bound, certain=True),
                Estimate("documents", self._bound, certain=True),
                Estimate("curve", min(2 * late / self.tokens, 1.0), certain=True),
            )
            notes += (
                "the distinct words exceeded the memory budget, so the rarest were dropped: "
                f"{len(unknown):,} of about {distinct_unknown:,} unknown words are listed",
            )
        if self._too_many_examples:
            notes += (TOO_MANY_EXAMPLES,)
        used: int | None = int(self._used.sum())
        never_used: tuple[bytes, ...] = ()
        pieces: Pieces | None = None
        split: SplitWords | None = None
        if self._histogram is not None:  # use of entries is unknown for subword models
            used = None
            mean = self._pieces / self.tokens if self.tokens else 0.0
            pieces = pieces_of(words, self._histogram, mean)
            split = split_table(
                words, unknown, self._examples, order=order, vocabulary=vocabulary, spell=spell
            )
            languages = [LanguageCount(name, *n.tolist()) for name, n in self._languages.items()]
            languages.sort(key=lambda each: (-each.documents, each.name))
            split = replace(split, languages=tuple(languages))
            if self._bound:
                split = replace(split, distinct=max(split.distinct, split_in_all[0]))
                estimated += (Estimate("distinct_split", split_in_all[1], certain=False),)
        elif vocabulary is not None:
            positions = np.flatnonzero(~self._used)[:NEVER_USED].tolist()
            never_used = tuple(vocabulary.stored[position] for position in positions)
        cut: CutOff | None = None
        if limit is not None:
            marked = (unknown if split is None else split.table)["cut"]
            documents, tokens, every_token = self._cut.tolist()
            cut = CutOff(limit, documents, tokens, every_token, pc.sum(marked).as_py() or 0)
        return OovReport(
            header,
            self.documents,
            self.documents_unknown,
            self.tokens,
            self.tokens_unknown,
            distinct,
            distinct_unknown,
            unknown,
            kinds=kinds,
            curve=coverage(words, self.tokens, self.tokens - self.tokens_unknown, distinct),
            used=used,
            never_used=never_used,
            pieces=pieces,
            split=split,
            estimated=estimated,
            notes=notes,
            others=others,
            cut=cut,
        )


MAX_SAMPLED: Final = 1 << 17  # hashes; 3 sigma is at most 1.2 % of the words
MIX: Final = np.uint64(0x9E3779B97F4A7C15)
SIGMAS: Final = 3


class Sample:
    """Estimates the number of distinct hashes from a sample of bounded size.

    The sample contains the hashes that begin with k zero bits. When it is full, k is increased.
    """

    def __init__(self) -> None:
        self._hashes = np.zeros(0, np.uint64)  # may contain duplicates
        self._zeros = 0

    def add(self, hashes: NDArray[np.uint64]) -> None:
        self._hashes = np.append(self._hashes, self._select(hashes))
        if len(self._hashes) > 2 * MAX_SAMPLED:
            self._hashes = np.unique(self._hashes)
            while len(self._hashes) > MAX_SAMPLED:
                self._zeros += 1
                self._hashes = self._select(self._hashes)

    def estimate(self) -> tuple[int, int]:
        """Return the estimated number of distinct hashes and its error bound (3 sigma)."""
        number, scale = len(np.unique(self._hashes)), 1 << self._zeros
        off_by = SIGMAS * np.sqrt(number * scale * (scale - 1))
        return number * scale, int(off_by) + (scale > 1)

    def _select(self, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return hashes[hashes <= np.uint64((1 << 64 - self._zeros) - 1)]


def _hashes(words: list[bytes]) -> NDArray[np.uint64]:
    """Return a hash of each word, the same in every run."""
    low = np.fromiter(map(crc32, words), np.uint64, len(words))
    high = np.fromiter(map(google_crc32c.value, words), np.uint64, len(words))
    mixed: NDArray[np.uint64] = (high << np.uint64(32) | low) * MIX
    mixed ^= mixed >> np.uint64(29)
    return mixed * MIX
