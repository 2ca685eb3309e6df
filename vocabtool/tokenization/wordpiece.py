"""WordPiece: a word as the longest entries that make it up, from left to right.

As WordpieceTokenizeWithOffsets does it (tensorflow_text/core/kernels/wordpiece_tokenizer.cc), and
FastWordpieceTokenizeWithOffsets with the words and settings of its flatbuffer. How texts become
words is left out: ``text_steps.py``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from vocabtool.formats import flatbuffer
from vocabtool.formats.saved_model.tokenizers import END_TO_END, read_wordpiece

MAX_BYTES: Final = 4  # fields of the flatbuffer, as in saved_model/tokenizers.py
INDICATOR: Final = 5
UNKNOWN_TOKEN: Final = 6
UNKNOWN_ID: Final = 7

# One character of UTF-8, or the longest part of one that could still have become one: what ICU
# and the Unicode standard (3.9, "U+FFFD substitution of maximal subparts") take for one.
CHARACTER: Final = re.compile(
    rb"[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]?|\xed[\x80-\x9f][\x80-\xbf]?"
    rb"|[\xe1-\xec\xee\xef][\x80-\xbf]{1,2}|\xf0[\x90-\xbf][\x80-\xbf]{0,2}"
    rb"|[\xf1-\xf3][\x80-\xbf]{1,3}|\xf4[\x80-\x8f][\x80-\xbf]{0,2}|[\x80-\xff]"
)

Piece = tuple[bytes, int]


@dataclass(frozen=True, slots=True, eq=False)
class WordPiece:
    """A tokenizer of words.

    ``ids``: entries (those that go on with a word begin with ``suffix_indicator``) and their ids;
    what is not in it, such as an unknown token, gets ``unknown_id``. ``max_bytes_per_word``:
    longer words are unknown. ``max_chars_per_token``: no piece is longer, without its indicator;
    0: no limit. ``unknown_token``: stands for a word without pieces; ``None``: the word itself
    does. ``split_unknown_characters``: only for each character without a piece.
    """

    ids: Mapping[bytes, int]
    suffix_indicator: bytes = b"##"
    max_bytes_per_word: int = 100
    max_chars_per_token: int = 0
    unknown_token: bytes | None = b"[UNK]"
    split_unknown_characters: bool = False
    unknown_id: int = -1
    _longest: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_longest", max(map(len, self.ids), default=0))

    def pieces(self, word: bytes) -> tuple[Piece, ...]:
        """The pieces of a word with their ids; the empty word has none."""
        return tuple((piece, self.ids.get(piece, self.unknown_id)) for piece in self._pieces(word))

    def knows(self, word: bytes) -> bool:
        """Whether entries make up a word; one that is itself ``[UNK]`` may be an entry."""
        return len(word) <= self.max_bytes_per_word and all(
            held for _, held in self._cut_pieces(word)
        )

    def _pieces(self, word: bytes) -> list[bytes]:
        if len(word) > self.max_bytes_per_word:
            return [self._unknown(word)]
        pieces = []
        for piece, held in self._cut_pieces(word):
            if not held and not self.split_unknown_characters:
                return [self._unknown(word)]
            pieces.append(piece)
        return pieces

    def _unknown(self, text: bytes) -> bytes:
        return text if self.unknown_token is None else self.unknown_token

    def _cut_pieces(self, word: bytes) -> Iterator[tuple[bytes, bool]]:
        """The longest entry each time, or a character that none begins with."""
        ends = list(accumulate(map(len, CHARACTER.findall(word))))
        at = start = 0
        while at < len(ends):
            head = self.suffix_indicator if start else b""
            last = self._last(ends, at, start, head)
            while last > at and head + word[start : ends[last]] not in self.ids:
                last -= 1
            piece = word[start : ends[last]]
            held = head + piece in self.ids
            yield head + (piece if held else self._unknown(piece)), held
            at, start = last + 1, ends[last]

    def _last(self, ends: list[int], at: int, start: int, head: bytes) -> int:
        """The last character that a piece from ``start`` on can hold, given the longest entry."""
        fitting = bisect_right(ends, start + self._longest - len(head)) - 1
        if self.max_chars_per_token:
            fitting = min(fitting, at + self.max_chars_per_token - 1)
        return max(fitting, at)


def read_fast_wordpiece(buffer: bytes) -> tuple[WordPiece, bool]:
    """The tokenizer in a flatbuffer; whether it takes texts, and cuts them as ``BertSplit`` does.

    Raises :class:`InvalidFile` where that is damaged.
    """
    found = read_wordpiece(buffer)
    ids = range(len(found.entries)) if found.ids is None else found.ids.tolist()
    model = flatbuffer.root(buffer)
    wordpiece = WordPiece(
        dict(zip(found.entries, ids, strict=True)),
        suffix_indicator=model.string(INDICATOR),
        max_bytes_per_word=model.integer(MAX_BYTES),
        unknown_token=model.string(UNKNOWN_TOKEN),
        unknown_id=model.integer(UNKNOWN_ID),
    )
    return wordpiece, bool(model.byte(END_TO_END))
