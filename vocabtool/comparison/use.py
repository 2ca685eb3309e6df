"""Count how many tokens of a corpus are known to each of two vocabularies.

One rule splits the texts for both vocabularies. A word is known if it is an entry. In a vocabulary
of subword pieces, only pieces that can be a whole word are compared, without their marker. With the
rule ``tokenizer:FILE``, the tokens are the pieces of this tokenizer, and entries are compared with
their markers. Memory grows with the vocabularies, not with the corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.choices import Fold
from vocabtool.comparison.entries import (
    UPPER,
    Union,
    arrow,
    booleans,
    by_count,
    can_be_words,
    characters,
    fold_entries,
    integers,
    plain_texts,
    take,
)
from vocabtool.tokenization.rule import Rule, parse_rule, tokenizer_file
from vocabtool.tokenization.words import Words, check_pieces, tokenizer_of
from vocabtool.vocabulary import Vocabulary

SideName = Literal["a", "b"]
RULE: Final = "keras"  # the default rule
CARRYING: Final = 0.9  # default share of the tokens known to one side only
TOGETHER: Final = 16 << 20  # bytes of words per lookup: about 80 MB of text
MANY: Final = 50  # warn if one entry in MANY has capitals and the rule makes none


class Carriers(NamedTuple):
    """Counts of the most frequent words that only one vocabulary knows.

    ``words``: the number of these words. ``tokens``: how often they occur. ``share``: ``tokens``
    divided by the number of all tokens that only this vocabulary knows.
    """

    words: int
    tokens: int
    share: float


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """Counts of a corpus: how many tokens are known to A and B, to one of them, or to neither.

    - ``tokens``: Number of all tokens: ``both + only_a + only_b + neither``.
    - ``words_a``: Arrow table of the words that only A knows, by descending ``count``, ties by
      bytes: ``word`` (large_binary), ``count`` (int64).
    - ``words_b``: The same table for the words that only B knows.
    - ``words_both``: Number of distinct words that A and B know.
    - ``rule_name``: The name of the rule.
    - ``rule``: A description of the rule, one line for each step.
    """

    rule_name: str
    rule: tuple[str, ...]
    fingerprint: str
    sources: tuple[str, ...]
    documents: int
    tokens: int
    both: int
    only_a: int
    only_b: int
    words_both: int
    words_a: pa.Table
    words_b: pa.Table
    notes: tuple[str, ...] = ()

    @property
    def known_a(self) -> int:
        """Number of tokens that A knows."""
        return self.both + self.only_a

    @property
    def known_b(self) -> int:
        """Number of tokens that B knows."""
        return self.both + self.only_b

    @property
    def neither(self) -> int:
        """Number of tokens that neither A nor B knows."""
        return self.tokens - self.both - self.only_a - self.only_b

    def share(self, tokens: int) -> float:
        """Return a number of tokens divided by the number of all tokens; 0 for an empty corpus."""
        return tokens / self.tokens if self.tokens else 0.0

    def words(self, side: SideName) -> pa.Table:
        """Return the table of the words that only ``side`` knows."""
        return self.words_a if side == "a" else self.words_b

    def carriers(self, side: SideName, share: float = CARRYING) -> Carriers:
        """Return counts of the most frequent words that only one side knows.

        Words are counted, most frequent first, until they make up ``share`` of all tokens that only
        this side knows.
        """
        counts = self.words(side)["count"].to_numpy()
        covered = np.cumsum(counts)
        if not len(covered):
            return Carriers(0, 0, 0.0)
        every = int(covered[-1])
        words = int(np.searchsorted(covered, ceil(round(share * every, 6)))) + 1
        tokens = int(covered[words - 1])
        return Carriers(words, tokens, tokens / every)


class UseCounter:
    """Counts, over texts, how many tokens A knows and how many B knows.

    ``rule``: a name from ``tokenization/rule.py``, by default ``keras``. ``folds``: the folds that
    are applied to entries and tokens; ``markers`` has no effect. Raises :class:`VocabtoolError` for
    an unknown rule.
    """

    def __init__(
        self, a: Vocabulary, b: Vocabulary, *, rule: str | None = None, folds: Iterable[Fold] = ()
    ) -> None:
        self._rule_name = rule or RULE
        self._folds = tuple(fold for fold in folds if fold != "markers")
        file = tokenizer_file(self._rule_name)
        self._rule: Rule | None = None
        self._tokenizer: Words | None = None
        if file is None:
            self._rule = Rule(parse_rule(self._rule_name))
            sides = [self._fold(whole_words(each)) for each in (a, b)]
        else:
            self._tokenizer = tokenizer_of(file)
            check_pieces(self._tokenizer, file, a, b)
            sides = [self._fold(arrow(each.stored)) for each in (a, b)]
        self._words = Union.of(*sides)
        self._notes = tuple(self._unused_capitals(sides))
        self._counts = np.zeros(len(self._words), np.int64)
        self._documents = self._tokens = 0
        # words that were counted but not looked up yet, and their counts
        self._waiting: list[tuple[pa.LargeBinaryArray, NDArray[np.int64]]] = []
        self._bytes = 0

    def count(self, batches: Iterable[pa.StringArray]) -> None:
        """Add the tokens of batches of texts to the counts."""
        for texts in batches:
            words, counts, tokens = self._count_words(texts)
            self._documents += len(texts)
            self._tokens += tokens
            self._waiting.append((words, counts))
            self._bytes += words.nbytes
            if self._bytes >= TOGETHER:
                self._look_up()

    def _count_words(
        self, texts: pa.StringArray
    ) -> tuple[pa.LargeBinaryArray, NDArray[np.int64], int]:
        if self._rule is not None:
            coded = self._rule.token_codes(texts)
            counts = np.bincount(coded.codes, minlength=len(coded.distinct))
            words = coded.distinct.view(pa.binary()).cast(pa.large_binary())
            return words, counts, len(coded.codes)
        assert self._tokenizer is not None  # noqa: S101 - either a rule or a tokenizer exists
        judged = self._tokenizer.look_up(texts)
        counts = np.bincount(judged.codes, minlength=len(judged.known))
        pieces: Sequence[bytes] = judged.distinct.view(pa.binary()).to_pylist()
        known = judged.known
        if judged.spelled is not None:
            pieces, known, offsets = judged.spelled
            counts = np.repeat(counts, np.diff(offsets))
        # An unknown piece is a token, but no word, even if an entry has the same spelling.
        kept = np.flatnonzero(known)
        words = pa.array([pieces[at] for at in kept.tolist()], pa.large_binary())
        return words, counts[kept], int(counts.sum())

    def _look_up(self) -> None:
        if not self._waiting:
            return
        words = self._fold(pa.concat_arrays([words for words, _ in self._waiting]))
        counts = np.concatenate([counts for _, counts in self._waiting])
        self._waiting, self._bytes = [], 0
        found = pc.index_in(words, value_set=self._words.tokens)
        np.add.at(self._counts, integers(found.drop_null()), counts[booleans(found.is_valid())])

    def _fold(self, words: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        return fold_entries(words, self._folds)

    def _unused_capitals(self, sides: Sequence[pa.LargeBinaryArray]) -> Iterator[str]:
        if "case" in self._folds or self._rule is None:
            return
        if self._rule.tokens(pa.array(["A"])).values.to_pylist() == ["A"]:
            return
        for name, words in zip("AB", sides, strict=True):
            capitals = np.count_nonzero(characters(words) & UPPER)
            if capitals * MANY >= max(len(words), 1):
                yield (
                    f"{capitals:,} entries of {name} have capitals, but the rule makes no words "
                    "with capitals; choose another with --rule, or use --fold case"
                )

    def report(self, sources: tuple[str, ...] = ()) -> Use:
        """Return the counts of all texts so far. ``sources``: the names of the files counted."""
        self._look_up()
        in_a, in_b = self._words.in_a, self._words.in_b
        both = self._counts[in_a & in_b]
        cut = self._tokenizer if self._rule is None else self._rule
        assert cut is not None  # noqa: S101 - either a rule or a tokenizer exists
        return Use(
            self._rule_name,
            cut.describe(),
            cut.fingerprint,
            sources,
            self._documents,
            self._tokens,
            both=int(both.sum()),
            only_a=int(self._counts[in_a & ~in_b].sum()),
            only_b=int(self._counts[in_b & ~in_a].sum()),
            words_both=int(np.count_nonzero(both)),
            words_a=self._commonest(in_a & ~in_b),
            words_b=self._commonest(in_b & ~in_a),
            notes=self._notes,
        )

    def _commonest(self, where: NDArray[np.bool_]) -> pa.Table:
        met = np.flatnonzero(where & (self._counts > 0))
        words = take(self._words.tokens, met)
        return by_count(pa.table({"word": words, "count": self._counts[met]}))


def whole_words(vocabulary: Vocabulary) -> pa.LargeBinaryArray:
    """Return the entries that can be a whole word, without their marker."""
    entries, marker = arrow(vocabulary.stored), vocabulary.marker
    return plain_texts(take(entries, np.flatnonzero(can_be_words(entries, marker))), marker)
