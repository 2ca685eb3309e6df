"""Mask the known or the unknown words of lines.

A line is split into *surface words*: a code such as ``C++`` or ``CVE-2024-1234``, a run of letters
and digits, or another character. The model's words are found in the line from left to right, by
their letters and digits, without regard to case and accents (``cafe`` in ``Café``). A surface word
is unknown if one of the model's words in it is unknown; surface words that share one of the model's
words are masked together. Where an unknown word is not found, the surface words are unknown.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain, groupby, pairwise
from typing import Final, NamedTuple

import regex

from vocabtool.choices import MaskMode
from vocabtool.tokenization.lookup import WordLookup, without_blanks
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.vocabulary import decode

UNKNOWN: Final = "[UNK]"
AHEAD: Final = 1000  # letters within which a word must begin
TRIED: Final = 32  # candidate places of a word

PART: Final = r"\p{Latin}\p{Greek}\p{Cyrillic}\p{Nd}\p{M}_"
JOINT: Final = r"\-.:@#+/&=%?~\\"
RUN: Final = r"[[\p{L}\p{N}\p{M}_]--[\p{Han}\p{Hiragana}]]++"
SURFACE: Final = (
    # A code contains a digit, @, :: or ://, or looks like C++, C# or .NET.
    rf"(?V1)(?=[{PART}{JOINT}]{{0,64}}?(?:[\p{{Nd}}@]|:[:/]))[{PART}]++(?:[{JOINT}]{{1,3}}[{PART}]++)*+"
    rf"|[{PART}]++(?:\#|\+\+)|(?<![\w.])\.[{PART}]++"
    # A run, perhaps with apostrophes; a flag; a character with its marks.
    rf"|{RUN}(?:['\u2019]{RUN})*+|\p{{RI}}{{2}}|\S(?:[\p{{M}}\p{{EMod}}]|\u200d\S)*+"
)


class Span(NamedTuple):
    start: int
    end: int


class MaskedLine(NamedTuple):
    """The text to print, and how many unknown words have no place in the line."""

    text: str
    unaligned: int


def mask(
    lines: Sequence[str], look_up: Callable[[Sequence[str]], WordLookup], mode: MaskMode
) -> Iterator[MaskedLine]:
    """Mask the known or the unknown words of each line.

    ``mode``: ``known`` leaves only the unknown words, ``unknown`` replaces them by ``[UNK]``.
    """
    found = without_blanks(look_up(lines))
    words, known = [decode(word) for word in as_bytes(found.distinct)], found.known.tolist()
    for line, (start, end) in zip(lines, pairwise(found.offsets.tolist()), strict=True):
        codes = found.codes[start:end].tolist()
        if all(known[code] for code in codes):
            yield MaskedLine("" if mode == "known" else line, 0)
            continue
        parts, lost = _unknown(line, [words[code] for code in codes], [known[c] for c in codes])
        if mode == "known":
            yield MaskedLine(" ".join(line[slice(*part)] for part in parts), lost)
            continue
        bounds = [0, *chain.from_iterable(parts), len(line)]
        kept = (line[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True))
        yield MaskedLine(UNKNOWN.join(kept), lost)


def _unknown(line: str, words: list[str], known: list[bool]) -> tuple[list[Span], int]:
    """Return the unknown parts of a line, and how many unknown words have no place in it."""
    surface = [Span(*match.span()) for match in regex.finditer(SURFACE, line)]
    starts, ends = [span.start for span in surface], [span.end for span in surface]
    group = list(range(len(surface)))  # equal for surface words that share a word of the model
    unknown: set[int] = set()
    missing = lost = done = 0
    places = [*find_in_order(line, words), Span(len(line), len(line))]
    for is_known, place in zip([*known, True], places, strict=True):
        if place is None:
            missing += not is_known
            continue
        first, behind = bisect_right(ends, place.start), bisect_left(starts, place.end)
        if missing:
            between = range(done, first)
            unknown.update([at for at in between if letters(line[slice(*surface[at])])] or between)
            missing, lost = 0, lost + (0 if between else missing)
        group[first:behind] = group[first : first + 1] * (behind - first)
        unknown.update(() if is_known else range(first, behind))
        done = max(behind, done)
    groups = (list(members) for _, members in groupby(range(len(group)), group.__getitem__))
    return [Span(starts[g[0]], ends[g[-1]]) for g in groups if not unknown.isdisjoint(g)], lost


def find_in_order(line: str, words: Sequence[str]) -> list[Span | None]:
    """Return the place of each word in a line, in order; ``None`` for a word that is not found."""
    folded = list(map(_fold, line))
    text, places = "".join(folded), [at for at, part in enumerate(folded) for _ in part]
    keys = [*map(letters, words), ""]
    found: list[Span | None] = []
    read = 0  # characters
    for word, (key, following) in zip(words, pairwise(keys), strict=True):
        done = bisect_left(places, read)  # letters
        span: Span | None = None
        if key:
            first = at = text.find(key, done, done + AHEAD + len(key))
            for _ in range(TRIED):  # the start of a word is preferred
                if at <= done or not folded[places[at] - 1]:
                    break
                at = text.find(key, at + 1, done + AHEAD + len(key))
            at = first if at < 0 else at
            if at >= 0:
                span = _with_marks(line, word, read, places[at], places[at + len(key) - 1] + 1)
        elif word and (start := line.find(word, read, read + AHEAD + len(word))) >= 0:
            at = bisect_left(places, start)
            span = Span(start, start + len(word))
        if span is not None and at > done and following and text.startswith(following, done):
            span = None  # it would skip the next word
        found.append(span)
        read = read if span is None else span.end
    return found


def _with_marks(line: str, word: str, read: int, start: int, end: int) -> Span:
    """Return a span, extended by the marks around the word's letters if the line has them, too."""
    lettered = [at for at, character in enumerate(word) if _fold(character)]
    before, behind = word[: lettered[0]], word[lettered[-1] + 1 :]
    start -= len(before) if line.endswith(before, read, start) else 0
    return Span(start, end + (len(behind) if line.startswith(behind, end) else 0))


def letters(text: str) -> str:
    """Return the letters and digits of a text, in lower case and without accents."""
    return "".join(map(_fold, text))


@cache
def _fold(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).casefold()
    return "".join(c for c in unicodedata.normalize("NFKD", plain) if c.isalnum())
