"""What a model does not know of documents that pass by: its words, and a count of them.

The public ``OovCounter``. How words are counted is in ``counts.py``.

What a model does not know of a stream of documents: counted while they pass.

How the words of a batch are counted is in ``batch_counts.py``, how they are held in bounded memory
in ``word_table.py``; what a report makes of the counts is in ``figures.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.oov import report
from vocabtool.oov.report import (
    MOST_PIECES,
    NEVER_USED,
    Header,
    KindShare,
    OovReport,
    Pieces,
    Totals,
)
from vocabtool.oov.word_table import WIDTH, BatchCounts, WordTable, batch_counts, examples
from vocabtool.system.parallel import parallel_map
from vocabtool.tokenization.lookup import WordLookup, without_blanks
from vocabtool.tokenization.text_arrays import not_utf8, string_array, text_bytes, texts_array
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary

BUDGET: Final = 64 << 20  # bytes: about 350,000 words
EXAMPLES_SHARE: Final = 4  # examples may take one part in so many of the budget, beside it
EXAMPLE_COST: Final = WIDTH + 136  # bytes that an example takes


class OovCounts:
    """Counts what a model does not know, batch by batch.

    ``vocabulary_size``: the number of stored entries. ``budget``: bytes of memory that distinct
    words may take, about; examples may take a quarter as much beside it. Past it, the rarest words
    are dropped, and the report says so.
    """

    def __init__(self, vocabulary_size: int, *, budget: int = BUDGET) -> None:
        self.totals = Totals()
        self._table = WordTable(budget)
        self._used = np.zeros(vocabulary_size, np.bool_)
        self._max_examples = budget // EXAMPLES_SHARE // EXAMPLE_COST
        self._too_many_examples = False
        self._histogram: NDArray[np.int64] | None = None

    def add(self, found: WordLookup, texts: pa.StringArray) -> None:
        """Count a batch; ``texts`` are what its words were made of: examples come from there.

        Raises ``ValueError`` where there are not as many texts as ``found`` has.
        """
        if len(texts) != len(found.offsets) - 1:
            raise ValueError(f"wanted {len(found.offsets) - 1:,} texts, got {len(texts):,}")
        self.add_counts(batch_counts(found), texts)

    def add_counts(self, batch: BatchCounts, texts: pa.StringArray) -> None:
        """:meth:`add` for a batch that is counted already."""
        self.totals = self.totals.plus(batch, len(texts))
        self._used[batch.positions[batch.positions >= 0]] = True
        if batch.subwords:
            if self._histogram is None:
                self._histogram = np.zeros(MOST_PIECES + 1, np.int64)
            np.add.at(self._histogram, np.minimum(batch.pieces, MOST_PIECES), batch.counts)
        new = self._table.add(batch)
        self._add_examples(batch, texts, new)
        self._table.prune()

    def _add_examples(
        self, batch: BatchCounts, texts: pa.StringArray, new: NDArray[np.bool_]
    ) -> None:
        """Examples for the unknown words that are met for the first time."""
        wanted = np.flatnonzero(new[batch.unknown])
        room = self._max_examples - len(self._table.examples)
        self._too_many_examples |= len(wanted) > room
        wanted = wanted[: max(room, 0)]
        words = [batch.words[row] for row in batch.unknown[wanted].tolist()]
        found = examples(texts, words, batch.first[wanted], batch.shares[wanted])
        self._table.examples.update(zip(words, found, strict=True))

    def report(
        self,
        header: Header,
        vocabulary: Vocabulary | None = None,
        *,
        notes: tuple[str, ...] = (),
        others: tuple[OovReport, ...] = (),
    ) -> OovReport:
        """What was counted so far.

        ``vocabulary``: to tell what unknown words look like, and to name entries never used.
        ``notes``: further facts for a person; ``others``: reports on further tables.
        """
        table = self._table
        words = report.word_table(table)
        unknown = report.unknown_table(words, table.examples)
        kinds: tuple[KindShare, ...] = ()
        if vocabulary is not None:
            unknown, kinds = report.with_kinds(unknown, vocabulary)
        (distinct, _), (distinct_unknown, _) = table.distinct()
        if table.bound:
            notes += (
                "more distinct words than fit the budget, so the rarest were dropped: of about "
                f"{distinct_unknown:,} unknown ones {len(unknown):,} are listed",
            )
        if self._too_many_examples:
            notes += ("examples are kept for the words that came first only: there were too many",)
        return OovReport(
            header,
            *self.totals[:4],
            distinct,
            distinct_unknown,
            unknown,
            kinds=kinds,
            curve=report.coverage(words, self.totals, distinct),
            used=None if self._histogram is not None else int(self._used.sum()),
            never_used=self._never_used(vocabulary),
            pieces=self._pieces(words),
            estimated=report.estimates(table, self.totals.tokens),
            notes=notes,
            others=others,
        )

    def _never_used(self, vocabulary: Vocabulary | None) -> tuple[bytes, ...]:
        """The first entries that no word was; of a subword model nothing tells."""
        if vocabulary is None or self._histogram is not None:
            return ()
        positions = np.flatnonzero(~self._used)[:NEVER_USED].tolist()
        return tuple(vocabulary.stored[position] for position in positions)

    def _pieces(self, words: pa.Table) -> Pieces | None:
        if self._histogram is None:
            return None
        return report.pieces_of(words, self._histogram, self.totals)


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
