"""How texts become the words of a file of word vectors, where nobody says: its entries tell.

Such files say nothing of how their texts were cut. Entries with capitals want texts as they are;
entries that are punctuation marks want marks as words.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from vocabtool.vocabulary import Vocabulary

CAPITALS: Final = 0.01  # of the entries; below, they are names of markers such as <UNK>
MARKS: Final = (b",", b".")
# Words and marks apart, in the case they have.
CASED_WITH_MARKS: Final = r"regex:[^\s!-/:-@\[-`{-~]+|[!-/:-@\[-`{-~]"
CASED: Final = r"regex:[^\s!-/:-@\[-`{-~]+"


class Guess(NamedTuple):
    """A rule by its name (see ``words/named.py``), and what it was chosen for."""

    rule: str
    reason: str


def guessed_rule(vocabulary: Vocabulary) -> Guess:
    """The rule that fits the entries best."""
    cased = _share_with_capitals(vocabulary) > CAPITALS
    marks = all(mark in vocabulary for mark in MARKS)
    case = "entries have capitals" if cased else "entries have no capitals"
    held = "punctuation marks are entries" if marks else "no punctuation marks are entries"
    if cased:
        return Guess(CASED_WITH_MARKS if marks else CASED, f"{case}, {held}")
    return Guess("ptb" if marks else "keras", f"{case}, {held}")


def _share_with_capitals(vocabulary: Vocabulary) -> float:
    """The share of entries that hold a letter from A to Z."""
    import pyarrow.compute as pc

    if not len(vocabulary):
        return 0.0
    entries = vocabulary.to_arrow().column("token")
    return float(np.mean(pc.match_substring_regex(entries, "[A-Z]").to_numpy()))
