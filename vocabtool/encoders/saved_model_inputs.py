"""Texts as the tensors that a function of a model wants: as they are, or as rows of ids.

Which function that is, and what is done with its answer, is elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vocabtool.tokenization.checked_model import import_tensorflow
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.model_functions import Entry
from vocabtool.tokenization.text_arrays import as_bytes, string_array
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary

Tensor: TypeAlias = Any  # TensorFlow carries no types
Integers: TypeAlias = NDArray[np.int64]

# What entries are called that stand for unknown words, and for nothing, where nothing says so.
UNKNOWN_ENTRIES: Final = (b"[UNK]", b"<unk>", b"<UNK>", b"<oov>", b"<OOV>", b"UNK")
PAD_ENTRIES: Final = (b"[PAD]", b"<pad>", b"<PAD>", b"", b"PAD")


class Fed(NamedTuple):
    """One call. ``texts``: at what positions those stand that the first rows are of.

    ``rows``: how many there are; those behind the texts' fill the batch up.
    """

    tensor: Tensor
    texts: slice | Integers
    rows: int


class Input(Protocol):
    """Makes a model's input."""

    def feed(self, texts: Sequence[bytes]) -> Iterator[Fed]:
        """Calls that hold each text once; there is at least one text."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input, -1 where any size goes."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of it."""


class TextInput(NamedTuple):
    """Texts as they are, as many at once as the function takes."""

    entry: Entry

    def feed(self, texts: Sequence[bytes]) -> Iterator[Fed]:
        """One call, unless the function takes so many and no more."""
        size = fixed_size(self.shape) or len(texts)
        for start in range(0, len(texts), size):
            part = [*texts[start : start + size]]
            where = slice(start, start + len(part))
            # The last text again: what the model takes already, it takes.
            part += part[-1:] * (size - len(part))
            yield Fed(self.entry.tensor(part), where, size)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input, -1 where any size goes."""
        return self.entry.shape

    @property
    def notes(self) -> tuple[str, ...]:
        """How many texts it takes, where that is not any number."""
        return _fixed_note(fixed_size(self.shape))


class IdInput:
    """Rows of ids. ``shape``: of the input, -1 where any size goes; ``dtype``: int32 or int64.

    Texts longer than the rows are cut off and counted. ``by_length``: only rows of one length go
    together, because what fills rows up changes the model's answer.
    """

    def __init__(self, shape: tuple[int, int], dtype: Any, words: Words) -> None:
        self.shape = shape
        self.by_length = False
        self._dtype = dtype
        self.words = words
        self.pad = _pad(words.vocabulary)
        self.unknown = _unknown(words.vocabulary)
        self._cut_off = 0
        self._lock = Lock()

    def feed(self, texts: Sequence[bytes]) -> Iterator[Fed]:
        """Cut texts into words, and look their ids up."""
        return self.feed_judged(self.words.look_up(string_array(texts)))

    def feed_judged(self, judged: WordLookup) -> Iterator[Fed]:
        """The same of words that are known already."""
        ids, bounds = self._ids(judged)
        lengths = np.maximum(np.diff(bounds), 1)  # a text without words is a row of filling
        if self.shape[1] > 0:
            self._count(int((lengths > self.shape[1]).sum()))
            lengths = np.full(len(lengths), self.shape[1])
        groups = np.unique(lengths) if self.by_length else [lengths.max()]
        for length in groups:
            texts = np.flatnonzero(lengths == length) if self.by_length else np.arange(len(lengths))
            yield from self._calls(self._rows(ids, bounds, texts, int(length)), texts)

    def rows(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Ids as the function wants them."""
        return import_tensorflow().constant(np.array(rows, np.int64), self._dtype)

    def _calls(self, rows: Integers, texts: Integers) -> Iterator[Fed]:
        size = fixed_size(self.shape) or len(rows)
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            where = texts[start : start + len(part)]
            filled = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])
            yield Fed(import_tensorflow().constant(filled, self._dtype), where, size)

    def _rows(self, ids: Integers, bounds: Integers, texts: Integers, length: int) -> Integers:
        """The first ids of each text, filled up: shape (texts, length)."""
        places = bounds[texts][:, None] + np.arange(length)
        inside = places < bounds[texts + 1][:, None]
        rows = np.full(places.shape, self.pad, np.int64)
        rows[inside] = ids[places[inside]]
        return rows

    def _ids(self, judged: WordLookup) -> tuple[Integers, Integers]:
        """The ids of all texts, and where each text's begin and end."""
        flat, starts = self._ids_of_words(judged)
        lengths = np.diff(starts)[judged.codes]
        ends = np.cumsum(lengths)
        first = starts[judged.codes] - (ends - lengths)
        ids = flat[np.repeat(first, lengths) + np.arange(int(lengths.sum()))]
        return ids, np.concatenate([[0], ends]).astype(np.int64)[judged.offsets]

    def _ids_of_words(self, judged: WordLookup) -> tuple[Integers, Integers]:
        """The ids of the distinct words, and where each word's begin and end."""
        if judged.pieces is None:
            ids = np.where(
                judged.ids >= 0, judged.ids, -1 if self.unknown is None else self.unknown
            )
            kept = ids >= 0
            return ids[kept], np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        told = judged.spelled
        of_word = [
            self._ids_of_pieces(
                self.words.tokenizer.pieces(word)
                if told is None
                else [p for p, _ in told.of_word(at)]
            )
            for at, word in enumerate(as_bytes(judged.distinct))
        ]
        starts = np.cumsum([0, *map(len, of_word)], dtype=np.int64)
        return np.array([i for ids in of_word for i in ids], np.int64), starts

    def _ids_of_pieces(self, pieces: Sequence[bytes]) -> list[int]:
        vocabulary = self.words.vocabulary
        ids = vocabulary.id_array()
        places = map(vocabulary.positions.get, pieces)
        found = (self.unknown if place is None else int(ids[place]) for place in places)
        return [i for i in found if i is not None]

    def _count(self, cut_off: int) -> None:
        with self._lock:
            self._cut_off += cut_off

    @property
    def notes(self) -> tuple[str, ...]:
        """What stands for nothing and for unknown words, and how many texts were cut off."""
        unknown = "left out, for the vocabulary names no id for them"
        if self.unknown is not None:
            unknown = f"given the id {self.unknown}"
        told = [
            f"the model takes ids: words of {self.words.vocabulary.name}, "
            f"rows filled up with the id {self.pad}{_held(self.words.vocabulary, self.pad)}",
            f"unknown words are {unknown}",
            *_fixed_note(fixed_size(self.shape)),
        ]
        if self.by_length:
            told.append(
                "filling rows up would change the vectors, so only texts of equally many ids are "
                "run together"
            )
        if self._cut_off:
            told.append(
                f"{self._cut_off:,} texts were cut off: the model takes {self.shape[1]} ids each"
            )
        return tuple(told)


def fixed_size(shape: Sequence[int]) -> int | None:
    """How many texts go into one call; ``None``: any number."""
    if not shape:
        return 1
    return shape[0] if shape[0] > 0 else None


def _fixed_note(size: int | None) -> tuple[str, ...]:
    if size is None:
        return ()
    if size == 1:
        return ("the model takes one text at a time",)
    return (f"the model takes {size} texts at a time, fewer are filled up",)


def _pad(vocabulary: Vocabulary) -> int:
    """The id that fills rows up: of the mask, of an entry of such a name, else 0."""
    masks = [special.id for special in vocabulary.specials if special.role == "mask"]
    return (*masks, *_named(vocabulary, PAD_ENTRIES), 0)[0]


def _unknown(vocabulary: Vocabulary) -> int | None:
    """The id of unknown words; of several, which a hash would choose from, none."""
    if vocabulary.unknown is not None:
        return vocabulary.unknown.id if vocabulary.unknown.count == 1 else None
    return next(iter(_named(vocabulary, UNKNOWN_ENTRIES)), None)


def _named(vocabulary: Vocabulary, entries: Sequence[bytes]) -> list[int]:
    ids = vocabulary.id_array()
    return [int(ids[vocabulary.positions[e]]) for e in entries if e in vocabulary.positions]


def _held(vocabulary: Vocabulary, pad: int) -> str:
    """A word of warning where the filling is the id of a word."""
    try:
        entry = vocabulary.entry_of(pad)
    except KeyError:
        return ""
    return f", which is the entry {entry!r}"
