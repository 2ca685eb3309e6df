"""Take one batch of documents from a stream, count its words, and find examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.oov.lookalikes import WIDTH, clip, find_word
from vocabtool.oov.split_words import count_languages
from vocabtool.tokenization.lookup import WordLookup, without_blanks
from vocabtool.tokenization.text_arrays import as_bytes, starts_of, text_bytes
from vocabtool.tokenization.token_limit import CutTexts, TokenLimit, cut_off

BATCH_ROWS: Final = 1024  # documents of a batch
BATCH_BYTES: Final = 1 << 20
SEARCHED: Final = 1_024  # bytes searched on either side of the expected position
GOES_ON: Final = b"\xff"  # a letter for find_word, never in UTF-8; stands for skipped text


class HasText(Protocol):
    @property
    def text(self) -> str: ...


Document = TypeVar("Document", bound="str | bytes | HasText")


def take_batch(documents: Iterator[Document]) -> Iterator[Document]:
    """Yield the documents of the next batch, limited in number and total length."""
    size = 0
    for document in islice(documents, BATCH_ROWS):
        yield document
        size += len(text_of(document))
        if size > BATCH_BYTES:
            return


def text_of(document: str | bytes | HasText) -> bytes:
    """Return the text of a document. Raise ``TypeError`` if the document has none."""
    if isinstance(document, str | bytes):
        return text_bytes(document)
    if not hasattr(document, "text"):
        kind = type(document).__name__
        raise TypeError(f"expected a text or an object with a .text attribute, got {kind}")
    return text_bytes(document.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchCounts:
    """The u distinct words of a batch of n texts, in order of first occurrence.

    The arrays ``listed``, ``documents``, ``first`` and ``shares`` have an item for each unknown or
    split word. The other arrays have length u.

    - ``positions``: Position in the vocabulary, -1 if absent.
    - ``pieces``: Number of pieces; ``None`` for a model of whole words.
    - ``listed``: Index of the word in ``words``, ascending.
    - ``documents``: Number of texts with the word.
    - ``first``: Index of the first text with the word.
    - ``shares``: Relative position of the word in its first text, from 0 to 1.
    - ``blanks``: Number of skipped words that are only blanks.
    - ``cut``: What the token limit cuts off; ``None`` without a limit.
    """

    words: pa.BinaryArray
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
    cut: CutTexts | None = None


def count_batch(every: WordLookup, limit: TokenLimit | None = None) -> BatchCounts:
    """Count the words of a batch. For a subword model, skip words that are only blanks."""
    found = without_blanks(every)
    cut = None if limit is None else cut_off(every, limit)
    codes = found.codes.astype(np.intp, copy=False)  # convert once; indexing expects intp
    if not found.unique:
        encoded = found.distinct.view(pa.binary()).dictionary_encode()
        same = encoded.indices.to_numpy(zero_copy_only=False)
        one = np.zeros(len(encoded.dictionary), np.intp)
        one[same] = np.arange(len(same))
        codes = one[same][codes]
        if cut is not None:
            read = np.zeros(len(cut.read), np.bool_)
            read[one[same][cut.read]] = True
            cut = cut._replace(read=read)
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
        words=found.distinct.view(pa.binary()).take(pa.array(kept)),
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
        blanks=len(every.codes) - len(found.codes),
        cut=None if cut is None else cut._replace(read=cut.read[kept]),
    )


def find_examples(
    texts: pa.StringArray,
    words: list[bytes],
    rows: NDArray[np.int64],
    shares: NDArray[np.float64],
) -> list[bytes]:
    """Return for each of k words a text that contains the word. Long texts are clipped.

    - ``rows``: shape (k,), the index of the text for each word.
    - ``shares``: shape (k,), approximate position of the word in its text, from 0 (start) to 1
      (end).
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
