"""From texts to known and unknown words: a rule and a lexicon, or whatever else can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from vocabtool.tokenization.cut import as_bytes
from vocabtool.tokenization.judged import Judged, Spelled
from vocabtool.tokenization.lexicon import Lexicon
from vocabtool.tokenization.rule import Coded, Rule
from vocabtool.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa


class Judge(Protocol):
    """Cuts texts as a model does and says which of the words it knows."""

    def judge(self, texts: pa.StringArray) -> Judged:
        """The words of each text, known and unknown."""

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """What a subword model makes of a word; nothing for a model of whole words."""

    def describe(self) -> tuple[str, ...]:
        """What happens to a text, a line for each step."""

    @property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of what decides where words begin and end."""


class RuleJudge(NamedTuple):
    """A rule makes the words, a lexicon says which are known."""

    rule: Rule
    lexicon: Lexicon

    def judge(self, texts: pa.StringArray) -> Judged:
        """Cut and look up, each distinct word once; may be called by several threads."""
        return judged(self.rule.coded(texts), self.lexicon)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """The lexicon's."""
        return self.lexicon.pieces(word)

    def describe(self) -> tuple[str, ...]:
        """The rule's steps."""
        return self.rule.describe()

    @property
    def fingerprint(self) -> str:
        """The rule's."""
        return self.rule.fingerprint


class TokenizerJudge(NamedTuple):
    """A tokenizer makes the words, the entries of a vocabulary say which of them are known.

    Known is a word whose pieces are all entries, none of them the tokenizer's unknown one.
    """

    tokenizer: Judge
    vocabulary: Vocabulary

    def judge(self, texts: pa.StringArray) -> Judged:
        """Cut as the tokenizer does, and look the pieces up; ids are the vocabulary's."""
        found = self.tokenizer.judge(texts)
        spelled = found.spelled
        if spelled is None:  # its pieces are whole words
            words = as_bytes(found.distinct)
            spelled = Spelled(words, found.known, np.arange(len(words) + 1))
        entries = self.vocabulary.positions
        held = np.array([entries.get(piece, -1) for piece in spelled.pieces], np.int64)
        held[~spelled.known] = -1
        missed = np.append(0, np.cumsum(held < 0))
        starts, ends = spelled.offsets[:-1], spelled.offsets[1:]
        known = found.known & (missed[ends] == missed[starts])
        single = known & (ends - starts == 1)
        positions = np.full(len(known), -1, np.int64)
        positions[single] = held[starts[single]]
        ids = np.full(len(known), -1, np.int64)
        ids[single] = self.vocabulary.id_array()[positions[single]]
        if found.spelled is not None:
            found = found._replace(spelled=spelled._replace(known=held >= 0))
        return found._replace(known=known, ids=ids, positions=positions)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """The tokenizer's."""
        return self.tokenizer.pieces(word)

    def describe(self) -> tuple[str, ...]:
        """The tokenizer's steps."""
        return self.tokenizer.describe()

    @property
    def fingerprint(self) -> str:
        """The tokenizer's."""
        return self.tokenizer.fingerprint


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
        unique=True,
        spelled=verdict.spelled,
    )
