"""The difference of two vocabularies weighted by use: which tokens of a corpus each knows.

Texts are cut by one rule for both: two rules would make two lists of tokens, whose shares cannot
be compared. A word is known where it is one entry; a vocabulary of pieces is asked for those that
can be a whole word, without their mark (it may spell others, which ``oov`` tells). By the rule
``tokenizer:FILE`` tokens are that tokenizer's pieces, looked up as they are.

Memory grows with the vocabularies, not with the corpus: words that neither knows
are only counted together, so every figure is exact.

Ranks of common words: whether both vocabularies put the same words first.

That says something of use where ids follow frequency, which no file promises: :func:`order_of`
guesses, and a report says what was guessed beside each figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any, Final, Literal, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.choices import Fold
from vocabtool.comparison.entries import (
    UPPER,
    Members,
    Union,
    arrow,
    booleans,
    characters,
    contents,
    integers,
    take,
)
from vocabtool.comparison.kinds import fold_entries
from vocabtool.tokenization.rule import Rule, parse_rule, tokenizer_file
from vocabtool.tokenization.text_arrays import as_bytes, string_array
from vocabtool.tokenization.words import Words, check_pieces, tokenizer_of
from vocabtool.vocabulary import Marker, Vocabulary, bear_marker, decode, plain_strings

SideName = Literal["a", "b"]
RULE: Final = "keras"  # unless another is named
CARRYING: Final = 0.9  # of the tokens that one side alone knows: how many words make them up?
TOGETHER: Final = 16 << 20  # bytes of words that are looked up together: some 80 MB of text
MANY: Final = 50  # one entry with capitals in so many is told of, where the rule makes none
# Marks that say of the entry which bears them that it is no whole word.
PARTS: Final[frozenset[Marker]] = frozenset(("##", "@@"))


class Carriers(NamedTuple):
    """The commonest ``words`` of one side make up ``tokens``, the share ``share`` of its tokens."""

    words: int
    tokens: int
    share: float


@dataclass(frozen=True, slots=True)
class UsedWord:
    """A word, with ``surrogateescape`` where it is not UTF-8, and how often the corpus has it."""

    word: str
    count: int


@dataclass(frozen=True, slots=True)
class UsedWords(Sequence[UsedWord]):
    """Words and their counts, the commonest first, ties by bytes: ``pandas.DataFrame`` takes them.

    ``table``: the same in Arrow: ``word`` (large_binary), ``count`` (int64).
    """

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, index: int) -> UsedWord: ...

    @overload
    def __getitem__(self, index: slice) -> list[UsedWord]: ...

    @overload
    def __getitem__(self, index: str) -> pa.ChunkedArray: ...

    def __getitem__(self, index: int | slice | str) -> UsedWord | list[UsedWord] | pa.ChunkedArray:
        """One word, several, or a column of ``table``."""
        if isinstance(index, str):
            return self.table[index]
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        word, count = (column[range(len(self))[index]].as_py() for column in self.table.columns)
        return UsedWord(decode(word), count)

    def to_pylist(self) -> list[dict[str, Any]]:
        """A dictionary a word, its bytes as they are."""
        return list(self.table.to_pylist())


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """Which of a corpus's tokens are known: ``both + only_a + only_b + neither == tokens``.

    ``words_a``: the words that only A knows and that stand in the corpus. ``words_b``: B's.
    ``words_both``: how many different words both know. ``rule_name``: as it was asked for;
    ``rule``: a line for each step.
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
    words_a: UsedWords
    words_b: UsedWords
    notes: tuple[str, ...] = ()

    @property
    def known_a(self) -> int:
        """Tokens that A knows, whether B does or not."""
        return self.both + self.only_a

    @property
    def known_b(self) -> int:
        """Tokens that B knows, whether A does or not."""
        return self.both + self.only_b

    @property
    def neither(self) -> int:
        """Tokens that neither knows."""
        return self.tokens - self.both - self.only_a - self.only_b

    def share(self, tokens: int) -> float:
        """So many tokens as a share of all, from 0 to 1."""
        return tokens / self.tokens if self.tokens else 0.0

    def words(self, side: SideName) -> pa.Table:
        """The words that one side alone knows, as :attr:`UsedWords.table`."""
        return self.words_a.table if side == "a" else self.words_b.table

    def carriers(self, side: SideName, share: float = CARRYING) -> Carriers:
        """The fewest words that make up this share of what only one side knows."""
        counts = self.words(side)["count"].to_numpy()
        covered = np.cumsum(counts)
        if not len(covered):
            return Carriers(0, 0, 0.0)
        every = int(covered[-1])
        words = int(np.searchsorted(covered, ceil(round(share * every, 6)))) + 1
        tokens = int(covered[words - 1])
        return Carriers(words, tokens, tokens / every)


class UseCounter:
    """Counts the tokens of batches of texts; their order does not matter.

    ``rule``: by its name, see ``tokenization/rule.py``. ``folds``: what entries and tokens
    are without; marks are left out in any case. Raises :class:`VocabtoolError` for a rule that
    there is not.
    """

    def __init__(
        self, a: Vocabulary, b: Vocabulary, *, rule: str | None = None, folds: Iterable[Fold] = ()
    ) -> None:
        self._rule_name = rule or RULE
        self._folds = tuple(fold for fold in folds if fold != "markers")
        file = tokenizer_file(self._rule_name)
        self._rule: Rule | Words
        if file is None:
            self._rule = Rule(parse_rule(self._rule_name))
            entries_a, entries_b = (self._fold(whole_words(each)) for each in (a, b))
        else:
            self._rule = tokenizer_of(file)
            check_pieces(self._rule, file, a, b)
            entries_a, entries_b = (self._fold(arrow(each.stored)) for each in (a, b))
        self._words = Union.of(pa.concat_arrays([entries_a, entries_b]), len(entries_a))
        self._notes = tuple(self._unused_capitals(entries_a, entries_b))
        self._counts = np.zeros(len(self._words), np.int64)
        self._documents = self._tokens = 0
        # Words that were counted and not looked up yet, and how often each stands.
        self._waiting: list[tuple[pa.LargeBinaryArray, NDArray[np.int64]]] = []
        self._bytes = 0

    def count(self, batches: Iterable[pa.StringArray]) -> None:
        """Count batches of texts."""
        for texts in batches:
            if isinstance(self._rule, Rule):
                words, counts, tokens = _count_words(self._rule, texts)
            else:
                words, counts, tokens = _count_pieces(self._rule, texts)
            self._documents += len(texts)
            self._tokens += tokens
            self._waiting.append((words, counts))
            self._bytes += words.nbytes
            if self._bytes >= TOGETHER:
                self._look_up()

    def _look_up(self) -> None:
        """Find the words that wait among the entries: these are read anew each time."""
        if not self._waiting:
            return
        words = self._fold(pa.concat_arrays([words for words, _ in self._waiting]))
        counts = np.concatenate([counts for _, counts in self._waiting])
        self._waiting, self._bytes = [], 0
        found = pc.index_in(words, value_set=self._words.tokens)
        np.add.at(self._counts, integers(found.drop_null()), counts[booleans(found.is_valid())])

    def _fold(self, words: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        return fold_entries(words, self._folds, None)

    def _unused_capitals(self, *sides: pa.LargeBinaryArray) -> Iterator[str]:
        """What to say where a vocabulary holds capitals and the rule makes none."""
        if "case" in self._folds or isinstance(self._rule, Words):
            return
        if self._rule.tokens(string_array(["A"])).values.to_pylist() == ["A"]:
            return
        for name, words in zip("AB", sides, strict=True):
            capitals = np.count_nonzero(characters(words) & UPPER)
            if capitals * MANY >= max(len(words), 1):
                yield (
                    f"{capitals:,} entries of {name} have capitals, and the rule makes no word "
                    "with capitals: take another (--rule) or fold case"
                )

    def report(self, sources: tuple[str, ...] = ()) -> Use:
        """What was counted so far. ``sources``: what to call the documents in it."""
        self._look_up()
        in_a, in_b = self._words.in_a, self._words.in_b
        both = self._counts[in_a & in_b]
        return Use(
            self._rule_name,
            self._rule.describe(),
            self._rule.fingerprint,
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

    def _commonest(self, where: NDArray[np.bool_]) -> UsedWords:
        """The words there that were met, commonest first, ties by bytes."""
        met = np.flatnonzero(where & (self._counts > 0))
        table = pa.table({"word": take(self._words.tokens, met), "count": self._counts[met]})
        order = [("count", "descending"), ("word", "ascending")]
        return UsedWords(table.sort_by(order).combine_chunks())


def whole_words(vocabulary: Vocabulary) -> pa.LargeBinaryArray:
    """The entries that can be a whole word, without their mark."""
    marker, stored = vocabulary.marker, vocabulary.stored
    if marker is None:
        return arrow(stored)
    bearing = bear_marker(stored, marker)
    wholes = ~bearing if marker in PARTS else bearing
    return arrow(plain_strings(stored, marker).take(np.flatnonzero(wholes)))


def _count_words(
    rule: Rule, texts: pa.StringArray
) -> tuple[pa.LargeBinaryArray, NDArray[np.int64], int]:
    """The different words of texts, how often each stands, and how many tokens there are."""
    coded = rule.token_codes(texts)
    counts = np.bincount(coded.codes, minlength=len(coded.distinct))
    return coded.distinct.view(pa.binary()).cast(pa.large_binary()), counts, len(coded.codes)


def _count_pieces(
    tokenizer: Words, texts: pa.StringArray
) -> tuple[pa.LargeBinaryArray, NDArray[np.int64], int]:
    """The same of a tokenizer's pieces; unknown ones, spelled like an entry at most, only count."""
    judged = tokenizer.look_up(texts)
    counts = np.bincount(judged.codes, minlength=len(judged.known))
    pieces, known = as_bytes(judged.distinct), judged.known
    if judged.spelled is not None:
        pieces, known, offsets = judged.spelled
        counts = np.repeat(counts, np.diff(offsets))
    kept = np.flatnonzero(known)
    words = pa.array([pieces[at] for at in kept.tolist()], pa.large_binary())
    return words, counts[kept], int(counts.sum())


# In what order the ids are: by frequency, as far as one can see (frequent words are short: Zipf's
# law of abbreviation), by the alphabet, or nothing tells.
Order = Literal["frequency", "alphabet", "unclear"]
FEWEST: Final = 100  # entries that tell an order
ASCENDING: Final = 0.95  # of neighbours, in a vocabulary by the alphabet
NEIGHBOURS: Final = 1 << 14  # pairs of them that are looked at, evenly spread: these tell enough
SHORTER: Final = 0.9  # times as long as all entries are those of the first tenth, at most


def order_of(entries: pa.LargeBinaryArray) -> Order:
    """What the order of a vocabulary's entries seems to be."""
    if len(entries) < FEWEST:
        return "unclear"
    pairs = len(entries) - 1
    first = np.arange(min(pairs, NEIGHBOURS)) * pairs // min(pairs, NEIGHBOURS)
    ascending = pc.less(take(entries, first), take(entries, first + 1))
    if ascending.true_count >= ASCENDING * len(ascending):
        return "alphabet"
    lengths = np.diff(contents(entries)[1])
    tenth = lengths[: len(lengths) // 10]
    return "frequency" if tenth.mean() <= SHORTER * lengths.mean() else "unclear"


class Ranks:
    """The c common words by rank: their places in id order among the common words only, from 1.

    So what stands between them, special entries for example, moves no rank.
    """

    def __init__(self, union: Union) -> None:
        self.numbers = _common(union.a, union.in_b)  # of the union's tokens, in A's order
        rank = np.zeros(len(union), np.int64)
        rank[_common(union.b, union.in_a)] = np.arange(1, len(self.numbers) + 1)
        self.b = rank[self.numbers]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def a(self) -> NDArray[np.int64]:
        """Each word's rank in A: shape (c,)."""
        return np.arange(1, len(self) + 1)

    @cached_property
    def shifts(self) -> NDArray[np.float64]:
        """By how many doublings a word ranks lower in B than in A; negative: higher. Shape (c,)."""
        return np.log2(self.b) - np.log2(self.a)

    @cached_property
    def rho(self) -> float | None:
        """Spearman's rank correlation, from -1 to 1; ``None`` for fewer than two words."""
        count = len(self)
        if count < 2:
            return None
        apart = (self.b - self.a).astype(np.float64)
        return 1 - 6 * float(np.square(apart).sum()) / (count * (count * count - 1))

    def largest(self, most: int, among: NDArray[np.bool_] | None = None) -> NDArray[np.intp]:
        """Places of the words that shift most, up or down; the first of A among equals.

        ``among``: which words are looked at, shape (c,); all unless given.
        """
        far = np.abs(self.shifts)
        if among is not None:
            far[~among] = 0
        some = np.flatnonzero(far)
        if most < len(some):
            least = np.partition(far[some], len(some) - most - 1)[len(some) - most :]
            some = some[far[some] >= least.min(initial=np.inf)]
        return some[np.argsort(-far[some], kind="stable")][:most]


def _common(members: Members, in_other: NDArray[np.bool_]) -> NDArray[np.int64]:
    return members.numbers[in_other[members.numbers]]
