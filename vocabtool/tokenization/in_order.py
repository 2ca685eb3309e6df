"""Words looked for in a text one after the other, from left to right, spelled like it or nearly.

Compared are letters and digits only, without case and accents and in Unicode's compatibility form
(NFKD, full case folding): ``Café`` holds ``cafe``, ``it's`` holds ``its``. A word without letters
is looked for as it stands. What the words mean for the text is ``alignment.py``'s business.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from vocabtool.tokenization.surface import Span

AHEAD: Final = 1000  # letters, or characters, within which a word must begin
TRIED: Final = 32  # places of one word that are compared


def find_in_order(text: str, surface: Sequence[Span], words: Sequence[str]) -> list[Span | None]:
    """Where each word stands in ``text``, each behind the one before; ``None``: not found.

    ``surface``: the surface words of the text, in order; words that begin and end with them are
    preferred. A word is taken for not found, too, where finding it would leave out letters while
    the next word stands right there.
    """
    search = _Search(text, surface)
    folded = [letters(word) for word in words]
    following = [*folded, ""][1:]
    return [search.next(*triple) for triple in zip(words, folded, following, strict=True)]


def letters(text: str) -> str:
    """The letters and digits of a text, without case, accents and compatibility forms."""
    return "".join(map(_fold, text))


@cache
def _fold(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).casefold()
    return "".join(c for c in unicodedata.normalize("NFKD", plain) if c.isalnum())


class _Search:
    """A text, and how far words were found in it."""

    def __init__(self, text: str, surface: Sequence[Span]) -> None:
        self._text = text
        each = [_fold(c) for c in text]
        self._letters = "".join(each)
        self._places = [i for i, folded in enumerate(each) for _ in folded]
        self._starts = {bisect_left(self._places, span.start) for span in surface}
        self._ends = {bisect_left(self._places, span.end) for span in surface}
        self._read = 0  # characters of the text
        self._at = 0  # letters

    def next(self, word: str, folded: str, following: str) -> Span | None:
        """Find a word, given its letters and those of the word behind it, and go past it."""
        span = (
            self._find_by_letters(word, folded, following)
            if folded
            else self._find_by_signs(word, following)
        )
        if span is not None:
            self._read = span.end
            self._at = bisect_left(self._places, span.end)
        return span

    def _find_by_signs(self, word: str, following: str) -> Span | None:
        start = self._text.find(word, self._read, self._read + AHEAD + len(word))
        if start < 0 or not word:
            return None
        skips = bisect_left(self._places, start) > self._at
        return None if skips and self._here(following) else Span(start, start + len(word))

    def _find_by_letters(self, word: str, folded: str, following: str) -> Span | None:
        here = self._letters.startswith(folded, self._at)
        part_of_next = following.startswith(folded) and not self._ends_well(
            self._at + len(folded), following
        )
        if self._here(following) and (not here or part_of_next):
            return None
        at = self._at if here else self._ahead(folded, following)
        if at < 0:
            return None
        first, last = self._places[at], self._places[at + len(folded) - 1]
        return self._with_signs(word, first, last + 1)

    def _here(self, following: str) -> bool:
        """Whether the next word stands where the search has come to."""
        return bool(following) and self._letters.startswith(following, self._at)

    def _ends_well(self, end: int, following: str) -> bool:
        return end in self._ends or (bool(following) and self._letters.startswith(following, end))

    def _ahead(self, folded: str, following: str) -> int:
        """The first place that is a surface word; else that begins one; else any; else -1."""
        begins = first = -1
        for at in self._places_of(folded):
            if at in self._starts:
                if self._ends_well(at + len(folded), following):
                    return at
                begins = at if begins < 0 else begins
            first = at if first < 0 else first
        return first if begins < 0 else begins

    def _places_of(self, folded: str) -> Iterator[int]:
        """Where these letters stand ahead, as many places as are looked at."""
        limit = self._at + AHEAD + len(folded)
        at = self._letters.find(folded, self._at, limit)
        for _ in range(TRIED):
            if at < 0:
                return
            yield at
            at = self._letters.find(folded, at + 1, limit)

    def _with_signs(self, word: str, start: int, end: int) -> Span:
        """The letters' place, and around it the signs of the word if the text has the same."""
        lettered = [i for i, c in enumerate(word) if _fold(c)]
        before, behind = word[: lettered[0]], word[lettered[-1] + 1 :]
        if before and self._text.endswith(before, self._read, start):
            start -= len(before)
        if behind and self._text.startswith(behind, end):
            end += len(behind)
        return Span(start, end)
