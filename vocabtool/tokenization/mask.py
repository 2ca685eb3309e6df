"""Mask the known or the unknown words of lines.

A line is split into *surface words*, which are printed or masked. A surface word is a code (see
:func:`is_code`) or the text between two of Unicode's word boundaries (UAX #29). The model may split
the line into other words, so its words are aligned with the surface words:

1. Each chunk (text between ASCII whitespace) is split into surface words. The split is used only
   if the model makes the same words from the parts as from the chunk. If it does not, coarser
   splits are tried (:func:`cuts`).
2. The model's words for the line are compared with its words for the chunks. If they are equal,
   the alignment is *exact*. Words that the model adds to every text (``[START]``, ``[END]``) are
   removed first.
3. Otherwise, chunks are matched with words from both ends of the line. The remaining words are
   looked for from left to right, without regard to case and accents (``cafe`` in ``Café``).
4. A word that is not found is *stray*. If a stray word is unknown, the stretch of the line between
   the last word found before it and the first word found after it is unknown, too.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain, pairwise
from typing import Final, NamedTuple

import regex

from vocabtool.choices import MaskMode
from vocabtool.tokenization.lookup import WordLookup, without_blanks
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.vocabulary import decode

LookUp = Callable[[Sequence[str]], WordLookup]

UNKNOWN: Final = "[UNK]"
BATCH_LINES: Final = 4096
BATCH_CHARACTERS: Final = 1 << 20
REMEMBERED: Final = 1 << 16  # chunks and words remembered between batches
CHUNK_KEPT: Final = 64  # characters of the longest chunk to remember
AHEAD: Final = 1000  # letters or characters within which a word must begin
TRIED: Final = 32  # candidate positions of a word

# Chunks are separated by ASCII whitespace. A split by it alternates chunks and white space.
SPACE: Final = re.compile(r"([ \t-\r]+)")
# A search takes quadratic time for a run of flag emojis, so it is limited to a window.
WINDOW: Final = 2048  # characters per search for boundaries
KEPT_BACK: Final = 3  # last boundaries of a window, which more text may change


class MaskedLine(NamedTuple):
    """A line after masking.

    - ``text``: The text to print.
    - ``exact``: Whether the place of each of the model's words in the line is certain.
    - ``unaligned``: The number of unknown words that were not found in the line.
    """

    text: str
    exact: bool
    unaligned: int


@dataclass(slots=True)
class Totals:
    lines: int = 0
    exact: int = 0
    unaligned: int = 0


def mask(
    lines: Iterable[str], judge: LookUp, mode: MaskMode, totals: Totals | None = None
) -> Iterator[MaskedLine]:
    """Mask the known or the unknown words of each line.

    - ``judge``: A function that looks up the words of lines.
    - ``mode``: Which words are masked. ``known`` removes the known words, and ``unknown`` replaces
      the unknown words by ``[UNK]``.
    - ``totals``: Counts that are increased by the counts of these lines.

    A word of the model that is not found in its line is printed as the model spells it.
    """
    totals = Totals() if totals is None else totals
    aligner = _Aligner(judge)
    for batch in batches(lines):
        for line, (blind, exact) in zip(batch, aligner.align(batch), strict=True):
            text = _mask_known(line, blind) if mode == "known" else _mask_unknown(line, blind)
            unaligned = sum(not word.known for part in blind for word in part.stray)
            totals.lines += 1
            totals.exact += exact
            totals.unaligned += unaligned
            yield MaskedLine(text, exact, unaligned)


def batches(lines: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    room = BATCH_CHARACTERS
    for line in lines:
        batch.append(line)
        room -= len(line)
        if room <= 0 or len(batch) == BATCH_LINES:
            yield batch
            batch, room = [], BATCH_CHARACTERS
    if batch:
        yield batch


def _mask_known(line: str, blind: list[SurfaceWord]) -> str:
    shown: list[str] = []
    for part in blind:
        if part.stray:
            shown += (word.in_a_line for word in part.stray if not word.known)
        else:
            shown.append(line[part.start : part.end])
    return " ".join(shown)


def _mask_unknown(line: str, blind: list[SurfaceWord]) -> str:
    pieces, done = [], 0
    for part in blind:
        pieces.append(line[done : part.start])
        if not part.stray:
            pieces.append(UNKNOWN)
        elif part.start < part.end:
            pieces.append(" ".join(w.in_a_line if w.known else UNKNOWN for w in part.stray))
        done = part.end
    return "".join([*pieces, line[done:]])


class Word(NamedTuple):
    key: bytes
    known: bool

    @property
    def in_a_line(self) -> str:
        return decode(self.key).replace("\n", " ")


class SurfaceWord(NamedTuple):
    """A part of a text: the characters from ``start`` to ``end``.

    - ``known``: Whether the model knows all words in this part; ``None`` if the part has no words.
    - ``stray``: The model's words that belong to this part, but were not found in the text.
    """

    start: int
    end: int
    known: bool | None
    stray: tuple[Word, ...] = ()


class _Chunk(NamedTuple):
    words: tuple[Word, ...]
    parts: tuple[SurfaceWord, ...]
    blind: bool


class _Aligner:
    def __init__(self, judge: LookUp) -> None:
        self._judge = judge
        self._forget()

    def _forget(self) -> None:
        self._words: dict[Word, Word] = {}  # one object for each distinct word
        self._chunks: dict[str, _Chunk] = {"": _Chunk((), (), blind=False)}
        self._frame = self._words_of([""])[0]

    def align(self, lines: Sequence[str]) -> Iterator[tuple[list[SurfaceWord], bool]]:
        """Yield for each line its unknown surface words, and whether the alignment is exact."""
        if len(self._words) + len(self._chunks) > REMEMBERED:
            self._forget()
        of_lines = self._words_of(lines)
        pieces = [SPACE.split(line) for line in lines]
        cut = self._cut_chunks(set(chain.from_iterable(split[::2] for split in pieces)))
        for line, words, split in zip(lines, of_lines, pieces, strict=True):
            inner = self._without_frame(words)
            chunks = [cut[text] for text in split[::2]]
            exact = inner == tuple(chain.from_iterable([chunk.words for chunk in chunks]))
            if exact and not any(chunk.blind for chunk in chunks):
                yield [], True
                continue
            placed = list(zip([0, *accumulate(map(len, split))][:-1:2], chunks, strict=True))
            if exact:
                found = _place_parts([each for each in placed if each[1].blind])
            else:
                found = self._align_roughly(line, inner, placed)
            yield [part for part in found if part.known is False], exact

    def _words_of(self, texts: Sequence[str]) -> list[tuple[Word, ...]]:
        judged = without_blanks(self._judge(texts))
        distinct = map(Word, as_bytes(judged.distinct), judged.known.tolist())
        kept = [self._words.setdefault(word, word) for word in distinct]
        words = [kept[code] for code in judged.codes.tolist()]
        return [tuple(words[a:b]) for a, b in pairwise(judged.offsets.tolist())]

    def _cut_chunks(self, texts: set[str]) -> dict[str, _Chunk]:
        new = {text: cuts(text) for text in texts if text not in self._chunks}
        stretches = {text[a:b] for text, ways in new.items() for way in ways for a, b in way}
        ordered = sorted(stretches)
        judged = map(self._without_frame, self._words_of(ordered))
        alone = dict(zip(ordered, judged, strict=True))
        found = {text: self._chunks[text] for text in texts if text not in new}
        for text, ways in new.items():
            for way in reversed(ways):  # the first is the chunk itself
                words = [alone[text[a:b]] for a, b in way]
                if tuple(chain.from_iterable(words)) == alone[text]:
                    break
            known = [all(word.known for word in own) if own else None for own in words]
            parts = tuple(SurfaceWord(*s, k) for s, k in zip(way, known, strict=True))
            found[text] = _Chunk(alone[text], parts, False in known)
            if len(text) <= CHUNK_KEPT:
                self._chunks[text] = found[text]
        return found

    def _without_frame(self, words: tuple[Word, ...]) -> tuple[Word, ...]:
        """Remove the words that the model adds to every text, such as ``[START]``."""
        frame, before = self._frame, 0
        while before < len(frame) and words[before : before + 1] == (frame[before],):
            before += 1
        after = frame[before:]
        if len(words) < len(frame) or (after and words[-len(after) :] != after):
            return words
        return words[before : len(words) - len(after)]

    def _align_roughly(
        self, line: str, words: tuple[Word, ...], chunks: list[tuple[int, _Chunk]]
    ) -> list[SurfaceWord]:
        words = _without_white_space(words)
        own = [_without_white_space(chunk.words) for _, chunk in chunks]
        head, used = _count_matches(words, own)
        backwards = [each[::-1] for each in reversed(own[head:])]
        tail, left = _count_matches(words[used:][::-1], backwards)
        end, last = len(chunks) - tail, len(words) - left
        before = _place_parts(chunks[:head])
        place = before[-1].end if before else 0
        middle = _align_words(line, _place_parts(chunks[head:end]), words[used:last], place)
        return [*before, *middle, *_place_parts(chunks[end:])]


def _without_white_space(words: tuple[Word, ...]) -> tuple[Word, ...]:
    return tuple(word for word in words if decode(word.key).strip())


def _count_matches(words: tuple[Word, ...], chunks: Sequence[tuple[Word, ...]]) -> tuple[int, int]:
    """Compare ``words`` with the words of the chunks, from the first chunk on.

    Returns two numbers: the chunks before the first difference, and the words in these chunks.
    """
    taken = 0
    for count, own in enumerate(chunks):
        if words[taken : taken + len(own)] != own:
            return count, taken
        taken += len(own)
    return len(chunks), taken


def _place_parts(chunks: list[tuple[int, _Chunk]]) -> list[SurfaceWord]:
    return [
        SurfaceWord(start + a, start + b, known, stray)
        for start, chunk in chunks
        for a, b, known, stray in chunk.parts
    ]


def _align_words(
    line: str, parts: list[SurfaceWord], words: Sequence[Word], place: int
) -> list[SurfaceWord]:
    """Find the model's words in a line, and return surface words.

    A surface word is known if the model knows all words that are found in it. The search begins
    at the character ``place``.
    """
    surface = [Span(part.start - place, part.end - place) for part in parts]
    starts, ends = [span.start for span in surface], [span.end for span in surface]
    text = line[place : parts[-1].end if parts else place]
    spans = find_in_order(text, surface, [decode(word.key) for word in words])
    # Each group: stray words before it, its first and last surface word, the words in these.
    groups: list[tuple[list[Word], int, int, list[Word]]] = []
    stray: list[Word] = []
    for word, span in zip(words, spans, strict=True):
        if span is None:
            stray.append(word)
            continue
        first, last = bisect_right(ends, span.start), bisect_left(starts, span.end) - 1
        if groups and first <= groups[-1][2]:  # stray words inside a group belong to it
            before, first, other, own = groups.pop()
            own += (*stray, word)
            groups.append((before, first, max(other, last), own))
        else:
            groups.append((stray, first, last, [word]))
        stray = []
    found: list[SurfaceWord] = []
    done = 0
    for before, first, last, own in groups:
        found += _between(parts[done:first], before, place)
        done, place = last + 1, parts[last].end
        found.append(SurfaceWord(parts[first].start, place, all(word.known for word in own)))
    return found + _between(parts[done:], stray, place)


def _between(parts: list[SurfaceWord], stray: list[Word], place: int) -> list[SurfaceWord]:
    """Return the surface words of a stretch in which none of the model's words was found.

    ``parts``: The surface words of the stretch, not yet aligned. If a word of ``stray`` is unknown,
    the parts from the first to the last one with words become one unknown surface word.
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


def find_in_order(text: str, surface: Sequence[Span], words: Sequence[str]) -> list[Span | None]:
    """Return the span of each word in ``text``, in order; ``None`` for a word not found.

    ``surface``: The spans of the surface words, at which words are expected to begin and end.
    """
    search = _Search(text, surface)
    folded = [letters(word) for word in words]
    following = [*folded, ""][1:]
    return [search.next(*triple) for triple in zip(words, folded, following, strict=True)]


def letters(text: str) -> str:
    """Return the letters and digits of a text, in lower case and without accents (NFKD)."""
    return "".join(map(_fold, text))


@cache
def _fold(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).casefold()
    return "".join(c for c in unicodedata.normalize("NFKD", plain) if c.isalnum())


class _Search:
    def __init__(self, text: str, surface: Sequence[Span]) -> None:
        self._text = text
        each = [_fold(c) for c in text]
        self._letters = "".join(each)
        self._places = [i for i, folded in enumerate(each) for _ in folded]
        self._starts = {bisect_left(self._places, span.start) for span in surface}
        self._ends = {bisect_left(self._places, span.end) for span in surface}
        self._read = 0  # in characters of the text
        self._at = 0  # in letters

    def next(self, word: str, folded: str, following: str) -> Span | None:
        """Return the span of the next word in the text; ``None`` if the word is not found.

        - ``folded``: The result of ``letters(word)``.
        - ``following``: The same for the word that comes after ``word``.
        """
        span = self._find(word, folded, following)
        if span is not None:
            self._read = span.end
            self._at = bisect_left(self._places, span.end)
        return span

    def _find(self, word: str, folded: str, following: str) -> Span | None:
        is_next = bool(following) and self._letters.startswith(following, self._at)
        if not folded:
            start = self._text.find(word, self._read, self._read + AHEAD + len(word))
            skips = bisect_left(self._places, start) > self._at
            if start < 0 or not word or (skips and is_next):
                return None
            return Span(start, start + len(word))
        here = self._letters.startswith(folded, self._at)
        well = self._ends_well(self._at + len(folded), following)
        if is_next and (not here or (following.startswith(folded) and not well)):
            return None
        at = self._at if here else self._ahead(folded, following)
        if at < 0:
            return None
        # The position of the letters, extended by the word's other characters if the text has them.
        start, end = self._places[at], self._places[at + len(folded) - 1] + 1
        lettered = [i for i, c in enumerate(word) if _fold(c)]
        before, behind = word[: lettered[0]], word[lettered[-1] + 1 :]
        if before and self._text.endswith(before, self._read, start):
            start -= len(before)
        if behind and self._text.startswith(behind, end):
            end += len(behind)
        return Span(start, end)

    def _ends_well(self, end: int, following: str) -> bool:
        return end in self._ends or (bool(following) and self._letters.startswith(following, end))

    def _ahead(self, folded: str, following: str) -> int:
        """Return the next position of a word in ``_letters``; -1 if it is not found.

        A position where the word is a whole surface word is preferred, then one where a surface
        word begins.
        """
        limit = self._at + AHEAD + len(folded)
        begins = first = -1
        at = self._at - 1
        for _ in range(TRIED):
            at = self._letters.find(folded, at + 1, limit)
            if at < 0:
                break
            if at in self._starts:
                if self._ends_well(at + len(folded), following):
                    return at
                begins = at if begins < 0 else begins
            first = at if first < 0 else first
        return first if begins < 0 else begins


class Span(NamedTuple):
    start: int
    end: int


def cuts(chunk: str) -> list[tuple[Span, ...]]:
    """Return up to three different ways to split a chunk, from coarse to fine:

    1. the whole chunk
    2. the chunk with the punctuation at both ends split off
    3. the surface words
    """
    whole = (Span(0, len(chunk)),)
    if chunk.isascii() and chunk.isalnum():
        return [whole]
    words = tuple(_words(chunk))
    ways = [whole, words]
    # Parts with a letter or digit of any script, or a byte that is not UTF-8.
    wordy = [
        i
        for i, (start, end) in enumerate(words)
        if any(c.isalnum() or "\ud800" <= c <= "\udfff" for c in chunk[start:end])
    ]
    if wordy:
        first, last = wordy[0], wordy[-1]
        core = Span(words[first].start, words[last].end)
        ways.insert(1, (*words[:first], core, *words[last + 1 :]))
    return list(dict.fromkeys(ways))


def is_code(run: str) -> bool:
    """Return whether a string without blanks is a code, which is never split.

    A code begins with a dot (``.NET``), ends in ``#`` or ``++`` (``C#``), or contains a digit
    (``IL-6``), ``@``, ``://`` or ``::``.
    """
    return (
        run.startswith(".")
        or run.endswith(("#", "++"))
        or any(sign in run for sign in ("@", "://", "::"))
        or any(c.isdigit() for c in run)
    )


def _words(chunk: str) -> Iterator[Span]:
    codes = [Span(*m.span()) for m in _runs().finditer(chunk) if is_code(m[0])]
    codes.reverse()
    start, reach = 0, 0
    for a, b in pairwise(_bounds(chunk)):
        while codes and codes[-1].end <= a:
            codes.pop()
        if a >= reach:
            start = a
        reach = max(b, codes[-1].end) if codes and codes[-1].start < b else max(reach, b)
        if reach <= b and not chunk[start:b].isspace():
            yield Span(start, b)


def _bounds(chunk: str) -> list[int]:
    """Return the positions of Unicode's word boundaries in a chunk."""
    find = regex.compile(r"(?w)\b").finditer  # cached by regex
    found, width = [0], WINDOW
    while found[-1] < len(chunk):
        start = found[-1]
        bounds = [start + m.start() for m in find(chunk[start : start + width])]
        if start + width >= len(chunk):
            return found + bounds[1:]
        # Text after a window may change its last two words.
        width = WINDOW if len(bounds) > KEPT_BACK + 1 else 2 * width
        found += bounds[1:-KEPT_BACK]
    return found


@cache
def _runs() -> regex.Pattern[str]:
    letter = r"[\p{Latin}\p{Greek}\p{Cyrillic}\p{Nd}_]\p{M}*"
    joiner = r"[\-.:@#+/&=%?~\\]"
    return regex.compile(
        rf"(?<![\p{{L}}\p{{N}}\p{{M}}_.])\.(?:{letter})++"
        rf"|(?:{letter})++(?:{joiner}{{1,3}}(?:{letter})++)*+(?:\#|\+\+)?"
    )
