"""Texts as the tensors that a function of a SavedModel wants: as they are, or as rows of ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.tokenization.checked_model import import_tensorflow
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.model_functions import Entry
from vocabtool.tokenization.text_arrays import as_bytes, string_array
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary

Integers = NDArray[np.int64]

# What entries are called that stand for unknown words, and for padding, where nothing says so.
UNKNOWN_ENTRIES: Final = (b"[UNK]", b"<unk>", b"<UNK>", b"<oov>", b"<OOV>", b"UNK")
PAD_ENTRIES: Final = (b"[PAD]", b"<pad>", b"<PAD>", b"", b"PAD")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function. ``texts``: the positions of the texts that the first rows are of.

    ``rows``: how many there are; those behind the texts' fill the batch up.
    """

    tensor: Any
    texts: slice | Integers
    rows: int


class TextInput:
    """Texts as they are, as many at once as the function takes."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self.size = fixed_size(entry.shape)

    def calls(self, texts: Sequence[bytes]) -> Iterator[Call]:
        """One call, unless the function takes a fixed number of texts."""
        size = self.size or len(texts)
        for start in range(0, len(texts), size):
            part = [*texts[start : start + size]]
            positions = slice(start, start + len(part))
            # The last text again: what the model takes already, it takes.
            part += part[-1:] * (size - len(part))
            yield Call(self._entry.tensor(part), positions, size)

    @property
    def notes(self) -> tuple[str, ...]:
        """How many texts it takes, where that is not any number."""
        return _fixed_note(self.size)


class IdInput:
    """Rows of ids. ``shape``: of the input, -1 where any size goes; ``dtype``: int32 or int64.

    Texts longer than the rows are cut off and counted. ``by_length``: only rows of one length go
    together, because padding changes the model's answer.
    """

    def __init__(self, shape: tuple[int, int], dtype: Any, words: Words) -> None:
        vocabulary = words.vocabulary
        self.shape = shape
        self.size = fixed_size(shape)
        self.by_length = False
        self.words = words
        # Of several ids of unknown words, which a hash would choose from, none is taken.
        unknown = vocabulary.unknown
        self.unknown = next(iter(_ids_of(vocabulary, UNKNOWN_ENTRIES)), None)
        if unknown is not None:
            self.unknown = unknown.id if unknown.count == 1 else None
        masks = [special.id for special in vocabulary.specials if special.role == "mask"]
        self.pad = (*masks, *_ids_of(vocabulary, PAD_ENTRIES), 0)[0]
        self._dtype = dtype
        self._cut_off = 0
        self._lock = Lock()

    def calls(self, texts: Sequence[bytes]) -> Iterator[Call]:
        """Calls that hold each text once, of at least one text."""
        return self.calls_of_judged(self.words.look_up(string_array(texts)))

    def calls_of_judged(self, judged: WordLookup) -> Iterator[Call]:
        """The same of words that are looked up already."""
        ids, bounds = self._ids(judged)
        lengths = np.maximum(np.diff(bounds), 1)  # a text without words is a row of padding
        if self.shape[1] > 0:
            with self._lock:
                self._cut_off += int((lengths > self.shape[1]).sum())
            lengths = np.full(len(lengths), self.shape[1])
        groups = np.unique(lengths) if self.by_length else [lengths.max()]
        for length in groups:
            texts = np.flatnonzero(lengths == length) if self.by_length else np.arange(len(lengths))
            rows = self._pad(ids, bounds, texts, int(length))
            size = self.size or len(rows)
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                positions = texts[start : start + len(part)]
                filled = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])
                yield Call(self.tensor(filled), positions, size)

    def tensor(self, rows: Integers | Sequence[Sequence[int]]) -> Any:
        """Rows of ids as the function wants them."""
        return import_tensorflow().constant(np.asarray(rows, np.int64), self._dtype)

    def _pad(self, ids: Integers, bounds: Integers, texts: Integers, length: int) -> Integers:
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
            unknown = -1 if self.unknown is None else self.unknown
            ids = np.where(judged.ids >= 0, judged.ids, unknown)
            kept = ids >= 0
            return ids[kept], np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        spelled = judged.spelled
        of_word = [
            self._ids_of_pieces(
                self.words.tokenizer.pieces(word)
                if spelled is None
                else [piece for piece, _ in spelled.of_word(at)]
            )
            for at, word in enumerate(as_bytes(judged.distinct))
        ]
        starts = np.cumsum([0, *map(len, of_word)], dtype=np.int64)
        return np.array([i for ids in of_word for i in ids], np.int64), starts

    def _ids_of_pieces(self, pieces: Sequence[bytes]) -> list[int]:
        vocabulary = self.words.vocabulary
        ids = vocabulary.id_array()
        positions = map(vocabulary.positions.get, pieces)
        found = (self.unknown if at is None else int(ids[at]) for at in positions)
        return [i for i in found if i is not None]

    @property
    def notes(self) -> tuple[str, ...]:
        """What stands for padding and for unknown words, and how many texts were cut off."""
        vocabulary = self.words.vocabulary
        unknown = "left out, for the vocabulary names no id for them"
        if self.unknown is not None:
            unknown = f"given the id {self.unknown}"
        try:
            entry = f", which is the entry {vocabulary.entry_of(self.pad)!r}"
        except KeyError:
            entry = ""
        notes = [
            f"the model takes ids: words of {vocabulary.name}, "
            f"rows filled up with the id {self.pad}{entry}",
            f"unknown words are {unknown}",
            *_fixed_note(self.size),
        ]
        if self.by_length:
            notes.append(
                "filling rows up would change the vectors, so only texts of equally many ids are "
                "run together"
            )
        if self._cut_off:
            notes.append(
                f"{self._cut_off:,} texts were cut off: the model takes {self.shape[1]} ids each"
            )
        return tuple(notes)


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


def _ids_of(vocabulary: Vocabulary, entries: Sequence[bytes]) -> list[int]:
    ids = vocabulary.id_array()
    return [int(ids[vocabulary.positions[e]]) for e in entries if e in vocabulary.positions]
