"""From texts to known and unknown words: a rule and a lexicon, or whatever else can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from vocabtool.words.judged import Judged
from vocabtool.words.lexicon import Lexicon
from vocabtool.words.rule import Coded, Rule

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
