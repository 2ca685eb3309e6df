"""Mask the known or the unknown words of lines.

A line is split into *surface words*: a code such as ``C++`` or ``CVE-2024-1234``, a run of letters
and digits, or another character. The model's words are found in the line from left to right, by
their letters and digits, without regard to case and accents (``cafe`` in ``Café``). A surface word
is unknown if one of the model's words in it is unknown; surface words that share one of the model's
words are masked together. Where an unknown word is not found, the surface words are unknown.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final

import regex

from vocabtool.choices import MaskMode
from vocabtool.tokenization.lookup import Span, WordLookup, find_in_order, without_blanks
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.vocabulary import decode

UNKNOWN: Final = "[UNK]"
BLANKS: Final = re.compile(r"([ \t-\r]+)")

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


def mask(
    lines: Sequence[str], look_up: Callable[[Sequence[str]], WordLookup], mode: MaskMode
) -> Iterator[tuple[str, int]]:
    """Yield each line with masks, and how many of its unknown words have no place in it.

    ``mode``: ``known`` leaves only the unknown words, ``unknown`` replaces them by ``[UNK]``.
    """
    splits = [BLANKS.split(line) for line in lines]
    chunks = list(dict.fromkeys(chain.from_iterable(split[::2] for split in splits)))
    lookup = without_blanks(look_up([*lines, *chunks]))
    distinct = list(zip(map(decode, as_bytes(lookup.distinct)), lookup.known.tolist(), strict=True))
    words = lookup.rows(distinct)
    of_lines, of_chunks = words[: len(lines)], dict(zip(chunks, words[len(lines) :], strict=True))
    unknown = {chunk: _unknown(chunk, of_chunks[chunk]) for chunk in chunks}
    for line, split, words_of_line in zip(lines, splits, of_lines, strict=True):
        if words_of_line == [word for chunk in split[::2] for word in of_chunks[chunk]]:
            spans, missing, at = list[Span](), 0, 0
            for text in split:  # most chunks occur in many lines; the blanks between have no words
                places, count = unknown.get(text, ((), 0))
                spans += [(at + start, at + end) for start, end in places]
                missing += count
                at += len(text)
        else:  # the words of a chunk depend on the other chunks
            spans, missing = _unknown(line, words_of_line)
        if mode == "known":
            yield " ".join(line[start:end] for start, end in spans), missing
        else:
            bounds = [0, *chain.from_iterable(spans), len(line)]
            between = zip(bounds[::2], bounds[1::2], strict=True)
            yield UNKNOWN.join(line[start:end] for start, end in between), missing


def _unknown(line: str, words: list[tuple[str, bool]]) -> tuple[list[Span], int]:
    """Return where a line is unknown, and how many unknown words have no place in it."""
    if all(known for _, known in words):
        return [], 0
    spans = [match.span() for match in regex.finditer(SURFACE, line)]
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    # Surface words that share words of the model: the first, the one behind the last, known.
    runs: list[tuple[int, int, bool]] = []
    waiting = 0  # unknown words without a place, since the last word with a place
    lost = 0
    line_end = (len(line), len(line))
    places = [*find_in_order(line, [word for word, _ in words]), line_end]
    for (_, known), place in zip([*words, ("", True)], places, strict=True):
        if place is None:
            waiting += not known
            continue
        first, behind = bisect_right(ends, place[0]), bisect_left(starts, place[1])
        done = runs[-1][1] if runs else 0
        if waiting:  # the surface words before this word are unknown, if possible without marks
            between = range(done, first)
            lettered = [at for at in between if any(map(str.isalnum, line[slice(*spans[at])]))]
            runs += [(at, at + 1, False) for at in lettered or between]
            lost += 0 if between else waiting
            waiting = 0
        if first < done:  # this word shares a surface word with the word before
            first, _, before_known = runs.pop()
            runs.append((first, max(behind, done), known and before_known))
        else:
            runs.append((first, max(behind, done), known))
    return [(starts[a], ends[b - 1]) for a, b, known in runs if a < b and not known], lost
