"""The figures of a report, from words counted: order, coverage, kinds, pieces, error bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.oov.lookalikes import COMMONEST, Kind, classify
from vocabtool.oov.report import COLUMNS, CurvePoint, Estimate, Fragmented, KindShare, Pieces
from vocabtool.oov.word_sketches import LateWord, WordSketches
from vocabtool.oov.word_tally import WordTally

if TYPE_CHECKING:
    import pyarrow as pa

    from vocabtool.vocabulary import Vocabulary

MOST_FRAGMENTED: Final = 20
NEVER_USED: Final = 20  # entries named in a report


class Totals(NamedTuple):
    """What is always exact. ``documents_unknown``: those that hold an unknown word."""

    documents: int = 0
    documents_unknown: int = 0
    tokens: int = 0
    tokens_unknown: int = 0
    pieces: int = 0


class Distinct(NamedTuple):
    """How many distinct words there are; exact where ``estimated`` is empty."""

    words: int
    unknown: int
    estimated: tuple[Estimate, ...] = ()


def distinct(tally: WordTally) -> Distinct:
    """How many words were met, and how many of them are unknown."""
    known = tally.held.known
    held, unknown = len(known), int(np.count_nonzero(~known))
    if tally.sketches is None:
        return Distinct(held, unknown)
    every, some = tally.sketches.distinct, tally.sketches.distinct_unknown
    bounds = (
        Estimate("distinct", every.off_by, certain=False),
        Estimate("distinct_unknown", some.off_by, certain=False),
    )
    return Distinct(max(held, every.words), max(unknown, some.words), bounds)


def word_table(tally: WordTally) -> pa.Table:
    """Every word that is held, by slot, then every one that is tracked, and their figures.

    Columns: ``word``, ``known``, ``pieces``, ``count`` (never too low), ``documents``, ``error``
    (by how much ``count`` is too high at most).
    """
    import pyarrow as pa

    held = tally.held
    words, counts, documents = list(tally.slots), held.counts.copy(), held.documents.copy()
    late, error = _late(tally, counts, documents)
    more = list(zip(*late, strict=True)) or [()] * len(LateWord._fields)
    errors = np.full(len(words) + len(late), error, np.int64)
    if not tally.blurred:
        errors[: len(words)] = 0
    columns = {
        "word": pa.array(words + list(more[0]), pa.large_binary()),
        "known": _joined(held.known, more[1]),
        "pieces": _joined(held.pieces, more[2]),
        "count": _joined(counts, more[3]),
        "documents": _joined(documents, more[4]),
        "error": errors,
    }
    return pa.table(columns)


def _joined(held: NDArray[Any], late: tuple[Any, ...]) -> NDArray[Any]:
    return np.concatenate((held, np.array(late, held.dtype)))


def _late(
    tally: WordTally, counts: NDArray[np.int64], documents: NDArray[np.int64]
) -> tuple[list[LateWord], int]:
    """Words that are only estimated, and the error; what is held as well is added to the others."""
    if tally.sketches is None:
        return [], 0
    error = tally.sketches.count_error
    if not tally.blurred:
        return list(tally.sketches.words()), error
    extra = np.full(len(counts), error)
    extra_documents = np.where(tally.held.known, 0, tally.sketches.document_error)
    late = []
    for word in tally.sketches.words():
        slot = tally.slots.get(word.word, -1)
        if slot < 0:
            late.append(word)
        else:
            extra[slot], extra_documents[slot] = word.tokens, word.documents
    counts += extra
    documents += extra_documents
    return late, error


def unknown_table(words: pa.Table, examples: Mapping[int, bytes]) -> pa.Table:
    """The unknown ones, commonest first, ties by bytes; ``kind`` and ``like`` are null.

    ``examples``: by slot.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = [("known", "ascending"), ("count", "descending"), ("word", "ascending")]
    rows = pc.sort_indices(words, keys)[: pc.sum(pc.invert(words["known"])).as_py() or 0]
    shown = _by_slot(examples, len(words)).take(rows)
    unknown = words.take(rows).append_column("example", shown)
    for name, kind in (("kind", pa.string()), ("like", pa.large_binary())):
        unknown = unknown.append_column(name, pa.nulls(len(unknown), kind))
    return unknown.select(COLUMNS).combine_chunks()


def _by_slot(examples: Mapping[int, bytes], count: int) -> pa.LargeBinaryArray:
    """The example of each of so many words, empty where there is none."""
    import pyarrow as pa

    places = np.full(count, len(examples), np.int32)
    places[np.fromiter(examples, np.int64)] = np.arange(len(examples))
    return pa.array([*examples.values(), b""], pa.large_binary()).take(pa.array(places))


def with_kinds(unknown: pa.Table, vocabulary: Vocabulary) -> tuple[pa.Table, tuple[KindShare, ...]]:
    """With the kind of the commonest words and what they are like; and a sum of that."""
    import pyarrow as pa

    some = unknown.slice(0, COMMONEST)
    words, examples = some["word"].to_pylist(), some["example"].to_pylist()
    found = classify(words, vocabulary.stored, examples)
    rest = [None] * (len(unknown) - len(some))
    like = [vocabulary.stored[one.entry] if one.entry >= 0 else None for one in found]
    for name, values in (("kind", [one.kind for one in found]), ("like", like)):
        at = unknown.schema.get_field_index(name)
        array = pa.array([*values, *rest], unknown.schema.field(name).type)
        unknown = unknown.set_column(at, name, array)
    kinds: list[Kind] = [one.kind for one in found]
    return unknown, _kind_shares(kinds, some["count"].to_pylist())


def _kind_shares(kinds: list[Kind], counts: list[int]) -> tuple[KindShare, ...]:
    """The kind with most tokens first."""
    words: Counter[Kind] = Counter(kinds)
    tokens: Counter[Kind] = Counter()
    for kind, count in zip(kinds, counts, strict=True):
        tokens[kind] += count
    shares = (KindShare(kind, words[kind], tokens[kind]) for kind in words)
    return tuple(sorted(shares, key=lambda share: (-share.tokens, share.kind)))


def coverage(words: pa.Table, totals: Totals, distinct_words: int) -> tuple[CurvePoint, ...]:
    """The share of tokens that the commonest words make up: 1, 2, 5, 10, 20, ... of them, and all.

    Counts that may be too high are taken at their lowest.
    """
    import pyarrow.compute as pc

    tokens, tokens_known = totals.tokens, totals.tokens - totals.tokens_unknown
    if not tokens:
        return ()
    low = np.subtract(words["count"].to_numpy(), words["error"].to_numpy())
    keys = words.select(["word"]).append_column("low", [low])
    order = pc.sort_indices(keys, [("low", "descending"), ("word", "ascending")]).to_numpy()
    counts = low[order]
    covered = np.cumsum(counts)
    known = np.cumsum(np.where(words["known"].to_numpy()[order], counts, 0))
    points = [
        CurvePoint(k, int(covered[k - 1]) / tokens, int(known[k - 1]) / tokens)
        for k in _one_two_five(min(len(counts), distinct_words - 1))
    ]
    return (*points, CurvePoint(distinct_words, 1.0, tokens_known / tokens))


def _one_two_five(last: int) -> list[int]:
    """1, 2, 5, 10, 20, 50 and so on, none above ``last``."""
    steps = (step * 10**power for power in range(len(str(max(last, 0)))) for step in (1, 2, 5))
    return [step for step in steps if step <= last]


def count_errors(tally: WordTally, sketches: WordSketches, tokens: int) -> tuple[Estimate, ...]:
    """How far counts and the curve may be off.

    Of L tokens that are not counted for a word held, at most all stand for other words than
    estimated; they cover at most so much, and push at most as much out of the commonest.
    """
    late = tokens - int(tally.held.counts.sum())
    return (
        Estimate("count", sketches.count_error, certain=True),
        Estimate("documents", sketches.document_error, certain=True),
        Estimate("curve", min(2 * late / tokens, 1.0), certain=True),
    )


def pieces_of(words: pa.Table, histogram: NDArray[np.int64], totals: Totals) -> Pieces:
    """Into how many pieces words are cut; ``histogram``: tokens by number of pieces."""
    last = np.flatnonzero(histogram)
    shown = histogram[: last[-1] + 1] if len(last) else histogram[:0]
    mean = totals.pieces / totals.tokens if totals.tokens else 0.0
    return Pieces(mean, tuple(shown.tolist()), _most_pieces(words))


def _most_pieces(words: pa.Table) -> tuple[Fragmented, ...]:
    """The words in most pieces, the commonest first among equals, then by bytes."""
    pieces = words["pieces"].to_numpy()
    last = max(len(pieces) - MOST_FRAGMENTED, 0)
    least = max(int(np.partition(pieces, last)[last]), 2) if len(pieces) else 2
    table = words.filter(pieces >= least).select(["word", "pieces", "count"])
    keys = [("pieces", "descending"), ("count", "descending"), ("word", "ascending")]
    columns = table.sort_by(keys).slice(0, MOST_FRAGMENTED).columns
    return tuple(map(Fragmented, *(column.to_pylist() for column in columns)))
