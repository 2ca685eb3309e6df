"""Lines with the known words, or the unknown ones, masked: what a model does not know of a text.

Which words those are, and where they stand, comes from ``alignment.py``; here they are
printed. Lines are ``str`` as ``vocabulary.decode`` makes them: bytes that are not UTF-8 are lone
surrogates, and ``vocabulary.encode`` makes the same bytes of them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, assert_never

from vocabtool.choices import MaskMode
from vocabtool.tokenization.alignment import Aligner, Alignment, LookUp, SurfaceWord
from vocabtool.vocabulary import decode

UNKNOWN: Final = "[UNK]"
BATCH_LINES: Final = 4096
BATCH_CHARACTERS: Final = 1 << 20


class MaskedLine(NamedTuple):
    """A line as printed.

    ``exact``: whether the rule makes of the line what it makes of its parts alone.
    ``unaligned``: how many unknown words of the model were not found in the line.
    """

    text: str
    exact: bool
    unaligned: int


@dataclass(slots=True)
class Totals:
    """What was masked so far. ``unaligned``: unknown words of the model, not found in a line."""

    lines: int = 0
    exact: int = 0
    unaligned: int = 0

    def add(self, masked: MaskedLine) -> None:
        """Count a line."""
        self.lines += 1
        self.exact += masked.exact
        self.unaligned += masked.unaligned


def mask(
    lines: Iterable[str], judge: LookUp, mode: MaskMode, totals: Totals | None = None
) -> Iterator[MaskedLine]:
    """Mask the known or the unknown words of each line by a model's own rule ``judge``.

    ``known``: the surface words stay of which the model does not know a word, in their own
    spelling, one space between. ``unknown``: ``[UNK]`` stands in place of these, and the rest of
    the line is as it was. A word of the model that is nowhere in the line is printed as the model
    makes it. ``totals``: counts what is yielded. Lines are taken as they are needed, some
    thousands ahead.
    """
    totals = Totals() if totals is None else totals
    aligner = Aligner(judge)
    for batch in batches(lines):
        for line, aligned in zip(batch, aligner.align(batch), strict=True):
            masked = _mask_line(line, aligned, mode)
            totals.add(masked)
            yield masked


def batches(lines: Iterable[str]) -> Iterator[list[str]]:
    """Lists of lines: as many as are judged at once, by number and by length."""
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


def _mask_line(line: str, aligned: Alignment, mode: MaskMode) -> MaskedLine:
    blind = aligned.blind
    unaligned = sum(not word.known for part in blind for word in part.stray)
    match mode:
        case "known":
            text = " ".join(shown for part in blind for shown in _unknown(line, part))
        case "unknown":
            text = "".join(_pieces(line, blind))
        case _:
            assert_never(mode)
    return MaskedLine(text, aligned.exact, unaligned)


def _unknown(line: str, part: SurfaceWord) -> list[str]:
    """What is printed for a surface word in which the model is blind."""
    if not part.stray:
        return [line[part.start : part.end]]
    return [_one_line(word.key) for word in part.stray if not word.known]


def _pieces(line: str, blind: list[SurfaceWord]) -> Iterator[str]:
    """The line, cut where the model is blind, and what stands there instead."""
    done = 0
    for part in blind:
        yield line[done : part.start]
        if not part.stray:
            yield UNKNOWN
        elif part.start < part.end:
            yield " ".join(_one_line(w.key) if w.known else UNKNOWN for w in part.stray)
        done = part.end
    yield line[done:]


def _one_line(key: bytes) -> str:
    """A word of the model for people; it must not end the line."""
    return decode(key).replace("\n", " ")
