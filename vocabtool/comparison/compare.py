"""Compare two vocabularies, and their use in a corpus (:func:`diff`).

If a vocabulary has pieces with markers, such as ``##`` or ``▁``, entries are compared by their text
(:func:`~vocabtool.comparison.entries.spell`); otherwise byte for byte. Entries that a layer adds,
such as Keras' mask and ``[UNK]``, are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.choices import Fold
from vocabtool.comparison.corpus import RULE, Cuts, Use, count_cuts, count_use
from vocabtool.comparison.entries import (
    CODES,
    KINDS,
    Kind,
    Truths,
    Union,
    fold_entries,
    kinds,
    parse_folds,
    spell,
    take,
)
from vocabtool.errors import VocabtoolError
from vocabtool.formats.files import split_name
from vocabtool.formats.registry import pick
from vocabtool.system.arguments import check_arguments
from vocabtool.system.results import TableResult, as_texts
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Marker, Vocabulary, decode

if TYPE_CHECKING:
    from vocabtool.documents.files import Sources

Comparable = Vocabulary | str | Path
Part = Literal["common", "only_a", "only_b"]
NONE: Final = 255  # the kind of an entry that a side does not contain


@check_arguments
def diff(
    a: Comparable,
    b: Comparable,
    *,
    fold: str | Iterable[str] = (),
    corpus: Sources | None = None,
    field: str | None = None,
    rule: str | None = None,
) -> Diff:
    """Compare two vocabularies.

    - ``a``, ``b``: A :class:`Vocabulary`, a path, or ``FILE#NAME`` for one of several vocabularies
      in a file.
    - ``fold``: Differences to ignore: ``case`` or ``nfkc`` or both, as names or as one text
      (``"case,nfkc"``).
    - ``corpus``: Documents in which to count words. By default, one rule splits the documents for A
      and B. But if A and B both have a rule, and A or B has pieces with markers, the rule of A
      splits the documents for A, and the rule of B for B. Then pieces are counted too.
    - ``field``: The field of the documents that contains the text.
    - ``rule``: The one rule that splits the documents for A and B, by default ``keras``. If it is
      given, the rules of A and B are not used.

    Raises :class:`VocabtoolError` for an unreadable input, and ``ValueError`` for an unknown fold.
    """
    comparison = compare(a, b, fold)
    if corpus is None:
        return comparison
    from vocabtool.documents.reading import ReadOptions, batches, names_of

    options = ReadOptions(field=field, on_duplicate=None)
    texts = (batch.texts for batch in batches(corpus, options))
    files = tuple(names_of(corpus) or ())
    return weigh(comparison, texts, files, rule=rule)


def compare(a: Comparable, b: Comparable, fold: str | Iterable[str] = ()) -> Diff:
    """Compare the entries of two vocabularies, without a corpus: see :func:`diff`."""
    folds = parse_folds(fold)
    vocabularies, notes = list[Vocabulary](), list[str]()
    for source in (a, b):
        vocabulary, own_notes = (source, []) if isinstance(source, Vocabulary) else pick(source)
        vocabularies.append(vocabulary)
        notes += own_notes
    markers = [vocabulary.marker for vocabulary in vocabularies]
    entries = [vocabulary.stored.to_arrow() for vocabulary in vocabularies]
    marker: Marker | None = None
    if any(markers):  # compared by text: from here on, both have the marker of SentencePiece
        entries, marker = list(map(spell, entries, markers)), "▁"
    unfolded = Union.of(*entries)
    folded = Union.of(*(fold_entries(tokens, folds) for tokens in entries))
    unfolded_kinds = kinds(unfolded.tokens, marker)
    sides = []
    for source, vocabulary, before, after in zip(
        (a, b), vocabularies, (unfolded.a, unfolded.b), (folded.a, folded.b), strict=True
    ):
        ids = np.zeros(len(folded), np.int64)
        ids[after.numbers] = vocabulary.id_array()[after.positions]
        # If folding makes several entries equal, the kind of the first one counts.
        first = np.searchsorted(before.positions, after.positions)
        kinds_of_side = np.full(len(folded), NONE, np.uint8)
        kinds_of_side[after.numbers] = unfolded_kinds[before.numbers[first]]
        side = Side(
            source=source,
            vocabulary=vocabulary,
            distinct=len(after.numbers),
            duplicates=len(vocabulary) - len(before.numbers),
            merged=len(before.numbers) - len(after.numbers),
            ids=ids,
            kinds=kinds_of_side,
        )
        sides.append(side)
    return Diff(a=sides[0], b=sides[1], fold=folds, union=folded, notes=tuple(notes))


def weigh(
    comparison: Diff,
    texts: Iterable[pa.StringArray],
    files: tuple[str, ...] = (),
    *,
    rule: str | None = None,
) -> Diff:
    """Count the words and pieces of texts. Return ``comparison`` with these counts.

    ``texts``: batches. ``files``: names of their files. ``rule``: as for :func:`diff`.
    """
    from vocabtool.streams.stream import Stream  # most comparisons read no documents

    stream = Stream.of(texts)
    a, b, notes, folds = comparison.a, comparison.b, comparison.notes, comparison.fold
    if rule is None and comparison.by_text:
        try:
            words = _own_words(a), _own_words(b)
        except VocabtoolError as error:
            notes += (
                f"the rule {RULE} splits the corpus for A and B, because one has no rule of its "
                f"own: {error}",
            )
        else:
            return replace(comparison, cuts=count_cuts(*words, stream, folds=folds, sources=files))
    use = count_use(
        a.vocabulary, b.vocabulary, stream, rule=rule or RULE, folds=folds, sources=files
    )
    return replace(comparison, use=use, notes=notes)


def _own_words(side: Side) -> Words:
    """Return the words by the rule of one side. Raises :class:`VocabtoolError` without a rule."""
    if isinstance(side.source, Vocabulary):
        raise VocabtoolError(f"{side.name}: a vocabulary without its model has no rule")
    path = side.source if isinstance(side.source, Path) else split_name(side.source)[0]
    return Words.of(path, name=side.name)


# ---- the result


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Side:
    """One of the two compared vocabularies.

    - ``source``: What the caller passed.
    - ``distinct``: Number of entries that are compared.
    - ``duplicates``: Number of entries with the same bytes or text as an earlier entry.
    - ``merged``: Number of entries that equal an earlier entry only after folding.
    - ``ids``: int64, shape (u,), the first id of each token of the comparison; 0 if this side does
      not contain the token.
    - ``kinds``: uint8, shape (u,), the kind that each token had before the folds ``case`` and
      ``nfkc``, as a position in ``KINDS``; ``NONE`` if this side does not contain the token. If
      these folds make several entries equal, the kind of the first entry counts.
    """

    source: Comparable
    vocabulary: Vocabulary
    distinct: int
    duplicates: int
    merged: int
    ids: NDArray[np.int64]
    kinds: NDArray[np.uint8]

    @property
    def label(self) -> str:
        """The path or name that the caller passed."""
        return self.source.name if isinstance(self.source, Vocabulary) else str(self.source)

    @property
    def name(self) -> str:
        return self.vocabulary.name

    @property
    def marker(self) -> Marker | None:
        return self.vocabulary.marker

    @property
    def size(self) -> int:
        """Number of stored entries: ``distinct + duplicates + merged``."""
        return len(self.vocabulary)


class EntryKind(NamedTuple):
    """How many entries of a kind are in A, in B, only in A, and only in B."""

    kind: Kind
    a: int
    b: int
    only_a: int
    only_b: int


@dataclass(frozen=True, eq=False)
class Diff(TableResult):
    """The result of comparing two vocabularies, A and B.

    - ``fold``: Folds that were applied before comparing.
    - ``use``: Counts of a corpus, split by one rule for both sides, or ``None``.
    - ``cuts``: Counts of a corpus, split by the rule of each side, or ``None``.
    - ``notes``: Which parts of the files could not be read, and which vocabulary was chosen from a
      file with several.
    """

    a: Side
    b: Side
    fold: tuple[Fold, ...]
    union: Union
    use: Use | None = None
    cuts: Cuts | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"<Diff: {self.common:,} common, {self.only_a:,} only in {self.a.label!r}, "
            f"{self.only_b:,} only in {self.b.label!r}>"
        )

    @property
    def by_text(self) -> bool:
        """Whether pieces were compared by their text, without markers such as ``##``."""
        return (self.a.marker, self.b.marker) != (None, None)

    @property
    def tokens(self) -> pa.LargeBinaryArray:
        """All u distinct entries: A's in id order, then the entries that only B contains.

        If pieces were compared by their text, each token is this text, with ``▁`` before it if the
        piece can be a whole word.
        """
        return self.union.tokens

    @property
    def in_a(self) -> Truths:
        """Whether A contains each token, shape (u,)."""
        return self.union.a.is_member

    @property
    def in_b(self) -> Truths:
        """Whether B contains each token, shape (u,)."""
        return self.union.b.is_member

    @cached_property
    def common(self) -> int:
        """Number of entries in both vocabularies."""
        return int(np.count_nonzero(self.in_a & self.in_b))

    @property
    def only_a(self) -> int:
        """Number of entries only in A."""
        return self.a.distinct - self.common

    @property
    def only_b(self) -> int:
        """Number of entries only in B."""
        return self.b.distinct - self.common

    @property
    def jaccard(self) -> float:
        """Jaccard index, from 0 to 1: the share of all distinct entries that are in both."""
        return self.common / len(self.union) if len(self.union) else 1.0

    @cached_property
    def kinds(self) -> tuple[EntryKind, ...]:
        """Number of entries of each kind, in the order of ``KINDS``."""
        a, b, in_a, in_b = self.a.kinds, self.b.kinds, self.in_a, self.in_b
        columns = (a[in_a], b[in_b], a[in_a & ~in_b], b[in_b & ~in_a])
        totals = [np.bincount(codes, minlength=len(KINDS)).tolist() for codes in columns]
        counts = (EntryKind(*row) for row in zip(KINDS, *totals, strict=True))
        return tuple(count for count in counts if count.a or count.b)

    def places(
        self, part: Part, most: int | None = None, *, kind: Kind | None = None
    ) -> NDArray[np.int64]:
        """Return the positions in ``tokens`` of some entries, by ascending id.

        ``part``: ``common``, ``only_a`` or ``only_b``. ``common`` uses the ids and kinds of A.
        ``most``: the maximum number of positions. ``kind``: return only entries of this kind.
        """
        members, in_other, codes = self.union.a, self.in_b, self.a.kinds
        if part == "only_b":
            members, in_other, codes = self.union.b, self.in_a, self.b.kinds
        is_in_part = in_other[members.numbers] == (part == "common")
        places: NDArray[np.int64] = members.numbers[is_in_part]
        if kind is not None:
            places = places[codes[places] == CODES[kind]]
        return places[:most]

    def sample(self, part: Part, most: int, *, kind: Kind | None = None) -> list[str]:
        """Return the first entries of a part. For arguments see :meth:`places`.

        Bytes that are not UTF-8 are decoded with Python's ``surrogateescape``.
        """
        return [*map(decode, take(self.tokens, self.places(part, most, kind=kind)).to_pylist())]

    def to_arrow(self) -> pa.Table:
        """Return a table with a row for each distinct entry.

        Columns: ``token`` (large_string), null for an entry that is not UTF-8, and ``bytes``
        (large_binary), null for all other entries; ``in_a``, ``in_b``; ``id_a``, ``id_b``;
        ``kind_a``, ``kind_b`` (dictionary of string). Values that a side does not have are null.
        """
        return as_texts(self.table(np.arange(len(self.tokens))), "token")

    def table(self, places: NDArray[np.int64]) -> pa.Table:
        """Return a table with a row for each entry at ``places``, positions in ``tokens``.

        The columns are those of :meth:`to_arrow`, but ``token`` is large_binary, without ``bytes``.
        """
        in_a, in_b = self.in_a[places], self.in_b[places]
        columns: dict[str, Any] = {"token": take(self.tokens, places), "in_a": in_a, "in_b": in_b}
        columns["id_a"] = pa.array(self.a.ids[places], mask=~in_a)
        columns["id_b"] = pa.array(self.b.ids[places], mask=~in_b)
        for name, codes in (("kind_a", self.a.kinds[places]), ("kind_b", self.b.kinds[places])):
            missing = codes == NONE
            numbers = pa.array(np.where(missing, 0, codes).astype(np.int8), mask=missing)
            columns[name] = pa.DictionaryArray.from_arrays(numbers, pa.array(KINDS))
        return pa.table(columns)
