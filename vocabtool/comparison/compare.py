"""Compare vocabularies: two, with their use in a corpus (``diff``), or several (``pairwise``).

If a vocabulary has pieces with markers, such as ``##`` or ``▁``, entries are compared by their text
(:func:`~vocabtool.comparison.entries.spell`); otherwise byte for byte. Entries that a layer adds,
such as Keras' mask and ``[UNK]``, are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.choices import Fold
from vocabtool.comparison.cuts import count_cuts
from vocabtool.comparison.diff import NONE, Diff, Order, Ranks, Side
from vocabtool.comparison.entries import (
    Members,
    Union,
    arrow,
    contents,
    fold_entries,
    gains,
    jaccard,
    kinds,
    parse_folds,
    spell,
    take,
)
from vocabtool.comparison.use import RULE, UseCounter
from vocabtool.errors import VocabtoolError
from vocabtool.formats.registry import PickedVocabulary, pick, split_name
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary

if TYPE_CHECKING:
    from vocabtool.documents.files import Sources

Comparable = Vocabulary | str | Path
FEWEST: Final = 100  # minimum number of entries to determine an order
ASCENDING: Final = 0.95  # alphabetical: minimum share of neighbouring pairs in ascending order
NEIGHBOURS: Final = 1 << 14  # neighbouring pairs that are compared, evenly spread
SHORTER: Final = 0.9  # by frequency: maximum mean length of the first tenth / of all entries


def diff(
    a: Comparable,
    b: Comparable,
    *,
    fold: str | Iterable[str] = (),
    corpus: Sources | None = None,
    field: str | None = None,
    rule: str | None = None,
    as_stored: bool = False,
) -> Diff:
    """Compare two vocabularies.

    - ``a``, ``b``: A :class:`Vocabulary`, a path, or ``FILE#NAME`` for one of several vocabularies
      in a file.
    - ``fold``: Differences to ignore: any of ``case``, ``nfkc`` and ``markers``, as names or as one
      text (``"case,nfkc"``). ``markers`` is added if A or B has pieces with markers, such as ``##``
      or ``▁``, unless ``as_stored`` is true.
    - ``corpus``: Documents in which to count words. By default, one rule splits the documents for A
      and B. But if A and B both have a rule, and A or B has pieces with markers, the rule of A
      splits the documents for A, and the rule of B for B. Then pieces are counted too.
    - ``field``: The field of the documents that contains the text.
    - ``rule``: The one rule that splits the documents for A and B, by default ``keras``. If it is
      given, the rules of A and B are not used.
    - ``as_stored``: Whether to keep markers when comparing, and to use one rule for A and B.

    Raises :class:`VocabtoolError` for an unreadable input, and ``ValueError`` for an unknown fold.
    """
    sources, sides = (a, b), (read(a), read(b))
    comparison = compare(sources, sides, fold, as_stored)
    if corpus is None:
        return comparison
    from vocabtool.documents.reading import ReadOptions, batches, names_of

    options = ReadOptions(field=field, on_duplicate=None)
    texts = (batch.texts for batch in batches(corpus, options))
    files = tuple(names_of(corpus) or ())
    return weigh(comparison, sources, sides, texts, files, rule=rule, as_stored=as_stored)


def read(source: Comparable) -> PickedVocabulary:
    """Read the vocabulary to compare. Return it with the warnings from reading."""
    return PickedVocabulary(source) if isinstance(source, Vocabulary) else pick(source)


def _label(source: Comparable) -> str:
    return source.name if isinstance(source, Vocabulary) else str(source)


def _folds_for(
    fold: str | Iterable[str], sides: Iterable[PickedVocabulary], as_stored: bool
) -> tuple[Fold, ...]:
    folds = parse_folds(fold)
    marked = any(side.vocabulary.marker is not None for side in sides)
    return parse_folds((*folds, "markers")) if marked and not as_stored else folds


def weigh(
    comparison: Diff,
    sources: Sequence[Comparable],
    sides: Sequence[PickedVocabulary],
    texts: Iterable[pa.StringArray],
    files: tuple[str, ...] = (),
    *,
    rule: str | None = None,
    as_stored: bool = False,
) -> Diff:
    """Count the words and pieces of texts. Return ``comparison`` with these counts.

    ``sources``, ``sides``: as for :func:`compare`. ``rule``, ``as_stored``: as for :func:`diff`.
    ``texts``: batches of texts. ``files``: the names of the files that contain the texts.
    """
    a, b = (side.vocabulary for side in sides)
    notes, folds = comparison.notes, comparison.fold
    if rule is None and not as_stored and (a.marker, b.marker) != (None, None):
        try:
            words = _own_words(sources[0], a), _own_words(sources[1], b)
        except VocabtoolError as error:
            notes += (
                f"the rule {RULE} splits the corpus for A and B, because one has no rule of its "
                f"own: {error}",
            )
        else:
            return replace(comparison, cuts=count_cuts(*words, texts, folds=folds, sources=files))
    counter = UseCounter(a, b, rule=rule, folds=folds)
    counter.count(texts)
    return replace(comparison, use=counter.report(files), notes=notes)


def _own_words(source: Comparable, vocabulary: Vocabulary) -> Words:
    if isinstance(source, Vocabulary):
        raise VocabtoolError(f"{source.name}: a vocabulary without its model has no rule")
    path = source if isinstance(source, Path) else split_name(source)[0]
    return Words.of(path, name=vocabulary.name)


def compare(
    sources: Sequence[Comparable],
    sides: Sequence[PickedVocabulary],
    fold: str | Iterable[str] = (),
    as_stored: bool = False,
) -> Diff:
    """Return the comparison of two vocabularies that have been read.

    ``sides``: what :func:`read` returned for ``sources``. Other arguments: as for :func:`diff`.
    """
    folds = _folds_for(fold, sides, as_stored)
    a, b = (side.vocabulary for side in sides)
    stored, markers = [arrow(each.stored) for each in (a, b)], (a.marker, b.marker)
    spelled = "markers" in folds and markers != (None, None)
    entries = stored
    if spelled:
        entries, markers = list(map(spell, stored, markers)), ("▁", "▁")
    union = before = Union.of(*entries)
    if folds and folds != ("markers",):
        union = Union.of(*(fold_entries(each, folds) for each in entries))
    codes = {marker: kinds(before, marker) for marker in dict.fromkeys(markers)}
    every = gains(before, *((None, None) if spelled else markers))
    one = _side(sources[0], a, stored[0], before.a, union.a, codes[markers[0]], len(union))
    other = _side(sources[1], b, stored[1], before.b, union.b, codes[markers[1]], len(union))
    (side_a, ids_a, kinds_a), (side_b, ids_b, kinds_b) = one, other
    return Diff(
        side_a,
        side_b,
        folds,
        tuple(gain for gain in every if not spelled or gain.fold != "markers"),
        union,
        ids_a,
        ids_b,
        kinds_a,
        kinds_b,
        notes=tuple(note for side in sides for note in side.notes),
    )


def _side(
    source: Comparable,
    a: Vocabulary,
    stored: pa.LargeBinaryArray,
    before: Members,
    forms: Members,
    codes: NDArray[np.uint8],
    count: int,
) -> tuple[Side, NDArray[np.int64], NDArray[np.uint8]]:
    """Return a :class:`Side`, and the id and kind of each token. ``count``: number of tokens."""
    # ``before``, ``forms``: the entries before and after the folds ``case`` and ``nfkc``. If
    # folding makes several entries equal, the kind of the first one counts.
    different, distinct = len(before.numbers), len(forms.numbers)
    label, order = _label(source), order_of(stored)
    counts = (len(a), distinct, len(a) - different, different - distinct)
    side = Side(label, a.name, a.kind, a.marker, *counts, order)
    ids, found = np.zeros(count, np.int64), np.full(count, NONE, np.uint8)
    ids[forms.numbers] = a.id_array()[forms.positions]
    first = np.searchsorted(before.positions, forms.positions)
    found[forms.numbers] = codes[before.numbers[first]]
    return side, ids, found


def order_of(entries: pa.LargeBinaryArray) -> Order:
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


# ---- more than two vocabularies


class Pair(NamedTuple):
    """The comparison of two vocabularies, A and B.

    - ``a``, ``b``: Labels of the vocabularies.
    - ``size_a``, ``size_b``: Numbers of distinct entries.
    - ``rho``: Spearman's correlation of the ranks of the words that A and B contain; ``None`` for
      fewer than two words.
    """

    a: str
    b: str
    size_a: int
    size_b: int
    common: int
    only_a: int
    only_b: int
    jaccard: float
    rho: float | None


COLUMNS: Final = Pair._fields


class Pairs(NamedTuple):
    """The comparisons of all pairs of vocabularies, in input order."""

    labels: tuple[str, ...]
    fold: tuple[Fold, ...]
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...] = ()

    def to_arrow(self) -> pa.Table:
        """Return a table with a row for each pair; its columns are the fields of :class:`Pair`."""
        columns: list[Any] = list(zip(*self.pairs, strict=True)) or [()] * len(COLUMNS)
        return pa.table(dict(zip(COLUMNS, map(pa.array, columns), strict=True)))


def pairwise(
    sources: Sequence[Comparable], *, fold: str | Iterable[str] = (), as_stored: bool = False
) -> Pairs:
    """Compare every pair of several vocabularies. The arguments are those of :func:`diff`."""
    sides = [read(source) for source in sources]
    folds = _folds_for(fold, sides, as_stored)
    entries = []
    for vocabulary, _ in sides:
        stored = arrow(vocabulary.stored)
        if "markers" in folds:
            stored = spell(stored, vocabulary.marker)
        entries.append(fold_entries(stored, folds))
    labels = tuple(map(_label, sources))
    pairs = []
    for (label_a, a), (label_b, b) in combinations(zip(labels, entries, strict=True), 2):
        union = Union.of(a, b)
        size_a, size_b, ranks = len(union.a.numbers), len(union.b.numbers), Ranks(union)
        common = len(ranks)
        sizes = (size_a, size_b, common, size_a - common, size_b - common)
        pairs.append(Pair(label_a, label_b, *sizes, jaccard(common, size_a, size_b), ranks.rho))
    notes = tuple(note for side in sides for note in side.notes)
    return Pairs(labels, folds, tuple(pairs), notes)
