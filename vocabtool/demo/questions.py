"""Queries whose answer is known, made of the documents by a rule, none picked by hand.

What finds the answers is not known here.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.reading import Document
from vocabtool.keywords.queries import Term
from vocabtool.search.store import Store
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.tokenization.words import Words

MOST_HOLDERS: Final = 3  # documents that hold the unknown word
KNOWN_WORDS: Final = 2  # beside it
ORDINARY: Final = (0.01, 0.1)  # share of the documents that a known word of a query is in
WORD: Final = re.compile(rb"[a-z]{5,20}")
RULE: Final = (
    f"a word of 5 to 20 letters that the model does not know and that 1 to {MOST_HOLDERS} "
    f"documents hold in any form, with {KNOWN_WORDS} ordinary words of one of these documents: "
    f"such that the model knows and {ORDINARY[0]:.0%} to {ORDINARY[1]:.0%} of all documents hold; "
    "no stop words; drawn by a seeded generator, a document at most once, in the order of the text"
)


@dataclass(frozen=True, slots=True)
class Question:
    """A query and the id of the document that it was made of.

    ``holders``: how many documents hold the unknown word, in any form.
    """

    text: str
    unknown: str
    known: tuple[str, ...]
    document: str
    holders: int


def questions(
    documents: Sequence[Document], words: Words, corpus: Store, *, count: int, seed: int = 0
) -> tuple[tuple[Question, ...], int]:
    """At most ``count`` queries by :data:`RULE`, and how many words could have been drawn.

    ``words`` says what the model knows, ``corpus``, which holds the documents, how many hold a
    word. The same documents give the same queries.
    """
    held = _Held.of(words.look_up([document.text for document in documents]), corpus)
    generator = random.Random(seed)  # noqa: S311 - nothing secret
    drawn: dict[int, Question] = {}
    candidates = held.rare_unknown()
    generator.shuffle(candidates)
    for code in candidates:
        if len(drawn) == count:
            break
        text = generator.choice(held.holders(code))
        known = held.known_in(text)
        if text not in drawn and len(known) >= KNOWN_WORDS:
            taken = [code, *generator.sample(known, KNOWN_WORDS)]
            drawn[text] = held.question(taken, text, documents[text].id)
    return tuple(drawn.values()), len(candidates)


class _Held(NamedTuple):
    """Which documents hold which words.

    ``words``: d distinct ones; ``plain``, ``known``: bool, shape (d,); ``frequency``: shape (d,),
    in how many documents each is as it stands; ``pairs``: (code, text) sorted by code, each once,
    shape (p, 2). ``codes``, ``offsets``: as in :class:`WordLookup`.
    """

    words: list[bytes]
    plain: NDArray[np.bool_]
    known: NDArray[np.bool_]
    frequency: NDArray[np.int64]
    pairs: NDArray[np.int64]
    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    corpus: Store

    @classmethod
    def of(cls, judged: WordLookup, corpus: Store) -> _Held:
        words = as_bytes(judged.distinct)
        plain = np.array([WORD.fullmatch(word) is not None for word in words], bool)
        texts = np.repeat(np.arange(len(judged.offsets) - 1), np.diff(judged.offsets))
        pairs = np.unique(np.stack([judged.codes.astype(np.int64), texts], axis=1), axis=0)
        frequency = np.bincount(pairs[:, 0], minlength=len(words))
        return cls(
            words, plain, judged.known, frequency, pairs, judged.codes, judged.offsets, corpus
        )

    def rare_unknown(self) -> list[int]:
        """Codes of the words that a query can be about, by word."""
        rare = np.flatnonzero(self.plain & ~self.known & (self.frequency <= MOST_HOLDERS)).tolist()
        said = (code for code in rare if not self.is_stop_word(code))
        found = (code for code in said if 1 <= self.in_any_form(code) <= MOST_HOLDERS)
        return sorted(found, key=self.words.__getitem__)

    def in_any_form(self, code: int) -> int:
        """How many documents hold a word with the same stem."""
        (word,) = self.corpus.cutter.query(self.words[code].decode())
        (stem,) = word.words
        return self.corpus.keywords.document_frequency(Term("words", stem))

    def holders(self, code: int) -> list[int]:
        """The texts that hold a word."""
        start, stop = np.searchsorted(self.pairs[:, 0], [code, code + 1])
        found: list[int] = self.pairs[start:stop, 1].tolist()
        return found

    def known_in(self, text: int) -> list[int]:
        """Codes of a text's words that can stand beside the unknown one, by word."""
        codes = np.unique(self.codes[self.offsets[text] : self.offsets[text + 1]])
        share = self.frequency[codes] / (len(self.offsets) - 1)
        ordinary = (share >= ORDINARY[0]) & (share <= ORDINARY[1])
        fit = codes[self.plain[codes] & self.known[codes] & ordinary].tolist()
        said = (code for code in fit if not self.is_stop_word(code))
        return sorted(said, key=self.words.__getitem__)

    def is_stop_word(self, code: int) -> bool:
        """Whether a search passes over the word."""
        return any(word.stop for word in self.corpus.cutter.query(self.words[code].decode()))

    def question(self, codes: list[int], text: int, document: str) -> Question:
        """A query of these words, of which the first is the unknown one."""
        order = self.codes[self.offsets[text] : self.offsets[text + 1]].tolist()
        unknown, *known = (self.words[code].decode() for code in codes)
        asked = [self.words[code].decode() for code in sorted(codes, key=order.index)]
        return Question(
            " ".join(asked), unknown, tuple(known), document, self.in_any_form(codes[0])
        )
