"""From texts to known and unknown words: a rule and a lexicon, or whatever else can tell."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from vocabtool.words.cut import as_strings
from vocabtool.words.judged import Judged
from vocabtool.words.lexicon import Lexicon
from vocabtool.words.memo import Memo
from vocabtool.words.rule import Coded, Rule, as_bytes_encoded, chunks, encoded

if TYPE_CHECKING:
    import pyarrow as pa


class Judge(Protocol):
    """Cuts texts as a model does and says which of the words it knows."""

    def judge(self, texts: pa.StringArray) -> Judged:
        """The words of each text, known and unknown."""

    def describe(self) -> tuple[str, ...]:
        """What happens to a text, a line for each step."""

    @property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of what decides where words begin and end."""


class RuleJudge:
    """A rule makes the words, a lexicon says which are known; both once for each piece of text."""

    def __init__(self, rule: Rule, lexicon: Lexicon) -> None:
        self.rule = rule
        self.lexicon = lexicon
        self._memo = Memo(lexicon)
        self._lock = Lock()

    def judge(self, texts: pa.StringArray) -> Judged:
        """Cut and look up; may be called by several threads."""
        if self.rule.ngrams or self._memo.full or not self.rule.works_between_blanks(texts):
            return judged(self.rule.coded(texts), self.lexicon)
        pieces, offsets = chunks(texts)
        pieces = as_bytes_encoded(pieces)
        places = pieces.indices.to_numpy()
        with self._lock:
            rows = self._rows(pieces.dictionary)
            codes, bounds = self._memo.unfolded(rows, places, offsets)
            words = self._memo.words
        return Judged(codes, bounds, words.distinct, *words.verdict, memo=self._memo)

    def _rows(self, pieces: pa.BinaryArray) -> NDArray[np.int64]:
        """The rows of distinct pieces in the memo; those that are new are worked out."""
        listed = pieces.to_pylist()
        rows = self._memo.rows(listed)
        new = np.flatnonzero(rows < 0)
        if len(new):
            strings = as_strings(pieces.take(new))
            words = encoded(self.rule.cut(strings))
            rows[new] = self._memo.keep([listed[i] for i in new.tolist()], words)
        return rows

    def describe(self) -> tuple[str, ...]:
        """The rule's steps."""
        return self.rule.describe()

    @property
    def fingerprint(self) -> str:
        """The rule's."""
        return self.rule.fingerprint


def judged(coded: Coded, lexicon: Lexicon) -> Judged:
    """Words that are told apart, looked up."""
    verdict = lexicon.judge(coded.distinct)
    return Judged(
        coded.codes,
        coded.offsets,
        coded.distinct,
        verdict.known,
        verdict.ids,
        verdict.positions,
        verdict.pieces,
    )
