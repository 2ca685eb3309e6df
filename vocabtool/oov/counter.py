"""What a model does not know of documents that pass by: its words, and a count of them.

The public ``OovCounter``. How words are counted is in ``counts.py``, where documents come from in
``documents.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from vocabtool.oov.batch_counts import BatchCounts, batch_counts
from vocabtool.oov.chunk_counts import ChunkCounts, New
from vocabtool.oov.counts import BUDGET, OovCounts
from vocabtool.oov.report import Header, OovReport
from vocabtool.tokenization.lookup import RuleTokenizer, WordLookup, without_blanks
from vocabtool.tokenization.text_arrays import not_utf8, string_array, text_bytes, texts_array
from vocabtool.tokenization.words import Words

if TYPE_CHECKING:
    import pyarrow as pa

THREADS: Final = 2
FEW: Final = 100  # tokens that say nothing of a language yet
MOSTLY_UNKNOWN: Final = (
    "most tokens are unknown: perhaps the texts are in another language, or a step outside the "
    "model's files (a stemmer, say) makes its words"
)
NOT_UTF8: Final = "not UTF-8: perhaps another encoding, or no text"
WATCHED: Final = 1024  # documents that are looked at together
WATCHED_BYTES: Final = 1 << 20


class _HasText(Protocol):
    @property
    def text(self) -> str: ...


Document = TypeVar("Document", bound="str | bytes | _HasText")


class OovCounter:
    """Counts what one model does not know, in documents that it is shown.

    ``words``: of :meth:`Words.of`. ``budget``: bytes that distinct words may take before further
    ones are estimated.
    """

    def __init__(self, words: Words, *, budget: int = BUDGET) -> None:
        self.words = words
        self._all = (words, *words.others)
        self._counts = [OovCounts(len(each.vocabulary), budget=budget) for each in self._all]
        self._not_utf8 = 0
        self._blanks = 0

    def count(self, batches: Iterable[pa.StringArray], *, threads: int = THREADS) -> None:
        """Count batches of texts, several at a time, in order."""
        pairs = zip(self._all, self._counts, strict=True)
        counting = [_Counting(words, counts) for words, counts in pairs]
        arrays = map(texts_array, batches)
        for texts, found in _in_threads(partial(_each_counted, counting), arrays, threads):
            self._not_utf8 += found.not_utf8
            self._blanks += found.ways[0].blanks
            for each, counted in zip(counting, found.ways, strict=True):
                each.add(counted, texts)

    def watch(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Pass documents on unchanged and count them on the way.

        Some are taken together: what was passed on is counted when the next are taken, or when
        the stream ends or is closed. Anything with a ``text`` is a document, and so is a text.
        """
        if isinstance(documents, str | bytes):
            raise TypeError("wanted several documents, got one text: put it in a list")
        remaining = iter(documents)
        while batch := list(_some(remaining)):
            try:
                for passed, document in enumerate(batch, 1):  # noqa: B007 - how many were taken
                    yield document
            finally:
                texts = string_array(_text(document) for document in batch[:passed])
                self._not_utf8 += not_utf8(texts)
                for words, counts in zip(self._all, self._counts, strict=True):
                    judged, blanks = _counted_words(words, texts)
                    counts.add(judged, texts)
                    self._blanks += blanks * (words is self.words)

    def report(self, *, model: str = "", sources: tuple[str, ...] = ()) -> OovReport:
        """What was counted so far. ``model`` and ``sources``: what to call them in it."""
        others = tuple(
            counts.report(_header(words, model, sources), words.vocabulary)
            for words, counts in zip(self._all[1:], self._counts[1:], strict=True)
        )
        header = _header(self.words, model, sources)
        counts, notes = self._counts[0], self.words.notes
        totals = counts.totals
        if totals.tokens >= FEW and totals.tokens_unknown > totals.tokens // 2:
            notes += (MOSTLY_UNKNOWN,)
        if self._not_utf8:
            be = "is" if self._not_utf8 == 1 else "are"
            notes += (f"{self._not_utf8:,} of {totals.documents:,} documents {be} {NOT_UTF8}",)
        if self._blanks:
            pieces = f"{self._blanks:,} blank piece{'s' * (self._blanks > 1)}"
            notes += (f"{pieces} left out: spaces in a row are no word",)
        return counts.report(header, self.words.vocabulary, notes=notes, others=others)


class _Counted(NamedTuple):
    """A batch counted by itself; ``new``: what to remember when the tally has its words.

    ``blanks``: pieces of blanks, which are not counted.
    """

    batch: BatchCounts
    new: New | None = None
    blanks: int = 0


class _EachCounted(NamedTuple):
    """A batch counted in each way; ``not_utf8``: how many of its texts are not UTF-8."""

    ways: list[_Counted]
    not_utf8: int


class _Counting:
    """One way to words while batches are counted; what it remembers of them goes with it."""

    def __init__(self, words: Words, counts: OovCounts) -> None:
        self._words = words
        self._counts = counts
        self._chunks: ChunkCounts | None = None
        if isinstance(words.tokenizer, RuleTokenizer):
            self._chunks = ChunkCounts(words.tokenizer, counts.tally)

    def counted(self, texts: pa.StringArray) -> _Counted:
        """Count a batch by itself; may be called by several threads."""
        if self._chunks is not None:
            return _Counted(*self._chunks.count(texts))
        judged, blanks = _counted_words(self._words, texts)
        return _Counted(batch_counts(judged), blanks=blanks)

    def add(self, counted: _Counted, texts: pa.StringArray) -> None:
        """Add the next batch of the stream."""
        slots = self._counts.add_counted(counted.batch, texts)
        if self._chunks is not None and counted.new is not None:
            self._chunks.remember(counted.new, slots)


def _counted_words(words: Words, texts: pa.StringArray) -> tuple[WordLookup, int]:
    """The words of texts, and how many were left out because they are only blanks."""
    judged = words.look_up(texts)
    kept = without_blanks(judged)
    return kept, len(judged.codes) - len(kept.codes)


def _each_counted(counting: list[_Counting], texts: pa.StringArray) -> _EachCounted:
    return _EachCounted([each.counted(texts) for each in counting], not_utf8(texts))


def _header(words: Words, model: str, sources: tuple[str, ...]) -> Header:
    return Header(
        model,
        words.vocabulary.name,
        len(words.vocabulary),
        words.describe(),
        words.fingerprint,
        sources,
    )


def _some(documents: Iterator[Document]) -> Iterator[Document]:
    """A few documents: not too many, and not too long together."""
    size = 0
    for document in islice(documents, WATCHED):
        yield document
        size += len(_text(document))
        if size > WATCHED_BYTES:
            return


def _text(document: str | bytes | _HasText) -> bytes:
    """Raises ``TypeError`` for what is neither a text nor has one."""
    if isinstance(document, str | bytes):
        return text_bytes(document)
    if not hasattr(document, "text"):
        kind = type(document).__name__
        raise TypeError(f"wanted a text, or a document with a .text, got {kind}")
    return text_bytes(document.text)


Batch = TypeVar("Batch")
Result = TypeVar("Result")


def _in_threads(
    work: Callable[[Batch], Result], batches: Iterable[Batch], threads: int
) -> Iterator[tuple[Batch, Result]]:
    """Each batch with its result, in order, and at most ``threads`` at work."""
    waiting: deque[tuple[Batch, Future[Result]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for batch in batches:
            waiting.append((batch, pool.submit(work, batch)))
            if len(waiting) >= threads:
                done, result = waiting.popleft()
                yield done, result.result()
        for done, result in waiting:
            yield done, result.result()
