r"""Choose words to add to a tokenizer: the words that save most pieces in a corpus.

The words become added tokens of the ``tokenizers`` library with ``single_word=True``. Such a token
matches only a whole word: a maximal run of letters, digits, marks and underscores (``\w`` of Rust's
regular expressions, see tokenizers/src/tokenizer/added_vocabulary.rs).

Words are chosen one by one. Each step chooses the word that saves most pieces in addition to the
words chosen before. The saving is exact: the library cuts the texts with and without the word.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.errors import VocabtoolError, library_errors
from vocabtool.oov.kinds import is_random, spelling
from vocabtool.oov.report import Flags, SuggestedWord, Suggestions
from vocabtool.tokenization import hf_tokenizer
from vocabtool.tokenization.hf_tokenizer import HFWordTokenizer, Json
from vocabtool.tokenization.text_arrays import texts_array
from vocabtool.tokenization.words import Words

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Integers = NDArray[np.int64]
# The distinct chunks of texts that the tokenizer treats one by one, and their counts.
Chunks = tuple[list[str], Integers]

MOST: Final = 500  # words
MAX_TEXT: Final = 1 << 28  # bytes of texts that are kept and read
BESIDE: Final = 2  # pieces beside a word that it may save if pieces contain blanks
LONGEST: Final = 64  # characters of a word
BATCH: Final = 1_024  # texts that the library cuts at a time
WORD: Final = r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+"  # \w+ of Rust's regex
JOINERS: Final = {0x200C: None, 0x200D: None}  # in words of Persian and of scripts of India


def suggest(
    words: Words, batches: Iterable[pa.Array | Sequence[str | bytes]], most: int = MOST
) -> Suggestions:
    """Choose the words whose addition to the model saves the most pieces.

    - ``batches``: Lists or Arrow arrays of texts. The first 256 MB are read.
    - ``most``: Maximum number of words.

    Raises :class:`VocabtoolError` for a model whose tokenizer the ``tokenizers`` library cannot
    run.
    """
    tokenizer = words.tokenizer
    if not words.subword or not isinstance(tokenizer, HFWordTokenizer):
        raise VocabtoolError(
            f"{words.vocabulary.name}: words can be added only to a tokenizer.json of subword "
            "pieces; for other models, see the unknown words of the report"
        )
    arrays, size, documents = list[pa.Array](), 0, 0
    notes: tuple[str, ...] = ()
    for array in map(texts_array, batches):
        size += array.nbytes
        if size > MAX_TEXT:
            read = f"the first {documents:,} documents ({MAX_TEXT >> 20} MB)"
            notes = (f"the words were chosen from {read}",)
            break
        arrays.append(tokenizer.chunks_of(array)[0].view(pa.binary()))
        documents += len(array)
    distinct = pa.chunked_array(arrays, pa.binary()).value_counts()
    chunks = [chunk.decode("utf-8", "replace") for chunk in distinct.field(0).to_pylist()]
    counts = distinct.field(1).to_numpy()
    base, flags = tokenizer.with_tokens([]), token_flags(tokenizer.document)
    lengths = _lengths(base, chunks)
    chosen, new_lengths = _choose(tokenizer, base, flags, (chunks, counts), lengths, most)
    return Suggestions(
        words=tuple(chosen),
        flags=flags,
        documents=documents,
        before=int(lengths @ counts),
        after=int(new_lengths @ counts),
        notes=notes,
    )


def token_flags(document: Json) -> Flags:
    """Return the flags of added tokens for a tokenizer.json.

    ``lstrip``: true if the tokenizer joins blanks to the next word, so that the token includes the
    blank before it. ``rstrip``: the blank after it, true if the normalizer prepends a mark, such as
    ``▁``, to every part of a text. ``normalized``: false if the normalizer marks blanks or is
    byte-level.
    """
    steps = hf_tokenizer.list_of_parts({"normalizer": document.get("normalizer")})
    kinds = {step.get("type") for step in steps}
    mark = hf_tokenizer.META
    marks_blanks = any(mark in (step.get("content"), step.get("prepend")) for step in steps)
    joins_blanks = hf_tokenizer.is_byte_level(document) or bool(hf_tokenizer.blank_mark(document))
    return {
        "single_word": True,
        "lstrip": joins_blanks,
        "rstrip": marks_blanks and "Prepend" in kinds,
        "normalized": not marks_blanks and hf_tokenizer.BYTE_LEVEL not in kinds,
    }


def _cut(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[Integers, Integers]:
    """Return the ids of the pieces of all texts, and for each piece the position of its text."""
    ids, rows = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        with library_errors("the tokenizers library fails on a text"):
            encoded = tokenizer.encode(batch, is_pretokenized=True, add_special_tokens=False)
        ids.append(np.array(encoded.ids, np.int64))
        rows.append(np.array(encoded.word_ids, np.int64) + start)
    return np.concatenate(ids), np.concatenate(rows)


def _lengths(tokenizer: Tokenizer, texts: Sequence[str]) -> Integers:
    return np.bincount(_cut(tokenizer, texts)[1], minlength=len(texts))


def _as_in_text(flags: Flags, word: str) -> str:
    """Return a word as it stands within a text, with the blank that belongs to its pieces."""
    return f" {word}" if flags["lstrip"] and not flags["rstrip"] else word


def _choose(
    tokenizer: HFWordTokenizer,
    base: Tokenizer,
    flags: Flags,
    chunks: Chunks,
    lengths: Integers,
    most: int,
) -> tuple[list[SuggestedWord], Integers]:
    """Choose up to ``most`` words; return them, and the lengths of the chunks with them.

    ``base``: ``tokenizer`` without additional words. ``lengths``: in pieces.
    """
    texts, counts = chunks
    lengths = lengths.copy()
    rows_of, heap = _candidates(base, flags, chunks)
    chosen_in: dict[int, list[str]] = defaultdict(list)  # the chosen words in each chunk
    # For each measured word: the chosen words in its chunks, its count, and the new lengths of its
    # chunks. These stay right until another word is chosen in one of the chunks.
    measured: dict[str, tuple[set[str], int, Integers]] = {}
    chosen: list[SuggestedWord] = []
    while heap and len(chosen) < most:
        _, word = heappop(heap)
        rows = rows_of[word]
        neighbours = {other for row in rows for other in chosen_in.get(row, ())}
        if word not in measured and is_random(spelling(word.encode(), texts[rows[0]].encode())):
            continue
        if word not in measured or measured[word][0] != neighbours:
            # Its saving is not known exactly: measure it, and put the word back.
            extended = tokenizer.with_tokens([*neighbours, word], **flags)
            ids, row_of_piece = _cut(extended, [texts[row] for row in rows])
            new_lengths = np.bincount(row_of_piece, minlength=len(rows))
            is_word = ids == extended.token_to_id(word)
            count = int(counts[rows][row_of_piece[is_word]].sum())
            measured[word] = (neighbours, count, new_lengths)
            saved = int((lengths[rows] - new_lengths) @ counts[rows])
            if saved > 0:
                heappush(heap, (-saved, word))
            continue
        _, count, new_lengths = measured[word]
        saved = int((lengths[rows] - new_lengths) @ counts[rows])
        lengths[rows] = new_lengths
        for row in rows:
            chosen_in[row].append(word)
        pieces = base.encode(_as_in_text(flags, word), add_special_tokens=False).tokens
        chosen.append(SuggestedWord(word=word, parts=tuple(pieces), count=count, saved=saved))
    return chosen, lengths


def _candidates(
    base: Tokenizer, flags: Flags, chunks: Chunks
) -> tuple[dict[str, list[int]], list[tuple[int, str]]]:
    """Return the rows of the chunks with each word, and a heap of (-highest saving, word)."""
    import regex

    find_words = regex.compile(WORD).findall
    normalize = base.normalizer.normalize_str if flags["normalized"] and base.normalizer else str
    rows_of: dict[str, list[int]] = defaultdict(list)
    occurrences: Counter[str] = Counter()
    for row, (chunk, count) in enumerate(zip(chunks[0], chunks[1].tolist(), strict=True)):
        for word, times in Counter(find_words(normalize(chunk))).items():
            rows_of[word].append(row)
            occurrences[word] += times * count
    entries = base.get_vocab()
    words = [
        word
        for word in rows_of
        if word not in entries
        and any(map(str.isalpha, word))
        and (" " not in word and len(word) <= LONGEST)
        and word.translate(JOINERS).isprintable()
    ]
    lengths = _lengths(base, [_as_in_text(flags, word) for word in words]).tolist()
    beside = BESIDE if flags["lstrip"] else 0
    heap = [
        (-occurrences[word] * (pieces - 1 + beside), word)
        for word, pieces in zip(words, lengths, strict=True)
        if pieces > 1
    ]
    heapify(heap)
    return rows_of, heap
