"""Count unknown words of a stream of documents in bounded memory.

:class:`OovCounter` is public. :class:`OovCounts` counts the words of one vocabulary.

All counts are exact as long as the distinct words fit the budget. Otherwise, the rarest words are
dropped, and a bound is kept: no dropped word occurred more often. A word that is stored later may
have been dropped before, so its count may be too low by the bound. The number of distinct words is
then estimated from a sample of hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import compress, count, islice, repeat
from typing import Final, Protocol, TypeVar
from zlib import crc32

import google_crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.choices import SplitOrder
from vocabtool.oov.lookalikes import WIDTH, clip, find_word
from vocabtool.oov.report import (
    MOST_PIECES,
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
from vocabtool.oov.split_words import LanguageCount, SplitWords, count_languages, split_table
from vocabtool.system.parallel import parallel_map
from vocabtool.tokenization.lookup import WordLookup, without_blanks
from vocabtool.tokenization.text_arrays import (
    as_bytes,
    not_utf8,
    starts_of,
    string_array,
    text_bytes,
    texts_array,
)
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary

BUDGET: Final = 64 << 20  # bytes: about 350,000 words
WORD_COST: Final = 176  # bytes per word in the dict and the columns, in addition to the word itself
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
WATCHED: Final = 1024  # documents per batch
WATCHED_BYTES: Final = 1 << 20

# ``documents`` is 0 for known words in one piece. ``missed``: the maximum number of occurrences
# that were not counted before the word was stored.
FIGURES: Final = np.dtype(
    [("known", "?"), ("pieces", "i4"), ("counts", "i8"), ("documents", "i8"), ("missed", "i8")],
    align=True,
)


class _HasText(Protocol):
    @property
    def text(self) -> str: ...


Document = TypeVar("Document", bound="str | bytes | _HasText")


class OovCounter:
    """A counter of the words that one model does not know.

    ``words`` comes from :meth:`Words.of`. ``budget`` is the number of bytes for distinct words; if
    they need more, the rarest words are dropped.
    """

    def __init__(self, words: Words, *, budget: int = BUDGET) -> None:
        self.words = words
        self._all = (words, *words.others)
        self._counts = [OovCounts(len(each.vocabulary), budget=budget) for each in self._all]
        self._not_utf8 = 0
        self._blanks = 0

    def count(self, batches: Iterable[pa.StringArray], *, threads: int = THREADS) -> None:
        """Count batches of texts in order. Up to ``threads`` batches are processed at once."""
        arrays = map(texts_array, batches)
        for counted in parallel_map(self._count, arrays, workers=threads):
            self._add(*counted)

    def watch(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Yield the documents unchanged, and count them.

        A batch of documents is counted when the next one begins, or when the stream ends or is
        closed. A document is a text or an object with a ``text`` attribute.
        """
        if isinstance(documents, str | bytes):
            raise TypeError("expected several documents, got one text; put it in a list")
        remaining = iter(documents)
        while batch := list(_some(remaining)):
            try:
                for passed, document in enumerate(batch, 1):  # noqa: B007 - read below
                    yield document
            finally:
                texts = string_array(_text(document) for document in batch[:passed])
                self._add(*self._count(texts))

    def _count(self, texts: pa.StringArray) -> tuple[pa.StringArray, int, list[BatchCounts]]:
        """Return ``texts``, how many of them are not UTF-8, and the word counts of each lookup."""
        ways = []
        for words in self._all:
            found = words.look_up(texts)
            kept = without_blanks(found)
            ways.append(batch_counts(kept, blanks=len(found.codes) - len(kept.codes)))
        return texts, not_utf8(texts), ways

    def _add(self, texts: pa.StringArray, broken: int, ways: list[BatchCounts]) -> None:
        """Add a batch's counts to the totals. ``broken``: how many texts are not UTF-8."""
        self._not_utf8 += broken
        self._blanks += ways[0].blanks
        for counts, batch in zip(self._counts, ways, strict=True):
            counts.add(batch, texts)

    def report(
        self, *, model: str = "", sources: tuple[str, ...] = (), order: SplitOrder = "cost"
    ) -> OovReport:
        """Return the counts so far. ``model`` and ``sources`` are names to show in the report.

        ``order``: the figure by which a subword model's split words are sorted, descending.
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
        others = tuple(
            counts.report(header, words.vocabulary)
            for words, counts, header in zip(self._all, self._counts, headers, strict=True)
            if words is not self.words
        )
        counts, notes = self._counts[0], self.words.notes
        if counts.tokens >= FEW and counts.tokens_unknown > counts.tokens // 2:
            notes += (MOSTLY_UNKNOWN,)
        if self._not_utf8:
            be = "is" if self._not_utf8 == 1 else "are"
            notes += (f"{self._not_utf8:,} of {counts.documents:,} documents {be} {NOT_UTF8}",)
        if self._blanks:
            blanks = f"{self._blanks:,} token{'s' * (self._blanks > 1)} of spaces only"
            notes += (f"skipped {blanks}: repeated spaces are not words",)
        return counts.report(
            headers[0],
            self.words.vocabulary,
            notes=notes,
            others=others,
            order=order,
            cut=self.words.tokenizer.pieces,
        )


def _some(documents: Iterator[Document]) -> Iterator[Document]:
    """Yield the documents of the next batch; their number and total length are limited."""
    size = 0
    for document in islice(documents, WATCHED):
        yield document
        size += len(_text(document))
        if size > WATCHED_BYTES:
            return


def _text(document: str | bytes | _HasText) -> bytes:
    """Return the text of a document. Raise ``TypeError`` if it has none."""
    if isinstance(document, str | bytes):
        return text_bytes(document)
    if not hasattr(document, "text"):
        kind = type(document).__name__
        raise TypeError(f"expected a text or an object with a .text attribute, got {kind}")
    return text_bytes(document.text)


# ---- the words of one batch


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchCounts:
    """The u distinct words of a batch of n texts, in order of first occurrence.

    - ``words``: The words themselves, length u.
    - ``positions``: int64, position in the vocabulary, or -1. ``known``: bool. ``pieces``: int32,
      number of pieces, ``None`` for a model of whole words. ``counts``: int64, number of
      occurrences. All of shape (u,).
    - ``listed``: int64, shape (v,), ascending, the indexes in ``words`` of the v words that are
      unknown or split.
    - ``documents``: int64, number of texts with the listed word. ``first``: int64, the index of
      the first of these texts. ``shares``: float64, relative position of the first occurrence in
      that text, from 0 to 1. All of shape (v,).
    - ``texts_unknown``: Number of texts with an unknown word.
    - ``languages``: For subword models, the result of :func:`count_languages`.
    - ``blanks``: Number of skipped pieces that contain only blanks.
    """

    words: list[bytes]
    positions: NDArray[np.int64]
    known: NDArray[np.bool_]
    pieces: NDArray[np.int32] | None
    counts: NDArray[np.int64]
    listed: NDArray[np.int64]
    documents: NDArray[np.int64]
    first: NDArray[np.int64]
    shares: NDArray[np.float64]
    texts_unknown: int
    languages: Mapping[str, list[int]] = field(default_factory=dict)
    blanks: int = 0


def batch_counts(found: WordLookup, blanks: int = 0) -> BatchCounts:
    """Count the words of a looked-up batch. Equal words in its list of distinct words are
    merged.
    """
    codes = found.codes.astype(np.intp, copy=False)  # convert once; indexing expects intp
    if not found.unique:
        encoded = found.distinct.view(pa.binary()).dictionary_encode()
        same = encoded.indices.to_numpy(zero_copy_only=False)
        one = np.zeros(len(encoded.dictionary), np.intp)
        one[same] = np.arange(len(same))
        codes = one[same][codes]
    counts = np.bincount(codes, minlength=len(found.distinct))
    kept = np.flatnonzero(counts)
    first_token = np.zeros(len(counts), np.int64)
    first_token[codes[::-1]] = np.arange(len(codes))[::-1]  # the last of equal indices wins
    kept = kept[np.argsort(first_token[kept])]
    shown = ~found.known if found.pieces is None else ~found.known | (found.pieces > 1)
    listed = np.flatnonzero(shown[kept])

    missing = starts_of(~found.known.take(codes))[found.offsets]
    some = shown.take(codes)
    per_text = np.diff(starts_of(some)[found.offsets])
    among = np.zeros(len(counts), np.int64)
    among[kept[listed]] = np.arange(len(listed))
    texts = np.repeat(np.arange(len(per_text)), per_text)
    pairs = np.sort(texts << np.int64(32) | among.take(codes[some]))
    pairs = pairs[np.diff(pairs, prepend=-1) != 0]

    tokens = first_token[kept[listed]]
    first = np.searchsorted(found.offsets, tokens, "right") - 1
    starts, ends = found.offsets[first], found.offsets[first + 1]
    return BatchCounts(
        words=as_bytes(found.distinct.view(pa.string()).take(pa.array(kept))),
        positions=found.positions[kept],
        known=found.known[kept],
        pieces=None if found.pieces is None else found.pieces[kept],
        counts=counts[kept],
        listed=listed,
        documents=np.bincount(pairs & np.int64((1 << 32) - 1), minlength=len(listed)),
        first=first,
        shares=(tokens - starts) / (ends - starts),
        texts_unknown=int(np.count_nonzero(np.diff(missing))),
        languages={} if found.pieces is None else count_languages(found),
        blanks=blanks,
    )


SEARCHED: Final = 1_024  # bytes searched on either side of the expected position
GOES_ON: Final = b"\xff"  # a letter for find_word, never in UTF-8; stands for skipped text


def examples(
    texts: pa.StringArray,
    words: list[bytes],
    rows: NDArray[np.int64],
    shares: NDArray[np.float64],
) -> list[bytes]:
    """Return an example for each of k words: a text with it, or the part around it if that is long.

    ``rows``: shape (k,), the index of each word's text. ``shares``: shape (k,), the relative
    position of the word in its text, from 0 to 1. :func:`find_word` searches near this position. If
    it does not find the word, because the rule changed it, the part is cut out around the position.
    """
    if not words:
        return []
    _, offsets, content = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset :][: len(texts) + 1].astype(np.int64)
    data = memoryview(content if content is not None else b"")
    starts, ends = bounds[rows], bounds[rows + 1]
    guesses = (starts + shares * (ends - starts)).astype(np.int64)
    short = ends - starts <= WIDTH
    which, places = np.unique(rows[short], return_inverse=True)
    lines = as_bytes(texts.take(which))
    found = [b""] * len(words)
    for i, place in zip(np.flatnonzero(short).tolist(), places.tolist(), strict=True):
        found[i] = lines[place]  # words from the same text share one object
    for i in np.flatnonzero(~short).tolist():
        word, start, end, middle = words[i], int(starts[i]), int(ends[i]), int(guesses[i])
        low, high = max(start, middle - SEARCHED), min(end, middle + SEARCHED)
        before = GOES_ON * (low > start)
        at = find_word(before + bytes(data[low:high]) + GOES_ON * (high < end), word)
        if at >= 0:
            middle = low - len(before) + at + len(word) // 2
        found[i] = clip(data, start, end, middle)
    return found


# ---- the words of all batches


class OovCounts:
    """Counts words, batch by batch, as known or unknown to one vocabulary.

    ``vocabulary_size`` is the number of stored entries. ``budget`` is the approximate number of
    bytes for distinct words; examples may need another quarter of that number. If words exceed the
    budget, the rarest are dropped, and the report says so.
    """

    def __init__(self, vocabulary_size: int, *, budget: int = BUDGET) -> None:
        self.documents = self.documents_unknown = 0
        self.tokens = self.tokens_unknown = self._pieces = 0
        self._budget = budget
        self._slots: dict[bytes, int] = {}  # row of each stored word in _figures
        self._figures = np.zeros(0, FIGURES)  # with spare rows at the end
        self._length = 0  # total bytes of the stored words
        self._bound = 0  # maximum count of a dropped word; 0: no word was dropped
        self._samples = (Sample(), Sample(), Sample())  # of all, unknown and split words
        self._languages: dict[str, NDArray[np.int64]] = {}
        self._examples: dict[bytes, bytes] = {}
        self._too_many_examples = False
        self._used = np.zeros(vocabulary_size, np.bool_)
        self._histogram: NDArray[np.int64] | None = None

    def add(self, batch: BatchCounts, texts: pa.StringArray) -> None:
        """Add the counts of a batch. ``texts`` are its texts, from which examples are taken."""
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
        for name, figures in batch.languages.items():
            self._languages[name] = np.add(figures, self._languages.get(name, 0))
        new = self._add_words(batch)
        wanted = np.flatnonzero(new[batch.listed])  # words without an example so far
        room = self._budget // EXAMPLES_SHARE // EXAMPLE_COST - len(self._examples)
        self._too_many_examples |= len(wanted) > room
        wanted = wanted[: max(room, 0)]
        words = [batch.words[row] for row in batch.listed[wanted].tolist()]
        found = examples(texts, words, batch.first[wanted], batch.shares[wanted])
        self._examples.update(zip(words, found, strict=True))
        if self._length + WORD_COST * len(self._slots) > self._budget:
            self._prune()

    def _add_words(self, batch: BatchCounts) -> NDArray[np.bool_]:
        """Add the counts of a batch's words. Return which words are new, bool of shape (u,)."""
        held = len(self._slots)
        slots = np.fromiter(map(self._slots.get, batch.words, repeat(-1)), np.int64)
        new = slots < 0
        added = list(compress(batch.words, new.tolist()))
        slots[new] = np.arange(held, held + len(added))
        self._slots.update(zip(added, count(held), strict=False))
        have, wanted = len(self._figures), len(self._slots)
        if wanted > have:
            more = np.zeros(max(wanted, have + have // 2) - have, FIGURES)
            self._figures = np.concatenate([self._figures, more])
        figures = self._figures
        figures["known"][slots] = batch.known
        if batch.pieces is not None:
            figures["pieces"][slots] = batch.pieces
        figures["counts"][slots] += batch.counts
        figures["documents"][slots[batch.listed]] += batch.documents
        figures["missed"][slots[new]] = self._bound
        self._length += sum(map(len, added))
        if self._bound:
            self._sample(added, figures[slots[new]])
        return new

    def _prune(self) -> None:
        """Drop the rarest words until half of the budget is free."""
        words, figures = list(self._slots), self._figures[: len(self._slots)]
        if not self._bound:
            self._sample(words, figures)
        highest = figures["counts"] + figures["missed"]
        order = np.argsort(-highest, kind="stable")
        costs = np.cumsum(np.fromiter(map(len, words), np.int64)[order] + WORD_COST)
        number = int(np.searchsorted(costs, self._budget // 2, "right"))
        self._bound = max(self._bound, int(highest[order[number]]))
        kept = np.sort(order[:number])
        self._figures = figures[kept]
        self._slots = {words[row]: slot for slot, row in enumerate(kept.tolist())}
        self._length = sum(map(len, self._slots))
        self._examples = {w: text for w, text in self._examples.items() if w in self._slots}

    def _sample(self, words: list[bytes], figures: NDArray[np.void]) -> None:
        hashes = _hashes(words)
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
        cut: Callable[[bytes], tuple[bytes, ...]] | None = None,
    ) -> OovReport:
        """Return the counts so far.

        ``vocabulary`` is used to classify words and to list unused entries. ``notes`` are further
        notes for the user. ``others`` are reports on other lookups. ``order``: the figure by which
        a subword model's split words are sorted. ``cut`` returns the pieces of a word.
        """
        held = self._figures[: len(self._slots)]
        missed = np.ascontiguousarray(held["missed"])
        words = pa.table(
            {
                "word": pa.array(list(self._slots), pa.large_binary()),
                "known": np.ascontiguousarray(held["known"]),
                "pieces": np.ascontiguousarray(held["pieces"]),
                "count": held["counts"] + missed,
                "documents": held["documents"] + np.where(_is_listed(held), missed, 0),
                "error": missed,
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
                words, unknown, self._examples, order=order, vocabulary=vocabulary, cut=cut
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
        )


def _is_listed(figures: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return which words are listed: unknown or split."""
    listed: NDArray[np.bool_] = ~figures["known"] | (figures["pieces"] > 1)
    return listed


MAX_SAMPLED: Final = 1 << 17  # hashes; 3 sigma is at most 1.2 % of the words
MIX: Final = np.uint64(0x9E3779B97F4A7C15)
SIGMAS: Final = 3


class Sample:
    """A sample of the added hashes: those that begin with at least k zero bits.

    This is about one hash in ``2 ** k``. When the sample is full, k is increased.
    """

    def __init__(self) -> None:
        self._hashes = np.zeros(0, np.uint64)  # may contain duplicates
        self._zeros = 0

    def add(self, hashes: NDArray[np.uint64]) -> None:
        """Add hashes, which may contain duplicates."""
        self._hashes = np.append(self._hashes, self._select(hashes))
        if len(self._hashes) > 2 * MAX_SAMPLED:
            self._hashes = self._distinct()
            while len(self._hashes) > MAX_SAMPLED:
                self._zeros += 1
                self._hashes = self._select(self._hashes)

    def estimate(self) -> tuple[int, int]:
        """Return the estimated number of distinct hashes and its error bound (3 sigma)."""
        number, scale = len(self._distinct()), 1 << self._zeros
        off_by = SIGMAS * np.sqrt(number * scale * (scale - 1))
        return number * scale, int(off_by) + (scale > 1)

    def _select(self, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return hashes[hashes <= np.uint64((1 << 64 - self._zeros) - 1)]

    def _distinct(self) -> NDArray[np.uint64]:
        ordered = np.sort(self._hashes)
        return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def _hashes(words: list[bytes]) -> NDArray[np.uint64]:
    """Return a hash of each word, computed from two checksums; it is the same in every run."""
    low = np.fromiter(map(crc32, words), np.uint64, len(words))
    high = np.fromiter(map(google_crc32c.value, words), np.uint64, len(words))
    mixed: NDArray[np.uint64] = (high << np.uint64(32) | low) * MIX
    mixed ^= mixed >> np.uint64(29)
    return mixed * MIX
