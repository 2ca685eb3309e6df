r"""Choose words to add to a tokenizer: the words that save most pieces in a corpus.

The words become added tokens of the ``tokenizers`` library with ``single_word=True``. Such a token
matches only a whole word: a maximal run of letters, digits, marks and underscores (``\w`` of Rust's
regular expressions, see tokenizers/src/tokenizer/added_vocabulary.rs).

Words are chosen one by one. Each step chooses the word that saves most pieces in addition to the
words chosen before. The saving is exact: the library cuts the texts with and without the word.

Half of the documents are held out. They show what the words save in other texts.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from heapq import heapify, heappop, heappush
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.choices import StartVectors
from vocabtool.errors import VocabtoolError
from vocabtool.oov import new_vectors
from vocabtool.oov.lookalikes import is_random, spelling
from vocabtool.oov.new_vectors import Cut, Rows
from vocabtool.system.own_files import whole_file
from vocabtool.system.parallel import in_batches
from vocabtool.tokenization import hf_tokenizer as description
from vocabtool.tokenization.hf_tokenizer import HFWordTokenizer, Json, library_errors
from vocabtool.tokenization.lookup import without_blanks
from vocabtool.tokenization.text_arrays import (
    EMPTY,
    as_bytes,
    starts_of,
    string_array,
    texts_array,
)
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import decode

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Flags = dict[str, bool]
Texts = Iterable[str | bytes] | Sequence[pa.StringArray]

MOST: Final = 500  # words
MAX_TEXT: Final = 1 << 28  # bytes of texts that are kept and read
BESIDE: Final = 2  # pieces beside a word that it may save if pieces contain blanks
LONGEST: Final = 64  # characters of a word
BATCH: Final = 1_024  # texts that the library cuts at a time
WORD: Final = r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+"  # \w+ of Rust's regex
JOINERS: Final = {0x200C: None, 0x200D: None}  # in words of Persian and of scripts of India


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedWord:
    """A word to add, with its figures in the documents that were used to choose words.

    - ``parts``: The current pieces of the word, as spelled in the vocabulary.
    - ``count``: How often the new token occurs.
    - ``saved``: Number of pieces that the word saves in addition to the words listed before it.
    - ``total``: Number of pieces that this word and all words listed before it save.
    """

    word: str
    parts: tuple[str, ...]
    count: int
    saved: int
    total: int


class HalfCounts(NamedTuple):
    """Counts of one half of the documents.

    - ``words``: Number of words.
    - ``before``: Number of pieces without the new words.
    - ``after``: Number of pieces with the new words.

    For word vectors, ``before`` and ``after`` count unknown words instead of pieces.
    """

    documents: int
    words: int
    before: int
    after: int

    @property
    def rate_before(self) -> float:
        """Pieces (or unknown words) per word without the new words; 0 if there are no words."""
        return self.before / self.words if self.words else 0.0

    @property
    def rate_after(self) -> float:
        """Pieces (or unknown words) per word with the new words; 0 if there are no words."""
        return self.after / self.words if self.words else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """Words to add to a tokenizer. The word that saves most comes first.

    - ``flags``: The arguments of ``tokenizers.AddedToken`` besides ``content``, the same for all
      words. Empty for word vectors.
    - ``chosen_on``: Counts of the documents that were used to choose the words.
    - ``held_out``: Counts of the held-out documents.
    - ``vectors``: An initial vector of each word, float32, shape (words, dim). ``None`` if the
      model's files contain no embedding matrix.
    - ``tensor``: The name of the embedding matrix, or an empty string.
    """

    words: tuple[SuggestedWord, ...]
    flags: Flags
    chosen_on: HalfCounts
    held_out: HalfCounts
    vectors: NDArray[np.float32] | None = field(default=None, repr=False)
    tensor: str = ""
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> list[dict[str, Any]]:
        """The arguments of ``tokenizers.AddedToken`` for each word."""
        return [{"content": each.word} | self.flags for each in self.words]

    def save(self, path: str | Path) -> None:
        """Write ``tokens``, ``vectors`` (lists of numbers, or null) and ``words`` as JSON."""
        vectors = None
        if self.vectors is not None:  # the shortest decimals that give the same float32
            vectors = [[float(str(number)) for number in row] for row in self.vectors]
        content = {
            "tokens": self.tokens,
            "vectors": vectors,
            "words": [asdict(each) for each in self.words],
        }
        with whole_file(path) as file:
            file.write(json.dumps(content, ensure_ascii=False).encode() + b"\n")


def suggest(
    words: Words,
    texts: Texts,
    most: int = MOST,
    *,
    model: str | Path | None = None,
    start: StartVectors | None = None,
) -> Suggestions:
    """Choose the words whose addition to the model saves the most pieces.

    - ``texts``: Texts or Arrow arrays of texts, not names of files. The first 256 MB are read.
    - ``most``: Maximum number of words.
    - ``model``: A folder with ``model.safetensors``, or a file of word vectors. The initial vectors
      of the new words are computed from its vectors. ``None`` means that no vectors are computed.
    - ``start``: How an initial vector is computed: as the ``mean`` or ``sum`` of the vectors of the
      word's pieces, or from the word's ``contexts`` (see ``oov/new_vectors.py``). The default is
      ``sum`` for a static embedding, otherwise ``mean``.

    For a file of word vectors, the most frequent unknown words are chosen. Their initial vectors
    are computed from their contexts, and unknown words are counted instead of pieces.

    Raises:

    - :class:`VocabtoolError` for a model whose tokenizer the ``tokenizers`` library cannot run.
    - :class:`InvalidFile` for a damaged file of the model.
    """
    rows = None if model is None else new_vectors.open_rows(model)
    subword, tokenizer = words.subword, words.tokenizer
    if not subword and words.vocabulary.kind == "vectors" and rows is not None:
        return _suggest_unknown(words, texts, most, rows)
    if not subword or not isinstance(tokenizer, HFWordTokenizer):
        raise VocabtoolError(
            f"{words.vocabulary.name}: words can be added only to a tokenizer.json of subword "
            "pieces or to a file of word vectors; pass one of these as model"
        )
    halves, notes = _halves(texts)
    flags = token_flags(tokenizer.document)
    units = [_units(tokenizer, half) for half in halves]
    base = tokenizer.with_tokens([])
    lengths = [np.diff(_cut(base, half.texts).offsets) for half in units]
    before = [int(each @ half.counts) for each, half in zip(lengths, units, strict=True)]
    found = tuple(_choose(tokenizer, base, flags, units[0], lengths[0], most))
    given = [each.word for each in found]
    extended = tokenizer.with_tokens(given, **flags)
    counts = [
        _half_counts(words, extended, half, pieces)
        for half, pieces in zip(units, before, strict=True)
    ]
    vectors = None
    if model is not None and rows is None:
        notes += (f"{model}: no model.safetensors with an embedding matrix, so no vectors",)
    if rows is not None:
        pieces = _cut(base, [_as_in_text(flags, word) for word in given])
        summed = start == "sum" or (start != "mean" and rows.static)
        vectors = new_vectors.initial_vectors(rows, pieces, tokenizer.unknown_id, summed=summed)
        if start == "contexts" and given:  # the new ids are consecutive
            sequences = _cut(extended, [text for array in halves[0] for text in _decode(array)])
            first = extended.token_to_id(given[0])
            vectors = new_vectors.from_contexts(rows, sequences, first, vectors)
    return Suggestions(
        words=found,
        flags=flags,
        chosen_on=counts[0],
        held_out=counts[1],
        vectors=vectors,
        tensor="" if rows is None else rows.name,
        notes=notes,
    )


def _suggest_unknown(words: Words, texts: Texts, most: int, rows: Rows) -> Suggestions:
    halves, notes = _halves(texts)
    size, numbers = len(words.vocabulary), dict[bytes, int]()
    cuts = [_number_words(words, half, numbers) for half in halves]
    counts = [np.bincount(cut.ids[cut.ids >= size] - size, minlength=len(numbers)) for cut in cuts]
    names = [decode(word) for word in numbers]
    order = sorted(np.flatnonzero(counts[0]).tolist(), key=lambda at: (-counts[0][at], names[at]))
    usable = (at for at in order if _is_usable(names[at]) and not is_random(names[at]))
    chosen = np.array([*islice(usable, most)], np.int64)
    saved = counts[0][chosen].tolist()
    found = (
        SuggestedWord(word=names[at], parts=(), count=count, saved=count, total=total)
        for at, count, total in zip(chosen.tolist(), saved, accumulate(saved), strict=True)
    )
    half_counts = [
        HalfCounts(
            len(cut.offsets) - 1, len(cut.ids), int(each.sum()), int(np.delete(each, chosen).sum())
        )
        for cut, each in zip(cuts, counts, strict=True)
    ]
    renumbered = np.full(size + len(numbers), -1, np.int64)
    renumbered[np.append(np.arange(size), size + chosen)] = np.arange(size + len(chosen))
    sequences = cuts[0]._replace(ids=renumbered[cuts[0].ids])
    nothing = Cut(EMPTY, np.zeros(len(chosen) + 1, np.int64))
    vectors = new_vectors.initial_vectors(rows, nothing)
    return Suggestions(
        words=tuple(found),
        flags={},
        chosen_on=half_counts[0],
        held_out=half_counts[1],
        vectors=new_vectors.from_contexts(rows, sequences, size, vectors),
        tensor=rows.name,
        notes=notes,
    )


def _number_words(words: Words, arrays: list[pa.StringArray], numbers: dict[bytes, int]) -> Cut:
    """Return the words of all texts as numbers.

    The number of a known word is its position in the vocabulary. The number of an unknown word is
    the size of the vocabulary plus its position in ``numbers``. New unknown words are added to
    ``numbers``.
    """
    size, ids, lengths = len(words.vocabulary), [EMPTY], [EMPTY]
    for array in arrays:
        found = words.look_up(array)
        places = found.positions.astype(np.int64)
        unknown = np.flatnonzero(~found.known)
        names = as_bytes(found.distinct.take(pa.array(unknown)))
        places[unknown] = [size + numbers.setdefault(name, len(numbers)) for name in names]
        ids.append(places[found.codes])
        lengths.append(np.diff(found.offsets))
    return Cut(np.concatenate(ids), starts_of(np.concatenate(lengths)))


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


def _as_in_text(flags: Flags, word: str) -> str:
    return f" {word}" if flags["lstrip"] and not flags["rstrip"] else word


# ---- the texts, as distinct parts that the tokenizer treats one by one


class _Units(NamedTuple):
    texts: list[str]
    counts: NDArray[np.int64]
    documents: int


def _halves(texts: Texts) -> tuple[tuple[list[pa.StringArray], ...], tuple[str, ...]]:
    """Put the texts alternately into two halves. Return the halves and notes for the user."""
    halves = list[pa.StringArray](), list[pa.StringArray]()
    size = number = 0
    arrays = isinstance(texts, Sequence) and isinstance(next(iter(texts), None), pa.Array)
    for array in map(texts_array, texts if arrays else in_batches(texts, BATCH)):
        size += array.nbytes
        if size > MAX_TEXT:
            note = (
                f"the words were chosen from the first {number:,} documents ({MAX_TEXT >> 20} MB)"
            )
            return halves, (note,)
        for half in (0, 1):
            rows = np.arange((half - number) % 2, len(array), 2)
            halves[half].append(array.take(pa.array(rows)))
        number += len(array)
    return halves, ()


def _decode(array: pa.StringArray) -> list[str]:
    return [text.decode("utf-8", "replace") for text in as_bytes(array)]


def _units(tokenizer: HFWordTokenizer, arrays: list[pa.StringArray]) -> _Units:
    parts = [tokenizer.chunks(array).view(pa.binary()) for array in arrays]
    found = pa.chunked_array(parts, pa.binary()).value_counts()
    return _Units(_decode(found.field(0)), found.field(1).to_numpy(), sum(map(len, arrays)))


def _cut(tokenizer: Tokenizer, texts: Sequence[str]) -> Cut:
    ids, lengths = [EMPTY], [EMPTY]
    for start in range(0, len(texts), BATCH):
        some = texts[start : start + BATCH]
        with library_errors("the tokenizers library fails on a text"):
            found = tokenizer.encode(some, is_pretokenized=True, add_special_tokens=False)
        ids.append(np.array(found.ids, np.int64))
        lengths.append(np.bincount(np.array(found.word_ids, np.int64), minlength=len(some)))
    return Cut(np.concatenate(ids), starts_of(np.concatenate(lengths)))


def _half_counts(words: Words, extended: Tokenizer, units: _Units, before: int) -> HalfCounts:
    number = 0
    for start in range(0, len(units.texts), BATCH):
        found = without_blanks(words.look_up(string_array(units.texts[start : start + BATCH])))
        number += int(np.diff(found.offsets) @ units.counts[start : start + BATCH])
    after = int(np.diff(_cut(extended, units.texts).offsets) @ units.counts)
    return HalfCounts(units.documents, number, before, after)


# ---- the choice


class _Effect(NamedTuple):
    """What a candidate word saves.

    - ``saved``: Number of pieces that the word saves.
    - ``times``: Number of occurrences of the new token.
    - ``lengths``: For each text part that contains the word, the number of pieces after the change.
    - ``near``: The previously chosen words that occur in these parts.
    """

    saved: int
    times: int
    lengths: NDArray[np.int64]
    near: set[str]


def _choose(
    tokenizer: HFWordTokenizer,
    base: Tokenizer,
    flags: Flags,
    units: _Units,
    lengths: NDArray[np.int64],
    most: int,
) -> list[SuggestedWord]:
    """Choose words, and update the numbers of pieces in ``lengths``.

    ``most``: maximum number of words.
    """
    places, waiting = _candidates(base, flags, units)
    inside: dict[int, list[str]] = defaultdict(list)  # the chosen words in each part
    measured: dict[str, _Effect] = {}
    found: list[SuggestedWord] = []
    while waiting and len(found) < most:
        _, word = heappop(waiting)
        rows = places[word]
        near = {other for row in rows for other in inside.get(row, ())}
        last = measured.get(word)
        if last is None or last.near != near:
            if last is None and is_random(spelling(word.encode(), units.texts[rows[0]].encode())):
                continue
            made = tokenizer.with_tokens([*near, word], **flags)
            cut, counts = _cut(made, [units.texts[row] for row in rows]), units.counts[rows]
            new, is_word = np.diff(cut.offsets), cut.ids == made.token_to_id(word)
            times = int(np.diff(starts_of(is_word)[cut.offsets]) @ counts)
            saved = int((lengths[rows] - new) @ counts)
            last = measured[word] = _Effect(saved, times, new, near)
            if last.saved > 0:
                heappush(waiting, (-last.saved, word))
            continue
        lengths[rows] = last.lengths
        for row in rows:
            inside[row].append(word)
        parts = base.encode(_as_in_text(flags, word), add_special_tokens=False).tokens
        found.append(
            SuggestedWord(
                word=word,
                parts=tuple(parts),
                count=last.times,
                saved=last.saved,
                total=last.saved + (found[-1].total if found else 0),
            )
        )
    return found


def _candidates(
    base: Tokenizer, flags: Flags, units: _Units
) -> tuple[dict[str, list[int]], list[tuple[int, str]]]:
    """Return two results: for each word, the rows of the texts that contain it; and a heap.

    Each item of the heap is (-saving, word), with the highest possible saving of the word.
    """
    import regex

    search = regex.compile(WORD).findall
    normalize = base.normalizer.normalize_str if flags["normalized"] and base.normalizer else str
    places: dict[str, list[int]] = defaultdict(list)
    occurrences: Counter[str] = Counter()
    for row, (text, number) in enumerate(zip(units.texts, units.counts.tolist(), strict=True)):
        for word, times in Counter(search(normalize(text))).items():
            places[word].append(row)
            occurrences[word] += times * number
    known, more = base.get_vocab(), BESIDE * flags["lstrip"]
    words = [word for word in places if word not in known and _is_usable(word)]
    cut = _cut(base, [_as_in_text(flags, word) for word in words])
    waiting = [
        (-occurrences[word] * (pieces - 1 + more), word)
        for word, pieces in zip(words, np.diff(cut.offsets).tolist(), strict=True)
        if pieces > 1
    ]
    heapify(waiting)
    return places, waiting


def _is_usable(word: str) -> bool:
    usable = any(map(str.isalpha, word)) and " " not in word and len(word) <= LONGEST
    return usable and word.translate(JOINERS).isprintable()
