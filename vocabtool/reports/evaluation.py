"""What ``eval`` and ``calibrate`` tell a person: tables of numbers, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from vocabtool.evaluation.compare import MEASURES, REFERENCE, SPLITS

if TYPE_CHECKING:
    from vocabtool.evaluation.calibrate import Loss, WeightEstimate
    from vocabtool.evaluation.compare import Evaluation, FusionScore
    from vocabtool.evaluation.self_check import SelfCheck
    from vocabtool.evaluation.tune import Gain, TunedWeight

BAR: Final = 30  # characters of the longest bar of a curve


def evaluation_lines(found: Evaluation) -> Iterator[str]:
    """A table for each split: means, and the difference of nDCG@10 to the default."""
    yield f"{found.queries:,} judged queries, {found.unknown:,} with a word the model does not know"
    for split in SPLITS:
        rows = [row for row in found.rows if row.split == split]
        if rows:
            yield ""
            yield from _scores(split, rows)
    yield ""
    yield f"nDCG@10 less that of {REFERENCE}, with its 95 % interval (paired bootstrap)"
    yield from _notes(found.notes)


def _scores(split: str, rows: list[FusionScore]) -> Iterator[str]:
    head = "  ".join(f"{measure:>10}" for measure in MEASURES)
    yield f"{split} ({rows[0].queries:,})"
    yield f"  {'':<13}{head}"
    for row in rows:
        means = "  ".join(f"{row.measures[measure]:>10.3f}" for measure in MEASURES)
        told = f"  {row.fusion:<13}{means}"
        if MEASURES[0] in row.differences:
            gap = row.differences[MEASURES[0]]
            told += f"   {gap.mean:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"
        yield told


def self_check_lines(found: SelfCheck) -> Iterator[str]:
    """How often each fusion finds the document that a query was made of."""
    yield f"queries made of {found.sample:,} documents: how often that document is found"
    yield "words: ordinary, all of them known to the model; unknown, with one that it does not know"
    yield f"  {'':<13}{'words':<10}{'queries':>8}{'first':>8}{'in ten':>8}"
    for rate in found.rates:
        counts = f"{rate.queries:>8,}{rate.first:>8.1%}{rate.first_ten:>8.1%}"
        yield f"  {rate.fusion:<13}{rate.kind:<10}{counts}"
    if found.recall is not None:
        share, queries = found.recall.mean, found.recall.queries
        yield f"recall@10 of the vector leg {share:.3f}, on {queries:,} queries"
    yield from _notes(found.notes)


def calibration_lines(found: WeightEstimate) -> Iterator[str]:
    """The weight, how it came about, and that it is an estimate."""
    yield f"a = {found.a:.3f} by the documents"
    yield "keywords weigh at least so much, more where the model does not know words of the query"
    yield f"from {found.sample:,} documents, seed {found.seed}"
    yield ""
    yield "  a     mean logarithm of the rank of the document that a query was made of: low is good"
    yield from _curve(found.curve)
    yield ""
    yield "title: a title or first sentence is asked; hard: some words of another one, if there is"
    yield "one; of sentences that read like language, where a document has any"
    yield f"  {'query':<8}{'leg':<10}{'first':>8}{'in ten':>8}"
    for each in found.rates:
        yield f"  {each.kind:<8}{each.leg:<10}{each.first:>8.1%}{each.first_ten:>8.1%}"
    yield from _notes(found.notes)


def tuning_lines(found: TunedWeight) -> Iterator[str]:
    """The weight, and what it is worth on queries that did not choose it."""
    yield f"a = {found.a:.2f}, the best for {found.queries:,} judged queries"
    yield f"nDCG@10 {found.held_out:.3f} on held-out queries; {found.fixed:.3f} as shipped, untuned"
    if found.held_out <= found.fixed:
        yield "tuning is worth nothing here: the weight as shipped does as well on held-out queries"
    yield ""
    yield "  a     nDCG@10"
    yield from _gains(found.curve)
    yield from _notes(found.notes)


def _curve(curve: Iterable[Loss]) -> Iterator[str]:
    return _bars([(point.a, point.loss) for point in curve])


def _gains(curve: Iterable[Gain]) -> Iterator[str]:
    return _bars([(point.a, point.ndcg) for point in curve])


def _bars(points: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Bars of what lies above the lowest value."""
    values = [value for _, value in points]
    low, wide = min(values), (max(values) - min(values)) or 1.0
    for a, value in points:
        yield f"  {a:.2f}  {value:.3f} {'#' * round(BAR * (value - low) / wide)}".rstrip()


def _notes(notes: Iterable[str]) -> Iterator[str]:
    return (f"note: {note}" for note in notes)
