"""The lengths of texts as tantivy notes them, and how to come nearest to the true ones.

It keeps one byte for a length (``src/fieldnorm/code.rs``, as Lucene does): up to 40 exactly, above
that ``length - 24`` with four significant bits, rounded down by up to an eighth. A text that is
longer by a few fillers is rounded to the nearest length instead, which halves the difference from
the textbook's BM25.
"""

from __future__ import annotations

from typing import Final

FILLER: Final = "\x01"  # no word of a text, and so of no query
_FREE: Final = 24
_BITS: Final = 4


def padded(words: str, length: int) -> str:
    """Words joined by blanks, so many that their number is noted as near as may be."""
    return words + f" {FILLER}" * fillers(length)


def fillers(length: int) -> int:
    """How many words are to be added to a text: to the next length that can be noted, or none."""
    coded = length - _FREE
    step = 1 << max(coded.bit_length() - _BITS, 0) if coded > 0 else 1
    over = coded % step
    return step - over if 2 * over > step else 0
