"""A rule: the steps from a text to words, applied fast, told in plain words, and fingerprinted.

Where a rule provably works between blanks it is applied to the distinct pieces of many texts only
(a corpus has a hundred times fewer of them than words). Which words are known is in ``lexicon.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import VocabtoolError
from vocabtool.tokenization.ngrams import NGrams
from vocabtool.tokenization.text_arrays import Cut, Step, as_strings, per_text, string_array, whole

if TYPE_CHECKING:
    import pyarrow as pa

MOST_GROWTH: Final = 64  # times as many bytes as the texts have
ROOM: Final = 1 << 20
SPACE, TAB, RETURN = (np.uint8(ord(blank)) for blank in " \t\r")
BLANKS: Final = "a b\tc\nd\ve\ff\rg"


class Coded(NamedTuple):
    """A :class:`Cut` whose equal strings are told apart once, or nearly.

    ``codes``: int32, shape (m,), places in ``distinct``; ``offsets``: int64, shape (n + 1,).
    """

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    distinct: pa.StringArray


@dataclass(frozen=True)
class Rule:
    """How texts become words. Rules are equal when their steps are."""

    steps: tuple[Step, ...]

    def cut(self, texts: pa.StringArray) -> Cut:
        """The words of each text, each step on whole texts."""
        return _apply(self.steps, whole(texts))

    def coded(self, texts: pa.StringArray) -> Coded:
        """The same words, each distinct piece of text looked at once where that is the same."""
        ngrams = self._parts[1]
        if not self.works_between_blanks(texts):
            return encoded(self.cut(texts))
        pieces, offsets = chunks(texts)
        pieces = as_bytes_encoded(pieces)
        words = self.of_chunks(as_strings(pieces.dictionary))
        codes = unfolded(words, pieces.indices.to_numpy(), offsets)
        if not ngrams:
            return codes
        return encoded(_apply(ngrams, Cut(codes.distinct.take(codes.codes), codes.offsets)))

    def of_chunks(self, chunks: pa.StringArray) -> Coded:
        """The words of chunks of text, where the rule works between blanks; before any n-grams."""
        return encoded(_apply(self._parts[0], whole(chunks)))

    def works_between_blanks(self, texts: pa.StringArray) -> bool:
        """Whether the words of texts are those of what stands between blanks, one by one.

        N-grams are made of them afterwards.
        """
        return _works_between_blanks(self._parts[0]) and not _holds_nul(texts)

    def describe(self) -> tuple[str, ...]:
        """One line for each step."""
        return tuple(step.describe() for step in self.steps) or ("the whole text is one word",)

    @property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of what the steps do."""
        told = "".join(f"{step!r}\n" for step in self.steps)
        return hashlib.sha256(f"vocabtool rule 1\n{told}".encode()).hexdigest()

    @property
    def ngrams(self) -> bool:
        """Whether it makes more than single words of a text."""
        return any(isinstance(step, NGrams) for step in self.steps)

    @property
    def _parts(self) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        """Steps that treat each string alone, and those from the first on that joins words."""
        joins = (i for i, step in enumerate(self.steps) if isinstance(step, NGrams))
        at = next(joins, len(self.steps))
        return self.steps[:at], self.steps[at:]


def _holds_nul(texts: pa.StringArray) -> bool:
    """Whether there is a NUL: some ops take it for the end of a whole text."""
    bounds = text_bounds(texts)
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[bounds[0] : bounds[-1]]
    return bool(len(data)) and int(data.min()) == 0


def _apply(steps: Iterable[Step], cut: Cut) -> Cut:
    """Step by step. Raises :class:`VocabtoolError` where a model's graph blows texts up."""
    most = MOST_GROWTH * cut.values.nbytes + ROOM
    for step in steps:
        cut = step.apply(cut)
        if cut.values.nbytes > most:
            raise VocabtoolError(
                f"the step {step.describe()!r} makes {cut.values.nbytes:,} bytes of a few texts: "
                "no model that is meant well does that"
            )
    return cut


def as_bytes_encoded(values: pa.StringArray) -> pa.DictionaryArray:
    """Dictionary-encode strings by their bytes."""
    import pyarrow as pa

    return values.view(pa.binary()).dictionary_encode()


def encoded(cut: Cut) -> Coded:
    """Tell the strings of a cut apart."""
    values = as_bytes_encoded(cut.values)
    return Coded(values.indices.to_numpy(), cut.offsets, as_strings(values.dictionary))


def unfolded(words: Coded, pieces: NDArray[np.int32], offsets: NDArray[np.int64]) -> Coded:
    """The words of texts, from those of each distinct piece and the pieces of each text."""
    counts = np.diff(words.offsets)
    if bool((counts == 1).all()):
        return Coded(words.codes[pieces], offsets, words.distinct)
    lengths = counts[pieces]
    ends = np.cumsum(lengths)
    places = np.repeat(words.offsets[:-1][pieces] - (ends - lengths), lengths)
    places += np.arange(len(places))
    bounds = np.concatenate(([0], ends))[offsets]
    return Coded(words.codes[places], bounds, words.distinct)


def chunks(texts: pa.StringArray) -> tuple[pa.StringArray, NDArray[np.int64]]:
    """Texts cut behind each byte of ASCII whitespace, without a copy: ``"I ", "love\\n"``.

    Returns the chunks, which together are the texts, and offsets of shape (n + 1,) into them.
    """
    import pyarrow as pa

    bounds = text_bounds(texts)
    first = int(bounds[0])
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[first : int(bounds[-1])]
    is_last = data == SPACE
    is_last |= data - TAB <= RETURN - TAB
    ends = bounds[1:] - 1 - first
    is_last[ends[ends >= 0]] = True
    cuts = np.append(0, np.flatnonzero(is_last) + 1)
    offsets = np.searchsorted(cuts, bounds - first)
    places = pa.py_buffer((cuts + first).astype(np.int32))
    return pa.StringArray.from_buffers(len(cuts) - 1, places, texts.buffers()[2]), offsets


def text_bounds(texts: pa.StringArray) -> NDArray[np.int32]:
    """Where texts begin in their buffer, and where the last one ends: int32, shape (n + 1,)."""
    buffer = texts.buffers()[1]
    return np.frombuffer(buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]


@cache
def _works_between_blanks(steps: tuple[Step, ...]) -> bool:
    """Whether texts may be cut at ASCII whitespace first: a later step cuts there anyway.

    All steps up to that one must treat what stands between blanks alone; those behind it get the
    same strings either way.
    """
    cut = whole(string_array([BLANKS]))
    for step in steps:
        if not step.local:
            return False
        cut = step.apply(cut)
        if per_text(cut) == [BLANKS.encode().split()]:
            return True
    return False
