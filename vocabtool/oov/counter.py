"""What a model does not know of documents that pass by: its words, and a count of them.

The public ``OovCounter``. How words are counted is in ``counts.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from vocabtool.oov.batch_counts import BatchCounts, batch_counts
from vocabtool.oov.counts import BUDGET, OovCounts
from vocabtool.oov.report import Header, OovReport
from vocabtool.system.parallel import parallel_map
from vocabtool.tokenization.lookup import without_blanks
from vocabtool.tokenization.text_arrays import not_utf8, string_array, text_bytes, texts_array
from vocabtool.tokenization.words import Words

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

    ``words``: of :meth:`Words.of`. ``budget``: bytes that distinct words may take before the
    rarest are dropped.
    """

    def __init__(self, words: Words, *, budget: int = BUDGET) -> None:
        self.words = words
        self._all = (words, *words.others)
        self._counts = [OovCounts(len(each.vocabulary), budget=budget) for each in self._all]
        self._not_utf8 = 0
        self._blanks = 0

    def count(self, batches: Iterable[pa.StringArray], *, threads: int = THREADS) -> None:
        """Count batches of texts, several at a time, in order."""
        arrays = map(texts_array, batches)
        for counted in parallel_map(self._count, arrays, workers=threads):
            self._add(counted)

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
                self._add(self._count(texts))

    def _count(self, texts: pa.StringArray) -> _BatchFigures:
        return _BatchFigures(texts, not_utf8(texts), [_counts(words, texts) for words in self._all])

    def _add(self, counted: _BatchFigures) -> None:
        """Add the next batch of the stream."""
        self._not_utf8 += counted.not_utf8
        self._blanks += counted.ways[0].blanks
        for counts, batch in zip(self._counts, counted.ways, strict=True):
            counts.add_counts(batch, counted.texts)

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


class _BatchFigures(NamedTuple):
    """A batch counted in each way; ``not_utf8``: how many of its texts are not UTF-8."""

    texts: pa.StringArray
    not_utf8: int
    ways: list[BatchCounts]


def _counts(words: Words, texts: pa.StringArray) -> BatchCounts:
    """The words of texts, without those that are only blanks."""
    found = words.look_up(texts)
    kept = without_blanks(found)
    return batch_counts(kept, blanks=len(found.codes) - len(kept.codes))


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
