"""Surface words of a line set beside the model's words: which of them does the model not know?

``surface.py`` says how a line can be cut, the model's own rule what its words are. The rule is
applied to each line whole and to each stretch of it alone; no rule of ours decides what is known.
Printing is not done here.

1. Each chunk (what stands between ASCII whitespace) is cut as finely as the rule allows: so that
   the words of its parts, joined, are the words of the chunk.
2. Where the words of all chunks, joined, are those of the line, the alignment is *exact*. Words
   that the rule makes of an empty text (``[START]``, ``[END]``) stand around a line once.
3. Where they are not, chunks are matched from both ends as far as they agree, and each word of the
   line between is looked for from left to right: as it is spelled, else by its letters and digits
   alone, in Unicode's compatibility form, without case and accents (NFKD, full case folding):
   ``Café`` holds ``cafe``, ``it's`` holds ``its``.
4. What is not found is *stray*: it takes the place of the surface words that stand where it
   should, and of which no other word was found.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate, chain, pairwise
from typing import Final, NamedTuple

from vocabtool.tokenization.lookup import WordLookup, without_blanks
from vocabtool.tokenization.surface import SPACE, Span, cuts
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.vocabulary import decode

LookUp = Callable[[Sequence[str]], WordLookup]

REMEMBERED: Final = 1 << 16  # chunks and words that are kept between batches
CHUNK_KEPT: Final = 64  # characters of the longest chunk that is kept


class Word(NamedTuple):
    """A word as the model looks it up, and whether it knows it."""

    key: bytes
    known: bool


class SurfaceWord(NamedTuple):
    """Characters ``start`` to ``end`` of a text.

    ``known``: whether the model knows all words that it makes of them; ``None``: it makes none.
    ``stray``: model's words that stand here and were not found in the line; else empty. They
    stand between surface words where ``start`` is ``end``.
    """

    start: int
    end: int
    known: bool | None
    stray: tuple[Word, ...] = ()


class Alignment(NamedTuple):
    """``blind``: the surface words of a line in which the model does not know a word, in order.

    ``exact``: whether the rule makes of the line what it makes of its chunks.
    """

    blind: list[SurfaceWord]
    exact: bool


class _Chunk(NamedTuple):
    """A chunk cut as finely as the rule allows; ``words``: of the rule applied to it alone.

    White space between chunks is one that says nothing and has no parts.
    """

    words: tuple[int, ...]
    parts: tuple[SurfaceWord, ...]
    blind: bool


class Aligner:
    """Aligns lines by one rule; words and chunks met before are not judged again."""

    def __init__(self, judge: LookUp) -> None:
        self._judge = judge
        self._forget()
        self._frame = self._word_numbers([""])[0]

    def align(self, lines: Sequence[str]) -> Iterator[Alignment]:
        """The alignment of each line. The rule is asked about all of them together."""
        if len(self._words) + len(self._chunks) > REMEMBERED:
            self._forget()
            self._frame = self._word_numbers([""])[0]
        of_lines = self._word_numbers(lines)
        pieces = [SPACE.split(line) for line in lines]
        chunks = self._cut_chunks(set(chain.from_iterable(split[::2] for split in pieces)))
        for line, words, split in zip(lines, of_lines, pieces, strict=True):
            yield self._align_line(line, words, split, [chunks[text] for text in split[::2]])

    def _forget(self) -> None:
        self._numbers: dict[Word, int] = {}
        self._words: list[Word] = []
        self._blank: set[int] = set()  # words of white space, or nothing: no surface word is one
        self._chunks: dict[str, _Chunk] = {"": _Chunk((), (), blind=False)}

    def _word_numbers(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The words of each text, as numbers of ours."""
        judged = without_blanks(self._judge(texts))
        pairs = zip(as_bytes(judged.distinct), judged.known.tolist(), strict=True)
        numbers = [self._number(Word(*pair)) for pair in pairs]
        codes = [numbers[code] for code in judged.codes.tolist()]
        return [tuple(codes[a:b]) for a, b in pairwise(judged.offsets.tolist())]

    def _number(self, word: Word) -> int:
        number = self._numbers.setdefault(word, len(self._words))
        if number == len(self._words):
            self._words.append(word)
            if not decode(word.key).strip():
                self._blank.add(number)
        return number

    def _cut_chunks(self, texts: set[str]) -> dict[str, _Chunk]:
        """How each chunk is cut; those not met before are judged, and remembered if short."""
        new = {text: cuts(text) for text in texts if text not in self._chunks}
        stretches = {text[a:b] for text, ways in new.items() for way in ways for a, b in way}
        ordered = sorted(stretches)
        alone = dict(
            zip(ordered, map(self._without_frame, self._word_numbers(ordered)), strict=True)
        )
        found = {text: self._finest(text, ways, alone) for text, ways in new.items()}
        self._chunks.update((text, c) for text, c in found.items() if len(text) <= CHUNK_KEPT)
        return found | {text: self._chunks[text] for text in texts if text not in found}

    def _without_frame(self, words: tuple[int, ...]) -> tuple[int, ...]:
        """Words without those that the rule puts around every text."""
        if not self._frame:
            return words
        before = 0
        while before < len(self._frame) and words[before : before + 1] == (self._frame[before],):
            before += 1
        after = self._frame[before:]
        if len(words) < len(self._frame) or (after and words[-len(after) :] != after):
            return words
        return words[before : len(words) - len(after)]

    def _finest(
        self, text: str, ways: list[tuple[Span, ...]], alone: dict[str, tuple[int, ...]]
    ) -> _Chunk:
        wanted = alone[text]
        for way in reversed(ways):
            words = [alone[text[a:b]] for a, b in way]
            if tuple(chain.from_iterable(words)) == wanted:
                known = map(self._is_known, words)
                parts = tuple(SurfaceWord(*s, k) for s, k in zip(way, known, strict=True))
                return _Chunk(wanted, parts, any(part.known is False for part in parts))
        raise AssertionError("a chunk is cut at least into itself")

    def _is_known(self, words: Sequence[int]) -> bool | None:
        return all(self._words[word].known for word in words) if words else None

    def _align_line(
        self, line: str, words: tuple[int, ...], pieces: list[str], chunks: list[_Chunk]
    ) -> Alignment:
        inner = self._without_frame(words)
        if inner == tuple(chain.from_iterable([chunk.words for chunk in chunks])):
            if not any(chunk.blind for chunk in chunks):
                return Alignment([], exact=True)
            return Alignment(_unknown_only(_place_parts(chunks, _starts(pieces))), exact=True)
        roughly = self._align_roughly(line, inner, chunks, _starts(pieces))
        return Alignment(_unknown_only(roughly), exact=False)

    def _align_roughly(
        self, line: str, words: tuple[int, ...], chunks: list[_Chunk], starts: list[int]
    ) -> list[SurfaceWord]:
        """The surface words of a line whose chunks, joined, do not make its words."""
        words = tuple(word for word in words if word not in self._blank)
        head, used = self._count_matches(words, chunks)
        tail, left = self._count_matches(words[used:][::-1], _backwards(chunks[head:]))
        end, last = len(chunks) - tail, len(words) - left
        before = _place_parts(chunks[:head], starts[:head])
        middle = _place_parts(chunks[head:end], starts[head:end])
        behind = _place_parts(chunks[end:], starts[end:])
        place = before[-1].end if before else 0
        between = [self._words[word] for word in words[used:last]]
        return [*before, *_by_words(line, middle, between, place), *behind]

    def _count_matches(self, words: Sequence[int], chunks: Sequence[_Chunk]) -> tuple[int, int]:
        """How many chunks from the first on make just these words, and how many words that is."""
        taken = 0
        for count, chunk in enumerate(chunks):
            own = tuple(word for word in chunk.words if word not in self._blank)
            if words[taken : taken + len(own)] != own:
                return count, taken
            taken += len(own)
        return len(chunks), taken


def _backwards(chunks: Sequence[_Chunk]) -> list[_Chunk]:
    return [chunk._replace(words=chunk.words[::-1]) for chunk in reversed(chunks)]


def _starts(pieces: list[str]) -> list[int]:
    """Where the chunks among the pieces of a line begin: each other one, from the first on."""
    return [0, *accumulate(map(len, pieces))][:-1:2]


def _place_parts(chunks: list[_Chunk], starts: list[int]) -> list[SurfaceWord]:
    """The parts of chunks, counted from the start of the line."""
    return [
        SurfaceWord(start + a, start + b, known, stray)
        for start, chunk in zip(starts, chunks, strict=True)
        for a, b, known, stray in chunk.parts
    ]


def _unknown_only(words: list[SurfaceWord]) -> list[SurfaceWord]:
    return [word for word in words if word.known is False]


def _by_words(
    line: str, parts: list[SurfaceWord], words: list[Word], place: int
) -> list[SurfaceWord]:
    """Surface words ``parts`` of a line aligned with the model's words from left to right.

    ``place``: where they begin, or would.
    """
    surface = [Span(part.start - place, part.end - place) for part in parts]
    text = line[place : parts[-1].end if parts else place]
    spans = find_in_order(text, surface, [decode(word.key) for word in words])
    found: list[SurfaceWord] = []
    done = 0
    stray: list[Word] = []
    for group in _groups(surface, words, spans):
        if group.first < 0:
            stray = group.words
            continue
        first, last = parts[group.first], parts[group.last]
        found += _between(parts[done : group.first], stray, place)
        found.append(SurfaceWord(first.start, last.end, all(word.known for word in group.words)))
        done, place, stray = group.last + 1, last.end, []
    return found + _between(parts[done:], stray, place)


class _Group(NamedTuple):
    """Surface words ``first`` to ``last`` that words share; ``first`` -1: words not found."""

    first: int
    last: int
    words: list[Word]


def _groups(surface: list[Span], words: list[Word], spans: list[Span | None]) -> list[_Group]:
    """Words that touch the same surface words together; those not found together."""
    ends = [span.end for span in surface]
    starts = [span.start for span in surface]
    groups: list[_Group] = []
    stray: list[Word] = []
    for word, span in zip(words, spans, strict=True):
        if span is None:
            stray.append(word)
            continue
        first, last = bisect_right(ends, span.start), bisect_left(starts, span.end) - 1
        if groups and first <= groups[-1].last:  # what is stray inside a group belongs to it
            joined = groups.pop()
            joined.words.extend((*stray, word))
            group = joined._replace(last=max(joined.last, last))
        else:
            groups += [_Group(-1, -1, stray)] if stray else []
            group = _Group(first, last, [word])
        groups.append(group)
        stray = []
    return groups + ([_Group(-1, -1, stray)] if stray else [])


def _between(parts: list[SurfaceWord], stray: list[Word], place: int) -> list[SurfaceWord]:
    """Surface words of which no word was found, and the words that must stand there.

    ``place``: where those words stand if there is nothing else.
    """
    silent = [part._replace(known=None) for part in parts]
    if all(word.known for word in stray):
        return silent
    speaking = [i for i, part in enumerate(parts) if part.known is not None]
    if not speaking:
        return [SurfaceWord(place, place, False, tuple(stray)), *silent]
    first, last = speaking[0], speaking[-1]
    both = SurfaceWord(parts[first].start, parts[last].end, False, tuple(stray))
    return [*silent[:first], both, *silent[last + 1 :]]


# Words looked for in a text one after the other, from left to right.

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
