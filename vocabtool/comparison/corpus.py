"""Count what two vocabularies know of a corpus.

Either one rule splits the texts for both vocabularies (:class:`Use`). Then a word is known if it is
an entry; in a vocabulary of subword pieces, only pieces that can be a whole word are compared,
without their marker. Or each side splits the texts by its own rule (:class:`Cuts`). Then a word of
A equals a word of B if both have the same text, apart from a blank before it.

Memory grows with the vocabularies, not with the corpus.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.choices import Fold
from vocabtool.comparison.entries import (
    Union,
    booleans,
    by_count,
    can_be_words,
    fold_entries,
    integers,
    matches,
    plain_texts,
    take,
)
from vocabtool.errors import VocabtoolError
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.system.parallel import in_batches
from vocabtool.tokenization.lookup import without_blanks
from vocabtool.tokenization.rule import Rule, names_tokenizer, parse_rule
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary

if TYPE_CHECKING:
    from vocabtool.streams.stream import Stream

RULE: Final = "keras"  # the default rule
TOGETHER: Final = 16 << 20  # bytes of words per lookup: about 80 MB of text
LOOKUPS: Final = 1 << 10  # batches per lookup, even if they have hardly any words
MANY: Final = 50  # warn if one entry in MANY has capitals and the rule makes none
PIECES: Final = ("pieces_a", "pieces_b")  # columns with the entries of each side


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
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


def count_use(
    a: Vocabulary,
    b: Vocabulary,
    stream: Stream[pa.StringArray],
    *,
    rule: str = RULE,
    folds: Collection[Fold] = (),
    sources: tuple[str, ...] = (),
) -> Use:
    """Count, over a stream of batches of texts, how many tokens A knows and how many B knows.

    ``folds`` apply to entries and tokens. Raises :class:`VocabtoolError` for an unknown rule.
    """
    if names_tokenizer(rule):
        raise VocabtoolError(
            f"the rule {rule} makes pieces, but one rule for both vocabularies must make words, "
            f"for example {RULE}; without a rule, each tokenizer splits the corpus by its own"
        )
    splitter = Rule(parse_rule(rule))
    # The texts of the entries of A and B that can be words.
    sides = []
    for vocabulary in (a, b):
        entries, marker = vocabulary.stored.to_arrow(), vocabulary.marker
        whole = take(entries, np.flatnonzero(can_be_words(entries, marker)))
        sides.append(fold_entries(plain_texts(whole, marker), folds))
    notes = []
    rule_makes_capitals = splitter.tokens(pa.array(["A"])).values.to_pylist() == ["A"]
    if "case" not in folds and not rule_makes_capitals:
        for name, words in zip("AB", sides, strict=True):
            capitals = np.count_nonzero(matches(words, r"[\p{Lu}\p{Lt}]"))
            if capitals * MANY >= max(len(words), 1):
                notes.append(
                    f"{capitals:,} entries of {name} have capitals, but the rule makes no words "
                    "with capitals; choose another with --rule, or use --fold case"
                )
    union = Union.of(*sides)
    # How often each of these texts is a word of the corpus.
    counts = np.zeros(len(union), np.int64)
    documents = tokens = 0

    def count(texts: pa.StringArray) -> tuple[int, pa.LargeBinaryArray, NDArray[np.int64]]:
        """Return the number of texts, their distinct words, and how often each word occurs."""
        lookup = splitter.token_codes(texts)
        words = lookup.distinct.view(pa.binary()).cast(pa.large_binary())
        return len(texts), words, np.bincount(lookup.codes, minlength=len(words))

    batches = stream.map(count)
    for group in in_batches(batches, LOOKUPS, weight=lambda one: one[1].nbytes, most=TOGETHER):
        words = fold_entries(pa.concat_arrays([words for _, words, _ in group]), folds)
        occurrences = np.concatenate([numbers for _, _, numbers in group])
        positions = pc.index_in(words, value_set=union.tokens)
        is_entry = booleans(positions.is_valid())
        np.add.at(counts, integers(positions.drop_null()), occurrences[is_entry])
        documents += sum(texts for texts, _, _ in group)
        tokens += int(occurrences.sum())
    in_a, in_b, occurs = union.a.is_member, union.b.is_member, counts > 0
    tables = []
    for is_known in (in_a & ~in_b, in_b & ~in_a):
        places = np.flatnonzero(is_known & occurs)
        table = pa.table({"word": take(union.tokens, places), "count": counts[places]})
        tables.append(by_count(table))
    return Use(
        rule_name=rule,
        rule=splitter.describe(),
        fingerprint=splitter.fingerprint,
        sources=sources,
        documents=documents,
        tokens=tokens,
        both=int(counts[in_a & in_b].sum()),
        only_a=int(counts[in_a & ~in_b].sum()),
        only_b=int(counts[in_b & ~in_a].sum()),
        words_both=int(np.count_nonzero(in_a & in_b & occurs)),
        words_a=tables[0],
        words_b=tables[1],
        notes=tuple(notes),
    )


# ---- each side by its own rule


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """Counts of the words and pieces that one model, A or B, makes of a corpus by its own rule.

    - ``tokens``: Number of words.
    - ``split``: Number of words in two or more pieces.
    - ``unknown``: Number of words with a piece that is not an entry.
    - ``pieces``: Number of pieces.
    - ``blanks``: Number of pieces that consist only of spaces; they are not words.
    - ``kept``: Arrow table of the words that are one piece for this model and several for the other
      model, by descending ``count``, ties by bytes.

    The columns of ``kept``:

    - ``word``: large_binary.
    - ``count``: int64, how often this model keeps the word whole, or how often the other model cuts
      it, whichever is less.
    - ``pieces_a``, ``pieces_b``: lists of large_binary, the pieces of the word in A and in B. Of
      several ways to cut a word, only the first is shown.
    """

    rule: tuple[str, ...]
    fingerprint: str
    tokens: int
    pieces: int
    blanks: int
    split: int
    unknown: int
    kept: pa.Table

    @property
    def fertility(self) -> float:
        """Pieces per word; 0 without words."""
        return (self.pieces - self.blanks) / self.tokens if self.tokens else 0.0

    @property
    def split_rate(self) -> float:
        """Share of the words that are in two or more pieces, from 0 to 1."""
        return self.split / self.tokens if self.tokens else 0.0

    @property
    def kept_tokens(self) -> int:
        """Sum of the counts in ``kept``."""
        return int(self.kept["count"].to_numpy().sum())


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """How A and B cut the same corpus, each by its own rule."""

    sources: tuple[str, ...]
    documents: int
    a: Cut
    b: Cut
    notes: tuple[str, ...] = ()


def count_cuts(
    a: Words,
    b: Words,
    stream: Stream[pa.StringArray],
    *,
    folds: Collection[Fold] = (),
    sources: tuple[str, ...] = (),
) -> Cuts:
    """Count the words and pieces that A and B make of a stream of batches of texts.

    ``folds`` apply before words of A and B are compared. ``sources``: names of the files.
    """
    documents, side_a, side_b = 0, _Side(a, folds), _Side(b, folds)
    for texts in stream:
        documents += len(texts)
        side_a.count(texts, side_b)
        side_b.count(texts, side_a)
    notes = [f"{name}: {note}" for name, words in (("A", a), ("B", b)) for note in words.notes]
    cut_a, cut_b = side_a.report(PIECES), side_b.report(PIECES[::-1])
    return Cuts(sources, documents, cut_a, cut_b, tuple(notes))


class _Side:
    """Counts of one model. ``texts``: distinct texts of its entries, without markers, length t.

    ``cut_by_other``: shape (t,), how often the other model cuts a word with this text.
    ``pieces_of_other``: what it makes of the word, by the position in ``texts``.
    """

    def __init__(self, words: Words, folds: Collection[Fold]) -> None:
        self.words, self._folds = words, folds
        self._entries = words.vocabulary.stored.to_arrow()
        texts = plain_texts(self._entries, words.vocabulary.marker)
        encoded = fold_entries(texts, folds).dictionary_encode()
        self._text_of, self.texts = integers(encoded.indices), encoded.dictionary
        self._whole = np.zeros(len(self._entries), np.int64)  # how often each entry is a word
        self.cut_by_other = np.zeros(len(self.texts), np.int64)
        self.pieces_of_other: dict[int, list[bytes]] = {}
        self._totals = np.zeros(5, np.int64)  # as in `Cut`: tokens, pieces, blanks, split, unknown

    def count(self, texts: pa.StringArray, other: _Side) -> None:
        """Count the words of texts, and record in ``other`` which of its texts this model cuts."""
        with_blanks = self.words.look_up(texts)
        lookup = without_blanks(with_blanks)
        known = lookup.known
        pieces = np.ones(len(known), np.int64) if lookup.pieces is None else lookup.pieces
        counts = np.bincount(lookup.codes, minlength=len(pieces))
        all_pieces, split = pieces[with_blanks.codes].sum(), counts[pieces > 1].sum()
        blanks = all_pieces - counts @ pieces
        totals = [counts.sum(), all_pieces, blanks, split, counts[~known].sum()]
        self._totals += np.array(totals, np.int64)
        whole = known & (pieces == 1) & (lookup.positions >= 0)
        np.add.at(self._whole, lookup.positions[whole], counts[whole])
        if lookup.spelled is None:
            return
        cut = np.flatnonzero(known & (pieces > 1) & (counts > 0))
        words = ByteStrings.of(as_bytes(lookup.distinct.take(pa.array(cut)))).to_arrow()
        words = pc.replace_substring_regex(words, pattern="^ ", replacement="")
        matches = pc.index_in(fold_entries(words, self._folds), value_set=other.texts)
        codes, places = cut[booleans(matches.is_valid())], integers(matches.drop_null())
        np.add.at(other.cut_by_other, places, counts[codes])
        for place, code in zip(places.tolist(), codes.tolist(), strict=True):
            if place not in other.pieces_of_other:
                spelled = lookup.spelled.of_word(code)
                other.pieces_of_other[place] = [piece for piece, _ in spelled]

    def report(self, names: Sequence[str]) -> Cut:
        """Return the counts. ``names``: the columns for the pieces of this and the other model."""
        whole = np.zeros(len(self.texts), np.int64)
        np.add.at(whole, self._text_of, self._whole)
        counts = np.minimum(whole, self.cut_by_other)
        # Several entries may have the same text: show the most frequent one.
        entry = np.zeros(len(self.texts), np.int64)
        order = np.argsort(self._whole, kind="stable")
        entry[self._text_of[order]] = order
        places = np.flatnonzero(counts)
        own = [[piece] for piece in take(self._entries, entry[places]).to_pylist()]
        others = [self.pieces_of_other[place] for place in places.tolist()]
        columns = {"word": take(self.texts, places), "count": counts[places]}
        for name, pieces in zip(names, (own, others), strict=True):
            columns[name] = pa.array(pieces, pa.list_(pa.large_binary()))
        tokens, all_pieces, blanks, split, unknown = self._totals.tolist()
        return Cut(
            rule=self.words.describe(),
            fingerprint=self.words.fingerprint,
            tokens=tokens,
            pieces=all_pieces,
            blanks=blanks,
            split=split,
            unknown=unknown,
            kept=by_count(pa.table(columns).select(["word", "count", *PIECES])),
        )
