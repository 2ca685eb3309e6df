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

from vocabtool.errors import VocabtoolError
from vocabtool.oov.kinds import is_random, spelling
from vocabtool.oov.report import Flags, SuggestedWord, Suggestions
from vocabtool.tokenization import hf_tokenizer as description
from vocabtool.tokenization.hf_tokenizer import HFWordTokenizer, Json, library_errors
from vocabtool.tokenization.text_arrays import texts_array
from vocabtool.tokenization.words import Words

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Integers = NDArray[np.int64]
# The distinct parts of texts that the tokenizer treats one by one, and their counts.
Parts = tuple[list[str], Integers]

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
    chunks, size, documents = list[pa.Array](), 0, 0
    notes: tuple[str, ...] = ()
    for array in map(texts_array, batches):
        size += array.nbytes
        if size > MAX_TEXT:
            read = f"the first {documents:,} documents ({MAX_TEXT >> 20} MB)"
            notes = (f"the words were chosen from {read}",)
            break
        chunks.append(tokenizer.chunks_of(array)[0].view(pa.binary()))
        documents += len(array)
    distinct = pa.chunked_array(chunks, pa.binary()).value_counts()
    texts = [text.decode("utf-8", "replace") for text in distinct.field(0).to_pylist()]
    counted = texts, distinct.field(1).to_numpy()
    base, flags = tokenizer.with_tokens([]), token_flags(tokenizer.document)
    lengths = _lengths(base, texts)
    before = int(lengths @ counted[1])
    chosen = _choose(tokenizer, base, flags, counted, lengths, most)
    return Suggestions(
        words=tuple(chosen),
        flags=flags,
        documents=documents,
        before=before,
        after=int(lengths @ counted[1]),
        notes=notes,
    )


def token_flags(document: Json) -> Flags:
    """Return the flags of added tokens for a tokenizer.json.

    - ``lstrip``: Whether the token includes the blank before it. True if the tokenizer joins blanks
      to the next word.
    - ``rstrip``: Whether the token includes the blank after it. True if the normalizer prepends a
      mark, such as ``▁``, to every part of a text.
    - ``normalized``: Whether the token matches normalized text. False if the normalizer marks
      blanks or is byte-level.
    """
    steps = description.list_of_parts({"normalizer": document.get("normalizer")})
    kinds = {step.get("type") for step in steps}
    marks = any(description.META in (s.get("content"), s.get("prepend")) for s in steps)
    joins = description.blank_mark(document) is not None or description.is_byte_level(document)
    return {
        "single_word": True,
        "lstrip": joins,
        "rstrip": marks and "Prepend" in kinds,
        "normalized": not marks and description.BYTE_LEVEL not in kinds,
    }


def _cut(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[Integers, Integers]:
    """Return the ids of the pieces of all texts, and for each piece the position of its text."""
    ids, rows = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for start in range(0, len(texts), BATCH):
        some = texts[start : start + BATCH]
        with library_errors("the tokenizers library fails on a text"):
            encoded = tokenizer.encode(some, is_pretokenized=True, add_special_tokens=False)
        ids.append(np.array(encoded.ids, np.int64))
        rows.append(np.array(encoded.word_ids, np.int64) + start)
    return np.concatenate(ids), np.concatenate(rows)


def _lengths(tokenizer: Tokenizer, texts: Sequence[str]) -> Integers:
    return np.bincount(_cut(tokenizer, texts)[1], minlength=len(texts))


def _as_in_text(flags: Flags, word: str) -> str:
    return f" {word}" if flags["lstrip"] and not flags["rstrip"] else word


def _choose(
    tokenizer: HFWordTokenizer,
    base: Tokenizer,
    flags: Flags,
    parts: Parts,
    lengths: Integers,
    most: int,
) -> list[SuggestedWord]:
    """Choose up to ``most`` words, and update the numbers of pieces in ``lengths``."""
    texts, counts_of = parts
    places, waiting = _candidates(base, flags, parts)
    inside: dict[int, list[str]] = defaultdict(list)  # the chosen words in each part
    # For each measured word: the chosen words beside it, its count, and the new lengths of its
    # parts. They stay right until another word is chosen in one of these parts.
    measured: dict[str, tuple[set[str], int, Integers]] = {}
    chosen: list[SuggestedWord] = []
    while waiting and len(chosen) < most:
        _, word = heappop(waiting)
        rows = places[word]
        near = {other for row in rows for other in inside.get(row, ())}
        if word not in measured and is_random(spelling(word.encode(), texts[rows[0]].encode())):
            continue
        if word not in measured or measured[word][0] != near:
            extended = tokenizer.with_tokens([*near, word], **flags)
            ids, of_piece = _cut(extended, [texts[row] for row in rows])
            new, counts = np.bincount(of_piece, minlength=len(rows)), counts_of[rows]
            times = int(counts[of_piece[ids == extended.token_to_id(word)]].sum())
            measured[word] = (near, times, new)
            saved = int((lengths[rows] - new) @ counts)
            if saved > 0:
                heappush(waiting, (-saved, word))
            continue
        _, times, new = measured[word]
        saved = int((lengths[rows] - new) @ counts_of[rows])
        lengths[rows] = new
        for row in rows:
            inside[row].append(word)
        pieces = base.encode(_as_in_text(flags, word), add_special_tokens=False).tokens
        chosen.append(SuggestedWord(word=word, parts=tuple(pieces), count=times, saved=saved))
    return chosen


def _candidates(
    base: Tokenizer, flags: Flags, parts: Parts
) -> tuple[dict[str, list[int]], list[tuple[int, str]]]:
    """Return two results: for each word, the rows of the texts that contain it; and a heap.

    Each item of the heap is (-saving, word), with the highest possible saving of the word.
    """
    import regex

    search = regex.compile(WORD).findall
    normalize = base.normalizer.normalize_str if flags["normalized"] and base.normalizer else str
    places: dict[str, list[int]] = defaultdict(list)
    occurrences: Counter[str] = Counter()
    for row, (text, number) in enumerate(zip(parts[0], parts[1].tolist(), strict=True)):
        for word, times in Counter(search(normalize(text))).items():
            places[word].append(row)
            occurrences[word] += times * number
    known, more = base.get_vocab(), BESIDE if flags["lstrip"] else 0
    words = [
        word
        for word in places
        if word not in known
        and any(map(str.isalpha, word))
        and (" " not in word and len(word) <= LONGEST)
        and word.translate(JOINERS).isprintable()
    ]
    lengths = _lengths(base, [_as_in_text(flags, word) for word in words]).tolist()
    waiting = [
        (-occurrences[word] * (pieces - 1 + more), word)
        for word, pieces in zip(words, lengths, strict=True)
        if pieces > 1
    ]
    heapify(waiting)
    return places, waiting
