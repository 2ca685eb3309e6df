"""A rule: the steps from a text to words, applied fast, told in plain words, and fingerprinted.

Where a rule provably works between blanks it is applied to the distinct chunks of many texts only
(a corpus has a hundred times fewer of them than words). Which words are known is in ``lookup.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

import pyarrow as pa

from vocabtool.errors import VocabtoolError
from vocabtool.tokenization.steps import Step
from vocabtool.tokenization.string_steps import NGrams
from vocabtool.tokenization.text_arrays import (
    TokenCodes,
    Tokens,
    as_strings,
    chunks,
    dictionary_encode,
    string_array,
    text_data,
)

MAX_GROWTH: Final = 64  # times as many bytes as the texts have
GROWTH_ALLOWANCE: Final = 1 << 20  # bytes that a step may always make
BLANKS: Final = "a b\tc\nd\ve\ff\rg"


@dataclass(frozen=True)
class Rule:
    """How texts become words. Rules are equal when their steps are."""

    steps: tuple[Step, ...]

    def tokens(self, texts: pa.StringArray) -> Tokens:
        """The words of each text, each step on whole texts."""
        return _apply(self.steps, Tokens.whole(texts))

    def token_codes(self, texts: pa.StringArray) -> TokenCodes:
        """The same words, each distinct piece of text looked at once where that is the same."""
        ngrams = self._parts[1]
        if not self.works_between_blanks(texts):
            return TokenCodes.encode(self.tokens(texts))
        of_texts, offsets = chunks(texts)
        encoded = dictionary_encode(of_texts)
        words = self.chunk_tokens(as_strings(encoded.dictionary))
        codes = words.of_texts(encoded.indices.to_numpy(), offsets)
        if not ngrams:
            return codes
        tokens = Tokens(codes.distinct.take(codes.codes), codes.offsets)
        return TokenCodes.encode(_apply(ngrams, tokens))

    def chunk_tokens(self, chunks: pa.StringArray) -> TokenCodes:
        """The words of chunks of text, where the rule works between blanks; before any n-grams."""
        return TokenCodes.encode(_apply(self._parts[0], Tokens.whole(chunks)))

    def works_between_blanks(self, texts: pa.StringArray) -> bool:
        """Whether the words of texts are those of what stands between blanks, one by one.

        N-grams are made of them afterwards. No text may hold NUL, which ends a text for some ops.
        """
        if not _works_between_blanks(self._parts[0]):
            return False
        data = text_data(texts)
        return not len(data) or int(data.min()) > 0

    def describe(self) -> tuple[str, ...]:
        """One line for each step."""
        return tuple(step.describe() for step in self.steps) or ("the whole text is one word",)

    @property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of what the steps do."""
        steps = "".join(f"{step!r}\n" for step in self.steps)
        return hashlib.sha256(f"vocabtool rule 1\n{steps}".encode()).hexdigest()

    @property
    def ngrams(self) -> bool:
        """Whether it makes more than single words of a text."""
        return bool(self._parts[1])

    @property
    def _parts(self) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        """Steps that treat each string alone, and those from the first on that joins words."""
        joins = (i for i, step in enumerate(self.steps) if isinstance(step, NGrams))
        at = next(joins, len(self.steps))
        return self.steps[:at], self.steps[at:]


def _apply(steps: Iterable[Step], tokens: Tokens) -> Tokens:
    """Step by step. Raises :class:`VocabtoolError` where a model's graph blows texts up."""
    most = MAX_GROWTH * tokens.values.nbytes + GROWTH_ALLOWANCE
    for step in steps:
        tokens = step.apply(tokens)
        if tokens.values.nbytes > most:
            raise VocabtoolError(
                f"the step {step.describe()!r} makes {tokens.values.nbytes:,} bytes of a few "
                "texts: no model that is meant well does that"
            )
    return tokens


@cache
def _works_between_blanks(steps: tuple[Step, ...]) -> bool:
    """Whether texts may be cut at ASCII whitespace first: a later step cuts there anyway.

    All steps up to that one must treat what stands between blanks alone; those behind it get the
    same strings either way.
    """
    tokens = Tokens.whole(string_array([BLANKS]))
    for step in steps:
        if not step.local:
            return False
        tokens = step.apply(tokens)
        if tokens.to_lists() == [BLANKS.encode().split()]:
            return True
    return False
